//! Bugs of migrations are planted one after another, and the simulation finds every one.

use crate::faults::{Fault, Plan};
use crate::world::offer;
use crate::{run, single_faults};
use bytes::Bytes;
use holdall_core::migrate::Now;
use holdall_core::migrate::message::*;
use holdall_core::migrate::phase::{Phase, Role};
use holdall_core::migrate::seeder::{Event, STALL_MAX, Seeder};
use holdall_core::migrate::session::Record;
use holdall_core::planted::{Bug, OF_MIGRATIONS, plant, planted};
use std::panic::catch_unwind;
use std::sync::Once;
use std::time::Duration;
use uuid::Uuid;

/// Seeds that are tried where single faults find nothing.
const SEEDS: u64 = 6000;

/// What found a bug last. It is tried first, since a search takes long; one is needed only after a change of the engines or of the world.
const HINTS: &[(Bug, Plan, u64)] = &[
    (Bug::DeltaAckedBeforeSync, Plan::One { point: 22, fault: Fault::PowerAfter }, 0),
    (Bug::ReleasedAfterSwap, Plan::One { point: 26, fault: Fault::KillAfter }, 0),
    (Bug::RoundClearedBeforeAck, Plan::One { point: 14, fault: Fault::Lost }, 0),
    (Bug::MigrationForgotten, Plan::One { point: 28, fault: Fault::KillAfter }, 0),
    (Bug::CancelledAfterRelease, Plan::One { point: 24, fault: Fault::CancelHere }, 0),
    (Bug::EarlierAttemptKept, Plan::Random, 27),
    (Bug::LatePartTaken, Plan::Random, 5089),
    (Bug::SwappedWithoutGrant, Plan::One { point: 22, fault: Fault::CancelThere }, 0),
    (Bug::CancelledAfterAck, Plan::One { point: 24, fault: Fault::CancelHere }, 0),
];

#[test]
fn every_planted_bug_is_found() {
    silence_planted_failures();
    let only = std::env::var("HOLDALL_PLANTED").ok();
    let chosen = |bug: &&Bug| only.as_ref().is_none_or(|only| format!("{bug:?}") == *only);
    let missed: Vec<_> = OF_MIGRATIONS.iter().filter(chosen).filter(|bug| !is_found(**bug)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

fn is_found(bug: Bug) -> bool {
    let by = std::thread::spawn(move || {
        plant(Some(bug));
        if let Some((_, plan, seed)) = HINTS.iter().find(|(hinted, ..)| *hinted == bug)
            && catch_unwind(|| run(*plan, *seed)).is_err()
        {
            return Some(format!("{plan:?}, seed {seed}"));
        }
        if bug == Bug::StaleAckReleases && catch_unwind(stale_acknowledgement).is_err() {
            return Some("an acknowledgement of an earlier attempt".to_owned());
        }
        let mut found = None;
        plant(None);
        single_faults(|plan| {
            if found.is_none() {
                plant(Some(bug));
                found = catch_unwind(|| run(plan, 0)).is_err().then(|| format!("{plan:?}"));
                plant(None);
            }
        });
        plant(Some(bug));
        let seed = || (0..SEEDS).find(|seed| catch_unwind(|| run(Plan::Random, *seed)).is_err());
        found.or_else(|| seed().map(|seed| format!("seed {seed}")))
    });
    let by = by.join().expect("the search itself does not fail");
    println!("{bug:?}: {}", by.as_deref().unwrap_or("NOT found"));
    by.is_some()
}

/// A seeder whose programs had to continue gets the acknowledgement of the delta from before, and then that of this one.
fn stale_acknowledgement() {
    let offer = offer(Bytes::from_static(b"HEAD"));
    let session = offer.session;
    let record = Record::new(Role::Seeder, [0; 32], "b".to_owned(), offer, 0);
    let at = |ms| Now { at: Duration::from_millis(ms), unix_ms: ms };
    let (mut seeder, _) = Seeder::begin(at(0), record, Uuid::from_u128(1), "a".to_owned());
    let welcome = Greeting {
        oldest: 1,
        newest: 1,
        device: Uuid::from_u128(2),
        name: "b".to_owned(),
        session,
        role: Role::Leecher,
        phase: Some(Phase::Offered),
        position: Position::start(1),
    };
    let seal = |seeder: &mut Seeder, attempt: u32, ms| {
        let head = Bytes::from_static(b"HEAD");
        seeder.apply(at(ms), Event::Watching { attempt, delta: Vec::new(), head: head.clone() });
        seeder.apply(at(ms), Event::Received(Message::Prepared { attempt, delta_blocks: 700 }));
        seeder.apply(at(ms), Event::Stopping);
        assert_eq!(seeder.apply(at(ms), Event::Stopped).len(), 1, "{:?}", seeder.record().phase);
        let end = Final {
            attempt,
            rounds: 0,
            delta_hash: [attempt as u8; 32],
            cut: 1,
            cut_crc: 0,
            size_blocks: 700,
            head,
            arrival: Bytes::new(),
        };
        seeder.apply(at(ms), Event::Sealed { rest: Vec::new(), end });
        assert_eq!(seeder.record().phase, Phase::Sealed);
    };
    seeder.apply(at(0), Event::Linked);
    seeder.apply(at(0), Event::Received(Message::Welcome(welcome)));
    seeder.apply(at(0), Event::Received(Message::Accept(Answer::default())));
    seal(&mut seeder, 1, 100);
    seeder.apply(at(100 + STALL_MAX.as_millis() as u64), Event::Tick);
    assert_eq!((seeder.record().phase, seeder.record().attempt), (Phase::Copying, 2));
    seal(&mut seeder, 2, 9000);
    let acknowledged = |attempt: u32| Message::FinalAck { attempt, delta_hash: [attempt as u8; 32] };
    seeder.apply(at(9001), Event::Received(acknowledged(1)));
    assert_eq!(seeder.record().phase, Phase::Sealed, "an earlier delta released the drive");
    seeder.apply(at(9002), Event::Received(acknowledged(2)));
    assert_eq!(seeder.record().phase, Phase::Released);
}

#[test]
fn an_acknowledgement_of_an_earlier_delta_releases_nothing() {
    stale_acknowledgement();
}

/// Failures on threads with a planted bug are wanted.
fn silence_planted_failures() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if planted().is_none() {
                print(panic);
            }
        }));
    });
}
