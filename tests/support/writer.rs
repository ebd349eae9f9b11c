//! A program that writes and syncs as fast as it can, and a check of the records that were confirmed to it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

const RECORD: usize = 8192;
const RECORDS: u64 = 256;

/// Writes records, each fsynced; any error is a panic.
pub struct Writer {
    thread: Option<JoinHandle<u64>>,
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
}

impl Drop for Writer {
    /// Even if a test fails: the drive cannot be closed while the file is open.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

impl Writer {
    pub fn start(path: &Path) -> Self {
        let file = File::create(path).unwrap();
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), rounds.clone());
        let thread = std::thread::spawn(move || {
            for round in 1.. {
                if stopped.load(Ordering::SeqCst) {
                    return round - 1;
                }
                file.write_all_at(&pattern(round), round % RECORDS * RECORD as u64).unwrap();
                file.sync_data().unwrap();
                counted.store(round, Ordering::SeqCst);
            }
            unreachable!("it counts for ever")
        });
        Writer { thread: Some(thread), stop, rounds }
    }

    pub fn written(&self) -> u64 {
        self.rounds.load(Ordering::SeqCst)
    }

    /// Returns once it has written `more` records since the call.
    pub fn progress(&self, more: u64) {
        let goal = self.written() + more;
        while self.written() < goal {
            let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            assert!(!ended, "the writer met an error");
            std::thread::yield_now();
        }
    }

    /// Stops it, and returns how many records it has written.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Verifies what a writer has written.
pub fn verify(path: &Path, written: u64) {
    let file = File::open(path).unwrap();
    for round in written.saturating_sub(RECORDS - 1).max(1)..=written {
        let mut bytes = vec![0; RECORD];
        file.read_exact_at(&mut bytes, round % RECORDS * RECORD as u64).unwrap();
        assert!(bytes == pattern(round), "record {round} of {written}");
    }
}

pub fn pattern(round: u64) -> Vec<u8> {
    (0..RECORD as u64).map(|at| (round.wrapping_mul(0x9e37_79b9) ^ (at >> 3)) as u8).collect()
}
