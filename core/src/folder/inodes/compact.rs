//! Compaction: a new file with one record for each number that has a name takes the place of the old one.
//!
//! The new file is durable before it gets the old one's name, so that a crash leaves one of them, whole. Other calls go on meanwhile: what
//! they append to the old file is copied in rounds, of which the last is empty and is done under the lock, with the renaming.

use super::file::{Records, Window};
use super::record::Record;
use super::{Inodes, State};
use crate::folder::node::Ino;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Rounds after which what is left is copied under the lock. Each is as long as the sync before it lets it become.
const ROUNDS_MAX: usize = 8;

/// A file with fewer records is not worth it.
const RECORDS_MIN: u64 = 1024;

impl Inodes {
    /// Whether more than half of the file is dead.
    pub fn wants_compaction(&self) -> bool {
        self.state.read().wants_compaction()
    }

    /// Writes the file anew without what is dead. Waits for the local disk, but other calls do not wait for it. After an error everything
    /// is as it was, and after [`close`](Self::close) it does nothing.
    pub fn compact(&self) -> io::Result<()> {
        let _one_at_a_time = self.compacting.lock();
        if self.is_closed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let (old, live, floor) = {
            let state = self.state.read();
            (state.records.handle(), state.index.in_file_order(), state.floor)
        };
        let mut copy =
            Copy { new: Records::create(&*self.disk, floor)?, moved: Vec::with_capacity(live.len()) };
        for (ino, offset) in copy.live(&old, live)? {
            self.lose_name(ino, offset);
        }
        let mut copied = old.end;
        for _ in 0..ROUNDS_MAX {
            copy.sync()?;
            let mut state = self.state.write();
            if state.records.end == copied {
                return self.switch(&mut state, copy);
            }
            let more = copied..state.records.end;
            drop(state);
            copied = more.end;
            copy.appended(&old, more)?;
        }
        let mut state = self.state.write();
        copy.appended(&old, copied..state.records.end)?;
        copy.sync()?;
        self.switch(&mut state, copy)
    }

    fn switch(&self, state: &mut State, copy: Copy) -> io::Result<()> {
        copy.new.install(&*self.disk)?;
        state.count = copy.moved.len() as u64;
        for (ino, offset) in copy.moved {
            // In the order of the file: the last record of a number counts.
            state.index.relocate(ino, offset);
        }
        state.index.shrink();
        state.records = copy.new;
        state.is_damaged = false;
        Ok(())
    }
}

impl State {
    pub(super) fn wants_compaction(&self) -> bool {
        self.count > RECORDS_MIN.max(2 * self.index.len() as u64) || self.is_damaged
    }
}

/// The new file, and which record of which number lies where in it.
struct Copy {
    new: Records,
    moved: Vec<(Ino, u64)>,
}

impl Copy {
    /// Copies the records of all numbers that have a name. Returns those that are damaged.
    fn live(&mut self, old: &Records, live: Vec<(Ino, u64)>) -> io::Result<Vec<(Ino, u64)>> {
        let mut window = Window::new(&*old.file, old.end);
        let mut damaged = Vec::new();
        for (ino, offset) in live {
            match Record::decode(window.at(offset)?, old.id, offset) {
                Some((record, _)) => self.moved.push((ino, self.new.append(&record)?)),
                None => damaged.push((ino, offset)),
            }
        }
        Ok(damaged)
    }

    /// Copies records that were appended since.
    fn appended(&mut self, old: &Records, range: Range<u64>) -> io::Result<()> {
        let end = range.end;
        let copied = old.scan(range, |_, record| {
            self.moved.push((record.ino(), self.new.append(&record)?));
            Ok(())
        })?;
        match copied == end {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the table of inode numbers is damaged")),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.new.file.sync_here().unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
    }
}
