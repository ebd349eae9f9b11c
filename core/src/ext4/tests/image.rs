//! File systems in sparse files, made without mounting anything.

use crate::ext4::{Ext4Error, Limits, Walk};
use crate::units::{BLOCK_BYTES, BlockRange};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The options that Holdall uses.
pub const PRODUCT: &[&str] = &[
    "-b",
    "4096",
    "-i",
    "65536",
    "-J",
    "size=16",
    "-E",
    "packed_meta_blocks=1,root_owner=0:0,assume_storage_prezeroed=1",
];

pub struct Image {
    pub path: PathBuf,
    pub blocks: u64,
    dir: TempDir,
}

/// The cost of a walk.
#[derive(Default, Debug)]
pub struct Cost {
    pub levels: usize,
    pub ranges: usize,
    pub blocks: u64,
}

impl Image {
    /// A file system of `mib` MiB with these options, filled with the files that `fill` puts into a directory.
    pub fn make(mib: u64, options: &[&str], fill: impl FnOnce(&Path)) -> Self {
        // In memory if possible: the tools sync at every end, and the test is not about disks.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (path, source) = (dir.path().join("image"), dir.path().join("source"));
        fs::create_dir(&source).unwrap();
        fill(&source);
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        let mut mkfs = tool("mke2fs");
        mkfs.args(["-q", "-F", "-t", "ext4", "-d"]).arg(&source).args(options).arg(&path);
        let made = mkfs.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs::remove_dir_all(&source).unwrap();
        Self { path, blocks: (mib << 20) / BLOCK_BYTES, dir }
    }

    /// The output of dumpe2fs.
    pub fn dump(&self) -> String {
        let dumped = tool("dumpe2fs").arg(&self.path).output().unwrap();
        assert!(dumped.status.success());
        String::from_utf8(dumped.stdout).unwrap()
    }

    /// The output of debugfs for these commands; commands that change something need `-w`.
    pub fn debugfs(&self, options: &[&str], commands: &[String]) -> String {
        let script = self.dir.path().join("script");
        fs::write(&script, commands.join("\n") + "\n").unwrap();
        let done = tool("debugfs").args(options).arg("-f").arg(&script).arg(&self.path).output().unwrap();
        assert!(done.status.success());
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Gives large directories a hashed index, as the kernel would have done.
    pub fn index_directories(&self) {
        let done = tool("e2fsck").args(["-fyD"]).arg(&self.path).output().unwrap();
        assert!(done.status.code().is_some_and(|code| code < 4));
    }

    /// Makes it larger.
    pub fn grow(&mut self, mib: u64) {
        File::options().write(true).open(&self.path).unwrap().set_len(mib << 20).unwrap();
        assert!(tool("e2fsck").args(["-fy"]).arg(&self.path).output().unwrap().status.success());
        assert!(tool("resize2fs").arg(&self.path).output().unwrap().status.success());
        self.blocks = (mib << 20) / BLOCK_BYTES;
    }

    /// Changes it, and returns the blocks that differ afterwards.
    pub fn change(&self, commands: &[String]) -> Vec<u64> {
        let before = fs::read(&self.path).unwrap();
        self.debugfs(&["-w"], commands);
        let after = fs::read(&self.path).unwrap();
        let pairs = before.chunks(BLOCK_BYTES as usize).zip(after.chunks(BLOCK_BYTES as usize));
        pairs.enumerate().filter(|(_, (old, new))| old != new).map(|(block, _)| block as u64).collect()
    }

    /// A file that debugfs can write into the image.
    pub fn beside(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Walks it to the end.
    pub fn walk(&self) -> (Walk, Cost) {
        let mut walk = Walk::new(self.blocks, Limits::default());
        let cost = self.go_on(&mut walk).unwrap();
        (walk, cost)
    }

    /// Reads what the walk wants until it wants nothing.
    pub fn go_on(&self, walk: &mut Walk) -> Result<Cost, Ext4Error> {
        let file = File::open(&self.path).unwrap();
        let mut read = |range: BlockRange, bytes: &mut [u8]| {
            file.read_exact_at(bytes, range.start * BLOCK_BYTES).unwrap();
            true
        };
        run(walk, &mut read)
    }
}

/// The caller's loop. No file system takes more levels than there are kinds of structures that refer to others.
pub fn run(walk: &mut Walk, read: &mut dyn FnMut(BlockRange, &mut [u8]) -> bool) -> Result<Cost, Ext4Error> {
    let mut cost = Cost::default();
    loop {
        let wanted = walk.wanted();
        if wanted.is_empty() {
            return Ok(cost);
        }
        cost.levels += 1;
        assert!(cost.levels <= 9, "the walk goes on and on");
        cost.ranges += wanted.len();
        cost.blocks += wanted.iter().map(BlockRange::count).sum::<u64>();
        let inside = |range: &BlockRange| wanted.iter().any(|wanted| wanted.intersect(range) == *range);
        walk.feed(&mut |range, bytes| {
            assert!(inside(&range), "{range} was read without having been wanted");
            read(range, bytes)
        })?;
    }
}

fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C").env("TZ", "UTC");
    command
}

/// Some directories with files of all sizes, links, and a file in many pieces.
pub fn some_files(root: &Path) {
    let mut rng = StdRng::seed_from_u64(1);
    for number in 0..200 {
        let dir = root.join(format!("dir{}", number % 9));
        fs::create_dir_all(&dir).unwrap();
        let bytes = if rng.random_bool(0.3) { rng.random_range(0..200) } else { rng.random_range(0..90_000) };
        fs::write(dir.join(format!("file{number}")), vec![number as u8; bytes]).unwrap();
    }
    symlink("t".repeat(59), root.join("short")).unwrap();
    symlink("t".repeat(60), root.join("long")).unwrap();
    symlink("t".repeat(1000), root.join("longer")).unwrap();
    fs::hard_link(root.join("dir1/file1"), root.join("again")).unwrap();
    fs::create_dir_all(root.join("a/deep/path/of/directories")).unwrap();
    in_pieces(&root.join("pieces"), 700);
}

/// A file in which every second block is a hole.
pub fn in_pieces(path: &Path, pieces: u64) {
    let file = File::create(path).unwrap();
    for piece in 0..pieces {
        file.write_all_at(&[7; BLOCK_BYTES as usize], piece * 2 * BLOCK_BYTES).unwrap();
    }
}

/// A directory of `files` empty files.
pub fn large_directory(path: &Path, files: usize) {
    fs::create_dir(path).unwrap();
    let name = "n".repeat(240);
    for number in 0..files {
        File::create(path.join(format!("{name}{number}"))).unwrap();
    }
}
