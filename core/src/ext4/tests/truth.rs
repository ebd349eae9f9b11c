//! The answers of dumpe2fs and debugfs about an image, and whether a walk agrees.

use super::image::Image;
use crate::ext4::{InodeNumber, Kind, Walk};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Checks that a walk says exactly what the tools say about the image.
pub fn compare(image: &Image, walk: &Walk) {
    assert!(!walk.is_full() && walk.doubts() == 0, "{} doubts", walk.doubts());
    let dump = image.dump();
    let groups = groups(&dump);
    let mut inodes = inodes(image, &groups);
    for name in ["User quota inode:", "Group quota inode:", "Project quota inode:", "Orphan file inode:"] {
        if let Some(stat) = header(&dump, name).and_then(|number| inodes.get_mut(&(number as u32))) {
            stat.kind = "special".to_owned();
        }
    }
    let mmp = header(&dump, "MMP block number:");
    all_blocks_in_use_are_known(image, walk, &groups, &inodes, mmp);
    inodes_have_their_blocks(walk, &inodes);
    random_blocks_have_their_owner(image, walk, &inodes);
}

/// Every block has the kind that the tools give it, and no other block has a kind.
fn all_blocks_in_use_are_known(
    image: &Image,
    walk: &Walk,
    groups: &[Group],
    inodes: &BTreeMap<u32, Stat>,
    mmp: Option<u64>,
) {
    let mut expected: BTreeMap<u64, Kind> = mmp.map(|block| (block, Kind::Special)).into_iter().collect();
    for group in groups {
        expected
            .extend(group.fixed.iter().flat_map(|(blocks, kind)| blocks.clone().map(|block| (block, *kind))));
    }
    for (number, stat) in inodes {
        let kind = match (number, stat.kind.as_str()) {
            (7, _) => {
                expected.extend(stat.nodes.iter().take(1).map(|block| (*block, Kind::Mapping)));
                continue;
            }
            (8, _) => Some(Kind::Journal),
            (_, "directory") => Some(Kind::Directory),
            (_, "symlink") => Some(Kind::Symlink),
            (_, "special") => Some(Kind::Special),
            _ => None,
        };
        expected.extend(stat.nodes.iter().map(|block| (*block, Kind::Mapping)));
        expected.extend(stat.attributes.map(|block| (block, Kind::Attributes)));
        if let Some(kind) = kind {
            expected.extend(stat.data.values().map(|block| (*block, kind)));
        }
        if kind == Some(Kind::Journal) {
            expected.extend(stat.data.get(&0).map(|block| (*block, Kind::JournalHead)));
        }
    }
    let listed = walk.metadata();
    let known: BTreeMap<u64, Kind> =
        listed.iter().flat_map(|(range, kind)| range.iter().map(|block| (block, *kind))).collect();
    let differ = expected.iter().map(|(block, kind)| (block, kind, known.get(block)));
    let wrong: Vec<_> = differ.filter(|(_, kind, known)| *known != Some(*kind)).take(10).collect();
    assert!(wrong.is_empty(), "not known, or as something else: {wrong:?}");
    let surplus: Vec<_> = known.iter().filter(|(block, _)| !expected.contains_key(block)).take(10).collect();
    assert!(surplus.is_empty(), "known, but no metadata: {surplus:?}");
    assert_eq!(known.len() as u64, walk.metadata_blocks());
    assert_eq!(known.len() as u64, listed.iter().map(|(range, _)| range.count()).sum::<u64>(), "no overlaps");

    // No block in use is overlooked: each is known as metadata, belongs to a file, or is known to be spare.
    let mut free = vec![false; image.blocks as usize];
    let mut spare = free.clone();
    for group in groups {
        group.free.iter().for_each(|run| free[*run.start() as usize..=*run.end() as usize].fill(true));
        group.spare.iter().for_each(|run| spare[*run.start() as usize..*run.end() as usize + 1].fill(true));
    }
    for block in 0..image.blocks {
        let kind = walk.kind_of(block);
        let owner = walk.owner_of(block);
        assert_eq!(kind, known.get(&block).copied(), "block {block}");
        assert!(kind.is_none() || owner.is_none(), "block {block} is {kind:?} and has the owner {owner:?}");
        let is_known = kind.is_some() || owner.is_some();
        if free[block as usize] {
            assert!(!is_known, "block {block} is free, not {kind:?} of {owner:?}");
        } else {
            assert!(is_known || spare[block as usize], "block {block} is in use, and not known");
        }
    }
}

/// Checks both directions between a file and its blocks.
fn inodes_have_their_blocks(walk: &Walk, inodes: &BTreeMap<u32, Stat>) {
    for (number, stat) in inodes.iter().filter(|(number, _)| **number != 7) {
        let mut runs = BTreeMap::new();
        for (at, range) in walk.runs_of(InodeNumber(*number)).unwrap_or_default() {
            runs.extend(range.iter().enumerate().map(|(number, block)| (at + number as u64, block)));
        }
        assert_eq!(runs, stat.data, "inode {number}");
        if !runs.is_empty() {
            assert_eq!(walk.size_of(InodeNumber(*number)), Some(stat.size), "inode {number}");
        }
        if stat.kind == "regular" && *number >= 11 {
            for (at, block) in &stat.data {
                assert_eq!(walk.owner_of(*block), Some((InodeNumber(*number), *at)), "block {block}");
            }
        }
    }
}

/// For random blocks, icheck names the same inode.
fn random_blocks_have_their_owner(image: &Image, walk: &Walk, inodes: &BTreeMap<u32, Stat>) {
    let mut rng = StdRng::seed_from_u64(2);
    let used: Vec<u64> =
        (0..image.blocks.min(40_000)).filter(|block| walk.owner_of(*block).is_some()).collect();
    let mut asked: Vec<u64> = used.choose_multiple(&mut rng, 150).copied().collect();
    asked.extend((0..50).map(|_| rng.random_range(0..image.blocks)));
    let list: Vec<_> = asked.iter().map(u64::to_string).collect();
    let said = image.debugfs(&[], &[format!("icheck {}", list.join(" "))]);
    let said: BTreeMap<u64, Option<u32>> = said
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(block, inode)| Some((block.parse().ok()?, inode.trim().parse().ok())))
        .collect();
    for block in asked {
        let inode = said[&block]
            .filter(|inode| inodes.get(inode).is_some_and(|stat| stat.data.values().any(|b| *b == block)));
        let inode = inode.filter(|inode| *inode >= 11 && inodes[inode].kind == "regular");
        // icheck overlooks files that are deleted and still open.
        let owner = walk.owner_of(block).map(|(inode, _)| inode.0);
        let owner = owner.filter(|owner| !inodes[owner].is_unlinked);
        assert_eq!(owner, inode, "block {block}");
    }
}

/// A group, as dumpe2fs describes it.
#[derive(Default)]
struct Group {
    fixed: Vec<(RangeInclusive<u64>, Kind)>,
    /// In use, but never read: bitmaps that were never made, unused parts of tables, space in backups.
    spare: Vec<RangeInclusive<u64>>,
    free: Vec<RangeInclusive<u64>>,
    first_inode: u32,
    used_inodes: u32,
}

/// A number from dumpe2fs's description of the superblock.
fn header(dump: &str, name: &str) -> Option<u64> {
    let line = dump.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn groups(dump: &str) -> Vec<Group> {
    let per_group = header(dump, "Inodes per group:").unwrap();
    let inode_bytes = header(dump, "Inode size:").unwrap_or(128);
    let blocks_per_group = header(dump, "Blocks per group:").unwrap();
    let mut groups: Vec<Group> = Vec::new();
    let (mut inodes_unused, mut blocks_unused, mut table) = (false, false, 0..=0);
    for line in dump.lines().skip_while(|line| !line.starts_with("Group 0:")) {
        let line = line.trim();
        if line.starts_with("Group ") && line.contains("(Blocks ") {
            inodes_unused = line.contains("INODE_UNINIT");
            blocks_unused = line.contains("BLOCK_UNINIT");
            let first_inode = groups.len() as u32 * per_group as u32 + 1;
            groups.push(Group { first_inode, ..Group::default() });
        }
        let is_first = groups.len() == 1;
        let group = groups.last_mut().unwrap();
        for part in line.split(", ").flat_map(|part| part.split("; ")) {
            let Some((name, place)) = part.split_once(" at ") else { continue };
            let blocks = range(place.split(' ').next().unwrap());
            let kind = match name {
                "Primary superblock" => Some(Kind::Superblock),
                "Backup superblock" => Some(Kind::Backup),
                "Group descriptors" if is_first => Some(Kind::Descriptors),
                "Group descriptors" => Some(Kind::Backup),
                // With meta_bg, the first of a meta group's three copies is in use.
                "Group descriptor" if (blocks.start() / blocks_per_group).is_multiple_of(64) => {
                    Some(Kind::Descriptors)
                }
                "Group descriptor" => Some(Kind::Backup),
                "Reserved GDT blocks" => is_first.then_some(Kind::Reserve),
                "Block bitmap" => (!blocks_unused).then_some(Kind::BlockBitmap),
                "Inode bitmap" => (!inodes_unused).then_some(Kind::InodeBitmap),
                "Inode table" => {
                    table = blocks;
                    continue;
                }
                other => panic!("dumpe2fs says {other}"),
            };
            match kind {
                Some(kind) => group.fixed.push((blocks, kind)),
                None => group.spare.push(blocks),
            }
        }
        if line.contains(" free blocks, ") {
            // A group without a checksum has no count of unused inodes.
            let unused = line.rsplit(", ").next().and_then(|part| part.strip_suffix(" unused inodes"));
            let unused = unused.map_or(0, |count| count.parse().unwrap());
            group.used_inodes = if inodes_unused { 0 } else { per_group as u32 - unused };
            if unused == 0 && line.contains(&format!(" {per_group} free inodes")) {
                group.used_inodes = 0;
            }
            let used_blocks = u64::from(group.used_inodes).div_ceil(4096 / inode_bytes);
            let used = *table.start()..=*table.start() + used_blocks - 1;
            if used_blocks > 0 {
                group.fixed.push((used, Kind::InodeTable));
            }
            group.spare.push(*table.start() + used_blocks..=*table.end());
        }
        if let Some(runs) = line.strip_prefix("Free blocks: ") {
            group.free = runs.split(", ").filter(|run| !run.is_empty()).map(range).collect();
        }
    }
    groups
}

fn range(text: &str) -> RangeInclusive<u64> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    start.parse().unwrap()..=end.parse().unwrap()
}

/// An inode, as debugfs describes it.
#[derive(Default, Debug)]
pub struct Stat {
    pub kind: String,
    pub size: u64,
    pub attributes: Option<u64>,
    pub is_unlinked: bool,
    /// By block of the file.
    pub data: BTreeMap<u64, u64>,
    pub nodes: Vec<u64>,
}

/// All inodes in use.
fn inodes(image: &Image, groups: &[Group]) -> BTreeMap<u32, Stat> {
    let numbers = groups.iter().flat_map(|group| group.first_inode..group.first_inode + group.used_inodes);
    let commands: Vec<_> = numbers.map(|number| format!("stat <{number}>")).collect();
    let said = image.debugfs(&[], &commands);
    let stats = said.split("debugfs: stat <").skip(1).map(|text| {
        let (number, text) = text.split_once('>').unwrap();
        (number.parse().unwrap(), stat(text))
    });
    stats.filter(|(_, stat)| !stat.kind.is_empty()).collect()
}

fn stat(text: &str) -> Stat {
    let mut stat = Stat::default();
    let after = |line: &str, name: &str| -> Option<String> {
        Some(line.split_once(name)?.1.split_whitespace().next()?.to_owned())
    };
    let mut in_blocks = false;
    let mut is_deleted = false;
    for line in text.lines() {
        if in_blocks {
            in_blocks = false;
            line.split(", ").filter(|part| !part.is_empty()).for_each(|part| stat.add(part));
            continue;
        }
        in_blocks = line == "EXTENTS:" || line == "BLOCKS:";
        if let Some(time) = line.trim_start().strip_prefix("dtime: 0x") {
            // A deleted inode that is still open has the number of another inode there.
            is_deleted = u32::from_str_radix(&time[..8], 16).unwrap() > 1 << 24;
        }
        stat.is_unlinked |= line.starts_with("Links: 0 ");
        if let Some(kind) = after(line, "Type: ") {
            stat.kind = kind;
        }
        if line.contains("Group:") && line.contains(" Size: ") {
            stat.size = after(line, " Size: ").unwrap().parse().unwrap();
        }
        if let Some(block) = line.strip_prefix("File ACL: ") {
            stat.attributes = block.trim().parse().ok().filter(|block| *block != 0);
        }
    }
    if is_deleted || stat.kind == "bad" { Stat::default() } else { stat }
}

impl Stat {
    /// `(3-5):7-9`, `(IND):7`, `(ETB0):7`, `(3-5[u]):7-9`.
    fn add(&mut self, part: &str) {
        let (place, blocks) = part.trim().trim_start_matches('(').split_once("):").unwrap();
        let blocks = range(blocks);
        if place.starts_with(|c: char| c.is_ascii_digit()) {
            let places = range(place.trim_end_matches("[u]"));
            self.data.extend(places.zip(blocks));
        } else {
            self.nodes.push(*blocks.start());
        }
    }
}
