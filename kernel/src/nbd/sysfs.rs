//! The state of NBD devices in /sys.

use super::{DeviceIndex, KernelError};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sysfs counts sizes in sectors of 512 bytes, whatever the device's block size.
const SECTOR_BYTES: u64 = 512;

/// An attached device, whoever attached it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedDevice {
    /// Its index.
    pub index: DeviceIndex,
    /// Its size.
    pub size_bytes: u64,
    /// The identifier given at attach; `None` for devices attached without one, and on kernels before 5.14.
    pub identifier: Option<String>,
}

/// Whether the kernel has NBD at this moment, built in or as a loaded module. If not, it may still be loadable.
pub fn is_loaded() -> bool {
    Path::new("/sys/module/nbd").exists()
}

/// All attached devices, in the order of their numbers.
pub fn attached_devices() -> io::Result<Vec<AttachedDevice>> {
    let mut devices = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("nbd")).and_then(|n| n.parse().ok());
        let Some(index) = number.map(DeviceIndex) else {
            continue;
        };
        // Only an attached device has this file. A device that goes away meanwhile is not attached.
        if !directory(index).join("pid").exists() {
            continue;
        }
        let Ok(size_bytes) = size_bytes(index) else {
            continue;
        };
        let identifier = fs::read_to_string(directory(index).join("backend")).ok();
        let identifier = identifier.map(|text| text.trim_end_matches('\n').to_owned());
        let identifier = identifier.filter(|text| !text.is_empty());
        devices.push(AttachedDevice { index, size_bytes, identifier });
    }
    devices.sort_by_key(|device| device.index);
    Ok(devices)
}

pub(super) fn size_bytes(index: DeviceIndex) -> io::Result<u64> {
    let text = fs::read_to_string(directory(index).join("size"))?;
    let sectors: u64 = text.trim().parse().map_err(io::Error::other)?;
    Ok(sectors.saturating_mul(SECTOR_BYTES))
}

/// Waits until the device shows its size and has its node in /dev. The kernel's answer to CONNECT comes before udev has seen the device.
pub(super) fn wait_for_size(index: DeviceIndex, size: u64, limit: Duration) -> Result<(), KernelError> {
    let deadline = Instant::now() + limit;
    // Sysfs has no way to wait for a size, so poll.
    const LOOK_EVERY: Duration = Duration::from_millis(2);
    loop {
        if matches!(size_bytes(index), Ok(shown) if shown == size) && index.path().exists() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(KernelError::NotReady(index.0));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

pub(super) fn set_io_timeout(index: DeviceIndex, timeout: Duration) -> io::Result<()> {
    fs::write(directory(index).join("queue/io_timeout"), timeout.as_millis().to_string())
}

fn directory(index: DeviceIndex) -> PathBuf {
    format!("/sys/block/nbd{}", index.0).into()
}
