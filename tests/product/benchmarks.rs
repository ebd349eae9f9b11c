//! The benchmarks run, and BENCHMARKS.md matches the committed figures. Runs as root, with FUSE and loop devices, fio, nbdkit, an
//! S3 server, s3backer, s3fs, rclone, ffmpeg and sqlite3.

#[path = "../../benches/budgets/suite/mod.rs"]
mod suite;

use std::path::Path;
use suite::rows::{Bar, ROWS};
use suite::{Plan, report};

#[test]
fn the_report_is_made_from_the_committed_figures() {
    let runs = report::runs().unwrap();
    let committed = std::fs::read_to_string(report::path()).unwrap();
    assert!(committed == report::markdown(&runs), "BENCHMARKS.md is out of date: just bench-report");
    for spec in ROWS {
        assert!(report::row_of(&runs, spec).is_some(), "{} is missing in the committed figures", spec.key);
    }
}

#[test]
fn every_row_is_measured() {
    // On a disk: O_DIRECT and loop devices behave differently on a tmpfs.
    let run = suite::measure(&Plan::quick(), Path::new("/var/tmp"), None).unwrap();
    for spec in ROWS {
        let row = run.row(spec.key).unwrap_or_else(|| panic!("{} was not measured", spec.key));
        let of_peer = matches!(spec.bar, Bar::OfPeer(_) | Bar::Shown);
        assert_eq!(row.peer.len(), if of_peer { row.ours.len() } else { 0 }, "{}", spec.key);
        let figures: Vec<_> = row.ours.iter().chain(&row.peer).collect();
        assert!(!row.ours.is_empty() && figures.iter().all(|figure| **figure > 0.0), "{row:?}");
    }
    let table = report::table(std::slice::from_ref(&run));
    let is_row =
        |line: &&str| line.starts_with("| ") && !line.starts_with("| |") && !line.starts_with("| ---");
    assert_eq!(table.lines().filter(is_row).count(), ROWS.len());
}
