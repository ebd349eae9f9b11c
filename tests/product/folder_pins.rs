//! Keeping files of a folder here, freeing their space and waiting for them, by path: as on drives. Runs as root, with FUSE.

use crate::bench::{Bench, Machine, noise, wait_until};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const SNOW_BYTES: usize = 300_000;

/// Files that others have, and an open folder that shows them.
struct Photos {
    _bench: Bench,
    machine: Machine,
    files: PathBuf,
}

impl Photos {
    fn open() -> Self {
        let bench = Bench::new();
        let files = bench.path("photos");
        fs::create_dir_all(files.join("2026")).unwrap();
        fs::write(files.join("letter.txt"), "dear").unwrap();
        fs::write(files.join("2026/snow.jpg"), noise(1, SNOW_BYTES)).unwrap();
        let machine = bench.machine("a");
        let (url, at) = (format!("file://{}", files.display()), machine.mountpoint());
        machine.ok(&["folder", "open", &url, "--at", at.to_str().unwrap()]);
        Self { _bench: bench, machine, files }
    }

    fn at(&self, path: &str) -> String {
        self.machine.mountpoint().join(path).display().to_string()
    }

    fn looked(&self, path: &str) -> Value {
        self.machine.ok(&["pin", "--status", &self.at(path)])[0].clone()
    }

    fn pinned(&self) -> Vec<Value> {
        self.machine.ok(&["pins"]).as_array().unwrap().clone()
    }

    fn wait_for_pin(&self, what: &str, is: impl Fn(&Value) -> bool) {
        let mut pins = Vec::new();
        let came = wait_until(what, || {
            pins = self.pinned();
            pins.first().is_some_and(&is)
        });
        came.unwrap_or_else(|()| panic!("not {what}: {pins:?}"));
    }
}

#[test]
fn a_pinned_directory_is_downloaded_and_stays() {
    let photos = Photos::open();
    let before = photos.looked("2026");
    assert_eq!((&before["bytes"], &before["ready_bytes"]), (&SNOW_BYTES.into(), &0.into()), "{before}");
    let would = photos.machine.ok(&["pin", "--dry-run", &photos.at("2026")]);
    assert_eq!(would[0]["files_total"], 1, "{would}");
    assert!(photos.pinned().is_empty());

    let pins = photos.machine.ok(&["pin", "--wait", &photos.at("2026")]);
    assert_eq!((&pins[0]["state"], &pins[0]["path"]), (&"Always keep".into(), &"2026".into()), "{pins}");
    assert_eq!(pins[0]["ready_bytes"], SNOW_BYTES, "{pins}");
    let status = photos.machine.ok(&["folder", "status", "photos"]);
    assert_eq!(status["pinned_bytes"], SNOW_BYTES, "{status}");
    // Files that come later are kept too, and pinned files are not freed.
    fs::write(photos.machine.mountpoint().join("2026/ice.jpg"), noise(2, 5_000)).unwrap();
    photos.wait_for_pin("two files kept", |pin| pin["files_ready"] == 2 && pin["state"] == "Always keep");
    assert_eq!(photos.machine.fails(&["evict", &photos.at("2026/snow.jpg")]), (1, "state".into()));
    let of_name = photos.machine.ok(&["pins", "photos"]);
    assert_eq!(of_name.as_array().map(Vec::len), Some(1), "{of_name}");

    // A path below a pinned one is kept by that one.
    assert_eq!(photos.machine.fails(&["unpin", &photos.at("2026/snow.jpg")]).1, "not_found");
    let removed = photos.machine.ok(&["unpin", &photos.at("2026")]);
    assert!(removed[0]["ready_bytes"].as_u64().unwrap() >= SNOW_BYTES as u64, "{removed}");
    assert!(photos.pinned().is_empty());
    photos.machine.ok(&["folder", "sync", "photos"]);
    let evicted = photos.machine.ok(&["evict", &photos.at("2026/snow.jpg")]);
    assert!(evicted["bytes_freed"].as_u64().unwrap() >= SNOW_BYTES as u64, "{evicted}");
    assert_eq!(photos.looked("2026/snow.jpg")["ready_bytes"], 0);
    assert_eq!(fs::read(photos.at("2026/snow.jpg")).unwrap(), noise(1, SNOW_BYTES));
}

#[test]
fn waiting_brings_a_file_and_pins_nothing() {
    let photos = Photos::open();
    let waited = photos.machine.ok(&["wait", &photos.at("2026/snow.jpg")]);
    assert_eq!(
        (&waited["bytes"], &waited["ready_bytes"]),
        (&SNOW_BYTES.into(), &SNOW_BYTES.into()),
        "{waited}"
    );
    assert!(photos.pinned().is_empty());
    assert_eq!(photos.machine.fails(&["wait", &photos.at("gone.jpg")]).1, "not_found");
    photos.machine.ok(&["folder", "pause", "photos"]);
    assert_eq!(photos.machine.fails(&["wait", &photos.at("letter.txt")]).1, "paused");
}

#[test]
fn a_pin_of_a_whole_closed_folder_can_be_removed() {
    let photos = Photos::open();
    let pins = photos.machine.ok(&["pin", "--wait", "--drive", "photos"]);
    assert_eq!((&pins[0]["path"], &pins[0]["files_ready"]), (&Value::Null, &2.into()), "{pins}");
    photos.machine.ok(&["folder", "close", "photos", "--wait"]);
    assert_eq!(photos.pinned()[0]["state"], "Closed");
    assert_eq!(photos.machine.fails(&["evict", "--drive", "photos"]), (1, "state".into()));
    photos.machine.ok(&["unpin", "--drive", "photos"]);
    assert!(photos.pinned().is_empty());
    assert_eq!(photos.machine.fails(&["unpin", "--drive", "photos"]).1, "not_found");
    let evicted = photos.machine.ok(&["evict", "--drive", "photos"]);
    assert!(evicted["bytes_freed"].as_u64().unwrap() >= SNOW_BYTES as u64, "{evicted}");
    assert!(photos.files.join("2026/snow.jpg").exists());
}

#[test]
fn a_limit_of_a_folder_holds_at_once() {
    const MIB: u64 = 1 << 20;
    let photos = Photos::open();
    fs::write(photos.files.join("film.mkv"), noise(3, 80 << 20)).unwrap();
    let listed = wait_until("the film is listed", || fs::exists(photos.at("film.mkv")).unwrap_or(false));
    listed.expect("the film is listed");
    let limits = photos.machine.ok(&["limits", "--cache", "64M", "--drive", "photos"]);
    assert_eq!(limits["cache_of"]["photos"], 64 * MIB, "{limits}");
    let (code, word) = photos.machine.fails(&["pin", &photos.at("film.mkv")]);
    assert_eq!((code, word.as_str()), (1, "full"));
    assert!(photos.pinned().is_empty());

    // Without the limit it fits; then a limit that does not hold it is refused.
    photos.machine.ok(&["limits", "--cache", "auto", "--drive", "photos"]);
    photos.machine.ok(&["pin", "--wait", &photos.at("film.mkv")]);
    let refused = photos.machine.fails(&["limits", "--cache", "64M", "--drive", "photos"]);
    assert_eq!(refused.1, "usage");
    photos.machine.ok(&["unpin", &photos.at("film.mkv")]);
    photos.machine.ok(&["limits", "--cache", "64M", "--drive", "photos"]);
    let shrunk = wait_until("the cache shrinks", || {
        photos.machine.ok(&["folder", "status", "photos"])["cached_bytes"].as_u64().unwrap() <= 64 * MIB
    });
    shrunk.expect("a limit holds at once");
}

#[test]
fn doctor_looks_at_folders() {
    let photos = Photos::open();
    let diagnosis = photos.machine.ok(&["doctor"]);
    assert!(diagnosis.to_string().contains("photos"), "{diagnosis}");
}
