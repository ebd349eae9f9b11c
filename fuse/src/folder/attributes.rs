//! Between the folder's attributes and FUSE's.

use super::negotiate::MOUNT_BLOCK_BYTES;
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use holdall_core::folder::Ino;
use holdall_core::folder::api::{Attributes, Changes, SetTime};
use holdall_core::store::remote::{Kind, Time};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the kernel believes what nothing else changes: a change that comes all the same is told to it.
const STEADY: Duration = Duration::from_secs(60);
/// How long it believes everything else: short enough that a person never waits for it, long enough for one `ls -l`.
const UNSTEADY: Duration = Duration::from_secs(1);

/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;

/// Bits that a program could gain rights by. A file of a remote never has them, so nothing has to clear them at a write.
const SET_ID_BITS: u32 = libc::S_ISUID | libc::S_ISGID;

/// Whose the files are: everything in a folder belongs to the user who mounted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// The user of this process.
    pub fn of_process() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    /// Whether a change of ownership changes nothing.
    pub fn stays(self, uid: Option<u32>, gid: Option<u32>) -> bool {
        uid.is_none_or(|uid| uid == self.uid) && gid.is_none_or(|gid| gid == self.gid)
    }
}

/// How long the kernel may believe attributes, and the name that they were found under.
pub(super) fn time_to_live(attributes: &Attributes) -> Duration {
    if attributes.is_steady { STEADY } else { UNSTEADY }
}

pub(super) fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
    }
}

pub(super) fn number(ino: Ino) -> INodeNo {
    INodeNo(u64::from(ino.0))
}

/// What `stat` shows.
pub(super) fn file_attributes(attributes: &Attributes, owner: Owner) -> FileAttr {
    let (mtime, ctime) = (system_time(attributes.mtime), system_time(attributes.ctime));
    FileAttr {
        ino: number(attributes.ino),
        size: attributes.len,
        // All of it, also what is not here: backup programs and file managers take fewer blocks for holes.
        blocks: attributes.len.div_ceil(SECTOR_BYTES),
        // Reads are not recorded anywhere.
        atime: mtime,
        mtime,
        ctime,
        crtime: UNIX_EPOCH,
        kind: kind(attributes.kind),
        perm: permissions(attributes.kind, attributes.mode) as u16,
        nlink: if attributes.kind == Kind::Directory { 2 } else { 1 },
        uid: owner.uid,
        gid: owner.gid,
        rdev: 0,
        blksize: MOUNT_BLOCK_BYTES,
        flags: 0,
    }
}

/// What `readdir` shows of `.` and `..`; the kernel takes only the number and the kind from it.
pub(super) fn directory(ino: Ino, owner: Owner) -> FileAttr {
    let attributes = Attributes {
        ino,
        kind: Kind::Directory,
        len: 0,
        mode: 0o700,
        mtime: Time(0),
        ctime: Time(0),
        is_steady: false,
    };
    file_attributes(&attributes, owner)
}

fn permissions(kind: Kind, mode: u32) -> u32 {
    match kind {
        Kind::File => mode & 0o7777 & !SET_ID_BITS,
        Kind::Directory => mode & 0o7777,
        Kind::Link => 0o777,
    }
}

/// The permission bits of a `st_mode` that a program sets.
pub(super) fn mode_to_set(mode: u32) -> u32 {
    let is_directory = mode & libc::S_IFMT == libc::S_IFDIR;
    permissions(if is_directory { Kind::Directory } else { Kind::File }, mode)
}

/// What setattr changes.
pub(super) fn changes(size: Option<u64>, mode: Option<u32>, mtime: Option<TimeOrNow>) -> Changes {
    let mtime = mtime.map(|time| match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(remote_time(time)),
    });
    Changes { len: size, mode: mode.map(mode_to_set), mtime }
}

const NANOSECONDS: i128 = 1_000_000_000;

fn system_time(Time(nanoseconds): Time) -> SystemTime {
    // A time that no clock can show comes from a remote; the nearest that can be shown is as good.
    let seconds = (nanoseconds.div_euclid(NANOSECONDS)).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let fraction = Duration::from_nanos(nanoseconds.rem_euclid(NANOSECONDS) as u64);
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let whole = if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    whole.and_then(|whole| whole.checked_add(fraction)).unwrap_or(UNIX_EPOCH)
}

fn remote_time(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Time(after.as_nanos() as i128),
        Err(error) => Time(-(error.duration().as_nanos() as i128)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { uid: 7, gid: 8 };

    fn attributes(kind: Kind, mode: u32) -> Attributes {
        let time = Time(-1_500_000_000);
        Attributes { ino: Ino(3), kind, len: 513, mode, mtime: time, ctime: Time(1), is_steady: true }
    }

    #[test]
    fn times_before_1970_and_fractions_survive() {
        for time in [Time(0), Time(1), Time(-1), Time(-1_500_000_000), Time(1_790_000_000_123_456_789)] {
            assert_eq!(remote_time(system_time(time)), time);
        }
        assert_eq!(system_time(Time(-500_000_000)), UNIX_EPOCH - Duration::from_millis(500));
        // What cannot be shown is shown as something, and nothing panics.
        system_time(Time(i128::MAX));
        system_time(Time(i128::MIN));
    }

    #[test]
    fn everything_is_the_users_and_takes_its_whole_length() {
        let shown = file_attributes(&attributes(Kind::File, 0o640), OWNER);
        assert_eq!((shown.uid, shown.gid, shown.nlink, shown.perm), (7, 8, 1, 0o640));
        assert_eq!((shown.size, shown.blocks), (513, 2));
        assert_eq!(file_attributes(&attributes(Kind::Directory, 0o700), OWNER).nlink, 2);
    }

    #[test]
    fn a_file_never_has_set_id_bits() {
        assert_eq!(file_attributes(&attributes(Kind::File, 0o6755), OWNER).perm, 0o755);
        assert_eq!(file_attributes(&attributes(Kind::Directory, 0o2755), OWNER).perm, 0o2755);
        assert_eq!(mode_to_set(libc::S_IFREG | 0o4711), 0o711);
        assert_eq!(mode_to_set(libc::S_IFDIR | 0o2775), 0o2775);
    }

    #[test]
    fn only_the_users_own_ids_can_be_set() {
        assert!(OWNER.stays(Some(7), Some(8)) && OWNER.stays(None, None));
        assert!(!OWNER.stays(Some(0), None) && !OWNER.stays(None, Some(0)));
    }

    #[test]
    fn what_nothing_else_changes_is_believed_for_longer() {
        let steady = attributes(Kind::File, 0);
        assert_eq!(time_to_live(&steady), Duration::from_secs(60));
        assert_eq!(time_to_live(&Attributes { is_steady: false, ..steady }), Duration::from_secs(1));
    }
}
