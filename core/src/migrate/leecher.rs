//! The side that gets the drive. Pure.
//!
//! Why no write is lost and nobody else ever writes at the same time:
//!
//! - Parts are taken in their order only, so an old content that comes late never covers a newer one. They count as received once they are durable.
//! - FINAL_ACK is sent after [`Action::Finish`] has made the whole delta durable, its hash is the seeder's, and the record says so.
//! - After FINAL_ACK this device neither cancels by itself, because the seeder may have released the drive, nor swaps HEAD by itself, because the seeder
//!   may have continued. It needs GRANT, or has to find the grant in HEAD; a person may force it, knowing that.
//! - The record says [`Phase::Owned`] before the drive is opened.

mod taking;
mod vocabulary;

use super::message::*;
use super::phase::{Cause, Phase, Role};
use super::session::Record;
use super::{Now, REPEAT_AFTER};
use crate::planted::{self, Bug};
use std::time::Duration;
use uuid::Uuid;

/// Between two looks at HEAD while it is not known who has the drive.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Between two tries to swap HEAD or to open the drive.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

pub use self::vocabulary::{Action, Event, HeadSeen, Progress, Step};

/// The side that gets the drive.
#[derive(Debug)]
pub struct Leecher {
    record: Record,
    device: Uuid,
    device_name: String,
    is_linked: bool,
    /// The next part.
    next: Position,
    /// Everything before this is durable.
    durable: Position,
    is_syncing: bool,
    final_: Option<Final>,
    answer: Option<Answer>,
    is_busy: bool,
    opened: Option<u64>,
    rate: Rate,
    received_blocks: u64,
    last_said: Duration,
    next_try: Duration,
    again: Option<Action>,
    trouble: Option<Reason>,
}

impl Leecher {
    /// A session that the seeder has just offered.
    pub fn begin(now: Now, record: Record, device: Uuid, device_name: String) -> (Self, Vec<Action>) {
        assert_eq!(
            (record.role, record.phase),
            (Role::Leecher, Phase::Offered),
            "a session begins with an offer"
        );
        let leecher = Self::new(now, record, device, device_name);
        let actions = vec![leecher.save(), Action::Ask];
        (leecher, actions)
    }

    /// The session of a record that an earlier run left. What is durable of the delta is up to `durable`, if it can be continued.
    pub fn resume(
        now: Now,
        record: Record,
        device: Uuid,
        device_name: String,
        durable: Option<Position>,
    ) -> (Self, Vec<Action>) {
        let mut leecher = Self::new(now, record, device, device_name);
        let attempt = leecher.record.attempt;
        let durable = durable.filter(|position| position.attempt == attempt);
        let actions = match leecher.record.phase {
            Phase::Offered => vec![Action::Ask],
            Phase::Receiving | Phase::Finishing => {
                leecher.record.phase = Phase::Receiving;
                match durable {
                    Some(position) => {
                        (leecher.next, leecher.durable) = (position, position);
                        Vec::new()
                    }
                    None => vec![Action::Begin { attempt }],
                }
            }
            Phase::Ready => vec![Action::Look],
            Phase::Granted => leecher.swap(now),
            Phase::Owned => leecher.open(now),
            _ => Vec::new(),
        };
        (leecher, actions)
    }

    fn new(now: Now, record: Record, device: Uuid, device_name: String) -> Self {
        let start = Position::start(record.attempt);
        Self {
            final_: record.end.clone(),
            record,
            device,
            device_name,
            is_linked: false,
            next: start,
            durable: start,
            is_syncing: false,
            answer: None,
            is_busy: false,
            opened: None,
            rate: Rate::default(),
            received_blocks: 0,
            last_said: now.at,
            next_try: now.at,
            again: None,
            trouble: None,
        }
    }

    /// What it remembers.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Whether a connection would help.
    pub fn wants_link(&self) -> bool {
        !self.is_linked && !self.record.phase.is_end()
    }

    /// How it goes.
    pub fn progress(&self) -> Progress {
        let phase = self.record.phase;
        Progress {
            phase,
            attempt: self.record.attempt,
            round: self.next.round,
            received_blocks: self.received_blocks,
            rate: self.rate,
            is_undecided: matches!(phase, Phase::Ready | Phase::Granted)
                && (!self.is_linked || self.trouble.is_some()),
            is_linked: self.is_linked,
            trouble: self.trouble.clone(),
        }
    }

    /// What to do about an event.
    pub fn apply(&mut self, now: Now, event: Event) -> Vec<Action> {
        match event {
            Event::Linked => {
                (self.is_linked, self.last_said) = (true, now.at);
                vec![Action::Send(Message::Hello(self.greeting()))]
            }
            Event::Unlinked => {
                self.is_linked = false;
                Vec::new()
            }
            Event::Received(message) => self.received(now, message),
            Event::Tick => self.tick(now),
            Event::Accept(answer) => self.accept(answer),
            Event::Decline => self.decline(now),
            Event::Cancel => self.cancel(now, Reason::new(ReasonKind::Person, "")),
            Event::Force => match self.record.phase {
                Phase::Ready => self.granted(now),
                _ => Vec::new(),
            },
            Event::Synced(position) => self.synced(position),
            Event::Reserved { attempt, delta_blocks } => {
                self.is_busy = false;
                vec![Action::Send(Message::Prepared { attempt, delta_blocks })]
            }
            Event::Finished { attempt, delta_hash } => self.finished(now, attempt, delta_hash),
            Event::Head(seen) => self.head(now, seen),
            Event::Opened { epoch } => self.opened(epoch),
            Event::Attached => self.attached(now),
            Event::Failed(step, reason) => self.failed(now, step, reason),
        }
    }

    fn go(&mut self, cause: Cause) -> bool {
        match Role::Leecher.next(self.record.phase, cause) {
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
            role: Role::Leecher,
            phase: Some(self.record.phase),
            position: self.durable,
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
            // The answer was lost, or the person has not decided.
            Message::Offer(_) => self.said_before(now),
            Message::Round(part) => self.part(part),
            Message::Rate(rate) => {
                self.rate = rate;
                Vec::new()
            }
            Message::Prepare(prepare) => self.prepare(prepare),
            Message::Final(end) => self.final_came(now, end),
            Message::Grant { head } => self.grant_came(now, &head),
            Message::Cancelled(reason) => self.cancelled(now, reason),
            // What only a leecher sends, and what says nothing.
            Message::Accept(_)
            | Message::Decline(_)
            | Message::RoundAck(_)
            | Message::Prepared { .. }
            | Message::FinalAck { .. }
            | Message::Owned { .. }
            | Message::Resumed { .. }
            | Message::Cancel(_)
            | Message::Ping => Vec::new(),
        }
    }

    fn greeted(&mut self, now: Now, greeting: &Greeting) -> Vec<Action> {
        if greeting.session != self.record.offer.session || greeting.role != Role::Seeder {
            return Vec::new();
        }
        match greeting.phase {
            // Without its record the seeder has not released the drive, unless it lost it after FINAL_ACK: then HEAD tells.
            None if !matches!(self.record.phase, Phase::Ready | Phase::Granted) => {
                self.cancel(now, Reason::new(ReasonKind::Forgotten, &greeting.name))
            }
            _ => self.said_before(now),
        }
    }

    /// Says again what the seeder may not have heard.
    fn said_before(&mut self, now: Now) -> Vec<Action> {
        self.last_said = now.at;
        let message = match self.record.phase {
            Phase::Receiving if self.next == Position::start(1) => {
                Message::Accept(self.answer.unwrap_or_default())
            }
            Phase::Receiving => Message::RoundAck(self.durable),
            Phase::Ready => match &self.record.end {
                Some(end) => Message::FinalAck { attempt: end.attempt, delta_hash: end.delta_hash },
                None => return Vec::new(),
            },
            Phase::Owned => match self.opened {
                Some(epoch) => Message::Owned { epoch },
                None => return Vec::new(),
            },
            Phase::Arrived => Message::Resumed { at_ms: self.record.resumed_ms },
            Phase::Declined => Message::Decline(self.reason()),
            Phase::Cancelled => Message::Cancelled(self.reason()),
            _ => return Vec::new(),
        };
        vec![Action::Send(message)]
    }

    fn reason(&self) -> Reason {
        self.record.reason.clone().unwrap_or_else(|| Reason::new(ReasonKind::Person, ""))
    }

    // -- The answer

    fn accept(&mut self, answer: Answer) -> Vec<Action> {
        if !self.go(Cause::Accepted) {
            return Vec::new();
        }
        self.answer = Some(answer);
        let attempt = self.record.attempt;
        vec![self.save(), Action::Begin { attempt }, Action::Send(Message::Accept(answer))]
    }

    fn decline(&mut self, now: Now) -> Vec<Action> {
        let reason = Reason::new(ReasonKind::Person, "");
        match self.go(Cause::Declined) {
            true => self.end(now, Some(reason.clone()), vec![Action::Send(Message::Decline(reason))]),
            false => Vec::new(),
        }
    }

    // -- Rounds

    fn part(&mut self, part: Part) -> Vec<Action> {
        let mut actions = Vec::new();
        if part.at.attempt > self.record.attempt {
            actions.extend(self.renew(part.at.attempt));
        }
        let is_next = part.at == self.next || planted::has(Bug::LatePartTaken);
        if self.record.phase != Phase::Receiving || !is_next || part.at.attempt != self.record.attempt {
            return actions;
        }
        self.received_blocks += part.blocks.iter().map(|run| run.count()).sum::<u64>();
        let at = part.at;
        let next = match part.last {
            true => Position { round: at.round + 1, part: 0, ..at },
            false => Position { part: at.part + 1, ..at },
        };
        self.next = self.next.max(next);
        let last = part.last;
        actions.push(Action::Append(part));
        if last && planted::has(Bug::DeltaAckedBeforeSync) {
            self.durable = self.next;
            actions.push(Action::Send(Message::RoundAck(self.durable)));
        } else if last && !self.is_syncing {
            self.is_syncing = true;
            actions.push(Action::Sync(Position { part: 0, ..self.next }));
        }
        actions
    }

    /// The seeder sends the delta again. What is here may have been overwritten and committed since.
    fn renew(&mut self, attempt: u32) -> Vec<Action> {
        if planted::has(Bug::EarlierAttemptKept) {
            self.record.attempt = attempt;
            self.next.attempt = attempt;
            (self.next.round, self.next.part) = (1, 0);
            self.durable = self.next;
            self.go(Cause::Renewed);
            return Vec::new();
        }
        if !self.go(Cause::Renewed) {
            return Vec::new();
        }
        self.record.attempt = attempt;
        (self.record.end, self.final_) = (None, None);
        (self.next, self.durable) = (Position::start(attempt), Position::start(attempt));
        (self.is_syncing, self.is_busy) = (false, false);
        self.received_blocks = 0;
        vec![self.save(), Action::Begin { attempt }]
    }

    fn synced(&mut self, position: Position) -> Vec<Action> {
        self.is_syncing = false;
        if position.attempt != self.record.attempt || self.record.phase != Phase::Receiving {
            return Vec::new();
        }
        self.durable = self.durable.max(position);
        let mut actions = vec![Action::Send(Message::RoundAck(self.durable))];
        if self.next.round > self.durable.round {
            self.is_syncing = true;
            actions.push(Action::Sync(Position { part: 0, ..self.next }));
        }
        actions
    }

    fn prepare(&mut self, prepare: Prepare) -> Vec<Action> {
        let mut actions = Vec::new();
        if prepare.attempt > self.record.attempt {
            actions.extend(self.renew(prepare.attempt));
        }
        if self.record.phase == Phase::Receiving && prepare.attempt == self.record.attempt && !self.is_busy {
            self.is_busy = true;
            actions.push(Action::Reserve(prepare));
        }
        actions
    }

    // -- Time

    fn tick(&mut self, now: Now) -> Vec<Action> {
        let mut actions: Vec<Action> = Vec::new();
        if let Some(again) = self.again.take() {
            actions.push(again);
            if self.record.phase.is_end() {
                actions.push(Action::End);
            }
            return actions;
        }
        if self.is_linked && now.at >= self.last_said + REPEAT_AFTER {
            actions.extend(self.said_before(now));
        }
        if !self.is_busy && now.at >= self.next_try {
            match self.record.phase {
                Phase::Ready => {
                    self.next_try = now.at + LOOK_EVERY;
                    self.is_busy = true;
                    actions.push(Action::Look);
                }
                Phase::Granted => actions.extend(self.swap(now)),
                Phase::Owned => actions.extend(self.open(now)),
                _ => {}
            }
        }
        actions
    }
}
