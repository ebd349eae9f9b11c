//! A store that is replaced by another state. It is restored from a backup, even while a drive in it is open. Or two copies of
//! it, each used by a device, are merged, as a sync tool does it with a directory. A device's own files may be restored too, so
//! that the store was written by a copy of that device.
//!
//! * A device shows all that it has ever shown and all that was durable on it, in the drive or in its fork, without anything of
//!   another version on top. If the store can no longer give it that, the device reports it and changes nothing.
//! * The store shows, at any time, a drive and forks that open, each in a state that some device has left.
//! * Everything uploaded before the backup, or to one of the copies, is in the drive or in a fork.

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

/// Some work of a device, with any kind of end.
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

/// The store is restored while a device works. The device collects nothing meanwhile, since objects that it is about to delete
/// may be in use again.
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

/// A copy of a device's earlier files continues in a store that was restored. Then the device itself comes back.
fn live_as_a_copy(world: &World, index: usize, before: &Saved, files: &Files) {
    let now = world.copy_files(index);
    trace(|| format!("a copy of device {index} goes on in a store that was restored"));
    world.restore(before);
    world.go_back(index, files);
    live(world, index);
    trace(|| format!("device {index} itself comes back"));
    world.go_back(index, &now);
}

/// Both devices open the store in its new state.
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
                // A collection by the first device would delete objects that the other has in no version yet.
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
