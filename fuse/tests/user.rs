//! An ordinary user's daemon with root's loop device. Alone in its binary, since it lives in its own mount namespace, where
//! /dev/fuse is open to all users, as a distribution's udev sets it up.

#![allow(clippy::unwrap_used, reason = "a failure is the test's failure")]

mod support;

use holdall_kernel::loopdev::{self, LoopError};
use rustix::fs::{FileType, Mode};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use support::child::Program;
use support::{Bench, example, require};

const NOBODY: u32 = 65534;

fn own_namespace(bench: &Bench) {
    // SAFETY: this gives the thread its own namespace and working directory, and touches no memory.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    let node = bench.path("fuse");
    let device = rustix::fs::makedev(10, 229);
    rustix::fs::mknodat(rustix::fs::CWD, &node, FileType::CharacterDevice, Mode::empty(), device).unwrap();
    std::fs::set_permissions(&node, Permissions::from_mode(0o666)).unwrap();
    mount_bind(&node, "/dev/fuse").unwrap();
}

#[test]
fn root_cannot_make_a_loop_device_over_a_users_disk() {
    require(&[("fusermount3", "fuse3"), ("setpriv", "util-linux")]);
    let bench = Bench::new();
    own_namespace(&bench);
    let (file, program) = (bench.path("disk-of-nobody/file"), bench.path("serve_file"));
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    File::create(&file).unwrap().set_len(16 << 20).unwrap();
    std::fs::copy(example("serve_file"), &program).unwrap();
    std::fs::set_permissions(bench.path(""), Permissions::from_mode(0o755)).unwrap();
    for path in [&file, file.parent().unwrap(), &bench.disk()] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let disk = bench.disk();
    let [program, file, disk] = [&program, &file, &disk].map(|path| path.to_str().unwrap());
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", program, "mount", file, disk];
    let setpriv = std::path::Path::new("/usr/bin/setpriv");

    let mut daemon = Program::start(setpriv, &user);
    assert!(matches!(
        loopdev::attach_path(&bench.file(), false),
        Err(LoopError::System { call: "open", .. })
    ));
    assert_eq!(daemon.ask("unmount"), "unmounted");
    daemon.finished();
    bench.assert_nothing_left();
}
