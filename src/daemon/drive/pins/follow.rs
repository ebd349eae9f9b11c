//! Following the files below pinned paths while the drive is mounted: a path is scanned at the beginning, and again whenever something
//! below it has changed.
//!
//! A scan of hundreds of thousands of files takes seconds. So a path rests after a scan for a multiple of the time that the scan took,
//! however much changes meanwhile.

use super::super::Drive;
use super::super::scanning::{Heard, ScanError, Scanner};
use super::change::words;
use super::tally::{Figures, Tally};
use crate::daemon::pins::ROOT;
use crate::scanner::{Blind, Unscannable};
use holdall_core::volume::Volume;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A path rests for this many times as long as its last scan took.
const REST: u32 = 4;
/// After this time, data that had no place on the drive yet is scanned again.
const UNSETTLED: Duration = Duration::from_secs(10);
/// After this time, a failed scan is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// After this time, a path is scanned again if not all of its changes are reported.
const UNWATCHED: Duration = Duration::from_secs(300);
/// After this time, scanning continues if its process has ended.
const LOST: Duration = Duration::from_secs(5);

/// When to scan which path.
#[derive(Default)]
struct Agenda {
    due: BTreeMap<String, Instant>,
    rested: BTreeMap<String, Instant>,
}

impl Agenda {
    fn note(&mut self, path: String, at: Instant) {
        let at = self.rested.get(&path).map_or(at, |rested| at.max(*rested));
        let due = self.due.entry(path).or_insert(at);
        *due = (*due).min(at);
    }

    fn next(&self) -> Option<(&String, Instant)> {
        self.due.iter().min_by_key(|(_, at)| **at).map(|(path, at)| (path, *at))
    }
}

/// Scans all paths, and then those that change, until the drive is put down.
pub(super) async fn follow(
    drive: Weak<Drive>,
    volume: Weak<Volume>,
    scanner: Arc<Scanner>,
    mut heard: mpsc::UnboundedReceiver<Heard>,
) {
    let mut agenda = Agenda::default();
    let note_all = |agenda: &mut Agenda, drive: &Drive, at| {
        let (mut paths, whole) = drive.pins.wanted();
        if whole && !paths.iter().any(|path| path == ROOT) {
            paths.push(ROOT.to_owned());
        }
        paths.into_iter().for_each(|path| agenda.note(path, at));
    };
    match drive.upgrade() {
        Some(drive) => note_all(&mut agenda, &drive, Instant::now()),
        None => return,
    }
    loop {
        let next = agenda.next().map(|(_, at)| at);
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let Some(opened) = drive.upgrade() else { return };
        tokio::select! { biased;
            said = heard.recv() => match said {
                Some(Heard::Changed(paths)) => {
                    for path in paths {
                        match opened.pins.is_wanted(&path) {
                            true => agenda.note(path, Instant::now()),
                            false => scanner.forget(&path),
                        }
                    }
                }
                Some(Heard::Lost) => note_all(&mut agenda, &opened, Instant::now() + LOST),
                None => return,
            },
            () = opened.pins.look_again.notified() => note_all(&mut agenda, &opened, Instant::now()),
            () = due => {
                let Some(volume) = volume.upgrade() else { return };
                if let Some(path) = agenda.next().map(|(path, _)| path.clone()) {
                    agenda.due.remove(&path);
                    let begun = Instant::now();
                    let again = look(&opened, &volume, &path).await;
                    agenda.rested.insert(path.clone(), Instant::now() + begun.elapsed() * REST);
                    if let Some(after) = again {
                        agenda.note(path, Instant::now() + after);
                    }
                }
            }
        }
    }
}

/// Scans one path, and has the engine keep what is there now. Returns when to scan again even if nothing changes.
async fn look(drive: &Arc<Drive>, volume: &Volume, path: &str) -> Option<Duration> {
    if !drive.pins.is_wanted(path) {
        return None;
    }
    let found = drive.tally(path, (true, false), |_| ()).await;
    let _change = drive.pins.changing.lock().await;
    let again = {
        let mut state = drive.pins.state.lock();
        let Some(kept) = state.paths.get_mut(path) else {
            // It was unpinned meanwhile, or is the root of a drive that is pinned whole, whose files are only counted.
            return state.whole.then(|| count(&mut state.whole_files, found)).flatten();
        };
        match found {
            Ok(tally) => {
                let again = again_after(&tally.blind);
                let is_seen = !tally.blind.failed;
                (kept.tally, kept.is_seen, kept.problem) = (Some(Arc::new(tally)), is_seen, None);
                again
            }
            Err(error) => {
                kept.problem = Some(words(&error));
                // A file that is known to be gone is no longer kept; one that just cannot be seen is.
                if is_gone(&error) {
                    (kept.tally, kept.is_seen, kept.figures) = (None, true, Figures::default());
                }
                Some(TRY_AGAIN)
            }
        }
    };
    if let Err(error) = drive.apply_pins(volume) {
        tracing::warn!(drive = drive.name, %error, "pins cannot be saved yet");
        return Some(TRY_AGAIN);
    }
    again
}

/// Records the files of a drive that is pinned whole. Returns when to scan again.
fn count(files: &mut Option<Arc<Tally>>, found: Result<Tally, ScanError>) -> Option<Duration> {
    let again = match &found {
        Ok(tally) => again_after(&tally.blind),
        // So many files are not counted.
        Err(ScanError::TooMany) => None,
        Err(_) => Some(TRY_AGAIN),
    };
    *files = found.ok().map(Arc::new);
    again
}

/// When to scan again even if nothing changes, after a scan that could not see everything.
fn again_after(blind: &Blind) -> Option<Duration> {
    match blind {
        Blind { unsettled: true, .. } => Some(UNSETTLED),
        Blind { failed: true, .. } => Some(TRY_AGAIN),
        Blind { unwatched: true, .. } => Some(UNWATCHED),
        Blind { .. } => None,
    }
}

/// Whether nothing at the path can be kept, and no later scan will find anything there.
fn is_gone(error: &ScanError) -> bool {
    match error {
        ScanError::Unscannable(
            Unscannable::Missing | Unscannable::Link | Unscannable::Elsewhere | Unscannable::Special,
        ) => true,
        ScanError::Unscannable(Unscannable::Failed(_)) | ScanError::TooMany | ScanError::Gone(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_rests_after_a_look_and_is_then_due_once() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let mut agenda = Agenda::default();
        agenda.rested.insert("large".into(), after(40));
        for seconds in [9, 2, 30] {
            agenda.note("large".into(), after(seconds));
            agenda.note("small".into(), after(seconds));
        }
        assert_eq!(agenda.next(), Some((&"small".to_owned(), after(2))));
        agenda.due.remove("small");
        assert_eq!(agenda.next(), Some((&"large".to_owned(), after(40))));
        agenda.note("large".into(), after(50));
        assert_eq!(agenda.next(), Some((&"large".to_owned(), after(40))));
    }
}
