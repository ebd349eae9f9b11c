//! When to look whether a closed file may be uploaded. Pure.
//!
//! A program that saves often opens and closes a file several times, so a file rests for a while after its last close. A program may also
//! have closed its descriptor and still write through a mapping. Only the kernel knows: it grants a lease on the local file when nobody can
//! write to it any more. While it does not, the question is repeated more and more seldom.

use crate::folder::node::Ino;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a file rests after its last close.
pub const DELAY: Duration = Duration::from_secs(2);
/// How seldom a file that stays in use is looked at.
const LONGEST: Duration = Duration::from_secs(60);

/// The files that were closed, and that nobody has looked at since.
#[derive(Debug, Default)]
pub struct Quiet {
    files: BTreeMap<Ino, Watch>,
    /// Files that a program has made durable: it is done with them.
    synced: BTreeSet<Ino>,
}

#[derive(Debug)]
struct Watch {
    /// When to look. `None`: somebody is looking now.
    due: Option<Duration>,
    /// The wait before the next look, if the file is in use.
    wait: Duration,
    is_in_use: bool,
}

impl Quiet {
    /// A program has made the file durable.
    pub fn synced(&mut self, ino: Ino) {
        self.synced.insert(ino);
    }

    /// The last program that had the file open for writing has closed it.
    pub fn released(&mut self, ino: Ino, now: Duration) {
        let delay = if self.synced.remove(&ino) { Duration::ZERO } else { DELAY };
        self.files.insert(ino, Watch { due: Some(now + delay), wait: DELAY, is_in_use: false });
    }

    /// The files to look at now. Each is handed out once, until [`in_use`](Self::in_use) or [`released`](Self::released).
    pub fn take_due(&mut self, now: Duration) -> Vec<Ino> {
        let is_due = |watch: &&mut Watch| watch.due.is_some_and(|due| due <= now);
        let due = self.files.iter_mut().filter(|(_, watch)| is_due(watch));
        due.map(|(ino, watch)| {
            watch.due = None;
            *ino
        })
        .collect()
    }

    /// Somebody can still write to the file.
    pub fn in_use(&mut self, ino: Ino, now: Duration) {
        let watch = self.files.entry(ino).or_insert(Watch { due: None, wait: DELAY, is_in_use: false });
        if watch.due.is_none() {
            (watch.due, watch.is_in_use) = (Some(now + watch.wait), true);
            watch.wait = (watch.wait * 2).min(LONGEST);
        }
    }

    /// The file was looked at: it rests, is gone, or is open again. A close that came meanwhile still counts.
    pub fn looked_at(&mut self, ino: Ino) {
        if self.files.get(&ino).is_some_and(|watch| watch.due.is_none()) {
            self.files.remove(&ino);
        }
    }

    /// Looks at all files now.
    pub fn hurry(&mut self, now: Duration) {
        for watch in self.files.values_mut() {
            watch.is_in_use = false;
            watch.due = watch.due.map(|_| now);
        }
    }

    /// The files of which nobody knows yet whether they are in use.
    pub fn unseen(&self) -> BTreeSet<Ino> {
        self.files.iter().filter(|(_, watch)| !watch.is_in_use).map(|(ino, _)| *ino).collect()
    }

    /// Whether the file is one of these.
    pub fn is_unseen(&self, ino: Ino) -> bool {
        self.files.get(&ino).is_some_and(|watch| !watch.is_in_use)
    }

    /// When the next file is due.
    pub fn next(&self) -> Option<Duration> {
        self.files.values().filter_map(|watch| watch.due).min()
    }

    /// Whether nobody knows yet if the file rests.
    pub fn is_unknown(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// Whether the file was found in use.
    pub fn is_in_use(&self, ino: Ino) -> bool {
        self.files.get(&ino).is_some_and(|watch| watch.is_in_use)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_file_rests_for_a_while_after_its_last_close() {
        let mut quiet = Quiet::default();
        quiet.released(FILE, SECOND);
        quiet.released(FILE, 2 * SECOND);
        assert_eq!(quiet.take_due(3 * SECOND), []);
        assert_eq!(quiet.next(), Some(2 * SECOND + DELAY));
        assert_eq!(quiet.take_due(4 * SECOND), [FILE]);
        assert_eq!((quiet.take_due(5 * SECOND), quiet.is_unknown(FILE)), (vec![], true));
        quiet.looked_at(FILE);
        assert!(!quiet.is_unknown(FILE));
    }

    #[test]
    fn a_file_that_was_made_durable_is_looked_at_at_once() {
        let mut quiet = Quiet::default();
        quiet.synced(FILE);
        quiet.released(FILE, SECOND);
        assert_eq!(quiet.take_due(SECOND), [FILE]);
        quiet.looked_at(FILE);
        quiet.released(FILE, SECOND);
        assert_eq!(quiet.take_due(SECOND), [], "that counts for one close");
    }

    #[test]
    fn a_file_in_use_is_looked_at_more_and_more_seldom() {
        let (mut quiet, mut now) = (Quiet::default(), Duration::ZERO);
        quiet.released(FILE, now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let due = quiet.next().unwrap();
            waits.push((due - now).as_secs());
            now = due;
            assert_eq!(quiet.take_due(now), [FILE]);
            quiet.in_use(FILE, now);
            assert!(quiet.is_in_use(FILE));
        }
        assert_eq!(waits, [2, 2, 4, 8, 16, 32, 60, 60]);
        quiet.hurry(now);
        assert_eq!(quiet.take_due(now), [FILE]);
    }

    #[test]
    fn a_close_during_a_look_is_not_forgotten() {
        let mut quiet = Quiet::default();
        quiet.released(FILE, Duration::ZERO);
        assert_eq!(quiet.take_due(DELAY), [FILE]);
        quiet.released(FILE, DELAY);
        quiet.looked_at(FILE);
        assert_eq!(quiet.take_due(2 * DELAY), [FILE]);
    }
}
