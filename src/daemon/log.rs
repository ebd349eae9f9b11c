//! The daemon's messages go to standard error, whatever that is.
//!
//! Under systemd that is journald, which bounds what it keeps. For a daemon that the command line has started it is `daemon.log`: at
//! [`LOG_BYTES_MAX`] the file becomes `daemon.log.old` and a new one begins. Standard output and standard error then lead to the new file,
//! so that it also gets panics and what libraries print.
//!
//! A line that cannot be written is lost, and nothing else happens: the code that logs is at work on somebody's data, and a full disk
//! causes the most messages.

use holdall_client::paths::Paths;
use parking_lot::Mutex;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write, stderr};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// How long a log may become. This file and the old one are all that a person ever has to read.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// The filter unless `HOLDALL_LOG` sets another.
const FILTER: &str = "info,sled=warn";

/// Sends all messages from here on to the log.
pub fn begin() {
    let asked = std::env::var("HOLDALL_LOG").ok().filter(|asked| !asked.is_empty());
    let filter = asked.as_deref().map(EnvFilter::try_new);
    let (filter, nonsense) = match filter {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (FILTER.into(), Some(error)),
        None => (FILTER.into(), None),
    };
    let log = Log::of_standard_error();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Writer(log.clone()))
        .with_ansi(false)
        // If standard error cannot be written, it would print that to standard error, and panic.
        .log_internal_errors(false)
        .init();
    if let Some(error) = nonsense {
        tracing::warn!(%error, "HOLDALL_LOG is not a valid filter; \"{FILTER}\" is used");
    }
}

/// A log file of bounded length.
struct Log {
    path: PathBuf,
    bytes_max: u64,
}

impl Log {
    /// The log that standard error leads to, if that is `daemon.log`.
    fn of_standard_error() -> Option<Arc<Mutex<Log>>> {
        let path = Paths::from_environment().ok()?.daemon_log();
        let ours = same_file(&metadata(stderr().as_fd()).ok()?, &path.metadata().ok()?);
        // Held while a line is written: two threads must not both begin a new log.
        ours.then(|| Arc::new(Mutex::new(Log { path, bytes_max: LOG_BYTES_MAX })))
    }

    /// The next log, if `current` is long enough.
    fn next(&self, current: &Metadata) -> io::Result<Option<File>> {
        if current.len() < self.bytes_max {
            return Ok(None);
        }
        // Another process may have been here first, or a person has removed it.
        if self.path.metadata().is_ok_and(|there| same_file(&there, current)) {
            std::fs::rename(&self.path, self.path.with_extension("log.old"))?;
        }
        OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path).map(Some)
    }
}

fn metadata(file: std::os::fd::BorrowedFd<'_>) -> io::Result<Metadata> {
    File::from(file.try_clone_to_owned()?).metadata()
}

fn same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

struct Writer(Option<Arc<Mutex<Log>>>);

impl Writer {
    /// Makes standard output and standard error lead to the next log once this one is long enough.
    fn turn(log: &Log) -> io::Result<()> {
        if let Some(next) = log.next(&metadata(stderr().as_fd())?)? {
            rustix::stdio::dup2_stdout(&next)?;
            rustix::stdio::dup2_stderr(&next)?;
        }
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let held = self.0.as_ref().map(|log| log.lock());
        if let Some(log) = &held {
            // A log that is too long is better than none.
            let _ = Self::turn(log);
        }
        // A line at a time; a line that cannot be written is lost.
        let _ = stderr().write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_long_enough_becomes_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log { path: dir.path().join("daemon.log"), bytes_max: 10 };
        std::fs::write(&log.path, "012345678").unwrap();
        assert!(log.next(&log.path.metadata().unwrap()).unwrap().is_none());
        std::fs::write(&log.path, "0123456789").unwrap();
        let long = log.path.metadata().unwrap();
        let mut next = log.next(&long).unwrap().unwrap();
        next.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(dir.path().join("daemon.log.old")).unwrap(), b"0123456789");
        // A process that still has the old log continues in the new one, and overwrites nothing.
        log.next(&long).unwrap().unwrap().write_all(b"er").unwrap();
        assert_eq!(std::fs::read(&log.path).unwrap(), b"newer");
        assert_eq!(std::fs::read(dir.path().join("daemon.log.old")).unwrap(), b"0123456789");
    }
}
