//! Writes to a drive, as records.

use super::{Blocks, Journal, JournalError, Operation, RECORD_BLOCKS_MAX, Writer};
use crate::units::{BLOCK_BYTES, BlockRange, Lsn};

impl Journal {
    /// Appends `data` at `first`. Longer writes become several records: a disk promises no more than that either. [`JournalError::Full`]
    /// may leave a part of them appended; writing it again is harmless.
    pub fn append_data(&self, first: u64, data: &[u8]) -> Result<Lsn, JournalError> {
        self.writer().data(first, data)
    }
}

impl Writer<'_, Blocks> {
    /// Appends whole blocks of data.
    pub fn data(&mut self, first: u64, data: &[u8]) -> Result<Lsn, JournalError> {
        assert!(
            data.len().is_multiple_of(BLOCK_BYTES as usize) && !data.is_empty(),
            "records hold whole blocks"
        );
        let mut lsn = Lsn(0);
        let mut at = first;
        for piece in data.chunks((RECORD_BLOCKS_MAX * BLOCK_BYTES) as usize) {
            let blocks = BlockRange::new(at, piece.len() as u64 / BLOCK_BYTES);
            lsn = self.append(Operation::Data(blocks), piece)?;
            at = blocks.end;
        }
        Ok(lsn)
    }

    /// Appends a run of zeros: O(1), however long.
    pub fn zero(&mut self, blocks: BlockRange) -> Result<Lsn, JournalError> {
        self.append(Operation::Zero(blocks), &[])
    }

    /// Appends a new size of the drive.
    pub fn resize(&mut self, size_blocks: u64) -> Result<Lsn, JournalError> {
        self.append(Operation::Resize(size_blocks), &[])
    }
}
