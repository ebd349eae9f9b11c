//! How many bytes of a drive are in each state.

use crate::api;
use holdall_core::journal::Place;
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use holdall_core::volume::Volume;

/// The state of uploads and downloads.
#[derive(Clone, Copy)]
pub(super) struct Traffic {
    /// Whether a batch is being put.
    pub is_sending: bool,
    /// Whether the store does not accept it.
    pub is_failing: bool,
    /// Blocks that the store returned damaged.
    pub damage: Option<BlockRange>,
    /// What files use, if that is known.
    pub used_bytes: Option<u64>,
}

/// The bytes in each state. Each block counts once.
pub(super) fn count(volume: &Volume, traffic: Traffic) -> api::CellBytes {
    let mut bytes = api::CellBytes::default();
    let (journal, sends) = (volume.journal(), volume.pusher().is_some());
    for (run, is_dirty) in journal.dirty_runs(volume.all_blocks()) {
        match is_dirty && sends {
            true => add_unsent(&mut bytes, volume, traffic, run),
            false => add_sent(&mut bytes, volume, traffic, run),
        }
    }
    if let Some(used) = traffic.used_bytes {
        let here = bytes.cached + bytes.pinned + bytes.dirty + bytes.uploading;
        // The rest is free space, which is nowhere.
        bytes.absent = bytes.absent.min(used.saturating_sub(here));
    }
    bytes
}

/// Adds blocks that the store lacks.
fn add_unsent(bytes: &mut api::CellBytes, volume: &Volume, traffic: Traffic, run: BlockRange) {
    for (piece, entry) in volume.journal().look_up(run) {
        let is_zero = match entry.map(|entry| entry.place) {
            Some(Place::Zero) => true,
            Some(Place::Data { .. }) => false,
            // It is applied, and a run of zeros is a hole in the cache.
            None => volume.cache().taken_by(piece).is_ok_and(|taken| taken == 0),
        };
        let kind = if is_zero {
            &mut bytes.empty
        } else if !(traffic.is_sending && volume.journal().is_sealing(piece)) {
            &mut bytes.dirty
        } else if traffic.is_failing {
            &mut bytes.failed
        } else {
            &mut bytes.uploading
        };
        *kind += piece.count() * BLOCK_BYTES;
    }
}

/// Adds blocks that the store has. They may still be in the journal only.
fn add_sent(bytes: &mut api::CellBytes, volume: &Volume, traffic: Traffic, run: BlockRange) {
    for (piece, entry) in volume.journal().look_up(run) {
        match entry.map(|entry| entry.place) {
            Some(Place::Zero) => bytes.empty += piece.count() * BLOCK_BYTES,
            Some(Place::Data { .. }) => add_local(bytes, volume, piece, piece.count() * BLOCK_BYTES),
            None => add_from_cache(bytes, volume, traffic, piece),
        }
    }
}

fn add_from_cache(bytes: &mut api::CellBytes, volume: &Volume, traffic: Traffic, run: BlockRange) {
    let valid = volume.cache().valid();
    let missing = |part: BlockRange| (part.count() - valid.count(part)) * BLOCK_BYTES;
    let damaged = traffic.damage.map(|damage| damage.intersect(&run)).filter(|part| !part.is_empty());
    let damaged = damaged.map_or(0, missing);
    bytes.failed += damaged;
    bytes.absent += missing(run) - damaged;
    let here = valid.count(run) * BLOCK_BYTES;
    if here == 0 {
        return;
    }
    let taken = volume.cache().taken_by(run).map_or(here, |taken| taken.min(here));
    bytes.empty += here - taken;
    add_local(bytes, volume, run, taken);
}

/// Adds `here` bytes of a run, which take space on this device.
fn add_local(bytes: &mut api::CellBytes, volume: &Volume, run: BlockRange, here: u64) {
    let pinned: u64 =
        volume.cache().residents().pinned_runs(run).iter().map(|part| part.count() * BLOCK_BYTES).sum();
    let pinned = pinned.min(here);
    bytes.pinned += pinned;
    bytes.cached += here - pinned;
}
