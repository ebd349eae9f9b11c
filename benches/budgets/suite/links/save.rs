//! Random 4 KiB writes with an fsync each: an acknowledged write is in the local journal, so the distance to the store must
//! not show. One drive behind each round trip, uploading in the background as drives do.

use super::super::attached::SAVE;
use super::super::fio::{self, Figure, Target};
use super::super::holdall::Computer;
use super::super::record::Row;
use super::super::{Failure, Plan, compare, peers};
use super::world::{World, saved};
use super::{PEERS_ROUND_TRIP_MS, ROUND_TRIPS_MS, link, rotated, row};
use holdall_servers::delay::Delay;
use std::path::Path;

const DRIVE_BYTES: u64 = 1 << 30;
/// A turn is split into this many parts, and a figure is their mean: the compared figures should not differ, on a disk that
/// is twice as fast in one second as in the next.
const SLICES: usize = 4;

pub fn measure(plan: &Plan, world: &World) -> Result<Vec<Row>, Failure> {
    let delay = |rtt_ms: &u64| Delay::start(world.address(), link(plan, *rtt_ms, None));
    // The links outlive the computers, which close their drives when they are dropped.
    let delays: Vec<_> = ROUND_TRIPS_MS.iter().map(delay).collect();
    let mut computers = Vec::new();
    for (rtt_ms, delay) in ROUND_TRIPS_MS.iter().zip(&delays) {
        let name = format!("save-{rtt_ms}");
        let computer = Computer::new(&world.place(&name))?;
        computer.create(world.store(delay.address(), &name), DRIVE_BYTES)?;
        computer.open()?;
        peers::write_file(&saved(&computer.mountpoint()), plan.saved_bytes)?;
        computers.push(computer);
    }
    computers.iter().try_for_each(Computer::sync)?;

    let turn = fio::for_ms(plan.turn_ms / SLICES as u64);
    let save = |root: &Path| {
        let arguments = [SAVE, &[&turn[0], &turn[1]]].concat();
        fio::run(&Target::File(&saved(root)), plan.saved_bytes, &arguments, Figure::Iops)
    };
    let mut figures = [const { Vec::new() }; ROUND_TRIPS_MS.len()];
    for round in 0..plan.rounds {
        let mut sums = [0.0; ROUND_TRIPS_MS.len()];
        for slice in 0..SLICES {
            for (at, computer) in rotated(&computers, round * SLICES + slice) {
                sums[at] += save(&computer.mountpoint())?;
            }
        }
        figures.iter_mut().zip(sums).for_each(|(figures, sum)| figures.push(sum / SLICES as f64));
    }
    let beside =
        |at: usize| row(format!("save-rtt-{}", ROUND_TRIPS_MS[at]), figures[at].clone(), figures[0].clone());
    let mut rows: Vec<_> = (1..ROUND_TRIPS_MS.len()).map(beside).collect();

    let at = ROUND_TRIPS_MS.iter().position(|rtt_ms| *rtt_ms == PEERS_ROUND_TRIP_MS);
    let at = at.expect("it is one of them");
    let plan = &Plan { rounds: plan.link_rounds, ..plan.clone() };
    let (backer, bucket) = world.peers("save", delays[at].address())?;
    let ours = || save(&computers[at].mountpoint());
    rows.push(compare("save-s3backer", plan, &ours, &|| save(&backer.mountpoint()))?);
    rows.push(compare("save-s3fs", plan, &ours, &|| save(bucket.mountpoint()))?);
    backer.end()?;
    bucket.end()?;
    Ok(rows)
}
