//! The whole engine on a simulated disk and store, in virtual time: one seed, one run, on one thread.
//!
//! `HOLDALL_SEED=n` runs one seed. `HOLDALL_SEEDS=n` runs this many, from `HOLDALL_FIRST_SEED=n` on. `tests/run` derives the
//! first seed from the commit, so that runs of different commits cover more seeds than any one of them could.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod lives;
mod model;
mod pair;
mod planted;
mod restored;
mod rivals;

use holdall_core::planted::Bug;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// The seeds to run: those named by the environment, otherwise `count` seeds.
fn seeds(count: u64) -> Range<u64> {
    if let Some(seed) = number("HOLDALL_SEED") {
        return seed..seed + 1;
    }
    let first = number("HOLDALL_FIRST_SEED").unwrap_or(0);
    first..first + number("HOLDALL_SEEDS").unwrap_or(count)
}

/// Runs `simulation` with each seed, and fails with a seed that fails.
fn assert_promises_hold(simulation: fn(u64), seeds: Range<u64>) {
    println!("seeds {} to {}", seeds.start, seeds.end - 1);
    if let Some(seed) = first_failure(simulation, None, seeds) {
        panic!("seed {seed} fails: replay it with HOLDALL_SEED={seed} just sim");
    }
}

/// Searches `seeds` for one that fails, on all processors and with `bug` planted, if there is one. Returns the first such seed or
/// one close to it.
fn first_failure(simulation: fn(u64), bug: Option<Bug>, seeds: Range<u64>) -> Option<u64> {
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicU64::new(u64::MAX));
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                holdall_core::planted::plant(bug);
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= seeds.end || failed.load(Relaxed) != u64::MAX {
                        return;
                    }
                    let begun = std::time::Instant::now();
                    if std::panic::catch_unwind(|| simulation(seed)).is_err() {
                        failed.fetch_min(seed, Relaxed);
                    }
                    trace(|| format!("seed {seed} took {:?}", begun.elapsed()));
                }
            });
        }
    });
    Some(failed.into_inner()).filter(|seed| *seed != u64::MAX)
}

/// Prints what happens, for the study of one seed.
fn trace(text: impl Fn() -> String) {
    if std::env::var_os("HOLDALL_TRACE").is_some() {
        eprintln!("{}", text());
    }
}
