//! What may be registered for passthrough, and with which mount.

use super::evidence::{name_of, own_directory};
use super::not_yours;
use crate::mountinfo::{self, Mount};
use crate::procfs::Process;
use crate::{DeviceNumber, Refused};
use holdall_kernel::FOLDER_FS_TYPE;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, major, minor};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs,
};
use std::path::Path;

/// /dev/fuse, in include/uapi/linux/miscdevice.h.
const FUSE: DeviceNumber = DeviceNumber { major: 10, minor: 229 };

/// A folder whose files this process registers.
#[derive(Debug)]
pub(crate) struct Folder {
    pub device: OwnedFd,
    pub directory: OwnedFd,
}

/// Admits the mount and the directory of a folder of the caller's, and makes this process the caller's, with the one capability that
/// registering takes. It has one thread.
pub(crate) fn pass_through(mountpoint: &Path, fds: Vec<OwnedFd>, caller: u32) -> Result<Folder, Refused> {
    let [device, directory] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| Refused::NoDescriptor)?;
    own_directory(&directory, caller)?;
    let mounts = mountinfo::read()?;
    let mount = own_mount(mountpoint, &mounts, caller).ok_or_else(|| not_yours(mountpoint))?;
    is_connection_of(&device, mount)?;
    let gid = mount.fuse_user.map_or(caller, |user| user.gid);
    keep_one_capability(caller, gid).map_err(Refused::system("capset", mountpoint))?;
    Ok(Folder { device, directory })
}

fn own_mount<'a>(mountpoint: &Path, mounts: &'a [Mount], caller: u32) -> Option<&'a Mount> {
    let mount = mountinfo::at(mounts, mountpoint)?;
    let is_own = mount.fs_type == FOLDER_FS_TYPE && mount.fuse_user.is_some_and(|user| user.uid == caller);
    is_own.then_some(mount)
}

/// Checks that the descriptor is /dev/fuse and, where the kernel says so (Linux 6.16), of that mount.
fn is_connection_of(device: &OwnedFd, mount: &Mount) -> Result<(), Refused> {
    let facts = fstat(device).map_err(Refused::system("fstat", &mount.point))?;
    let number = DeviceNumber { major: major(facts.st_rdev), minor: minor(facts.st_rdev) };
    if !FileType::from_raw_mode(facts.st_mode).is_char_device() || number != FUSE {
        return Err(not_yours(&mount.point));
    }
    let said = Process::own().and_then(|own| own.read(format!("fdinfo/{}", device.as_raw_fd())));
    match connection_in(&said.map_err(Refused::system("read", &mount.point))?) {
        Some(connection) if connection != mount.number.minor => Err(not_yours(&mount.point)),
        Some(_) | None => Ok(()),
    }
}

/// The number of the connection in a file of fdinfo.
fn connection_in(facts: &[u8]) -> Option<u32> {
    let facts = std::str::from_utf8(facts).ok()?;
    facts.lines().find_map(|line| line.strip_prefix("fuse_connection:"))?.trim().parse().ok()
}

/// Admits a file: open for reading only, regular, the caller's, and in the folder's directory. The kernel would write it for the caller
/// even where the descriptor could not, so that it is the caller's is what matters.
pub(crate) fn file_of(file: &OwnedFd, directory: &OwnedFd, caller: u32) -> Result<(), Refused> {
    let path = name_of(file).unwrap_or_default();
    let facts = fstat(file).map_err(Refused::system("fstat", &path))?;
    let flags = fcntl_getfl(file).map_err(Refused::system("fcntl", &path))?;
    let is_to_read = flags & OFlags::RWMODE == OFlags::RDONLY && !flags.contains(OFlags::PATH);
    let is_within = name_of(directory).is_ok_and(|directory| path.starts_with(directory));
    let is_file = FileType::from_raw_mode(facts.st_mode).is_file();
    if is_file && facts.st_uid == caller && is_to_read && is_within { Ok(()) } else { Err(not_yours(&path)) }
}

fn keep_one_capability(uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    for (_, capability) in CapabilitySet::all().difference(CapabilitySet::SYS_ADMIN).iter_names() {
        match remove_capability_from_bounding_set(capability) {
            // A kernel without it.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    set_keep_capabilities(true)?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    let (only, none) = (CapabilitySet::SYS_ADMIN, CapabilitySet::empty());
    set_capabilities(None, CapabilitySets { effective: only, permitted: only, inheritable: none })?;
    set_no_new_privs(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountinfo::FuseUser;
    use std::fs::File;

    fn opened(path: &Path) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    #[test]
    fn only_the_callers_own_files_in_the_folder_are_registered() {
        let root = tempfile::tempdir().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| root.path().join(name));
        for directory in [&inside, &outside] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("file"), "").unwrap();
        }
        let (directory, file) = (opened(&inside), inside.join("file"));
        let caller = fstat(&directory).unwrap().st_uid;
        assert_eq!(file_of(&opened(&file), &directory, caller), Ok(()));
        let refused = |file: OwnedFd, caller| {
            assert!(matches!(file_of(&file, &directory, caller), Err(Refused::NotYours { .. })));
        };
        refused(opened(&file), caller + 1);
        refused(opened(&outside.join("file")), caller);
        refused(opened(&inside), caller);
        refused(File::options().read(true).write(true).open(&file).unwrap().into(), caller);
        let by_path = rustix::fs::open(&file, OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        refused(by_path, caller);
        // A link in the folder leads to a file that is not in it.
        std::os::unix::fs::symlink(outside.join("file"), inside.join("link")).unwrap();
        refused(opened(&inside.join("link")), caller);
        // One that was removed while it was open is still the folder's.
        let removed = opened(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(file_of(&removed, &directory, caller), Ok(()));
    }

    #[test]
    fn only_the_callers_own_folder_is_served() {
        let mount = |fs_type: &str, uid| Mount {
            id: 1,
            number: DeviceNumber { major: 0, minor: 50 },
            point: "/m".into(),
            fs_type: fs_type.into(),
            fuse_user: Some(FuseUser { uid, gid: uid }),
        };
        let is_own = |mounts: &[Mount]| own_mount(Path::new("/m"), mounts, 1000).is_some();
        assert!(is_own(&[mount(FOLDER_FS_TYPE, 1000)]));
        assert!(!is_own(&[mount(FOLDER_FS_TYPE, 0)]));
        assert!(!is_own(&[mount("fuse.sshfs", 1000)]));
        assert!(!is_own(&[mount(FOLDER_FS_TYPE, 1000), mount(FOLDER_FS_TYPE, 1001)]), "the last is seen");
        assert!(!is_own(&[]));
    }

    #[test]
    fn a_connection_is_known_by_its_number() {
        assert_eq!(connection_in(b"pos:\t0\nmnt_id:\t30\nfuse_connection:\t57\n"), Some(57));
        assert_eq!(connection_in(b"pos:\t0\n"), None);
        let null = opened(Path::new("/dev/null"));
        let mount = mountinfo::read().unwrap().remove(0);
        assert!(matches!(is_connection_of(&null, &mount), Err(Refused::NotYours { .. })));
    }
}
