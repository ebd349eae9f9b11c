//! An open watched directory: one round at a time looks, plans and acts.

use super::act::{Halt, Outcome};
use super::action::Action;
use super::listing::{self, There};
use super::places::settles_in;
use super::plan::{Guards, Plan, Rules, Seen, plan};
use super::row::{Digest, Held, Print, Side};
use super::table::{Table, TableError};
use super::tree::{Here, Scan, Tree, TreeError};
use crate::disk::Disk;
use crate::folder::outbox::Queue;
use crate::folder::outbox::failure::{Verdict, verdict};
use crate::retry::{self, Backoff};
use crate::store::remote::{Kind, Remote, RemoteError, RemotePath, Unusable, Version};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

/// Transfers at the same time: enough to hide the round trips of small files.
const TRANSFERS: usize = 4;
/// How often the remote is looked at, two ways.
pub(super) const POLL: Duration = Duration::from_secs(30);
/// How often everything is looked at, whatever the events say.
pub(super) const RESCAN: Duration = Duration::from_secs(3600);
/// When to try again what only a person can change.
const NEVER_MS: u64 = 600_000;

/// What a watched directory needs.
pub struct Environment {
    /// The directory.
    pub tree: Arc<dyn Tree>,
    /// The remote.
    pub remote: Arc<dyn Remote>,
    /// Where the table is.
    pub disk: Arc<dyn Disk>,
    /// The directory's identity.
    pub uuid: Uuid,
    /// Changes of the remote come here, too.
    pub two_way: bool,
    /// This device's name, for the names of conflicts.
    pub device_name: String,
}

/// Why nothing can be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The directory is not there, or is not the one that was watched.
    NoRoot(String),
    /// The remote, with its words.
    Remote(String),
    /// The local disk is full.
    NoSpace,
    /// The table cannot be written.
    Table(String),
}

/// A watched directory in numbers.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Files, links and directories that both sides have.
    pub known_files: u64,
    /// What differs.
    pub queue: Queue,
    /// Why nothing can be done now.
    pub problem: Option<Problem>,
    /// Deletions that wait for a person: where the files are gone.
    pub held_here: u64,
    /// The same for the remote.
    pub held_there: u64,
    /// Conflicts that nobody has settled.
    pub conflicts: u64,
    /// Files that cannot be synchronized: their names or kinds, here and there.
    pub left_out: Unusable,
    /// Files that were changed at the remote, and that a one-way directory leaves alone.
    pub changed_there: u64,
    /// The kernel gives no events: changes are found by looking, which takes longer.
    pub has_no_events: Option<String>,
    /// Everything was looked at since the start.
    pub is_known: bool,
}

/// What came of a decision about held deletions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Files that the other side loses, too.
    pub removed: u64,
    /// Files that come back.
    pub restored: u64,
}

pub(super) struct Failed {
    backoff: Backoff,
    pub next_ms: u64,
    pub reason: String,
    pub is_passing: bool,
}

/// What a digest was made of, and when it is worth nothing any more.
#[derive(Clone)]
pub(super) struct Digested {
    pub print: Print,
    pub digest: Digest,
}

/// What a round works on. One round at a time.
#[derive(Default)]
pub(super) struct Rounds {
    pub there: Option<BTreeMap<RemotePath, There>>,
    pub unusable: Unusable,
    listed: Option<Instant>,
    root_tag: Option<String>,
    digests: BTreeMap<RemotePath, Digested>,
    differing: BTreeMap<RemotePath, (Digest, Version)>,
    guards: Guards,
    pub failures: BTreeMap<RemotePath, Failed>,
    trouble: Backoff,
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Something was done: what is left has to be planned again.
    Progress,
    /// Both sides are alike, but for what is held or refused.
    Clean,
    /// Files are being written, or wait to be tried again; look again after this time.
    Waits(Duration),
    /// Nothing can be done now; look again after this time.
    Trouble(Duration),
    /// It ends.
    Stopped,
}

/// An open watched directory.
pub struct Watched {
    pub(super) tree: Arc<dyn Tree>,
    pub(super) remote: Arc<dyn Remote>,
    pub(super) two_way: bool,
    pub(super) device_name: String,
    // Held across the writes and syncs of the table, which are its owner's only.
    pub(super) table: tokio::sync::Mutex<Table>,
    // One round at a time.
    pub(super) rounds: tokio::sync::Mutex<Rounds>,
    // Held to look or set fields.
    pub(super) view: Mutex<Status>,
    pub(super) sent: Mutex<BTreeMap<RemotePath, u64>>,
    pub(super) paused: watch::Sender<Option<String>>,
    pub(super) wake: Notify,
    pub(super) stopped: watch::Sender<bool>,
}

impl Watched {
    /// Opens it. Nothing is looked at yet.
    pub async fn open(environment: Environment) -> Result<Arc<Self>, TableError> {
        let Environment { tree, remote, disk, uuid, two_way, device_name } = environment;
        let table = Table::open(disk, uuid).await?;
        let view = Status { conflicts: table.known().conflicts.len() as u64, ..Status::default() };
        let watched = Self {
            tree,
            remote,
            two_way,
            device_name,
            table: tokio::sync::Mutex::new(table),
            rounds: tokio::sync::Mutex::default(),
            view: Mutex::new(view),
            sent: Mutex::default(),
            paused: watch::Sender::new(None),
            wake: Notify::new(),
            stopped: watch::Sender::new(false),
        };
        watched.count().await;
        Ok(Arc::new(watched))
    }

    /// Something may have changed here.
    pub fn hint(&self) {
        self.wake.notify_one();
    }

    /// Whether the kernel tells of changes, or why it does not.
    pub fn set_events(&self, trouble: Option<String>) {
        self.view.lock().has_no_events = trouble;
    }

    pub(super) fn has_events(&self) -> bool {
        self.view.lock().has_no_events.is_none()
    }

    /// Pauses, for a reason that people are told, or continues.
    pub fn set_paused(&self, why: Option<String>) {
        self.paused.send_replace(why);
        self.wake.notify_one();
    }

    /// Ends what is under way, without waiting for the remote.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
        self.wake.notify_one();
    }

    /// One round. `is_asked`: a person waits, so that nothing is put off.
    pub(super) async fn round(&self, is_asked: bool) -> Turn {
        let mut stopped = self.stopped.subscribe();
        let mut rounds = self.rounds.lock().await;
        if is_asked {
            rounds.failures.values_mut().for_each(|failed| failed.next_ms = 0);
            rounds.listed = None;
        }
        let turn = tokio::select! { biased;
            _ = stopped.wait_for(|stopped| *stopped) => Turn::Stopped,
            turn = Box::pin(self.round_of(&mut rounds)) => turn,
        };
        self.sent.lock().clear();
        self.count().await;
        turn
    }

    async fn round_of(&self, rounds: &mut Rounds) -> Turn {
        let scan = match self.tree.scan().await {
            Ok(scan) => scan,
            Err(error) => return self.trouble(rounds, Problem::NoRoot(error.to_string()), None),
        };
        // Memory for the digests of files that are gone, or have become rows.
        rounds.digests.retain(|path, of| scan.entries.get(path).is_some_and(|here| here.print == of.print));
        let waits = self.digest(rounds, &scan).await;
        let listed = self.list(rounds).await;
        if let Err(error) = &listed {
            // What differs here is shown, as far as the table knows the remote.
            let table = self.table.lock().await;
            let rows = &table.known().rows;
            let assumed = rows.iter().map(|(path, row)| {
                let there = There { kind: row.kind_there, version: row.version.clone(), meta: None };
                (path.clone(), there)
            });
            let assumed: BTreeMap<_, _> = assumed.collect();
            let planned = self.plan(rounds, &scan, &assumed, rows);
            drop(table);
            self.show(rounds, &scan, &planned, &waits);
            let hint = match error {
                listing::ListingError::Remote(RemoteError::Store(error)) => retry::hint_of(error),
                _ => None,
            };
            return self.trouble(rounds, Problem::Remote(error.to_string()), hint);
        }
        let there = rounds.there.clone().unwrap_or_default();
        let planned = {
            let table = self.table.lock().await;
            self.plan(rounds, &scan, &there, &table.known().rows)
        };
        self.show(rounds, &scan, &planned, &waits);
        if self.paused.borrow().is_some() {
            return Turn::Waits(RESCAN);
        }
        let now_ms = self.tree.now_ms();
        let is_due = |action: &Action| {
            rounds.failures.get(action.path()).is_none_or(|failed| failed.next_ms <= now_ms)
        };
        let due: Vec<Action> = planned.actions.iter().filter(|action| is_due(action)).cloned().collect();
        if due.is_empty() {
            rounds.failures.retain(|path, _| planned.actions.iter().any(|action| action.path() == path));
            let next = rounds.failures.values().map(|failed| failed.next_ms.saturating_sub(now_ms)).min();
            let next = next.into_iter().chain(waits.values().copied()).min();
            self.view.lock().problem = None;
            rounds.trouble = Backoff::new();
            return next.map_or(Turn::Clean, |next| Turn::Waits(Duration::from_millis(next.max(1))));
        }
        self.perform(rounds, &scan, &there, due).await
    }

    /// Digests what was touched and rests. Returns what does not, and after how many ms to look again.
    async fn digest(&self, rounds: &mut Rounds, scan: &Scan) -> BTreeMap<RemotePath, u64> {
        /// When to look again at a file that a program has open.
        const IN_USE_MS: u64 = 5_000;
        let mut wanted = Vec::new();
        {
            let table = self.table.lock().await;
            for (path, here) in &scan.entries {
                let is_known = |row: &super::row::Row| row.kind == Kind::File && row.print == here.print;
                let is_row = table.known().rows.get(path).is_some_and(is_known);
                if here.kind == Kind::File && !is_row && !rounds.digests.contains_key(path) {
                    wanted.push((path.clone(), here.print));
                }
            }
        }
        let (mut waits, now_ms) = (BTreeMap::new(), self.tree.now_ms());
        let mut reads: Vec<BoxFuture<'_, _>> = Vec::new();
        for (path, print) in wanted {
            reads.push(Box::pin(async move {
                match settles_in(print.mtime, now_ms) {
                    Some(wait) => (path, Err(wait)),
                    None => {
                        let read = self.tree.read(&path, print).await;
                        (path, read.map_err(|_| IN_USE_MS))
                    }
                }
            }));
        }
        let mut reading = futures_util::stream::iter(reads).buffer_unordered(TRANSFERS);
        while let Some((path, read)) = reading.next().await {
            match read {
                Ok(stable) => {
                    let of = Digested { print: stable.print, digest: stable.digest };
                    rounds.digests.insert(path, of);
                }
                Err(wait) => drop(waits.insert(path, wait)),
            }
        }
        waits
    }

    async fn list(&self, rounds: &mut Rounds) -> Result<(), listing::ListingError> {
        let every = if self.two_way { POLL } else { RESCAN };
        let is_fresh = rounds.listed.is_some_and(|at| at.elapsed() < every);
        if rounds.there.is_some() && is_fresh {
            return Ok(());
        }
        let tag = match self.remote.facts().root_tag_tells {
            true => Some(self.remote.stat(&RemotePath::root()).await?.version.tag),
            false => None,
        };
        if rounds.there.is_some() && tag.is_some() && tag == rounds.root_tag {
            rounds.listed = Some(Instant::now());
            return Ok(());
        }
        let listing = listing::list(&*self.remote).await?;
        rounds.there = Some(listing.entries);
        (rounds.unusable, rounds.root_tag) = (listing.unusable, tag);
        rounds.listed = Some(Instant::now());
        Ok(())
    }

    fn plan(
        &self,
        rounds: &mut Rounds,
        scan: &Scan,
        there: &BTreeMap<RemotePath, There>,
        rows: &BTreeMap<RemotePath, super::row::Row>,
    ) -> Plan {
        let digests = rounds.digests.iter().map(|(path, of)| (path.clone(), (of.print, of.digest)));
        let seen = Seen {
            here: &scan.entries,
            digests: &digests.collect(),
            unseen: &scan.unseen,
            ignores: &*scan.ignores,
            there,
            rows,
            differing: &rounds.differing,
        };
        let rules = Rules {
            two_way: self.two_way,
            facts: self.remote.facts(),
            device: &self.device_name,
            now_ms: self.tree.now_ms(),
        };
        plan(&rules, &seen, &mut rounds.guards)
    }

    async fn perform(
        &self,
        rounds: &mut Rounds,
        scan: &Scan,
        there: &BTreeMap<RemotePath, There>,
        due: Vec<Action>,
    ) -> Turn {
        let mut is_any_done = false;
        for phase in 0..=6 {
            let most = if phase == 4 { TRANSFERS } else { 1 };
            let digests = &rounds.digests.clone();
            let context = &Context { scan, there, digests };
            let mut actions: Vec<BoxFuture<'_, _>> = Vec::new();
            for action in due.iter().filter(|action| action.phase() == phase) {
                actions.push(Box::pin(async move { (action, self.act(action, context).await) }));
            }
            let mut acting = futures_util::stream::iter(actions).buffer_unordered(most);
            while let Some((action, done)) = acting.next().await {
                let path = action.path();
                match done {
                    Ok(outcome) => {
                        is_any_done = true;
                        rounds.failures.remove(path);
                        if let Err(error) = self.record(rounds, outcome).await {
                            return self.trouble(rounds, Problem::Table(error.to_string()), None);
                        }
                    }
                    Err(halt) => {
                        if let Some(problem) = self.failed(rounds, path, &halt) {
                            // What was done before is recorded.
                            if let Err(error) = self.table.lock().await.sync().await {
                                return self.trouble(rounds, Problem::Table(error.to_string()), None);
                            }
                            return self.trouble(rounds, problem, halt.hint());
                        }
                    }
                }
            }
            if let Err(error) = self.table.lock().await.sync().await {
                return self.trouble(rounds, Problem::Table(error.to_string()), None);
            }
        }
        if is_any_done {
            self.view.lock().problem = None;
            rounds.trouble = Backoff::new();
        }
        Turn::Progress
    }

    async fn record(&self, rounds: &mut Rounds, outcome: Outcome) -> Result<(), TableError> {
        if outcome.is_upload {
            self.view.lock().queue.last_uploaded_ms = Some(self.tree.now_ms());
        }
        self.table.lock().await.change(outcome.changes)?;
        for (path, there) in outcome.there {
            let Some(listing) = &mut rounds.there else { break };
            match there {
                Some(there) => drop(listing.insert(path, there)),
                None => drop(listing.remove(&path)),
            }
        }
        rounds.differing.extend(outcome.differing);
        if outcome.is_stale {
            rounds.there = None;
        }
        Ok(())
    }

    /// Notes a failure. Returns what it means for all other actions, if anything.
    fn failed(&self, rounds: &mut Rounds, path: &RemotePath, halt: &Halt) -> Option<Problem> {
        let now_ms = self.tree.now_ms();
        let failed = rounds.failures.entry(path.clone()).or_insert_with(|| Failed {
            backoff: Backoff::new(),
            next_ms: 0,
            reason: String::new(),
            is_passing: true,
        });
        failed.reason = halt.reason(path);
        let wait = failed.backoff.next(halt.hint()).as_millis() as u64;
        (failed.next_ms, failed.is_passing) = (now_ms + wait.max(1), true);
        match halt {
            Halt::Remote(error) => match verdict(error) {
                Verdict::Look => {
                    rounds.there = None;
                    None
                }
                Verdict::Later => None,
                Verdict::Never => {
                    (failed.next_ms, failed.is_passing) = (now_ms + NEVER_MS, false);
                    None
                }
                Verdict::Trouble(_) => {
                    rounds.there = None;
                    rounds.failures.remove(path);
                    Some(Problem::Remote(error.to_string()))
                }
            },
            Halt::Local(TreeError::NoSpace) => Some(Problem::NoSpace),
            Halt::Local(TreeError::NoRoot(why)) => Some(Problem::NoRoot(why.clone())),
            Halt::Local(_) | Halt::Liar => None,
            Halt::Stale => {
                rounds.there = None;
                None
            }
        }
    }

    fn trouble(&self, rounds: &mut Rounds, problem: Problem, hint: Option<Duration>) -> Turn {
        let mut view = self.view.lock();
        view.queue.trouble = Some(match &problem {
            Problem::NoRoot(why) | Problem::Remote(why) | Problem::Table(why) => why.clone(),
            Problem::NoSpace => "the local disk is full".to_owned(),
        });
        view.problem = Some(problem);
        Turn::Trouble(rounds.trouble.next(hint))
    }

    /// Figures of the table.
    pub(super) async fn count(&self) {
        let table = self.table.lock().await;
        let known = table.known();
        let held = |side| {
            let is_it = |row: &&super::row::Row| matches!(row.held, Some((Held::Waits(at), _)) if at == side);
            known.rows.values().filter(is_it).count() as u64
        };
        let view = &mut *self.view.lock();
        (view.held_here, view.held_there) = (held(Side::Here), held(Side::There));
        (view.known_files, view.conflicts) = (known.rows.len() as u64, known.conflicts.len() as u64);
    }
}

/// What actions of a round are performed on.
pub(super) struct Context<'a> {
    pub scan: &'a Scan,
    pub there: &'a BTreeMap<RemotePath, There>,
    pub digests: &'a BTreeMap<RemotePath, Digested>,
}

impl Context<'_> {
    /// A local file, as it was planned for.
    pub fn here(&self, path: &RemotePath) -> Result<&Here, Halt> {
        self.scan.entries.get(path).ok_or(Halt::Local(TreeError::Changed))
    }

    /// The remote's file, as it was planned for.
    pub fn there(&self, path: &RemotePath) -> Result<&There, Halt> {
        self.there.get(path).ok_or(Halt::Stale)
    }
}
