//! A copy of the store from any moment is a whole drive on its own. A computer that has never seen the drive opens it, ext4 finds
//! no errors once its journal is replayed, and every file that was fsynced before the version's cut is there, byte for byte.

use crate::bench::{Bench, Machine, Random, Tmpfs, assert_ext4_clean, run, wait_until};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs::{self, File};

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const DIRECTORIES: u64 = 4;
const NAMES: u64 = 60;
const FILE_BYTES_MAX: u64 = 200_000;

/// A file's contents, and the count of its changes.
#[derive(Clone, PartialEq)]
pub struct Known {
    pub content: Vec<u8>,
    change: u64,
}

/// A random workload, and what it knows of its files.
pub struct Workload {
    root: PathBuf,
    random: Random,
    /// Whether it leaves the first directory alone.
    spares: bool,
    changes: u64,
    files: BTreeMap<String, Known>,
    /// The confirmed files: covered by an fsync, and not changed since.
    pub fsynced: BTreeMap<String, Known>,
}

impl Workload {
    pub fn new(root: &Path, seed: u64) -> Self {
        for directory in 0..DIRECTORIES {
            fs::create_dir(root.join(format!("dir{directory}"))).unwrap();
        }
        File::open(root).unwrap().sync_all().unwrap();
        let (files, fsynced) = (BTreeMap::new(), BTreeMap::new());
        Workload { root: root.to_owned(), random: Random(seed), spares: false, changes: 0, files, fsynced }
    }

    fn any_name(&mut self) -> String {
        let from = u64::from(self.spares);
        format!("dir{}/file{}", from + self.random.below(DIRECTORIES - from), self.random.below(NAMES))
    }

    fn any_file(&mut self) -> Option<String> {
        let names = self.files.keys().filter(|name| !self.spares || !name.starts_with("dir0/"));
        let names: Vec<_> = names.collect();
        names.get(self.random.below(names.len().max(1) as u64) as usize).map(|name| (*name).clone())
    }

    /// From here on the file may be in its old or its new state, until it is fsynced.
    fn changed(&mut self, name: &str, content: Option<Vec<u8>>) {
        self.changes += 1;
        self.fsynced.remove(name);
        match content {
            Some(content) => {
                drop(self.files.insert(name.to_owned(), Known { content, change: self.changes }))
            }
            None => drop(self.files.remove(name)),
        }
    }

    pub fn step(&mut self) {
        match (self.random.below(10), self.any_file()) {
            (0..=2, _) | (_, None) => self.create(),
            (3..=4, Some(name)) => self.overwrite(&name),
            (5, Some(name)) => self.rename(&name),
            (6, Some(name)) => self.remove(&name),
            (_, Some(name)) => self.fsync(&name),
        }
    }

    /// Runs this many steps, and from then on leaves the first directory alone. Returns the files that are fsynced then. At least
    /// one of them is in that directory, whatever the steps were.
    pub fn steps_and_spares(&mut self, steps: usize) -> BTreeMap<String, Known> {
        self.spares = false;
        (0..steps).for_each(|_| self.step());
        self.write("dir0/file0");
        self.fsync("dir0/file0");
        self.spares = true;
        self.fsynced.clone()
    }

    fn create(&mut self) {
        let name = self.any_name();
        self.write(&name);
    }

    fn write(&mut self, name: &str) {
        let len = self.random.below(FILE_BYTES_MAX) as usize;
        let content = self.random.bytes(len);
        fs::write(self.root.join(name), &content).unwrap();
        self.changed(name, Some(content));
    }

    fn overwrite(&mut self, name: &str) {
        let mut content = self.files[name].content.clone();
        let at = self.random.below(content.len() as u64 + 1) as usize;
        let len = self.random.below(30_000) as usize;
        let new = self.random.bytes(len);
        let file = File::options().write(true).open(self.root.join(name)).unwrap();
        file.write_all_at(&new, at as u64).unwrap();
        content.resize(content.len().max(at + len), 0);
        content[at..at + len].copy_from_slice(&new);
        self.changed(name, Some(content));
    }

    fn rename(&mut self, name: &str) {
        let to = self.any_name();
        fs::rename(self.root.join(name), self.root.join(&to)).unwrap();
        if to != name {
            let content = self.files[name].content.clone();
            self.changed(name, None);
            self.changed(&to, Some(content));
        }
    }

    fn remove(&mut self, name: &str) {
        fs::remove_file(self.root.join(name)).unwrap();
        self.changed(name, None);
    }

    /// Syncs its contents and its name.
    fn fsync(&mut self, name: &str) {
        let path = self.root.join(name);
        File::open(&path).unwrap().sync_all().unwrap();
        File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
        self.fsynced.insert(name.to_owned(), self.files[name].clone());
    }
}

/// Copies the store as it is at this moment. Objects never change in place, so a link is a copy. HEAD is copied first, since it
/// names only objects that exist already.
fn copy_store(from: &Path, to: &Path) {
    let from = from.display();
    run("cp", &["-al", &format!("{from}/family.json"), &format!("{from}/head"), &to.display().to_string()]);
    for rest in ["keys", "root", "seg"] {
        if Path::new(&format!("{from}/{rest}")).exists() {
            // An object that does not exist yet or no longer exists belongs to a version in the making.
            run("cp", &["-al", &format!("{from}/{rest}"), &to.display().to_string()]);
        }
    }
}

/// Checks a copy of the store on a computer that has never seen the drive.
fn assert_whole(bench: &Bench, name: &str, encrypted: bool, expected: &BTreeMap<String, Known>, exact: bool) {
    let store = format!("file://{}", bench.text(&format!("{name}.store")));
    let machine = bench.machine(name);
    let passphrase = bench.text("passphrase");
    let add: &[&str] = &["drive", "add", "d", "--store", &store];
    match encrypted {
        true => machine.ok(&[add, &["--passphrase-file", &passphrase]].concat()),
        false => machine.ok(add),
    };
    let opened = machine.open(&["--read-only"]);
    // The mount has replayed ext4's journal. A copy is checked, since the device is in use.
    let image = bench.path(&format!("{name}.image"));
    let device = opened["block_device"].as_str().unwrap();
    run("cp", &["--sparse=always", device, &image.display().to_string()]);
    assert_ext4_clean(&image);
    fs::remove_file(&image).unwrap();
    for (file, known) in expected {
        let found = fs::read(machine.mountpoint().join(file));
        let found = found.unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
        assert!(found == known.content, "{name}: {file} differs");
    }
    if exact {
        let count =
            |directory| fs::read_dir(machine.mountpoint().join(format!("dir{directory}"))).unwrap().count();
        assert_eq!((0..DIRECTORIES).map(count).sum::<usize>(), expected.len(), "{name}");
    }
    machine.close();
    machine.assert_checked();
}

struct Subject<'a> {
    bench: &'a Bench,
    machine: &'a Machine,
    encrypted: bool,
}

impl Subject<'_> {
    fn copy(&self, name: &str) {
        let to = self.bench.path(&format!("{name}.store"));
        fs::create_dir(&to).unwrap();
        copy_store(&self.bench.path("store"), &to);
    }

    /// Everything written before a completed sync is in its version.
    fn after_a_sync(&self, name: &str, work: &Workload) {
        self.machine.ok(&["drive", "sync", "d"]);
        self.copy(name);
        assert_whole(self.bench, name, self.encrypted, &work.files, true);
    }

    /// Everything fsynced is in a later push, whatever caused the push: here a journal that is half full.
    fn after_a_background_commit(&self, name: &str, work: &mut Workload) {
        let before = self.machine.status();
        let names: Vec<_> = work.files.keys().cloned().collect();
        names.iter().for_each(|name| work.fsync(name));
        let filler = File::create(work.root.join("filler")).unwrap();
        let limit = before["journal_limit_bytes"].as_u64().unwrap();
        for piece in 0..(limit / 2) >> 20 {
            filler.write_all_at(&[piece as u8; 1 << 20], piece << 20).unwrap();
        }
        filler.sync_all().unwrap();
        // The filler came last: once half of it is pushed, so is everything before it.
        self.machine.status_when("pushed", |status| {
            status["root"] != before["root"] && status["unpushed_bytes"].as_u64().unwrap() < limit / 4
        });
        self.copy(name);
        assert_whole(self.bench, name, self.encrypted, &work.fsynced, false);
        fs::remove_file(work.root.join("filler")).unwrap();
    }

    /// At any moment of work and pushes: the files that were fsynced before the last completed sync, and not changed until the
    /// copy was made.
    fn in_the_middle(&self, name: &str, work: Workload) -> Workload {
        let (work, stop) = (Mutex::new(work), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let _stop = StopAtTheEnd(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let mut work = work.lock();
                    work.step();
                    // Otherwise a thread that wants to look at it could wait forever.
                    MutexGuard::unlock_fair(work);
                }
            });
            for round in 0..3 {
                let before = work.lock().steps_and_spares(50);
                self.machine.ok(&["drive", "sync", "d"]);
                let mut pushing = self.machine.begin(&["drive", "sync", "d"]);
                let moment = self.bench.path("store");
                if round > 0 {
                    // Once it has put some of it, but perhaps not all.
                    let objects = || count_files(&moment);
                    let begun = objects();
                    wait_until("a push is under way", || objects() > begun || !pushing.is_running()).unwrap();
                }
                let name = format!("{name}-{round}");
                self.copy(&name);
                let mut expected = before;
                let after = work.lock().fsynced.clone();
                expected.retain(|file, known| after.get(file).is_some_and(|now| now == known));
                pushing.ok();
                assert!(!expected.is_empty());
                assert_whole(self.bench, &name, self.encrypted, &expected, false);
            }
        });
        let mut work = work.into_inner();
        work.spares = false;
        work
    }
}

/// Sets the flag however the test ends. Otherwise the worker threads would never end.
pub struct StopAtTheEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn count_files(directory: &Path) -> usize {
    fs::read_dir(directory.join("seg")).map_or(0, |shards| {
        shards.map(|shard| fs::read_dir(shard.unwrap().path()).map_or(0, Iterator::count)).sum()
    })
}

fn every_version_is_whole(encrypted: bool, seed: u64) {
    println!("seed {seed}");
    let bench = Bench::new();
    // A disk this small has the smallest journal, which is soon half full.
    let tmpfs = Tmpfs::new(bench.path("local"), 2048);
    let mut machine = bench.machine("a");
    (machine.state, machine.cache) = (bench.path("local/state"), bench.path("local/cache"));
    let (store, passphrase, key) = (bench.store(), bench.text("passphrase"), bench.text("key"));
    let create: &[&str] = &["drive", "create", "d", "--store", &store, "--size", "256M"];
    let with: &[&str] = match encrypted {
        true => &["--passphrase-file", &passphrase, "--recovery-key-out", &key],
        false => &["--no-encryption"],
    };
    machine.ok(&[create, with].concat());
    machine.open(&[]);
    let mut work = Workload::new(&machine.mountpoint(), seed);
    let subject = Subject { bench: &bench, machine: &machine, encrypted };
    (0..150).for_each(|_| work.step());
    subject.after_a_sync("sync", &work);
    (0..150).for_each(|_| work.step());
    subject.after_a_background_commit("background", &mut work);
    work = subject.in_the_middle("middle", work);
    // And a daemon that is killed anywhere in a push. Nothing touches the store afterwards.
    let before = work.fsynced.clone();
    machine.ok(&["drive", "sync", "d"]);
    (0..150).for_each(|_| work.step());
    let pushing = machine.begin(&["drive", "sync", "d"]);
    crate::bench::kill(machine.pid());
    pushing.abandon();
    subject.copy("killed");
    let mut expected = before;
    expected.retain(|file, known| work.fsynced.get(file).is_some_and(|now| now == known));
    // Not earlier: e2fsck looks at every mount of the computer, and would wait for the mount of the dead daemon.
    machine.taken_up();
    assert_whole(&bench, "killed", encrypted, &expected, false);
    machine.close();
    machine.assert_checked();
    drop(machine);
    drop(tmpfs);
}

#[test]
fn every_version_of_an_encrypted_drive_is_whole() {
    every_version_is_whole(true, seed(11));
}

#[test]
fn every_version_of_an_unencrypted_drive_is_whole() {
    every_version_is_whole(false, seed(12));
}

pub fn seed(usual: u64) -> u64 {
    std::env::var("HOLDALL_SEED").map_or(usual, |seed| seed.parse().unwrap())
}
