//! Which directory is the root. A path alone does not say it: where a disk is not mounted, its bare mount point has the path.
//!
//! So a folder keeps the root's [`RootId`] and passes it in at each opening, and each call compares it before anything else. A path that
//! leads to another directory, or nowhere, is [`StoreError::NoPlace`]: nothing is listed there, so nothing looks deleted, and nothing is
//! written there.
//!
//! No single number tells directories apart over time. Device numbers change when a disk is plugged in again, and network file systems get
//! new ones at each mount. Inode numbers repeat: the root of every ext4 is 2. The time at which a directory was made does neither, but not
//! every file system has it. So two identities are the same if the kind of file system and the inode number are the same, and so is the
//! time of making; where there is none, the device number is compared in its place, unless it was drawn at the mount (major number 0).

use crate::StoreError;
use crate::file::beneath;
use rustix::fs::{AtFlags, StatxFlags};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What tells a root from other directories that may stand at its path. Kept by the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootId {
    /// Magic number of the file system (statfs(2)).
    kind: u64,
    /// Major and minor number of the device.
    device: (u32, u32),
    /// Inode number.
    inode: u64,
    /// When it was made: seconds and nanoseconds since 1970.
    made: Option<(i64, u32)>,
}

impl RootId {
    /// The identity of an open directory.
    pub(super) fn of(directory: &OwnedFd) -> io::Result<Self> {
        let kind = u64::from(rustix::fs::fstatfs(directory)?.f_type as u32);
        let mask = StatxFlags::INO | StatxFlags::BTIME;
        let stat = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, mask)?;
        let made = (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
        // The root of a FAT was made in 1970: it has no such time.
        let has_time = stat.stx_mask & StatxFlags::BTIME.bits() != 0 && made != (0, 0);
        Ok(Self {
            kind,
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            made: has_time.then_some(made),
        })
    }

    /// The magic number of the file system.
    pub(super) fn kind(&self) -> u64 {
        self.kind
    }

    /// Whether both are one directory.
    fn is_same(&self, other: &Self) -> bool {
        let may_change = |id: &Self| id.device.0 == 0;
        self.kind == other.kind
            && self.inode == other.inode
            && match (self.made, other.made) {
                (Some(a), Some(b)) => a == b,
                _ => self.device == other.device || may_change(self) && may_change(other),
            }
    }
}

/// Opens the root at `path`, which has to be `expected`, if that is known.
pub(super) fn open(path: &Path, expected: Option<&RootId>) -> Result<(OwnedFd, RootId), StoreError> {
    let unreachable = |error: io::Error| {
        let reason = format!("{}: {error}", path.display());
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                StoreError::NoPlace { place: format!("directory {}", path.display()) }
            }
            ErrorKind::PermissionDenied => StoreError::Denied { reason },
            _ => StoreError::Unreachable { reason },
        }
    };
    let root = beneath::root(path).map_err(unreachable)?;
    let found = RootId::of(&root).map_err(unreachable)?;
    if expected.is_some_and(|expected| !expected.is_same(&found)) {
        let place = format!(
            "directory {} as it was before: another one is there. Is its disk mounted?",
            path.display()
        );
        return Err(StoreError::NoPlace { place });
    }
    Ok((root, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_roots_apart_over_remounts() {
        let ext4 = RootId { kind: 0xef53, device: (8, 17), inode: 2, made: Some((1_700_000_000, 0)) };
        let plugged_in_again = RootId { device: (8, 33), ..ext4.clone() };
        let another_disk = RootId { made: Some((1_700_000_001, 0)), ..ext4.clone() };
        assert!(ext4.is_same(&plugged_in_again));
        assert!(!ext4.is_same(&another_disk));
        let nfs = RootId { kind: 0x6969, device: (0, 50), inode: 128, made: None };
        let mounted_again = RootId { device: (0, 61), ..nfs.clone() };
        let bare_mount_point = RootId { inode: 131_073, ..ext4.clone() };
        assert!(nfs.is_same(&mounted_again));
        assert!(!nfs.is_same(&bare_mount_point));
        assert!(!nfs.is_same(&RootId { inode: 129, ..nfs.clone() }));
        let fat = RootId { kind: 0x4d44, device: (8, 17), inode: 1, made: None };
        assert!(fat.is_same(&fat));
        assert!(!fat.is_same(&RootId { device: (8, 33), ..fat.clone() }));
    }
}
