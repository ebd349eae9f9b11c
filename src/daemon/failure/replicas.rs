//! Errors of replicas.

use super::{NOTHING_CHANGED, at_store, drive, failure, read};
use crate::api::{Action, Code, Failure};
use holdall_core::replica::ReplicaError;

/// The drive has no such replica.
pub fn no_replica(name: &str, url: &str) -> Failure {
    let message = format!("{url} is not a replica of {name}.");
    let action = Action::Replicas { drive: Some(name.to_owned()) };
    failure(Code::NotFound, message, NOTHING_CHANGED, action)
}

/// Why a store cannot be a replica.
pub fn replica(error: &ReplicaError, url: &str) -> Failure {
    match error {
        ReplicaError::OtherFamily => failure(
            Code::Exists,
            format!("{url} already holds other drives."),
            NOTHING_CHANGED,
            "Choose another place in it, such as a directory of its own.",
        ),
        ReplicaError::Nothing => failure(
            Code::NotFound,
            format!("{url} has no complete copy of the drive: the first copy was not finished."),
            NOTHING_CHANGED,
            "Open the drive where its store can be reached, and let the copy finish.",
        ),
        ReplicaError::Already => failure(
            Code::State,
            format!("{url} is the drive's own store: it was promoted, or was the store from the start."),
            NOTHING_CHANGED,
            [Action::tell("Choose another store."), Action::Add { drive: None, store: Some(url.to_owned()) }],
        ),
        ReplicaError::Left(error) => lives_elsewhere(drive(error)),
        ReplicaError::Unsure(_) => failure(
            Code::Offline,
            format!("{url} did not answer: the drive may be there now."),
            "Nothing is lost. Do not open the drive from its former store until you know: it could be changed in both places.",
            "Run the same command again once the replica answers.",
        ),
        ReplicaError::Read(error) => at_store(read(error), url),
    }
}

/// The drive's store answers, but does not have the drive.
pub fn store_does_not_give(failure: Failure) -> Failure {
    failure.and(Action::AcceptLoss)
}

/// A replica was becoming the drive's store, and the outcome is not known.
pub fn moving(name: &str, url: &str) -> Failure {
    failure(
        Code::State,
        format!("{name} is being moved to {url}, and the move is not finished."),
        "Nothing is lost. The drive may be there already: if it were opened from its former store, it could be changed in both places.",
        Action::PromoteAgain { drive: Some(name.to_owned()), replica: Some(url.to_owned()) },
    )
}

/// The drive has left its store or its replica, but not for the replica that is being promoted.
pub fn lives_elsewhere(failure: Failure) -> Failure {
    failure.and(Action::AcceptSecond)
}

/// The drive's own store asks for patience: it has the drive, and a replica must not replace it.
pub fn store_is_not_lost(failure: Failure) -> Failure {
    let consequence =
        "Nothing was changed. The store exists, and may have changes that the replica lacks.".to_owned();
    Failure { consequence, ..failure }
        .with_actions([Action::tell("Try again in a while."), Action::AcceptLoss])
}

/// The replica lacks the latest uploads.
pub fn replica_lags(name: &str, url: &str, committed_at: &str, reachable: bool) -> Failure {
    let drive = Some(name.to_owned());
    let action = match reachable {
        true => Action::AwaitReplica { drive },
        false => Action::PromoteWithLoss { drive, replica: Some(url.to_owned()) },
    };
    failure(
        Code::State,
        format!("{url} lacks the latest uploads: its newest version is from {committed_at}."),
        "Nothing was changed. Later uploads would be lost to this drive.",
        action,
    )
}

/// The drive cannot be forgotten: its former store does not know yet that it has moved.
pub fn former_store_untold(name: &str, former: &str, now: &str, why: &str) -> Failure {
    failure(
        Code::Unsent,
        format!("{former} is not yet marked as moved: {name} is now in {now}. {why}"),
        "Nothing was changed. Only this computer can mark it; until then, another computer could still use the drive there.",
        [Action::tell("Remove the drive once that store can be reached."), Action::AcceptUnsentLoss],
    )
}
