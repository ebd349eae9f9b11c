//! What a directory entry is: kind, version, and what a file has beside its bytes.
//!
//! A version's tag consists of the time of the last change, the length and the inode number. A save by rename has a new inode number, and a
//! write in place a new time. The time of the inode's last change (ctime) is left out: chmod and link move it, and leave the bytes. A write
//! in place that keeps the length can repeat a tag only within the file system's unit of time, and then the time is the clock's. That is
//! why it is also [`Version::written`]: who has to be sure looks again at a version that is that young.
//!
//! Where inode numbers are made up by the client and change while nobody looks, the tag goes without them.

use super::Tree;
use crate::remote::{Entry, Kind, Meta, Name, Time, Version};
use rustix::buffer::spare_capacity;
use rustix::fs::{Access, AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Permission bits. Others (setuid, setgid, sticky) stay as they are in the directory, and mean nothing elsewhere.
pub(super) const MODE: u32 = 0o777;
/// The only kind of attributes that users may set on every file.
pub(super) const USERS: &str = "user.";
/// The most bytes that Linux gives for the names of a file's attributes, and for the value of one.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// What stands under a name in an open directory, without following a link.
pub(super) fn stat(directory: &OwnedFd, leaf: &str) -> io::Result<Stat> {
    Ok(rustix::fs::statat(directory, leaf, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// The kind; `None` for devices, pipes and sockets.
pub(super) fn kind(stat: &Stat) -> Option<Kind> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(Kind::File),
        FileType::Directory => Some(Kind::Directory),
        FileType::Symlink => Some(Kind::Link),
        _ => None,
    }
}

/// When the bytes were last changed.
pub(super) fn mtime(stat: &Stat) -> Time {
    Time(i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec))
}

impl Tree {
    /// The version of what `stat` describes.
    pub(super) fn version(&self, stat: &Stat) -> Version {
        let inode = if self.has_inode_numbers { stat.st_ino } else { 0 };
        let len = match kind(stat) {
            Some(Kind::Directory) => 0,
            _ => stat.st_size as u64,
        };
        let Time(time) = mtime(stat);
        Version { tag: format!("{time}-{len}-{inode}"), len, written: Some(Time(time)) }
    }

    /// The entry of a name in an open directory. `None` if no folder can show it: it is a device, a pipe or a socket, or a link whose
    /// target is not text.
    pub(super) fn look(&self, directory: &OwnedFd, name: &Name) -> io::Result<Option<Entry>> {
        let leaf = name.as_str();
        let stat = stat(directory, leaf)?;
        let Some(kind) = kind(&stat) else { return Ok(None) };
        let mut meta = self.meta(&stat);
        if kind == Kind::Link {
            let target = rustix::fs::readlinkat(directory, leaf, Vec::new())?;
            let Ok(target) = target.into_string() else { return Ok(None) };
            (meta.mode, meta.link) = (None, Some(target));
        } else if self.has_xattrs {
            // There is no call for a name in a directory. `/proc/self/fd/N` is that directory, wherever it is by now.
            let path = format!("/proc/self/fd/{}/{leaf}", directory.as_raw_fd());
            let list = |buf: &mut Vec<u8>| rustix::fs::llistxattr(&*path, spare_capacity(buf));
            let get =
                |name: &CStr, buf: &mut Vec<u8>| rustix::fs::lgetxattr(&*path, name, spare_capacity(buf));
            meta.xattrs = read_xattrs(list, get)?;
        }
        let may_write = kind == Kind::Link
            || rustix::fs::accessat(directory, leaf, Access::WRITE_OK, AtFlags::empty()).is_ok();
        let is_writable = may_write && self.facts.read_only.is_none();
        Ok(Some(Entry {
            name: name.clone(),
            kind,
            version: self.version(&stat),
            meta: Some(meta),
            is_writable,
        }))
    }

    /// The entry of an open file or directory.
    pub(super) fn entry_of(&self, name: &Name, file: &impl AsFd) -> io::Result<Entry> {
        let stat = rustix::fs::fstat(file)?;
        let mut meta = self.meta(&stat);
        if self.has_xattrs {
            meta.xattrs = xattrs_of(file)?;
        }
        let kind = kind(&stat).unwrap_or(Kind::File);
        let is_writable = self.facts.read_only.is_none();
        Ok(Entry { name: name.clone(), kind, version: self.version(&stat), meta: Some(meta), is_writable })
    }

    fn meta(&self, stat: &Stat) -> Meta {
        let mode = self.facts.keeps_meta.then_some(stat.st_mode & MODE);
        Meta { mode, mtime: Some(mtime(stat)), ..Meta::default() }
    }
}

/// The users' attributes of an open file.
pub(super) fn xattrs_of(file: &impl AsFd) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let list = |buf: &mut Vec<u8>| rustix::fs::flistxattr(file, spare_capacity(buf));
    let get = |name: &CStr, buf: &mut Vec<u8>| rustix::fs::fgetxattr(file, name, spare_capacity(buf));
    read_xattrs(list, get)
}

/// Reads the users' attributes. One that goes away meanwhile, or that has no text for a name, is left out.
fn read_xattrs(
    list: impl Fn(&mut Vec<u8>) -> Result<usize, Errno>,
    get: impl Fn(&CStr, &mut Vec<u8>) -> Result<usize, Errno>,
) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut names = Vec::with_capacity(1 << 10);
    match filled(&mut names, &list) {
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(found),
        listed => listed?,
    }
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        let Some(text) = name.to_str().ok().filter(|text| text.starts_with(USERS)) else { continue };
        let mut value = Vec::with_capacity(256);
        match filled(&mut value, |buf| get(name, buf)) {
            Err(Errno::NODATA) => continue,
            read => read?,
        }
        found.insert(text.to_owned(), value);
    }
    Ok(found)
}

/// Reads into `buf`, with as much room as it takes.
fn filled(buf: &mut Vec<u8>, read: impl Fn(&mut Vec<u8>) -> Result<usize, Errno>) -> Result<(), Errno> {
    match read(buf) {
        Err(Errno::RANGE) => {
            buf.reserve(XATTR_BYTES_MAX);
            read(buf).map(drop)
        }
        read => read.map(drop),
    }
}
