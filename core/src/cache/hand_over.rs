//! Blocks that leave the cache together with their local file, or come with one.
//!
//! A file that leaves goes on as something else, so nothing of the cache may write to it afterwards. All that writes holds the lock of the
//! blocks' chunk: the file is moved under all of these locks, and whoever comes later finds no file, or another one.

use super::Cache;
use crate::units::BlockRange;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;

impl Cache {
    /// Takes out `blocks`, all of which have to be here, together with the rest of `extent`: durably, as an eviction does, but then `moves`
    /// takes their file elsewhere. Waits for reads that began before.
    ///
    /// The bits are invalid on disk before the file moves: if the power is cut in between, the blocks are absent.
    pub async fn hand_out(
        &self,
        extent: BlockRange,
        blocks: BlockRange,
        moves: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let _turn = self.evicting.lock().await;
        // Held to the end: blocks that are pulled again meanwhile must not get durable bits, because their file moves.
        let mut persisted = self.persist.lock().await;
        self.check_current()?;
        {
            let _all = self.lock_all(extent);
            if self.suspect.load(Ordering::SeqCst) || !self.valid.all(blocks) {
                return Err(io::Error::new(ErrorKind::NotFound, "not all of the file is here"));
            }
            self.valid.clear(extent);
        }
        persisted.clear(&[extent]);
        persisted.write(&self.bitmap_file, self.drive).await?;
        self.holds.wait_for_earlier().await;
        let _all = self.lock_all(extent);
        self.check_current()?;
        self.valid.clear(extent);
        moves()
    }

    /// `moves` brings a durable file that has all of `blocks`: they are valid from here on. The next [`persist`](Self::persist) makes
    /// their bits durable, after the file's name.
    pub fn hand_in(
        &self,
        extent: BlockRange,
        blocks: BlockRange,
        moves: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        {
            let _all = self.lock_all(extent);
            self.check_current()?;
            moves()?;
            self.valid.set(blocks);
        }
        self.residents.came(blocks);
        Ok(())
    }
}
