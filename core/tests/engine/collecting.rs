//! A collection stops when other work needs to run, and loses nothing.

use crate::bench::layer::{Layer, Layered, far};
use crate::bench::{Bench, ROUND_TRIP, close, device, get, put, run};
use async_trait::async_trait;
use holdall_core::drive;
use holdall_core::format::head::Head;
use holdall_core::format::id::ObjectKind;
use holdall_core::map::{Objects, PageCache};
use holdall_core::push::{PushError, Pusher, Reference, ReferenceKind, Stage};
use holdall_core::store::{Listed, Store, StoreError, When};
use holdall_core::volume::{Access, TakeOver, Volume};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

const WRITING: Access = Access::Write { over: TakeOver::Nobody, mounted: false };

/// A store that stops a volume's collection at the n-th request after a test asks for it.
struct Stops {
    store: Arc<dyn Store>,
    at: Mutex<Option<(u32, Arc<Volume>)>>,
}

#[async_trait]
impl Layer for Stops {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn reach(&self) -> Result<(), StoreError> {
        let mut at = self.at.lock();
        if let Some((left, volume)) = at.take() {
            match left {
                0 => volume.pusher().unwrap().stop_collecting(),
                left => *at = Some((left - 1, volume)),
            }
        }
        Ok(())
    }
}

fn pusher(volume: &Volume) -> &Pusher {
    volume.pusher().unwrap()
}

/// Writes blocks and returns their final contents. Later writes replace all of some segments, little of others, and part of most.
async fn write_much(volume: &Arc<Volume>) -> Vec<(u64, u8)> {
    let mut expected = std::collections::BTreeMap::new();
    for (byte, blocks) in [(1, 0..64), (2, 0..20), (3, 16..24), (4, 40..44), (5, 60..64), (6, 0..4)] {
        for block in blocks {
            put(volume, block, byte).await;
            expected.insert(block, byte);
        }
        pusher(volume).sync().await.unwrap();
    }
    expected.into_iter().collect()
}

/// Reads the last committed version of a computer from one that has no local data.
async fn assert_others_see(bench: &Bench, volume: &Volume, blocks: &[(u64, u8)]) {
    let root = {
        let state = pusher(volume).state();
        let state = state.borrow();
        (state.root, state.root_hash)
    };
    let looked =
        bench.elsewhere().open_on(Arc::new(bench.store.clone()), 1, Access::Look { root }).await.unwrap();
    assert_holds(&looked, blocks).await;
    looked.shut_down().await.unwrap();
}

async fn assert_holds(volume: &Arc<Volume>, blocks: &[(u64, u8)]) {
    for (block, byte) in blocks {
        assert_eq!(get(volume, *block).await, *byte, "block {block}");
    }
}

#[test]
fn a_collection_stopped_anywhere_leaves_a_whole_drive() {
    let mut stopped = 0;
    for request in 0.. {
        let bench = Bench::new();
        let ended = run(async {
            let store =
                Arc::new(Layered(Stops { store: Arc::new(bench.store.clone()), at: Mutex::default() }));
            let volume = bench.open_on(store.clone(), 0, WRITING).await.unwrap();
            let blocks = write_much(&volume).await;
            *store.at.lock() = Some((request, volume.clone()));
            let collected = pusher(&volume).collect().await;
            let was_asked_so_often = store.at.lock().take().is_none();
            assert_eq!(pusher(&volume).state().borrow().collecting, None);
            put(&volume, 100, 9).await;
            pusher(&volume).sync().await.unwrap();
            assert_others_see(&bench, &volume, &blocks).await;
            let objects =
                Objects::new(Arc::new(bench.store.clone()), bench.sealer.clone(), PageCache::none());
            let (_, _, root) = drive::current(&objects, bench.drive).await.unwrap();
            assert!(root.condemned.is_empty(), "request {request}: a later version still lists it");
            // The next collection finds the rest.
            let again = pusher(&volume).collect().await.unwrap();
            assert_eq!(again.garbage_bytes, 0, "request {request}");
            assert_holds(&volume, &blocks).await;
            assert_eq!(get(&volume, 100).await, 9);
            close(volume).await;
            match collected {
                Err(PushError::CutOff) => stopped += 1,
                collected => drop(collected.unwrap()),
            }
            !was_asked_so_often
        });
        if ended {
            break;
        }
    }
    assert!(stopped > 20, "{stopped}");
}

/// A store that gets a ref to a version, as from another computer, when the first object is deleted.
struct Refers {
    store: Arc<dyn Store>,
    reference: Mutex<Option<Reference>>,
}

#[async_trait]
impl Layer for Refers {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.store.delete(name).await?;
        let reference = self.reference.lock().take();
        if let Some(reference) = reference {
            self.store.put(&drive::new_hold(), reference.encode(), When::Absent).await?;
        }
        Ok(())
    }
}

#[test]
fn keeps_objects_of_a_ref_that_arrives_during_deletion() {
    let bench = Bench::new();
    run(async {
        let store =
            Arc::new(Layered(Refers { store: Arc::new(bench.store.clone()), reference: Mutex::default() }));
        let volume = bench.open_on(store.clone(), 0, WRITING).await.unwrap();
        // More garbage than one step deletes. Roots are deleted first, the newest of them last.
        for byte in 0..300_u64 {
            put(&volume, 0, byte as u8).await;
            pusher(&volume).sync().await.unwrap();
        }
        put(&volume, 0, 1).await;
        let old = pusher(&volume).snapshot("old").await.unwrap();
        for byte in 2..6 {
            put(&volume, 0, byte).await;
            pusher(&volume).sync().await.unwrap();
        }
        pusher(&volume).drop_snapshot("old").await.unwrap();
        *store.reference.lock() =
            Some(Reference::new(bench.drive, old.root, ReferenceKind::Clone, &device(1), 0));
        let collected = pusher(&volume).collect().await.unwrap();
        assert!(collected.deleted > 256, "{collected:?}");
        let root = (old.root, old.root_hash);
        let looked = bench.elsewhere().open_on(store.clone(), 1, Access::Look { root }).await.unwrap();
        assert_holds(&looked, &[(0, 1)]).await;
        looked.shut_down().await.unwrap();
        close(volume).await;
    });
}

/// A store in which another computer takes the retirement of a drive back when the first object is deleted.
struct Restores {
    store: Arc<dyn Store>,
    drive: Mutex<Option<(Objects, Uuid)>>,
}

#[async_trait]
impl Layer for Restores {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.store.delete(name).await?;
        let drive = self.drive.lock().take();
        if let Some((objects, drive)) = drive {
            drive::restore(&objects, drive, &device(1)).await.unwrap();
        }
        Ok(())
    }
}

fn objects(bench: &Bench) -> Objects {
    Objects::new(Arc::new(bench.store.clone()), bench.sealer.clone(), PageCache::none())
}

#[test]
fn keeps_what_a_drive_needs_that_returns_while_it_deletes() {
    let bench = Bench::new();
    run(async {
        let store =
            Arc::new(Layered(Restores { store: Arc::new(bench.store.clone()), drive: Mutex::default() }));
        let volume = bench.open_on(store.clone(), 0, WRITING).await.unwrap();
        // More garbage than one step deletes: roots first, segments last.
        for byte in 0..300_u64 {
            put(&volume, 0, byte as u8).await;
            pusher(&volume).sync().await.unwrap();
        }
        put(&volume, 0, 1).await;
        pusher(&volume).sync().await.unwrap();
        let clone = drive::clone(&objects(&bench), bench.drive, None, "clone", &device(1)).await.unwrap();
        let (head, etag, _) = drive::current(&objects(&bench), clone).await.unwrap();
        drive::retire(&objects(&bench), (&head, etag), "s3://elsewhere", &device(1)).await.unwrap();
        for byte in 2..6 {
            put(&volume, 0, byte).await;
            pusher(&volume).sync().await.unwrap();
        }
        *store.drive.lock() = Some((objects(&bench), clone));
        let collected = pusher(&volume).collect().await.unwrap();
        assert!(collected.deleted > 256, "{collected:?}");
        close(volume).await;
        let there = Bench { drive: clone, ..bench.elsewhere() };
        let root = (head.root, head.root_hash);
        let looked = there.open_on(store.clone(), 1, Access::Look { root }).await.unwrap();
        assert_holds(&looked, &[(0, 1)]).await;
        looked.shut_down().await.unwrap();
    });
}

#[test]
fn collects_beside_a_ref_to_a_version_that_is_half_deleted() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        put(&volume, 0, 1).await;
        let old = pusher(&volume).snapshot("old").await.unwrap();
        for byte in 2..6 {
            put(&volume, 0, byte).await;
            pusher(&volume).sync().await.unwrap();
        }
        pusher(&volume).checkpoint().await.unwrap();
        pusher(&volume).drop_snapshot("old").await.unwrap();
        let root = objects(&bench).root(old.root, None).await.unwrap();
        let reference = Reference::new(bench.drive, old.root, ReferenceKind::Reader, &device(1), 0);
        bench.store.put(&drive::new_hold(), reference.encode(), When::Absent).await.unwrap();
        let segments = root.tail.iter().map(|segment| segment.object);
        let pages = root.pages.values().map(|page| page.object);
        for segment in segments.chain(pages) {
            bench.store.delete(&segment.name(ObjectKind::Segment)).await.unwrap();
        }
        let collected = pusher(&volume).collect().await.unwrap();
        assert!(collected.deleted > 0, "{collected:?}");
        assert_eq!(get(&volume, 0).await, 5);
        close(volume).await;
    });
}

/// A store that first lists a record of a replica that was tidied away since.
struct Tidied {
    store: Arc<dyn Store>,
    stale: Mutex<Option<String>>,
}

#[async_trait]
impl Layer for Tidied {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let stale = self.stale.lock().take_if(|_| prefix == "replica/");
        match stale {
            Some(name) => Ok(vec![Listed { name, len: 1 }]),
            None => self.store.list(prefix).await,
        }
    }
}

#[test]
fn collects_though_a_replicas_record_is_tidied_away_meanwhile() {
    let bench = Bench::new();
    run(async {
        let other = drive::clone(&objects(&bench), bench.drive, None, "other", &device(1)).await.unwrap();
        let head = bench.store.get(&holdall_core::format::head::name(other), None).await.unwrap().bytes;
        let root = Head::decode(&bench.sealer, &head).unwrap().root;
        let record = |unique| {
            format!("replica/{}/{:016x}-{:016x}-{unique:032x}", other.simple(), root.epoch.0, root.seq)
        };
        bench.store.put(&record(root.unique), head, When::Absent).await.unwrap();
        let stale = Mutex::new(Some(record(root.unique - 1)));
        let store = Arc::new(Layered(Tidied { store: Arc::new(bench.store.clone()), stale }));
        let volume = bench.open_on(store.clone(), 0, WRITING).await.unwrap();
        write_much(&volume).await;
        pusher(&volume).collect().await.unwrap();
        assert!(store.stale.lock().is_none(), "it was listed");
        close(volume).await;
    });
}

/// A store whose listings lack HEADs.
struct Forgets(Arc<dyn Store>);

#[async_trait]
impl Layer for Forgets {
    fn store(&self) -> &dyn Store {
        &*self.0
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        match prefix {
            "head/" => Ok(Vec::new()),
            prefix => self.0.list(prefix).await,
        }
    }
}

#[test]
fn deletes_nothing_if_the_listing_lacks_its_own_head() {
    let bench = Bench::new();
    run(async {
        let store = Arc::new(Layered(Forgets(Arc::new(bench.store.clone()))));
        let volume = bench.open_on(store, 0, WRITING).await.unwrap();
        let blocks = write_much(&volume).await;
        let before: BTreeSet<_> = bench.store.names().into_iter().collect();
        let refused = pusher(&volume).collect().await.unwrap_err();
        assert!(refused.to_string().contains("does not list"), "{refused}");
        let after: BTreeSet<_> = bench.store.names().into_iter().collect();
        assert!(before.is_subset(&after));
        assert_others_see(&bench, &volume, &blocks).await;
        close(volume).await;
    });
}

#[test]
fn uploads_new_writes_while_a_collection_runs() {
    let bench = Bench::new();
    run(async {
        let near: Arc<dyn Store> = Arc::new(bench.store.clone());
        let volume = bench.open_on(near, 0, WRITING).await.unwrap();
        write_much(&volume).await;
        close(volume).await;
        let volume =
            bench.open_on(far(Arc::new(bench.store.clone()), 60 * ROUND_TRIP), 0, WRITING).await.unwrap();
        let mut state = pusher(&volume).state();
        let stages = Mutex::new(BTreeSet::new());
        let write = async {
            // A batch falls due in each stage.
            for block in 200..216 {
                let _ = state.wait_for(|state| state.collecting.is_some()).await;
                put(&volume, block, 7).await;
                let lsn = volume.journal().appended();
                let stage = |stage| match stage {
                    Stage::Looking => 0,
                    Stage::Deleting => 1,
                    Stage::Repacking => 2,
                };
                let now = state.wait_for(|state| state.committed >= lsn).await.unwrap().collecting;
                stages.lock().extend(now.map(|now| stage(now.stage)));
            }
        };
        let collected = tokio::select! {
            collected = pusher(&volume).collect() => collected,
            () = async { write.await; std::future::pending().await } => unreachable!("it waits"),
        };
        collected.unwrap();
        assert!(!stages.lock().is_empty(), "nothing was uploaded while it went on");
        pusher(&volume).sync().await.unwrap();
        assert_others_see(&bench, &volume, &[(0, 6), (63, 5), (200, 7)]).await;
        close(volume).await;
    });
}

#[test]
fn automatic_collections_yield_to_uploads_and_a_close_ends_any() {
    let bench = Bench::new();
    run(async {
        let store = far(Arc::new(bench.store.clone()), ROUND_TRIP);
        let volume = bench.open_on(store, 0, WRITING).await.unwrap();
        write_much(&volume).await;
        put(&volume, 101, 8).await;
        let (collected, synced) = tokio::join!(pusher(&volume).collect_unasked(), pusher(&volume).sync());
        assert!(matches!(collected, Err(PushError::CutOff)), "{collected:?}");
        synced.unwrap();
        // A collection that a person waits for runs, whatever else is pending.
        put(&volume, 102, 8).await;
        let (collected, synced) = tokio::join!(pusher(&volume).collect(), pusher(&volume).sync());
        assert!(collected.unwrap().deleted > 0);
        synced.unwrap();
        write_much(&volume).await;
        let (collected, released) = tokio::join!(pusher(&volume).collect(), volume.release());
        assert!(matches!(collected, Err(PushError::CutOff)), "{collected:?}");
        released.unwrap();
        volume.shut_down().await.unwrap();
        let again = bench.open(1).await.unwrap();
        assert_holds(&again, &[(0, 6), (63, 5), (101, 8), (102, 8)]).await;
        close(again).await;
    });
}

#[test]
fn a_collection_slows_down_for_readers_but_still_finishes() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        write_much(&volume).await;
        let begun = Instant::now();
        pusher(&volume).set_readers(true);
        let reader = volume.clone();
        let collecting = pusher(&reader).collect();
        tokio::pin!(collecting);
        assert!(timeout(Duration::from_secs(9), &mut collecting).await.is_err(), "it waits for them");
        assert!(collecting.await.unwrap().deleted > 0);
        assert!(begun.elapsed() < Duration::from_secs(600));
        close(volume).await;
    });
}

#[test]
fn a_checkpoint_counts_the_bytes_that_pages_still_reach() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        for block in 0..32 {
            put(&volume, block, 1).await;
        }
        pusher(&volume).sync().await.unwrap();
        pusher(&volume).checkpoint().await.unwrap();
        let stored = pusher(&volume).state().borrow().stored;
        let all = stored.pages_reached_bytes.unwrap();
        assert!(
            all > 0 && stored.tail_reached_bytes == Some(0) && stored.tail_covers_bytes == 0,
            "{stored:?}"
        );
        for block in 0..16 {
            put(&volume, block, 2).await;
        }
        pusher(&volume).sync().await.unwrap();
        let stored = pusher(&volume).state().borrow().stored;
        assert_eq!((stored.pages_reached_bytes, stored.tail_covers_bytes), (Some(all), 16 * 4096));
        let put_bytes = stored.put_bytes;
        pusher(&volume).checkpoint().await.unwrap();
        let stored = pusher(&volume).state().borrow().stored;
        assert!(stored.put_bytes > put_bytes);
        let reached = stored.pages_reached_bytes.unwrap();
        assert!(reached < all + all / 4, "what was replaced counts no longer: {reached} of {all}");
        close(volume).await;
    });
}
