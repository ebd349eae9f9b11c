//! The entries below a directory by name and facts alone: only directories are opened, so no file's data is fetched.

use super::walk::open_below;
use super::{Blind, FileKind, Seen};
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Entries in a piece.
const SEEN_IN_PIECE: usize = 512;
/// Only e2fsck puts files there, and it belongs to root.
const LOST_AND_FOUND: &str = "lost+found";

/// Reports everything below `root`, piece by piece, until `tell` returns false or fails; returns what could not be seen.
pub fn outline(
    root: BorrowedFd<'_>,
    tell: &mut dyn FnMut(Vec<Seen>) -> io::Result<bool>,
) -> io::Result<Option<Blind>> {
    let (mut piece, mut blind) = (Vec::new(), Blind::default());
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(path) = waiting.pop() {
        let found = open_below(root, &path, OFlags::DIRECTORY).and_then(|directory| entries(&directory));
        let found = match found {
            Ok(found) => found,
            // It was removed meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => continue,
            Err(errno) => {
                blind.unreadable += 1;
                blind.failed |= !matches!(errno, Errno::ACCESS | Errno::PERM);
                blind.example.get_or_insert_with(|| path.display().to_string());
                continue;
            }
        };
        for (name, stat) in found {
            let below = if path == Path::new(".") { name.into() } else { path.join(name) };
            if below == Path::new(LOST_AND_FOUND) {
                continue;
            }
            let seen = seen(&below, &stat);
            if seen.kind == FileKind::Directory {
                waiting.push(below);
            }
            piece.push(seen);
        }
        if piece.len() >= SEEN_IN_PIECE && !tell(std::mem::take(&mut piece))? {
            return Ok(None);
        }
    }
    Ok(tell(piece)?.then_some(blind))
}

fn entries(directory: &std::os::fd::OwnedFd) -> Result<Vec<(std::ffi::OsString, Stat)>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => found.push((OsStr::from_bytes(name.to_bytes()).to_owned(), stat)),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}

fn seen(path: &Path, stat: &Stat) -> Seen {
    const NANOSECONDS: i64 = 1_000_000_000;
    let at = |seconds: i64, nanoseconds: u64| seconds.saturating_mul(NANOSECONDS) + nanoseconds as i64;
    Seen {
        path: path.to_string_lossy().into_owned(),
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        },
        inode: stat.st_ino,
        bytes: stat.st_size as u64,
        modified_ns: at(stat.st_mtime, stat.st_mtime_nsec),
        changed_ns: at(stat.st_ctime, stat.st_ctime_nsec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn all_below(root: &Path) -> Vec<Seen> {
        let root = std::fs::File::open(root).unwrap();
        let mut all = Vec::new();
        let told = outline(root.as_fd(), &mut |piece| {
            all.extend(piece);
            Ok(true)
        });
        assert_eq!(told.unwrap(), Some(Blind::default()));
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }

    #[test]
    fn reports_everything_below_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::create_dir(dir.path().join(LOST_AND_FOUND)).unwrap();
        std::fs::write(dir.path().join("a/b/file"), "12345").unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let all = all_below(dir.path());
        let told: Vec<_> = all.iter().map(|seen| (&*seen.path, seen.kind)).collect();
        let expected = [
            ("a", FileKind::Directory),
            ("a/b", FileKind::Directory),
            ("a/b/file", FileKind::File),
            ("link", FileKind::Link),
        ];
        assert_eq!(told, expected);
        assert_eq!(all[2].bytes, 5);
    }

    #[test]
    fn ends_when_no_more_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let root = std::fs::File::open(dir.path()).unwrap();
        assert_eq!(outline(root.as_fd(), &mut |_| Ok(false)).unwrap(), None);
    }
}
