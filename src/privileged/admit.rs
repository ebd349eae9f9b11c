//! What a user may have done to what, where the rights are the helper's and not the user's own.
//!
//! The caller's uid is what the bus says; everything else in a request is a claim. **Whose a device is, the kernel says**,
//! so that nothing has to be remembered that a crash could lose or an upgrade could forget: an nbd device carries the
//! [`Identifier`] that this very code has let through, and under a loop device lies the file of a one-file disk, whose
//! mount carries who mounted it. A user's own mount namespace proves nothing: all of this is read in ours.
//!
//! It is decided in the process that performs the operation, just before it does, by the same rules for the device as for
//! everyone ([`super::Target::verify`]).

use super::mountinfo::{self, FuseUser, Mount};
use super::{DeviceNumber, Identifier, Privileged, Proof, Refused, Target};
use holdall_fuse::mount::FS_TYPE;
use holdall_fuse::{loopdev, onefile};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::process::{Gid, Uid};
use rustix::thread::{capabilities, set_capabilities, set_keep_capabilities};
use std::path::{Path, PathBuf};

/// Refuses what is not `caller`'s. What the kernel asks the caller's own file system for is then asked in the caller's name:
/// FUSE answers nobody else.
pub(super) fn admit(caller: u32, operation: &Privileged, fds: &[OwnedFd]) -> Result<(), Refused> {
    match operation {
        Privileged::LoadNbd => Ok(()),
        Privileged::NbdAttach { identifier, .. } => match identifier.parse() {
            Ok(Identifier { user, .. }) if user == caller => Ok(()),
            Ok(_) | Err(()) => Err(Refused::NotYours { what: identifier.into() }),
        },
        Privileged::LoopAttach { backing, .. } => {
            let disk = one_file_disk(fds.first().ok_or(Refused::NoDescriptor)?, backing, caller)?;
            become_user(disk, backing)
        }
        Privileged::LoopResize { target } => {
            own(target, caller)?;
            let Proof::Backing(backing) = &target.proof else { return Err(not_yours(&target.device)) };
            become_user(mounter(backing)?, backing)
        }
        Privileged::MakeFileSystem { target, uid, .. } => {
            own(target, caller)?;
            if *uid == caller { Ok(()) } else { Err(not_yours(&target.device)) }
        }
        Privileged::Mount { target, .. } => {
            own(target, caller)?;
            own_directory(fds.first().ok_or(Refused::NoDescriptor)?, caller)
        }
        Privileged::Unmount { number, mountpoint, .. } => own_number(*number, mountpoint, caller),
        Privileged::NbdReconfigure { target, .. }
        | Privileged::NbdDetach { target, .. }
        | Privileged::LoopDetach { target }
        | Privileged::Tune { target }
        | Privileged::Probe { target }
        | Privileged::Check { target }
        | Privileged::Freeze { target, .. }
        | Privileged::Thaw { target, .. }
        | Privileged::ShutDown { target, .. }
        | Privileged::GrowUnmounted { target }
        | Privileged::Grow { target } => own(target, caller),
    }
}

fn not_yours(what: &Path) -> Refused {
    Refused::NotYours { what: what.to_owned() }
}

/// The device is what it is said to be, and the caller's.
fn own(target: &Target, caller: u32) -> Result<(), Refused> {
    target.verify()?;
    let owner = match &target.proof {
        Proof::Identifier(identifier) => identifier.parse().ok().map(|identifier: Identifier| identifier.user),
        Proof::Backing(backing) => mounter(backing).ok().map(|user| user.uid),
    };
    if owner == Some(caller) { Ok(()) } else { Err(not_yours(&target.device)) }
}

/// The same of a device that is given by its number: what is to be unmounted has nothing else to be known by.
fn own_number(number: DeviceNumber, mountpoint: &Path, caller: u32) -> Result<(), Refused> {
    // Its directory in /sys/block, by its name: nbd0, loop7.
    let directory = std::fs::read_link(format!("/sys/dev/block/{number}"));
    let name = directory.ok().and_then(|link| Some(link.file_name()?.to_owned()));
    let Some(device) = name.map(|name| Path::new("/dev").join(name)) else {
        return Err(not_yours(mountpoint));
    };
    let identifier = Target { device: device.clone(), proof: Proof::Identifier(String::new()) }.sysfs("backend");
    let proof = match (loopdev::backing_file(&device), std::fs::read_to_string(identifier)) {
        (Some(backing), _) => Proof::Backing(backing),
        (None, Ok(identifier)) => Proof::Identifier(identifier.trim_end_matches('\n').to_owned()),
        (None, Err(_)) => return Err(not_yours(mountpoint)),
    };
    own(&Target { device, proof }, caller)
}

/// Who mounted the one-file disk whose file is `backing`.
fn mounter(backing: &Path) -> Result<FuseUser, Refused> {
    let mounts = mountinfo::read()?;
    let directory = backing.parent().filter(|_| backing.ends_with(onefile::FILE_NAME));
    let mount = directory.and_then(|directory| mountinfo::at(&mounts, directory)).filter(|mount| is_disk(mount));
    mount.and_then(|mount| mount.fuse_user).ok_or_else(|| not_yours(backing))
}

fn is_disk(mount: &Mount) -> bool {
    mount.fs_type == FS_TYPE
}

/// The open file is that of a one-file disk of the caller's, by the very name under which it is given. The disk itself is
/// not asked: who serves it may never answer.
fn one_file_disk(file: &OwnedFd, backing: &Path, caller: u32) -> Result<FuseUser, Refused> {
    let user = mounter(backing)?;
    let descriptor = descriptor(file);
    let name = std::fs::read_link(&descriptor).map_err(Refused::system("readlink", &descriptor))?;
    let mounts = mountinfo::read()?;
    let shown = backing.parent().and_then(|directory| mountinfo::at(&mounts, directory)).map(|mount| mount.id);
    let is_it = name == backing && shown.is_some() && mountinfo::mount_of(file.as_fd()) == shown;
    if is_it && user.uid == caller { Ok(user) } else { Err(not_yours(backing)) }
}

fn descriptor(fd: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

fn own_directory(directory: &OwnedFd, caller: u32) -> Result<(), Refused> {
    let path = descriptor(directory);
    let facts = rustix::fs::fstat(directory).map_err(Refused::system("fstat", &path))?;
    let is_directory = rustix::fs::FileType::from_raw_mode(facts.st_mode).is_dir();
    if is_directory && facts.st_uid == caller {
        return Ok(());
    }
    Err(not_yours(&std::fs::read_link(&path).unwrap_or(path)))
}

/// This process goes on as the user, with root's capabilities. It has one thread, and one operation to do.
fn become_user(user: FuseUser, backing: &Path) -> Result<(), Refused> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let become_it = || {
        let sets = capabilities(None)?;
        set_keep_capabilities(true)?;
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        // They stay permitted, and have to be taken up again.
        set_capabilities(None, sets)
    };
    become_it().map_err(Refused::system("setresuid", backing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const ANN: u32 = 1000;

    fn is_refused(operation: &Privileged, fds: &[OwnedFd]) -> bool {
        matches!(admit(ANN, operation, fds), Err(Refused::NotYours { .. } | Refused::NotOurs { .. }))
    }

    #[test]
    fn an_nbd_device_is_made_under_ones_own_name_only() {
        let attach = |identifier: &str| Privileged::NbdAttach {
            identifier: identifier.to_owned(),
            size_bytes: 4096,
            server_flags: 0,
        };
        let drive = uuid::Uuid::from_u128(1);
        assert_eq!(admit(ANN, &attach(&Identifier { drive, user: ANN }.to_string()), &[]), Ok(()));
        for user in [0, 1001] {
            assert!(is_refused(&attach(&Identifier { drive, user }.to_string()), &[]));
        }
        assert!(is_refused(&attach(&format!("holdall:{drive}")), &[]));
        assert!(is_refused(&attach("something"), &[]));
    }

    #[test]
    fn a_file_that_is_no_one_file_disk_gets_no_loop_device() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(onefile::FILE_NAME);
        let file = OwnedFd::from(File::create(&path).unwrap());
        let attach = Privileged::LoopAttach { backing: path, read_only: false };
        assert!(is_refused(&attach, &[file]));
        assert_eq!(admit(ANN, &attach, &[]), admit(ANN, &attach, &[]));
        assert_eq!(admit(ANN, &attach, &[]), Err(Refused::NoDescriptor));
    }

    #[test]
    fn a_device_that_is_nobodys_and_a_path_that_is_no_device_are_refused() {
        for device in ["/dev/loop999999", "/dev/sda", "/tmp/loop0"] {
            let target = Target { device: device.into(), proof: Proof::Backing("/run/d/disk".into()) };
            assert!(is_refused(&Privileged::LoopDetach { target }, &[]), "{device}");
        }
        let number = DeviceNumber { major: 0, minor: 1 };
        assert!(is_refused(&Privileged::Unmount { number, mountpoint: "/proc".into(), lazy: false }, &[]));
    }

    #[test]
    fn only_ones_own_directory_is_mounted_on() {
        let directory = tempfile::tempdir().unwrap();
        let facts = rustix::fs::stat(directory.path()).unwrap();
        let opened = OwnedFd::from(File::open(directory.path()).unwrap());
        assert_eq!(own_directory(&opened, facts.st_uid), Ok(()));
        assert!(matches!(own_directory(&opened, facts.st_uid + 1), Err(Refused::NotYours { .. })));
        let file = OwnedFd::from(File::create(directory.path().join("file")).unwrap());
        assert!(matches!(own_directory(&file, facts.st_uid), Err(Refused::NotYours { .. })));
    }
}
