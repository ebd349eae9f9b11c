//! s3fs: files as objects of S3.

use super::{Daemon, Failure, is_mounted, key_file, unmount};
use holdall_servers::s3::BUCKET;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its options: 8 parts of 10 MB at once, and its cached facts about files are trusted.
pub const OPTIONS: [&str; 4] =
    ["parallel_count=8", "multipart_size=10", "max_stat_cache_size=100000", "enable_noobj_cache"];

/// The bucket, mounted until this is dropped.
pub struct S3fs {
    mountpoint: PathBuf,
    daemon: Daemon,
}

impl S3fs {
    /// Mounts the bucket at the server at `address`, with its state in `dir`. It keeps no copies from one mount to the next.
    pub fn mount(address: SocketAddr, dir: &Path) -> Result<Self, Failure> {
        let (mountpoint, temporary) = (dir.join("mnt"), dir.join("tmp"));
        std::fs::create_dir_all(&mountpoint)?;
        std::fs::create_dir_all(&temporary)?;
        let mut command = Command::new("s3fs");
        command.arg(BUCKET).arg(&mountpoint).arg("-f");
        let own = [
            format!("url=http://{address}"),
            format!("passwd_file={}", key_file(dir)?.display()),
            format!("tmpdir={}", temporary.display()),
            "use_path_request_style".to_owned(),
            "endpoint=us-east-1".to_owned(),
        ];
        for option in own.iter().map(String::as_str).chain(OPTIONS) {
            command.args(["-o", option]);
        }
        let daemon = Daemon::start(&mut command, &dir.join("s3fs.log"), || is_mounted(&mountpoint))?;
        Ok(Self { mountpoint, daemon })
    }

    /// Where.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Ends it once all written data is in the store.
    pub fn end(mut self) -> Result<(), Failure> {
        unmount(&self.mountpoint);
        self.daemon.ended()
    }
}

impl Drop for S3fs {
    fn drop(&mut self) {
        if is_mounted(&self.mountpoint) {
            unmount(&self.mountpoint);
        }
    }
}
