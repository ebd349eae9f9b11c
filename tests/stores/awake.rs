//! A computer that stays awake for uploads that a person expects, with a fake logind that keeps a list.

use crate::bench::{Bench, noise, wait_until};
use crate::bus::Bus;
use crate::person::Person;
use crate::s3::{create, with_server};
use holdall_servers::faults::{Fault, from, none};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::PipeReader;
use std::os::fd::OwnedFd;
use zbus::{fdo, zvariant};

/// The part of logind that the service uses.
#[derive(Default)]
struct Logind {
    /// The requests to it: the reason, and the mode.
    asked: Vec<(String, String)>,
    held: Vec<(String, PipeReader)>,
    refuses_to_block: bool,
}

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Logind {
    fn inhibit(&mut self, what: &str, who: &str, why: &str, mode: &str) -> fdo::Result<zvariant::OwnedFd> {
        assert_eq!((what, who), ("sleep:shutdown", "Holdall"));
        self.asked.push((why.to_owned(), mode.to_owned()));
        if self.refuses_to_block && mode == "block" {
            return Err(fdo::Error::AccessDenied("a person has to be asked".to_owned()));
        }
        let (reader, writer) = std::io::pipe().unwrap();
        self.held.push((why.to_owned(), reader));
        Ok(OwnedFd::from(writer).into())
    }
}

impl Logind {
    /// The reasons why the computer stays awake now.
    fn reasons(&self) -> Vec<&str> {
        let is_held = |reader: &PipeReader| {
            let mut fds = [PollFd::new(reader, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).unwrap();
            !fds[0].revents().contains(PollFlags::HUP)
        };
        self.held.iter().filter(|(_, reader)| is_held(reader)).map(|(why, _)| why.as_str()).collect()
    }
}

#[test]
fn keeps_the_computer_awake_only_while_a_closed_drive_uploads() {
    const UPLOADS: &str = "Uploading changes of “d”";
    let bench = Bench::new();
    let bus = Bus::start();
    let path = "/org/freedesktop/login1";
    let logind = bus.connection().name("org.freedesktop.login1").unwrap();
    let logind = logind.serve_at(path, Logind::default()).unwrap().build().unwrap();
    let logind = logind.object_server().interface::<_, Logind>(path).unwrap();
    let until = |what: &str, reasons: &[&str]| {
        wait_until(what, || logind.get().reasons() == reasons).unwrap();
    };

    let (_server, proxy, url) = with_server(&bench);
    let a = Person::new(&bench, "a", &[("DBUS_SYSTEM_BUS_ADDRESS", bus.address())]);
    create(&bench, &a, &url);
    a.open();
    // An open drive does not keep the computer awake.
    std::fs::write(a.machine.mountpoint().join("note"), "one").unwrap();
    a.ok(&["drive", "sync", "d"]);
    assert!(logind.get().asked.is_empty(), "{:?}", logind.get().asked);

    // Takes eight seconds.
    a.ok(&["limits", "--up", "512K"]);
    std::fs::write(a.machine.mountpoint().join("noise"), noise(1, 4 << 20)).unwrap();
    a.ok(&["drive", "close", "d"]);
    until("the computer stays awake", &[UPLOADS]);
    assert!(logind.get().asked.contains(&("“d” is being closed".to_owned(), "block".to_owned())));
    // Without its store the upload makes no progress, however long the computer stays awake.
    proxy.plan(from(0, Fault::CutBeforeBody));
    proxy.cut_all();
    until("the computer may sleep", &[]);
    assert!(a.ok(&["drive", "status", "d"])["unpushed_bytes"].as_u64().unwrap() > 0);
    proxy.plan(none());
    a.ok(&["limits", "--up", "off"]);
    wait_until("all is uploaded", || a.ok(&["drive", "status", "d"])["unpushed_bytes"] == 0).unwrap();
    until("the computer may sleep again", &[]);

    // If blocking is refused, a delay is requested.
    logind.get_mut().refuses_to_block = true;
    logind.get_mut().asked.clear();
    a.open();
    a.ok(&["drive", "close", "d", "--wait"]);
    wait_until("it is asked for less", || logind.get().asked.iter().any(|(_, mode)| mode == "delay"))
        .unwrap();
    until("the computer may sleep at last", &[]);
}
