//! The S3 server and its drives, each behind its own link, which can be cut.

use super::super::attached::SAVE;
use super::super::fio::{self, Figure, Target};
use super::super::holdall::{Computer, Store};
use super::super::links::link;
use super::super::peers::{warm, write_file};
use super::super::{Failure, Plan};
use holdall_servers::delay::{Delay, Link};
use holdall_servers::s3::{self, S3Server};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const DRIVE_BYTES: u64 = 4 << 30;
/// Metadata and pins come first; the rest of it is for all other data.
const CACHE_BYTES: u64 = 256 << 20;
/// Files of the folder that is always kept ...
const PINNED_FILES: u64 = 32;
/// ... and bytes of each.
const PINNED_BYTES: u64 = 1 << 20;
/// A file that is not here when it is read.
const ABSENT_BYTES: u64 = 8 << 20;
/// Names in each directory that is searched.
const NAMES_EACH: usize = 100;
/// The scan reads files of this size.
const SCANNED_EACH: u64 = 64 << 20;
/// How long pinned files may take to come.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// The server.
pub struct World {
    server: S3Server,
    credentials: PathBuf,
    dir: PathBuf,
}

impl World {
    pub fn new(dir: &Path) -> Result<Self, Failure> {
        let credentials = dir.join("credentials.json");
        std::fs::write(&credentials, s3::credentials())?;
        Ok(Self { server: S3Server::start_in(dir), credentials, dir: dir.to_owned() })
    }

    fn store(&self, address: SocketAddr, prefix: &str) -> Store {
        Store::s3(address, prefix, &self.credentials)
    }
}

/// A drive that is open on a computer behind a link, and known to another computer at the server itself.
pub struct Drive {
    // Dropped before the link that it uses.
    computer: Computer,
    other: Computer,
    link: Link,
    /// `None` while it is cut.
    delay: Option<Delay>,
    address: SocketAddr,
    upstream: SocketAddr,
    /// The content of the pinned files, by name.
    pinned: BTreeMap<String, Vec<u8>>,
    scanned: u64,
    saved_bytes: u64,
}

impl Drive {
    /// Makes and fills a drive at the server, then opens it behind the link on a computer that has no data of it.
    pub fn new(plan: &Plan, world: &World, rtt_ms: u64) -> Result<Self, Failure> {
        let name = format!("offline-{rtt_ms}");
        let upstream = world.server.address();
        let other = Computer::new(&world.dir.join(format!("{name}-other")))?;
        other.create(world.store(upstream, &name), DRIVE_BYTES)?;
        other.open()?;
        let scanned = plan.scanned_bytes.div_ceil(SCANNED_EACH);
        let pinned = fill(&other.mountpoint(), plan, scanned)?;
        other.close()?;

        let link = link(plan, rtt_ms, None);
        let delay = Delay::start(upstream, link);
        let address = delay.address();
        let computer = Computer::new(&world.dir.join(&name))?;
        computer.add(world.store(address, &name))?;
        let (delay, saved_bytes) = (Some(delay), plan.saved_bytes);
        let drive = Self { computer, other, link, delay, address, upstream, pinned, scanned, saved_bytes };
        drive.computer.limit_cache(CACHE_BYTES)?;
        drive.open()?;
        drive.computer.pin(&drive.folder())?;
        Ok(drive)
    }

    /// The computer behind the link.
    pub fn computer(&self) -> &Computer {
        &self.computer
    }

    /// The round trip.
    pub fn rtt(&self, plan: &Plan) -> Duration {
        self.link.rtt.max(link(plan, 1, None).rtt)
    }

    /// The hot set.
    pub fn hot(&self) -> PathBuf {
        hot(&self.computer.mountpoint())
    }

    /// The files that a scan reads.
    pub fn scan(&self) -> Vec<PathBuf> {
        (0..self.scanned).map(|number| scanned(&self.computer.mountpoint(), number)).collect()
    }

    /// A file that is not here and was never read before.
    pub fn absent(&self, round: usize) -> PathBuf {
        absent(&self.computer.mountpoint(), round)
    }

    fn folder(&self) -> PathBuf {
        self.computer.mountpoint().join("pinned")
    }

    fn open(&self) -> Result<(), Failure> {
        self.computer.open()?;
        Ok(())
    }

    /// Cuts or restores the link.
    pub fn set_cut(&mut self, is_cut: bool) {
        if is_cut {
            self.delay = None;
        } else if self.delay.is_none() {
            self.delay = Some(Delay::start_at(self.address, self.upstream, self.link));
        }
    }

    /// Evicts everything that is not pinned and adds a file to the pinned folder; another computer rewrites one; then this
    /// computer opens the drive again, with everything pinned here and nothing else.
    pub fn change(&mut self, round: usize) -> Result<(), Failure> {
        self.computer.evict()?;
        let added = format!("added {round}");
        write_file(&self.folder().join(&added), PINNED_BYTES)?;
        self.pinned.insert(added.clone(), std::fs::read(self.folder().join(added))?);
        self.computer.close()?;

        self.other.open()?;
        let rewritten = pinned_name(round as u64 % PINNED_FILES);
        let path = self.other.mountpoint().join("pinned").join(&rewritten);
        write_file(&path, PINNED_BYTES)?;
        self.pinned.insert(rewritten, std::fs::read(&path)?);
        self.other.close()?;

        self.open()?;
        let opened = Instant::now();
        while self.computer.pinned_files()? != Some(self.pinned.len() as u64)
            || self.computer.status()?["state"] != "Ready"
        {
            if opened.elapsed() > READY_LIMIT {
                return Err(format!("what is pinned does not come: {}", self.computer.status()?).into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.computer.evict()?;
        // This file is written to below: missing blocks would be pulled in the middle of that.
        warm(&saved(&self.computer.mountpoint()))
    }

    /// Reads all pinned files from the drive. Returns how many read as they were written, and how many there are.
    pub fn read_pinned(&self) -> Result<(f64, f64), Failure> {
        let mut whole = 0;
        for (name, bytes) in &self.pinned {
            let file = std::fs::File::open(self.folder().join(name))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            let mut read = Vec::new();
            let is_read = std::io::Read::read_to_end(&mut &file, &mut read).is_ok();
            whole += u32::from(is_read && read == *bytes);
        }
        Ok((f64::from(whole), self.pinned.len() as f64))
    }

    /// Random 4 KiB writes with an fsync each; returns writes per second.
    pub fn save(&self, ms: u64) -> Result<f64, Failure> {
        let turn = fio::for_ms(ms);
        let arguments = [SAVE, &[&turn[0], &turn[1]]].concat();
        let path = saved(&self.computer.mountpoint());
        fio::run(&Target::File(&path), self.saved_bytes, &arguments, Figure::Iops)
    }

    /// Names that `find` lists per second, with nothing in the kernel's caches.
    pub fn find(&self) -> Result<f64, Failure> {
        let directory = std::fs::File::open(self.computer.mountpoint())?;
        rustix::fs::syncfs(&directory)?;
        std::fs::write("/proc/sys/vm/drop_caches", "3")?;
        let begun = Instant::now();
        let output = Command::new("find").arg(self.computer.mountpoint()).args(["-ls"]).output()?;
        let seconds = begun.elapsed().as_secs_f64();
        match output.status.success() {
            true => Ok(output.stdout.iter().filter(|byte| **byte == b'\n').count() as f64 / seconds),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    }

    /// Closes it.
    pub fn end(self) -> Result<(), Failure> {
        self.computer.close()
    }
}

/// Writes files of random bytes; returns the content of the pinned ones.
fn fill(root: &Path, plan: &Plan, scanned_files: u64) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let mut pinned = BTreeMap::new();
    std::fs::create_dir(root.join("pinned"))?;
    for number in 0..PINNED_FILES {
        let path = root.join("pinned").join(pinned_name(number));
        write_file(&path, PINNED_BYTES)?;
        pinned.insert(pinned_name(number), std::fs::read(&path)?);
    }
    for number in 0..plan.tree_files {
        let directory = root.join("names").join((number / NAMES_EACH).to_string());
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join(number.to_string()), number.to_le_bytes())?;
    }
    for round in 0..plan.link_rounds {
        write_file(&absent(root, round), ABSENT_BYTES)?;
    }
    write_file(&saved(root), plan.saved_bytes)?;
    write_file(&hot(root), plan.hot_bytes)?;
    for number in 0..scanned_files {
        write_file(&scanned(root, number), SCANNED_EACH.min(plan.scanned_bytes))?;
    }
    Ok(pinned)
}

fn pinned_name(number: u64) -> String {
    format!("file {number}")
}

fn absent(root: &Path, round: usize) -> PathBuf {
    root.join(format!("absent-{round}"))
}

fn saved(root: &Path) -> PathBuf {
    root.join("saved")
}

fn hot(root: &Path) -> PathBuf {
    root.join("hot")
}

fn scanned(root: &Path, number: u64) -> PathBuf {
    root.join(format!("scanned-{number}"))
}
