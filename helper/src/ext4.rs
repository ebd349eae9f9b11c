//! The file system on the device, while it is not mounted (or, for growth, while it is).

use super::superblock::{Content, LABEL_BYTES_MAX, LOOKED_AT_BYTES, SUPERBLOCK_END_BYTES};
use super::{Refused, Target, frozen, inodes, mountinfo, tools};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

const PACKAGE: &str = "e2fsprogs";

/// The tools used here, with their package.
const MKFS: (&str, &str) = ("mkfs.ext4", PACKAGE);
const E2FSCK: (&str, &str) = ("e2fsck", PACKAGE);
const RESIZE2FS: (&str, &str) = ("resize2fs", PACKAGE);

/// Its argument is the new size in blocks, 64 bits wide.
const EXT4_IOC_RESIZE_FS: libc::Ioctl = 0x4008_6610_u32 as libc::Ioctl;

/// From this size on, the ext4 journal gets its 128 MiB. Below it mke2fs chooses a size that suits the device, because it refuses a journal
/// that leaves no space.
const LARGE_JOURNAL_FROM_BYTES: u64 = 1 << 30;

/// Exit status bits of e2fsck(8) that mean success: 0, errors corrected (1), reboot wanted (2; for root's own disk).
const E2FSCK_WELL: i32 = 1 | 2;

/// How long another program may hold the device exclusively, and how often to try again.
const EXCLUSIVE_PATIENCE: Duration = Duration::from_secs(60);
const EXCLUSIVE_INTERVAL: Duration = Duration::from_millis(20);

/// Reads what is on the device. Waits until nobody holds it exclusively: a daemon that died may have left an mkfs or a check running, and
/// half a file system is nothing to decide on.
pub(super) fn probe(target: &Target) -> Result<Content, Refused> {
    target.verify()?;
    let mut bytes = Vec::with_capacity(LOOKED_AT_BYTES);
    let device = open_exclusive(&target.device)?;
    // Read no further: what lies beyond may be in a store that is away. It does no harm if the kernel ignores the hint.
    let _ = rustix::fs::fadvise(&device, 0, None, rustix::fs::Advice::Random);
    // An ext4 is recognized by its superblock; the rest is read only for other contents.
    for len in [SUPERBLOCK_END_BYTES, LOOKED_AT_BYTES] {
        let read = (&device).take((len - bytes.len()) as u64).read_to_end(&mut bytes);
        read.map_err(Refused::system("read", &target.device))?;
        if matches!(Content::of(&bytes), Content::Ext4(_)) {
            break;
        }
    }
    Ok(Content::of(&bytes))
}

fn open_exclusive(device: &Path) -> Result<File, Refused> {
    let deadline = Instant::now() + EXCLUSIVE_PATIENCE;
    loop {
        let opened = rustix::fs::open(device, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
        match opened {
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(EXCLUSIVE_INTERVAL),
            Err(Errno::BUSY) => {
                return Err(Refused::Busy { what: device.to_owned(), holders: Vec::new() });
            }
            opened => return opened.map(File::from).map_err(Refused::system("open", device)),
        }
    }
}

/// Makes an ext4 on a device that begins with zeros, and on no other.
pub(super) fn make(
    target: &Target,
    label: &str,
    uid: u32,
    gid: u32,
    caller: Option<u32>,
) -> Result<(), Refused> {
    let found = match probe(target)? {
        Content::Blank => None,
        Content::Ext4(superblock) => Some(format!("an ext4 labelled {:?}", superblock.label)),
        Content::Foreign => Some("data that is not a file system of ours".to_owned()),
    };
    if let Some(found) = found {
        return Err(Refused::NotBlank { device: target.device.clone(), found });
    }
    // packed_meta_blocks keeps what every operation needs in a few chunks. A drive reads as zeros where nothing was written, so inode
    // tables need no zeroing, now or later.
    let extended = format!("packed_meta_blocks=1,root_owner={uid}:{gid},assume_storage_prezeroed=1");
    let size_bytes = target.size_bytes()?;
    let bytes_per_inode = inodes::bytes_per_inode(size_bytes).to_string();
    let mut args = vec!["-q", "-b", "4096", "-i", &bytes_per_inode];
    if size_bytes >= LARGE_JOURNAL_FROM_BYTES {
        args.extend(["-J", "size=128"]);
    }
    args.extend(["-E", &extended, "-L", cut(label)]);
    tools::run_well_on(MKFS, &args, target, caller)
}

/// Repairs what e2fsck can repair without asking.
pub(super) fn check(target: &Target, caller: Option<u32>) -> Result<(), Refused> {
    check_with(target, &["-p"], caller)
}

fn check_with(target: &Target, options: &[&str], caller: Option<u32>) -> Result<(), Refused> {
    target.verify()?;
    let ran = tools::run_on(E2FSCK, options, target, caller)?;
    match ran.status.code() {
        Some(code) if code & !E2FSCK_WELL == 0 => Ok(()),
        Some(code) if code & 4 != 0 => Err(Refused::Damaged { said: ran.said }),
        _ => Err(ran.failed("e2fsck")),
    }
}

/// Grows an unmounted file system to its device, if it cannot be grown while mounted: that takes CAP_SYS_RESOURCE (fs/ext4/ioctl.c), which
/// root in a container may lack. resize2fs wants a full check first.
pub(super) fn grow_unmounted(target: &Target, caller: Option<u32>) -> Result<(), Refused> {
    let sets = rustix::thread::capabilities(None);
    if sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE)) {
        return Ok(());
    }
    check_with(target, &["-f", "-p"], caller)?;
    tools::run_well_on(RESIZE2FS, &[], target, caller)
}

/// Grows the mounted file system to its device, by the ioctl on an open directory of it. resize2fs would use the path of the mount, which
/// its user can meanwhile point at another file system.
pub(super) fn grow(target: &Target) -> Result<(), Refused> {
    let number = target.number()?;
    let mount = mountinfo::read()?.into_iter().rev().find(|mount| mount.number == number);
    let point = mount.ok_or_else(|| Refused::NotOurs { what: target.device.clone() })?.point;
    let directory = frozen::open(target, &point)?;
    let figures = rustix::fs::fstatvfs(&directory).map_err(Refused::system("statvfs", &point))?;
    let blocks = target.size_bytes()? / figures.f_bsize.max(1);
    // SAFETY: the kernel reads one 64-bit number there.
    let result = unsafe { libc::ioctl(directory.as_raw_fd(), EXT4_IOC_RESIZE_FS, &raw const blocks) };
    if result < 0 {
        return Err(Refused::system("EXT4_IOC_RESIZE_FS", &point)(std::io::Error::last_os_error()));
    }
    Ok(())
}

/// As much of a label as ext4 holds, in whole characters.
fn cut(label: &str) -> &str {
    let end = (0..=LABEL_BYTES_MAX.min(label.len())).rev().find(|&end| label.is_char_boundary(end));
    &label[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut("exactly sixteen!"), "exactly sixteen!");
        assert_eq!(cut("a very long name of a drive"), "a very long name");
        assert_eq!(cut("fünfzehn bytes ä"), "fünfzehn bytes ");
    }
}
