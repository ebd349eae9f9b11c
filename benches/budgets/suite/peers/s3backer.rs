//! s3backer: a disk in S3, shown as a file on a FUSE file system, with a loop device and ext4 on it.

use super::{Daemon, Failure, is_mounted, key_file, make_ext4, ran, unmount};
use holdall_servers::s3::BUCKET;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The size of its disk, whatever is on it.
pub const DISK_BYTES: u64 = 2 << 30;

/// Its options. Blocks of 256 KiB are one request each; 32 at once fill 1 Gbit/s at 60 ms. The cache, which is in memory,
/// holds everything that is read or written here.
pub const OPTIONS: [&str; 6] = [
    "--blockSize=256k",
    "--blockCacheSize=4096",
    "--blockCacheThreads=32",
    "--readAhead=32",
    "--readAheadTrigger=2",
    "--authVersion=aws4",
];
/// The read-ahead of the product's own device, in sectors.
const READ_AHEAD_SECTORS: &str = "2048";

/// The disk on a loop device, in front of the store until this is dropped.
pub struct S3backer {
    dir: PathBuf,
    daemon: Daemon,
    device: Option<PathBuf>,
    mounted: bool,
}

impl S3backer {
    /// The device alone, with its state in `dir` and its bucket on the server at `address`.
    pub fn attach(address: SocketAddr, dir: &Path) -> Result<Self, Failure> {
        let (disk, keys) = (dir.join("disk"), key_file_in(dir)?);
        let mut command = Command::new("s3backer");
        // Without a region: with one, s3backer would put the bucket into the host name.
        command.args(["-f", "--quiet", "--prefix=s3backer/"]);
        command.arg(format!("--baseURL=http://{address}/")).arg(format!("--size={DISK_BYTES}"));
        command.arg(format!("--accessFile={}", keys.display())).args(OPTIONS).arg(BUCKET).arg(&disk);
        let daemon = Daemon::start(&mut command, &dir.join("s3backer.log"), || is_mounted(&disk))?;
        let mut backer = Self { dir: dir.to_owned(), daemon, device: None, mounted: false };
        let losetup = &mut Command::new("losetup");
        let device = ran(losetup.args(["--show", "--find", "--direct-io=on"]).arg(disk.join("file")))?;
        let device = PathBuf::from(device.trim());
        backer.device = Some(device.clone());
        ran(Command::new("blockdev").args(["--setra", READ_AHEAD_SECTORS]).arg(device))?;
        Ok(backer)
    }

    /// The same with an ext4 on it, which is made if `new`.
    pub fn mount(address: SocketAddr, dir: &Path, new: bool) -> Result<Self, Failure> {
        let mut backer = Self::attach(address, dir)?;
        if new {
            make_ext4(backer.device())?;
        }
        std::fs::create_dir_all(backer.mountpoint())?;
        ran(Command::new("mount").arg(backer.device()).arg(backer.mountpoint()))?;
        backer.mounted = true;
        Ok(backer)
    }

    /// The loop device.
    pub fn device(&self) -> &Path {
        self.device.as_deref().expect("it is attached as soon as anybody has it")
    }

    /// Where the ext4 is mounted.
    pub fn mountpoint(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Ends it once all written data is in the store.
    pub fn end(mut self) -> Result<(), Failure> {
        self.take_down();
        self.daemon.ended()
    }

    fn take_down(&mut self) {
        if std::mem::take(&mut self.mounted) {
            unmount(&self.mountpoint());
        }
        if let Some(device) = self.device.take() {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
        let disk = self.dir.join("disk");
        if is_mounted(&disk) {
            unmount(&disk);
        }
    }
}

impl Drop for S3backer {
    fn drop(&mut self) {
        self.take_down();
    }
}

fn key_file_in(dir: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(dir.join("disk"))?;
    key_file(dir)
}
