//! Watched directories as a person uses them: an ordinary directory, the command line, the daemon that it starts, and another directory that
//! plays the remote.

use crate::bench::{Bench, Machine, kill, wait_until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

struct Notes {
    #[allow(dead_code, reason = "it lasts as long as the test")]
    bench: Bench,
    machine: Machine,
    here: PathBuf,
    there: PathBuf,
}

impl Notes {
    fn new() -> Self {
        let bench = Bench::new();
        let (here, there) = (bench.path("notes"), bench.path("remote"));
        fs::create_dir_all(here.join("d")).unwrap();
        fs::create_dir_all(&there).unwrap();
        fs::write(here.join("d/a.txt"), "a").unwrap();
        let machine = bench.machine("a");
        Self { bench, machine, here, there }
    }

    fn watch(&self, more: &[&str]) -> Value {
        let url = format!("file://{}", self.there.display());
        self.machine.ok(&[&["folder", "watch", self.name(), &url], more].concat())
    }

    fn name(&self) -> &str {
        self.here.to_str().unwrap()
    }

    fn ok(&self, verb: &str, more: &[&str]) -> Value {
        self.machine.ok(&[&["folder", verb, self.name()], more].concat())
    }

    fn comes(&self, path: &Path, bytes: &str) {
        let came =
            wait_until("the file is alike", || fs::read(path).is_ok_and(|found| found == bytes.as_bytes()));
        came.unwrap_or_else(|()| panic!("{} is not there: {}", path.display(), self.ok("queue", &[])));
    }
}

#[test]
fn a_watched_directory_is_kept_both_ways() {
    let notes = Notes::new();
    let watched = notes.watch(&["--two-way"]);
    assert_eq!(watched["watched"]["two_way"], true, "{watched}");
    notes.ok("sync", &[]);
    assert_eq!(fs::read(notes.there.join("d/a.txt")).unwrap(), b"a");
    assert!(!notes.there.join(".holdall-folder").exists());
    // Changes are found without being asked for.
    fs::write(notes.here.join("b.txt"), "from here").unwrap();
    notes.comes(&notes.there.join("b.txt"), "from here");
    fs::write(notes.there.join("c.txt"), "from there").unwrap();
    notes.ok("sync", &[]);
    assert_eq!(fs::read(notes.here.join("c.txt")).unwrap(), b"from there");
    let listed = notes.machine.ok(&["folder", "list"]);
    assert_eq!(listed[0]["name"], notes.name(), "{listed}");

    // The daemon is killed; the next one continues.
    kill(notes.ok("status", &[])["daemon_pid"].as_i64().unwrap() as i32);
    fs::remove_file(notes.here.join("c.txt")).unwrap();
    notes.ok("sync", &[]);
    assert!(!notes.there.join("c.txt").exists());

    // Both change: both are kept.
    fs::write(notes.there.join("b.txt"), "theirs").unwrap();
    fs::write(notes.here.join("b.txt"), "ours").unwrap();
    notes.ok("sync", &[]);
    let conflicts = notes.ok("conflicts", &[]);
    let kept_as = conflicts[0]["kept_as"].as_str().unwrap();
    assert_eq!(fs::read(notes.here.join(kept_as)).unwrap(), b"ours");
    assert_eq!(fs::read(notes.here.join("b.txt")).unwrap(), b"theirs");
    notes.ok("conflicts", &["keep", "mine", "b.txt"]);
    notes.ok("sync", &[]);
    assert_eq!(fs::read(notes.there.join("b.txt")).unwrap(), b"ours");

    notes.ok("unwatch", &[]);
    assert!(notes.here.join("b.txt").exists() && !notes.here.join(".holdall-folder").exists());
}

#[test]
fn an_emptied_directory_deletes_nothing_until_a_person_decides() {
    let notes = Notes::new();
    notes.watch(&[]);
    notes.ok("sync", &[]);
    fs::remove_dir_all(notes.here.join("d")).unwrap();
    notes.ok("sync", &[]);
    let held = notes.ok("deletions", &[]);
    assert_eq!((held["count"].as_u64(), held["paths"][0].as_str()), (Some(1), Some("d/a.txt")), "{held}");
    assert_eq!(fs::read(notes.there.join("d/a.txt")).unwrap(), b"a");
    notes.ok("deletions", &["restore"]);
    notes.ok("sync", &[]);
    assert_eq!(fs::read(notes.here.join("d/a.txt")).unwrap(), b"a");

    // Without its marker it is not this directory, and nothing is deleted.
    fs::remove_file(notes.here.join(".holdall-folder")).unwrap();
    fs::remove_dir_all(notes.here.join("d")).unwrap();
    notes.machine.fails(&["folder", "sync", notes.name()]);
    let status = notes.ok("status", &[]);
    assert_eq!(status["state"], "Needs attention", "{status}");
    assert!(notes.there.join("d/a.txt").exists());
}

#[test]
fn places_that_share_files_are_refused() {
    let notes = Notes::new();
    notes.watch(&[]);
    let url = format!("file://{}", notes.there.display());
    let below = notes.here.join("d");
    for words in [
        &["folder", "watch", below.to_str().unwrap(), "file:///var/lib"][..],
        &["folder", "open", &url],
        &["folder", "watch", notes.there.to_str().unwrap(), &url],
    ] {
        let (_, code) = notes.machine.fails(words);
        assert_eq!(code, "exists", "{words:?}");
    }
}
