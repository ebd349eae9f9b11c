//! Attaching on a kernel with nbd, and growing, which needs full root rights: in User Mode Linux. Tests named `guest_` are
//! ignored in an ordinary run. The other tests start a guest kernel and run them there.

use crate::bench::{Bench, DRIVE_BYTES, Daemon, GrowingDevice, Writer, verify};
use crate::guest::{self, assert_guest};
use holdall::api::AttachMode;
use holdall::attach;
use holdall::attach::doctor::{self, Service};
use holdall::attach::filesystem::{self, MountOptions};
use holdall_core::device::BlockDevice;
use holdall_helper::{Outcome, Privileged, PrivilegedError, Proof, Target};
use holdall_kernel::nbd;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

fn in_guest(test: &str) {
    guest::in_guest(&["-k", "nbd", "-k", "fuse", "-k", "loop"], test);
}

#[test]
fn auto_chooses_nbd_whose_mount_survives_kill_9_and_handover() {
    in_guest("guest_kernel::guest_replaced");
}

#[test]
fn the_doctor_takes_down_an_nbd_device_without_server() {
    in_guest("guest_kernel::guest_doctor");
}

#[test]
fn a_drive_grows_under_a_writer() {
    in_guest("guest_kernel::guest_grow");
}

#[test]
fn without_resend_a_mount_survives_handovers_but_not_kill_9() {
    in_guest("guest_kernel::guest_cannot_resend");
}

#[test]
fn the_next_daemon_resumes_wherever_an_nbd_daemon_was_killed() {
    in_guest("guest_kernel::guest_killed_anywhere");
}

#[test]
fn a_forced_detach_needs_the_device_itself() {
    in_guest("guest_kernel::guest_held_by_force");
}

#[test]
fn an_open_file_does_not_block_a_device_taken_down() {
    in_guest("guest_kernel::guest_open_file");
}

fn start(bench: &Bench, how: &str) -> Daemon {
    let mut daemon = bench.start("auto", None);
    assert!(daemon.hear(how).starts_with("/dev/nbd"));
    daemon
}

fn close(bench: &Bench, mut daemon: Daemon) {
    daemon.say("close");
    daemon.hear("closed");
    daemon.finished();
    bench.assert_nothing_left();
    assert_eq!(nbd::attached_devices().unwrap(), []);
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_replaced() {
    assert_guest();
    let bench = Bench::new();
    let mut daemon = start(&bench, "attached");
    let path = bench.mountpoint().join("records");
    let writer = Writer::start(&path);
    writer.progress(3);
    drop(daemon);
    daemon = start(&bench, "resumed");
    writer.progress(3);
    daemon.say("hand-over");
    daemon.hear("handed over");
    daemon.finished();
    daemon = start(&bench, "resumed");
    writer.progress(3);
    daemon.say("freeze 3600000");
    daemon.hear("frozen");
    drop(daemon);
    daemon = start(&bench, "resumed");
    writer.progress(3);
    let written = writer.stop();
    close(&bench, daemon);
    let daemon = start(&bench, "attached");
    verify(&path, written);
    close(&bench, daemon);
}

/// The guest's kernel (6.1) cannot repeat requests that a dead daemon had taken. So a mount survives a handover but not kill -9.
/// It must never wait forever.
#[test]
#[ignore = "runs in a guest kernel"]
fn guest_cannot_resend() {
    assert_guest();
    let bench = Bench::new();
    let mut daemon = bench.start("loop", None);
    daemon.hear("attached");
    let path = bench.mountpoint().join("records");
    let writer = Writer::start(&path);
    writer.progress(3);
    daemon.say("hand-over");
    daemon.hear("handed over");
    daemon.finished();
    let mut daemon = bench.start("loop", None);
    daemon.hear("resumed");
    writer.progress(3);
    let written = writer.stop();
    drop(daemon);
    let mut daemon = bench.start("loop", None);
    daemon.hear("attached");
    verify(&path, written);
    close(&bench, daemon);
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_doctor() {
    assert_guest();
    for step in ["Recorded", "DeviceMade", "Formatted", "Mounted"] {
        let bench = Bench::new();
        let mut daemon = bench.start("nbd", Some(step));
        daemon.hear(step);
        drop(daemon);
        let findings = doctor::diagnose(&bench.site, &bench.known(Service::Rests)).unwrap();
        let left = findings.iter().any(|finding| finding.subject.starts_with("drive ") && !finding.ok);
        assert_eq!(left, step != "Recorded", "{step}: {findings:#?}");
        let findings = doctor::repair(&bench.site, &bench.known(Service::Rests)).unwrap();
        let drives = || findings.iter().filter(|finding| finding.subject.starts_with("drive "));
        assert!(drives().all(|finding| finding.repaired), "{step}: {findings:#?}");
        bench.assert_nothing_left();
        assert_eq!(nbd::attached_devices().unwrap(), [], "{step}");
        let daemon = start(&bench, "attached");
        close(&bench, daemon);
    }
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_killed_anywhere() {
    assert_guest();
    for step in ["Recorded", "DeviceMade", "Formatted", "Mounted", "Unmounted", "DeviceGone"] {
        let bench = Bench::new();
        let mut daemon = bench.start("nbd", Some(step));
        if matches!(step, "Unmounted" | "DeviceGone") {
            daemon.hear("attached");
            daemon.say("close");
        }
        daemon.hear(step);
        drop(daemon);
        let daemon =
            start(&bench, if matches!(step, "Recorded" | "DeviceGone") { "attached" } else { "resumed" });
        close(&bench, daemon);
    }
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_open_file() {
    assert_guest();
    let bench = Bench::new();
    let daemon = start(&bench, "attached");
    let path = bench.mountpoint().join("letter");
    let mut open = File::create(&path).unwrap();
    open.write_all(b"dear").and_then(|()| open.sync_all()).unwrap();
    drop(daemon);
    let findings = doctor::repair(&bench.site, &bench.known(Service::Rests)).unwrap();
    let drive = findings.iter().find(|finding| finding.subject.starts_with("drive ")).unwrap();
    let this = std::process::id().to_string();
    assert!(drive.repaired && drive.action.as_ref().unwrap().contains(&this), "{drive:?}");
    assert!(open.write_all(b"late").and_then(|()| open.sync_all()).is_err(), "late writers get errors");

    let mut daemon = start(&bench, "attached");
    assert_eq!(std::fs::read(&path).unwrap(), b"dear");
    drop(daemon);
    daemon = start(&bench, "resumed");
    drop(open);
    while nbd::attached_devices().unwrap().len() > 1 {
        std::thread::yield_now();
    }
    close(&bench, daemon);
}

/// A device number alone could belong to another device by the time it is used: nothing is detached without proof of the device
/// itself.
#[test]
#[ignore = "runs in a guest kernel"]
fn guest_held_by_force() {
    assert_guest();
    let bench = Bench::new();
    drop(start(&bench, "attached"));
    let attached = nbd::attached_devices().unwrap();
    let [device] = attached.as_slice() else { panic!("{attached:?}") };
    let proof = Proof::Identifier(device.identifier.clone().unwrap());
    let target = Target { device: device.index.path(), proof };
    let detach = Privileged::NbdDetach { target: target.clone(), force: true };
    let perform = || bench.site.deputy.perform(&detach, &[], Duration::from_secs(60));
    rustix::mount::mount_bind("/dev/null", &target.device).unwrap();
    assert!(matches!(perform(), Err(PrivilegedError::Refused(_))));
    assert_eq!(nbd::attached_devices().unwrap(), attached);
    rustix::mount::unmount(&target.device, rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(matches!(perform(), Ok(Outcome::Done)));
    doctor::repair(&bench.site, &bench.known(Service::Rests)).unwrap();
    bench.assert_nothing_left();
    assert_eq!(nbd::attached_devices().unwrap(), []);
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_grow() {
    assert_guest();
    for mode in [AttachMode::Nbd, AttachMode::Loop] {
        let bench = Bench::new();
        let device = GrowingDevice::new(DRIVE_BYTES, 4 * DRIVE_BYTES);
        let shared: Arc<dyn BlockDevice> = device.clone();
        let mut attached = attach::attach(shared, &bench.identity, mode, &bench.site).unwrap();
        assert_eq!(attached.mode(), mode);
        let options = MountOptions { at: bench.mountpoint(), read_only: false, uid: 0, gid: 0 };
        let mounted = filesystem::mount(&attached, &options).unwrap();
        let before = mounted.usage().unwrap();
        let path = bench.mountpoint().join("records");
        let writer = Writer::start(&path);
        writer.progress(3);
        device.grow(4 * DRIVE_BYTES);
        mounted.grow(&mut attached).unwrap();
        writer.progress(3);
        let after = mounted.usage().unwrap();
        assert!(after.total_bytes > 3 * before.total_bytes, "{before:?} {after:?}");
        let written = writer.stop();
        mounted.unmount().unwrap();
        let mounted = filesystem::mount(&attached, &options).unwrap();
        verify(&path, written);
        mounted.unmount().unwrap();
        attached.detach().unwrap();
        bench.assert_nothing_left();
    }
}
