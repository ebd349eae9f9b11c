//! The product and its peers, each at the end of its own link, with empty caches.

use super::super::Failure;
use super::super::holdall::Computer;
use super::super::peers::rclone::Rclone;
use super::super::peers::s3fs::S3fs;
use super::world::World;
use holdall_servers::delay::{Delay, Link};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long it may take until all metadata is local.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// If nothing came for this long, nothing is under way.
const QUIET: Duration = Duration::from_millis(200);

/// The side that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Holdall,
    Rclone,
    S3fs,
}

impl Side {
    pub const ALL: [Side; 3] = [Side::Holdall, Side::Rclone, Side::S3fs];
    pub const PEERS: [Side; 2] = [Side::Rclone, Side::S3fs];

    /// Its name in the keys of rows.
    pub fn name(self) -> &'static str {
        match self {
            Side::Holdall => "holdall",
            Side::Rclone => "rclone",
            Side::S3fs => "s3fs",
        }
    }
}

enum Mount {
    Holdall(Computer),
    Rclone(Rclone),
    S3fs(S3fs),
}

/// One side, mounted.
pub struct Cold {
    // Dropped before the link that it uses.
    mount: Mount,
    delay: Delay,
    dir: PathBuf,
}

impl Cold {
    /// Mounts it in a directory of its own. When this returns, the metadata of a drive is here.
    pub fn mount(world: &World, side: Side, name: &str, link: Link) -> Result<Self, Failure> {
        let delay = Delay::start(world.address(), link);
        let dir = world.place(&format!("{name}-{}", side.name()));
        let mount = match side {
            Side::Holdall => {
                let computer = world.stranger(&dir, delay.address())?;
                computer.open()?;
                Mount::Holdall(computer)
            }
            Side::Rclone => Mount::Rclone(Rclone::mount(delay.address(), &dir)?),
            Side::S3fs => Mount::S3fs(S3fs::mount(delay.address(), &dir)?),
        };
        let cold = Self { mount, delay, dir };
        cold.settle()?;
        Ok(cold)
    }

    /// Where.
    pub fn root(&self) -> PathBuf {
        match &self.mount {
            Mount::Holdall(computer) => computer.mountpoint(),
            Mount::Rclone(bucket) => bucket.mountpoint().to_owned(),
            Mount::S3fs(bucket) => bucket.mountpoint().to_owned(),
        }
    }

    /// Bytes received over the link.
    pub fn received_bytes(&self) -> u64 {
        self.delay.received_bytes()
    }

    /// Bytes of objects received, and the number of requests for them; `None` for a peer, which does not report them.
    pub fn fetched(&self) -> Result<Option<(u64, u64)>, Failure> {
        let Mount::Holdall(computer) = &self.mount else { return Ok(None) };
        let status = computer.status()?;
        Ok(status["received_bytes"].as_u64().zip(status["requests"]["get"].as_u64()))
    }

    /// Waits until all metadata is here and nothing is under way.
    pub fn settle(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_LIMIT;
        let (mut last, mut since) = (self.received_bytes(), Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let received = self.received_bytes();
            if received != last {
                (last, since) = (received, Instant::now());
            }
            if since.elapsed() < QUIET {
                continue;
            }
            let state = match &self.mount {
                Mount::Holdall(computer) => computer.status()?["state"].clone(),
                Mount::Rclone(_) | Mount::S3fs(_) => "Ready".into(),
            };
            if state == "Ready" {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("it does not come to rest: {state}").into());
            }
        }
    }

    /// Unmounts it, and deletes its directory.
    pub fn end(self) -> Result<(), Failure> {
        match self.mount {
            Mount::Holdall(computer) => computer.close()?,
            Mount::Rclone(bucket) => bucket.end()?,
            Mount::S3fs(bucket) => bucket.end()?,
        }
        Ok(std::fs::remove_dir_all(&self.dir)?)
    }
}

/// The figure, or `None` for a peer that failed: it has no figures in this run, which is printed.
pub fn unless_failed<T>(side: Side, figure: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match figure {
        Ok(figure) => Ok(Some(figure)),
        Err(failure) if side == Side::Holdall => Err(failure),
        Err(failure) => {
            eprintln!("  {} does not take part: {failure}", side.name());
            Ok(None)
        }
    }
}
