//! The steps of an opening that change the store: a fork's first HEAD, and the swap.

use super::access::{Environment, OpenError};
use super::assemble::capacity;
use super::open::read_head;
use super::{Fork, Local, VolumeLimits};
use crate::fence::{self, Swap};
use crate::fork::{self, Branch, ForkError};
use crate::format::head::{self, Head, HeadState};
use crate::format::id::ObjectId;
use crate::journal::Journal;
use crate::map::Objects;
use crate::push::{Device, now_ms};
use crate::retry::Backoff;
use crate::seal::Sealer;
use crate::store::{Etag, Store, StoreError, When};
use crate::units::{Epoch, Lsn};
use bytes::Bytes;
use std::time::Duration;

/// Tries of a swap whose answer is lost. After these the opening fails, and the next one finds out whether the swap was applied.
const SWAP_TRIES: u32 = 5;

/// How long to wait for the store when an opening gives a drive back.
const GIVE_BACK_PATIENCE: Duration = Duration::from_secs(10);

/// Tries to be faster than a device that commits all the time. After reading HEAD a try needs one round trip, a commit three at least.
const SEIZE_TRIES: u32 = 16;

/// Opens the journal of a fork that has no HEAD yet, finds the version with which it can begin, and makes its HEAD.
pub(super) async fn begin_fork(
    env: &Environment,
    objects: &Objects,
    fork: &Fork,
    local: &Local,
    device: &Device,
    limits: VolumeLimits,
) -> Result<(Head, Etag), OpenError> {
    let opened = Journal::open(env.journal.clone(), limits.journal, capacity(0), local.journal).await?;
    let (journal, recovered) = opened;
    let sent = local.base.as_ref().map_or(0, |base| base.lsn);
    let gone = || OpenError::NoForkPoint { unsent: recovered.last.0.saturating_sub(sent) };
    let base = local.base.as_ref().ok_or_else(gone)?;
    let branch = Branch { journal: &journal, base, least: Lsn(0), device };
    match fork::begin(objects, fork, &branch).await {
        Ok((head, etag, _)) => Ok((head, etag)),
        Err(ForkError::Gone) => Err(gone()),
        Err(ForkError::Raced) => Err(fork::raced().into()),
        Err(ForkError::Journal(error)) => Err(error.into()),
        Err(ForkError::Read(error)) => Err(error.into()),
    }
}

/// A root as HEAD names it: its id, BLAKE3 of its object, and its parent.
type Named = (ObjectId, [u8; 32], ObjectId);

/// Swaps HEAD to the next epoch, held by `device`, over the very HEAD `before`.
pub(super) async fn swap_epoch(
    store: &dyn Store,
    sealer: &Sealer,
    before: &Head,
    mut etag: Etag,
    epoch: Epoch,
    (root, root_hash, parent): Named,
    device: &Device,
) -> Result<(Head, Etag), OpenError> {
    let head = Head {
        epoch,
        root,
        root_hash,
        parent,
        nonce: crate::entropy::u128(),
        device: device.id,
        device_name: device.name.clone(),
        state: HeadState::Held,
        written_ms: now_ms(),
        ..before.clone()
    };
    let name = head::name(before.drive);
    let body = Bytes::from(head.encode(sealer));
    let mut backoff = Backoff::new();
    loop {
        let error = match store.put(&name, body.clone(), When::Matches(etag.clone())).await {
            Ok(etag) => return Ok((head, etag)),
            Err(error) => error,
        };
        // HEAD is read after a refusal in any case: it may be another device's by now.
        let is_last = backoff.tries() == SWAP_TRIES;
        if is_last && !matches!(error, StoreError::Precondition { .. }) {
            return Err(error.into());
        }
        tokio::time::sleep(backoff.next(crate::retry::hint_of(&error))).await;
        let (now, current) = read_head(store, sealer, before.drive).await?;
        match fence::judge(&now, before, &head) {
            Swap::Applied => return Ok((head, current)),
            Swap::NotApplied if is_last => {
                let reason = "it refuses to change HEAD, which nobody else has changed".to_owned();
                return Err(StoreError::Busy { reason, retry_after: None }.into());
            }
            Swap::NotApplied => etag = current,
            Swap::Fenced(_) => return Err(OpenError::held_by(&now)),
        }
    }
}

/// Gives a drive back that no device held, after an opening took it and then failed. HEAD names the device again that had released the
/// drive, so the next device that takes it keeps that device's version. The epoch stays, so that anything that this opening still has in
/// flight is fenced. This is a courtesy to others and tried once: this device can take what it holds.
pub(super) async fn give_back(store: &dyn Store, sealer: &Sealer, before: &Head, taken: &Head, etag: Etag) {
    if before.state != HeadState::Released {
        return;
    }
    let nonce = crate::entropy::u128();
    let (device, device_name) = (before.device, before.device_name.clone());
    let head = Head { state: HeadState::Released, device, device_name, nonce, ..taken.clone() };
    let name = head::name(taken.drive);
    let put = store.put(&name, Bytes::from(head.encode(sealer)), When::Matches(etag));
    match tokio::time::timeout(GIVE_BACK_PATIENCE, put).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "a drive that could not be opened stays taken"),
        Err(_) => tracing::warn!("a drive that could not be opened stays taken: the store does not answer"),
    }
}

/// Takes the drive from the device that `held` names, with the version that is current by now. That device commits all the time, and has
/// been faster than openings that read the version first. Only HEAD changes. It says that the drive is held, in an epoch that no device
/// remembers. So the next opening, by any device, keeps that version for the fenced one.
pub(super) async fn seize(
    store: &dyn Store,
    sealer: &Sealer,
    held: &Head,
    device: &Device,
) -> Result<(), OpenError> {
    let is_still = |device, epoch| (device, epoch) == (held.device, held.epoch);
    for _ in 0..SEIZE_TRIES {
        let (now, etag) = read_head(store, sealer, held.drive).await?;
        if !is_still(now.device, now.epoch) || !now.state.is_here() {
            break;
        }
        let named = (now.root, now.root_hash, now.parent);
        match swap_epoch(store, sealer, &now, etag, Epoch(held.epoch.0 + 1), named, device).await {
            Err(OpenError::Held { device, epoch, .. }) if is_still(device, epoch) => {}
            taken => return taken.map(drop),
        }
    }
    // Another device was faster. The next look at HEAD shows which.
    Ok(())
}
