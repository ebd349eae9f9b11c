//! The bitmap on disk (`core/FORMAT.md`, "Bitmap").

use super::Cache;
use crate::bitmap::{Bitmap, PAGE_BLOCKS};
use crate::disk::DiskFile;
use crate::planted::{self, Bug};
use crate::units::BlockRange;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uuid::Uuid;

const PAGE_BYTES: usize = 4096;
const BITS_AT: usize = 12;
const CRC_AT: usize = PAGE_BYTES - 4;
const MAGIC: &[u8; 8] = b"HLDBMAP\x01";
const _: () = assert!(PAGE_BLOCKS as usize == (CRC_AT - BITS_AT) / 8 * 64, "a page holds whole words of 64");

/// The state of the file.
pub(super) struct Persisted {
    /// The content of the pages on disk once the stale ones are written. A set bit stands for data that is durable in the
    /// cache file.
    bits: Bitmap,
    /// Pages that still have to be written, also those whose write failed.
    stale: BTreeSet<u64>,
    /// The generation of the file when it was opened. `None` if it was not trusted, and everything is absent.
    pub(super) opened_as: Option<u128>,
}

type Words = Box<[u64; (CRC_AT - BITS_AT) / 8]>;

/// Reads the bitmap into `valid`. If the header is missing or damaged, or names another drive or another generation,
/// everything is absent.
pub(super) fn load(
    file: &dyn DiskFile,
    drive: Uuid,
    generations: &[u128],
    valid: &Bitmap,
) -> io::Result<Persisted> {
    let bits = Bitmap::new(valid.capacity());
    let len = file.len()?;
    let mut page = [0; PAGE_BYTES];
    let mut opened_as = None;
    if len >= PAGE_BYTES as u64 {
        file.read_at(&mut page, 0)?;
        let generation = u128::from_le_bytes(*page[24..].first_chunk().expect("a page is longer"));
        let is_trusted = checks(&page)
            && page[..8] == *MAGIC
            && page[8..24] == *drive.as_bytes()
            && generations.contains(&generation);
        opened_as = is_trusted.then_some(generation);
    }
    if opened_as.is_some() {
        let pages = (len / PAGE_BYTES as u64 - 1).min(valid.capacity().div_ceil(PAGE_BLOCKS));
        for index in written_pages(file, pages)? {
            file.read_at(&mut page, (index + 1) * PAGE_BYTES as u64)?;
            if checks(&page)
                && page[..4] == (index as u32).to_le_bytes()
                && page[4..12] == drive.as_bytes()[..8]
            {
                read_bits(&page, index, valid);
                read_bits(&page, index, &bits);
            }
        }
    } else {
        // No part of an old bitmap may become valid again under a new header.
        file.set_len(0)?;
    }
    Ok(Persisted { bits, stale: BTreeSet::new(), opened_as })
}

/// The indices of those of the first `pages` pages that were ever written: the file is as sparse as the cache.
fn written_pages(file: &dyn DiskFile, pages: u64) -> io::Result<Vec<u64>> {
    let (mut written, mut from) = (Vec::new(), PAGE_BYTES as u64);
    while let Some(data) = file.next_data(from)? {
        from = data.end;
        let end = (data.end.div_ceil(PAGE_BYTES as u64) - 1).min(pages);
        // A run of data may begin in the page in which the last one ended.
        let first = (data.start / PAGE_BYTES as u64 - 1).max(written.last().map_or(0, |last| last + 1));
        written.extend(first..end);
    }
    Ok(written)
}

impl Cache {
    /// Makes the blocks that are valid now survive a crash: syncs the file's data first, then the bits that stand for it.
    pub async fn persist(&self) -> io::Result<()> {
        let mut persisted = self.persist.lock().await;
        self.check_current()?;
        // The kernel reports a lost page only once: a sync that succeeds after a failed one proves nothing.
        if self.is_suspect() {
            return Err(io::Error::other("an earlier sync failed"));
        }
        // A bit that is set while the sync runs may stand for data that the sync does not cover: it has to wait for the
        // next time. No bit is cleared meanwhile, because clearing takes this lock.
        let snapshot = persisted.snapshot(&self.valid);
        if !planted::has(Bug::BitsBeforeData) {
            // Suspect until the result is known: the caller may be cancelled while it waits.
            self.suspect.store(true, Ordering::SeqCst);
            self.file.clone().sync().await?;
            self.suspect.store(false, Ordering::SeqCst);
        }
        persisted.adopt(snapshot);
        // What was lost is absent again, also what an earlier sync made durable near it: it is pulled again.
        let lost: Vec<_> = self.file.take_lost().iter().map(BlockRange::covering).collect();
        lost.iter().for_each(|run| self.valid.clear(*run));
        persisted.clear(&lost);
        persisted.write(&self.bitmap_file, self.drive).await
    }

    /// Gives the bitmap a new generation, so that no older copy of it is ever trusted again.
    pub async fn set_generation(&self, generation: u128) -> io::Result<()> {
        let _persisted = self.persist.lock().await;
        let mut page = [0; PAGE_BYTES];
        page[..8].copy_from_slice(MAGIC);
        page[8..24].copy_from_slice(self.drive.as_bytes());
        page[24..40].copy_from_slice(&generation.to_le_bytes());
        seal(&mut page);
        self.bitmap_file.write_at(&page, 0)?;
        self.bitmap_file.clone().sync().await
    }
}

impl Persisted {
    /// The pages whose bits in memory differ from those on disk.
    fn snapshot(&self, valid: &Bitmap) -> Vec<(u64, Words)> {
        let pages: BTreeSet<u64> =
            valid.differing_words(&self.bits).into_iter().map(|block| block / PAGE_BLOCKS).collect();
        let words = |index: u64| -> Words {
            Box::new(std::array::from_fn(|word| valid.word(index * PAGE_BLOCKS + word as u64 * 64)))
        };
        pages.into_iter().map(|index| (index, words(index))).collect()
    }

    fn adopt(&mut self, snapshot: Vec<(u64, Words)>) {
        for (index, words) in snapshot {
            self.bits.set_page(index, &words);
            self.stale.insert(index);
        }
    }

    /// Clears bits. Bits that were set in memory meanwhile are not added: their data may not be durable yet.
    pub fn clear(&mut self, runs: &[BlockRange]) {
        for run in runs.iter().filter(|run| !run.is_empty()) {
            // A run may cover the whole space, most of which has no bits.
            let pages = run.start / PAGE_BLOCKS..=(run.end - 1) / PAGE_BLOCKS;
            let has_bits =
                |page: &u64| self.bits.any(run.intersect(&BlockRange::new(page * PAGE_BLOCKS, PAGE_BLOCKS)));
            self.stale.extend(pages.filter(has_bits));
            self.bits.clear(*run);
        }
    }

    /// Writes the pages that changed, and syncs.
    pub async fn write(&mut self, file: &Arc<dyn DiskFile>, drive: Uuid) -> io::Result<()> {
        if self.stale.is_empty() {
            return Ok(());
        }
        for index in &self.stale {
            file.write_at(&self.encode(*index, drive), (index + 1) * PAGE_BYTES as u64)?;
        }
        file.clone().sync().await?;
        self.stale.clear();
        Ok(())
    }

    fn encode(&self, index: u64, drive: Uuid) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[..4].copy_from_slice(&(index as u32).to_le_bytes());
        page[4..12].copy_from_slice(&drive.as_bytes()[..8]);
        for (word, bytes) in page[BITS_AT..CRC_AT].chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.bits.word(index * PAGE_BLOCKS + word as u64 * 64).to_le_bytes());
        }
        seal(&mut page);
        page
    }
}

fn read_bits(page: &[u8; PAGE_BYTES], index: u64, into: &Bitmap) {
    if (index + 1) * PAGE_BLOCKS <= into.capacity() {
        let word = |word: usize| page[BITS_AT + word * 8..].first_chunk().expect("a page has so many words");
        into.set_page(index, &std::array::from_fn(|at| u64::from_le_bytes(*word(at))));
    }
}

fn seal(page: &mut [u8; PAGE_BYTES]) {
    let crc = crc32c::crc32c(&page[..CRC_AT]);
    page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
}

fn checks(page: &[u8; PAGE_BYTES]) -> bool {
    crc32c::crc32c(&page[..CRC_AT]).to_le_bytes() == page[CRC_AT..]
}
