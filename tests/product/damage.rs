//! Objects in the store and local files that are damaged, truncated or deleted. A reader that needs one gets an error, never
//! wrong bytes. Everything else can still be read. Once the object is restored, so are its contents.

use crate::bench::{Bench, Machine, Random};
use crate::place::make_by_locks;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const CORRUPT: (i32, &str) = (7, "corrupt");

#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    BitFlipped,
    CutShort,
    Deleted,
}

const DAMAGES: [Damage; 3] = [Damage::BitFlipped, Damage::CutShort, Damage::Deleted];

/// A file that is damaged until this is dropped.
struct Damaged {
    path: PathBuf,
    whole: Vec<u8>,
}

impl Damaged {
    fn at(path: &Path, damage: Damage, offset: usize) -> Self {
        let damaged = Damaged { path: path.to_owned(), whole: fs::read(path).unwrap() };
        match damage {
            Damage::Deleted => fs::remove_file(path).unwrap(),
            Damage::CutShort => {
                File::options().write(true).open(path).unwrap().set_len(offset as u64).unwrap()
            }
            Damage::BitFlipped => {
                let file = File::options().write(true).open(path).unwrap();
                file.write_all_at(&[damaged.whole[offset] ^ 4], offset as u64).unwrap();
            }
        }
        damaged
    }

    fn new(path: &Path, damage: Damage) -> Self {
        let len = fs::metadata(path).unwrap().len();
        Self::at(path, damage, len as usize / 2)
    }
}

impl Drop for Damaged {
    fn drop(&mut self) {
        fs::write(&self.path, &self.whole).unwrap();
    }
}

const FILES: [&str; 3] = ["first", "second", "third"];

fn content(name: &str) -> Vec<u8> {
    Random(name.len() as u64).bytes(2 << 20)
}

fn write_synced(path: &Path, content: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
}

/// A closed drive whose files were uploaded one after another, so that each has its own segments. A checkpoint of the map follows
/// the second one.
fn with_files(bench: &Bench) -> Machine {
    let machine = bench.with_drive();
    machine.open(&[]);
    for name in FILES {
        write_synced(&machine.mountpoint().join(name), &content(name));
        machine.ok(&["drive", "sync", "d"]);
        if name == "second" {
            machine.ok(&["drive", "gc", "d"]);
        }
    }
    machine.close();
    machine
}

fn objects(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(objects(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// The files that can be read. Each must hold what was written.
fn readable(at: &Path) -> Vec<&'static str> {
    let right = |name: &&str| match fs::read(at.join(name)) {
        Ok(found) => {
            assert!(found == content(name), "{name} holds other bytes");
            true
        }
        Err(_) => false,
    };
    FILES.into_iter().filter(right).collect()
}

/// Forgets everything that was cached from the store.
fn forget_cache(machine: &Machine) {
    machine.ok(&["daemon", "stop"]);
    fs::remove_dir_all(&machine.cache).unwrap();
}

#[test]
fn a_damaged_object_is_reported_and_costs_only_its_data() {
    let bench = Bench::new();
    drop(with_files(&bench));
    let machine = bench.machine("b");
    machine.ok(&["drive", "add", "d", "--store", &bench.store()]);
    let (mut needed, mut partly, mut total) = (0, 0, 0);
    let mut damages = DAMAGES.iter().cycle();
    for kind in ["family.json", "head", "root", "seg"] {
        let place = bench.path("store").join(kind);
        let found = if place.is_dir() { objects(&place) } else { vec![place] };
        assert!(!found.is_empty(), "{kind}");
        for object in found {
            // Each object is damaged in one of the ways, by turns. If there is only one of its kind, in every way.
            let ways = if matches!(kind, "family.json" | "head") { 3 } else { 1 };
            for damage in damages.by_ref().take(ways) {
                let what =
                    format!("{damage:?} {}", object.strip_prefix(bench.path("store")).unwrap().display());
                println!("{what}");
                forget_cache(&machine);
                let damaged = Damaged::new(&object, *damage);
                let checked = machine.run(&["drive", "check", "d"]);
                let bad = checked.status.code() != Some(0);
                let at = machine.mountpoint().display().to_string();
                let open = ["drive", "open", "d", "--attach", "loop", "--at", &at, "--read-only"];
                let opened = machine.run(&open);
                total += 1;
                needed += usize::from(bad);
                if bad && !(kind == "family.json" && *damage == Damage::Deleted) {
                    assert_eq!(checked.status.code(), Some(7), "{what}: {checked:?}");
                }
                match opened.status.success() {
                    true => {
                        let before = readable(&machine.mountpoint());
                        // Files that do not need the damaged object can be read. The others return with it.
                        assert_eq!(before.len() < FILES.len(), bad && before.len() < FILES.len(), "{what}");
                        partly += usize::from(before.len() < FILES.len() && !before.is_empty());
                        drop(damaged);
                        assert_eq!(readable(&machine.mountpoint()), FILES, "{what}: it is back");
                        machine.close();
                    }
                    false => {
                        assert!(bad, "{what}: {opened:?}");
                        if !(kind == "family.json" && *damage == Damage::Deleted) {
                            let (exit, code) = machine.fails(&open);
                            assert_eq!((exit, code.as_str()), CORRUPT, "{what}");
                        }
                        drop(damaged);
                        machine.open(&["--read-only"]);
                        assert_eq!(readable(&machine.mountpoint()), FILES, "{what}: it is back");
                        machine.close();
                    }
                }
            }
        }
    }
    println!("{needed} of {total} were needed");
    assert!(needed >= 9 && partly >= 2, "{needed} of {total} were needed, {partly} of them for a part");
    machine.assert_checked();
}

#[test]
fn a_damaged_head_delays_an_open_drive_but_loses_nothing() {
    let bench = Bench::new();
    let machine = bench.machine("a");
    make_by_locks(&bench.path("store"));
    machine.ok(&["drive", "add", "d", "--store", &bench.store()]);
    machine.open(&[]);
    machine.ok(&["drive", "sync", "d"]);
    let head = objects(&bench.path("store/head")).remove(0);
    for (name, damage) in FILES.into_iter().zip(DAMAGES) {
        write_synced(&machine.mountpoint().join(name), &content(name));
        let damaged = Damaged::new(&head, damage);
        let syncing = machine.begin(&["drive", "sync", "d"]);
        machine.status_when(format!("in trouble for HEAD ({damage:?})"), |status| {
            status["reason"].as_str().is_some_and(|reason| reason.contains("head/"))
        });
        drop(damaged);
        syncing.ok();
    }
    machine.close();
    machine.assert_checked();
    machine.open(&["--read-only"]);
    assert_eq!(readable(&machine.mountpoint()), FILES);
    machine.close();
}

/// With claims, a commit does not read the record before it.
#[test]
fn the_next_commit_replaces_a_damaged_head_with_claims() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    for (name, damage) in FILES.into_iter().zip([Damage::BitFlipped, Damage::CutShort]) {
        machine.ok(&["drive", "sync", "d"]);
        let records = objects(&bench.path("store/head"));
        let _damaged = Damaged::new(records.last().unwrap(), damage);
        write_synced(&machine.mountpoint().join(name), &content(name));
        machine.ok(&["drive", "sync", "d"]);
    }
    machine.close();
    machine.assert_checked();
}

/// A drive that was closed with all files only in the journal.
fn with_unsent_files(bench: &Bench) -> Machine {
    let machine = bench.with_drive();
    machine.open(&[]);
    machine.ok(&["drive", "sync", "d"]);
    machine.ok(&["drive", "pause", "d"]);
    for name in FILES {
        write_synced(&machine.mountpoint().join(name), &content(name));
    }
    machine.ok(&["drive", "close", "d"]);
    machine.ok(&["daemon", "stop"]);
    machine
}

fn assert_all_there(machine: &Machine) {
    machine.open(&[]);
    assert_eq!(readable(&machine.mountpoint()), FILES);
    machine.ok(&["drive", "resume", "d"]);
    machine.close();
    machine.assert_checked();
}

fn damage_the_journal(damage: Damage) {
    let bench = Bench::new();
    let machine = with_unsent_files(&bench);
    let at = machine.mountpoint().display().to_string();
    let open = ["drive", "open", "d", "--attach", "loop", "--at", &at];
    let (file, place) = find_in_journal(&machine, "second");
    let damaged = Damaged::at(&file, damage, place);
    let (exit, code) = machine.fails(&open);
    assert_eq!((exit, code.as_str()), CORRUPT);
    // It is not forgotten by accident either.
    assert_eq!(machine.fails(&["drive", "remove", "d", "--yes"]).0, CORRUPT.0);
    machine.ok(&["daemon", "stop"]);
    drop(damaged);
    assert_all_there(&machine);
}

/// The journal file, and the offset in it, that holds the middle of a file.
fn find_in_journal(machine: &Machine, name: &str) -> (PathBuf, usize) {
    let needle = &content(name)[1 << 20..][..64];
    let found = objects(&machine.state.join("drives/d/journal")).into_iter().find_map(|file| {
        let bytes = fs::read(&file).unwrap();
        memchr::memmem::find(&bytes, needle).map(|at| (file, at))
    });
    found.expect("the journal holds it")
}

#[test]
fn a_bit_flipped_journal_is_reported_and_loses_nothing() {
    damage_the_journal(Damage::BitFlipped);
}

#[test]
fn a_truncated_journal_is_reported_and_loses_nothing() {
    damage_the_journal(Damage::CutShort);
}

#[test]
fn a_deleted_journal_is_reported_and_loses_nothing() {
    damage_the_journal(Damage::Deleted);
}

#[test]
fn a_damaged_cache_is_rebuilt() {
    let bench = Bench::new();
    drop(with_files(&bench));
    // The journal could hide that the cache has lost something.
    let machine = bench.machine("b");
    machine.ok(&["drive", "add", "d", "--store", &bench.store()]);
    machine.open(&[]);
    assert_eq!(readable(&machine.mountpoint()), FILES);
    machine.close();
    for name in ["bitmap", "blocks"] {
        for damage in DAMAGES {
            if (name, damage) == ("blocks", Damage::BitFlipped) {
                // Data without a checksum, as on any disk.
                continue;
            }
            machine.ok(&["daemon", "stop"]);
            let found = objects(&machine.cache);
            let file = found.iter().find(|path| path.ends_with(name)).unwrap();
            // The cache is rebuilt, not restored.
            std::mem::forget(Damaged::new(file, damage));
            machine.open(&[]);
            assert_eq!(readable(&machine.mountpoint()), FILES, "{damage:?} {name}");
            machine.close();
        }
    }
    machine.assert_checked();
}

#[test]
fn damaged_registry_files_are_reported_and_lose_nothing() {
    let bench = Bench::new();
    let machine = with_unsent_files(&bench);
    let at = machine.mountpoint().display().to_string();
    let open = ["drive", "open", "d", "--attach", "loop", "--at", &at];
    for name in ["drive.json", "key", "config.json"] {
        let file = machine.state.join("drives/d").join(name);
        let damaged = Damaged::new(&file, Damage::CutShort);
        let (exit, code) = machine.fails(&open);
        assert_eq!((exit, code.as_str()), CORRUPT, "{name}");
        machine.ok(&["daemon", "stop"]);
        drop(damaged);
    }
    assert_all_there(&machine);
}

/// The next daemon after the kill finds the damage, reports it as long as it is there, and then continues.
#[test]
fn reopens_a_killed_daemons_drive_once_its_journal_is_whole() {
    let bench = Bench::new();
    let machine = bench.with_drive();
    machine.open(&[]);
    machine.ok(&["drive", "sync", "d"]);
    machine.ok(&["drive", "pause", "d"]);
    for name in FILES {
        write_synced(&machine.mountpoint().join(name), &content(name));
    }
    let held = machine.killed(machine.pid());
    let (file, at) = find_in_journal(&machine, "first");
    let damaged = Damaged::at(&file, Damage::BitFlipped, at);
    drop(held);
    machine.status_when("damaged", |status| {
        status["state"] == "Needs attention" && status["reason"].as_str().unwrap().contains("damaged")
    });
    drop(damaged);
    machine.status_when("taken up", |status| status["state"] == "Paused");
    assert_eq!(readable(&machine.mountpoint()), FILES);
    machine.ok(&["drive", "resume", "d"]);
    machine.close();
    machine.assert_checked();
}
