//! The directory on which a drive or folder is mounted.
//!
//! While a drive is mounted on it, the bare directory below is closed to everybody (mode 000). Nobody sees that while the drive is mounted.
//! After another program has unmounted it, writes that would go into the bare directory, and be found nowhere on the drive, are refused.
//! (Root is not stopped by modes.) The former mode is recorded first ([`super::Record`]), so that it is restored after a crash, too.

use super::AttachError;
use holdall_helper::mountinfo;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory to mount on.
#[derive(Debug)]
pub(crate) struct MountPoint {
    /// Without symbolic links.
    pub(crate) path: PathBuf,
    /// Whether it must be created.
    pub(crate) missing: bool,
}

/// Why a directory cannot be mounted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is a file, or a symbolic link.
    NotADirectory,
    /// Its content would be hidden.
    NotEmpty,
    /// It is another user's.
    NotYours,
    /// Something is mounted there.
    Mounted,
    /// It has no name of its own, like `/` or `..`.
    NoName,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unfit::NotADirectory => "it is not a directory",
            Unfit::NotEmpty => "it is not empty, and its files would be hidden",
            Unfit::NotYours => "it belongs to another user",
            Unfit::Mounted => "something is mounted there",
            Unfit::NoName => "it is not a directory of its own",
        })
    }
}

impl MountPoint {
    /// Resolves `path`, and finds whether it exists. Creates its parents; the directory itself is not created yet, so that it can first be
    /// recorded as ours.
    pub(crate) fn resolve(path: &Path) -> Result<Self, AttachError> {
        let failed = |error| AttachError::io("make the directory for", path, error);
        let absolute = std::path::absolute(path).map_err(failed)?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(unfit(path, Unfit::NoName));
        };
        std::fs::create_dir_all(parent).map_err(failed)?;
        let path = std::fs::canonicalize(parent).map_err(failed)?.join(name);
        // Before any access to the directory: a file system that is mounted there may hang.
        if mountinfo::at(&mountinfo::read()?, &path).is_some() {
            return Err(unfit(&path, Unfit::Mounted));
        }
        let missing =
            matches!(path.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound);
        Ok(MountPoint { path, missing })
    }

    /// Creates it if it was missing, and opens it: from now on the descriptor means this very directory, whatever happens to the path.
    pub(crate) fn open(&self) -> Result<OwnedFd, AttachError> {
        let path = &self.path;
        if self.missing {
            // Only its owner sees what is written there by mistake while the drive is not mounted.
            let made = DirBuilder::new().mode(0o700).create(path);
            made.map_err(|error| AttachError::io("make", path, error))?;
        }
        // A daemon that died may have left it closed, and its record may be gone.
        reopen(path, None);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(unfit(path, Unfit::NotADirectory)),
            Err(Errno::ACCESS) => return Err(unfit(path, Unfit::NotYours)),
            opened => opened.map_err(|errno| AttachError::io("open", path, errno.into()))?,
        };
        let facts =
            rustix::fs::fstat(&directory).map_err(|errno| AttachError::io("look at", path, errno.into()))?;
        if facts.st_uid != rustix::process::geteuid().as_raw() {
            return Err(unfit(path, Unfit::NotYours));
        }
        if !is_empty(&directory).map_err(|error| AttachError::io("read", path, error))? {
            return Err(unfit(path, Unfit::NotEmpty));
        }
        Ok(directory)
    }
}

/// The permissions of a directory's mode.
const PERMISSIONS: u32 = 0o7777;
/// The mode that a directory of ours gets if its former mode is not known.
const OWNERS: u32 = 0o700;

/// The permissions of an open directory.
pub(crate) fn mode_of(directory: &OwnedFd) -> Option<u32> {
    let mode = rustix::fs::fstat(directory).ok()?.st_mode & PERMISSIONS;
    // Mode 0 is the work of a daemon whose record is gone.
    Some(if mode == 0 { OWNERS } else { mode })
}

/// Closes the bare directory to everybody, if its file system has modes.
pub(crate) fn close(directory: &OwnedFd, path: &Path) {
    if let Err(errno) = rustix::fs::fchmod(directory, Mode::empty()) {
        tracing::info!(%errno, ?path, "the directory below the drive is unchanged");
    }
}

/// Restores a directory's mode. Only if it is closed, this user's, and has nothing mounted on it: any other mode was somebody's choice
/// since then.
pub(crate) fn reopen(path: &Path, mode: Option<u32>) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    let Ok(facts) = rustix::fs::fstat(&directory) else { return };
    let is_closed = facts.st_mode & PERMISSIONS == 0 && facts.st_uid == rustix::process::geteuid().as_raw();
    if is_closed {
        let mode = Mode::from_raw_mode(mode.unwrap_or(OWNERS));
        // By the descriptor, and not by a path that may lead elsewhere by now: fchmod does not accept an O_PATH descriptor.
        let opened = format!("/proc/self/fd/{}", directory.as_raw_fd());
        if let Err(errno) = rustix::fs::chmod(&opened, mode) {
            tracing::warn!(%errno, ?path, "the directory stays closed; chmod 700 opens it");
        }
    }
}

/// Removes a mount point that we created. If it is no longer empty, its content is somebody's, and it stays.
pub(crate) fn remove(path: &Path) -> Result<(), AttachError> {
    match rustix::fs::unlinkat(rustix::fs::CWD, path, rustix::fs::AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(AttachError::io("remove", path, errno.into())),
    }
}

fn is_empty(directory: &OwnedFd) -> io::Result<bool> {
    for entry in rustix::fs::Dir::read_from(directory.as_fd())? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn unfit(path: &Path, why: Unfit) -> AttachError {
    AttachError::MountPoint { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(path: &Path) -> Option<Unfit> {
        let opened = MountPoint::resolve(path).and_then(|point| point.open());
        match opened {
            Ok(_) => None,
            Err(AttachError::MountPoint { why, .. }) => Some(why),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_missing_directory_is_made_with_its_parents() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("Holdall/photos");
        let point = MountPoint::resolve(&path).unwrap();
        assert!(point.missing && !path.exists());
        point.open().unwrap();
        assert!(!MountPoint::resolve(&path).unwrap().missing);
        remove(&path).unwrap();
        assert!(!path.exists());
        remove(&path).unwrap();
    }

    #[test]
    fn a_closed_directory_gets_its_mode_back_and_others_stay() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        std::fs::create_dir(&path).unwrap();
        let mode = || path.metadata().unwrap().permissions().mode() & PERMISSIONS;
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        set(0o750);
        let opened = MountPoint::resolve(&path).unwrap().open().unwrap();
        let was = mode_of(&opened);
        close(&opened, &path);
        assert_eq!((was, mode()), (Some(0o750), 0));
        reopen(&path, was);
        assert_eq!(mode(), 0o750);
        // Somebody has chosen another mode since.
        set(0o711);
        reopen(&path, was);
        assert_eq!(mode(), 0o711);
        // Its record is gone: it can be mounted on again.
        set(0);
        let opened = MountPoint::resolve(&path).unwrap().open().unwrap();
        assert_eq!((mode_of(&opened), mode()), (Some(OWNERS), OWNERS));
    }

    #[test]
    fn mounting_over_content_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let [full, file, link] = ["full", "file", "link"].map(|name| directory.path().join(name));
        std::fs::create_dir(&full).unwrap();
        std::fs::write(full.join("letter"), "dear").unwrap();
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&full, &link).unwrap();
        assert_eq!(why(&full), Some(Unfit::NotEmpty));
        assert_eq!(why(&file), Some(Unfit::NotADirectory));
        assert_eq!(why(&link), Some(Unfit::NotADirectory));
        assert_eq!(why(Path::new("/proc")), Some(Unfit::Mounted));
        assert_eq!(why(Path::new("/")), Some(Unfit::NoName));
        remove(&full).unwrap();
        assert!(full.join("letter").exists());
    }
}
