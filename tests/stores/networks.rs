//! Networks as they are: whatever goes wrong between an open drive and its store is told with its reason, in the status and in
//! the events, nobody waits for ever, nothing is lost, and work goes on by itself once it is over.

use crate::bench::{Bench, wait_until};
use crate::s3::with_drive;
use holdall_servers::faults::{self, Fault};
use std::fs;

/// Something that goes wrong with every request.
struct Trouble {
    name: &'static str,
    fault: Fault,
    /// What the drive is then.
    state: &'static str,
    /// What a person reads of it.
    reason: &'static str,
}

const fn trouble(name: &'static str, fault: Fault, state: &'static str, reason: &'static str) -> Trouble {
    Trouble { name, fault, state, reason }
}

/// What happens to networks and to stores.
const TROUBLES: [Trouble; 10] = [
    trouble("cut connections", Fault::CutBeforeBody, "Offline", "cannot be reached"),
    trouble("cut uploads", Fault::CutInBody, "Offline", "cannot be reached"),
    trouble("lost answers", Fault::LostAnswer, "Offline", "cannot be reached"),
    trouble("silence", Fault::Silence, "Offline", "cannot be reached"),
    trouble("a login page", Fault::Portal, "Offline", "want a login"),
    trouble("a busy server", Fault::BUSY, "Offline", "busy"),
    trouble("a broken server", Fault::BROKEN, "Offline", "500"),
    trouble("no rights", Fault::DENIED, "Needs attention", "refuses access"),
    trouble("no bucket", Fault::GONE, "Needs attention", "no bucket"),
    trouble("no room", Fault::FULL, "Needs attention", "full"),
];

#[test]
fn whatever_a_network_does_is_told_and_over_once_it_is_over() {
    let bench = Bench::new();
    let (_server, proxy, _url, a) = with_drive(&bench);
    a.open();
    let note = a.machine.mountpoint().join("note");
    for Trouble { name, fault, state, reason } in TROUBLES {
        proxy.plan(faults::from(0, fault));
        fs::write(&note, name).unwrap();
        let syncing = a.machine.begin(&["drive", "sync", "d"]);
        let status = a.machine.status_when(name, |status| !status["reason"].is_null());
        let told = status["reason"].as_str().unwrap();
        assert_eq!(status["state"], state, "{name}: {status}");
        assert!(told.contains(reason), "{name}: {told}");
        assert!(status["unpushed_bytes"].as_u64().unwrap() > 0, "{name}: {status}");
        wait_until("it is an event too", || a.events().contains(reason)).unwrap();
        // The mounted drive does not mind.
        assert_eq!(fs::read_to_string(&note).unwrap(), name);
        proxy.plan(faults::none());
        syncing.ok();
        a.machine.status_when("uploaded", |status| status["state"] == "Ready" && status["reason"].is_null());
    }
    a.ok(&["drive", "close", "d", "--wait"]);
}
