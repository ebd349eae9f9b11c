//! `ls -lR` right after a drive was mounted on a computer that never had it, and the same without pulling metadata first.

use super::super::links::{link, row};
use super::super::record::Row;
use super::super::{Failure, Plan};
use super::world::{TREE, World, run};
use holdall_servers::delay::Delay;
use std::process::Command;
use std::time::Instant;

const RTT_MS: u64 = 50;
const MBIT: f64 = 100.0;
/// The time limit of a listing, in seconds, for the one without priorities.
const GIVEN_UP: &str = "900";

/// One listing.
struct Listed {
    /// From the mount to the end of the listing, in seconds.
    from_mount: f64,
    /// From the command that opens the drive to the end of the listing.
    from_open: f64,
    /// Bytes received by then, per byte of metadata.
    bytes_each: f64,
}

pub fn measure(plan: &Plan, world: &World) -> Result<Vec<Row>, Failure> {
    let mut ours = Vec::new();
    for round in 0..plan.link_rounds {
        ours.push(list(plan, world, &format!("list-{round}"), true)?);
    }
    // Only once: it takes minutes.
    let off = [list(plan, world, "list-off", false)?];
    let rows = |what: fn(&Listed) -> f64, key: &str| {
        let figures = |listed: &[Listed]| listed.iter().map(what).collect::<Vec<_>>();
        (
            row(key.to_owned(), figures(&ours), Vec::new()),
            row(format!("{key}-off"), figures(&ours), figures(&off)),
        )
    };
    let (seconds, seconds_off) = rows(|listed| listed.from_mount, "pull-list");
    let (bytes, bytes_off) = rows(|listed| listed.bytes_each, "pull-list-bytes");
    let (_, opened_off) = rows(|listed| listed.from_open, "pull-list-opened");
    Ok(vec![seconds, bytes, seconds_off, opened_off, bytes_off])
}

fn list(plan: &Plan, world: &World, name: &str, has_priorities: bool) -> Result<Listed, Failure> {
    let delay = Delay::start(world.address(), link(plan, RTT_MS, Some(MBIT)));
    let dir = world.place(name);
    let computer = match has_priorities {
        true => world.stranger(&dir, delay.address())?,
        false => world.stranger_without_priorities(&dir, delay.address())?,
    };
    let opened = Instant::now();
    computer.open()?;
    let mounted = Instant::now();
    let tree = computer.mountpoint().join(TREE);
    let said = run(Command::new("timeout").args([GIVEN_UP, "ls", "-lR"]).arg(&tree))?;
    let (from_mount, from_open) = (mounted.elapsed().as_secs_f64(), opened.elapsed().as_secs_f64());
    let received = delay.received_bytes();
    eprintln!("  {name}: {from_mount:.2} s, {from_open:.2} s with the opening, {received} bytes");
    let files = said.lines().filter(|line| line.starts_with("-rw")).count();
    if files != plan.tree_files {
        return Err(format!("{files} of {} files were listed", plan.tree_files).into());
    }
    computer.close()?;
    drop(computer);
    std::fs::remove_dir_all(&dir)?;
    Ok(Listed { from_mount, from_open, bytes_each: received as f64 / world.metadata_bytes as f64 })
}
