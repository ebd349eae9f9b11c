//! Two devices that write to one drive at the same time, on a store that cannot keep them apart: it ignores a condition or checks
//! it too early, and it grants a name to all who ask for it. The product tells people to use such a drive on one device at a
//! time. If two write anyway, both versions are kept:
//! * the store shows, at any time, a drive and forks that open, each in a state that some device has left;
//! * a device shows what was durable on it, in the drive or in its fork, with nothing of the other device on top;
//! * everything that was reported to a device as uploaded is in the drive or in a fork, even on a machine with nothing but the
//!   store.

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
    // Every third seed has a server that stops listing after a number of names, and has more names from the beginning.
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
    // Delayed requests arrive, and each device has what it uploaded.
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
