//! Metadata comes first, in few round trips, and stays. The data that a file's format points to arrives once the file is opened.

use crate::bench::world::{BLOCKS, ROUND_TRIP, World, are_local, read, until};
use crate::bench::{close, run};
use holdall_core::device::{BlockDevice, DeviceError, Durability};
use holdall_core::pull::Files;
use holdall_core::store::{Store, When};
use holdall_core::units::{BlockRange, ChunkIndex};
use holdall_core::volume::{Access, OpenError, Pinned, Volume, VolumeDevice};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

const FILES: usize = 2000;
const FILE_BYTES: usize = 20_000;
const MEDIA_BYTES: usize = 4 << 20;
const INDEX_BYTES: usize = 300_000;

/// A drive with many small files and a film.
fn world() -> World {
    World::of(|source| {
        for number in 0..FILES {
            let directory = source.join(format!("directory {}", number % 40));
            std::fs::create_dir_all(&directory).unwrap();
            let content: Vec<u8> =
                (0..FILE_BYTES).map(|at| (at * 7 + number * 13 + at / 256) as u8).collect();
            std::fs::write(directory.join(format!("file {number}")), content).unwrap();
        }
        let part = |kind: &[u8; 4], len: usize| {
            let body: Vec<u8> = (0..len).map(|at| (at * 31 + at / 512) as u8).collect();
            [&(len as u32 + 8).to_be_bytes(), kind.as_slice(), &body].concat()
        };
        let film = [part(b"ftyp", 8), part(b"mdat", MEDIA_BYTES), part(b"moov", INDEX_BYTES)].concat();
        std::fs::write(source.join("film.mp4"), film).unwrap();
    })
}

#[test]
fn metadata_arrives_in_few_round_trips_and_is_never_evicted() {
    let world = world();
    let needed = world.needed();
    let bytes: u64 = needed.iter().map(BlockRange::byte_len).sum();
    assert!(needed.len() > 5 && bytes > 1 << 19, "{} ranges, {bytes} bytes", needed.len());
    run(async {
        let volume = world.open_from_afar().await;
        let before = volume.status();
        let took = until(&volume, |volume| volume.status().has_metadata).await;
        assert!(are_local(&volume, &needed));
        assert!(took < 8 * ROUND_TRIP, "{took:?}");
        let received = volume.status().received_bytes.total() - before.received_bytes.total();
        assert!(received <= 2 * bytes, "{received} received for {bytes} of metadata");
        let data = (FILES * FILE_BYTES) as u64;
        assert!(volume.status().cached_bytes < data / 4, "no file was read");
        // Everything that can be evicted is.
        for start in (0..BLOCKS).step_by(256) {
            volume.puller().demand(BlockRange::new(start, 256)).await.unwrap();
        }
        volume.set_cache_limit(8 * bytes);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(volume.status().cached_bytes <= 8 * bytes);
        assert!(are_local(&volume, &needed));
        close(volume).await;
    });
}

#[test]
fn reports_metadata_that_does_not_fit_until_the_cache_grows() {
    let mut world = world();
    let needed = world.needed();
    let bytes: u64 = needed.iter().map(BlockRange::byte_len).sum();
    world.bench.limits.cache_bytes = bytes * 3 / 2;
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().metadata_without_room_bytes > 0).await;
        // It never fits, and the status says so.
        tokio::time::sleep(Duration::from_secs(120)).await;
        let status = volume.status();
        assert!(!status.has_metadata, "{status:?}");
        assert_eq!(status.least_cache_bytes, 2 * bytes);
        assert!(volume.cache_needed_bytes() >= 2 * bytes);
        assert!(!volume.is_mountable_away().await);
        volume.set_cache_limit(8 * bytes);
        until(&volume, |volume| volume.status().has_metadata).await;
        assert_eq!(volume.status().metadata_without_room_bytes, 0);
        assert!(are_local(&volume, &needed));
        assert!(needed.iter().all(|range| volume.cache().residents().are_all_kept(*range)));
        close(volume).await;
    });
}

#[test]
fn keeps_known_metadata_from_the_first_moment_of_an_opening() {
    let mut world = world();
    let needed = world.needed();
    let bytes: u64 = needed.iter().map(BlockRange::byte_len).sum();
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        for start in (0..BLOCKS).step_by(256) {
            volume.puller().demand(BlockRange::new(start, 256)).await.unwrap();
        }
        close(volume).await;
    });
    // Everything that can be evicted is, at once, while the store is away.
    world.bench.limits.cache_bytes = 8 * bytes;
    run(async {
        let access = Access::Away { mounted: false };
        let volume = world.open_for(1, world.gone(), access).await.unwrap();
        until(&volume, |volume| volume.status().cached_bytes <= 8 * bytes).await;
        assert!(are_local(&volume, &needed));
        until(&volume, |volume| volume.status().has_metadata).await;
        volume.shut_down().await.unwrap();
    });
    // Blocks that are no longer metadata are not kept forever.
    let film = world.walk().runs_of(world.inode("/film.mp4")).unwrap();
    let film: Vec<_> = film.into_iter().map(|(_, run)| run).collect();
    let noted = world.dir.path().join("1 cache/metadata.json");
    let mut runs: Vec<(u64, u64)> = serde_json::from_slice(&std::fs::read(&noted).unwrap()).unwrap();
    runs.extend(film.iter().map(|run| (run.start, run.end)));
    std::fs::write(&noted, serde_json::to_vec(&runs).unwrap()).unwrap();
    world.bench.limits.cache_bytes = 1 << 30;
    run(async {
        let volume = world.open_from_afar().await;
        let is_kept = |volume: &Volume| film.iter().all(|run| volume.cache().residents().are_all_kept(*run));
        assert!(is_kept(&volume));
        until(&volume, |volume| volume.status().has_metadata).await;
        assert!(!film.iter().any(|run| volume.cache().residents().is_any_kept(*run)));
        assert!(needed.iter().all(|range| volume.cache().residents().are_all_kept(*range)));
        close(volume).await;
    });
}

#[test]
fn without_metadata_first_only_read_blocks_are_fetched() {
    let mut world = world();
    world.bench.limits.metadata_first = false;
    run(async {
        let volume = world.open_from_afar().await;
        let before = volume.status().received_bytes.total();
        let read = VolumeDevice(volume.clone()).read(0..4096).wait();
        drop(read.await.unwrap());
        tokio::time::sleep(Duration::from_secs(100)).await;
        let received = volume.status().received_bytes.total() - before;
        assert!(received > 0 && received < 1 << 17, "{received}");
        assert!(!volume.is_mountable_away().await);
        close(volume).await;
    });
}

#[test]
fn finds_and_keeps_metadata_that_a_mount_adds() {
    let world = world();
    let inode = world.inode("/film.mp4");
    run(async {
        let volume = world.open(0, Arc::new(world.bench.store.clone())).await;
        until(&volume, |volume| volume.status().has_metadata).await;
        // The film becomes a directory, and its blocks become metadata. Written block by block, as the kernel does it.
        let before = world.needed();
        for command in [format!("clri <{}>", inode.0), "mkdir /late".to_owned()] {
            let changed = Command::new("/sbin/debugfs")
                .args(["-w", "-R", &command])
                .arg(&world.image)
                .output()
                .unwrap();
            assert!(changed.status.success());
        }
        let needed = world.needed();
        assert_ne!(before, needed);
        let image = File::open(&world.image).unwrap();
        let device = VolumeDevice(volume.clone());
        let mut block = vec![0; 4096];
        for range in &needed {
            for at in range.iter() {
                image.read_exact_at(&mut block, at * 4096).unwrap();
                device.write(at * 4096, &block, Durability::Ordered).wait().await.unwrap();
            }
        }
        volume.pusher().unwrap().sync().await.unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        let residents = volume.cache().residents();
        assert!(needed.iter().all(|range| residents.are_all_kept(*range)));
        // Deleted metadata is not kept.
        let removed = Command::new("/sbin/debugfs")
            .args(["-w", "-R", "rmdir /late"])
            .arg(&world.image)
            .output()
            .unwrap();
        assert!(removed.status.success());
        let left = world.needed();
        let blocks =
            |ranges: &[BlockRange]| ranges.iter().flat_map(|range| range.iter()).collect::<BTreeSet<_>>();
        let gone: Vec<_> = blocks(&needed).difference(&blocks(&left)).copied().collect();
        assert!(!gone.is_empty());
        for at in left.iter().flat_map(|range| range.iter()) {
            image.read_exact_at(&mut block, at * 4096).unwrap();
            device.write(at * 4096, &block, Durability::Ordered).wait().await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(gone.iter().all(|at| !residents.is_any_kept(BlockRange::new(*at, 1))), "{gone:?}");
        assert!(left.iter().all(|range| residents.are_all_kept(*range)));
        close(volume).await;
    });
}

#[test]
fn a_cache_too_small_for_metadata_does_not_refetch_it() {
    let mut world = world();
    world.bench.limits.cache_bytes = 2 << 20;
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        let kept = volume.cache().residents().kept_blocks();
        assert!((100..=256).contains(&kept), "half of the cache at most is metadata: {kept} blocks");
        let before = volume.status().requests.get;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let requests = volume.status().requests.get - before;
        assert!(requests < 100, "{requests} requests in an hour in which nobody reads");
        close(volume).await;
    });
}

#[test]
fn opening_a_film_prefetches_its_index() {
    let world = world();
    let film = world.place("/film.mp4");
    let blocks = |from: usize, bytes: usize| film.of(from as u64..(from + bytes) as u64);
    let index = blocks(MEDIA_BYTES, INDEX_BYTES);
    let middle = blocks(MEDIA_BYTES / 2, 1 << 20);
    let first = blocks(0, 4096)[0];
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        assert!(!are_local(&volume, &index));
        read(&volume, first).await;
        let took = until(&volume, |volume| are_local(volume, &index)).await;
        assert!(took < 3 * ROUND_TRIP, "{took:?}");
        assert!(!are_local(&volume, &middle), "and nothing else");
        close(volume).await;
    });
}

#[test]
fn an_offline_drive_mounts_and_lacks_only_file_data() {
    let world = world();
    let film = world.walk().runs_of(world.inode("/film.mp4")).unwrap()[0].1.start;
    let away = Access::Away { mounted: false };
    run(async {
        // A device that has never seen the drive needs its store.
        let refused = world.open_for(1, world.gone(), away).await;
        assert!(matches!(refused, Err(OpenError::NotSeen)));
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        close(volume).await;

        let volume = world.open_for(1, world.gone(), away).await.unwrap();
        assert!(!volume.is_taken());
        assert!(volume.is_mountable_away().await);
        let begun = Instant::now();
        for needed in world.needed() {
            let device = VolumeDevice(volume.clone());
            drop(device.read(needed.start * 4096..needed.end * 4096).wait().await.unwrap());
        }
        assert!(begun.elapsed() < Duration::from_secs(1));
        // Reads of file data fail in bounded time: after a minute the first time, then soon.
        for bound in [62, 5] {
            let begun = Instant::now();
            let read = VolumeDevice(volume.clone()).read(film * 4096..(film + 1) * 4096).wait().await;
            assert!(matches!(read, Err(DeviceError::Unavailable(_))), "{:?}", read.err());
            assert!(begun.elapsed() < Duration::from_secs(bound), "{:?}", begun.elapsed());
        }
        // A read of possible metadata waits, since an error there would shut the file system down.
        let free = BLOCKS - 1;
        let read = VolumeDevice(volume.clone()).read(free * 4096..(free + 1) * 4096).wait();
        assert!(tokio::time::timeout(Duration::from_secs(3600), read).await.is_err());
        // Writes continue, and are kept.
        let device = VolumeDevice(volume.clone());
        device.write(free * 4096, &[7; 4096], Durability::Forced).wait().await.unwrap();
        volume.shut_down().await.unwrap();
        let volume = world.open_for(1, world.gone(), away).await.unwrap();
        let lease = VolumeDevice(volume.clone()).read(free * 4096..(free + 1) * 4096).wait().await.unwrap();
        let mut block = [0; 4096];
        lease.copy_to(&mut block).unwrap();
        assert_eq!(block, [7; 4096]);
        drop(lease);
        volume.shut_down().await.unwrap();
    });
}

#[test]
fn a_read_from_a_silent_store_fails_after_a_minute() {
    let world = world();
    let film = world.place("/film.mp4").0[0].1.start;
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        close(volume).await;
        let volume = world.open_for(1, world.silent(), Access::Away { mounted: false }).await.unwrap();
        // From then on each read waits only a moment.
        for (bounds, block) in [(60..=62, 0), (2..=4, 200), (2..=4, 400)] {
            let (begun, at) = (Instant::now(), film + block);
            let read = VolumeDevice(volume.clone()).read(at * 4096..(at + 1) * 4096).wait().await;
            assert!(matches!(read, Err(DeviceError::Unavailable(_))), "{:?}", read.err());
            let took = begun.elapsed().as_secs();
            assert!(bounds.contains(&took), "{took} s at {block}");
        }
        volume.shut_down().await.unwrap();
    });
}

#[test]
fn notices_a_store_that_is_back_even_without_readers() {
    let world = world();
    // Not the beginning of a file, since its prefetch would keep asking.
    let at = world.place("/film.mp4").0[0].1.start + 400;
    run(async {
        let is_silent = Arc::new(AtomicBool::new(false));
        let volume = world.open(1, world.silent_from(is_silent.clone())).await;
        until(&volume, |volume| volume.status().has_metadata).await;
        is_silent.store(true, Relaxed);
        let device = VolumeDevice(volume.clone());
        let read = device.read(at * 4096..(at + 1) * 4096).wait().await;
        assert!(matches!(read, Err(DeviceError::Unavailable(_))), "{:?}", read.err());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(volume.status().pull_trouble.is_some());
        is_silent.store(false, Relaxed);
        let took = until(&volume, |volume| volume.status().pull_trouble.is_none()).await;
        assert!(took < Duration::from_secs(90), "{took:?}");
        // Once other requests that waited for their next try have been answered too, no further ones are sent.
        tokio::time::sleep(Duration::from_secs(600)).await;
        let before = volume.status().requests;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(volume.status().requests.get, before.get);
        close(volume).await;
    });
}

#[test]
fn reports_lost_segments_as_damage_until_they_read_again() {
    let world = world();
    let film = world.place("/film.mp4").0[0].1.start;
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        let store = &world.bench.store;
        let mut lost = Vec::new();
        for listed in store.list("seg/").await.unwrap() {
            lost.push((listed.name.clone(), store.get(&listed.name, None).await.unwrap().bytes));
            store.delete(&listed.name).await.unwrap();
        }
        let device = VolumeDevice(volume.clone());
        let range = (film + 400) * 4096..(film + 401) * 4096;
        let failed = device.read(range.clone()).wait().await;
        assert!(matches!(failed, Err(DeviceError::Failed(_))), "{:?}", failed.err());
        let status = volume.status();
        assert!(status.pull_damage.is_some_and(|why| why.contains("seg/")));
        assert_eq!(status.pull_trouble, None, "the store answers");
        for (name, bytes) in lost {
            store.put(&name, bytes, When::Absent).await.unwrap();
        }
        drop(device.read(range).wait().await.unwrap());
        assert_eq!(volume.status().pull_damage, None);
        close(volume).await;
    });
}

#[test]
fn a_reader_that_joins_a_silent_pull_waits_no_longer() {
    let world = world();
    let film = world.place("/film.mp4").0[0].1.start;
    run(async {
        let is_silent = Arc::new(AtomicBool::new(false));
        let volume = world.open(1, world.silent_from(is_silent.clone())).await;
        until(&volume, |volume| volume.status().has_metadata).await;
        // Now the map is known.
        read(&volume, BlockRange::new(film + 400, 1)).await;
        is_silent.store(true, Relaxed);
        let begun = Instant::now();
        // One block of a frame is pinned, and a reader wants the others. The pull of the pinned block is at its second try when
        // the reader's first try begins.
        let chunk = film.next_multiple_of(16);
        volume.set_pinned(Pinned::runs([BlockRange::new(chunk + 3, 1)])).unwrap();
        tokio::time::sleep(Duration::from_millis(20_050)).await;
        let device = VolumeDevice(volume.clone());
        let read = device.read(chunk * 4096..(chunk + 3) * 4096).wait().await;
        assert!(matches!(read, Err(DeviceError::Unavailable(_))), "{:?}", read.err());
        assert!(begun.elapsed() < Duration::from_secs(63), "{:?}", begun.elapsed());
        volume.shut_down().await.unwrap();
    });
}

#[test]
fn does_not_mount_offline_with_too_little_metadata() {
    let world = world();
    run(async {
        let volume = world.open_from_afar().await;
        volume.shut_down().await.unwrap();
        let volume = world.open_for(1, world.gone(), Access::Away { mounted: false }).await.unwrap();
        let mountable = tokio::time::timeout(Duration::from_secs(600), volume.is_mountable_away()).await;
        assert!(mountable.is_err());
        volume.shut_down().await.unwrap();
    });
}

#[test]
fn reading_the_beginnings_of_many_files_fetches_only_those() {
    let world = world();
    let walk = world.walk();
    let heads: Vec<u64> = (0..400)
        .filter_map(|number| {
            let file = world.inode(&format!("\"/directory {}/file {number}\"", number % 40));
            Some(walk.runs_of(file)?.first()?.1.start)
        })
        .collect();
    assert_eq!(heads.len(), 400);
    run(async {
        let (mut fetched, mut noted) = (Vec::new(), Vec::new());
        for slowed in [true, false] {
            let index = if slowed { 1 } else { 2 };
            let volume = world.open(index, world.far()).await;
            volume.set_scans_slowed(slowed);
            until(&volume, |volume| volume.status().has_metadata).await;
            let before = volume.status().received_bytes.total();
            for head in &heads {
                let read = VolumeDevice(volume.clone()).read(head * 4096..(head + 1) * 4096).wait();
                drop(read.await.unwrap());
            }
            assert_eq!(volume.status().slows_scan, slowed);
            fetched.push(volume.status().received_bytes.total() - before);
            close(volume).await;
            let trace = std::fs::read(world.dir.path().join(format!("{index} cache/trace.json"))).unwrap();
            let openings: Vec<Vec<u64>> = serde_json::from_slice(&trace).unwrap();
            noted.push(openings[0].len());
        }
        // One frame for each file, without the data around it.
        assert!(fetched[0] < fetched[1] && fetched[0] <= 400 * 17_000, "{fetched:?}");
        // The next opening does not begin with these either.
        assert!(noted[0] * 2 < noted[1], "{noted:?} chunks are pulled at the next opening");
    });
}

#[test]
fn copying_small_files_takes_few_round_trips_and_wastes_little() {
    let world = world();
    let walk = world.walk();
    let small = |block| walk.file_at(block).filter(|place| place.at == 0 && place.end == 5);
    let mut files: Vec<u64> = (0..BLOCKS).filter(|block| small(*block).is_some()).collect();
    assert_eq!(files.len(), FILES);
    // In the order of a folder's listing, unrelated to where the files lie.
    files.shuffle(&mut StdRng::seed_from_u64(4));
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        let (before, begun) = (volume.status().received_bytes.total(), Instant::now());
        for start in &files {
            let read = VolumeDevice(volume.clone()).read(start * 4096..(start + 5) * 4096).wait();
            drop(read.await.unwrap());
        }
        let trips = begun.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64();
        assert!(trips < 160.0, "{trips} round trips for {FILES} files");
        assert!(!volume.status().slows_scan, "who reads all of them does not scan");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (fetched, data) = (volume.status().received_bytes.total() - before, (FILES * 5 * 4096) as u64);
        assert!(fetched < data * 11 / 10, "{fetched} bytes for {data}");
        close(volume).await;
    });
}

#[test]
fn reading_a_film_to_its_end_fetches_nothing_beyond_it() {
    let world = world();
    let walk = world.walk();
    let film: Vec<_> = walk.runs_of(world.inode("/film.mp4")).unwrap();
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        let begun = Instant::now();
        let mut blocks = 0;
        for (_, run) in &film {
            for start in (run.start..run.end).step_by(32) {
                let end = (start + 32).min(run.end);
                drop(VolumeDevice(volume.clone()).read(start * 4096..end * 4096).wait().await.unwrap());
                blocks += end - start;
            }
        }
        let trips = begun.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64();
        assert!(trips < 8.0, "{trips} round trips for {blocks} blocks");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let fetched = volume.status().fetched_bytes;
        // Whole frames.
        assert!(fetched <= (blocks + 32) * 4096, "{fetched} bytes for {blocks} blocks");
        close(volume).await;
    });
}

#[test]
fn a_jump_in_a_film_costs_one_round_trip() {
    let world = world();
    let film = world.walk().runs_of(world.inode("/film.mp4")).unwrap()[0].1;
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        let read = async |start: u64| {
            drop(VolumeDevice(volume.clone()).read(start * 4096..(start + 8) * 4096).wait().await.unwrap());
        };
        // A player reads the beginning of the file. Meanwhile the index arrives.
        read(film.start).await;
        tokio::time::sleep(5 * ROUND_TRIP).await;
        for part in [8, 3, 5] {
            let (begun, from) = (Instant::now(), film.start + film.count() / 10 * part);
            for start in (from..from + 128).step_by(8) {
                read(start).await;
            }
            let trips = begun.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64();
            assert!(trips < 1.5, "{trips} round trips for the first half MiB from a part of {part}");
        }
        close(volume).await;
    });
}

#[test]
fn prefetches_the_last_openings_first_reads_and_counts_wasted_bytes() {
    let world = world();
    let film = world.walk().runs_of(world.inode("/film.mp4")).unwrap()[0].1;
    let middle = BlockRange::new((film.start + film.count() / 2).next_multiple_of(16), 16);
    run(async {
        let volume = world.open_from_afar().await;
        until(&volume, |volume| volume.status().has_metadata).await;
        let read = VolumeDevice(volume.clone()).read(middle.start * 4096..(middle.start + 1) * 4096).wait();
        drop(read.await.unwrap());
        let status = volume.status();
        assert_eq!(status.fetched_used_bytes, 4096);
        assert!((4096..=65536).contains(&status.fetched_bytes), "a frame for a block: {status:?}");
        volume.evict(&[ChunkIndex(middle.start / 16)]).await.unwrap();
        assert!(!are_local(&volume, &[middle]));
        close(volume).await;

        let volume = world.open_from_afar().await;
        let took = until(&volume, |volume| are_local(volume, &[middle])).await;
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!(volume.status().fetched_bytes, 0, "nobody has asked for it");
        let others = BlockRange::new(middle.end + 64, 16);
        assert!(!are_local(&volume, &[others]));
        let read = VolumeDevice(volume.clone()).read(others.start * 4096..(others.start + 1) * 4096).wait();
        drop(read.await.unwrap());
        tokio::time::sleep(Duration::from_secs(120)).await;
        volume.evict(&[ChunkIndex(others.start / 16)]).await.unwrap();
        drop(volume);

        // The same after a crash.
        let volume = world.open_from_afar().await;
        until(&volume, |volume| are_local(volume, &[others])).await;
        assert_eq!(volume.status().fetched_bytes, 0, "nobody has asked for it");
        close(volume).await;
    });
}
