//! A store in memory that loses answers, delays requests, and goes away for a while.

use crate::store::{Etag, Fetched, Listed, Store, StoreError, When};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A store that outlives the runtimes of its clients.
#[derive(Clone)]
pub struct SimStore {
    world: Arc<Mutex<World>>,
}

/// Faults, as chances in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreFaults {
    /// A request fails and does nothing.
    pub refused: u32,
    /// A put or delete takes effect, and its answer is lost.
    pub answer_lost: u32,
    /// A put or delete seems to fail, and takes effect some requests later.
    pub zombie: u32,
    /// Access is refused.
    pub denied: u32,
    /// A delete is refused.
    pub kept: u32,
    /// A request is answered with "busy", with or without a time to wait.
    pub busy: u32,
    /// A conditional put is answered with "conflict" though nobody else writes, whether it took effect or not.
    pub conflict: u32,
    /// A conditional put is answered as if its condition did not hold, whether it took effect or not: something on the way
    /// has retried it and met the first try, or the server is wrong.
    pub failed: u32,
    /// A put or delete takes effect, and again some requests later: a retry that was overtaken.
    pub repeated: u32,
    /// The store goes away for some requests.
    pub away: u32,
    /// A get's answer is damaged on its way: a bit is flipped, or the end is missing. Never twice in a row for the same
    /// request.
    pub garbled: u32,
    /// A request takes up to this long.
    pub time: Duration,
}

struct World {
    rng: StdRng,
    faults: StoreFaults,
    objects: BTreeMap<String, Bytes>,
    zombies: Vec<(u64, Change)>,
    requests: u64,
    away_until: u64,
    /// Gets whose last answer was damaged.
    garbled: BTreeSet<(String, Option<(u64, u64)>)>,
    puts: u64,
    /// Every HEAD that was ever put, in order.
    heads: Vec<Bytes>,
    habits: Habits,
    /// Nothing can be changed, and the current version is unknown; immutable objects can be read.
    commits_are_away: bool,
    /// No segment can be read.
    segments_are_away: bool,
    /// Until then it answers "busy".
    busy_until: Option<Instant>,
    /// Requests that were answered so.
    told_to_wait: u64,
    /// When objects were put, for late listings.
    put_at: BTreeMap<String, Instant>,
}

/// How a store behaves.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Conditional puts compare with the current version; otherwise they overwrite any.
    pub swaps: bool,
    /// A put that must create an object is refused if the name is taken; otherwise it overwrites.
    pub creates: bool,
    /// Conditions are checked first, and the object is stored a moment later.
    pub in_two_steps: bool,
    /// How long after its put an object is listed.
    pub lists_late: Duration,
    /// A listing below one drive's name (its claims, its records) shows at most this many names, the first ones, and does
    /// not mention the rest.
    pub lists_at_most: Option<usize>,
    /// The credentials allow puts.
    pub may_write: bool,
    /// The credentials allow deletes.
    pub may_delete: bool,
    /// Ranges are ignored: the whole object is returned.
    pub ignores_ranges: bool,
}

impl Habits {
    /// Everything is as it should be.
    pub const GOOD: Self = Self {
        swaps: true,
        creates: true,
        in_two_steps: false,
        lists_late: Duration::ZERO,
        lists_at_most: None,
        may_write: true,
        may_delete: true,
        ignores_ranges: false,
    };
}

#[derive(Clone)]
enum Change {
    Put(String, Bytes, When),
    Delete(String),
}

impl SimStore {
    /// An empty store whose faults follow from `seed`.
    pub fn new(seed: u64, faults: StoreFaults) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        let (objects, zombies) = (BTreeMap::new(), Vec::new());
        let world = World {
            rng,
            faults,
            objects,
            zombies,
            requests: 0,
            away_until: 0,
            garbled: BTreeSet::new(),
            puts: 0,
            heads: Vec::new(),
            habits: Habits::GOOD,
            commits_are_away: false,
            segments_are_away: false,
            busy_until: None,
            told_to_wait: 0,
            put_at: BTreeMap::new(),
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// The same store, which overwrites where a put should have compared.
    pub fn without_swap(self) -> Self {
        self.with_habits(Habits { swaps: false, ..Habits::GOOD })
    }

    /// The same store with these habits.
    pub fn with_habits(self, habits: Habits) -> Self {
        self.world.lock().habits = habits;
        self
    }

    /// Changes the faults.
    pub fn set_faults(&self, faults: StoreFaults) {
        let world = &mut *self.world.lock();
        world.faults = faults;
        world.away_until = 0;
    }

    /// Makes commits impossible, or possible again: nothing can be changed, and neither HEAD, claims nor listings can be
    /// read. Immutable objects can be read, so that a test sees what a device shows then.
    pub fn set_commits_away(&self, are_away: bool) {
        self.world.lock().commits_are_away = are_away;
    }

    /// Makes segments unreadable, or readable again; everything else works.
    pub fn set_segments_away(&self, are_away: bool) {
        self.world.lock().segments_are_away = are_away;
    }

    /// For this time, every request is answered "busy", with the time that is left.
    pub fn be_busy(&self, time: Duration) {
        let world = &mut *self.world.lock();
        (world.busy_until, world.told_to_wait) = (Some(Instant::now() + time), 0);
    }

    /// How many requests [`be_busy`](Self::be_busy) has turned away since it was called.
    pub fn told_to_wait(&self) -> u64 {
        self.world.lock().told_to_wait
    }

    /// A copy of its objects, without faults.
    pub fn copy(&self) -> Self {
        let copy = Self::new(0, StoreFaults::default());
        copy.world.lock().objects = self.world.lock().objects.clone();
        copy
    }

    /// Takes exactly the objects of `other`, as after a backup was restored. That takes longer than any request is under
    /// way.
    pub fn restore(&self, other: &Self) {
        let objects = other.world.lock().objects.clone();
        let world = &mut *self.world.lock();
        world.objects = objects;
        world.zombies.clear();
    }

    /// Adds the objects of `other`. An object that both have stays as it is.
    pub fn add(&self, other: &Self) {
        let objects = other.world.lock().objects.clone();
        let world = &mut *self.world.lock();
        for (name, body) in objects {
            world.objects.entry(name).or_insert(body);
        }
    }

    /// Puts that took effect.
    pub fn puts(&self) -> u64 {
        self.world.lock().puts
    }

    /// Requests that have come.
    pub fn requests(&self) -> u64 {
        self.world.lock().requests
    }

    /// Every HEAD that was put since the beginning, in order.
    pub fn heads(&self) -> Vec<Bytes> {
        self.world.lock().heads.clone()
    }

    /// Names of its objects.
    pub fn names(&self) -> Vec<String> {
        self.world.lock().objects.keys().cloned().collect()
    }

    /// Changes an object without a request: bit rot.
    pub fn damage(&self, name: &str, damage: impl FnOnce(&mut Vec<u8>)) {
        let world = &mut *self.world.lock();
        let object = world.objects.get_mut(name).expect("there is such an object");
        let mut bytes = object.to_vec();
        damage(&mut bytes);
        *object = bytes.into();
    }

    /// Adds an object without a request.
    pub fn leave(&self, name: &str, body: Bytes) {
        self.world.lock().objects.insert(name.to_owned(), body);
    }

    /// Removes an object without a request.
    pub fn lose(&self, name: &str) {
        self.world.lock().objects.remove(name);
    }

    async fn arrive(&self) -> Result<(), StoreError> {
        let time = {
            let world = &mut *self.world.lock();
            let most = world.faults.time.as_micros() as u64;
            Duration::from_micros(world.rng.random_range(0..=most))
        };
        tokio::time::sleep(time).await;
        let world = &mut *self.world.lock();
        world.requests += 1;
        world.run_zombies();
        let left = world.busy_until.map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            world.told_to_wait += 1;
            return Err(StoreError::Busy { reason: "slow down".into(), retry_after: Some(left) });
        }
        if world.chance(world.faults.away) {
            world.away_until = world.requests + world.rng.random_range(1..40);
        }
        if world.requests < world.away_until || world.chance(world.faults.refused) {
            return Err(StoreError::Unreachable { reason: "it is away".into() });
        }
        if world.chance(world.faults.denied) {
            return Err(StoreError::Denied { reason: "the key was revoked".into() });
        }
        if world.chance(world.faults.busy) {
            return Err(world.slow_down());
        }
        Ok(())
    }

    fn reach_commits(&self) -> Result<(), StoreError> {
        match self.world.lock().commits_are_away {
            true => Err(StoreError::Unreachable { reason: "it is away".into() }),
            false => Ok(()),
        }
    }

    async fn change(&self, mut change: Change) -> Result<Etag, StoreError> {
        self.arrive().await?;
        self.reach_commits()?;
        if self.world.lock().habits.in_two_steps {
            self.world.lock().check(&change)?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            if let Change::Put(_, _, when) = &mut change {
                *when = When::Always;
            }
        }
        let world = &mut *self.world.lock();
        let lost = match world.rng.random_ratio(1, 4) {
            true => world.slow_down(),
            false => StoreError::Unreachable { reason: "the answer was lost".into() },
        };
        if matches!(change, Change::Delete(_)) && world.chance(world.faults.kept) {
            return Err(StoreError::Denied { reason: "the key does not allow it".into() });
        }
        if world.chance(world.faults.zombie) {
            world.do_later(change);
            return Err(lost);
        }
        if let Some(error) = world.wrong_answer(&change) {
            if world.rng.random_ratio(1, 2) {
                let _ = world.apply(change);
            }
            return Err(error);
        }
        if world.chance(world.faults.repeated) {
            world.do_later(change.clone());
        }
        let done = world.apply(change);
        if world.chance(world.faults.answer_lost) { Err(lost) } else { done }
    }
}

impl World {
    fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.random_ratio(per_mille, 1000)
    }

    fn slow_down(&mut self) -> StoreError {
        let seconds = self.rng.random_ratio(1, 2).then(|| self.rng.random_range(0..5));
        StoreError::Busy { reason: "slow down".into(), retry_after: seconds.map(Duration::from_secs) }
    }

    /// A wrong answer to a put whose condition may well hold.
    fn wrong_answer(&mut self, change: &Change) -> Option<StoreError> {
        let Change::Put(name, _, When::Absent | When::Matches(_)) = change else { return None };
        if self.chance(self.faults.conflict) {
            let reason = "another computer is writing the same object".into();
            return Some(StoreError::Busy { reason, retry_after: None });
        }
        self.chance(self.faults.failed).then(|| StoreError::Precondition { name: name.clone() })
    }

    /// Usually soon, sometimes when everyone has long forgotten it.
    fn do_later(&mut self, change: Change) {
        let latest = if self.rng.random_ratio(1, 8) { 2000 } else { 60 };
        let due = self.requests + self.rng.random_range(1..latest);
        self.zombies.push((due, change));
    }

    /// The part of a get's answer that arrives.
    fn carry(&mut self, name: &str, range: Option<(u64, u64)>, bytes: Bytes) -> Bytes {
        let asked = (name.to_owned(), range);
        if self.garbled.remove(&asked) || bytes.is_empty() || !self.chance(self.faults.garbled) {
            return bytes;
        }
        self.garbled.insert(asked);
        let at = self.rng.random_range(0..bytes.len());
        if self.rng.random_ratio(1, 2) {
            return bytes.slice(..at);
        }
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1 << self.rng.random_range(0..8);
        bytes.into()
    }

    fn run_zombies(&mut self) {
        let due = |zombie: &mut (u64, Change)| zombie.0 <= self.requests;
        let due: Vec<_> = self.zombies.extract_if(.., due).collect();
        for (_, change) in due {
            let _ = self.apply(change);
        }
    }

    /// Whether the change is allowed and its condition holds.
    fn check(&self, change: &Change) -> Result<(), StoreError> {
        let Habits { swaps, creates, may_write, may_delete, .. } = self.habits;
        let (name, when, may) = match change {
            Change::Put(name, _, when) => (name, when, may_write),
            Change::Delete(name) => (name, &When::Always, may_delete),
        };
        if !may {
            return Err(StoreError::Denied { reason: "the key does not allow it".into() });
        }
        let holds = match (when, self.objects.get(name)) {
            (When::Always, _) | (When::Absent, None) => true,
            (When::Matches(expected), Some(current)) => !swaps || etag(current) == *expected,
            (When::Absent, Some(_)) => !creates,
            (When::Matches(_), None) => false,
        };
        if holds { Ok(()) } else { Err(StoreError::Precondition { name: name.clone() }) }
    }

    fn apply(&mut self, change: Change) -> Result<Etag, StoreError> {
        self.check(&change)?;
        match change {
            Change::Delete(name) => {
                self.objects.remove(&name);
                Ok(Etag(String::new()))
            }
            Change::Put(name, body, _) => {
                self.puts += 1;
                let etag = etag(&body);
                if name.starts_with("head/") {
                    self.heads.push(body.clone());
                }
                if !self.habits.lists_late.is_zero() {
                    self.put_at.insert(name.clone(), Instant::now());
                }
                self.objects.insert(name, body);
                Ok(etag)
            }
        }
    }

    fn is_listed(&self, name: &str) -> bool {
        self.put_at.get(name).is_none_or(|put_at| put_at.elapsed() >= self.habits.lists_late)
    }
}

fn etag(body: &[u8]) -> Etag {
    Etag(blake3::hash(body).to_hex().to_string())
}

#[async_trait]
impl Store for SimStore {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.arrive().await?;
        if ["head/", "claim/"].iter().any(|prefix| name.starts_with(prefix)) {
            self.reach_commits()?;
        }
        let world = &mut *self.world.lock();
        if world.segments_are_away && name.starts_with("seg/") {
            return Err(StoreError::Unreachable { reason: "it is away".into() });
        }
        let body = world.objects.get(name).ok_or_else(|| StoreError::NotFound { name: name.to_owned() })?;
        let asked = range.as_ref().map(|range| (range.start, range.end));
        let range = range.filter(|_| !world.habits.ignores_ranges);
        let range = range.unwrap_or(0..body.len() as u64);
        if range.end > body.len() as u64 {
            return Err(StoreError::Damaged { name: name.to_owned(), reason: "it is too short".into() });
        }
        let (bytes, etag) = (body.slice(range.start as usize..range.end as usize), etag(body));
        Ok(Fetched { bytes: world.carry(name, asked, bytes), etag })
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.change(Change::Put(name.to_owned(), body, when)).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        Ok(self.get(name, None).await?.bytes.len() as u64)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.arrive().await?;
        self.reach_commits()?;
        let world = self.world.lock();
        let matching =
            world.objects.iter().filter(|(name, _)| name.starts_with(prefix) && world.is_listed(name));
        // Two slashes: one after the area, one after the drive.
        let is_below_drive = prefix.matches('/').count() >= 2;
        let most = world.habits.lists_at_most.filter(|_| is_below_drive).unwrap_or(usize::MAX);
        let shown = matching.take(most);
        Ok(shown.map(|(name, body)| Listed { name: name.clone(), len: body.len() as u64 }).collect())
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.change(Change::Delete(name.to_owned())).await.map(drop)
    }
}
