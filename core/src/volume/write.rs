//! Writing: a record in the journal, then the answer. A write never waits for the network, except for space in a journal that is full of
//! records that are not uploaded.

use super::Volume;
use super::gate::GateState;
use super::read::pull_failed;
use crate::device::{Answer, DeviceError, Durability, Zeroing};
use crate::journal::JournalError;
use crate::pull::PullError;
use crate::units::{BLOCK_BYTES, BlockRange};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// From here on (per mille of the journal) writes are slowed down, so that a person notices before everything stops.
const THROTTLE_FROM: u64 = 800;
/// The delay of a write when the journal becomes full.
const THROTTLE_MAX: Duration = Duration::from_millis(50);

enum Patch {
    Done,
    NoRoom,
    NotLocal,
}

/// Pause before a write checks again whether the cache takes a block that it changes in part.
const ROOM_PAUSE: Duration = Duration::from_millis(100);

impl Volume {
    /// Writes whole blocks at once if there is space. Unaligned, throttled and forced writes are answered later.
    pub(super) fn write_bytes(
        self: &Arc<Self>,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Answer<()> {
        let range = offset..offset + data.len() as u64;
        if let Err(error) = self.check_open().and_then(|()| self.check_range(&range)) {
            return Answer::Now(Err(error));
        }
        if data.is_empty() {
            return Answer::Now(Ok(()));
        }
        let aligned = offset.is_multiple_of(BLOCK_BYTES) && data.len().is_multiple_of(BLOCK_BYTES as usize);
        if aligned
            && self.throttle().is_none()
            && let Some(_pass) = self.gate.pass()
        {
            match self.journal.append_data(offset / BLOCK_BYTES, data) {
                Ok(_) => return self.answer_when(durability),
                Err(JournalError::Full) => {}
                Err(error) => return Answer::Now(Err(error.into())),
            }
        }
        let (volume, data) = (self.clone(), data.to_vec());
        Answer::later(async move {
            volume.write_later(offset, &data).await?;
            volume.force(durability).await
        })
    }

    /// Makes bytes read as zeros.
    pub(super) fn zero_bytes(
        self: &Arc<Self>,
        range: Range<u64>,
        how: Zeroing,
        durability: Durability,
    ) -> Answer<()> {
        if let Err(error) = self.check_open().and_then(|()| self.check_range(&range)) {
            return Answer::Now(Err(error));
        }
        let blocks = BlockRange::within(&range);
        let whole = how == Zeroing::Trim || blocks.bytes() == range;
        if whole
            && self.throttle().is_none()
            && let Some(_pass) = self.gate.pass()
        {
            match self.append_zero(blocks) {
                Ok(()) => return self.answer_when(durability),
                Err(JournalError::Full) => {}
                Err(error) => return Answer::Now(Err(error.into())),
            }
        }
        let volume = self.clone();
        Answer::later(async move {
            volume.until_appended(|| volume.append_zero(blocks)).await?;
            if how != Zeroing::Trim {
                for edge in [
                    range.start..range.end.min(blocks.bytes().start),
                    range.start.max(blocks.bytes().end)..range.end,
                ] {
                    // Inside one block both edges are the whole range.
                    if edge.start < edge.end {
                        volume.write_later(edge.start, &vec![0; (edge.end - edge.start) as usize]).await?;
                    }
                }
            }
            volume.force(durability).await
        })
    }

    /// Ready when all writes that were answered before are durable here.
    pub(super) fn flush_now(self: &Arc<Self>) -> Answer<()> {
        if let Err(error) = self.check_open() {
            return Answer::Now(Err(error));
        }
        if self.gate.state() == GateState::Shut {
            let volume = self.clone();
            return Answer::later(async move {
                volume.gate.until_open().await?;
                volume.force(Durability::Forced).await
            });
        }
        self.answer_when(Durability::Forced)
    }

    /// The same, but this thread waits for the local disk.
    pub(super) fn flush_on_this_thread(&self) -> Option<Result<(), DeviceError>> {
        match self.check_open() {
            // The other way to flush waits for the gate.
            Ok(()) if self.gate.state() == GateState::Shut => None,
            Ok(()) => Some(self.journal.flush_here()?.map(drop).map_err(DeviceError::from)),
            closed => Some(closed),
        }
    }

    fn answer_when(self: &Arc<Self>, durability: Durability) -> Answer<()> {
        match durability {
            Durability::Ordered => Answer::Now(Ok(())),
            Durability::Forced if self.journal.durable() >= self.journal.appended() => Answer::Now(Ok(())),
            Durability::Forced => {
                let volume = self.clone();
                Answer::later(async move { volume.force(Durability::Forced).await })
            }
        }
    }

    async fn force(&self, durability: Durability) -> Result<(), DeviceError> {
        if durability == Durability::Forced {
            self.journal.flush().await?;
        }
        Ok(())
    }

    fn append_zero(&self, blocks: BlockRange) -> Result<(), JournalError> {
        if blocks.is_empty() { Ok(()) } else { self.journal.writer().zero(blocks).map(drop) }
    }

    /// Writes bytes of any alignment. Waits for space, and for the blocks at the edges.
    async fn write_later(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        if let Some(delay) = self.throttle() {
            tokio::time::sleep(delay).await;
        }
        let range = offset..offset + data.len() as u64;
        let covering = BlockRange::covering(&range);
        let whole = BlockRange::within(&range);
        if whole == covering {
            return self.until_appended(|| self.journal.append_data(covering.start, data).map(drop)).await;
        }
        let edges = [BlockRange::new(covering.start, 1), BlockRange::new(covering.end - 1, 1)];
        loop {
            for edge in edges.iter().filter(|edge| whole.intersect(edge).is_empty()) {
                match self.puller.demand(*edge).await {
                    // Once the cache has space. A block that was read past the cache could be out of date by now.
                    Err(PullError::Cache(_) | PullError::NoRoom(_)) => tokio::time::sleep(ROOM_PAUSE).await,
                    pulled => pulled.map_err(pull_failed)?,
                }
            }
            let room = self.journal.room_from_now();
            let pass = self.gate.pass_later().await?;
            let patched = self.patch(&range, covering, data)?;
            drop(pass);
            match patched {
                Patch::Done => return Ok(()),
                Patch::NoRoom => room.await,
                // It was evicted since: it is pulled again.
                Patch::NotLocal => {}
            }
            self.check_open()?;
        }
    }

    /// Reads the rest of the edge blocks and appends whole blocks, while holding the sole right to append. No other write comes in between,
    /// so two writes to different bytes of a block both last.
    fn patch(&self, range: &Range<u64>, covering: BlockRange, data: &[u8]) -> Result<Patch, DeviceError> {
        let mut writer = self.journal.writer();
        let mut whole = vec![0; covering.byte_len() as usize];
        let bytes = covering.bytes();
        for edge in
            [bytes.start..range.start, range.end..bytes.end].into_iter().filter(|edge| !edge.is_empty())
        {
            let Some(lease) = self.lease(&edge) else { return Ok(Patch::NotLocal) };
            let at = (edge.start - bytes.start) as usize;
            lease.copy_to(&mut whole[at..at + (edge.end - edge.start) as usize])?;
        }
        let from = (range.start - bytes.start) as usize;
        whole[from..from + data.len()].copy_from_slice(data);
        match writer.data(covering.start, &whole) {
            Ok(_) => Ok(Patch::Done),
            Err(JournalError::Full) => Ok(Patch::NoRoom),
            Err(error) => Err(error.into()),
        }
    }

    /// Retries the append until there is space.
    async fn until_appended(&self, append: impl Fn() -> Result<(), JournalError>) -> Result<(), DeviceError> {
        loop {
            let room = self.journal.room_from_now();
            let pass = self.gate.pass_later().await?;
            let appended = append();
            drop(pass);
            match appended {
                Ok(()) => return Ok(()),
                Err(JournalError::Full) => room.await,
                Err(error) => return Err(error.into()),
            }
            self.check_open()?;
        }
    }

    /// The delay of a write because the journal fills up.
    fn throttle(&self) -> Option<Duration> {
        let over = self.keeper.journal_per_mille().checked_sub(THROTTLE_FROM)?;
        Some(THROTTLE_MAX.mul_f64((over as f64 / (1000 - THROTTLE_FROM) as f64).min(1.0)))
    }
}
