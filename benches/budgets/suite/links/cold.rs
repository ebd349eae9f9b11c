//! Whole files that were never read before, from beginning to end as `cat` reads them, compared with the capacity of the
//! link.

use super::super::record::Row;
use super::super::{Failure, Plan};
use super::source::Source;
use super::world::{World, sequential};
use super::{ROUND_TRIPS_MS, link, rotated, row};
use holdall_servers::delay::Delay;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// The size of one read of `cat`.
const PIECE_BYTES: usize = 128 << 10;
/// A reader that has not reached the end by then is measured by the bytes it has read.
const READ_LIMIT: Duration = Duration::from_secs(10);

pub fn measure(plan: &Plan, world: &World) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (&mbit, &bytes) in &plan.cold_bytes {
        for rtt_ms in ROUND_TRIPS_MS {
            rows.extend(behind(plan, world, rtt_ms, mbit, bytes)?);
        }
    }
    Ok(rows)
}

fn behind(plan: &Plan, world: &World, rtt_ms: u64, mbit: u64, bytes: u64) -> Result<Vec<Row>, Failure> {
    let name = format!("cold-{mbit}-{rtt_ms}");
    let link = link(plan, rtt_ms, Some(mbit as f64));
    let (source, delay) = (Source::start(link)?, Delay::start(world.address(), link));
    let computer = world.stranger(&name, delay.address())?;
    let (backer, bucket) = world.peers(&name, delay.address())?;
    let (ours, disk) = (computer.mountpoint(), backer.mountpoint());
    let sides = [None, Some(ours.as_path()), Some(&disk), Some(bucket.mountpoint())];
    let mut figures = [const { Vec::new() }; 4];
    for round in 0..plan.link_rounds {
        for (at, side) in rotated(&sides, round) {
            figures[at].push(match side {
                None => source.fetch(bytes)?,
                Some(root) => read(&sequential(root, mbit, round))?,
            });
        }
    }
    let [carried, ours, of_s3backer, of_s3fs] = figures;
    computer.close()?;
    backer.end()?;
    bucket.end()?;
    Ok(vec![
        row(name.clone(), ours.clone(), carried),
        row(format!("{name}-s3backer"), ours.clone(), of_s3backer),
        row(format!("{name}-s3fs"), ours, of_s3fs),
    ])
}

/// Reads a file; returns Mbit/s.
fn read(path: &Path) -> Result<f64, Failure> {
    let begun = Instant::now();
    let mut file = File::open(path)?;
    let (mut piece, mut bytes) = (vec![0; PIECE_BYTES], 0);
    while begun.elapsed() < READ_LIMIT {
        match file.read(&mut piece)? {
            0 => break,
            count => bytes += count,
        }
    }
    Ok(bytes as f64 * 8.0 / 1e6 / begun.elapsed().as_secs_f64())
}
