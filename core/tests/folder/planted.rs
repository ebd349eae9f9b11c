//! Bugs that file systems on remotes have had: planted one by one, each is found.

use crate::consistency;
use crate::lives::lives;
use holdall_core::planted::{self, Bug, OF_FOLDERS};
use std::panic::catch_unwind;

/// Seeds that are tried for a bug.
const SEEDS: u64 = 400;

fn fails(work: impl Future<Output = ()>) -> bool {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(work))).is_err()
}

/// Whether something finds the bug that is planted on this thread.
fn is_found(bug: Bug) -> bool {
    match bug {
        // The random lives know of no mapping, and delete little.
        Bug::WrittenFileUploaded => fails(consistency::a_mapped_file()),
        Bug::DeletionsNotHeld => fails(consistency::an_emptied_remote()),
        // They seldom cut the power right after a save over a durable file.
        Bug::RenameBeforeBytes => (0..20).any(|seed| fails(consistency::a_save_that_is_cut_off(seed))),
        _ => (0..SEEDS).any(|seed| catch_unwind(|| lives(seed).is_err()).unwrap_or(true)),
    }
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in OF_FOLDERS {
        planted::plant(Some(bug));
        if !is_found(bug) {
            missed.push(bug);
        }
        planted::plant(None);
    }
    assert!(missed.is_empty(), "nothing finds {missed:?}");
}
