//! Merging a listing, page by page.
//!
//! A page changes rows and removes none. Only a listing that came to its end says what is gone, and only to its caller, who decides whether
//! that may be believed: a listing that fails, stops, repeats a page or is dropped removes nothing.
//!
//! A listing takes time, and this device changes files meanwhile. Rows that were changed since the listing began have a higher generation
//! than it, and its pages, which may be older, leave them alone. Names that were removed since are remembered until it ends.

use super::{BATCH_ROWS, Cookie, Entries, EntriesError, Generation, Ino, Listed, Row};
use crate::store::remote::{Page, PageToken};
use std::collections::HashSet;
use std::sync::Arc;

/// What a page has shown of an entry.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all of a page are of one kind, and a box would cost an allocation each"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not known.
    New(Row),
    /// It was known otherwise.
    Changed {
        /// As it was.
        before: Row,
        /// As it is.
        after: Row,
    },
    /// As it was known; or this device has changed it since the listing began, and the row says how.
    Same(Row),
    /// This device has removed it since the listing began. It has no row.
    Removed,
}

/// Why a listing removes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// It has not come to its end, or something failed before.
    #[error("the listing was cut short")]
    CutShort,
    /// The server gave the same place twice: it would never end.
    #[error("the server repeats a page of the listing")]
    Repeated,
    /// Rows were lost, or the directory was forgotten, while it ran.
    #[error("the directory has to be listed again")]
    Void,
    /// The database fails.
    #[error(transparent)]
    Entries(#[from] EntriesError),
}

/// The hashes of names that were removed since a listing began.
pub(super) type Removed = HashSet<[u8; 16]>;

/// A listing of a directory that is under way.
pub struct Listing {
    entries: Arc<Entries>,
    dir: Ino,
    generation: Generation,
    began_ms: u64,
    /// The hashes of the tokens that came: 16 bytes for each page.
    tokens: HashSet<[u8; 16]>,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Running,
    Ended,
    Failed,
}

impl Entries {
    /// Begins a listing of a directory. Its first request is sent afterwards: `now_ms` (since 1970) is the time of which it tells. What a
    /// listing that is under way has not shown yet is known as before.
    pub fn begin(self: &Arc<Self>, dir: Ino, now_ms: u64) -> Result<Listing, EntriesError> {
        let mut state = self.state.lock();
        let mut write = self.begin_write(&mut state, dir)?;
        write.summary.generation.0 += 1;
        let generation = write.summary.generation;
        write.commit(&mut state)?;
        state.listings.insert((dir, generation), Removed::new());
        drop(state);
        let (tokens, progress) = (HashSet::new(), Progress::Running);
        Ok(Listing { entries: self.clone(), dir, generation, began_ms: now_ms, tokens, progress })
    }
}

impl Listing {
    /// Merges the next page. Returns what it has shown of each of its entries, in their order. After an error a part of the page may have
    /// been merged, and the listing does not become complete.
    pub fn page(&mut self, page: &Page) -> Result<Vec<Change>, ListingError> {
        let merged = self.merge(page);
        if merged.is_err() {
            self.progress = Progress::Failed;
        }
        merged
    }

    fn merge(&mut self, page: &Page) -> Result<Vec<Change>, ListingError> {
        if self.progress != Progress::Running {
            return Err(ListingError::CutShort);
        }
        match &page.next {
            None => self.progress = Progress::Ended,
            Some(PageToken(token)) if !self.tokens.insert(self.entries.hasher.id(token)) => {
                return Err(ListingError::Repeated);
            }
            Some(_) => {}
        }
        let this = (self.dir, self.generation);
        if !self.entries.state.lock().listings.contains_key(&this) {
            return Err(ListingError::Void);
        }
        let mut changes = Vec::with_capacity(page.entries.len());
        for entries in page.entries.chunks(BATCH_ROWS) {
            let mut state = self.entries.state.lock();
            let mut write = self.entries.begin_write(&mut state, self.dir)?;
            let removed = state.listings.get(&this).ok_or(ListingError::Void)?;
            for entry in entries {
                let at = write.seek(&entry.name)?;
                changes.push(match &at.found {
                    Some(found) if found.row.seen > self.generation => Change::Same(found.row.clone()),
                    _ if removed.contains(&self.entries.hasher.id(entry.name.as_str())) => Change::Removed,
                    _ => write.merge(at, entry, self.generation),
                });
            }
            write.commit(&mut state)?;
        }
        Ok(changes)
    }

    /// Its number, higher than those of earlier listings.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether it lacks a row that listing `since`, or a later one, has shown.
    pub fn misses_since(&self, since: Generation) -> bool {
        let mut rows = self.entries.rows_after(self.dir, Cookie::START);
        rows.any(|row| (since..self.generation).contains(&row.seen))
    }

    /// The directory is listed, if the last page came and nothing failed. `tag` is the directory's own, from before its first page. Returns
    /// what is gone. Until the caller has removed it, it stays.
    pub fn complete(self, tag: Option<String>) -> Result<Gone, ListingError> {
        if self.progress != Progress::Ended {
            return Err(ListingError::CutShort);
        }
        let (dir, generation) = (self.dir, self.generation);
        let mut state = self.entries.state.lock();
        let mut write = self.entries.begin_write(&mut state, dir)?;
        if !state.listings.contains_key(&(dir, generation)) {
            return Err(ListingError::Void);
        }
        if write.summary.listed.as_ref().is_none_or(|listed| listed.generation < generation) {
            write.summary.listed = Some(Listed { generation, at_ms: self.began_ms, tag });
        }
        write.commit(&mut state)?;
        drop(state);
        Ok(Gone { entries: self.entries.clone(), dir, generation })
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.entries.state.lock().listings.remove(&(self.dir, self.generation));
    }
}

/// The rows that a complete listing has not shown.
pub struct Gone {
    entries: Arc<Entries>,
    dir: Ino,
    generation: Generation,
}

impl Gone {
    /// Them, a bounded number at a time. They may be walked several times: to count them, and to remove them.
    pub fn batches(&self) -> impl Iterator<Item = Vec<Row>> {
        let mut last = Cookie::START;
        std::iter::from_fn(move || {
            let rows = self.entries.rows_after(self.dir, last).filter(|row| row.seen < self.generation);
            let rows: Vec<Row> = rows.take(BATCH_ROWS).collect();
            last = rows.last()?.cookie;
            Some(rows)
        })
    }

    /// How many they are.
    pub fn count(&self) -> u64 {
        self.batches().map(|rows| rows.len() as u64).sum()
    }

    /// The listing that has not shown them: each of them was seen last before it.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Removes rows of them. One that has been seen again since stays. Returns those that were removed.
    pub fn remove(&self, rows: &[Row]) -> Result<Vec<Row>, EntriesError> {
        let mut removed = Vec::new();
        for rows in rows.chunks(BATCH_ROWS) {
            let mut state = self.entries.state.lock();
            let mut write = self.entries.begin_write(&mut state, self.dir)?;
            for row in rows {
                let found = write.seek(&row.entry.name)?.found;
                if let Some(found) = found.filter(|found| found.row.seen < self.generation) {
                    write.remove(&found);
                    removed.push(found.row);
                }
            }
            write.commit(&mut state)?;
        }
        Ok(removed)
    }
}
