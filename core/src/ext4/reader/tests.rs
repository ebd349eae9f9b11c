//! Every file is what the tools put there; a journal's replay is what e2fsck makes of it; damage is an error.

use super::{Blocks, FileSystem, FsError, Kind, Node, ROOT};
use crate::device::DeviceError;
use crate::ext4::InodeNumber;
use crate::ext4::tests::image::{Image, PRODUCT, large_directory, some_files};
use crate::units::{BLOCK_BYTES, BlockRange};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const BLOCK: usize = BLOCK_BYTES as usize;

/// An image in a file, or one in memory with one changed byte.
enum Drive {
    File(File),
    Changed { bytes: Arc<Vec<u8>>, at: usize, to: u8 },
}

impl Blocks for Drive {
    fn size_blocks(&self) -> u64 {
        match self {
            Drive::File(file) => file.metadata().unwrap().len() / BLOCK_BYTES,
            Drive::Changed { bytes, .. } => bytes.len() as u64 / BLOCK_BYTES,
        }
    }

    async fn read(&self, range: BlockRange) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0; range.byte_len() as usize];
        match self {
            Drive::File(file) => file.read_exact_at(&mut bytes, range.start * BLOCK_BYTES)?,
            Drive::Changed { bytes: all, at, to } => {
                let from = range.start as usize * BLOCK;
                bytes.copy_from_slice(&all[from..from + range.byte_len() as usize]);
                if let Some(byte) = at.checked_sub(from).and_then(|at| bytes.get_mut(at)) {
                    *byte = *to;
                }
            }
        }
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

/// A file as a program sees it. Sizes of directories are the file system's own matter.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    kind: Kind,
    permissions: u16,
    modified: i64,
    content: Vec<u8>,
}

type Tree = BTreeMap<Vec<u8>, Seen>;

/// The files below a directory of this computer.
fn here(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let about = path.symlink_metadata().unwrap();
            let (kind, content) = match about.file_type() {
                kind if kind.is_dir() => (Kind::Directory, Vec::new()),
                kind if kind.is_symlink() => {
                    (Kind::Symlink, fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
                }
                _ => (Kind::Regular, fs::read(&path).unwrap()),
            };
            let seen =
                Seen { kind, permissions: (about.mode() & 0o7777) as u16, modified: about.mtime(), content };
            tree.insert(path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec(), seen);
            if kind == Kind::Directory {
                left.push(path);
            }
        }
    }
    tree
}

fn open(image: &Image) -> FileSystem<Drive> {
    now(FileSystem::open(Drive::File(File::open(&image.path).unwrap()))).unwrap()
}

fn whole(fs: &FileSystem<Drive>, node: &Node) -> Result<Vec<u8>, FsError> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < node.size {
        let from = bytes.len() as u64;
        bytes.extend(now(fs.read(node, from..from + 77_777))?);
        assert!(bytes.len() as u64 > from, "it proceeds");
    }
    Ok(bytes)
}

fn content(fs: &FileSystem<Drive>, node: &Node) -> Result<Vec<u8>, FsError> {
    match node.kind {
        Kind::Symlink => now(fs.read_link(node)),
        Kind::Regular => whole(fs, node),
        _ => Ok(Vec::new()),
    }
}

/// The files that the reader finds.
fn read(fs: &FileSystem<Drive>) -> Result<Tree, FsError> {
    let mut tree = Tree::new();
    let mut left = vec![(Vec::new(), ROOT)];
    while let Some((path, number)) = left.pop() {
        let directory = now(fs.node(number))?;
        let mut from = 0;
        loop {
            let entries = now(fs.entries(&directory, from))?;
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries.into_iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")) {
                let node = now(fs.node(entry.inode))?;
                assert!(entry.kind.is_none_or(|kind| kind == node.kind));
                let path = match path.is_empty() {
                    true => entry.name.clone(),
                    false => [&path[..], &entry.name].join(&b'/'),
                };
                let (kind, permissions) = (node.kind, node.permissions);
                let seen =
                    Seen { kind, permissions, modified: node.modified.seconds, content: content(fs, &node)? };
                assert!(tree.insert(path.clone(), seen).is_none(), "each name once");
                if kind == Kind::Directory {
                    left.push((path, entry.inode));
                }
            }
        }
    }
    tree.remove(&b"lost+found"[..]);
    Ok(tree)
}

/// Names the first file that differs.
fn assert_same(found: &Tree, expected: &Tree, options: &[&str]) {
    let names = found.keys().chain(expected.keys());
    let differs = names.clone().find(|name| found.get(*name) != expected.get(*name));
    let about = |tree: &Tree, name: &Vec<u8>| {
        tree.get(name).map(|seen| (seen.kind, seen.permissions, seen.modified, seen.content.len()))
    };
    let differs =
        differs.map(|name| (String::from_utf8_lossy(name), about(found, name), about(expected, name)));
    assert!(differs.is_none(), "{options:?}: {differs:?}");
}

fn node_at(fs: &FileSystem<Drive>, path: &str) -> Node {
    let mut node = now(fs.node(ROOT)).unwrap();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let entry = now(fs.look_up(&node, name.as_bytes())).unwrap();
        node = now(fs.node(entry.inode)).unwrap();
    }
    node
}

fn e2fsck(path: &Path, options: &[&str]) {
    let bin = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let done = Command::new("e2fsck").env("PATH", bin).args(options).arg(path).output().unwrap();
    assert!(done.status.code().is_some_and(|code| code < 4), "{}", String::from_utf8_lossy(&done.stdout));
}

#[test]
fn reads_every_file_in_every_layout() {
    let layouts: [&[&str]; 5] = [
        &[PRODUCT, &["-N", "4000"]].concat(),
        &["-b", "4096", "-N", "4000", "-O", "^metadata_csum,^64bit"],
        &["-b", "4096", "-N", "4000", "-O", "^64bit,^extent,^has_journal,^metadata_csum"],
        &["-b", "4096", "-N", "4000", "-I", "512", "-O", "inline_data,metadata_csum"],
        &["-b", "4096", "-N", "4000", "-O", "meta_bg,^resize_inode,ea_inode,large_dir"],
    ];
    for options in layouts {
        let mut expected = Tree::new();
        let image = Image::make(128, options, |root| {
            some_files(root);
            large_directory(&root.join("large"), 1000);
            (0..5).for_each(|at| fs::write(root.join(format!("tiny{at}")), vec![b'x'; at * 50]).unwrap());
            expected = here(root);
        });
        assert_same(&read(&open(&image)).unwrap(), &expected, options);
        image.index_directories();
        assert_same(&read(&open(&image)).unwrap(), &expected, options);
    }
}

#[test]
fn blocks_that_were_never_written_are_zeros() {
    let image = Image::make(64, PRODUCT, |root| fs::write(root.join("old"), vec![0xee; 36 << 20]).unwrap());
    let empty = image.beside("empty", b"");
    let commands = [
        "rm old",
        &format!("write {} new", empty.display()),
        "fallocate new 2 8000",
        "sif new size 32768000",
    ];
    image.debugfs(&["-w"], &commands.map(str::to_owned));
    let fs = open(&image);
    let node = node_at(&fs, "new");
    assert_eq!(node.size, 32_768_000);
    assert!(node.sectors > 60_000, "it has blocks");
    assert!(whole(&fs, &node).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn attributes_of_every_size_are_read() {
    let options = ["-b", "4096", "-O", "ea_inode"];
    let image = Image::make(64, &options, |root| fs::write(root.join("file"), b"x").unwrap());
    let large = image.beside("large", &[b'l'; 3000]);
    let huge = image.beside("huge", &[b'h'; 30_000]);
    let commands = [
        "ea_set file user.small one".to_owned(),
        format!("ea_set -f {} file user.large", large.display()),
        format!("ea_set -f {} file user.huge", huge.display()),
    ];
    image.debugfs(&["-w"], &commands);
    let fs = open(&image);
    let found = now(fs.attributes(&node_at(&fs, "file"))).unwrap();
    let found: BTreeMap<_, _> =
        found.into_iter().map(|one| (String::from_utf8(one.name).unwrap(), one.value)).collect();
    assert_eq!(found.get("user.small").map(Vec::as_slice), Some(&b"one"[..]));
    assert_eq!(found.get("user.large").map(Vec::len), Some(3000));
    // debugfs cuts a value at its own limit, and says what it wrote.
    let listed = image.debugfs(&[], &["ea_list file".to_owned()]);
    let huge = found.get("user.huge").unwrap();
    assert!(huge.len() > 4000 && listed.contains(&format!("user.huge ({})", huge.len())), "{listed}");
    assert!(huge.iter().all(|byte| *byte == b'h'));
}

/// Transactions that rewrite a file's blocks, revoke some, hold a block that looks like the journal's own, and one without its commit.
#[test]
fn a_replayed_journal_is_what_e2fsck_makes_of_it() {
    let formats: [(&[&str], &str); 4] = [
        (&["-b", "4096", "-O", "64bit,metadata_csum"], "jo -c -v 3"),
        (&["-b", "4096", "-O", "64bit,metadata_csum"], "jo -c -v 2"),
        (&["-b", "4096", "-O", "^64bit,^metadata_csum"], "jo"),
        (&["-b", "4096", "-O", "^64bit,metadata_csum"], "jo -c -v 3"),
    ];
    for (options, begin) in formats {
        let image =
            Image::make(64, options, |root| fs::write(root.join("file"), vec![1; 60 * BLOCK]).unwrap());
        let before = open(&image);
        let run = now(super::mapping::run_at(&before, &node_at(&before, "file"), 0)).unwrap();
        let (start, blocks) = (run.start.unwrap(), 60);
        assert!(run.blocks >= blocks, "the file is in one piece");
        let mut looks_like_the_journal = vec![9; 4 * BLOCK];
        looks_like_the_journal[..4].copy_from_slice(&0xc03b_3998_u32.to_be_bytes());
        let first = image.beside("first", &vec![2; 30 * BLOCK]);
        let second = image.beside("second", &looks_like_the_journal);
        let third = image.beside("third", &vec![3; 2 * BLOCK]);
        let commands = [
            begin.to_owned(),
            format!("jw -b {}-{} {}", start, start + 29, first.display()),
            format!("jw -b {}-{} {}", start + 10, start + 13, second.display()),
            format!("jw -r {}-{}", start + 20, start + 24),
            format!("jw -b {}-{} {}", start + 22, start + 23, third.display()),
            format!("jw -c -b {}-{} {}", start + 40, start + 41, third.display()),
            "jc".to_owned(),
        ];
        image.debugfs(&["-w"], &commands);
        let fs = open(&image);
        let replayed = whole(&fs, &node_at(&fs, "file")).unwrap();
        assert_eq!(fs.replayed_blocks(), 30 - 3, "{options:?} {begin}");
        e2fsck(&image.path, &["-y", "-E", "journal_only"]);
        let truth = whole(&open(&image), &node_at(&fs, "file")).unwrap();
        for block in 0..blocks as usize {
            let part = block * BLOCK..(block + 1) * BLOCK;
            assert!(replayed[part.clone()] == truth[part.clone()], "{options:?} {begin}: block {block}");
        }
        assert_eq!(
            (replayed[0], replayed[20 * BLOCK], replayed[22 * BLOCK], replayed[40 * BLOCK]),
            (2, 1, 3, 1)
        );
        assert_eq!(replayed[10 * BLOCK..10 * BLOCK + 4], 0xc03b_3998_u32.to_be_bytes());
    }
}

#[test]
fn damage_is_an_error_and_never_other_content() {
    let image = Image::make(32, &["-b", "4096", "-O", "metadata_csum"], |root| {
        some_files(root);
        large_directory(&root.join("large"), 100);
    });
    image.index_directories();
    let expected = read(&open(&image)).unwrap();
    let bytes = Arc::new(fs::read(&image.path).unwrap());
    let (walk, _) = image.walk();
    // Targets of long links, and the first fields of a block of attributes, have no checksums.
    let guarded = |block: &u64| {
        use crate::ext4::Kind::{Descriptors, Directory, InodeTable, Mapping};
        matches!(walk.kind_of(*block), Some(Descriptors | Directory | InodeTable | Mapping))
    };
    let blocks: Vec<u64> = (0..image.blocks).filter(guarded).collect();
    let mut rng = StdRng::seed_from_u64(5);
    let mut refused = 0;
    for _ in 0..60 {
        let block = blocks[rng.random_range(0..blocks.len())] as usize;
        let at = block * BLOCK + rng.random_range(0..BLOCK);
        let to = bytes[at] ^ 1 << rng.random_range(0..8);
        match now(FileSystem::open(Drive::Changed { bytes: bytes.clone(), at, to })).and_then(|fs| read(&fs))
        {
            Ok(found) => assert!(found == expected, "a changed bit in block {block} changes what is read"),
            Err(FsError::Damaged(_) | FsError::NotFound) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 15, "only {refused} of 60 changes were noticed");
}

#[test]
fn impossible_inodes_are_refused() {
    let image = Image::make(64, PRODUCT, some_files);
    let fs = open(&image);
    for number in [0, u32::MAX] {
        assert!(matches!(now(fs.node(InodeNumber(number))), Err(FsError::Damaged(_))));
    }
    let file = node_at(&fs, "dir1/file1");
    assert!(matches!(now(fs.entries(&file, 0)), Err(FsError::NotADirectory)));
    assert!(matches!(now(fs.read_link(&file)), Err(FsError::NotALink)));
    let root = now(fs.node(ROOT)).unwrap();
    assert!(matches!(now(fs.look_up(&root, b"absent")), Err(FsError::NotFound)));
}
