//! Contents on a disk that forgets and fails, and leases on real ones.

use super::*;
use crate::disk::real::Directory;
use crate::folder::local_copy::{Environment, ReadFailure};
use crate::folder::source::Owner;
use crate::pull::Class;
use crate::sim::disk::{DiskFaults, SimDisk};
use crate::sim::remote::{RemoteFaults, RemoteHabits, SimRemote};
use crate::store::remote::{Name, RemotePath, Version};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

const INO: Ino = Ino(7);

/// Each file of the folder lies in the remote's top directory, under its number.
struct Flat;

impl Owner for Flat {
    fn path_of(&self, ino: Ino) -> Option<RemotePath> {
        Some(path_of(ino))
    }

    fn is_gone(&self, _: &Span) {}
}

fn path_of(ino: Ino) -> RemotePath {
    RemotePath::root().join(&Name::new(&ino.to_string()).unwrap())
}

fn bytes_of(rng: &mut StdRng, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn contents(disk: &SimDisk) -> Contents {
    Contents::new(Arc::new(disk.directory("files")))
}

async fn open(disk: &SimDisk, remote: &SimRemote) -> io::Result<Arc<LocalCopy>> {
    let files = Arc::new(disk.directory("files"));
    let (folder, cache_bytes) = (Uuid::from_u128(7), 64 << 20);
    let remote = Arc::new(remote.clone());
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        files,
        folder,
        remote,
        owner: Arc::new(Flat),
        cache_bytes,
    };
    LocalCopy::open(environment).await
}

async fn read(copy: &Arc<LocalCopy>, span: &Arc<Span>) -> Result<Vec<u8>, ReadFailure> {
    let lease = copy.read(span, 0..u64::MAX).await?;
    let mut bytes = vec![0; span.len() as usize];
    lease.copy_to(&mut bytes).map_err(|error| ReadFailure::Failed(error.to_string()))?;
    Ok(bytes)
}

fn content_of(contents: &Contents, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; contents.stat(ino).unwrap().len as usize];
    contents.reader(ino).unwrap().read_at(&mut bytes, 0).unwrap();
    bytes
}

fn good() -> (SimDisk, SimRemote) {
    (SimDisk::new(1, DiskFaults::default()), SimRemote::new(1, RemoteHabits::GOOD, RemoteFaults::default()))
}

/// Several lives of one file that is brought, changed and given back. Each ends at any moment of that.
async fn lives(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let sync_fails = if seed.is_multiple_of(5) { 100 } else { 0 };
    let disk = SimDisk::new(seed, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(10) });
    let remote = SimRemote::new(seed, RemoteHabits::GOOD, RemoteFaults::default());
    let len = rng.random_range(0..150_000) >> rng.random_range(0..10);
    let mut there = bytes_of(&mut rng, len);
    let mut version = remote.other_writes(&path_of(INO), there.clone());
    // What the content has if it is there, and whether it has to be.
    let (mut here, mut is_acknowledged): (Option<Vec<u8>>, bool) = (None, false);
    for life in 0..5 {
        disk.set_faults(DiskFaults { sync_fails: 0, ..disk.faults() });
        let (contents, copy) = (contents(&disk), open(&disk, &remote).await.unwrap());
        disk.set_faults(DiskFaults { sync_fails, ..disk.faults() });
        let told = format!("seed {seed} life {life}");
        assert!(contents.has(INO) || !is_acknowledged, "{told}: a durable content is gone");
        if contents.has(INO) && is_acknowledged {
            assert_eq!(Some(content_of(&contents, INO)), here, "{told}");
        }
        let span = copy.span_of(INO, &version).unwrap();
        if copy.is_whole(&span) {
            let local = copy.read_local(&span, 0..u64::MAX).unwrap().expect("it is here");
            let mut bytes = vec![0; there.len()];
            local.copy_to(&mut bytes).unwrap();
            assert_eq!(bytes, there, "{told}: bits without bytes");
        }
        assert_eq!(read(&copy, &span).await.unwrap(), there, "{told}");
        is_acknowledged = false;
        let (contents, acting) = (Arc::new(contents), copy.clone());
        let acting = act(contents.clone(), acting, remote.clone(), span, rng.random(), here.take());
        let task = tokio::spawn(acting);
        match rng.random_bool(0.8) {
            true => tokio::time::sleep(Duration::from_millis(rng.random_range(0..120))).await,
            false => drop(copy.persist().await),
        }
        let is_done = task.is_finished();
        if !is_done && rng.random_bool(0.2) {
            disk.kill();
        } else {
            disk.power_cut();
        }
        if is_done {
            (here, is_acknowledged) = task.await.unwrap();
        } else {
            task.abort();
            let _ = task.await;
        }
        let file = remote.files().into_iter().find(|file| file.path == path_of(INO)).unwrap();
        (there, version) = (file.bytes.to_vec(), file.version.clone());
    }
}

/// Returns the content that was left, and whether it was made durable.
async fn act(
    contents: Arc<Contents>,
    copy: Arc<LocalCopy>,
    remote: SimRemote,
    span: Arc<Span>,
    seed: u64,
    here: Option<Vec<u8>>,
) -> (Option<Vec<u8>>, bool) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (before, whole) = (here.is_some(), copy.make_whole(&span, Class::Reader).await);
    // It ends with this task.
    let mut reading = tokio::task::JoinSet::new();
    reading.spawn(read_on(copy.clone(), span.clone()));
    let left = async {
        if !before || !contents.has(INO) {
            if !whole.is_ok_and(|whole| whole) || contents.bring(&copy, &span, Time(5)).await.is_err() {
                return (None, false);
            }
            assert_eq!(contents.stat(INO).unwrap().mtime, Time(5));
            assert!(!copy.is_whole(&span) || span.is_empty());
        }
        let mut bytes = content_of(&contents, INO);
        let at = rng.random_range(0..=bytes.len() as u64);
        contents.write_at(INO, b"changed here", at).unwrap();
        let end = (at as usize + 12).max(bytes.len());
        bytes.resize(end, 0);
        bytes[at as usize..at as usize + 12].copy_from_slice(b"changed here");
        if contents.sync(INO).await.is_err() {
            assert!(contents.sync(INO).await.is_err(), "a failed sync condemns the content");
            return (Some(bytes), false);
        }
        if rng.random_bool(0.3) {
            return (Some(bytes), true);
        }
        let version = remote.other_writes(&path_of(INO), bytes.clone());
        let new = copy.span_of(INO, &version).unwrap();
        if rng.random_bool(0.5) {
            let _ = read(&copy, &new).await;
        }
        if contents.give(&copy, INO, &new).await.is_err() {
            return (Some(bytes), false);
        }
        assert!(copy.is_whole(&new) && !contents.has(INO));
        assert_eq!(read(&copy, &new).await.unwrap(), bytes);
        let _ = copy.persist().await;
        (None, false)
    };
    let left = left.await;
    if let Some(Ok(read)) = reading.try_join_next() {
        read.unwrap();
    }
    left
}

/// A program reads the file all the time: it sees one version of it, also while the local file moves.
async fn read_on(copy: Arc<LocalCopy>, span: Arc<Span>) -> Result<(), String> {
    let mut first = None;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(7)).await;
        match read(&copy, &span).await {
            Ok(bytes) if *first.get_or_insert(bytes.clone()) != bytes => return Err("other bytes".into()),
            Ok(_) => {}
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn random_lives_have_each_byte_in_one_usable_place() {
    for seed in 0..25 {
        let ended = tokio::time::timeout(Duration::from_secs(3600), lives(seed)).await;
        assert!(ended.is_ok(), "seed {seed} hangs");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_given_is_here_after_a_power_cut_and_needs_no_request() {
    for len in [0, 1, 4096, 100_000] {
        let (disk, remote) = good();
        let bytes = bytes_of(&mut StdRng::seed_from_u64(len), len);
        let (contents, copy) = (contents(&disk), open(&disk, &remote).await.unwrap());
        contents.create(INO).unwrap();
        contents.write_at(INO, &bytes, 0).unwrap();
        let span = copy.span_of(INO, &remote.other_writes(&path_of(INO), bytes.clone())).unwrap();
        contents.give(&copy, INO, &span).await.unwrap();
        copy.persist().await.unwrap();
        assert!(copy.taken_bytes() >= len);
        disk.power_cut();
        let copy = open(&disk, &remote).await.unwrap();
        remote.set_away(true);
        let span = copy.current(INO).unwrap();
        assert!(copy.is_whole(&span));
        assert_eq!(read(&copy, &span).await.unwrap(), bytes);
        assert_eq!(copy.local_bytes(&span), len);
        // And back.
        contents.bring(&copy, &span, Time(9)).await.unwrap();
        assert_eq!((content_of(&contents, INO), copy.taken_bytes()), (bytes, 0));
        assert_eq!(copy.local_bytes(&span), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn only_whole_files_of_the_right_length_are_handed_over() {
    let (disk, remote) = good();
    let (contents, copy) = (contents(&disk), open(&disk, &remote).await.unwrap());
    let version = remote.other_writes(&path_of(INO), vec![1; 100_000]);
    let span = copy.span_of(INO, &version).unwrap();
    let _ = copy.read(&span, 0..10).await.unwrap();
    assert!(contents.bring(&copy, &span, Time(0)).await.is_err(), "a part of it is here");
    assert!(!contents.has(INO));
    contents.create(INO).unwrap();
    contents.write_at(INO, b"short", 0).unwrap();
    assert!(contents.give(&copy, INO, &span).await.is_err());
    assert_eq!(content_of(&contents, INO), b"short");
    assert!(!copy.is_whole(&span));
    contents.set_len(INO, 100_000).unwrap();
    let newer = Version { tag: "newer".into(), ..version };
    copy.span_of(INO, &newer).unwrap();
    assert!(contents.give(&copy, INO, &span).await.is_err(), "another version took its place");
    assert_eq!(contents.stat(INO).unwrap().len, 100_000);
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_condemns_the_content_until_it_is_begun_anew() {
    let disk = SimDisk::new(3, DiskFaults { sync_fails: 1000, sync_time: Duration::from_millis(10) });
    let contents = contents(&disk);
    contents.create(INO).unwrap();
    contents.write_at(INO, b"lost", 0).unwrap();
    let (one, other) = tokio::join!(contents.sync(INO), contents.sync(INO));
    let (one, other) = (one.unwrap_err().to_string(), other.unwrap_err().to_string());
    assert!(one == other && one.contains("by chance"), "{one}, {other}");
    disk.set_faults(DiskFaults::default());
    contents.write_at(INO, b"again", 0).unwrap();
    contents.close(INO);
    assert_eq!(contents.sync(INO).await.unwrap_err().to_string(), one);
    contents.create(Ino(8)).unwrap();
    contents.sync(Ino(8)).await.unwrap();
    contents.create(INO).unwrap();
    contents.write_at(INO, b"new", 0).unwrap();
    contents.sync(INO).await.unwrap();
    disk.power_cut();
    assert_eq!(content_of(&super::tests::contents(&disk), INO), b"new");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_heard_although_nobody_waits_any_longer() {
    let disk = SimDisk::new(3, DiskFaults { sync_fails: 1000, sync_time: Duration::from_millis(10) });
    let contents = contents(&disk);
    contents.create(INO).unwrap();
    contents.write_at(INO, b"lost", 0).unwrap();
    let _ = tokio::time::timeout(Duration::from_micros(1), contents.sync(INO)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    disk.set_faults(DiskFaults::default());
    assert!(contents.sync(INO).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_sync_makes_the_name_durable_also_of_an_earlier_life() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed, DiskFaults::default());
        contents(&disk).create(INO).unwrap();
        contents(&disk).write_at(INO, b"bytes", 0).unwrap();
        disk.kill();
        let earlier = contents(&disk);
        earlier.sync(INO).await.unwrap();
        earlier.create(Ino(8)).unwrap();
        earlier.sync(Ino(8)).await.unwrap();
        disk.power_cut();
        assert_eq!(content_of(&contents(&disk), INO), b"bytes", "seed {seed}");
        let mut all = contents(&disk).all().unwrap();
        all.sort();
        assert_eq!(all, [INO, Ino(8)], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn opening_the_cache_leaves_contents_alone() {
    let (disk, remote) = good();
    let contents = contents(&disk);
    for ino in [7, 8] {
        contents.create(Ino(ino)).unwrap();
        contents.write_at(Ino(ino), b"mine", 0).unwrap();
    }
    let kept = contents.set_aside(Ino(8)).unwrap();
    let files = disk.directory("files");
    files.open("new-9", true).unwrap();
    let copy = open(&disk, &remote).await.unwrap();
    let mut names = files.list().unwrap();
    names.sort();
    assert_eq!(names, [kept.clone(), "here-7".to_owned()]);
    assert!(kept.starts_with("aside-8-") && !contents.has(Ino(8)));
    assert_eq!((contents.all().unwrap(), contents.taken_bytes()), (vec![Ino(7)], 4096));
    contents.remove(Ino(7)).unwrap();
    contents.remove(Ino(7)).unwrap();
    assert!(!contents.has(Ino(7)) && contents.reader(Ino(7)).is_err());
    drop(copy);
}

#[tokio::test(start_paused = true)]
async fn an_old_reader_keeps_what_was_replaced() {
    let (disk, _) = good();
    let contents = contents(&disk);
    contents.create(INO).unwrap();
    contents.write_at(INO, b"old", 0).unwrap();
    let reader = contents.reader(INO).unwrap();
    contents.create(INO).unwrap();
    contents.write_at(INO, b"new!", 0).unwrap();
    let mut bytes = [0; 3];
    reader.read_at(&mut bytes, 0).unwrap();
    assert_eq!((&bytes, &content_of(&contents, INO)[..]), (b"old", &b"new!"[..]));
}

#[tokio::test(start_paused = true)]
async fn few_contents_are_open_and_a_closed_one_can_be_leased() {
    let (disk, _) = good();
    let contents = contents(&disk);
    for ino in 2..600 {
        contents.create(Ino(ino)).unwrap();
        contents.write_at(Ino(ino), b"x", 0).unwrap();
    }
    let is_leased = |ino| contents.lease(Ino(ino)).unwrap().is_some();
    let open = (2..600).filter(|ino| !is_leased(*ino)).count();
    assert_eq!(open, 32);
    assert!(!is_leased(599));
    contents.close(Ino(599));
    assert!(is_leased(599));
    disk.set_mapped("files/here-599", true);
    assert!(!is_leased(599), "a program has it mapped");
}

#[tokio::test(start_paused = true)]
async fn a_content_that_leaves_the_watch_is_condemned_if_its_sync_fails() {
    let (disk, _) = good();
    let contents = contents(&disk);
    disk.set_faults(DiskFaults { sync_fails: 1000, ..DiskFaults::default() });
    for ino in 2..300 {
        contents.create(Ino(ino)).unwrap();
        contents.write_at(Ino(ino), b"x", 0).unwrap();
    }
    disk.set_faults(DiskFaults::default());
    assert!(contents.sync(Ino(2)).await.is_err());
    assert!(contents.sync(Ino(299)).await.is_ok());
}

#[test]
fn names_of_contents_are_told_from_others() {
    assert_eq!(ino_of(&name_of(Ino(12))), Some(Ino(12)));
    for other in ["here-", "here-012", "here-x", "here-4294967296", "12-0-abc", "aside-12-0", "here-+1"] {
        assert_eq!(ino_of(other), None, "{other}");
    }
}

/// A file system with leases, and one in memory.
fn real() -> Vec<(tempfile::TempDir, Contents)> {
    let places = [std::env::temp_dir(), Path::new("/dev/shm").to_owned()];
    let dirs =
        places.into_iter().filter(|place| place.is_dir()).map(|place| tempfile::tempdir_in(place).unwrap());
    dirs.map(|dir| {
        let contents = Contents::new(Arc::new(Directory::create(dir.path()).unwrap()));
        (dir, contents)
    })
    .collect()
}

#[test]
fn a_lease_is_refused_while_anybody_may_write() {
    use rustix::mm::{MapFlags, ProtFlags};
    let mut tried = 0;
    for (dir, contents) in real() {
        contents.create(INO).unwrap();
        contents.write_at(INO, &[1; 4096], 0).unwrap();
        let is_leased = || match contents.lease(INO) {
            Ok(lease) => Some(lease.is_some()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                None
            }
        };
        let Some(is_open) = is_leased() else { continue };
        tried += 1;
        assert!(!is_open, "it is open for writing here");
        contents.close(INO);
        let registered = contents.reader(INO).unwrap();
        assert_eq!(is_leased(), Some(true), "readers do not matter");
        let path = dir.path().join("here-7");
        let program = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        assert_eq!(is_leased(), Some(false));
        // SAFETY: nobody uses the mapping.
        let map = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), 4096, access, MapFlags::SHARED, &program, 0).unwrap()
        };
        drop(program);
        assert_eq!(is_leased(), Some(false), "closed, but mapped to be written");
        // SAFETY: it was just mapped.
        unsafe { rustix::mm::munmap(map, 4096).unwrap() };
        assert_eq!(is_leased(), Some(true));
        drop(registered);
    }
    assert!(tried > 0, "no file system here has leases");
}

#[test]
fn a_writer_waits_for_the_end_of_a_lease_and_the_signal_harms_nobody() {
    use std::os::unix::fs::OpenOptionsExt;
    let mut tried = 0;
    for (dir, contents) in real() {
        contents.create(INO).unwrap();
        let Ok(Some(lease)) = contents.lease(INO) else { continue };
        tried += 1;
        let mut options = std::fs::File::options();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        let path = dir.path().join("here-7");
        assert_eq!(options.open(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(lease.file().len().unwrap(), 0);
        drop(lease);
        options.open(&path).unwrap();
    }
    assert!(tried > 0, "no file system here has leases");
}

#[test]
fn times_are_kept_to_the_nanosecond_on_real_disks() {
    for (_, contents) in real() {
        contents.create(INO).unwrap();
        contents.write_at(INO, b"x", 0).unwrap();
        assert!(contents.stat(INO).unwrap().mtime > Time(1_600_000_000_000_000_000));
        for time in [1_700_000_000_123_456_789, 0, -1_500_000_001] {
            contents.set_mtime(INO, Time(time)).unwrap();
            assert_eq!(contents.stat(INO).unwrap().mtime, Time(time));
        }
        assert!(contents.set_mtime(INO, Time(i128::MAX)).is_err());
        assert_eq!(contents.stat(INO).unwrap().len, 1);
    }
}
