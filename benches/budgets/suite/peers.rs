//! The peers of the product.

pub mod rclone;
pub mod s3backer;
pub mod s3fs;

use super::Failure;
use holdall_servers::s3::{ACCESS_KEY, SECRET_KEY};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a file system may take to write its data and end.
const DAEMON_LIMIT: Duration = Duration::from_secs(60);

/// How long it may take to mount.
const START_LIMIT: Duration = Duration::from_secs(20);

const START_TRIES: u32 = 3;

/// nbdkit's file plugin, serving one file at a Unix socket.
pub struct Nbdkit {
    child: Child,
    socket: PathBuf,
}

impl Nbdkit {
    /// Serves `file`.
    pub fn serve(file: &Path) -> Result<Self, Failure> {
        let socket = file.with_extension("sock");
        let child = Command::new("nbdkit")
            .args(["--foreground", "--unix"])
            .arg(&socket)
            .args(["file", &format!("file={}", file.display())])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("nbdkit: {error}; it is in the package nbdkit"))?;
        let nbdkit = Self { child, socket };
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::os::unix::net::UnixStream::connect(&nbdkit.socket).is_err() {
            if Instant::now() > deadline {
                return Err("nbdkit does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(nbdkit)
    }

    /// Where.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// ext4 on a loop device, as `losetup` and `mkfs.ext4` make them by default, over a file.
pub struct PlainLoop {
    device: PathBuf,
    mountpoint: PathBuf,
    mounted: bool,
}

impl PlainLoop {
    /// Makes `file`, of `bytes`, and mounts an ext4 in it.
    pub fn mount(file: &Path, bytes: u64) -> Result<Self, Failure> {
        std::fs::File::create(file)?.set_len(bytes)?;
        let device = ran(Command::new("losetup").args(["--show", "--find"]).arg(file))?;
        let mountpoint = file.with_extension("mnt");
        let mut plain = Self { device: device.trim().into(), mountpoint, mounted: false };
        std::fs::create_dir(&plain.mountpoint)?;
        make_ext4(&plain.device)?;
        ran(Command::new("mount").arg(&plain.device).arg(&plain.mountpoint))?;
        plain.mounted = true;
        Ok(plain)
    }

    /// Where.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }
}

impl Drop for PlainLoop {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(&self.mountpoint).status();
        }
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn make_ext4(device: &Path) -> Result<(), Failure> {
    // Initialise now, not later in the background during a measurement.
    let now = "lazy_itable_init=0,lazy_journal_init=0";
    ran(Command::new("mkfs.ext4").args(["-q", "-b", "4096", "-E", now]).arg(device)).map(drop)
}

/// Unmounts the file system at `place`, at the latest when nothing uses it any longer.
fn unmount(place: &Path) {
    let umount =
        |options: &[&str]| Command::new("umount").args(options).arg(place).stderr(Stdio::null()).status();
    if !umount(&[]).is_ok_and(|status| status.success()) {
        let _ = umount(&["--lazy"]);
    }
}

/// A file system's process, which ends by itself once it is unmounted.
struct Daemon(Child);

impl Daemon {
    /// Starts it, and waits until `ready`. s3fs ends or hangs at its start now and then, so it gets more than one try.
    fn start(command: &mut Command, log: &Path, ready: impl Fn() -> bool) -> Result<Self, Failure> {
        for _ in 1..START_TRIES {
            match Self::try_start(command, log, &ready) {
                Err(failure) => eprintln!("once more: {failure}"),
                started => return started,
            }
        }
        Self::try_start(command, log, &ready)
    }

    fn try_start(command: &mut Command, log: &Path, ready: impl Fn() -> bool) -> Result<Self, Failure> {
        let (said, errors) = (std::fs::File::create(log)?, std::fs::File::options().append(true).open(log)?);
        let spawned = command.stdin(Stdio::null()).stdout(said).stderr(errors).spawn();
        let name = command.get_program().to_string_lossy().into_owned();
        let spawned = spawned.map_err(|error| format!("{name}: {error}; it is in the package {name}"))?;
        let mut daemon = Self(spawned);
        let deadline = Instant::now() + START_LIMIT;
        while !ready() {
            let ended = daemon.0.try_wait()?.map(|status| status.to_string());
            if ended.is_some() || Instant::now() > deadline {
                let how = ended.unwrap_or_else(|| format!("nothing for {START_LIMIT:?}"));
                let said = std::fs::read_to_string(log)?;
                return Err(format!("{name} does not mount: {how}: {said}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    /// Waits until it has ended, having written what it had to write.
    fn ended(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + DAEMON_LIMIT;
        while self.0.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err("it does not end".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether something is mounted at `place`.
fn is_mounted(place: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == place))
}

/// The S3 server's credentials as both s3backer and s3fs read them, in a file that only its owner may read.
fn key_file(dir: &Path) -> Result<PathBuf, Failure> {
    let path = dir.join("keys");
    std::fs::write(&path, format!("{ACCESS_KEY}:{SECRET_KEY}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path)
}

fn ran(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// Writes a file of random bytes, durably.
pub fn write_file(path: &Path, bytes: u64) -> Result<(), Failure> {
    let mut file = std::fs::File::create(path)?;
    std::io::copy(&mut std::fs::File::open("/dev/urandom")?.take(bytes), &mut file)?;
    Ok(file.sync_all()?)
}

/// Brings a file into the page cache.
pub fn warm(path: &Path) -> Result<(), Failure> {
    std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink())?;
    Ok(())
}
