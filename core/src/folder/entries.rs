//! What the remote has, as far as it was listed: a row for each entry of a directory, in a database (sled) that may be lost. `row` describes
//! the bytes. Memory is bounded by the database's cache, not by the number of files.
//!
//! Nothing here is believed beyond what a listing would show. A directory counts as listed only if all rows of its last complete listing are
//! there, since a name without a row would otherwise be taken for a name without a file. The database does not promise that: a crash takes
//! its newest writes, a power cut may keep later ones and lose earlier ones (it syncs ranges of its file, and neither the file's metadata
//! nor the disk's own cache), and a damaged page takes rows of any age. So the directory itself is a row that says how many rows there are
//! and what the checks of their values add up to, and it changes in one batch with them. The first use of a directory after each opening
//! compares it with the rows, which costs one scan. If it does not fit them, the directory is not listed, and its rows are what was seen of
//! it. If it does, they are the directory as it was at some time, and that time is in it.
//!
//! Cookies are hashes and not serial numbers for the same reason (`cookie`).
//!
//! Each change here and each listing takes the directory's next *generation*, and each row has that of the last page or change that showed
//! it. So a listing never overrides what this device has changed since it began (`listing`).

use super::node::Ino;
use crate::store::remote::{Entry, Meta, Name, Version};
use cookie::{Hasher, WINDOW, directory_key, parse_directory_key, parse_row_key, row_key};
use parking_lot::Mutex;
use rand::Rng;
use row::{Stored, Summary};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

mod cookie;
mod listing;
mod merge;
mod row;
#[cfg(test)]
mod tests;
mod verify;

pub use cookie::Cookie;
pub use listing::{Change, Gone, Listing, ListingError};
pub use row::Listed;

/// Rows that are removed in one batch.
const BATCH_ROWS: usize = 1024;

/// A count of the listings and changes of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// An entry of a directory, as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where it comes in the directory.
    pub cookie: Cookie,
    /// The entry. Its `meta` is known if a listing, an upload or a `stat` of this version has shown it.
    pub entry: Entry,
    /// The listing that showed it last, or the change that made it.
    pub seen: Generation,
}

/// What is known of a directory as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// The last complete listing, all rows of which are here. `None`: a name without a row may have a file.
    pub listed: Option<Listed>,
    /// A listing is under way.
    pub is_being_listed: bool,
    /// How many rows there are.
    pub rows: u64,
}

impl Directory {
    /// Whether the last complete listing did not show the row. It stays until somebody has decided that it is gone.
    pub fn is_missing(&self, row: &Row) -> bool {
        self.listed.as_ref().is_some_and(|listed| row.seen < listed.generation)
    }
}

/// What is known of a name.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is returned")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The remote had this.
    Row(Row),
    /// The remote had nothing of that name when the directory was listed.
    Absent,
    /// The directory has to be listed, or the remote asked for the name.
    Unknown,
}

/// Why an entry is not here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntriesError {
    /// The database cannot be used any more. It holds nothing that cannot be listed again: delete it and open a new one.
    #[error("the list of known files cannot be read or written: {0}")]
    Database(String),
    /// Too many names of a directory have the same hash.
    #[error("no place in the directory is left for {0}")]
    Collision(Name),
}

impl From<sled::Error> for EntriesError {
    fn from(error: sled::Error) -> Self {
        EntriesError::Database(error.to_string())
    }
}

/// The known entries of a folder. Its calls read and write the local disk and wait for nothing else.
pub struct Entries {
    tree: sled::Tree,
    hasher: Hasher,
    /// What this opening writes into directories that it has compared with their rows. Another number makes all be compared again.
    session: AtomicU64,
    // A lock and not a message: it keeps a row and its directory together, and is held while one batch is written. Reads take it only to
    // compare a directory for the first time.
    state: Mutex<State>,
}

struct State {
    /// Rows in all directories that are not directories.
    files: u64,
    /// The listings under way, by directory and generation.
    listings: BTreeMap<(Ino, Generation), listing::Removed>,
}

impl Entries {
    /// The entries of the folder with that uuid, in a database that may hold others' too.
    pub fn open(db: &sled::Db, folder: Uuid) -> Result<Self, EntriesError> {
        Self::open_with(db, folder, Hasher::new(folder))
    }

    fn open_with(db: &sled::Db, folder: Uuid, hasher: Hasher) -> Result<Self, EntriesError> {
        let tree = db.open_tree(format!("folder-{folder}"))?;
        let state = Mutex::new(State { files: 0, listings: BTreeMap::new() });
        let entries = Self { tree, hasher, session: AtomicU64::new(rand::rng().random()), state };
        entries.state.lock().files = entries.files_of_all()?;
        Ok(entries)
    }

    /// The entry of a name. That there is none means nothing by itself: see [`lookup`](Self::lookup).
    pub fn get(&self, dir: Ino, name: &Name) -> Option<Row> {
        self.row_of(dir, name).map(|stored| stored.row)
    }

    /// What is known of a name.
    pub fn lookup(&self, dir: Ino, name: &Name) -> Lookup {
        // Before and after, since a row that cannot be read makes the directory count as not listed.
        let was_listed = self.current(dir).listed.is_some();
        match self.get(dir, name) {
            Some(row) => Lookup::Row(row),
            None if was_listed && self.current(dir).listed.is_some() => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    /// The next rows behind a cookie, in their order. They are the whole directory only if it counts as listed before the first call and
    /// after the last one.
    pub fn after(&self, dir: Ino, cookie: Cookie, limit: usize) -> Vec<Row> {
        self.rows_after(dir, cookie).take(limit).collect()
    }

    /// What is known of a directory as a whole.
    pub fn directory(&self, dir: Ino) -> Directory {
        let summary = self.current(dir);
        let is_being_listed = self.state.lock().listings_of(dir).next().is_some();
        Directory { listed: summary.listed, is_being_listed, rows: summary.rows }
    }

    /// How many entries of a directory are known.
    pub fn count(&self, dir: Ino) -> u64 {
        self.current(dir).rows
    }

    /// How many files are known in all directories, links included.
    pub fn files(&self) -> u64 {
        self.state.lock().files
    }

    /// The highest number of a directory that has rows here: no other directory may get it.
    pub fn highest(&self) -> Result<Option<Ino>, EntriesError> {
        let row = self.tree.last()?.and_then(|(key, _)| parse_row_key(&key)).map(|(dir, _)| dir);
        let directory = self.tree.range(..row_key(Ino(1), Cookie(0))).next_back().transpose()?;
        Ok(directory.and_then(|(key, _)| parse_directory_key(&key)).max(row))
    }

    /// The place of a name in its directory. A name without a row has the place that its row would get.
    pub fn cookie_of(&self, dir: Ino, name: &Name) -> Cookie {
        let seek = self.seek(dir, name, None, &BTreeMap::new());
        seek.map_or_else(|_| self.hasher.home(name), |seek| seek.cookie)
    }

    /// The place that a name has if no other name of the directory has the same hash, which one name in 100,000,000 directories of a million
    /// has. Costs no look at the rows.
    pub fn home_of(&self, name: &Name) -> Cookie {
        self.hasher.home(name)
    }

    /// The remote has this entry now: this device has put it there, or has just asked for it. What is known beside its bytes is kept if the
    /// entry has the same version and does not say.
    pub fn put(&self, dir: Ino, entry: &Entry) -> Result<Change, EntriesError> {
        let mut state = self.state.lock();
        let mut write = self.begin_write(&mut state, dir)?;
        write.summary.generation.0 += 1;
        let seen = write.summary.generation;
        let at = write.seek(&entry.name)?;
        let change = write.merge(at, entry, seen);
        write.commit(&mut state)?;
        Ok(change)
    }

    /// What a version of a file has beside its bytes. Whether the entry still is that version.
    pub fn learn(&self, dir: Ino, name: &Name, version: &Version, meta: &Meta) -> Result<bool, EntriesError> {
        let mut state = self.state.lock();
        let mut write = self.begin_write(&mut state, dir)?;
        let at = write.seek(name)?;
        let Some(row) = at.found.as_ref().map(|found| &found.row).filter(|row| row.entry.version == *version)
        else {
            return Ok(false);
        };
        let (entry, seen) = (Entry { meta: Some(meta.clone()), ..row.entry.clone() }, row.seen);
        write.merge(at, &entry, seen);
        write.commit(&mut state)?;
        Ok(true)
    }

    /// The remote no longer has the name: this device has removed it there, or has just asked for it. Returns what it had.
    pub fn remove(&self, dir: Ino, name: &Name) -> Result<Option<Row>, EntriesError> {
        let mut state = self.state.lock();
        let mut write = self.begin_write(&mut state, dir)?;
        let found = write.seek(name)?.found;
        if let Some(stored) = &found {
            write.remove(stored);
        }
        write.commit(&mut state)?;
        let id = self.hasher.id(name.as_str());
        state.listings_of(dir).for_each(|removed| removed.extend([id]));
        Ok(found.map(|stored| stored.row))
    }

    /// Forgets a directory that is gone, with its rows but not with those of the directories in it. Listings of it that are under way fail.
    pub fn forget(&self, dir: Ino) -> Result<(), EntriesError> {
        let mut state = self.state.lock();
        let files = self.summary(dir).map_or(0, |summary| summary.files);
        // First of all: rows without a directory count for nothing.
        self.tree.remove(directory_key(dir))?;
        state.files = state.files.saturating_sub(files);
        state.fail_listings(dir);
        loop {
            let mut batch = sled::Batch::default();
            let keys = self.tree.scan_prefix(dir.0.to_be_bytes()).keys().take(BATCH_ROWS);
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            if keys.is_empty() {
                return Ok(());
            }
            keys.into_iter().for_each(|key| batch.remove(key));
            self.tree.apply_batch(batch)?;
        }
    }

    /// The directory, compared with its rows. One that cannot be read is not listed, now; it may be another time.
    fn current(&self, dir: Ino) -> Summary {
        self.trusted(dir).or_else(|| self.verified(&mut self.state.lock(), dir).ok()).unwrap_or_default()
    }

    fn session(&self) -> u64 {
        self.session.load(Ordering::Acquire)
    }

    /// Something could not be read or written: each directory is compared with its rows once more before it counts as listed.
    fn distrust(&self) {
        self.session.store(rand::rng().random(), Ordering::Release);
    }

    fn row_of(&self, dir: Ino, name: &Name) -> Option<Stored> {
        self.seek(dir, name, None, &BTreeMap::new()).ok()?.found
    }

    /// Rows behind a cookie. One that cannot be read is passed.
    fn rows_after(&self, dir: Ino, cookie: Cookie) -> impl Iterator<Item = Row> {
        let range = row_key(dir, Cookie(cookie.0.saturating_add(1)))..row_key(dir, Cookie(Cookie::END));
        let rows = self.tree.range(range).map_while(|item| item.inspect_err(|_| self.distrust()).ok());
        rows.filter_map(|(key, value)| Some(self.decode(&key, &value)?.row))
    }
}
