//! Uploads: fill a temporary file piece by piece, sync it, give it its name, and sync the directory.
//!
//! An acknowledged upload survives a power cut, and readers see the old file or the new one, whole. A try that is cut off leaves nothing
//! worth continuing, since a disk takes a file as fast as it is read: nothing is resumed, and what is unchanged is written too.

use super::entry::{self, MODE};
use super::temporary::Temporary;
use super::turn::Turn;
use super::{FileRemote, NONBLOCKING, Tree};
use crate::StoreError;
use crate::file::beneath::Spot;
use crate::pace::Direction;
use crate::remote::{Condition, Entry, Kind, Meta, Put, ReadAt, RemoteError, RemotePath};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes between two signs of progress.
const PIECE_BYTES: u64 = 1 << 20;

impl FileRemote {
    pub(super) async fn write_now(&self, put: Put<'_>) -> Result<Entry, RemoteError> {
        let (path, meta, when) = (put.path.clone(), put.meta.clone(), put.when.clone());
        if let Some(target) = put.meta.link.clone() {
            let link = move |tree: &Tree, _: &_| tree.write_link(&path, &target, &meta, &when);
            return self.run(0, link).await;
        }
        // The condition is checked first too: no bandwidth is spent on what cannot be.
        let begun = move |tree: &Tree, _: &_| tree.begin(&path, &meta, &when);
        let mut temporary = self.run(0, begun).await?;
        let mut at = 0;
        while at < put.len {
            let len = PIECE_BYTES.min(put.len - at);
            self.pacer.pass(Direction::Up, len as usize).await;
            let (path, content) = (put.path.clone(), put.content.clone());
            let fill = move |tree: &Tree, _: &_| {
                tree.fill(&path, temporary.file(), &*content, at, len).map(|()| temporary)
            };
            temporary = self.run(len, fill).await?;
            put.progress.sent(len);
            at += len;
        }
        let (path, meta, when, len) = (put.path.clone(), put.meta.clone(), put.when, put.len);
        self.run(len, move |tree, _| tree.finish(&path, temporary, len, &meta, &when)).await
    }
}

impl Tree {
    fn begin(&self, path: &RemotePath, meta: &Meta, when: &Condition) -> Result<Temporary, RemoteError> {
        let target = self.place(path)?;
        self.check(path, &target, when)?;
        let old = entry::stat(&target.directory, &target.leaf).ok();
        let mode = meta.mode.or(old.filter(is_file).map(|stat| stat.st_mode & MODE));
        Temporary::create(self, target.directory, mode).map_err(|error| self.explain(path, error))
    }

    fn fill(
        &self,
        path: &RemotePath,
        file: &File,
        content: &dyn ReadAt,
        at: u64,
        len: u64,
    ) -> Result<(), RemoteError> {
        let mut piece = vec![0; len as usize];
        content.read_at(&mut piece, at).map_err(|error| RemoteError::Local(error.to_string()))?;
        file.write_all_at(&piece, at).map_err(|error| self.explain(path, error))
    }

    /// Completes a file that has all its bytes.
    pub(super) fn finish(
        &self,
        path: &RemotePath,
        temporary: Temporary,
        len: u64,
        meta: &Meta,
        when: &Condition,
    ) -> Result<Entry, RemoteError> {
        let explain = |error| self.explain(path, error);
        let target = self.spot(path)?;
        let file = temporary.file().clone();
        self.inherit_from(&target, &file).map_err(explain)?;
        self.apply(path, &file, meta)?;
        file.sync_all().map_err(explain)?;
        let stored = file.metadata().map_err(explain)?.len();
        if stored != len {
            let reason = format!("{path} has {stored} bytes after {len} were written");
            return Err(StoreError::Unreachable { reason }.into());
        }
        let turn = Turn::take(&target.directory).map_err(explain)?;
        // The directory may have been replaced meanwhile: the file goes where its path leads now, if that is the same file system.
        self.name(path, temporary.spot(), &target, when)?;
        temporary.keep();
        drop(turn);
        self.settle(path, &target)?;
        let (_, name) = self.split(path)?;
        self.entry_of(&name, &file).map_err(explain)
    }

    /// Gives a new file what the file at `target` has, if there is one.
    fn inherit_from(&self, target: &Spot, file: &File) -> io::Result<()> {
        let Ok(stat) = entry::stat(&target.directory, &target.leaf) else { return Ok(()) };
        if !is_file(&stat) {
            return Ok(());
        }
        let flags = OFlags::RDONLY | NONBLOCKING;
        match rustix::fs::openat(&target.directory, &*target.leaf, flags, Mode::empty()) {
            Ok(old) => self.inherit(&old, &file, &stat),
            // A file that this process may replace and not read has nothing that can be copied but its bits.
            Err(_) => Ok(()),
        }
    }

    /// Makes a symbolic link.
    pub(super) fn write_link(
        &self,
        path: &RemotePath,
        link: &str,
        meta: &Meta,
        when: &Condition,
    ) -> Result<Entry, RemoteError> {
        let explain = |error| self.explain(path, error);
        let target = self.place(path)?;
        let (_, name) = self.split(path)?;
        let turn = Turn::take(&target.directory).map_err(explain)?;
        self.check(path, &target, when)?;
        let directory = target.directory.try_clone().map_err(explain)?;
        let new = Spot { directory, leaf: self.new_leaf() };
        rustix::fs::symlinkat(link, &new.directory, &*new.leaf).map_err(|errno| explain(errno.into()))?;
        let named = self.set_link_time(&new, meta).map_err(explain);
        let named = named.and_then(|()| self.name(path, &new, &target, when));
        if named.is_err() {
            // The next listing sweeps what stays.
            let _ = new.remove();
        }
        named?;
        drop(turn);
        self.settle(path, &target)?;
        let entry = self.look(&target.directory, &name).map_err(explain)?;
        entry.ok_or_else(|| RemoteError::Changed(path.clone()))
    }

    fn set_link_time(&self, link: &Spot, meta: &Meta) -> io::Result<()> {
        let Some(time) = meta.mtime else { return Ok(()) };
        let times = super::meta::times(time);
        Ok(rustix::fs::utimensat(&link.directory, &*link.leaf, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

pub(super) fn is_file(stat: &rustix::fs::Stat) -> bool {
    entry::kind(stat) == Some(Kind::File)
}
