//! Replicas, in virtual time. Everything that was reported as copied can be read from the replica, whatever happens to the store.

use crate::bench::layer::{Layer, Layered, away as gone};
use crate::bench::{Bench, close, device, get, put, run};
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::drive::{self, DriveError};
use holdall_core::fork;
use holdall_core::format::family::{Family, Mode};
use holdall_core::format::head::{self, Head};
use holdall_core::format::id::{ObjectId, ObjectKind};
use holdall_core::heads::{self, Author, Once, Swap, transition};
use holdall_core::map::{Objects, PageCache, ReadError};
use holdall_core::push::{Device, PushError};
use holdall_core::replica::{
    self, Left, Progress, Promotion, Replica, ReplicaError, Replicated, Standing, Told, Wanted,
};
use holdall_core::seal::Cipher;
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::connect::with_heads;
use holdall_core::store::{Etag, Fetched, Store, StoreError, When};
use holdall_core::units::Epoch;
use holdall_core::volume::{self, Access, OpenError, TakeOver, Volume};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

const BLOCKS: u64 = 256;

/// An open drive with one replica.
struct Open {
    volume: Arc<Volume>,
    hub: Arc<Replicated>,
    progress: watch::Receiver<Progress>,
    wanted: watch::Sender<Wanted>,
    task: tokio::task::JoinHandle<()>,
}

/// More than enough, in virtual time.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

async fn open(bench: &Bench, index: usize, replica: &SimStore) -> Open {
    let primary: Arc<dyn Store> = Arc::new(bench.store.clone());
    let other: Arc<dyn Store> = Arc::new(replica.clone());
    let store = Arc::new(Replicated::new(primary.clone(), bench.drive));
    let changed = store.add(other.clone());
    let volume = loop {
        match bench
            .open_on(store.clone(), index, Access::Write { over: TakeOver::Anybody, mounted: false })
            .await
        {
            Ok(volume) => break volume,
            Err(OpenError::Store(_) | OpenError::Read(ReadError::Store(_))) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    let objects = Arc::new(Objects::new(primary, bench.sealer.clone(), PageCache::none()));
    let replica =
        Replica::new(other, objects, Family::new(crate::bench::FAMILY, Cipher::None, Mode::Swap), changed);
    let (progress, wanted) = (replica.progress(), watch::Sender::new(Wanted::Kept));
    let task = tokio::spawn(replica.run(wanted.subscribe()));
    Open { volume, hub: store, progress, wanted, task }
}

impl Open {
    async fn up_to_date(&mut self) -> ObjectId {
        let root = self.volume.pusher().unwrap().state().borrow().root;
        let up_to_date =
            self.progress.wait_for(|now| now.version == Some(root) && now.standing == Standing::UpToDate);
        tokio::time::timeout(PATIENCE, up_to_date).await.expect("it is caught up with").unwrap();
        root
    }

    async fn in_trouble(&mut self) {
        self.progress.wait_for(|now| matches!(now.standing, Standing::Trouble(_))).await.unwrap();
    }

    async fn sync(&self) -> String {
        self.volume.pusher().unwrap().sync().await.unwrap().root
    }
}

/// The contents of a store's only drive, read on a computer that never had it, from the store alone.
async fn contents(bench: &Bench, store: &SimStore) -> Vec<u8> {
    let heads = drive::heads(store, &bench.sealer).await.unwrap();
    assert_eq!(heads.len(), 1);
    contents_of(bench, store, heads[0].drive).await
}

async fn contents_of(bench: &Bench, store: &SimStore, drive: Uuid) -> Vec<u8> {
    let heads = drive::heads(store, &bench.sealer).await.unwrap();
    let head = heads.into_iter().find(|head| head.drive == drive).unwrap();
    let access = Access::Look { root: (head.root, head.root_hash) };
    let volume = bench.elsewhere().open_on(Arc::new(store.clone()), 0, access).await.unwrap();
    let mut all = Vec::new();
    for block in 0..BLOCKS {
        all.push(get(&volume, block).await);
    }
    volume.shut_down().await.unwrap();
    all
}

/// Promotes the replica as device 1, and returns the newest version.
async fn promote(bench: &Bench, replica: &SimStore) -> Result<String, ReplicaError> {
    promote_drive(bench, replica, bench.drive).await
}

async fn promote_drive(bench: &Bench, replica: &SimStore, drive: Uuid) -> Result<String, ReplicaError> {
    let head = replica::promote(&objects(bench, replica), drive, as_it_is(true), &device(1)).await?.head;
    // If it is kept for another device, the current version is the same one with one more snapshot.
    let newest = if head.root.epoch.0 + 1 == head.epoch.0 { head.parent } else { head.root };
    Ok(newest.name(ObjectKind::Root))
}

/// A promotion that knows nothing more, and accepts no loss. A store that is away may have reached any of the next epochs.
fn as_it_is(is_away: bool) -> Promotion {
    Promotion { above: Epoch(if is_away { 1 << 20 } else { 0 }), is_away, accepts_loss: false }
}

fn objects(bench: &Bench, store: &SimStore) -> Objects {
    objects_of(bench, Arc::new(store.clone()))
}

fn objects_of(bench: &Bench, store: Arc<dyn Store>) -> Objects {
    Objects::new(store, bench.sealer.clone(), PageCache::none())
}

/// Moves a drive that nobody has open to its replica. Returns a bench that opens it there.
async fn move_over(from: &Bench, to: &SimStore) -> Bench {
    let here = objects(from, &from.store);
    let (head, etag, _) = drive::current(&here, from.drive).await.unwrap();
    drive::retire(&here, (&head, etag), "file:///replica", &device(0)).await.unwrap();
    let promotion = Promotion { above: Epoch(head.epoch.0 + 1), ..as_it_is(false) };
    replica::promote(&objects(from, to), from.drive, promotion, &device(0)).await.unwrap();
    Bench { store: to.clone(), ..from.elsewhere() }
}

/// Opens the drive, writes `byte` to many blocks if there is one, and closes it once the replica has everything.
async fn visit(bench: &Bench, replica: &SimStore, byte: Option<u8>) {
    let mut drive = open(bench, 0, replica).await;
    if let Some(byte) = byte {
        fill(&drive.volume, byte).await;
        collect(&drive.volume).await;
    }
    drive.up_to_date().await;
    close(drive.volume.clone()).await;
    drive.up_to_date().await;
    // The last deletions follow the last record.
    tokio::time::sleep(Duration::from_secs(60)).await;
}

/// Deletes everything that no version needs. Garbage that the tail of the first collection's parent still names goes with the
/// second.
async fn collect(volume: &Arc<Volume>) {
    for _ in 0..2 {
        volume.pusher().unwrap().collect().await.unwrap();
    }
}

async fn segments(store: &SimStore) -> BTreeSet<String> {
    store.list("seg/").await.unwrap().into_iter().map(|listed| listed.name).collect()
}

/// Writes many blocks, and uploads them.
async fn fill(volume: &Arc<Volume>, byte: u8) {
    for block in 0..64 {
        put(volume, block, byte).await;
    }
    volume.pusher().unwrap().sync().await.unwrap();
}

fn away() -> StoreFaults {
    StoreFaults { refused: 1000, ..StoreFaults::default() }
}

fn empty() -> SimStore {
    SimStore::new(5, StoreFaults::default())
}

#[test]
fn an_up_to_date_replica_replaces_a_lost_store() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 3, 1).await;
        drive.volume.pusher().unwrap().snapshot("one").await.unwrap();
        put(&drive.volume, 3, 2).await;
        put(&drive.volume, 200, 7).await;
        drive.sync().await;
        let root = drive.up_to_date().await;
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        assert_eq!(promote(&bench, &replica).await.unwrap(), root.name(ObjectKind::Root));
        let all = contents(&bench, &replica).await;
        assert_eq!((all[3], all[200], all[4]), (2, 7, 0));
        assert!(matches!(promote(&bench, &replica).await, Err(ReplicaError::Already)));

        // The computer that had the drive continues there.
        let access = Access::Write { over: TakeOver::Anybody, mounted: false };
        let volume = bench.open_on(Arc::new(replica.clone()), 0, access).await.unwrap();
        put(&volume, 4, 9).await;
        volume.pusher().unwrap().sync().await.unwrap();
        volume.pusher().unwrap().collect().await.unwrap();
        assert_eq!(get(&volume, 3).await, 2);
        close(volume).await;
        assert_eq!(contents(&bench, &replica).await[4], 9);
    });
}

#[test]
fn a_replica_that_was_away_catches_up_and_delays_nobody() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        replica.set_faults(away());
        for round in 1..20 {
            for block in 0..32 {
                put(&drive.volume, block, round).await;
            }
            drive.sync().await;
        }
        drive.in_trouble().await;
        replica.set_faults(StoreFaults::default());
        drive.up_to_date().await;
        promote(&bench, &replica).await.unwrap();
        assert!(contents(&bench, &replica).await[..32].iter().all(|byte| *byte == 19));
    });
}

#[test]
fn a_paused_replica_gets_nothing_and_catches_up_afterwards() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        fill(&drive.volume, 1).await;
        drive.up_to_date().await;
        drive.wanted.send_replace(Wanted::Paused);
        drive.progress.wait_for(|now| now.standing == Standing::Paused).await.unwrap();
        let (before, asked) = (replica.names(), replica.requests());
        fill(&drive.volume, 2).await;
        tokio::time::sleep(PATIENCE).await;
        assert_eq!((replica.names(), replica.requests()), (before, asked));
        drive.wanted.send_replace(Wanted::Kept);
        drive.up_to_date().await;
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        promote(&bench, &replica).await.unwrap();
        assert_eq!(contents(&bench, &replica).await[..64], [2; 64]);
    });
}

#[test]
fn overwrites_objects_that_broken_puts_left_in_a_replica() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        fill(&drive.volume, 1).await;
        drive.up_to_date().await;
        drive.wanted.send_replace(Wanted::Paused);
        fill(&drive.volume, 2).await;
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        // A server that dies leaves half of each object that is in flight, or half of a record.
        let whole = replica.names();
        for name in bench.store.names().into_iter().filter(|name| ObjectId::parse(name).is_some()) {
            if !whole.contains(&name) {
                let body = bench.store.get(&name, None).await.unwrap().bytes;
                replica.put(&name, body.slice(..body.len() / 2), When::Absent).await.unwrap();
            }
        }
        let mut drive = open(&bench, 0, &replica).await;
        drive.up_to_date().await;
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        let records = replica.names().into_iter().filter(|name| name.starts_with("replica/"));
        replica.damage(&records.max().unwrap(), |body| body.truncate(9));
        let mut drive = open(&bench, 0, &replica).await;
        drive.up_to_date().await;
        drop(drive);
        promote(&bench, &replica).await.unwrap();
        assert_eq!(contents(&bench, &replica).await[..64], [2; 64]);
    });
}

#[test]
fn refills_a_replica_that_is_emptied_under_an_open_drive() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        fill(&drive.volume, 1).await;
        drive.up_to_date().await;
        replica.names().iter().for_each(|name| replica.lose(name));
        put(&drive.volume, 100, 2).await;
        drive.sync().await;
        drive.up_to_date().await;
        // Empty it again, before anything arrives that was put since.
        replica.names().iter().for_each(|name| replica.lose(name));
        put(&drive.volume, 101, 3).await;
        drive.sync().await;
        let root = drive.up_to_date().await;
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        assert_eq!(promote(&bench, &replica).await.unwrap(), root.name(ObjectKind::Root));
        let all = contents(&bench, &replica).await;
        assert_eq!((&all[..64], all[100], all[101]), (&[1; 64][..], 2, 3));
    });
}

#[test]
fn refills_a_replica_that_kept_only_its_newest_record() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        fill(&drive.volume, 1).await;
        drive.up_to_date().await;
        // Only the last put is left: the newest record.
        put(&drive.volume, 100, 2).await;
        drive.sync().await;
        drive.up_to_date().await;
        let newest = replica.names().into_iter().filter(|name| name.starts_with("replica/")).max();
        replica
            .names()
            .iter()
            .filter(|name| Some(*name) != newest.as_ref())
            .for_each(|name| replica.lose(name));
        put(&drive.volume, 101, 3).await;
        drive.sync().await;
        drive.up_to_date().await;
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        promote(&bench, &replica).await.unwrap();
        let all = contents(&bench, &replica).await;
        assert_eq!((&all[..64], all[100], all[101]), (&[1; 64][..], 2, 3));
    });
}

#[test]
fn refills_a_replica_with_records_but_no_family() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        fill(&drive.volume, 1).await;
        drive.up_to_date().await;
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        let names = replica.names();
        names.iter().filter(|name| !name.starts_with("replica/")).for_each(|name| replica.lose(name));
        let mut drive = open(&bench, 0, &replica).await;
        let root = drive.up_to_date().await;
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        assert_eq!(promote(&bench, &replica).await.unwrap(), root.name(ObjectKind::Root));
        assert_eq!(contents(&bench, &replica).await[..64], [1; 64]);
    });
}

#[test]
fn a_busy_replica_is_not_asked_before_its_retry_time() {
    const LONG: Duration = Duration::from_secs(600);
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        drive.up_to_date().await;
        replica.be_busy(LONG);
        let begun = tokio::time::Instant::now();
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.in_trouble().await;
        // The first attempts count, and no more: later commits, a request to look again, and a resume add none.
        let told = replica.told_to_wait();
        for round in 2..40 {
            put(&drive.volume, 1, round).await;
            drive.sync().await;
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        drive.hub.look_again();
        drive.wanted.send_replace(Wanted::Paused);
        drive.progress.wait_for(|now| now.standing == Standing::Paused).await.unwrap();
        drive.wanted.send_replace(Wanted::Kept);
        tokio::time::sleep_until(begun + LONG - Duration::from_secs(1)).await;
        assert_eq!(replica.told_to_wait(), told);
        drive.up_to_date().await;
        assert_eq!(replica.told_to_wait(), told);
        assert!(begun.elapsed() < 2 * LONG);
    });
}

#[test]
fn reads_segments_that_the_first_store_lost_from_the_replica() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 3, 1).await;
        drive.sync().await;
        drive.up_to_date().await;
        drop(drive);
        for listed in bench.store.list("seg/").await.unwrap() {
            bench.store.delete(&listed.name).await.unwrap();
        }
        let drive = open(&bench.elsewhere(), 1, &replica).await;
        assert_eq!(get(&drive.volume, 3).await, 1);
    });
}

/// A store that can fall silent.
struct Silent {
    store: SimStore,
    is_silent: AtomicBool,
    asked: AtomicU64,
}

#[async_trait]
impl Layer for Silent {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn reach(&self) -> Result<(), StoreError> {
        self.asked.fetch_add(1, Relaxed);
        if self.is_silent.load(Relaxed) {
            tokio::time::sleep(Duration::from_secs(20)).await;
            return Err(gone());
        }
        Ok(())
    }
}

#[test]
fn a_silent_first_store_delays_only_some_reads() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        for block in [3, 40, 80, 120] {
            put(&drive.volume, block, 1).await;
        }
        drive.sync().await;
        drive.up_to_date().await;
        drop(drive);
        let (is_silent, asked) = (AtomicBool::new(false), AtomicU64::new(0));
        let first = Arc::new(Layered(Silent { store: bench.store.clone(), is_silent, asked }));
        let hub = Arc::new(Replicated::new(first.clone(), bench.drive));
        let _changed = hub.add(Arc::new(replica.clone()));
        let look = Access::Look {
            root: drive::current(&objects(&bench, &bench.store), bench.drive)
                .await
                .map(|(head, _, _)| (head.root, head.root_hash))
                .unwrap(),
        };
        let volume = bench.elsewhere().open_on(hub.clone(), 1, look).await.unwrap();
        let timed = async |block| {
            let begun = tokio::time::Instant::now();
            assert_eq!(get(&volume, block).await, 1);
            begun.elapsed()
        };
        first.is_silent.store(true, Relaxed);
        assert!(timed(3).await >= Duration::from_secs(20));
        assert!(timed(40).await < Duration::from_secs(1));
        // After a while it is tried again, and it is read once it is back.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(timed(80).await >= Duration::from_secs(20));
        first.is_silent.store(false, Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = first.asked.load(Relaxed);
        assert!(timed(120).await < Duration::from_secs(1));
        assert!(first.asked.load(Relaxed) > before);
    });
}

#[test]
fn a_collection_deletes_from_the_replica_and_leaves_it_whole() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        for round in 1..30 {
            for block in 0..64 {
                put(&drive.volume, block, round).await;
            }
            drive.sync().await;
        }
        drive.up_to_date().await;
        let before = replica.list("seg/").await.unwrap().len();
        let collected = drive.volume.pusher().unwrap().collect().await.unwrap();
        assert!(collected.deleted > 0);
        drive.up_to_date().await;
        // The last deletions follow the last record.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let names = |listed: Vec<holdall_core::store::Listed>| -> Vec<_> {
            listed.into_iter().map(|listed| listed.name).collect()
        };
        let after = names(replica.list("seg/").await.unwrap());
        assert!(after.len() < before);
        assert_eq!(after, names(bench.store.list("seg/").await.unwrap()));
        promote(&bench, &replica).await.unwrap();
        assert!(contents(&bench, &replica).await[..64].iter().all(|byte| *byte == 29));
    });
}

#[test]
fn an_overtaken_device_cannot_make_its_version_the_newest() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut old = open(&bench, 0, &replica).await;
        put(&old.volume, 1, 1).await;
        old.sync().await;
        old.up_to_date().await;
        let mut new = open(&bench, 1, &replica).await;
        put(&new.volume, 1, 2).await;
        let newest = new.sync().await;
        new.up_to_date().await;
        // The old device wakes up, and its replica is examined again.
        put(&old.volume, 1, 3).await;
        old.volume.pusher().unwrap().sync().await.unwrap_err();
        tokio::time::sleep(Duration::from_secs(600)).await;
        drop((old, new));
        assert_eq!(promote(&bench, &replica).await.unwrap(), newest);
        assert_eq!(contents(&bench, &replica).await[1], 2);
    });
}

#[test]
fn refuses_a_replica_in_another_familys_store() {
    let sealer = Bench::new().sealer;
    run(async {
        let (primary, replica) = (empty(), empty());
        let ours = Family::new(Uuid::from_u128(1), Cipher::None, Mode::Swap);
        let theirs = Family::new(Uuid::from_u128(2), Cipher::None, Mode::Swap);
        let other: Arc<dyn Store> = Arc::new(replica.clone());
        let prepare = async |family: &Family| replica::prepare(&primary, &other, family, &sealer).await;
        prepare(&theirs).await.unwrap();
        let refused = prepare(&ours).await;
        assert!(matches!(refused, Err(ReplicaError::OtherFamily)), "{refused:?}");
        // A passphrase that was removed no longer opens the replica.
        let key = |byte: u8| Bytes::from(vec![byte]);
        primary.put("keys/a", key(1), When::Absent).await.unwrap();
        prepare(&theirs).await.unwrap();
        primary.put("keys/b", key(2), When::Absent).await.unwrap();
        primary.delete("keys/a").await.unwrap();
        prepare(&theirs).await.unwrap();
        let names: Vec<_> =
            replica.list("keys/").await.unwrap().into_iter().map(|listed| listed.name).collect();
        assert_eq!(names, ["keys/b"]);
    });
}

#[test]
fn a_promoted_replica_keeps_its_own_keys() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.up_to_date().await;
        bench.store.put("keys/old", Bytes::from_static(b"k"), When::Absent).await.unwrap();
        promote(&bench, &replica).await.unwrap();
        // The passphrase changes in the new place. Another drive of the family still uses its own store and has this replica,
        // too.
        replica.put("keys/new", Bytes::from_static(b"n"), When::Absent).await.unwrap();
        let other: Arc<dyn Store> = Arc::new(replica.clone());
        let family = Family::new(crate::bench::FAMILY, Cipher::None, Mode::Swap);
        replica::prepare(&bench.store, &other, &family, &bench.sealer).await.unwrap();
        let keys = replica.list("keys/").await.unwrap();
        assert_eq!(keys.into_iter().map(|listed| listed.name).collect::<Vec<_>>(), ["keys/new"]);
    });
}

#[test]
fn a_drive_that_became_a_fork_is_replicated_as_such() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.up_to_date().await;
        let other = bench.take(1).await.unwrap();
        put(&other, 1, 2).await;
        other.pusher().unwrap().sync().await.unwrap();
        // It learns only now that the drive was taken.
        put(&drive.volume, 5, 5).await;
        drive.volume.pusher().unwrap().sync().await.unwrap_err();
        let fork = drive.volume.pusher().unwrap().state().borrow().fork.clone().unwrap();
        let root = drive.up_to_date().await;
        assert_eq!(root.drive, fork.drive);
        put(&drive.volume, 6, 6).await;
        drive.sync().await;
        let root = drive.up_to_date().await;
        assert_eq!(drive.progress.borrow().commits, drive.hub.commits());
        drop((drive, other));
        assert_eq!(promote_drive(&bench, &replica, fork.drive).await.unwrap(), root.name(ObjectKind::Root));
        let all = contents(&bench, &replica).await;
        assert_eq!((all[1], all[5], all[6]), (1, 5, 6));
    });
}

#[test]
fn an_absent_replica_is_asked_rarely_unless_something_is_written() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.up_to_date().await;
        replica.set_faults(away());
        put(&drive.volume, 1, 2).await;
        drive.sync().await;
        drive.in_trouble().await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let before = replica.requests();
        tokio::time::sleep(Duration::from_secs(10 * 300)).await;
        let asked = replica.requests() - before;
        assert!((1..=10).contains(&asked), "{asked} requests in 50 minutes");
        // A commit is a reason to try again, and so is a person's request.
        let before = replica.requests();
        put(&drive.volume, 1, 3).await;
        drive.sync().await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(replica.requests() > before);
        replica.set_faults(StoreFaults::default());
        drive.hub.look_again();
        let root = drive.volume.pusher().unwrap().state().borrow().root;
        let at_once = drive.progress.wait_for(|now| now.version == Some(root));
        tokio::time::timeout(Duration::from_secs(1), at_once).await.expect("it is tried at once").unwrap();
    });
}

#[test]
fn copies_missed_keys_when_the_replica_returns_and_when_opened() {
    let (bench, replica) = (Bench::new(), empty());
    let keys = async |store: &SimStore| -> Vec<String> {
        store.list("keys/").await.unwrap().into_iter().map(|listed| listed.name).collect()
    };
    let replace = async |old: &str, new: &str| {
        bench.store.put(new, new.to_owned().into(), When::Absent).await.unwrap();
        bench.store.delete(old).await.unwrap();
    };
    run(async {
        bench.store.put("keys/a", "a".into(), When::Absent).await.unwrap();
        let mut drive = open(&bench, 0, &replica).await;
        drive.up_to_date().await;
        assert_eq!(keys(&replica).await, ["keys/a"]);
        // The replica is away while the keys change, and nothing else changes.
        replica.set_faults(away());
        replace("keys/a", "keys/b").await;
        drive.hub.look_again();
        drive.in_trouble().await;
        replica.set_faults(StoreFaults::default());
        drive.up_to_date().await;
        assert_eq!(keys(&replica).await, ["keys/b"]);
        // The replica was away for a while, and another device has changed the keys meanwhile.
        replica.set_faults(away());
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.in_trouble().await;
        replace("keys/b", "keys/c").await;
        replica.set_faults(StoreFaults::default());
        drive.up_to_date().await;
        assert_eq!(keys(&replica).await, ["keys/c"]);
        // Nothing runs while the keys change.
        drive.volume.shut_down().await.unwrap();
        drop(drive);
        replace("keys/c", "keys/d").await;
        let mut drive = open(&bench, 0, &replica).await;
        drive.up_to_date().await;
        assert_eq!(keys(&replica).await, ["keys/d"]);
    });
}

#[test]
fn retiring_the_former_store_ends_all_commits_there() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.up_to_date().await;
        close(drive.volume.clone()).await;
        drop(drive);
        let newest = replica::newest(&replica, &bench.sealer, bench.drive).await.unwrap().root;
        let tell = async |at| tell_former(&bench, at, newest).await;
        // The store is away, and seems to be lost.
        let head = replica::promote(&objects(&bench, &replica), bench.drive, as_it_is(true), &device(0))
            .await
            .unwrap()
            .head;
        // It was not lost: another device continues there.
        let behind = bench.open(1).await.unwrap();
        put(&behind, 1, 2).await;
        behind.pusher().unwrap().sync().await.unwrap();
        put(&behind, 1, 3).await;

        let Told::Now { left_behind: Some(left_behind) } = tell(head.epoch).await else {
            panic!("it is newer")
        };
        assert!(fork::is_name_of_fork(&left_behind), "{left_behind}");
        assert_eq!(tell(head.epoch).await, Told::Already, "once is enough");
        let refused = bench.elsewhere().open(0).await;
        assert!(matches!(&refused, Err(OpenError::Moved { to: Some(to) }) if to == "file:///replica"));
        let forked = behind.pusher().unwrap().sync().await;
        assert!(matches!(forked, Err(PushError::Forked(_))), "{forked:?}");
        close(behind).await;
        // Its fork holds both its uploads and its unsent changes. The uploads are also a drive of their own.
        let heads = drive::heads(&bench.store, &bench.sealer).await.unwrap();
        let of = |device: Device| heads.iter().find(|head| head.device == device.id).unwrap().drive;
        assert_eq!(heads.len(), 2);
        assert_eq!(contents_of(&bench, &bench.store, of(device(1))).await[1], 3);
        assert_eq!(contents_of(&bench, &bench.store, of(device(0))).await[1], 2);

        // The drive goes back by way of a replica: the store is its own again, and is not retired a second time.
        let there = Bench { store: replica.clone(), ..bench.elsewhere() };
        let mut drive = open(&there, 0, &bench.store).await;
        put(&drive.volume, 1, 4).await;
        drive.sync().await;
        drive.up_to_date().await;
        drop(drive);
        promote(&bench, &bench.store).await.unwrap();
        assert_eq!(tell(head.epoch).await, Told::Already);
        let volume = bench.elsewhere().open(1).await.unwrap();
        assert_eq!(get(&volume, 1).await, 4);
    });
}

/// Tells the bench's store that the drive has moved to the replica with version `newest`, and had no epoch below `at` there.
async fn tell_former(bench: &Bench, at: Epoch, newest: ObjectId) -> Told {
    let left = Left { at, with: (newest.epoch, newest.seq) };
    let former = objects(bench, &bench.store);
    replica::retire_former(&former, bench.drive, left, "file:///replica", &device(0)).await.unwrap()
}

#[test]
fn uploads_to_a_former_store_become_a_drive_there() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.up_to_date().await;
        close(drive.volume.clone()).await;
        drive.up_to_date().await;
        drop(drive);
        let newest = replica::newest(&replica, &bench.sealer, bench.drive).await.unwrap().root;
        // The replica is away and never gets this. Then the store is away, and the replica takes its place.
        let other = bench.open(1).await.unwrap();
        put(&other, 1, 2).await;
        other.pusher().unwrap().snapshot("early").await.unwrap();
        put(&other, 2, 3).await;
        close(other).await;
        let there = objects(&bench, &replica);
        let head = replica::promote(&there, bench.drive, as_it_is(true), &device(0)).await.unwrap().head;
        // Cut off at any request, and tried again.
        bench.store.set_faults(StoreFaults { refused: 150, answer_lost: 150, ..StoreFaults::default() });
        let left = Left { at: head.epoch, with: (newest.epoch, newest.seq) };
        let former = objects(&bench, &bench.store);
        loop {
            let told =
                replica::retire_former(&former, bench.drive, left, "file:///replica", &device(0)).await;
            if told.is_ok() {
                break;
            }
        }
        bench.store.set_faults(StoreFaults::default());
        let all = contents(&bench, &bench.store).await;
        assert_eq!((all[1], all[2]), (2, 3));
        let heads = drive::heads(&bench.store, &bench.sealer).await.unwrap();
        let (_, _, root) = drive::current(&former, heads[0].drive).await.unwrap();
        assert!(fork::is_name_of_fork(&root.name), "{}", root.name);
        // It includes the snapshots that the replica lacks.
        let early = drive::snapshot(&root, "early").unwrap();
        let access = Access::Look { root: (early.root, early.root_hash) };
        let early = bench.elsewhere().open_on(Arc::new(bench.store.clone()), 0, access).await.unwrap();
        assert_eq!((get(&early, 1).await, get(&early, 2).await), (2, 0));
        early.shut_down().await.unwrap();
        assert_eq!(tell_former(&bench, head.epoch, newest).await, Told::Already);
    });
}

#[test]
fn a_promotion_reported_as_failed_was_never_done() {
    let (mut done, mut failed, mut unsure) = (0, 0, 0);
    for seed in 0..300 {
        let (bench, replica) = (Bench::new(), SimStore::new(seed, StoreFaults::default()));
        run(async {
            let mut drive = open(&bench, 0, &replica).await;
            put(&drive.volume, 1, 1).await;
            drive.sync().await;
            drive.up_to_date().await;
            close(drive.volume.clone()).await;
            drop(drive);
            let faults = StoreFaults {
                refused: 40,
                answer_lost: 100,
                zombie: 100,
                failed: 100,
                denied: 40,
                ..StoreFaults::default()
            };
            replica.set_faults(faults);
            let there = objects(&bench, &replica);
            let promoted = replica::promote(&there, bench.drive, as_it_is(false), &device(0)).await;
            replica.set_faults(StoreFaults::default());
            // Delayed requests arrive.
            for _ in 0..50 {
                replica.list("head/").await.unwrap();
            }
            let heads = drive::heads(&replica, &bench.sealer).await.unwrap().len();
            match promoted {
                Ok(_) => {
                    done += 1;
                    assert_eq!(heads, 1, "seed {seed}");
                }
                Err(ReplicaError::Unsure(_)) => {
                    unsure += 1;
                    // A repeated promotion succeeds.
                    match replica::promote(&there, bench.drive, as_it_is(false), &device(0)).await {
                        Ok(_) | Err(ReplicaError::Already) => {}
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
                Err(ReplicaError::Already) => assert_eq!(heads, 1, "seed {seed}"),
                Err(error) => {
                    failed += 1;
                    assert_eq!(heads, 0, "seed {seed}: {error}");
                }
            }
        });
    }
    assert!(done > 20 && failed > 5 && unsure > 5, "{done} done, {failed} failed, {unsure} unsure");
}

#[test]
fn a_former_store_with_nothing_newer_gets_no_drive() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.up_to_date().await;
        let newest = replica::newest(&replica, &bench.sealer, bench.drive).await.unwrap().root;
        drop(drive);
        assert_eq!(tell_former(&bench, Epoch(99), newest).await, Told::Now { left_behind: None });
        assert_eq!(drive::heads(&bench.store, &bench.sealer).await.unwrap().len(), 0);
    });
}

#[test]
fn unsent_changes_for_a_former_store_become_a_fork_there() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(1).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        put(&volume, 2, 2).await;
        volume.shut_down().await.unwrap();
        drop(volume);
        let former = objects(&bench, &bench.store);
        let (head, ..) = drive::current(&former, bench.drive).await.unwrap();
        let left = Left { at: Epoch(99), with: (head.root.epoch, head.root.seq) };
        replica::retire_former(&former, bench.drive, left, "s3://b", &device(0)).await.unwrap();
        let refused = bench.open(1).await;
        assert!(matches!(refused, Err(OpenError::Forked { unsent: 1, .. })), "{:?}", refused.err());
        let state = bench.devices[1].state.directory("state");
        volume::fork(&state, bench.drive, "device 0").await.unwrap();
        let fork = bench.open(1).await.unwrap();
        fork.pusher().unwrap().sync().await.unwrap();
        close(fork).await;
        let all = contents(&bench, &bench.store).await;
        assert_eq!((all[1], all[2]), (1, 2));
    });
}

#[test]
fn a_clone_in_a_former_store_keeps_shared_objects() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        fill(&drive.volume, 1).await;
        drive.up_to_date().await;
        close(drive.volume.clone()).await;
        drop(drive);
        let here = objects(&bench, &bench.store);
        drive::clone(&here, bench.drive, None, "e", &device(0)).await.unwrap();
        let shared = segments(&bench.store).await;
        let (head, etag, _) = drive::current(&here, bench.drive).await.unwrap();
        drive::retire(&here, (&head, etag), "file:///replica", &device(0)).await.unwrap();
        let there = objects(&bench, &replica);
        replica::promote(&there, bench.drive, as_it_is(false), &device(0)).await.unwrap();
        // The store is now a replica of the drive, and the clone's own store.
        let there = Bench { store: replica.clone(), ..bench.elsewhere() };
        let mut drive = open(&there, 0, &bench.store).await;
        fill(&drive.volume, 2).await;
        drive.up_to_date().await;
        collect(&drive.volume).await;
        assert!(!shared.is_subset(&segments(&replica).await), "the drive itself does not need them");
        drive.up_to_date().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(contents(&bench, &bench.store).await[..64].iter().all(|byte| *byte == 1));
    });
}

#[test]
fn a_promoted_drive_keeps_the_objects_its_clones_replica_needs() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        fill(&drive.volume, 1).await;
        drive.up_to_date().await;
        close(drive.volume.clone()).await;
        drop(drive);
        let clone = drive::clone(&objects(&bench, &bench.store), bench.drive, None, "e", &device(0)).await;
        let clone = clone.unwrap();
        let mut copied = open(&Bench { drive: clone, ..bench.elsewhere() }, 0, &replica).await;
        copied.up_to_date().await;
        drop(copied);
        // The first store is lost. Only one of the two is promoted so far.
        promote(&bench, &replica).await.unwrap();
        let there = Bench { store: replica.clone(), ..bench.elsewhere() };
        let volume = there.open(0).await.unwrap();
        fill(&volume, 2).await;
        collect(&volume).await;
        close(volume).await;
        promote_drive(&bench, &replica, clone).await.unwrap();
        assert!(contents_of(&bench, &replica, clone).await[..64].iter().all(|byte| *byte == 1));
    });
}

/// Faults on both stores, crashes at any moment, collections; then the first store is lost. The replica gives at least the
/// version that was reported as copied, and it gives one version exactly as it was.
#[test]
fn a_replica_gives_a_whole_version_at_least_as_reported() {
    let mut compared = 0;
    for seed in 0..150 {
        let mut rng = StdRng::seed_from_u64(seed);
        let bench = Bench::new();
        holdall_core::entropy::seed_this_thread(seed);
        let replica = SimStore::new(seed ^ 77, StoreFaults::default());
        let faults = StoreFaults {
            refused: rng.random_range(0..60),
            answer_lost: rng.random_range(0..60),
            zombie: rng.random_range(0..40),
            busy: rng.random_range(0..40),
            away: rng.random_range(0..20),
            garbled: rng.random_range(0..20),
            denied: 5,
            kept: 10,
            conflict: 10,
            failed: 10,
            repeated: 10,
            time: Duration::from_millis(rng.random_range(0..500)),
        };
        let mut versions: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut now = vec![0; BLOCKS as usize];
        let mut reported: Option<String> = None;
        for _life in 0..rng.random_range(1..4) {
            run(async {
                bench.store.set_faults(faults);
                replica.set_faults(faults);
                let drive = open(&bench, 0, &replica).await;
                for _ in 0..rng.random_range(1..12) {
                    for _ in 0..rng.random_range(1..40) {
                        let (block, byte) = (rng.random_range(0..BLOCKS), rng.random());
                        put(&drive.volume, block, byte).await;
                        now[block as usize] = byte;
                    }
                    versions.insert(drive.sync().await, now.clone());
                    if rng.random_ratio(1, 6) {
                        // The collection fails if the store does not answer.
                        let _ = drive.volume.pusher().unwrap().collect().await;
                        // A collection commits the same contents under other names.
                        versions.insert(drive.sync().await, now.clone());
                    }
                    let paused = rng.random_ratio(1, 5);
                    drive.wanted.send_replace(if paused { Wanted::Paused } else { Wanted::Kept });
                    tokio::time::sleep(Duration::from_millis(rng.random_range(0..20_000))).await;
                    if let Some(version) = drive.progress.borrow().version {
                        reported = Some(version.name(ObjectKind::Root));
                    }
                }
                // Everything ends at once, as with kill -9: pending work of the tasks is lost.
                drive.task.abort();
                drop(drive.wanted);
            });
            bench.devices[0].power_cut();
        }
        run(async {
            replica.set_faults(StoreFaults::default());
            let promoted = match promote(&bench, &replica).await {
                Ok(promoted) => promoted,
                Err(ReplicaError::Nothing) => {
                    assert_eq!(reported, None, "seed {seed}");
                    return;
                }
                Err(error) => panic!("seed {seed}: {error}"),
            };
            let seq = |name: &str| ObjectId::parse(name).map(|(_, id)| (id.epoch, id.seq));
            if let Some(reported) = &reported {
                assert!(seq(&promoted) >= seq(reported), "seed {seed}: older than it said");
            }
            let found = contents(&bench, &replica).await;
            if let Some(expected) = versions.get(&promoted) {
                assert!(*expected == found, "seed {seed}: the version is not as it was");
                compared += 1;
            }
        });
    }
    assert!(compared > 75, "{compared} versions were compared");
}

#[test]
fn unsent_changes_become_a_fork_in_a_promoted_replica() {
    const LOOK: Access = Access::Write { over: TakeOver::Nobody, mounted: false };
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut first = open(&bench, 0, &replica).await;
        put(&first.volume, 0, 9).await;
        first.sync().await;
        first.up_to_date().await;
        first.volume.pusher().unwrap().set_paused(true);
        put(&first.volume, 1, 1).await;
    });
    bench.devices[0].power_cut();
    run(async {
        promote(&bench, &replica).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(replica.clone());
        let second = bench.open_on(store.clone(), 1, LOOK).await.unwrap();
        for byte in 20..24 {
            put(&second, 0, byte).await;
            second.pusher().unwrap().sync().await.unwrap();
        }
        // Collect often, until everything that may be deleted is.
        for _ in 0..8 {
            put(&second, 2, 3).await;
            second.pusher().unwrap().collect().await.unwrap();
        }
        close(second).await;

        let found = bench.open_on(store.clone(), 0, LOOK).await;
        assert!(matches!(found, Err(OpenError::Forked { .. })), "{:?}", found.err());
        let state = bench.devices[0].state.directory("state");
        volume::fork(&state, bench.drive, "device 1").await.unwrap();
        let fork = bench.open_on(store, 0, LOOK).await.unwrap();
        assert_eq!((get(&fork, 0).await, get(&fork, 1).await, get(&fork, 2).await), (9, 1, 0));
        close(fork).await;
    });
}

#[test]
fn promotes_a_former_store_only_with_consent() {
    let (first, second, third) = (Bench::new(), empty(), empty());
    run(async {
        visit(&first, &second, Some(1)).await;
        let there = move_over(&first, &second).await;
        visit(&there, &third, Some(2)).await;
        let there = move_over(&there, &third).await;
        visit(&there, &empty(), Some(3)).await;
        // Another device knows the first store, which says that the drive is in the second.
        let (objects, heads) = (objects(&first, &second), second.heads());
        let promote = async |accepts_loss| {
            let promotion = Promotion { accepts_loss, ..as_it_is(false) };
            replica::promote(&objects, first.drive, promotion, &device(1)).await
        };
        for refused in
            [promote(false).await.map(drop), replica::candidate(&objects, first.drive, false).await.map(drop)]
        {
            let Err(ReplicaError::Left(DriveError::Moved { to: Some(_) })) = refused else {
                panic!("{refused:?}")
            };
        }
        assert_eq!(second.heads(), heads, "it stays as it is");
        // With consent it gets the last version that was there, complete. Much of the first version there has been deleted since.
        let promoted = promote(true).await.unwrap();
        assert_eq!(replica::newest(&second, &first.sealer, first.drive).await.unwrap().root.epoch, Epoch(1));
        assert!(promoted.with.epoch > Epoch(1), "{promoted:?}");
        assert!(contents(&first, &second).await[..64].iter().all(|byte| *byte == 2));
    });
}

#[test]
fn a_drive_moves_to_and_fro_between_stores_unchanged() {
    let (first, second) = (Bench::new(), empty());
    run(async {
        visit(&first, &second, Some(1)).await;
        let mut here = move_over(&first, &second).await;
        for round in 0..4 {
            let other = if round % 2 == 0 { &first.store } else { &second };
            visit(&here, other, None).await;
            here = move_over(&here, other).await;
            assert!(contents(&first, other).await[..64].iter().all(|byte| *byte == 1), "round {round}");
        }
    });
}

const WRITING: Access = Access::Write { over: TakeOver::Nobody, mounted: false };

/// A store that stops before it accepts a HEAD, until the test lets it continue. If `goes`, it is unreachable afterwards.
struct StopsAtHead {
    store: SimStore,
    goes: bool,
    is_gone: AtomicBool,
    stopped: Notify,
    go_on: Notify,
}

#[async_trait]
impl Layer for StopsAtHead {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn reach(&self) -> Result<(), StoreError> {
        if self.is_gone.load(Relaxed) { Err(gone()) } else { Ok(()) }
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        let is_head = name.starts_with("head/") && self.store.heads().is_empty();
        if is_head {
            self.stopped.notify_one();
            self.go_on.notified().await;
        }
        let put = self.store.put(name, body, when).await;
        self.is_gone.store(is_head && self.goes, Relaxed);
        put
    }
}

#[test]
fn a_replica_updated_during_its_promotion_becomes_the_newer_version() {
    for (is_away, goes) in [(false, false), (true, false), (false, true), (true, true)] {
        let (bench, replica) = (Bench::new(), empty());
        run(async {
            let mut drive = open(&bench, 0, &replica).await;
            fill(&drive.volume, 1).await;
            let old = drive.up_to_date().await;
            let before = segments(&replica).await;
            drive.wanted.send_replace(Wanted::Paused);
            fill(&drive.volume, 2).await;
            collect(&drive.volume).await;
            let store = Arc::new(Layered(StopsAtHead {
                store: replica.clone(),
                goes,
                is_gone: AtomicBool::new(false),
                stopped: Notify::new(),
                go_on: Notify::new(),
            }));
            let there = objects_of(&bench, store.clone());
            let device = device(1);
            let promoting = replica::promote(&there, bench.drive, as_it_is(is_away), &device);
            let (promoted, newest) = tokio::join!(promoting, async {
                store.stopped.notified().await;
                drive.wanted.send_replace(Wanted::Kept);
                let newest = drive.up_to_date().await;
                // The last deletions follow the last record.
                tokio::time::sleep(Duration::from_secs(60)).await;
                assert!(!before.is_subset(&segments(&replica).await), "what only the old one needs is gone");
                store.go_on.notify_one();
                newest
            });
            assert!(newest.seq > old.seq);
            drop(drive);
            if goes {
                let Err(ReplicaError::Unsure(_)) = promoted else { panic!("{promoted:?}") };
                assert_eq!(promote(&bench, &replica).await.unwrap(), newest.name(ObjectKind::Root));
            } else {
                assert_eq!(promoted.unwrap().with, newest);
            }
            assert!(contents(&bench, &replica).await[..64].iter().all(|byte| *byte == 2));
            // No device has opened it yet, and a second promotion is refused.
            let heads = replica.heads();
            let Err(ReplicaError::Already) = promote(&bench, &replica).await else {
                panic!("it is promoted")
            };
            assert_eq!(replica.heads(), heads);
            // A device that opens it continues with the current version.
            let there = Bench { store: replica.clone(), ..bench.elsewhere() };
            let volume = there.open(1).await.unwrap();
            fill(&volume, 3).await;
            close(volume).await;
            let heads = replica.heads();
            let Err(ReplicaError::Already) = promote(&bench, &replica).await else {
                panic!("it is promoted")
            };
            assert_eq!(replica.heads(), heads);
            assert!(contents(&bench, &replica).await[..64].iter().all(|byte| *byte == 3));
        });
    }
}

/// A replica whose promotion is cut off after the first HEAD. A later version has reached it meanwhile, and what only the earlier one needs
/// is deleted there. Returns the later version.
async fn promoted_in_part(bench: &Bench, replica: &SimStore, is_away: bool) -> ObjectId {
    let mut drive = open(bench, 0, replica).await;
    fill(&drive.volume, 1).await;
    drive.up_to_date().await;
    drive.wanted.send_replace(Wanted::Paused);
    fill(&drive.volume, 2).await;
    collect(&drive.volume).await;
    let store = Arc::new(Layered(StopsAtHead {
        store: replica.clone(),
        goes: true,
        is_gone: AtomicBool::new(false),
        stopped: Notify::new(),
        go_on: Notify::new(),
    }));
    let there = objects_of(bench, store.clone());
    let device = device(1);
    let promoting = replica::promote(&there, bench.drive, as_it_is(is_away), &device);
    let (promoted, newest) = tokio::join!(promoting, async {
        store.stopped.notified().await;
        drive.wanted.send_replace(Wanted::Kept);
        let newest = drive.up_to_date().await;
        // The last deletions follow the last record.
        tokio::time::sleep(Duration::from_secs(60)).await;
        store.go_on.notify_one();
        newest
    });
    let Err(ReplicaError::Unsure(_)) = promoted else { panic!("{promoted:?}") };
    newest
}

#[test]
fn an_opening_finishes_an_interrupted_promotion() {
    for (is_away, opener) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let (bench, replica) = (Bench::new(), empty());
        run(async {
            let newest = promoted_in_part(&bench, &replica, is_away).await;
            let there = Bench { store: replica.clone(), ..bench.elsewhere() };
            let volume = there.open(opener).await.unwrap();
            assert_eq!(get(&volume, 63).await, 2, "opened by {opener}, {is_away}");
            fill(&volume, 3).await;
            // A promotion that comes too late changes nothing.
            let heads = replica.heads();
            let again = promote(&bench, &replica).await;
            let Err(ReplicaError::Already) = again else { panic!("{again:?}") };
            assert_eq!(replica.heads(), heads);
            close(volume).await;
            assert!(contents(&bench, &replica).await[..64].iter().all(|byte| *byte == 3));
            let with = replica::promoted_with(&objects(&bench, &replica), bench.drive).await.unwrap().with;
            assert_eq!((with.epoch, with.seq), (newest.epoch, newest.seq), "it continues the newest version");
        });
    }
}

/// A store that is away until a test brings it back.
struct Returns {
    store: SimStore,
    is_back: AtomicBool,
}

#[async_trait]
impl Layer for Returns {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn reach(&self) -> Result<(), StoreError> {
        if self.is_back.load(Relaxed) { Ok(()) } else { Err(gone()) }
    }
}

#[test]
fn an_interrupted_promotion_is_finished_when_the_store_comes_back() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        promoted_in_part(&bench, &replica, true).await;
        let store = Arc::new(Layered(Returns { store: replica.clone(), is_back: AtomicBool::new(false) }));
        // The device that had the drive when its first store was lost.
        let volume = bench.open_on(store.clone(), 0, Access::Away { mounted: false }).await.unwrap();
        put(&volume, 5, 5).await;
        store.is_back.store(true, Relaxed);
        volume.pusher().unwrap().sync().await.unwrap();
        assert!(volume.pusher().unwrap().state().borrow().fork.is_none(), "it continues its own version");
        close(volume).await;
        let all = contents(&bench, &replica).await;
        assert_eq!((all[4], all[5], all[63]), (2, 5, 2));
    });
}

#[test]
fn nothing_changes_a_drive_before_its_promotion_is_finished() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        promoted_in_part(&bench, &replica, false).await;
        let (there, heads) = (objects(&bench, &replica), replica.heads());
        let renamed = drive::rename(&there, bench.drive, "other", &device(1)).await;
        assert!(matches!(renamed, Err(DriveError::Unfinished)), "{renamed:?}");
        let removed = drive::remove(&there, bench.drive, &device(1)).await;
        assert!(matches!(removed, Err(DriveError::Unfinished)), "{removed:?}");
        let cloned = drive::clone(&there, bench.drive, None, "e", &device(1)).await;
        assert!(matches!(cloned, Err(DriveError::Unfinished)), "{cloned:?}");
        let found = replica.get(&head::name(bench.drive), None).await.unwrap();
        let (head, etag) = (Head::decode(&bench.sealer, &found.bytes).unwrap(), found.etag);
        let retired = drive::retire(&there, (&head, etag), "file:///third", &device(1)).await;
        assert!(matches!(retired, Err(DriveError::Unfinished)), "{retired:?}");
        assert_eq!(replica.heads(), heads);
        promote(&bench, &replica).await.unwrap();
        drive::rename(&there, bench.drive, "other", &device(1)).await.unwrap();
        assert!(contents(&bench, &replica).await[..64].iter().all(|byte| *byte == 2));
    });
}

/// The drive's HEAD in the replica.
async fn head_of(bench: &Bench, replica: &SimStore) -> Head {
    let found = replica.get(&head::name(bench.drive), None).await.unwrap();
    Head::decode(&bench.sealer, &found.bytes).unwrap()
}

/// The drive's records in the replica, the last one last.
fn records(replica: &SimStore) -> Vec<String> {
    replica.names().into_iter().filter(|name| name.starts_with("replica/")).collect()
}

/// Begins a promotion of the newest version as `device`, and is cut off.
async fn begun(bench: &Bench, replica: &SimStore, there: &Objects, device: &Device) {
    let record = replica::newest(replica, &bench.sealer, bench.drive).await.unwrap();
    let next = (Epoch(record.epoch.0 + 1), heads::Version::of(&record));
    let first = transition::promote(None, &record, next, Author::new(device)).unwrap();
    let put = heads::swap(there.store().as_ref(), &bench.sealer, None, first, &mut Once).await;
    assert!(matches!(put, Swap::Applied(..)), "{put:?}");
}

#[test]
fn finishing_a_promotion_keeps_the_version_for_its_beginner() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        visit(&bench, &replica, Some(1)).await;
        let there = objects(&bench, &replica);
        begun(&bench, &replica, &there, &device(1)).await;
        let volume = bench.elsewhere().open_on(Arc::new(replica.clone()), 2, WRITING).await.unwrap();
        let (_, _, root) = drive::current(&there, bench.drive).await.unwrap();
        let beginner = device(1).id.simple().to_string();
        assert!(root.snapshots.iter().any(|kept| kept.label.ends_with(&beginner)), "{:?}", root.snapshots);
        close(volume).await;
    });
}

/// Delivers the first HEAD that is put only right before the second.
struct LateHead {
    store: SimStore,
    late: parking_lot::Mutex<Option<(Bytes, When)>>,
    is_delivered: AtomicBool,
}

#[async_trait]
impl Layer for LateHead {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if head::is_name(name) && !self.is_delivered.load(Relaxed) {
            let late = self.late.lock().take();
            let Some((first, condition)) = late else {
                *self.late.lock() = Some((body, when));
                return Err(gone());
            };
            self.is_delivered.store(true, Relaxed);
            self.store.put(name, first, condition).await?;
        }
        self.store.put(name, body, when).await
    }
}

#[test]
fn a_promotion_goes_on_from_its_own_late_head() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        visit(&bench, &replica, Some(1)).await;
        let late = parking_lot::Mutex::default();
        let store = LateHead { store: replica.clone(), late, is_delivered: AtomicBool::new(false) };
        let there = objects_of(&bench, Arc::new(Layered(store)));
        let promote = async || replica::promote(&there, bench.drive, as_it_is(false), &device(1)).await;
        let first = promote().await;
        assert!(matches!(first, Err(ReplicaError::Unsure(_))), "{first:?}");
        let head = promote().await.unwrap().head;
        assert!(!head.is_provisional());
        assert_eq!(head_of(&bench, &replica).await, head);
    });
}

#[test]
fn a_former_store_finishes_its_own_promotion_before_it_is_retired() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let newest = promoted_in_part(&bench, &replica, false).await;
        let left = Left { at: Epoch(1 << 40), with: (newest.epoch, newest.seq) };
        let former = objects(&bench, &replica);
        let told = replica::retire_former(&former, bench.drive, left, "file:///third", &device(2)).await;
        assert!(matches!(told, Ok(Told::Now { .. })), "{told:?}");
        let head = head_of(&bench, &replica).await;
        assert!(head.has_moved());
        let root = former.root(head.root, Some(head.root_hash)).await.unwrap();
        assert!(head.root == newest || root.parent == newest, "{root:?}");
    });
}

#[test]
fn a_lost_later_version_is_left_out_only_with_consent() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let newest = promoted_in_part(&bench, &replica, false).await;
        replica.damage(&newest.name(ObjectKind::Root), |body| body.truncate(9));
        let (there, heads) = (objects(&bench, &replica), replica.heads());
        let promote = async |accepts_loss| {
            let promotion = Promotion { accepts_loss, ..as_it_is(false) };
            replica::promote(&there, bench.drive, promotion, &device(2)).await
        };
        promote(false).await.unwrap_err();
        assert!(bench.elsewhere().open_on(Arc::new(replica.clone()), 2, WRITING).await.is_err());
        assert_eq!(replica.heads(), heads, "it stays as it is");
        let promoted = promote(true).await.unwrap();
        assert!(!promoted.head.is_provisional() && promoted.with.seq < newest.seq, "{promoted:?}");
    });
}

/// A store that lists an object and does not find it.
struct Hides {
    store: SimStore,
    name: String,
}

#[async_trait]
impl Layer for Hides {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn get(&self, name: &str, range: Option<std::ops::Range<u64>>) -> Result<Fetched, StoreError> {
        match name == self.name {
            true => Err(StoreError::NotFound { name: name.to_owned() }),
            false => self.store.get(name, range).await,
        }
    }
}

#[test]
fn a_record_that_is_listed_and_not_found_is_not_taken_for_gone() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let newest = promoted_in_part(&bench, &replica, false).await;
        let heads = replica.heads();
        let store = Hides { store: replica.clone(), name: records(&replica).pop().unwrap() };
        let hidden = Arc::new(Layered(store));
        assert!(bench.elsewhere().open_on(hidden.clone(), 2, WRITING).await.is_err());
        assert_eq!(replica.heads(), heads, "it stays as it is");
        // A person may decide that it is lost.
        let promotion = Promotion { accepts_loss: true, ..as_it_is(false) };
        let there = objects_of(&bench, hidden);
        let promoted = replica::promote(&there, bench.drive, promotion, &device(2)).await.unwrap();
        assert!(promoted.with.seq < newest.seq, "{promoted:?}");
    });
}

#[test]
fn a_former_store_that_does_not_show_its_version_is_not_retired() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        visit(&bench, &replica, Some(1)).await;
        let head = head_of(&bench, &bench.store).await;
        let store = Hides { store: bench.store.clone(), name: head.root.name(ObjectKind::Root) };
        let former = objects_of(&bench, Arc::new(Layered(store)));
        let left = Left { at: Epoch(99), with: (Epoch(0), 0) };
        let told = replica::retire_former(&former, bench.drive, left, "file:///replica", &device(0)).await;
        assert!(matches!(told, Err(DriveError::Read(_))), "{told:?}");
        assert_eq!(head_of(&bench, &bench.store).await, head);
        // If it is gone, nothing is left to lose.
        bench.store.lose(&head.root.name(ObjectKind::Root));
        let left_behind = tell_former(&bench, Epoch(99), ObjectId { seq: 0, ..head.root }).await;
        assert_eq!(left_behind, Told::Now { left_behind: None });
    });
}

#[test]
fn a_record_under_the_name_of_another_does_not_count() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let newest = promoted_in_part(&bench, &replica, false).await;
        let last = records(&replica).pop().unwrap();
        let body = replica.get(&last, None).await.unwrap().bytes;
        let (prefix, _) = last.rsplit_once('/').unwrap();
        replica.leave(&format!("{prefix}/{:016x}-{:016x}-{:032x}", 99, 1, 1), body);
        let volume = bench.elsewhere().open_on(Arc::new(replica.clone()), 2, WRITING).await.unwrap();
        assert_eq!(get(&volume, 63).await, 2);
        close(volume).await;
        let with = replica::promoted_with(&objects(&bench, &replica), bench.drive).await.unwrap().with;
        assert_eq!(with, newest);
    });
}

#[test]
fn one_of_two_devices_finishes_a_promotion_where_heads_are_claimed() {
    let mut finished = 0;
    for seed in 0..40 {
        let (bench, replica) = (Bench::new(), SimStore::new(seed, StoreFaults::default()).without_swap());
        run(async {
            visit(&bench, &replica, Some(1)).await;
            let of_device = || objects_of(&bench, with_heads(Arc::new(replica.clone()), Mode::Claim));
            begun(&bench, &replica, &of_device(), &device(0)).await;
            replica.set_faults(StoreFaults { time: Duration::from_millis(40), ..StoreFaults::default() });
            let finish = async |index| {
                replica::promote(&of_device(), bench.drive, as_it_is(false), &device(index)).await
            };
            let (one, other) = tokio::join!(finish(1), finish(2));
            let both = [one, other];
            let won = both.iter().filter(|done| done.is_ok()).count();
            assert!(won <= 1, "seed {seed}: {both:?}");
            finished += won;
        });
    }
    assert!(finished > 20, "{finished}");
}

#[test]
fn a_promotion_of_an_earlier_program_goes_on() {
    for is_away in [false, true] {
        let (bench, replica) = (Bench::new(), empty());
        run(async {
            let mut drive = open(&bench, 0, &replica).await;
            fill(&drive.volume, 1).await;
            drive.up_to_date().await;
            let there = objects(&bench, &replica);
            let promoted =
                replica::promote(&there, bench.drive, as_it_is(is_away), &device(1)).await.unwrap();
            // It put this HEAD at once, and was cut off before it looked for later versions.
            let epoch = Epoch(promoted.head.epoch.0 - 1);
            let early = Head { epoch, ..promoted.head }.encode(&bench.sealer);
            replica.lose(&head::name(bench.drive));
            fill(&drive.volume, 2).await;
            let newest = drive.up_to_date().await;
            drop(drive);
            replica.leave(&head::name(bench.drive), early.into());
            let again = replica::promote(&there, bench.drive, as_it_is(is_away), &device(1)).await.unwrap();
            assert_eq!(again.with, newest);
            assert!(!again.head.is_provisional());
            assert!(contents(&bench, &replica).await[..64].iter().all(|byte| *byte == 2));
            let third = promote(&bench, &replica).await;
            assert!(matches!(third, Err(ReplicaError::Already)), "{third:?}");
        });
    }
}

#[test]
fn a_version_that_a_primary_lacks_is_not_said_to_be_in_it() {
    let (bench, replica) = (Bench::new(), empty());
    run(async {
        let mut drive = open(&bench, 0, &replica).await;
        put(&drive.volume, 1, 1).await;
        drive.sync().await;
        drive.up_to_date().await;
        // An earlier program was cut off here, and another device has opened the drive since.
        let there = objects(&bench, &replica);
        let first = replica::promote(&there, bench.drive, as_it_is(true), &device(1)).await.unwrap().with;
        let head = replica.get(&head::name(bench.drive), None).await.unwrap().bytes;
        replica.lose(&head::name(bench.drive));
        put(&drive.volume, 1, 2).await;
        drive.sync().await;
        let second = drive.up_to_date().await;
        drop(drive);
        replica.leave(&head::name(bench.drive), head);
        let volume = bench.elsewhere().open_on(Arc::new(replica.clone()), 2, WRITING).await.unwrap();
        put(&volume, 5, 5).await;
        close(volume).await;
        assert_eq!(replica::newest(&replica, &bench.sealer, bench.drive).await.unwrap().root, second);
        let with = replica::promoted_with(&there, bench.drive).await.unwrap().with;
        assert_eq!(with, first);
    });
}

/// A store without compare-and-swap that refuses a HEAD with a given error. Before that, a device that is too late passes the
/// current HEAD on.
struct TakesNoHead {
    inner: SimStore,
    heads: Arc<dyn Store>,
    why: StoreError,
}

#[async_trait]
impl Layer for TakesNoHead {
    fn store(&self) -> &dyn Store {
        &*self.heads
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if !name.starts_with("head/") {
            return self.heads.put(name, body, when).await;
        }
        let last = self.inner.names().into_iter().filter(|record| record.starts_with(name)).max().unwrap();
        let version = last.splitn(3, '-').nth(2).unwrap();
        let last_turn = last.strip_prefix(name).unwrap()[1..].split('-').next().unwrap();
        let turn = u64::from_str_radix(last_turn, 16).unwrap() + 1;
        let current = self.inner.get(&last, None).await?.bytes;
        self.inner
            .put(&format!("{}/{turn:016x}", name.replace("head/", "claim/")), Bytes::new(), When::Absent)
            .await?;
        self.inner.put(&format!("{name}/{turn:016x}-{:016x}-{version}", 0), current, When::Absent).await?;
        Err(self.why.clone())
    }
}

#[test]
fn only_a_refused_head_makes_a_promotion_fail_for_sure() {
    let reason = || "as it is".to_owned();
    let open = [
        StoreError::Unreachable { reason: reason() },
        StoreError::Busy { reason: reason(), retry_after: None },
        StoreError::Full { reason: reason() },
        StoreError::NoPlace { place: reason() },
        StoreError::Precondition { name: reason() },
    ];
    let refused =
        [StoreError::Denied { reason: reason() }, StoreError::UnknownCredentials { reason: reason() }];
    let (bench, replica) = (Bench::new(), empty().without_swap());
    run(async {
        visit(&bench, &replica, Some(1)).await;
        let heads = with_heads(Arc::new(replica.clone()), Mode::Claim);
        let there = objects_of(&bench, heads.clone());
        replica::promote(&there, bench.drive, as_it_is(false), &device(0)).await.unwrap();
        let (head, etag, _) = drive::current(&there, bench.drive).await.unwrap();
        drive::retire(&there, (&head, etag), "file:///replica", &device(0)).await.unwrap();
        for (why, is_open) in open.into_iter().map(|why| (why, true)).chain(refused.map(|why| (why, false))) {
            let (inner, told) = (replica.clone(), why.to_string());
            let store = Layered(TakesNoHead { inner, heads: heads.clone(), why });
            let promotion = Promotion { accepts_loss: true, ..as_it_is(false) };
            let there = objects_of(&bench, Arc::new(store));
            let failed = replica::promote(&there, bench.drive, promotion, &device(0)).await;
            let is_unsure = matches!(failed, Err(ReplicaError::Unsure(_)));
            assert_eq!(is_unsure, is_open, "{told}: {failed:?}");
        }
    });
}
