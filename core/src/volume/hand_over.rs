//! Handing an open drive over to another device, on the side that has it.
//!
//! 1. Rounds. Blocks that the other device lacks are tracked and sent in sets, while programs write and pushing goes on. A set counts as sent
//!    once it is acknowledged (`journal/tracker.rs`).
//! 2. [`HandOver::hold`]: nothing more is committed, so the version that the other device builds on stays the current one.
//! 3. [`HandOver::quiesce`]: the gate is shut, and the last blocks are sent. [`HandOver::seal`] fixes the grant.
//! 4. [`HandOver::mark_handed`]: `drive.json` says durably that the drive was handed over. From here on this device writes no more, whatever
//!    happens. Only now may anybody put the grant: if it were put earlier, a power cut could leave two devices that both write.
//! 5. [`HandOver::swap`] puts the grant, or the other device does. The writes that wait at the gate are refused.
//!
//! Before step 4 everything can be cancelled, and nothing has happened: the gate opens, and pushing continues. That also happens if this object
//! is dropped, or if the gate is shut for longer than [`HandOver::quiesce`] allows. The limit and step 4 compete for one state, so the gate never
//! opens after the drive was handed over.

use super::{Handed, Volume};
use crate::device::{BlockDevice, DeviceError, Piece};
use crate::fence;
use crate::format::head::Head;
use crate::format::root::{Lineage, Root};
use crate::grant::{Delta, Grant};
use crate::heads::{Device, Granted};
use crate::journal::JournalError;
use crate::journal::tracker::{Taken, Written};
use crate::planted::{self, Bug};
use crate::push::PushError;
use crate::push::hold::Hold;
use crate::units::{BLOCK_BYTES, BlockRange, Lsn};
use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use uuid::Uuid;

/// Runs that are worth a look whether they are zeros: 1 MiB.
const LOOK_BLOCKS: u64 = 256;
/// Extents of one such look.
const LOOK_EXTENTS: usize = 4096;

/// Why a step of a hand-over was refused. But for `Released`, the drive is as it was and can be written to.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The drive was opened without its store, which has not answered yet.
    #[error("the store has not confirmed yet that this computer has the drive")]
    NotTaken,
    /// It is only read, or it is closed.
    #[error("the drive is not open for writing")]
    NotOpen,
    /// Another hand-over is under way.
    #[error("the drive is being handed over already")]
    Busy,
    /// The drive's new size is not uploaded yet.
    #[error("the drive's new size is not uploaded yet")]
    NotUploaded,
    /// Blocks were not taken, or not acknowledged.
    #[error("the other computer does not have all changes yet")]
    Unsent,
    /// The step comes too early, or too late.
    #[error("this step of the hand-over is not possible now")]
    Order,
    /// The gate was shut for too long, or the hand-over was cancelled.
    #[error("the hand-over was cancelled")]
    Cancelled,
    /// The drive was handed over: there is no way back but to take it back.
    #[error("the drive was handed over")]
    Released,
    /// Something was written after the hand-over was sealed.
    #[error("the drive was written to after the last changes were sent")]
    CutChanged,
    /// Pushing.
    #[error(transparent)]
    Push(#[from] PushError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A block cannot be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The local disk does not take the note that the drive was handed over. It was not.
    #[error("this computer cannot note that the drive is handed over: {0}")]
    Local(#[from] io::Error),
}

/// How far a hand-over is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HandOverPhase {
    /// Blocks are sent, and programs write.
    Rounds,
    /// Nothing is committed.
    Held,
    /// The gate is shut.
    Quiet,
    /// The grant is fixed.
    Sealed,
    /// The note that the drive is handed over is being written.
    Releasing,
    /// The drive is handed over.
    Released,
    /// HEAD says so, or another HEAD is there.
    Swapped,
    /// It was cancelled, or took too long.
    Cancelled,
}

/// The content of a run of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Whole blocks.
    Data(Vec<u8>),
    /// They read as zeros.
    Zero,
}

/// What the other device needs at the end.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The grant.
    pub head: Head,
    /// The version that it names.
    pub root: Root,
    /// The last record of this device's journal.
    pub cut: Lsn,
    /// The journals that the delta contains beyond that version, oldest first.
    pub lineage: Vec<Lineage>,
    /// The hash of the delta ([`Delta::hash`]).
    pub delta: [u8; 32],
    /// Size of the drive.
    pub size_blocks: u64,
    /// That record's CRC.
    crc: u32,
}

/// What has become of the swap.
pub type Swapped = Granted;

/// A hand-over under way. Dropping it cancels it, unless the drive is handed over.
pub struct HandOver {
    volume: Arc<Volume>,
    grant: Grant,
    stream: Uuid,
    // Held for arithmetic only.
    inner: Arc<Mutex<Inner>>,
    watchdog: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

struct Inner {
    phase: HandOverPhase,
    hold: Option<Arc<Hold>>,
    delta: Delta,
    sealed: Option<Sealed>,
}

impl Volume {
    /// Begins to hand the drive over to the device `to`. Nothing changes for programs yet.
    pub async fn hand_over(
        self: &Arc<Self>,
        session: Uuid,
        to: Device,
        written_ms: u64,
    ) -> Result<HandOver, HandOverError> {
        self.check_open().map_err(|_| HandOverError::NotOpen)?;
        if self.pusher.is_none() || self.rememberer.is_none() {
            return Err(HandOverError::NotOpen);
        }
        if !self.is_taken() {
            return Err(HandOverError::NotTaken);
        }
        if self.is_handing_over.swap(true, Ordering::AcqRel) {
            return Err(HandOverError::Busy);
        }
        self.journal.track();
        let inner = Inner { phase: HandOverPhase::Rounds, hold: None, delta: Delta::default(), sealed: None };
        let hand_over = HandOver {
            volume: self.clone(),
            grant: Grant { session, to, written_ms },
            stream: crate::entropy::uuid(),
            inner: Arc::new(Mutex::new(inner)),
            watchdog: Mutex::new(None),
        };
        hand_over.look_for_zeros().await?;
        Ok(hand_over)
    }
}

impl HandOver {
    /// Stands for this tracking of blocks. The other device may continue an import only if it has the same one: with another one, blocks
    /// that were committed in between are not tracked, and an import may have them as they were before.
    pub fn stream(&self) -> Uuid {
        self.stream
    }

    /// The session.
    pub fn session(&self) -> Uuid {
        self.grant.session
    }

    /// How far it is.
    pub fn phase(&self) -> HandOverPhase {
        self.inner.lock().phase
    }

    /// Takes the next set of blocks to send: at most so many blocks of data and runs. `None` if nothing waits.
    pub fn take(&self, most_blocks: u64, most_runs: usize) -> Option<Taken> {
        self.volume.journal.take_tracked(most_blocks, most_runs)
    }

    /// The content of a run that was taken, in order. Blocks that left this device are pulled.
    pub async fn read(
        &self,
        (run, how): (BlockRange, Written),
    ) -> Result<Vec<(BlockRange, Content)>, DeviceError> {
        let run = run.intersect(&self.volume.all_blocks());
        if run.is_empty() {
            return Ok(Vec::new());
        }
        let mut contents = Vec::new();
        if how == Written::Zero {
            contents.push((run, Content::Zero));
        } else {
            let lease = super::VolumeDevice(self.volume.clone()).read(run.bytes()).wait().await?;
            let mut at = run.start;
            for piece in lease.pieces() {
                let blocks = BlockRange::new(at, piece.len() / BLOCK_BYTES);
                at = blocks.end;
                let content = match piece {
                    Piece::Zero { .. } => Content::Zero,
                    Piece::File { file, offset, .. } => {
                        let mut data = vec![0; blocks.byte_len() as usize];
                        file.read_at(&mut data, *offset)?;
                        Content::Data(data)
                    }
                };
                contents.push((blocks, content));
            }
        }
        let delta = &mut self.inner.lock().delta;
        for (blocks, content) in &contents {
            match content {
                Content::Data(data) => delta.data(blocks.start, data),
                Content::Zero => delta.zero(*blocks),
            }
        }
        Ok(contents)
    }

    /// The other device has a set durably.
    pub fn acknowledged(&self, number: u64) {
        self.volume.journal.tracked(|tracker| tracker.acknowledged(number));
    }

    /// The connection broke: sets without an acknowledgement are to be sent again.
    pub fn merge_back(&self) {
        self.volume.journal.tracked(|tracker| tracker.merge_back());
    }

    /// Blocks of data that were not taken yet, and blocks that were not acknowledged.
    pub fn waiting_blocks(&self) -> (u64, u64) {
        let count = |tracker: &mut crate::journal::tracker::Tracker| {
            (tracker.waiting_blocks(), tracker.unacknowledged_blocks())
        };
        self.volume.journal.tracked(count).unwrap_or_default()
    }

    /// Waits until the commit under way is made, and has nothing committed from then on. Returns the version that stays the current one.
    pub async fn hold(&self) -> Result<(Head, Root), HandOverError> {
        if let Some(hold) = &self.inner.lock().hold {
            return Ok((hold.version.head.clone(), hold.version.root.clone()));
        }
        self.check(&[HandOverPhase::Rounds])?;
        let pusher = self.volume.pusher.as_ref().ok_or(HandOverError::NotOpen)?;
        let hold = pusher.hold().await?;
        if hold.version.root.geometry.size_blocks != self.volume.size_blocks() {
            return Err(HandOverError::NotUploaded);
        }
        let version = (hold.version.head.clone(), hold.version.root.clone());
        let mut inner = self.inner.lock();
        if inner.phase != HandOverPhase::Rounds {
            return Err(HandOverError::Cancelled);
        }
        (inner.phase, inner.hold) = (HandOverPhase::Held, Some(Arc::new(hold)));
        Ok(version)
    }

    /// Shuts the gate, and waits until no write is under way. What was written by then is durable. If the drive is not handed over within
    /// `limit`, the hand-over is cancelled.
    pub async fn quiesce(&self, limit: Duration) -> Result<(), HandOverError> {
        {
            let mut inner = self.inner.lock();
            match inner.phase {
                HandOverPhase::Held => inner.phase = HandOverPhase::Quiet,
                HandOverPhase::Cancelled => return Err(HandOverError::Cancelled),
                _ => return Err(HandOverError::Order),
            }
            self.volume.gate.shut();
        }
        let (inner, volume) = (self.inner.clone(), self.volume.clone());
        *self.watchdog.lock() = Some(tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            if cancel(&inner, &volume).is_ok() {
                tracing::warn!("a hand-over took too long, and was cancelled: programs continue to write");
            }
        }));
        self.volume.gate.drain().await;
        self.volume.journal.flush().await?;
        self.check(&[HandOverPhase::Quiet])
    }

    /// Fixes the grant. All blocks must have been taken and read; they need not be acknowledged yet. Sealing again gives the same grant.
    pub async fn seal(&self) -> Result<Sealed, HandOverError> {
        self.check(&[HandOverPhase::Quiet, HandOverPhase::Sealed])?;
        if !self.volume.journal.tracked(|tracker| tracker.is_all_taken()).unwrap_or(false) {
            return Err(HandOverError::Unsent);
        }
        let journal = &self.volume.journal;
        let cut = journal.appended();
        journal.flush().await?;
        let crc = journal.crc_of(cut)?.unwrap_or(0);
        let mut inner = self.inner.lock();
        let Some(hold) = inner.hold.clone() else { return Err(HandOverError::Cancelled) };
        let (before, root) = (&hold.version.head, &hold.version.root);
        let size_blocks = self.volume.size_blocks();
        if root.geometry.size_blocks != size_blocks {
            return Err(HandOverError::NotUploaded);
        }
        let own = Lineage { epoch: before.epoch, journal: journal.uuid(), cut, crc };
        let pending = self.volume.rememberer.as_ref().map(|rememberer| rememberer.inherited());
        let all: Vec<_> =
            pending.unwrap_or_default().into_iter().chain((cut > Lsn(0)).then_some(own)).collect();
        let lineage: Vec<_> =
            all.into_iter().filter(|entry| !fence::contains(&root.lineage, entry)).collect();
        let delta = inner.delta.hash(size_blocks, &lineage);
        let head = self.grant.head(before, &delta).map_err(PushError::from)?;
        let sealed = Sealed { head, root: root.clone(), cut, lineage, delta, size_blocks, crc };
        (inner.phase, inner.sealed) = (HandOverPhase::Sealed, Some(sealed.clone()));
        Ok(sealed)
    }

    /// Notes durably that the drive is handed over, with everything up to `cut`. The other device must have acknowledged all of it. From here
    /// on there is no way back but to take the drive back, and the grant may be put.
    ///
    /// # Errors
    ///
    /// The hand-over is cancelled then, and the drive can be written to: nothing was handed over.
    pub async fn mark_handed(&self, cut: Lsn) -> Result<(), HandOverError> {
        let sealed = {
            let mut inner = self.inner.lock();
            match (inner.phase, inner.sealed.clone()) {
                (HandOverPhase::Sealed, Some(sealed)) => {
                    inner.phase = HandOverPhase::Releasing;
                    sealed
                }
                (HandOverPhase::Releasing | HandOverPhase::Released | HandOverPhase::Swapped, _) => {
                    return Err(HandOverError::Released);
                }
                (HandOverPhase::Cancelled, _) => return Err(HandOverError::Cancelled),
                _ => return Err(HandOverError::Order),
            }
        };
        let noted = self.note(cut, &sealed).await;
        let mut inner = self.inner.lock();
        match &noted {
            Ok(()) => inner.phase = HandOverPhase::Released,
            Err(_) => {
                inner.phase = HandOverPhase::Sealed;
                drop(inner);
                let _ = cancel(&self.inner, &self.volume);
            }
        }
        noted
    }

    async fn note(&self, cut: Lsn, sealed: &Sealed) -> Result<(), HandOverError> {
        let journal = &self.volume.journal;
        if cut != sealed.cut || journal.appended() != cut || journal.durable() < cut {
            return Err(HandOverError::CutChanged);
        }
        let is_sent = |tracker: &mut crate::journal::tracker::Tracker| {
            tracker.is_all_taken() && tracker.is_all_acknowledged()
        };
        if !journal.tracked(is_sent).unwrap_or(false) {
            return Err(HandOverError::Unsent);
        }
        match planted::has(Bug::ReleasedAfterTheSwap) {
            true => Ok(()),
            false => self.note_durably(sealed).await,
        }
    }

    async fn note_durably(&self, sealed: &Sealed) -> Result<(), HandOverError> {
        let hold = self.inner.lock().hold.clone().ok_or(HandOverError::Cancelled)?;
        let sealer = self.volume.map.objects().sealer().clone();
        let handed = Handed {
            session: self.grant.session,
            to: self.grant.to.id,
            to_name: self.grant.to.name.clone(),
            cut: sealed.cut.0,
            crc: sealed.crc,
            journal: self.volume.journal.uuid(),
            epoch: sealed.head.epoch.0,
            before: format!("{:032x}", hold.version.head.nonce),
            head: HEXLOWER.encode(&sealed.head.encode(&sealer)),
        };
        let rememberer = self.volume.rememberer.as_ref().ok_or(HandOverError::NotOpen)?;
        Ok(rememberer.mark_handed(handed).await?)
    }

    /// Puts the grant, once, and says what came of it. As long as that is not known, call it again: it is the same grant, and changes nothing
    /// if it was applied.
    pub async fn swap(&self) -> Result<Swapped, HandOverError> {
        self.check(&[HandOverPhase::Released])?;
        let (hold, sealed) = {
            let inner = self.inner.lock();
            (inner.hold.clone(), inner.sealed.clone())
        };
        let (hold, sealed) = hold.zip(sealed).ok_or(HandOverError::Order)?;
        let swapped = hold.swap(sealed.head.clone()).await?;
        if planted::has(Bug::ReleasedAfterTheSwap) {
            self.note_durably(&sealed).await?;
        }
        if let Granted::Applied | Granted::Lost(_) = swapped {
            self.inner.lock().phase = HandOverPhase::Swapped;
            match planted::has(Bug::GateOpenedAfterRelease) {
                false => self.volume.gate.refuse(),
                true => self.volume.gate.open(),
            }
        }
        Ok(swapped)
    }

    /// Cancels it: the gate opens, and pushing continues.
    ///
    /// # Errors
    ///
    /// `Released` once the drive is handed over.
    pub fn cancel(&self) -> Result<(), HandOverError> {
        cancel(&self.inner, &self.volume)
    }

    fn check(&self, allowed: &[HandOverPhase]) -> Result<(), HandOverError> {
        match self.phase() {
            phase if allowed.contains(&phase) => Ok(()),
            HandOverPhase::Cancelled => Err(HandOverError::Cancelled),
            _ => Err(HandOverError::Order),
        }
    }

    /// Finds long runs of zeros among the blocks that were written before: they cost nothing to send.
    async fn look_for_zeros(&self) -> Result<(), HandOverError> {
        let journal = &self.volume.journal;
        let long = |tracker: &mut crate::journal::tracker::Tracker| {
            let runs = tracker.waiting().map(|(run, _)| run).filter(|run| run.count() >= LOOK_BLOCKS);
            runs.collect::<Vec<_>>()
        };
        for run in journal.tracked(long).unwrap_or_default() {
            let mut at = run.start;
            while at < run.end {
                let rest = BlockRange { start: at, end: run.end }.intersect(&self.volume.all_blocks());
                if rest.is_empty() {
                    break;
                }
                let extents = self.volume.allocation_of(rest.bytes(), LOOK_EXTENTS).await?;
                if extents.is_empty() {
                    break;
                }
                for extent in extents {
                    let blocks = BlockRange::new(at, extent.len / BLOCK_BYTES);
                    at += extent.len.div_ceil(BLOCK_BYTES);
                    if extent.zero && !blocks.is_empty() {
                        journal.tracked(|tracker| tracker.is_zero(blocks));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Cancels a hand-over, unless it is too late or was cancelled before.
fn cancel(inner: &Mutex<Inner>, volume: &Volume) -> Result<(), HandOverError> {
    let mut inner = inner.lock();
    match inner.phase {
        HandOverPhase::Rounds | HandOverPhase::Held | HandOverPhase::Quiet | HandOverPhase::Sealed => {}
        HandOverPhase::Cancelled => return Err(HandOverError::Cancelled),
        HandOverPhase::Releasing | HandOverPhase::Released | HandOverPhase::Swapped => {
            return Err(HandOverError::Released);
        }
    }
    inner.phase = HandOverPhase::Cancelled;
    // Pushing continues.
    inner.hold = None;
    volume.journal.stop_tracking();
    volume.gate.open();
    volume.is_handing_over.store(false, Ordering::Release);
    Ok(())
}

impl Drop for HandOver {
    fn drop(&mut self) {
        if let Some(watchdog) = self.watchdog.lock().take() {
            watchdog.abort();
        }
        match cancel(&self.inner, &self.volume) {
            // Whatever HEAD says by now, this device has promised to write no more.
            Err(HandOverError::Released) => self.volume.gate.refuse(),
            _ => {}
        }
    }
}
