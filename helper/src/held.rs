//! Holds a block device, so that its number stays its own: the kernel does not reuse a number that is in use.

use super::{Refused, Target};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long a device may take to open. The first open reads the partition table, and a device that nobody serves answers nothing until it
/// is detached.
const OPENING_PATIENCE: Duration = Duration::from_secs(2);

/// A device that is open or being opened. It is in use from the start of that first read, which ends only when the device is detached.
#[derive(Debug)]
pub(super) struct Held {
    _device: Option<OwnedFd>,
    // Receives the device if it opens later.
    _opening: Option<Receiver<Result<OwnedFd, Errno>>>,
}

impl Held {
    /// Holds the target's device, whether or not a daemon still serves it.
    pub(super) fn of(target: &Target) -> Result<Self, Refused> {
        let (done, opening) = channel();
        let path = target.device.clone();
        // Opening may wait for a device that hangs. This thread must not, so another one opens; it ends with the process, or the device.
        std::thread::spawn(move || done.send(open(&path)));
        let device = match opening.recv_timeout(OPENING_PATIENCE) {
            Ok(opened) => Some(opened.map_err(Refused::system("open", &target.device))?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("what opens it says how that went"),
        };
        // The device is still the drive's, and stays so.
        target.verify()?;
        Ok(Held { _device: device, _opening: Some(opening) })
    }
}

impl From<OwnedFd> for Held {
    fn from(device: OwnedFd) -> Self {
        Held { _device: Some(device), _opening: None }
    }
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let device = rustix::fs::open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&device)?.st_mode);
    if kind.is_block_device() { Ok(device) } else { Err(Errno::NOTBLK) }
}
