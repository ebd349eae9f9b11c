//! The keeper's copies of folders' connections, so that a folder's mount outlives a daemon that is killed.
//!
//! For each folder that may be kept there is an empty file in the runtime directory. As long as it is there, nobody ends the keeper.

use super::{AttachError, Site, keeper, onefile};
use holdall_fuse::folder::Mounted;
use holdall_fuse::handover::Handover;
use holdall_fuse::{keeper as kept, mount};
use holdall_kernel::FOLDER_FS_TYPE;
use std::io::{self, ErrorKind};
use std::path::Path;
use uuid::Uuid;

/// Gives the keeper a copy of a folder's connection, in place of an earlier one. Starts a keeper, unless there is one.
pub(crate) fn keep(site: &Site, folder: Uuid, mounted: &Mounted) -> Result<(), AttachError> {
    note(site, folder).map_err(|error| AttachError::io("write to", &site.dirs.folders(), error))?;
    onefile::start_keeper(site)?;
    let put = mounted.copy_for_keeper().and_then(|copy| kept::put(&site.dirs.keeper_socket(), &copy));
    put.map_err(|error| AttachError::Keeper { error })
}

/// What the keeper has of the folder that is mounted there. `None`: there is nothing to continue with.
pub(crate) fn take(site: &Site, folder: Uuid, mountpoint: &Path) -> Option<Handover> {
    if !is_noted(site, folder) || mount::connection_of(mountpoint, FOLDER_FS_TYPE).is_none() {
        return None;
    }
    match kept::take(&site.dirs.keeper_socket(), mountpoint) {
        Ok(handover) => handover,
        Err(error) => {
            tracing::info!(%folder, %error, "no keeper has the folder's connection");
            None
        }
    }
}

/// Makes the keeper close its copy, if it has one, and ends the keeper if nobody needs it any more. Without a daemon, programs that wait for
/// the folder get errors then.
pub(crate) fn leave(site: &Site, folder: Uuid, mountpoint: &Path) -> Result<(), AttachError> {
    if !is_noted(site, folder) {
        return Ok(());
    }
    let socket = site.dirs.keeper_socket();
    if keeper::process(&socket).is_some() {
        kept::forget(&socket, mountpoint).map_err(|error| AttachError::Keeper { error })?;
    }
    forget(site, folder).map_err(|error| AttachError::io("write to", &site.dirs.folders(), error))?;
    onefile::end_keeper(site).map(drop)
}

/// Whether a folder may be kept.
pub(super) fn is_any_noted(site: &Site) -> io::Result<bool> {
    match std::fs::read_dir(site.dirs.folders()) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_noted(site: &Site, folder: Uuid) -> bool {
    site.dirs.folders().join(folder.to_string()).exists()
}

fn note(site: &Site, folder: Uuid) -> io::Result<()> {
    std::fs::create_dir_all(site.dirs.folders())?;
    std::fs::write(site.dirs.folders().join(folder.to_string()), "")
}

fn forget(site: &Site, folder: Uuid) -> io::Result<()> {
    match std::fs::remove_file(site.dirs.folders().join(folder.to_string())) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
