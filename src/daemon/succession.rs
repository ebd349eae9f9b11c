//! Which process is the daemon of a runtime directory: whoever holds the lock there.
//!
//! A second one leaves the field to the first and ends well, since two commands that find no daemon may start one each. But one that
//! systemd starts is there to stay, whoever came first: it has the first one stop, which hands over what is open, and goes on with that.
//! Only not from one that systemd keeps as well, under another unit: it would be started again, and both would take over from each other
//! for ever. So whoever gets the lock writes into it whether systemd keeps it.

use crate::cli::client;
use crate::cli::start;
use crate::paths::Paths;
use hyper::Method;
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// How long the first one may take to stop: it writes back, and lets requests in flight end.
const STOP_PATIENCE: Duration = Duration::from_secs(90);
/// How long one that systemd keeps is waited for: it may just be ending, and what is in the lock may be its predecessor's.
const KEPT_PATIENCE: Duration = Duration::from_secs(3);
/// How long its answer is waited for. What counts is that the lock becomes free.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What is in a lock whose holder systemd keeps.
const KEPT: &str = "systemd";

/// Whose turn it is.
pub enum Turn {
    /// This process's, while the file is open.
    Ours(File),
    /// Another process's.
    Anothers,
    /// Another process's, which systemd keeps too.
    Kept,
}

/// Becomes the daemon of this runtime directory, if nobody is; where systemd keeps this process, also if a daemon is that it
/// does not keep.
pub async fn take(paths: &Paths, kept: bool) -> io::Result<Turn> {
    let begun = Instant::now();
    let mut is_asked = false;
    loop {
        let mut file = open(&paths.runtime)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                sign(&mut file, kept)?;
                return Ok(Turn::Ours(file));
            }
            Err(rustix::io::Errno::WOULDBLOCK) if !kept => return Ok(Turn::Anothers),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(errno.into()),
        }
        if is_kept(&mut file)? {
            if begun.elapsed() >= KEPT_PATIENCE {
                return Ok(Turn::Kept);
            }
        } else if begun.elapsed() >= STOP_PATIENCE {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the service that runs already does not end",
            ));
        } else if !is_asked {
            // One that is just coming or going does not answer, and is asked again.
            is_asked = ask_to_stop(paths).await;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn open(runtime: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(runtime.join("daemon.lock"))
}

fn sign(file: &mut File, kept: bool) -> io::Result<()> {
    file.set_len(0)?;
    if kept { file.write_all(KEPT.as_bytes()) } else { Ok(()) }
}

fn is_kept(file: &mut File) -> io::Result<bool> {
    let mut said = String::new();
    file.take(KEPT.len() as u64).read_to_string(&mut said)?;
    Ok(said == KEPT)
}

/// Whether it was heard.
async fn ask_to_stop(paths: &Paths) -> bool {
    let asking = async {
        let stream = start::connect(paths).await.ok().flatten()?;
        let body = Some(b"{}".to_vec());
        client::request(stream, Method::POST, "/v1/daemon/stop", body).await.ok()
    };
    matches!(tokio::time::timeout(ANSWER_PATIENCE, asking).await, Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(dir: &tempfile::TempDir) -> Paths {
        let below = |name| dir.path().join(name);
        Paths { state: below("state"), cache: below("cache"), runtime: dir.path().to_owned() }
    }

    #[tokio::test]
    async fn a_second_one_leaves_the_field_to_the_first_and_so_does_systemds_to_another_of_systemds() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(&dir);
        let Turn::Ours(first) = take(&paths, true).await.unwrap() else { panic!("nobody has it") };
        assert!(matches!(take(&paths, false).await.unwrap(), Turn::Anothers));
        assert!(matches!(take(&paths, true).await.unwrap(), Turn::Kept));
        drop(first);
        let Turn::Ours(_first) = take(&paths, false).await.unwrap() else { panic!("nobody has it") };
        assert!(matches!(take(&paths, false).await.unwrap(), Turn::Anothers));
    }

    #[tokio::test]
    async fn one_that_systemd_starts_waits_until_the_first_one_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(&dir);
        let Turn::Ours(first) = take(&paths, false).await.unwrap() else { panic!("nobody has it") };
        let ending = async {
            tokio::time::sleep(LOOK_EVERY * 2).await;
            drop(first);
        };
        let (taken, ()) = tokio::join!(take(&paths, true), ending);
        assert!(matches!(taken.unwrap(), Turn::Ours(_)));
    }
}
