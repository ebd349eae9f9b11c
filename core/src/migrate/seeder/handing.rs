//! The end: programs are stopped, the drive is released, and HEAD is swapped. Or programs continue.

use super::super::message::*;
use super::super::phase::{Cause, Phase};
use super::super::rounds::Rounds;
use super::super::{Now, Swap};
use super::{ATTEMPTS_MAX, Action, SWAP_AGAIN, Seeder, Step};
use crate::planted::{self, Bug};
use crate::units::{BlockRange, coalesce};
use bytes::Bytes;
use std::time::Duration;

impl Seeder {
    pub(super) fn stopped(&mut self, now: Now) -> Vec<Action> {
        if self.record.phase != Phase::Quiescing {
            // It was cancelled meanwhile.
            return match self.record.phase.is_released() {
                true => Vec::new(),
                false => vec![Action::Continue],
            };
        }
        self.stopped_at = Some(self.stopped_at.unwrap_or(now.at));
        vec![Action::Seal { held: self.waiting.clone() }]
    }

    pub(super) fn sealed(&mut self, now: Now, rest: Vec<BlockRange>, mut end: Final) -> Vec<Action> {
        if self.record.phase != Phase::Quiescing || !self.go(Cause::Sealed) {
            return Vec::new();
        }
        self.waiting.extend(rest);
        let tail = coalesce(std::mem::take(&mut self.waiting), 1);
        if !tail.is_empty() {
            self.begin_round(now, &tail, Vec::new());
        }
        end.attempt = self.record.attempt;
        end.rounds = self.round.as_ref().map_or(self.rounds_done, |round| round.number);
        self.end = Some(end);
        self.last_sent = now.at;
        self.send_end()
    }

    /// The last round and FINAL. FINAL may come before all parts are acknowledged: the leecher answers it once it has them.
    pub(super) fn send_end(&mut self) -> Vec<Action> {
        let mut actions = self.send_parts();
        let all_sent = self.round.as_ref().is_none_or(|round| round.sent == round.parts.len());
        if let Some(end) = self.end.as_ref().filter(|_| all_sent && self.is_greeted) {
            actions.push(Action::Send(Message::Final(end.clone())));
        }
        actions
    }

    pub(super) fn final_acked(&mut self, now: Now, attempt: u32, delta_hash: [u8; 32]) -> Vec<Action> {
        let Some(end) = self.end.clone() else { return Vec::new() };
        let fits = attempt == self.record.attempt && delta_hash == end.delta_hash;
        if (!fits && !planted::has(Bug::StaleAckReleases)) || !self.go(Cause::Acknowledged) {
            return Vec::new();
        }
        // The version is in the leecher's files, and in the store.
        self.record.end = Some(Final { arrival: Bytes::new(), ..end.clone() });
        let record = self.save();
        let swap = self.swap_now(now);
        let mut actions = vec![Action::MarkHanded(Box::new(end)), record, Action::HoldForGood];
        if planted::has(Bug::ReleasedAfterSwap) {
            actions.insert(0, swap.clone());
        }
        actions.push(swap);
        actions.extend(self.grant());
        actions
    }

    pub(super) fn swap_now(&mut self, now: Now) -> Action {
        let head = self.end.as_ref().map(|end| end.head.clone()).unwrap_or_default();
        let wait = SWAP_AGAIN[self.swap.tries.min(SWAP_AGAIN.len() - 1)];
        (self.swap.is_under_way, self.swap.next_at) = (true, now.at + wait);
        Action::Swap { head }
    }

    pub(super) fn swapped(&mut self, now: Now, outcome: Swap) -> Vec<Action> {
        self.swap.is_under_way = false;
        match outcome {
            Swap::Applied => match self.go(Cause::Swapped) {
                true => {
                    self.note_stall(now);
                    let mut actions = vec![self.save()];
                    actions.extend(self.grant());
                    actions.push(Action::ShutDown);
                    actions
                }
                false => Vec::new(),
            },
            Swap::Overtaken(by) => match self.go(Cause::Overtaken) {
                true => {
                    // What was not uploaded stays in this journal, and becomes a fork as after every fencing.
                    let mut actions = self.end(now, Some(Reason::new(ReasonKind::Fenced, by)));
                    actions.insert(1, Action::Continue);
                    actions
                }
                false => Vec::new(),
            },
            Swap::Unknown(why) => {
                self.swap.tries += 1;
                let wait = SWAP_AGAIN[self.swap.tries.min(SWAP_AGAIN.len() - 1)];
                self.swap.next_at = now.at + wait;
                self.trouble = Some(Reason::new(ReasonKind::Store, why));
                Vec::new()
            }
        }
    }

    pub(super) fn note_stall(&mut self, now: Now) {
        if let Some(stopped) = self.stopped_at.take() {
            self.longest_stall = self.longest_stall.max(now.at.saturating_sub(stopped));
        }
    }

    pub(super) fn resumed(&mut self, now: Now, at_ms: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.record.phase == Phase::Released {
            actions.extend(self.swapped(now, Swap::Applied));
        }
        if self.go(Cause::Resumed) {
            self.record.resumed_ms = at_ms;
            actions.extend(self.end(now, None));
        }
        actions
    }

    pub(super) fn taken_back(&mut self, now: Now) -> Vec<Action> {
        match self.go(Cause::TakenBack) {
            true => self.end(now, None),
            false => Vec::new(),
        }
    }

    // -- Failure, and the way back

    /// Programs continue, and the delta is sent again from the beginning.
    pub(super) fn restart(&mut self, now: Now) -> Vec<Action> {
        if self.record.attempt >= ATTEMPTS_MAX && self.stopped_at.is_some() {
            let text = "the other device did not acknowledge the last changes in time";
            return self.cancel(now, Reason::new(ReasonKind::TooSlow, text));
        }
        let was_stopped = matches!(self.record.phase, Phase::Quiescing | Phase::Sealed);
        if !self.go(Cause::Restarted) {
            return Vec::new();
        }
        self.note_stall(now);
        self.record.attempt += 1;
        (self.is_watching, self.round, self.end) = (false, None, None);
        (self.rounds_done, self.sent_blocks) = (0, 0);
        (self.prepared_blocks, self.asked_blocks) = (None, 0);
        self.waiting.clear();
        self.rounds = Rounds::new(Duration::from_millis(self.record.offer.downtime_limit_ms));
        let mut actions = vec![self.save()];
        if was_stopped {
            actions.push(Action::Continue);
        }
        actions.push(Action::Watch { attempt: self.record.attempt });
        actions
    }

    pub(super) fn cancel(&mut self, now: Now, reason: Reason) -> Vec<Action> {
        let planted = planted::has(Bug::CancelledAfterRelease) && self.record.phase == Phase::Released;
        let was_stopped = matches!(self.record.phase, Phase::Quiescing | Phase::Sealed) || planted;
        if planted {
            self.record.phase = Phase::Cancelled;
        } else if !self.go(Cause::Cancelled) {
            // Too late, or over already: say how it is.
            return self.repeat(now);
        }
        self.note_stall(now);
        let mut actions = self.end(now, Some(reason.clone()));
        if was_stopped {
            actions.insert(0, Action::Continue);
        }
        actions.insert(actions.len() - 1, Action::Send(Message::Cancelled(reason)));
        actions
    }

    pub(super) fn end(&mut self, now: Now, reason: Option<Reason>) -> Vec<Action> {
        self.record.ended_ms = now.unix_ms;
        self.record.reason = reason;
        vec![self.save(), Action::End]
    }

    pub(super) fn failed(&mut self, now: Now, step: Step, reason: Reason) -> Vec<Action> {
        self.trouble = Some(reason.clone());
        match (step, self.record.phase) {
            // It may be durable or not. No swap was sent, so the way back is open, and it is tried until it is durable.
            (Step::Mark | Step::Record, Phase::Released) if self.swap.tries == 0 => {
                self.swap.is_under_way = false;
                self.record.phase = Phase::Sealed;
                self.record.end = None;
                self.cancel(now, reason)
            }
            // Programs have to continue, and an end has to be durable: both are tried again.
            (Step::Continue, _) => {
                self.again = Some(Action::Continue);
                Vec::new()
            }
            (Step::Record, phase) if phase.is_end() || phase.is_released() => {
                self.again = Some(self.save());
                Vec::new()
            }
            (Step::Record, _) => self.cancel(now, reason),
            (Step::Watch | Step::Read | Step::Stop | Step::Seal | Step::Mark, _) => self.cancel(now, reason),
        }
    }
}
