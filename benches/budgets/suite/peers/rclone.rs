//! rclone mount: files as S3 objects, read in pieces that it caches.

use super::{Daemon, Failure, is_mounted, unmount};
use holdall_servers::s3::{ACCESS_KEY, BUCKET, SECRET_KEY};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its options: the full cache, and no request for the time of each single file.
pub const OPTIONS: [&str; 2] = ["--vfs-cache-mode=full", "--use-server-modtime"];

/// The bucket, mounted until this is dropped.
pub struct Rclone {
    mountpoint: PathBuf,
    daemon: Daemon,
}

impl Rclone {
    /// Mounts the bucket at the server at `address`, with its state in `dir`.
    pub fn mount(address: SocketAddr, dir: &Path) -> Result<Self, Failure> {
        let mountpoint = dir.join("mnt");
        std::fs::create_dir_all(&mountpoint)?;
        let config = dir.join("rclone.conf");
        std::fs::write(&config, "")?;
        let mut command = Command::new("rclone");
        command.arg("mount").arg(format!(":s3:{BUCKET}")).arg(&mountpoint).args(OPTIONS);
        command.arg("--config").arg(&config).arg("--cache-dir").arg(dir.join("cache"));
        command.args(["--s3-provider=Other", "--s3-region=us-east-1", "--s3-force-path-style=true"]);
        command.arg(format!("--s3-endpoint=http://{address}"));
        command.env("RCLONE_S3_ACCESS_KEY_ID", ACCESS_KEY).env("RCLONE_S3_SECRET_ACCESS_KEY", SECRET_KEY);
        // rclone accepts no CA bundle here, and needs none.
        command.env_remove("AWS_CA_BUNDLE");
        let daemon = Daemon::start(&mut command, &dir.join("rclone.log"), || is_mounted(&mountpoint))?;
        Ok(Self { mountpoint, daemon })
    }

    /// Where.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Unmounts it and waits for its end.
    pub fn end(mut self) -> Result<(), Failure> {
        unmount(&self.mountpoint);
        self.daemon.ended()
    }
}

impl Drop for Rclone {
    fn drop(&mut self) {
        if is_mounted(&self.mountpoint) {
            unmount(&self.mountpoint);
        }
    }
}
