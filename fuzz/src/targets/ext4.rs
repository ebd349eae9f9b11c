//! A drive's file system, read from outside.

use holdall_core::device::DeviceError;
use holdall_core::ext4::reader::{Blocks, FileSystem, Kind, READ_BYTES_MAX};
use holdall_core::ext4::{InodeNumber, Limits, Walk};
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const BLOCK: usize = BLOCK_BYTES as usize;
const DEVICE_BLOCKS: u64 = 1 << 16;
const LIMITS: Limits = Limits { metadata_blocks: 2000, metadata_runs: 300, file_runs: 300 };

/// How an input is cut: the superblock, block 1, the 30 blocks after it, and four kinds of blocks that all others take in
/// turn. Missing bytes are zeros.
const SUPERBLOCK: usize = 1024;
const DESCRIPTORS: usize = 256;
const TABLE: usize = 1024;
const NODE: usize = 128;
const NODES: usize = 4;
const TABLE_BLOCKS: std::ops::Range<u64> = 2..32;

/// A part of the input, or less if the input ends before.
fn part(input: &[u8], from: usize, bytes: usize) -> &[u8] {
    let rest = input.get(from..).unwrap_or_default();
    &rest[..bytes.min(rest.len())]
}

fn block(input: &[u8], number: u64, into: &mut [u8]) {
    into.fill(0);
    let put = |into: &mut [u8], bytes: &[u8]| into[..bytes.len()].copy_from_slice(bytes);
    match number {
        0 => {
            put(&mut into[1024..], part(input, 0, SUPERBLOCK));
            // The superblock's checksum is corrected, so that the code behind it is reached.
            let sum = !crc32c::crc32c(&into[1024..1024 + 0x3fc]);
            into[1024 + 0x3fc..2048].copy_from_slice(&sum.to_le_bytes());
        }
        1 => put(into, part(input, SUPERBLOCK, DESCRIPTORS)),
        number if TABLE_BLOCKS.contains(&number) => put(into, part(input, SUPERBLOCK + DESCRIPTORS, TABLE)),
        number => {
            let node = number as usize % NODES;
            put(into, part(input, SUPERBLOCK + DESCRIPTORS + TABLE + node * NODE, NODE));
        }
    }
}

/// The walk ends, keeps its limits, and reports nothing impossible.
pub fn ext4(input: &[u8]) {
    let mut walk = Walk::new(DEVICE_BLOCKS, LIMITS);
    // Twice: the second time everything was rewritten, with the nodes in other places.
    for turn in 0..2u64 {
        for _ in 0..9 {
            let wanted = walk.wanted();
            assert!(wanted.iter().all(|range| range.end <= DEVICE_BLOCKS));
            let _ = walk.feed(&mut |range, bytes| {
                for (number, into) in range.iter().zip(bytes.chunks_exact_mut(BLOCK)) {
                    block(input, if number < TABLE_BLOCKS.end { number } else { number + turn }, into);
                }
                true
            });
        }
        assert!(walk.wanted().is_empty(), "it ends");
        assert!(walk.metadata_blocks() <= LIMITS.metadata_blocks);
        let metadata = walk.metadata();
        assert!(metadata.iter().all(|(range, _)| range.start < range.end && range.end <= DEVICE_BLOCKS));
        for number in 1..=u32::try_from(TABLE / 128).unwrap_or(u32::MAX) {
            for (_, range) in walk.runs_of(InodeNumber(number)).unwrap_or_default() {
                assert!(range.start < range.end && range.end <= DEVICE_BLOCKS);
                assert!(walk.owner_of(range.start).is_none() || walk.kind_of(range.start).is_none());
            }
        }
        walk.written(BlockRange { start: 0, end: DEVICE_BLOCKS });
    }
}

/// A drive whose blocks come from an input.
struct Input<'a>(&'a [u8]);

impl Blocks for Input<'_> {
    fn size_blocks(&self) -> u64 {
        DEVICE_BLOCKS
    }

    async fn read(&self, range: BlockRange) -> Result<Vec<u8>, DeviceError> {
        assert!(range.start < range.end && range.end <= DEVICE_BLOCKS, "{range} is not on the drive");
        assert!(range.byte_len() <= READ_BYTES_MAX + BLOCK_BYTES, "{range} is too much at once");
        let mut bytes = vec![0; range.byte_len() as usize];
        range
            .iter()
            .zip(bytes.chunks_exact_mut(BLOCK))
            .for_each(|(number, into)| block(self.0, number, into));
        Ok(bytes)
    }
}

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

/// Reading the files ends, reads nothing beyond the drive, and gives no more bytes than a file has.
pub fn ext4_files(input: &[u8]) {
    const ENTRIES_MAX: usize = 400;
    let Ok(fs) = now(FileSystem::open(Input(input))) else { return };
    assert!(fs.usage().free_blocks <= fs.usage().blocks);
    for number in 0..=u32::try_from(TABLE / 128).unwrap_or(u32::MAX) {
        let Ok(node) = now(fs.node(InodeNumber(number))) else { continue };
        let ends = [0, node.size / 2, node.size.saturating_sub(2 * BLOCK_BYTES)];
        for from in ends {
            let wanted = from..from.saturating_add(3 * BLOCK_BYTES + 1);
            if let Ok(bytes) = now(fs.read(&node, wanted.clone())) {
                assert_eq!(bytes.len() as u64, wanted.end.min(node.size).saturating_sub(from));
            }
        }
        let _ = now(fs.read_link(&node));
        let _ = now(fs.attributes(&node));
        if node.kind == Kind::Directory {
            let (mut from, mut seen) = (0, 0);
            while let Ok(entries) = now(fs.entries(&node, from)) {
                let Some(last) = entries.last() else { break };
                assert!(last.next > from, "it proceeds");
                (from, seen) = (last.next, seen + entries.len());
                assert!(entries.iter().all(|entry| !entry.name.is_empty() && !entry.name.contains(&b'/')));
                if seen > ENTRIES_MAX {
                    break;
                }
            }
        }
    }
}

/// A file system with a directory that has entries, and one whose journal must be replayed: a head, a descriptor with an escaped block, the
/// block and a commit.
pub fn ext4_files_seeds() -> Vec<Vec<u8>> {
    let nodes = SUPERBLOCK + DESCRIPTORS + TABLE;
    let put = |bytes: &mut [u8], at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    let mut named = seed(true);
    // Block 50 is the third node.
    put(&mut named, nodes + 2 * NODE, &[2, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0]);
    put(&mut named, nodes + 2 * NODE + 12, &[4, 0, 0, 0, 244, 15, 4, 1, b'f', b'i', b'l', b'e']);
    let mut logged = seed(true);
    put(&mut logged, 0x60, &[0x46]);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let magic = 0xc03b_3998;
    // The journal begins with block 100, which is the first node.
    put(&mut logged, nodes, &words(&[magic, 4, 0, 4096, 64, 1, 7, 1, 0, 0, 0]));
    put(&mut logged, nodes + NODE, &words(&[magic, 1, 7, 50, 0b1011]));
    put(&mut logged, nodes + 3 * NODE, &words(&[magic, 2, 7]));
    vec![named, logged, seed(false)]
}

/// A file system with a directory and files in trees of both styles, without checksums.
pub fn ext4_seeds() -> Vec<Vec<u8>> {
    [true, false].map(seed).to_vec()
}

fn seed(has_extents: bool) -> Vec<u8> {
    let mut bytes = vec![0; SUPERBLOCK + DESCRIPTORS + TABLE + NODES * NODE];
    let mut put = |at: usize, words: &[u32]| {
        words.iter().enumerate().for_each(|(word, value)| {
            bytes[at + 4 * word..at + 4 * word + 4].copy_from_slice(&value.to_le_bytes());
        });
    };
    // Two groups of 32 inodes of 128 bytes: one block of table each.
    let fields =
        [(0x0, 64), (0x4, 1 << 16), (0x18, 2), (0x20, 1 << 15), (0x28, 32), (0x38, 0xef53), (0x4c, 1)];
    let features = [(0x54, 3), (0x58, 128), (0x5c, 0x4), (0x60, 0x42), (0x64, 0x1), (0xe0, 8)];
    fields.iter().chain(&features).for_each(|(at, value)| put(*at, &[*value]));
    put(SUPERBLOCK, &[20, 21, 2]);
    put(SUPERBLOCK + 32, &[22, 23, 3]);
    let table = SUPERBLOCK + DESCRIPTORS;
    let (flags, magic) = (0x8_0000, 0xf30a);
    let mut inode = |number: usize, mode: u32, root: &[u32]| {
        put(table + 128 * (number - 1), &[mode, 1 << 20]);
        put(table + 128 * (number - 1) + 0x18, &[1 << 16, 0, if has_extents { flags } else { 0 }]);
        put(table + 128 * (number - 1) + 0x28, root);
    };
    if has_extents {
        // A directory, the journal, and a file whose tree has two levels.
        inode(2, 0x4000, &[magic | 1 << 16, 4, 0, 0, 1, 50]);
        inode(8, 0x8000, &[magic | 1 << 16, 4, 0, 0, 64, 100]);
        inode(4, 0x8000, &[magic | 1 << 16, 4 | 2 << 16, 0, 0, 4 * 50, 0]);
        put(table + TABLE, &[magic | 2 << 16, 10 | 1 << 16, 0, 0, 4 * 60 + 1, 0, 40, 4 * 61 + 1, 0]);
        put(table + TABLE + NODE, &[magic | 2 << 16, 10, 0, 0, 8, 300, 20, 8, 400]);
    } else {
        inode(2, 0x4000, &[50, 51]);
        inode(8, 0x8000, &[100, 101, 0, 103, 0, 0, 0, 0, 0, 0, 0, 0, 200]);
        inode(4, 0x8000, &[500, 501, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 201, 202, 203]);
        put(table + TABLE, &[600, 601, 602, 0, 604]);
        put(table + TABLE + 2 * NODE, &[700, 701]);
    }
    bytes
}
