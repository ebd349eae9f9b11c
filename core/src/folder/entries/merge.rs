//! Changing rows. A row and its directory change in one batch.

use super::cookie::{row_key, window_keys};
use super::row::{Stored, Summary, encode_row, stored};
use super::{Change, Cookie, Entries, EntriesError, Generation, Row, State, WINDOW, directory_key};
use crate::folder::node::Ino;
use crate::store::remote::{Entry, Name};
use std::collections::BTreeMap;

/// Rows that are not in the database yet; `None`: not there any more.
pub(super) type Pending = BTreeMap<Cookie, Option<Stored>>;

/// Where a name is.
pub(super) struct Seek {
    /// Its row's place, or the place that its row would get.
    pub cookie: Cookie,
    /// Its row.
    pub found: Option<Stored>,
}

impl Entries {
    /// Looks for a name in the rows and in those that are pending. `displaced`: how many rows of the directory are not at their own value;
    /// `None` if that is not known yet.
    pub(super) fn seek(
        &self,
        dir: Ino,
        name: &Name,
        displaced: Option<u64>,
        pending: &Pending,
    ) -> Result<Seek, EntriesError> {
        let is_it = |stored: &Stored| stored.row.entry.name == *name;
        let home = self.hasher.home(name);
        let at_home = match pending.get(&home) {
            Some(stored) => stored.clone(),
            None => self.read(dir, home)?,
        };
        if at_home.as_ref().is_some_and(is_it) {
            return Ok(Seek { cookie: home, found: at_home });
        }
        let displaced = displaced.or_else(|| Some(self.trusted(dir)?.displaced));
        if at_home.is_none() && displaced == Some(0) {
            return Ok(Seek { cookie: home, found: None });
        }
        let mut taken = BTreeMap::new();
        for item in self.tree.range(window_keys(dir, home)) {
            let (key, value) = item.inspect_err(|_| self.distrust())?;
            taken.extend(self.decode(&key, &value).map(|stored| (stored.row.cookie, stored)));
        }
        for (cookie, stored) in pending.range(home..Cookie(home.0 + WINDOW)) {
            match stored {
                Some(stored) => drop(taken.insert(*cookie, stored.clone())),
                None => drop(taken.remove(cookie)),
            }
        }
        if let Some(found) = taken.values().find(|stored| is_it(stored)) {
            return Ok(Seek { cookie: found.row.cookie, found: Some(found.clone()) });
        }
        let free = (home.0..home.0 + WINDOW).map(Cookie).find(|cookie| !taken.contains_key(cookie));
        free.map(|cookie| Seek { cookie, found: None }).ok_or_else(|| EntriesError::Collision(name.clone()))
    }

    fn read(&self, dir: Ino, cookie: Cookie) -> Result<Option<Stored>, EntriesError> {
        let key = row_key(dir, cookie);
        let value = self.tree.get(key).inspect_err(|_| self.distrust())?;
        Ok(value.and_then(|value| self.decode(&key, &value)))
    }

    /// Begins a change of a directory's rows.
    pub(super) fn begin_write(&self, state: &mut State, dir: Ino) -> Result<Write<'_>, EntriesError> {
        let summary = self.verified(state, dir)?;
        Ok(Write { entries: self, dir, files_before: summary.files, summary, pending: Pending::new() })
    }
}

/// A change of a directory's rows. Nothing has changed before [`commit`](Self::commit).
pub(super) struct Write<'a> {
    entries: &'a Entries,
    dir: Ino,
    files_before: u64,
    /// The directory.
    pub summary: Summary,
    pending: Pending,
}

impl Write<'_> {
    /// Looks for a name.
    pub fn seek(&self, name: &Name) -> Result<Seek, EntriesError> {
        self.entries.seek(self.dir, name, Some(self.summary.displaced), &self.pending)
    }

    /// The entry is there, at the place that was found for its name.
    pub fn merge(&mut self, at: Seek, entry: &Entry, seen: Generation) -> Change {
        let mut row = Row { cookie: at.cookie, entry: entry.clone(), seen };
        let Some(before) = at.found else {
            self.insert(None, row.clone());
            return Change::New(row);
        };
        let old = &before.row.entry;
        if row.entry.meta.is_none() && (&row.entry.version, row.entry.kind) == (&old.version, old.kind) {
            row.entry.meta.clone_from(&old.meta);
        }
        row.seen = seen.max(before.row.seen);
        if row != before.row {
            self.insert(Some(&before), row.clone());
        }
        match row.entry == before.row.entry {
            true => Change::Same(row),
            false => Change::Changed { before: before.row, after: row },
        }
    }

    /// Removes a row that was found.
    pub fn remove(&mut self, row: &Stored) {
        self.summary.replace(&self.entries.hasher, Some(row), None);
        self.pending.insert(row.row.cookie, None);
    }

    fn insert(&mut self, before: Option<&Stored>, row: Row) {
        let hasher = &self.entries.hasher;
        let after = stored(&encode_row(hasher, &row_key(self.dir, row.cookie), &row), row);
        self.summary.replace(hasher, before, Some(&after));
        self.pending.insert(after.row.cookie, Some(after));
    }

    /// Makes the change, all of it or (after a crash) nothing. After an error, the directory is compared with its rows before it counts as
    /// listed.
    pub fn commit(self, state: &mut State) -> Result<(), EntriesError> {
        let Self { entries, dir, files_before, summary, pending } = self;
        let mut batch = sled::Batch::default();
        for (cookie, stored) in pending {
            let key = row_key(dir, cookie);
            match stored {
                Some(stored) => batch.insert(&key, encode_row(&entries.hasher, &key, &stored.row)),
                None => batch.remove(&key),
            }
        }
        batch.insert(&directory_key(dir), summary.encode(&entries.hasher, dir));
        entries.tree.apply_batch(batch).inspect_err(|_| entries.distrust())?;
        state.files = state.files.wrapping_sub(files_before).wrapping_add(summary.files);
        Ok(())
    }
}
