//! Changes that another program makes at the remote.

use crate::bench::{Bench, Setup, eventually};
use std::fs::File;
use std::os::unix::fs::FileExt;

const PASSES: Setup = Setup { passes_through: true, read_only: false };

#[test]
fn a_file_that_changes_at_the_remote_is_read_anew() {
    let bench = Bench::with(PASSES, |remote| std::fs::write(remote.join("file"), "old").unwrap());
    assert_eq!(std::fs::read_to_string(bench.at("file")).unwrap(), "old");
    std::fs::write(bench.remote("file"), "newer").unwrap();
    eventually("the new version is shown", || std::fs::read_to_string(bench.at("file")).unwrap() == "newer");
}

#[test]
fn names_that_come_and_go_at_the_remote_are_seen() {
    let bench = Bench::with(PASSES, |remote| std::fs::write(remote.join("goes"), "").unwrap());
    assert!(bench.at("goes").exists() && !bench.at("comes").exists());
    std::fs::write(bench.remote("comes"), "here").unwrap();
    std::fs::remove_file(bench.remote("goes")).unwrap();
    let names = || {
        let entries = std::fs::read_dir(bench.at("")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    eventually("the listing follows", || names() == ["comes"]);
    eventually("the names follow", || bench.at("comes").exists() && !bench.at("goes").exists());
}

#[test]
fn an_open_file_keeps_its_version_when_the_remote_changes() {
    let bench = Bench::with(PASSES, |remote| std::fs::write(remote.join("file"), "old").unwrap());
    let open = File::open(bench.at("file")).unwrap();
    let mut seen = [0; 3];
    open.read_exact_at(&mut seen, 0).unwrap();
    std::fs::write(bench.remote("file"), "newer").unwrap();
    eventually("new opens get the new version", || {
        std::fs::read_to_string(bench.at("file")).unwrap() == "newer"
    });
    open.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!(&seen, b"old");
}

#[test]
fn what_is_saved_here_reaches_the_remote() {
    let bench = Bench::new();
    std::fs::create_dir(bench.at("d")).unwrap();
    std::fs::write(bench.at("d/file"), "text").unwrap();
    eventually("the upload", || std::fs::read(bench.remote("d/file")).is_ok_and(|bytes| bytes == b"text"));
}
