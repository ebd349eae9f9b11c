//! Walking through files by descriptors that cannot leave the drive, whatever is renamed or linked meanwhile.

use super::fiemap;
use super::outline;
use super::watch::Watches;
use super::{Blind, Named, Run, Scan, Told, Unscannable};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Files or runs in a piece.
const FILES_IN_PIECE: usize = 512;
const RUNS_IN_PIECE: usize = 2048;

/// Scans what `scan` asks for, below the open directory `root`, and reports pieces of it, until it is `cancelled`. An error is that of
/// `tell`.
pub fn walk(
    root: BorrowedFd<'_>,
    (scan, cancelled): (&Scan, &AtomicBool),
    watches: &Watches,
    tell: &mut dyn FnMut(Told) -> io::Result<()>,
) -> io::Result<()> {
    let mut walk = Walk {
        root,
        scan,
        cancelled,
        watches,
        tell,
        seen: HashSet::new(),
        blind: Blind::default(),
        files: Vec::new(),
        directories: Vec::new(),
        runs: 0,
    };
    let begun = walk.begin();
    // A cancelled scan has not been everywhere, and a scan that does not watch says nothing about what another one watches: then the
    // watches from before stay.
    if scan.watch && !matches!(begun, Err(Stopped::Cancelled)) {
        watches.scanned(&scan.path, scan.id);
    }
    match begun {
        Ok(()) => {
            walk.flush()?;
            let blind = std::mem::take(&mut walk.blind);
            (walk.tell)(Told::Scanned { id: scan.id, blind })
        }
        Err(Stopped::Unscannable(why)) => (walk.tell)(Told::Refused { id: scan.id, why }),
        Err(Stopped::Unheard(error)) => Err(error),
        Err(Stopped::Cancelled) => Ok(()),
    }
}

struct Walk<'a> {
    root: BorrowedFd<'a>,
    scan: &'a Scan,
    cancelled: &'a AtomicBool,
    watches: &'a Watches,
    tell: &'a mut dyn FnMut(Told) -> io::Result<()>,
    /// Files with several names that were already seen.
    seen: HashSet<u64>,
    blind: Blind,
    files: Vec<Vec<Run>>,
    directories: Vec<Run>,
    /// The number of runs in both.
    runs: usize,
}

enum Stopped {
    Unscannable(Unscannable),
    /// Nobody reads the reports.
    Unheard(io::Error),
    /// Nobody needs the scan.
    Cancelled,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Stopped::Unheard(error)
    }
}

impl Walk<'_> {
    fn begin(&mut self) -> Result<(), Stopped> {
        let path = PathBuf::from(&self.scan.path);
        let refused = |errno| Stopped::Unscannable(unscannable(errno));
        if self.scan.outline {
            return self.outline();
        }
        if self.scan.list {
            let directory = open_below(self.root, &path, OFlags::DIRECTORY).map_err(refused)?;
            return self.list(&directory);
        }
        self.watch_name(&path);
        let found = open_below(self.root, &path, OFlags::PATH).map_err(refused)?;
        let stat = rustix::fs::fstat(&found).map_err(refused)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.all_below(path),
            FileType::RegularFile => match open_below(self.root, &path, OFlags::NONBLOCK) {
                Ok(file) => self.file(&file, &stat).map_err(Stopped::Unheard),
                Err(errno) => Err(refused(errno)),
            },
            FileType::Symlink => Err(Stopped::Unscannable(Unscannable::Link)),
            _ => Err(Stopped::Unscannable(Unscannable::Special)),
        }
    }

    fn outline(&mut self) -> Result<(), Stopped> {
        let (id, cancelled, tell) = (self.scan.id, self.cancelled, &mut *self.tell);
        let told = outline::outline(self.root, &mut |entries| {
            let is_wanted = !cancelled.load(Ordering::Relaxed);
            if is_wanted {
                tell(Told::Outlined { id, entries })?;
            }
            Ok(is_wanted)
        });
        self.blind = told?.ok_or(Stopped::Cancelled)?;
        Ok(())
    }

    /// The parent directory reports whatever takes the place of the path itself.
    fn watch_name(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        let parent = if parent == Path::new("") { Path::new(".") } else { parent };
        if self.scan.watch
            && let Ok(parent) = open_below(self.root, parent, OFlags::DIRECTORY)
        {
            self.watch(&parent, Some(name));
        }
    }

    fn watch(&mut self, directory: &OwnedFd, name: Option<&OsStr>) {
        if self.scan.watch
            && self.watches.add(directory.as_fd(), &self.scan.path, name, self.scan.id).is_err()
        {
            self.blind.unwatched = true;
        }
    }

    fn all_below(&mut self, path: PathBuf) -> Result<(), Stopped> {
        let mut waiting = vec![path];
        while let Some(path) = waiting.pop() {
            match open_below(self.root, &path, OFlags::DIRECTORY) {
                Ok(directory) => self.directory(&path, &directory, &mut waiting)?,
                // It was removed or replaced meanwhile; that is reported as a change.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
                Err(errno) if path == Path::new(&self.scan.path) => {
                    return Err(Stopped::Unscannable(unscannable(errno)));
                }
                Err(errno) => self.unreadable(&path, errno),
            }
        }
        Ok(())
    }

    fn directory(
        &mut self,
        path: &Path,
        directory: &OwnedFd,
        waiting: &mut Vec<PathBuf>,
    ) -> Result<(), Stopped> {
        self.go_on()?;
        // Before it is listed, so that whatever comes later is reported.
        self.watch(directory, None);
        match fiemap::extents(directory) {
            Ok(found) => {
                self.runs += found.runs.len();
                self.directories.extend(found.runs);
                self.blind.unsettled |= found.unsettled;
            }
            // Its blocks are metadata, which is local anyway.
            Err(error) => tracing::debug!(%error, "the blocks of a directory are not known"),
        }
        let (files, below) = match entries(directory) {
            Ok(entries) => entries,
            Err(errno) => {
                self.unreadable(path, errno);
                return Ok(());
            }
        };
        for name in files {
            self.go_on()?;
            self.entry(path, directory, &name)?;
        }
        // Reversed, so that the first one is taken first.
        waiting.extend(below.iter().rev().map(|name| path.join(OsStr::from_bytes(name.to_bytes()))));
        Ok(self.flush_if_full()?)
    }

    fn go_on(&self) -> Result<(), Stopped> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Stopped::Cancelled) } else { Ok(()) }
    }

    /// Lists one level of a directory. A file that is removed meanwhile is not listed.
    fn list(&mut self, directory: &OwnedFd) -> Result<(), Stopped> {
        let found = entries(directory).map_err(|errno| Stopped::Unscannable(unscannable(errno)));
        let (files, directories) = found?;
        let named = |name: &CStr, file| Named { name: name.to_string_lossy().into_owned(), file };
        let id = self.scan.id;
        let mut entries: Vec<_> = directories.iter().map(|name| named(name, None)).collect();
        let mut runs = 0;
        for name in files {
            self.go_on()?;
            let opened = open_at(directory.as_fd(), &name, OFlags::NONBLOCK);
            let Ok((file, stat)) = opened.and_then(|file| rustix::fs::fstat(&file).map(|stat| (file, stat)))
            else {
                // A user who may not read it may know that it is there.
                let stat = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW);
                entries.extend(stat.map(|stat| named(&name, Some((stat.st_size as u64, Vec::new())))));
                continue;
            };
            let found = fiemap::extents(&file).unwrap_or_default();
            runs += found.runs.len();
            entries.push(named(&name, Some((stat.st_size as u64, found.runs))));
            if entries.len() >= FILES_IN_PIECE || runs >= RUNS_IN_PIECE {
                runs = 0;
                (self.tell)(Told::Listed { id, entries: std::mem::take(&mut entries) })?;
            }
        }
        Ok((self.tell)(Told::Listed { id, entries })?)
    }

    fn entry(&mut self, path: &Path, directory: &OwnedFd, name: &CStr) -> io::Result<()> {
        let opened = open_at(directory.as_fd(), name, OFlags::NONBLOCK);
        let opened = opened.and_then(|file| Ok((rustix::fs::fstat(&file)?, file)));
        match opened {
            Ok((stat, file)) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                self.file(&file, &stat)
            }
            Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::XDEV | Errno::NXIO) => Ok(()),
            Err(errno) => {
                self.unreadable(&path.join(OsStr::from_bytes(name.to_bytes())), errno);
                Ok(())
            }
        }
    }

    fn file(&mut self, file: &OwnedFd, stat: &Stat) -> io::Result<()> {
        if stat.st_nlink > 1 && !self.seen.insert(stat.st_ino) {
            return Ok(());
        }
        match fiemap::extents(file) {
            Ok(found) => {
                self.runs += found.runs.len();
                self.blind.unsettled |= found.unsettled;
                self.files.push(found.runs);
            }
            Err(error) => {
                self.blind.unreadable += 1;
                self.blind.failed = true;
                self.blind.example.get_or_insert_with(|| error.to_string());
            }
        }
        if self.scan.drop_pages {
            // A hint: dirty pages and pages in use stay.
            let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
        }
        self.flush_if_full()
    }

    fn unreadable(&mut self, path: &Path, errno: Errno) {
        self.blind.unreadable += 1;
        self.blind.failed |= !matches!(errno, Errno::ACCESS | Errno::PERM);
        self.blind.example.get_or_insert_with(|| path.display().to_string());
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if self.files.len() >= FILES_IN_PIECE || self.runs >= RUNS_IN_PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.runs = 0;
        let (files, directories) = (std::mem::take(&mut self.files), std::mem::take(&mut self.directories));
        if files.is_empty() && directories.is_empty() {
            return Ok(());
        }
        (self.tell)(Told::Found { id: self.scan.id, files, directories })
    }
}

/// The names in a directory, in order: those that may be files, and those of directories.
fn entries(directory: &OwnedFd) -> Result<(Vec<CString>, Vec<CString>), Errno> {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
                stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
            }
            kind => kind,
        };
        match kind {
            FileType::Directory => directories.push(name.to_owned()),
            FileType::RegularFile => files.push(name.to_owned()),
            _ => {}
        }
    }
    files.sort_unstable();
    directories.sort_unstable();
    Ok((files, directories))
}

/// Opens a path below `root` on the same file system, without following symbolic links.
pub(super) fn open_below(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    open_at(root, &name, flags)
}

fn open_at(directory: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    /// The kernel gives up if somebody renames directories on the way.
    const TRIES: usize = 16;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let open = |flags| {
        let mut tries = 0;
        loop {
            tries += 1;
            match rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) if tries < TRIES => {}
                Err(Errno::INTR) => {}
                opened => return opened,
            }
        }
    };
    if flags.contains(OFlags::PATH) {
        return open(flags);
    }
    // Looking must not change access times; but only the owner may open a file that way.
    match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open(flags),
        opened => opened,
    }
}

fn unscannable(errno: Errno) -> Unscannable {
    match errno {
        Errno::NOENT | Errno::NOTDIR => Unscannable::Missing,
        Errno::LOOP => Unscannable::Link,
        Errno::XDEV => Unscannable::Elsewhere,
        errno => Unscannable::Failed(crate::api::words::why(&errno.into())),
    }
}
