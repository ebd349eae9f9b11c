//! A drive that another program unmounts: a file manager's eject, udisks, `umount`.
//!
//! This counts as a close, because an eject means one. The block device is removed, and pending changes are uploaded in the background as
//! after every close. While the computer shuts down, the drive is closed only until the next start. If programs still use its files
//! (`umount --lazy`), the device stays until they close them; until then the status says that the drive is still used.

use super::Drive;
use super::close::Until;
use super::opened::OpenDrive;
use crate::api::{Action, ActivityKind, Code, Failure};
use crate::attach::filesystem::Mounted;
use crate::daemon::failure::failure;
use crate::daemon::shutdown;
use crate::daemon::status::Phase;
use holdall_helper::mountinfo;
use std::sync::Arc;
use std::time::Duration;

/// How often removing a device is tried again that programs still use although it is mounted nowhere: nothing reports when they close it.
const TRY_EVERY: Duration = Duration::from_secs(2);

impl Drive {
    /// The mounts have changed: closes the drive if its mount is gone and was not unmounted here.
    pub fn look_at_mount(self: &Arc<Self>) {
        let place = self.place.read().clone();
        if place.is_some_and(|place| is_gone(&place.mounted)) {
            let drive = self.clone();
            tokio::spawn(async move { drive.close_as_unmounted().await });
        }
    }

    /// A close that is under way has the drive locked, and its device is gone by the time this function gets the lock.
    async fn close_as_unmounted(self: &Arc<Self>) {
        let mut is_told = false;
        loop {
            let mut open = self.open.lock().await;
            if !open.as_ref().is_some_and(is_unmounted) {
                return;
            }
            // A computer that shuts down unmounts everything; nobody has asked for the drive to stay closed.
            let until = match shutdown::is_under_way().await {
                true => Until::NextDaemon,
                false => Until::Asked,
            };
            if until == Until::Asked && !std::mem::replace(&mut is_told, true) {
                tracing::warn!(drive = self.name, "another program has unmounted the drive");
                self.note(ActivityKind::Attention, UNMOUNTED);
            }
            match self.unmount(&mut open, until).await {
                Ok(()) => {
                    if let Some(open) = &mut *open {
                        self.drain_in_background(open);
                    }
                    return;
                }
                Err(failed) => {
                    tracing::info!(
                        drive = self.name,
                        message = failed.message,
                        "the unmounted drive is still used"
                    );
                    self.set_phase(Phase::Failed(still_used(&self.name, &failed)));
                }
            }
            drop(open);
            tokio::time::sleep(TRY_EVERY).await;
        }
    }
}

const UNMOUNTED: &str = "Another program has unmounted the drive, so it is closed here. Changes that are not uploaded yet are uploaded in the background.";

/// Whether another program has unmounted it, and this daemon has not handled that yet.
pub(super) fn is_unmounted(open: &OpenDrive) -> bool {
    open.attachment.as_ref().is_some_and(|at| is_gone(&at.mounted))
}

/// Whether its file system is mounted nowhere. If that cannot be seen, it counts as mounted.
fn is_gone(mounted: &Mounted) -> bool {
    let Ok(number) = mounted.target().number() else { return false };
    mountinfo::read().is_ok_and(|mounts| mounts.iter().all(|mount| mount.number != number))
}

fn still_used(name: &str, failed: &Failure) -> Failure {
    failure(
        Code::State,
        format!("Another program has unmounted the drive, and it cannot be closed yet. {}", failed.message),
        "Files that were written to it are safe on this computer, and are uploaded.",
        [
            Action::tell("Close the programs that still use its files; then the drive is closed by itself."),
            Action::Open { drive: Some(name.to_owned()) },
        ],
    )
}
