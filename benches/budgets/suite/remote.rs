//! What random writes cost in the store: bytes and requests, as the product counts them.

use super::fio::{self, Figure, Target};
use super::holdall::Computer;
use super::record::Row;
use super::{Failure, Plan};
use serde_json::Value;
use std::path::Path;

pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let computer = Computer::new(&dir.join("computer"))?;
    computer.create(&dir.join("store"), plan.dirtied_drive_bytes)?;
    let served = computer.serve()?;
    let before = computer.status()?;
    scatter(served.socket(), plan.dirtied_drive_bytes, plan.dirtied_bytes)?;
    served.end()?;
    // The counters begin anew with each opening: the rest is pushed in another one.
    let counted = computer.status()?;
    computer.sync()?;
    let synced = computer.status()?;
    if synced["unpushed_bytes"] != 0 {
        return Err("not everything was pushed".into());
    }
    let figure = |of: fn(&Value) -> Option<u64>| -> Result<f64, Failure> {
        let of = |status| of(status).ok_or("the status lacks a counter");
        Ok((of(&counted)? - of(&before)? + of(&synced)?) as f64)
    };
    let bytes = figure(|status| status["sent_bytes"].as_u64())?;
    let puts = figure(|status| status["requests"]["put"].as_u64())?;
    let gibibytes = plan.dirtied_bytes as f64 / f64::from(1 << 30);
    let row = |key: &str, value: f64| Row { key: key.to_owned(), ours: vec![value], peer: Vec::new() };
    Ok(vec![row("amplification", bytes / plan.dirtied_bytes as f64), row("puts", puts / gibibytes)])
}

/// Writes `dirtied_bytes` in blocks of 4 KiB to random places of a drive of `drive_bytes`, none of them twice.
pub fn scatter(socket: &Path, drive_bytes: u64, dirtied_bytes: u64) -> Result<(), Failure> {
    let amount = format!("--io_size={dirtied_bytes}");
    let job = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--refill_buffers", "--end_fsync=1", &amount];
    fio::run(&Target::Nbd(socket), drive_bytes, &job, Figure::Iops).map(drop)
}
