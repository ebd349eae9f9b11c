//! What the directory's file system does, found by trying it on files under way, which are removed again.
//!
//! Nothing is tried where nothing can or shall be written. Then the answers are those that promise least.

use super::turn::Turn;
use super::{Tree, entry, naming};
use crate::StoreError;
use crate::file::beneath::Spot;
use crate::file::kinds;
use crate::remote::{Facts, Time};
use rustix::fs::{Access, AtFlags, Mode, StatVfsMountFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

/// FAT's magic number, and the longest file there.
const FAT: (u64, u64) = (0x4d44, u32::MAX as u64);
/// Magic numbers of file systems whose inode numbers are made up by the client, and change once nobody has the file open: FAT, exFAT,
/// FUSE, CIFS, SMB (twice).
const MADE_UP: [u64; 6] = [0x4d44, 0x2011_bab0, 0x6573_5546, 0xff53_4d42, 0xfe53_4d42, 0x517b];
/// An odd second, and a fraction.
const A_TIME: Time = Time(981_173_107_123_456_789);
/// Bits that no new file has by itself.
const A_MODE: u32 = 0o605;

/// Whether inode numbers tell files of this kind of file system apart.
pub(super) fn has_inode_numbers(kind: u64) -> bool {
    !MADE_UP.contains(&kind)
}

/// The facts before anything was tried.
pub(super) fn untried(kind: u64) -> Facts {
    Facts {
        has_conditions: false,
        folds_case: false,
        folds_forms: false,
        moves_trees: true,
        keeps_meta: true,
        keeps_mtime: true,
        root_tag_tells: false,
        replaces_at_once: true,
        len_max: (kind == FAT.0).then_some(FAT.1),
        read_only: None,
    }
}

impl Tree {
    /// Finds the facts, beneath an open root.
    pub(super) fn probe(&mut self, root: OwnedFd, read_only: bool) -> Result<(), StoreError> {
        self.facts.read_only = match read_only {
            true => Some("it was opened for reading only".to_owned()),
            false => forbids_writing(&root),
        };
        if self.facts.read_only.is_none() {
            match self.try_out(&root) {
                Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
                    self.facts.read_only = Some(error.to_string());
                }
                Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                    // It can be read, and nothing more is promised. An attribute that cannot be set is an error then.
                    self.has_xattrs = true;
                }
                tried => tried.map_err(|error| StoreError::Unreachable {
                    reason: format!("{}: {error}", self.path.display()),
                })?,
            }
        }
        // A read-only directory may have attributes.
        self.has_xattrs |= self.facts.read_only.is_some();
        Ok(())
    }

    fn try_out(&mut self, root: &OwnedFd) -> io::Result<()> {
        let spot = |leaf: String| Ok::<_, io::Error>(Spot { directory: root.try_clone()?, leaf });
        // é in one character, and in two.
        let (one, other) = (spot(format!("{}-é", self.new_leaf()))?, spot(self.new_leaf())?);
        // Nothing is swept meanwhile.
        let turn = Turn::take(root)?;
        let tried = one.create().and_then(|file| {
            other.create()?;
            self.try_on(&one, &other, &file)
        });
        for spot in [one, other] {
            let _ = spot.remove();
        }
        self.facts.has_conditions = tried? && kinds::is_local(self.kind) && turn.is_exclusive();
        Ok(())
    }

    /// Finds the facts on two files. Returns whether the file system can name files exclusively.
    fn try_on(&mut self, one: &Spot, other: &Spot, file: &File) -> io::Result<bool> {
        let is_there = |leaf: &str| match entry::stat(&one.directory, leaf) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        };
        self.facts.folds_case = is_there(&one.leaf.to_uppercase())?;
        self.facts.folds_forms = is_there(&one.leaf.replace('é', "e\u{301}"))?;

        self.has_xattrs = match rustix::fs::fsetxattr(file, "user.holdall", b"1", XattrFlags::empty()) {
            Ok(()) => true,
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::PERM) => false,
            Err(errno) => return Err(errno.into()),
        };
        let keeps_mode = rustix::fs::fchmod(file, Mode::from_raw_mode(A_MODE)).is_ok();
        let _ = rustix::fs::futimens(file, &super::meta::times(A_TIME));
        let stat = rustix::fs::fstat(file)?;
        self.facts.keeps_meta = self.has_xattrs && keeps_mode && stat.st_mode & entry::MODE == A_MODE;
        self.facts.keeps_mtime = entry::mtime(&stat) == A_TIME;

        let replaces_nothing =
            matches!(one.rename_new(other), Err(error) if error.kind() == ErrorKind::AlreadyExists);
        self.exchanges = naming::exchange(one, other).is_ok();
        Ok(replaces_nothing && self.exchanges)
    }
}

/// Why nothing can be written, if so.
fn forbids_writing(root: &OwnedFd) -> Option<String> {
    let is_mounted_so =
        rustix::fs::fstatvfs(root).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY));
    let may = rustix::fs::accessat(root, ".", Access::WRITE_OK, AtFlags::empty());
    match (is_mounted_so, may) {
        (true, _) => Some("its file system is mounted read-only".to_owned()),
        (false, Err(errno)) => Some(io::Error::from(errno).to_string()),
        (false, Ok(())) => None,
    }
}
