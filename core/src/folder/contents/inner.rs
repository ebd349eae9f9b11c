//! Descriptors and syncs of contents.

use super::handles::{Handles, Watched};
use super::name_of;
use super::taken::Taken;
use crate::disk::{Disk, DiskFile};
use crate::folder::node::Ino;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// The contents, for tasks.
pub(super) struct Inner {
    pub files: Arc<dyn Disk>,
    // Held to look a descriptor up, and to open one.
    handles: Mutex<Handles>,
    pub taken: Taken,
}

impl Inner {
    pub fn new(files: Arc<dyn Disk>) -> Self {
        Self { files, handles: Mutex::default(), taken: Taken::default() }
    }

    /// The name stands for a content that is new.
    pub fn is_new(&self, ino: Ino) {
        self.taken.may_have_changed(ino);
        self.handles.lock().forget(ino);
    }

    /// Whether a program may write to the content without a word.
    pub fn is_watched(&self, ino: Ino) -> bool {
        self.handles.lock().is_watched(ino)
    }

    /// The inode has no content any longer.
    pub fn is_gone(&self, ino: Ino) {
        self.taken.is_gone(ino);
        let mut handles = self.handles.lock();
        handles.forget(ino);
        handles.forget_name(ino);
    }

    /// A program may write to the content without a word from here on.
    pub fn may_be_written(&self, ino: Ino) -> io::Result<()> {
        self.taken.may_have_changed(ino);
        self.with(ino, |watched| {
            watched.may_be_written();
            Ok(())
        })
    }

    /// The descriptor for writing.
    pub fn writer(&self, ino: Ino) -> io::Result<Arc<dyn DiskFile>> {
        self.taken.may_have_changed(ino);
        if let Some(writer) = self.with(ino, |watched| Ok(watched.writer()))? {
            return Ok(writer);
        }
        let writer = self.files.open(&name_of(ino), false)?;
        self.handles.lock().opened(ino, writer.clone());
        Ok(writer)
    }

    /// Closes what is open for writing.
    pub fn close(&self, ino: Ino) {
        self.handles.lock().close(ino);
    }

    /// Looks at what is open of a content, which is watched from here on.
    fn with<T>(&self, ino: Ino, look: impl FnOnce(&mut Watched) -> io::Result<T>) -> io::Result<T> {
        let mut handles = self.handles.lock();
        let mut leaves = None;
        if handles.watched(ino).is_none() {
            let witness = self.files.open_to_read(&name_of(ino))?;
            leaves = handles.watch(ino, witness);
        }
        let seen = look(handles.watched(ino).expect("it is watched by now"));
        drop(handles);
        // The descriptors are used up. Closing one without a sync might miss that writing failed.
        if let Some(leaves) = leaves {
            let synced = leaves.witness.sync_here().unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()));
            if let Err(error) = synced {
                self.condemn(leaves.ino, leaves.named, &error);
            }
        }
        seen
    }

    fn condemn(&self, ino: Ino, named: u64, error: &io::Error) {
        tracing::error!(%ino, %error, "a changed file could not be made durable on this computer");
        self.handles.lock().condemn(ino, named, error.to_string());
    }

    fn check_sound(&self, ino: Ino) -> io::Result<()> {
        match self.handles.lock().condemned(ino) {
            Some(cause) => Err(io::Error::other(format!(
                "the local disk has lost what was written to the file: {cause}"
            ))),
            None => Ok(()),
        }
    }

    /// Makes a content and its name durable.
    pub async fn sync(&self, ino: Ino) -> io::Result<()> {
        self.check_sound(ino)?;
        let (witness, turn) =
            self.with(ino, |watched| Ok((watched.witness.clone(), watched.turn.clone())))?;
        let _turn = turn.lock().await;
        self.check_sound(ino)?;
        let named = {
            let mut handles = self.handles.lock();
            if let Some(watched) = handles.watched(ino) {
                watched.begin_sync();
            }
            handles.named(ino)
        };
        let mut synced = witness.sync().await;
        if synced.is_ok() {
            synced = self.sync_name(ino).await;
        }
        if let Err(error) = &synced {
            self.condemn(ino, named, error);
            return self.check_sound(ino);
        }
        synced
    }

    async fn sync_name(&self, ino: Ino) -> io::Result<()> {
        let names = self.handles.lock().names_to_sync(ino);
        if let Some(before) = names {
            self.files.sync_names().await?;
            self.handles.lock().names_are_synced(before);
        }
        Ok(())
    }
}
