//! A migration between two engines, in virtual time: two model disks, one store, one link, programs that write, and an independent checker.
//!
//! Each run has one fault at one point, a message, a sync or a request to the store, or many by a seed. `HOLDALL_SEED=n` replays one seed,
//! `HOLDALL_SEEDS=n` runs so many. `HOLDALL_TRACE` prints what happens.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod device;
mod disk;
mod documents;
mod faults;
mod fixtures;
mod planted;
mod store;
mod wire;
mod world;

use faults::{Fault, Plan};
use world::World;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// One run; panics if a promise is broken. Returns the points that it passed.
fn run(plan: Plan, seed: u64) -> u64 {
    let mut world = World::new(plan, seed);
    world.run();
    world.check();
    world.points()
}

/// Every fault at every point of a run that has no other.
fn single_faults(mut each: impl FnMut(Plan)) {
    let points = run(Plan::None, 0);
    assert!(points > 40, "a migration passes {points} points only");
    for point in 0..points + 5 {
        for fault in Fault::ALL {
            each(Plan::One { point, fault });
        }
    }
}

#[test]
fn a_migration_without_trouble_moves_the_drive() {
    let mut world = World::new(Plan::None, 0);
    world.run();
    world.check();
    assert!(world.has_moved(), "{}", world.story());
}

#[test]
fn every_fault_at_every_point_keeps_every_write() {
    single_faults(|plan| {
        let outcome = std::panic::catch_unwind(|| run(plan, 0));
        assert!(outcome.is_ok(), "{plan:?} fails");
    });
}

#[test]
fn random_faults_keep_every_write() {
    let first = number("HOLDALL_SEED").or(number("HOLDALL_FIRST_SEED")).unwrap_or(0);
    let count = if number("HOLDALL_SEED").is_some() { 1 } else { number("HOLDALL_SEEDS").unwrap_or(3000) };
    let mut moved = 0;
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(Plan::Random, seed);
            world.run();
            world.check();
            world.has_moved()
        });
        match outcome {
            Ok(has_moved) => moved += u64::from(has_moved),
            Err(_) => panic!("seed {seed} fails: replay it with HOLDALL_SEED={seed}"),
        }
    }
    println!("{moved} of {count} drives moved");
    // Otherwise the faults would show nothing.
    assert!(count < 100 || moved > count / 4, "only {moved} of {count} drives moved");
}
