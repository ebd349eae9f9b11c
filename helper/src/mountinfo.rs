//! What is mounted where, according to /proc/thread-self/mountinfo (proc_pid_mountinfo(5)). No path is touched: on a mount whose daemon is
//! gone or stuck even a stat would fail, or wait forever.

use super::procfs::Process;
use super::{DeviceNumber, Refused};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its id, as in fdinfo's `mnt_id`.
    pub id: u64,
    /// The device that is mounted.
    pub number: DeviceNumber,
    /// Where.
    pub point: PathBuf,
    /// Its type.
    pub fs_type: String,
    /// For a FUSE file system, the user who mounted it, as the kernel has it. Nobody else may use it unless it says so.
    pub fuse_user: Option<FuseUser>,
}

/// The user who mounted a FUSE file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuseUser {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// All mounts that this process sees, in the order in which they were made.
pub fn read() -> Result<Vec<Mount>, Refused> {
    let own = Process::own().and_then(|own| of(&own));
    own.map_err(Refused::system("read", Path::new("/proc/thread-self/mountinfo")))
}

/// All mounts that a process sees, in the order in which they were made.
pub(super) fn of(process: &Process) -> io::Result<Vec<Mount>> {
    let text = process.read("mountinfo")?;
    Ok(text.split(|&byte| byte == b'\n').filter_map(parse).collect())
}

/// The mount that is visible at `point`: the last one there.
pub fn at<'a>(mounts: &'a [Mount], point: &Path) -> Option<&'a Mount> {
    mounts.iter().rev().find(|mount| mount.point == point)
}

/// The id of the mount on which something is open.
pub fn mount_of(fd: impl AsRawFd) -> Option<u64> {
    let facts = Process::own().ok()?.read(format!("fdinfo/{}", fd.as_raw_fd())).ok()?;
    id_in(&facts)
}

/// The mount id in a file of fdinfo.
pub(super) fn id_in(facts: &[u8]) -> Option<u64> {
    let facts = std::str::from_utf8(facts).ok()?;
    facts.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Whether looking at `path` asks only this computer's own disks. It must not ask another drive of ours, which may wait for us (nbd, loop),
/// nor FUSE or the network.
pub fn is_safe_to_look_at(mounts: &[Mount], path: &Path) -> bool {
    const LOOP_MAJOR: u32 = 7;
    const NBD_MAJOR: u32 = 43;
    const REMOTE: [&str; 6] = ["fuse", "nfs", "cifs", "smb", "9p", "ceph"];
    let parent = path.parent().unwrap_or(path);
    // The last of the deepest: a later mount at the same place covers an earlier one.
    let covering = mounts.iter().filter(|mount| parent.starts_with(&mount.point));
    let deepest = covering.max_by_key(|mount| mount.point.components().count());
    deepest.is_some_and(|mount| {
        let remote = REMOTE.iter().any(|kind| mount.fs_type.starts_with(kind));
        !remote && ![LOOP_MAJOR, NBD_MAJOR].contains(&mount.number.major)
    })
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let text = |field: &[u8]| std::str::from_utf8(field).ok().map(str::to_owned);
    let id = text(fields.next()?)?.parse().ok()?;
    let number = text(fields.nth(1)?)?.parse().ok()?;
    let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mut fields = fields.skip_while(|field| *field != b"-");
    let fs_type = text(fields.nth(1)?)?;
    // The options follow the source.
    let options = fields.nth(1).and_then(text).unwrap_or_default();
    let fuse_user = if fs_type.starts_with("fuse") { fuse_user(&options) } else { None };
    Some(Mount { id, number, point, fs_type, fuse_user })
}

fn fuse_user(options: &str) -> Option<FuseUser> {
    let number = |name: &str| {
        let value = options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))?;
        value.parse().ok()
    };
    Some(FuseUser { uid: number("user_id")?, gid: number("group_id")? })
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = (byte == b'\\').then(|| tail.get(..3)).flatten();
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_read_with_their_escapes() {
        let line = br"36 35 7:17 / /mnt/a\040b\134 rw,noatime shared:1 - ext4 /dev/loop17 rw";
        let mount = parse(line).unwrap();
        assert_eq!((mount.id, mount.number), (36, DeviceNumber { major: 7, minor: 17 }));
        assert_eq!((mount.point.to_str(), mount.fs_type.as_str()), (Some("/mnt/a b\\"), "ext4"));
        let root = parse(br"1 0 8:1 / / rw - ext4 /dev/sda1 rw").unwrap();
        let mounts = [root, mount];
        assert!(is_safe_to_look_at(&mounts, Path::new("/mnt/a b\\")), "it is on the root");
        assert!(!is_safe_to_look_at(&mounts, Path::new("/mnt/a b\\/inner")));
        let disk =
            br"40 35 0:52 / /run/d rw,nosuid - fuse.holdall holdall rw,user_id=1000,group_id=7,max_read=9";
        assert_eq!(parse(disk).unwrap().fuse_user, Some(FuseUser { uid: 1000, gid: 7 }));
        let ext4 = br"40 35 8:1 / /x rw - ext4 /dev/sda1 rw,user_id=1000,group_id=7";
        assert_eq!(parse(ext4).unwrap().fuse_user, None);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 2 3 4 5"), None);
    }
}
