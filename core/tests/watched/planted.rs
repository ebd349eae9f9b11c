//! Bugs that programs which synchronize directories have had: planted one by one, each is found.

use crate::held;
use crate::lives::lives;
use holdall_core::planted::{self, Bug, OF_WATCHED};
use std::panic::catch_unwind;

/// Seeds that are tried for a bug.
const SEEDS: u64 = 150;

fn fails(work: impl Future<Output = ()>) -> bool {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(work))).is_err()
}

fn is_found(bug: Bug) -> bool {
    match bug {
        // The random lives delete little.
        Bug::DeletionsNotHeld => fails(held::many_deletions()),
        Bug::CutListingBelieved => fails(held::broken_listings()),
        _ => (0..SEEDS).any(|seed| catch_unwind(|| lives(seed).is_err()).unwrap_or(true)),
    }
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in OF_WATCHED {
        planted::plant(Some(bug));
        if !is_found(bug) {
            missed.push(bug);
        }
        planted::plant(None);
    }
    assert!(missed.is_empty(), "nothing finds {missed:?}");
}
