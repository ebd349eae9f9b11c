//! Shared by the tests of attaching: directories that are cleaned up however a test ends, a daemon to talk to, and a writer.

pub use crate::writer::{Writer, pattern, verify};

use holdall::attach::doctor::{KnownDrive, Service};
use holdall::attach::{self, Dirs, Identity, Site};
use holdall_core::device::{Allocation, Answer, BlockDevice, DeviceGeometry, Durability, ReadLease, Zeroing};
use holdall_helper::Deputy;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use uuid::Uuid;

pub const DRIVE_BYTES: u64 = 64 << 20;

/// Fails and names what is missing.
pub fn require() {
    assert!(rustix::process::geteuid().is_root(), "these tests mount: run them as root");
    for device in ["/dev/fuse", "/dev/loop-control"] {
        assert!(Path::new(device).exists(), "{device} is missing: the kernel needs fuse and loop");
    }
    for (program, package) in
        [("mkfs.ext4", "e2fsprogs"), ("resize2fs", "e2fsprogs"), ("e2fsck", "e2fsprogs")]
    {
        let found = ["/usr/sbin", "/sbin"].iter().any(|dir| Path::new(dir).join(program).exists());
        assert!(found, "{program} is missing: apt-get install {package}");
    }
}

/// The model daemon, which `cargo test` builds with the tests.
pub fn daemon() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/attach_daemon");
    assert!(path.exists(), "{} is missing: cargo build --examples", path.display());
    path
}

/// Directories and a drive's identity for one test. Leftovers are taken down at the end.
pub struct Bench {
    root: tempfile::TempDir,
    pub identity: Identity,
    pub site: Site,
    pub runtime: Runtime,
}

impl Bench {
    pub fn new() -> Self {
        require();
        let root = tempfile::Builder::new().prefix("holdall-attach.").tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        let dirs = Dirs::new(&root.path().join("run"), &root.path().join("state")).unwrap();
        let site = Site::new(dirs, Deputy::program(&daemon()), runtime.handle().clone());
        let identity = Identity { uuid: Uuid::new_v4(), name: "a drive with a long name".to_owned() };
        Bench { root, identity, site, runtime }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// Where the drive is mounted. The mount creates it.
    pub fn mountpoint(&self) -> PathBuf {
        self.path("mnt")
    }

    /// The file that backs a daemon's drive.
    pub fn file(&self) -> PathBuf {
        let path = self.path(&format!("{}.img", self.identity.uuid));
        if !path.exists() {
            File::create(&path).unwrap().set_len(DRIVE_BYTES).unwrap();
        }
        path
    }

    pub fn start(&self, mode: &str, stop: Option<&str>) -> Daemon {
        let paths = [self.path("run"), self.path("state"), self.file()];
        let mut command = Command::new(daemon());
        command.args(paths).arg(mode).arg(self.mountpoint()).args(stop);
        Daemon::start(&mut command)
    }

    pub fn known(&self, service: Service) -> Vec<KnownDrive> {
        vec![KnownDrive { uuid: self.identity.uuid, name: self.identity.name.clone(), service }]
    }

    /// Checks that nothing of this test is still mounted, attached or running.
    pub fn assert_nothing_left(&self) {
        let root = self.root.path().to_str().unwrap();
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        assert!(!mounts.contains(root), "still mounted:\n{mounts}");
        for entry in std::fs::read_dir("/sys/block").unwrap() {
            let backing = entry.unwrap().path().join("loop/backing_file");
            let backing = std::fs::read_to_string(backing).unwrap_or_default();
            assert!(!backing.contains(root), "a loop device is left over {backing}");
        }
        assert!(!self.mountpoint().exists(), "the mount point is left");
        assert!(!self.site.dirs.keeper_socket().exists(), "the keeper is left");
        let left = |directory: &str| std::fs::read_dir(self.path(directory)).unwrap().count();
        assert_eq!((left("run/disks"), left("state/attached")), (0, 0));
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Needed only after a test that failed.
        if let Err(error) = attach::take_down(self.identity.uuid, &self.site) {
            eprintln!("not cleaned up: {error}");
        }
    }
}

/// The model daemon. Dropping it kills it with kill -9.
pub struct Daemon {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Daemon {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Daemon { child, stdin, stdout }
    }

    /// Reads until a line begins like this, and returns the rest of that line.
    pub fn hear(&mut self, beginning: &str) -> String {
        let mut heard = String::new();
        loop {
            let from = heard.len();
            assert_ne!(self.stdout.read_line(&mut heard).unwrap(), 0, "no {beginning:?} in:\n{heard}");
            if let Some(rest) = heard[from..].strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Sends a line. A command without arguments still ends with a space.
    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line} ").unwrap();
    }

    /// Stops the process, and with it everything that it serves.
    pub fn stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }

    /// Kills the processes that the daemon has started for `subcommand`, and waits until they are gone.
    pub fn kill_children(&self, subcommand: &str) {
        let mut killed = 0;
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            let parent = read("status").lines().find_map(|line| line.strip_prefix("PPid:\t")?.parse().ok());
            if parent != Some(self.child.id()) || read("cmdline").split('\0').nth(1) != Some(subcommand) {
                continue;
            }
            let pid: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
            rustix::process::pidfd_send_signal(&handle, rustix::process::Signal::KILL).unwrap();
            let mut gone = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut gone, None).unwrap();
            killed += 1;
        }
        assert!(killed > 0, "there is no process for {subcommand}");
    }

    pub fn finished(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub const PATIENCE: Duration = Duration::from_secs(30);

/// A device in memory that can grow.
pub struct GrowingDevice {
    inner: Arc<holdall_nbd::testing::MemoryDevice>,
    size_bytes: AtomicU64,
}

impl GrowingDevice {
    pub fn new(size_bytes: u64, most_bytes: u64) -> Arc<Self> {
        let inner = holdall_nbd::testing::MemoryDevice::new(most_bytes);
        Arc::new(GrowingDevice { inner, size_bytes: size_bytes.into() })
    }

    pub fn grow(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::SeqCst);
    }
}

impl BlockDevice for GrowingDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry { size_bytes: self.size_bytes.load(Ordering::SeqCst), read_only: false }
    }

    fn read(&self, range: Range<u64>) -> Answer<ReadLease> {
        self.inner.read(range)
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Answer<()> {
        self.inner.write(offset, data, durability)
    }

    fn zero(&self, range: Range<u64>, how: Zeroing, durability: Durability) -> Answer<()> {
        self.inner.zero(range, how, durability)
    }

    fn flush(&self) -> Answer<()> {
        self.inner.flush()
    }

    fn prefetch(&self, range: Range<u64>) {
        self.inner.prefetch(range);
    }

    fn allocation(&self, range: Range<u64>, limit: usize) -> Answer<Vec<Allocation>> {
        self.inner.allocation(range, limit)
    }
}
