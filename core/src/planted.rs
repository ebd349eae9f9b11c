//! Classic bugs, to check that the simulation finds them. Without the feature `planted` they do not exist: [`has`] is
//! constant, and the compiler removes the code behind it. Only test builds have that feature.

/// A bug that storage engines have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Bug {
    /// Journal space is freed before the commit.
    FreedBeforeCommit = 1,
    /// A write that was never flushed reaches the cache file.
    UnflushedApply,
    /// The bitmap is made durable without the data that it stands for.
    BitsBeforeData,
    /// An eviction frees space before the bitmap says so.
    HoleBeforeBits,
    /// A swap whose answer was lost counts as failed.
    RetriedCommitTakenForLost,
    /// HEAD is overwritten without a condition.
    UnconditionalHead,
    /// A flush is answered without a sync.
    FlushWithoutSync,
    /// A commit clears blocks that were written while it was made.
    CommitClearsEverythingDirty,
    /// A pull overwrites blocks that are valid.
    FillOverValid,
    /// Records are replayed over what another device has written since.
    ReplayOverForeign,
    /// A fork is taken for a continuation.
    ForkTakenForContinuation,
    /// Cached blocks of another version are trusted.
    CacheOfAnotherVersion,
    /// A snapshot's objects are garbage.
    SnapshotIsGarbage,
    /// A failed put counts as done.
    FailedPutTakenForDone,
    /// Recovery does not check the checksums of data.
    TornRecordAccepted,
    /// Blocks that the map says are zero are not cleared in the cache file.
    ZeroWithoutPunch,
    /// Dirty blocks may be evicted.
    DirtyEvicted,
    /// A compacted group replaces its files before it is durable.
    GroupBeforeItIsDurable,
    /// A device that took the drive over and has not committed since takes its own records for a fork.
    TakeOverTakenForFork,
    /// A fork begins with the writes after the fencing, and loses the pending ones from before.
    ForkWithoutItsJournal,
    /// A fork begins in the store before this device has recorded which one.
    ForkNotRemembered,
    /// A takeover does not keep the version from which the deposed device continues.
    DeposedVersionIsGarbage,
    /// A drive that was opened while its store was away is taken without checking who has written to it since.
    TakenWithoutLooking,
    /// Versions are distinguished by their epochs alone.
    EqualEpochsNotToldApart,
    /// Writes by a copy of this device's files are taken for its own.
    CopyTakenForItself,
    /// Old claims and records are never deleted, and a listing that is cut off is not completed.
    NothingMakesWay,
    /// A listing of a folder that was cut off is taken for the whole.
    CutListingBelieved,
    /// The log of a folder knows of bytes before they are durable.
    RecordBeforeBytes,
    /// A file of a folder replaces another one before its bytes are durable.
    RenameBeforeBytes,
    /// Another program's version is overwritten.
    ConflictOverwrites,
    /// Versions of a file are told apart by their length.
    VersionByLength,
    /// A file is uploaded although a program can still write to it.
    WrittenFileUploaded,
    /// What a listing did not show is deleted at once, however much it is.
    DeletionsNotHeld,
    /// The leecher of a migration acknowledges the last delta before it is durable.
    DeltaAckedBeforeSync,
    /// The seeder swaps HEAD before its record says that the drive is released.
    ReleasedAfterSwap,
    /// The seeder forgets blocks of a round before the leecher has them.
    RoundClearedBeforeAck,
    /// A seeder that restarts after the release takes the drive for its own.
    MigrationForgotten,
    /// The seeder lets a cancellation stop a migration after the release.
    CancelledAfterRelease,
    /// The leecher keeps what an earlier attempt has sent.
    EarlierAttemptKept,
    /// The leecher takes a part that is not the next one.
    LatePartTaken,
    /// The seeder releases the drive for an acknowledgement of an earlier delta.
    StaleAckReleases,
    /// The leecher swaps HEAD once it has the delta, without waiting for the grant.
    SwappedWithoutGrant,
    /// The leecher cancels by itself although the seeder may have released the drive.
    CancelledAfterAck,
    /// A device replays the journal of a drive that it has handed over.
    HandedJournalReplayed,
    /// HEAD gives the drive away before this device has noted that durably.
    ReleasedAfterTheSwap,
    /// Two puts of one grant cannot be recognised as the same.
    GrantWithFreshNonce,
    /// The first commit after a hand-over does not say that it contains the other device's journal.
    FirstCommitWithoutLineage,
    /// Writes go through after the drive was handed over.
    GateOpenedAfterRelease,
    /// Blocks of a hand-over are acknowledged before they are durable.
    ImportAcknowledgedBeforeSync,
    /// Blocks that were taken for a round are forgotten before the round is acknowledged.
    RoundForgottenBeforeItsAnswer,
}

/// Bugs of migrations, which the simulation of two devices finds.
pub const OF_MIGRATIONS: [Bug; 10] = [
    Bug::DeltaAckedBeforeSync,
    Bug::ReleasedAfterSwap,
    Bug::RoundClearedBeforeAck,
    Bug::MigrationForgotten,
    Bug::CancelledAfterRelease,
    Bug::EarlierAttemptKept,
    Bug::LatePartTaken,
    Bug::StaleAckReleases,
    Bug::SwappedWithoutGrant,
    Bug::CancelledAfterAck,
];

/// Bugs of hand-overs, which the lives of a hand-over find (`core/tests/engine/handover`).
pub const OF_HANDOVERS: [Bug; 7] = [
    Bug::HandedJournalReplayed,
    Bug::ReleasedAfterTheSwap,
    Bug::GrantWithFreshNonce,
    Bug::FirstCommitWithoutLineage,
    Bug::GateOpenedAfterRelease,
    Bug::ImportAcknowledgedBeforeSync,
    Bug::RoundForgottenBeforeItsAnswer,
];

/// Bugs of folders, which the random lives of a folder find.
pub const OF_FOLDERS: [Bug; 7] = [
    Bug::CutListingBelieved,
    Bug::RecordBeforeBytes,
    Bug::RenameBeforeBytes,
    Bug::ConflictOverwrites,
    Bug::VersionByLength,
    Bug::WrittenFileUploaded,
    Bug::DeletionsNotHeld,
];

/// Bugs of drives.
pub const ALL: [Bug; 26] = [
    Bug::FreedBeforeCommit,
    Bug::UnflushedApply,
    Bug::BitsBeforeData,
    Bug::HoleBeforeBits,
    Bug::RetriedCommitTakenForLost,
    Bug::UnconditionalHead,
    Bug::FlushWithoutSync,
    Bug::CommitClearsEverythingDirty,
    Bug::FillOverValid,
    Bug::ReplayOverForeign,
    Bug::ForkTakenForContinuation,
    Bug::CacheOfAnotherVersion,
    Bug::SnapshotIsGarbage,
    Bug::FailedPutTakenForDone,
    Bug::TornRecordAccepted,
    Bug::ZeroWithoutPunch,
    Bug::DirtyEvicted,
    Bug::GroupBeforeItIsDurable,
    Bug::TakeOverTakenForFork,
    Bug::ForkWithoutItsJournal,
    Bug::ForkNotRemembered,
    Bug::DeposedVersionIsGarbage,
    Bug::TakenWithoutLooking,
    Bug::EqualEpochsNotToldApart,
    Bug::CopyTakenForItself,
    Bug::NothingMakesWay,
];

#[cfg(feature = "planted")]
thread_local! {
    // A simulated device runs on one thread, so a planted bug does not affect other tests.
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Whether the bug is there.
#[cfg(feature = "planted")]
pub fn has(bug: Bug) -> bool {
    planted() == Some(bug)
}

/// Whether the bug is there.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn has(_bug: Bug) -> bool {
    false
}

/// The bug that is planted on this thread.
#[cfg(feature = "planted")]
pub fn planted() -> Option<Bug> {
    PLANTED.get()
}

/// Plants a bug on this thread, or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}
