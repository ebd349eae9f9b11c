//! Shared by the tests with the real kernel. They run as root.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod child;
pub mod memory_device;
pub mod slow_disk;

use holdall_fuse::mount;
use holdall_kernel::loopdev;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For things that take milliseconds, on a computer that may stall.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Fails and names what is missing.
pub fn require(programs: &[(&str, &str)]) {
    assert!(rustix::process::geteuid().is_root(), "these tests mount: run them as root");
    for device in ["/dev/fuse", "/dev/loop-control"] {
        assert!(
            Path::new(device).exists(),
            "{device} is missing: the kernel needs CONFIG_FUSE_FS and CONFIG_BLK_DEV_LOOP"
        );
    }
    for (program, package) in programs {
        let found = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
            .iter()
            .any(|dir| Path::new(dir).join(program).exists());
        assert!(found, "{program} is missing: apt-get install {package}");
    }
}

pub const EXT4: &[(&str, &str)] =
    &[("mkfs.ext4", "e2fsprogs"), ("e2fsck", "e2fsprogs"), ("fstrim", "util-linux")];

pub fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}\n{said}{error}", output.status);
    said
}

/// A binary from examples/, which `cargo test` builds with the tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build -p holdall-fuse --examples", path.display());
    path
}

/// Directories for one test. Everything mounted or attached on them is taken down however the test ends.
pub struct Bench {
    root: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["disk", "ext4"] {
            std::fs::create_dir(root.path().join(dir)).unwrap();
        }
        Bench { root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Where the one-file disk is mounted.
    pub fn disk(&self) -> PathBuf {
        self.path("disk")
    }

    /// Where the ext4 is mounted.
    pub fn ext4(&self) -> PathBuf {
        self.path("ext4")
    }

    pub fn file(&self) -> PathBuf {
        self.path("disk/disk")
    }

    pub fn make_ext4(&self, device: &Path) {
        let device = device.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", device]);
    }

    pub fn mount_ext4(&self, device: &Path) {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match rustix::mount::mount(device, self.ext4(), "ext4", flags, None) {
                // Other programs inspect new devices, and hold them for a moment.
                Err(Errno::BUSY) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10))
                }
                mounted => return mounted.unwrap(),
            }
        }
    }

    pub fn unmount_ext4(&self) {
        rustix::mount::unmount(self.ext4(), UnmountFlags::empty()).unwrap();
    }

    /// Checks that nothing of this test is still mounted or attached.
    pub fn assert_nothing_left(&self) {
        let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
        let root = self.root.path().to_str().unwrap();
        assert!(!mounts.contains(root), "still mounted:\n{mounts}");
        assert_eq!(loopdev::over(&self.file()).unwrap(), Vec::<PathBuf>::new());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Needed only after a failed test. The abort comes first, so that nothing below waits for a disk without a server.
        if mount::connection_at(&self.disk()).is_some() {
            let _ = mount::abort(&self.disk());
        }
        let _ = rustix::mount::unmount(self.ext4(), UnmountFlags::DETACH);
        for device in loopdev::over(&self.file()).unwrap_or_default() {
            let _ = loopdev::detach(&device, PATIENCE);
        }
        let _ = mount::clean_up(&self.disk());
    }
}

/// `len` bytes that depend on `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    use rand::{RngCore, SeedableRng};
    let mut bytes = vec![0; len];
    rand::rngs::StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
