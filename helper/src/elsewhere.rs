//! Finds the same file system in other mount namespaces.
//!
//! A container or a sandbox that was started while a drive was mounted may have a copy of the mount. An unmount here also unmounts the
//! copies that follow ours (shared and slave ones: mount_namespaces(7)). A private copy keeps the file system alive, and with it the
//! device: it could not be detached for as long as the container runs.
//!
//! Namespaces are found through the processes in them. A namespace that only a file keeps is not seen.

use super::DeviceNumber;
use super::mountinfo::{self, Mount};
use super::procfs::{self, Process};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The mounts of one device in another namespace.
pub(super) struct Elsewhere {
    namespace: OwnedFd,
    /// As the processes there see them.
    pub mounts: Vec<Mount>,
    /// All that is mounted there.
    pub all: Vec<Mount>,
}

/// Where else `number` is mounted, as far as this process may see; root sees everything.
pub(super) fn find(number: DeviceNumber) -> Vec<Elsewhere> {
    let ours = Process::own().ok().and_then(|own| namespace(&own));
    let mut seen: BTreeSet<PathBuf> = ours.into_iter().collect();
    let mut found = Vec::new();
    for (_, process) in procfs::processes() {
        let is_new = namespace(&process).is_some_and(|namespace| seen.insert(namespace));
        found.extend(is_new.then(|| look(&process, number)).flatten());
    }
    found
}

fn namespace(process: &Process) -> Option<PathBuf> {
    process.link("ns/mnt").ok()
}

/// None where the device is not mounted; a process that ends meanwhile is no error.
fn look(process: &Process, number: DeviceNumber) -> Option<Elsewhere> {
    let namespace = process.mount_namespace().ok()?;
    let all = mountinfo::of(process).ok()?;
    let mounts: Vec<_> = all.iter().filter(|mount| mount.number == number).cloned().collect();
    (!mounts.is_empty()).then_some(Elsewhere { namespace, mounts, all })
}

impl Elsewhere {
    /// Does `work` in that namespace, on a thread of its own: this thread stays in its own.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T, Errno> + Send) -> Result<T, Errno> {
        let entered = || {
            // SAFETY: this separates the thread's root and working directory from the others', and no descriptors.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
            work()
        };
        std::thread::scope(|scope| scope.spawn(entered).join().expect("what works there does not panic"))
    }
}
