//! The loop driver's ioctls (include/uapi/linux/loop.h), each as a function that cannot be misused.

use rustix::io::{Errno, Result};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const LOOP_CLR_FD: libc::Ioctl = 0x4c01;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
const LOOP_SET_CAPACITY: libc::Ioctl = 0x4c07;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const BLKRASET: libc::Ioctl = 0x1262;

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Info>() == 232 && size_of::<Config>() == 304);

impl Info {
    const ZERO: Info = Info {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// The number of a device that is free at this moment; if there is none, the kernel makes one.
pub(super) fn get_free(control: &OwnedFd) -> Result<u32> {
    // SAFETY: takes no argument.
    check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) }).map(|number| number as u32)
}

/// Binds the device to the file. EBUSY if somebody else was faster.
pub(super) fn configure(
    device: &OwnedFd,
    backing: BorrowedFd<'_>,
    block_bytes: u32,
    read_only: bool,
) -> Result<()> {
    let flags = LO_FLAGS_DIRECT_IO | if read_only { LO_FLAGS_READ_ONLY } else { 0 };
    let info = Info { flags, ..Info::ZERO };
    let fd = backing.as_raw_fd().cast_unsigned();
    let config = Config { fd, block_size: block_bytes, info, reserved: [0; 8] };
    // SAFETY: the kernel reads one loop_config.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &config) }).map(drop)
}

/// Unbinds the device, now or at its last close. ENXIO if it has no file.
pub(super) fn clear(device: &OwnedFd) -> Result<()> {
    // SAFETY: takes no argument.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) }).map(drop)
}

/// Takes the file's current size.
pub(super) fn set_capacity(device: &OwnedFd) -> Result<()> {
    // SAFETY: takes no argument.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_CAPACITY) }).map(drop)
}

/// Whether the device uses direct I/O; where the kernel cannot, it silently ignores the flag.
pub(super) fn is_direct(device: &OwnedFd) -> Result<bool> {
    Ok(status(device)?.flags & LO_FLAGS_DIRECT_IO != 0)
}

/// The device number of the file system on which the device's file lies. This asks that file system, in this thread's name.
pub(super) fn backing_device(device: &OwnedFd) -> Result<u64> {
    Ok(status(device)?.device)
}

fn status(device: &OwnedFd) -> Result<Info> {
    let mut info = Info::ZERO;
    // SAFETY: the kernel writes one loop_info64.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) })?;
    Ok(info)
}

/// Sets the block device's readahead.
pub(super) fn set_read_ahead(device: &OwnedFd, bytes: u64) -> Result<()> {
    let sectors = libc::c_ulong::try_from(bytes / 512).map_err(|_| Errno::INVAL)?;
    // SAFETY: the argument is a number, not a pointer.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKRASET, sectors) }).map(drop)
}

fn check(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(result)
}
