//! What goes wrong on the way to a server. Whatever it is: what was uploaded is in the store for everyone, and what was
//! not is uploaded in the end.

use crate::place::{PATIENCE, Place, push, read, write};
use holdall_core::volume::Access;
use holdall_servers::faults::{self, Asked, Fault};
use std::time::Duration;

const WRITE: Access = Access::Write { over_others: false, mounted: false };

/// A commit has fewer requests than this, on every store.
const REQUESTS_MAX: u64 = 30;

fn puts(asked: &Asked) -> bool {
    asked.method == "PUT"
}

/// The connection is cut at every request of a commit in turn, before it reaches the server, while it does, and after.
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

/// A machine is gone at every request of a commit in turn, before or after it took effect; the next one takes the drive.
pub async fn deaths(place: Place) {
    let (drive, proxy) = (place.drive().await, place.proxy());
    let (mut machine, mut committed) = (0_u8, 0);
    for fault in [Fault::CutBeforeBody, Fault::LostAnswer] {
        let mut number = 0;
        loop {
            machine += 1;
            proxy.plan(faults::none());
            let access = Access::Write { over_others: true, mounted: false };
            let volume = drive.open_by(Some(proxy.address()), machine.into(), access).await.unwrap();
            assert_eq!(read(&volume, 1).await, [committed], "machine {machine}");
            write(&volume, 0, machine).await;
            proxy.plan(faults::from(number, fault.clone()));
            let mut state = volume.pusher().unwrap().state();
            let done = tokio::select! {
                pushed = volume.pusher().unwrap().sync() => { pushed.unwrap(); true }
                troubled = state.wait_for(|state| state.trouble.is_some()) => { troubled.unwrap(); false }
            };
            // Nothing that it still wants arrives any more.
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

/// The server says no for a while.
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
        // The first put of each: it has to come again.
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
        // All that is asked is refused, until a person has seen to it.
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
    // What is only slow is no trouble.
    proxy.plan(faults::from(0, Fault::Drip { pieces: 5, pause: Duration::from_millis(5) }));
    write(&volume, 0, 1).await;
    push(&volume).await;
    assert_eq!(drive.committed(300, 1).await, [1]);
    assert!(volume.status().local_trouble.is_none());
}

/// Requests that were given up and arrive all the same, or arrive twice.
pub async fn zombies(place: Place) {
    let (drive, proxy) = (place.drive().await, place.proxy());
    let volume = drive.open_by(Some(proxy.address()), 0, WRITE).await.unwrap();
    let mut expected = 0;
    for later in [1, 4, 1000] {
        for which in 0..4 {
            expected += 1;
            let mut seen = 0;
            let plan = move |asked: &Asked| {
                seen += u64::from(asked.changes());
                (asked.changes() && seen == which + 1).then_some(Fault::Zombie { later })
            };
            proxy.plan(Box::new(plan));
            write(&volume, 0, expected).await;
            push(&volume).await;
            assert_eq!(drive.committed(u128::from(expected) + 100, 1).await, [expected]);
        }
    }
    for _ in 0..2 {
        expected += 1;
        proxy.plan(Box::new(|asked| asked.changes().then_some(Fault::Replayed)));
        write(&volume, 0, expected).await;
        push(&volume).await;
    }
    // Everything that is still under way arrives now.
    proxy.release();
    assert_eq!(drive.committed(99, 1).await, [expected]);
    proxy.plan(faults::none());
    write(&volume, 1, 1).await;
    push(&volume).await;
    assert_eq!(drive.committed(98, 2).await, [expected, 1]);
}
