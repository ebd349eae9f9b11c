//! A single fault at each request of an upload in turn: real daemons, real servers.

use crate::bench::Bench;
use crate::person::Person;
use crate::s3::with_drive;
use holdall_servers::dav::{DavServer, SignIn};
use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::s3::SECRET_KEY;

/// More requests than any upload of one small file has.
const REQUESTS_MAX: u64 = 40;

/// The bytes that the note took before.
const TRIMMED_MAX: u64 = 4096;

const FAULTS: [Fault; 5] =
    [Fault::CutInBody, Fault::LostAnswer, Fault::come_back(503, 1), Fault::PRECONDITION, Fault::DENIED];

/// Saves and uploads until each request of an upload has had a fault of every kind. Returns the note's last contents.
fn uploads(person: &Person, proxy: &FaultProxy) -> String {
    let mut saved = String::new();
    for fault in FAULTS {
        for number in 0.. {
            assert!(number < REQUESTS_MAX, "an upload has more than {REQUESTS_MAX} requests");
            saved = format!("{fault:?} at request {number}");
            std::fs::write(person.machine.mountpoint().join("note"), &saved).unwrap();
            proxy.plan(faults::at(number, fault.clone()));
            person.ok(&["drive", "sync", "d"]);
            let is_hit = proxy.log().iter().any(|entry| entry.fault.is_some());
            proxy.plan(faults::none());
            let status = person.ok(&["drive", "status", "d"]);
            // ext4 reports the space of the old contents as free only afterwards.
            assert!(status["dirty_bytes"].as_u64().unwrap() <= TRIMMED_MAX, "{saved}: {status}");
            if !is_hit {
                assert!(number > 2, "an upload has a segment, a root and a HEAD");
                break;
            }
        }
    }
    saved
}

/// All of it is in the store, for a computer that knows nothing else.
fn is_there(bench: &Bench, a: &Person, add: &[&str], note: &str) {
    a.ok(&["drive", "close", "d", "--wait"]);
    let checked = a.ok(&["drive", "check", "d"]);
    assert_eq!(checked["ok"], true, "{checked}");
    let b = Person::new(bench, "b", &[]);
    b.ok(add);
    b.open();
    assert_eq!(std::fs::read_to_string(b.machine.mountpoint().join("note")).unwrap(), note);
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn any_single_fault_in_a_bucket_only_delays_an_upload() {
    let bench = Bench::new();
    let (_server, proxy, url, mut a) = with_drive(&bench);
    a.open();
    let note = uploads(&a, &proxy);
    let add = ["drive", "add", "d", "--store", &url, "--credentials-file", &bench.text("ini")];
    is_there(&bench, &a, &add, &note);
    a.assert_discreet(&[SECRET_KEY]);
}

#[test]
fn any_single_fault_in_a_collection_only_delays_an_upload() {
    let bench = Bench::new();
    let server = DavServer::apache(SignIn::None);
    let proxy = FaultProxy::start(server.address());
    let url = format!("http://{}/drives/", proxy.address());
    let a = Person::new(&bench, "a", &[]);
    a.ok(&["drive", "create", "d", "--store", &url, "--size", "64M", "--no-encryption"]);
    a.open();
    let note = uploads(&a, &proxy);
    is_there(&bench, &a, &["drive", "add", "d", "--store", &url], &note);
}
