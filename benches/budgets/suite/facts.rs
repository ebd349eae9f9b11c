//! Facts about the machine and the programs of a run.

use super::peers::{rclone, s3backer, s3fs};
use super::record::Run;
use super::{Failure, Plan};
use holdall_servers::s3;
use std::path::Path;
use std::process::{Command, Output};

/// A run without rows.
pub fn run(plan: &Plan, dir: &Path) -> Result<Run, Failure> {
    let here = env!("CARGO_MANIFEST_DIR");
    let commit = said("git", &["-C", here, "rev-parse", "HEAD"]);
    let changed = said("git", &["-C", here, "status", "--porcelain", "--untracked-files=no"]);
    let commit = if changed.is_empty() { commit } else { format!("{commit} dirty") };
    let (cpus, processor) = processors()?;
    let memory = first_field("/proc/meminfo", "MemTotal:")?;
    let dir = dir.display().to_string();
    let machine = [
        ("processor", format!("{cpus} x {processor}")),
        ("memory", memory),
        ("kernel", said("uname", &["-srm"])),
        ("disk", said("findmnt", &["-n", "-o", "SOURCE,FSTYPE,OPTIONS", "--target", &dir])),
        ("load at the start", std::fs::read_to_string("/proc/loadavg")?.trim().to_owned()),
    ];
    let versions = [
        ("holdall", said(crate::programs::holdall(), &["--version"])),
        ("fio", said("fio", &["--version"])),
        ("nbdkit", said("nbdkit", &["--version"])),
        ("nbdcopy", said("nbdcopy", &["--version"])),
        ("S3 server", s3::NAME.to_owned()),
        ("s3backer", said("s3backer", &["--version"])),
        ("s3backer's options", s3backer::OPTIONS.join(" ")),
        ("s3fs", said("s3fs", &["--version"])),
        ("s3fs's options", s3fs::OPTIONS.join(" ")),
        ("rclone", said("rclone", &["--version"])),
        ("rclone's options", rclone::OPTIONS.join(" ")),
        ("ffmpeg", said("ffmpeg", &["-version"])),
        ("sqlite3", said("sqlite3", &["--version"])),
    ];
    let sizes = [
        ("rounds", plan.rounds as u64),
        ("turn_ms", plan.turn_ms),
        ("warm_bytes", plan.warm_bytes),
        ("dirtied_bytes", plan.dirtied_bytes),
        ("dirtied_drive_bytes", plan.dirtied_drive_bytes),
        ("terabyte_dirtied_bytes", plan.terabyte_dirtied_bytes),
        ("link_rounds", plan.link_rounds as u64),
        ("rtt_percent", plan.rtt_percent.into()),
        ("saved_bytes", plan.saved_bytes),
        ("peers_dirtied_bytes", plan.peers_dirtied_bytes),
        ("tree_files", plan.tree_files as u64),
        ("tree_directories", plan.tree_directories as u64),
        ("film_seconds", plan.film_seconds),
        ("database_rows", plan.database_rows),
        ("hot_bytes", plan.hot_bytes),
        ("scanned_bytes", plan.scanned_bytes),
    ];
    let cold = plan.cold_bytes.iter().map(|(mbit, bytes)| (format!("cold_{mbit}_mbit_bytes"), *bytes));
    Ok(Run {
        format: 1,
        taken_at: said("date", &["--utc", "+%Y-%m-%dT%H:%M:%SZ"]),
        commit,
        machine: machine.map(|(key, value)| (key.to_owned(), value)).into(),
        versions: versions.map(|(key, value)| (key.to_owned(), value)).into(),
        plan: sizes.map(|(key, value)| (key.to_owned(), value)).into_iter().chain(cold).collect(),
        rows: Vec::new(),
    })
}

fn processors() -> Result<(usize, String), Failure> {
    Ok((std::thread::available_parallelism()?.get(), first_field("/proc/cpuinfo", "model name")?))
}

fn first_field(path: &str, name: &str) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    Ok(line.split_once(':').map_or("", |(_, value)| value).trim().to_owned())
}

/// The first line that a program prints.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    // Some programs print their version to standard error.
    let said = |output: Output| if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let said = output.map(said).unwrap_or_default();
    String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned()
}
