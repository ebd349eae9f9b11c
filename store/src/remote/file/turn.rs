//! Turns: of all Holdall processes of this computer, one at a time changes the names of a directory.
//!
//! A turn is an flock on the directory. It belongs to the open directory, so that two threads of one process exclude each other too, and
//! ends with the process. Other programs take no turns; `naming` says what happens if they change the same name. On a file system without
//! locks there are no turns, and the remote does not claim that conditions hold there.

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Ends when it is dropped.
pub(super) struct Turn(Option<OwnedFd>);

impl Turn {
    /// Waits for the turn in `directory`.
    pub(super) fn take(directory: &OwnedFd) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
        match rustix::io::retry_on_intr(|| rustix::fs::flock(&own, FlockOperation::LockExclusive)) {
            Err(Errno::NOLCK | Errno::NOSYS | Errno::NOTSUP | Errno::INVAL | Errno::BADF) => Ok(Self(None)),
            locked => Ok(locked.map(|()| Self(Some(own)))?),
        }
    }

    /// Waits for the turns in two directories, which may be one. All processes take them in the same order, so none waits for another in a
    /// circle.
    pub(super) fn take_both(a: &OwnedFd, b: &OwnedFd) -> io::Result<(Self, Self)> {
        let place = |directory: &OwnedFd| {
            let stat = rustix::fs::fstat(directory)?;
            Ok::<_, io::Error>((stat.st_dev, stat.st_ino))
        };
        let (place_a, place_b) = (place(a)?, place(b)?);
        if place_a == place_b {
            return Ok((Self::take(a)?, Self(None)));
        }
        let (first, second) = if place_a < place_b { (a, b) } else { (b, a) };
        Ok((Self::take(first)?, Self::take(second)?))
    }

    /// Whether it excludes others.
    pub(super) fn is_exclusive(&self) -> bool {
        self.0.is_some()
    }
}
