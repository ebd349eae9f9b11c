//! Comparing a directory with its rows, once in each session and after whatever could not be read or written.

use super::cookie::{Cookie, directory_key, parse_directory_key, row_key};
use super::row::{Stored, Summary, decode_row};
use super::{BATCH_ROWS, Entries, EntriesError, Generation, Ino, State};

impl Entries {
    /// The directory as it is in the database. `None`: there is none that can be read.
    pub(super) fn summary(&self, dir: Ino) -> Option<Summary> {
        let value = self.tree.get(directory_key(dir)).inspect_err(|_| self.distrust()).ok()??;
        Summary::decode(&self.hasher, dir, &value)
    }

    /// The directory, if it has been compared with its rows.
    pub(super) fn trusted(&self, dir: Ino) -> Option<Summary> {
        self.summary(dir).filter(|summary| summary.session == self.session())
    }

    /// A row of the database. `None` if it is damaged or of another version.
    pub(super) fn decode(&self, key: &[u8], value: &[u8]) -> Option<Stored> {
        let stored = decode_row(&self.hasher, key, value);
        if stored.is_none() {
            self.distrust();
        }
        stored
    }

    /// The directory, compared with its rows if that has not been done. One that does not fit them is as if it had never been listed, and
    /// listings of it that are under way fail, since what they have merged may be lost.
    pub(super) fn verified(&self, state: &mut State, dir: Ino) -> Result<Summary, EntriesError> {
        let session = self.session();
        let found = self.summary(dir);
        if let Some(summary) = found.as_ref().filter(|summary| summary.session == session) {
            return Ok(summary.clone());
        }
        let (mut counted, damaged) = self.counted(dir)?;
        counted.session = session;
        let is_nothing = found.is_none() && counted.rows == 0;
        let found = found.unwrap_or_default();
        let summary = match found.counts_as(&counted) && damaged == 0 {
            // A directory that nobody has listed does not get into the database by being looked at.
            true if is_nothing => return Ok(counted),
            true => Summary { session, ..found },
            false => {
                tracing::info!(%dir, rows = counted.rows, damaged, "the known files of a directory are incomplete");
                state.fail_listings(dir);
                state.files = state.files.wrapping_sub(found.files).wrapping_add(counted.files);
                Summary { generation: found.generation.max(counted.generation), ..counted }
            }
        };
        self.tree.insert(directory_key(dir), summary.encode(&self.hasher, dir))?;
        Ok(summary)
    }

    /// Counts the rows of a directory, and removes damaged ones. The generation is the highest of a row.
    fn counted(&self, dir: Ino) -> Result<(Summary, u64), EntriesError> {
        let mut counted = Summary::default();
        let mut damaged = 0;
        let mut batch = sled::Batch::default();
        for item in self.tree.scan_prefix(dir.0.to_be_bytes()) {
            let (key, value) = item?;
            let stored = decode_row(&self.hasher, &key, &value);
            match stored
                .filter(|stored| self.hasher.window(&stored.row.entry.name).contains(&stored.row.cookie.0))
            {
                Some(stored) => {
                    counted.replace(&self.hasher, None, Some(&stored));
                    counted.generation = counted.generation.max(stored.row.seen);
                }
                None => {
                    damaged += 1;
                    batch.remove(key);
                    if damaged % BATCH_ROWS as u64 == 0 {
                        self.tree.apply_batch(std::mem::take(&mut batch))?;
                    }
                }
            }
        }
        self.tree.apply_batch(batch)?;
        Ok((counted, damaged))
    }

    /// How many rows of all directories are not directories, as far as the directories say.
    pub(super) fn files_of_all(&self) -> Result<u64, EntriesError> {
        let mut files = 0u64;
        for item in self.tree.range(..row_key(Ino(1), Cookie(0))) {
            let (key, value) = item?;
            let summary =
                parse_directory_key(&key).and_then(|dir| Summary::decode(&self.hasher, dir, &value));
            files = files.wrapping_add(summary.map_or(0, |summary| summary.files));
        }
        Ok(files)
    }
}

impl State {
    /// What was removed in a directory since each of its listings began.
    pub(super) fn listings_of(&mut self, dir: Ino) -> impl Iterator<Item = &mut super::listing::Removed> {
        let all = (dir, Generation(0))..=(dir, Generation(u64::MAX));
        self.listings.range_mut(all).map(|(_, removed)| removed)
    }

    /// Listings of the directory that are under way do not become complete.
    pub(super) fn fail_listings(&mut self, dir: Ino) {
        self.listings.retain(|(other, _), _| *other != dir);
    }
}
