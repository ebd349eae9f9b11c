//! Paths that never leave the store's directory.
//!
//! A name may come from a hostile store, and others may be able to write to the directory. So every object is reached through a descriptor
//! of its directory, which the kernel resolves beneath the root without following links (openat2). Where the kernel lacks openat2, the same
//! walk goes one component at a time.

use crate::names;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Tries of a resolution that a rename disturbs (EAGAIN, openat2(2)).
const TRIES: u32 = 16;

/// Where an object is: its directory, and its own name there.
pub struct Spot {
    pub directory: OwnedFd,
    pub leaf: String,
}

/// One entry of a directory.
pub struct Entry {
    pub name: String,
    pub is_directory: bool,
}

/// The spot of `name` below `root`. Its directory must exist.
pub fn spot(root: &Path, name: &str) -> io::Result<Spot> {
    let (parent, leaf) = name.rsplit_once('/').unwrap_or(("", name));
    if !names::stays_below(leaf) {
        return Err(Errno::XDEV.into());
    }
    Ok(Spot { directory: directory(root, parent)?, leaf: leaf.to_owned() })
}

/// The directory `name` below `root`; "" is the root itself. Only the root may be reached over links.
pub fn directory(root: &Path, name: &str) -> io::Result<OwnedFd> {
    let root = self::root(root)?;
    if !name.is_empty() && !names::stays_below(name) {
        return Err(Errno::XDEV.into());
    }
    below(root, name)
}

/// A root, which may be reached over links.
pub fn root(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, DIRECTORY, Mode::empty())?)
}

/// The directory `name` below an open root; "" is the root itself. The name has no `..`, and no `/` at its ends.
pub fn below(root: OwnedFd, name: &str) -> io::Result<OwnedFd> {
    if name.is_empty() {
        return Ok(root);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    for _ in 0..TRIES {
        match rustix::fs::openat2(&root, name, DIRECTORY, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS) => break,
            opened => return Ok(opened?),
        }
    }
    step_by_step(root, name)
}

/// The same without openat2.
fn step_by_step(root: OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let step = |at: OwnedFd, part| rustix::fs::openat(&at, part, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
    name.split('/').try_fold(root, |at, part| step(at, part).map_err(io::Error::from))
}

/// Whether an error says that a link stands where the store follows none, or that a name leaves the store.
pub fn leaves_the_store(error: &io::Error) -> bool {
    [Errno::LOOP, Errno::XDEV].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether an error says that the file system will never be able to do what was asked.
pub fn lacks(error: &io::Error) -> bool {
    let lacking = [Errno::INVAL, Errno::NOTSUP, Errno::NOSYS, Errno::NOLCK, Errno::NAMETOOLONG, Errno::MLINK];
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error).is_some_and(|errno| lacking.contains(&errno))
}

impl Spot {
    /// Opens the object for reading.
    pub fn open(&self) -> io::Result<File> {
        self.open_as(OFlags::RDONLY)
    }

    /// Opens the object for appending, and creates it if it does not exist.
    pub fn open_lock(&self) -> io::Result<File> {
        self.open_as(OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND)
    }

    /// Creates the object. An error if something has the name.
    pub fn create(&self) -> io::Result<File> {
        self.open_as(OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)
    }

    fn open_as(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        Ok(rustix::fs::openat(&self.directory, &*self.leaf, flags, mode)?.into())
    }

    /// The object's length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        len(&self.directory, &self.leaf)
    }

    /// Makes a directory with that name.
    pub fn make_directory(&self) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.directory, &*self.leaf, Mode::from_raw_mode(0o777))?)
    }

    /// Removes the object.
    pub fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, &*self.leaf, AtFlags::empty())?)
    }

    /// Renames the object, replacing what has the new name.
    pub fn rename(&self, to: &Spot) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.directory, &*self.leaf, &to.directory, &*to.leaf)?)
    }

    /// Renames the object only if nothing has the new name. `Unsupported` where the file system can neither do that nor make hard links.
    pub fn rename_new(&self, to: &Spot) -> io::Result<()> {
        let (from, new) = ((&self.directory, &*self.leaf), (&to.directory, &*to.leaf));
        match rustix::fs::renameat_with(from.0, from.1, new.0, new.1, RenameFlags::NOREPLACE) {
            // Some file systems cannot; a hard link is just as exclusive.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                match rustix::fs::linkat(from.0, from.1, new.0, new.1, AtFlags::empty()) {
                    Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {
                        Err(io::ErrorKind::Unsupported.into())
                    }
                    linked => linked.map_err(io::Error::from).and_then(|()| self.remove()),
                }
            }
            result => Ok(result?),
        }
    }
}

/// The length in bytes of an object in a directory.
pub fn len(directory: &OwnedFd, leaf: &str) -> io::Result<u64> {
    let stat = rustix::fs::statat(directory, leaf, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(stat.st_size as u64)
}

/// Makes the names in a directory durable.
pub fn sync(directory: &OwnedFd) -> io::Result<()> {
    match rustix::fs::fsync(directory) {
        // This file system cannot sync one directory, so sync all of it, which includes the directory.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(rustix::fs::syncfs(directory)?),
        synced => Ok(synced?),
    }
}

/// Directories and plain files in a directory, without hidden ones. Links and other kinds are no objects. Calls `beat` for each entry.
pub fn entries(directory: &OwnedFd, beat: impl Fn()) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        beat();
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            },
            kind => kind,
        };
        if matches!(kind, FileType::Directory | FileType::RegularFile) {
            found.push(Entry { name: name.to_owned(), is_directory: kind == FileType::Directory });
        }
    }
    Ok(found)
}

/// Removes files older than `age_max` from a directory: left behind by killed processes.
pub fn remove_old_files(directory: &OwnedFd, age_max: Duration) -> io::Result<()> {
    for Entry { name, .. } in entries(directory, || ())? {
        let Ok(stat) = rustix::fs::statat(directory, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let changed = UNIX_EPOCH + Duration::from_secs(stat.st_mtime.max(0) as u64);
        if SystemTime::now().duration_since(changed).is_ok_and(|age| age > age_max) {
            // Another process may have been faster.
            let _ = rustix::fs::unlinkat(directory, &*name, AtFlags::empty());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn both_ways_stay_beneath_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        std::fs::create_dir_all(root.join("letters/inner")).unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        symlink(dir.path().join("outside"), root.join("out")).unwrap();
        symlink("letters", root.join("in")).unwrap();
        let slowly = |name: &str| {
            let root = rustix::fs::open(&root, DIRECTORY, Mode::empty()).unwrap();
            step_by_step(root, name)
        };
        for name in ["letters", "letters/inner"] {
            assert!(directory(&root, name).is_ok() && slowly(name).is_ok(), "{name}");
        }
        for name in [
            "..",
            "letters/..",
            "letters/../../outside",
            "/letters",
            "letters//inner",
            "out",
            "in",
            "in/inner",
        ] {
            assert!(directory(&root, name).is_err(), "{name}");
        }
        for name in ["out", "in", "in/inner"] {
            assert!(slowly(name).is_err(), "{name}");
        }
        for name in ["letters/..", "..", "", "letters/", "letters/../../outside/x"] {
            assert!(spot(&root, name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_link_in_the_place_of_an_object_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        std::fs::create_dir_all(root.join("letters")).unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        symlink(dir.path().join("secret"), root.join("letters/a")).unwrap();
        let spot = spot(&root, "letters/a").unwrap();
        assert!(leaves_the_store(&spot.open().map(drop).unwrap_err()));
        assert!(leaves_the_store(&spot.open_lock().map(drop).unwrap_err()));
        assert!(spot.create().is_err());
        assert!(entries(&spot.directory, || ()).unwrap().is_empty());
    }
}
