//! Mounts and unmounts a FUSE connection: with mount(2) as root, otherwise through the setuid fusermount3.
//!
//! Nothing here touches a path below the mount point or stats the mount itself: on a mount whose daemon is gone or stuck that would fail,
//! or wait forever. /proc/thread-self/mountinfo says what is mounted.

use crate::handover::receive_fd;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The type that a one-file disk's mount has in /proc/thread-self/mountinfo.
pub use holdall_kernel::DISK_FS_TYPE as FS_TYPE;

/// What a mount is like.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// Its type, `fuse.` included.
    pub fs_type: &'static str,
    /// What is mounted, for people. Without comma or backslash.
    pub source: &'a str,
    /// The kernel asks for at most so many bytes at a time; `None`: as its first exchange with us says.
    pub max_read: Option<u32>,
    /// The kernel refuses changes.
    pub read_only: bool,
    /// Other users may use it, as far as permission bits let them.
    pub allow_other: bool,
}

impl Shape<'_> {
    fn subtype(&self) -> &'static str {
        self.fs_type.strip_prefix("fuse.").expect("our types are subtypes of fuse")
    }

    /// The options that mount(2) and fusermount3 both know.
    fn options(&self) -> String {
        let mut options = String::from("default_permissions");
        if let Some(max_read) = self.max_read {
            options.push_str(&format!(",max_read={max_read}"));
        }
        if self.allow_other {
            options.push_str(",allow_other");
        }
        options
    }
}

/// A fresh connection, whose INIT is not answered yet.
#[derive(Debug)]
pub struct Mounted {
    /// /dev/fuse, bound to the mount.
    pub fd: OwnedFd,
    /// The mount point, without symbolic links.
    pub mountpoint: PathBuf,
}

/// Why a mount, or an unmount, failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A program still has the file or the directory open, for example a loop device or a shell.
    #[error("{0} is in use")]
    Busy(PathBuf),
    /// Mount points travel in handovers as text.
    #[error("{0} is not valid UTF-8")]
    NotUtf8(PathBuf),
    /// A Holdall mount is there already, perhaps that of a dead daemon (see [`clean_up`]).
    #[error("something is mounted at {0} already")]
    AlreadyMounted(PathBuf),
    /// The setuid helper is missing.
    #[error("fusermount3 is not installed; it is in the package fuse3")]
    NoFusermount,
    /// The setuid helper refused.
    #[error("fusermount3: {0}")]
    Fusermount(String),
    /// A system call failed.
    #[error("{call}: {error}")]
    System {
        /// Which call.
        call: &'static str,
        /// Its error.
        error: io::Error,
    },
}

impl MountError {
    pub(crate) fn system(call: &'static str, error: impl Into<io::Error>) -> Self {
        MountError::System { call, error: error.into() }
    }
}

/// Mounts a new connection for a one-file disk at `dir`. The kernel asks for at most `max_read` bytes at a time.
pub fn mount(dir: &Path, max_read: u32) -> Result<Mounted, MountError> {
    let shape = Shape {
        fs_type: FS_TYPE,
        source: "holdall",
        max_read: Some(max_read),
        read_only: false,
        allow_other: false,
    };
    mount_as(dir, &shape)
}

/// Mounts a new connection at `dir`, nosuid and nodev. The kernel checks permissions.
pub fn mount_as(dir: &Path, shape: &Shape<'_>) -> Result<Mounted, MountError> {
    if connection_of(dir, shape.fs_type).is_some() {
        return Err(MountError::AlreadyMounted(dir.to_owned()));
    }
    let mountpoint = std::fs::canonicalize(dir).map_err(|error| MountError::system("realpath", error))?;
    if mountpoint.to_str().is_none() {
        return Err(MountError::NotUtf8(mountpoint));
    }
    let fd = if rustix::process::geteuid().is_root() {
        mount_as_root(&mountpoint, shape)?
    } else {
        mount_as_user(&mountpoint, shape)?
    };
    Ok(Mounted { fd, mountpoint })
}

/// Unmounts. If a file there is open, this is [`MountError::Busy`].
pub fn unmount(mountpoint: &Path) -> Result<(), MountError> {
    if !rustix::process::geteuid().is_root() {
        return fusermount(&["-u".into(), "--".into(), mountpoint.into()], mountpoint);
    }
    match rustix::mount::unmount(mountpoint, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::BUSY) => Err(MountError::Busy(mountpoint.to_owned())),
        Err(error) => Err(MountError::system("umount", error)),
    }
}

/// Removes the mount at `dir`, if it is ours: the rest of a daemon that died without a keeper. Programs that still use it get errors, as
/// they do already. Call it after the loop devices over it were detached.
pub fn clean_up(dir: &Path) -> Result<(), MountError> {
    clean_up_as(dir, FS_TYPE)
}

/// The same for a mount of that type.
pub fn clean_up_as(dir: &Path, fs_type: &str) -> Result<(), MountError> {
    match connection_of(dir, fs_type) {
        Some(_) => detach(dir),
        None => Ok(()),
    }
}

/// Unmounts lazily: the mount disappears at once, and its connection ends when its last user has closed it.
pub(crate) fn detach(dir: &Path) -> Result<(), MountError> {
    if !rustix::process::geteuid().is_root() {
        return fusermount(&["-u".into(), "-z".into(), "--".into(), dir.into()], dir);
    }
    let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
    rustix::mount::unmount(dir, flags).map_err(|error| MountError::system("umount", error))
}

/// Ends the connection at `dir`, if its requests stay unanswered (a keeper holds it and no daemon comes): everything that waits gets an
/// error at once. Root only; the mount itself stays, for [`clean_up`].
pub fn abort(dir: &Path) -> Result<(), MountError> {
    // The forced unmount aborts the connection before it notices that the mount is in use.
    match rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW | UnmountFlags::FORCE) {
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(error) => Err(MountError::system("umount -f", error)),
    }
}

/// Ends a connection by fusectl, which its user may do too: everything that waits gets an error at once.
pub(crate) fn abort_connection(connection: u32) -> io::Result<()> {
    std::fs::write(format!("/sys/fs/fuse/connections/{connection}/abort"), "1")
}

/// The number under /sys/fs/fuse/connections of the one-file disk at `dir`, if there is one.
pub fn connection_at(dir: &Path) -> Option<u32> {
    connection_of(dir, FS_TYPE)
}

/// The number of the connection that is mounted at `dir` with that type.
pub fn connection_of(dir: &Path, fs_type: &str) -> Option<u32> {
    let absolute = std::path::absolute(dir).ok()?;
    let mountinfo = std::fs::read("/proc/thread-self/mountinfo").ok()?;
    mountinfo.split(|&byte| byte == b'\n').filter_map(parse_mountinfo).find_map(|mount| {
        (mount.point == absolute && mount.fs_type == fs_type.as_bytes()).then_some(mount.device_minor)
    })
}

struct MountInfo<'a> {
    device_minor: u32,
    point: PathBuf,
    fs_type: &'a [u8],
}

/// One line of mountinfo (proc_pid_mountinfo(5)).
fn parse_mountinfo(line: &[u8]) -> Option<MountInfo<'_>> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let device_minor = device.split_once(':')?.1.parse().ok()?;
    let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(MountInfo { device_minor, point, fs_type })
}

/// Undoes mountinfo's octal escapes of space, tab, newline and backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| tail.get(..3)).flatten();
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

fn mount_as_root(mountpoint: &Path, shape: &Shape<'_>) -> Result<OwnedFd, MountError> {
    let fd = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| MountError::system("opening /dev/fuse", error))?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut data = format!("fd={},rootmode=40000,user_id={uid},group_id={gid}", fd.as_raw_fd());
    data.push_str(&format!(",{}", shape.options()));
    let data = CString::new(data).expect("options without a NUL");
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    flags.set(MountFlags::RDONLY, shape.read_only);
    rustix::mount::mount(shape.source, mountpoint, shape.fs_type, flags, Some(data.as_c_str()))
        .map_err(|error| MountError::system("mount", error))?;
    Ok(fd)
}

/// fusermount3 mounts, and sends the descriptor back over a socket whose number it finds in its environment (fuse3's util/fusermount.c).
/// The socket is its standard input, so that nothing has to be done between fork and exec.
fn mount_as_user(mountpoint: &Path, shape: &Shape<'_>) -> Result<OwnedFd, MountError> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| MountError::system("socketpair", error))?;
    let (source, subtype, access) =
        (shape.source, shape.subtype(), if shape.read_only { "ro" } else { "rw" });
    let options = shape.options();
    let options = format!("fsname={source},subtype={subtype},{access},nosuid,nodev,noatime,{options}");
    let child = Command::new("fusermount3")
        .args(["-o", &options, "--"])
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(spawn_error)?;
    // fusermount3's end of the socket closes when it exits, so this wait ends.
    let received = receive_fd(&ours, &mut [0]);
    let output = child.wait_with_output().map_err(|error| MountError::system("wait", error))?;
    match received {
        Ok((_, Some(fd))) if output.status.success() => Ok(fd),
        _ => Err(MountError::Fusermount(said_by(&output))),
    }
}

fn fusermount(args: &[OsString], mountpoint: &Path) -> Result<(), MountError> {
    let output = Command::new("fusermount3").args(args).stdin(Stdio::null()).output().map_err(spawn_error)?;
    if output.status.success() {
        return Ok(());
    }
    // The exit status does not distinguish a busy mount; the text of umount(2)'s error, which fusermount3 prints, does.
    if output.stderr.windows(4).any(|word| word.eq_ignore_ascii_case(b"busy")) {
        return Err(MountError::Busy(mountpoint.to_owned()));
    }
    Err(MountError::Fusermount(said_by(&output)))
}

/// The program's output, without its own name in front.
fn said_by(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.trim().trim_start_matches("fusermount3: ").to_owned()
}

fn spawn_error(error: io::Error) -> MountError {
    match error.kind() {
        io::ErrorKind::NotFound => MountError::NoFusermount,
        _ => MountError::system("starting fusermount3", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_escapes_are_decoded() {
        let line = br"36 35 98:17 / /mnt/a\040b\134 rw,noatime shared:1 - fuse.holdall holdall rw,user_id=0";
        let mount = parse_mountinfo(line).unwrap();
        assert_eq!((mount.device_minor, mount.fs_type), (17, FS_TYPE.as_bytes()));
        assert_eq!(mount.point, Path::new("/mnt/a b\\"));
        assert!(parse_mountinfo(b"").is_none());
        assert!(parse_mountinfo(b"1 2 3 4 5").is_none());
    }
}
