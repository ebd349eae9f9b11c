//! FUSE passthrough: local files that the kernel reads and writes by itself in place of a file of a FUSE mount (Linux 6.9,
//! include/uapi/linux/fuse.h). Both calls need CAP_SYS_ADMIN.
//!
//! The kernel does the I/O with the credentials of the process that registers, and opens the file again with the flags of the program that
//! reads or writes. So register descriptors that are open for reading only: one that is open for writing would count as a writer of the
//! file for as long as it is registered, and no lease on the file could say that nobody writes any more.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const FUSE_DEV_IOC_BACKING_OPEN: libc::Ioctl = 0x4010_e501;
const FUSE_DEV_IOC_BACKING_CLOSE: libc::Ioctl = 0x4004_e502;

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

const _: () = assert!(size_of::<BackingMap>() == 16);

/// Registers `file` with the connection of `device`, an open /dev/fuse. Returns its backing id there.
pub fn register(device: BorrowedFd<'_>, file: BorrowedFd<'_>) -> io::Result<u32> {
    let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
    // SAFETY: the kernel reads `map` during the call; both descriptors are open.
    let id = unsafe { libc::ioctl(device.as_raw_fd(), FUSE_DEV_IOC_BACKING_OPEN, &raw const map) };
    u32::try_from(id).map_err(|_| io::Error::last_os_error())
}

/// Ends a registration. Files that are open by it stay so.
pub fn unregister(device: BorrowedFd<'_>, id: u32) -> io::Result<()> {
    // SAFETY: the kernel reads `id` during the call.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), FUSE_DEV_IOC_BACKING_CLOSE, &raw const id) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
