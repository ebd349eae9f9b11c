//! The cost of random writes in the store: bytes and requests, counted in the store. It is a directory, in which each put
//! leaves a file.

use super::fio::{self, Figure, Target};
use super::holdall::Computer;
use super::record::Row;
use super::{Failure, Plan};
use std::path::Path;

pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let store = dir.join("store");
    let computer = Computer::new(&dir.join("computer"))?;
    computer.create(&store, plan.dirtied_drive_bytes)?;
    let before = Sent::to(&store)?;
    upload_scattered(&computer, plan)?;
    let after = Sent::to(&store)?;
    let gibibytes = plan.dirtied_bytes as f64 / f64::from(1 << 30);
    let row = |key: &str, value: f64| Row { key: key.to_owned(), ours: vec![value], peer: Vec::new() };
    Ok(vec![
        row("amplification", (after.bytes - before.bytes) as f64 / plan.dirtied_bytes as f64),
        row("puts", (after.puts - before.puts) as f64 / gibibytes),
    ])
}

/// Writes all over the drive of `computer`, and uploads that.
pub fn upload_scattered(computer: &Computer, plan: &Plan) -> Result<(), Failure> {
    let served = computer.serve()?;
    scatter(served.socket(), plan.dirtied_drive_bytes, plan.dirtied_bytes)?;
    served.end()?;
    computer.sync()?;
    if computer.status()?["unpushed_bytes"] != 0 {
        return Err("not everything was pushed".into());
    }
    Ok(())
}

/// Bytes and puts that were sent to a store in which nothing was deleted.
#[derive(Default)]
struct Sent {
    bytes: u64,
    puts: u64,
}

impl Sent {
    fn to(store: &Path) -> Result<Self, Failure> {
        let mut sent = Sent::default();
        for entry in std::fs::read_dir(store)? {
            let path = entry?.path();
            // Each root comes with a swap of HEAD, which leaves no file of its own.
            let puts = if path.ends_with("root") { 2 } else { 1 };
            sent.add(&path, puts)?;
        }
        Ok(sent)
    }

    fn add(&mut self, path: &Path, puts_of_each: u64) -> Result<(), Failure> {
        if !path.is_dir() {
            self.bytes += path.metadata()?.len();
            self.puts += puts_of_each;
            return Ok(());
        }
        std::fs::read_dir(path)?.try_for_each(|entry| self.add(&entry?.path(), puts_of_each))
    }
}

/// Writes `dirtied_bytes` in blocks of 4 KiB to random places of a drive of `drive_bytes`, none of them twice.
pub fn scatter(socket: &Path, drive_bytes: u64, dirtied_bytes: u64) -> Result<(), Failure> {
    let amount = format!("--io_size={dirtied_bytes}");
    let job = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--refill_buffers", "--end_fsync=1", &amount];
    fio::run(&Target::Nbd(socket), drive_bytes, &job, Figure::Iops).map(drop)
}
