//! Opening a drive of 1 TiB, on the computer that had it before and on one that has never seen it, and the memory that the
//! daemon then takes. The store is a directory, so everything but the network is measured.

use super::fio::{self, Figure, Target};
use super::holdall::Computer;
use super::record::Row;
use super::remote::scatter;
use super::{Failure, Plan};
use std::path::Path;
use std::time::Instant;

const TEBIBYTE: u64 = 1 << 40;

pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let store = dir.join("store");
    let row = |key: &str| Row { key: key.to_owned(), ours: Vec::new(), peer: Vec::new() };
    let [mut again, mut first, mut opened, mut uploaded, mut used] =
        ["open-again", "open-first", "memory-open", "memory-uploaded", "memory-used"].map(row);
    {
        let maker = Computer::new(&dir.join("maker"))?;
        maker.create(&store, TEBIBYTE)?;
        maker.open()?;
        maker.close()?;
        for _ in 0..plan.rounds {
            again.ours.push(open_ms(&maker)?);
            maker.close()?;
        }
    }
    for round in 0..plan.rounds {
        let stranger = Computer::new(&dir.join(format!("stranger{round}")))?;
        stranger.add(&store)?;
        first.ours.push(open_ms(&stranger)?);
        opened.ours.push(stranger.resident_mebibytes()?);
        stranger.close()?;
    }

    // A map with data in each of its 1024 pages, and reads all over it.
    let scattered = dir.join("scattered");
    {
        let maker = Computer::new(&dir.join("scatterer"))?;
        maker.create(&scattered, TEBIBYTE)?;
        let served = maker.serve()?;
        scatter(served.socket(), TEBIBYTE, plan.terabyte_dirtied_bytes)?;
        served.end()?;
        maker.sync()?;
        uploaded.ours.push(maker.resident_mebibytes()?);
    }
    let reader = Computer::new(&dir.join("reader"))?;
    reader.add(&scattered)?;
    let served = reader.serve()?;
    let amount = format!("--io_size={}", plan.terabyte_dirtied_bytes);
    let everywhere = ["--rw=randread", "--bs=4k", "--iodepth=16", &amount];
    fio::run(&Target::Nbd(served.socket()), TEBIBYTE, &everywhere, Figure::Iops)?;
    used.ours.push(reader.resident_mebibytes()?);
    served.end()?;
    Ok(vec![again, first, opened, uploaded, used])
}

/// The time until the drive is mounted, in ms.
fn open_ms(computer: &Computer) -> Result<f64, Failure> {
    // The daemon is already running, as it is after login.
    computer.status()?;
    let begun = Instant::now();
    computer.open()?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}
