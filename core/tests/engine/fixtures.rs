//! Data of earlier versions of the program, kept as bytes under `tests/data/v<format>`. Every later version must read it.
//!
//! A fixture is a store and one device that was killed with writes that the store does not have. `just fixtures` writes those of
//! the current format where they are missing. Existing fixtures are never written again.

use holdall_core::device::{BlockDevice, Durability, Zeroing};
use holdall_core::disk::real::Directory;
use holdall_core::drive;
use holdall_core::family::{self, FamilyError, Unlocked};
use holdall_core::format::FormatError;
use holdall_core::format::family::{FORMAT, Mode};
use holdall_core::format::head::Head;
use holdall_core::format::root::Geometry;
use holdall_core::journal::Limits;
use holdall_core::keys::{RecoveryKey, Secret};
use holdall_core::map::{Objects, PageCache, ReadError};
use holdall_core::push::Device;
use holdall_core::store::Store;
use holdall_core::store::file::FileStore;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{
    self, Access, Environment, OpenError, TakeOver, Volume, VolumeDevice, VolumeLimits,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use uuid::Uuid;
use zeroize::Zeroizing;

const BLOCKS: u64 = 32;
/// The smallest drive with several map pages, so that a fixture takes some tens of KiB.
const GEOMETRY: Geometry =
    Geometry { size_blocks: BLOCKS, frame_blocks: 4, page_blocks: 16, segment_bytes: 8 << 10 };
const LIMITS: VolumeLimits = VolumeLimits {
    journal: Limits { file_bytes: 40 << 10, files: 8, reserve_files: 2 },
    cache_bytes: 1 << 20,
    batch_bytes: 1 << 20,
    tail_segments: 64,
    metadata_first: true,
    push_paused: false,
    pull_paused: false,
};
const PASSPHRASE: &str = "correct horse battery staple";
const SNAPSHOT: &str = "kept";
/// The kinds of store.
const KINDS: [&str; 2] = ["plain", "encrypted"];

/// One byte for each block, which fills the whole block: in the snapshot, in the store, and on the device, which also has writes
/// that are not in the store.
const IN_SNAPSHOT: &[u8; BLOCKS as usize] = b"aaaaaaaa........................";
const IN_STORE: &[u8; BLOCKS as usize] = b"aabbb..a........dddd............";
const ON_DEVICE: &[u8; BLOCKS as usize] = b"aabbe..a.......ee.dd...........e";

fn data(format: u64, kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/v{format}")).join(kind)
}

fn device(name: &str) -> Device {
    Device { id: Uuid::from_u128(u128::from(name.as_bytes()[0])), name: name.to_owned() }
}

/// A fixture, or one in the making, in its own directory.
struct Place {
    dir: TempDir,
    store: Arc<FileStore>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(FileStore::new(dir.path().join("store"), &DriveNames));
        Self { dir, store }
    }

    fn of(format: u64, kind: &str) -> Self {
        let place = Self::new();
        copy(&data(format, kind), place.dir.path());
        place
    }

    fn environment(&self, device: &str, unlocked: &Unlocked) -> Environment {
        let at = |what: &str| -> Arc<Directory> {
            Arc::new(Directory::create(&self.dir.path().join(device).join(what)).unwrap())
        };
        Environment {
            state: at("state"),
            journal: at("journal"),
            cache: at("cache"),
            store: self.store.clone(),
            meter: Meter::default(),
            sealer: unlocked.sealer.clone(),
            pages: PageCache::none(),
        }
    }

    async fn open(&self, name: &str, unlocked: &Unlocked, drive: Uuid) -> Result<Arc<Volume>, OpenError> {
        let access = Access::Write { over: TakeOver::Nobody, mounted: false };
        volume::open(self.environment(name, unlocked), drive, device(name), access, LIMITS).await
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn contents(volume: &Arc<Volume>) -> String {
    let mut found = String::new();
    for block in 0..BLOCKS {
        let range = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
        let lease = VolumeDevice(volume.clone()).read(range).wait().await.unwrap();
        let mut data = vec![0; BLOCK_BYTES as usize];
        lease.copy_to(&mut data).unwrap();
        assert!(data.iter().all(|byte| *byte == data[0]), "block {block} is torn");
        found.push(if data[0] == 0 { '.' } else { char::from(data[0]) });
    }
    found
}

fn text(expected: &[u8]) -> String {
    String::from_utf8(expected.to_vec()).unwrap()
}

fn passphrase(text: &str) -> Option<Secret> {
    Some(Secret::Passphrase(Zeroizing::new(text.to_owned())))
}

async fn check(format: u64, kind: &str) {
    let place = Place::of(format, kind);
    let store = &*place.store;
    let secret = (kind == "encrypted").then(|| passphrase(PASSPHRASE)).flatten();
    let unlocked = family::unlock(store, secret).await.unwrap();
    if kind == "encrypted" {
        let written = std::fs::read_to_string(place.dir.path().join("recovery")).unwrap();
        let recovery = Secret::Recovery(RecoveryKey::from_text(&written).unwrap());
        assert_eq!(family::unlock(store, Some(recovery)).await.unwrap().key.0, unlocked.key.0);
        assert!(matches!(family::unlock(store, passphrase("wrong")).await, Err(FamilyError::WrongSecret)));
        assert!(matches!(family::unlock(store, None).await, Err(FamilyError::SecretNeeded)));
    }
    let head = drive::heads(store, &unlocked.sealer).await.unwrap().remove(0);
    let bytes = store.get(&holdall_core::format::head::name(head.drive), None).await.unwrap().bytes;
    assert_eq!(Head::decode(&unlocked.sealer, &bytes).unwrap().encode(&unlocked.sealer), bytes);

    let objects = Arc::new(Objects::new(place.store.clone(), unlocked.sealer.clone(), PageCache::none()));
    assert_eq!(drive::check::check(&objects, head.drive, &|_, _| {}).await.unwrap().errors, [""; 0]);
    let root = objects.root(head.root, Some(head.root_hash)).await.unwrap();
    let has_all = !root.pages.is_empty() && root.usage.is_some() && root.tail.len() == 1;
    assert!(has_all, "pages, a usage table and a tail: {root:?}");
    let kept = drive::snapshot(&root, SNAPSHOT).unwrap();
    let versions = [(IN_SNAPSHOT, (kept.root, kept.root_hash)), (IN_STORE, (head.root, head.root_hash))];
    for (at, (expected, root)) in versions.into_iter().enumerate() {
        let environment = place.environment(&format!("looker {at}"), &unlocked);
        let looked = volume::open(environment, head.drive, device("l"), Access::Look { root }, LIMITS).await;
        assert_eq!(contents(&looked.unwrap()).await, text(expected));
    }

    let volume = place.open("a", &unlocked, head.drive).await.unwrap();
    assert!(volume.cache().valid().count_all() >= 8, "the cache of then is believed");
    assert!(volume.has_unsent(), "so is the journal");
    assert_eq!(contents(&volume).await, text(ON_DEVICE));
    volume.release().await.unwrap();
    volume.shut_down().await.unwrap();
    let volume = place.open("b", &unlocked, head.drive).await.unwrap();
    assert_eq!(contents(&volume).await, text(ON_DEVICE), "what was only there is everywhere now");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_every_format_so_far_byte_for_byte() {
    for format in 1..=FORMAT {
        for kind in KINDS {
            check(format, kind).await;
        }
    }
}

async fn write(volume: &Arc<Volume>, blocks: std::ops::Range<u64>, byte: u8) {
    let data = vec![byte; ((blocks.end - blocks.start) * BLOCK_BYTES) as usize];
    let device = VolumeDevice(volume.clone());
    device.write(blocks.start * BLOCK_BYTES, &data, Durability::Forced).wait().await.unwrap();
}

async fn zero(volume: &Arc<Volume>, blocks: std::ops::Range<u64>) {
    let bytes = blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES;
    let zero = VolumeDevice(volume.clone()).zero(bytes, Zeroing::MayPunch, Durability::Forced);
    zero.wait().await.unwrap();
}

/// Makes the fixture of `kind` in the current format.
async fn make(kind: &str) -> Place {
    let place = Place::new();
    place.store.prepare().await.unwrap();
    let secret = (kind == "encrypted").then(|| Zeroizing::new(PASSPHRASE.to_owned()));
    let (unlocked, recovery) = family::create(&*place.store, secret, Mode::Swap).await.unwrap();
    if let Some(recovery) = recovery {
        std::fs::write(place.dir.path().join("recovery"), recovery.to_text()).unwrap();
    }
    let (id, sealer) = (unlocked.family.family, unlocked.sealer.clone());
    let drive = drive::create(&*place.store, &sealer, id, "photos", GEOMETRY, &device("a")).await.unwrap();
    let volume = place.open("a", &unlocked, drive).await.unwrap();
    let pusher = volume.pusher().unwrap();
    write(&volume, 0..8, b'a').await;
    pusher.snapshot(SNAPSHOT).await.unwrap();
    write(&volume, 2..6, b'b').await;
    zero(&volume, 5..7).await;
    // A collection writes the map's pages and the usage table.
    pusher.collect().await.unwrap();
    write(&volume, 16..20, b'd').await;
    pusher.sync().await.unwrap();
    volume.settle().await.unwrap();
    pusher.set_paused(true);
    write(&volume, 4..5, b'e').await;
    write(&volume, 15..17, b'e').await;
    zero(&volume, 17..18).await;
    write(&volume, 31..32, b'e').await;
    // Leaves everything as a killed process does: its tasks end wherever they are.
    drop(volume);
    place
}

#[tokio::test]
#[ignore = "writes the fixtures of today's format: just fixtures"]
async fn regenerate() {
    for kind in KINDS {
        let target = data(FORMAT, kind);
        assert!(!target.exists(), "{} is there: what was released stays as it is", target.display());
        let place = make(kind).await;
        for leftover in ["store/.tmp", "store/.lock"] {
            let path = place.dir.path().join(leftover);
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
        // Spare files of the journal are zeros, and are created again.
        for entry in std::fs::read_dir(place.dir.path().join("a/journal")).unwrap() {
            let path = entry.unwrap().path();
            if std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0) {
                std::fs::remove_file(path).unwrap();
            }
        }
        copy(place.dir.path(), &target);
    }
}

#[tokio::test]
async fn refuses_a_family_of_a_newer_format() {
    let place = Place::of(FORMAT, "plain");
    let path = place.dir.path().join("store/family.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"format\": 1", "\"format\": 3")).unwrap();
    let error = family::unlock(&*place.store, None).await.err().unwrap();
    let newer = FormatError::Newer { found: 3, known: 2 };
    assert!(
        matches!(&error, FamilyError::Read(ReadError::Format { error, .. }) if *error == newer),
        "{error}"
    );
    assert!(error.to_string().contains("newer than this program knows"), "{error}");
}

/// An object whose envelope names a later version stops every reader.
#[tokio::test]
async fn refuses_objects_of_a_newer_format() {
    for directory in ["head", "root", "seg"] {
        let place = Place::of(FORMAT, "plain");
        let unlocked = family::unlock(&*place.store, None).await.unwrap();
        let drive = drive::heads(&*place.store, &unlocked.sealer).await.unwrap().remove(0).drive;
        for listed in place.store.list(&format!("{directory}/")).await.unwrap() {
            let path = place.dir.path().join("store").join(&listed.name);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[7] = 2;
            std::fs::write(&path, bytes).unwrap();
        }
        let before = everything(place.dir.path());
        let opened = place.open("a", &unlocked, drive).await;
        // A root is checked against its hash first, so a changed one fails there.
        let expected = match directory {
            "root" => "seal does not check",
            _ => "newer than this program knows",
        };
        let error = opened.err().unwrap().to_string();
        assert!(error.contains(expected), "{directory}: {error}");
        if directory == "head" {
            assert_eq!(everything(place.dir.path()), before);
        }
    }
}

#[tokio::test]
async fn refuses_and_keeps_local_files_of_a_newer_format() {
    let place = Place::of(FORMAT, "plain");
    let unlocked = family::unlock(&*place.store, None).await.unwrap();
    let drive = drive::heads(&*place.store, &unlocked.sealer).await.unwrap().remove(0).drive;
    let path = place.dir.path().join("a/state/drive.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"version\": 1", "\"version\": 3, \"shards\": []")).unwrap();
    let before = everything(place.dir.path());
    let error = place.open("a", &unlocked, drive).await.err().unwrap();
    assert!(matches!(&error, OpenError::Local(_)), "{error}");
    assert!(error.to_string().contains("newer than this program knows"), "{error}");
    assert_eq!(everything(place.dir.path()), before, "journal, cache and store are as they were");
}

/// All files, with their contents.
fn everything(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}
