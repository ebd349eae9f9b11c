//! Which HEAD may follow which. Pure: each transition takes the HEAD that is there and returns the next one, or says why there is none.
//!
//! All transitions keep these rules:
//! - The drive stays the same. The epoch never falls, and it rises whenever another device may write from now on.
//! - Each HEAD has a nonce of its own, so a swap without an answer can be judged by the HEAD that is there.
//! - The next version is the current one, or a root whose parent that is. So no version is skipped unnoticed.
//! - A drive that was removed stays removed. A drive that has moved comes back only by a restore or a promotion.
//! - As long as a promotion is not finished, only a promotion follows.

use super::{Author, Version};
use crate::format::head::{Head, HeadState};
use crate::format::id::ObjectId;
use crate::units::Epoch;
use uuid::Uuid;

/// Why a HEAD may not follow another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The drive was removed.
    #[error("the drive was removed from its store")]
    Removed,
    /// The drive lives in another store.
    #[error("the drive was moved to another store")]
    Moved,
    /// The drive has not moved, so it cannot be restored.
    #[error("the drive has not moved")]
    NotMoved,
    /// The drive lives in this store: a promotion would replace it.
    #[error("the drive lives in this store")]
    Here,
    /// The drive became a primary, and has not continued to its newest version yet.
    #[error("the promotion of this store is not finished")]
    Unfinished,
    /// There is no promotion to finish.
    #[error("no promotion of this store is under way")]
    Finished,
    /// Another device has the drive open.
    #[error("{device_name} has the drive open (epoch {epoch})")]
    Held {
        /// Its name.
        device_name: String,
        /// Its epoch.
        epoch: Epoch,
    },
    /// HEAD is not this device's own.
    #[error("another computer has changed the drive")]
    NotOwn,
    /// A device had the drive open before, so it is not given back.
    #[error("the drive was open on another computer before")]
    WasHeld,
    /// The version does not follow the one that HEAD names.
    #[error("the version does not follow the current one")]
    OtherVersion,
    /// The epoch was used before.
    #[error("the epoch {0} was used before")]
    UsedEpoch(Epoch),
}

/// The first HEAD of a drive: a new one, a clone, or a fork. A fork `is_held` by its device from the start.
///
/// Before: the store has no HEAD of the drive. The swap has to check that.
pub fn publish(drive: Uuid, epoch: Epoch, version: Version, is_held: bool, author: Author) -> Head {
    let state = if is_held { HeadState::Held } else { HeadState::Released };
    let Version { root, root_hash, parent } = version;
    Head {
        drive,
        epoch,
        nonce: author.nonce,
        device: author.device.id,
        device_name: author.device.name.clone(),
        state,
        written_ms: author.written_ms,
        root,
        root_hash,
        parent,
        moved_to: Vec::new(),
    }
}

/// Opens the drive: from now on every earlier writer is fenced.
///
/// Before: the drive is here, and no other device has it open, unless the caller may fence that device (`over_others`). `epoch` is above
/// HEAD's. `version` is HEAD's, or a copy that keeps it for another device.
pub fn take(
    before: &Head,
    epoch: Epoch,
    version: Version,
    over_others: bool,
    author: Author,
) -> Result<Head, Invalid> {
    is_settled(before)?;
    if !over_others {
        is_free(before, author)?;
    }
    if epoch <= before.epoch {
        return Err(Invalid::UsedEpoch(epoch));
    }
    next(before, epoch, version, HeadState::Held, author)
}

/// Makes a version current that adds changes.
///
/// Before: HEAD is this device's own, of the same epoch, and `version` follows HEAD's.
pub fn commit(before: &Head, version: Version, author: Author) -> Result<Head, Invalid> {
    is_own(before, author)?;
    match version.parent == before.root {
        true => next(before, before.epoch, version, HeadState::Held, author),
        false => Err(Invalid::OtherVersion),
    }
}

/// Says that no device has the drive open.
///
/// Before: HEAD is this device's own.
pub fn release(before: &Head, author: Author) -> Result<Head, Invalid> {
    is_own(before, author)?;
    next(before, before.epoch, Version::of(before), HeadState::Released, author)
}

/// Gives the drive to another device, which is the author: it has the drive open from now on, with the version that HEAD names. What is newer
/// that device has already. Both devices make the same HEAD, so either may put it.
///
/// Before: the drive is here, and held by the device that gives it.
pub fn grant(before: &Head, to: Author) -> Result<Head, Invalid> {
    is_settled(before)?;
    next(before, raised(before), Version::of(before), HeadState::Held, to)
}

/// Gives a drive back that was `taken` over the HEAD `before`, because the opening failed. HEAD names the device again that had released
/// the drive, so the next device that takes it keeps that device's version. The epoch stays raised, so that anything that the opening still
/// has in flight is fenced.
///
/// Before: no device had the drive open, and the author has it now.
pub fn give_back(before: &Head, taken: &Head, author: Author) -> Result<Head, Invalid> {
    if before.state != HeadState::Released {
        return Err(Invalid::WasHeld);
    }
    is_own(taken, author)?;
    if taken.epoch <= before.epoch {
        return Err(Invalid::UsedEpoch(taken.epoch));
    }
    let released = next(taken, taken.epoch, Version::of(taken), HeadState::Released, author)?;
    let (device, device_name) = (before.device, before.device_name.clone());
    Ok(Head { device, device_name, written_ms: taken.written_ms, ..released })
}

/// Makes `version` current on a closed drive: another name, or an earlier content.
///
/// Before: the drive is here, and no other device has it open. `version` follows HEAD's.
pub fn change(before: &Head, version: Version, author: Author) -> Result<Head, Invalid> {
    close_over(before, version, HeadState::Released, author)
}

/// Marks the drive as removed. `version` is its last one, without content.
///
/// Before: as for [`change`].
pub fn remove(before: &Head, version: Version, author: Author) -> Result<Head, Invalid> {
    close_over(before, version, HeadState::Removed, author)
}

/// Marks the drive as moved to another store. `address` seals that store's address for the epoch that it is given.
///
/// Before: the drive is here, and no other device has it open, unless the caller may fence that device (`over_others`).
pub fn retire(
    before: &Head,
    over_others: bool,
    address: impl FnOnce(Epoch) -> Vec<u8>,
    author: Author,
) -> Result<Head, Invalid> {
    is_settled(before)?;
    if !over_others {
        is_free(before, author)?;
    }
    let moved = next(before, raised(before), Version::of(before), HeadState::Moved, author)?;
    Ok(Head { moved_to: address(moved.epoch), ..moved })
}

/// Undoes [`retire`].
///
/// Before: the drive has moved, and this device said so.
pub fn restore(before: &Head, author: Author) -> Result<Head, Invalid> {
    match before.state {
        HeadState::Moved if before.device == author.device.id => {
            next(before, raised(before), Version::of(before), HeadState::Released, author)
        }
        HeadState::Moved => Err(Invalid::NotOwn),
        HeadState::Removed => Err(Invalid::Removed),
        HeadState::Released | HeadState::Held => Err(Invalid::NotMoved),
    }
}

/// The lowest epoch in which a replica may become the primary with the version of `record`, over the HEAD `before`.
pub fn promoted_epoch(before: Option<&Head>, record: &Head, above: Epoch) -> Epoch {
    let known = before.map_or(Epoch(0), |before| before.epoch);
    Epoch(known.max(record.epoch).max(above).0 + 1)
}

/// Makes a replica the primary, with the version of `record` or a copy that keeps it for another device. No device has it open. The
/// promotion is not finished yet: versions that reached the replica meanwhile may have to follow.
///
/// Before: the drive has no HEAD here, or it was removed or has moved, or an earlier promotion is not finished. `epoch` is above all known
/// ones.
pub fn promote(
    before: Option<&Head>,
    record: &Head,
    (epoch, version): (Epoch, Version),
    author: Author,
) -> Result<Head, Invalid> {
    match before {
        Some(before) if before.drive != record.drive => return Err(Invalid::OtherVersion),
        Some(before) if before.state.is_here() && !before.is_provisional() => return Err(Invalid::Here),
        _ => {}
    }
    if version.root != record.root && version.parent != record.root {
        return Err(Invalid::OtherVersion);
    }
    if epoch < promoted_epoch(before, record, Epoch(0)) {
        return Err(Invalid::UsedEpoch(epoch));
    }
    let head = publish(record.drive, epoch, version, false, author);
    Ok(Head { nonce: head.provisional_nonce(), ..head })
}

/// Takes up a promotion again that a program ended which looked for no later version, or was cut off before it did: HEAD is provisional from
/// now on. All devices that do this make the same HEAD.
///
/// Before: no device has the drive open, and none has committed since the promotion. The caller has to check that, and knows a later version.
pub fn take_up(before: &Head) -> Result<Head, Invalid> {
    is_settled(before)?;
    if before.state == HeadState::Held {
        return Err(Invalid::Held { device_name: before.device_name.clone(), epoch: before.epoch });
    }
    Ok(Head { nonce: before.provisional_nonce(), ..before.clone() })
}

/// Ends a promotion: no later version has reached the replica. HEAD still names the device that promoted it, and whoever takes the drive keeps
/// the version for that device. The epoch rises: where HEADs are swapped by claims, only one of two devices that end it at once may succeed.
///
/// Before: a promotion is not finished.
pub fn finish(before: &Head, author: Author) -> Result<Head, Invalid> {
    if !before.is_provisional() {
        return Err(Invalid::Finished);
    }
    let finished = next(before, raised(before), Version::of(before), HeadState::Released, author)?;
    let (device, device_name) = (before.device, before.device_name.clone());
    Ok(Head { device, device_name, ..finished })
}

/// Marks the name of a drive that was never made: its first HEAD was put, and may still arrive. From now on it cannot.
///
/// Before: the store has no HEAD of the drive. The swap has to check that. A first HEAD of epoch 0 that arrives even so is not the current one,
/// on any store: where HEADs are swapped by claims, the one of the higher epoch counts.
pub fn abandon(drive: Uuid, author: Author) -> Head {
    let version = Version { root: ObjectId::NONE, root_hash: [0; 32], parent: ObjectId::NONE };
    Head { state: HeadState::Removed, ..publish(drive, Epoch(1), version, false, author) }
}

/// Whether `after` may follow `before` at all. Every transition ensures this.
pub(super) fn follows(before: &Head, after: &Head) -> bool {
    before.drive == after.drive && before.epoch <= after.epoch && before.nonce != after.nonce
}

fn close_over(before: &Head, version: Version, state: HeadState, author: Author) -> Result<Head, Invalid> {
    is_settled(before)?;
    is_free(before, author)?;
    match version.parent == before.root {
        true => next(before, raised(before), version, state, author),
        false => Err(Invalid::OtherVersion),
    }
}

fn next(
    before: &Head,
    epoch: Epoch,
    version: Version,
    state: HeadState,
    author: Author,
) -> Result<Head, Invalid> {
    let is_same = version == Version::of(before);
    if !is_same && version.parent != before.root {
        return Err(Invalid::OtherVersion);
    }
    Ok(Head { state, ..publish(before.drive, epoch, version, false, author) })
}

fn raised(before: &Head) -> Epoch {
    Epoch(before.epoch.0 + 1)
}

/// The drive lives here, and no promotion is under way.
fn is_settled(before: &Head) -> Result<(), Invalid> {
    match before.state {
        HeadState::Removed => Err(Invalid::Removed),
        HeadState::Moved => Err(Invalid::Moved),
        HeadState::Released | HeadState::Held if before.is_provisional() => Err(Invalid::Unfinished),
        HeadState::Released | HeadState::Held => Ok(()),
    }
}

fn is_free(before: &Head, author: Author) -> Result<(), Invalid> {
    match before.state == HeadState::Held && before.device != author.device.id {
        true => Err(Invalid::Held { device_name: before.device_name.clone(), epoch: before.epoch }),
        false => Ok(()),
    }
}

fn is_own(before: &Head, author: Author) -> Result<(), Invalid> {
    is_settled(before)?;
    match before.device == author.device.id {
        true => Ok(()),
        false => Err(Invalid::NotOwn),
    }
}

#[cfg(test)]
mod tests;
