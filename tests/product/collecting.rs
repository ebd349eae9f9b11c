//! Garbage is deleted automatically.

use crate::bench::{Bench, Random, wait_until};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

const LEN: usize = 24 << 20;

/// The size of all segments in a directory store.
fn segment_bytes(store: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(store.join("seg")) else { return 0 };
    let mut bytes = 0;
    for entry in entries.flatten().map(|entry| entry.path()) {
        let below = std::fs::read_dir(&entry).ok().map(|below| below.flatten().collect::<Vec<_>>());
        let files =
            below.map_or_else(|| vec![entry.clone()], |below| below.iter().map(|e| e.path()).collect());
        // A file may be deleted meanwhile.
        bytes += files.iter().filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum::<u64>();
    }
    bytes
}

#[test]
fn a_store_does_not_grow_forever() {
    let bench = Bench::new();
    let mut machine = bench.machine("a");
    machine.environment.push(("HOLDALL_COLLECT_OVER_BYTES".to_owned(), (16u64 << 20).to_string()));
    machine.ok(&["drive", "create", "d", "--store", &bench.store(), "--size", "256M", "--no-encryption"]);
    machine.open(&[]);
    let path = machine.mountpoint().join("file");
    let mut file = File::options().write(true).create_new(true).open(&path).unwrap();
    let mut random = Random(1);
    let mut rewrite = || {
        let bytes = random.bytes(LEN);
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        machine.ok(&["drive", "sync", "d"]);
        bytes
    };
    let rows = || machine.ok(&["activity", "--kind", "collected"]);
    rewrite();
    assert_eq!(rows(), serde_json::json!([]), "there is no garbage yet");
    rewrite();
    let is_told = || rows().as_array().is_some_and(|rows| !rows.is_empty());
    wait_until("garbage is collected", is_told).unwrap();
    let told = rows()[0]["message"].as_str().unwrap().to_owned();
    assert!(told.starts_with("Deleted data that no version needs. This freed "), "{told}");
    let store = bench.path("store");
    wait_until("the store holds little besides", || segment_bytes(&store) < 2 * LEN as u64).unwrap();
    // Data that the last map pages reached is garbage too, long before these pages would be written again.
    let told = rows().as_array().unwrap().len();
    rewrite();
    let expected = rewrite();
    wait_until("it is collected again", || rows().as_array().unwrap().len() > told).unwrap();
    wait_until("the store holds little besides", || segment_bytes(&store) < 2 * LEN as u64).unwrap();
    assert_eq!(machine.ok(&["drive", "gc", "d", "--stop"]), serde_json::json!({}));
    drop(file);
    machine.close();
    machine.assert_checked();
    let other = bench.machine("b");
    other.ok(&["drive", "add", "d", "--store", &bench.store()]);
    other.open(&[]);
    assert!(std::fs::read(other.mountpoint().join("file")).unwrap() == expected);
    other.close();
}
