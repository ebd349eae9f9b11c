//! A drive from a device to a mounted file system and back, with loop devices on this computer's kernel, as root.

use crate::bench::{Bench, DRIVE_BYTES, PATIENCE, Writer};
use holdall::api::AttachMode;
use holdall::attach::filesystem::{self, MountOptions};
use holdall::attach::{self, AttachError, Attached, Identity, Unfit};
use holdall_core::device::{BlockDevice, Durability};
use holdall_helper::{Content, FreezeEnded, Holder, Outcome, Privileged, PrivilegedError, Refused};
use holdall_nbd::testing::{MemoryDevice, Policy};
use std::fs;
use std::io::BufRead;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const UID: u32 = 4242;
const GID: u32 = 4343;

fn attach(bench: &Bench, device: &Arc<MemoryDevice>) -> Attached {
    let device: Arc<dyn BlockDevice> = device.clone();
    attach::attach(device, &bench.identity, AttachMode::Loop, &bench.site).unwrap()
}

fn options(bench: &Bench) -> MountOptions {
    MountOptions { at: bench.mountpoint(), read_only: false, uid: UID, gid: GID }
}

#[test]
fn creating_using_and_closing_a_drive_leaves_nothing_behind() {
    let bench = Bench::new();
    let device = MemoryDevice::new(DRIVE_BYTES);
    let mut attached = attach(&bench, &device);
    assert_eq!(attached.mode(), AttachMode::Loop);
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    assert_eq!(mounted.mountpoint(), bench.mountpoint());

    let root = fs::metadata(bench.mountpoint()).unwrap();
    assert_eq!((root.uid(), root.gid()), (UID, GID), "it belongs to who opened it");
    let file = bench.mountpoint().join("letter");
    fs::write(&file, crate::bench::pattern(1)).unwrap();
    mounted.sync(PATIENCE).unwrap();
    let usage = mounted.usage().unwrap();
    assert!(usage.used_bytes > 0 && usage.used_bytes < usage.total_bytes);
    assert!(usage.total_bytes < DRIVE_BYTES && usage.available_bytes < usage.total_bytes);
    mounted.unmount().unwrap();
    assert!(!bench.mountpoint().exists(), "the mount point was made by us");

    // The second time a file system exists, and it is not created again. A directory that existed before stays.
    fs::create_dir(bench.mountpoint()).unwrap();
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    assert_eq!(fs::read(&file).unwrap(), crate::bench::pattern(1));
    mounted.unmount().unwrap();
    assert!(bench.mountpoint().exists());
    fs::remove_dir(bench.mountpoint()).unwrap();
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn concurrent_attaches_and_detaches_keep_the_shared_keeper() {
    let bench = Bench::new();
    let others: [_; 4] = std::array::from_fn(|_| Identity { uuid: Uuid::new_v4(), ..bench.identity.clone() });
    let come_and_go = |identity: &Identity| {
        for _ in 0..10 {
            let device: Arc<dyn BlockDevice> = MemoryDevice::new(DRIVE_BYTES);
            let mut attached = attach::attach(device, identity, AttachMode::Loop, &bench.site).unwrap();
            attached.detach().unwrap();
        }
    };
    let went_well: Vec<_> = std::thread::scope(|scope| {
        let started = others.each_ref().map(|identity| scope.spawn(move || come_and_go(identity)));
        started.map(|thread| thread.join().is_ok()).into()
    });
    // A leftover of a failure would make the test wait forever.
    for (identity, _) in others.iter().zip(&went_well).filter(|(_, well)| !**well) {
        let _ = attach::take_down(identity.uuid, &bench.site);
    }
    assert_eq!(went_well, [true; 4]);
    bench.assert_nothing_left();
}

#[test]
fn mount_options_keep_a_store_from_yielding_root() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.contains(bench.mountpoint().to_str().unwrap())).unwrap();
    for option in ["nosuid", "nodev", "noatime", "errors=remount-ro"] {
        assert!(line.contains(option), "{option} in {line}");
    }
    mounted.unmount().unwrap();
    let read_only = MountOptions { read_only: true, ..options(&bench) };
    let mounted = filesystem::mount(&attached, &read_only).unwrap();
    let refused = fs::write(bench.mountpoint().join("new"), "").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    mounted.unmount().unwrap();
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn makes_no_file_system_over_existing_data() {
    let bench = Bench::new();
    let device = MemoryDevice::new(DRIVE_BYTES);
    let mut attached = attach(&bench, &device);
    let read_only = MountOptions { read_only: true, ..options(&bench) };
    assert!(matches!(filesystem::mount(&attached, &read_only), Err(AttachError::NoFileSystem)));

    let make = Privileged::MakeFileSystem {
        target: attached.target().clone(),
        label: bench.identity.name.clone(),
        uid: UID,
        gid: GID,
    };
    bench.site.deputy.perform(&make, &[], PATIENCE).unwrap();
    let before = device.bytes(0..1 << 20);
    match bench.site.deputy.perform(&make, &[], PATIENCE) {
        Err(PrivilegedError::Refused(Refused::NotBlank { found, .. })) => {
            assert!(found.contains("a drive with a l"), "{found}");
        }
        other => panic!("{other:?}"),
    }
    assert!(device.bytes(0..1 << 20) == before);
    attached.detach().unwrap();

    let device = MemoryDevice::new(DRIVE_BYTES);
    let written = device.write(100 << 10, &[7; 4096], Durability::Ordered);
    bench.runtime.block_on(written.wait()).unwrap();
    let mut attached = attach(&bench, &device);
    assert!(matches!(filesystem::mount(&attached, &options(&bench)), Err(AttachError::Foreign)));
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn a_mount_in_use_names_the_process_that_holds_it() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    let open = fs::File::create(bench.mountpoint().join("open")).unwrap();
    match mounted.unmount() {
        Err(AttachError::Privileged(error @ PrivilegedError::Refused(Refused::Busy { .. }))) => {
            let PrivilegedError::Refused(Refused::Busy { holders, .. }) = &error else { unreachable!() };
            let path = bench.mountpoint().join("open");
            let ours = |holder: &Holder| {
                matches!(holder, Holder::Process { pid, path: held, .. }
                    if *pid == std::process::id() && *held == path)
            };
            assert!(holders.iter().any(ours), "{holders:?}");
            assert!(error.failure().action.contains(&std::process::id().to_string()));
        }
        other => panic!("{other:?}"),
    }
    match attached.detach() {
        Err(AttachError::Privileged(PrivilegedError::Refused(Refused::Busy { holders, .. }))) => {
            assert_eq!(holders, [Holder::Mount { path: bench.mountpoint() }]);
        }
        other => panic!("{other:?}"),
    }
    fs::write(bench.mountpoint().join("still"), "served").unwrap();
    drop(open);
    mounted.unmount().unwrap();
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

/// A process with its own mounts, like a container or a service, copied when it started.
struct Container(std::process::Child);

impl Container {
    /// A process that sees no later mounts of this computer. It prints a line when it is ready, and then waits in `directory`.
    fn start(directory: &std::path::Path) -> Self {
        Self::run("private", "cd \"$0\"", directory)
    }

    /// A process that sees later mounts of this computer but nothing of `directory`, as with systemd's ProtectHome=.
    fn start_without(directory: &std::path::Path) -> Self {
        Self::run("slave", "mount -t tmpfs none \"$0\"", directory)
    }

    fn run(propagation: &str, prepare: &str, directory: &std::path::Path) -> Self {
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "--propagation", propagation, "--", "sh", "-c"]);
        command.arg(format!("{prepare} && echo there && exec sleep 1000"));
        let mut child = command.arg(directory).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "there\n");
        Container(child)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_copied_mount_in_a_container_does_not_block_detaching() {
    let bench = Bench::new();
    let device = MemoryDevice::new(DRIVE_BYTES);
    let mut attached = attach(&bench, &device);
    // A directory that stays: the kernel unmounts everything from a removed directory, everywhere.
    fs::create_dir(bench.mountpoint()).unwrap();
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    let container = Container::start(std::path::Path::new("/"));
    fs::write(bench.mountpoint().join("letter"), crate::bench::pattern(1)).unwrap();
    mounted.unmount().unwrap();
    attached.detach().unwrap();
    let inside = fs::read_to_string(format!("/proc/{}/mountinfo", container.0.id())).unwrap();
    assert!(!inside.contains(bench.mountpoint().to_str().unwrap()), "{inside}");

    // All of it reached the device.
    let mut attached = attach(&bench, &device);
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    assert_eq!(fs::read(bench.mountpoint().join("letter")).unwrap(), crate::bench::pattern(1));
    mounted.unmount().unwrap();
    attached.detach().unwrap();
    fs::remove_dir(bench.mountpoint()).unwrap();
    bench.assert_nothing_left();
}

#[test]
fn a_service_without_the_home_directory_does_not_block_unmounting() {
    let bench = Bench::new();
    let home = bench.path("home");
    fs::create_dir(&home).unwrap();
    // As with all mounts under systemd: mounts below it also appear in every namespace that follows.
    let run = |program: &str, arguments: &[&str]| {
        let status = std::process::Command::new(program).args(arguments).arg(&home).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}");
    };
    run("mount", &["-t", "tmpfs", "none"]);
    run("mount", &["--make-shared"]);
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let at = home.join("drive");
    let mounts_of = |pid: u32| fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    for is_there_first in [true, false] {
        let early = is_there_first.then(|| Container::start_without(&home));
        let mounted =
            filesystem::mount(&attached, &MountOptions { at: at.clone(), ..options(&bench) }).unwrap();
        let service = early.unwrap_or_else(|| Container::start_without(&home));
        assert!(mounts_of(service.0.id()).contains(at.to_str().unwrap()), "it has a copy that nobody sees");
        mounted.unmount().unwrap();
        assert!(!mounts_of(service.0.id()).contains(at.to_str().unwrap()));
    }
    attached.detach().unwrap();
    run("umount", &[]);
    bench.assert_nothing_left();
}

#[test]
fn names_the_container_process_that_keeps_a_drive_busy() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    let container = Container::start(&bench.mountpoint());
    match mounted.unmount() {
        Err(AttachError::Privileged(PrivilegedError::Refused(Refused::Busy { holders, .. }))) => {
            let inside =
                |holder: &Holder| matches!(holder, Holder::Process { pid, .. } if *pid == container.0.id());
            assert!(holders.iter().any(inside), "{holders:?}");
        }
        other => panic!("{other:?}"),
    }
    fs::write(bench.mountpoint().join("still"), "mounted").unwrap();
    drop(container);
    mounted.unmount().unwrap();
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn refuses_an_unfit_mount_point_and_leaves_it_alone() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    fs::create_dir(bench.mountpoint()).unwrap();
    std::os::unix::fs::chown(bench.mountpoint(), Some(UID), None).unwrap();
    let refused = filesystem::mount(&attached, &options(&bench));
    assert!(matches!(refused, Err(AttachError::MountPoint { why: Unfit::NotYours, .. })), "{refused:?}");
    fs::remove_dir(bench.mountpoint()).unwrap();
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn a_freeze_stops_writers_until_the_thaw() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    let writer = Writer::start(&bench.mountpoint().join("records"));
    writer.progress(2);
    let mut frozen = mounted.freeze(PATIENCE).unwrap();
    let other = mounted.freeze(PATIENCE).unwrap_err();
    assert!(matches!(other, PrivilegedError::Refused(Refused::AlreadyFrozen { .. })), "{other}");
    // One record may have been in progress. The next one waits.
    let written = writer.written();
    mounted.usage().unwrap();
    assert!(writer.written() <= written + 1);
    frozen.hold().unwrap();
    frozen.thaw().unwrap();
    writer.progress(2);

    // Without a thaw, the deadline thaws the file system, and a late thaw fails.
    let frozen = mounted.freeze(Duration::from_millis(1)).unwrap();
    writer.progress(2);
    assert!(matches!(frozen.thaw(), Err(FreezeEnded::Expired)));
    // Dropping the freeze thaws it, too.
    drop(mounted.freeze(PATIENCE).unwrap());
    writer.progress(2);
    writer.stop();
    mounted.unmount().unwrap();
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn shutting_down_a_file_system_fails_its_writers_and_unmounts() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    let path = bench.mountpoint().join("late");
    fs::write(&path, "early").unwrap();
    let frozen = mounted.freeze(PATIENCE).unwrap();
    let late = std::thread::spawn(move || {
        let file = fs::File::create(&path)?;
        file.sync_all()
    });
    frozen.shut_down().unwrap();
    assert!(late.join().unwrap().is_err(), "late writers get errors");
    mounted.unmount().unwrap();
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    assert_eq!(fs::read(bench.mountpoint().join("late")).unwrap(), b"early");
    mounted.unmount().unwrap();
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn abandons_a_hanging_operation_and_leaves_the_system_clean() {
    let bench = Bench::new();
    let device = MemoryDevice::new(DRIVE_BYTES);
    let attached = attach(&bench, &device);
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    mounted.unmount().unwrap();
    drop(attached);
    attach::take_down(bench.identity.uuid, &bench.site).unwrap();

    let mut attached = attach(&bench, &device);
    device.set_reads(Policy::Held);
    fs::create_dir(bench.mountpoint()).unwrap();
    let directory = fs::File::open(bench.mountpoint()).unwrap();
    let probe = Privileged::Probe { target: attached.target().clone() };
    let mount = Privileged::Mount { target: attached.target().clone(), read_only: false };
    for operation in [probe, mount] {
        let fds = [directory.as_fd()];
        // The kernel decides whether the process can die before the device answers.
        let hung = bench.site.deputy.perform(&operation, &fds, Duration::from_millis(300));
        assert!(matches!(hung, Err(PrivilegedError::Deadline { .. })), "{hung:?}");
    }
    drop(directory);
    // The device answers after all, but the abandoned operation has no effect.
    device.set_reads(Policy::Now);
    device.release();
    attached.detach().unwrap();
    fs::remove_dir(bench.mountpoint()).unwrap();
    bench.assert_nothing_left();

    // The same, with a device that never answers.
    let attached = attach(&bench, &device);
    device.set_reads(Policy::Held);
    let probe = Privileged::Probe { target: attached.target().clone() };
    let hung = bench.site.deputy.perform(&probe, &[], Duration::from_millis(300));
    assert!(matches!(hung, Err(PrivilegedError::Deadline { .. })), "{hung:?}");
    drop(attached);
    attach::take_down(bench.identity.uuid, &bench.site).unwrap();
    bench.assert_nothing_left();
}

#[test]
fn refuses_every_operation_on_a_foreign_device() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let mut target = attached.target().clone();
    target.proof = holdall_helper::Proof::Backing("/somebody/elses".into());
    for operation in [
        Privileged::LoopDetach { target: target.clone() },
        Privileged::Check { target: target.clone() },
        Privileged::Probe { target: target.clone() },
        Privileged::Tune { target: target.clone() },
        Privileged::LoopResize { target: target.clone() },
        Privileged::Mount { target: target.clone(), read_only: false },
        Privileged::Thaw { target: target.clone(), mountpoint: bench.mountpoint() },
        Privileged::ShutDown { target: target.clone(), mountpoint: bench.mountpoint() },
        Privileged::Grow { target: target.clone() },
        Privileged::MakeFileSystem { target, label: String::new(), uid: 0, gid: 0 },
    ] {
        let directory = fs::File::open(bench.path("run")).unwrap();
        let refused = bench.site.deputy.perform(&operation, &[directory.as_fd()], PATIENCE).unwrap_err();
        assert!(matches!(refused, PrivilegedError::Refused(Refused::NotOurs { .. })), "{refused}");
    }
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn a_file_system_with_errors_is_checked_before_it_is_mounted() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    fs::write(bench.mountpoint().join("letter"), "dear").unwrap();
    mounted.unmount().unwrap();
    run("tune2fs", &["-E", "force_fsck"], attached.block_device());
    let has_errors = || {
        let probe = Privileged::Probe { target: attached.target().clone() };
        match bench.site.deputy.perform(&probe, &[], PATIENCE).unwrap() {
            Outcome::Content(Content::Ext4(superblock)) => superblock.has_errors,
            other => panic!("{other:?}"),
        }
    };
    assert!(has_errors());
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    assert_eq!(fs::read(bench.mountpoint().join("letter")).unwrap(), b"dear");
    mounted.unmount().unwrap();
    assert!(!has_errors());

    // A file system whose repair needs a decision is left to a person, and is not mounted.
    run("debugfs", &["-w", "-R", "clri <2>"], attached.block_device());
    run("tune2fs", &["-E", "force_fsck"], attached.block_device());
    match filesystem::mount(&attached, &options(&bench)) {
        Err(AttachError::Privileged(error @ PrivilegedError::Refused(Refused::Damaged { .. }))) => {
            assert_eq!(error.failure().code, holdall::api::Code::Corrupt);
        }
        other => panic!("{other:?}"),
    }
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn probing_waits_until_a_leftover_mkfs_has_ended() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    // As mkfs opens it.
    let mut exclusive = fs::File::options();
    exclusive.read(true).custom_flags(libc::O_EXCL);
    let exclusive = exclusive.open(attached.block_device()).unwrap();
    let probe = Privileged::Probe { target: attached.target().clone() };
    let waits = bench.site.deputy.perform(&probe, &[], Duration::from_millis(200));
    assert!(matches!(waits, Err(PrivilegedError::Deadline { .. })), "{waits:?}");
    drop(exclusive);
    let content = bench.site.deputy.perform(&probe, &[], PATIENCE).unwrap();
    assert_eq!(content, Outcome::Content(Content::Blank));
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn tunes_readahead_and_reports_the_dirty_limit() {
    let bench = Bench::new();
    let mut attached = attach(&bench, &MemoryDevice::new(DRIVE_BYTES));
    let bdi = format!("/sys/class/bdi/{}", attached.target().number().unwrap());
    let read = |file: &str| fs::read_to_string(format!("{bdi}/{file}")).map(|text| text.trim().to_owned());
    assert!(attached.tuned().read_ahead);
    assert_eq!(read("read_ahead_kb").unwrap(), "1024");
    assert_eq!(attached.tuned().dirty_limited, read("max_bytes").is_ok());
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

#[test]
fn mounts_an_unclean_version_read_only() {
    let bench = Bench::new();
    let device = MemoryDevice::new(DRIVE_BYTES);
    let mut attached = attach(&bench, &device);
    let mounted = filesystem::mount(&attached, &options(&bench)).unwrap();
    let path = bench.mountpoint().join("letter");
    fs::write(&path, "dear").unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();

    let other = Bench::new();
    let version = MemoryDevice::new(DRIVE_BYTES);
    let write = version.write(0, &device.bytes(0..DRIVE_BYTES), Durability::Ordered);
    other.runtime.block_on(write.wait()).unwrap();
    let mut looked_at = attach(&other, &version);
    let read_only = MountOptions { read_only: true, ..options(&other) };
    let view = filesystem::mount(&looked_at, &read_only).unwrap();
    assert_eq!(fs::read(other.mountpoint().join("letter")).unwrap(), b"dear");
    view.unmount().unwrap();
    looked_at.detach().unwrap();
    other.assert_nothing_left();
    mounted.unmount().unwrap();
    attached.detach().unwrap();
    bench.assert_nothing_left();
}

/// As if a daemon was killed while it waits for the mount. The mount must not appear when the device answers after all, since the
/// next daemon has already seen that there is none.
#[test]
fn no_mount_appears_after_its_requester_is_gone() {
    let bench = Bench::new();
    let device = MemoryDevice::new(DRIVE_BYTES);
    let attached = attach(&bench, &device);
    filesystem::mount(&attached, &options(&bench)).unwrap().unmount().unwrap();
    drop(attached);
    attach::take_down(bench.identity.uuid, &bench.site).unwrap();
    let mut attached = attach(&bench, &device);
    fs::create_dir(bench.mountpoint()).unwrap();
    let directory = fs::File::open(bench.mountpoint()).unwrap();
    let [reads, ..] = device.calls();
    device.set_reads(Policy::Held);

    let (here, there) = UnixStream::pair().unwrap();
    let mut command = std::process::Command::new(crate::bench::daemon());
    command.arg(holdall_helper::SUBCOMMAND).stdin(OwnedFd::from(there));
    let mut process = command.spawn().unwrap();
    drop(command);
    let mount = Privileged::Mount { target: attached.target().clone(), read_only: false };
    let request = serde_json::json!({ "task": { "privileged": mount }, "deadline_ms": 60_000 }).to_string();
    let bytes = [&(request.len() as u32).to_le_bytes(), request.as_bytes()].concat();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    let fds = [directory.as_fd()];
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds)));
    let parts = [std::io::IoSlice::new(&bytes)];
    rustix::net::sendmsg(&here, &parts, &mut control, rustix::net::SendFlags::empty()).unwrap();
    // It has asked the device, and waits.
    while device.calls()[0] == reads {
        std::thread::yield_now();
    }
    drop(here);
    device.set_reads(Policy::Now);
    device.release();
    assert_eq!(process.wait().unwrap().signal(), Some(libc::SIGIO));
    drop(directory);
    // This would be refused if it were mounted.
    attached.detach().unwrap();
    fs::remove_dir(bench.mountpoint()).unwrap();
    bench.assert_nothing_left();
}

fn run(program: &str, arguments: &[&str], path: &std::path::Path) {
    let output = std::process::Command::new(program).args(arguments).arg(path).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error} (apt-get install e2fsprogs)"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}
