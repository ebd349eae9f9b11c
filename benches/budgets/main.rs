//! Measures the budgets: the built product and its peers take turns, on one machine, in one run.
//!
//!     just bench               measures, and writes benches/results/<date>.json
//!     just bench-report        makes BENCHMARKS.md from these files: each section from the newest that has it
//!
//! Needs root, FUSE, loop devices, fio, nbdkit, an S3 server, s3backer, s3fs, rclone, ffmpeg and sqlite3, which
//! `packaging/setup tests` installs.

#[path = "../../tests/support/programs.rs"]
mod programs;
mod suite;

use std::path::PathBuf;
use suite::{Failure, Plan, report};

const USAGE: &str = "\
usage: budgets run [--quick] [--rounds N] [--only GROUP,...] [--dir DIR] [--out FILE]
       budgets report

run      measures; DIR (default: /var/tmp) is where the drives and their peers are stored, on the disk to measure
report   writes BENCHMARKS.md from the files in benches/results";

fn main() -> Result<(), Failure> {
    // `cargo bench` adds an argument of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.split_first() {
        Some((&"run", options)) => run(options),
        Some((&"report", [])) => {
            let text = report::markdown(&report::runs()?);
            Ok(std::fs::write(report::path(), text)?)
        }
        _ => Err(USAGE.into()),
    }
}

fn run(options: &[&str]) -> Result<(), Failure> {
    let mut plan = Plan::full();
    let (mut only, mut dir, mut out) = (None, PathBuf::from("/var/tmp"), None);
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut value = || options.next().copied().ok_or(USAGE);
        match option {
            "--quick" => plan = Plan::quick(),
            "--rounds" => {
                plan.rounds = value()?.parse::<usize>()?.max(1);
                plan.link_rounds = plan.rounds;
            }
            "--only" => only = Some(value()?.split(',').map(str::to_owned).collect::<Vec<_>>()),
            "--dir" => dir = value()?.into(),
            "--out" => out = Some(PathBuf::from(value()?)),
            _ => return Err(USAGE.into()),
        }
    }
    let run = suite::measure(&plan, &dir, only.as_deref())?;
    let groups = only.map_or_else(String::new, |only| format!("-{}", only.join("-")));
    let out = out.unwrap_or_else(|| report::results().join(format!("{}{groups}.json", &run.taken_at[..10])));
    run.save(&out)?;
    print!("{}", report::table(std::slice::from_ref(&run)));
    println!("\n{} is written.", out.display());
    Ok(())
}
