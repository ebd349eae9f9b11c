//! Openings of a device whose state is a fork, or damaged.

use crate::bench::layer::{Layer, Layered};
use crate::bench::{Bench, close, get, put, run, write};
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::device::Durability;
use holdall_core::drive;
use holdall_core::fork::shown;
use holdall_core::journal::JournalError;
use holdall_core::map::{Objects, PageCache};
use holdall_core::push::PushError;
use holdall_core::sim::store::SimStore;
use holdall_core::store::{Etag, Store, StoreError, When};
use holdall_core::units::Lsn;
use holdall_core::volume::{self, Access, Fork, OpenError, TakeOver, Volume};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

#[test]
fn a_crash_before_the_first_commit_makes_no_fork() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        close(first).await;
    });
    run(async {
        let second = bench.open(1).await.unwrap();
        put(&second, 1, 2).await;
    });
    bench.devices[1].power_cut();
    run(async {
        let second = bench.open(1).await.unwrap();
        assert_eq!(get(&second, 1).await, 2, "what was flushed is still there");
        close(second).await;
        let first = bench.open(0).await.unwrap();
        assert_eq!(get(&first, 1).await, 2, "and is what everyone sees");
    });
}

/// A device with two flushed blocks that the store lacks, while another device has committed a block of its own and collected
/// garbage.
fn overtaken() -> Bench {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 0, 9).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.pusher().unwrap().set_paused(true);
        put(&first, 1, 1).await;
        put(&first, 2, 1).await;
    });
    bench.devices[0].power_cut();
    run(async {
        let store = &bench.store;
        let head = holdall_core::drive::heads(store, &bench.sealer).await.unwrap().remove(0);
        let held = bench.open(1).await;
        assert!(matches!(held, Err(OpenError::Held { epoch, .. }) if epoch == head.epoch));
        let second = bench.take(1).await.unwrap();
        for round in 0..4 {
            put(&second, 0, 20 + round).await;
            put(&second, 1, 20 + round).await;
            second.pusher().unwrap().sync().await.unwrap();
            second.pusher().unwrap().collect().await.unwrap();
        }
        close(second).await;
    });
    bench
}

/// Decides that the state of device 0 is a fork.
async fn fork(bench: &Bench) -> Fork {
    volume::fork(&bench.devices[0].state.directory("state"), bench.drive, "device 1").await.unwrap()
}

fn fork_of(volume: &Volume) -> Option<Fork> {
    volume.pusher().unwrap().state().borrow().fork.clone()
}

async fn labels(bench: &Bench, drive: Uuid) -> Vec<String> {
    let store: Arc<dyn Store> = Arc::new(bench.store.clone());
    let objects = Objects::new(store, bench.sealer.clone(), PageCache::none());
    let (_, _, root) = drive::current(&objects, drive).await.unwrap();
    root.snapshots.iter().map(|snapshot| shown(&snapshot.label).to_owned()).collect()
}

/// Whether the drive keeps exactly one version: the one from before the hand-over at this epoch.
async fn handed_over(bench: &Bench, epoch: u64) -> bool {
    let labels = labels(bench, bench.drive).await;
    labels == [format!("before hand-over {epoch}")]
}

#[test]
fn an_overtaken_device_is_refused_until_it_decides_to_fork() {
    let bench = overtaken();
    run(async {
        for _ in 0..2 {
            let forked = bench.open(0).await;
            assert!(
                matches!(&forked, Err(OpenError::Forked { unsent: 2, by }) if by == "device 1"),
                "it says so each time: {:?}",
                forked.err()
            );
        }
        let decided = fork(&bench).await;
        let volume = bench.open(0).await.unwrap();
        assert_eq!(fork_of(&volume), Some(decided.clone()));
        assert_eq!(labels(&bench, decided.drive).await, ["fork point"]);
        for (block, byte) in [(0, 9), (1, 1), (2, 1)] {
            assert_eq!(get(&volume, block).await, byte, "block {block} of the fork");
        }
        close(volume).await;
    });
    // It stays a fork at every later opening, and the drive in the store is unchanged.
    bench.devices[0].power_cut();
    run(async {
        let volume = bench.open(0).await.unwrap();
        assert!(fork_of(&volume).is_some());
        put(&volume, 3, 3).await;
        close(volume).await;
        let other = bench.open(1).await.unwrap();
        assert!(fork_of(&other).is_none());
        for (block, byte) in [(0, 23), (1, 23), (2, 0), (3, 0)] {
            assert_eq!(get(&other, block).await, byte, "block {block} of the drive");
        }
    });
}

#[test]
fn keeps_the_fork_point_until_the_fork_holds_it_itself() {
    let bench = overtaken();
    run(async {
        assert_eq!(labels(&bench, bench.drive).await, ["before take-over 2"]);
        let decided = fork(&bench).await;
        close(bench.open(0).await.unwrap()).await;
        let second = bench.open(1).await.unwrap();
        second.pusher().unwrap().collect().await.unwrap();
        assert!(labels(&bench, bench.drive).await.is_empty(), "the fork keeps it itself");
        close(second).await;
        let fork = bench.open(0).await.unwrap();
        assert_eq!(fork_of(&fork), Some(decided));
        for (block, byte) in [(0, 9), (1, 1), (2, 1)] {
            assert_eq!(get(&fork, block).await, byte, "block {block} of the fork");
        }
    });
}

#[test]
fn releases_the_version_kept_for_a_device_that_lost_nothing() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        first.pusher().unwrap().sync().await.unwrap();
    });
    bench.devices[0].power_cut();
    run(async {
        let second = bench.take(1).await.unwrap();
        put(&second, 2, 2).await;
        second.pusher().unwrap().collect().await.unwrap();
        close(second).await;
        assert_eq!(labels(&bench, bench.drive).await, ["before take-over 2"]);
        let first = bench.open(0).await.unwrap();
        assert!(fork_of(&first).is_none(), "all that it had is there");
        put(&first, 3, 3).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.pusher().unwrap().collect().await.unwrap();
        // The other device may open the drive offline, on top of the version that it has released.
        assert!(handed_over(&bench, 3).await);
        close(first).await;
        let second = bench.open(1).await.unwrap();
        put(&second, 4, 4).await;
        second.pusher().unwrap().sync().await.unwrap();
        second.pusher().unwrap().collect().await.unwrap();
        assert!(handed_over(&bench, 4).await, "the other one has moved on");
    });
}

#[test]
fn keeps_changes_whose_base_version_is_gone() {
    let bench = overtaken();
    run(async {
        let second = bench.open(1).await.unwrap();
        second.pusher().unwrap().drop_snapshot("before take-over 2").await.unwrap();
        put(&second, 5, 5).await;
        second.pusher().unwrap().sync().await.unwrap();
        second.pusher().unwrap().collect().await.unwrap();
        close(second).await;
        fork(&bench).await;
        for _ in 0..2 {
            let lost = bench.open(0).await;
            assert!(matches!(lost, Err(OpenError::NoForkPoint { unsent: 2 })), "{:?}", lost.err());
        }
        assert!(!bench.devices[0].journal_files().is_empty());
    });
}

#[test]
fn an_open_drive_that_was_taken_continues_in_place() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        first.pusher().unwrap().sync().await.unwrap();
        put(&first, 2, 2).await;
        let second = bench.take(1).await.unwrap();
        put(&second, 1, 7).await;
        second.pusher().unwrap().sync().await.unwrap();
        let synced = first.pusher().unwrap().sync().await;
        assert!(matches!(&synced, Err(PushError::Forked(by)) if by.device_name == "device 1"), "{synced:?}");
        let fork = fork_of(&first).unwrap();
        assert_eq!((fork.of, fork.taken_by.as_str()), (bench.drive, "device 1"));
        // From here on the fork is a drive like any other.
        put(&first, 3, 3).await;
        first.pusher().unwrap().sync().await.unwrap();
        first.pusher().unwrap().snapshot("mine").await.unwrap();
        assert_eq!(labels(&bench, fork.drive).await, ["fork point", "mine"]);
        for (block, byte) in [(1, 1), (2, 2), (3, 3)] {
            assert_eq!(get(&first, block).await, byte, "block {block} of the fork");
        }
        close(first).await;
        put(&second, 4, 4).await;
        close(second).await;
    });
}

#[test]
fn a_drive_taken_after_its_upload_closes_without_forking() {
    let bench = Bench::new();
    run(async {
        let first = bench.open(0).await.unwrap();
        put(&first, 1, 1).await;
        first.pusher().unwrap().sync().await.unwrap();
        let second = bench.take(1).await.unwrap();
        close(first).await;
        close(second).await;
        assert!(fork_of(&bench.open(0).await.unwrap()).is_none());
        assert_eq!(holdall_core::drive::heads(&bench.store, &bench.sealer).await.unwrap().len(), 1);
    });
}

/// Sixty flushed blocks that the store lacks, in several files. Then the power fails, and the cache is lost with it.
fn full_journal() -> Bench {
    let mut bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        for block in 0..60 {
            put(&volume, block, 7).await;
        }
    });
    bench.devices[0].power_cut();
    bench.devices[0].lose_cache();
    assert!(bench.devices[0].journal_files().len() > 2, "{:?}", bench.devices[0].journal_files());
    bench
}

#[test]
fn a_gap_at_the_journals_front_is_damage() {
    let bench = full_journal();
    let (first, name) = bench.devices[0].journal_files().remove(0);
    assert_eq!(first, 1);
    // Its header rots, so that the file no longer belongs to the journal.
    bench.devices[0].flip_journal_bit(&name, 25);
    run(async {
        let opened = bench.open(0).await;
        let Err(OpenError::Journal(JournalError::Damaged { lsn, durable })) = opened else {
            panic!("sixty flushed blocks are not all there, and it opens: {:?}", opened.err())
        };
        assert_eq!((lsn, durable), (Lsn(1), Lsn(60)));
    });
}

#[test]
fn a_gap_in_the_journals_middle_is_damage() {
    let bench = full_journal();
    let (_, name) = bench.devices[0].journal_files().remove(1);
    bench.devices[0].flip_journal_bit(&name, 25);
    run(async {
        let opened = bench.open(0).await;
        assert!(
            matches!(opened, Err(OpenError::Journal(JournalError::Damaged { .. }))),
            "{:?}",
            opened.err()
        );
    });
}

#[test]
fn reports_damage_that_only_a_later_file_proves() {
    let mut bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        // More than one file holds, durable only because of what follows in the next file.
        for block in 30..60 {
            write(&volume, block, 7, Durability::Ordered).await;
        }
        put(&volume, 20, 7).await;
        put(&volume, 21, 7).await;
    });
    bench.devices[0].power_cut();
    bench.devices[0].lose_cache();
    let files = bench.devices[0].journal_files();
    assert!(files.len() > 1, "{files:?}");
    // In the data of the fifth record.
    bench.devices[0].flip_journal_bit(&files[0].1, 4096 + 4 * 4160 + 1000);
    run(async {
        let opened = bench.open(0).await;
        let Err(OpenError::Journal(JournalError::Damaged { lsn, durable })) = opened else {
            panic!("a flushed block is damaged, and it opens: {:?}", opened.err())
        };
        assert!(lsn == Lsn(5) && durable >= Lsn(31), "{lsn} {durable}");
    });
}

/// A store behind a network that delivers a HEAD late: just before the next put of one.
struct Late {
    store: SimStore,
    /// The delayed HEAD, once a test has asked for the delay.
    on_its_way: Mutex<Option<Option<(Bytes, When)>>>,
}

impl Late {
    /// Delays the next HEAD.
    fn delay(&self) {
        *self.on_its_way.lock() = Some(None);
    }

    fn is_on_its_way(&self) -> bool {
        matches!(&*self.on_its_way.lock(), Some(Some(_)))
    }
}

#[async_trait]
impl Layer for Late {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if !matches!(when, When::Matches(_)) {
            return self.store.put(name, body, when).await;
        }
        let late = match &mut *self.on_its_way.lock() {
            Some(place @ None) => {
                *place = Some((body.clone(), when.clone()));
                None
            }
            arrived => Some(arrived.take()),
        };
        match late {
            // The sender dies before its HEAD arrives.
            None => std::future::pending().await,
            Some(late) => {
                if let Some((body, when)) = late.flatten() {
                    self.store.put(name, body, when).await?;
                }
                self.store.put(name, body, when).await
            }
        }
    }
}

#[test]
fn opens_despite_a_late_head_of_its_own() {
    for is_release in [false, true] {
        let bench = Bench::new();
        let late = Arc::new(Layered(Late { store: bench.store.clone(), on_its_way: Mutex::default() }));
        let ours = Access::Write { over: TakeOver::Nobody, mounted: false };
        run(async {
            let volume = bench.open_on(late.clone(), 0, ours).await.unwrap();
            put(&volume, 1, 1).await;
            volume.pusher().unwrap().sync().await.unwrap();
            if !is_release {
                put(&volume, 2, 2).await;
            }
            late.delay();
            let sent = tokio::time::timeout(Duration::from_secs(60), volume.release()).await;
            assert!(sent.is_err() && late.is_on_its_way());
        });
        bench.devices[0].power_cut();
        run(async {
            let volume = bench.open_on(late.clone(), 0, ours).await.unwrap();
            assert!(!late.is_on_its_way(), "it has arrived");
            let second = if is_release { 0 } else { 2 };
            assert_eq!((get(&volume, 1).await, get(&volume, 2).await), (1, second));
            put(&volume, 3, 3).await;
            close(volume).await;
            let elsewhere = bench.open(1).await.unwrap();
            assert_eq!((get(&elsewhere, 2).await, get(&elsewhere, 3).await), (second, 3));
        });
    }
}

#[test]
fn reports_a_holder_that_came_in_between_and_fences_nobody() {
    // Consent to fence covers only the device that had the drive at that time.
    for over in [TakeOver::Nobody, TakeOver::Anybody] {
        let bench = Bench::new();
        let late = Arc::new(Layered(Late { store: bench.store.clone(), on_its_way: Mutex::default() }));
        run(async {
            late.delay();
            // The other device's swap arrives between the look at HEAD and our swap.
            let other =
                bench.open_on(late.clone(), 1, Access::Write { over: TakeOver::Nobody, mounted: false });
            assert!(tokio::time::timeout(Duration::from_secs(60), other).await.is_err());
            let ours = Access::Write { over, mounted: false };
            let error = bench.open_on(late.clone(), 0, ours).await.err().unwrap();
            assert!(
                matches!(&error, OpenError::Held { device_name, .. } if device_name == "device 1"),
                "{error}"
            );
        });
    }
}
