//! Who owns the files of a drive on this computer.
//!
//! ext4 stores numbers, and the same person has another number on the next computer, where the files would belong to somebody else. So the
//! drive is mounted with the two numbers swapped (an id-mapped mount, Linux 5.12): files of the owner of the drive's top directory belong,
//! here, to the user who mounts it, and are written under the owner's number again.

use super::Refused;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, StatxFlags, fstat, statx};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The number of ids that the kernel maps: all but the last, which means none.
const IDS: u64 = u32::MAX as u64;

/// A file's user and group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owner {
    uid: u32,
    gid: u32,
}

/// Gives the files of a drive's owner to `caller`, who owns the directory `at`. The drive is mounted nowhere yet. A kernel that cannot map
/// ids leaves the numbers as they are.
pub(super) fn give_to(mounted: &OwnedFd, caller: Option<u32>, at: BorrowedFd<'_>) -> Result<(), Refused> {
    // Root's own drives keep their numbers: root may do anything with any of them.
    let Some(uid) = caller.filter(|caller| *caller != 0) else { return Ok(()) };
    let refused = Refused::system("map the ids of the mount", Path::new("/"));
    let given = || -> io::Result<()> {
        // Use what mounting has read already: do not ask the drive again.
        let look = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let top = statx(mounted, "", look, StatxFlags::UID | StatxFlags::GID)?;
        let there = Owner { uid: top.stx_uid, gid: top.stx_gid };
        let here = Owner { uid, gid: fstat(at)?.st_gid };
        // If root owns the top directory, root made the drive, or it is somebody else's file system.
        if there == here || there.uid == 0 {
            return Ok(());
        }
        let namespace = namespace(there, here)?;
        match map_ids(mounted.as_fd(), &namespace) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {
                tracing::warn!(%error, "the kernel cannot map ids: files on the drive keep their numbers");
                Ok(())
            }
            mapped => mapped,
        }
    };
    given().map_err(refused)
}

/// Makes a user namespace that stands for the mapping.
fn namespace(there: Owner, here: Owner) -> io::Result<File> {
    let mut child = waiting_child()?;
    let made = (|| {
        let process = format!("/proc/{}", child.id());
        std::fs::write(format!("{process}/uid_map"), exchanged(there.uid, here.uid))?;
        std::fs::write(format!("{process}/gid_map"), exchanged(there.gid, here.gid))?;
        File::open(format!("{process}/ns/user"))
    })();
    let _ = child.kill();
    let _ = child.wait();
    made
}

/// A process in its own user namespace, which waits until it is killed, or until its standard input ends with this process.
fn waiting_child() -> io::Result<Child> {
    let mut command = Command::new("/bin/cat");
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec, one system call, which separates nothing but the user namespace.
    unsafe {
        command.pre_exec(|| Ok(unshare_unsafe(UnshareFlags::NEWUSER)?));
    }
    command.spawn()
}

/// The map, as /proc/PID/uid_map takes it, with `there` and `here` swapped. Each line has the first number on the file system, the first
/// one here, and how many follow.
fn exchanged(there: u32, here: u32) -> String {
    let (low, high) = (u64::from(there.min(here)), u64::from(there.max(here)));
    let same = |from: u64, to: u64| (from, from, to.saturating_sub(from));
    let lines = match low == high {
        true => vec![same(0, IDS)],
        false => vec![same(0, low), (low, high, 1), same(low + 1, high), (high, low, 1), same(high + 1, IDS)],
    };
    let lines = lines.into_iter().filter(|(.., count)| *count > 0);
    lines.map(|(there, here, count)| format!("{there} {here} {count}\n")).collect()
}

/// mount_setattr(2), which rustix does not have.
fn map_ids(mounted: BorrowedFd<'_>, namespace: &File) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: namespace.as_raw_fd() as u64,
    };
    // SAFETY: the path is a C string, the structure is as long as stated, and both live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mounted.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Proof, Target, mounting};
    use holdall_kernel::loopdev;
    use std::os::unix::fs::{MetadataExt, chown};

    /// What a number of the file system maps to.
    fn mapped(map: &str, id: u64) -> Option<u64> {
        map.lines().find_map(|line| {
            let [there, here, count] = line
                .split(' ')
                .map(|number| number.parse::<u64>().unwrap())
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            (there..there + count).contains(&id).then(|| here + id - there)
        })
    }

    #[test]
    fn two_ids_swap_and_all_others_stay() {
        for (there, here) in [(1000, 1001), (1001, 1000), (1000, 65534), (1, 2), (1000, 1000)] {
            let map = exchanged(there, here);
            assert_eq!(mapped(&map, there.into()), Some(here.into()), "{map}");
            assert_eq!(mapped(&map, here.into()), Some(there.into()), "{map}");
            let others = [0, 1, 2, 3, 999, 1002, 65533, 65535, IDS - 1];
            for id in others.into_iter().filter(|id| ![there.into(), here.into()].contains(id)) {
                assert_eq!(mapped(&map, id), Some(id), "{map}");
            }
            assert_eq!(mapped(&map, IDS), None, "it means none");
        }
    }

    #[test]
    fn files_of_the_drives_owner_belong_to_the_mounting_user() {
        assert!(rustix::process::geteuid().is_root(), "only root can mount");
        const OWNER: u32 = 4100;
        const USER: u32 = 4242;
        let directory = tempfile::tempdir().unwrap();
        let [file, mine, others] = ["drive", "mine", "others"].map(|name| directory.path().join(name));
        File::create(&file).unwrap().set_len(16 << 20).unwrap();
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-b", "4096", "-E", &format!("root_owner={OWNER}:{OWNER}")])
            .arg(&file)
            .status();
        assert!(made.unwrap().success());
        let device = loopdev::attach_path(&file, false).unwrap();
        let target = Target { device: device.clone(), proof: Proof::Backing(file) };
        let owner = |path: &Path| {
            let metadata = std::fs::metadata(path).unwrap();
            (metadata.uid(), metadata.gid())
        };
        let mount = |at: &Path, caller| {
            std::fs::create_dir(at).unwrap();
            chown(at, Some(USER), Some(USER)).unwrap();
            mounting::mount(&target, File::open(at).unwrap().as_fd(), false, caller).unwrap();
        };
        let unmount = |at: &Path| mounting::unmount(target.number().unwrap(), at, false).unwrap();
        mount(&mine, Some(USER));
        assert_eq!(owner(&mine), (USER, USER));
        std::fs::write(mine.join("new"), "x").unwrap();
        chown(mine.join("new"), Some(USER), Some(USER)).unwrap();
        unmount(&mine);
        // For its owner and for root, the file keeps the owner's number.
        mount(&others, None);
        assert_eq!(owner(&others.join("new")), (OWNER, OWNER));
        unmount(&others);
        loopdev::detach(&device, std::time::Duration::from_secs(10)).unwrap();
    }
}
