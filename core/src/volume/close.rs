//! Closing, resizing, and the block device that protocols serve.

use super::Volume;
use crate::device::{
    Allocation, Answer, BlockDevice, DeviceError, DeviceGeometry, Durability, ReadLease, Zeroing,
};
use crate::pull::Class;
use crate::push::PushError;
use crate::units::{BLOCK_BYTES, BlockRange, DRIVE_BYTES_MAX};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The device of an open drive.
pub struct VolumeDevice(pub Arc<Volume>);

impl BlockDevice for VolumeDevice {
    fn geometry(&self) -> DeviceGeometry {
        // A version that is only read takes writes too, and discards them: ext4 has to replay its journal.
        DeviceGeometry { size_bytes: self.0.size_blocks() * BLOCK_BYTES, read_only: false }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        self.0.read_bytes(range)
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Answer<()> {
        self.0.write_bytes(offset, data, durability)
    }

    fn zero(&self, range: Range<u64>, how: Zeroing, durability: Durability) -> Answer<()> {
        self.0.zero_bytes(range, how, durability)
    }

    fn flush(&self) -> Answer<()> {
        self.0.flush_now()
    }

    fn flush_here(&self) -> Option<Result<(), DeviceError>> {
        self.0.flush_on_this_thread()
    }

    fn prefetch(&self, range: Range<u64>) {
        let range = BlockRange::covering(&range).intersect(&self.0.all_blocks());
        self.0.puller.want(Class::ReadAhead, range);
    }

    fn allocation(&self, range: Range<u64>, limit: usize) -> Answer<Vec<Allocation>> {
        let volume = self.0.clone();
        Answer::later(async move { volume.allocation_of(range, limit).await })
    }
}

impl Volume {
    /// Grows the drive. The new part reads as zeros.
    pub async fn grow(&self, size_blocks: u64) -> Result<(), DeviceError> {
        self.check_open()?;
        let pass = self.gate.pass_later().await?;
        {
            let _one = self.resizing.lock();
            let most = self.cache.valid().capacity().min(DRIVE_BYTES_MAX / BLOCK_BYTES);
            if size_blocks < self.size_blocks() || size_blocks > most {
                return Err(DeviceError::OutOfRange);
            }
            self.cache.set_size(size_blocks)?;
            self.journal.writer().resize(size_blocks)?;
            self.map.resize(size_blocks);
        }
        drop(pass);
        self.journal.flush().await?;
        self.size_blocks.store(size_blocks, Ordering::Release);
        Ok(())
    }

    /// From here on requests are refused. Writes that were answered stay as durable as they were.
    pub fn stop_serving(&self) {
        self.closed.store(true, Ordering::Release);
        // Writes that wait at it would wait for ever.
        self.gate.refuse();
    }

    /// Lets writes use the journal's reserve while the file system is being unmounted.
    pub fn prepare_to_close(&self) {
        self.journal.open_reserve();
    }

    /// The unmount failed: programs continue to write, and the reserve is kept for the next try.
    pub fn stays_open(&self) {
        self.journal.close_reserve();
    }

    /// Makes everything durable here, so that the next open replays only what the cache has no space for.
    pub async fn settle(&self) -> Result<(), DeviceError> {
        let durable = self.journal.flush().await?;
        self.apply(durable).await.map_err(DeviceError::Failed)?;
        super::keeper::persist(&self.journal, &self.cache).await.map_err(DeviceError::Failed)
    }

    /// Ends everything that works on this device's files of the drive: the next opening must be alone with them.
    pub async fn shut_down(&self) -> Result<(), DeviceError> {
        self.stop_serving();
        if let Some(pusher) = &self.pusher {
            pusher.stop().await;
        }
        self.survey.stop().await;
        self.survey.note();
        self.trace.save();
        self.pins.stop().await;
        self.keeper.stop().await;
        self.room.stop().await;
        let settled = self.settle().await;
        if let Some(rememberer) = &self.rememberer {
            rememberer.stop(self.journal.durable()).await;
        }
        self.cache.retire().await;
        settled
    }

    /// Pushes what is left, and says in HEAD that the drive is no longer open.
    pub async fn release(&self) -> Result<(), PushError> {
        let Some(pusher) = &self.pusher else { return Ok(()) };
        if !pusher.state().borrow().is_taken && !self.has_unsent() {
            // HEAD is still as this device left it.
            return Ok(());
        }
        // Closing a drive does not wait for its garbage.
        pusher.stop_collecting();
        pusher.sync().await?;
        pusher.release().await
    }
}
