//! Shared by the tests of the product: computers with their own directories, and so with their own daemon; and disk space that
//! can be filled up.

#![allow(dead_code, reason = "each test binary uses its part")]

use discreet::{assert_discreet, is_secret, noted, secrets_in, secrets_of};
use serde_json::Value;
use std::fmt::Display;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[path = "../support/discreet.rs"]
pub mod discreet;

/// Far longer than anything here takes. Anything unfinished by then hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Bench {
    dir: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let bench = Self { dir: tempfile::Builder::new().prefix("holdall").tempdir().unwrap() };
        std::fs::write(bench.path("passphrase"), "correct horse\n").unwrap();
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn store(&self) -> String {
        format!("file://{}", self.text("store"))
    }

    pub fn machine(&self, name: &str) -> Machine {
        std::fs::create_dir_all(self.path(name)).unwrap();
        Machine::new(&self.path(name))
    }

    /// A machine with a new drive `d`.
    pub fn with_drive(&self) -> Machine {
        let machine = self.machine("a");
        machine.ok(&["drive", "create", "d", "--store", &self.store(), "--size", "256M", "--no-encryption"]);
        machine
    }
}

/// A computer: its own directories, and so its own daemon. At its end, nothing it has printed or written may contain a secret
/// that it was given.
pub struct Machine {
    pub dir: PathBuf,
    pub state: PathBuf,
    pub cache: PathBuf,
    pub runtime: PathBuf,
    /// The environment of its commands, and so of its daemon.
    pub environment: Vec<(String, String)>,
    /// Who runs its commands, if that is not root.
    pub user: Option<u32>,
    /// Everything its commands have printed, and the secrets in the files that they were given. Each lock is held only to add to
    /// it.
    said: Arc<Mutex<Vec<u8>>>,
    given: Mutex<Vec<String>>,
}

impl Machine {
    pub fn new(dir: &Path) -> Self {
        let below = |name| dir.join(name);
        Machine {
            dir: dir.to_owned(),
            state: below("state"),
            cache: below("cache"),
            runtime: below("run"),
            // No test touches the keyring of the person who runs it.
            environment: vec![("DBUS_SESSION_BUS_ADDRESS".to_owned(), "unix:path=/nowhere".to_owned())],
            user: None,
            said: Arc::default(),
            given: Mutex::default(),
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.plain_command(arguments);
        command.arg("--json");
        command
    }

    /// A command whose output is for people.
    pub fn plain_command(&self, arguments: &[&str]) -> Command {
        let given =
            arguments.windows(2).filter(|pair| pair[0].starts_with("--") && pair[0].ends_with("-file"));
        let secrets = given.flat_map(|pair| secrets_in(Path::new(pair[1])));
        self.given.lock().unwrap().extend(secrets);
        let mut command = self.program(crate::programs::holdall());
        command.args(arguments);
        command
    }

    /// A program that runs on this computer.
    pub fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).envs(self.environment.iter().cloned());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        for (variable, directory) in [
            ("HOLDALL_STATE_DIR", &self.state),
            ("HOLDALL_CACHE_DIR", &self.cache),
            ("HOLDALL_RUNTIME_DIR", &self.runtime),
        ] {
            command.env(variable, directory);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.begin(arguments).output()
    }

    /// Starts a command that may take long.
    pub fn begin(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (said, errors) = (hear(child.stdout.take().unwrap()), hear(child.stderr.take().unwrap()));
        Running { child, said, errors, heard: self.said.clone(), what: format!("{arguments:?}") }
    }

    /// Runs a command that must succeed, and returns its result.
    pub fn ok(&self, arguments: &[&str]) -> Value {
        self.begin(arguments).ok()
    }

    /// Runs a command that must fail. Returns its exit code and its failure code. Every failure says what it means for the data,
    /// and what to do.
    pub fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        let failure = failure(&output);
        (output.status.code().unwrap(), failure["code"].as_str().unwrap().to_owned())
    }

    /// The secrets that the computer was given, in files and in the environment.
    pub fn secrets(&self) -> Vec<String> {
        let environment = self.environment.iter().filter(|(name, _)| is_secret(name));
        let mut secrets = self.given.lock().unwrap().clone();
        secrets.extend(noted(environment.map(|(_, value)| value.clone()).collect()));
        secrets.sort();
        secrets.dedup();
        secrets
    }

    /// Its daemon's command line among others, and what a support report would contain.
    fn look_at_daemon(&self) -> Vec<(String, Vec<u8>)> {
        for shown in ["diagnostics", "activity"] {
            let _ = self.begin(&[shown]).try_output();
        }
        discreet::command_lines()
    }

    /// Everything printed and written.
    fn all_said(&self) -> Vec<(String, Vec<u8>)> {
        let mut places = vec![("what was said".to_owned(), self.said.lock().unwrap().clone())];
        for directory in [&self.state, &self.cache, &self.runtime] {
            discreet::files_below(directory, 4 << 20, &mut places);
        }
        places
    }

    pub fn mountpoint(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    pub fn open(&self, more: &[&str]) -> Value {
        let at = self.mountpoint().display().to_string();
        let opened = self.ok(&[&["drive", "open", "d", "--attach", "loop", "--at", &at], more].concat());
        assert_eq!(opened["mountpoint"].as_str().map(Path::new), Some(self.mountpoint().as_path()));
        opened
    }

    pub fn close(&self) {
        self.ok(&["drive", "close", "d", "--wait"]);
    }

    pub fn status(&self) -> Value {
        self.ok(&["drive", "status", "d"])
    }

    /// The status of the drive, once `is` holds for it.
    pub fn status_when(&self, what: impl Display, is: impl Fn(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        wait_until(&what, || {
            status = self.status();
            is(&status)
        })
        .unwrap_or_else(|()| panic!("not {what}: {status}"));
        status
    }

    /// The status of the drive, once a new daemon has reopened it.
    pub fn taken_up(&self) -> Value {
        // A helper of a killed daemon may hold its socket for a moment, without answering.
        wait_until("a daemon answers", || self.run(&["drive", "list"]).status.success()).unwrap();
        self.status_when("taken up", |status| {
            !matches!(status["state"].as_str(), Some("Connecting" | "Recovering"))
        })
    }

    pub fn pid(&self) -> i32 {
        self.taken_up()["daemon_pid"].as_i64().unwrap() as i32
    }

    /// The process that keeps its disks, and restarts its daemon.
    pub fn keeper(&self) -> Option<i32> {
        let keeper = std::os::unix::net::UnixStream::connect(self.runtime.join("keeper.sock")).ok()?;
        Some(rustix::net::sockopt::socket_peercred(&keeper).ok()?.pid.as_raw_nonzero().get())
    }

    /// Kills the daemon. No other daemon starts on its own while the keeper is held.
    pub fn killed(&self, daemon: i32) -> Option<HeldKeeper> {
        let keeper = self.held_keeper();
        kill(daemon);
        keeper
    }

    /// Stops its keeper, if there is one.
    pub fn held_keeper(&self) -> Option<HeldKeeper> {
        self.keeper().map(HeldKeeper::new)
    }

    /// Checks that every object of the drive is there and correct.
    pub fn assert_checked(&self) {
        let checked = self.ok(&["drive", "check", "d"]);
        assert_eq!(checked["ok"], true, "{checked}");
    }
}

impl Machine {
    /// After a failed test a disk may still wait for its store. Removing its directory would wait, too.
    fn let_go(&self) {
        let keeper = format!("keep {}/", self.runtime.display());
        let _ = Command::new("pkill").args(["--signal", "KILL", "--full", &keeper]).status();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let below = format!("{}/", self.dir.display());
        let left =
            mounts.lines().filter_map(|mount| mount.split(' ').nth(1)).filter(|at| at.starts_with(&below));
        for mountpoint in left {
            let _ = Command::new("umount").args(["--lazy", mountpoint]).status();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let secrets = if std::thread::panicking() { Vec::new() } else { self.secrets() };
        let mut places = if secrets.is_empty() { Vec::new() } else { self.look_at_daemon() };
        // Close whatever the test has left, even if it failed.
        let known = self.begin(&["drive", "list"]).try_output();
        let known: Value =
            known.and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
        let names = known.as_array().into_iter().flatten().filter_map(|drive| drive["name"].as_str());
        for name in std::iter::once("d").chain(names.filter(|name| *name != "d")) {
            let _ = self.begin(&["drive", "close", name]).try_output();
        }
        let _ = self.begin(&["daemon", "stop"]).try_output();
        let _ = self.begin(&["doctor", "--repair"]).try_output();
        let _ = self.begin(&["daemon", "stop"]).try_output();
        if std::thread::panicking() {
            self.let_go();
        }
        if !secrets.is_empty() {
            places.extend(self.all_said());
            assert_discreet(&places, &secrets);
        }
    }
}

/// Stops a keeper until this is dropped.
pub struct HeldKeeper(pub i32);

impl HeldKeeper {
    fn new(pid: i32) -> Self {
        signal(pid, rustix::process::Signal::STOP);
        HeldKeeper(pid)
    }
}

impl Drop for HeldKeeper {
    fn drop(&mut self) {
        signal(self.0, rustix::process::Signal::CONT);
    }
}

fn signal(pid: i32, signal: rustix::process::Signal) {
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
}

/// The failure of a command, which must say what it means for the data, and what to do.
pub fn failure(output: &Output) -> Value {
    // Progress may come before it.
    let errors = String::from_utf8_lossy(&output.stderr);
    let failure: Value =
        errors.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    assert!(!output.status.success() && failure["code"].is_string(), "{}: {errors}", output.status);
    for part in ["message", "consequence", "action"] {
        assert!(!failure[part].as_str().unwrap().is_empty(), "{failure}");
    }
    failure
}

/// Reads all output of a command. Otherwise a command with much output would fill the pipe, and wait.
fn hear(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut heard = Vec::new();
        from.read_to_end(&mut heard).unwrap();
        heard
    })
}

/// A running command.
pub struct Running {
    child: Child,
    said: JoinHandle<Vec<u8>>,
    errors: JoinHandle<Vec<u8>>,
    heard: Arc<Mutex<Vec<u8>>>,
    what: String,
}

impl Running {
    pub fn output(self) -> Output {
        let what = self.what.clone();
        self.try_output().unwrap_or_else(|| panic!("{what} hangs"))
    }

    /// Its output, or nothing if it hangs.
    fn try_output(mut self) -> Option<Output> {
        match wait_until(&self.what, || self.child.try_wait().unwrap().is_some()) {
            Ok(()) => {
                let status = self.child.wait().unwrap();
                let (stdout, stderr) = (self.said.join().unwrap(), self.errors.join().unwrap());
                self.heard.lock().unwrap().extend([&stdout[..], &stderr].concat());
                Some(Output { status, stdout, stderr })
            }
            Err(()) => {
                let _ = self.child.kill();
                let _ = self.child.wait();
                None
            }
        }
    }

    pub fn ok(self) -> Value {
        let what = self.what.clone();
        let output = self.output();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {errors}");
        let told = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        // A recovery key is shown only once, when the drive is created.
        noted(secrets_of(&told));
        told
    }

    /// Kills it.
    pub fn abandon(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

/// A separate file system of this many MiB, in memory.
pub struct Tmpfs {
    at: PathBuf,
}

impl Tmpfs {
    pub fn new(at: PathBuf, size_mib: u32) -> Self {
        std::fs::create_dir(&at).unwrap();
        let options = format!("size={size_mib}m,mode=0700");
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", &at.display().to_string()]);
        Tmpfs { at }
    }

    pub fn resize(&self, size_mib: u32) {
        let options = format!("remount,size={size_mib}m");
        run("mount", &["-o", &options, &self.at.display().to_string()]);
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

/// Runs a program that must succeed, and returns its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; see packaging/setup"));
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}{errors}", output.status);
    said.into_owned()
}

/// Runs a shell script in a directory, and returns its output.
pub fn sh(directory: &Path, script: &str) -> String {
    let script = format!("set -eu; cd '{}'\n{script}", directory.display());
    run("bash", &["-c", &script])
}

/// Data that does not compress, from a seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    Random(seed).bytes(len)
}

/// Checks again and again until `done`.
pub fn wait_until(what: impl Display, mut done: impl FnMut() -> bool) -> Result<(), ()> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !done() {
        if begun.elapsed() > PATIENCE {
            eprintln!("waited in vain: {what}");
            return Err(());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    Ok(())
}

/// Kills a process, and waits until it is dead.
pub fn kill(pid: i32) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let process = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    pidfd_send_signal(&process, Signal::KILL).unwrap();
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
}

/// Random numbers from a seed: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Data that does not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// Checks that an ext4 in a file is clean, after its own journal was replayed as in a mount.
pub fn assert_ext4_clean(image: &Path) {
    let image = image.to_str().unwrap();
    let replayed = Command::new("e2fsck").args(["-y", "-E", "journal_only", image]).output().unwrap();
    let text = String::from_utf8_lossy(&replayed.stdout);
    // 1: something was repaired, in this case replayed.
    assert!(matches!(replayed.status.code(), Some(0 | 1)), "{text}");
    run("e2fsck", &["-fn", image]);
}
