//! The disk space that a drive takes and frees, and what a removed drive leaves.

use crate::bench::{Bench, failure, noise};
use serde_json::json;

#[test]
fn evicting_the_cache_of_a_closed_drive_loses_nothing() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let data = noise(1, 8 << 20);
    std::fs::write(a.mountpoint().join("file"), &data).unwrap();
    a.close();
    let before = a.status()["cached_bytes"].as_u64().unwrap();
    assert!(before >= 8 << 20, "{before}");
    let evicted = a.ok(&["evict", "--drive", "d"]);
    assert!(evicted["bytes_freed"].as_u64().unwrap() >= 8 << 20, "{evicted}");
    assert_eq!(a.status()["cached_bytes"], 0);
    // An empty cache has nothing to free, and the drive opens as usual.
    assert_eq!(a.ok(&["evict", "--drive", "d"])["bytes_freed"], 0);
    a.open(&[]);
    assert!(std::fs::read(a.mountpoint().join("file")).unwrap() == data);
    a.close();
    a.assert_checked();
}

#[test]
fn evicting_a_closed_drive_keeps_pending_uploads() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    a.ok(&["drive", "pause", "d"]);
    std::fs::write(a.mountpoint().join("file"), noise(1, 1 << 20)).unwrap();
    a.ok(&["drive", "close", "d"]);
    a.ok(&["evict", "--drive", "d"]);
    a.ok(&["drive", "resume", "d"]);
    a.open(&[]);
    assert!(std::fs::read(a.mountpoint().join("file")).unwrap() == noise(1, 1 << 20));
    a.close();
}

#[test]
fn a_drives_own_cache_limit_works_beside_the_shared_ones() {
    const MIB: u64 = 1 << 20;
    let bench = Bench::new();
    let a = bench.with_drive();
    let limit = || a.status()["cache_limit_bytes"].as_u64().unwrap();
    a.ok(&["limits", "--cache", "400M"]);
    let limits = a.ok(&["limits", "--cache", "300M", "--drive", "d"]);
    assert_eq!((&limits["cache_bytes"], &limits["cache_of"]), (&json!(400 * MIB), &json!({"d": 300 * MIB})));
    a.open(&[]);
    assert_eq!(limit(), 300 * MIB);
    a.ok(&["limits", "--cache-total", "200M"]);
    assert_eq!(limit(), 200 * MIB);
    a.ok(&["limits", "--cache-total", "auto"]);
    assert_eq!(limit(), 300 * MIB);
    a.ok(&["limits", "--cache", "auto", "--drive", "d"]);
    assert_eq!(limit(), 400 * MIB);
    assert_eq!(a.ok(&["limits"])["cache_of"], json!({}));
    let (code, _) = a.fails(&["limits", "--cache", "1G", "--drive", "nowhere"]);
    assert_ne!(code, 0);
    a.close();
}

#[test]
fn removing_a_drive_reports_leftovers_and_frees_its_place() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let removed = a.ok(&["drive", "remove", "d", "--delete-data", "--yes"]);
    let left = removed["left"].as_str().unwrap();
    assert!(left.contains(&bench.store()) && left.contains("a note that the drive was removed"), "{left}");
    assert!(removed["action"].as_str().unwrap().contains("create a new drive there"), "{removed}");
    a.ok(&["drive", "create", "d", "--store", &bench.store(), "--size", "256M", "--no-encryption"]);
    a.open(&[]);
    std::fs::write(a.mountpoint().join("file"), "new").unwrap();
    a.close();
    a.assert_checked();
}

#[test]
fn refuses_a_cache_limit_below_the_pending_data() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    a.ok(&["drive", "pause", "d"]);
    let file = a.mountpoint().join("file");
    std::fs::write(&file, noise(1, 80 << 20)).unwrap();
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    for limit in ["--cache", "--cache-total"] {
        let refused = failure(&a.run(&["limits", limit, "64M"]));
        assert!(refused["message"].as_str().unwrap().starts_with("The drive d needs"), "{refused}");
    }
    a.ok(&["drive", "resume", "d"]);
    a.close();
}
