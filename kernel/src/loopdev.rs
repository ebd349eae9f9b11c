//! Loop devices over a one-file disk. Each function takes paths or descriptors and needs nothing from the daemon, so that it can run in the
//! process that has the privileges.
//!
//! The order of steps: mount the one-file disk, [`attach`], use, unmount what is on it, [`detach`], unmount the one-file disk. A crash
//! between any two steps leaves a loop device that [`over`] finds by its backing file; nothing is left hidden.
//!
//! Source: drivers/block/loop.c and include/uapi/linux/loop.h.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

mod ioctl;

/// The logical block size is a drive's block. A smaller write would become a read, a change and a write under a lock.
pub const BLOCK_BYTES: u32 = 4096;

/// How far the kernel reads ahead of a sequential reader: two FUSE reads of the largest size, which two threads serve at once. With the
/// default of 128 KiB the two task switches of a request would come four times as often. The engine sees the stream, and decides what else
/// to fetch from the store ahead of it.
pub const READ_AHEAD_BYTES: u64 = 1 << 20;

/// How often we look for another free device: others (udev, other losetups) take free devices too.
const RACES_LIMIT: u32 = 32;

/// How often a detach checks whether the device is gone: it waits for others (udev's blkid) to close it.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// The unit of sizes in sysfs, whatever the device's own sectors are.
const SECTOR_BYTES: u64 = 512;

/// Why a loop device could not be attached, detached or found.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// Others took each free device before we configured it.
    #[error("no loop device stayed free for long enough to be taken")]
    Contended,
    /// The kernel does not use direct I/O on this file. Everything would be cached twice, and a flush would not guarantee what it should.
    #[error("{0} does not do direct I/O on its file")]
    NotDirect(PathBuf),
    /// The kernel did not get the file's size. It asks in this process's name, and a user's mount answers nobody else, even if that user
    /// opened the descriptor and handed it over.
    #[error("{0} has no size: its file was mounted by another user")]
    NoSize(PathBuf),
    /// A file system on it is mounted.
    #[error("{device} is mounted at {mountpoint}")]
    Mounted {
        /// The device.
        device: PathBuf,
        /// Its mount point.
        mountpoint: PathBuf,
    },
    /// It was detached, but stays until its last user closes it, which did not happen in time.
    #[error("{0} is still open in another process")]
    StillOpen(PathBuf),
    /// A system call failed.
    #[error("{call} on {path}: {error}")]
    System {
        /// Which call.
        call: &'static str,
        /// The path it was made on.
        path: PathBuf,
        /// Its error.
        error: io::Error,
    },
}

/// Attaches a free loop device to the open file `backing`, with direct I/O and 4096-byte blocks, and returns its path. `read_only` must
/// match how `backing` was opened.
pub fn attach(backing: BorrowedFd<'_>, read_only: bool) -> Result<PathBuf, LoopError> {
    let control = open(Path::new("/dev/loop-control"), OFlags::RDWR)?;
    for _ in 0..RACES_LIMIT {
        let number = ioctl::get_free(&control).map_err(system("LOOP_CTL_GET_FREE", "/dev/loop-control"))?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open(&path, if read_only { OFlags::RDONLY } else { OFlags::RDWR })?;
        match ioctl::configure(&device, backing, BLOCK_BYTES, read_only) {
            Err(Errno::BUSY) => continue,
            configured => configured.map_err(system("LOOP_CONFIGURE", &path))?,
        }
        let set_up = check_direct(&path, &device)
            .and_then(|()| check_size(&path))
            .and_then(|()| set_read_ahead(&path, &device, READ_AHEAD_BYTES));
        if let Err(error) = set_up {
            // The device is ours and unused; report the first error.
            let _ = ioctl::clear(&device);
            return Err(error);
        }
        return Ok(path);
    }
    Err(LoopError::Contended)
}

/// Detaches, and proves it: returns when the kernel no longer names a backing file. A device in use is refused, because the kernel would
/// report success and detach it at some later time. If others have it open for a moment, this waits up to `patience` for them. A device
/// that is not attached is no error.
pub fn detach(path: &Path, patience: Duration) -> Result<(), LoopError> {
    detach_open(path, open(path, OFlags::RDONLY)?, patience)
}

/// The same for a device over `backing`. A device over another file, which has got the number since, is left alone; that is no error
/// either. While the device is open here its number cannot be reused.
pub fn detach_from(path: &Path, backing: &Path, patience: Duration) -> Result<(), LoopError> {
    let device = open(path, OFlags::RDONLY)?;
    if backing_file(path).is_none_or(|file| file != backing) {
        return Ok(());
    }
    detach_open(path, device, patience)
}

fn detach_open(path: &Path, device: OwnedFd, patience: Duration) -> Result<(), LoopError> {
    let identity = rustix::fs::fstat(&device).map_err(system("fstat", path))?.st_rdev;
    if let Some(mountpoint) = mounted_at(identity) {
        return Err(LoopError::Mounted { device: path.to_owned(), mountpoint });
    }
    match ioctl::clear(&device) {
        Err(Errno::NXIO) => return Ok(()),
        cleared => cleared.map_err(system("LOOP_CLR_FD", path))?,
    }
    // Newer kernels detach at the last close, which may be ours.
    drop(device);
    let deadline = Instant::now() + patience;
    while backing_file(path).is_some() {
        if Instant::now() >= deadline {
            return Err(LoopError::StillOpen(path.to_owned()));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// Makes the device take its file's new size, after the drive grew. This needs the file's path, because only a stat of it brings the new
/// size into the kernel.
pub fn resize(path: &Path, backing: &Path) -> Result<u64, LoopError> {
    let size = std::fs::metadata(backing).map_err(system("stat", backing))?.size();
    let device = open(path, OFlags::RDONLY)?;
    ioctl::set_capacity(&device).map_err(system("LOOP_SET_CAPACITY", path))?;
    Ok(size)
}

/// The device's size, as the kernel sees it.
pub fn size_bytes(path: &Path) -> io::Result<u64> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let sectors = std::fs::read_to_string(Path::new("/sys/block").join(name).join("size"))?;
    let sectors: u64 = sectors.trim().parse().map_err(io::Error::other)?;
    Ok(sectors * SECTOR_BYTES)
}

/// The loop devices over `backing`, found by the name that the kernel has for it. The file is not touched, so this works for the file of a
/// dead daemon too.
pub fn over(backing: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let name = entry?.file_name();
        let device = Path::new("/dev").join(&name);
        if name.as_bytes().starts_with(b"loop") && backing_file(&device).is_some_and(|file| file == backing) {
            found.push(device);
        }
    }
    found.sort();
    Ok(found)
}

/// The file under the loop device, if it has one.
pub fn backing_file(device: &Path) -> Option<PathBuf> {
    let path = Path::new("/sys/block").join(device.file_name()?).join("loop/backing_file");
    let mut bytes = std::fs::read(path).ok()?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// The number (major, minor) of the file system on which the device's file lies. The question is asked in this thread's name: EACCES if it
/// is another user's FUSE, ENOTCONN if nobody serves it any longer.
pub fn file_system_of(device: &OwnedFd) -> Result<(u32, u32), Errno> {
    let number = ioctl::backing_device(device)?;
    Ok((rustix::fs::major(number), rustix::fs::minor(number)))
}

/// Sets how far the kernel reads ahead on the device.
pub fn set_read_ahead(path: &Path, device: &OwnedFd, bytes: u64) -> Result<(), LoopError> {
    ioctl::set_read_ahead(device, bytes).map_err(system("BLKRASET", path))
}

fn check_direct(path: &Path, device: &OwnedFd) -> Result<(), LoopError> {
    match ioctl::is_direct(device).map_err(system("LOOP_GET_STATUS64", path))? {
        true => Ok(()),
        false => Err(LoopError::NotDirect(path.to_owned())),
    }
}

fn check_size(path: &Path) -> Result<(), LoopError> {
    let sysfs = Path::new("/sys/block").join(path.file_name().unwrap_or_default()).join("size");
    let sectors = std::fs::read_to_string(&sysfs).map_err(system("read", sysfs))?;
    if sectors.trim() == "0" { Err(LoopError::NoSize(path.to_owned())) } else { Ok(()) }
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, LoopError> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(system("open", path))
}

/// The mount point of a file system on the block device `identity`, as this process sees it.
fn mounted_at(identity: u64) -> Option<PathBuf> {
    let device = format!("{}:{}", rustix::fs::major(identity), rustix::fs::minor(identity));
    let mountinfo = std::fs::read_to_string("/proc/thread-self/mountinfo").ok()?;
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ');
        (fields.nth(2)? == device).then(|| fields.nth(1).map(PathBuf::from)).flatten()
    })
}

fn system<E: Into<io::Error>>(call: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(E) -> LoopError {
    let path = path.into();
    move |error| LoopError::System { call, path, error: error.into() }
}

/// For callers that have a path and no descriptor.
pub fn attach_path(backing: &Path, read_only: bool) -> Result<PathBuf, LoopError> {
    let file = open(backing, if read_only { OFlags::RDONLY } else { OFlags::RDWR })?;
    attach(file.as_fd(), read_only)
}
