//! Directories that several computers mount. No computer sees the locks of another, and each has caches.
//!
//! `HABITS` is the table of what such file systems lack. Each either holds a drive or is refused for its true reason.

use crate::place::{self, Drive, close, push, read, write};
use holdall_core::device::BlockDevice;
use holdall_core::device::Durability;
use holdall_core::push::PushError;
use holdall_core::store::connect::with_heads;
use holdall_core::store::file::FileStore;
use holdall_core::store::names::DriveNames;
use holdall_core::store::probe::{Effort, Mode, probe};
use holdall_core::store::{Store, StoreError};
use holdall_core::volume::{Access, OpenError, TakeOver, Volume, VolumeDevice};
use holdall_servers::odd_directory::{Habits, OddDirectory, Refusal};
use std::sync::Arc;
use std::time::Duration;

/// Reads stay stale as long as on a CIFS client, and renames are slow enough for others to come first.
const SLOW: Habits = Habits {
    stale_for: Duration::from_secs(1),
    rename_takes: Duration::from_millis(3),
    directory_sync: None,
    flock: None,
    rename_new: None,
    link: None,
    make_directory: None,
};

const HABITS: &[(&str, Habits)] = &[
    ("caches for a second", SLOW),
    ("cannot sync directories (EINVAL)", Habits { directory_sync: Some(Refusal::INVALID), ..SLOW }),
    ("cannot sync directories (ENOTSUP)", Habits { directory_sync: Some(Refusal::NOT_SUPPORTED), ..SLOW }),
    ("has no locks", Habits { flock: Some(Refusal::NO_LOCKS), ..SLOW }),
    ("cannot rename without replacing", Habits { rename_new: Some(Refusal::INVALID), ..SLOW }),
    ("has no hard links", Habits { link: Some(Refusal::NOT_PERMITTED), ..SLOW }),
    (
        "has neither",
        Habits { rename_new: Some(Refusal::INVALID), link: Some(Refusal::NOT_PERMITTED), ..SLOW },
    ),
    (
        "lacks all of it",
        Habits {
            rename_new: Some(Refusal::INVALID),
            link: Some(Refusal::NOT_SUPPORTED),
            flock: Some(Refusal::NO_LOCKS),
            directory_sync: Some(Refusal::INVALID),
            ..SLOW
        },
    ),
];

/// The store as a drive uses it on computer `number`.
fn seen_by(directory: &OddDirectory, number: usize) -> Arc<dyn Store> {
    with_heads(Arc::new(FileStore::new(directory.path(number), &DriveNames)), Mode::Claim)
}

async fn open(
    drive: &Drive<'_>,
    directory: &OddDirectory,
    machine: usize,
    over: TakeOver,
) -> Result<Arc<Volume>, OpenError> {
    let access = Access::Write { over, mounted: false };
    drive.open_on(seen_by(directory, machine % 2), machine as u128, access).await
}

#[test]
fn one_of_two_computers_opens_a_shared_drive() {
    const ROUNDS: usize = 40;
    let directory = OddDirectory::mount(SLOW, 2);
    place::run(async {
        let place = place::shared(&directory);
        let first = place.drive().await;
        let mut won = [0; 2];
        for round in 0..ROUNDS {
            let drive = first.family.drive().await;
            let opening = |machine| open(&drive, &directory, 2 * round + machine, TakeOver::Nobody);
            let (a, b) = tokio::join!(opening(0), opening(1));
            let (winner, volume) = match (a, b) {
                (Ok(volume), Err(OpenError::Held { .. })) => (0, volume),
                (Err(OpenError::Held { .. }), Ok(volume)) => (1, volume),
                (a, b) => panic!("round {round}: {:?}, {:?}", a.err(), b.err()),
            };
            won[winner] += 1;
            write(&volume, 0, 1).await;
            push(&volume).await;
            volume.shut_down().await.unwrap();
        }
        println!("won: {won:?}");
    });
}

/// Why this test directory exists: with locks, which no other mount sees, both computers would have the drive.
#[test]
fn with_locks_both_computers_would_win() {
    const ROUNDS: usize = 40;
    let directory = OddDirectory::mount(SLOW, 2);
    place::run(async {
        let mut place = place::shared(&directory);
        place.mode = Mode::Swap;
        let first = place.drive().await;
        let mut both = 0;
        for round in 0..ROUNDS {
            let drive = first.family.drive().await;
            let opening = |machine| {
                let store = Arc::new(FileStore::new(directory.path(machine), &DriveNames));
                let access = Access::Write { over: TakeOver::Nobody, mounted: false };
                drive.open_on(store, (2 * round + machine) as u128, access)
            };
            let (a, b) = tokio::join!(opening(0), opening(1));
            both += usize::from(a.is_ok() && b.is_ok());
            for volume in [a, b].into_iter().flatten() {
                volume.shut_down().await.unwrap();
            }
        }
        assert!(both > 0, "one of each two had it");
        println!("both won {both} of {ROUNDS} rounds");
    });
}

#[test]
fn no_upload_is_missing_after_a_take_over() {
    const ROUNDS: usize = 12;
    /// More writes than happen before another computer takes the drive.
    const WRITES: u64 = 20;
    let directory = OddDirectory::mount(SLOW, 2);
    place::run(async {
        let place = place::shared(&directory);
        let drive = place.drive().await;
        let mut holder = open(&drive, &directory, 0, TakeOver::Nobody).await.unwrap();
        let (mut uploaded, mut fenced) = (vec![0; (ROUNDS as u64 * WRITES) as usize], 0);
        for round in 1..=ROUNDS {
            let begin = (round as u64 - 1) * WRITES;
            let writing = async {
                let mut kept = Vec::new();
                for block in begin..begin + WRITES {
                    write(&holder, block, round as u8).await;
                    match holder.pusher().unwrap().sync().await {
                        Ok(_) => kept.push(block),
                        Err(PushError::Forked(_)) => break,
                        Err(error) => panic!("round {round}: {error}"),
                    }
                }
                kept
            };
            let taking = async {
                // At another moment in each round.
                tokio::time::sleep(Duration::from_millis(7 * round as u64)).await;
                open(&drive, &directory, round, TakeOver::Anybody).await.unwrap()
            };
            let (kept, taken) = tokio::join!(writing, taking);
            fenced += usize::from(kept.len() < WRITES as usize);
            kept.into_iter().for_each(|block| uploaded[block as usize] = round as u8);
            // The former holder ends as if it was cut off.
            holder.shut_down().await.unwrap();
            holder = taken;
            let found = read(&holder, uploaded.len() as u64).await;
            for (block, (uploaded, found)) in uploaded.iter().zip(&found).enumerate() {
                assert!(*uploaded == 0 || uploaded == found, "round {round}: block {block} is missing");
            }
        }
        close(holder).await;
        let found = drive.committed(1000, uploaded.len() as u64).await;
        assert!(uploaded.iter().zip(&found).all(|(uploaded, found)| *uploaded == 0 || uploaded == found));
        assert!(2 * fenced > ROUNDS, "{fenced} of {ROUNDS} were fenced while they wrote");
    });
}

#[test]
fn a_drive_works_on_file_systems_that_lack_something() {
    for (what, habits) in HABITS {
        println!("{what}");
        let directory = OddDirectory::mount(*habits, 2);
        place::run(async {
            let [a, b] = [(), ()].map(|()| FileStore::new(directory.path(0), &DriveNames));
            let report = probe([&a, &b], Effort::FULL, &|| 0).await.unwrap();
            assert_eq!(report.mode, Mode::Claim, "{what}: {report:?}");
            let place = place::shared(&directory);
            let drive = place.drive().await;
            let volume = open(&drive, &directory, 0, TakeOver::Nobody).await.unwrap();
            for block in 0..20 {
                write(&volume, block, block as u8 + 1).await;
            }
            push(&volume).await;
            assert!(matches!(
                open(&drive, &directory, 1, TakeOver::Nobody).await,
                Err(OpenError::Held { .. })
            ));
            close(volume).await;
            let volume = open(&drive, &directory, 1, TakeOver::Nobody).await.unwrap();
            assert_eq!(read(&volume, 20).await, (1..=20).collect::<Vec<u8>>(), "{what}");
            close(volume).await;
        });
    }
}

#[test]
fn says_that_a_place_supports_no_directories() {
    for refusal in [Refusal::NOT_SUPPORTED, Refusal::INVALID] {
        let directory = OddDirectory::mount(Habits { make_directory: Some(refusal), ..Habits::default() }, 1);
        place::run(async {
            let [a, b] = [(), ()].map(|()| FileStore::new(directory.path(0), &DriveNames));
            let refused = probe([&a, &b], Effort::FULL, &|| 0).await;
            assert!(matches!(refused, Err(StoreError::Unfit { .. })), "{refused:?}");
        });
    }
}

/// A failing disk says nothing about the file system.
#[test]
fn a_directory_that_fails_to_sync_accepts_no_put() {
    let habits = Habits { directory_sync: Some(Refusal::BROKEN), ..Habits::default() };
    let directory = OddDirectory::mount(habits, 1);
    place::run(async {
        let store = FileStore::new(directory.path(0), &DriveNames);
        let put = store.put("family.json", "{}".into(), holdall_core::store::When::Absent).await;
        assert!(matches!(put, Err(StoreError::Unreachable { .. })), "{put:?}");
    });
}

/// Measures openings, commits and closings in both modes, in turns, on a local disk.
#[test]
#[ignore = "a measurement"]
fn measures_claims_on_a_local_disk() {
    const ROUNDS: u128 = 30;
    place::run(async {
        let mut times = [(); 2].map(|()| [(); 3].map(|()| Vec::new()));
        let places = [Mode::Swap, Mode::Claim].map(place::directory_by);
        let drives = [places[0].drive().await, places[1].drive().await];
        for round in 0..ROUNDS {
            for (drive, times) in drives.iter().zip(&mut times) {
                let mut timed = |what: usize, begun: std::time::Instant| times[what].push(begun.elapsed());
                let begun = std::time::Instant::now();
                let volume = drive.open(round).await.unwrap();
                timed(0, begun);
                for block in 0..4 {
                    let data = [round as u8; place::BLOCK as usize];
                    let device = VolumeDevice(volume.clone());
                    device.write(block * place::BLOCK, &data, Durability::Forced).wait().await.unwrap();
                    let begun = std::time::Instant::now();
                    push(&volume).await;
                    timed(1, begun);
                }
                let begun = std::time::Instant::now();
                close(volume).await;
                timed(2, begun);
            }
        }
        for (mode, times) in ["swap", "claim"].iter().zip(&mut times) {
            for (what, times) in ["open", "commit", "close"].iter().zip(times) {
                times.sort();
                println!(
                    "{mode} {what}: median {:?}, p90 {:?}",
                    times[times.len() / 2],
                    times[times.len() * 9 / 10]
                );
            }
        }
    });
}
