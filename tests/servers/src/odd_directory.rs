//! One directory behind several mounts, as several computers see a network file system.
//!
//! Each mount has its own caches, and does not know the locks of the others. A new habit takes a row in a test's table, a field
//! here, and the place that obeys it.

mod tree;

use fuser::{BackgroundSession, Config};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tree::Tree;

/// The error of a file system that lacks a feature.
#[derive(Clone, Copy, Debug)]
pub struct Refusal(pub i32);

impl Refusal {
    /// EINVAL.
    pub const INVALID: Self = Self(rustix::io::Errno::INVAL.raw_os_error());
    /// ENOTSUP.
    pub const NOT_SUPPORTED: Self = Self(rustix::io::Errno::NOTSUP.raw_os_error());
    /// ENOLCK.
    pub const NO_LOCKS: Self = Self(rustix::io::Errno::NOLCK.raw_os_error());
    /// EPERM, which link(2) returns if there are no hard links.
    pub const NOT_PERMITTED: Self = Self(rustix::io::Errno::PERM.raw_os_error());
    /// EIO.
    pub const BROKEN: Self = Self(rustix::io::Errno::IO.raw_os_error());
}

/// The habits of a file system. With `Habits::default()` all mounts see each other's changes at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// How long a mount uses what it has read: attributes, names, listings and contents.
    pub stale_for: Duration,
    /// How long a rename takes.
    pub rename_takes: Duration,
    /// The answer to fsync of a directory.
    pub directory_sync: Option<Refusal>,
    /// The answer to flock. By default each mount has its own locks.
    pub flock: Option<Refusal>,
    /// The answer to a rename that must not replace.
    pub rename_new: Option<Refusal>,
    /// The answer to a hard link.
    pub link: Option<Refusal>,
    /// The answer to mkdir.
    pub make_directory: Option<Refusal>,
}

/// The directory and its mounts, which exist as long as this value.
pub struct OddDirectory {
    // In this order: the mounts are dropped before the directory that contains them.
    _mounts: Vec<BackgroundSession>,
    dir: TempDir,
}

impl OddDirectory {
    /// Mounts one directory this many times.
    pub fn mount(habits: Habits, times: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let mounts = (0..times).map(|number| {
            let point = at(dir.path(), number);
            std::fs::create_dir(&point).unwrap();
            let mut config = Config::default();
            // A slow rename must not block others.
            config.n_threads = Some(4);
            fuser::spawn_mount(Tree::new(&inner, habits), &point, &config)
                .expect("FUSE mounts work here (/dev/fuse, and fusermount3 for ordinary users)")
        });
        let _mounts = mounts.collect();
        Self { _mounts, dir }
    }

    /// The mount point of computer `number`.
    pub fn path(&self, number: usize) -> PathBuf {
        at(self.dir.path(), number)
    }

    /// The server's own directory, without any cache.
    pub fn inner(&self) -> PathBuf {
        self.dir.path().join("inner")
    }
}

fn at(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("mount-{number}"))
}
