//! A drive or a folder: what requests about files need of either.

use super::{Deadline, Keep, What};
use crate::api::{DirectoryEntry, Evicted, Failure, Pin, Waited};
use crate::daemon::drive::Drive;
use crate::daemon::drives::Drives;
use crate::daemon::failure;
use crate::daemon::folder::Folder;
use crate::daemon::work::Work;
use std::path::PathBuf;
use std::sync::Arc;

/// One of them.
#[derive(Clone)]
pub enum Place {
    /// A drive.
    Drive(Arc<Drive>),
    /// A folder.
    Folder(Arc<Folder>),
}

impl Drives {
    /// The drive or folder of this name.
    pub fn place(&self, name: &str) -> Result<Place, Failure> {
        match (self.get(name), self.folders().get(name)) {
            (Ok(drive), _) => Ok(Place::Drive(drive)),
            (Err(_), Ok(folder)) => Ok(Place::Folder(folder)),
            (Err(failure), Err(_)) => Err(failure),
        }
    }

    /// All drives and folders.
    pub(super) fn places(&self) -> Vec<Place> {
        let drives = self.all().into_iter().map(Place::Drive);
        drives.chain(self.folders().all().into_iter().map(Place::Folder)).collect()
    }
}

impl Place {
    /// Whether both are the same.
    pub fn is(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Drive(one), Place::Drive(other)) => Arc::ptr_eq(one, other),
            (Place::Folder(one), Place::Folder(other)) => Arc::ptr_eq(one, other),
            (Place::Drive(_), Place::Folder(_)) | (Place::Folder(_), Place::Drive(_)) => false,
        }
    }

    /// Where it is mounted.
    pub fn mounted_at(&self) -> Option<PathBuf> {
        match self {
            Place::Drive(drive) => drive.mountpoint(),
            Place::Folder(folder) => folder.mounted_at(),
        }
    }

    /// Where it will be mounted, while it is being opened again.
    pub fn waits_at(&self) -> Option<PathBuf> {
        match self {
            Place::Drive(drive) => drive.waits_at(),
            Place::Folder(folder) => folder.waits_at(),
        }
    }

    /// It was not opened again in time.
    pub fn not_taken_up(&self) -> Failure {
        match self {
            Place::Drive(drive) => failure::not_taken_up(&drive.name),
            Place::Folder(folder) => failure::folder_not_taken_up(&folder.name),
        }
    }

    /// Always keeps files here, or only reports what that would mean.
    pub async fn pin(&self, what: &What, keep: Keep, work: &Work) -> Result<Vec<Pin>, Failure> {
        match self {
            Place::Drive(drive) => drive.pin(what, keep, work).await,
            Place::Folder(folder) => named(folder, folder.pin(what, keep, work).await),
        }
    }

    /// Waits until pinned files are here.
    pub async fn wait_for_pins(&self, what: &What, work: &Work) -> Result<Vec<Pin>, Failure> {
        match self {
            Place::Drive(drive) => drive.wait_for_pins(what, work).await,
            Place::Folder(folder) => named(folder, folder.wait_for_pins(what, work).await),
        }
    }

    /// Removes pins.
    pub async fn unpin(&self, what: &What) -> Result<Vec<Pin>, Failure> {
        match self {
            Place::Drive(drive) => drive.unpin(what).await,
            Place::Folder(folder) => named(folder, folder.unpin(what).await),
        }
    }

    /// Its pins.
    pub fn pins(&self) -> Vec<Pin> {
        match self {
            Place::Drive(drive) => drive.pins(),
            Place::Folder(folder) => folder.pins(),
        }
    }

    /// Frees the space of files.
    pub async fn evict(&self, what: &What, work: &Work) -> Result<Evicted, Failure> {
        match self {
            Place::Drive(drive) => drive.evict(what, work).await,
            Place::Folder(folder) => named(folder, folder.evict(what, work).await),
        }
    }

    /// Waits until enough of a file is here.
    pub async fn wait_for(
        &self,
        path: &str,
        percent: u8,
        deadline: &Deadline,
        work: &Work,
    ) -> Result<Waited, Failure> {
        match self {
            Place::Drive(drive) => drive.wait_for(path, percent, deadline, work).await,
            Place::Folder(folder) => named(folder, folder.wait_for(path, percent, deadline, work).await),
        }
    }

    /// The entries of a directory.
    pub async fn directory(&self, path: &str) -> Result<Vec<DirectoryEntry>, Failure> {
        match self {
            Place::Drive(drive) => drive.directory(path).await,
            Place::Folder(folder) => named(folder, folder.directory_entries(path).await),
        }
    }

    /// Checks a limit of its own. 0 removes the limit.
    pub fn check_own_cache(&self, bytes: Option<u64>) -> Result<Option<u64>, Failure> {
        match self {
            Place::Drive(drive) => drive.check_own_cache(bytes),
            Place::Folder(folder) => folder.check_own_cache(bytes),
        }
    }

    /// Sets it.
    pub fn set_own_cache(&self, bytes: Option<u64>) -> Result<(), Failure> {
        match self {
            Place::Drive(drive) => drive.set_own_cache(bytes),
            Place::Folder(folder) => folder.set_own_cache(bytes),
        }
    }
}

fn named<T>(folder: &Folder, done: Result<T, Failure>) -> Result<T, Failure> {
    done.map_err(|failure| folder.named(failure))
}
