//! What a complete listing no longer shows.

use super::held::Missing;
use super::{Refresher, local};
use crate::clock::now_ms;
use crate::folder::api::FolderError;
use crate::folder::entries::{Gone, Row};
use crate::folder::guard::Verdict;
use crate::folder::names::joined;
use crate::folder::node::{Ino, Place};
use crate::folder::spans::Span;
use crate::planted::{self, Bug};
use crate::store::remote::Kind;
use std::sync::Arc;

/// Counting stops here: more are held in any case.
const COUNT_MAX: u64 = 100_000;
/// Paths of one directory that people are shown.
pub(super) const PATHS_MAX: usize = 20;
/// Directories below each other that are followed.
pub(super) const DEPTH_MAX: usize = 256;
/// Rows that are looked at in one step.
const STEP_ROWS: usize = 1024;

impl Refresher {
    /// Removes here what is gone there, or holds it for a person. What a person has accepted is believed, and what else is missing by now
    /// is judged as if nothing was.
    pub(super) async fn settle_gone(
        self: &Arc<Self>,
        directory: Ino,
        gone: Gone,
        accepted: Option<&Missing>,
    ) -> Result<(), FolderError> {
        let held_before = self.held.lock().len();
        let mut was_held = self.held.lock().has(directory);
        if let Some(accepted) = accepted {
            self.remove_gone(directory, &gone, |row| accepted.has(row))?;
            self.held.lock().release(directory);
            was_held = false;
        }
        let missing = self.missing(directory, &gone);
        let is_held = match missing.count {
            _ if planted::has(Bug::DeletionsNotHeld) => false,
            _ if missing.has_held => true,
            // A directory that has held deletions waits as a whole.
            count if count > 0 && was_held => true,
            count => self.guard.lock().judge(count, self.shared.entries.files(), now_ms()) == Verdict::Held,
        };
        let mut has_changed = false;
        if is_held {
            has_changed = self.held.lock().hold(directory, missing, now_ms());
        } else {
            self.remove_gone(directory, &gone, |_| true)?;
            self.held.lock().release(directory);
        }
        if !has_changed && self.held.lock().len() == held_before {
            return Ok(());
        }
        self.keep_held_bytes();
        self.save_held().await?;
        if has_changed {
            // A power cut must not take what nobody else has: neither the bytes, nor whose they are.
            self.shared.inodes.sync().await?;
            self.shared.copy.persist().await?;
        }
        Ok(())
    }

    fn remove_gone(
        &self,
        directory: Ino,
        gone: &Gone,
        goes: impl Fn(&Row) -> bool,
    ) -> Result<(), FolderError> {
        for rows in gone.batches() {
            let rows: Vec<Row> = rows.into_iter().filter(&goes).collect();
            // A row that was seen again since it was missing stays, with all that it stands for.
            for row in gone.remove(&rows).map_err(local)? {
                self.vanished(directory, &row, 0)?;
            }
        }
        Ok(())
    }

    /// Keeps the bytes of held files from being evicted: nobody else has them any longer.
    pub(super) fn keep_held_bytes(&self) {
        let mut spans = Vec::new();
        let held = self.held.lock().all();
        for (directory, missing) in held {
            self.each_row(directory, &mut |row| {
                if missing.has(row) {
                    self.spans_of(directory, row, &mut spans, 0);
                }
            });
        }
        if let Err(error) = self.shared.copy.set_held(spans) {
            tracing::warn!(%error, "files whose deletion was decided stay in the cache until the folder is opened again");
        }
    }

    fn spans_of(&self, directory: Ino, row: &Row, spans: &mut Vec<Arc<Span>>, depth: usize) {
        let Ok(Some(ino)) = self.shared.inodes.find(directory, &row.entry.name) else { return };
        if row.entry.kind != Kind::Directory {
            let copy = &self.shared.copy;
            let is_whole = |span: &Arc<Span>| *span.version() == row.entry.version && copy.is_whole(span);
            spans.extend(copy.current(ino).filter(is_whole));
        } else if depth < DEPTH_MAX {
            self.each_row(ino, &mut |row| self.spans_of(ino, row, spans, depth + 1));
        }
    }

    pub(super) async fn save_held(&self) -> Result<(), FolderError> {
        let _turn = self.saving.lock().await;
        let held = self.held.lock().clone();
        Ok(held.save(&*self.disk).await?)
    }

    /// The files that are missing, also those below directories that are. An empty directory counts as none.
    fn missing(&self, directory: Ino, gone: &Gone) -> Missing {
        let mut missing = Missing { before: gone.generation().0, ..Missing::default() };
        for rows in gone.batches() {
            for row in rows {
                self.count(directory, &row, &mut missing, 0);
            }
        }
        missing
    }

    fn count(&self, directory: Ino, row: &Row, missing: &mut Missing, depth: usize) {
        if missing.count >= COUNT_MAX || depth > DEPTH_MAX {
            return;
        }
        let name = &row.entry.name;
        if row.entry.kind != Kind::Directory {
            missing.count += 1;
            if missing.paths.len() < PATHS_MAX {
                let path = joined(&self.shared.path_here(directory), name);
                missing.paths.push(path);
            }
            return;
        }
        let Ok(Some(below)) = self.shared.inodes.find(directory, name) else { return };
        if self.held.lock().has(below) {
            missing.has_held = true;
            return;
        }
        self.each_row(below, &mut |row| self.count(below, row, missing, depth + 1));
    }

    pub(super) fn each_row(&self, directory: Ino, with: &mut dyn FnMut(&Row)) {
        let mut after = crate::folder::entries::Cookie::START;
        loop {
            let rows = self.shared.entries.after(directory, after, STEP_ROWS);
            let Some(last) = rows.last() else { return };
            after = last.cookie;
            rows.iter().for_each(&mut *with);
        }
    }

    /// The remote no longer has a name.
    fn vanished(&self, directory: Ino, row: &Row, depth: usize) -> Result<(), FolderError> {
        let place = Place::new(directory, row.entry.name.clone());
        let shared = &self.shared;
        let node = shared.ledger.read(|tree| {
            let ino = tree.occupant(&place)?;
            Some((ino, tree.node(ino)?.clone()))
        });
        let is_directory = row.entry.kind == Kind::Directory;
        let number = shared.inodes.find(directory, &row.entry.name)?;
        if let Some(ino) = number.filter(|_| is_directory && depth < DEPTH_MAX) {
            let mut rows = Vec::new();
            self.each_row(ino, &mut |row| rows.push(row.clone()));
            for row in rows {
                shared.entries.remove(ino, &row.entry.name).map_err(local)?;
                self.vanished(ino, &row, depth + 1)?;
            }
            shared.entries.forget(ino).map_err(local)?;
            self.held.lock().release(ino);
        }
        if let Some((ino, node)) = node {
            // What was changed here is uploaded again; the outbox finds out that the rest is gone.
            let stays = node.local.is_some() && (node.kind == Kind::Directory || node.content.is_some());
            return if stays { self.is_made_again(ino, &node) } else { Ok(()) };
        }
        let Some(ino) = number else { return Ok(()) };
        shared.inodes.detach(ino)?;
        if let Some(span) = shared.copy.current(ino).filter(|_| !shared.opens.is_open(ino)) {
            shared.copy.forget(&span);
        }
        shared.tell_entry(&place);
        Ok(())
    }

    /// A person says that the held deletions are right. Returns how many files go.
    pub async fn accept(self: &Arc<Self>) -> Result<u64, FolderError> {
        let _turn = self.deciding.lock().await;
        // What is shown now. What is missed from here on is not among it.
        let accepted = self.held.lock().all();
        for (directory, missing) in &accepted {
            if !self.held.lock().has(*directory) {
                continue;
            }
            match self.list_now(*directory, Some(missing)).await {
                // It is gone itself, with all that was in it: that is for the listing of the one above it to say.
                Err(FolderError::NotFound) => {
                    self.held.lock().release(*directory);
                    self.keep_held_bytes();
                    self.save_held().await?;
                }
                result => result?,
            }
        }
        Ok(accepted.iter().map(|(_, missing)| missing.count).sum())
    }
}
