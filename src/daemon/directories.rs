//! Directories of this computer, for whoever chooses one on a page: a page cannot look by itself.
//!
//! The daemon shows what its user may read, and nothing more: it looks as that user, and only those are served who are in (`web`). It
//! tells names of directories alone. Any look may wait for a disk or a server that is away, so it has a thread of its own, few at once,
//! and an end. Drives of this computer are left out: a drive within a drive would wait for itself.

use super::drives::Drives;
use super::failure::{self, failure};
use crate::api::{Action, Code, CreateDirectory, Directories, Failure};
use crate::words::why;
use holdall_helper::mountinfo::{self, Mount};
use rustix::fs::Access;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a directory may take: somebody waits for it.
const PATIENCE: Duration = Duration::from_secs(8);
/// The most names that are told: a list to choose from. Longer ones are typed.
const NAMES_MAX: usize = 5_000;
/// Looks at the same time. Each has a thread, which a server that is gone may keep for as long as it likes.
const LOOKS_AT_ONCE: usize = 8;
/// The longest name that file systems take.
const NAME_BYTES_MAX: usize = 255;

static LOOKS: Semaphore = Semaphore::const_new(LOOKS_AT_ONCE);

impl Drives {
    /// What directories are in one; the nearest above it where it is not there.
    pub async fn directories(&self, asked: &str) -> Result<Directories, Failure> {
        let (path, own) = (absolute(asked)?, self.own_mounts());
        let shown = path.clone();
        look(&path, move || list(&shown, &own)).await
    }

    /// Creates a directory, and tells what is in it: nothing.
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

    /// Where this computer's drives are mounted.
    fn own_mounts(&self) -> Vec<PathBuf> {
        self.all().iter().filter_map(|drive| drive.mountpoint()).collect()
    }
}

async fn look(
    path: &Path,
    work: impl FnOnce() -> io::Result<Directories> + Send + 'static,
) -> Result<Directories, Failure> {
    let late = || io::Error::from(ErrorKind::TimedOut);
    let looking = async {
        let turn = LOOKS.acquire().await.map_err(io::Error::other)?;
        // It is over when the thread is, not when nobody waits for it any more.
        let thread = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        thread.await.map_err(io::Error::other)?
    };
    let looked = tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| Err(late()));
    looked.map_err(|error| refused(path, &error))
}

/// A path without a way up, which depends on links.
fn absolute(asked: &str) -> Result<PathBuf, Failure> {
    let no_path = || failure::usage("A path begins with / or ~/, and has no .. in it.");
    let home = || std::env::home_dir().ok_or_else(no_path);
    let path = match asked.trim() {
        "" | "~" => home()?,
        typed => match typed.strip_prefix("~/") {
            Some(below) => home()?.join(below),
            None => PathBuf::from(typed),
        },
    };
    let is_strange = path.components().any(|part| part == Component::ParentDir) || asked.contains('\0');
    if path.is_absolute() && !is_strange { Ok(path.components().collect()) } else { Err(no_path()) }
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_one = !matches!(name, "" | "." | "..") && !name.contains('/') && name.len() <= NAME_BYTES_MAX;
    match is_one && !name.chars().any(char::is_control) {
        true => Ok(()),
        false => {
            Err(failure::usage("A folder's name has 1 to 255 bytes, no slash and no control characters."))
        }
    }
}

fn check_not_own(path: &Path, own: &[PathBuf]) -> io::Result<()> {
    match own.iter().any(|mount| path.starts_with(mount)) {
        true => Err(io::Error::other("it is on a drive of Holdall's, and a drive cannot be kept in a drive")),
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

/// Without a look at what it is, where the directory says so already: a look may wait. A link is looked at only where that cannot wait.
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
            (Code::Exists, format!("{path} is there already."), "Choose it, or give another name.")
        }
        ErrorKind::TimedOut => (
            Code::Offline,
            format!("{path} does not answer."),
            "Look whether the disk or the server that it is on is there, and try again.",
        ),
        ErrorKind::PermissionDenied => (
            Code::Privileges,
            format!("Holdall may not do that in {path}: {}.", why(error)),
            "Choose a folder of yours.",
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
    fn a_path_that_is_not_there_shows_the_nearest_above_it() {
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
    async fn what_does_not_answer_is_told_as_that() {
        let error = refused(Path::new("/mnt/nas"), &ErrorKind::TimedOut.into());
        assert_eq!(error.code, Code::Offline);
        let refused = look(Path::new("/x"), || Err(ErrorKind::PermissionDenied.into())).await.unwrap_err();
        assert_eq!(refused.code, Code::Privileges);
    }
}
