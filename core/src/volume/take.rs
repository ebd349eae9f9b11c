//! The steps of an opening that change the store: a fork's first HEAD, and the swap.

use super::access::{Environment, OpenError};
use super::assemble::capacity;
use super::{Fork, Local, VolumeLimits};
use crate::fork::{self, Branch, ForkError};
use crate::format::head::Head;
use crate::heads::{self, Author, Device, Once, Retry, Swap, Version, transition};
use crate::journal::Journal;
use crate::map::Objects;
use crate::retry::{self, Backoff};
use crate::store::{Etag, StoreError};
use crate::units::{Epoch, Lsn};
use async_trait::async_trait;
use std::time::Duration;

/// How often an opening waits before it tries its swap again, or looks at its outcome again.
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

/// Swaps HEAD to the next epoch, held by `device`, over the very HEAD `before`. Its device may be fenced if it is another one and the caller
/// has found that it may (`over_others`).
pub(super) async fn swap_epoch(
    objects: &Objects,
    (before, etag): (&Head, &Etag),
    (epoch, version): (Epoch, Version),
    over_others: bool,
    device: &Device,
) -> Result<(Head, Etag), OpenError> {
    let next = transition::take(before, epoch, version, over_others, Author::new(device))?;
    let (store, sealer) = (objects.store().as_ref(), objects.sealer());
    match heads::swap(store, sealer, Some((before, etag)), next, &mut Opening(Backoff::new())).await {
        Swap::Applied(head, etag) => Ok((head, etag)),
        Swap::Lost(now) => Err(OpenError::held_by(&now)),
        Swap::Refused(error) | Swap::Unknown(error) => Err(error.into()),
    }
}

/// An opening's patience. If it ends without an answer, the next opening finds out whether the swap was applied.
struct Opening(Backoff);

impl Opening {
    async fn waits(&mut self, error: &StoreError) -> bool {
        if self.0.tries() == SWAP_TRIES {
            return false;
        }
        tokio::time::sleep(self.0.next(retry::hint_of(error))).await;
        true
    }
}

#[async_trait]
impl Retry for Opening {
    async fn wait(&mut self, error: &StoreError) -> bool {
        self.waits(error).await
    }

    async fn wait_to_look(&mut self, error: &StoreError) -> bool {
        error.is_transient() && self.waits(error).await
    }
}

/// Gives a drive back that no device held, after an opening took it and then failed. This is a courtesy to others and tried once: this
/// device can take what it holds.
pub(super) async fn give_back(
    objects: &Objects,
    before: &Head,
    (taken, etag): (&Head, &Etag),
    device: &Device,
) {
    // Another device had the drive open.
    let Ok(next) = transition::give_back(before, taken, Author::new(device)) else { return };
    let (store, sealer) = (objects.store().as_ref(), objects.sealer());
    let mut once = Once;
    let swap = heads::swap(store, sealer, Some((taken, etag)), next, &mut once);
    match tokio::time::timeout(GIVE_BACK_PATIENCE, swap).await {
        // If another device was faster, it has the drive now.
        Ok(Swap::Applied(..) | Swap::Lost(_)) => {}
        Ok(Swap::Refused(error) | Swap::Unknown(error)) => {
            tracing::warn!(%error, "a drive that could not be opened stays taken");
        }
        Err(_) => tracing::warn!("a drive that could not be opened stays taken: the store does not answer"),
    }
}

/// Takes the drive from the device that `held` names, with the version that is current by now. That device commits all the time, and has
/// been faster than openings that read the version first. Only HEAD changes. It says that the drive is held, in an epoch that no device
/// remembers. So the next opening, by any device, keeps that version for the fenced one.
pub(super) async fn seize(objects: &Objects, held: &Head, device: &Device) -> Result<(), OpenError> {
    let is_still = |device, epoch| (device, epoch) == (held.device, held.epoch);
    for _ in 0..SEIZE_TRIES {
        let (now, etag) = heads::read(objects.store().as_ref(), objects.sealer(), held.drive).await?;
        if !is_still(now.device, now.epoch) || !now.state.is_here() {
            break;
        }
        let next = (Epoch(held.epoch.0 + 1), Version::of(&now));
        match swap_epoch(objects, (&now, &etag), next, true, device).await {
            Err(OpenError::Held { device, epoch, .. }) if is_still(device, epoch) => {}
            taken => return taken.map(drop),
        }
    }
    // Another device was faster. The next look at HEAD shows which.
    Ok(())
}
