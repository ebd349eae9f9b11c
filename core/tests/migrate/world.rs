//! The world that both engines live in. Device 0 is the seeder, device 1 the leecher.

mod actions;
mod drive;
mod ways;

use crate::device::{Action, Device, Engine, Event, Volume};
use crate::disk::{Import, Written};
use crate::faults::{Fault, Faults, Plan, Point};
use crate::store::{Head, Root, Store};
use bytes::Bytes;
use holdall_core::migrate::leecher::{self, HeadSeen, Leecher};
use holdall_core::migrate::message::*;
use holdall_core::migrate::phase::{Phase, Role};
use holdall_core::migrate::seeder::{self, Seeder};
use holdall_core::migrate::session::Record;
use holdall_core::migrate::{Now, Swap, wire};
use holdall_core::units::{BlockRange, coalesce};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;
use uuid::Uuid;

const BLOCKS: u64 = 700;
const PEACE_MS: u64 = 400_000;
const SESSION: Uuid = Uuid::from_u128(0x5e55);

enum Item {
    Tick(usize),
    Wrote(usize),
    Step(usize, u64),
    Told(usize, u64, Event),
    Message { link: u64, to: usize, bytes: Vec<u8> },
    Program(usize),
    Push(usize),
    PushAgain { device: usize, life: u64, before: u64, after: Head, cut: u64 },
    Swap(Head),
    Answer { device: usize, life: u64, grant: Option<Head> },
    PushSwap { before: u64, after: Head },
    PushAnswer { device: usize, life: u64, before: u64, after: Head, cut: u64 },
    Connect,
    StopNow,
    TakeBack,
    Unlink(usize, u64),
    Start(usize),
}

pub struct World {
    rng: StdRng,
    now: u64,
    order: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    items: BTreeMap<u64, Item>,
    faults: Faults,
    store: Store,
    devices: [Device; 2],
    link: u64,
    frame: u64,
    next_value: u64,
    /// The last value of each block that a program was told is safe.
    acked: BTreeMap<u64, (usize, u64)>,
    was_taken_back: bool,
    story: Vec<String>,
    may_fail: bool,
    /// Nothing happened that justifies sending the delta from the beginning.
    may_not_restart: bool,
    limit_ms: u64,
    traces: bool,
}

impl World {
    pub fn new(plan: Plan, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let faults = Faults::new(plan, &mut rng);
        let mut world = Self {
            rng,
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            items: BTreeMap::new(),
            faults,
            store: Store::new(),
            devices: Default::default(),
            link: 0,
            frame: 0,
            next_value: 1,
            acked: BTreeMap::new(),
            was_taken_back: false,
            story: Vec::new(),
            may_fail: false,
            may_not_restart: matches!(plan, Plan::None | Plan::One { fault: Fault::Lost | Fault::Cut, .. }),
            limit_ms: 300,
            traces: std::env::var_os("HOLDALL_TRACE").is_some(),
        };
        if matches!(plan, Plan::Random) && world.rng.random_range(0..2) == 0 {
            // No stop is that short: rounds follow each other until the person accepts a longer one.
            world.limit_ms = 0;
            let patience = world.rng.random_range(2000..20_000);
            for again in 0..15 {
                world.later(patience + again * 25_000, Item::StopNow);
            }
        }
        if matches!(plan, Plan::Random) && world.rng.random_range(0..5) == 0 {
            let when = world.rng.random_range(1000..40_000);
            world.later(when, Item::TakeBack);
        }
        world.devices[0].disk.live.has_drive = true;
        world.devices[0].disk.sync();
        for device in 0..2 {
            world.devices[device].is_up = true;
            world.later(device as u64 * 7, Item::Tick(device));
            world.later(200, Item::Wrote(device));
            world.later(device as u64 * 3, Item::Program(device));
            world.later(500, Item::Push(device));
        }
        world.open_volume(0);
        world.later(1000, Item::Connect);
        world
    }

    // -- Looking at it

    pub fn points(&self) -> u64 {
        self.faults.passed()
    }

    pub fn story(&self) -> String {
        self.story.join("\n")
    }

    pub fn has_moved(&self) -> bool {
        self.phases() == [Some(Phase::Moved), Some(Phase::Arrived)]
    }

    fn phases(&self) -> [Option<Phase>; 2] {
        [self.devices[0].phase(), self.devices[1].phase()]
    }

    fn is_over(&self) -> bool {
        let ended = |phase: Option<Phase>| phase.is_some_and(Phase::is_end);
        let [there, here] = self.phases();
        let never_asked = here.is_none() && there == Some(Phase::Cancelled);
        self.devices.iter().all(|device| device.is_up) && ended(there) && (ended(here) || never_asked)
    }

    fn tell(&mut self, text: impl FnOnce() -> String) {
        if self.traces {
            let line = format!("{:>7} {}", self.now, text());
            eprintln!("{line}");
            self.story.push(line);
        }
    }

    // -- Running it

    pub fn run(&mut self) {
        self.begin();
        let mut ends = PEACE_MS;
        while let Some(Reverse((time, order))) = self.queue.pop() {
            if time > ends {
                // A device that failed at the last moment finishes after its return.
                match ends == PEACE_MS || self.is_over() {
                    true => break,
                    false => ends = PEACE_MS,
                }
            }
            self.now = time;
            let item = self.items.remove(&order).unwrap();
            self.happen(item);
            let writers = self.devices.iter().filter(|device| device.is_writable()).count();
            assert!(
                writers <= 1 || self.was_taken_back,
                "both devices may write at {} ms: {:?}",
                self.now,
                self.phases()
            );
            if ends == PEACE_MS && self.is_over() {
                ends = self.now + 3000;
            }
        }
    }

    /// What has to hold at the end.
    pub fn check(&self) {
        let phases = self.phases();
        let owner = match phases {
            [Some(Phase::Moved), Some(Phase::Arrived)] => 1,
            [Some(Phase::Cancelled), None | Some(Phase::Cancelled)] => 0,
            // The other device had not opened it, or notices that it was taken from it.
            [Some(Phase::TakenBack), Some(Phase::Overtaken | Phase::Arrived)] => 0,
            other => panic!("the two sides end in {other:?}"),
        };
        assert!(owner == 1 || self.may_fail, "it was cancelled, although nothing demanded that");
        for device in &self.devices {
            let record = device.disk.record();
            let kind = record.and_then(|record| record.reason).map(|reason| reason.kind);
            let is_bug =
                matches!(kind, Some(ReasonKind::Corrupt | ReasonKind::Forgotten | ReasonKind::Version));
            assert!(!is_bug, "it ended by {kind:?}");
        }
        assert!(self.devices[owner].is_writable(), "no device can write the drive");
        assert_eq!(self.store.head.device, owner as u64, "HEAD names the other device");
        let attempt = self.devices[0].disk.record().map_or(0, |record| record.attempt);
        assert!(!self.may_not_restart || attempt == 1, "a lost message sent the whole delta again");
        for (block, (writer, value)) in &self.acked {
            let found = self.content(owner, *block);
            // What only the other device has becomes a fork there.
            let journal = &self.devices[*writer].disk.live.journal;
            let is_kept = self.was_taken_back
                && *writer == 1
                && journal.iter().any(|written| (written.block, written.value) == (*block, *value));
            assert!(found >= *value || is_kept, "block {block} has {found}, and {value} was acknowledged");
        }
    }

    fn content(&self, device: usize, block: u64) -> u64 {
        let disk = &self.devices[device].disk.live;
        let newest = disk.journal.iter().rev().find(|written| written.block == block);
        let base = &self.store.roots[disk.base.0 as usize];
        newest.map_or_else(|| base.contents.get(&block).copied().unwrap_or(0), |written| written.value)
    }

    fn later(&mut self, after: u64, item: Item) {
        self.order += 1;
        self.items.insert(self.order, item);
        self.queue.push(Reverse((self.now + after, self.order)));
    }

    fn time(&self) -> Now {
        Now { at: Duration::from_millis(self.now), unix_ms: 1_000_000 + self.now }
    }

    fn begin(&mut self) {
        let offer = Offer { downtime_limit_ms: self.limit_ms, ..offer(self.store.head.encode()) };
        let record = Record::new(Role::Seeder, [1; 32], "there".to_owned(), offer, self.now);
        let (seeder, actions) = Seeder::begin(self.time(), record, Uuid::from_u128(1), "a".to_owned());
        self.devices[0].engine = Some(Engine::Seeder(Box::new(seeder)));
        self.act(0, actions.into_iter().map(Action::Seeder).collect());
    }

    fn happen(&mut self, item: Item) {
        match item {
            Item::Tick(device) => {
                self.later(100, Item::Tick(device));
                match self.devices[device].engine {
                    Some(Engine::Seeder(_)) => self.event(device, Event::Seeder(seeder::Event::Tick)),
                    Some(Engine::Leecher(_)) => self.event(device, Event::Leecher(leecher::Event::Tick)),
                    None => {}
                }
            }
            Item::Wrote(device) => {
                self.later(200, Item::Wrote(device));
                let tracker = self.devices[device].volume.as_mut().and_then(|volume| volume.tracker.as_mut());
                if let Some(tracker) = tracker.filter(|tracker| !tracker.is_empty()) {
                    let blocks = std::mem::take(tracker);
                    self.event(device, Event::Seeder(seeder::Event::Wrote(runs(blocks))));
                }
            }
            Item::Step(device, life) if self.devices[device].life == life => self.step(device),
            Item::Told(device, life, event) if self.devices[device].life == life => self.event(device, event),
            Item::Message { link, to, bytes } if link == self.link && self.devices[to].is_linked => {
                self.arrive(to, bytes);
            }
            Item::Program(device) => self.program(device),
            Item::Push(device) => self.push(device),
            Item::Swap(head) => self.swap_in_store(head),
            Item::Answer { device, life, grant } if self.devices[device].life == life => {
                self.answer(device, grant);
            }
            Item::PushSwap { before, after } => self.store.swap(before, after),
            Item::PushAnswer { device, life, before, after, cut }
            | Item::PushAgain { device, life, before, after, cut }
                if self.devices[device].life == life =>
            {
                self.pushed(device, before, after, cut);
            }
            Item::Connect => self.connect(),
            Item::TakeBack => self.take_back(),
            Item::StopNow => self.event(0, Event::Seeder(seeder::Event::StopNow)),
            Item::Unlink(device, link) if link == self.link => self.unlink(device),
            Item::Start(device) => self.start(device),
            // Of an earlier life, or connection.
            Item::Unlink(..)
            | Item::Step(..)
            | Item::Told(..)
            | Item::Message { .. }
            | Item::Answer { .. }
            | Item::PushAnswer { .. }
            | Item::PushAgain { .. } => {}
        }
    }

    // -- The daemon: events to the engine, one action after the other

    fn event(&mut self, device: usize, event: Event) {
        self.devices[device].inbox.push_back(event);
        self.think(device);
    }

    fn think(&mut self, device: usize) {
        while !self.devices[device].is_performing {
            let Some(event) = self.devices[device].inbox.pop_front() else { return };
            let now = self.time();
            let quiet = matches!(
                event,
                Event::Seeder(seeder::Event::Tick | seeder::Event::Wrote(_))
                    | Event::Leecher(leecher::Event::Tick)
            );
            let before = self.devices[device].phase();
            let text = if self.traces { format!("{event:?}") } else { String::new() };
            let actions: Vec<Action> = match (&mut self.devices[device].engine, event) {
                (Some(Engine::Seeder(seeder)), Event::Seeder(event)) => {
                    seeder.apply(now, event).into_iter().map(Action::Seeder).collect()
                }
                (Some(Engine::Leecher(leecher)), Event::Leecher(event)) => {
                    leecher.apply(now, event).into_iter().map(Action::Leecher).collect()
                }
                _ => Vec::new(),
            };
            if !quiet || !actions.is_empty() {
                let after = self.devices[device].phase();
                self.tell(|| {
                    format!("{device} {before:?} -> {after:?} by {:.90}: {} actions", text, actions.len())
                });
            }
            self.act(device, actions);
        }
    }

    fn act(&mut self, device: usize, actions: Vec<Action>) {
        let life = self.devices[device].life;
        let target = &mut self.devices[device];
        target.pending.extend(actions);
        if !target.is_performing && !target.pending.is_empty() {
            target.is_performing = true;
            self.later(0, Item::Step(device, life));
        }
    }

    fn step(&mut self, device: usize) {
        let life = self.devices[device].life;
        let Some(action) = self.devices[device].pending.pop_front() else {
            self.devices[device].is_performing = false;
            self.think(device);
            return;
        };
        self.tell(|| format!("{device}   {:.110}", format!("{action:?}")));
        let takes = match action {
            Action::Seeder(action) => self.seed(device, action),
            Action::Leecher(action) => self.leech(device, action),
        };
        if self.devices[device].life == life {
            self.later(takes, Item::Step(device, life));
        }
    }

    fn told(&mut self, device: usize, after: u64, event: Event) {
        let life = self.devices[device].life;
        self.later(after, Item::Told(device, life, event));
    }

    /// A step that makes something durable: `false` if it did not succeed, or the device is down.
    fn sync(&mut self, device: usize, step: impl FnOnce(&mut Device), failed: Event) -> bool {
        let fault = self.faults.next(&mut self.rng, self.now, Point::Sync);
        if let Some(fault) = fault {
            self.tell(|| format!("{device}   FAULT {fault:?}"));
        }
        match fault {
            Some(Fault::KillBefore) => self.kill(device, false),
            Some(Fault::PowerBefore) => self.kill(device, true),
            Some(Fault::DiskRefuses) => self.disk_fails(device, failed),
            Some(Fault::DiskLies) => {
                step(&mut self.devices[device]);
                self.disk_fails(device, failed);
            }
            other => {
                step(&mut self.devices[device]);
                match other {
                    Some(Fault::KillAfter) => self.kill(device, false),
                    Some(Fault::PowerAfter) => self.kill(device, true),
                    Some(fault) => {
                        self.person(fault);
                        return true;
                    }
                    None => return true,
                }
            }
        }
        false
    }

    fn disk_fails(&mut self, device: usize, failed: Event) {
        self.may_fail = true;
        // The rest of the list is dropped.
        self.devices[device].pending.clear();
        self.told(device, 0, failed);
    }

    fn person(&mut self, fault: Fault) {
        match fault {
            Fault::CancelThere => {
                self.may_fail = true;
                self.told(0, 1, Event::Seeder(seeder::Event::Cancel));
            }
            Fault::CancelHere => {
                self.may_fail = true;
                self.told(1, 1, Event::Leecher(leecher::Event::Cancel));
            }
            _ => {}
        }
    }

    fn kill(&mut self, device: usize, by_power: bool) {
        let target = &mut self.devices[device];
        target.life += 1;
        (target.is_up, target.is_linked, target.is_performing) = (false, false, false);
        (target.engine, target.volume) = (None, None);
        target.inbox.clear();
        target.pending.clear();
        target.sent.clear();
        if by_power {
            target.disk.power_cut();
        }
        let (back, noticed) = (self.rng.random_range(100..6000), self.rng.random_range(10..2000));
        self.later(back, Item::Start(device));
        self.later(noticed, Item::Unlink(1 - device, self.link));
    }

    fn start(&mut self, device: usize) {
        self.tell(|| format!("{device} STARTS"));
        let now = self.time();
        let target = &mut self.devices[device];
        target.is_up = true;
        // Recovery makes durable what it found.
        target.disk.sync();
        let record = target.disk.record();
        let Some(record) = record else {
            self.open_volume(device);
            if device == 0 {
                self.begin();
            }
            return;
        };
        let (id, name) = (Uuid::from_u128(device as u128 + 1), ["a", "b"][device].to_owned());
        let actions: Vec<Action> = match record.role {
            Role::Seeder => {
                let (seeder, actions) = Seeder::resume(now, record, id, name);
                self.devices[device].engine = Some(Engine::Seeder(Box::new(seeder)));
                actions.into_iter().map(Action::Seeder).collect()
            }
            Role::Leecher => {
                let durable = self.devices[device].disk.live.import.as_ref().map(|import| import.position);
                // Whole rounds only: the rest of a round comes again.
                let durable = durable.map(|position| Position { part: 0, ..position });
                let (leecher, actions) = Leecher::resume(now, record, id, name, durable);
                self.devices[device].engine = Some(Engine::Leecher(Box::new(leecher)));
                actions.into_iter().map(Action::Leecher).collect()
            }
        };
        let released = self.devices[device].phase().is_some_and(|phase| phase.is_released());
        if !released && self.devices[device].disk.live.has_drive {
            self.open_volume(device);
        }
        self.act(device, actions);
    }
}

fn runs(blocks: BTreeSet<u64>) -> Vec<BlockRange> {
    coalesce(blocks.into_iter().map(|block| BlockRange::new(block, 1)).collect(), 1)
}

fn hash(blocks: &BTreeMap<u64, u64>) -> [u8; 32] {
    let bytes: Vec<u8> =
        blocks.iter().flat_map(|(block, value)| [*block, *value]).flat_map(u64::to_le_bytes).collect();
    *blake3::hash(&bytes).as_bytes()
}

pub fn offer(head: Bytes) -> Offer {
    Offer {
        session: SESSION,
        drive: Uuid::from_u128(0xd41e),
        name: "work".to_owned(),
        size_blocks: BLOCKS,
        family: Bytes::from_static(b"{}"),
        stores: vec!["s3://bucket/work".to_owned()],
        head,
        journal: Uuid::from_u128(0x10),
        dirty_bytes: 0,
        pins: vec!["/music".to_owned()],
        key: Bytes::from_static(b"sealed"),
        downtime_limit_ms: 300,
    }
}
