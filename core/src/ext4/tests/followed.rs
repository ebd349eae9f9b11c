//! A walk that continues while the file system changes.

use super::image::{Image, in_pieces, run, some_files};
use super::truth::compare;
use crate::ext4::{InodeNumber, Kind, Limits, Walk};
use crate::units::{BLOCK_BYTES, BlockRange};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs;

const OPTIONS: [&[&str]; 2] = [
    &["-b", "4096", "-J", "size=4"],
    &["-b", "4096", "-J", "size=4", "-O", "^extents,^64bit,^metadata_csum,uninit_bg"],
];

/// Some changes, as commands of debugfs.
fn changes(image: &Image, rng: &mut StdRng, round: u32) -> Vec<String> {
    let small = image.beside("small", &vec![b's'; rng.random_range(1..60_000)]);
    let pieces = image.beside("pieces", &[]);
    in_pieces(&pieces, rng.random_range(1..900));
    let value = image.beside("value", &vec![b'v'; 2500]);
    let mut commands = Vec::new();
    for step in 0..6 {
        let number = rng.random_range(0..40);
        let name = format!("r{round}s{step}");
        commands.extend(match rng.random_range(0..7) {
            0 => vec![format!("mkdir {name}"), format!("write {} {name}/inside", small.display())],
            1 => vec![format!("write {} {name}", pieces.display())],
            2 => vec![
                format!("rm dir{}/file{number}", number % 9),
                format!("write {} {name}", small.display()),
            ],
            3 => {
                let first = rng.random_range(0..400);
                vec![format!("punch pieces {first} {}", first + rng.random_range(0..200))]
            }
            4 => vec![format!("ea_set -f {} dir{}/file{number} user.v", value.display(), number % 9)],
            5 => (0..70).map(|link| format!("symlink {name}l{link} {}", "t".repeat(80))).collect(),
            _ => vec![
                format!("rm r{}s{step}", round.saturating_sub(2)),
                format!("write {} {name}", pieces.display()),
            ],
        });
    }
    commands
}

#[test]
fn after_each_change_the_walk_agrees_with_the_tools() {
    for (seed, options) in OPTIONS.iter().enumerate() {
        let image = Image::make(48, options, some_files);
        let (mut walk, _) = image.walk();
        let mut rng = StdRng::seed_from_u64(seed as u64);
        for round in 0..6 {
            let commands = changes(&image, &mut rng, round);
            let changed = image.change(&commands);
            assert!(!changed.is_empty());
            changed.iter().for_each(|block| walk.written(BlockRange::new(*block, 1)));
            let cost = image.go_on(&mut walk).unwrap();
            assert!(cost.blocks < 2000, "seed {seed} round {round}: {cost:?}");
            compare(&image, &walk);
        }
    }
}

/// Blocks reach the drive in any order, and the walk looks in between.
#[test]
fn split_writes_lead_to_the_same_knowledge() {
    for seed in 0..4 {
        let image = Image::make(48, OPTIONS[seed % 2], some_files);
        let (mut walk, _) = image.walk();
        let mut rng = StdRng::seed_from_u64(seed as u64);
        let mut now = fs::read(&image.path).unwrap();
        for round in 0..4 {
            let commands = changes(&image, &mut rng, round);
            let mut changed = image.change(&commands);
            let after = fs::read(&image.path).unwrap();
            while !changed.is_empty() {
                for _ in 0..rng.random_range(1..=changed.len()) {
                    let block = changed.swap_remove(rng.random_range(0..changed.len()));
                    let at = (block * BLOCK_BYTES) as usize..((block + 1) * BLOCK_BYTES) as usize;
                    now[at.clone()].copy_from_slice(&after[at]);
                    walk.written(BlockRange::new(block, 1));
                }
                // The walk may see a state that checks by chance, or a superblock that never matched the rest.
                let _ = run(&mut walk, &mut |range, bytes| {
                    bytes.copy_from_slice(&now[range.bytes().start as usize..range.bytes().end as usize]);
                    true
                });
            }
            let (fresh, _) = image.walk();
            assert_eq!(walk.metadata(), fresh.metadata(), "seed {seed} round {round}");
            for block in 0..image.blocks {
                assert_eq!(
                    walk.owner_of(block),
                    fresh.owner_of(block),
                    "seed {seed} round {round} block {block}"
                );
            }
        }
    }
}

#[test]
fn blocks_without_layout_are_not_read_again() {
    let image = Image::make(48, OPTIONS[0], some_files);
    let (mut walk, _) = image.walk();
    for (range, kind) in walk.metadata() {
        walk.written(range);
        let is_read = matches!(kind, Kind::Superblock | Kind::Descriptors | Kind::InodeTable | Kind::Mapping);
        // The resize inode's tree leads only to descriptors, but a write there costs just a look.
        assert_eq!(!walk.wanted().is_empty(), is_read, "{range} {kind:?}");
        image.go_on(&mut walk).unwrap();
        assert!(walk.wanted().is_empty());
    }
    let data: Vec<_> = (0..image.blocks).filter(|block| walk.owner_of(*block).is_some()).collect();
    data.iter().for_each(|block| walk.written(BlockRange::new(*block, 1)));
    assert!(walk.wanted().is_empty());
    let before = walk.metadata();
    walk.written(BlockRange { start: 0, end: image.blocks });
    let cost = image.go_on(&mut walk).unwrap();
    assert!(cost.levels <= 2, "{cost:?}");
    assert_eq!(walk.metadata(), before);
}

#[test]
fn a_new_file_system_is_read_from_the_start() {
    let image = Image::make(48, OPTIONS[0], some_files);
    let other = Image::make(48, OPTIONS[1], |root| fs::write(root.join("one"), [1; 50_000]).unwrap());
    let (mut walk, _) = image.walk();
    walk.written(BlockRange { start: 0, end: image.blocks });
    other.go_on(&mut walk).unwrap();
    compare(&other, &walk);

    let mut early = Walk::new(image.blocks, Limits::default());
    assert!(
        run(&mut early, &mut |_, bytes| {
            bytes.fill(0);
            true
        })
        .is_err()
    );
    early.written(BlockRange::new(0, 1));
    image.go_on(&mut early).unwrap();
    compare(&image, &early);
}

#[test]
fn a_file_that_grows_large_enough_is_kept_whole() {
    let image = Image::make(48, OPTIONS[0], |root| {
        in_pieces(&root.join("a"), 30);
        (0..70).for_each(|number| fs::write(root.join(format!("b{number}")), [1; 5000]).unwrap());
    });
    let mut walk = Walk::new(image.blocks, Limits { file_runs: 240, ..Limits::default() });
    image.go_on(&mut walk).unwrap();
    assert_eq!(walk.smallest_file_bytes(), 0);
    // With all the small files there is no space for more files like it. A larger size makes it stay.
    let source = image.beside("more", &[]);
    in_pieces(&source, 55);
    let mut commands: Vec<_> =
        (0..4).map(|number| format!("write {} more{number}", source.display())).collect();
    commands.push("sif a size 10000000".to_owned());
    let changed = image.change(&commands);
    changed.iter().for_each(|block| walk.written(BlockRange::new(*block, 1)));
    image.go_on(&mut walk).unwrap();
    assert!(walk.smallest_file_bytes() > 5000);
    let (all, _) = image.walk();
    let numbers: Vec<_> =
        (11..120).map(InodeNumber).filter(|number| walk.runs_of(*number).is_some()).collect();
    assert!(numbers.iter().all(|number| walk.runs_of(*number) == all.runs_of(*number)));
    let large = numbers.iter().filter(|number| walk.size_of(**number) == Some(10_000_000)).count();
    assert_eq!(large, 1);
}
