//! Drives on a real S3 server behind a link with a round trip and a bandwidth of its own, beside s3backer and s3fs at the
//! other end of the same link.
//!
//! The link is ideal (`holdall_servers::delay`): no loss and no slow start. What is *cold* has never been read at the
//! computer that reads it: each takes the drive over from the one that filled it, with an empty cache.

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

/// Round trips at which all of it is measured.
pub const ROUND_TRIPS_MS: [u64; 4] = [0, 20, 50, 100];
/// Of these, the one at which the peers are looked at.
const PEERS_ROUND_TRIP_MS: u64 = 50;

/// Saves, first bytes and sequential reads.
pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let world = World::new(plan, dir)?;
    let mut rows = save::measure(plan, &world)?;
    rows.extend(first_byte::measure(plan, &world)?);
    rows.extend(cold::measure(plan, &world)?);
    Ok(rows)
}

/// A link of so many ms and, both ways, Mbit/s.
pub fn link(plan: &Plan, rtt_ms: u64, mbit: Option<f64>) -> Link {
    let rtt = Duration::from_millis(rtt_ms) * plan.rtt_percent / 100;
    Link { rtt, up_mbit: mbit, down_mbit: mbit }
}

/// In another order in each round, so that what the machine does falls on all, and nobody always comes after the same one.
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
