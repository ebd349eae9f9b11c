//! What a plan asks for. Pure.

use super::row::{Print, Side};
use crate::store::remote::{Condition, RemotePath, Version};

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Forget a path that neither side has, or that is left out.
    Forget(RemotePath),
    /// A directory that both sides have becomes a row.
    Adopt(RemotePath),
    /// Record that a local file was touched, and nothing of it has changed that the remote keeps.
    Refresh(RemotePath),
    /// A deletion waits for a person, or no longer does.
    Hold(RemotePath, Option<Side>),
    /// Find out whether two files that came about apart are equal.
    Compare(RemotePath),
    /// Two edits: ours gets another name here, and theirs keeps the name.
    PutOursAside {
        /// The path.
        path: RemotePath,
        /// Our new path.
        kept_as: RemotePath,
    },
    /// Two edits, one way: theirs gets another name there.
    PutTheirsAside {
        /// The path.
        path: RemotePath,
        /// Their version.
        version: Version,
        /// Their new path.
        kept_as: RemotePath,
    },
    /// Make a directory at the remote.
    MakeThere(RemotePath),
    /// Make a directory here.
    MakeHere(RemotePath),
    /// Move a file at the remote, as it was moved here.
    Move {
        /// Its path in the table.
        from: RemotePath,
        /// Its version.
        version: Version,
        /// Its path here.
        to: RemotePath,
    },
    /// Upload a file or link.
    Put {
        /// Its path.
        path: RemotePath,
        /// When it takes effect.
        when: Condition,
    },
    /// Send what a file has beside its bytes.
    SetMeta {
        /// Its path.
        path: RemotePath,
        /// The version whose bytes stay.
        version: Version,
    },
    /// Download a file or link.
    Fetch {
        /// Its path.
        path: RemotePath,
        /// What is replaced here.
        over: Option<Print>,
    },
    /// Remove a file at the remote.
    RemoveThere {
        /// Its path.
        path: RemotePath,
        /// The version that was removed here.
        version: Version,
    },
    /// Remove a file here.
    RemoveHere {
        /// Its path.
        path: RemotePath,
        /// The file that was removed there.
        print: Print,
    },
    /// Remove an empty directory at the remote.
    RemoveDirectoryThere(RemotePath),
    /// Remove an empty directory here.
    RemoveDirectoryHere(RemotePath),
}

impl Action {
    /// Where it goes.
    pub fn path(&self) -> &RemotePath {
        match self {
            Action::Forget(path)
            | Action::Adopt(path)
            | Action::Refresh(path)
            | Action::Hold(path, _)
            | Action::Compare(path)
            | Action::PutOursAside { path, .. }
            | Action::PutTheirsAside { path, .. }
            | Action::MakeThere(path)
            | Action::MakeHere(path)
            | Action::Move { to: path, .. }
            | Action::Put { path, .. }
            | Action::SetMeta { path, .. }
            | Action::Fetch { path, .. }
            | Action::RemoveThere { path, .. }
            | Action::RemoveHere { path, .. }
            | Action::RemoveDirectoryThere(path)
            | Action::RemoveDirectoryHere(path) => path,
        }
    }

    /// Actions of an earlier phase are done before those of a later one.
    pub fn phase(&self) -> u8 {
        match self {
            Action::Forget(_) | Action::Adopt(_) | Action::Refresh(_) | Action::Hold(..) => 0,
            Action::Compare(_) | Action::PutOursAside { .. } | Action::PutTheirsAside { .. } => 1,
            Action::MakeThere(_) | Action::MakeHere(_) => 2,
            Action::Move { .. } => 3,
            Action::Put { .. } | Action::SetMeta { .. } | Action::Fetch { .. } => 4,
            Action::RemoveThere { .. } | Action::RemoveHere { .. } => 5,
            Action::RemoveDirectoryThere(_) | Action::RemoveDirectoryHere(_) => 6,
        }
    }
}
