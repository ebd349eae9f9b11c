//! Noticing changes: inotify on the directories that scans have walked through.
//!
//! A report says only that something has changed at or below a path; the receiver then scans the path again, which also watches new
//! directories. Changes within a second are reported together. A file that is written to and stays open is reported less often: its blocks
//! seldom change, and asking for them makes the kernel write it back.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Changes are reported this long after the first of them.
const AFTER_CHANGE: Duration = Duration::from_secs(1);
/// The same for a file that is being written.
const AFTER_WRITE: Duration = Duration::from_secs(15);

const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// The watches of this process.
pub struct Watches {
    inotify: OwnedFd,
    // Held to look a watch up or to change one.
    known: Mutex<HashMap<i32, Vec<Interest>>>,
}

/// A path that a directory's changes are reported for.
struct Interest {
    path: String,
    /// If set, only changes of the entry with this name.
    name: Option<OsString>,
    /// The scan that last walked through it.
    scan: u64,
}

impl Watches {
    /// Watches nothing yet.
    pub fn new() -> Result<Self, Errno> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { inotify, known: Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<i32, Vec<Interest>>> {
        // A thread that panicked has left it consistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches an open directory for `path` and the scan `scan`: all entries, or the one with the name.
    pub fn add(
        &self,
        directory: BorrowedFd<'_>,
        path: &str,
        name: Option<&OsStr>,
        scan: u64,
    ) -> Result<(), Errno> {
        // Locked over both steps, so that no event arrives before the interest is recorded.
        let mut known = self.known();
        let at = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let watch = inotify::add_watch(&self.inotify, at.as_str(), WATCHED)?;
        let interests = known.entry(watch).or_default();
        let same = |interest: &&mut Interest| interest.path == path && interest.name.as_deref() == name;
        match interests.iter_mut().find(same) {
            Some(interest) => interest.scan = scan,
            None => interests.push(Interest { path: path.to_owned(), name: name.map(OsStr::to_owned), scan }),
        }
        Ok(())
    }

    /// A scan has ended: stops watching, for `path`, directories that this scan did not walk through.
    pub fn scanned(&self, path: &str, scan: u64) {
        self.retain(|interest| interest.path != path || interest.scan == scan);
    }

    /// Stops watching for a path.
    pub fn forget(&self, path: &str) {
        self.retain(|interest| interest.path != path);
    }

    fn retain(&self, keep: impl Fn(&Interest) -> bool) {
        self.known().retain(|watch, interests| {
            interests.retain(&keep);
            if interests.is_empty() {
                // It may have vanished with its directory.
                let _ = inotify::remove_watch(&self.inotify, *watch);
            }
            !interests.is_empty()
        });
    }

    /// Waits for changes, and reports them, until `tell` says that nobody listens.
    pub fn follow(&self, mut tell: impl FnMut(Vec<String>) -> bool) {
        let mut due: HashMap<String, Instant> = HashMap::new();
        loop {
            let next = due.values().min().map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = next.map(|next| Timespec {
                tv_sec: next.as_secs().cast_signed(),
                tv_nsec: next.subsec_nanos().into(),
            });
            let ready =
                rustix::event::poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], timeout.as_ref());
            if ready.is_ok_and(|ready| ready > 0) {
                self.read(&mut due);
            }
            let now = Instant::now();
            let over: Vec<_> =
                due.iter().filter(|(_, at)| **at <= now).map(|(path, _)| path.clone()).collect();
            due.retain(|path, _| !over.contains(path));
            if !over.is_empty() && !tell(over) {
                return;
            }
        }
    }

    fn read(&self, due: &mut HashMap<String, Instant>) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 16 << 10];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut known = self.known();
        let mut note = |path: &str, after: Duration| {
            let at = Instant::now() + after;
            let noted = due.entry(path.to_owned()).or_insert(at);
            *noted = (*noted).min(at);
        };
        while let Ok(event) = events.next() {
            let kind = event.events();
            if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                // Any path may have changed.
                known.values().flatten().for_each(|interest| note(&interest.path, AFTER_CHANGE));
                continue;
            }
            if kind.contains(ReadFlags::IGNORED) {
                known.remove(&event.wd());
                continue;
            }
            let after = if kind == ReadFlags::MODIFY { AFTER_WRITE } else { AFTER_CHANGE };
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            for interest in known.get(&event.wd()).into_iter().flatten() {
                if interest.name.is_none() || interest.name.as_deref() == name {
                    note(&interest.path, after);
                }
            }
        }
    }
}
