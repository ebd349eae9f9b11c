//! Classic bugs of hand-overs are planted one after another, and these tests find every one.

use super::{crashes, take_back};
use crate::bench::run;
use holdall_core::planted::{Bug, OF_HANDOVERS, plant, planted};
use std::panic::catch_unwind;
use std::sync::Once;

/// The test that looks for a bug.
fn looks_for(bug: Bug) -> fn() {
    match bug {
        Bug::HandedJournalReplayed => || run(super::handed_and_restarted()),
        Bug::ReleasedAfterTheSwap => || {
            for which in 0..2 {
                (0..60).take_while(|syncs| crashes::crash(which, *syncs)).for_each(drop);
            }
        },
        Bug::GrantWithFreshNonce => || run(super::whole()),
        Bug::FirstCommitWithoutLineage => || run(super::whole()),
        Bug::GateOpenedAfterRelease => || run(super::late_writer()),
        Bug::ImportAcknowledgedBeforeSync => || run(super::received_again()),
        Bug::RoundForgottenBeforeItsAnswer => || run(super::lost_round()),
        other => panic!("no test looks for {other:?}"),
    }
}

#[test]
fn every_planted_bug_of_a_hand_over_is_found() {
    silence_planted_failures();
    let mut missed = Vec::new();
    for bug in OF_HANDOVERS {
        let test = looks_for(bug);
        test();
        plant(Some(bug));
        let found = catch_unwind(test).is_err();
        plant(None);
        if !found {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
    run(take_back::taken_back());
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
