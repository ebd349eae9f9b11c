//! A block device, and the proof that it is the drive's.

use super::Refused;
use holdall_kernel::DISK_FILE_NAME;
use holdall_kernel::loopdev;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A block device of ours. The kernel reuses device numbers that we release, so verify the device before acting on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// `/dev/nbdN` or `/dev/loopN`.
    pub device: PathBuf,
    /// What the kernel says of it while it is the drive's.
    pub proof: Proof,
}

/// What the kernel knows of a block device since it was attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// An nbd device's identifier.
    Identifier(String),
    /// A loop device's file.
    Backing(PathBuf),
    /// The one-file disk under a loop device whose mount is gone, as after a lazy unmount. The proof is the number of the disk's file
    /// system, which cannot be reused while the device has the file.
    Unmounted(DeviceNumber),
}

/// The kernel's number of a device, as mountinfo and sysfs print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// Which of the driver's devices.
    pub minor: u32,
}

impl Target {
    /// Refuses a device that is not, or no longer, the drive's.
    pub fn verify(&self) -> Result<(), Refused> {
        // sysfs describes the device of that name in /dev, and no other path that ends in the same name.
        let holds = self.is_device()
            && match &self.proof {
                Proof::Identifier(identifier) => {
                    let said = std::fs::read_to_string(self.sysfs("backend"));
                    said.is_ok_and(|said| said.trim_end_matches('\n') == identifier)
                }
                Proof::Backing(file) => loopdev::backing_file(&self.device).is_some_and(|said| said == *file),
                Proof::Unmounted(number) => self.lies_on(*number),
            };
        if holds { Ok(()) } else { Err(Refused::NotOurs { what: self.device.clone() }) }
    }

    /// Whether the loop device's file is an unmounted disk on that file system. This asks the disk's daemon, in this process's name.
    fn lies_on(&self, number: DeviceNumber) -> bool {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        loopdev::backing_file(&self.device).is_some_and(|said| said == unmounted_file())
            && rustix::fs::open(&self.device, flags, Mode::empty())
                .is_ok_and(|device| loopdev::file_system_of(&device) == Ok((number.major, number.minor)))
    }

    /// Its number, read from sysfs: the device is not opened.
    pub fn number(&self) -> Result<DeviceNumber, Refused> {
        let path = self.sysfs("dev");
        let text = std::fs::read_to_string(&path).map_err(Refused::system("read", &path))?;
        text.trim().parse().map_err(|()| Refused::NotOurs { what: self.device.clone() })
    }

    /// Its current size, read from sysfs.
    pub fn size_bytes(&self) -> Result<u64, Refused> {
        let path = self.sysfs("size");
        let text = std::fs::read_to_string(&path).map_err(Refused::system("read", &path))?;
        // sysfs counts sectors of 512 bytes, whatever the device's block size. If it is no number, the size is zero.
        Ok(text.trim().parse::<u64>().unwrap_or(0).saturating_mul(512))
    }

    /// The number N of `/dev/nbdN`, if it is an nbd device.
    pub fn nbd_index(&self) -> Option<u32> {
        self.name().to_str()?.strip_prefix("nbd")?.parse().ok()
    }

    /// A file in the device's directory in sysfs.
    pub fn sysfs(&self, file: &str) -> PathBuf {
        Path::new("/sys/block").join(self.name()).join(file)
    }

    /// A file in the sysfs directory of its mounted ext4.
    pub fn ext4_sysfs(&self, file: &str) -> PathBuf {
        Path::new("/sys/fs/ext4").join(self.name()).join(file)
    }

    /// Whether it is named like the kernel's nbd and loop devices.
    fn is_device(&self) -> bool {
        let number = self
            .device
            .to_str()
            .and_then(|path| path.strip_prefix("/dev/nbd").or_else(|| path.strip_prefix("/dev/loop")));
        number.is_some_and(|number| {
            !number.is_empty() && number.len() <= 7 && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    }

    fn name(&self) -> &OsStr {
        self.device.file_name().unwrap_or_default()
    }
}

/// The kernel's name for the file of a one-file disk that is mounted nowhere: its path from the disk's own root.
pub(super) fn unmounted_file() -> PathBuf {
    Path::new("/").join(DISK_FILE_NAME)
}

impl FromStr for DeviceNumber {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.split_once(':').ok_or(())?;
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(DeviceNumber { major: number(major)?, minor: number(minor)? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_its_proof_is_refused() {
        let device = PathBuf::from("/dev/loop-none");
        for proof in [Proof::Identifier("holdall:1".into()), Proof::Backing("/run/disk".into())] {
            let target = Target { device: device.clone(), proof };
            assert!(matches!(target.verify(), Err(Refused::NotOurs { .. })));
        }
    }

    #[test]
    fn only_names_of_nbd_and_loop_devices_are_accepted() {
        let named = |device: &str| Target { device: device.into(), proof: Proof::Backing("/".into()) };
        assert!(named("/dev/loop0").is_device() && named("/dev/nbd15").is_device());
        for device in
            ["/dev/loop", "/dev/loop-control", "/dev/sda", "/tmp/loop0", "/dev/../tmp/loop0", "loop0"]
        {
            assert!(!named(device).is_device(), "{device}");
        }
        for device in ["/dev/loop0/", "/dev/loop0/../sda", "/dev/loop+0", "/dev/./loop0"] {
            assert!(!named(device).is_device(), "{device}");
        }
    }

    #[test]
    fn numbers_are_read_as_the_kernel_prints_them() {
        assert_eq!("7:12".parse(), Ok(DeviceNumber { major: 7, minor: 12 }));
        assert_eq!("7".parse::<DeviceNumber>(), Err(()));
        assert_eq!(DeviceNumber { major: 43, minor: 0 }.to_string(), "43:0");
    }
}
