//! Damaged or hostile file systems: no panic, and never more than the limits.

use super::image::{Image, run, some_files};
use crate::ext4::{InodeNumber, Kind, Limits, Walk};
use crate::units::{BLOCK_BYTES, BlockRange};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

const LIMITS: Limits = Limits { metadata_blocks: 1300, metadata_runs: 60, file_runs: 200 };

const LAYOUTS: [&[&str]; 4] = [
    // Nothing has a checksum, so that changed blocks are read.
    &["-b", "4096", "-J", "size=4", "-i", "65536", "-O", "^metadata_csum,^uninit_bg"],
    &["-b", "4096", "-J", "size=4", "-i", "65536", "-O", "^metadata_csum,^uninit_bg,^extents,^64bit"],
    &["-b", "4096", "-J", "size=4", "-i", "65536", "-O", "^metadata_csum,uninit_bg,meta_bg,^resize_inode"],
    &["-b", "4096", "-J", "size=4", "-i", "65536"],
];

/// The blocks of an image that a walk reads or knows; all others are zeros.
struct Memory {
    blocks: u64,
    held: HashMap<u64, Vec<u8>>,
    /// The blocks that the walk read.
    read: Vec<u64>,
}

impl Memory {
    fn of(image: &Image) -> Self {
        let file = File::open(&image.path).unwrap();
        let (walk, _) = image.walk();
        let mut held = HashMap::new();
        let is_read =
            |kind| matches!(kind, Kind::Superblock | Kind::Descriptors | Kind::InodeTable | Kind::Mapping);
        for (range, _) in walk.metadata().into_iter().filter(|(_, kind)| is_read(*kind)) {
            for block in range.iter() {
                let mut bytes = vec![0; BLOCK_BYTES as usize];
                file.read_exact_at(&mut bytes, block * BLOCK_BYTES).unwrap();
                held.insert(block, bytes);
            }
        }
        let mut read: Vec<_> = held.keys().copied().collect();
        read.sort_unstable();
        Self { blocks: image.blocks, held, read }
    }

    fn fill(&self, changed: &HashMap<u64, Vec<u8>>, range: BlockRange, bytes: &mut [u8]) -> bool {
        assert!(range.end <= self.blocks, "{range} lies beyond the drive");
        for (block, bytes) in range.iter().zip(bytes.chunks_mut(BLOCK_BYTES as usize)) {
            match changed.get(&block).or_else(|| self.held.get(&block)) {
                Some(held) => bytes.copy_from_slice(held),
                None => bytes.fill(0),
            }
        }
        true
    }

    /// Changes a block in one of the ways that find mistakes.
    fn damage(&self, rng: &mut StdRng, changed: &mut HashMap<u64, Vec<u8>>) {
        let block = self.read[rng.random_range(0..self.read.len())];
        let mut bytes = changed.get(&block).unwrap_or(&self.held[&block]).clone();
        let at = rng.random_range(0..BLOCK_BYTES as usize / 4) * 4;
        match rng.random_range(0..6) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => rng.fill(&mut bytes[at..at + 4]),
            2 => rng.fill(&mut bytes[..]),
            3 => {
                let words = [
                    0,
                    1,
                    2,
                    255,
                    0x7fff,
                    0x8000,
                    0xffff,
                    0xffff_ffff,
                    self.blocks as u32,
                    self.blocks as u32 - 1,
                ];
                let word: u32 = words[rng.random_range(0..words.len())];
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            // The number of a block that means something.
            4 => {
                let word = self.read[rng.random_range(0..self.read.len())] as u32;
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            // One block in place of another.
            _ => bytes = self.held[&self.read[rng.random_range(0..self.read.len())]].clone(),
        }
        changed.insert(block, bytes);
    }
}

fn within_limits(walk: &Walk, what: &str) {
    assert!(walk.metadata_blocks() <= LIMITS.metadata_blocks, "{what}");
    assert!(
        walk.metadata().iter().map(|(range, _)| range.count()).sum::<u64>() <= LIMITS.metadata_blocks,
        "{what}"
    );
    // A few runs above the limit: a node is accepted as a whole.
    let bound = 110 * (LIMITS.metadata_runs + 1100) + 160 * (LIMITS.file_runs + 1100) + (1 << 20);
    assert!(walk.memory_bytes() < bound, "{what}: {} bytes", walk.memory_bytes());
}

#[test]
fn damage_causes_no_panic_and_stays_within_the_limits() {
    let (mut refused, mut doubted, mut full) = (0, 0, 0);
    for (layout, options) in LAYOUTS.iter().enumerate() {
        let memory = Memory::of(&Image::make(160, options, some_files));
        for seed in 0..300 {
            let what = format!("layout {layout} seed {seed}");
            let mut rng = StdRng::seed_from_u64(seed);
            let mut changed = HashMap::new();
            let mut walk = Walk::new(memory.blocks, LIMITS);
            for _ in 0..4 {
                for _ in 0..rng.random_range(1..20) {
                    memory.damage(&mut rng, &mut changed);
                }
                changed.keys().for_each(|block| walk.written(BlockRange::new(*block, 1)));
                let outcome = run(&mut walk, &mut |range, bytes| memory.fill(&changed, range, bytes));
                refused += u32::from(outcome.is_err());
                if let Ok(cost) = outcome {
                    // The wanted blocks, those in between, and both at each level.
                    assert!(cost.blocks < 10 * 16 * LIMITS.metadata_blocks, "{what}: {cost:?}");
                }
                within_limits(&walk, &what);
                for _ in 0..200 {
                    let block = rng.random_range(0..memory.blocks);
                    let owner = walk.owner_of(block);
                    assert!(walk.kind_of(block).is_none() || owner.is_none(), "{what}");
                    let number = InodeNumber(rng.random_range(0..3000));
                    for (_, range) in walk.runs_of(number).unwrap_or_default() {
                        assert!(range.start < range.end && range.end <= memory.blocks, "{what}: {range}");
                    }
                }
                assert!(walk.found().iter().all(|(range, _)| range.end <= memory.blocks), "{what}");
            }
            doubted += u32::from(walk.doubts() > 0);
            full += u32::from(walk.is_full());
        }
    }
    // Otherwise the test has tried nothing.
    assert!(refused > 100 && doubted > 600 && full > 20, "{refused} {doubted} {full}");
}

#[test]
fn bad_structures_are_skipped_and_all_else_is_known() {
    let image = Image::make(160, LAYOUTS[3], some_files);
    let (whole, _) = image.walk();
    let memory = Memory::of(&image);
    let known = whole.metadata();
    let mut doubted = 0;
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let block = memory.read[rng.random_range(1..memory.read.len())];
        let mut bytes = memory.held[&block].clone();
        bytes[rng.random_range(0..BLOCK_BYTES as usize)] ^= 1 << rng.random_range(0..8);
        let changed = HashMap::from([(block, bytes)]);
        let mut walk = Walk::new(memory.blocks, Limits::default());
        run(&mut walk, &mut |range, bytes| memory.fill(&changed, range, bytes)).unwrap();
        let surplus: Vec<_> = walk
            .metadata()
            .into_iter()
            .filter(|(range, kind)| {
                !known.iter().any(|(known, other)| kind == other && known.intersect(range) == *range)
            })
            .collect();
        assert_eq!(surplus, [], "seed {seed}: nothing is made up");
        doubted += u32::from(walk.doubts() > 0);
        // Once the block is whole again, everything is known.
        walk.written(BlockRange::new(block, 1));
        image.go_on(&mut walk).unwrap();
        assert_eq!(walk.metadata(), known, "seed {seed}");
        assert_eq!(walk.doubts(), 0, "seed {seed}: it is in no doubt any more");
    }
    assert!(doubted > 30, "{doubted}");
}

#[test]
fn trees_that_name_themselves_do_not_loop() {
    for options in &LAYOUTS[..2] {
        let image = Image::make(160, options, some_files);
        let memory = Memory::of(&image);
        let (walk, _) = image.walk();
        let nodes: Vec<u64> = walk
            .metadata()
            .into_iter()
            .filter(|(_, kind)| *kind == Kind::Mapping)
            .flat_map(|(range, _)| range.iter())
            .collect();
        assert!(nodes.len() > 2);
        for shift in 0..nodes.len().min(5) {
            let mut changed = HashMap::new();
            for (at, node) in nodes.iter().enumerate() {
                let other = nodes[(at + shift) % nodes.len()] as u32;
                let mut bytes = memory.held[node].clone();
                if options.contains(&"^metadata_csum,^uninit_bg,^extents,^64bit") {
                    bytes.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&other.to_le_bytes()));
                } else {
                    // An index of 340 entries in place of the old content, with any depth.
                    let header = [0xf30a | 340 << 16, 340 | (shift as u32) << 16, 0];
                    let entries = (0..340).flat_map(|at| [at, other, 0]);
                    let words = header.into_iter().chain(entries);
                    bytes
                        .chunks_exact_mut(4)
                        .zip(words)
                        .for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
                }
                changed.insert(*node, bytes);
            }
            let mut walk = Walk::new(memory.blocks, LIMITS);
            run(&mut walk, &mut |range, bytes| memory.fill(&changed, range, bytes)).unwrap();
            within_limits(&walk, "a loop");
        }
    }
}

#[test]
fn a_drive_full_of_noise_is_no_file_system() {
    for seed in 0..50 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut walk = Walk::new(1 << 32, LIMITS);
        assert!(
            run(&mut walk, &mut |_, bytes| {
                rng.fill(bytes);
                true
            })
            .is_err()
        );
        // And now with a superblock that is trusted.
        let mut front = vec![0u8; BLOCK_BYTES as usize];
        let mut put =
            |at: usize, value: u32| front[1024 + at..1028 + at].copy_from_slice(&value.to_le_bytes());
        let groups = 1u32 << rng.random_range(0..18);
        put(0x0, groups * 2048);
        put(0x4, ((u64::from(groups) * 32768).min(u64::from(u32::MAX))) as u32);
        put(0x18, 2);
        put(0x20, 32768);
        put(0x28, 2048);
        put(0x38, 0xef53);
        put(0x4c, 1);
        put(0x54, 11);
        put(0x58, 256);
        put(0x60, 0x42);
        let mut walk = Walk::new(1 << 32, LIMITS);
        run(&mut walk, &mut |range, bytes| {
            rng.fill(&mut bytes[..]);
            if range.start == 0 {
                bytes[..BLOCK_BYTES as usize].copy_from_slice(&front);
            }
            true
        })
        .unwrap();
        assert!(walk.metadata_blocks() <= LIMITS.metadata_blocks);
        assert!(walk.memory_bytes() < (48 << 18) + (1 << 20));
    }
}
