//! A drive on a real S3 server while the server cannot be reached; and how much of a hot set stays local during a scan of
//! more data than the cache holds.
//!
//! One drive behind each round trip. All of them lose their store at the same time: their links refuse connections.

mod absent;
mod drive;
mod scan;

use super::links::{rotated, row};
use super::record::Row;
use super::{Failure, Plan};
use absent::Reader;
use drive::{Drive, World};
use std::path::Path;
use std::time::{Duration, Instant};

/// The round trips at which everything is measured.
const ROUND_TRIPS_MS: [u64; 2] = [20, 50];
/// A turn is split into this many parts, half of them without the store.
const SLICES: usize = 8;
/// Once the store is back, pending data is sent within this time, or something is wrong.
const PUSHED_LIMIT: Duration = Duration::from_secs(600);

pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let world = World::new(dir)?;
    let mut figures = Vec::new();
    let mut drives = Vec::new();
    for rtt_ms in ROUND_TRIPS_MS {
        drives.push(Drive::new(plan, &world, rtt_ms)?);
        figures.push(Figures::default());
    }
    for round in 0..plan.link_rounds {
        for (at, _) in rotated(&ROUND_TRIPS_MS, round) {
            let (warm, scanned) = scan::hits(plan, &drives[at], round)?;
            figures[at].hits_before.push(warm);
            figures[at].hits.push(scanned);
        }
        for drive in &mut drives {
            drive.change(round)?;
        }
        go_offline(plan, &mut drives, &mut figures, round)?;
    }
    drives.into_iter().try_for_each(Drive::end)?;
    Ok(ROUND_TRIPS_MS.iter().zip(figures).flat_map(|(rtt_ms, figures)| figures.rows(*rtt_ms)).collect())
}

fn go_offline(
    plan: &Plan,
    drives: &mut [Drive],
    figures: &mut [Figures],
    round: usize,
) -> Result<(), Failure> {
    for (drive, figures) in drives.iter().zip(&mut *figures) {
        figures.found_online.push(drive.find()?);
    }
    let (mut online, mut offline) = (vec![0.0; drives.len()], vec![0.0; drives.len()]);
    let mut absent = Vec::new();
    for slice in 0..SLICES {
        // On and off by turns, so that disturbances on the disk hit both.
        let is_cut = slice % 2 == 1;
        drives.iter_mut().for_each(|drive| drive.set_cut(is_cut));
        if slice == SLICES - 1 {
            // These readers wait for a minute; everything else continues.
            absent.extend(drives.iter().map(|drive| Reader::start(drive.absent(round))));
        }
        for (at, drive) in rotated(drives, round + slice) {
            let sums = if is_cut { &mut offline } else { &mut online };
            sums[at] += drive.save(plan.turn_ms / 2)?;
        }
    }
    // The last slice has left the drives without their stores.
    for (at, drive) in drives.iter().enumerate() {
        let figures = &mut figures[at];
        let (whole, pinned) = drive.read_pinned()?;
        figures.whole.push(whole);
        figures.pinned.push(pinned);
        figures.found.push(drive.find()?);
        figures.saved.push(offline[at]);
        figures.saved_online.push(online[at]);
    }
    for (figures, reader) in figures.iter_mut().zip(absent) {
        figures.error.push(reader.seconds_until_error()?);
    }
    drives.iter_mut().for_each(|drive| drive.set_cut(false));
    let back = Instant::now();
    for (at, drive) in drives.iter().enumerate() {
        while drive.computer().status()?["unpushed_bytes"] != 0 {
            if back.elapsed() > PUSHED_LIMIT {
                return Err("what was written offline is not sent".into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        figures[at].pushed.push(back.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The figures of one drive, round by round.
#[derive(Default)]
struct Figures {
    /// Pinned files that read as they were written, and all pinned files.
    whole: Vec<f64>,
    pinned: Vec<f64>,
    /// Names found per second.
    found: Vec<f64>,
    found_online: Vec<f64>,
    saved: Vec<f64>,
    saved_online: Vec<f64>,
    /// Seconds until a reader of data that is not here gets an error.
    error: Vec<f64>,
    /// Seconds until everything is sent, once the store is back.
    pushed: Vec<f64>,
    /// Percentage of reads that were local.
    hits: Vec<f64>,
    hits_before: Vec<f64>,
}

impl Figures {
    fn rows(self, rtt_ms: u64) -> Vec<Row> {
        let key = |what: &str| format!("offline-{what}-{rtt_ms}");
        vec![
            row(key("pinned"), self.whole, self.pinned),
            row(key("find"), self.found, self.found_online),
            row(key("save"), self.saved, self.saved_online),
            row(key("error"), self.error, Vec::new()),
            row(key("pushed"), self.pushed, Vec::new()),
            row(format!("scan-hits-{rtt_ms}"), self.hits, self.hits_before),
        ]
    }
}
