//! The built product, used as a person uses it.

use super::Failure;
use holdall_servers::s3;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A drive's store, and the credentials for it.
#[derive(Clone, Debug)]
pub struct Store {
    url: String,
    credentials: Option<PathBuf>,
}

impl Store {
    /// A prefix in the bucket of the S3 server at `address`, with the credentials in a file.
    pub fn s3(address: SocketAddr, prefix: &str, credentials: &Path) -> Self {
        Self { url: s3::url("http", address, prefix), credentials: Some(credentials.to_owned()) }
    }
}

impl From<&PathBuf> for Store {
    fn from(directory: &PathBuf) -> Self {
        Self { url: format!("file://{}", directory.display()), credentials: None }
    }
}

/// A computer: directories of its own, and so a daemon of its own, with one drive `d`.
pub struct Computer {
    dir: PathBuf,
    variables: Vec<(&'static str, &'static str)>,
}

impl Computer {
    /// A computer that knows no drive, in `dir`.
    pub fn new(dir: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(dir)?;
        Ok(Self { dir: dir.to_owned(), variables: Vec::new() })
    }

    /// The same, with a variable in the environment of its programs.
    pub fn with(mut self, variable: &'static str, value: &'static str) -> Self {
        self.variables.push((variable, value));
        self
    }

    /// Makes its drive.
    pub fn create(&self, store: impl Into<Store>, size_bytes: u64) -> Result<(), Failure> {
        self.know("create", &store.into(), &["--size", &format!("{}M", size_bytes >> 20)])
    }

    /// Adds a drive that another computer has made.
    pub fn add(&self, store: impl Into<Store>) -> Result<(), Failure> {
        self.know("add", &store.into(), &[])
    }

    fn know(&self, how: &str, store: &Store, options: &[&str]) -> Result<(), Failure> {
        let passphrase = self.dir.join("passphrase");
        std::fs::write(&passphrase, "correct horse battery staple\n")?;
        let passphrase = passphrase.display().to_string();
        let credentials = store.credentials.as_ref().map(|file| file.display().to_string());
        let mut arguments = vec![how, "d", "--store", &store.url, "--passphrase-file", &passphrase];
        arguments.extend(options);
        if let Some(file) = &credentials {
            arguments.extend(["--credentials-file", file]);
        }
        self.run(&arguments).map(drop)
    }

    /// Opens and mounts the drive; returns the output of the command.
    pub fn open(&self) -> Result<Value, Failure> {
        let at = self.mountpoint().display().to_string();
        self.run(&["open", "d", "--attach", "loop", "--at", &at])
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Closes the drive once everything is in the store.
    pub fn close(&self) -> Result<(), Failure> {
        self.run(&["close", "d", "--wait"]).map(drop)
    }

    /// Uploads everything.
    pub fn sync(&self) -> Result<(), Failure> {
        self.run(&["sync", "d"]).map(drop)
    }

    /// The status of the drive.
    pub fn status(&self) -> Result<Value, Failure> {
        self.run(&["status", "d"])
    }

    /// Pins `path` on the drive, and waits until all of it is here.
    pub fn pin(&self, path: &Path) -> Result<(), Failure> {
        let path = path.display().to_string();
        done(self.holdall().args(["pin", &path, "--wait"])).map(drop)
    }

    /// The number of files of the only pin, once all of it is here.
    pub fn pinned_files(&self) -> Result<Option<u64>, Failure> {
        let pin = done(self.holdall().args(["pins", "d", "--json"]))?[0].clone();
        let [ready, total] = ["files_ready", "files_total"].map(|field| pin[field].as_u64());
        Ok(total.filter(|_| ready == total && pin["state"] == "Always keep"))
    }

    /// Frees everything of the drive that may be evicted here.
    pub fn evict(&self) -> Result<(), Failure> {
        done(self.holdall().args(["evict", "--drive", "d"])).map(drop)
    }

    /// Limits the cache.
    pub fn limit_cache(&self, bytes: u64) -> Result<(), Failure> {
        done(self.holdall().args(["limits", "--cache", &format!("{}M", bytes >> 20)])).map(drop)
    }

    /// Resident memory of the daemon, in MiB.
    pub fn resident_mebibytes(&self) -> Result<f64, Failure> {
        let pid = self.status()?["daemon_pid"].as_u64().ok_or("the daemon does not tell its process")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kibibytes / 1024.0)
    }

    /// Serves the drive by NBD, until the result is dropped.
    pub fn serve(&self) -> Result<Served<'_>, Failure> {
        let socket = self.dir.join("nbd.sock");
        let mut command = self.command(&["serve", "d", "--socket", &socket.display().to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut said = String::new();
        let stdout = child.stdout.take().ok_or("no standard output")?;
        BufReader::new(stdout).read_line(&mut said)?;
        if said.is_empty() {
            return Err(format!("drive serve: {}", child.wait()?).into());
        }
        Ok(Served { computer: self, child, socket })
    }

    fn run(&self, arguments: &[&str]) -> Result<Value, Failure> {
        done(&mut self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.holdall();
        command.arg("drive").args(arguments).arg("--json");
        command
    }

    fn holdall(&self) -> Command {
        let mut command = Command::new(crate::programs::holdall());
        // The keyring of the person who runs this must not be used.
        command.stdin(Stdio::null()).env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
        for (variable, directory) in
            [("HOLDALL_STATE_DIR", "state"), ("HOLDALL_CACHE_DIR", "cache"), ("HOLDALL_RUNTIME_DIR", "run")]
        {
            command.env(variable, self.dir.join(directory));
        }
        command.envs(self.variables.iter().copied());
        command
    }
}

/// The output of a command, if it is JSON.
fn done(command: &mut Command) -> Result<Value, Failure> {
    let output = command.output()?;
    if !output.status.success() {
        let arguments: Vec<_> = command.get_args().collect();
        return Err(format!("holdall {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

impl Drop for Computer {
    fn drop(&mut self) {
        // Cleans up, also after a run that failed.
        let _ = self.run(&["close", "d"]);
        let _ = self.holdall().args(["daemon", "stop"]).output();
        let _ = self.holdall().args(["doctor", "--repair"]).output();
        let _ = self.holdall().args(["daemon", "stop"]).output();
    }
}

/// A drive that is served.
pub struct Served<'a> {
    computer: &'a Computer,
    child: Child,
    socket: PathBuf,
}

impl Served<'_> {
    /// Where.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Stops serving; returns when the drive is closed.
    pub fn end(mut self) -> Result<(), Failure> {
        self.interrupt();
        // The daemon notices that its client has gone, closes the drive, and releases its lock.
        let lock = std::fs::File::open(self.computer.dir.join("state/drives/d/lock"))?;
        Ok(rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?)
    }

    fn interrupt(&mut self) {
        let process = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(process, rustix::process::Signal::INT);
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.interrupt();
    }
}
