//! Faults between a client and its server. After each of them, everything that was uploaded is in the store for everyone, and the
//! rest is uploaded in the end.

use crate::place::{PATIENCE, Place, close, push, read, write};
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::format::family::{self, Family};
use holdall_core::replica::{Progress, Replica, Replicated, Standing, Wanted};
use holdall_core::seal::Cipher;
use holdall_core::store::When;
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{Access, TakeOver, VolumeDevice};
use holdall_servers::faults::{self, Asked, Fault};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const WRITE: Access = Access::Write { over: TakeOver::Nobody, mounted: false };

/// More requests than any commit has, on every store.
const REQUESTS_MAX: u64 = 30;

fn puts(asked: &Asked) -> bool {
    asked.method == "PUT"
}

/// Cuts the connection at every request of a commit in turn: before, while, and after it reaches the server.
pub async fn cuts(place: Place) {
    let (drive, proxy) = (place.drive().await, place.proxy());
    let volume = drive.open_by(Some(proxy.address()), 0, WRITE).await.unwrap();
    let mut expected = 0;
    for fault in [Fault::CutBeforeBody, Fault::CutInBody, Fault::LostAnswer, Fault::ShortAnswer] {
        let mut number = 0;
        loop {
            expected += 1;
            proxy.plan(faults::at(number, fault.clone()));
            write(&volume, 0, expected).await;
            push(&volume).await;
            let hit = proxy.log().iter().any(|entry| entry.fault.is_some());
            proxy.plan(faults::none());
            let found = drive.committed(100 + u128::from(expected), 1).await;
            assert_eq!(found, [expected], "{fault:?} at request {number}");
            if !hit {
                break;
            }
            number += 1;
            assert!(number < REQUESTS_MAX, "a commit has more than {REQUESTS_MAX} requests");
        }
        assert!(number > 2, "a commit has a segment, a root and a HEAD");
    }
}

/// A machine dies at every request of a commit in turn, before or after the request took effect. The next machine takes the
/// drive.
pub async fn deaths(place: Place) {
    let (drive, proxy) = (place.drive().await, place.proxy());
    let (mut machine, mut committed) = (0_u8, 0);
    for fault in [Fault::CutBeforeBody, Fault::LostAnswer] {
        let mut number = 0;
        loop {
            machine += 1;
            proxy.plan(faults::none());
            let access = Access::Write { over: TakeOver::Anybody, mounted: false };
            let volume = drive.open_by(Some(proxy.address()), machine.into(), access).await.unwrap();
            assert_eq!(read(&volume, 1).await, [committed], "machine {machine}");
            write(&volume, 0, machine).await;
            proxy.plan(faults::from(number, fault.clone()));
            let mut state = volume.pusher().unwrap().state();
            let done = tokio::select! {
                pushed = volume.pusher().unwrap().sync() => { pushed.unwrap(); true }
                troubled = state.wait_for(|state| state.trouble.is_some()) => { troubled.unwrap(); false }
            };
            // None of its remaining requests arrives.
            volume.pusher().unwrap().stop().await;
            drop(volume);
            let found = drive.committed(1000 + u128::from(machine), 1).await[0];
            let is_whole = found == machine || found == committed && !done;
            assert!(is_whole, "{fault:?} at request {number} left {found} behind {committed}");
            committed = found;
            if done {
                break;
            }
            number += 1;
            assert!(number < REQUESTS_MAX, "a commit has more than {REQUESTS_MAX} requests");
        }
        assert!(number > 2, "a commit has a segment, a root and a HEAD");
    }
}

/// The server refuses for a while.
pub async fn refusals(place: Place) {
    let (drive, proxy) = (place.drive().await, place.proxy());
    let volume = drive.open_by(Some(proxy.address()), 0, WRITE).await.unwrap();
    let faults = [
        Fault::BROKEN,
        Fault::BUSY,
        Fault::CONFLICT,
        Fault::PRECONDITION,
        Fault::UNKNOWN,
        Fault::DENIED,
        Fault::GONE,
        Fault::FULL,
        Fault::Portal,
        Fault::come_back(429, 2),
        Fault::come_back(503, 2),
    ];
    for (byte, fault) in (1..).zip(faults) {
        // The first put of each commit, which must be repeated.
        proxy.plan(faults::first(1, fault.clone(), puts));
        write(&volume, 0, byte).await;
        push(&volume).await;
        let log = proxy.log();
        assert!(log.iter().any(|entry| entry.fault.is_some()), "{fault:?}");
        for wait in faults::waits(&log) {
            assert!(wait.waited.is_some() && !wait.was_cut_short(), "{wait:?}");
        }
        let told = faults::waits(&log).len();
        assert_eq!(told, usize::from(matches!(fault, Fault::Status { retry_after: Some(_), .. })));
        proxy.plan(faults::none());
        assert_eq!(drive.committed(100 + u128::from(byte), 1).await, [byte], "{fault:?}");
    }
    let mut byte = 100;
    for fault in [Fault::UNKNOWN, Fault::DENIED, Fault::GONE, Fault::FULL, Fault::Portal] {
        // Every request is refused until a person fixes the cause.
        byte += 1;
        proxy.plan(faults::from(0, fault.clone()));
        write(&volume, 0, byte).await;
        let pusher = volume.pusher().unwrap();
        let mut state = pusher.state();
        let (pushed, ()) = tokio::join!(tokio::time::timeout(PATIENCE, pusher.sync()), async {
            let trouble = state.wait_for(|state| state.trouble.is_some()).await.unwrap().trouble.clone();
            assert!(trouble.is_some_and(|trouble| !trouble.is_empty()), "{fault:?}");
            proxy.plan(faults::none());
        });
        pushed.unwrap().unwrap();
        assert_eq!(drive.committed(100 + u128::from(byte), 1).await, [byte], "{fault:?}");
    }
    // A slow answer is no trouble.
    proxy.plan(faults::from(0, Fault::Drip { pieces: 5, pause: Duration::from_millis(5) }));
    write(&volume, 0, 1).await;
    push(&volume).await;
    assert_eq!(drive.committed(300, 1).await, [1]);
    assert!(volume.status().local_trouble.is_none());
}

/// After an answer that asks to come back later, the client sends that store nothing at all until then.
pub async fn patience(place: Place) {
    const TOLD: Fault = Fault::come_back(503, 2);
    // Far enough from the beginning of the drive, which the survey reads: only a test's read needs this block.
    const FAR: u64 = 40;
    const FURTHER: u64 = 90;
    let (drive, proxy) = (place.drive().await, place.proxy());
    let obeyed = |what: &str| {
        let waits = faults::waits(&proxy.log());
        assert_eq!(waits.len(), 1, "{what}: {:?}", proxy.log());
        assert!(!waits[0].was_cut_short(), "{what}: {waits:?} in {:?}", proxy.log());
        waits[0].clone()
    };
    let volume = drive.open_by(Some(proxy.address()), 0, WRITE).await.unwrap();
    write(&volume, FAR, 1).await;
    write(&volume, FURTHER, 2).await;
    push(&volume).await;

    // The swap of HEAD, or what replaces it: nothing else is left to put.
    proxy.plan(faults::first(1, TOLD, |asked| asked.changes()));
    tokio::time::timeout(PATIENCE, volume.release()).await.unwrap().unwrap();
    // Nothing else was in flight.
    let wait = obeyed("a swap");
    assert!(wait.next.is_some_and(|next| next >= wait.told), "{wait:?} in {:?}", proxy.log());
    proxy.plan(faults::none());
    volume.shut_down().await.unwrap();
    drop(volume);

    // A GET, on another machine.
    let volume = drive.open_by(Some(proxy.address()), 1, WRITE).await.unwrap();
    proxy.plan(faults::first(1, TOLD, |asked| asked.method == "GET"));
    assert_eq!(read(&volume, FAR + 1).await.last(), Some(&1));
    obeyed("a read");

    // The first of several segments, while another task reads.
    let mut noise = vec![0; 36 * BLOCK_BYTES as usize];
    StdRng::seed_from_u64(1).fill_bytes(&mut noise);
    let device = VolumeDevice(volume.clone());
    device.write(100 * BLOCK_BYTES, &noise, Durability::Forced).wait().await.unwrap();
    proxy.plan(faults::first(1, TOLD, |asked| asked.method == "PUT"));
    let reader = async {
        while faults::waits(&proxy.log()).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(read(&volume, FURTHER + 1).await.last(), Some(&2));
    };
    tokio::join!(push(&volume), reader);
    // Others were in flight.
    let waits = faults::waits(&proxy.log());
    assert!(waits.len() == 1 && waits[0].left_alone >= Some(waits[0].told), "{waits:?} in {:?}", proxy.log());

    // A DELETE: the next collection deletes what this one could not.
    proxy.plan(faults::none());
    for byte in 2..6 {
        write(&volume, 0, byte).await;
        push(&volume).await;
    }
    proxy.plan(faults::first(1, TOLD, |asked| asked.method == "DELETE"));
    for _ in 0..3 {
        let _ = volume.pusher().unwrap().collect().await;
        if !faults::waits(&proxy.log()).is_empty() {
            break;
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    obeyed("a collection");
    proxy.plan(faults::none());
    close(volume).await;
}

/// The same for a replica.
pub async fn patience_with_a_replica(place: Place) {
    let (proxy, primary) = (place.proxy(), crate::place::file());
    let (family, replica) = (primary.drive().await, place.for_drives(Some(proxy.address())));
    let store = Arc::new(Replicated::new(primary.for_drives(None), family.drive));
    let changed = store.add(replica.clone());
    let volume = family.open_on(store.clone(), 0, WRITE).await.unwrap();
    let described = Family::new(family.family.id(), Cipher::None, place.mode);
    // Adding a replica puts this first.
    place.connect().put(family::NAME, described.encode().into(), When::Absent).await.unwrap();
    let task = Replica::new(replica, family.objects(), described, changed);
    let (mut progress, wanted) = (task.progress(), watch::Sender::new(Wanted::Kept));
    let running = tokio::spawn(task.run(wanted.subscribe()));
    let up_to_date = async |progress: &mut watch::Receiver<Progress>| {
        let root = volume.pusher().unwrap().state().borrow().root;
        let done = progress.wait_for(|now| now.version == Some(root) && now.standing == Standing::UpToDate);
        let done = tokio::time::timeout(PATIENCE, done).await.map(|done| done.map(drop));
        assert!(matches!(done, Ok(Ok(()))), "{:?} in {:?}", *progress.borrow(), proxy.log());
    };
    write(&volume, 0, 1).await;
    push(&volume).await;
    up_to_date(&mut progress).await;
    for byte in 2..4 {
        proxy.plan(faults::first(1, Fault::come_back(503, 2), |asked| asked.changes()));
        // Later commits do not hurry it.
        write(&volume, 0, byte).await;
        push(&volume).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        write(&volume, 0, byte + 10).await;
        push(&volume).await;
        up_to_date(&mut progress).await;
        let waits = faults::waits(&proxy.log());
        assert_eq!(waits.len(), 1);
        assert!(!waits[0].was_cut_short(), "{waits:?} in {:?}", proxy.log());
    }
    running.abort();
    close(volume).await;
}

/// Requests that were abandoned and arrive late, or arrive twice: each request of a commit that changes anything.
pub async fn zombies(place: Place) {
    let (drive, proxy) = (place.drive().await, place.proxy());
    let volume = drive.open_by(Some(proxy.address()), 0, WRITE).await.unwrap();
    let was_hit = || proxy.log().iter().any(|entry| entry.fault.is_some());
    let mut expected = 0;
    for later in [1, 4, 1000] {
        for which in 0..REQUESTS_MAX {
            expected += 1;
            let mut seen = 0;
            let plan = move |asked: &Asked| {
                seen += u64::from(asked.changes());
                (asked.changes() && seen == which + 1).then_some(Fault::Zombie { later })
            };
            proxy.plan(Box::new(plan));
            write(&volume, 0, expected).await;
            push(&volume).await;
            let is_done = !was_hit();
            assert_eq!(drive.committed(u128::from(expected) + 100, 1).await, [expected]);
            if is_done {
                assert!(which >= 2, "a commit puts a segment and a root");
                break;
            }
        }
        assert!(!was_hit(), "a commit has more than {REQUESTS_MAX} requests");
    }
    for _ in 0..2 {
        expected += 1;
        proxy.plan(Box::new(|asked| asked.changes().then_some(Fault::Replayed)));
        write(&volume, 0, expected).await;
        push(&volume).await;
        assert!(was_hit());
    }
    // Everything that is still in flight arrives now.
    proxy.release();
    assert_eq!(drive.committed(99, 1).await, [expected]);
    proxy.plan(faults::none());
    write(&volume, 1, 1).await;
    push(&volume).await;
    assert_eq!(drive.committed(98, 2).await, [expected, 1]);
}
