//! The daemon is killed or replaced, or dies together with its keeper; with loop devices on this computer's kernel, as root.
//! Either the next daemon continues under the mount, or the doctor takes the rest down and a new attach works.

use crate::bench::{Bench, Writer, pattern, verify};
use holdall::api::Finding;
use holdall::attach::doctor::{self, Service};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

const STEPS: [&str; 6] = ["Recorded", "DiskMounted", "Kept", "DeviceMade", "Formatted", "Mounted"];

/// The findings about drives, without those about what this computer lacks.
fn about_drives(findings: &[Finding]) -> Vec<&Finding> {
    let ours = |finding: &&Finding| finding.subject.starts_with("drive ") || finding.subject == "keeper";
    findings.iter().filter(ours).filter(|finding| !finding.ok).collect()
}

fn kill_keeper(bench: &Bench) {
    let keeper = UnixStream::connect(bench.site.dirs.keeper_socket()).unwrap();
    let process = rustix::net::sockopt::socket_peercred(&keeper).unwrap().pid;
    let handle = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).unwrap();
    rustix::process::pidfd_send_signal(&handle, rustix::process::Signal::KILL).unwrap();
    let mut gone = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut gone, None).unwrap();
}

fn close(bench: &Bench, mut daemon: crate::bench::Daemon) {
    daemon.say("close");
    daemon.hear("closed");
    daemon.finished();
    bench.assert_nothing_left();
    let findings = doctor::diagnose(&bench.site, &bench.known(Service::Rests)).unwrap();
    assert!(about_drives(&findings).is_empty(), "{findings:#?}");
}

#[test]
fn the_next_daemon_continues_at_whichever_step_another_was_killed() {
    for step in STEPS {
        let bench = Bench::new();
        let mut daemon = bench.start("loop", Some(step));
        daemon.hear(step);
        drop(daemon);
        let mut daemon = bench.start("loop", None);
        // The next daemon resumes what the keeper holds. Before these steps the keeper holds nothing.
        let resumes = !matches!(step, "Recorded" | "DiskMounted");
        daemon.hear(if resumes { "resumed" } else { "attached" });
        let findings = doctor::diagnose(&bench.site, &bench.known(Service::Serves)).unwrap();
        assert!(about_drives(&findings).is_empty(), "{step}: {findings:#?}");
        close(&bench, daemon);
    }
}

#[test]
fn the_next_daemon_continues_whenever_another_was_killed() {
    // Not at a step, but wherever it is when the signal arrives: in the middle of mkfs or of the mount.
    for after in ["Kept", "Kept", "Kept", "DeviceMade", "DeviceMade", "DeviceMade", "Formatted", "Formatted"]
    {
        let bench = Bench::new();
        let mut daemon = bench.start("loop", None);
        daemon.hear(after);
        drop(daemon);
        let mut daemon = bench.start("loop", None);
        daemon.hear("resumed");
        fs::write(bench.mountpoint().join("letter"), after).unwrap();
        close(&bench, daemon);
    }
}

#[test]
fn the_next_daemon_finishes_an_interrupted_close() {
    for step in ["Unmounted", "DeviceGone"] {
        let bench = Bench::new();
        let mut daemon = bench.start("loop", Some(step));
        daemon.hear("attached");
        fs::write(bench.mountpoint().join("letter"), step).unwrap();
        daemon.say("close");
        daemon.hear(step);
        drop(daemon);
        let mut daemon = bench.start("loop", None);
        daemon.hear("resumed");
        assert_eq!(fs::read_to_string(bench.mountpoint().join("letter")).unwrap(), step);
        close(&bench, daemon);
    }
}

#[test]
fn the_doctor_cleans_up_wherever_a_daemon_was_killed() {
    for (step, keeper_dies) in STEPS.into_iter().flat_map(|step| [(step, false), (step, true)]) {
        let bench = Bench::new();
        let mut daemon = bench.start("loop", Some(step));
        daemon.hear(step);
        drop(daemon);
        if keeper_dies && step != "Recorded" {
            kill_keeper(&bench);
        }
        // The doctor leaves alone what a service is reopening.
        let findings = doctor::repair(&bench.site, &bench.known(Service::Opens)).unwrap();
        assert!(about_drives(&findings).is_empty(), "{step}: {findings:#?}");
        let findings = doctor::diagnose(&bench.site, &bench.known(Service::Rests)).unwrap();
        assert_eq!(about_drives(&findings).is_empty(), step == "Recorded", "{step}: {findings:#?}");
        let findings = doctor::repair(&bench.site, &bench.known(Service::Rests)).unwrap();
        let unrepaired = |finding: &&&Finding| !finding.repaired;
        assert_eq!(about_drives(&findings).iter().filter(unrepaired).count(), 0, "{step}: {findings:#?}");
        bench.assert_nothing_left();
        let findings = doctor::diagnose(&bench.site, &bench.known(Service::Rests)).unwrap();
        assert!(about_drives(&findings).is_empty(), "{step}: {findings:#?}");

        let mut daemon = bench.start("loop", None);
        daemon.hear("attached");
        close(&bench, daemon);
    }
}

#[test]
fn a_writer_notices_nothing_of_a_handover() {
    replaced(|bench, mut daemon| {
        daemon.say("hand-over");
        daemon.hear("handed over");
        daemon.finished();
        bench.start("auto", None)
    });
}

#[test]
fn a_writer_notices_nothing_of_kill_9() {
    replaced(|bench, daemon| {
        drop(daemon);
        bench.start("auto", None)
    });
}

#[test]
fn kill_9_during_a_freeze_leaves_nobody_waiting() {
    replaced(|bench, mut daemon| {
        daemon.say("freeze 3600000");
        daemon.hear("frozen");
        drop(daemon);
        bench.start("auto", None)
    });
}

#[test]
fn the_next_daemon_ends_a_freeze_that_was_left_behind() {
    replaced(|bench, mut daemon| {
        daemon.say("freeze 3600000");
        daemon.hear("frozen");
        daemon.kill_children("perform");
        drop(daemon);
        bench.start("auto", None)
    });
}

#[test]
fn a_handover_replaces_a_keeper_that_died() {
    replaced(|bench, mut daemon| {
        kill_keeper(bench);
        daemon.say("hand-over");
        daemon.hear("handed over");
        daemon.finished();
        bench.start("auto", None)
    });
}

fn replaced(replace: impl Fn(&Bench, crate::bench::Daemon) -> crate::bench::Daemon) {
    let bench = Bench::new();
    let mut daemon = bench.start("loop", None);
    daemon.hear("attached");
    let path = bench.mountpoint().join("records");
    let writer = Writer::start(&path);
    for _ in 0..3 {
        writer.progress(10);
        daemon = replace(&bench, daemon);
        daemon.hear("resumed");
    }
    writer.progress(10);
    let written = writer.stop();
    close(&bench, daemon);
    let mut daemon = bench.start("loop", None);
    daemon.hear("attached");
    verify(&path, written);
    close(&bench, daemon);
}

#[test]
fn the_doctor_takes_down_a_hanging_daemon_without_hanging_itself() {
    let bench = Bench::new();
    let mut daemon = bench.start("loop", None);
    daemon.hear("attached");
    let path = bench.mountpoint().join("letter");
    let open = File::create(&path).unwrap();
    daemon.stop();
    // The write waits in the kernel for the daemon.
    let waiting = std::thread::spawn(move || {
        let mut open = open;
        open.write_all(&pattern(1)).and_then(|()| open.sync_all())
    });
    let findings = doctor::diagnose(&bench.site, &bench.known(Service::Rests)).unwrap();
    assert!(about_drives(&findings)[0].detail.contains(bench.mountpoint().to_str().unwrap()));
    let findings = doctor::repair(&bench.site, &bench.known(Service::Rests)).unwrap();
    assert!(about_drives(&findings).iter().all(|finding| finding.repaired), "{findings:#?}");
    assert!(waiting.join().unwrap().is_err(), "who waited gets an error");
    drop(daemon);
    bench.assert_nothing_left();
    let mut daemon = bench.start("loop", None);
    daemon.hear("attached");
    close(&bench, daemon);
}

#[test]
fn fsynced_data_survives_the_death_of_daemon_and_keeper() {
    let bench = Bench::new();
    let mut daemon = bench.start("loop", None);
    daemon.hear("attached");
    let path = bench.mountpoint().join("letter");
    let mut open = File::create(&path).unwrap();
    open.write_all(&pattern(5)).unwrap();
    open.sync_all().unwrap();
    drop(daemon);
    kill_keeper(&bench);

    let findings = doctor::repair(&bench.site, &bench.known(Service::Rests)).unwrap();
    let findings = about_drives(&findings);
    let drive = findings.iter().find(|finding| finding.subject.starts_with("drive ")).unwrap();
    let this = std::process::id().to_string();
    assert!(drive.repaired && drive.action.as_ref().unwrap().contains(&this), "{drive:?}");
    assert!(open.write_all(b"late").and_then(|()| open.sync_all()).is_err(), "late writers get errors");

    let mut daemon = bench.start("loop", None);
    daemon.hear("attached");
    assert!(fs::read(&path).unwrap() == pattern(5));
    drop(open);
    close_others(&bench);
    close(&bench, daemon);
}

/// The old loop device disappears a moment after its last file was closed.
fn close_others(bench: &Bench) {
    let disk = bench.path("run/disks");
    let devices = || {
        let backing = |path: &Path| fs::read_to_string(path.join("loop/backing_file")).unwrap_or_default();
        let names = fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| backing(path).contains(disk.to_str().unwrap())).count()
    };
    while devices() > 1 {
        std::thread::yield_now();
    }
}
