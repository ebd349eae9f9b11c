//! Forks that other devices take, and what forks leave behind.

use crate::bench::layer::{Layer, Layered, away, far};
use crate::bench::{Bench, ROUND_TRIP, close, device, get, put, run};
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::drive;
use holdall_core::fork::{forget_references, shown};
use holdall_core::map::{Objects, PageCache};
use holdall_core::push::{LabelError, PushError};
use holdall_core::sim::disk::SimDisk;
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::{Etag, Fetched, Store, StoreError, When};
use holdall_core::volume::{self, Access, Fork, Local, OpenError, TakeOver, Volume};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

const OVER_OTHERS: Access = Access::Write { over: TakeOver::Anybody, mounted: false };
const MOUNTED: Access = Access::Write { over: TakeOver::Nobody, mounted: true };

fn state(bench: &Bench, index: usize) -> SimDisk {
    bench.devices[index].state.directory("state")
}

fn objects(bench: &Bench) -> Objects {
    Objects::new(Arc::new(bench.store.clone()), bench.sealer.clone(), PageCache::none())
}

async fn labels(bench: &Bench, drive: Uuid) -> Vec<String> {
    let (_, _, root) = drive::current(&objects(bench), drive).await.unwrap();
    root.snapshots.iter().map(|snapshot| shown(&snapshot.label).to_owned()).collect()
}

fn refs(bench: &Bench) -> Vec<String> {
    bench.store.names().into_iter().filter(|name| name.starts_with("ref/")).collect()
}

/// Decides that a device's state is a fork, and opens the fork.
async fn forked(bench: &Bench, index: usize) -> (Fork, Arc<Volume>) {
    let found = bench.open(index).await;
    assert!(matches!(&found, Err(OpenError::Forked { .. })), "{:?}", found.err());
    let fork = volume::fork(&state(bench, index), bench.drive, "another").await.unwrap();
    (fork, bench.open(index).await.unwrap())
}

/// Commits so often that no earlier version is kept by accident, and then collects.
async fn write_much(volume: &Arc<Volume>) {
    for byte in 20..24 {
        put(volume, 0, byte).await;
        volume.pusher().unwrap().sync().await.unwrap();
    }
    volume.pusher().unwrap().collect().await.unwrap();
}

async fn assert_holds(volume: &Arc<Volume>, blocks: &[(u64, u8)]) {
    for (block, byte) in blocks {
        assert_eq!(get(volume, *block).await, *byte, "block {block}");
    }
}

/// A device that had released the drive opens it while the store is away, and writes one block: its number is also its content.
async fn write_away(bench: &Bench, index: usize, block: u64) {
    bench.store.set_faults(StoreFaults { refused: 1000, ..StoreFaults::default() });
    let access = Access::Away { mounted: false };
    let volume = bench.open_on(Arc::new(bench.store.clone()), index, access).await.unwrap();
    put(&volume, block, block as u8).await;
    volume.shut_down().await.unwrap();
    drop(volume);
    bench.store.set_faults(StoreFaults::default());
}

/// Device 0 has one block in the store and two that it could not upload. Device 1 takes the drive over. Device 0 remembers the
/// version before its last commit.
fn taken_over() -> Bench {
    let bench = Bench::new();
    let before = run(async {
        let first = bench.open(0).await.unwrap();
        let before = Local::load(&state(&bench, 0)).unwrap().unwrap();
        put(&first, 0, 9).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.pusher().unwrap().set_paused(true);
        put(&first, 1, 1).await;
        put(&first, 2, 1).await;
        before
    });
    bench.devices[0].power_cut();
    run(async {
        before.save(&state(&bench, 0)).await.unwrap();
        let second = bench.take(1).await.unwrap();
        write_much(&second).await;
        close(second).await;
    });
    bench
}

/// Decides that the state of device 0 is a fork.
async fn decide(bench: &Bench) -> Fork {
    let found = bench.open(0).await;
    assert!(matches!(found, Err(OpenError::Forked { .. })), "{:?}", found.err());
    volume::fork(&state(bench, 0), bench.drive, "device 1").await.unwrap()
}

#[test]
fn forks_a_fork_that_was_taken_before_its_device_knew() {
    let bench = taken_over();
    let (fork, decided) = run(async {
        let fork = decide(&bench).await;
        let decided = Local::load(&state(&bench, 0)).unwrap().unwrap();
        bench.open(0).await.unwrap();
        (fork, decided)
    });
    // The fork has a HEAD, and the power fails before the device records that.
    bench.devices[0].power_cut();
    run(async {
        decided.save(&state(&bench, 0)).await.unwrap();
        let other = Bench { drive: fork.drive, ..bench.elsewhere() };
        let second = other.take(1).await.unwrap();
        write_much(&second).await;
        close(second).await;

        let (again, volume) = forked(&bench, 0).await;
        assert_eq!((again.of, again.cache), (fork.drive, bench.drive));
        assert_holds(&volume, &[(0, 9), (1, 1), (2, 1)]).await;
        close(volume).await;
        let (head, ..) = drive::current(&objects(&bench), again.drive).await.unwrap();
        assert_eq!(head.device, device(0).id, "it is in the store");
    });
}

/// A store that accepts the first HEAD of the first fork, and then stays away until the test brings it back.
struct GoesAway {
    store: SimStore,
    of: Uuid,
    /// How often that has happened.
    gone: AtomicU32,
    away: AtomicBool,
}

#[async_trait]
impl Layer for GoesAway {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn reach(&self) -> Result<(), StoreError> {
        if self.away.load(Relaxed) { Err(away()) } else { Ok(()) }
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        let put = self.store.put(name, body, when.clone()).await;
        let begins = name.starts_with("head/") && name != format!("head/{}", self.of.simple());
        if begins && when == When::Absent && self.gone.fetch_add(1, Relaxed) == 0 {
            self.away.store(true, Relaxed);
            self.reach().await?;
        }
        put
    }
}

#[test]
fn an_open_drive_continues_as_its_taken_forks_fork() {
    let bench = Bench::new();
    run(async {
        let (store, of) = (bench.store.clone(), bench.drive);
        let store =
            Arc::new(Layered(GoesAway { store, of, gone: AtomicU32::new(0), away: AtomicBool::new(false) }));
        let first = bench.open_on(store.clone(), 0, OVER_OTHERS).await.unwrap();
        put(&first, 0, 9).await;
        first.pusher().unwrap().sync().await.unwrap();
        put(&first, 1, 1).await;
        let second = bench.take(1).await.unwrap();
        write_much(&second).await;
        close(second).await;

        let syncing = first.clone();
        let syncing = tokio::spawn(async move { syncing.pusher().unwrap().sync().await });
        let went_away = async {
            while !store.away.load(Relaxed) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3600), went_away).await.unwrap();
        let heads = drive::heads(&bench.store, &bench.sealer).await.unwrap();
        let fork = heads.iter().find(|head| head.drive != bench.drive).unwrap().drive;
        let other = Bench { drive: fork, ..bench.elsewhere() };
        let second = other.take(1).await.unwrap();
        write_much(&second).await;
        close(second).await;
        store.away.store(false, Relaxed);

        let synced = tokio::time::timeout(Duration::from_secs(3600), syncing).await.unwrap().unwrap();
        assert!(matches!(synced, Err(PushError::Forked(_))), "{synced:?}");
        let again = first.pusher().unwrap().state().borrow().fork.clone().unwrap();
        assert_eq!((again.of, again.taken_by), (fork, device(1).name));
        put(&first, 2, 1).await;
        first.pusher().unwrap().sync().await.unwrap();
        assert_holds(&first, &[(0, 9), (1, 1), (2, 1)]).await;
        close(first).await;
        let volume = bench.open(0).await.unwrap();
        assert_holds(&volume, &[(0, 9), (1, 1), (2, 1)]).await;
    });
}

#[test]
fn renaming_a_held_drive_keeps_its_journals_base_version() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 0, 9).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.pusher().unwrap().set_paused(true);
        put(&first, 1, 1).await;
    });
    bench.devices[0].power_cut();
    run(async {
        drive::rename(&objects(&bench), bench.drive, "e", &device(0)).await.unwrap();
        assert_eq!(labels(&bench, bench.drive).await, ["before take-over 2"]);
        // Nobody holds the drive now, so the next opening keeps no version for anyone.
        let second = bench.open(1).await.unwrap();
        write_much(&second).await;
        close(second).await;
        let (_, volume) = forked(&bench, 0).await;
        assert_holds(&volume, &[(0, 9), (1, 1)]).await;
    });
}

/// A store whose first swap of a HEAD waits until another device has taken the drive.
struct Overtaken {
    store: SimStore,
    is_first: AtomicBool,
    begins: Notify,
    goes_on: Notify,
}

#[async_trait]
impl Layer for Overtaken {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if name.starts_with("head/") && self.is_first.swap(false, Relaxed) {
            self.begins.notify_one();
            self.goes_on.notified().await;
        }
        self.store.put(name, body, when).await
    }
}

#[test]
fn a_fork_of_a_forgotten_commit_has_that_commits_map() {
    let mut bench = Bench::new();
    let before = run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 0, 9).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.pusher().unwrap().checkpoint().await.unwrap();
        let before = bench.devices[0].state.copy(81);
        put(&first, 1, 1).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.pusher().unwrap().set_paused(true);
        put(&first, 2, 2).await;
        before
    });
    bench.devices[0].power_cut();
    bench.devices[0].state = before;
    run(async {
        bench.store.set_faults(StoreFaults { refused: 1000, ..StoreFaults::default() });
        let (begins, goes_on) = (Notify::new(), Notify::new());
        let store = bench.store.clone();
        let store = Arc::new(Layered(Overtaken { store, is_first: AtomicBool::new(true), begins, goes_on }));
        let volume = bench.open_on(store.clone(), 0, Access::Away { mounted: false }).await.unwrap();
        bench.store.set_faults(StoreFaults::default());
        store.begins.notified().await;
        assert_eq!(get(&volume, 30).await, 0, "it has read the map that it remembers");
        let second = bench.take(1).await.unwrap();
        put(&second, 0, 8).await;
        second.pusher().unwrap().sync().await.unwrap();
        close(second).await;
        store.goes_on.notify_one();
        let mut state = volume.pusher().unwrap().state();
        let fork = state.wait_for(|state| state.fork.is_some()).await.unwrap().fork.clone().unwrap();
        volume.pusher().unwrap().sync().await.unwrap();
        volume.pusher().unwrap().checkpoint().await.unwrap();
        close(volume).await;
        let volume = Bench { drive: fork.drive, ..bench.elsewhere() }.open(2).await.unwrap();
        assert_holds(&volume, &[(0, 9), (1, 1), (2, 2)]).await;
        close(volume).await;
    });
}

#[test]
fn keeps_a_version_for_its_writer_after_anothers_fork_goes() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        close(first).await;
        close(bench.open(1).await.unwrap()).await;
        // Both have changes on top of the version that device 0 wrote and device 1 released.
        write_away(&bench, 0, 2).await;
        write_away(&bench, 1, 3).await;
        let third = bench.open(2).await.unwrap();
        write_much(&third).await;
        close(third).await;
        let (fork, volume) = forked(&bench, 1).await;
        assert_holds(&volume, &[(1, 1), (3, 3)]).await;
        close(volume).await;
        let third = bench.open(2).await.unwrap();
        write_much(&third).await;
        drive::remove(&objects(&bench), fork.drive, &device(1)).await.unwrap();
        write_much(&third).await;
        close(third).await;
        let (_, volume) = forked(&bench, 0).await;
        assert_holds(&volume, &[(1, 1), (2, 2)]).await;
    });
}

#[test]
fn renaming_keeps_a_released_version_that_another_device_builds_on() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        close(first).await;
        write_away(&bench, 0, 2).await;
        for name in ["e", "f"] {
            drive::rename(&objects(&bench), bench.drive, name, &device(1)).await.unwrap();
        }
        let second = bench.open(1).await.unwrap();
        write_much(&second).await;
        close(second).await;
        let (_, volume) = forked(&bench, 0).await;
        assert_holds(&volume, &[(1, 1), (2, 2)]).await;
    });
}

#[test]
fn renaming_a_released_drive_keeps_no_version() {
    let bench = Bench::new();
    run(async {
        close(bench.open(0).await.unwrap()).await;
        drive::rename(&objects(&bench), bench.drive, "e", &device(0)).await.unwrap();
        assert_eq!(labels(&bench, bench.drive).await, [""; 0]);
    });
}

#[test]
fn taking_a_fork_back_keeps_another_devices_base_version() {
    let bench = Bench::new();
    let open = async |access| bench.open_on(Arc::new(bench.store.clone()), 0, access).await;
    let other = run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 0, 9).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.shut_down().await.unwrap();
        let second = bench.take(1).await.unwrap();
        write_much(&second).await;
        close(second).await;
        // A file system stayed mounted meanwhile: its fork has nothing to upload, and stays at its fork point.
        assert!(matches!(open(MOUNTED).await, Err(OpenError::Forked { unsent: 0, .. })));
        let fork = volume::fork(&state(&bench, 0), bench.drive, "device 1").await.unwrap();
        close(open(MOUNTED).await.unwrap()).await;
        let other = Bench { drive: fork.drive, ..bench.elsewhere() };
        let second = other.open(1).await.unwrap();
        second.pusher().unwrap().set_paused(true);
        put(&second, 5, 5).await;
        other
    });
    other.devices[1].power_cut();
    run(async {
        let first = open(OVER_OTHERS).await.unwrap();
        write_much(&first).await;
        close(first).await;
        let (_, volume) = forked(&other, 1).await;
        assert_holds(&volume, &[(0, 9), (5, 5)]).await;
    });
}

#[test]
fn retried_forks_put_one_ref_and_collections_delete_it() {
    let bench = taken_over();
    run(async {
        let fork = decide(&bench).await;
        // Every put after the ref fails, several times.
        let store =
            Arc::new(Layered(FailsBehindRefs { store: bench.store.clone(), failing: AtomicBool::new(true) }));
        for _ in 0..3 {
            assert!(bench.open_on(store.clone(), 0, OVER_OTHERS).await.is_err());
            let held = refs(&bench);
            assert_eq!(held.len(), 1, "{held:?}");
            assert!(held[0].starts_with(&format!("ref/{}-", fork.drive.simple())), "{held:?}");
        }
        store.failing.store(false, Relaxed);
        // A ref that stays because it could not be deleted, or that arrives late.
        let name = refs(&bench).remove(0);
        let body = bench.store.get(&name, None).await.unwrap().bytes;
        let volume = bench.open_on(store, 0, OVER_OTHERS).await.unwrap();
        assert_eq!(refs(&bench), [""; 0], "its HEAD holds it now");
        assert_eq!(labels(&bench, fork.drive).await, ["fork point"]);
        close(volume).await;
        bench.store.put(&name, body.clone(), When::Absent).await.unwrap();
        let second = bench.open(1).await.unwrap();
        second.pusher().unwrap().collect().await.unwrap();
        assert_eq!(refs(&bench), [""; 0]);
        close(second).await;
        // And a ref of a fork that is discarded, which may never have had a HEAD.
        bench.store.put(&name, body.clone(), When::Absent).await.unwrap();
        forget_references(&bench.store, fork.drive).await.unwrap();
        assert_eq!(refs(&bench), [""; 0]);
        bench.store.put(&name, body, When::Absent).await.unwrap();
        drive::remove(&objects(&bench), fork.drive, &device(0)).await.unwrap();
        assert_eq!(refs(&bench), [""; 0]);
    });
}

/// A store that takes no roots while it fails.
struct FailsBehindRefs {
    store: SimStore,
    failing: AtomicBool,
}

#[async_trait]
impl Layer for FailsBehindRefs {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if name.starts_with("root/") && self.failing.load(Relaxed) {
            return Err(away());
        }
        self.store.put(name, body, when).await
    }
}

#[test]
fn labels_of_collections_and_forks_are_reserved() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        for label in ["fork point", "before take-over 1", "before take-over lunch"] {
            let refused = volume.pusher().unwrap().snapshot(label).await;
            let Err(PushError::Label(LabelError::Reserved(told))) = refused else { panic!("{refused:?}") };
            assert_eq!(told, label);
        }
        volume.pusher().unwrap().snapshot("before take-off").await.unwrap();
        close(volume).await;
        assert_eq!(labels(&bench, bench.drive).await, ["before take-off"]);
    });
}

#[test]
fn takes_over_from_a_device_that_never_stops_committing() {
    let bench = Bench::new();
    run(async {
        let far: Arc<dyn Store> = far(Arc::new(bench.store.clone()), ROUND_TRIP);
        let first = bench.open_on(far.clone(), 0, OVER_OTHERS).await.unwrap();
        let writer = first.clone();
        let writing = tokio::spawn(async move {
            for round in 1.. {
                put(&writer, 0, round).await;
                if let Err(error) = writer.pusher().unwrap().sync().await {
                    return (round, error);
                }
            }
            unreachable!("it counts until it is stopped")
        });
        tokio::time::sleep(Duration::from_secs(20)).await;
        let second = bench.open_on(far, 1, OVER_OTHERS).await.unwrap();
        assert_eq!(second.pusher().unwrap().state().borrow().epoch.0, 3, "it was outrun, and fenced first");
        let (round, error) = writing.await.unwrap();
        assert!(matches!(error, PushError::Forked(_)), "{error}");
        assert_eq!(get(&second, 0).await, round - 1, "all that was uploaded");
        // The version that the fork builds on is kept until the fork holds it.
        assert_eq!(labels(&bench, bench.drive).await.len(), 1);
        write_much(&second).await;
        let fork = first.pusher().unwrap().state().borrow().fork.clone().unwrap();
        assert_eq!(get(&first, 0).await, round);
        close(first).await;
        assert_eq!(labels(&bench, fork.drive).await, ["fork point"]);
        assert_eq!(labels(&bench, bench.drive).await, [""; 0]);
        close(second).await;
    });
}

#[test]
fn an_offline_opening_keeps_the_version_another_device_builds_on() {
    let bench = Bench::new();
    let offline = Access::Away { mounted: false };
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        close(first).await;
        // Device 1 opens the drive, and closes it without a change.
        close(bench.open(1).await.unwrap()).await;
        write_away(&bench, 1, 2).await;

        let first = bench.open_on(Arc::new(bench.store.clone()), 0, offline).await.unwrap();
        write_much(&first).await;
        close(first).await;

        let (_, fork) = forked(&bench, 1).await;
        assert_holds(&fork, &[(1, 1), (2, 2)]).await;
        close(fork).await;
    });
}

#[test]
fn keeps_one_version_for_both_devices_that_wrote_offline() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        close(first).await;
        // Device 1 opens the drive, and closes it without a change.
        close(bench.open(1).await.unwrap()).await;
        write_away(&bench, 0, 2).await;
        write_away(&bench, 1, 3).await;
        let third = async || {
            let third = bench.open(2).await.unwrap();
            write_much(&third).await;
            close(third).await;
        };
        third().await;
        assert_eq!(labels(&bench, bench.drive).await.len(), 2, "a version is kept for each");

        let (fork, volume) = forked(&bench, 0).await;
        assert_holds(&volume, &[(1, 1), (2, 2), (3, 0)]).await;
        close(volume).await;
        third().await;
        assert_eq!(labels(&bench, bench.drive).await.len(), 1, "the other one may still need it");
        let (other, volume) = forked(&bench, 1).await;
        assert_holds(&volume, &[(1, 1), (2, 0), (3, 3)]).await;
        close(volume).await;
        third().await;
        assert_eq!(labels(&bench, bench.drive).await, [""; 0], "the forks keep it now");
        // Neither fork needs the other.
        drive::remove(&objects(&bench), fork.drive, &device(0)).await.unwrap();
        third().await;
        assert_eq!(
            (refs(&bench), labels(&bench, other.drive).await),
            (Vec::new(), vec!["fork point".to_owned()])
        );
        let volume = Bench { drive: other.drive, ..bench.elsewhere() }.open(2).await.unwrap();
        assert_holds(&volume, &[(1, 1), (2, 0), (3, 3)]).await;
    });
}

#[test]
fn keeps_a_version_for_its_device_though_the_next_one_only_looked_twice() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        close(first).await;
        close(bench.open(1).await.unwrap()).await;
        write_away(&bench, 0, 2).await;
        for _ in 0..2 {
            let second = bench.open(1).await.unwrap();
            write_much(&second).await;
            close(second).await;
        }
        let third = bench.open(2).await.unwrap();
        write_much(&third).await;
        close(third).await;
        let (_, volume) = forked(&bench, 0).await;
        assert_holds(&volume, &[(1, 1), (2, 2)]).await;
    });
}

#[test]
fn keeps_a_version_for_a_deposed_device_though_its_writers_fork_is_gone() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.pusher().unwrap().set_paused(true);
        put(&first, 2, 2).await;
        first.shut_down().await.unwrap();
        drop(first);
        // It takes the drive over, and is taken over itself before it has committed anything.
        let second = bench.take(1).await.unwrap();
        second.pusher().unwrap().set_paused(true);
        put(&second, 3, 3).await;
        second.shut_down().await.unwrap();
        drop(second);
        let third = bench.take(2).await.unwrap();
        write_much(&third).await;
        close(third).await;
        let (fork, volume) = forked(&bench, 0).await;
        assert_holds(&volume, &[(1, 1), (2, 2), (3, 0)]).await;
        close(volume).await;
        let third = bench.open(2).await.unwrap();
        write_much(&third).await;
        drive::remove(&objects(&bench), fork.drive, &device(0)).await.unwrap();
        write_much(&third).await;
        close(third).await;
        let (_, volume) = forked(&bench, 1).await;
        assert_holds(&volume, &[(1, 1), (2, 0), (3, 3)]).await;
    });
}

#[test]
fn devices_that_take_turns_leave_one_kept_version_each() {
    let bench = Bench::new();
    run(async {
        for turn in 1..6_u64 {
            for index in 0..3 {
                close(bench.open(index).await.unwrap()).await;
            }
            assert_eq!(labels(&bench, bench.drive).await.len(), 2, "turn {turn}: for the two others");
        }
        let volume = bench.open(0).await.unwrap();
        let labels = labels(&bench, bench.drive).await;
        // A person may delete them.
        for label in &labels {
            assert!(label.starts_with("before hand-over "), "{label}");
            volume.pusher().unwrap().drop_snapshot(label).await.unwrap();
        }
        close(volume).await;
    });
    run(async { assert_eq!(labels(&bench, bench.drive).await, [""; 0]) });
}

#[test]
fn keeps_nothing_of_a_drive_that_was_never_opened() {
    let bench = Bench::new();
    run(async {
        close(bench.open(1).await.unwrap()).await;
        assert_eq!(labels(&bench, bench.drive).await, [""; 0]);
    });
}

/// A store that gives no segments while it fails.
struct LacksSegments {
    store: SimStore,
    failing: AtomicBool,
}

#[async_trait]
impl Layer for LacksSegments {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        if name.starts_with("seg/") && self.failing.load(Relaxed) {
            return Err(away());
        }
        self.store.get(name, range).await
    }
}

#[test]
fn openings_that_fail_do_not_keep_versions_again_and_again() {
    let mut bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        first.pusher().unwrap().sync().await.unwrap();
    });
    bench.devices[0].power_cut();
    bench.devices[0].lose_cache();
    run(async {
        let store = bench.store.clone();
        let store = Arc::new(Layered(LacksSegments { store, failing: AtomicBool::new(true) }));
        for device in [0, 1] {
            for _ in 0..4 {
                assert!(bench.open_on(store.clone(), device, OVER_OTHERS).await.is_err());
            }
            assert!(labels(&bench, bench.drive).await.len() <= 2, "{:?}", labels(&bench, bench.drive).await);
        }
        store.failing.store(false, Relaxed);
        let second = bench.open_on(store, 1, OVER_OTHERS).await.unwrap();
        assert_eq!(get(&second, 1).await, 1);
        close(second).await;
    });
}
