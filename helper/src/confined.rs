//! Runs the distribution's tools that read what a store says: e2fsck, mkfs.ext4 and resize2fs.
//!
//! A hostile store can put any bytes into a file system, and these tools parse all of them. So they run as the drive's user, without
//! capabilities, and see one block device, the drive's. A defect in them then costs no more than the drive itself.
//!
//! The tools open their device by its path, and an open descriptor does not help: opening `/proc/self/fd/N` of a block device checks the
//! rights again, and a user has none. So the tool gets its own mount namespace with a file system in memory, and in that a node of the
//! device that everybody may open. Nobody else sees that namespace, and it ends with the tool, however the tool ends. The other mounts
//! there follow those outside: an unmount outside does not have to wait for the tool.

use super::{DeviceNumber, Refused, Target};
use rustix::fs::{CWD, FileType, Mode, chmod, makedev, mknodat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Gid, Signal, Uid, set_parent_process_death_signal};
use rustix::thread::{
    UnshareFlags, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user that runs tools for root's daemon.
const NOBODY: u32 = 65534;
/// Directories that every distribution has and no tool reads: the node's file system covers one of them.
const PLACES: [&str; 3] = ["/mnt", "/media", "/srv"];
/// The node's name.
const NODE: &str = "drive";

/// One device, one user.
pub(super) struct Confined {
    number: DeviceNumber,
    place: PathBuf,
    user: Uid,
}

impl Confined {
    /// Prepares a tool for the target. It runs as `caller`, or as nobody for root's daemon.
    pub(super) fn new(target: &Target, caller: Option<u32>) -> Result<Self, Refused> {
        let place = PLACES.iter().map(Path::new).find(|place| place.is_dir());
        let place = place.ok_or_else(|| {
            Refused::system("find a directory to mount on", Path::new(PLACES[0]))(io::Error::from(
                Errno::NOENT,
            ))
        })?;
        let user = Uid::from_raw(caller.filter(|caller| *caller != 0).unwrap_or(NOBODY));
        Ok(Confined { number: target.number()?, place: place.to_owned(), user })
    }

    /// The path by which the tool has the device.
    pub(super) fn node(&self) -> PathBuf {
        self.place.join(NODE)
    }

    /// Makes the command run confined, and end with this process.
    pub(super) fn confine(self, command: &mut Command) {
        let c_string =
            |path: &Path| CString::new(path.as_os_str().as_bytes()).expect("a path of ours has no NUL");
        let (place, node) = (c_string(&self.place), c_string(&self.node()));
        let device = makedev(self.number.major, self.number.minor);
        let user = self.user;
        let set_up = move || -> Result<(), Errno> {
            // SAFETY: it separates the mounts of the process that is about to become the tool, which has one thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
            mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
            // Alone among all mounts, this one allows devices (no nodev).
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
            mount(c"holdall", &place, c"tmpfs", flags, Some(c"size=64k,nr_inodes=16,mode=0755"))?;
            mknodat(CWD, &node, FileType::BlockDevice, Mode::from_raw_mode(0o666), device)?;
            // Sets the mode whatever the umask is.
            chmod(&node, Mode::from_raw_mode(0o666))?;
            set_no_new_privs(true)?;
            let group = Gid::from_raw(NOBODY);
            set_thread_groups(&[])?;
            set_thread_res_gid(group, group, group)?;
            // All capabilities go with the last of root's ids.
            set_thread_res_uid(user, user, user)?;
            // Changing ids clears this signal, so it is set last.
            set_parent_process_death_signal(Some(Signal::KILL))
        };
        // SAFETY: between fork and exec only async-signal-safe code may run: these are system calls on values made before the fork.
        unsafe {
            command.pre_exec(move || Ok(set_up()?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Proof;
    use holdall_kernel::loopdev;
    use std::process::Stdio;
    use std::time::Duration;

    const USER: u32 = 4242;

    struct Loop(PathBuf);

    impl Loop {
        fn over(file: &Path) -> Self {
            std::fs::write(file, vec![b'x'; 1 << 20]).unwrap();
            Loop(loopdev::attach_path(file, false).unwrap())
        }

        fn target(&self, file: &Path) -> Target {
            Target { device: self.0.clone(), proof: Proof::Backing(file.to_owned()) }
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = loopdev::detach(&self.0, Duration::from_secs(10));
        }
    }

    fn run(target: &Target, caller: Option<u32>, script: &str) -> String {
        let confined = Confined::new(target, caller).unwrap();
        let node = confined.node();
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(node).stdin(Stdio::null());
        confined.confine(&mut command);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[test]
    fn a_tool_runs_as_the_user_and_has_one_device() {
        assert!(rustix::process::geteuid().is_root(), "only root can become another user");
        let directory = tempfile::tempdir().unwrap();
        let (file, other) = (directory.path().join("drive"), directory.path().join("other"));
        let (ours, others) = (Loop::over(&file), Loop::over(&other));
        let target = ours.target(&file);
        assert_eq!(run(&target, Some(USER), "id -u; id -G"), format!("{USER}\n{NOBODY}"));
        assert_eq!(run(&target, None, "id -u"), NOBODY.to_string(), "root's daemon too");
        assert_eq!(run(&target, Some(0), "id -u"), NOBODY.to_string());
        let rights = "grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/self/status | tr -d '\\t\\n'";
        let none = "0".repeat(16);
        assert_eq!(run(&target, Some(USER), rights), format!("CapPrm:{none}CapEff:{none}NoNewPrivs:1"));
        // The tool can read and write the drive, but only by its node.
        assert_eq!(run(&target, Some(USER), "head -c 3 $0"), "xxx");
        assert_eq!(run(&target, Some(USER), "printf yy 1<>$0 && head -c 3 $0"), "yyx");
        for device in [&ours.0, &others.0] {
            let script = format!("head -c 3 {} 2>&1 >&- | grep -c denied", device.display());
            assert_eq!(run(&target, Some(USER), &script), "1", "{}", device.display());
        }
        // None of it is visible outside.
        let node = Confined::new(&target, None).unwrap().node();
        assert!(!node.exists());
    }
}
