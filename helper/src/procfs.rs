//! What the kernel says of processes, read from the kernel and from nowhere else.
//!
//! A process's directory in /proc belongs to its user, and it is only a path. Another file system could lie over it, with a `mountinfo`
//! that says what somebody wrote there and an `ns/mnt` that leads wherever they like. So everything is reached from a directory that is
//! proc's root, across no other mount and through no user's link. A directory that was opened stays that process's, even when its number
//! has been reused.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2, readlinkat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// PROC_SUPER_MAGIC and NSFS_MAGIC in include/uapi/linux/magic.h.
const PROC: u32 = 0x9fa0;
const NAMESPACES: u32 = 0x6e73_6673;

const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const TO_READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// A process, or a thread.
pub(super) struct Process(OwnedFd);

/// All processes that this one sees at this moment, with their numbers.
pub(super) fn processes() -> impl Iterator<Item = (u32, Process)> {
    let names = root().ok().zip(std::fs::read_dir("/proc").ok());
    names.into_iter().flat_map(|(root, names)| {
        let numbers = names.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // Skip one that has ended meanwhile.
        numbers.filter_map(move |pid: u32| Some((pid, Process::at(&root, &pid.to_string()).ok()?)))
    })
}

/// proc's own root directory.
fn root() -> Result<OwnedFd, Errno> {
    let root = openat(CWD, "/proc", PLACE, Mode::empty())?;
    if kind_of(&root)? == PROC { Ok(root) } else { Err(Errno::NODEV) }
}

/// The magic number of the file system on which something lies.
pub(super) fn kind_of(fd: impl AsFd) -> Result<u32, Errno> {
    // The field is as wide as the processor's word, but only 32 bits count.
    fstatfs(fd).map(|facts| facts.f_type as u32)
}

impl Process {
    /// This thread's own entry.
    pub(super) fn own() -> io::Result<Self> {
        // proc's own link to one of its directories.
        Ok(Process::at(&root()?, "thread-self")?)
    }

    fn at(root: &OwnedFd, name: &str) -> Result<Self, Errno> {
        let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
        openat2(root, name, PLACE, Mode::empty(), within).map(Process)
    }

    /// The contents of one of its files.
    pub(super) fn read(&self, file: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::from(self.open(file.as_ref(), TO_READ)?).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in one of its directories.
    pub(super) fn names(&self, directory: &str) -> io::Result<Vec<PathBuf>> {
        let entries = Dir::new(self.open(Path::new(directory), TO_READ | OFlags::DIRECTORY)?)?;
        let names = entries.flatten().map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
        Ok(names.map(PathBuf::from).collect())
    }

    /// Where one of its links leads, as the kernel prints it: nothing is followed.
    pub(super) fn link(&self, link: impl AsRef<Path>) -> io::Result<PathBuf> {
        let (directory, name) = self.parent_of(link.as_ref())?;
        let target = readlinkat(directory.as_ref().unwrap_or(&self.0), name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Its mount namespace.
    pub(super) fn mount_namespace(&self) -> io::Result<OwnedFd> {
        let directory = self.open(Path::new("ns"), PLACE)?;
        let namespace = openat(&directory, "mnt", TO_READ, Mode::empty())?;
        // The link is the kernel's own, and its target is not a path at all.
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

    /// A program that runs until it is dropped.
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

    /// A user could mount such a file system over the directory of their own process.
    #[test]
    fn a_mount_over_a_process_directory_is_not_believed() {
        let other = Other(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap());
        // In another namespace, to which the fake directory has a link.
        let elsewhere = Other(Command::new("unshare").args(["--mount", "sleep", "600"]).spawn().unwrap());
        let (pid, led_to) = (other.0.id(), elsewhere.0.id());
        let look = move || {
            // SAFETY: only this thread changes, and it ends with the test.
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
