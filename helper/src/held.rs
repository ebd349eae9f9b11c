//! A block device that is kept from becoming another one: a number that is in use is given to nobody else.

use super::{Refused, Target};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long a device may take to open. Whoever opens one first reads its partition table, and one that nobody serves any more
/// answers nothing until it is detached.
const OPENING_PATIENCE: Duration = Duration::from_secs(2);

/// A device that is open, or that is being opened: it is in use from before that reading on, and what ends the reading is that it is
/// detached.
#[derive(Debug)]
pub(super) struct Held {
    _device: Option<OwnedFd>,
    // What opens later is kept in there.
    _opening: Option<Receiver<Result<OwnedFd, Errno>>>,
}

impl Held {
    /// Holds the device that the target is, whether or not somebody serves it.
    pub(super) fn of(target: &Target) -> Result<Self, Refused> {
        let (done, opening) = channel();
        let path = target.device.clone();
        // It may wait for a device that hangs, as a thread can and this one must not; it ends with the process, or the device.
        std::thread::spawn(move || done.send(open(&path)));
        let device = match opening.recv_timeout(OPENING_PATIENCE) {
            Ok(opened) => Some(opened.map_err(Refused::system("open", &target.device))?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("what opens it says how that went"),
        };
        // It is still the drive's, and stays so.
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
