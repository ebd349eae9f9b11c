//! A mounted folder for one test.

use holdall_core::disk::real::Directory;
use holdall_core::folder::{Folder, FolderEnvironment};
use holdall_core::store::file::Limits;
use holdall_core::store::pace::Pacer;
use holdall_core::store::remote::file::{FileRemote, Options as RemoteOptions};
use holdall_fuse::folder::{InProcess, Mounted, Options, Registrar, Unmounting, mount};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use uuid::Uuid;

/// After this time a test is over, whatever it waits for: its connection is aborted.
const TEST_LIMIT: Duration = Duration::from_secs(120);

/// How many operations of fsx each mode gets.
pub fn fsx_operations() -> u64 {
    std::env::var("HOLDALL_FSX_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(4000)
}

/// How long so many operations may take.
pub fn fsx_limit() -> Duration {
    Duration::from_secs(60 + fsx_operations() / 50)
}

/// For changes that come by themselves.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How a test's folder is mounted.
#[derive(Clone, Copy)]
pub struct Setup {
    pub passes_through: bool,
    pub read_only: bool,
}

pub struct Bench {
    mounted: Option<Mounted>,
    folder: Arc<Folder>,
    runtime: Runtime,
    root: tempfile::TempDir,
    _watch: mpsc::Sender<()>,
}

impl Bench {
    /// A folder whose wholly local files pass through.
    pub fn new() -> Self {
        Self::with(Setup { passes_through: true, read_only: false }, |_| {})
    }

    /// A folder that serves every file.
    pub fn served() -> Self {
        Self::with(Setup { passes_through: false, read_only: false }, |_| {})
    }

    /// A folder, whose remote has what `fill` puts there.
    pub fn with(setup: Setup, fill: impl FnOnce(&Path)) -> Self {
        let registrar = InProcess::new().map(|registrar| Arc::new(registrar) as Arc<dyn Registrar>);
        Self::with_registrar(setup, registrar.filter(|_| setup.passes_through), fill)
    }

    pub fn with_registrar(
        setup: Setup,
        registrar: Option<Arc<dyn Registrar>>,
        fill: impl FnOnce(&Path),
    ) -> Self {
        assert!(rustix::process::geteuid().is_root(), "these tests mount: run them as root");
        let root = tempfile::tempdir().unwrap();
        for directory in ["mnt", "remote", "state"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        fill(&root.path().join("remote"));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (folder, stale) = runtime.block_on(open(root.path()));
        let options =
            Options { source: "file:///a, b".into(), read_only: setup.read_only, allow_other: false };
        let at = root.path().join("mnt");
        let mounted =
            mount(folder.clone(), stale, &at, &options, registrar, runtime.handle().clone()).unwrap();
        let _watch = watch(at);
        Self { mounted: Some(mounted), folder, runtime, root, _watch }
    }

    /// A path in the mounted folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.root.path().join("mnt").join(name)
    }

    /// A path in the directory that is the remote.
    pub fn remote(&self, name: &str) -> PathBuf {
        self.root.path().join("remote").join(name)
    }

    /// A path beside both.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().unwrap()
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Runs a shell script in the mounted folder, bounded. Returns what it printed.
    pub fn sh(&self, script: &str) -> String {
        let output = self.command(script).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{}\n{said}{error}", output.status);
        said
    }

    /// A shell script in the mounted folder, to be run.
    pub fn command(&self, script: &str) -> Command {
        let mut command = Command::new("timeout");
        // The shell changes its directory itself: a parent that does it between fork and exec would need the mount.
        let script = format!("cd '{}'\n{script}", self.at("").display());
        command.args(["-s", "KILL", "60", "bash", "-euo", "pipefail", "-c", &script]);
        command.env("HOME", self.root.path()).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Bytes that were read and written by asking us.
    pub fn requests(&self) -> (u64, u64) {
        (self.mounted().counters().reads(), self.mounted().counters().writes())
    }

    pub fn unmount(&self, how: Unmounting) -> Result<(), holdall_fuse::mount::MountError> {
        self.runtime.block_on(self.mounted().unmount(how))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            let how = if std::thread::panicking() { Unmounting::Forcibly } else { Unmounting::Politely };
            let done = self.runtime.block_on(mounted.unmount(how));
            if !std::thread::panicking() {
                done.unwrap();
            }
        }
        let closed =
            self.runtime.block_on(async { tokio::time::timeout(PATIENCE, self.folder.close()).await });
        if !std::thread::panicking() {
            closed.expect("a folder closes").unwrap();
        }
    }
}

async fn open(
    root: &Path,
) -> (Arc<Folder>, tokio::sync::mpsc::UnboundedReceiver<holdall_core::folder::api::Stale>) {
    let options = RemoteOptions {
        device: Uuid::from_u128(7),
        root: None,
        read_only: false,
        limits: Limits::default(),
        pacer: Pacer::new(),
    };
    let remote = FileRemote::open(&root.join("remote"), options).await.unwrap();
    let environment = FolderEnvironment {
        disk: Arc::new(Directory::create(&root.join("state")).unwrap()),
        files: Arc::new(Directory::create(&root.join("state/files")).unwrap()),
        database: sled::open(root.join("state/entries")).unwrap(),
        folder: Uuid::from_u128(8),
        remote: Arc::new(remote),
        cache_bytes: 1 << 30,
        whole_up_to: 16 << 20,
        device: uuid::Uuid::from_u128(7),
        device_name: "laptop".into(),
        read_only: None,
        has_outlived: false,
    };
    Folder::open(environment).await.unwrap()
}

/// Aborts the connection of a test that hangs, so that it fails instead.
fn watch(at: PathBuf) -> mpsc::Sender<()> {
    let (over, is_over) = mpsc::channel();
    std::thread::spawn(move || {
        if is_over.recv_timeout(TEST_LIMIT.max(fsx_limit())) == Err(RecvTimeoutError::Timeout) {
            let _ = holdall_fuse::mount::abort(&at);
        }
    });
    over
}

/// Tries until `look` is satisfied.
pub fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !look() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The errno that an operation failed with.
pub fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

/// `len` bytes that depend on `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    use rand::{RngCore, SeedableRng};
    let mut bytes = vec![0; len];
    rand::rngs::StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
