//! The S3 server and its content before anything is measured: a tree of small files, a film and a database on the drive;
//! the film and the database in the bucket that the peers mount.

use super::super::holdall::{Computer, Store};
use super::super::peers::s3fs::S3fs;
use super::super::{Failure, Plan};
use holdall_servers::s3::{self, S3Server};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

const DRIVE_BYTES: u64 = 8 << 30;
const PREFIX: &str = "pull";
/// Files of the tree have at least this many bytes ...
const FILE_BYTES_MIN: usize = 16 << 10;
/// ... and fewer than this.
const FILE_BYTES_MAX: usize = 32 << 10;
/// Least number of bytes of data per byte of metadata: with less, all of it might as well be pulled.
const LEAST_DATA: u64 = 20;
/// The size of an inode on the drive.
const INODE_BYTES: u64 = 256;

pub const TREE: &str = "tree";
pub const FILM: &str = "film.mp4";
pub const DATABASE: &str = "database.sqlite";

/// One server, and local copies of the film and the database.
pub struct World {
    server: S3Server,
    credentials: PathBuf,
    dir: PathBuf,
    /// Bytes of the drive's inodes and directories that are in use.
    pub metadata_bytes: u64,
}

impl World {
    pub fn new(plan: &Plan, dir: &Path) -> Result<Self, Failure> {
        let credentials = dir.join("credentials.json");
        std::fs::write(&credentials, s3::credentials())?;
        let server = S3Server::start_in(dir);
        let mut world = Self { server, credentials, dir: dir.to_owned(), metadata_bytes: 0 };
        std::fs::create_dir(world.local())?;
        make_film(&world.local().join(FILM), plan.film_seconds)?;
        make_database(&world.local().join(DATABASE), plan.database_rows)?;

        let computer = world.computer(&world.place("maker"))?;
        computer.create(world.store(world.address()), DRIVE_BYTES)?;
        computer.open()?;
        let root = computer.mountpoint();
        let directories_bytes = make_tree(&root.join(TREE), plan)?;
        world.copy_files(&root)?;
        let used = rustix::fs::statvfs(&root)?;
        world.metadata_bytes = (used.f_files - used.f_ffree) * INODE_BYTES + directories_bytes;
        let data_bytes = (used.f_blocks - used.f_bfree) * used.f_frsize - directories_bytes;
        eprintln!("  {} MiB of metadata, {} MiB of data", world.metadata_bytes >> 20, data_bytes >> 20);
        if data_bytes < LEAST_DATA * world.metadata_bytes {
            return Err(format!("less than {LEAST_DATA} times as much data as metadata").into());
        }
        computer.close()?;
        drop(computer);
        // It takes as much space as the drive, and is no longer needed.
        std::fs::remove_dir_all(world.place("maker"))?;
        let bucket = S3fs::mount(world.address(), &world.place("maker-s3fs"))?;
        world.copy_files(bucket.mountpoint())?;
        bucket.end()?;
        Ok(world)
    }

    /// Where the server listens, without any delay.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A directory for a computer or a peer.
    pub fn place(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where the film and the database are on the local disk.
    pub fn local(&self) -> PathBuf {
        self.place("local")
    }

    /// A computer that knows the drive but never had it, with a running daemon.
    pub fn stranger(&self, dir: &Path, address: SocketAddr) -> Result<Computer, Failure> {
        self.introduced(self.computer(dir)?, address)
    }

    /// The same, without pulling metadata first.
    pub fn stranger_without_priorities(&self, dir: &Path, address: SocketAddr) -> Result<Computer, Failure> {
        self.introduced(self.computer(dir)?.with("HOLDALL_NO_SURVEY", "1"), address)
    }

    fn introduced(&self, computer: Computer, address: SocketAddr) -> Result<Computer, Failure> {
        computer.add(self.store(address))?;
        computer.status()?;
        Ok(computer)
    }

    fn computer(&self, dir: &Path) -> Result<Computer, Failure> {
        Computer::new(dir)
    }

    fn store(&self, address: SocketAddr) -> Store {
        Store::s3(address, PREFIX, &self.credentials)
    }

    fn copy_files(&self, root: &Path) -> Result<(), Failure> {
        for name in [FILM, DATABASE] {
            std::fs::copy(self.local().join(name), root.join(name))?;
        }
        Ok(())
    }
}

/// Writes files of random bytes into directories of equal size; returns the bytes of the directories.
fn make_tree(root: &Path, plan: &Plan) -> Result<u64, Failure> {
    let mut noise = vec![0; FILE_BYTES_MAX * 2];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut noise)?;
    let span = FILE_BYTES_MAX - FILE_BYTES_MIN;
    let mut number = 0_usize;
    let mut directories_bytes = 0;
    std::fs::create_dir(root)?;
    for directory in 0..plan.tree_directories {
        let directory = root.join(format!("directory {directory:04}"));
        std::fs::create_dir(&directory)?;
        for file in 0..plan.tree_files / plan.tree_directories {
            number += 1;
            // Sizes, names, times and contents look random: similar ones would be stored as less than they are.
            let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            let name = format!("{:016x} {file:03}.jpg", mixed.wrapping_mul(0xd6e8_feb8_6659_fd93));
            let (len, from) =
                (FILE_BYTES_MIN + mixed as usize % span, (mixed >> 40) as usize % FILE_BYTES_MAX);
            noise[from..from + 8].copy_from_slice(&number.to_le_bytes());
            let mut file = std::fs::File::create(directory.join(name))?;
            file.write_all(&noise[from..from + len])?;
            file.set_modified(UNIX_EPOCH + Duration::from_nanos(mixed >> 4))?;
        }
        directories_bytes += directory.metadata()?.blocks() * 512;
    }
    Ok(directories_bytes + root.metadata()?.blocks() * 512)
}

/// A film with sound, of 13 Mbit/s, with its index at the end, as ffmpeg writes it by default.
fn make_film(path: &Path, seconds: u64) -> Result<(), Failure> {
    let picture = format!("testsrc=duration={seconds}:size=1280x720:rate=25,noise=alls=24:allf=t");
    let sound = format!("sine=duration={seconds}:frequency=440");
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", &sound]);
    command.args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "25"]);
    command.args(["-b:v", "13M", "-minrate", "13M", "-maxrate", "13M", "-bufsize", "13M", "-c:a", "aac"]);
    run(command.arg(path)).map(drop)
}

/// One table with random keys, an index of them, and 400 characters for each, of four bits each: people's text hardly has
/// less.
fn make_database(path: &Path, rows: u64) -> Result<(), Failure> {
    let sql = format!(
        "pragma page_size = 4096; pragma journal_mode = off; pragma synchronous = off;
         create table thing (id integer primary key, key blob, value blob);
         with recursive number(n) as (select 1 union all select n + 1 from number where n < {rows})
         insert into thing select n, randomblob(16), hex(randomblob(200)) from number;
         create index thing_by_key on thing (key);"
    );
    run(Command::new("sqlite3").arg(path).arg(sql)).map(drop)
}

/// Runs a program, and returns its output.
pub fn run(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}; it is in the package {name}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
