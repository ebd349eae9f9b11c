//! The replay of ext4's journal, in memory (kernel documentation, ext4, "Journal (jbd2)").
//!
//! Only whole transactions count: those whose commit block is there, in order. A later content of a block wins over an earlier one, and a
//! revoked block keeps the content that it has at its place, unless a later transaction wrote it again. The content stays in the journal and
//! is read when it is needed; then its checksum is checked.
//!
//! The cut of a running file system ends the journal between two writes of whole blocks. So a block of the journal that carries the next
//! number and does not check is damage, not the end.

use super::mapping::run_at;
use super::{BLOCK, Blocks, FileSystem, FsError};
use crate::ext4::InodeNumber;
use crate::ext4::checksum::crc32c;
use crate::units::BlockRange;
use std::collections::BTreeMap;

const MAGIC: u32 = 0xc03b_3998;
const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPERBLOCK_V2: u32 = 4;
const REVOKE: u32 = 5;
const HEAD_BYTES: usize = 12;
const TAIL_BYTES: usize = 4;

const INCOMPAT_64BIT: u32 = 0x2;
const INCOMPAT_ASYNC_COMMIT: u32 = 0x4;
const INCOMPAT_CSUM_V2: u32 = 0x8;
const INCOMPAT_CSUM_V3: u32 = 0x10;
/// Revocations, 64 bits, commits without waiting, checksums of the second and third kind.
const INCOMPAT_KNOWN: u32 = 0x1f;

const TAG_ESCAPED: u32 = 0x1;
const TAG_SAME_UUID: u32 = 0x2;
const TAG_LAST: u32 = 0x8;

/// The largest journal that is read: more than mke2fs makes by itself (1 GiB), and at most 100 MB of memory.
const JOURNAL_BLOCKS_MAX: u32 = 1 << 20;
/// The most pieces of the journal on the drive.
const PIECES_MAX: usize = 1 << 14;
/// The most revoked blocks to remember.
const REVOKED_MAX: usize = 1 << 20;

/// The newest content of a block, in the journal.
#[derive(Clone, Copy, Debug)]
pub struct Logged {
    /// Its place on the drive.
    pub place: u64,
    sequence: u32,
    checksum: u32,
    is_escaped: bool,
}

/// The kind of checksum that tags have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Check {
    #[default]
    None,
    V2,
    V3,
}

/// The blocks whose newest content is in the journal.
#[derive(Debug, Default)]
pub struct Replayed {
    blocks: BTreeMap<u64, Logged>,
    check: Check,
    seed: u32,
}

impl Replayed {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Those in the range.
    pub fn within(&self, range: BlockRange) -> impl Iterator<Item = (u64, Logged)> {
        self.blocks.range(range.start..range.end.max(range.start)).map(|(block, logged)| (*block, *logged))
    }
}

impl Logged {
    /// The content of the block, from the bytes in the journal.
    pub fn content(&self, mut bytes: Vec<u8>, replayed: &Replayed) -> Result<Vec<u8>, FsError> {
        let sum = crc32c(crc32c(replayed.seed, &self.sequence.to_be_bytes()), &bytes);
        let is_whole = match replayed.check {
            Check::None => true,
            Check::V2 => sum & 0xffff == self.checksum,
            Check::V3 => sum == self.checksum,
        };
        if !is_whole {
            return Err(FsError::Damaged("a block in its journal"));
        }
        if self.is_escaped {
            bytes[..4].copy_from_slice(&MAGIC.to_be_bytes());
        }
        Ok(bytes)
    }
}

/// Reads the journal of a file system that needs it.
pub async fn replay<B: Blocks>(fs: &FileSystem<B>) -> Result<Replayed, FsError> {
    let Some(number) = fs.fs.journal else {
        return Err(FsError::Unsupported("its journal on another device"));
    };
    let places = Places::of(fs, InodeNumber(number)).await?;
    let head = fs.read_plain(BlockRange::new(places.at(0)?, 1)).await?;
    let log = Log::parse(&head, places)?;
    if log.start == 0 {
        return Ok(Replayed::default());
    }
    Scan::default().run(fs, &log).await
}

/// The journal's pieces on the drive.
struct Places {
    pieces: Vec<(u32, BlockRange)>,
    blocks: u32,
}

impl Places {
    async fn of<B: Blocks>(fs: &FileSystem<B>, number: InodeNumber) -> Result<Self, FsError> {
        let node = fs.node(number).await?;
        let whole = node.size / BLOCK as u64;
        let blocks = u32::try_from(whole).ok().filter(|blocks| *blocks <= JOURNAL_BLOCKS_MAX);
        let blocks = blocks.ok_or(FsError::Unsupported("a journal of more than 4 GiB"))?;
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < blocks {
            let run = run_at(fs, &node, at.into()).await?;
            let start = run.start.ok_or(FsError::Damaged("the place of its journal"))?;
            let count = run.blocks.min((blocks - at).into()) as u32;
            pieces.push((at, BlockRange::new(start, count.into())));
            if pieces.len() > PIECES_MAX {
                return Err(FsError::Unsupported("a journal in too many pieces"));
            }
            at += count;
        }
        Ok(Self { pieces, blocks })
    }

    fn at(&self, block: u32) -> Result<u64, FsError> {
        let next = self.pieces.partition_point(|(from, _)| *from <= block);
        let piece = next.checked_sub(1).map(|piece| &self.pieces[piece]);
        let place = piece.map(|(from, range)| (range, range.start + u64::from(block - from)));
        place
            .filter(|(range, place)| *place < range.end && block < self.blocks)
            .map(|(_, place)| place)
            .ok_or(FsError::Damaged("a place in its journal"))
    }
}

/// The journal's superblock.
struct Log {
    places: Places,
    /// The first block of the log, and the end of it: there it continues with the first one.
    first: u32,
    end: u32,
    /// Where it begins, and the number of its first transaction. The beginning is 0 if the journal is empty.
    start: u32,
    sequence: u32,
    is_wide: bool,
    check: Check,
    seed: u32,
}

impl Log {
    fn parse(block: &[u8], places: Places) -> Result<Self, FsError> {
        let damaged = FsError::Damaged("the head of its journal");
        let sb = block.get(..1024).filter(|sb| be_at(sb, 0) == MAGIC).ok_or(damaged)?;
        let damaged = || FsError::Damaged("the head of its journal");
        let features = if be_at(sb, 4) == SUPERBLOCK_V2 { be_at(sb, 0x28) } else { 0 };
        let check = match (features & INCOMPAT_CSUM_V2 != 0, features & INCOMPAT_CSUM_V3 != 0) {
            (_, true) => Check::V3,
            (true, false) => Check::V2,
            (false, false) => Check::None,
        };
        let seed = crc32c(!0, &sb[0x30..0x40]);
        if check != Check::None {
            let sum = [&sb[..0xfc], &[0; 4], &sb[0x100..]].iter().fold(!0, |sum, part| crc32c(sum, part));
            if sum != be_at(sb, 0xfc) {
                return Err(damaged());
            }
        }
        // Whether such a commit is whole, only the older checksums say.
        let is_unchecked = features & INCOMPAT_ASYNC_COMMIT != 0 && check == Check::None;
        if features & !INCOMPAT_KNOWN != 0 || is_unchecked {
            return Err(FsError::Unsupported("a journal of another kind (fast or asynchronous commits)"));
        }
        let (end, first, start) = (be_at(sb, 0x10), be_at(sb, 0x14), be_at(sb, 0x1c));
        let fits = be_at(sb, 0xc) as usize == BLOCK && end <= places.blocks && first >= 1 && first < end;
        if !fits || start != 0 && !(first..end).contains(&start) {
            return Err(damaged());
        }
        let is_wide = features & INCOMPAT_64BIT != 0;
        Ok(Self { places, first, end, start, sequence: be_at(sb, 0x18), is_wide, check, seed })
    }

    fn after(&self, block: u32) -> u32 {
        if block + 1 >= self.end { self.first } else { block + 1 }
    }

    /// Whether the checksum at the end of a descriptor or of revocations is right.
    fn checks_tail(&self, block: &[u8]) -> bool {
        let (front, tail) = block.split_at(BLOCK - TAIL_BYTES);
        self.check == Check::None || crc32c(crc32c(self.seed, front), &[0; TAIL_BYTES]) == be_at(tail, 0)
    }

    fn checks_commit(&self, block: &[u8]) -> bool {
        const AT: usize = 16;
        let parts = [&block[..AT], &[0; 4], &block[AT + 4..]];
        self.check == Check::None
            || parts.iter().fold(self.seed, |sum, part| crc32c(sum, part)) == be_at(block, AT)
    }

    /// The tags of a descriptor: the block, its flags and its checksum.
    fn tags(&self, block: &[u8]) -> Result<Vec<(u64, u32, u32)>, FsError> {
        let bytes = match self.check {
            Check::V3 => 16,
            Check::V2 => 10 + 4 * usize::from(self.is_wide),
            Check::None => 8 + 4 * usize::from(self.is_wide),
        };
        let end = if self.check == Check::None { BLOCK } else { BLOCK - TAIL_BYTES };
        let (mut tags, mut at) = (Vec::new(), HEAD_BYTES);
        while at + bytes <= end {
            let tag = &block[at..at + bytes];
            let (flags, sum, high_at) = match self.check {
                Check::V3 => (be_at(tag, 4), be_at(tag, 12), 8),
                Check::V2 | Check::None => (be_at(tag, 4) & 0xffff, be_at(tag, 4) >> 16, 8),
            };
            let high = if self.is_wide { be_at(tag, high_at) } else { 0 };
            tags.push((u64::from(high) << 32 | u64::from(be_at(tag, 0)), flags, sum));
            at += bytes + if flags & TAG_SAME_UUID != 0 { 0 } else { 16 };
            if flags & TAG_LAST != 0 {
                return Ok(tags);
            }
        }
        match tags.is_empty() {
            false => Ok(tags),
            true => Err(FsError::Damaged("a descriptor in its journal")),
        }
    }

    fn revoked(&self, block: &[u8]) -> Result<Vec<u64>, FsError> {
        const RECORDS_AT: usize = 16;
        let end = be_at(block, HEAD_BYTES) as usize;
        let most = if self.check == Check::None { BLOCK } else { BLOCK - TAIL_BYTES };
        if !(RECORDS_AT..=most).contains(&end) {
            return Err(FsError::Damaged("revocations in its journal"));
        }
        let records = &block[RECORDS_AT..end];
        Ok(match self.is_wide {
            true => records
                .chunks_exact(8)
                .map(|at| u64::from(be_at(at, 0)) << 32 | u64::from(be_at(at, 4)))
                .collect(),
            false => records.chunks_exact(4).map(|at| be_at(at, 0).into()).collect(),
        })
    }
}

/// The transactions that were read so far.
#[derive(Default)]
struct Scan {
    /// Contents by transaction, in order, of those that are whole.
    written: Vec<(u64, Logged)>,
    /// Blocks, and the last transaction that revoked each.
    revoked: BTreeMap<u64, u32>,
}

impl Scan {
    async fn run<B: Blocks>(mut self, fs: &FileSystem<B>, log: &Log) -> Result<Replayed, FsError> {
        let (mut at, mut sequence) = (log.start, log.sequence);
        let (mut written, mut revoked) = (Vec::new(), Vec::new());
        // Each turn and each content takes a block, so the log is read once at most.
        let mut left = log.end - log.first;
        while left > 0 {
            let block = fs.read_plain(BlockRange::new(log.places.at(at)?, 1)).await?;
            if be_at(&block, 0) != MAGIC || be_at(&block, 8) != sequence {
                break;
            }
            let check = |holds| if holds { Ok(()) } else { Err(FsError::Damaged("its journal")) };
            at = log.after(at);
            left -= 1;
            match be_at(&block, 4) {
                DESCRIPTOR => {
                    check(log.checks_tail(&block))?;
                    for (number, flags, checksum) in log.tags(&block)? {
                        if left == 0 {
                            return Err(FsError::Damaged("its journal"));
                        }
                        let (place, is_escaped) = (log.places.at(at)?, flags & TAG_ESCAPED != 0);
                        written.push((number, Logged { place, sequence, checksum, is_escaped }));
                        at = log.after(at);
                        left -= 1;
                    }
                }
                REVOKE => {
                    check(log.checks_tail(&block))?;
                    revoked.extend(log.revoked(&block)?);
                    check(revoked.len() + self.revoked.len() <= REVOKED_MAX)?;
                }
                COMMIT => {
                    check(log.checks_commit(&block))?;
                    self.written.append(&mut written);
                    self.revoked.extend(revoked.drain(..).map(|block| (block, sequence)));
                    sequence = sequence.wrapping_add(1);
                }
                _ => break,
            }
        }
        Ok(self.newest(fs.fs.blocks, log))
    }

    fn newest(self, fs_blocks: u64, log: &Log) -> Replayed {
        let mut blocks = BTreeMap::new();
        for (block, logged) in self.written {
            let revoked = self.revoked.get(&block);
            let is_revoked = revoked.is_some_and(|by| by.wrapping_sub(logged.sequence).cast_signed() >= 0);
            if block < fs_blocks && !is_revoked {
                blocks.insert(block, logged);
            }
        }
        Replayed { blocks, check: log.check, seed: log.seed }
    }
}

/// A big-endian word; bytes past the end read as zero.
fn be_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u32::from_be_bytes)
}
