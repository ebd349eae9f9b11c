//! Errors of replicas.

use super::{NOTHING_CHANGED, at_store, failure, read};
use crate::api::{Code, Failure};
use holdall_core::replica::ReplicaError;

/// A drive has no such replica.
pub fn no_replica(name: &str, url: &str) -> Failure {
    let message = format!("{url} is no replica of {name}.");
    let action = format!("Run holdall drive replica status {name} to see which there are.");
    failure(Code::NotFound, message, NOTHING_CHANGED, action)
}

/// What a store lacks as a replica.
pub fn replica(error: &ReplicaError, url: &str) -> Failure {
    match error {
        ReplicaError::OtherFamily => failure(
            Code::Exists,
            format!("{url} holds other drives already."),
            NOTHING_CHANGED,
            "Choose another place in it, such as a directory of its own.",
        ),
        ReplicaError::Nothing => failure(
            Code::NotFound,
            format!("{url} never had the drive whole: its first copy was not finished."),
            NOTHING_CHANGED,
            "Open the drive where its store can be reached, and let the copy finish.",
        ),
        ReplicaError::Already => failure(
            Code::State,
            format!("The drive lives in {url} itself: it was promoted, or was there first."),
            NOTHING_CHANGED,
            "Choose another store, or add the drive from there with holdall drive add.",
        ),
        ReplicaError::Read(error) => at_store(read(error), url),
    }
}

/// The store that a drive has answers, and does not give the drive.
pub fn store_does_not_give(failure: Failure) -> Failure {
    let action = format!("{} If that store is lost for good, add --accept-loss.", failure.action);
    Failure { action, ..failure }
}

/// A replica that does not have what was uploaded last.
pub fn replica_lags(name: &str, url: &str, committed_at: &str, reachable: bool) -> Failure {
    let action = match reachable {
        true => format!(
            "Open {name} and wait until holdall drive replica status {name} says that it is up to date."
        ),
        false => format!(
            "If its store is lost for good, run holdall drive replica promote {name} URL --accept-loss."
        ),
    };
    let failure = failure(
        Code::State,
        format!("{url} lacks what was uploaded last: its newest version is of {committed_at}."),
        "Nothing was changed. What was uploaded after that would be lost to this drive.",
        action,
    );
    at_store(failure, url)
}

/// A drive shall be forgotten whose former store does not know yet that it has moved.
pub fn former_store_untold(name: &str, former: &str, now: &str, why: &str) -> Failure {
    failure(
        Code::Unsent,
        format!("{former} has not been told yet that {name} has moved to {now}. {why}"),
        "Nothing was changed. Nobody else would tell it, and a computer that uses the drive there would go on doing so.",
        "Remove it once that store can be reached, or give --discard-unsent if it is lost for good.",
    )
}
