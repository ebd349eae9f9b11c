//! What the kernel says of processes, from the kernel and from nowhere else.
//!
//! The directory of a process in /proc has its user for an owner, and is no more than a path: what lies over it could be another
//! file system, whose `mountinfo` says what somebody has written there and whose `ns/mnt` leads where he likes. So all of it is
//! reached from a directory that is proc's root, over no other mount and by no link of anybody's. A directory that was
//! opened stays that process's, also when its number is another's by now.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2, readlinkat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// PROC_SUPER_MAGIC and NSFS_MAGIC of include/uapi/linux/magic.h.
const PROC: u32 = 0x9fa0;
const NAMESPACES: u32 = 0x6e73_6673;

const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const TO_READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// A process, or a thread.
pub(super) struct Process(OwnedFd);

/// All processes of this moment that this one sees, with their numbers.
pub(super) fn processes() -> impl Iterator<Item = (u32, Process)> {
    let names = root().ok().zip(std::fs::read_dir("/proc").ok());
    names.into_iter().flat_map(|(root, names)| {
        let numbers = names.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // One that has ended meanwhile is none.
        numbers.filter_map(move |pid: u32| Some((pid, Process::at(&root, &pid.to_string()).ok()?)))
    })
}

/// proc's own root directory.
fn root() -> Result<OwnedFd, Errno> {
    let root = openat(CWD, "/proc", PLACE, Mode::empty())?;
    if kind_of(&root)? == PROC { Ok(root) } else { Err(Errno::NODEV) }
}

/// The magic number of the file system that something is on.
pub(super) fn kind_of(fd: impl AsFd) -> Result<u32, Errno> {
    // A word as wide as the processor's, of which 32 bits are meant.
    fstatfs(fd).map(|facts| facts.f_type as u32)
}

impl Process {
    /// This thread's.
    pub(super) fn own() -> io::Result<Self> {
        // A link of proc's to a directory of its own.
        Ok(Process::at(&root()?, "thread-self")?)
    }

    fn at(root: &OwnedFd, name: &str) -> Result<Self, Errno> {
        let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
        openat2(root, name, PLACE, Mode::empty(), within).map(Process)
    }

    /// The contents of a file of its.
    pub(super) fn read(&self, file: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::from(self.open(file.as_ref(), TO_READ)?).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in a directory of its.
    pub(super) fn names(&self, directory: &str) -> io::Result<Vec<PathBuf>> {
        let entries = Dir::new(self.open(Path::new(directory), TO_READ | OFlags::DIRECTORY)?)?;
        let names = entries.flatten().map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
        Ok(names.map(PathBuf::from).collect())
    }

    /// Where a link of its leads, as the kernel prints it: nothing is followed.
    pub(super) fn link(&self, link: impl AsRef<Path>) -> io::Result<PathBuf> {
        let (directory, name) = self.parent_of(link.as_ref())?;
        let target = readlinkat(directory.as_ref().unwrap_or(&self.0), name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Its mount namespace.
    pub(super) fn mount_namespace(&self) -> io::Result<OwnedFd> {
        let directory = self.open(Path::new("ns"), PLACE)?;
        let namespace = openat(&directory, "mnt", TO_READ, Mode::empty())?;
        // The link is the kernel's own. What it leads to is no path at all.
        if kind_of(&namespace)? == NAMESPACES { Ok(namespace) } else { Err(Errno::NODEV.into()) }
    }

    fn parent_of<'a>(&self, path: &'a Path) -> io::Result<(Option<OwnedFd>, &'a Path)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let is_here = parent.as_os_str().is_empty();
        let directory = if is_here { None } else { Some(self.open(parent, PLACE)?) };
        Ok((directory, Path::new(name)))
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat2(&self.0, path, flags, Mode::empty(), ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    use std::process::{Child, Command, Stdio};

    /// Something that goes on until it is dropped.
    struct Other(Child);

    impl Drop for Other {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn a_process_is_read_as_its_directory_says() {
        let own = Process::own().unwrap();
        assert_eq!(own.read("comm").unwrap(), std::fs::read("/proc/thread-self/comm").unwrap());
        assert_eq!(own.link("exe").unwrap(), std::env::current_exe().unwrap());
        assert_eq!(own.link("ns/mnt").unwrap(), std::fs::read_link("/proc/thread-self/ns/mnt").unwrap());
        assert!(own.mount_namespace().is_ok() && own.names("fd").unwrap().contains(&"0".into()));
        assert!(processes().any(|(pid, _)| pid == std::process::id()));
        assert!(own.read("cwd/Cargo.toml").is_err(), "nothing is reached by what a process has");
    }

    /// What a user could have mounted over the directory of a process of his.
    #[test]
    fn a_file_system_over_the_directory_of_a_process_is_not_taken_for_it() {
        let other = Other(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap());
        // In another namespace, to which a link leads from there.
        let elsewhere = Other(Command::new("unshare").args(["--mount", "sleep", "600"]).spawn().unwrap());
        let (pid, led_to) = (other.0.id(), elsewhere.0.id());
        let look = move || {
            // SAFETY: of this thread alone, which ends with it.
            unsafe { unshare_unsafe(UnshareFlags::FS | UnshareFlags::NEWNS) }.expect("wants root");
            let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", alone).unwrap();
            let directory = format!("/proc/{pid}");
            mount("none", directory.as_str(), "tmpfs", MountFlags::empty(), None).unwrap();
            let path = |name: &str| Path::new(&directory).join(name);
            std::fs::create_dir(path("ns")).unwrap();
            std::fs::create_dir(path("fdinfo")).unwrap();
            std::os::unix::fs::symlink(format!("/proc/{led_to}/ns/mnt"), path("ns/mnt")).unwrap();
            let forged = "36 35 259:77 / /forged rw - ext4 /dev/forged rw\n";
            std::fs::write(path("mountinfo"), forged).unwrap();
            std::fs::write(path("fdinfo/3"), "mnt_id:\t36\n").unwrap();
            let number = crate::DeviceNumber { major: 259, minor: 77 };
            let mount = crate::mountinfo::Mount {
                id: 36,
                number,
                point: "/forged".into(),
                fs_type: "ext4".into(),
                fuse_user: None,
            };
            let seen = processes().any(|(other, _)| other == pid);
            let found = crate::elsewhere::find(number).len();
            (seen, found, crate::holders::of(&mount, &[]))
        };
        let (seen, found, holders) = std::thread::spawn(look).join().unwrap();
        assert_eq!((seen, found, holders), (false, 0, Vec::new()));
    }
}
