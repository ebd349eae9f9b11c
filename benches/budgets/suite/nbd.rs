//! Warm reads over NBD: `holdall drive serve` compared with nbdkit's file plugin, both on a Unix socket, with the same
//! bytes.

use super::fio::{self, Figure, Target};
use super::holdall::Computer;
use super::peers::{self, Nbdkit};
use super::record::Row;
use super::{Failure, Plan, compare};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let bytes = plan.warm_bytes;
    let file = dir.join("plain.img");
    peers::write_file(&file, bytes)?;
    let computer = Computer::new(&dir.join("computer"))?;
    computer.create(&dir.join("store"), bytes)?;
    let served = computer.serve()?;
    copy(&[&file.display().to_string(), &uri(served.socket())])?;
    // From here on everything is in the store, and no transfer is under way.
    served.end()?;
    computer.sync()?;
    let served = computer.serve()?;
    let nbdkit = Nbdkit::serve(&file)?;
    let sides = [served.socket(), nbdkit.socket()];
    for socket in sides {
        copy(&[&uri(socket), "null:"])?;
    }

    let turn = fio::for_ms(plan.turn_ms);
    let job = |key: &str, arguments: &[&str], figure| {
        let arguments = [arguments, &[&turn[0], &turn[1]]].concat();
        let side = |socket| fio::run(&Target::Nbd(socket), bytes, &arguments, figure);
        compare(key, plan, &|| side(sides[0]), &|| side(sides[1]))
    };
    let copied = |socket| -> Result<f64, Failure> {
        let begun = Instant::now();
        copy(&[&uri(socket), "null:"])?;
        Ok(bytes as f64 / f64::from(1 << 20) / begun.elapsed().as_secs_f64())
    };
    Ok(vec![
        job("nbd-random-1", &["--rw=randread", "--bs=4k", "--iodepth=1"], Figure::Iops)?,
        job("nbd-random-16", &["--rw=randread", "--bs=4k", "--iodepth=16"], Figure::Iops)?,
        job("nbd-sequential", &["--rw=read", "--bs=1m", "--iodepth=4"], Figure::MebibytesPerSecond)?,
        compare("nbd-copy", plan, &|| copied(sides[0]), &|| copied(sides[1]))?,
    ])
}

fn uri(socket: &Path) -> String {
    format!("nbd+unix:///?socket={}", socket.display())
}

/// nbdcopy, over as many connections as it wants.
fn copy(arguments: &[&str]) -> Result<(), Failure> {
    let copied = Command::new("nbdcopy").args(arguments).stdin(Stdio::null()).status();
    let copied = copied.map_err(|error| format!("nbdcopy: {error}; it is in the package libnbd-bin"))?;
    if copied.success() { Ok(()) } else { Err(format!("nbdcopy {arguments:?}: {copied}").into()) }
}
