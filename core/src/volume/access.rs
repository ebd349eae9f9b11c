//! The ways to open a drive, and the reasons to refuse.

use crate::disk::Disk;
use crate::format::head::Head;
use crate::format::id::ObjectId;
use crate::heads::transition::Invalid;
use crate::journal::JournalError;
use crate::journal::import::ImportError;
use crate::map::{PageCache, ReadError};
use crate::seal::Sealer;
use crate::store::meter::Meter;
use crate::store::{Store, StoreError};
use crate::units::Epoch;
use std::io;
use std::sync::Arc;
use uuid::Uuid;

/// Where a drive lives on this device, and its store.
pub struct Environment {
    /// `drive.json`.
    pub state: Arc<dyn Disk>,
    /// The journal's files.
    pub journal: Arc<dyn Disk>,
    /// The cache and its bitmap.
    pub cache: Arc<dyn Disk>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Counts requests to this store, and to the drive's other stores. `store` has to be connected with it, or built on [`Meter::on`]:
    /// other requests are not counted.
    pub meter: Meter,
    /// The family's keys.
    pub sealer: Arc<Sealer>,
    /// Map pages that are cached.
    pub pages: PageCache,
}

/// How a drive is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To write: the drive is taken.
    Write {
        /// Which holder may be fenced.
        over: Over,
        /// A file system on it has stayed mounted since the drive was last open. It must not see what others have committed since. It
        /// continues as a fork, even if nothing is unsent.
        mounted: bool,
    },
    /// To write while the store is away, if the version that this device saw last is its own. The drive is taken once the store answers. If
    /// another device has written by then, what was written here is a fork.
    Away {
        /// As above.
        mounted: bool,
    },
    /// To write, because another device has handed the drive over in this session, and HEAD says so by now. Nothing is asked of the store: the
    /// drive is opened like one whose store is away, with the changes that came from the other device.
    Granted {
        /// The session.
        session: Uuid,
    },
    /// To write, on the device that has handed the drive over: it takes the drive back, and its journal continues. Refused if the other device
    /// has committed since; then the drive opens like any other. Changes that only the other device has become a fork there.
    TakeBack,
    /// To read one version. Nothing in the store changes, and writes are discarded.
    Look {
        /// The version, and BLAKE3 of its object.
        root: (ObjectId, [u8; 32]),
    },
}

/// Which device's hold may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// No device's.
    Nobody,
    /// This device's, if it still holds the drive in this epoch: a person has seen both. The epoch alone would not do: a restored store
    /// gives it a second time, perhaps to another device.
    Holder {
        /// The device.
        device: Uuid,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Any device's.
    Anybody,
}

impl Over {
    /// Whether the drive may be taken from the device that `head` names.
    pub(super) fn permits(self, head: &Head) -> bool {
        match self {
            Over::Nobody => false,
            Over::Holder { device, epoch } => (device, epoch) == (head.device, head.epoch),
            Over::Anybody => true,
        }
    }
}

impl OpenError {
    /// The device that `head` names has the drive open.
    pub(super) fn held_by(head: &Head) -> Self {
        let Head { device, epoch, written_ms, .. } = *head;
        Self::Held { device, device_name: head.device_name.clone(), epoch, written_ms }
    }
}

/// Why a drive was not opened. A refusal changes nothing, here or in the store. If the store or the local disk fails, the drive may be
/// taken already.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another device has it open.
    #[error("{device_name} has the drive open (epoch {epoch})")]
    Held {
        /// The device.
        device: Uuid,
        /// Its name.
        device_name: String,
        /// Its epoch.
        epoch: Epoch,
        /// When it last wrote HEAD, Unix time in ms.
        written_ms: u64,
    },
    /// This device has handed the drive over, and the other one has not committed yet. Nothing is lost: the other device has all of this
    /// device's changes, and so has this one.
    #[error("the drive was handed over to {to_name}")]
    HandedOver {
        /// The device that has it.
        to: Uuid,
        /// Its name.
        to_name: String,
        /// The session.
        session: Uuid,
        /// Whether HEAD says so. Otherwise the swap has not been applied, and may be under way.
        is_decided: bool,
    },
    /// The drive cannot be taken back: a version has been committed since.
    #[error("{by} has committed changes since the drive was handed over")]
    Continued {
        /// The name of the device that wrote last.
        by: String,
    },
    /// No hand-over to this device is complete in this session.
    #[error("the drive was not handed over to this computer")]
    NotGranted,
    /// What another device has handed over.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The drive was removed from its store.
    #[error("the drive was removed from its store")]
    Removed {
        /// Records that are only here.
        unsent: u64,
    },
    /// The drive lives in another store now, and this store has all changes of this device.
    #[error("the drive was moved to another store")]
    Moved {
        /// Its address, if the HEAD names it.
        to: Option<String>,
    },
    /// Others wrote since, and this device has changes that they do not have.
    #[error("another computer has written to the drive, and {unsent} changes are only on this computer")]
    Forked {
        /// Records that are only here.
        unsent: u64,
        /// The name of the device that wrote last.
        by: String,
    },
    /// This device's changes are a fork, but the store has no version that they build on.
    #[error("the version that {unsent} changes of this computer build on is gone from the store")]
    NoForkPoint {
        /// Records that are only here.
        unsent: u64,
    },
    /// The store is away, and the version that was seen last is another device's, or is not known completely.
    #[error("the version of the drive that this computer saw last is not its own")]
    NotSeen,
    /// The store's version lacks something that this device has seen there, and the version that had it is gone.
    #[error(
        "the store's version (epoch {found}) does not contain the one that this computer has seen (epoch {known})"
    )]
    RolledBack {
        /// The epoch of HEAD.
        found: Epoch,
        /// The epoch of the version that is known here. It may be lower: the store may have continued from an older version.
        known: Epoch,
        /// Records that are only here.
        unsent: u64,
    },
    /// A copy of this device's files has written to the drive. No changes are only here, but the store cannot show that its version
    /// contains all that this device has uploaded.
    #[error("a copy of this computer's files has written to the drive")]
    CopyWrote,
    /// HEAD allows no such change.
    #[error(transparent)]
    Head(#[from] Invalid),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The local disk.
    #[error("this computer's files of the drive cannot be used: {0}")]
    Local(#[from] io::Error),
}
