//! The daemon is replaced under a mounted drive in every possible way: by exec, over a socket, after kill -9. A writer on the
//! drive sees no error, and everything that it fsynced is there.

use crate::support::child::Program;
use crate::support::{Bench, EXT4, PATIENCE, pattern, require};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use holdall_fuse::keeper;
use holdall_kernel::loopdev;

const RECORD: usize = 8192;
const RECORDS: u64 = 512;
const DRIVE_BYTES: u64 = 128 << 20;

/// Writes records in a loop, fsyncs each, and reads others back with direct I/O; any error is a panic.
struct Writer {
    thread: JoinHandle<Vec<u64>>,
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
}

impl Writer {
    fn start(path: &Path, seed: u64) -> Self {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&rounds));
        let thread = std::thread::spawn(move || {
            let mut written = vec![0; RECORDS as usize];
            for round in 1.. {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let slot = (round * 7 + seed) % RECORDS;
                file.write_all_at(&record(seed, slot, round), slot * RECORD as u64).unwrap();
                file.sync_data().unwrap();
                written[slot as usize] = round;
                check(&direct, seed, slot, round);
                if round % 16 == 0 {
                    check_many(&direct, seed, &written);
                }
                counted.store(round, Ordering::SeqCst);
            }
            written
        });
        Writer { thread, stop, rounds }
    }

    /// Returns once it has written `more` records since the call.
    fn progress(&self, more: u64) {
        let goal = self.rounds.load(Ordering::SeqCst) + more;
        while self.rounds.load(Ordering::SeqCst) < goal {
            assert!(!self.thread.is_finished(), "the writer met an error");
            std::thread::yield_now();
        }
    }

    fn stop(self) -> Vec<u64> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn record(seed: u64, slot: u64, round: u64) -> Vec<u8> {
    pattern(seed << 48 | slot << 32 | round, RECORD)
}

fn check(file: &File, seed: u64, slot: u64, round: u64) {
    let mut bytes = vec![0_u8; RECORD + 4096];
    let start = bytes.as_ptr().align_offset(4096);
    let bytes = &mut bytes[start..start + RECORD];
    file.read_exact_at(bytes, slot * RECORD as u64).unwrap();
    assert!(bytes == record(seed, slot, round), "record {slot} of round {round}");
}

/// A read that is large enough to be answered by reference.
fn check_many(file: &File, seed: u64, written: &[u64]) {
    const MANY: usize = 64;
    let mut bytes = vec![0_u8; MANY * RECORD + 4096];
    let start = bytes.as_ptr().align_offset(4096);
    let len = file.read_at(&mut bytes[start..start + MANY * RECORD], 0).unwrap();
    for ((slot, &round), bytes) in (0..).zip(written).zip(bytes[start..start + len].chunks_exact(RECORD)) {
        assert!(round == 0 || bytes == record(seed, slot, round), "record {slot} of round {round}");
    }
}

struct Drive {
    bench: Bench,
    file: PathBuf,
    socket: PathBuf,
    _keeper: Program,
}

impl Drive {
    fn new() -> Self {
        require(EXT4);
        let bench = Bench::new();
        let (file, socket) = (bench.path("backing"), bench.path("keeper"));
        File::create(&file).unwrap().set_len(DRIVE_BYTES).unwrap();
        let keeper =
            Program::start(&crate::support::example("serve_file"), &["keep", socket.to_str().unwrap()]);
        Drive { bench, file, socket, _keeper: keeper }
    }

    fn start(&self, how: &str) -> Program {
        let disk = self.bench.disk();
        let [file, disk, socket] = [&self.file, &disk, &self.socket].map(|path| path.to_str().unwrap());
        Program::start(&crate::support::example("serve_file"), &[how, file, disk, socket])
    }

    /// Replaces the daemon five times with `replace` while a writer writes to a drive, and verifies what was written.
    fn run(self, replace: impl Fn(&Self, Program, &Writer) -> Program) {
        let mut daemon = self.start("mount");
        let device = loopdev::attach_path(&self.bench.file(), false).unwrap();
        self.bench.make_ext4(&device);
        self.bench.mount_ext4(&device);
        let paths = [1, 2].map(|seed| (seed, self.bench.ext4().join(format!("records-{seed}"))));
        let writers = paths.clone().map(|(seed, path)| Writer::start(&path, seed));
        for _ in 0..5 {
            writers.iter().for_each(|writer| writer.progress(20));
            daemon = replace(&self, daemon, &writers[0]);
        }
        writers.iter().for_each(|writer| writer.progress(20));
        let written = writers.map(Writer::stop);

        // From the drive, not from the page cache.
        self.bench.unmount_ext4();
        crate::support::run("e2fsck", &["-fn", device.to_str().unwrap()]);
        self.bench.mount_ext4(&device);
        for ((seed, path), written) in paths.iter().zip(written) {
            let file = File::open(path).unwrap();
            for (slot, &round) in (0..).zip(&written).filter(|(_, round)| **round > 0) {
                check(&file, *seed, slot, round);
            }
        }
        self.bench.unmount_ext4();
        loopdev::detach(&device, PATIENCE).unwrap();
        assert_eq!(daemon.ask("unmount"), "unmounted");
        daemon.finished();
        keeper::forget(&self.socket, &self.bench.disk()).unwrap();
        assert!(keeper::take(&self.socket, &self.bench.disk()).unwrap().is_none());
        self.bench.assert_nothing_left();
    }
}

#[test]
fn over_exec() {
    Drive::new().run(|_, mut daemon, writer| {
        assert_eq!(daemon.ask("exec"), "ready");
        writer.progress(1);
        daemon
    });
}

#[test]
fn over_a_socket() {
    Drive::new().run(|drive, mut daemon, _| {
        assert_eq!(daemon.ask("give"), "given");
        daemon.finished();
        drive.start("resume")
    });
}

#[test]
fn killed_at_any_moment() {
    Drive::new().run(|drive, daemon, _| {
        drop(daemon);
        drive.start("resume")
    });
}
