//! Copies and moves within the directory.
//!
//! A move is one rename, of trees too. A copy is made like an upload: a temporary file, whose bytes the file system shares or copies by
//! itself where it can.
//!
//! rename(2) does nothing, and succeeds, if both names belong to one file: a hard link, or one name in two spellings where the file system
//! folds names. The first needs its old name removed; for the second that would be the loss of the file. The directory's own list of names
//! tells them apart.

use super::temporary::Temporary;
use super::turn::Turn;
use super::write::is_file;
use super::{NONBLOCKING, Tree, entry};
use crate::file::beneath::Spot;
use crate::file::patience::Pulse;
use crate::remote::{Condition, Entry, Kind, Meta, Relocation, RemoteError, RemotePath, Version};
use rustix::fs::{Dir, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// Bytes between two signs of life of a copy.
const PIECE_BYTES: usize = 1 << 20;

impl Tree {
    pub(super) fn relocate_now(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: &Condition,
        how: Relocation,
        pulse: &Pulse,
    ) -> Result<Entry, RemoteError> {
        let (target, source) = (self.place(to)?, self.spot(from)?);
        let stat = self.expect(from, &source, version)?;
        match (how, entry::kind(&stat)) {
            (Relocation::Move, _) => self.rename(from, version, &source, to, &target, when, &stat),
            (Relocation::Copy, Some(Kind::File)) => self.copy(from, version, &source, to, when, pulse),
            (Relocation::Copy, Some(Kind::Link)) => {
                let (_, name) = self.split(from)?;
                let link = self.look(&source.directory, &name).map_err(|error| self.explain(from, error))?;
                let meta = link.and_then(|link| link.meta).unwrap_or_default();
                let target = meta.link.clone().ok_or_else(|| RemoteError::Changed(from.clone()))?;
                self.write_link(to, &target, &meta, when)
            }
            (Relocation::Copy, Some(Kind::Directory) | None) => {
                Err(RemoteError::Unsupported("copy a directory"))
            }
        }
    }

    /// What is at `from`, if it is the right version.
    fn expect(&self, from: &RemotePath, source: &Spot, version: &Version) -> Result<Stat, RemoteError> {
        let stat = entry::stat(&source.directory, &source.leaf).map_err(|error| self.explain(from, error))?;
        match entry::kind(&stat) {
            Some(Kind::Directory) => Ok(stat),
            Some(Kind::File | Kind::Link) if self.version(&stat) == *version => Ok(stat),
            Some(Kind::File | Kind::Link) | None => Err(RemoteError::Changed(from.clone())),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "both ends of a move, each by name and by place")]
    fn rename(
        &self,
        from: &RemotePath,
        version: &Version,
        source: &Spot,
        to: &RemotePath,
        target: &Spot,
        when: &Condition,
        stat: &Stat,
    ) -> Result<Entry, RemoteError> {
        let explain = |error| self.explain(to, error);
        let turns = Turn::take_both(&source.directory, &target.directory).map_err(explain)?;
        self.expect(from, source, version)?;
        let there = match entry::stat(&target.directory, &target.leaf) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            there => Some(there.map_err(explain)?),
        };
        let is_one_file =
            there.is_some_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino));
        if from == to {
            // Nothing to do.
        } else if is_one_file && is_one_name(source, target).map_err(explain)? {
            // Another spelling of its own name: nothing else has it.
            source.rename(target).map_err(explain)?;
        } else if is_one_file {
            self.check(to, target, when)?;
            source.remove().map_err(|error| self.explain(from, error))?;
        } else if entry::kind(stat) == Some(Kind::Directory) && *when == Condition::Always {
            // The file system replaces an empty directory, and nothing else.
            source.rename(target).map_err(explain)?;
        } else {
            self.name(to, source, target, when)?;
        }
        drop(turns);
        // The new name first: after a power cut there are two names rather than none.
        self.settle(to, target)?;
        self.settle(from, source)?;
        let (_, name) = self.split(to)?;
        let entry = self.look(&target.directory, &name).map_err(explain)?;
        entry.ok_or_else(|| RemoteError::Changed(to.clone()))
    }

    fn copy(
        &self,
        from: &RemotePath,
        version: &Version,
        source: &Spot,
        to: &RemotePath,
        when: &Condition,
        pulse: &Pulse,
    ) -> Result<Entry, RemoteError> {
        let explain = |error| self.explain(from, error);
        let target = self.place(to)?;
        self.check(to, &target, when)?;
        let old = self.open_version(from, source, version)?;
        let stat = rustix::fs::fstat(&old).map_err(|errno| explain(errno.into()))?;
        let mode = Some(stat.st_mode & entry::MODE);
        let temporary =
            Temporary::create(self, target.directory, mode).map_err(|error| self.explain(to, error))?;
        copy_bytes(&old, temporary.file(), version.len, pulse).map_err(|error| self.explain(to, error))?;
        // All bytes are of one version if it is still the same.
        self.expect_open(from, &old, version)?;
        let xattrs = match self.has_xattrs {
            true => entry::xattrs_of(&old).map_err(explain)?,
            false => Default::default(),
        };
        let meta = Meta { mode, mtime: Some(entry::mtime(&stat)), xattrs, link: None };
        self.finish(to, temporary, version.len, &meta, when)
    }

    /// Opens one version of a file for reading.
    pub(super) fn open_version(
        &self,
        path: &RemotePath,
        spot: &Spot,
        version: &Version,
    ) -> Result<File, RemoteError> {
        // A file that is replaced by a pipe or a device meanwhile is not waited for.
        let flags = OFlags::RDONLY | NONBLOCKING;
        let file = match rustix::fs::openat(&spot.directory, &*spot.leaf, flags, Mode::empty()) {
            // A link, a socket or a device without a driver stands there now.
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Err(RemoteError::Changed(path.clone())),
            opened => File::from(opened.map_err(|errno| self.explain(path, errno.into()))?),
        };
        self.expect_open(path, &file, version)?;
        Ok(file)
    }

    /// An error unless an open file is this version.
    pub(super) fn expect_open(
        &self,
        path: &RemotePath,
        file: &File,
        version: &Version,
    ) -> Result<(), RemoteError> {
        let stat = rustix::fs::fstat(file).map_err(|errno| self.explain(path, errno.into()))?;
        match is_file(&stat) && self.version(&stat) == *version {
            true => Ok(()),
            false => Err(RemoteError::Changed(path.clone())),
        }
    }
}

/// Whether two spots that lead to one file are two spellings of one name. False for hard links.
fn is_one_name(a: &Spot, b: &Spot) -> io::Result<bool> {
    let place = |spot: &Spot| rustix::fs::fstat(&spot.directory).map(|stat| (stat.st_dev, stat.st_ino));
    if place(a)? != place(b)? {
        return Ok(false);
    }
    let mut listed = 0;
    for entry in Dir::read_from(&a.directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        listed += usize::from(name == a.leaf.as_bytes()) + usize::from(name == b.leaf.as_bytes());
    }
    Ok(listed < 2)
}

/// Copies `len` bytes: shared, if the file system can; else copied by it; else through this process.
fn copy_bytes(from: &File, to: &File, len: u64, pulse: &Pulse) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let mut at = 0;
    while at < len {
        let piece = PIECE_BYTES.min((len - at) as usize);
        let (mut read_at, mut write_at) = (at, at);
        let copied = rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), piece);
        let copied = match copied {
            Ok(copied) => copied,
            Err(Errno::NOSYS | Errno::XDEV | Errno::INVAL | Errno::NOTSUP | Errno::IO | Errno::PERM) => {
                let mut bytes = vec![0; piece];
                let read = from.read_at(&mut bytes, at)?;
                to.write_all_at(&bytes[..read], at)?;
                read
            }
            Err(errno) => return Err(errno.into()),
        };
        if copied == 0 {
            // It was cut short meanwhile; the comparison of versions says so.
            return Ok(());
        }
        at += copied as u64;
        pulse.beat();
    }
    Ok(())
}
