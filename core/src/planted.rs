//! Classic bugs, to see that the simulation finds them. In a build without the feature `planted` they are not there:
//! the question is a constant, and the compiler removes what hangs on it. The tests are the only build with that feature.

/// A bug that storage engines have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Bug {
    /// Journal space is given back before the commit.
    FreedBeforeCommit = 1,
    /// A write that was never flushed reaches the cache file.
    UnflushedApply,
    /// The bitmap is made durable without the data that it stands for.
    BitsBeforeData,
    /// An eviction gives space back before the bitmap says so.
    HoleBeforeBits,
    /// A swap whose answer was lost is taken for lost.
    RetriedCommitTakenForLost,
    /// HEAD is overwritten without looking.
    UnconditionalHead,
    /// A flush is answered without a sync.
    FlushWithoutSync,
    /// A commit clears what was written while it was made.
    CommitClearsEverythingDirty,
    /// A pull overwrites blocks that are valid.
    FillOverValid,
    /// Records that others have overwritten since are replayed.
    ReplayOverForeign,
    /// A fork is taken for a continuation.
    ForkTakenForContinuation,
    /// What the cache holds of another version is believed.
    CacheOfAnotherVersion,
    /// A snapshot's objects are garbage.
    SnapshotIsGarbage,
    /// A put that failed is taken for done.
    FailedPutTakenForDone,
    /// Recovery does not look at checksums of data.
    TornRecordAccepted,
    /// Zeros of the map are not cleared in the cache file.
    ZeroWithoutPunch,
    /// What is dirty may be evicted.
    DirtyEvicted,
    /// A compacted group takes the place of its files before it is durable.
    GroupBeforeItIsDurable,
    /// A device that took the drive over and has not committed since takes its own records for a fork.
    TakeOverTakenForFork,
    /// A fork begins with what is written after the fencing, and loses what waited before.
    ForkWithoutItsJournal,
    /// A fork is begun in the store before this device has written down which.
    ForkNotRemembered,
    /// Who takes a drive over does not keep the version that the other one goes on from.
    DeposedVersionIsGarbage,
    /// A drive that was opened while its store was away is taken whoever has written to it since.
    TakenWithoutLooking,
    /// Versions are told apart by their epochs alone.
    EqualEpochsNotToldApart,
    /// What a copy of this device's files wrote is taken for its own.
    CopyTakenForItself,
    /// Old claims and records stay, and a listing that is cut off is not made whole.
    NothingMakesWay,
}

/// All of them.
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
    // A simulated device runs on one thread: what is planted there is in no other test's way.
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

/// What is planted on this thread.
#[cfg(feature = "planted")]
pub fn planted() -> Option<Bug> {
    PLANTED.get()
}

/// Plants a bug on this thread, or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}
