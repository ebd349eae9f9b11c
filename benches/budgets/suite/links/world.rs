//! The S3 server, and the files that all sides store there before anything is measured.

use super::super::holdall::{Computer, Store};
use super::super::peers::s3backer::S3backer;
use super::super::peers::s3fs::S3fs;
use super::super::peers::write_file;
use super::super::{Failure, Plan};
use holdall_servers::s3::{self, S3Server};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const DRIVE_BYTES: u64 = 4 << 30;
/// A file of which only the first bytes are read. It is not minimal, so that a frame has neighbours.
const OPENED_BYTES: u64 = 1 << 20;

/// One server; the product's drive, s3backer's disk and s3fs's bucket have the same files.
pub struct World {
    server: S3Server,
    credentials: PathBuf,
    dir: PathBuf,
}

impl World {
    /// Starts the server and stores the files, at the server itself.
    pub fn new(plan: &Plan, dir: &Path) -> Result<Self, Failure> {
        let credentials = dir.join("credentials.json");
        std::fs::write(&credentials, s3::credentials())?;
        let world = Self { server: S3Server::start_in(dir), credentials, dir: dir.to_owned() };
        let computer = Computer::new(&dir.join("maker"))?;
        computer.create(world.store(world.address(), "cold"), DRIVE_BYTES)?;
        computer.open()?;
        fill(&computer.mountpoint(), plan)?;
        computer.close()?;
        let (backer_dir, s3fs_dir) = (dir.join("maker-s3backer"), dir.join("maker-s3fs"));
        let backer = S3backer::mount(world.address(), &backer_dir, true)?;
        fill(&backer.mountpoint(), plan)?;
        backer.end()?;
        let bucket = S3fs::mount(world.address(), &s3fs_dir)?;
        fill(bucket.mountpoint(), plan)?;
        bucket.end()?;
        Ok(world)
    }

    /// Where the server listens, without any delay.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A drive's store, reached through `address`.
    pub fn store(&self, address: SocketAddr, prefix: &str) -> Store {
        Store::s3(address, prefix, &self.credentials)
    }

    /// A directory for a computer or a peer.
    pub fn place(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A computer that has never had the drive, with the drive open.
    pub fn stranger(&self, name: &str, address: SocketAddr) -> Result<Computer, Failure> {
        let computer = Computer::new(&self.place(name))?;
        computer.add(self.store(address, "cold"))?;
        computer.open()?;
        Ok(computer)
    }

    /// s3backer's disk and s3fs's bucket, mounted through `address`, with empty caches.
    pub fn peers(&self, name: &str, address: SocketAddr) -> Result<(S3backer, S3fs), Failure> {
        let backer = S3backer::mount(address, &self.place(&format!("{name}-s3backer")), false)?;
        Ok((backer, S3fs::mount(address, &self.place(&format!("{name}-s3fs")))?))
    }
}

/// The files.
fn fill(root: &Path, plan: &Plan) -> Result<(), Failure> {
    write_file(&saved(root), plan.saved_bytes)?;
    for number in 0..opened_files(plan) {
        write_file(&opened(root, number), OPENED_BYTES)?;
    }
    for round in 0..plan.link_rounds {
        for mbit in plan.cold_bytes.keys() {
            write_file(&sequential(root, *mbit, round), plan.cold_bytes[mbit])?;
        }
    }
    Ok(())
}

/// The file that is written to.
pub fn saved(root: &Path) -> PathBuf {
    root.join("saved")
}

/// One of the files that are opened for their first bytes.
pub fn opened(root: &Path, number: usize) -> PathBuf {
    root.join(format!("opened-{number}"))
}

/// How many files are opened: the first ones only warm up.
pub fn opened_files(plan: &Plan) -> usize {
    super::first_byte::WARMING + plan.link_rounds * super::first_byte::OPENED_IN_A_ROUND
}

/// The file that is read from beginning to end in a round.
pub fn sequential(root: &Path, mbit: u64, round: usize) -> PathBuf {
    root.join(format!("sequential-{mbit}-{round}"))
}
