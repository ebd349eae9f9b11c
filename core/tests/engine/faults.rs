//! Single faults, one at a time. Reads afterwards show what each means for a drive.

use holdall_core::device::{BlockDevice, Durability};
use holdall_core::disk::Disk;
use holdall_core::drive;
use holdall_core::format::root::Geometry;
use holdall_core::journal::{JournalError, Limits};
use holdall_core::map::{Objects, PageCache};
use holdall_core::push::Device;
use holdall_core::seal::{Cipher, DataKey, Sealer};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::sim::store::{SimStore, StoreFaults};
use holdall_core::store::meter::Meter;
use holdall_core::volume::{
    self, Access, Environment, OpenError, TakeOver, Volume, VolumeDevice, VolumeLimits,
};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const BLOCK: u64 = 4096;
const GEOMETRY: Geometry =
    Geometry { size_blocks: 256, frame_blocks: 4, page_blocks: 32, segment_bytes: 24 << 10 };
const LIMITS: VolumeLimits = VolumeLimits {
    journal: Limits { file_bytes: 96 << 10, files: 8, reserve_files: 2 },
    cache_bytes: 1 << 20,
    batch_bytes: 128 << 10,
    tail_segments: 12,
    metadata_first: true,
    push_paused: false,
    pull_paused: false,
};
const SYNCS_FAIL: DiskFaults = DiskFaults { sync_fails: 1000, sync_time: Duration::from_millis(2) };
const ACCESS_IS_REFUSED: StoreFaults = StoreFaults {
    refused: 0,
    answer_lost: 0,
    zombie: 0,
    busy: 0,
    kept: 0,
    conflict: 0,
    failed: 0,
    repeated: 0,
    away: 0,
    garbled: 0,
    denied: 1000,
    time: Duration::ZERO,
};

/// Virtual time: a wait of an hour takes no time.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

/// One computer with three directories, each on its own disk so that each can fail alone.
struct Computer {
    device: Device,
    state: SimDisk,
    journal: SimDisk,
    cache: SimDisk,
}

impl Computer {
    fn new(number: u64) -> Self {
        let disk = |which| SimDisk::new(number * 10 + which, DiskFaults::default());
        let device = Device { id: Uuid::from_u128(number.into()), name: format!("computer {number}") };
        Self { device, state: disk(0), journal: disk(1), cache: disk(2) }
    }

    /// Another computer with copies of all its files, including its identity.
    fn copy(&self) -> Self {
        let (state, journal, cache) = (self.state.copy(91), self.journal.copy(92), self.cache.copy(93));
        Self { device: self.device.clone(), state, journal, cache }
    }

    fn power_cut(&self) {
        [&self.state, &self.journal, &self.cache].into_iter().for_each(SimDisk::power_cut);
    }
}

struct World {
    store: SimStore,
    sealer: Arc<Sealer>,
    drive: Uuid,
}

impl World {
    fn new() -> Self {
        holdall_core::entropy::seed_this_thread(1);
        let sealer = Arc::new(Sealer::new(Cipher::None, &DataKey([7; 32].into())));
        let store = SimStore::new(1, StoreFaults::default());
        let maker = Computer::new(9).device;
        let drive = run(drive::create(&store, &sealer, Uuid::from_u128(9), "d", GEOMETRY, &maker)).unwrap();
        Self { store, sealer, drive }
    }

    async fn open(&self, computer: &Computer) -> Result<Arc<Volume>, OpenError> {
        let env = Environment {
            state: Arc::new(computer.state.clone()),
            journal: Arc::new(computer.journal.clone()),
            cache: Arc::new(computer.cache.clone()),
            store: Arc::new(self.store.clone()),
            meter: Meter::default(),
            sealer: self.sealer.clone(),
            pages: PageCache::none(),
        };
        let access = Access::Write { over: TakeOver::Nobody, mounted: false };
        volume::open(env, self.drive, computer.device.clone(), access, LIMITS).await
    }
}

async fn put(volume: &Arc<Volume>, block: u64, byte: u8) {
    let device = VolumeDevice(volume.clone());
    device.write(block * BLOCK, &[byte; BLOCK as usize], Durability::Forced).wait().await.unwrap();
}

async fn get(volume: &Arc<Volume>, block: u64) -> u8 {
    let device = VolumeDevice(volume.clone());
    let lease = device.read(block * BLOCK..(block + 1) * BLOCK).wait().await.unwrap();
    let mut bytes = vec![0; BLOCK as usize];
    lease.copy_to(&mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "block {block} is torn");
    bytes[0]
}

async fn close(volume: Arc<Volume>) {
    volume.stop_serving();
    volume.release().await.unwrap();
    volume.shut_down().await.unwrap();
}

#[test]
fn a_version_that_was_not_saved_locally_keeps_its_records() {
    let (world, computer) = (World::new(), Computer::new(1));
    run(async {
        let volume = world.open(&computer).await.unwrap();
        put(&volume, 0, 1).await;
        volume.pusher().unwrap().snapshot("before").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        // From here on no version is remembered. Block 1 is written and committed, and would be freed.
        computer.state.set_faults(SYNCS_FAIL);
        put(&volume, 1, 5).await;
        for block in 50..90 {
            put(&volume, block, 3).await;
            if block % 10 == 0 {
                volume.pusher().unwrap().sync().await.unwrap();
                tokio::time::sleep(Duration::from_secs(12)).await;
            }
        }
        volume.stop_serving();
        volume.release().await.unwrap();
        volume.shut_down().await.unwrap();
        computer.state.set_faults(DiskFaults::default());
    });
    run(async {
        let store: Arc<dyn holdall_core::store::Store> = Arc::new(world.store.clone());
        let objects = Objects::new(store, world.sealer.clone(), PageCache::none());
        drive::rollback(&objects, world.drive, "before", &computer.device).await.unwrap();
        let volume = world.open(&computer).await.unwrap();
        assert_eq!((get(&volume, 0).await, get(&volume, 1).await), (1, 0), "block 1 was rolled back");
    });
}

#[test]
fn a_failed_flush_counts_even_if_its_caller_left() {
    for seed in 0..50 {
        let (world, mut computer) = (World::new(), Computer::new(1));
        computer.journal = SimDisk::new(seed, DiskFaults::default());
        let flushed = run(async {
            let volume = world.open(&computer).await.unwrap();
            volume.pusher().unwrap().set_paused(true);
            let device = VolumeDevice(volume.clone());
            device.write(0, &[7; BLOCK as usize], Durability::Ordered).wait().await.unwrap();
            computer.journal.set_faults(SYNCS_FAIL);
            let given_up = tokio::time::timeout(Duration::from_micros(1), device.flush().wait()).await;
            assert!(given_up.is_err(), "the sync takes longer than that");
            // The failure happens now, unseen. Then the disk seems to work again.
            tokio::time::sleep(Duration::from_millis(2)).await;
            computer.journal.set_faults(DiskFaults::default());
            device.flush().wait().await
        });
        computer.power_cut();
        if flushed.is_ok() {
            let read = run(async { get(&world.open(&computer).await.unwrap(), 0).await });
            assert_eq!(read, 7, "seed {seed}: a flush succeeded, and the write is gone");
        }
    }
}

#[test]
fn a_rotten_header_of_the_last_journal_file_is_damage() {
    let (world, mut computer) = (World::new(), Computer::new(1));
    run(async {
        let volume = world.open(&computer).await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        for block in 0..60 {
            put(&volume, block, 7).await;
        }
    });
    computer.power_cut();
    computer.cache = SimDisk::new(77, DiskFaults::default());
    let first_of = |name: &str| {
        let mut header = [0; 64];
        computer.journal.open(name, false).unwrap().read_at(&mut header, 0).unwrap();
        u64::from_le_bytes(header[40..48].try_into().unwrap())
    };
    let last = computer.journal.list().unwrap().into_iter().max_by_key(|name| first_of(name)).unwrap();
    assert!(first_of(&last) > 1, "there are several files");
    computer.journal.flip_bit(&last, 200);
    run(async {
        match world.open(&computer).await {
            Err(OpenError::Journal(JournalError::Damaged { .. })) => {}
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it opened without its last records"),
        }
    });
    computer.journal.flip_bit(&last, 200);
    run(async {
        let volume = world.open(&computer).await.unwrap();
        for block in 0..60 {
            assert_eq!(get(&volume, block).await, 7);
        }
    });
}

#[test]
fn a_missing_journal_file_is_damage_even_if_last() {
    let (world, computer) = (World::new(), Computer::new(1));
    run(async {
        let volume = world.open(&computer).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        for block in 0..60 {
            put(&volume, block, 7).await;
        }
        volume.shut_down().await.unwrap();
    });
    for name in computer.journal.list().unwrap() {
        let copy = computer.copy();
        let mut header = [0; 8];
        copy.journal.open(&name, false).unwrap().read_at(&mut header, 0).unwrap();
        copy.journal.remove(&name).unwrap();
        let opened = run(world.open(&copy));
        match opened {
            Ok(_) => assert_eq!(header, [0; 8], "it opened without {name}, which was no spare"),
            Err(OpenError::Journal(JournalError::Damaged { .. } | JournalError::Missing)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    run(async {
        let volume = world.open(&computer).await.unwrap();
        for block in 0..60 {
            assert_eq!(get(&volume, block).await, 7);
        }
    });
}

#[test]
fn writes_survive_the_loss_of_drive_json() {
    let (world, computer) = (World::new(), Computer::new(1));
    run(async {
        let volume = world.open(&computer).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        put(&volume, 2, 2).await;
    });
    computer.power_cut();
    computer.state.remove("drive.json").unwrap();
    run(async {
        let volume = world.open(&computer).await.unwrap();
        assert_eq!((get(&volume, 1).await, get(&volume, 2).await), (1, 2));
    });
}

#[test]
fn two_copies_of_a_computer_tell_their_records_apart() {
    let (world, first) = (World::new(), Computer::new(1));
    run(async {
        let volume = world.open(&first).await.unwrap();
        put(&volume, 1, 1).await;
        close(volume).await;
    });
    let second = first.copy();
    // Both continue from the same record, under the same names.
    run(async {
        let volume = world.open(&first).await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        put(&volume, 2, 11).await;
        put(&volume, 3, 11).await;
    });
    first.power_cut();
    run(async {
        let volume = world.open(&second).await.unwrap();
        put(&volume, 2, 22).await;
        close(volume).await;
    });
    let opened = run(world.open(&first));
    match opened {
        Err(OpenError::Forked { unsent, .. }) => assert_eq!(unsent, 2),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the other copy's record was taken for this one's"),
    }
    // The copy without unsent changes continues with what the other one wrote.
    let third = second.copy();
    run(async {
        let volume = world.open(&second).await.unwrap();
        put(&volume, 2, 33).await;
        put(&volume, 4, 33).await;
        close(volume).await;
    });
    run(async {
        let volume = world.open(&third).await.unwrap();
        assert_eq!((get(&volume, 2).await, get(&volume, 4).await), (33, 33));
        put(&volume, 5, 44).await;
        close(volume).await;
    });
    let kept = third.journal.list().unwrap();
    assert!(kept.iter().any(|name| name.starts_with("aside-")), "the old journal is kept: {kept:?}");
}

#[test]
fn a_full_cache_disk_stops_neither_reads_nor_writes() {
    let (world, first, second) = (World::new(), Computer::new(1), Computer::new(2));
    run(async {
        let volume = world.open(&first).await.unwrap();
        for block in 0..40 {
            put(&volume, block, block as u8 + 1).await;
        }
        close(volume).await;
        let volume = world.open(&second).await.unwrap();
        assert_eq!(get(&volume, 8).await, 9);
        second.cache.set_full(true);
        for block in 0..40 {
            assert_eq!(get(&volume, block).await, block as u8 + 1);
        }
        let device = VolumeDevice(volume.clone());
        let lease = device.read(3 * BLOCK + 512..20 * BLOCK - 512).wait().await.unwrap();
        let mut bytes = vec![0; 17 * BLOCK as usize - 1024];
        lease.copy_to(&mut bytes).unwrap();
        let expected = |at: usize| ((3 * BLOCK as usize + 512 + at) / BLOCK as usize) as u8 + 1;
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
        put(&volume, 8, 99).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(get(&volume, 8).await, 99);
        assert!(volume.status().local_trouble.is_some(), "a person is told");
        volume.pusher().unwrap().set_paused(true);
        put(&volume, 9, 98).await;
    });
    // A full disk does not stop the drive from opening either.
    [&second.state, &second.journal, &second.cache].into_iter().for_each(SimDisk::kill);
    run(async {
        let volume = world.open(&second).await.unwrap();
        assert_eq!((get(&volume, 8).await, get(&volume, 9).await, get(&volume, 10).await), (99, 98, 11));
        second.cache.set_full(false);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!((get(&volume, 8).await, get(&volume, 9).await, get(&volume, 10).await), (99, 98, 11));
        assert_eq!(volume.status().local_trouble, None);
        close(volume).await;
    });
}

#[test]
fn a_read_waits_while_access_is_refused_and_resumes() {
    let (world, first, second) = (World::new(), Computer::new(1), Computer::new(2));
    run(async {
        let volume = world.open(&first).await.unwrap();
        put(&volume, 1, 1).await;
        close(volume).await;
        let volume = world.open(&second).await.unwrap();
        world.store.set_faults(ACCESS_IS_REFUSED);
        let read = tokio::spawn({
            let volume = volume.clone();
            async move { get(&volume, 1).await }
        });
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(!read.is_finished());
        assert!(volume.status().pull_trouble.is_some_and(|trouble| trouble.contains("refused access")));
        world.store.set_faults(StoreFaults::default());
        assert_eq!(read.await.unwrap(), 1);
        assert_eq!(volume.status().pull_trouble, None);
    });
}

#[test]
fn a_damaged_frame_fails_only_the_reads_that_need_it() {
    let (world, first, second) = (World::new(), Computer::new(1), Computer::new(2));
    run(async {
        let volume = world.open(&first).await.unwrap();
        put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        put(&volume, 100, 2).await;
        close(volume).await;
        let segments: Vec<_> =
            world.store.names().into_iter().filter(|name| name.starts_with("seg/")).collect();
        let whole = world.store.copy();
        world.store.damage(&segments[0], |bytes| *bytes.last_mut().unwrap() ^= 1);
        let volume = world.open(&second).await.unwrap();
        let device = VolumeDevice(volume.clone());
        let read = |block: u64| device.read(block * BLOCK..(block + 1) * BLOCK).wait();
        let (one, other) = (read(1).await.is_ok(), read(100).await.is_ok());
        assert!(one != other, "one of two segments is damaged: {one} {other}");
        // Once it is repaired from a copy or a replica, it reads as before.
        let body = holdall_core::store::Store::get(&whole, &segments[0], None).await.unwrap().bytes;
        world.store.damage(&segments[0], |bytes| *bytes = body.to_vec());
        assert_eq!((get(&volume, 1).await, get(&volume, 100).await), (1, 2));
    });
}

#[test]
fn rewriting_the_same_blocks_offline_never_fills_the_journal() {
    let (world, first, second) = (World::new(), Computer::new(1), Computer::new(2));
    run(async {
        let volume = world.open(&first).await.unwrap();
        for block in 100..110 {
            put(&volume, block, 1).await;
        }
        world.store.set_faults(StoreFaults { refused: 1000, ..StoreFaults::default() });
        // Ten times what the journal holds, slowly enough for background work to run.
        for round in 0..1000_u64 {
            put(&volume, round % 5, round as u8).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let status = volume.status();
        assert!(status.journal_bytes <= status.journal_limit_bytes * 8 / 10, "{status:?}");
    });
    first.power_cut();
    world.store.set_faults(StoreFaults::default());
    run(async {
        let volume = world.open(&first).await.unwrap();
        for round in 995..1000_u64 {
            assert_eq!(get(&volume, round % 5).await, round as u8);
        }
        close(volume).await;
        let volume = world.open(&second).await.unwrap();
        for round in 995..1000_u64 {
            assert_eq!(get(&volume, round % 5).await, round as u8);
        }
        assert_eq!(get(&volume, 105).await, 1);
    });
}
