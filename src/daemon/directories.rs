//! Directories of this computer, for a person who chooses one on a page: a page cannot read the disk itself.
//!
//! The daemon shows what its user may read, and nothing more: it reads as that user, and only serves signed-in browsers (`web`). It shows
//! only names of directories. Any access may wait for a disk or a server that is away, so each look has a thread of its own, a deadline,
//! and few run at once. Drives of this computer are left out: a drive within a drive would wait for itself.

use super::drives::Drives;
use super::failure::{self, failure};
use crate::api::words::why;
use crate::api::{Action, Code, CreateDirectory, Directories, Failure};
use holdall_client::paths;
use holdall_helper::mountinfo::{self, Mount};
use rustix::fs::Access;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a directory may take: a person waits for it.
const PATIENCE: Duration = Duration::from_secs(8);
/// The most names that are listed: a list to choose from. In larger directories, the path can be typed.
const NAMES_MAX: usize = 5_000;
/// Looks at the same time. Each has a thread, which a dead server may keep forever.
const LOOKS_AT_ONCE: usize = 8;
/// The longest name that file systems accept.
const NAME_BYTES_MAX: usize = 255;

static LOOKS: Semaphore = Semaphore::const_new(LOOKS_AT_ONCE);

impl Drives {
    /// The directories in `asked`; if it does not exist, those in its nearest existing parent.
    pub async fn directories(&self, asked: &str) -> Result<Directories, Failure> {
        let (path, own) = (absolute(asked)?, self.own_mounts());
        let shown = path.clone();
        look(&path, move || list(&shown, &own)).await
    }

    /// Creates a directory, and returns its contents: nothing.
    pub async fn create_directory(&self, request: CreateDirectory) -> Result<Directories, Failure> {
        let (parent, own) = (absolute(&request.parent)?, self.own_mounts());
        check_name(&request.name)?;
        let path = parent.join(&request.name);
        let made = path.clone();
        look(&path, move || {
            check_not_own(&made, &own)?;
            std::fs::create_dir(&made)?;
            list(&made, &own)
        })
        .await
    }

    /// Where this computer's drives and folders are mounted.
    pub(super) fn own_mounts(&self) -> Vec<PathBuf> {
        let mut mounts: Vec<_> = self.all().iter().filter_map(|drive| drive.mountpoint()).collect();
        mounts.extend(self.folders().all().iter().filter_map(|folder| folder.mountpoint()));
        mounts
    }
}

async fn look(
    path: &Path,
    work: impl FnOnce() -> io::Result<Directories> + Send + 'static,
) -> Result<Directories, Failure> {
    let late = || io::Error::from(ErrorKind::TimedOut);
    let looking = async {
        let turn = LOOKS.acquire().await.map_err(io::Error::other)?;
        // The turn ends when the thread ends, not when the caller stops waiting.
        let thread = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        thread.await.map_err(io::Error::other)?
    };
    let looked = tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| Err(late()));
    looked.map_err(|error| refused(path, &error))
}

/// An absolute path without `..`, whose meaning would depend on links.
fn absolute(asked: &str) -> Result<PathBuf, Failure> {
    let no_path = || failure::usage("A path must begin with / or ~/, and must not contain .. as a part.");
    let path = match asked.trim() {
        "" => paths::home(),
        typed => paths::expanded(typed),
    };
    let path = path.ok_or_else(no_path)?;
    let is_strange = path.components().any(|part| part == Component::ParentDir) || asked.contains('\0');
    if path.is_absolute() && !is_strange { Ok(path.components().collect()) } else { Err(no_path()) }
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_one = !matches!(name, "" | "." | "..") && !name.contains('/') && name.len() <= NAME_BYTES_MAX;
    match is_one && !name.chars().any(char::is_control) {
        true => Ok(()),
        false => {
            Err(failure::usage("A folder's name has 1 to 255 bytes, without slashes and control characters."))
        }
    }
}

fn check_not_own(path: &Path, own: &[PathBuf]) -> io::Result<()> {
    match own.iter().any(|mount| path.starts_with(mount)) {
        true => Err(io::Error::other(
            "it is on a Holdall drive or folder, and nothing of Holdall's can be stored there",
        )),
        false => Ok(()),
    }
}

fn list(asked: &Path, own: &[PathBuf]) -> io::Result<Directories> {
    check_not_own(asked, own)?;
    let gone = |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    let (mut path, mut opened) = (asked, std::fs::read_dir(asked));
    while let (Err(error), Some(parent)) = (&opened, path.parent()) {
        if !gone(error) {
            break;
        }
        (path, opened) = (parent, std::fs::read_dir(parent));
    }
    let mounts = mountinfo::read().unwrap_or_default();
    let (mut names, mut left_out) = (Vec::new(), 0);
    for entry in opened? {
        let entry = entry?;
        if !is_directory(&entry, &mounts) {
            continue;
        }
        match entry.file_name().into_string() {
            Ok(name) if names.len() < NAMES_MAX => names.push(name),
            _ => left_out += 1,
        }
    }
    names.sort_by_cached_key(|name| (name.to_lowercase(), name.clone()));
    Ok(Directories {
        path: path.to_str().ok_or(ErrorKind::InvalidFilename)?.to_owned(),
        parent: path.parent().and_then(Path::to_str).map(str::to_owned),
        names,
        left_out,
        writable: rustix::fs::access(path, Access::WRITE_OK).is_ok(),
    })
}

/// Uses the type that the directory entry has, without accessing the entry itself, which may wait. Follows a link only where that cannot
/// wait.
fn is_directory(entry: &std::fs::DirEntry, mounts: &[Mount]) -> bool {
    match entry.file_type() {
        Ok(kind) if kind.is_symlink() => {
            let target = std::fs::read_link(entry.path()).map(|to| entry.path().with_file_name(".").join(to));
            target.is_ok_and(|to| mountinfo::is_safe_to_look_at(mounts, &to) && to.is_dir())
        }
        kind => kind.is_ok_and(|kind| kind.is_dir()),
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    let (code, message, action) = match error.kind() {
        ErrorKind::AlreadyExists => {
            (Code::Exists, format!("{path} already exists."), "Choose it, or give another name.")
        }
        ErrorKind::TimedOut => (
            Code::Offline,
            format!("{path} does not answer."),
            "Check that its disk or server is connected, and try again.",
        ),
        ErrorKind::PermissionDenied => (
            Code::Privileges,
            format!("Holdall has no permission to do that in {path}: {}.", why(error)),
            "Choose a folder of your own.",
        ),
        _ => (Code::Failed, format!("{path} cannot be used: {}.", why(error)), "Choose another folder."),
    };
    failure(code, message, failure::NOTHING_CHANGED, Action::tell(action))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn names(path: &Path) -> Vec<String> {
        list(path, &[]).unwrap().names
    }

    #[test]
    fn lists_directories_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["b", "A", "<b>x\u{1b}[2J"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::create_dir(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff"))).unwrap();
        std::fs::write(at("file"), "secret").unwrap();
        std::os::unix::fs::symlink("file", at("link-to-file")).unwrap();
        std::os::unix::fs::symlink("gone", at("link-to-nothing")).unwrap();
        assert_eq!(names(dir.path()), ["<b>x\u{1b}[2J", "A", "b"]);
        assert_eq!(list(dir.path(), &[]).unwrap().left_out, 1);
    }

    #[test]
    fn a_missing_path_shows_its_nearest_existing_parent() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        for path in ["gone/deeper", "file/below"] {
            let shown = list(&dir.path().join(path), &[]).unwrap();
            assert_eq!(shown.path, dir.path().to_str().unwrap());
            assert_eq!(shown.parent.as_deref(), dir.path().parent().unwrap().to_str());
        }
    }

    #[test]
    fn paths_lead_nowhere_else() {
        for path in ["relative", "/a/../b", "~/../x", "/a\0b", "~user/x"] {
            assert_eq!(absolute(path).unwrap_err().code, Code::Usage, "{path:?}");
        }
        assert_eq!(absolute("/a//b/./c/").unwrap(), Path::new("/a/b/c"));
        for name in ["", ".", "..", "a/b", "a\nb", &"x".repeat(256)] {
            assert_eq!(check_name(name).unwrap_err().code, Code::Usage, "{name:?}");
        }
        assert!(check_name("My disk, 2026 <b>").is_ok());
    }

    #[test]
    fn a_drive_is_not_offered_for_a_drive() {
        let dir = tempfile::tempdir().unwrap();
        let own = [dir.path().to_owned()];
        assert!(list(dir.path(), &own).is_err());
        assert!(list(&dir.path().join("below"), &own).is_err());
    }

    #[tokio::test]
    async fn a_look_without_an_answer_is_reported_as_offline() {
        let error = refused(Path::new("/mnt/nas"), &ErrorKind::TimedOut.into());
        assert_eq!(error.code, Code::Offline);
        let refused = look(Path::new("/x"), || Err(ErrorKind::PermissionDenied.into())).await.unwrap_err();
        assert_eq!(refused.code, Code::Privileges);
    }
}
