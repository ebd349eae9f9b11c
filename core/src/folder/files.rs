//! Operations on bytes: open, read, write, make durable, close.
//!
//! A file that programs only read is read from the cache. Before the first one may write, all of the file's bytes are brought here, and its
//! local file becomes the inode's content: by name alone, so that a program that has it open by passthrough sees the same file.

use super::api::{
    Access, Allocate, Asked, Attributes, Changes, FolderError, Handle, OpenMode, Opened, Seek, SetTime,
};
use super::modes::Mode;
use super::names::{begins_to_differ, check_may_change, now};
use super::node::{Ino, Node, Place};
use super::open_folder::Folder;
use super::shared::Shared;
use super::spans::Span;
use super::step::Step;
use super::view::mtime_of;
use crate::clock::now_ms;
use crate::device::ReadLease;
use crate::disk::DiskFile;
use crate::pull::Class;
use crate::store::remote::{Kind, Meta, Version};
use bytes::Bytes as Data;
use std::io::ErrorKind;
use std::sync::Arc;

/// How often a file's bytes are brought here again that are evicted meanwhile.
const TRIES: u32 = 4;

/// Where the bytes of a content come from that was made for an opening.
enum Bytes {
    /// They were a content before.
    WereHere,
    /// There are none yet.
    New,
    /// They are those of this version of the remote, which was in the cache.
    Of(Version),
    /// They are those of this version of the remote, and stay there.
    Over(Version),
}

impl Shared {
    /// The version of a file that its readers see, and its span.
    fn span_of(&self, ino: Ino) -> Result<Arc<Span>, FolderError> {
        let version = match self.opens.version(ino) {
            Some(version) => version,
            None => self.known_of(ino)?.ok_or(FolderError::Stale)?.version,
        };
        Ok(self.copy.span_of(ino, &version)?)
    }

    /// What was uploaded becomes the cache's, if nobody can write to it: the content has the bytes of `version`. The caller has the
    /// inode's turn.
    pub async fn give(&self, ino: Ino, version: &Version) -> Result<(), FolderError> {
        let span = self.copy.span_of(ino, version)?;
        match self.overlays.base_of(ino) {
            // What is here of it is not all of it.
            Some(_) => self.contents.remove(ino)?,
            None => self.contents.give(&self.copy, ino, &span).await?,
        }
        self.overlays.forget(ino);
        if self.opens.is_open(ino) && self.copy.keep_open(&span) {
            let surplus = self.opens.keep(ino, span);
            surplus.iter().for_each(|span| self.copy.keep_no_more(span));
        }
        self.opens.became(ino, version);
        Ok(())
    }

    /// Removes the content of a file that nobody will read again.
    pub fn forget_content(&self, ino: Ino) {
        if let Err(error) = self.contents.remove(ino)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%ino, %error, "the bytes of a removed file stay on the local disk until the folder is opened again");
            return;
        }
        self.overlays.forget(ino);
    }
}

impl Folder {
    pub(super) async fn create_at(
        &self,
        place: Place,
        mode: u32,
        access: Access,
        is_new: bool,
        asked: Asked,
    ) -> Result<(Attributes, Opened), FolderError> {
        if let Some((ino, opened)) = self.opened_before(asked)? {
            return Ok((self.shared.attributes_of(ino)?, opened));
        }
        if let Some(Some(ino)) = self.answered(asked) {
            let _turn = self.shared.turns.of(ino).await;
            let opened = self.open_to_write(ino, access, asked).await?;
            return Ok((self.shared.attributes_of(ino)?, opened));
        }
        self.check_new_file(&place).await?;
        match self.find(&place).await? {
            Some(_) if is_new => return Err(FolderError::Exists),
            Some((ino, _)) => {
                let opened = self.open_at(ino, access, asked).await?;
                return Ok((self.shared.attributes_of(ino)?, opened));
            }
            None => {}
        }
        let ino = self.shared.inodes.fresh()?;
        let _turn = self.shared.turns.of(ino).await;
        self.shared.contents.create(ino)?;
        let meta = Meta { mode: Some(mode & 0o7777), mtime: Some(now()), ..Meta::default() };
        // Its bytes are recorded once they are durable.
        let made = Node::made(Kind::File, place, meta, now_ms());
        let node = Node { content: None, may_be_written: true, ..made };
        if let Err(error) = self.record_new(ino, node, asked) {
            self.shared.forget_content(ino);
            return Err(error);
        }
        let opened = self.add_open_to_write(ino, access, asked)?;
        Ok((self.shared.attributes_of(ino)?, opened))
    }

    /// What the kernel's request has opened already, if it was sent before.
    fn opened_before(&self, asked: Asked) -> Result<Option<(Ino, Opened)>, FolderError> {
        let handle = Handle(asked.request);
        let Some((open, passed)) = self.shared.opens.again(handle).filter(|_| asked.is_repeated) else {
            return Ok(None);
        };
        let how = match passed.as_ref().and_then(|file| file.as_file()) {
            Some(file) => OpenMode::PassedThrough(Arc::new(file.try_clone()?)),
            None => OpenMode::Served { keeps_cache: false },
        };
        Ok(Some((open.ino, Opened { handle, how })))
    }

    pub(super) async fn open_at(
        &self,
        ino: Ino,
        access: Access,
        asked: Asked,
    ) -> Result<Opened, FolderError> {
        if let Some((_, opened)) = self.opened_before(asked)? {
            return Ok(opened);
        }
        if !self.shared.opens.is_open(ino)
            && !self.shared.contents.has(ino)
            && let Some(known) = self.shared.known_of(ino)?
        {
            self.refresher.looked_at(&known.place).await?;
        }
        let _turn = self.shared.turns.of(ino).await;
        if !self.shared.opens.is_unlinked(ino) {
            match self.shared.node_or_remote(ino).map(|node| node.kind) {
                Ok(Kind::File) => {}
                Ok(Kind::Directory) => return Err(FolderError::IsDirectory),
                Ok(Kind::Link) => {
                    return Err(FolderError::Invalid("a symbolic link has no bytes of its own"));
                }
                // The name has another inode by now, since the remote has another file there: the kernel looks it up again.
                Err(_) if !self.shared.opens.is_open(ino) => return Err(FolderError::Stale),
                Err(error) if access.writes => return Err(error),
                Err(_) => {}
            }
        }
        match access.writes || access.truncates {
            true => self.open_to_write(ino, access, asked).await,
            false => self.open_to_read(ino, access, asked),
        }
    }

    fn open_to_read(&self, ino: Ino, access: Access, asked: Asked) -> Result<Opened, FolderError> {
        match self.shared.contents.has(ino) {
            true => self.add_open(ino, access, None, asked),
            false => {
                let span = self.shared.span_of(ino)?;
                self.add_open(ino, access, Some(span), asked)
            }
        }
    }

    async fn open_to_write(&self, ino: Ino, access: Access, asked: Asked) -> Result<Opened, FolderError> {
        self.shared.check_writable()?;
        if self.shared.opens.is_unlinked(ino) {
            return self.add_open(ino, Access { writes: true, ..access }, None, asked);
        }
        for _ in 0..TRIES {
            check_may_change(&self.shared.node_or_remote(ino)?)?;
            let bytes = self.has_content(ino, access.truncates).await?;
            match self.may_be_written(ino, &bytes) {
                Ok(()) => return self.add_open_to_write(ino, access, asked),
                Err(error) => {
                    self.take_back(ino, bytes).await;
                    if error != FolderError::Stale || self.shared.opens.is_open(ino) {
                        return Err(error);
                    }
                }
            }
        }
        Err(FolderError::Unavailable("the file changes at the server faster than it can be opened".into()))
    }

    fn add_open_to_write(&self, ino: Ino, access: Access, asked: Asked) -> Result<Opened, FolderError> {
        let opened = self.add_open(ino, Access { writes: true, ..access }, None, asked);
        if opened.is_err() {
            // Nobody has it open, and nothing else says that it rests.
            self.outbox.released(ino);
        }
        opened
    }

    /// Makes the file's bytes a content, all of them or none. The caller has its turn.
    async fn has_content(&self, ino: Ino, is_emptied: bool) -> Result<Bytes, FolderError> {
        let shared = &self.shared;
        if shared.contents.has(ino) {
            if is_emptied {
                shared.set_content_len(ino, 0).await?;
            }
            return Ok(Bytes::WereHere);
        }
        // A program may have the local file by passthrough: then it has to stay that file.
        if is_emptied && !shared.opens.is_open(ino) {
            shared.contents.create(ino)?;
            return Ok(Bytes::New);
        }
        let known = shared.known_of(ino)?;
        let span = shared.span_of(ino)?;
        let meta = known.filter(|known| known.version == *span.version()).and_then(|known| known.meta);
        let mtime = mtime_of(span.version(), meta.as_ref());
        // A program that has it by passthrough needs all of it in one local file.
        if span.len() > shared.whole_up_to && !shared.copy.is_whole(&span) && !shared.opens.is_passed(ino) {
            shared.begin_overlay(ino, span.version(), mtime)?;
            shared.opens.has_content(ino);
            if is_emptied {
                shared.set_content_len(ino, 0).await?;
            }
            return Ok(Bytes::Over(span.version().clone()));
        }
        for _ in 0..TRIES {
            if shared.copy.make_whole(&span, Class::Reader).await? && shared.copy.keep_open(&span) {
                let brought = shared.contents.bring(&shared.copy, &span, mtime).await;
                shared.copy.keep_no_more(&span);
                brought?;
                shared.opens.has_content(ino);
                if is_emptied {
                    shared.contents.set_len(ino, 0)?;
                }
                return Ok(Bytes::Of(span.version().clone()));
            }
        }
        Err(FolderError::NoSpace)
    }

    /// Records that a program may write to the file without a word. [`FolderError::Stale`] if the bytes are not those of the version that it
    /// has by now.
    fn may_be_written(&self, ino: Ino, bytes: &Bytes) -> Result<(), FolderError> {
        self.shared.ledger.change(|tree| {
            let mut node = begins_to_differ(self.shared.node_in(tree, ino)?);
            if node.local.is_none() {
                return Err(FolderError::NotFound);
            }
            if let Bytes::Of(version) | Bytes::Over(version) = bytes
                && node.remote.as_ref().is_none_or(|known| known.version != *version)
            {
                return Err(FolderError::Stale);
            }
            node.may_be_written = true;
            Ok((self.shared.with_parents(tree, Step::one(ino, Some(node)))?, ()))
        })
    }

    /// A content that was made for an opening that failed goes back where it came from.
    async fn take_back(&self, ino: Ino, bytes: Bytes) {
        match bytes {
            Bytes::WereHere => {}
            Bytes::New => self.shared.forget_content(ino),
            Bytes::Over(version) => {
                self.shared.forget_content(ino);
                self.shared.opens.became(ino, &version);
            }
            Bytes::Of(version) => {
                if let Err(error) = self.shared.give(ino, &version).await {
                    tracing::warn!(%ino, %error, "a file that could not be opened for writing is downloaded again");
                    self.shared.forget_content(ino);
                }
            }
        }
    }

    /// Adds the opening, in the mode that the inode is in, or can be in.
    fn add_open(
        &self,
        ino: Ino,
        access: Access,
        span: Option<Arc<Span>>,
        asked: Asked,
    ) -> Result<Opened, FolderError> {
        let shared = &self.shared;
        let (mut kept, version) = (None, span.as_ref().map(|span| span.version().clone()));
        let local: Option<Arc<dyn DiskFile>> = match (span, access.may_pass_through) {
            (_, false) => None,
            // The kernel would see holes where the remote's bytes are.
            (None, true) if shared.overlays.base_of(ino).is_some() => None,
            (None, true) => Some(shared.contents.reader(ino)?),
            (Some(span), true) if shared.copy.keep_open(&span) => {
                let file = shared.copy.file_of(&span).inspect_err(|_| shared.copy.keep_no_more(&span))?;
                kept = Some(span);
                Some(file)
            }
            (Some(_), true) => None,
        };
        let local = local.filter(|file| file.as_file().is_some());
        let added = shared.opens.add(asked.request, ino, access.writes, version, local, kept);
        added.surplus.iter().for_each(|span| shared.copy.keep_no_more(span));
        let handle = added.handle;
        let how = match (added.mode, added.local.as_ref().and_then(|file| file.as_file())) {
            (Mode::Passed, Some(file)) => match file.try_clone() {
                Ok(file) => OpenMode::PassedThrough(Arc::new(file)),
                Err(error) => {
                    self.release(handle);
                    return Err(error.into());
                }
            },
            _ => OpenMode::Served { keeps_cache: added.keeps_cache },
        };
        Ok(Opened { handle, how })
    }

    pub(super) fn serve_handle_instead(&self, handle: Handle) -> Result<OpenMode, FolderError> {
        let open = self.shared.opens.get(handle).ok_or(FolderError::BadHandle)?;
        if self.shared.opens.serve_instead(handle) {
            return Ok(OpenMode::Served { keeps_cache: false });
        }
        self.release(handle);
        tracing::warn!(ino = %open.ino, "a file is open by passthrough, and the kernel does not take it once more");
        Err(FolderError::Local("the kernel does not take the file".into()))
    }

    pub(super) async fn read_at(
        &self,
        handle: Handle,
        offset: u64,
        len: u32,
    ) -> Result<ReadLease, FolderError> {
        let ino = self.shared.opens.get(handle).ok_or(FolderError::BadHandle)?.ino;
        let end = offset.saturating_add(len.into());
        for _ in 0..TRIES {
            if !self.shared.contents.has(ino) {
                let span = self.shared.span_of(ino)?;
                match self.shared.copy.read(&span, offset..end).await {
                    // Its bytes may have become a content meanwhile.
                    Err(_) if self.shared.contents.has(ino) => continue,
                    read => return Ok(read?),
                }
            }
            match self.shared.read_content(ino, offset..end).await {
                // It has just been given to the cache.
                Err(_) if !self.shared.contents.has(ino) => {}
                read => return read,
            }
        }
        Err(FolderError::Unavailable("the file's bytes move faster than they can be read".into()))
    }

    fn writer(&self, handle: Handle) -> Result<Ino, FolderError> {
        let open = self.shared.opens.get(handle).filter(|open| open.writes);
        open.map(|open| open.ino).ok_or(FolderError::BadHandle)
    }

    pub(super) async fn write_at(&self, handle: Handle, offset: u64, data: &Data) -> Result<(), FolderError> {
        let ino = self.writer(handle)?;
        let end = offset.checked_add(data.len() as u64).ok_or(FolderError::TooLarge)?;
        if self.shared.remote.facts().len_max.is_some_and(|most| end > most) {
            return Err(FolderError::TooLarge);
        }
        self.shared.write_content(ino, offset, data).await
    }

    pub(super) async fn sync_handle(&self, handle: Handle) -> Result<(), FolderError> {
        let open = self.shared.opens.get(handle).ok_or(FolderError::BadHandle)?;
        if !self.shared.contents.has(open.ino) {
            return Ok(());
        }
        if self.shared.opens.is_unlinked(open.ino) {
            return self.shared.sync_content(open.ino).await.map(drop);
        }
        self.outbox.note_written(open.ino).await?;
        self.shared.ledger.sync().await?;
        Ok(())
    }

    pub(super) fn release_handle(&self, handle: Handle) {
        let Some((open, closed)) = self.shared.opens.remove(handle) else { return };
        closed.kept.iter().for_each(|span| self.shared.copy.keep_no_more(span));
        if closed.is_unlinked {
            if closed.last {
                self.shared.content_leaves(open.ino);
            }
        } else if closed.last_writer {
            self.outbox.released(open.ino);
        }
    }

    pub(super) async fn allocate_at(
        &self,
        handle: Handle,
        how: Allocate,
        offset: u64,
        len: u64,
    ) -> Result<(), FolderError> {
        let ino = self.writer(handle)?;
        let end = offset.checked_add(len).ok_or(FolderError::TooLarge)?;
        let range = offset..end;
        match how {
            Allocate::Extend | Allocate::KeepLen => {
                self.shared.reserve_in_content(ino, range.clone()).await?
            }
            Allocate::Punch | Allocate::Zero | Allocate::ZeroKeepLen => {
                self.shared.punch_content(ino, range.clone()).await?;
            }
        }
        match how {
            Allocate::Extend | Allocate::Zero if end > self.shared.contents.stat(ino)?.len => {
                self.shared.set_content_len(ino, end).await
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn seek_from(
        &self,
        handle: Handle,
        offset: u64,
        what: Seek,
    ) -> Result<Option<u64>, FolderError> {
        let ino = self.shared.opens.get(handle).ok_or(FolderError::BadHandle)?.ino;
        let len = self.shared.attributes_of(ino)?.len;
        if offset >= len {
            return Ok(None);
        }
        if !self.shared.contents.has(ino) {
            // What is not here may be anything: all of it counts as data.
            return Ok(Some(if what == Seek::Data { offset } else { len }));
        }
        let data = self.shared.next_data_of_content(ino, offset, len)?;
        Ok(match (what, data) {
            (Seek::Data, None) => None,
            (Seek::Data, Some(data)) => Some(data.start.max(offset)),
            (Seek::Hole, Some(data)) if data.start <= offset => Some(data.end.min(len)),
            (Seek::Hole, _) => Some(offset),
        })
    }

    pub(super) async fn change_attributes(
        &self,
        ino: Ino,
        changes: Changes,
    ) -> Result<Attributes, FolderError> {
        if let Some(len) = changes.len {
            self.set_len(ino, len).await?;
        }
        let is_unlinked = self.shared.opens.is_unlinked(ino);
        if let Some(mode) = changes.mode.filter(|_| !is_unlinked) {
            self.change_meta(ino, Asked::default(), |meta| {
                meta.mode = Some(mode & 0o7777);
                Ok(())
            })
            .await?;
        }
        if let Some(mtime) = changes.mtime {
            let mtime = match mtime {
                SetTime::Now => now(),
                SetTime::To(time) => time,
            };
            let _turn = self.shared.turns.of(ino).await;
            if self.shared.contents.has(ino) {
                self.outbox.note_touched(ino, mtime).await?;
                self.shared.contents.set_mtime(ino, mtime)?;
            }
            if !is_unlinked {
                self.change_meta(ino, Asked::default(), |meta| {
                    meta.mtime = Some(mtime);
                    Ok(())
                })
                .await?;
            }
        }
        self.shared.attributes_of(ino)
    }

    async fn set_len(&self, ino: Ino, len: u64) -> Result<(), FolderError> {
        if self.shared.remote.facts().len_max.is_some_and(|most| len > most) {
            return Err(FolderError::TooLarge);
        }
        match self.shared.kind_of(ino) {
            Ok(Kind::Directory) => return Err(FolderError::IsDirectory),
            Ok(Kind::Link) => return Err(FolderError::Invalid("a symbolic link has no length to be set")),
            Ok(Kind::File) | Err(_) => {}
        }
        {
            let _turn = self.shared.turns.of(ino).await;
            if self.shared.opens.is_open_to_write(ino) || self.shared.opens.is_unlinked(ino) {
                return self.shared.set_content_len(ino, len).await;
            }
        }
        let access = Access { writes: true, truncates: len == 0, may_pass_through: false };
        let opened = self.open_at(ino, access, Asked::default()).await?;
        let set = self.shared.set_content_len(ino, len).await;
        self.release(opened.handle);
        set
    }
}
