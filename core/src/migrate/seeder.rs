//! The side that has the drive. Pure.
//!
//! Why no write is lost and nobody else ever writes at the same time:
//!
//! - What was written since a block was sent is sent again: [`Action::Watch`] begins to note writes before it reads what there is, and a round stays
//!   here until the leecher has made it durable. A restart forgets what was noted, so it raises the attempt and begins again; the leecher drops what it
//!   has of an earlier attempt, which may hold contents that were overwritten and committed since.
//! - [`Action::MarkHanded`] and the record with [`Phase::Released`] are durable, in this order, before [`Action::Swap`] and before GRANT is sent.
//!   A mark without that record means nothing, because no swap was sent; the record without the mark cannot be.
//! - From then on nothing in here opens the gate. Only a take-back does, which swaps HEAD itself.

mod handing;
mod sending;
mod vocabulary;

use super::message::*;
use super::phase::{Cause, Phase, Role};
use super::rounds::Rounds;
use super::session::Record;
use super::volatility::Volatility;
use super::{Now, REPEAT_AFTER, Swap};
use crate::planted::{self, Bug};
use crate::units::BlockRange;
use bytes::Bytes;
use std::time::Duration;
use uuid::Uuid;

/// Most blocks of a round, 64 MiB: a round is what has to be sent again if the connection breaks.
const ROUND_BLOCKS: u64 = 64 * super::PART_BLOCKS;
/// Programs wait at most this long for the leecher. Then they continue, and the delta is sent again.
pub const STALL_MAX: Duration = Duration::from_secs(8);
/// Attempts before it is cancelled.
const ATTEMPTS_MAX: u32 = 5;
/// Between two tries to swap HEAD.
const SWAP_AGAIN: [Duration; 4] =
    [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15)];
/// While the person is asked, a round now and then keeps the rest small.
const ROUND_WHILE_ASKING: Duration = Duration::from_secs(10);
/// Parts are repeated later than other messages: a slow link may need long for what is under way.
const REPEAT_PARTS_AFTER: Duration = Duration::from_secs(30);
/// Between two messages with figures.
const RATE_EVERY: Duration = Duration::from_secs(1);

pub use self::vocabulary::{Action, Event, Progress, Step};

/// The side that has the drive.
#[derive(Debug)]
pub struct Seeder {
    record: Record,
    device: Uuid,
    device_name: String,
    is_linked: bool,
    is_greeted: bool,
    volatility: Volatility,
    rounds: Rounds,
    /// Whether the delta of this attempt is known.
    is_watching: bool,
    head: Bytes,
    /// Written and in no round.
    waiting: Vec<BlockRange>,
    round: Option<Round>,
    rounds_done: u32,
    sent_blocks: u64,
    prepared_blocks: Option<u64>,
    asked_blocks: u64,
    end: Option<Final>,
    stopped_at: Option<Duration>,
    last_second: Duration,
    second_bytes: u64,
    last_progress: Duration,
    last_sent: Duration,
    last_round: Duration,
    last_rate: Duration,
    asking: Option<Duration>,
    swap: SwapState,
    /// What has to be undone, or done, again after a failure.
    again: Option<Action>,
    trouble: Option<Reason>,
    /// The longest time that programs had to wait.
    longest_stall: Duration,
}

#[derive(Debug, Default)]
struct SwapState {
    is_under_way: bool,
    tries: usize,
    next_at: Duration,
}

#[derive(Debug)]
struct Round {
    number: u32,
    parts: Vec<Vec<BlockRange>>,
    sent: usize,
    blocks: u64,
    began: Duration,
    is_repeated: bool,
}

impl Seeder {
    /// A session that begins with this record. The first actions offer the drive.
    pub fn begin(now: Now, record: Record, device: Uuid, device_name: String) -> (Self, Vec<Action>) {
        assert_eq!(
            (record.role, record.phase),
            (Role::Seeder, Phase::Offered),
            "a session begins with an offer"
        );
        let seeder = Self::new(now, record, device, device_name);
        let actions = vec![Action::Record(Box::new(seeder.record.clone()))];
        (seeder, actions)
    }

    /// The session of a record that an earlier run left. Before the release it begins the delta again; from the release on it only finishes.
    pub fn resume(now: Now, record: Record, device: Uuid, device_name: String) -> (Self, Vec<Action>) {
        let mut seeder = Self::new(now, record, device, device_name);
        if planted::has(Bug::MigrationForgotten) && seeder.record.phase == Phase::Released {
            seeder.record.phase = Phase::Copying;
        }
        let actions = match seeder.record.phase {
            Phase::Copying | Phase::Quiescing | Phase::Sealed => {
                // A mark without the record of a release means nothing.
                let mut actions = vec![Action::Continue];
                actions.extend(seeder.restart(now));
                actions
            }
            Phase::Released => vec![seeder.swap_now(now)],
            Phase::Handed => vec![Action::ShutDown],
            _ => Vec::new(),
        };
        (seeder, actions)
    }

    fn new(now: Now, record: Record, device: Uuid, device_name: String) -> Self {
        let limit = Duration::from_millis(record.offer.downtime_limit_ms);
        Self {
            head: record.offer.head.clone(),
            end: record.end.clone(),
            record,
            device,
            device_name,
            is_linked: false,
            is_greeted: false,
            volatility: Volatility::new(),
            rounds: Rounds::new(limit),
            is_watching: false,
            waiting: Vec::new(),
            round: None,
            rounds_done: 0,
            sent_blocks: 0,
            prepared_blocks: None,
            asked_blocks: 0,
            stopped_at: None,
            last_second: now.at,
            second_bytes: 0,
            last_progress: now.at,
            last_sent: now.at,
            last_round: now.at,
            last_rate: now.at,
            asking: None,
            swap: SwapState::default(),
            again: None,
            trouble: None,
            longest_stall: Duration::ZERO,
        }
    }

    /// What it remembers.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// This device.
    pub fn device(&self) -> Uuid {
        self.device
    }

    /// Whether a connection would help.
    pub fn wants_link(&self) -> bool {
        !self.is_linked && !self.record.phase.is_end()
    }

    /// How it goes.
    pub fn progress(&self) -> Progress {
        Progress {
            phase: self.record.phase,
            attempt: self.record.attempt,
            round: self.round.as_ref().map_or(self.rounds_done, |round| round.number),
            sent_blocks: self.sent_blocks,
            left_blocks: self.left(),
            bytes_per_s: self.rounds.rate(),
            dirt_per_s: self.rounds.dirt(),
            stop: self.rounds.stop(self.left()),
            asking: self.asking,
            is_undecided: self.record.phase == Phase::Released && self.swap.tries > 0,
            is_linked: self.is_linked,
            longest_stall: self.longest_stall,
            trouble: self.trouble.clone(),
        }
    }

    /// What to do about an event.
    pub fn apply(&mut self, now: Now, event: Event) -> Vec<Action> {
        match event {
            Event::Linked => {
                (self.is_linked, self.is_greeted, self.last_sent) = (true, false, now.at);
                vec![Action::Send(Message::Hello(self.greeting()))]
            }
            Event::Unlinked => {
                (self.is_linked, self.is_greeted) = (false, false);
                Vec::new()
            }
            Event::Received(message) => self.received(now, message),
            Event::Tick => self.tick(now),
            Event::Watching { attempt, delta, head } => self.watching(now, attempt, delta, head),
            Event::Wrote(runs) => {
                self.wrote(now, runs);
                self.pump(now)
            }
            Event::Stopping => {
                self.stopped_at = Some(now.at);
                self.record.frozen_ms = now.unix_ms;
                Vec::new()
            }
            Event::Stopped => self.stopped(now),
            Event::Sealed { rest, end } => self.sealed(now, rest, end),
            Event::Swapped(outcome) => self.swapped(now, outcome),
            Event::Fenced(by) => self.cancel(now, Reason::new(ReasonKind::Fenced, by)),
            Event::Cancel => self.cancel(now, Reason::new(ReasonKind::Person, "")),
            Event::StopNow => {
                self.rounds.force();
                self.pump(now)
            }
            Event::TakenBack => self.taken_back(now),
            Event::Failed(step, reason) => self.failed(now, step, reason),
        }
    }

    // -- Steps by the table

    /// Takes the step, if the cause means anything now.
    fn go(&mut self, cause: Cause) -> bool {
        match Role::Seeder.next(self.record.phase, cause) {
            Some(next) => {
                self.record.phase = next;
                true
            }
            None => false,
        }
    }

    fn save(&self) -> Action {
        Action::Record(Box::new(self.record.clone()))
    }

    fn greeting(&self) -> Greeting {
        Greeting {
            oldest: *PROTOCOL.start(),
            newest: *PROTOCOL.end(),
            device: self.device,
            name: self.device_name.clone(),
            session: self.record.offer.session,
            role: Role::Seeder,
            phase: Some(self.record.phase),
            position: Position { attempt: self.record.attempt, round: self.rounds_done, part: 0 },
        }
    }

    // -- Messages

    fn received(&mut self, now: Now, message: Message) -> Vec<Action> {
        match message {
            Message::Hello(greeting) => {
                let mut actions = vec![Action::Send(Message::Welcome(self.greeting()))];
                actions.extend(self.greeted(now, &greeting));
                actions
            }
            Message::Welcome(greeting) => self.greeted(now, &greeting),
            Message::Accept(_) => match self.go(Cause::Accepted) {
                true => vec![self.save(), Action::Watch { attempt: self.record.attempt }],
                false => Vec::new(),
            },
            Message::Decline(reason) => match self.go(Cause::Declined) {
                true => self.end(now, Some(reason)),
                false => Vec::new(),
            },
            Message::RoundAck(position) => self.acked(now, position),
            Message::Prepared { attempt, delta_blocks } if attempt == self.record.attempt => {
                let most = self.prepared_blocks.unwrap_or(0).max(delta_blocks);
                self.prepared_blocks = Some(most);
                self.pump(now)
            }
            Message::FinalAck { attempt, delta_hash } => self.final_acked(now, attempt, delta_hash),
            Message::Owned { .. } if self.record.phase == Phase::Released => self.swapped(now, Swap::Applied),
            Message::Resumed { at_ms } => self.resumed(now, at_ms),
            Message::Cancel(reason) | Message::Cancelled(reason) => self.cancel(now, reason),
            // What only a seeder sends, and what says nothing now.
            Message::Prepared { .. }
            | Message::Owned { .. }
            | Message::Offer(_)
            | Message::Round(_)
            | Message::Rate(_)
            | Message::Prepare(_)
            | Message::Final(_)
            | Message::Grant { .. }
            | Message::Ping => Vec::new(),
        }
    }

    fn greeted(&mut self, now: Now, greeting: &Greeting) -> Vec<Action> {
        if greeting.session != self.record.offer.session || greeting.role != Role::Leecher {
            return Vec::new();
        }
        let is_first = !std::mem::replace(&mut self.is_greeted, true);
        if !greeting.fits() {
            let text =
                format!("{} speaks versions {} to {}", greeting.name, greeting.oldest, greeting.newest);
            return self.cancel(now, Reason::new(ReasonKind::Version, text));
        }
        let phase = self.record.phase;
        // If it ended there, it says why in its next message.
        if greeting.phase.is_none() && is_first && phase != Phase::Offered {
            return self.cancel(now, Reason::new(ReasonKind::Forgotten, &greeting.name));
        }
        // It lost what it had acknowledged: only the beginning helps.
        let has = greeting.position;
        let is_behind = has.attempt == self.record.attempt && has < self.acked_to();
        let sends = matches!(phase, Phase::Copying | Phase::Quiescing | Phase::Sealed);
        if sends && greeting.phase == Some(Phase::Receiving) && is_behind {
            return self.restart(now);
        }
        self.repeat(now)
    }

    /// Everything before this was acknowledged.
    fn acked_to(&self) -> Position {
        Position { attempt: self.record.attempt, round: self.rounds_done + 1, part: 0 }
    }

    /// Sends again what the leecher may not have.
    fn repeat(&mut self, now: Now) -> Vec<Action> {
        self.last_sent = now.at;
        if let Some(round) = &mut self.round {
            (round.sent, round.is_repeated) = (0, true);
        }
        match self.record.phase {
            Phase::Offered => vec![Action::Send(Message::Offer(Box::new(self.record.offer.clone())))],
            Phase::Copying => {
                self.asked_blocks = self.prepared_blocks.unwrap_or(0);
                self.pump(now)
            }
            Phase::Sealed => self.send_end(),
            Phase::Released | Phase::Handed => self.grant(),
            Phase::Cancelled => {
                let reason = self.record.reason.clone();
                let reason = reason.unwrap_or_else(|| Reason::new(ReasonKind::Person, ""));
                vec![Action::Send(Message::Cancelled(reason))]
            }
            _ => Vec::new(),
        }
    }

    fn grant(&self) -> Vec<Action> {
        let grant = self.end.as_ref().map(|end| Action::Send(Message::Grant { head: end.head.clone() }));
        grant.into_iter().collect()
    }

    // -- Time

    fn tick(&mut self, now: Now) -> Vec<Action> {
        let mut actions: Vec<Action> = Vec::new();
        if let Some(again) = self.again.take() {
            actions.push(again);
            match self.record.phase {
                Phase::Handed => {
                    actions.extend(self.grant());
                    actions.push(Action::ShutDown);
                }
                Phase::Copying => {
                    actions.extend([self.save(), Action::Watch { attempt: self.record.attempt }]);
                }
                phase if phase.is_end() => actions.extend([self.save(), Action::End]),
                _ => {}
            }
            return actions;
        }
        while self.is_watching && now.at >= self.last_second + Duration::from_secs(1) {
            self.rounds.second(std::mem::take(&mut self.second_bytes));
            self.last_second += Duration::from_secs(1);
        }
        let is_stopped = matches!(self.record.phase, Phase::Quiescing | Phase::Sealed);
        if is_stopped && self.stopped_at.is_some_and(|stopped| now.at >= stopped + STALL_MAX) {
            return self.restart(now);
        }
        if self.record.phase == Phase::Released && !self.swap.is_under_way && now.at >= self.swap.next_at {
            actions.push(self.swap_now(now));
        }
        let silence = match &self.round {
            Some(_) if self.record.phase == Phase::Copying => REPEAT_PARTS_AFTER,
            _ => REPEAT_AFTER,
        };
        if self.is_greeted && now.at >= self.last_sent.max(self.last_progress) + silence {
            actions.extend(self.repeat(now));
        } else {
            actions.extend(self.pump(now));
        }
        if self.is_linked && !self.is_greeted && now.at >= self.last_sent + REPEAT_AFTER {
            self.last_sent = now.at;
            actions.push(Action::Send(Message::Hello(self.greeting())));
        }
        if self.is_greeted && self.record.phase == Phase::Copying && now.at >= self.last_rate + RATE_EVERY {
            self.last_rate = now.at;
            let rate = Rate {
                bytes_per_s: self.rounds.rate(),
                dirt_per_s: self.rounds.dirt(),
                downtime_ms: self.rounds.stop(self.left()).as_millis() as u64,
            };
            actions.push(Action::Send(Message::Rate(rate)));
        }
        actions
    }
}
