//! fsx, which writes, truncates, maps and reads one file at random and compares all of it: served, and passed through. Meanwhile the file
//! is uploaded whenever nobody has it open.
//!
//! `HOLDALL_FSX_OPERATIONS` is how many operations each mode gets, and `HOLDALL_FIRST_SEED` the seed.

use crate::bench::{Bench, fsx_limit, fsx_operations};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a file system offers, in fsx's words.
const CONFIG: &str = "
flen = 300000
[opsize]
max = 65536
[weights]
close_open = 3
read = 10
write = 10
mapread = 10
mapwrite = 10
truncate = 6
invalidate = 1
fsync = 1
fdatasync = 1
posix_fallocate = 3
punch_hole = 4
sendfile = 3
posix_fadvise = 1
copy_file_range = 4
";

fn seed() -> u64 {
    std::env::var("HOLDALL_FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn program() -> PathBuf {
    let path = std::env::home_dir().unwrap().join(".cargo/bin/fsx");
    assert!(path.exists(), "{} is missing: packaging/setup tests", path.display());
    path
}

/// Runs fsx on a new file of the folder.
fn run(bench: &Bench) {
    let (operations, seed, limit) = (fsx_operations(), seed(), fsx_limit().as_secs());
    let config = bench.beside("fsx.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", &limit.to_string()]).arg(program()).arg("-f").arg(config);
    command
        .arg("-N")
        .arg(operations.to_string())
        .arg("-S")
        .arg(seed.to_string())
        .arg("-P")
        .arg(bench.beside(""));
    let output = command.arg(bench.at("file")).stdin(Stdio::null()).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let end: Vec<_> = said.lines().rev().take(60).collect();
    assert!(
        output.status.success(),
        "seed {seed}: {}\n{}",
        output.status,
        end.into_iter().rev().collect::<Vec<_>>().join("\n")
    );
    let here = std::fs::read(bench.at("file")).unwrap();
    crate::bench::eventually("the upload", || {
        std::fs::read(bench.remote("file")).is_ok_and(|there| there == here)
    });
}

#[test]
fn fsx_finds_no_wrong_byte_in_a_served_file() {
    let bench = Bench::served();
    run(&bench);
    assert!(bench.requests().1 > 0);
}

#[test]
fn fsx_finds_no_wrong_byte_in_a_file_that_passes_through() {
    let bench = Bench::new();
    run(&bench);
    assert_eq!(bench.requests().1, 0);
}
