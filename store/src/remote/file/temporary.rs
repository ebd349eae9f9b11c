//! Files under way. Each lies under `.holdall-upload-<device>-<random>` in the directory of its later name, so that one rename within one
//! file system completes it.
//!
//! A killed process leaves its files behind. The next listing of the directory by the same device removes them, and so does an opening for
//! the root itself. Nobody looks through the whole tree for them. A device sweeps only its own: the files of another device may be under
//! way at any age. Of its own, those under way are locked (flock), which every process of this computer sees, and which ends with the
//! process. Both sides take the directory's turn first, so that no file is swept between its creation and its lock.

use super::Tree;
use super::turn::Turn;
use crate::file::beneath::Spot;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A file under way. Unless it is [kept](Temporary::keep), dropping it removes it.
pub(super) struct Temporary(Option<Inner>);

struct Inner {
    spot: Spot,
    file: Arc<File>,
}

impl Temporary {
    /// Creates one in `directory` with these permission bits, or with those that the process gives new files.
    pub(super) fn create(tree: &Tree, directory: OwnedFd, mode: Option<u32>) -> io::Result<Self> {
        let spot = Spot { directory, leaf: tree.new_leaf() };
        let _turn = Turn::take(&spot.directory)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // Nobody else reads it while it is under way, unless everybody may read the complete file.
        let first = Mode::from_raw_mode(mode.map_or(0o666, |_| 0o600));
        let file = File::from(rustix::fs::openat(&spot.directory, &*spot.leaf, flags, first)?);
        // Without locks in the file system nothing is swept either.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Self(Some(Inner { spot, file: Arc::new(file) })))
    }

    pub(super) fn spot(&self) -> &Spot {
        &self.inner().spot
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.inner().file
    }

    fn inner(&self) -> &Inner {
        self.0.as_ref().expect("it is taken only when it is dropped or kept")
    }

    /// It has its name.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else { return };
        let remove = move || {
            // If this fails, the next listing sweeps it.
            let _ = inner.spot.remove();
        };
        // An upload that is no longer wanted is dropped by the runtime's own threads, which a directory that hangs must not stop.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

impl Tree {
    /// A new name for a file under way.
    pub(super) fn new_leaf(&self) -> String {
        format!("{}{:032x}", self.uploads, crate::entropy::u128())
    }

    /// Whether it is the name of one of this device's files under way.
    pub(super) fn is_own_upload(&self, leaf: &str) -> bool {
        leaf.starts_with(&self.uploads)
    }

    /// Removes this device's file of that name, unless it is under way.
    pub(super) fn sweep(&self, directory: &OwnedFd, leaf: &str) {
        if self.facts.read_only.is_some() || !self.is_own_upload(leaf) {
            return;
        }
        // What cannot be swept now is swept by another listing.
        let _ = sweep_now(directory, leaf);
    }
}

fn sweep_now(directory: &OwnedFd, leaf: &str) -> io::Result<()> {
    let _turn = Turn::take(directory)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::openat(directory, leaf, flags, Mode::empty()) {
        // A link is made in one step: what is left of it was left by a killed process, or is named within this turn.
        Err(Errno::LOOP) => {}
        Err(errno) => return Err(errno.into()),
        Ok(file) => {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            // Locked until it is gone.
            return Ok(rustix::fs::unlinkat(directory, leaf, AtFlags::empty())?);
        }
    }
    Ok(rustix::fs::unlinkat(directory, leaf, AtFlags::empty())?)
}
