//! Asks the kernel about the things that a caller hands over or names.

use super::not_yours;
use super::owner::disk;
use super::place;
use crate::Refused;
use crate::mountinfo::{self, FuseUser, Mount};
use crate::procfs::{self, Process};
use holdall_kernel::loopdev;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{Gid, Uid};
use rustix::thread::{capabilities, set_capabilities, set_keep_capabilities};
use std::io;
use std::path::{Path, PathBuf};

/// Checks that the open file is a one-file disk of the caller's, under exactly the name that was given. The disk itself is not asked: its
/// daemon may never answer.
pub(super) fn one_file_disk(file: &OwnedFd, backing: &Path, caller: u32) -> Result<FuseUser, Refused> {
    let name = name_of(file).map_err(Refused::system("readlink", backing))?;
    let mounts = mountinfo::read()?;
    let (mount, user) = disk(backing, &mounts).ok_or_else(|| not_yours(backing))?;
    let is_it = name == backing && mountinfo::mount_of(file.as_fd()) == Some(mount.id);
    if is_it && user.uid == caller { Ok(user) } else { Err(not_yours(backing)) }
}

/// Checks that the file under the open loop device lies on that mount. Its name alone proves little: a user may have mounted a disk over a
/// directory of their own in which a file of that name has a loop device of root's.
pub(super) fn is_on(device: &OwnedFd, path: &Path, mount: &Mount, user: FuseUser) -> Result<(), Refused> {
    // Ask in the user's name, on another thread: this one stays root.
    let asked = || become_it(user).and_then(|()| loopdev::file_system_of(device));
    let said = std::thread::scope(|scope| scope.spawn(asked).join().expect("what asks does not panic"));
    match said {
        Ok(number) if number == (mount.number.major, mount.number.minor) => Ok(()),
        // A disk whose daemon is gone no longer answers. Another user's disk says EACCES, and a file that is no disk answers with its own
        // file system.
        Err(Errno::NOTCONN | Errno::CONNABORTED) => Ok(()),
        Ok(_) | Err(Errno::ACCESS) => Err(not_yours(path)),
        Err(Errno::NXIO) => Err(Refused::NotOurs { what: path.to_owned() }),
        Err(errno) => Err(Refused::system("LOOP_GET_STATUS64", path)(errno)),
    }
}

/// Checks that the open directory is the caller's, and on a file system for files.
pub(super) fn own_directory(directory: &OwnedFd, caller: u32) -> Result<(), Refused> {
    let path = name_of(directory).unwrap_or_default();
    let facts = rustix::fs::fstat(directory).map_err(Refused::system("fstat", &path))?;
    let is_directory = rustix::fs::FileType::from_raw_mode(facts.st_mode).is_dir();
    if !is_directory || facts.st_uid != caller {
        return Err(not_yours(&path));
    }
    let kind = procfs::kind_of(directory).map_err(Refused::system("fstatfs", &path))?;
    if place::may_be_on(kind) { Ok(()) } else { Err(Refused::Unfit { what: path, kind }) }
}

/// Checks for a connected end of a socket pair, or of a Unix socket: the kernel's nbd client should talk to nothing else.
pub(super) fn is_stream(fd: &OwnedFd) -> bool {
    sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(fd) == Ok(SocketType::STREAM)
}

/// The path of what is open, as the kernel prints it.
pub(super) fn name_of(fd: &OwnedFd) -> io::Result<PathBuf> {
    Process::own()?.link(format!("fd/{}", fd.as_raw_fd()))
}

/// Turns this process into the user's, with root's capabilities. It has one thread, and one operation to do.
pub(super) fn become_user(user: FuseUser, backing: &Path) -> Result<(), Refused> {
    become_it(user).map_err(Refused::system("setresuid", backing))
}

/// The same for the calling thread.
fn become_it(user: FuseUser) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let sets = capabilities(None)?;
    set_keep_capabilities(true)?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    // The capabilities stay permitted, but have to be made effective again.
    set_capabilities(None, sets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceNumber;
    use std::fs::File;

    #[test]
    fn mounts_only_on_the_callers_own_directory() {
        let directory = tempfile::tempdir().unwrap();
        let facts = rustix::fs::stat(directory.path()).unwrap();
        let opened = OwnedFd::from(File::open(directory.path()).unwrap());
        assert_eq!(own_directory(&opened, facts.st_uid), Ok(()));
        assert!(matches!(own_directory(&opened, facts.st_uid + 1), Err(Refused::NotYours { .. })));
        let file = OwnedFd::from(File::create(directory.path().join("file")).unwrap());
        assert!(matches!(own_directory(&file, facts.st_uid), Err(Refused::NotYours { .. })));
    }

    /// They belong to their user, but programs that look there expect the kernel's word.
    #[test]
    fn refuses_to_mount_on_proc_and_cgroup_directories() {
        let opened = |path: &str| OwnedFd::from(File::open(path).unwrap());
        for path in ["/proc/self", "/proc/self/task", "/proc/thread-self/fdinfo", "/sys/kernel"] {
            let (directory, caller) = (opened(path), rustix::fs::stat(path).unwrap().st_uid);
            let refused = own_directory(&directory, caller);
            assert!(matches!(refused, Err(Refused::Unfit { .. })), "{path}: {refused:?}");
        }
    }

    /// Root's device over a file in a user's directory stays root's, even when the user mounts a disk over that directory.
    #[test]
    fn a_devices_owner_comes_from_its_file_system_not_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("disk")).unwrap();
        file.set_len(1 << 20).unwrap();
        let losetup = |arguments: &[&std::ffi::OsStr]| {
            let output = std::process::Command::new("/sbin/losetup").args(arguments).output().unwrap();
            assert!(output.status.success(), "wants root and loop: {output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let path = losetup(&["--find".as_ref(), "--show".as_ref(), directory.path().join("disk").as_ref()]);
        let path = Path::new(&path);
        let device = OwnedFd::from(File::open(path).unwrap());
        let user = FuseUser { uid: 1000, gid: 1000 };
        let on = |major, minor| {
            let (number, point) = (DeviceNumber { major, minor }, directory.path().to_owned());
            let mount = Mount { id: 1, number, point, fs_type: "fuse.holdall".into(), fuse_user: Some(user) };
            is_on(&device, path, &mount, user)
        };
        let number = rustix::fs::fstat(&file).unwrap().st_dev;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let (there, elsewhere) = (on(major, minor), on(major, minor + 1));
        drop(device);
        losetup(&["--detach".as_ref(), path.as_ref()]);
        assert_eq!(there, Ok(()));
        assert!(matches!(elsewhere, Err(Refused::NotYours { .. })), "{elsewhere:?}");
        // Asking changed nobody else's rights.
        assert!(rustix::process::geteuid().is_root());
    }

    /// The decision is about the directory that was opened, wherever its name leads by then.
    #[test]
    fn an_opened_directory_stays_itself_when_replaced_by_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mine");
        std::fs::create_dir(&path).unwrap();
        let caller = rustix::fs::stat(&path).unwrap().st_uid;
        let opened = OwnedFd::from(File::open(&path).unwrap());
        std::fs::rename(&path, directory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("/etc", &path).unwrap();
        assert_eq!(own_directory(&opened, caller), Ok(()));
        // A directory opened through a link is the link's target.
        let led = OwnedFd::from(File::open(&path).unwrap());
        assert!(matches!(own_directory(&led, caller + 1), Err(Refused::NotYours { .. })));
    }
}
