//! What a run ran on.

use super::record::Run;
use super::{Failure, Plan};
use std::path::Path;
use std::process::Command;

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
        ("holdall", said(env!("CARGO_BIN_EXE_holdall"), &["--version"])),
        ("fio", said("fio", &["--version"])),
        ("nbdkit", said("nbdkit", &["--version"])),
        ("nbdcopy", said("nbdcopy", &["--version"])),
    ];
    let plan = [
        ("rounds", plan.rounds as u64),
        ("turn_ms", plan.turn_ms),
        ("warm_bytes", plan.warm_bytes),
        ("dirtied_bytes", plan.dirtied_bytes),
        ("dirtied_drive_bytes", plan.dirtied_drive_bytes),
        ("terabyte_dirtied_bytes", plan.terabyte_dirtied_bytes),
    ];
    Ok(Run {
        format: 1,
        taken_at: said("date", &["--utc", "+%Y-%m-%dT%H:%M:%SZ"]),
        commit,
        machine: machine.map(|(key, value)| (key.to_owned(), value)).into(),
        versions: versions.map(|(key, value)| (key.to_owned(), value)).into(),
        plan: plan.map(|(key, value)| (key.to_owned(), value)).into(),
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
    let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    output.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}
