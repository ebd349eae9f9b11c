//! The measurements.
//!
//! Each group starts the product and a peer side by side on the same disk and lets them take turns, round after round, so
//! that other load on the machine hits both. The report compares medians.

#![allow(dead_code, reason = "the test of the report uses a part")]

pub mod appendix;
pub mod attached;
pub mod facts;
pub mod figures;
pub mod fio;
pub mod holdall;
pub mod links;
pub mod nbd;
pub mod offline;
pub mod opening;
pub mod peers;
pub mod pull;
pub mod record;
pub mod remote;
pub mod report;
pub mod requests;
pub mod rows;
pub mod summary;

use record::{Row, Run};
use std::collections::BTreeMap;
use std::path::Path;

/// Any error that ends a run.
pub type Failure = Box<dyn std::error::Error>;

/// The sizes and counts of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Turns of each side.
    pub rounds: usize,
    /// How long one turn of a timed job lasts.
    pub turn_ms: u64,
    /// Bytes that are read warm.
    pub warm_bytes: u64,
    /// Random 4 KiB writes that are uploaded, in bytes ...
    pub dirtied_bytes: u64,
    /// ... all over a drive of this size.
    pub dirtied_drive_bytes: u64,
    /// Random 4 KiB writes over the drive of 1 TiB, in bytes, so that its map has something in every page.
    pub terabyte_dirtied_bytes: u64,
    /// Turns of each side if both are behind a slow link ...
    pub link_rounds: usize,
    /// ... whose round trip is this percentage of its nominal one.
    pub rtt_percent: u32,
    /// Bytes of the file that is written to there.
    pub saved_bytes: u64,
    /// Bytes that are read there in sequence, by Mbit/s.
    pub cold_bytes: BTreeMap<u64, u64>,
    /// Bytes that s3backer and s3fs write at random.
    pub peers_dirtied_bytes: u64,
    /// Small files that are listed ...
    pub tree_files: usize,
    /// ... in this many directories.
    pub tree_directories: usize,
    /// The length of the film that is played.
    pub film_seconds: u64,
    /// Rows of the database that is queried; 1.1 million are 500 MB.
    pub database_rows: u64,
    /// Bytes that are read repeatedly ...
    pub hot_bytes: u64,
    /// ... while this many bytes are read once.
    pub scanned_bytes: u64,
}

impl Plan {
    /// The plan of the published figures.
    pub fn full() -> Self {
        Plan {
            rounds: 7,
            turn_ms: 2000,
            warm_bytes: 1 << 30,
            dirtied_bytes: 1 << 30,
            dirtied_drive_bytes: 100 << 30,
            terabyte_dirtied_bytes: 256 << 20,
            link_rounds: 3,
            rtt_percent: 100,
            saved_bytes: 64 << 20,
            cold_bytes: [(100, 32 << 20), (1000, 512 << 20)].into(),
            peers_dirtied_bytes: 8 << 20,
            tree_files: 50_000,
            tree_directories: 2000,
            film_seconds: 60,
            database_rows: 1_100_000,
            hot_bytes: 48 << 20,
            scanned_bytes: 1 << 30,
        }
    }

    /// A plan to see that everything works: its figures mean nothing.
    pub fn quick() -> Self {
        Plan {
            rounds: 1,
            turn_ms: 100,
            warm_bytes: 16 << 20,
            dirtied_bytes: 4 << 20,
            dirtied_drive_bytes: 1 << 30,
            terabyte_dirtied_bytes: 1 << 20,
            link_rounds: 1,
            rtt_percent: 10,
            saved_bytes: 4 << 20,
            cold_bytes: [(100, 1 << 20), (1000, 1 << 20)].into(),
            peers_dirtied_bytes: 256 << 10,
            tree_files: 40,
            tree_directories: 4,
            film_seconds: 2,
            database_rows: 2000,
            hot_bytes: 1 << 20,
            scanned_bytes: 2 << 20,
        }
    }
}

/// A group of rows that share a set-up.
type Group = fn(&Plan, &Path) -> Result<Vec<Row>, Failure>;

const GROUPS: [(&str, Group); 8] = [
    ("nbd", nbd::measure),
    ("attached", attached::measure),
    ("remote", remote::measure),
    ("opening", opening::measure),
    ("requests", requests::measure),
    ("links", links::measure),
    ("pull", pull::measure),
    ("offline", offline::measure),
];

/// Measures every group, or only the named ones, in a fresh directory inside `dir`.
pub fn measure(plan: &Plan, dir: &Path, only: Option<&[String]>) -> Result<Run, Failure> {
    let names = GROUPS.map(|(name, _)| name);
    if let Some(unknown) = only.into_iter().flatten().find(|wanted| !names.contains(&wanted.as_str())) {
        return Err(format!("there is no group {unknown}; there are {}", names.join(", ")).into());
    }
    let scratch = tempfile::Builder::new().prefix("holdall-bench.").tempdir_in(dir)?;
    // The path as the kernel lists it among its mounts.
    let scratch_path = scratch.path().canonicalize()?;
    let mut run = facts::run(plan, &scratch_path)?;
    for (name, group) in GROUPS {
        if only.is_some_and(|only| !only.iter().any(|wanted| wanted == name)) {
            continue;
        }
        eprintln!("{name} ...");
        let at = scratch_path.join(name);
        std::fs::create_dir(&at)?;
        run.rows.extend(group(plan, &at)?);
        std::fs::remove_dir_all(&at)?;
    }
    Ok(run)
}

/// One side of a comparison: takes its turn, and returns its figure.
pub type Turn<'a> = &'a dyn Fn() -> Result<f64, Failure>;

/// Lets two sides take turns; the side that begins alternates.
pub fn compare(key: &str, plan: &Plan, ours: Turn<'_>, peer: Turn<'_>) -> Result<Row, Failure> {
    let mut row = Row { key: key.to_owned(), ours: Vec::new(), peer: Vec::new() };
    for round in 0..plan.rounds {
        if round % 2 == 0 {
            row.ours.push(ours()?);
            row.peer.push(peer()?);
        } else {
            row.peer.push(peer()?);
            row.ours.push(ours()?);
        }
    }
    eprintln!("  {key}: {:.0} beside {:.0}", record::median(&row.ours), record::median(&row.peer));
    Ok(row)
}
