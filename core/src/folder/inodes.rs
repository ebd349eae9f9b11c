//! The numbers of a folder's files: which name has which number.
//!
//! The kernel knows files by number, and so do the other tables. A number means one file for ever: it may lose its name, but it is never
//! given to another file. Three rules keep that true:
//!
//! * **A killed daemon knows what the kernel knows.** A record is in the page cache (by a plain write) before its number is given to anybody.
//! * **A power cut may take the newest records**, and with them the numbers that they gave. The kernel has forgotten them too, but tables that
//!   were made durable may still name them. So opening takes the highest number that any of those has seen, and new numbers begin above it.
//! * **Damage takes the damaged record and all that follow.** The dropped part still says how many numbers it can have given, and new numbers
//!   begin above those; this is written to the header before the part is cut off.
//!
//! What remains after a loss is an earlier state of the table. That a number has its former name again does no harm as long as those who keep
//! something under the number also look at what it is (a version), or have waited for [`sync`](Inodes::sync) before they forgot the change.
//!
//! Memory holds no names: 8 bytes for each number with a name, and its share of a hash table (`index`). The names are in the file, which
//! every hit reads once; `record` describes its bytes.

use super::node::{Ino, Place};
use crate::disk::{Disk, Sync};
use crate::store::remote::Name;
use file::Records;
use index::Index;
use parking_lot::{Mutex, RwLock};
use record::Record;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod compact;
mod file;
mod index;
mod record;
mod tend;
#[cfg(test)]
mod tests;

pub(super) use tend::tend;

/// The file of numbers.
const NAME: &str = "inodes";

/// A file of numbers that is being written and not in use yet.
const NEW_NAME: &str = "inodes.new";

/// The table of numbers. Its calls read and write the local disk and wait for nothing else.
pub struct Inodes {
    disk: Arc<dyn Disk>,
    /// Keyed anew at each opening: nobody outside can choose names that collide.
    hasher: RandomState,
    // A lock and not a message: a lookup must not cost a task switch. It is held while one record is read or written.
    state: RwLock<State>,
    compacting: Mutex<()>,
    /// The file may belong to the next opening.
    is_closed: AtomicBool,
}

struct State {
    records: Records,
    index: Index,
    /// The highest number that was ever given.
    floor: Ino,
    /// Records in the file, dead ones included.
    count: u64,
    /// A record in the middle of the file was found damaged: reopening the file would drop what follows it.
    is_damaged: bool,
}

/// The number of a name, and numbers that were passed because their records are damaged.
type Found = (Option<Ino>, Vec<(Ino, u64)>);

impl Inodes {
    /// Opens the table in `disk`, or begins one. New numbers are above `at_least`, which is the highest number that any other table of the
    /// folder knows.
    pub fn open(disk: Arc<dyn Disk>, at_least: Ino) -> io::Result<Self> {
        match disk.remove(NEW_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let hasher = RandomState::new();
        let (mut index, mut count) = (Index::default(), 0);
        let opened = Records::open(&*disk, |records, offset, record| {
            count += 1;
            index.remove(record.ino());
            if let Record::Named(ino, place) = record {
                let (holder, _) = index.find(records, &hasher, place.parent, &place.name)?;
                index.give(&hasher, ino, &place, offset, holder);
            }
            Ok(())
        })?;
        let (records, floor) = match opened {
            Ok(opened) => opened,
            Err(floor) => {
                let floor = floor.max(at_least);
                let records = Records::create(&*disk, floor)?;
                records.install(&*disk)?;
                (records, floor)
            }
        };
        let floor = floor.max(at_least).max(Ino::ROOT);
        let state = RwLock::new(State { records, index, floor, count, is_damaged: false });
        let inodes =
            Self { disk, hasher, state, compacting: Mutex::default(), is_closed: AtomicBool::new(false) };
        if inodes.wants_compaction() {
            inodes.compact()?;
        }
        Ok(inodes)
    }

    /// The number of a name. A name that has none gets one.
    pub fn number(&self, parent: Ino, name: &Name) -> io::Result<Ino> {
        if let Some(ino) = self.find(parent, name)? {
            return Ok(ino);
        }
        let mut state = self.state.write();
        // Another thread may have been faster.
        if let Some(ino) = state.take(&self.hasher, parent, name)? {
            return Ok(ino);
        }
        let next = state.next()?;
        state.name(&self.hasher, next, Place::new(parent, name.clone()), None)?;
        Ok(next)
    }

    /// A number that nobody has, without a name: for a file that is made here.
    pub fn fresh(&self) -> io::Result<Ino> {
        let mut state = self.state.write();
        let next = state.next()?;
        state.records.append(&Record::Nameless(next))?;
        state.count += 1;
        state.floor = next;
        Ok(next)
    }

    /// The number of a name, if it has one.
    pub fn find(&self, parent: Ino, name: &Name) -> io::Result<Option<Ino>> {
        let state = self.state.read();
        let (found, damaged) = state.index.find(&state.records, &self.hasher, parent, name)?;
        drop(state);
        for (ino, offset) in damaged {
            self.lose_name(ino, offset);
        }
        Ok(found)
    }

    /// The name of a number; `None` if it has none (or none any more), as the root.
    pub fn place(&self, ino: Ino) -> io::Result<Option<Place>> {
        let state = self.state.read();
        let Some(offset) = state.index.offset(ino) else { return Ok(None) };
        match state.records.read(offset)? {
            Some(Record::Named(named, place)) if named == ino => Ok(Some(place)),
            _ => {
                drop(state);
                self.lose_name(ino, offset);
                Ok(None)
            }
        }
    }

    /// A file was renamed in the remote by this device, or has no name any more. If another number has that name, it loses it.
    pub fn moved(&self, ino: Ino, to: Option<Place>) -> io::Result<()> {
        assert!(ino != Ino::ROOT, "the root has no name");
        let mut state = self.state.write();
        let Some(place) = to else { return state.unname(ino) };
        match state.take(&self.hasher, place.parent, &place.name)? {
            Some(holder) if holder == ino => Ok(()),
            holder => state.name(&self.hasher, ino, place, holder),
        }
    }

    /// Takes the name from a number. The name gets another number when it is asked for; this one stays what it is, without a name.
    pub fn detach(&self, ino: Ino) -> io::Result<()> {
        self.moved(ino, None)
    }

    /// Makes a number known that another table names: it has this name, and is not given again.
    pub fn claim(&self, ino: Ino, place: Place) -> io::Result<()> {
        self.moved(ino, Some(place))
    }

    /// Makes durable what was recorded before the call. A change that another table forgets from here on is known after a power cut too.
    pub fn sync(&self) -> Sync {
        let file = self.state.read().records.file.clone();
        let disk = self.disk.clone();
        Box::pin(async move {
            file.sync().await?;
            disk.sync_names().await
        })
    }

    /// How many numbers have a name.
    #[allow(clippy::len_without_is_empty, reason = "whether it is empty is never asked")]
    pub fn len(&self) -> usize {
        self.state.read().index.len()
    }

    /// The record of a number is damaged: the number has no name from here on.
    fn lose_name(&self, ino: Ino, offset: u64) {
        let mut state = self.state.write();
        if state.index.offset(ino) == Some(offset) {
            state.lose_name(ino);
        }
    }
}

impl State {
    /// The number that is given next.
    fn next(&self) -> io::Result<Ino> {
        let next = self.floor.0.checked_add(1).filter(|next| *next < u32::MAX);
        let full = || io::Error::new(io::ErrorKind::StorageFull, "no inode number is left");
        next.map(Ino).ok_or_else(full)
    }

    /// The number of a name, under the lock for writing.
    fn take(&mut self, hasher: &RandomState, parent: Ino, name: &Name) -> io::Result<Option<Ino>> {
        let (found, damaged) = self.index.find(&self.records, hasher, parent, name)?;
        damaged.into_iter().for_each(|(ino, _)| self.lose_name(ino));
        Ok(found)
    }

    /// Gives a name to a number, which `holder` has now.
    fn name(&mut self, hasher: &RandomState, ino: Ino, place: Place, holder: Option<Ino>) -> io::Result<()> {
        let offset = self.records.append(&Record::Named(ino, place.clone()))?;
        self.count += 1;
        self.floor = self.floor.max(ino);
        self.index.give(hasher, ino, &place, offset, holder);
        Ok(())
    }

    /// Takes the name from a number.
    fn unname(&mut self, ino: Ino) -> io::Result<()> {
        if self.index.offset(ino).is_some() {
            self.records.append(&Record::Nameless(ino))?;
            self.count += 1;
            self.index.remove(ino);
        }
        Ok(())
    }

    fn lose_name(&mut self, ino: Ino) {
        tracing::warn!(%ino, "a record of the table of inode numbers is damaged");
        self.index.remove(ino);
        self.is_damaged = true;
    }
}

impl Index {
    /// `ino` has this name from here on, and `holder`, which had it, none. The record lies at `offset`.
    fn give(&mut self, hasher: &RandomState, ino: Ino, place: &Place, offset: u64, holder: Option<Ino>) {
        holder.map(|holder| self.remove(holder));
        self.remove(ino);
        self.insert(ino, offset, hash(hasher, place.parent, &place.name));
    }

    fn find(&self, records: &Records, hasher: &RandomState, parent: Ino, name: &Name) -> io::Result<Found> {
        let mut damaged = Vec::new();
        for (ino, offset) in self.candidates(hash(hasher, parent, name)) {
            match records.read(offset)? {
                Some(Record::Named(named, place)) if named == ino => {
                    if place.parent == parent && place.name == *name {
                        return Ok((Some(ino), damaged));
                    }
                }
                _ => damaged.push((ino, offset)),
            }
        }
        Ok((None, damaged))
    }
}

fn hash(hasher: &RandomState, parent: Ino, name: &Name) -> u32 {
    hasher.hash_one((parent, name)) as u32
}
