//! The first 4 KiB of files that were never read before, with local metadata and an open connection.

use super::super::record::{Row, median};
use super::super::{Failure, Plan};
use super::world::{World, opened, opened_files};
use super::{PEERS_ROUND_TRIP_MS, ROUND_TRIPS_MS, link, row};
use holdall_servers::delay::Delay;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Files that are opened first, to warm up connections and the map.
pub const WARMING: usize = 3;
/// The median of this many files is one figure.
pub const OPENED_IN_A_ROUND: usize = 5;

pub fn measure(plan: &Plan, world: &World) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for rtt_ms in ROUND_TRIPS_MS {
        let delay = Delay::start(world.address(), link(plan, rtt_ms, None));
        let computer = world.stranger(&format!("first-{rtt_ms}"), delay.address())?;
        let ours = first_bytes_ms(&computer.mountpoint(), plan)?;
        computer.close()?;
        rows.push(row(format!("first-byte-{rtt_ms}"), ours.clone(), Vec::new()));
        if rtt_ms == PEERS_ROUND_TRIP_MS {
            let (backer, bucket) = world.peers("first", delay.address())?;
            let beside_backer = first_bytes_ms(&backer.mountpoint(), plan)?;
            rows.push(row("first-byte-s3backer".to_owned(), ours.clone(), beside_backer));
            rows.push(row("first-byte-s3fs".to_owned(), ours, first_bytes_ms(bucket.mountpoint(), plan)?));
            backer.end()?;
            bucket.end()?;
        }
    }
    Ok(rows)
}

/// One figure for each round.
fn first_bytes_ms(root: &Path, plan: &Plan) -> Result<Vec<f64>, Failure> {
    let count = opened_files(plan);
    for number in 0..count {
        opened(root, number).metadata()?;
    }
    // In an irregular order and at unequal distances: a pattern would be recognised and fetched ahead.
    let mut order: Vec<_> = (0..count).collect();
    order.sort_by_key(|number| (number * number * 31 + number * 17) % 101);
    let mut times = Vec::new();
    for number in order {
        let begun = Instant::now();
        let file = File::open(opened(root, number))?;
        // Read only the requested bytes.
        fadvise(&file, 0, None, Advice::Random)?;
        file.read_exact_at(&mut [0; 4096], 0)?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times[WARMING..].chunks(OPENED_IN_A_ROUND).map(median).collect())
}
