//! The order of pulls, and its effect on programs on a drive that has never been here: a listing, a film, a database.
//!
//! All of it is on one drive, filled once. Each figure is taken on a computer that has no data of the drive (or by a peer
//! that has no data of its bucket), at the end of its own link (`holdall_servers::delay`), which counts the bytes that
//! pass.

mod database;
mod film;
mod listing;
mod side;
mod world;

use super::record::Row;
use super::{Failure, Plan};
use std::path::Path;
use world::World;

/// Round trips at which it is measured.
const ROUND_TRIPS_MS: [u64; 2] = [20, 50];

pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let world = World::new(plan, dir)?;
    let mut rows = film::measure(plan, &world)?;
    rows.extend(database::measure(plan, &world)?);
    rows.extend(listing::measure(plan, &world)?);
    Ok(rows)
}
