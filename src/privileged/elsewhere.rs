//! The same file system in other mount namespaces.
//!
//! A container or a sandbox that was started while a drive was mounted may have a copy of the mount. An unmount here
//! takes along the copies that follow (shared and slave ones: mount_namespaces(7)); a private copy keeps the file system
//! alive, and with it the device: it could not be detached for as long as the container runs.
//!
//! Namespaces are found by the processes that are in them. One that is only kept by a file is not seen.

use super::DeviceNumber;
use super::mountinfo::{self, Mount};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The mounts of one device in another namespace.
pub(super) struct Elsewhere {
    namespace: OwnedFd,
    /// As the processes there see them.
    pub mounts: Vec<Mount>,
    /// All that is mounted there.
    pub all: Vec<Mount>,
}

/// Where else `number` is mounted, as far as this process may see: root sees all.
pub(super) fn find(number: DeviceNumber) -> Vec<Elsewhere> {
    let mut seen: BTreeSet<OsString> = namespace(Path::new("/proc/thread-self")).into_iter().collect();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found = Vec::new();
    for process in numbers.map(|pid| PathBuf::from(format!("/proc/{pid}"))) {
        let is_new = namespace(&process).is_some_and(|namespace| seen.insert(namespace));
        found.extend(is_new.then(|| look(&process, number)).flatten());
    }
    found
}

fn namespace(process: &Path) -> Option<OsString> {
    Some(std::fs::read_link(process.join("ns/mnt")).ok()?.into_os_string())
}

/// Nothing where the device is not mounted; a process that ends meanwhile is no error.
fn look(process: &Path, number: DeviceNumber) -> Option<Elsewhere> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let namespace = rustix::fs::open(process.join("ns/mnt"), flags, Mode::empty()).ok()?;
    let all = mountinfo::of(process).ok()?;
    let mounts: Vec<_> = all.iter().filter(|mount| mount.number == number).cloned().collect();
    (!mounts.is_empty()).then_some(Elsewhere { namespace, mounts, all })
}

impl Elsewhere {
    /// Does `work` in that namespace, on a thread of its own: this one stays where it is.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T, Errno> + Send) -> Result<T, Errno> {
        let entered = || {
            // SAFETY: this parts the thread's root and working directory from the others', and no descriptors.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
            work()
        };
        std::thread::scope(|scope| scope.spawn(entered).join().expect("what works there does not panic"))
    }
}
