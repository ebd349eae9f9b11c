//! How a complete file gets its name, under a condition.
//!
//! "Absent" is decided by the file system: a rename that replaces nothing, or a hard link. "Matches" compares and renames within a turn, so
//! that of two Holdall processes only one wins. Another program may replace the file between the comparison and the rename. So the two
//! files are exchanged in one step, and what came out is compared once more. If another program was faster, its file goes back. For that
//! moment readers see the new file; nothing is lost.
//!
//! Where the file system cannot exchange two files, or where other computers may change it, nothing decides but the look before: a window
//! of microseconds is left, and the remote says so ([`Facts::has_conditions`](crate::remote::Facts::has_conditions)).

use super::{Tree, entry};
use crate::file::beneath::{self, Spot};
use crate::remote::{Condition, Kind, RemoteError, RemotePath, Version};
use rustix::fs::RenameFlags;
use std::io::{self, ErrorKind};

impl Tree {
    /// Gives `new`, a file or link that is complete, the name `target`. Needs the turn of both directories. Afterwards, nothing has the
    /// name `new`.
    pub(super) fn name(
        &self,
        path: &RemotePath,
        new: &Spot,
        target: &Spot,
        when: &Condition,
    ) -> Result<(), RemoteError> {
        let explain = |error| self.explain(path, error);
        self.check(path, target, when)?;
        match when {
            Condition::Always => new.rename(target).map_err(explain),
            Condition::Absent => self.name_new(new, target).map_err(explain),
            Condition::Matches(_) if !self.exchanges => new.rename(target).map_err(explain),
            Condition::Matches(expected) => match self.swap(new, target, expected) {
                Ok(true) => new.remove().map_err(explain),
                Ok(false) => Err(RemoteError::Changed(path.clone())),
                Err(error) if error.kind() == ErrorKind::NotFound => Err(RemoteError::Changed(path.clone())),
                Err(error) => Err(explain(error)),
            },
        }
    }

    /// Gives `new` a name that nothing has.
    fn name_new(&self, new: &Spot, target: &Spot) -> io::Result<()> {
        match new.rename_new(target) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            named => return named,
        }
        match target.len() {
            Err(error) if error.kind() == ErrorKind::NotFound => new.rename(target),
            Err(error) => Err(error),
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    /// Exchanges the two. `false`, with both as they were, if what was at `target` is not `expected`.
    fn swap(&self, new: &Spot, target: &Spot, expected: &Version) -> io::Result<bool> {
        let ours = entry::stat(&new.directory, &new.leaf)?;
        exchange(new, target)?;
        let out = entry::stat(&new.directory, &new.leaf)?;
        if self.version(&out) == *expected {
            return Ok(true);
        }
        exchange(new, target)?;
        let back = entry::stat(&new.directory, &new.leaf)?;
        if (back.st_dev, back.st_ino) != (ours.st_dev, ours.st_ino) {
            // Other programs have replaced the file twice meanwhile: the later one stays, as it does without us.
            exchange(new, target)?;
        }
        Ok(false)
    }

    /// Removes a file or link of that name. Needs the directory's turn.
    pub(super) fn unname(
        &self,
        path: &RemotePath,
        target: &Spot,
        when: &Condition,
    ) -> Result<(), RemoteError> {
        let explain = |error| self.explain(path, error);
        let stat = entry::stat(&target.directory, &target.leaf).map_err(explain)?;
        if matches!(entry::kind(&stat), None | Some(Kind::Directory)) {
            return Err(RemoteError::Changed(path.clone()));
        }
        match when {
            Condition::Always => return target.remove().map_err(explain),
            Condition::Absent => return Err(RemoteError::Changed(path.clone())),
            Condition::Matches(expected) if self.version(&stat) != *expected => {
                return Err(RemoteError::Changed(path.clone()));
            }
            Condition::Matches(_) if !self.exchanges => return target.remove().map_err(explain),
            Condition::Matches(_) => {}
        }
        // As with `swap`: what another program puts there at the last moment comes back.
        let Condition::Matches(expected) = when else { return Ok(()) };
        let directory = target.directory.try_clone().map_err(explain)?;
        let aside = Spot { directory, leaf: self.new_leaf() };
        target.rename(&aside).map_err(explain)?;
        let out = entry::stat(&aside.directory, &aside.leaf).map_err(explain)?;
        if self.version(&out) == *expected {
            return aside.remove().map_err(explain);
        }
        match aside.rename_new(target) {
            // A still later one has the name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => aside.remove().map_err(explain)?,
            back => back.map_err(explain)?,
        }
        Err(RemoteError::Changed(path.clone()))
    }

    /// An error if the condition does not hold now.
    pub(super) fn check(
        &self,
        path: &RemotePath,
        target: &Spot,
        when: &Condition,
    ) -> Result<(), RemoteError> {
        let stat = match entry::stat(&target.directory, &target.leaf) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            stat => Some(stat.map_err(|error| self.explain(path, error))?),
        };
        let is_directory = |stat| entry::kind(stat) == Some(Kind::Directory);
        let holds = match (when, &stat) {
            (_, Some(stat)) if is_directory(stat) => false,
            (Condition::Always, _) | (Condition::Absent, None) => true,
            (Condition::Absent, Some(_)) | (Condition::Matches(_), None) => false,
            (Condition::Matches(expected), Some(stat)) => self.version(stat) == *expected,
        };
        if holds { Ok(()) } else { Err(RemoteError::Changed(path.clone())) }
    }

    /// Makes a directory's names durable.
    pub(super) fn settle(&self, path: &RemotePath, spot: &Spot) -> Result<(), RemoteError> {
        beneath::sync(&spot.directory).map_err(|error| self.explain(path, error))
    }
}

/// Exchanges two files in one step.
pub(super) fn exchange(a: &Spot, b: &Spot) -> io::Result<()> {
    let flags = RenameFlags::EXCHANGE;
    Ok(rustix::fs::renameat_with(&a.directory, &*a.leaf, &b.directory, &*b.leaf, flags)?)
}
