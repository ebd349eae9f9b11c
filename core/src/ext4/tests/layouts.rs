//! All ways to lay out a file system.

use super::image::{Image, PRODUCT, in_pieces, large_directory, some_files};
use super::truth::compare;
use crate::ext4::{Ext4Error, InodeNumber, Kind, Limits, Walk};
use crate::units::BlockRange;
use std::fs::File;
use std::os::unix::fs::FileExt;

#[test]
fn the_products_own_layout_takes_three_levels_and_few_ranges() {
    let image = Image::make(1024, PRODUCT, some_files);
    let (walk, cost) = image.walk();
    compare(&image, &walk);
    // The superblock with the descriptors; the inode tables; the leaves of the file in pieces.
    assert_eq!(cost.levels, 3, "{cost:?}");
    assert!(cost.ranges <= 6, "{cost:?}");
    assert!(!walk.needs_recovery());
}

#[test]
fn default_options() {
    let image = Image::make(700, &[], some_files);
    compare(&image, &image.walk().0);
}

#[test]
fn without_extents_and_with_files_of_all_depths() {
    let image = Image::make(300, &["-b", "4096", "-O", "^extents,^64bit,^metadata_csum,uninit_bg"], |root| {
        some_files(root);
        in_pieces(&root.join("more pieces"), 1500);
        let far = File::create(root.join("far")).unwrap();
        for block in [0, 11, 12, 1035, 1036, 1_049_611, 1_049_612, 1_200_000] {
            far.write_all_at(&[1; 4096], block * 4096).unwrap();
        }
    });
    compare(&image, &image.walk().0);
}

#[test]
fn without_checksums_only_whole_groups_are_known_to_be_unused() {
    let options =
        ["-b", "4096", "-I", "128", "-i", "65536", "-O", "^metadata_csum,^uninit_bg,^resize_inode,^64bit"];
    let image = Image::make(600, &options, some_files);
    compare(&image, &image.walk().0);
}

#[test]
fn descriptors_in_their_own_groups() {
    let options = [
        "-b",
        "4096",
        "-i",
        "262144",
        "-J",
        "size=8",
        "-O",
        "meta_bg,^resize_inode",
        "-E",
        "assume_storage_prezeroed=1",
    ];
    let image = Image::make(17 << 10, &options, some_files);
    let (walk, cost) = image.walk();
    compare(&image, &walk);
    assert_eq!(cost.levels, 3, "{cost:?}");
}

#[test]
fn other_mixtures_of_features() {
    let layouts: [&[&str]; 7] = [
        &["-b", "4096", "-O", "^has_journal,^sparse_super,^resize_inode"],
        &["-b", "4096", "-I", "128", "-O", "metadata_csum"],
        &["-b", "4096", "-G", "64", "-I", "1024"],
        &["-b", "4096", "-O", "^flex_bg,^64bit", "-g", "8192"],
        &["-b", "4096", "-O", "metadata_csum_seed", "-U", "random", "-E", "resize=10G"],
        &["-b", "4096", "-O", "^64bit,uninit_bg,^metadata_csum", "-g", "4096"],
        &["-b", "4096", "-r", "0", "-O", "none"],
    ];
    for options in layouts {
        let image = Image::make(400, options, some_files);
        compare(&image, &image.walk().0);
    }
}

#[test]
fn an_enlarged_file_system() {
    let options = ["-b", "4096", "-E", "resize=100G"];
    let mut image = Image::make(200, &options, some_files);
    let (mut walk, _) = image.walk();
    image.grow(1000);
    compare(&image, &image.walk().0);
    // A walk with a smaller drive size reports that, and keeps its knowledge.
    let known = walk.metadata();
    walk.written(BlockRange::new(0, 1));
    assert!(matches!(image.go_on(&mut walk), Err(Ext4Error::Implausible(_))));
    assert_eq!(walk.metadata(), known);
    walk.resized(image.blocks);
    image.go_on(&mut walk).unwrap();
    compare(&image, &walk);
}

#[test]
fn two_backups_and_small_groups() {
    let image =
        Image::make(500, &["-b", "4096", "-g", "2048", "-O", "sparse_super2,^resize_inode"], some_files);
    compare(&image, &image.walk().0);
}

#[test]
fn data_inside_of_inodes() {
    let image = Image::make(200, &["-b", "4096", "-I", "512", "-O", "inline_data"], some_files);
    compare(&image, &image.walk().0);
}

#[test]
fn quota_orphan_file_and_other_extras() {
    let options = [
        "-b",
        "4096",
        "-O",
        "quota,project,orphan_file,encrypt,verity,casefold,ea_inode,large_dir,mmp",
        "-E",
        "quotatype=usrquota:grpquota:prjquota",
    ];
    let image = Image::make(300, &options, some_files);
    let (walk, _) = image.walk();
    // Three files of quota, one of orphans, one block of multiple mount protection.
    let special = walk.metadata().into_iter().filter(|(_, kind)| *kind == Kind::Special);
    let blocks: u64 = special.map(|(range, _)| range.count()).sum();
    assert!(blocks > 3, "{blocks}");
    compare(&image, &walk);
}

#[test]
fn thousands_of_files_in_one_directory_with_an_index() {
    let options = ["-b", "4096", "-J", "size=8", "-N", "8192"];
    let image = Image::make(300, &options, |root| large_directory(&root.join("large"), 1500));
    image.index_directories();
    let (walk, cost) = image.walk();
    compare(&image, &walk);
    let directories = walk.metadata().into_iter().filter(|(_, kind)| *kind == Kind::Directory);
    let blocks: u64 = directories.map(|(range, _)| range.count()).sum();
    let said = image
        .debugfs(&[], &["blocks /large".to_owned(), "blocks /".to_owned(), "blocks /lost+found".to_owned()]);
    let listed: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(listed.len() > 90);
    for block in &listed {
        assert!(matches!(walk.kind_of(*block), Some(Kind::Directory | Kind::Mapping)), "{block}");
    }
    let nodes = listed.iter().filter(|block| walk.kind_of(**block) == Some(Kind::Mapping)).count() as u64;
    assert_eq!(blocks + nodes, listed.len() as u64);
    assert!(cost.levels <= 4 && cost.ranges < 12, "{cost:?}");
}

#[test]
fn shared_and_own_blocks_of_attributes() {
    let image = Image::make(200, &["-b", "4096"], some_files);
    let value = image.beside("value", &[b'v'; 3000]);
    let set = |file: u32| format!("ea_set -f {} <{file}> user.large", value.display());
    let changed = image.change(&[set(12), set(20), set(30)]);
    assert!(!changed.is_empty());
    let (walk, _) = image.walk();
    assert_eq!(
        walk.metadata()
            .into_iter()
            .filter(|(_, kind)| *kind == Kind::Attributes)
            .map(|(r, _)| r.count())
            .sum::<u64>(),
        3
    );
    compare(&image, &walk);
}

#[test]
fn unsupported_features_are_named() {
    let try_one = |options: &[&str]| {
        let image = Image::make(64, options, |_| ());
        let mut walk = Walk::new(image.blocks, Limits::default());
        let outcome = image.go_on(&mut walk).map(|_| ());
        assert!(walk.wanted().is_empty() && walk.metadata().is_empty());
        outcome
    };
    assert!(matches!(try_one(&["-b", "1024"]), Err(Ext4Error::Unsupported(_))));
    assert!(matches!(try_one(&["-b", "4096", "-O", "bigalloc"]), Err(Ext4Error::Unsupported(_))));
    assert!(matches!(try_one(&["-b", "4096", "-O", "journal_dev"]), Err(Ext4Error::Unsupported(_))));
    let mut empty = Walk::new(100, Limits::default());
    assert_eq!(
        super::image::run(&mut empty, &mut |_, bytes| {
            bytes.fill(0);
            true
        })
        .err(),
        Some(Ext4Error::NotExt4)
    );
}

#[test]
fn a_file_system_larger_than_its_drive_is_refused() {
    let image = Image::make(64, &["-b", "4096"], |_| ());
    let mut walk = Walk::new(image.blocks - 1, Limits::default());
    assert!(matches!(image.go_on(&mut walk), Err(Ext4Error::Implausible(_))));
}

#[test]
fn with_space_for_few_runs_the_largest_files_are_kept() {
    let layouts: [&[&str]; 2] = [&["-b", "4096"], &["-b", "4096", "-O", "^extents,^64bit"]];
    let mut kept = 0;
    for (options, file_runs) in
        layouts.iter().flat_map(|options| [(options, 60), (options, 100), (options, 1)])
    {
        let image = Image::make(300, options, some_files);
        let mut walk = Walk::new(image.blocks, Limits { file_runs, ..Limits::default() });
        image.go_on(&mut walk).unwrap();
        let (all, _) = image.walk();
        assert!(walk.smallest_file_bytes() > 0 && all.smallest_file_bytes() == 0);
        assert_eq!(walk.metadata(), all.metadata(), "metadata is not let go of");
        assert!(
            walk.metadata().iter().all(|(range, _)| !range.iter().any(|block| walk.is_forgotten_data(block)))
        );
        for number in (11..400).map(InodeNumber) {
            let (Some(size), Some(runs)) = (all.size_of(number), all.runs_of(number)) else { continue };
            if runs.first().is_none_or(|(_, range)| all.owner_of(range.start).is_none()) {
                continue;
            }
            if size < walk.smallest_file_bytes() || runs.len() > (file_runs / 4).max(1) {
                assert_eq!(walk.runs_of(number), None);
                assert_eq!(walk.owner_of(runs[0].1.start), None);
                assert!(walk.is_forgotten_data(runs[0].1.start) && !all.is_forgotten_data(runs[0].1.start));
            } else {
                assert_eq!(walk.runs_of(number), Some(runs));
                kept += 1;
            }
        }
    }
    assert!(kept > 20, "{kept}");
}

#[test]
fn absent_blocks_are_wanted_again() {
    let image = Image::make(300, PRODUCT, some_files);
    let (all, _) = image.walk();
    let mut walk = Walk::new(image.blocks, Limits::default());
    let file = File::open(&image.path).unwrap();
    let mut turn = 0u64;
    for _ in 0..200 {
        if walk.wanted().is_empty() {
            break;
        }
        walk.feed(&mut |range: BlockRange, bytes| {
            turn += 1;
            file.read_exact_at(bytes, range.start * 4096).unwrap();
            turn.is_multiple_of(3)
        })
        .unwrap();
    }
    assert_eq!(walk.metadata(), all.metadata());
}
