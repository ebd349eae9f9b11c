//! One directory behind several mounts, as several computers see a network file system.
//!
//! Each mount has caches of its own, and none knows of the locks of another. A habit is a row in a test's table: a field here, and the
//! place where it shows.

mod tree;

use fuser::{BackgroundSession, Config};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tree::Tree;

/// How a file system that lacks something says so.
#[derive(Clone, Copy, Debug)]
pub struct Refusal(pub i32);

impl Refusal {
    /// EINVAL.
    pub const INVALID: Self = Self(rustix::io::Errno::INVAL.raw_os_error());
    /// ENOTSUP.
    pub const NOT_SUPPORTED: Self = Self(rustix::io::Errno::NOTSUP.raw_os_error());
    /// ENOLCK.
    pub const NO_LOCKS: Self = Self(rustix::io::Errno::NOLCK.raw_os_error());
    /// EPERM, which link(2) gives where there are no hard links.
    pub const NOT_PERMITTED: Self = Self(rustix::io::Errno::PERM.raw_os_error());
    /// EIO.
    pub const BROKEN: Self = Self(rustix::io::Errno::IO.raw_os_error());
}

/// What a file system does in its own way. `Habits::default()` is one whose mounts see each other's changes at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// How long a mount goes on with what it has read: attributes, names, listings and contents.
    pub stale_for: Duration,
    /// How long a rename takes.
    pub rename_takes: Duration,
    /// How it answers fsync of a directory.
    pub directory_sync: Option<Refusal>,
    /// How it answers flock. Else each mount has locks of its own.
    pub flock: Option<Refusal>,
    /// How it answers a rename that must not replace.
    pub rename_new: Option<Refusal>,
    /// How it answers a hard link.
    pub link: Option<Refusal>,
    /// How it answers mkdir.
    pub make_directory: Option<Refusal>,
}

/// The directory and its mounts, for as long as this value is kept.
pub struct OddDirectory {
    // In this order: the mounts go before what they lie in.
    _mounts: Vec<BackgroundSession>,
    dir: TempDir,
}

impl OddDirectory {
    /// Mounts one directory so many times.
    pub fn mount(habits: Habits, times: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let mounts = (0..times).map(|number| {
            let point = at(dir.path(), number);
            std::fs::create_dir(&point).unwrap();
            let mut config = Config::default();
            // A rename that takes long holds up nobody else.
            config.n_threads = Some(4);
            fuser::spawn_mount(Tree::new(&inner, habits), &point, &config)
                .expect("FUSE mounts work here (/dev/fuse, and fusermount3 for ordinary users)")
        });
        let _mounts = mounts.collect();
        Self { _mounts, dir }
    }

    /// Where it is mounted, as computer `number` sees it.
    pub fn path(&self, number: usize) -> PathBuf {
        at(self.dir.path(), number)
    }

    /// What the server itself has, past every cache.
    pub fn inner(&self) -> PathBuf {
        self.dir.path().join("inner")
    }
}

fn at(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("mount-{number}"))
}
