//! A disk in memory that keeps written data apart from durable data.

use crate::disk::{Disk, DiskFile, Sync};
use crate::store::remote::Time;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

/// A write tears at this granularity: disks promise to write a sector whole.
const SECTOR: usize = 512;

/// A directory that survives crashes as a disk would.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
    syncs: Arc<Notify>,
    /// A directory of the disk, as the beginning of its files' names.
    prefix: String,
}

/// Faults, as chances in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFaults {
    /// An fdatasync fails, and part of the data that it should have made durable is lost.
    pub sync_fails: u32,
    /// A sync takes up to this long.
    pub sync_time: Duration,
}

struct World {
    rng: StdRng,
    faults: DiskFaults,
    files: BTreeMap<u64, FileState>,
    live_names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    name_changes: Vec<NameChange>,
    next_file: u64,
    syncs: u64,
    failed_syncs: u64,
    /// Bytes by which files may still grow.
    free: u64,
    full: bool,
    /// Raised at each crash: files that were opened before it fail.
    life: u64,
    /// Raised at each power cut.
    boot: u128,
    /// The time of writes, in ns: it passes with each of them.
    clock: i128,
}

#[derive(Clone)]
enum NameChange {
    Create(String, u64),
    Remove(String),
    Rename(String, String),
}

#[derive(Default, Clone)]
struct FileState {
    live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    mtime: i128,
    /// Descriptors for writing that are open.
    writers: usize,
    is_mapped: bool,
}

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Len(u64),
    Punch(Range<u64>),
}

struct SimFile {
    disk: SimDisk,
    id: u64,
    life: u64,
    is_writer: bool,
}

impl SimDisk {
    /// An empty disk whose faults follow from `seed`.
    pub fn new(seed: u64, faults: DiskFaults) -> Self {
        let world = World {
            rng: StdRng::seed_from_u64(seed),
            faults,
            files: BTreeMap::new(),
            live_names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            next_file: 0,
            syncs: 0,
            failed_syncs: 0,
            free: u64::MAX,
            full: false,
            life: 0,
            boot: 1,
            clock: 0,
        };
        Self { world: Arc::new(Mutex::new(world)), syncs: Arc::new(Notify::new()), prefix: String::new() }
    }

    /// A directory of this disk, hit by the same power cuts.
    pub fn directory(&self, name: &str) -> Self {
        Self { prefix: format!("{}{name}/", self.prefix), ..self.clone() }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Changes the faults.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.world.lock().faults = faults;
    }

    /// The faults.
    pub fn faults(&self) -> DiskFaults {
        self.world.lock().faults
    }

    /// Leaves space for only this many more bytes.
    pub fn set_free(&self, bytes: u64) {
        self.world.lock().free = bytes;
    }

    /// Makes every write fail for want of space, even inside a file, until it is switched off.
    pub fn set_full(&self, full: bool) {
        self.world.lock().full = full;
    }

    /// A disk with the same files, as if they were copied to another computer.
    pub fn copy(&self, seed: u64) -> Self {
        let copy = Self::new(seed, DiskFaults::default());
        {
            let (mut theirs, ours) = (copy.world.lock(), self.world.lock());
            theirs.files = ours.files.clone();
            for file in theirs.files.values_mut() {
                (file.durable, file.unsynced) = (file.live.clone(), Vec::new());
            }
            (theirs.live_names, theirs.durable_names) = (ours.live_names.clone(), ours.live_names.clone());
            theirs.next_file = ours.next_file;
        }
        copy
    }

    /// The number of syncs that have failed by chance.
    pub fn failed_syncs(&self) -> u64 {
        self.world.lock().failed_syncs
    }

    /// Waits until `count` more syncs have begun.
    pub async fn after_syncs(&self, count: u64) {
        let target = self.world.lock().syncs.saturating_add(count);
        while self.world.lock().syncs < target {
            self.syncs.notified().await;
        }
    }

    /// Cuts the power: an arbitrary part of the unsynced changes is lost, down to single sectors.
    pub fn power_cut(&self) {
        let world = &mut *self.world.lock();
        let World { rng, files, .. } = world;
        let mood = rng.random_range(0..4);
        for file in files.values_mut() {
            let mut durable = std::mem::take(&mut file.durable);
            for change in std::mem::take(&mut file.unsynced) {
                match mood {
                    0 => {}
                    1 => change.apply(&mut durable),
                    _ => change.apply_torn(&mut durable, rng),
                }
            }
            file.live = durable.clone();
            file.durable = durable;
        }
        let kept = rng.random_range(0..=world.name_changes.len());
        let changes = std::mem::take(&mut world.name_changes);
        for change in &changes[..kept] {
            change.apply(&mut world.durable_names);
        }
        world.live_names = world.durable_names.clone();
        world.forget_unnamed();
        world.begin_life();
        world.boot += 1;
    }

    /// Says that a program has the file mapped for writing, or no longer has.
    pub fn set_mapped(&self, name: &str, is_mapped: bool) {
        let world = &mut *self.world.lock();
        let id = world.live_names[&self.full(name)];
        world.files.get_mut(&id).expect("a name has a file").is_mapped = is_mapped;
    }

    /// Kills the process: the page cache survives.
    pub fn kill(&self) {
        self.world.lock().begin_life();
    }

    /// Flips one bit of a file, on the disk and in the page cache.
    pub fn flip_bit(&self, name: &str, bit: u64) {
        let world = &mut *self.world.lock();
        let id = world.live_names[&self.full(name)];
        let file = world.files.get_mut(&id).expect("a name has a file");
        for bytes in [&mut file.live, &mut file.durable] {
            if let Some(byte) = bytes.get_mut(bit as usize / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
}

impl World {
    /// What the last process had open is closed.
    fn begin_life(&mut self) {
        self.life += 1;
        for file in self.files.values_mut() {
            (file.writers, file.is_mapped) = (0, false);
        }
    }

    fn forget_unnamed(&mut self) {
        let named: std::collections::BTreeSet<_> =
            self.live_names.values().chain(self.durable_names.values()).copied().collect();
        self.files.retain(|id, _| named.contains(id));
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Create(name, id) => {
                names.insert(name.clone(), *id);
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
            NameChange::Rename(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(offset, data) => write(bytes, *offset as usize, data),
            Change::Len(len) => bytes.resize(*len as usize, 0),
            Change::Punch(range) => {
                let end = bytes.len().min(range.end as usize);
                bytes[end.min(range.start as usize)..end].fill(0);
            }
        }
    }

    fn apply_torn(&self, bytes: &mut Vec<u8>, rng: &mut StdRng) {
        match self {
            Change::Write(offset, data) => {
                if rng.random_bool(0.3) {
                    return self.apply(bytes);
                }
                let mut at = 0;
                while at < data.len() {
                    let in_sector = SECTOR - (*offset as usize + at) % SECTOR;
                    let end = (at + in_sector).min(data.len());
                    if rng.random_bool(0.5) {
                        write(bytes, *offset as usize + at, &data[at..end]);
                    }
                    at = end;
                }
            }
            Change::Len(_) | Change::Punch(_) if rng.random_bool(0.5) => self.apply(bytes),
            Change::Len(_) | Change::Punch(_) => {}
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

impl Disk for SimDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let (world, name) = (&mut *self.world.lock(), self.full(name));
        let id = match world.live_names.get(&name) {
            Some(id) => *id,
            None if !create => return Err(ErrorKind::NotFound.into()),
            None => {
                world.next_file += 1;
                let change = NameChange::Create(name, world.next_file);
                change.apply(&mut world.live_names);
                world.name_changes.push(change);
                world.files.insert(world.next_file, FileState::default());
                world.next_file
            }
        };
        world.files.get_mut(&id).expect("a name has a file").writers += 1;
        Ok(Arc::new(SimFile { disk: self.clone(), id, life: world.life, is_writer: true }))
    }

    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let world = self.world.lock();
        let id = *world.live_names.get(&self.full(name)).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), id, life: world.life, is_writer: false }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let world = self.world.lock();
        let names = world.live_names.keys().filter_map(|name| name.strip_prefix(&self.prefix));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (world, name) = (&mut *self.world.lock(), self.full(name));
        world.live_names.remove(&name).ok_or(ErrorKind::NotFound)?;
        world.name_changes.push(NameChange::Remove(name));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (world, from) = (&mut *self.world.lock(), self.full(from));
        let change = NameChange::Rename(from.clone(), self.full(to));
        if !world.live_names.contains_key(&from) {
            return Err(ErrorKind::NotFound.into());
        }
        change.apply(&mut world.live_names);
        world.name_changes.push(change);
        Ok(())
    }

    fn sync_names(&self) -> Sync {
        let disk = self.clone();
        Box::pin(async move {
            let count = disk.world.lock().name_changes.len();
            disk.sync_takes_its_time().await;
            let world = &mut *disk.world.lock();
            let count = count.min(world.name_changes.len());
            for change in world.name_changes.drain(..count) {
                change.apply(&mut world.durable_names);
            }
            Ok(())
        })
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.world.lock().free)
    }

    fn boot(&self) -> Option<Uuid> {
        Some(Uuid::from_u128(self.world.lock().boot))
    }
}

impl SimDisk {
    async fn sync_takes_its_time(&self) {
        let time = {
            let world = &mut *self.world.lock();
            world.syncs += 1;
            self.syncs.notify_waiters();
            let most = world.faults.sync_time.as_micros() as u64;
            Duration::from_micros(world.rng.random_range(0..=most))
        };
        tokio::time::sleep(time).await;
    }
}

impl SimFile {
    fn with<T>(&self, f: impl FnOnce(&mut FileState, &mut u64) -> io::Result<T>) -> io::Result<T> {
        let world = &mut *self.disk.world.lock();
        if world.life != self.life {
            return Err(io::Error::other("the power was cut"));
        }
        let file = world.files.get_mut(&self.id).ok_or(ErrorKind::NotFound)?;
        f(file, &mut world.free)
    }

    fn change(&self, change: Change) -> io::Result<()> {
        if !self.is_writer {
            return Err(io::Error::other("the file is open for reading only"));
        }
        let now = {
            let world = &mut *self.disk.world.lock();
            world.clock += 1;
            world.clock
        };
        self.with(|file, free| {
            let end = match &change {
                Change::Write(offset, data) => offset + data.len() as u64,
                Change::Len(_) | Change::Punch(_) => 0,
            };
            let grows = end.saturating_sub(file.live.len() as u64);
            *free = free.checked_sub(grows).ok_or(ErrorKind::StorageFull)?;
            change.apply(&mut file.live);
            file.unsynced.push(change);
            file.mtime = now;
            Ok(())
        })
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|file, _| Ok(file.live.len() as u64))
    }

    fn allocated(&self) -> io::Result<u64> {
        const HOLE: [u8; 4096] = [0; 4096];
        let is_data = |page: &&[u8]| **page != HOLE[..page.len()];
        self.with(|file, _| Ok((file.live.chunks(HOLE.len()).filter(is_data).count() * HOLE.len()) as u64))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|file, _| {
            let bytes = file.live.get(offset as usize..offset as usize + buf.len());
            buf.copy_from_slice(bytes.ok_or(ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.disk.world.lock().full {
            return Err(ErrorKind::StorageFull.into());
        }
        self.change(Change::Write(offset, buf.to_vec()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Len(len))
    }

    fn reserve(&self, _range: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.change(Change::Punch(range))
    }

    fn mtime(&self) -> io::Result<Time> {
        self.with(|file, _| Ok(Time(file.mtime)))
    }

    fn set_mtime(&self, mtime: Time) -> io::Result<()> {
        self.with(|file, _| {
            file.mtime = mtime.0;
            Ok(())
        })
    }

    fn lease(&self) -> io::Result<bool> {
        self.with(|file, _| Ok(file.writers == 0 && !file.is_mapped))
    }

    fn sync(self: Arc<Self>) -> Sync {
        Box::pin(async move {
            // As on a real disk, a sync runs to its end even if nobody waits for it.
            let synced = tokio::spawn(self.sync_now()).await;
            synced.unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
        })
    }

    fn sync_here(&self) -> Option<io::Result<()>> {
        Some(self.sync_first(usize::MAX))
    }

    fn as_file(&self) -> Option<&File> {
        None
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let world = &mut *self.disk.world.lock();
        let is_counted = self.is_writer && world.life == self.life;
        if let Some(file) = world.files.get_mut(&self.id).filter(|_| is_counted) {
            file.writers -= 1;
        }
    }
}

impl SimFile {
    async fn sync_now(self: Arc<Self>) -> io::Result<()> {
        // The sync does not cover data that is written while it runs.
        let count = self.with(|file, _| Ok(file.unsynced.len()))?;
        self.disk.sync_takes_its_time().await;
        self.sync_first(count)
    }

    /// Syncs the first `count` of the unsynced changes.
    fn sync_first(&self, count: usize) -> io::Result<()> {
        let world = &mut *self.disk.world.lock();
        if world.life != self.life {
            return Err(io::Error::other("the power was cut"));
        }
        let fails = world.rng.random_ratio(world.faults.sync_fails, 1000);
        world.failed_syncs += u64::from(fails);
        let file = world.files.get_mut(&self.id).ok_or(ErrorKind::NotFound)?;
        let count = count.min(file.unsynced.len());
        for change in file.unsynced.drain(..count) {
            if fails {
                change.apply_torn(&mut file.durable, &mut world.rng);
            } else {
                change.apply(&mut file.durable);
            }
        }
        if fails { Err(io::Error::other("a sync fails by chance")) } else { Ok(()) }
    }
}
