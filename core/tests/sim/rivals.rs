//! Two devices that write to one drive at the same time, on a store that cannot keep them apart: a condition is not heeded,
//! or checked a moment before what is put is there, and a name is given to all who ask for it. People are told to
//! use such a drive on one device at a time. If two write all the same, both versions are kept:
//! * the store shows, at any time, a drive and forks that open, each in a state that somebody has left;
//! * a device shows what was durable on it, in the drive or in its fork, and nothing that is another's on top;
//! * whatever a device was told is uploaded is in the drive or in a fork, also for a machine that has only the store.

use crate::pair::{HOURS, Swapping, World, run};
use crate::{assert_promises_hold, seeds};
use holdall_core::sim::store::{Habits, SimStore, StoreFaults};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

fn world(seed: u64) -> World {
    holdall_core::entropy::seed_this_thread(seed);
    let mut rng = StdRng::seed_from_u64(seed);
    let habits = Habits {
        swaps: false,
        creates: false,
        in_two_steps: rng.random(),
        may_delete: rng.random_ratio(3, 4),
        ..Habits::GOOD
    };
    // Of every third: a server that stops listing after so many names, and has more of them from the beginning.
    let most =
        (seed.is_multiple_of(3) && habits.may_delete).then_some(LISTED_LEAST + (seed / 3) as usize % 40);
    let store = SimStore::new(seed ^ 1, StoreFaults::default()).with_habits(habits);
    let world = World::new(seed, rng, store.clone(), Swapping::Claims);
    if most.is_some() {
        world.leave_claims(100);
    }
    let _ = store.with_habits(Habits { lists_at_most: most, ..habits });
    world
}

/// A server that lists fewer names of one kind holds no drive.
const LISTED_LEAST: usize = 45;

pub fn simulate(seed: u64) {
    let world = world(seed);
    for _ in 0..1 + world.below(4) {
        let cut = match world.below(2) {
            0 => Duration::from_millis(world.below(60_000)),
            _ => HOURS,
        };
        run(async {
            let both = async { tokio::join!(world.life(0), world.life(1)) };
            let _ = tokio::time::timeout(cut, both).await;
        });
        for index in 0..2 {
            let disk = world.disk(index);
            if world.below(2) == 0 { disk.power_cut() } else { disk.kill() }
        }
        world.check_store();
    }
    // Whatever is still on its way arrives, and each has what it has uploaded.
    world.store.set_faults(StoreFaults::default());
    for index in 0..2 {
        run(async {
            let volume = world.open(index).await;
            world.upload(index, &volume).await;
        });
        world.disk(index).kill();
    }
    world.check_store();
}

#[test]
fn keeps_both_versions_when_a_store_cannot_separate_two_writers() {
    assert_promises_hold(simulate, seeds(300));
}
