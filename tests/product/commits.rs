//! Every commit is a whole file system. A random workload leaves versions in the store, committed for any reason. Each version,
//! copied from the store alone, is clean once ext4's own journal is replayed, and has every file that was fsynced before its cut.

use crate::bench::{Bench, assert_ext4_clean, run, wait_until};
use crate::versions::{Known, StopAtTheEnd, Workload, seed};
use holdall_core::device::BlockDevice;
use holdall_core::disk::real::Directory;
use holdall_core::family::{self, Unlocked};
use holdall_core::format::id::{ObjectId, ObjectKind};
use holdall_core::keys::Secret;
use holdall_core::map::PageCache;
use holdall_core::store::Store;
use holdall_core::store::file::FileStore;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{self, Access, Environment, VolumeDevice, VolumeLimits};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

const ROUNDS: usize = 14;
const PIECE_BYTES: u64 = 1 << 20;

/// The files that a version must contain.
type Expected = BTreeMap<String, Known>;

#[test]
fn every_encrypted_commit_is_a_whole_file_system() {
    every_commit_is_whole(true, seed(21));
}

#[test]
fn every_unencrypted_commit_is_a_whole_file_system() {
    every_commit_is_whole(false, seed(22));
}

fn every_commit_is_whole(encrypted: bool, seed: u64) {
    println!("seed {seed}");
    let bench = Bench::new();
    let machine = bench.machine("a");
    let (store, passphrase, key) = (bench.store(), bench.text("passphrase"), bench.text("key"));
    let create: &[&str] = &["drive", "create", "d", "--store", &store, "--size", "256M"];
    let with: &[&str] = match encrypted {
        true => &["--passphrase-file", &passphrase, "--recovery-key-out", &key],
        false => &["--no-encryption"],
    };
    machine.ok(&[create, with].concat());
    machine.open(&[]);
    let (work, stop) = (Mutex::new(Workload::new(&machine.mountpoint(), seed)), AtomicBool::new(false));
    let mut expected: BTreeMap<String, Expected> = BTreeMap::new();
    std::thread::scope(|scope| {
        let _stop = StopAtTheEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let mut work = work.lock();
                work.step();
                MutexGuard::unlock_fair(work);
            }
        });
        for _ in 0..ROUNDS {
            let mut fsynced = work.lock().steps_and_spares(40);
            let synced = machine.ok(&["drive", "sync", "d"]);
            let now = work.lock().fsynced.clone();
            // Files changed meanwhile may or may not be in the version.
            fsynced.retain(|file, known| now.get(file) == Some(known));
            assert!(!fsynced.is_empty());
            expected.insert(synced["root"].as_str().unwrap().to_owned(), fsynced);
        }
    });
    machine.close();

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let commits = runtime.block_on(Commits::of(&bench, encrypted));
    assert!(
        expected.keys().all(|name| commits.names.contains(name)),
        "one of them is gone: {:?}",
        commits.names
    );
    println!("{} commits, {} of them by a sync", commits.names.len(), expected.len());
    // The first version has no file system yet.
    for name in &commits.names[1..] {
        let image = bench.path("image");
        runtime.block_on(commits.copy(&bench, name, &image));
        assert_ext4_clean(&image);
        assert_has(&bench, &image, name, expected.get(name).unwrap_or(&Expected::new()));
        fs::remove_file(&image).unwrap();
    }
}

/// The versions in a store, as seen by a computer that has nothing else.
struct Commits {
    store: Arc<FileStore>,
    unlocked: Unlocked,
    drive: Uuid,
    /// The names of their roots, the first commit first.
    names: Vec<String>,
}

impl Commits {
    async fn of(bench: &Bench, encrypted: bool) -> Self {
        let store = Arc::new(FileStore::new(bench.path("store"), &DriveNames));
        let passphrase = encrypted.then(|| Secret::Passphrase("correct horse".to_owned().into()));
        let unlocked = family::unlock(&*store, passphrase).await.unwrap();
        let listed = store.list("root/").await.unwrap();
        let mut ids: Vec<_> = listed.iter().map(|listed| ObjectId::parse(&listed.name).unwrap().1).collect();
        ids.sort_by_key(|id| (id.epoch, id.seq));
        let drive = ids[0].drive;
        Self { store, unlocked, drive, names: ids.iter().map(|id| id.name(ObjectKind::Root)).collect() }
    }

    async fn copy(&self, bench: &Bench, name: &str, image: &Path) {
        let (_, id) = ObjectId::parse(name).unwrap();
        let object = self.store.get(name, None).await.unwrap().bytes;
        let empty = bench.path("empty");
        let directory = |name| Arc::new(Directory::create(&empty.join(name)).unwrap());
        let env = Environment {
            state: directory("state"),
            journal: directory("journal"),
            cache: directory("cache"),
            store: self.store.clone(),
            meter: Meter::default(),
            sealer: self.unlocked.sealer.clone(),
            pages: PageCache::none(),
        };
        let device =
            holdall_core::push::Device { id: Uuid::from_u128(77), name: "an empty machine".to_owned() };
        let access = Access::Look { root: (id, *blake3::hash(&object).as_bytes()) };
        let limits = VolumeLimits::new(1 << 30, 1 << 30);
        let volume = volume::open(env, self.drive, device, access, limits).await.unwrap();
        let (file, size) = (File::create(image).unwrap(), volume.status().size_bytes);
        file.set_len(size).unwrap();
        let device = VolumeDevice(volume.clone());
        let mut bytes = vec![0; PIECE_BYTES as usize];
        for at in (0..size).step_by(PIECE_BYTES as usize) {
            let end = (at + PIECE_BYTES).min(size);
            let piece = &mut bytes[..(end - at) as usize];
            device.read(at..end).wait().await.unwrap().copy_to(piece).unwrap();
            for (block, at) in piece.chunks(BLOCK_BYTES as usize).zip((at..).step_by(BLOCK_BYTES as usize)) {
                if block.iter().any(|byte| *byte != 0) {
                    file.write_all_at(block, at).unwrap();
                }
            }
        }
        volume.shut_down().await.unwrap();
        drop((device, volume));
        fs::remove_dir_all(&empty).unwrap();
    }
}

fn assert_has(bench: &Bench, image: &Path, name: &str, expected: &Expected) {
    let at = bench.path("version");
    fs::create_dir_all(&at).unwrap();
    run("mount", &["-o", "loop,ro", &image.display().to_string(), &at.display().to_string()]);
    for (file, known) in expected {
        let found = fs::read(at.join(file));
        let found = found.unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
        assert!(found == known.content, "{name}: {file} differs");
    }
    // Programs that look at every mount, such as those of a desktop, may hold this one for a moment.
    let unmounted = || Command::new("umount").arg(&at).status().expect("umount runs").success();
    wait_until("the version is unmounted", unmounted).expect("nothing holds it for long");
}
