//! A store that was restored from a backup: what computers know of the drive that the backup lacks.

use crate::bench::Bench;
use crate::person::Person;
use crate::replicas::{read, save};
use std::path::Path;
use std::process::Command;

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

#[test]
fn opening_a_restored_store_needs_consent() {
    let bench = Bench::new();
    let url = format!("file://{}", bench.text("store"));
    let [a, b] = ["a", "b"].map(|name| Person::new(&bench, name, &[]));
    a.ok(&["drive", "create", "d", "--store", &url, "--size", "64M", "--no-encryption"]);
    a.open();
    save(&a, "yesterday", b"in the backup");
    a.ok(&["drive", "close", "d", "--wait"]);
    copy(&bench.path("store"), &bench.path("backup"));

    // Both write after the backup, so that each has seen something that the backup lacks.
    b.ok(&["drive", "add", "d", "--store", &url]);
    for (person, name) in [(&b, "by b"), (&a, "by a")] {
        person.open();
        save(person, name, b"today");
        person.ok(&["drive", "close", "d", "--wait"]);
    }
    std::fs::remove_dir_all(bench.path("store")).unwrap();
    copy(&bench.path("backup"), &bench.path("store"));

    for _ in 0..2 {
        let failure = a.refused(&["drive", "open", "d"], 7, "diverged");
        assert!(
            failure["action"].as_str().unwrap().contains("holdall drive open d --set-aside"),
            "{failure}"
        );
        assert_eq!(failure["consequence"], "Nothing was changed.");
    }
    let at = a.machine.mountpoint();
    a.ok(&["drive", "open", "d", "--set-aside", "--at", &at.display().to_string()]);
    assert_eq!(read(&a, "yesterday"), b"in the backup");
    assert!(!at.join("by a").exists());
    save(&a, "after", b"the restore");
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);

    // It is neither deleted nor forgotten.
    let kept = std::fs::read_dir(a.machine.state.join("drives/d")).unwrap();
    let kept: Vec<_> = kept.map(|entry| entry.unwrap().path()).collect();
    let kept: Vec<_> =
        kept.iter().filter(|path| path.display().to_string().contains("/set-aside-")).collect();
    let [aside] = kept[..] else { panic!("{kept:?}") };
    assert!(aside.join("journal").is_dir() && aside.join("drive.json").is_file());
    let failure = a.refused(&["drive", "remove", "d", "--yes"], 8, "unsent");
    assert!(failure["message"].as_str().unwrap().contains(&aside.display().to_string()), "{failure}");

    // The other computer still has everything that it wrote on top of the backup. It keeps both versions, although the store has
    // reached the same epoch again.
    let opened = b.ok(&["drive", "open", "d", "--at", &b.machine.mountpoint().display().to_string()]);
    assert_eq!(read(&b, "after"), b"the restore");
    assert!(!b.machine.mountpoint().join("by b").exists());
    let fork = opened["forks"][0]["name"].as_str().unwrap().to_owned();
    b.ok(&["drive", "close", "d", "--wait"]);
    b.ok(&["drive", "open", &fork, "--at", &b.machine.mountpoint().display().to_string()]);
    assert_eq!((read(&b, "yesterday"), read(&b, "by b")), (b"in the backup".to_vec(), b"today".to_vec()));
    b.ok(&["drive", "close", &fork, "--wait"]);
}
