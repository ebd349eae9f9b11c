//! Drives on a real S3 server behind a link with its own round trip and bandwidth, compared with s3backer and s3fs at the
//! other end of the same link.
//!
//! The link is ideal (`holdall_servers::delay`): no loss and no slow start. *Cold* data has never been read at the computer
//! that reads it: each computer takes the drive over from the one that filled it, with an empty cache.

mod cold;
mod first_byte;
mod save;
mod source;
mod world;

use super::record::Row;
use super::{Failure, Plan};
use holdall_servers::delay::Link;
use std::path::Path;
use std::time::Duration;
use world::World;

/// The round trips at which everything is measured.
pub const ROUND_TRIPS_MS: [u64; 4] = [0, 20, 50, 100];
/// The round trip at which the peers are measured.
const PEERS_ROUND_TRIP_MS: u64 = 50;

/// Saves, first bytes and sequential reads.
pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let world = World::new(plan, dir)?;
    let mut rows = save::measure(plan, &world)?;
    rows.extend(first_byte::measure(plan, &world)?);
    rows.extend(cold::measure(plan, &world)?);
    Ok(rows)
}

/// A link with this round trip and, both ways, this bandwidth.
pub fn link(plan: &Plan, rtt_ms: u64, mbit: Option<f64>) -> Link {
    let rtt = Duration::from_millis(rtt_ms) * plan.rtt_percent / 100;
    Link { rtt, up_mbit: mbit, down_mbit: mbit }
}

/// Yields the things in another order in each round, so that disturbances on the machine hit all of them, and none always
/// follows the same other.
pub fn rotated<T>(things: &[T], round: usize) -> impl Iterator<Item = (usize, &T)> {
    let count = things.len();
    let step = if round.is_multiple_of(2) { 1 } else { count - 1 };
    (0..count).map(move |turn| (turn * step + round) % count).map(|at| (at, &things[at]))
}

pub fn row(key: String, ours: Vec<f64>, peer: Vec<f64>) -> Row {
    let middle = |figures: &[f64]| if figures.is_empty() { 0.0 } else { super::record::median(figures) };
    eprintln!("  {key}: {:.1} beside {:.1}", middle(&ours), middle(&peer));
    Row { key, ours, peer }
}
