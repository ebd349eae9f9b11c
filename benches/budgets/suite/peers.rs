//! What the product is compared with.

use super::Failure;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
        // Not in the background later, in the middle of a measurement.
        let now = "lazy_itable_init=0,lazy_journal_init=0";
        ran(Command::new("mkfs.ext4").args(["-q", "-b", "4096", "-E", now]).arg(&plain.device))?;
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
