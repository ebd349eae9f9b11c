//! Decides what a user may have done to what, where the helper's rights are used and not the user's own.
//!
//! The caller's uid is what the bus says; everything else in a request is a claim. **The kernel says who owns a device**, so there is no
//! record that a crash could lose or an upgrade could forget. An nbd device carries the [`super::Identifier`] that this code has admitted.
//! Under a loop device lies the file of a one-file disk, and that disk's mount says who mounted it. A user's own mount namespace proves
//! nothing: all of this is read in ours.
//!
//! The decision is made in the process that performs the operation, just before it does, by the same rules for the device as for everyone
//! ([`super::Target::verify`]). **An operation on a device's name runs while the device is held open**: the kernel does not reuse a number
//! that is in use, so no other device can take the place of the one that was checked.

use super::held::Held;
use super::mountinfo::{self, Mount};
use super::{DeviceNumber, Holder, Privileged, Proof, Refused, Target};
use evidence::{become_user, is_on, is_stream, one_file_disk, own_directory};
use holdall_kernel::loopdev;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::path::Path;

mod evidence;
mod folder;
mod owner;
mod place;

pub(super) use folder::{Folder, file_of, pass_through};
use owner::{disk, owner, user_of};

/// The most block devices one user may have: more than the drives a daemon has open, and too few to fill the kernel.
const DEVICES_MAX: usize = 128;

/// Refuses an operation on anything that is not `caller`'s. The caller keeps the returned device until the operation is done. Where the
/// kernel has to ask the caller's own file system, this process acts in the caller's name from now on, because FUSE answers nobody else.
pub(super) fn admit(caller: u32, operation: &Privileged, fds: &[OwnedFd]) -> Result<Option<Held>, Refused> {
    match operation {
        // What is served is admitted where it is served.
        Privileged::LoadNbd | Privileged::PassThrough { .. } => Ok(None),
        Privileged::NbdAttach { identifier, .. } => {
            if user_of(identifier) != Some(caller) {
                return Err(Refused::NotYours { what: identifier.into() });
            }
            streams(fds)?;
            has_room(caller)?;
            Ok(None)
        }
        Privileged::NbdReconfigure { target, .. } => {
            streams(fds)?;
            own(target, caller)?;
            Ok(None)
        }
        Privileged::LoopAttach { backing, .. } => {
            let user = one_file_disk(fds.first().ok_or(Refused::NoDescriptor)?, backing, caller)?;
            has_room(caller)?;
            become_user(user, backing)?;
            Ok(None)
        }
        Privileged::LoopResize { target } => {
            let held = own(target, caller)?;
            let Proof::Backing(backing) = &target.proof else { return Err(not_yours(&target.device)) };
            let mounts = mountinfo::read()?;
            let (_, user) = disk(backing, &mounts).ok_or_else(|| not_yours(backing))?;
            become_user(user, backing)?;
            Ok(held.map(Held::from))
        }
        Privileged::MakeFileSystem { target, uid, .. } if *uid != caller => Err(not_yours(&target.device)),
        Privileged::Mount { target, .. } => {
            own_directory(fds.first().ok_or(Refused::NoDescriptor)?, caller)?;
            let held = hold(target, caller)?;
            // A drive is mounted once, so that no user can fill the system's mount table.
            let (mounts, number) = (mountinfo::read()?, target.number()?);
            let places = mounts.into_iter().filter(|mount| mount.number == number);
            let holders: Vec<_> = places.map(|mount| Holder::Mount { path: mount.point }).collect();
            if holders.is_empty() {
                Ok(held)
            } else {
                Err(Refused::Busy { what: target.device.clone(), holders })
            }
        }
        Privileged::MakeFileSystem { target, .. }
        | Privileged::Probe { target }
        | Privileged::Check { target }
        | Privileged::GrowUnmounted { target }
        | Privileged::Grow { target } => hold(target, caller),
        Privileged::Unmount { number, mountpoint, .. } => own_number(*number, mountpoint, caller).map(Some),
        // A loop device goes away when its last user closes it, so it is not held; the detach checks its name again.
        Privileged::LoopDetach { target } | Privileged::NbdDetach { target, .. } => {
            own(target, caller)?;
            Ok(None)
        }
        // An nbd device is held by the operation itself, or by its mount.
        Privileged::Tune { target }
        | Privileged::Freeze { target, .. }
        | Privileged::Thaw { target, .. }
        | Privileged::ShutDown { target, .. } => Ok(own(target, caller)?.map(Held::from)),
    }
}

fn not_yours(what: &Path) -> Refused {
    Refused::NotYours { what: what.to_owned() }
}

/// The kernel is given no socket but a daemon's.
fn streams(fds: &[OwnedFd]) -> Result<(), Refused> {
    if fds.iter().all(is_stream) { Ok(()) } else { Err(Refused::NoDescriptor) }
}

/// Whether anybody has a device. If this cannot be seen, assume yes.
pub(crate) fn is_anything_attached() -> bool {
    devices(|_| true).map_or(true, |number| number > 0)
}

/// The number of devices of the users that `whose` accepts.
fn devices(whose: impl Fn(u32) -> bool) -> Result<usize, Refused> {
    let directory = Path::new("/sys/block");
    let entries = std::fs::read_dir(directory).map_err(Refused::system("look into", directory))?;
    let proofs = entries.flatten().filter_map(|entry| proof_of(&Path::new("/dev").join(entry.file_name())));
    let mounts = mountinfo::read()?;
    Ok(proofs.filter_map(|proof| owner(&proof, &mounts)).filter(|&user| whose(user)).count())
}

fn has_room(caller: u32) -> Result<(), Refused> {
    if devices(|user| user == caller)? < DEVICES_MAX {
        Ok(())
    } else {
        Err(Refused::TooMany { devices: DEVICES_MAX })
    }
}

/// Checks that the device is the one its proof names, and the caller's. A loop device has to be opened to ask the kernel, and stays open.
fn own(target: &Target, caller: u32) -> Result<Option<OwnedFd>, Refused> {
    target.verify()?;
    match &target.proof {
        Proof::Identifier(identifier) if user_of(identifier) == Some(caller) => Ok(None),
        Proof::Identifier(_) => Err(not_yours(&target.device)),
        // Only its mount said whose it was.
        Proof::Unmounted(_) => Err(not_yours(&target.device)),
        Proof::Backing(backing) => {
            let mounts = mountinfo::read()?;
            let of_caller = disk(backing, &mounts).filter(|(_, user)| user.uid == caller);
            let (mount, user): (&Mount, _) = of_caller.ok_or_else(|| not_yours(&target.device))?;
            let device = open(target)?;
            is_on(&device, &target.device, mount, user)?;
            Ok(Some(device))
        }
    }
}

/// The same, but holds every device open.
fn hold(target: &Target, caller: u32) -> Result<Option<Held>, Refused> {
    let device = match own(target, caller)? {
        Some(device) => device,
        None => open(target)?,
    };
    Ok(Some(device.into()))
}

/// Opens the target's device, and not one that has got its number since.
fn open(target: &Target) -> Result<OwnedFd, Refused> {
    let opened = rustix::fs::open(&target.device, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let device = opened.map_err(Refused::system("open", &target.device))?;
    target.verify().map(|()| device)
}

/// The same as [`own`] for a device given by its number, the only thing an unmount knows it by. The device is held, whether or not a daemon
/// still serves it.
fn own_number(number: DeviceNumber, mountpoint: &Path, caller: u32) -> Result<Held, Refused> {
    // The device's directory in /sys/block has its name: nbd0, loop7.
    let directory = std::fs::read_link(format!("/sys/dev/block/{number}"));
    let name = directory.ok().and_then(|link| Some(link.file_name()?.to_owned()));
    let device = name.map(|name| Path::new("/dev").join(name));
    let target = device.and_then(|device| Some(Target { proof: proof_of(&device)?, device }));
    let target = target.ok_or_else(|| not_yours(mountpoint))?;
    match own(&target, caller)? {
        Some(device) => Ok(device.into()),
        None => Held::of(&target),
    }
}

/// What the kernel says of a device, if it is an nbd or a loop device.
fn proof_of(device: &Path) -> Option<Proof> {
    if let Some(backing) = loopdev::backing_file(device) {
        return Some(Proof::Backing(backing));
    }
    let unknown = Target { device: device.to_owned(), proof: Proof::Identifier(String::new()) };
    let said = std::fs::read_to_string(unknown.sysfs("backend")).ok()?;
    Some(Proof::Identifier(said.trim_end_matches('\n').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identifier;
    use holdall_kernel::DISK_FILE_NAME;
    use std::fs::File;
    use std::os::unix::net::UnixStream;
    use uuid::Uuid;

    const ANN: u32 = 1000;

    fn is_refused(operation: &Privileged, fds: &[OwnedFd]) -> bool {
        matches!(admit(ANN, operation, fds), Err(Refused::NotYours { .. } | Refused::NotOurs { .. }))
    }

    fn attach(identifier: &str) -> Privileged {
        Privileged::NbdAttach { identifier: identifier.to_owned(), size_bytes: 4096, server_flags: 0 }
    }

    #[test]
    fn users_make_nbd_devices_only_in_their_own_name() {
        let drive = Uuid::from_u128(1);
        let sockets = || UnixStream::pair().unwrap().0.into();
        assert!(admit(ANN, &attach(&Identifier { drive, user: ANN }.to_string()), &[sockets()]).is_ok());
        for user in [0, 1001] {
            assert!(is_refused(&attach(&Identifier { drive, user }.to_string()), &[sockets()]));
        }
        assert!(is_refused(&attach(&format!("holdall:{drive}")), &[sockets()]));
        assert!(is_refused(&attach("something"), &[sockets()]));
    }

    #[test]
    fn the_kernel_gets_only_a_daemons_sockets() {
        let mine = attach(&Identifier { drive: Uuid::from_u128(1), user: ANN }.to_string());
        let file = OwnedFd::from(File::open("/dev/null").unwrap());
        let datagram = OwnedFd::from(std::os::unix::net::UnixDatagram::unbound().unwrap());
        let remote = OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        for other in [file, datagram, remote] {
            assert!(matches!(admit(ANN, &mine, &[other]), Err(Refused::NoDescriptor)));
        }
    }

    #[test]
    fn only_one_file_disks_get_loop_devices() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(DISK_FILE_NAME);
        let file = OwnedFd::from(File::create(&path).unwrap());
        let attach = Privileged::LoopAttach { backing: path, read_only: false };
        assert!(is_refused(&attach, &[file]));
        assert!(matches!(admit(ANN, &attach, &[]), Err(Refused::NoDescriptor)));
    }

    #[test]
    fn unowned_devices_and_non_devices_are_refused() {
        for device in ["/dev/loop999999", "/dev/sda", "/tmp/loop0"] {
            let target = Target { device: device.into(), proof: Proof::Backing("/run/d/disk".into()) };
            let (uid, at) = (ANN, OwnedFd::from(File::open("/").unwrap()));
            let label = String::new();
            for operation in [
                Privileged::LoopDetach { target: target.clone() },
                Privileged::NbdDetach { target: target.clone(), force: true },
                Privileged::MakeFileSystem { target: target.clone(), label, uid, gid: uid },
                Privileged::Check { target: target.clone() },
                Privileged::Freeze { target: target.clone(), mountpoint: "/".into(), hold_ms: 1 },
                Privileged::ShutDown { target: target.clone(), mountpoint: "/".into() },
                Privileged::Mount { target: target.clone(), read_only: false },
            ] {
                assert!(is_refused(&operation, std::slice::from_ref(&at)), "{device}: {operation:?}");
            }
        }
        let number = DeviceNumber { major: 0, minor: 1 };
        assert!(is_refused(&Privileged::Unmount { number, mountpoint: "/proc".into(), lazy: false }, &[]));
    }

    #[test]
    fn a_new_file_system_belongs_to_the_caller() {
        let target = Target { device: "/dev/loop0".into(), proof: Proof::Backing("/run/d/disk".into()) };
        let root = Privileged::MakeFileSystem { target, label: String::new(), uid: 0, gid: 0 };
        assert!(is_refused(&root, &[]));
    }
}
