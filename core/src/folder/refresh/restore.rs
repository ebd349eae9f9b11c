//! Restoring what the remote no longer has: a person has said that its deletion was wrong.
//!
//! It may end at any moment, by a full disk or a kill, and be asked for again. So in this order:
//! 1. Each directory of what is missing is held by itself, durably: once the outbox has made it again at the remote, its listing shows none
//!    of its files, and must not be believed.
//! 2. A file's bytes are *copied* out of the cache, and the copy is made durable. A kill here leaves a content that no node names; recovery
//!    removes it, and the cache still has the bytes.
//! 3. The node is recorded, durably. From here on it is a file that was made here, and the outbox uploads it.
//! 4. Its row goes, and the cache may let go of its bytes.
//! 5. A directory's own row goes last, and only then is the directory no longer held.

use super::held::Missing;
use super::{Refresher, local};
use crate::clock::now_ms;
use crate::folder::api::FolderError;
use crate::folder::entries::Row;
use crate::folder::names::{begins_to_differ, joined};
use crate::folder::node::{ContentHere, Ino, MetaHere, Node, Place};
use crate::folder::step::Step;
use crate::folder::view::mtime_of;
use crate::store::remote::Kind;
use std::sync::Arc;

/// What became of files that were to be restored.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    restored: u64,
    /// Not all of their bytes are here.
    lost: u64,
}

/// What became of one of them.
enum Restored {
    Yes,
    Lost,
    /// It was removed here, too.
    Unwanted,
}

impl Refresher {
    /// A person says that the held deletions are wrong: what is here whole is uploaded again. Returns how many files are, and how many
    /// cannot be, since not all of their bytes are here.
    ///
    /// # Errors
    ///
    /// What was not restored before is still held, and can be restored later.
    pub async fn restore(self: &Arc<Self>) -> Result<(u64, u64), FolderError> {
        self.shared.check_writable()?;
        let _turn = self.deciding.lock().await;
        self.hold_each_directory().await?;
        let mut counts = Counts::default();
        let directories = self.held.lock().all();
        for (directory, _) in directories {
            self.restore_directory(directory, &mut counts).await?;
        }
        self.keep_held_bytes();
        Ok((counts.restored, counts.lost))
    }

    /// Holds each directory below the held ones by itself.
    async fn hold_each_directory(&self) -> Result<(), FolderError> {
        let held = self.held.lock().all();
        for (directory, missing) in held {
            // All that the last listing has not shown, also what was missed after people were asked; below a missing directory, all.
            let listed = self.shared.entries.directory(directory).listed;
            let listed = listed.map_or(0, |listed| listed.generation.0);
            let before = if missing.before == u64::MAX { listed } else { listed.max(missing.before) };
            let mut into = Vec::new();
            self.split(directory, before, &mut into, 0);
            self.held.lock().split(directory, into);
        }
        self.save_held().await
    }

    fn split(&self, directory: Ino, before: u64, into: &mut Vec<(Ino, Missing)>, depth: usize) {
        let mut missing = Missing { before, ..Missing::default() };
        self.each_row(directory, &mut |row| {
            if !missing.has(row) {
                return;
            }
            if row.entry.kind != Kind::Directory {
                missing.count += 1;
                if missing.paths.len() < super::gone::PATHS_MAX {
                    missing.paths.push(joined(&self.shared.path_here(directory), &row.entry.name));
                }
            } else if let Ok(Some(below)) = self.shared.inodes.find(directory, &row.entry.name)
                && depth < super::gone::DEPTH_MAX
                && !self.held.lock().has(below)
            {
                let mut last = 0;
                self.each_row(below, &mut |row| last = last.max(row.seen.0));
                self.split(below, last.saturating_add(1), into, depth + 1);
            }
        });
        into.push((directory, missing));
    }

    /// Restores what is missing in a held directory and below, which is held no longer then.
    async fn restore_directory(
        self: &Arc<Self>,
        directory: Ino,
        counts: &mut Counts,
    ) -> Result<(), FolderError> {
        let Some(missing) = self.held.lock().missing(directory) else { return Ok(()) };
        let mut rows = Vec::new();
        self.each_row(directory, &mut |row| {
            if missing.has(row) {
                rows.push(row.clone());
            }
        });
        let (directories, files): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.entry.kind == Kind::Directory);
        for row in files {
            let place = Place::new(directory, row.entry.name.clone());
            if !self.is_still_missing(&place, &missing) {
                continue;
            }
            match self.restore_file(&place, &row).await? {
                Restored::Yes => counts.restored += 1,
                Restored::Lost => counts.lost += 1,
                Restored::Unwanted => {}
            }
        }
        for row in directories {
            let place = Place::new(directory, row.entry.name.clone());
            let ino = self.shared.inodes.number(directory, &row.entry.name)?;
            Box::pin(self.restore_directory(ino, counts)).await?;
            if self.is_still_missing(&place, &missing) {
                self.is_made_again_here(ino).await?;
                self.shared.entries.remove(directory, &place.name).map_err(local)?;
            }
        }
        self.held.lock().release(directory);
        self.save_held().await
    }

    /// The remote may have the name again: the outbox makes directories for what was restored in them.
    fn is_still_missing(&self, place: &Place, missing: &Missing) -> bool {
        self.shared.entries.get(place.parent, &place.name).is_some_and(|row| missing.has(&row))
    }

    /// The remote has nothing of the inode any longer.
    async fn is_made_again_here(&self, ino: Ino) -> Result<(), FolderError> {
        let shared = &self.shared;
        shared.ledger.change(|tree| {
            let node = Node { remote: None, ..begins_to_differ(shared.node_in(tree, ino)?) };
            Ok::<_, FolderError>((shared.with_parents(tree, Step::one(ino, Some(node)))?, ()))
        })?;
        Ok(shared.ledger.sync().await?)
    }

    /// Makes a file that the remote no longer has one that was made here.
    async fn restore_file(&self, place: &Place, row: &Row) -> Result<Restored, FolderError> {
        let shared = &self.shared;
        let ino = shared.inodes.number(place.parent, &place.name)?;
        let _turn = shared.turns.of(ino).await;
        let has_name = shared.node(ino).is_none_or(|node| node.local.is_some());
        let content = match row.entry.kind {
            Kind::File if has_name => match self.content_of(ino, row).await? {
                Some(content) => Some(content),
                None => {
                    shared.entries.remove(place.parent, &place.name).map_err(local)?;
                    shared.inodes.detach(ino)?;
                    shared.tell_entry(place);
                    return Ok(Restored::Lost);
                }
            },
            _ => None,
        };
        let recorded = shared.ledger.change(|tree| {
            let meta = row.entry.meta.clone().unwrap_or_default();
            let made = || Node::made(row.entry.kind, place.clone(), meta.clone(), now_ms());
            let mut node = tree.node(ino).cloned().map_or_else(made, begins_to_differ);
            node.remote = None;
            node.may_be_written = shared.opens.is_open_to_write(ino);
            node.content =
                content.clone().map(|here| ContentHere { generation: node.next_generation(), ..here });
            node.meta = node.meta.or(Some(MetaHere { generation: 1, meta }));
            Ok::<_, FolderError>((shared.with_parents(tree, Step::one(ino, Some(node)))?, ()))
        });
        if let Err(error) = recorded {
            // The cache has the bytes still, or the node that was there names them.
            if shared.node(ino).is_none() {
                shared.forget_content(ino);
            }
            return Err(error);
        }
        shared.ledger.sync().await?;
        if content.is_some() {
            shared.opens.has_content(ino);
        }
        shared.entries.remove(place.parent, &place.name).map_err(local)?;
        shared.copy.current(ino).iter().for_each(|span| shared.copy.forget(span));
        Ok(if has_name { Restored::Yes } else { Restored::Unwanted })
    }

    /// Makes the bytes of a missing file a durable content, where all of them are here. The caller has the inode's turn.
    async fn content_of(&self, ino: Ino, row: &Row) -> Result<Option<ContentHere>, FolderError> {
        let (shared, version) = (&self.shared, &row.entry.version);
        if !shared.contents.has(ino) {
            let span = shared.copy.current(ino).filter(|span| span.version() == version);
            let Some(span) = span.filter(|span| shared.copy.is_whole(span)) else { return Ok(None) };
            let mtime = mtime_of(version, row.entry.meta.as_ref());
            if shared.opens.is_passed(ino) {
                // The kernel has the local file: it has to stay that one. A kill leaves a file that was open for writing.
                self.may_be_written_again(ino)?;
                shared.contents.bring(&shared.copy, &span, mtime).await?;
            } else {
                shared.contents.copy_from(ino, shared.copy.file_of(&span)?, version.len, mtime).await?;
                if !shared.copy.is_whole(&span) {
                    shared.forget_content(ino);
                    return Ok(None);
                }
            }
        }
        // Also what an earlier try has left, and what a program has written since.
        let base = shared.sync_content(ino).await?;
        let stat = shared.contents.stat(ino)?;
        Ok(Some(ContentHere { generation: 0, len: stat.len, mtime: stat.mtime, base }))
    }

    /// Records that the file's bytes may be a content.
    fn may_be_written_again(&self, ino: Ino) -> Result<(), FolderError> {
        let shared = &self.shared;
        shared.ledger.change(|tree| {
            let node = Node { may_be_written: true, ..begins_to_differ(shared.node_in(tree, ino)?) };
            Ok::<_, FolderError>((shared.with_parents(tree, Step::one(ino, Some(node)))?, ()))
        })
    }
}
