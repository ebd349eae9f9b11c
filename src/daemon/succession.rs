//! Which process is the daemon of a state directory: the one that holds the lock there.
//!
//! The lock lives in the state directory because two daemons must not share what is there: the registry, the journals, the keys. The
//! runtime directory depends on the environment (cron, su and sudo use another one, and a logout removes it), so it cannot decide. It has a
//! lock of its own all the same: two state directories must not fight over one socket, and earlier versions checked only that lock.
//!
//! A second daemon yields to the first and exits with success, because two commands that find no daemon may each start one. A daemon that
//! systemd starts is there to stay: it makes the first one stop, which hands over what is open, and takes over from it. It never does so to
//! another daemon of systemd's, under another unit: each would be started again, and they would replace each other forever.
//!
//! The holder writes into the lock who it is and where it listens ([`Holding`]). Clients read that when they find no socket in their own
//! runtime directory. The former holder's record there says whether it ended or died, and where its disks are mounted.

use holdall_client::paths::{Holding, Paths, PathsError, open_private};
use holdall_client::request::request;
use holdall_client::start;
use hyper::Method;
use rustix::fs::{FlockOperation, Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How long the first daemon may take to stop: it writes back, and lets requests in flight end.
const STOP_PATIENCE: Duration = Duration::from_secs(90);
/// How long to wait for a daemon that systemd keeps: it may just be ending, and the lock's content may be its predecessor's.
const KEPT_PATIENCE: Duration = Duration::from_secs(3);
/// How long to wait for its answer. The answer itself does not matter, only that the lock becomes free.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The lock's name in both directories.
const LOCK: &str = "daemon.lock";

/// Which process is the daemon.
pub enum Turn {
    /// This process, while the claim lives.
    Ours(Claim),
    /// Another process.
    Anothers(Option<Holding>),
    /// Another process, which systemd also keeps.
    Kept(Option<Holding>),
}

/// Why nobody can say which process is the daemon.
#[derive(Debug, thiserror::Error)]
pub enum SuccessionError {
    /// A directory cannot be used.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// The file system does not lock files.
    #[error(
        "the file system of {} has no locks ({error}), and without them two background services could write to the same drives. Set \
         HOLDALL_STATE_DIR to a directory on a local disk, or mount the file system with locks", path.display()
    )]
    NoLocks {
        /// The directory.
        path: PathBuf,
        /// Its answer.
        error: io::Error,
    },
    /// The lock cannot be read or written.
    #[error("cannot use the lock in {}: {error}", path.display())]
    Lock {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Two computers share the state directory.
    #[error(
        "the background service of another computer ({host}) uses {}. Stop it there (holdall daemon stop), or set HOLDALL_STATE_DIR to a \
         directory that only this computer uses. Nothing was changed", path.display()
    )]
    Elsewhere {
        /// The directory.
        path: PathBuf,
        /// The other computer.
        host: String,
    },
    /// It was asked to stop, and does not stop.
    #[error("the background service that is already running (process {pid}) does not end")]
    DoesNotEnd {
        /// Its process.
        pid: u32,
    },
}

/// The right to be the daemon, until it is dropped.
pub struct Claim {
    /// In the state directory.
    state: File,
    /// In the runtime directory.
    runtime: File,
    holding: Holding,
    /// The former daemon's record in the lock.
    former: Option<Holding>,
}

impl Claim {
    /// Records where this process listens.
    pub fn listens_at(&mut self, sockets: Vec<PathBuf>) -> io::Result<()> {
        self.holding.sockets = sockets;
        self.sign()
    }

    /// Records that this process ended properly, so that the next daemon does not report a crash.
    pub fn ended(mut self) -> io::Result<()> {
        self.holding.sockets.clear();
        self.holding.ended = true;
        self.sign()
    }

    /// The former daemon, if it died since this computer was started.
    pub fn died_before(&self) -> Option<&Holding> {
        let former = self.former.as_ref().filter(|former| !former.ended)?;
        (former.boot.is_some() && former.boot == self.holding.boot).then_some(former)
    }

    /// The directory where disks are mounted and kept. The next daemon reads it from the lock.
    pub fn disks_at(&self) -> &Path {
        &self.holding.runtime
    }

    fn sign(&mut self) -> io::Result<()> {
        let said = serde_json::to_vec(&self.holding)?;
        for file in [&mut self.state, &mut self.runtime] {
            file.set_len(0)?;
            file.write_all(&said)?;
        }
        Ok(())
    }
}

/// Becomes the daemon of this state directory if there is none. With `kept` (by systemd), also replaces a daemon that systemd does not
/// keep.
pub async fn take(paths: &Paths, kept: bool) -> Result<Turn, SuccessionError> {
    let begun = Instant::now();
    let mut is_asked = false;
    loop {
        let holder = match try_take(paths, kept)? {
            Tried::Taken(claim) => return Ok(Turn::Ours(*claim)),
            Tried::Held(holder) => holder,
        };
        if let Some(there) = holder.as_ref().filter(|holder| holder.is_elsewhere()) {
            let (path, host) = (paths.state.clone(), there.host.clone());
            return Err(SuccessionError::Elsewhere { path, host });
        }
        if !kept {
            return Ok(Turn::Anothers(holder));
        }
        if holder.as_ref().is_some_and(|holder| holder.by_systemd) {
            if begun.elapsed() >= KEPT_PATIENCE {
                return Ok(Turn::Kept(holder));
            }
        } else if begun.elapsed() >= STOP_PATIENCE {
            return Err(SuccessionError::DoesNotEnd { pid: holder.map_or(0, |holder| holder.pid) });
        } else if !is_asked {
            // A daemon that is just starting or ending does not answer, and is asked again.
            is_asked = ask_to_stop(paths).await;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

enum Tried {
    Taken(Box<Claim>),
    /// Held by another process, with what it has recorded.
    Held(Option<Holding>),
}

fn try_take(paths: &Paths, kept: bool) -> Result<Tried, SuccessionError> {
    // Everybody locks the state directory first, so nobody waits for one lock while holding the other.
    let mut state = open(&paths.state)?;
    if !lock(&paths.state, &state)? {
        return Ok(Tried::Held(read(&mut state)));
    }
    let mut runtime = open(&paths.runtime)?;
    if !lock(&paths.runtime, &runtime)? {
        return Ok(Tried::Held(read(&mut runtime)));
    }
    let former = read(&mut state);
    let holding = Holding::of_this_process(disks_at(former.as_ref(), paths), kept);
    let mut claim = Claim { state, runtime, holding, former };
    let signed = claim.sign();
    signed.map_err(|error| SuccessionError::Lock { path: paths.state.clone(), error })?;
    Ok(Tried::Taken(Box::new(claim)))
}

/// The directory of disks: this process's runtime directory, or the former daemon's, if disks that are still in use are there.
fn disks_at<'a>(former: Option<&'a Holding>, paths: &'a Paths) -> &'a Path {
    let has_disks =
        |at: &Path| std::fs::read_dir(at.join("disks")).is_ok_and(|mut disks| disks.next().is_some());
    let former = former.map(|former| former.runtime.as_path()).filter(|at| *at != paths.runtime);
    let kept = former.filter(|at| open_private(at).is_ok() && has_disks(at));
    kept.unwrap_or(&paths.runtime)
}

/// Opens the lock in a directory that is private to this user. Never follows a link in its place: the file that it leads to would be
/// truncated.
fn open(directory: &Path) -> Result<File, SuccessionError> {
    let at = open_private(directory)?;
    // Open for writing: NFS grants an exclusive lock on nothing else.
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(&at, LOCK, flags, Mode::RUSR | Mode::WUSR).map(File::from);
    opened.map_err(|errno| SuccessionError::Lock { path: directory.to_owned(), error: errno.into() })
}

fn lock(directory: &Path, file: &File) -> Result<bool, SuccessionError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno @ (Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) => {
            Err(SuccessionError::NoLocks { path: directory.to_owned(), error: errno.into() })
        }
        Err(errno) => Err(SuccessionError::Lock { path: directory.to_owned(), error: errno.into() }),
    }
}

fn read(file: &mut File) -> Option<Holding> {
    let mut said = Vec::new();
    file.rewind().ok()?;
    file.take(Holding::BYTES_MAX).read_to_end(&mut said).ok()?;
    Holding::parse(&said)
}

/// Returns whether it was heard.
async fn ask_to_stop(paths: &Paths) -> bool {
    let asking = async {
        let stream = start::connect(paths).await.ok().flatten()?;
        let body = Some(b"{}".to_vec());
        request(stream, Method::POST, "/v1/daemon/stop", body).await.ok()
    };
    matches!(tokio::time::timeout(ANSWER_PATIENCE, asking).await, Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn paths(dir: &tempfile::TempDir, runtime: &str) -> Paths {
        let below = |name| dir.path().join(name);
        let paths = Paths { state: below("state"), cache: below("cache"), runtime: below(runtime) };
        paths.prepare().unwrap();
        paths
    }

    async fn ours(paths: &Paths, kept: bool) -> Claim {
        match take(paths, kept).await.unwrap() {
            Turn::Ours(claim) => claim,
            Turn::Anothers(_) | Turn::Kept(_) => panic!("nobody has it"),
        }
    }

    #[tokio::test]
    async fn a_second_daemon_yields_to_the_first_of_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(&dir, "run");
        let first = ours(&paths, true).await;
        assert!(matches!(take(&paths, false).await.unwrap(), Turn::Anothers(_)));
        assert!(matches!(take(&paths, true).await.unwrap(), Turn::Kept(_)));
        drop(first);
        let _first = ours(&paths, false).await;
        assert!(matches!(take(&paths, false).await.unwrap(), Turn::Anothers(_)));
    }

    #[tokio::test]
    async fn a_daemon_of_systemds_waits_until_the_first_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(&dir, "run");
        let first = ours(&paths, false).await;
        let ending = async {
            tokio::time::sleep(LOOK_EVERY * 2).await;
            drop(first);
        };
        let (taken, ()) = tokio::join!(take(&paths, true), ending);
        assert!(matches!(taken.unwrap(), Turn::Ours(_)));
    }

    #[tokio::test]
    async fn one_state_directory_has_one_daemon_in_any_runtime_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = ours(&paths(&dir, "run"), false).await;
        first.listens_at(vec![dir.path().join("run/daemon.sock")]).unwrap();
        let Turn::Anothers(Some(holder)) = take(&paths(&dir, "elsewhere"), false).await.unwrap() else {
            panic!("two daemons write to one state")
        };
        assert_eq!(holder.pid, std::process::id());
        assert_eq!(holder.sockets, [dir.path().join("run/daemon.sock")]);
    }

    #[tokio::test]
    async fn two_state_directories_do_not_share_a_runtime_directory() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let _first = ours(&paths(&dir, "run"), false).await;
        let mut second = paths(&other, "run");
        second.runtime = dir.path().join("run");
        assert!(matches!(take(&second, false).await.unwrap(), Turn::Anothers(Some(_))));
    }

    #[tokio::test]
    async fn a_lock_that_is_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(&dir, "run");
        let letter = dir.path().join("letter");
        std::fs::write(&letter, "dear").unwrap();
        for directory in [&paths.state, &paths.runtime] {
            symlink(&letter, directory.join(LOCK)).unwrap();
            assert!(matches!(take(&paths, false).await, Err(SuccessionError::Lock { .. })));
            std::fs::remove_file(directory.join(LOCK)).unwrap();
        }
        assert_eq!(std::fs::read(letter).unwrap(), b"dear");
    }

    #[tokio::test]
    async fn a_dead_daemon_differs_from_one_that_ended() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(&dir, "run");
        let first = ours(&paths, false).await;
        assert!(first.died_before().is_none(), "it is the first");
        first.ended().unwrap();
        let second = ours(&paths, false).await;
        assert!(second.died_before().is_none());
        // As the kernel does for a process that is killed.
        drop(second);
        let third = ours(&paths, false).await;
        assert_eq!(third.died_before().map(|former| former.pid), Some(std::process::id()));
    }

    #[tokio::test]
    async fn disks_stay_in_the_former_daemons_runtime_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (before, now) = (paths(&dir, "run"), paths(&dir, "elsewhere"));
        drop(ours(&before, false).await);
        let second = ours(&now, false).await;
        assert_eq!(second.disks_at(), now.runtime, "there are none");
        drop(second);
        std::fs::create_dir_all(before.runtime.join("disks/0")).unwrap();
        drop(ours(&before, false).await);
        // The daemon after the next one finds them too.
        for _ in 0..2 {
            assert_eq!(ours(&now, false).await.disks_at(), before.runtime);
        }
    }
}
