//! Operations on drives in a store, run on the embedded store.

use holdall_core::device::{BlockDevice, Durability};
use holdall_core::disk::real::Directory;
use holdall_core::drive::{self, DriveError};
use holdall_core::family::{self, FamilyError, Unlocked};
use holdall_core::format::family::Mode;
use holdall_core::format::root::Geometry;
use holdall_core::keys::Secret;
use holdall_core::map::{Objects, PageCache};
use holdall_core::push::Device;
use holdall_core::store::Store;
use holdall_core::store::file::FileStore;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::volume::{
    self, Access, Environment, OpenError, TakeOver, Volume, VolumeDevice, VolumeLimits,
};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use uuid::Uuid;
use zeroize::Zeroizing;

const MIB: u64 = 1 << 20;

struct Bench {
    dir: TempDir,
    store: Arc<FileStore>,
    unlocked: Unlocked,
    drive: Uuid,
}

fn device(name: &str) -> Device {
    Device { id: Uuid::from_bytes(*blake3_16(name)), name: name.to_owned() }
}

fn blake3_16(name: &str) -> &[u8; 16] {
    let mut bytes = [b'.'; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Box::leak(Box::new(bytes))
}

impl Bench {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(FileStore::new(dir.path().join("store"), &DriveNames));
        store.prepare().await.unwrap();
        let (unlocked, recovery) =
            family::create(&*store, Some(Zeroizing::new("secret".into())), Mode::Swap).await.unwrap();
        assert!(recovery.is_some());
        let geometry = Geometry::standard(64 * MIB / 4096);
        let (sealer, id) = (unlocked.sealer.clone(), unlocked.family.family);
        let drive = drive::create(&*store, &sealer, id, "d", geometry, &device("a")).await.unwrap();
        Self { dir, store, unlocked, drive }
    }

    async fn open(&self, name: &str, drive: Uuid) -> Result<Arc<Volume>, OpenError> {
        let at = |what: &str| -> Arc<Directory> {
            let path = self.dir.path().join(name).join(drive.to_string()).join(what);
            Arc::new(Directory::create(Path::new(&path)).unwrap())
        };
        let env = Environment {
            state: at("state"),
            journal: at("journal"),
            cache: at("cache"),
            store: self.store.clone(),
            meter: Meter::default(),
            sealer: self.unlocked.sealer.clone(),
            pages: PageCache::none(),
        };
        let mut limits = VolumeLimits::new(0, 1 << 30);
        limits.journal.file_bytes = 4 * MIB;
        volume::open(
            env,
            drive,
            device(name),
            Access::Write { over: TakeOver::Nobody, mounted: false },
            limits,
        )
        .await
    }

    fn objects(&self) -> Arc<Objects> {
        let store: Arc<dyn Store> = self.store.clone();
        Arc::new(Objects::new(store, self.unlocked.sealer.clone(), PageCache::none()))
    }
}

async fn write(volume: &Arc<Volume>, at: u64, byte: u8, len: u64) {
    let device = VolumeDevice(volume.clone());
    device.write(at, &vec![byte; len as usize], Durability::Ordered).wait().await.unwrap();
}

async fn read(volume: &Arc<Volume>, at: u64) -> u8 {
    let lease = VolumeDevice(volume.clone()).read(at..at + 1).wait().await.unwrap();
    let mut byte = [0];
    lease.copy_to(&mut byte).unwrap();
    byte[0]
}

async fn close(volume: Arc<Volume>) {
    volume.release().await.unwrap();
    volume.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drive_moves_from_one_machine_to_the_next() {
    let bench = Bench::new().await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    write(&volume, MIB, 7, MIB).await;
    assert!(matches!(bench.open("b", bench.drive).await, Err(OpenError::Held { .. })));
    close(volume).await;
    let volume = bench.open("b", bench.drive).await.unwrap();
    assert_eq!((read(&volume, MIB).await, read(&volume, 0).await), (7, 0));
    write(&volume, 0, 9, 4096).await;
    close(volume).await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    assert_eq!((read(&volume, MIB).await, read(&volume, 0).await), (7, 9));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_restores_a_version_and_keeps_the_current_one() {
    let bench = Bench::new().await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    write(&volume, 0, 1, MIB).await;
    volume.pusher().unwrap().snapshot("one").await.unwrap();
    write(&volume, 0, 2, MIB).await;
    close(volume).await;
    let before = drive::rollback(&bench.objects(), bench.drive, "one", &device("a")).await.unwrap();
    let volume = bench.open("a", bench.drive).await.unwrap();
    assert_eq!(read(&volume, 0).await, 1, "the cache does not show the version before");
    close(volume).await;
    drive::rollback(&bench.objects(), bench.drive, &before, &device("a")).await.unwrap();
    let volume = bench.open("a", bench.drive).await.unwrap();
    assert_eq!(read(&volume, 0).await, 2);
    let missing = drive::rollback(&bench.objects(), bench.drive, "none", &device("a")).await;
    assert!(matches!(missing, Err(DriveError::NoSnapshot { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn opens_a_drive_that_was_far_larger_before_a_rollback() {
    const TIB: u64 = 1 << 40;
    let bench = Bench::new().await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    write(&volume, 0, 1, 4096).await;
    volume.pusher().unwrap().snapshot("small").await.unwrap();
    close(volume).await;
    // Each opening makes room in its bitmaps for the drive to grow.
    for size in [TIB, 2 * TIB] {
        let volume = bench.open("a", bench.drive).await.unwrap();
        volume.grow(size / 4096).await.unwrap();
        write(&volume, size - MIB, 2, 4096).await;
        volume.settle().await.unwrap();
        close(volume).await;
    }
    drive::rollback(&bench.objects(), bench.drive, "small", &device("a")).await.unwrap();
    let volume = bench.open("a", bench.drive).await.unwrap();
    assert_eq!((volume.size_blocks(), read(&volume, 0).await), (64 * MIB / 4096, 1));
    close(volume).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_is_independent_and_outlives_its_source() {
    let bench = Bench::new().await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    write(&volume, 0, 1, MIB).await;
    close(volume).await;
    let clone = drive::clone(&bench.objects(), bench.drive, None, "e", &device("a")).await.unwrap();
    let volume = bench.open("a", clone).await.unwrap();
    assert_eq!(read(&volume, 0).await, 1);
    write(&volume, 0, 2, 4096).await;
    close(volume).await;
    let source = bench.open("a", bench.drive).await.unwrap();
    assert_eq!(read(&source, 0).await, 1);
    write(&source, 0, 3, MIB).await;
    source.pusher().unwrap().sync().await.unwrap();
    source.pusher().unwrap().collect().await.unwrap();
    close(source).await;
    drive::remove(&bench.objects(), bench.drive, &device("a")).await.unwrap();
    assert!(matches!(bench.open("b", bench.drive).await, Err(OpenError::Removed { unsent: 0 })));
    let volume = bench.open("b", clone).await.unwrap();
    assert_eq!((read(&volume, 0).await, read(&volume, 4096).await), (2, 1));
    let checked = drive::check::check(&bench.objects(), clone, &|_, _| {}).await.unwrap();
    assert_eq!(checked.errors, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_takes_a_new_drive_after_its_only_one() {
    let bench = Bench::new().await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    write(&volume, 0, 1, MIB).await;
    close(volume).await;
    let store = &*bench.store;
    let secret = |text: &str| Some(Zeroizing::new(text.to_owned()));
    let made = async |passphrase, mode| family::create(store, passphrase, mode).await;
    assert!(matches!(made(secret("secret"), Mode::Swap).await, Err(FamilyError::Exists)));
    let clone = drive::clone(&bench.objects(), bench.drive, None, "e", &device("a")).await.unwrap();
    drive::remove(&bench.objects(), clone, &device("a")).await.unwrap();
    assert!(matches!(made(secret("secret"), Mode::Swap).await, Err(FamilyError::Exists)), "one of two lives");
    drive::remove(&bench.objects(), bench.drive, &device("a")).await.unwrap();
    // Without the right passphrase nobody can tell whose keys these are.
    for (passphrase, mode) in [(secret("other"), Mode::Swap), (None, Mode::Swap)] {
        assert!(matches!(made(passphrase, mode).await, Err(FamilyError::Left)));
    }
    let before = store.list("keys/").await.unwrap().len();
    let (unlocked, recovery) = made(secret("secret"), Mode::Swap).await.unwrap();
    assert_eq!(unlocked.family, bench.unlocked.family);
    assert_eq!(store.list("keys/").await.unwrap().len(), before, "one recovery key takes the other's place");
    let with_recovery = family::unlock(store, recovery.map(Secret::Recovery)).await;
    assert!(with_recovery.is_ok());
    // A crash before the new drive exists leaves at most a root.
    let geometry = Geometry::standard(64 * MIB / 4096);
    let family_id = unlocked.family.family;
    let another =
        drive::create(store, &unlocked.sealer, family_id, "f", geometry, &device("a")).await.unwrap();
    store.delete(&holdall_core::format::head::name(another)).await.unwrap();
    let (unlocked, _) = made(secret("secret"), Mode::Swap).await.unwrap();
    let another =
        drive::create(store, &unlocked.sealer, family_id, "f", geometry, &device("a")).await.unwrap();
    let volume = bench.open("a", another).await.unwrap();
    write(&volume, 0, 2, 4096).await;
    close(volume).await;
    // Other computers learn what became of the drive that they know.
    assert!(matches!(bench.open("b", bench.drive).await, Err(OpenError::Removed { unsent: 0 })));
    assert!(matches!(made(secret("secret"), Mode::Swap).await, Err(FamilyError::Exists)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_missing_and_damaged_objects() {
    let bench = Bench::new().await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    write(&volume, 0, 1, MIB).await;
    close(volume).await;
    let check = async || drive::check::check(&bench.objects(), bench.drive, &|_, _| {}).await.unwrap();
    assert_eq!(check().await.errors, [""; 0]);
    let segment = bench.store.list("seg/").await.unwrap().remove(0);
    let path = bench.dir.path().join("store").join(&segment.name);
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    assert_eq!(check().await.errors.len(), 1);
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(!check().await.errors.is_empty());
    std::fs::remove_file(&path).unwrap();
    assert!(!check().await.errors.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_frees_unreachable_objects() {
    let bench = Bench::new().await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    for round in 1..=6 {
        write(&volume, 0, round, 4 * MIB).await;
        write(&volume, 8 * MIB + u64::from(round) * 8192, round, 4096).await;
        volume.pusher().unwrap().sync().await.unwrap();
    }
    let collected = volume.pusher().unwrap().collect().await.unwrap();
    assert!(collected.deleted > 5 && collected.bytes_freed > 0, "{collected:?}");
    let again = volume.pusher().unwrap().collect().await.unwrap();
    assert!(again.garbage_bytes == 0, "{again:?}");
    close(volume).await;
    let checked = drive::check::check(&bench.objects(), bench.drive, &|_, _| {}).await.unwrap();
    assert_eq!(checked.errors, [""; 0]);
    let volume = bench.open("b", bench.drive).await.unwrap();
    assert_eq!(read(&volume, 0).await, 6);
    for round in 1..=6 {
        assert_eq!(read(&volume, 8 * MIB + round * 8192).await, round as u8);
    }
}

#[tokio::test]
async fn a_family_opens_with_any_of_its_secrets() {
    let bench = Bench::new().await;
    let store = &*bench.store;
    let pass = |text: &str| Some(Secret::Passphrase(Zeroizing::new(text.to_owned())));
    assert!(family::unlock(store, pass("secret")).await.is_ok());
    assert!(matches!(family::unlock(store, pass("wrong")).await, Err(FamilyError::WrongSecret)));
    assert!(matches!(family::unlock(store, None).await, Err(FamilyError::SecretNeeded)));
    assert!(matches!(family::create(store, None, Mode::Swap).await, Err(FamilyError::Exists)));
    family::change_passphrase(store, &bench.unlocked, Zeroizing::new("new".into())).await.unwrap();
    assert!(matches!(family::unlock(store, pass("secret")).await, Err(FamilyError::WrongSecret)));
    assert!(family::unlock(store, pass("new")).await.is_ok());
    let (first, _) = family::new_recovery_key(store, &bench.unlocked).await.unwrap();
    let (second, deleted) = family::new_recovery_key(store, &bench.unlocked).await.unwrap();
    deleted.unwrap();
    let by = |key| family::unlock(store, Some(Secret::Recovery(key)));
    assert!(matches!(by(first).await, Err(FamilyError::WrongSecret)), "the one before");
    assert!(by(second).await.is_ok() && family::unlock(store, pass("new")).await.is_ok());
    assert_eq!(store.list("keys/").await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn finishes_creating_a_family_whose_creator_died() {
    for died_with_a_root in [false, true] {
        let bench = Bench::new().await;
        let store = &*bench.store;
        for listed in store.list("head/").await.unwrap() {
            store.delete(&listed.name).await.unwrap();
        }
        if !died_with_a_root {
            for listed in store.list("root/").await.unwrap() {
                store.delete(&listed.name).await.unwrap();
            }
        }
        let create = |text: &str| family::create(store, Some(Zeroizing::new(text.to_owned())), Mode::Swap);
        for other in [create("another"), family::create(store, None, Mode::Swap)] {
            assert!(matches!(other.await, Err(FamilyError::Unfinished)));
        }
        let (unlocked, recovery) = create("secret").await.unwrap();
        assert_eq!(unlocked.family.family, bench.unlocked.family.family);
        let (geometry, id) = (Geometry::standard(64 * MIB / 4096), unlocked.family.family);
        drive::create(store, &unlocked.sealer, id, "d", geometry, &device("a")).await.unwrap();
        // The new recovery key works, and a finished family is not created again.
        let secret = Some(Secret::Recovery(recovery.unwrap()));
        assert!(family::unlock(store, secret).await.is_ok());
        assert!(matches!(create("secret").await, Err(FamilyError::Exists)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_of_an_earlier_opening_cannot_fill_the_cache() {
    let bench = Bench::new().await;
    let volume = bench.open("a", bench.drive).await.unwrap();
    write(&volume, 0, 1, MIB).await;
    let cache = volume.cache().clone();
    close(volume).await;
    let next = bench.open("a", bench.drive).await.unwrap();
    write(&next, 0, 9, 4096).await;
    next.settle().await.unwrap();
    // As a late pull of the earlier opening does it: in its own bitmap the block is absent.
    let block = holdall_core::units::BlockRange::new(0, 1);
    cache.valid().clear(block);
    assert!(cache.fill(block, &[1; 4096]).is_err());
    assert_eq!(read(&next, 0).await, 9);
}
