//! A frozen file system, and the process that makes sure it is thawed.
//!
//! The kernel ties a freeze to no process: if the freezer dies, every writer hangs. So the freezing process stays, and thaws on an order,
//! when the time is over, or when the daemon's end of the socket closes, as it does on a kill -9. One process decides, one message after
//! the other. So it is never in doubt whether the order or the clock caused the thaw, and a migration that can no longer allow a thaw calls
//! [`Frozen::hold`] and learns whether it was in time.
//!
//! A freeze that itself hangs is not killed but abandoned: a killed one could still complete, with nobody left to thaw. An abandoned one
//! finds that nobody wants its answer, and thaws.

use super::deputy::Running;
use super::{DeviceNumber, Outcome, PrivilegedError, Refused, Target};
use super::{mountinfo, wire};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const FIFREEZE: libc::Ioctl = 0xc004_5877_u32 as libc::Ioctl;
const FITHAW: libc::Ioctl = 0xc004_5878_u32 as libc::Ioctl;
const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
/// Do not write the journal: what is only in memory is lost.
const SHUTDOWN_NO_LOG_FLUSH: u32 = 2;

const THAW: u8 = b'T';
const HOLD: u8 = b'H';
const SHUT_DOWN: u8 = b'S';

/// How long an order to the process may take. A thaw writes the superblock, through our own daemon.
const ORDER_DEADLINE: Duration = Duration::from_secs(30);

/// Why an order found no freeze, or failed.
#[derive(Debug, thiserror::Error)]
pub enum FreezeEnded {
    /// The time was over, or somebody else thawed it: writes have continued.
    #[error("the file system was thawed before, because its time was over")]
    Expired,
    /// The process failed to do it, or did not answer.
    #[error(transparent)]
    Failed(#[from] PrivilegedError),
}

/// A frozen file system. Dropping it thaws it.
#[derive(Debug)]
pub struct Frozen {
    process: Running,
    target: Target,
    mountpoint: std::path::PathBuf,
}

impl Frozen {
    pub(super) fn new(process: Running, target: Target, mountpoint: std::path::PathBuf) -> Self {
        Frozen { process, target, mountpoint }
    }

    /// Lets writes continue. An error means that they had continued before, and that what should be consistent may not be.
    pub fn thaw(mut self) -> Result<(), FreezeEnded> {
        self.order(THAW)
    }

    /// From now on the clock no longer ends the freeze, only [`thaw`](Self::thaw), [`shut_down`](Self::shut_down) or the end of this
    /// process.
    pub fn hold(&mut self) -> Result<(), FreezeEnded> {
        self.order(HOLD)
    }

    /// Makes every later access fail, drops what was not written back, and thaws. Programs that wait then get their error, and the drive
    /// can be unmounted. The device that gives a drive away does this.
    pub fn shut_down(mut self) -> Result<(), FreezeEnded> {
        self.order(SHUT_DOWN)
    }

    /// The frozen device.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    fn order(&mut self, order: u8) -> Result<(), FreezeEnded> {
        // If the process has gone, it has left an answer that says why.
        let _ = (&self.process.socket).write_all(&[order]);
        match self.process.answer(ORDER_DEADLINE) {
            Ok(_) => Ok(()),
            Err(PrivilegedError::Refused(Refused::NotFrozen { .. })) => Err(FreezeEnded::Expired),
            Err(error) => Err(error.into()),
        }
    }
}

/// The process's part, from the freeze to the thaw.
pub(super) fn serve(socket: &UnixStream, target: &Target, mountpoint: &Path, hold: Duration) {
    let directory = match freeze(target, mountpoint) {
        Ok(directory) => directory,
        // Nobody may be left to hear it.
        Err(error) => return drop(answer(socket, Err(error))),
    };
    let ended = || Refused::NotFrozen { mountpoint: mountpoint.to_owned() };
    if answer(socket, Ok(Outcome::Done)).is_err() || socket.set_read_timeout(Some(hold)).is_err() {
        return drop(thaw_directory(&directory, mountpoint));
    }
    let mut order = [0];
    loop {
        let done = match { socket }.read(&mut order) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(1) if order[0] == HOLD => {
                let held = socket.set_read_timeout(None).map_err(Refused::system("hold", mountpoint));
                if answer(socket, held.map(|()| Outcome::Done)).is_ok() {
                    continue;
                }
                thaw_directory(&directory, mountpoint)
            }
            Ok(1) if order[0] == THAW => thaw_directory(&directory, mountpoint),
            Ok(1) if order[0] == SHUT_DOWN => shut_down_directory(&directory, mountpoint)
                .and_then(|()| thaw_directory(&directory, mountpoint)),
            // The time is over, nobody is left, or the order is unknown.
            _ => thaw_directory(&directory, mountpoint).and(Err(ended())),
        };
        return drop(answer(socket, done.map(|()| Outcome::Done)));
    }
}

fn answer(socket: &UnixStream, answer: Result<Outcome, Refused>) -> io::Result<()> {
    wire::send(socket, &answer, &[])
}

fn freeze(target: &Target, mountpoint: &Path) -> Result<OwnedFd, Refused> {
    let directory = open(target, mountpoint)?;
    // Write most of the data before writers are stopped.
    rustix::fs::syncfs(&directory).map_err(Refused::system("syncfs", mountpoint))?;
    match ioctl(&directory, FIFREEZE, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            Err(Refused::AlreadyFrozen { mountpoint: mountpoint.to_owned() })
        }
        frozen => frozen.map(|()| directory).map_err(Refused::system("FIFREEZE", mountpoint)),
    }
}

fn thaw_directory(directory: &OwnedFd, mountpoint: &Path) -> Result<(), Refused> {
    match ioctl(directory, FITHAW, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            Err(Refused::NotFrozen { mountpoint: mountpoint.to_owned() })
        }
        thawed => thawed.map_err(Refused::system("FITHAW", mountpoint)),
    }
}

fn shut_down_directory(directory: &OwnedFd, mountpoint: &Path) -> Result<(), Refused> {
    ioctl(directory, EXT4_IOC_SHUTDOWN, SHUTDOWN_NO_LOG_FLUSH)
        .map_err(Refused::system("EXT4_IOC_SHUTDOWN", mountpoint))
}

/// Thaws a file system whose freezing process was killed.
pub(super) fn thaw(target: &Target, mountpoint: &Path) -> Result<(), Refused> {
    match thaw_directory(&open(target, mountpoint)?, mountpoint) {
        Err(Refused::NotFrozen { .. }) => Ok(()),
        thawed => thawed,
    }
}

/// Shuts the file system down.
pub(super) fn shut_down(target: &Target, mountpoint: &Path) -> Result<(), Refused> {
    shut_down_directory(&open(target, mountpoint)?, mountpoint)
}

/// The root directory of the target's file system at `mountpoint`.
pub fn open(target: &Target, mountpoint: &Path) -> Result<OwnedFd, Refused> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    target.verify()?;
    let not_ours = || Refused::NotOurs { what: mountpoint.to_owned() };
    // Never open a place where the drive is not mounted. If the place is replaced now, NO_SYMLINKS keeps it from leading elsewhere.
    let mounts = mountinfo::read()?;
    let number = target.number()?;
    mountinfo::at(&mounts, mountpoint).filter(|mount| mount.number == number).ok_or_else(not_ours)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat2(CWD, mountpoint, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(Refused::system("open", mountpoint))?;
    let device = rustix::fs::fstat(&directory).map_err(Refused::system("fstat", mountpoint))?.st_dev;
    let found = DeviceNumber { major: rustix::fs::major(device), minor: rustix::fs::minor(device) };
    // The open directory keeps the device. So either it was the drive's all the time, or it is refused.
    if found == number { target.verify().map(|()| directory) } else { Err(not_ours()) }
}

fn ioctl(directory: &OwnedFd, request: libc::Ioctl, mut argument: u32) -> io::Result<()> {
    // SAFETY: the kernel reads and writes at most one int there.
    let result = unsafe { libc::ioctl(directory.as_raw_fd(), request, &raw mut argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
