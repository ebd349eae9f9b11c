//! A remote in memory: it loses answers, answers late, lists what is no longer true, and has other clients.
//!
//! [`RemoteHabits`] say what kind of server it is; [`RemoteFaults`] are chances that something goes wrong. All follow from a seed. The
//! server's clock is its own, and moves with the requests and with [`SimRemote::pass_time`].

mod change;
mod habits;
mod serve;
mod tree;
mod uploads;

pub use habits::{RemoteFaults, RemoteHabits, Request};
pub use tree::SimFile;

use crate::store::StoreError;
use crate::store::remote::{Facts, Kind, Meta, PageToken, RemoteError, RemotePath, Time, Version};
use bytes::Bytes;
use change::Change;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tree::Tree;
use uploads::Upload;

/// Earlier states that a stale listing may show.
const REMEMBERED: usize = 8;
/// The server's clock at the beginning, in seconds since 1970.
const BEGINNING: i128 = 1_700_000_000;

/// A remote that outlives its clients. Clones are the same.
#[derive(Clone)]
pub struct SimRemote {
    world: Arc<Mutex<World>>,
    facts: Arc<Facts>,
}

pub(super) struct World {
    rng: StdRng,
    faults: RemoteFaults,
    habits: RemoteHabits,
    tree: Tree,
    /// Earlier states, the latest last.
    before: VecDeque<Tree>,
    uploads: BTreeMap<u64, Upload>,
    late: Vec<(u64, Change)>,
    locks: BTreeMap<String, String>,
    /// Names that no folder can show, by directory.
    unusable: BTreeMap<String, Vec<String>>,
    clock: Duration,
    changes: u64,
    requests: BTreeMap<Request, u64>,
    away_until: u64,
    is_away: bool,
    has_login_page: bool,
}

impl SimRemote {
    /// An empty remote whose faults follow from `seed`.
    pub fn new(seed: u64, habits: RemoteHabits, faults: RemoteFaults) -> Self {
        let world = World {
            rng: StdRng::seed_from_u64(seed),
            faults,
            habits,
            tree: Tree::default(),
            before: VecDeque::new(),
            uploads: BTreeMap::new(),
            late: Vec::new(),
            locks: BTreeMap::new(),
            unusable: BTreeMap::new(),
            clock: Duration::ZERO,
            changes: 0,
            requests: BTreeMap::new(),
            away_until: 0,
            is_away: false,
            has_login_page: false,
        };
        Self { world: Arc::new(Mutex::new(world)), facts: Arc::new(habits.facts()) }
    }

    /// Changes the faults. Changes under way that are late still come.
    pub fn set_faults(&self, faults: RemoteFaults) {
        let world = &mut *self.world.lock();
        (world.faults, world.away_until) = (faults, 0);
    }

    /// Changes how much it may hold.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.world.lock().habits.capacity = capacity;
    }

    /// Makes it unreachable, or reachable again.
    pub fn set_away(&self, is_away: bool) {
        self.world.lock().is_away = is_away;
    }

    /// Puts a login page before it, or takes it away.
    pub fn set_login_page(&self, is_there: bool) {
        self.world.lock().has_login_page = is_there;
    }

    /// Lets the server's clock run.
    pub fn pass_time(&self, time: Duration) {
        self.world.lock().clock += time;
    }

    /// Makes all late changes take effect now.
    pub fn deliver_late(&self) {
        let world = &mut *self.world.lock();
        for (_, change) in std::mem::take(&mut world.late) {
            let _ = world.apply(change);
        }
    }

    /// How many requests of this kind have come.
    pub fn requests(&self, kind: Request) -> u64 {
        self.world.lock().requests.get(&kind).copied().unwrap_or(0)
    }

    /// How many requests have come.
    pub fn requests_total(&self) -> u64 {
        self.world.lock().total()
    }

    /// All files, directories and links, by path.
    pub fn files(&self) -> Vec<SimFile> {
        self.world.lock().tree.all().cloned().collect()
    }

    /// Unfinished uploads that the server holds.
    pub fn unfinished(&self) -> usize {
        self.world.lock().uploads.len()
    }

    /// Another client writes a file, and the directories that it lies in.
    pub fn other_writes(&self, path: &RemotePath, bytes: impl Into<Bytes>) -> Version {
        let world = &mut *self.world.lock();
        world.remember();
        if let Some((parent, _)) = path.split() {
            world.make_directories(&parent);
        }
        world.write(path, bytes.into(), Meta::default());
        let habits = world.habits;
        let written = world.tree.get(&habits, path).expect("it was written");
        written.version.clone()
    }

    /// Another client makes a directory, and those that it lies in.
    pub fn other_makes_directory(&self, path: &RemotePath) {
        let world = &mut *self.world.lock();
        world.remember();
        world.make_directories(path);
    }

    /// Another client removes a file, or a directory with all that is in it.
    pub fn other_removes(&self, path: &RemotePath) {
        let world = &mut *self.world.lock();
        world.remember();
        let habits = world.habits;
        let within: Vec<_> =
            world.tree.all().map(|file| file.path.clone()).filter(|at| at.is_within(path)).collect();
        for path in within {
            world.tree.remove(&habits, &path);
        }
    }

    /// Another client moves a file or directory.
    pub fn other_renames(&self, from: &RemotePath, to: &RemotePath) {
        let world = &mut *self.world.lock();
        world.remember();
        let habits = world.habits;
        world.tree.rename(&habits, from, to);
    }

    /// Another client locks a file, or no longer does.
    pub fn other_locks(&self, path: &RemotePath, by: Option<&str>) {
        let world = &mut *self.world.lock();
        let path = tree::fold(&world.habits, path);
        match by {
            Some(by) => world.locks.insert(path, by.to_owned()),
            None => world.locks.remove(&path),
        };
    }

    /// Another client leaves a name in a directory that no folder can show.
    pub fn other_leaves_unusable(&self, directory: &RemotePath, name: &str) {
        let world = &mut *self.world.lock();
        let directory = tree::fold(&world.habits, directory);
        world.unusable.entry(directory).or_default().push(name.to_owned());
    }
}

impl World {
    fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.random_ratio(per_mille, 1000)
    }

    fn total(&self) -> u64 {
        self.requests.values().sum()
    }

    /// Bytes that are taken.
    fn used(&self) -> u64 {
        self.tree.used() + self.uploads.values().map(Upload::len).sum::<u64>()
    }

    fn now(&self) -> Time {
        Time(BEGINNING * 1_000_000_000 + self.clock.as_nanos() as i128)
    }

    fn new_version(&mut self, len: u64) -> Version {
        self.changes += 1;
        tree::version(&self.habits, len, self.now(), self.changes)
    }

    /// Keeps the state before a change, for stale listings.
    fn remember(&mut self) {
        if self.faults.stale > 0 {
            self.before.push_back(self.tree.clone());
            if self.before.len() > REMEMBERED {
                self.before.pop_front();
            }
        }
    }

    fn make_directories(&mut self, path: &RemotePath) {
        let habits = self.habits;
        let mut at = RemotePath::root();
        for name in path.names().filter_map(|name| crate::store::remote::Name::new(name).ok()) {
            at = at.join(&name);
            if self.tree.get(&habits, &at).is_none() {
                let (version, kind) = (self.new_version(0), Kind::Directory);
                let meta = habits.kept(Meta::default());
                self.tree
                    .insert(&habits, SimFile { path: at.clone(), kind, bytes: Bytes::new(), meta, version });
            }
        }
    }

    /// The error that a request meets before it does anything, if it meets one.
    fn arrive(&mut self, request: Request) -> Result<(), RemoteError> {
        *self.requests.entry(request).or_default() += 1;
        let now = self.total();
        let due: Vec<_> = self.late.extract_if(.., |(due, _)| *due <= now).collect();
        for (_, change) in due {
            let _ = self.apply(change);
        }
        if self.chance(self.faults.away) {
            self.away_until = now + self.rng.random_range(1..40);
        }
        let unreachable = |reason: &str| Err(StoreError::Unreachable { reason: reason.into() }.into());
        if self.is_away || now < self.away_until || self.chance(self.faults.refused) {
            return unreachable("it is away");
        }
        if self.has_login_page || self.chance(self.faults.login_page) {
            return unreachable("a login page answered");
        }
        if self.chance(self.faults.denied) {
            return Err(StoreError::Denied { reason: "the key was revoked".into() }.into());
        }
        if self.chance(self.faults.busy) {
            let seconds = self.rng.random_ratio(1, 2).then(|| self.rng.random_range(0..5));
            let retry_after = seconds.map(Duration::from_secs);
            return Err(StoreError::Busy { reason: "slow down".into(), retry_after }.into());
        }
        Ok(())
    }

    /// Usually soon, sometimes when everyone has long forgotten it.
    fn do_later(&mut self, change: Change) {
        let latest = if self.rng.random_ratio(1, 8) { 2000 } else { 60 };
        let due = self.total() + self.rng.random_range(1..latest);
        self.late.push((due, change));
    }

    /// A page of a listing: the folded name of its last entry is the next page's token.
    fn page(
        &mut self,
        directory: &RemotePath,
        token: Option<&PageToken>,
    ) -> Result<serve::Listed, RemoteError> {
        let habits = self.habits;
        if token.is_some() && self.chance(self.faults.cut) {
            return Err(StoreError::Unreachable { reason: "the listing broke off".into() }.into());
        }
        let is_stale = !self.before.is_empty() && self.chance(self.faults.stale);
        let stale = is_stale.then(|| self.rng.random_range(0..self.before.len()));
        let loops = token.is_some() && self.chance(self.faults.loops);
        let tree = stale.and_then(|at| self.before.get(at)).unwrap_or(&self.tree);
        if !tree.is_directory(&habits, directory) {
            return Err(RemoteError::NotFound(directory.clone()));
        }
        let most = habits.lists_at_most.unwrap_or(usize::MAX);
        let first: Vec<_> =
            tree.below(&habits, directory, None).map(|(key, _)| key.clone()).take(most).collect();
        let last = first.last().cloned();
        let after = token.map(|token| token.0.as_str());
        let all = tree.below(&habits, directory, after).take_while(|(key, _)| Some(*key) <= last.as_ref());
        let found: Vec<_> =
            all.take(habits.page_entries).map(|(key, file)| (key.clone(), file.clone())).collect();
        let ends = found.last().map(|(key, _)| key.clone()).filter(|key| Some(key) != last.as_ref());
        let next = if loops { token.cloned() } else { ends.map(PageToken) };
        let unusable = match token {
            None => self.unusable.get(&tree::fold(&habits, directory)).cloned().unwrap_or_default(),
            Some(_) => Vec::new(),
        };
        let files = found.into_iter().map(|(_, file)| file).collect();
        Ok(serve::Listed { files, next, unusable })
    }
}
