//! What the outbox remembers of its work: what is under way, what failed and when it is tried again, and trouble of the remote as a whole.
//! Pure: the time is an argument, counted from the start of the outbox.

use super::failure::Trouble;
use super::lanes::{LARGE_BYTES, Lanes};
use super::quiet::Quiet;
use crate::folder::node::{Ino, Node};
use crate::folder::plan::Action;
use crate::retry::Backoff;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Tries after which a failure that may pass is told to those who wait.
const PATIENCE: u32 = 3;
/// Taken back removals that are remembered for people.
const RETURNED_MAX: usize = 100;

/// The memory.
#[derive(Default)]
pub struct Desk {
    pub quiet: Quiet,
    pub lanes: Lanes,
    /// Why nothing is begun, if a person said so.
    pub paused: Option<String>,
    /// When something was uploaded last, Unix time in ms.
    pub last_uploaded_ms: Option<u64>,
    busy: BTreeMap<Ino, Busy>,
    failures: BTreeMap<Ino, Failure>,
    trouble: Option<Lasting>,
    /// Removals that the remote refused for good, by path, and why.
    returned: Vec<(String, String)>,
}

/// An action under way.
pub struct Busy {
    /// Its upload's bytes.
    pub bytes: u64,
    /// Whether it needs space at the remote.
    pub is_upload: bool,
    /// How many of these were sent.
    pub sent: u64,
}

/// A file whose last action failed.
pub struct Failure {
    /// Why, for people.
    pub reason: String,
    /// When it is tried again, Unix time in ms.
    pub again_ms: Option<u64>,
    /// The same, by the outbox's clock.
    again: Option<Duration>,
    backoff: Backoff,
    /// It has failed as this, apart from its intent. Something else may succeed.
    node: Node,
    /// Whether people are told: the first repetitions are nobody's business.
    pub is_told: bool,
}

struct Lasting {
    reason: String,
    is_full: bool,
    needs_person: bool,
    again: Duration,
    backoff: Backoff,
}

impl Desk {
    /// How many actions may begin now.
    pub fn free_lanes(&self, now: Duration) -> usize {
        match &self.trouble {
            _ if self.paused.is_some() => 0,
            Some(trouble) if !trouble.is_full => usize::from(self.busy.is_empty() && trouble.again <= now),
            _ => self.lanes.at_once().saturating_sub(self.busy.len()),
        }
    }

    /// Whether an action may begin, where a lane is free.
    pub fn may_begin(&self, action: &Action, bytes: u64, now: Duration) -> bool {
        if !needs_space(action) {
            return true;
        }
        let uploads = || self.busy.values().filter(|busy| busy.is_upload);
        if let Some(trouble) = &self.trouble
            && (trouble.again > now || uploads().next().is_some())
        {
            return false;
        }
        bytes <= LARGE_BYTES
            || uploads().filter(|busy| busy.bytes > LARGE_BYTES).count() < self.lanes.large_at_once()
    }

    /// An action begins.
    pub fn begin(&mut self, ino: Ino, action: &Action, bytes: u64) {
        self.busy.insert(ino, Busy { bytes, is_upload: needs_space(action), sent: 0 });
    }

    /// More bytes of an upload were sent.
    pub fn sent(&mut self, ino: Ino, bytes: u64) {
        if let Some(busy) = self.busy.get_mut(&ino) {
            busy.sent += bytes;
        }
    }

    /// An action has ended.
    pub fn end(&mut self, ino: Ino) {
        self.busy.remove(&ino);
    }

    /// The inodes with actions under way.
    pub fn busy_inos(&self) -> BTreeSet<Ino> {
        self.busy.keys().copied().collect()
    }

    /// The action under way.
    pub fn busy(&self, ino: Ino) -> Option<&Busy> {
        self.busy.get(&ino)
    }

    /// An action has succeeded.
    pub fn succeeded(&mut self, ino: Ino, action: &Action, now: Duration) {
        self.failures.remove(&ino);
        self.lanes.went_well();
        match &mut self.trouble {
            // There may be space now.
            Some(trouble) if trouble.is_full && !needs_space(action) => {
                if matches!(action, Action::Remove { .. }) {
                    trouble.again = now;
                }
            }
            trouble => *trouble = None,
        }
    }

    /// The remote as a whole has trouble. What failed at the same time counts once.
    pub fn troubled(&mut self, reason: String, trouble: &Trouble, now: Duration) {
        if trouble.is_busy {
            self.lanes.refused(self.busy.len());
        }
        let before = self.trouble.take();
        if let Some(before) = before {
            if before.again > now && (!before.is_full || trouble.is_full) {
                self.trouble = Some(Lasting { reason, ..before });
                return;
            }
            let mut backoff = before.backoff;
            let again = now + backoff.next(trouble.hint);
            let (is_full, needs_person) = (trouble.is_full, trouble.needs_person);
            self.trouble = Some(Lasting { reason, is_full, needs_person, again, backoff });
            return;
        }
        let mut backoff = Backoff::new();
        let again = now + backoff.next(trouble.hint);
        let (is_full, needs_person) = (trouble.is_full, trouble.needs_person);
        self.trouble = Some(Lasting { reason, is_full, needs_person, again, backoff });
    }

    /// The remote has answered, though not as was wished.
    pub fn answered(&mut self) {
        if self.trouble.as_ref().is_some_and(|trouble| !trouble.is_full) {
            self.trouble = None;
        }
    }

    /// A file has failed. `tries_again`: by itself. `is_told`: people are told at once.
    pub fn failed(
        &mut self,
        ino: Ino,
        node: Node,
        reason: String,
        tries_again: bool,
        is_told: bool,
        clocks: Clocks,
    ) {
        let node = Node { intent: None, ..node };
        let before = self.failures.remove(&ino).filter(|before| before.node == node);
        let mut backoff = before.map_or_else(Backoff::new, |before| before.backoff);
        let wait = tries_again.then(|| backoff.next(None));
        let again = wait.map(|wait| clocks.now + wait);
        let again_ms = wait.map(|wait| clocks.now_ms + wait.as_millis() as u64);
        let is_told = is_told || backoff.tries() > PATIENCE;
        self.failures.insert(ino, Failure { reason, again_ms, again, backoff, node, is_told });
    }

    /// How often a file has failed as it is now.
    pub fn tries(&self, ino: Ino, node: &Node) -> u32 {
        self.failure(ino, node).map_or(0, |failure| failure.backoff.tries())
    }

    /// Why a file has failed as it is now.
    pub fn failure(&self, ino: Ino, node: &Node) -> Option<&Failure> {
        self.failures.get(&ino).filter(|failure| is_same(&failure.node, node))
    }

    /// Whether a file is not to be tried yet.
    pub fn waits(&self, ino: Ino, node: &Node, now: Duration) -> bool {
        self.failure(ino, node).is_some_and(|failure| failure.again.is_none_or(|again| again > now))
    }

    /// Forgets failures of files that need nothing any longer.
    pub fn retain(&mut self, differs: impl Fn(Ino) -> bool) {
        self.failures.retain(|ino, _| differs(*ino));
    }

    /// A removal was refused for good.
    pub fn returned(&mut self, path: String, reason: String) {
        if self.returned.len() == RETURNED_MAX {
            self.returned.remove(0);
        }
        self.returned.push((path, reason));
    }

    /// Removals that were refused for good.
    pub fn all_returned(&self) -> &[(String, String)] {
        &self.returned
    }

    /// The same; they have been told then.
    pub fn take_returned(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.returned)
    }

    /// Why nothing can be uploaded.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| &*trouble.reason)
    }

    /// The same, if nobody should wait for its end.
    pub fn lasting_trouble(&self) -> Option<&str> {
        let lasts = |trouble: &&Lasting| trouble.needs_person || trouble.backoff.tries() >= PATIENCE;
        self.trouble.as_ref().filter(lasts).map(|trouble| &*trouble.reason)
    }

    /// Tries everything again at once, and counts tries from here.
    pub fn hurry(&mut self, now: Duration) {
        self.quiet.hurry(now);
        self.failures.clear();
        if let Some(trouble) = &mut self.trouble {
            (trouble.again, trouble.backoff, trouble.needs_person) = (now, Backoff::new(), false);
        }
    }

    /// Whether something is tried again by itself, before anybody is told that it fails.
    pub fn tries_again_soon(&self) -> bool {
        !self.busy.is_empty()
            || self.trouble.is_some()
            || self.failures.values().any(|failure| !failure.is_told && failure.again.is_some())
    }

    /// When something is due next.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        let retries = self.failures.values().filter_map(|failure| failure.again).filter(|again| *again > now);
        let trouble = self.trouble.iter().map(|trouble| trouble.again).filter(|again| *again > now);
        let retries = retries.chain(trouble).filter(|_| self.paused.is_none());
        retries.chain(self.quiet.next()).min()
    }
}

/// The outbox's clock, and the time of day for people.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Since the start of the outbox.
    pub now: Duration,
    /// Unix time in ms.
    pub now_ms: u64,
}

fn is_same(before: &Node, node: &Node) -> bool {
    match node.intent {
        None => before == node,
        Some(_) => *before == Node { intent: None, ..node.clone() },
    }
}

/// Whether an action adds bytes to the remote.
fn needs_space(action: &Action) -> bool {
    match action {
        Action::Put { .. } => true,
        Action::Relocate { how, .. } => *how == crate::store::remote::Relocation::Copy,
        Action::MakeDirectory { .. }
        | Action::SetMeta { .. }
        | Action::Remove { .. }
        | Action::RemoveDirectory { .. }
        | Action::Settle { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::node::Place;
    use crate::store::remote::{Condition, Kind, Meta, Name, Version};

    const FILE: Ino = Ino(7);
    const SECOND: Duration = Duration::from_secs(1);

    fn place() -> Place {
        Place::new(Ino::ROOT, Name::new("f").unwrap())
    }

    fn put() -> Action {
        Action::Put { at: place(), when: Condition::Absent, content: 1, meta: 1 }
    }

    fn remove() -> Action {
        Action::Remove { at: place(), version: Version { tag: "1".into(), len: 1, written: None } }
    }

    fn node() -> Node {
        Node::made(Kind::File, place(), Meta::default(), 0)
    }

    fn trouble(is_full: bool) -> Trouble {
        Trouble { is_full, is_busy: false, needs_person: is_full, hint: None }
    }

    fn clocks(now: Duration) -> Clocks {
        Clocks { now, now_ms: 1_000_000 + now.as_millis() as u64 }
    }

    #[test]
    fn one_probe_at_a_time_asks_whether_trouble_is_over() {
        let mut desk = Desk::default();
        assert!(desk.free_lanes(SECOND) > 1);
        desk.troubled("away".into(), &trouble(false), SECOND);
        assert_eq!(desk.free_lanes(SECOND), 0);
        let later = desk.next(SECOND).unwrap();
        assert_eq!(desk.free_lanes(later), 1);
        desk.begin(FILE, &put(), 1);
        assert_eq!(desk.free_lanes(later), 0, "the probe is under way");
        desk.end(FILE);
        desk.succeeded(FILE, &put(), later);
        assert!(desk.free_lanes(later) > 1);
        assert_eq!(desk.trouble(), None);
    }

    #[test]
    fn what_fails_at_the_same_time_is_one_trouble() {
        let mut desk = Desk::default();
        for _ in 0..10 {
            desk.troubled("away".into(), &trouble(false), SECOND);
        }
        assert!(desk.next(SECOND).unwrap() <= SECOND + SECOND / 4);
        assert_eq!(desk.lasting_trouble(), None);
        let mut now = SECOND;
        for _ in 0..PATIENCE {
            now = desk.next(now).unwrap();
            desk.troubled("away".into(), &trouble(false), now);
        }
        assert_eq!(desk.lasting_trouble(), Some("away"));
    }

    #[test]
    fn a_full_remote_takes_all_but_uploads() {
        let mut desk = Desk::default();
        desk.troubled("full".into(), &trouble(true), SECOND);
        assert!(desk.free_lanes(SECOND) > 1);
        assert!(!desk.may_begin(&put(), 1, SECOND));
        assert!(desk.may_begin(&remove(), 0, SECOND));
        desk.succeeded(FILE, &remove(), SECOND);
        assert_eq!(desk.trouble(), Some("full"), "nobody knows yet");
        assert!(desk.may_begin(&put(), 1, SECOND), "but there may be space now");
    }

    #[test]
    fn few_large_uploads_go_at_a_time() {
        let mut desk = Desk::default();
        for ino in 0..2 {
            assert!(desk.may_begin(&put(), LARGE_BYTES + 1, SECOND));
            desk.begin(Ino(ino), &put(), LARGE_BYTES + 1);
        }
        assert!(!desk.may_begin(&put(), LARGE_BYTES + 1, SECOND));
        assert!(desk.may_begin(&put(), LARGE_BYTES, SECOND));
    }

    #[test]
    fn a_failure_is_that_of_the_file_as_it_was() {
        let mut desk = Desk::default();
        desk.failed(FILE, node(), "too large".into(), false, true, clocks(SECOND));
        assert!(desk.waits(FILE, &node(), 1000 * SECOND), "never by itself");
        assert_eq!(desk.failure(FILE, &node()).unwrap().again_ms, None);
        let mut changed = node();
        changed.content.as_mut().unwrap().generation += 1;
        assert!(!desk.waits(FILE, &changed, SECOND));
        desk.hurry(SECOND);
        assert!(!desk.waits(FILE, &node(), SECOND));
    }

    #[test]
    fn failures_that_may_pass_are_tried_more_and_more_seldom() {
        let (mut desk, mut now) = (Desk::default(), SECOND);
        for tries in 1..20 {
            desk.failed(FILE, node(), "locked".into(), true, false, clocks(now));
            assert_eq!(desk.tries(FILE, &node()), tries);
            assert_eq!(desk.failure(FILE, &node()).unwrap().is_told, tries > PATIENCE);
            assert!(desk.waits(FILE, &node(), now));
            let again = desk.next(now).unwrap();
            assert!(again > now && again <= now + 60 * SECOND);
            assert!(!desk.waits(FILE, &node(), again));
            now = again;
        }
        desk.retain(|_| false);
        assert_eq!(desk.next(SECOND), None);
    }
}
