//! A store that becomes another one: it is restored from a backup, also while a drive in it is open; or two copies of it,
//! each of which a device has used, are merged, as a sync tool does with a directory. A device's own files may be restored too,
//! so that what wrote to the store is a copy of what it is now.
//!
//! * A device shows all that it has ever shown and all that was durable on it, in the drive or in its fork, and nothing of
//!   another version on top. If the store cannot give it that any more, it says so and changes nothing.
//! * The store shows, at any time, a drive and forks that open, each in a state that somebody has left.
//! * What was uploaded before the backup, or to one of the copies, is in the drive or in a fork.

use crate::pair::{Files, HOURS, STORE_FAULTS, Saved, Swapping, World, run};
use crate::{assert_promises_hold, seeds, trace};
use holdall_core::sim::store::{Habits, SimStore, StoreFaults};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn world(seed: u64) -> World {
    holdall_core::entropy::seed_this_thread(seed);
    let (swapping, swaps) = match seed % 2 {
        0 => (Swapping::Store, true),
        _ => (Swapping::Claims, false),
    };
    let habits = Habits { swaps, ..Habits::GOOD };
    let store = SimStore::new(seed ^ 1, StoreFaults::default()).with_habits(habits);
    World::new(seed, StdRng::seed_from_u64(seed), store, swapping)
}

/// A while of a device's work, whichever way it ends.
fn live(world: &World, index: usize) {
    let cut = match world.below(2) {
        0 => Duration::from_millis(world.below(30_000)),
        _ => HOURS,
    };
    run(async {
        let _ = tokio::time::timeout(cut, world.life(index)).await;
    });
    end(world, index);
}

fn end(world: &World, index: usize) {
    let disk = world.disk(index);
    if world.below(2) == 0 { disk.power_cut() } else { disk.kill() }
}

/// The store is restored while a device works on. It collects nothing meanwhile: what it is just about to delete may be in
/// use again.
fn live_while_restored(world: &World, index: usize, saved: &Saved) {
    world.collects.store(false, Relaxed);
    run(async {
        let restoring = async {
            tokio::time::sleep(Duration::from_millis(world.below(20_000))).await;
            trace(|| "the store is restored".to_owned());
            world.restore(saved);
            std::future::pending::<()>().await;
        };
        tokio::select! { biased;
            _ = tokio::time::timeout(HOURS, world.life(index)) => {}
            () = restoring => {}
        }
    });
    end(world, index);
    world.collects.store(true, Relaxed);
}

/// Each device uses a copy of the store for a while, and then there is one store again.
fn live_apart(world: &World) {
    let common = world.save();
    let copies = [0, 1].map(|index| {
        world.restore(&common);
        for _ in 0..1 + world.below(2) {
            live(world, index);
        }
        world.save()
    });
    let [mut first, mut second] = copies;
    if world.below(2) == 0 {
        (first, second) = (second, first);
    }
    trace(|| "the copies are merged".to_owned());
    world.restore(&first.merge(second));
}

/// A copy of a device's files, as they were once, goes on in a store that was restored. Then the device itself comes back.
fn live_as_a_copy(world: &World, index: usize, before: &Saved, files: &Files) {
    let now = world.copy_files(index);
    trace(|| format!("a copy of device {index} goes on in a store that was restored"));
    world.restore(before);
    world.go_back(index, files);
    live(world, index);
    trace(|| format!("device {index} itself comes back"));
    world.go_back(index, &now);
}

/// Both devices see what the store is now.
fn all_look(world: &World) {
    world.store.set_faults(StoreFaults::default());
    for index in 0..2 {
        run(async {
            let volume = world.open(index).await;
            world.upload(index, &volume).await;
        });
        world.disk(index).kill();
    }
    world.check_store();
    world.store.set_faults(STORE_FAULTS);
}

fn any<'a, T>(world: &World, all: &'a [T]) -> &'a T {
    &all[world.below(all.len() as u64) as usize]
}

pub fn simulate(seed: u64) {
    let world = world(seed);
    let mut saved = vec![world.save()];
    let mut files = [0, 1].map(|index| vec![world.copy_files(index)]);
    for _ in 0..2 + world.below(5) {
        let index = world.below(2) as usize;
        let before = any(&world, &saved);
        match world.below(11) {
            0 => {
                trace(|| "the store is restored between two lives".to_owned());
                world.restore(before);
            }
            1 => live_while_restored(&world, index, before),
            2 => {
                // A collection by whoever comes first would delete what the other has in no version yet.
                live_apart(&world);
                world.check_states();
                world.collects.store(false, Relaxed);
                all_look(&world);
                world.collects.store(true, Relaxed);
            }
            3 => saved.push(world.save()),
            4 => files[index].push(world.copy_files(index)),
            5 => {
                trace(|| format!("device {index} has its old files again"));
                world.go_back(index, any(&world, &files[index]));
            }
            6 => live_as_a_copy(&world, index, before, any(&world, &files[index])),
            7 => world.part_with_fork(index),
            _ => live(&world, index),
        }
        world.check_states();
    }
    all_look(&world);
}

#[test]
fn no_version_is_lost_or_mixed_when_a_store_changes() {
    assert_promises_hold(simulate, seeds(300));
}
