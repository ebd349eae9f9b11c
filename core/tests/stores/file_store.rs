//! The file store's promises to the engine.

use bytes::Bytes;
use holdall_core::store::claims::Claims;
use holdall_core::store::file::{FileStore, Limits};
use holdall_core::store::names::DriveNames;
use holdall_core::store::pace::{Direction, Pacer};
use holdall_core::store::{Store, StoreError, When};
use rustix::fs::{FileType, Mode};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

async fn store() -> (TempDir, Arc<FileStore>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(dir.path().join("store"), &DriveNames));
    store.prepare().await.unwrap();
    store.put("family.json", Bytes::from_static(b"{}"), When::Absent).await.unwrap();
    (dir, store)
}

#[tokio::test]
async fn a_put_is_read_back_whole_and_in_ranges() {
    let (_dir, store) = store().await;
    let etag = store.put("seg/aa/x", Bytes::from_static(b"0123456789"), When::Always).await.unwrap();
    let whole = store.get("seg/aa/x", None).await.unwrap();
    assert_eq!((&whole.bytes[..], whole.etag), (&b"0123456789"[..], etag));
    assert_eq!(&store.get("seg/aa/x", Some(2..5)).await.unwrap().bytes[..], b"234");
    assert!(matches!(store.get("seg/aa/x", Some(5..11)).await, Err(StoreError::Damaged { .. })));
    assert_eq!(store.head("seg/aa/x").await, Ok(10));
    assert!(matches!(store.get("seg/aa/y", None).await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_bandwidth_limit_applies_to_a_directory_too() {
    const BYTES: usize = 512 << 10;
    let pacer = Pacer::new();
    let (dir, _) = store().await;
    let store = FileStore::new(dir.path().join("store"), &DriveNames).paced(&pacer);
    pacer.set(Direction::Up, Some(1 << 20));
    let begun = Instant::now();
    store.put("seg/aa/x", vec![7; BYTES].into(), When::Always).await.unwrap();
    assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
    std::fs::rename(dir.path().join("store"), dir.path().join("away")).unwrap();
    let begun = Instant::now();
    let away = store.put("seg/aa/y", vec![7; BYTES].into(), When::Always).await;
    assert!(matches!(away, Err(StoreError::Unreachable { .. })), "{away:?}");
    assert!(begun.elapsed() < Duration::from_millis(400), "nothing of the limit is spent on it");
    std::fs::rename(dir.path().join("away"), dir.path().join("store")).unwrap();
    pacer.set(Direction::Down, Some(2 << 20));
    let begun = Instant::now();
    assert_eq!(store.get("seg/aa/x", None).await.unwrap().bytes.len(), BYTES);
    assert!(begun.elapsed() > Duration::from_millis(200), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn conditions_hold() {
    let (_dir, store) = store().await;
    let put = |body: &'static str, when| store.put("head/1", Bytes::from(body), when);
    let first = put("1", When::Absent).await.unwrap();
    assert!(matches!(put("2", When::Absent).await, Err(StoreError::Precondition { .. })));
    let second = put("2", When::Matches(first.clone())).await.unwrap();
    assert!(matches!(put("3", When::Matches(first)).await, Err(StoreError::Precondition { .. })));
    assert_eq!(&store.get("head/1", None).await.unwrap().bytes[..], b"2");
    put("3", When::Matches(second)).await.unwrap();
}

#[tokio::test]
async fn a_list_shows_objects_without_the_stores_own_files() {
    let (_dir, store) = store().await;
    for name in ["seg/aa/x", "seg/bb/y", "root/aa/z"] {
        store.put(name, Bytes::from(name), When::Absent).await.unwrap();
    }
    let names =
        |listed: Vec<holdall_core::store::Listed>| listed.into_iter().map(|l| l.name).collect::<Vec<_>>();
    assert_eq!(names(store.list("seg/").await.unwrap()), ["seg/aa/x", "seg/bb/y"]);
    assert_eq!(names(store.list("").await.unwrap()), ["family.json", "root/aa/z", "seg/aa/x", "seg/bb/y"]);
    store.delete("seg/aa/x").await.unwrap();
    store.delete("seg/aa/x").await.unwrap();
    assert_eq!(names(store.list("seg/aa/").await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn a_missing_directory_is_unreachable_and_not_recreated() {
    let (dir, store) = store().await;
    store.put("seg/aa/x", Bytes::from_static(b"x"), When::Always).await.unwrap();
    let (here, away) = (dir.path().join("store"), dir.path().join("away"));
    std::fs::rename(&here, &away).unwrap();
    let unreachable = |error: Option<StoreError>| matches!(error, Some(StoreError::Unreachable { .. }));
    assert!(unreachable(store.get("seg/aa/x", None).await.err()));
    assert!(unreachable(store.put("seg/aa/y", Bytes::new(), When::Always).await.err()));
    assert!(unreachable(store.list("seg/").await.err()));
    assert!(unreachable(store.delete("seg/aa/x").await.err()));
    assert!(!here.exists());
    // The bare mount point of an unmounted disk is not the store either.
    std::fs::create_dir(&here).unwrap();
    assert!(unreachable(store.get("seg/aa/x", None).await.err()));
    assert!(unreachable(store.put("seg/aa/y", Bytes::new(), When::Always).await.err()));
    std::fs::remove_dir(&here).unwrap();
    std::fs::rename(&away, &here).unwrap();
    assert!(store.get("seg/aa/x", None).await.is_ok());
}

/// A name that blocks every open, as on a network file system whose server is gone. Dropping it lets the blocked threads
/// continue.
struct Hung(PathBuf);

impl Hung {
    fn new(path: PathBuf) -> Self {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self(path)
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        let _ = std::fs::OpenOptions::new().read(true).write(true).open(&self.0);
    }
}

/// The name of the threads that are counted, since other tests run at the same time.
const COUNTED: &str = "counted";

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == COUNTED).count()
}

#[test]
fn a_hanging_directory_takes_few_threads_and_recovers() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).thread_name(COUNTED).enable_all().build().unwrap();
    runtime.block_on(hang());
    // Do not wait for a thread that hangs in the directory.
    runtime.shutdown_background();
}

async fn hang() {
    let (dir, begun) = store().await;
    begun.put("head/1", Bytes::from_static(b"1"), When::Absent).await.unwrap();
    let root = dir.path().join("store");
    let limits = Limits { silence: Duration::from_millis(200), ..Limits::default() };
    let store = Arc::new(FileStore::with_limits(root.clone(), &DriveNames, limits));
    let hung = Hung::new(root.join("seg/aa/x"));
    let before = threads();
    for round in 0..3 {
        // Every client, even one with a store object of its own.
        let stores = [store.clone(), Arc::new(FileStore::with_limits(root.clone(), &DriveNames, limits))];
        let gets = (0..200).map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move { store.get("seg/aa/x", Some(0..1)).await })
        });
        let gets: Vec<_> = gets.collect();
        for get in gets {
            let error = tokio::time::timeout(Duration::from_secs(20), get).await.expect("it ends").unwrap();
            let reason = match error.unwrap_err() {
                StoreError::Unreachable { reason } => reason,
                error => panic!("{error:?}"),
            };
            assert!(reason.ends_with("store does not answer"), "{reason}");
        }
        let taken = threads().saturating_sub(before);
        assert!((1..=80).contains(&taken), "{taken} threads in round {round}");
    }
    // No more threads enter the directory, and no request waits forever.
    assert!(matches!(store.get("head/1", None).await, Err(StoreError::Unreachable { .. })));
    // A directory elsewhere is not affected.
    let (_other_dir, other) = self::store().await;
    other.get("family.json", None).await.unwrap();

    drop(hung);
    let back = async { while store.get("head/1", None).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(20), back).await.expect("it answers again");
    assert_eq!(&store.get("head/1", None).await.unwrap().bytes[..], b"1");
    // With the usual time-outs, since a sync of the disk may take longer than this store waits.
    begun.put("seg/aa/y", Bytes::from_static(b"2"), When::Absent).await.unwrap();
}

#[tokio::test]
async fn creates_a_store_only_in_an_existing_directory() {
    let dir = tempfile::tempdir().unwrap();
    let prepare = async |path: &str| FileStore::new(dir.path().join(path), &DriveNames).prepare().await;
    assert_eq!(prepare("nas/driv").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!dir.path().join("nas").exists());
    prepare("nas").await.unwrap();
    prepare("nas").await.unwrap();
    prepare("nas/drive/").await.unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert_eq!(prepare("file").await.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn no_name_and_no_link_leads_out_of_the_directory() {
    let (dir, store) = store().await;
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "before").unwrap();
    std::os::unix::fs::symlink(&outside, dir.path().join("store/keys")).unwrap();
    std::os::unix::fs::symlink(outside.join("secret"), dir.path().join("store/link")).unwrap();
    let absolute = outside.join("secret").to_str().unwrap().to_owned();
    for name in [
        "keys/secret",
        "keys/new",
        "keys/../../outside/secret",
        "../outside/new",
        "seg/../../outside/new",
        &absolute,
        "link",
    ] {
        assert!(store.get(name, None).await.is_err(), "{name}");
        assert!(store.head(name).await.is_err() || name == "link", "{name}");
        let _ = store.delete(name).await;
        if name != "link" {
            assert!(store.put(name, Bytes::from_static(b"x"), When::Always).await.is_err(), "{name}");
            assert!(store.put(name, Bytes::from_static(b"x"), When::Absent).await.is_err(), "{name}");
            assert!(store.claim(&format!("{name}-claim"), 1).await.is_err(), "{name}");
        }
    }
    assert!(store.list("keys/").await.is_err() || store.list("keys/").await.unwrap().is_empty());
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "before");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "nothing was made outside");
}

#[tokio::test]
async fn a_claim_has_one_owner_and_acts_as_one_name() {
    let (dir, store) = store().await;
    let other = FileStore::new(dir.path().join("store"), &DriveNames);
    let name = |turn: u64| format!("claim/family/{turn:016x}");
    for turn in 0..50 {
        let (a, b) = (name(turn), name(turn));
        let (a, b) = tokio::join!(store.claim(&a, 1), other.claim(&b, 2));
        assert!(a.unwrap() != b.unwrap(), "turn {turn}");
    }
    let again = [store.claim(&name(0), 1).await.unwrap(), other.claim(&name(0), 2).await.unwrap()];
    assert!(again[0] != again[1], "its owner may ask again");
    // Cut off between its two steps.
    std::fs::create_dir(dir.path().join("store").join(name(50))).unwrap();
    assert_eq!(store.claim(&name(50), 1).await, Ok(false));
    assert_eq!(store.list("claim/").await.unwrap().len(), 51);
    let probed = format!("probe/{:032x}-claim-0", 7);
    assert_eq!(store.claim(&probed, 1).await, Ok(true));
    store.delete(&probed).await.unwrap();
    assert!(store.list("probe/").await.unwrap().is_empty());
}

#[tokio::test]
async fn detects_a_synced_folder_from_any_directory_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    let store = FileStore::new(inner.join("store"), &DriveNames);
    assert_eq!(store.sync_tool().await, Ok(None));
    std::fs::create_dir(dir.path().join(".stfolder")).unwrap();
    assert_eq!(store.sync_tool().await, Ok(Some("Syncthing")), "the store itself need not be there yet");
    store.prepare().await.unwrap();
    assert_eq!(store.sync_tool().await, Ok(Some("Syncthing")));
    assert_eq!(store.is_local().await, Ok(true), "tests run on a disk");
}

#[tokio::test]
async fn only_the_first_of_two_families_is_created_with_claims() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(dir.path().join("store"), &DriveNames));
    store.prepare().await.unwrap();
    let claims = Claims::new(store.clone());
    claims.put("family.json", Bytes::from_static(b"first"), When::Absent).await.unwrap();
    let second = Claims::new(store.clone());
    let refused = second.put("family.json", Bytes::from_static(b"second"), When::Absent).await;
    assert!(matches!(refused, Err(StoreError::Precondition { .. })), "{refused:?}");
    assert_eq!(&store.get("family.json", None).await.unwrap().bytes[..], b"first");
}
