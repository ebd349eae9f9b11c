//! The journal alone, on a disk that loses what was not synced.

use holdall_core::disk::Disk;
use holdall_core::journal::{Journal, JournalError, Limits, Operation, Place, Progress};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::units::{BlockRange, Lsn};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Duration;

const CAPACITY: u64 = 256;
const LIMITS: Limits = Limits { file_bytes: 128 << 10, files: 6, reserve_files: 2 };

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

fn block(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(512)
}

/// Writes at random until a crash at a random sync. Adds the stamps to `stamps` in the order of their LSNs, and returns the last
/// LSN known to be durable.
async fn live(disk: &SimDisk, journal: &Arc<Journal>, rng: &mut StdRng, stamps: &mut Vec<(u64, u64)>) -> Lsn {
    let crash = disk.after_syncs(rng.random_range(1..30));
    let work = async {
        let mut durable = journal.durable();
        for _ in 0..rng.random_range(1..60) {
            let first = rng.random_range(0..CAPACITY);
            let stamp = rng.random::<u64>();
            match journal.append_data(first, &block(stamp)) {
                Ok(lsn) => {
                    assert_eq!(lsn.0 as usize, stamps.len() + 1);
                    stamps.push((first, stamp));
                }
                Err(JournalError::Full) => {
                    journal.flush().await.unwrap();
                    journal.keep_spare().await.unwrap();
                    let upto = Lsn(journal.durable().0 / 2);
                    journal.applied(upto);
                    journal.free(upto);
                    journal.keep_spare().await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
            if rng.random_bool(0.2) {
                durable = journal.flush().await.unwrap();
            }
        }
        durable
    };
    let known = journal.clone();
    tokio::select! { biased; durable = work => durable, () = crash => known.durable() }
}

#[test]
fn flushed_records_survive_every_crash_the_rest_is_a_prefix() {
    for seed in 0..2000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(2) });
        let mut stamps = Vec::new();
        let (uuid, mut durable) = run(async {
            let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
            (journal.uuid(), live(&disk, &journal, &mut rng, &mut stamps).await)
        });
        for _ in 0..4 {
            if rng.random_bool(0.7) {
                disk.power_cut()
            } else {
                disk.kill()
            }
            durable = run(async {
                let opened = Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, uuid).await;
                let (journal, recovered) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                assert!(recovered.last >= durable, "seed {seed}: {recovered:?} after {durable} was durable");
                assert!(recovered.last.0 as usize <= stamps.len(), "seed {seed}: records out of nowhere");
                stamps.truncate(recovered.last.0 as usize);
                let records = journal.records(recovered.first, recovered.last, u64::MAX).await.unwrap();
                assert_eq!(records.len() as u64, recovered.last.0 + 1 - recovered.first.0, "seed {seed}");
                for record in records {
                    let (first, stamp) = stamps[record.lsn.0 as usize - 1];
                    assert_eq!(record.operation, Operation::Data(BlockRange::new(first, 1)), "seed {seed}");
                    let Place::Data { file, offset } = record.place else { panic!("seed {seed}") };
                    let mut data = block(0);
                    file.read(&mut data, offset).unwrap();
                    assert_eq!(data, block(stamp), "seed {seed} lsn {}", record.lsn);
                }
                live(&disk, &journal, &mut rng, &mut stamps).await
            });
        }
    }
}

#[test]
fn a_failed_sync_continues_in_another_file_or_stops_writes() {
    let (mut continued, mut stopped) = (0, 0);
    for seed in 0..1000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed, DiskFaults::default());
        // Half of the disks are nearly dead.
        let sync_fails = if seed % 2 == 0 { 150 } else { 900 };
        let mut stamps = Vec::new();
        let (uuid, durable) = run(async {
            let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
            disk.set_faults(DiskFaults { sync_fails, sync_time: Duration::from_millis(1) });
            let mut durable = Lsn(0);
            for _ in 0..20 {
                let (first, stamp) = (rng.random_range(0..CAPACITY), rng.random::<u64>());
                let lsn = match journal.append_data(first, &block(stamp)) {
                    // Too many of its files were condemned.
                    Err(JournalError::Full) => break,
                    appended => appended.unwrap(),
                };
                assert_eq!(lsn.0 as usize, stamps.len() + 1);
                stamps.push((first, stamp));
                let (files, failures) = (headed(&disk), disk.failed_syncs());
                match journal.flush().await {
                    Ok(lsn) => {
                        assert_eq!(
                            lsn,
                            journal.appended(),
                            "seed {seed}: a flush covers what came before it"
                        );
                        durable = lsn;
                        if disk.failed_syncs() > failures {
                            continued += 1;
                            let goes_on_in = headed(&disk).pop();
                            assert!(
                                !files.contains(&goes_on_in.unwrap()),
                                "seed {seed}: a file whose sync failed is not used any more"
                            );
                        }
                    }
                    Err(JournalError::Failed(_)) => {
                        stopped += 1;
                        assert!(disk.failed_syncs() > failures, "seed {seed}: it stopped without a reason");
                        assert!(journal.append_data(0, &block(0)).is_err(), "seed {seed}: writes stop");
                        disk.set_faults(DiskFaults::default());
                        assert!(journal.flush().await.is_err(), "seed {seed}: it stays stopped");
                        break;
                    }
                    Err(error) => panic!("seed {seed}: {error}"),
                }
                let latest = |block| stamps.iter().rfind(|(first, _)| *first == block).copied();
                let mut found = 0;
                for (run, entry) in journal.look_up(BlockRange { start: 0, end: CAPACITY }) {
                    let Some(Place::Data { file, offset }) = entry.map(|entry| entry.place) else {
                        assert!(
                            run.iter().all(|block| latest(block).is_none()),
                            "seed {seed}: {run:?} is gone"
                        );
                        continue;
                    };
                    let mut data = block(0);
                    file.read(&mut data, offset).unwrap();
                    assert_eq!(data, block(latest(run.start).unwrap().1), "seed {seed}: the index follows");
                    found += 1;
                }
                assert!(found > 0, "seed {seed}");
            }
            (journal.uuid(), durable)
        });
        disk.set_faults(DiskFaults::default());
        disk.power_cut();
        run(async {
            let opened = Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, uuid).await;
            let (journal, recovered) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(recovered.last >= durable, "seed {seed}: {recovered:?} after {durable} was durable");
            assert_eq!(recovered.first, Lsn(1), "seed {seed}: nothing was freed");
            let records = journal.records(recovered.first, recovered.last, u64::MAX).await.unwrap();
            assert_eq!(records.len() as u64, recovered.last.0, "seed {seed}");
            for record in records {
                let (first, stamp) = stamps[record.lsn.0 as usize - 1];
                assert_eq!(record.operation, Operation::Data(BlockRange::new(first, 1)), "seed {seed}");
                let Place::Data { file, offset } = record.place else { panic!("seed {seed}") };
                let mut data = block(0);
                file.read(&mut data, offset).unwrap();
                assert_eq!(data, block(stamp), "seed {seed} lsn {}", record.lsn);
            }
        });
    }
    assert!(continued > 500 && stopped > 100, "both ends were reached: {continued} {stopped}");
}

#[test]
fn refuses_damaged_durable_records_but_accepts_a_torn_tail() {
    let disk = SimDisk::new(1, DiskFaults::default());
    let uuid = run(async {
        let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
        for stamp in 0..10 {
            journal.append_data(stamp, &block(stamp)).unwrap();
            journal.flush().await.unwrap();
        }
        journal.uuid()
    });
    let open = || {
        run(async {
            Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, uuid).await.map(|opened| opened.1)
        })
    };
    let name = disk.list().unwrap().into_iter().min().unwrap();
    // Each record takes two pages, since each was flushed alone. The first page is the file's header.
    let bit_of = |record: u64| (4096 + record * 8192 + 100) * 8;
    disk.flip_bit(&name, bit_of(4));
    assert!(matches!(open(), Err(JournalError::Damaged { lsn: Lsn(5), durable: Lsn(9) })));
    assert!(
        matches!(open(), Err(JournalError::Damaged { lsn: Lsn(5), durable: Lsn(9) })),
        "nothing was touched"
    );
    disk.flip_bit(&name, bit_of(4));
    // Nothing was written after the last record, so nothing proves that it was durable.
    disk.flip_bit(&name, bit_of(9));
    assert_eq!(open().unwrap().last, Lsn(9));
}

#[test]
fn a_full_journal_refuses_writes_and_reserves_space_for_closing() {
    run(async {
        let disk = SimDisk::new(1, DiskFaults::default());
        let journal = Journal::create(Arc::new(disk), LIMITS, CAPACITY).await.unwrap();
        let fill = async || {
            let mut count = 0;
            loop {
                match journal.append_data(0, &block(1)) {
                    Ok(_) => count += 1,
                    Err(JournalError::Full) => {
                        let before = journal.space();
                        journal.keep_spare().await.unwrap();
                        if journal.append_data(0, &block(1)).is_err() {
                            return (count, before.per_mille());
                        }
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let (count, full) = fill().await;
        assert!(count > 100 && full > 900, "{count} records, {full} per mille");
        // A close that fails has used a part of the reserve. The rest is for the next close, not for writers in between.
        let one_file = LIMITS.file_bytes / (4096 + 64);
        journal.open_reserve();
        for _ in 0..one_file / 2 {
            if journal.append_data(0, &block(1)).is_err() {
                journal.keep_spare().await.unwrap();
                journal.append_data(0, &block(1)).unwrap();
            }
        }
        journal.close_reserve();
        let (meanwhile, _) = fill().await;
        assert!(meanwhile < one_file, "{meanwhile} records");
        journal.open_reserve();
        let (reserve, over) = fill().await;
        assert!(reserve > 20 && over > 1000, "{reserve} records, {over} per mille");
        let durable = journal.flush().await.unwrap();
        journal.applied(durable);
        journal.free(durable);
        journal.keep_spare().await.unwrap();
        assert!(journal.append_data(0, &block(1)).is_ok());
    });
}

/// Writes to a few blocks again and again, with compaction, until a crash at a random sync. The journal is never freed.
async fn rewrite(
    disk: &SimDisk,
    journal: &Arc<Journal>,
    rng: &mut StdRng,
    writes: &mut Vec<(u64, u64)>,
) -> Lsn {
    let crash = disk.after_syncs(rng.random_range(10..120));
    let work = async {
        let mut progress = Progress::default();
        for _ in 0..rng.random_range(50..300) {
            let (first, stamp) = (rng.random_range(0..8), rng.random::<u64>());
            let full = match rng.random_bool(0.9) {
                true => journal.append_data(first, &block(stamp)),
                false => journal.writer().zero(BlockRange::new(first, 1)),
            };
            if let Err(JournalError::Full) = full {
                journal.flush().await.unwrap();
                journal.applied(journal.durable());
                journal.compact(&mut progress, journal.durable()).await.unwrap();
                journal.keep_spare().await.unwrap();
                continue;
            }
            let is_zero = journal.look_up(BlockRange::new(first, 1))[0].1.clone().unwrap().place;
            writes.push((first, if matches!(is_zero, Place::Zero) { 0 } else { stamp }));
            assert_eq!(full.unwrap().0 as usize, writes.len());
            if rng.random_bool(0.1) {
                journal.flush().await.unwrap();
            }
        }
    };
    tokio::select! { biased; () = work => {}, () = crash => {} }
    journal.durable()
}

/// Replays the records in order into the blocks.
async fn replayed(journal: &Journal, from: Lsn, upto: Lsn, blocks: &mut [u64; 8]) {
    let mut next = from;
    while next <= upto {
        let records = journal.records(next, upto, 64 << 10).await.unwrap();
        for record in &records {
            let (Operation::Data(run) | Operation::Zero(run)) = record.operation else { continue };
            for at in run.iter() {
                let mut data = block(0);
                if let Place::Data { file, offset } = &record.place {
                    file.read(&mut data, offset + (at - run.start) * 4096).unwrap();
                }
                let stamp = u64::from_le_bytes(*data.first_chunk().unwrap());
                assert_eq!(data, block(stamp));
                blocks[at as usize] = stamp;
            }
        }
        next = records.last().unwrap().lsn.next();
    }
}

/// Records of an earlier run wait to be applied, a few at a time. A report that they are applied names an LSN, so they must
/// include all records with that LSN.
#[test]
fn unapplied_records_come_in_whole_groups() {
    let mut groups = 0;
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(2) });
        let uuid = run(async {
            let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
            rewrite(&disk, &journal, &mut rng, &mut Vec::new()).await;
            journal.uuid()
        });
        disk.kill();
        run(async {
            let opened = Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, uuid).await;
            let (journal, recovered) = opened.unwrap();
            let all = journal.records(recovered.first, recovered.last, u64::MAX).await.unwrap();
            journal.hold_back(all.clone());
            let mut given = 0;
            loop {
                let records = journal.unapplied(recovered.last, rng.random_range(1..32 << 10));
                let Some(last) = records.last() else { break };
                given += records.len();
                groups += usize::from(records.len() > 1 && records[0].lsn == last.lsn);
                // The report is true: no later record has this LSN.
                journal.applied(last.lsn);
            }
            assert_eq!(given, all.len(), "seed {seed}: some are told to be applied that never were");
        });
    }
    assert!(groups > 20, "{groups} groups were met");
}

#[test]
fn a_compacted_journal_replays_the_same_and_never_fills() {
    let (mut groups, mut written) = (0, 0);
    for seed in 0..500 {
        let mut rng = StdRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(2) });
        let mut writes = Vec::new();
        let (uuid, mut durable) = run(async {
            let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
            (journal.uuid(), rewrite(&disk, &journal, &mut rng, &mut writes).await)
        });
        for _ in 0..3 {
            if rng.random_bool(0.7) {
                disk.power_cut()
            } else {
                disk.kill()
            }
            durable = run(async {
                let opened = Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, uuid).await;
                let (journal, recovered) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                assert_eq!(recovered.first, Lsn(1), "seed {seed}: nothing was freed");
                assert!(recovered.last >= durable, "seed {seed}: {recovered:?} after {durable} was durable");
                writes.truncate(recovered.last.0 as usize);
                let mut expected = [0; 8];
                writes.iter().for_each(|(first, stamp)| expected[*first as usize] = *stamp);
                let mut found = [0; 8];
                replayed(&journal, Lsn(1), recovered.last, &mut found).await;
                assert_eq!(found, expected, "seed {seed}");
                // Replaying from any point over a state that already has some of it gives the same result.
                let middle = rng.random_range(0..=writes.len());
                let mut state = [0; 8];
                writes[..middle].iter().for_each(|(first, stamp)| state[*first as usize] = *stamp);
                replayed(&journal, Lsn(middle as u64 + 1), recovered.last, &mut state).await;
                assert_eq!(state, expected, "seed {seed} from {middle}");
                rewrite(&disk, &journal, &mut rng, &mut writes).await
            });
            let is_group = |name: &String| {
                let mut magic = [0; 8];
                let file = disk.open(name, false).unwrap();
                file.len().unwrap() > 4096 && file.read_at(&mut magic, 0).is_ok() && magic == *b"HLDJCMP\x01"
            };
            groups += disk.list().unwrap().iter().filter(|name| is_group(name)).count();
        }
        written = written.max(writes.len() as u64 * 4096);
    }
    assert!(groups > 50, "{groups} groups were met");
    assert!(written > LIMITS.file_bytes * LIMITS.files as u64, "{written} bytes fit the journal as they are");
}

#[test]
fn the_next_flush_fixes_a_failed_sync_by_the_caller() {
    let (mut failed, mut mended) = (0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new(seed, DiskFaults::default());
        let journal = run(Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY)).unwrap();
        disk.set_faults(DiskFaults { sync_fails: 300, sync_time: Duration::ZERO });
        let mut durable = Lsn(0);
        for stamp in 1..10 {
            journal.append_data(stamp, &block(stamp)).unwrap();
            // On this thread, which belongs to no runtime.
            match journal.flush_here() {
                Some(flushed) => durable = flushed.unwrap(),
                None => {
                    failed += 1;
                    assert!(journal.flush_here().is_none(), "seed {seed}: the same file is not tried again");
                    disk.set_faults(DiskFaults::default());
                    durable = run(journal.flush()).unwrap();
                    mended += 1;
                    disk.set_faults(DiskFaults { sync_fails: 300, sync_time: Duration::ZERO });
                }
            }
            assert_eq!(durable, journal.appended(), "seed {seed}");
        }
        disk.set_faults(DiskFaults::default());
        disk.power_cut();
        run(async {
            let (journal, recovered) =
                Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, journal.uuid()).await.unwrap();
            assert_eq!(recovered.last, durable, "seed {seed}");
            for record in journal.records(recovered.first, recovered.last, u64::MAX).await.unwrap() {
                let Place::Data { file, offset } = record.place else { panic!("seed {seed}") };
                let mut data = block(0);
                file.read(&mut data, offset).unwrap();
                assert_eq!(data, block(record.lsn.0), "seed {seed}");
            }
        });
    }
    assert!(failed > 50 && mended == failed, "{failed} failed, {mended} were mended");
}

/// Appends this many blocks, each with its own record's number.
fn append(journal: &Journal, count: u64) {
    for _ in 0..count {
        let lsn = journal.appended().next();
        assert_eq!(journal.append_data(lsn.0 % CAPACITY, &block(lsn.0)).unwrap(), lsn);
    }
}

/// Checks the journal after a power cut: all of the first `count` records are there, each with its own data.
async fn assert_whole(disk: &SimDisk, uuid: uuid::Uuid, count: u64) {
    let (journal, recovered) = Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, uuid).await.unwrap();
    assert!(recovered.last >= Lsn(count), "{recovered:?}, and {count} records were durable");
    for record in journal.records(recovered.first, recovered.last, u64::MAX).await.unwrap() {
        let Place::Data { file, offset } = record.place else { panic!("it is data") };
        let mut data = block(0);
        file.read(&mut data, offset).unwrap();
        assert_eq!(data, block(record.lsn.0));
    }
}

const FAILING: DiskFaults = DiskFaults { sync_fails: 1000, sync_time: Duration::from_millis(5) };

#[test]
fn a_disk_that_fails_for_a_moment_stops_nothing() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed, DiskFaults::default());
        let uuid = run(async {
            let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
            journal.keep_spare().await.unwrap();
            append(&journal, 10);
            disk.set_faults(FAILING);
            let well_again = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                disk.set_faults(DiskFaults::default());
            };
            let (flushed, ()) = tokio::join!(journal.flush(), well_again);
            assert_eq!(flushed.unwrap(), Lsn(10));
            append(&journal, 10);
            assert_eq!(journal.flush().await.unwrap(), Lsn(20));
            journal.uuid()
        });
        disk.power_cut();
        run(assert_whole(&disk, uuid, 20));
    }
}

#[test]
fn rewrites_more_than_one_file_after_a_failed_sync() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed, DiskFaults::default());
        let uuid = run(async {
            let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
            journal.keep_spare().await.unwrap();
            append(&journal, 70);
            disk.set_faults(FAILING);
            let well_again = async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                disk.set_faults(DiskFaults::default());
            };
            let (flushed, ()) = tokio::join!(journal.flush(), well_again);
            assert_eq!(flushed.unwrap(), Lsn(70));
            journal.uuid()
        });
        disk.power_cut();
        run(assert_whole(&disk, uuid, 70));
    }
}

#[test]
fn a_flush_counts_no_record_in_a_newer_file() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed, DiskFaults::default());
        let (uuid, durable) = run(async {
            let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
            journal.keep_spare().await.unwrap();
            append(&journal, 29);
            disk.set_faults(FAILING);
            let writing = async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                disk.set_faults(DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(5) });
                for _ in 0..20 {
                    append(&journal, 1);
                    tokio::time::sleep(Duration::from_micros(300)).await;
                }
            };
            let (flushed, ()) = tokio::join!(journal.flush(), writing);
            (journal.uuid(), flushed.unwrap())
        });
        disk.power_cut();
        run(assert_whole(&disk, uuid, durable.0));
    }
}

/// A journal in three files, of which the last has ten records fewer when `copied` runs.
fn with_copy(seed: u64, copied: impl FnOnce(&SimDisk, &str)) -> (SimDisk, uuid::Uuid) {
    let disk = SimDisk::new(seed, DiskFaults::default());
    let uuid = run(async {
        let journal = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap();
        journal.keep_spare().await.unwrap();
        append(&journal, 70);
        journal.flush().await.unwrap();
        let last = headed(&disk).pop().unwrap();
        copied(&disk, &last);
        append(&journal, 10);
        journal.flush().await.unwrap();
        journal.uuid()
    });
    (disk, uuid)
}

/// The names of files with a header, in the order of their sequence numbers.
fn headed(disk: &SimDisk) -> Vec<String> {
    let mut files = Vec::new();
    for name in disk.list().unwrap() {
        let mut header = [0; 64];
        disk.open(&name, false).unwrap().read_at(&mut header, 0).unwrap();
        if header[..7] == *b"HLDJRNL" {
            files.push((u64::from_le_bytes(header[24..32].try_into().unwrap()), name));
        }
    }
    files.sort();
    files.into_iter().map(|(_, name)| name).collect()
}

fn copy_file(disk: &SimDisk, from: &str, to: &str) {
    let (from, to) = (disk.open(from, false).unwrap(), disk.open(to, true).unwrap());
    let mut bytes = vec![0; from.len().unwrap() as usize];
    from.read_at(&mut bytes, 0).unwrap();
    to.write_at(&bytes, 0).unwrap();
}

async fn copies_found(disk: &SimDisk, uuid: uuid::Uuid) -> Vec<String> {
    let (journal, _) = Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, uuid).await.unwrap();
    journal.copies().to_vec()
}

#[test]
fn an_older_copy_of_a_journal_file_never_takes_its_place() {
    // Names that sort before and after the journal's own.
    for copy in ["j00000001 (copy)", "J00000003", "zz.sync-conflict-20261126", "j99999999"] {
        let (disk, uuid) = with_copy(1, |disk, name| copy_file(disk, name, copy));
        disk.kill();
        let found = run(copies_found(&disk, uuid));
        assert_eq!(found.len(), 1, "{copy}: {found:?}");
        assert!(found[0].starts_with(&format!("aside-copy-of-{copy}-")), "{found:?}");
        assert!(disk.list().unwrap().contains(&found[0]), "it is kept");
        run(assert_whole(&disk, uuid, 80));
        assert!(run(copies_found(&disk, uuid)).is_empty(), "it is told once");
    }
}

#[test]
fn uses_the_newer_of_two_files_even_when_renamed() {
    let (disk, uuid) = with_copy(1, |disk, name| copy_file(disk, name, "older"));
    disk.kill();
    let name = headed(&disk).into_iter().rfind(|name| name != "older").unwrap();
    disk.rename(&name, "j.sync-conflict").unwrap();
    disk.rename("older", &name).unwrap();
    let found = run(copies_found(&disk, uuid));
    assert_eq!(found.len(), 1, "{found:?}");
    run(assert_whole(&disk, uuid, 80));
}

#[test]
fn leaves_foreign_files_in_the_journals_directory_alone() {
    let (disk, uuid) = with_copy(1, |disk, _| {
        disk.open("notes.txt", true).unwrap().write_at(b"mine", 0).unwrap();
        disk.open(".stignore", true).unwrap();
    });
    disk.kill();
    run(assert_whole(&disk, uuid, 80));
    run(async { Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await.unwrap() });
    let mut bytes = [0; 4];
    disk.open("notes.txt", false).unwrap().read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"mine");
    assert!(disk.list().unwrap().contains(&".stignore".to_owned()));
}
