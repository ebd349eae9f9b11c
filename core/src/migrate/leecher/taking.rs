//! The end: the whole delta is durable, HEAD is swapped, and the drive opens. Or nothing is handed over.

use super::super::Now;
use super::super::message::*;
use super::super::phase::{Cause, Phase};
use super::{AGAIN_AFTER, Action, HeadSeen, LOOK_EVERY, Leecher, Step};
use crate::planted::{self, Bug};
use bytes::Bytes;

impl Leecher {
    pub(super) fn final_came(&mut self, now: Now, end: Final) -> Vec<Action> {
        let mut actions = Vec::new();
        if end.attempt > self.record.attempt {
            actions.extend(self.renew(end.attempt));
        }
        if self.record.phase == Phase::Ready {
            return self.said_before(now);
        }
        let has_all = self.next == Position { attempt: end.attempt, round: end.rounds + 1, part: 0 };
        if end.attempt != self.record.attempt || !has_all || !self.go(Cause::Final) {
            return actions;
        }
        self.final_ = Some(end.clone());
        if planted::has(Bug::DeltaAckedBeforeSync) {
            self.go(Cause::Finished);
            self.record.end = Some(end.clone());
            let ack = Message::FinalAck { attempt: end.attempt, delta_hash: end.delta_hash };
            actions.extend([self.save(), Action::Send(ack), Action::Finish(Box::new(end))]);
            return actions;
        }
        actions.push(Action::Finish(Box::new(end)));
        actions
    }

    pub(super) fn finished(&mut self, now: Now, attempt: u32, delta_hash: [u8; 32]) -> Vec<Action> {
        let Some(end) = self.final_.clone() else { return Vec::new() };
        if attempt != self.record.attempt || self.record.phase != Phase::Finishing {
            return Vec::new();
        }
        if delta_hash != end.delta_hash {
            let text = "the last changes arrived damaged";
            return self.cancel(now, Reason::new(ReasonKind::Corrupt, text));
        }
        self.go(Cause::Finished);
        self.record.end = Some(Final { arrival: Bytes::new(), ..end.clone() });
        (self.last_said, self.next_try) = (now.at, now.at + LOOK_EVERY);
        let mut actions = vec![self.save(), Action::Send(Message::FinalAck { attempt, delta_hash })];
        if planted::has(Bug::SwappedWithoutGrant) {
            actions.push(Action::Swap { head: end.head });
        }
        actions
    }

    pub(super) fn grant_came(&mut self, now: Now, head: &Bytes) -> Vec<Action> {
        match &self.record.end {
            Some(end) if end.head == *head && self.record.phase == Phase::Ready => self.granted(now),
            Some(_) => self.said_before(now),
            None => Vec::new(),
        }
    }

    pub(super) fn granted(&mut self, now: Now) -> Vec<Action> {
        if !self.go(Cause::Granted) {
            return Vec::new();
        }
        let mut actions = vec![self.save()];
        actions.extend(self.swap(now));
        actions
    }

    pub(super) fn swap(&mut self, now: Now) -> Vec<Action> {
        self.next_try = now.at + AGAIN_AFTER;
        self.is_busy = true;
        let end = self.record.end.as_ref();
        end.map(|end| Action::Swap { head: end.head.clone() }).into_iter().collect()
    }

    pub(super) fn head(&mut self, now: Now, seen: HeadSeen) -> Vec<Action> {
        self.is_busy = false;
        match seen {
            HeadSeen::Grant => match self.go(Cause::Swapped) {
                true => {
                    self.trouble = None;
                    let mut actions = vec![self.save()];
                    actions.extend(self.open(now));
                    actions
                }
                false => Vec::new(),
            },
            HeadSeen::Other(by) => match self.go(Cause::Overtaken) {
                true => self.end(now, Some(Reason::new(ReasonKind::Fenced, by)), vec![Action::Drop]),
                false => Vec::new(),
            },
            HeadSeen::Seeder => Vec::new(),
            HeadSeen::Unknown(why) => {
                self.trouble = Some(Reason::new(ReasonKind::Store, why));
                Vec::new()
            }
        }
    }

    pub(super) fn open(&mut self, now: Now) -> Vec<Action> {
        self.next_try = now.at + AGAIN_AFTER;
        self.is_busy = true;
        self.record.end.clone().map(|end| Action::Open(Box::new(end))).into_iter().collect()
    }

    pub(super) fn opened(&mut self, epoch: u64) -> Vec<Action> {
        self.is_busy = true;
        self.opened = Some(epoch);
        vec![Action::Send(Message::Owned { epoch }), Action::Attach]
    }

    pub(super) fn attached(&mut self, now: Now) -> Vec<Action> {
        self.is_busy = false;
        if !self.go(Cause::Resumed) {
            return Vec::new();
        }
        self.record.resumed_ms = now.unix_ms;
        let resumed = Action::Send(Message::Resumed { at_ms: now.unix_ms });
        self.end(now, None, vec![resumed])
    }

    // -- Failure, and the way back

    /// Before FINAL_ACK this side decides; after it, it asks.
    pub(super) fn cancel(&mut self, now: Now, reason: Reason) -> Vec<Action> {
        if self.record.phase == Phase::Ready && !planted::has(Bug::CancelledAfterAck) {
            return vec![Action::Send(Message::Cancel(reason))];
        }
        match self.go(Cause::Cancelled) {
            true => {
                let said = Action::Send(Message::Cancelled(reason.clone()));
                self.end(now, Some(reason), vec![Action::Drop, said])
            }
            false => Vec::new(),
        }
    }

    pub(super) fn cancelled(&mut self, now: Now, reason: Reason) -> Vec<Action> {
        match self.go(Cause::Cancelled) {
            true => self.end(now, Some(reason), vec![Action::Drop]),
            false => Vec::new(),
        }
    }

    pub(super) fn end(&mut self, now: Now, reason: Option<Reason>, then: Vec<Action>) -> Vec<Action> {
        self.record.ended_ms = now.unix_ms;
        self.record.reason = reason;
        let mut actions = vec![self.save()];
        actions.extend(then);
        actions.push(Action::End);
        actions
    }

    pub(super) fn failed(&mut self, now: Now, step: Step, reason: Reason) -> Vec<Action> {
        self.trouble = Some(reason.clone());
        (self.is_busy, self.is_syncing) = (false, false);
        self.next_try = now.at + AGAIN_AFTER;
        match (step, self.record.phase) {
            // READY may be durable or not; FINAL_ACK was not sent, so the seeder has not released the drive. FINAL comes again.
            (Step::Record, Phase::Ready) => {
                self.record.phase = Phase::Receiving;
                self.record.end = None;
                self.cancel(now, reason)
            }
            // The drive is here, and a person can open it by hand.
            (Step::Attach, Phase::Owned) => {
                let attached = self.attached(now);
                self.record.reason = Some(reason);
                attached
            }
            (Step::Record, phase) if phase.is_end() || matches!(phase, Phase::Granted | Phase::Owned) => {
                self.again = Some(self.save());
                Vec::new()
            }
            // It is tried again, from the record on.
            (Step::Open, _) => Vec::new(),
            _ => self.cancel(now, reason),
        }
    }
}
