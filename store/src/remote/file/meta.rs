//! What a file has beside its bytes: permission bits, the time of the last change, the users' attributes.

use super::entry::{self, MODE, USERS};
use super::{NONBLOCKING, Tree};
use crate::remote::{Entry, Kind, Meta, RemoteError, RemotePath, Time, Version};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Access rights beyond the permission bits. Kept like what users set.
const ACL: &str = "system.posix_acl_access";

impl Tree {
    pub(super) fn set_meta_now(
        &self,
        path: &RemotePath,
        version: &Version,
        meta: &Meta,
    ) -> Result<Entry, RemoteError> {
        let explain = |error| self.explain(path, error);
        let (name, file, stat) = match path.split() {
            None => {
                let root = self.root()?;
                let stat = rustix::fs::fstat(&root).map_err(|errno| explain(errno.into()))?;
                (crate::remote::Name::of_root(), root, stat)
            }
            Some((_, name)) => {
                let spot = self.spot(path)?;
                let stat = entry::stat(&spot.directory, &spot.leaf).map_err(explain)?;
                if entry::kind(&stat) == Some(Kind::Link) {
                    self.expect_version(path, &stat, version)?;
                    if let Some(time) = meta.mtime {
                        let times = times(time);
                        rustix::fs::utimensat(
                            &spot.directory,
                            &*spot.leaf,
                            &times,
                            AtFlags::SYMLINK_NOFOLLOW,
                        )
                        .map_err(|errno| explain(errno.into()))?;
                    }
                    let entry = self.look(&spot.directory, &name).map_err(explain)?;
                    return entry.ok_or_else(|| RemoteError::Changed(path.clone()));
                }
                let flags = OFlags::RDONLY | NONBLOCKING;
                let file = rustix::fs::openat(&spot.directory, &*spot.leaf, flags, Mode::empty())
                    .map_err(|errno| explain(errno.into()))?;
                let stat = rustix::fs::fstat(&file).map_err(|errno| explain(errno.into()))?;
                (name, file, stat)
            }
        };
        match entry::kind(&stat) {
            Some(Kind::File) => self.expect_version(path, &stat, version)?,
            Some(Kind::Directory) => {}
            Some(Kind::Link) | None => return Err(RemoteError::Changed(path.clone())),
        }
        self.leave_only(path, &file, meta)?;
        self.apply(path, &file, meta)?;
        rustix::fs::fsync(&file).map_err(|errno| explain(errno.into()))?;
        self.entry_of(&name, &file).map_err(explain)
    }

    fn expect_version(&self, path: &RemotePath, stat: &Stat, version: &Version) -> Result<(), RemoteError> {
        match self.version(stat) == *version {
            true => Ok(()),
            false => Err(RemoteError::Changed(path.clone())),
        }
    }

    /// Removes the users' attributes that `meta` does not name.
    fn leave_only(&self, path: &RemotePath, file: &OwnedFd, meta: &Meta) -> Result<(), RemoteError> {
        if !self.has_xattrs {
            return Ok(());
        }
        let there = entry::xattrs_of(file).map_err(|error| self.explain(path, error))?;
        for name in there.keys().filter(|name| !meta.xattrs.contains_key(*name)) {
            match rustix::fs::fremovexattr(file, name.as_str()) {
                Ok(()) | Err(Errno::NODATA) => {}
                Err(errno) => return Err(self.explain(path, errno.into())),
            }
        }
        Ok(())
    }

    /// Sets what `meta` names on an open file or directory. The time comes last, since the rest does not move it.
    pub(super) fn apply(&self, path: &RemotePath, file: &impl AsFd, meta: &Meta) -> Result<(), RemoteError> {
        let explain = |errno: Errno| self.explain(path, errno.into());
        for (name, value) in meta.xattrs.iter().filter(|(name, _)| self.has_xattrs && name.starts_with(USERS))
        {
            rustix::fs::fsetxattr(file, name.as_str(), value, XattrFlags::empty()).map_err(|errno| {
                match errno {
                    // Not the disk is full, but the space that the file system has for them.
                    Errno::NOSPC | Errno::TOOBIG | Errno::RANGE => {
                        RemoteError::Unsupported("keep extended attributes that are so long")
                    }
                    errno => explain(errno),
                }
            })?;
        }
        if let Some(mode) = meta.mode.filter(|_| self.facts.keeps_meta) {
            let others = rustix::fs::fstat(file).map_err(explain)?.st_mode & 0o7000;
            rustix::fs::fchmod(file, Mode::from_raw_mode(others | mode & MODE)).map_err(explain)?;
        }
        if let Some(time) = meta.mtime {
            match rustix::fs::futimens(file, &times(time)) {
                // A time that the file system cannot express is left to it.
                Ok(()) | Err(Errno::INVAL | Errno::OVERFLOW) => {}
                Err(errno) => return Err(explain(errno)),
            }
        }
        Ok(())
    }

    /// Gives `new` what the file that it replaces has, as far as this process may.
    pub(super) fn inherit(&self, old: &impl AsFd, new: &impl AsFd, old_stat: &Stat) -> io::Result<()> {
        let (owner, group) = (Uid::from_raw(old_stat.st_uid), Gid::from_raw(old_stat.st_gid));
        // An ordinary user may keep the group, if it is one of theirs.
        let _ = rustix::fs::fchown(new, Some(owner), Some(group))
            .or_else(|_| rustix::fs::fchown(new, None, Some(group)));
        let mut acl = [0; 4096];
        if let Ok(len) = rustix::fs::fgetxattr(old, ACL, &mut acl[..]) {
            let _ = rustix::fs::fsetxattr(new, ACL, &acl[..len], XattrFlags::empty());
        }
        if self.has_xattrs {
            for (name, value) in entry::xattrs_of(old)? {
                rustix::fs::fsetxattr(new, name, &value, XattrFlags::empty())?;
            }
        }
        let mode = Mode::from_raw_mode(old_stat.st_mode & MODE);
        match rustix::fs::fchmod(new, mode) {
            Err(_) if !self.facts.keeps_meta => Ok(()),
            done => Ok(done?),
        }
    }
}

/// The argument of utimensat that sets the time of the last change.
pub(super) fn times(Time(time): Time) -> Timestamps {
    let second = 1_000_000_000;
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let seconds =
        i64::try_from(time.div_euclid(second)).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX });
    let last_modification = Timespec { tv_sec: seconds, tv_nsec: time.rem_euclid(second) as _ };
    Timestamps { last_access: omit, last_modification }
}
