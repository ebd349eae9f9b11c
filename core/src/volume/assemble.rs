//! An open drive from its parts.

use super::keeper::Keeper;
use super::pins::Pins;
use super::remember::Rememberer;
use super::scanning::Scanning;
use super::source::MapSource;
use super::survey::Survey;
use super::trace::Trace;
use super::{Pinned, Volume, VolumeLimits};
use crate::cache::Cache;
use crate::disk::Disk;
use crate::format::id::ObjectId;
use crate::format::root::Root;
use crate::journal::Journal;
use crate::map::Map;
use crate::pull::Puller;
use crate::push::Pusher;
use crate::room::Room;
use crate::store::meter::Meter;
use crate::units::Lsn;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The number of blocks for which bitmaps have space: a drive may grow while it is open.
pub(super) fn capacity(size_blocks: u64) -> u64 {
    const TIB: u64 = (1 << 40) / crate::units::BLOCK_BYTES;
    (size_blocks * 16)
        .next_power_of_two()
        .clamp(TIB, crate::units::DRIVE_BYTES_MAX / crate::units::BLOCK_BYTES)
}

/// The parts of an open drive.
pub(super) struct Assembly {
    pub journal: Arc<Journal>,
    pub cache: Arc<Cache>,
    /// Where the cache's files lie.
    pub disk: Arc<dyn Disk>,
    pub map: Arc<Map>,
    pub meter: Meter,
    pub limits: VolumeLimits,
    pub root: Root,
    pub root_id: ObjectId,
    pub applied: Lsn,
    pub size: Option<u64>,
    pub writer: Option<(Pusher, Arc<Rememberer>)>,
    pub pinned: Pinned,
}

/// Puts them together, and starts the tasks that run while the drive is open.
pub(super) fn assemble(assembly: Assembly) -> io::Result<Arc<Volume>> {
    let Assembly { journal, cache, disk, map, meter, limits, root, root_id, applied, size, writer, pinned } =
        assembly;
    // This comes before anything can evict chunks.
    cache.pin(&pinned.below(cache.valid().capacity()))?;
    let dirty = journal.clone();
    // If nothing is pushed, all that was written stays dirty.
    let is_dirty = move |blocks| dirty.is_dirty(blocks);
    let size_blocks = size.unwrap_or(root.geometry.size_blocks);
    let (survey, beginning) = match limits.metadata_first {
        true => Survey::new(size_blocks, &cache, disk.clone(), limits.cache_bytes),
        false => Survey::none(size_blocks),
    };
    let trace = Trace::start(disk.clone(), cache.valid().capacity());
    let room = Room::start(cache.clone(), disk, limits.cache_bytes, is_dirty);
    let source = MapSource::new(map.clone(), journal.clone(), survey.files());
    let puller = Puller::new(source, cache.clone(), room.clone());
    puller.set_background(!limits.pull_paused);
    let (pusher, rememberer) = writer.unzip();
    let remembered = rememberer.clone();
    // A version that is only read is never pushed: its journal keeps what the cache does not take.
    let committed = move || remembered.as_ref().map(|remembered| remembered.lsn());
    let applied_durable = Arc::new(AtomicU64::new(0));
    let stuck = pusher.as_ref().map(Pusher::is_stuck);
    let is_stuck = move || stuck.as_ref().is_none_or(|is_stuck| is_stuck());
    let keeper = Keeper::start(
        journal.clone(),
        cache.clone(),
        room.clone(),
        committed,
        is_stuck,
        applied,
        applied_durable.clone(),
    );
    let volume = Arc::new(Volume {
        pins: Pins::new(pinned),
        survey,
        scanning: Scanning::new(),
        trace,
        journal,
        cache,
        map,
        puller,
        room,
        pusher,
        meter,
        root,
        root_id,
        size_blocks: AtomicU64::new(size_blocks),
        closed: AtomicBool::new(false),
        keeper,
        rememberer,
        applied_durable,
        resizing: Mutex::new(()),
        gate: super::gate::Gate::default(),
        is_handing_over: AtomicBool::new(false),
    });
    // These tasks end if there is no volume, so they start only now.
    volume.pins.begin(&volume);
    volume.survey.begin(beginning, &volume);
    Ok(volume)
}
