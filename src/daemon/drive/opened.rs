//! A drive that is open: its engine, its block device, its mount.

use super::Drive;
use super::lock::DirectoryLock;
use super::wishes::Shows;
use crate::api::{self, Action, Code, Failure};
use crate::attach::Attached;
use crate::attach::filesystem::Mounted;
use crate::daemon::failure::{self, failure};
use holdall_core::device::BlockDevice;
use holdall_core::store::Store;
use holdall_core::volume::{Volume, VolumeDevice};
use holdall_helper::{FreezeEnded, Frozen};
use std::sync::Arc;
use std::time::Duration;

/// How long a write-back of the file system may take: it only goes to the local journal.
pub(super) const SYNC_DEADLINE: Duration = Duration::from_secs(300);
/// How long writers may be held for a snapshot.
const FREEZE_HOLD: Duration = Duration::from_secs(30);

/// A drive that is open.
pub struct OpenDrive {
    pub(super) volume: Arc<Volume>,
    pub(super) attachment: Option<Attachment>,
    /// For a version that is only looked at: the hold on it in the store.
    pub(super) reference: Option<(Arc<dyn Store>, String)>,
    pub(super) writable: bool,
    /// The version that the request asked for.
    pub(super) shows: Shows,
    /// It is served by NBD for as long as a client's request lasts.
    pub(super) serving: bool,
    /// It is unmounted, and a task uploads the rest.
    pub(super) draining: bool,
    /// Keeps all others from opening this device's files of the drive while it lives.
    pub(super) _locks: Vec<DirectoryLock>,
}

/// A block device of the kernel, and its mount.
pub(super) struct Attachment {
    pub(super) attached: Attached,
    pub(super) mounted: Mounted,
}

impl Attachment {
    /// Its block device and its mount, for display.
    pub(super) fn place(&self) -> Place {
        Place {
            block_device: self.attached.block_device().display().to_string(),
            mounted: self.mounted.clone(),
            attach: self.attached.mode(),
        }
    }
}

/// The block device and the mount of an open drive.
#[derive(Clone)]
pub struct Place {
    pub block_device: String,
    pub mounted: Mounted,
    pub attach: api::AttachMode,
}

impl Place {
    /// Where its file system is mounted.
    pub fn mountpoint(&self) -> String {
        self.mounted.mountpoint().display().to_string()
    }
}

impl OpenDrive {
    /// Its block device.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::new(VolumeDevice(self.volume.clone()))
    }

    /// Whether it is open for writing.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether it is open for writing, and neither mounted nor served.
    pub fn is_unused(&self) -> bool {
        self.writable && self.attachment.is_none() && !self.serving
    }

    /// Whether it is neither mounted nor served: only its upload may be left.
    pub fn is_put_away(&self) -> bool {
        self.attachment.is_none() && !self.serving
    }

    /// Refuses an operation that needs the drive open for writing.
    pub fn check_writable(&self, name: &str) -> Result<(), Failure> {
        match self.writable {
            true => Ok(()),
            false => {
                let drive = Some(name.to_owned());
                let close = Action::Close { drive: drive.clone(), wait: false };
                let actions = [close, Action::OpenWritable { drive }];
                Err(failure::state("The drive is open read-only.", actions))
            }
        }
    }

    /// Refuses an operation that a drive cannot do while it is served.
    pub fn check_not_serving(&self) -> Result<(), Failure> {
        match self.serving {
            true => Err(failure::state("The drive is being served.", Action::EndServing { drive: None })),
            false => Ok(()),
        }
    }

    /// Writes everything back from the page cache to the journal.
    pub async fn sync_file_system(&self) -> Result<(), Failure> {
        let Some(at) = &self.attachment else { return Ok(()) };
        tokio::task::block_in_place(|| at.mounted.sync(SYNC_DEADLINE)).map_err(|error| error.failure())
    }

    /// Holds writers, with everything written back.
    pub async fn freeze(&self) -> Result<Option<Frozen>, Failure> {
        let Some(at) = &self.attachment else { return Ok(None) };
        tokio::task::block_in_place(|| at.mounted.freeze(FREEZE_HOLD))
            .map(Some)
            .map_err(|error| error.failure())
    }

    /// Grows it while it is mounted: the engine, the block device, the file system.
    pub async fn grow(&mut self, size_blocks: u64) -> Result<(), Failure> {
        grow(&self.volume, size_blocks).await?;
        let Some(at) = &mut self.attachment else { return Ok(()) };
        let Attachment { attached, mounted } = at;
        tokio::task::block_in_place(|| mounted.grow(attached)).map_err(|error| {
            let failure = Failure {
                consequence:
                    "Your files are safe. The drive has its new size, but its file system does not use it yet."
                        .into(),
                ..error.failure()
            };
            failure.with_actions("Close the drive and open it again: then its file system uses the new size.")
        })
    }
}

impl Drive {
    /// Describes an open drive.
    pub(super) fn describe_opened(&self, opened: &OpenDrive, place: &Place) -> api::Opened {
        let (epoch, root) = match opened.volume.pusher() {
            Some(pusher) => {
                let pushed = pusher.state();
                let state = pushed.borrow();
                (state.epoch.0, state.root)
            }
            None => (0, opened.volume.opened_root_id()),
        };
        api::Opened {
            already: false,
            block_device: place.block_device.clone(),
            mountpoint: place.mountpoint(),
            attach: place.attach,
            epoch,
            root: root.root_name(),
            read_only_because: None,
            away_because: None,
            took_over: None,
            forks: self.forks(),
        }
    }

    /// Gives a copy of its connection to the keeper, whose predecessor has died. Returns whether the connection is kept.
    pub async fn keep_again(&self) -> bool {
        let open = self.open.lock().await;
        let Some(at) = open.as_ref().and_then(|open| open.attachment.as_ref()) else { return true };
        let kept = tokio::task::block_in_place(|| at.attached.keep());
        if let Err(error) = &kept {
            tracing::warn!(drive = self.name, %error, "no keeper has its connection yet: if this service dies, programs get errors");
        }
        kept.is_ok()
    }
}

/// Releases writers.
pub async fn thaw(frozen: Option<Frozen>) -> Result<(), Failure> {
    let Some(frozen) = frozen else { return Ok(()) };
    match tokio::task::block_in_place(|| frozen.thaw()) {
        Ok(()) => Ok(()),
        Err(FreezeEnded::Expired) => Err(failure(
            Code::Failed,
            "Writing to the file system could not be paused for long enough.",
            "Nothing was changed, and no snapshot was taken.",
            "Try again.",
        )),
        Err(FreezeEnded::Failed(error)) => Err(error.failure()),
    }
}

/// Grows the engine.
pub async fn grow(volume: &Volume, size_blocks: u64) -> Result<(), Failure> {
    if size_blocks < volume.size_blocks() {
        return Err(failure::usage("A drive can only grow."));
    }
    volume.grow(size_blocks).await.map_err(|error| {
        failure(
            Code::Failed,
            format!("The drive cannot grow: {error}."),
            "Nothing was changed.",
            "Try again.",
        )
    })
}
