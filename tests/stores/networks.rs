//! Real networks. Every trouble between an open drive and its store is reported with its reason, in the status and in the events.
//! Nothing waits forever, nothing is lost, and work continues on its own once the trouble is over.

use crate::bench::{Bench, wait_until};
use crate::person::Person;
use crate::place::Place;
use crate::s3::with_server;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::names::Names;
use holdall_servers::s3::{S3Server, credentials};
use holdall_servers::tls::Authority;
use std::cell::RefCell;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

/// A fault of every request.
struct Trouble {
    name: &'static str,
    fault: Fault,
    /// The state of the drive during the trouble.
    state: &'static str,
    /// The reason that a person reads.
    reason: &'static str,
}

const fn trouble(name: &'static str, fault: Fault, state: &'static str, reason: &'static str) -> Trouble {
    Trouble { name, fault, state, reason }
}

/// Troubles of networks and stores.
const TROUBLES: [Trouble; 9] = [
    trouble("cut connections", Fault::CutBeforeBody, "Offline", "cannot be reached"),
    trouble("cut uploads", Fault::CutInBody, "Offline", "cannot be reached"),
    trouble("lost answers", Fault::LostAnswer, "Offline", "cannot be reached"),
    trouble("silence", Fault::Silence, "Offline", "cannot be reached"),
    trouble("a drip", DRIP, "Offline", "cannot be reached"),
    trouble("a busy server", Fault::BUSY, "Offline", "busy"),
    trouble("a broken server", Fault::BROKEN, "Offline", "500"),
    trouble("no rights", Fault::DENIED, "Needs attention", "refuses access"),
    trouble("no room", Fault::FULL, "Needs attention", "full"),
];

/// Slower than every time-out, though it never stops.
const DRIP: Fault = Fault::Drip { pieces: 100_000, pause: Duration::from_millis(100) };

/// Troubles of buckets only, or with other words for buckets.
const TROUBLES_OF_BUCKETS: [Trouble; 4] = [
    trouble("a login page", Fault::Portal, "Offline", "want a login"),
    trouble("no bucket", Fault::GONE, "Needs attention", "no bucket"),
    trouble("no key", Fault::UNKNOWN, "Needs attention", "refuses the credentials"),
    trouble("a wrong clock", SKEWED, "Offline", "the clock of this computer differs too much"),
];
const SKEWED: Fault = Fault::Status { code: 403, error: "RequestTimeTooSkewed", retry_after: None };

const TROUBLES_OF_COLLECTIONS: [Trouble; 2] = [
    trouble("a login page", Fault::Portal, "Offline", "ask to sign in first"),
    trouble("no user", Fault::UNKNOWN, "Needs attention", "does not take this user with this password"),
];

/// Between `begin` and `end` an open drive uploads nothing. It reports that and the reason, and continues on its own.
fn is_told(a: &Person, name: &str, state: &str, reason: &str, begin: impl FnOnce(), end: impl FnOnce()) {
    let note = a.machine.mountpoint().join("note");
    begin();
    fs::write(&note, name).unwrap();
    let syncing = a.machine.begin(&["drive", "sync", "d"]);
    // Another reason may come first: a server that restarts does not listen for a moment.
    let status = a
        .machine
        .status_when(name, |status| status["reason"].as_str().is_some_and(|told| told.contains(reason)));
    assert_eq!(status["state"], state, "{name}: {status}");
    assert!(status["unpushed_bytes"].as_u64().unwrap() > 0, "{name}: {status}");
    wait_until("it is an event too", || a.events().contains(reason)).unwrap();
    // The mounted drive keeps working.
    assert_eq!(fs::read_to_string(&note).unwrap(), name);
    end();
    syncing.ok();
    a.machine.status_when("uploaded", |status| status["state"] == "Ready" && status["reason"].is_null());
}

/// A person who creates the drive there, and opens it.
fn with_open_drive(bench: &Bench, place: &Place, environment: &[(&str, &str)]) -> Person {
    let a = Person::new(bench, "a", environment);
    a.ok(&place.create("64M"));
    a.open();
    a
}

fn closes(a: &Person) {
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}

fn are_told(bench: &Bench, place: &Place, troubles: impl IntoIterator<Item = Trouble>) {
    let a = with_open_drive(bench, place, &[]);
    for Trouble { name, fault, state, reason } in troubles {
        let begin = || place.proxy().plan(faults::from(0, fault));
        is_told(&a, name, state, reason, begin, || place.comes_back());
    }
    closes(&a);
}

#[test]
fn reports_every_trouble_with_a_bucket_while_it_lasts() {
    let bench = Bench::new();
    are_told(&bench, &Place::s3(&bench), TROUBLES.into_iter().chain(TROUBLES_OF_BUCKETS));
}

#[test]
fn reports_every_trouble_with_a_collection_while_it_lasts() {
    let bench = Bench::new();
    are_told(&bench, &Place::apache(&bench), TROUBLES.into_iter().chain(TROUBLES_OF_COLLECTIONS));
}

#[test]
fn reports_every_trouble_with_a_bucket_without_conditions() {
    let bench = Bench::new();
    are_told(&bench, &Place::weak_s3(&bench), TROUBLES.into_iter().chain(TROUBLES_OF_BUCKETS));
}

#[test]
fn reports_every_trouble_with_a_collection_without_login() {
    let bench = Bench::new();
    let [portal, _] = TROUBLES_OF_COLLECTIONS;
    are_told(&bench, &Place::nginx(&bench), TROUBLES.into_iter().chain([portal]));
}

/// The directory of a store is missing for a while.
fn is_deleted(directory: &Path, a: &Person, state: &str, reason: &str) {
    let aside = directory.with_extension("aside");
    let begin = || fs::rename(directory, &aside).unwrap();
    is_told(a, "deleted", state, reason, begin, || {
        // Nothing has created it again, so it has no contents of its own.
        assert!(!directory.exists());
        fs::rename(&aside, directory).unwrap();
    });
    closes(a);
}

#[test]
fn reports_a_deleted_bucket_until_it_comes_back() {
    let bench = Bench::new();
    let server = S3Server::start();
    let place = Place::with_credentials(&bench, &server.url("d"), "swap", &credentials(), Box::new(()));
    let a = with_open_drive(&bench, &place, &[]);
    is_deleted(&server.bucket(), &a, "Needs attention", "there is no bucket holdall");
}

#[test]
fn reports_a_deleted_collection_until_it_comes_back() {
    let bench = Bench::new();
    let server = DavServer::apache(SignIn::None);
    let a = Person::new(&bench, "a", &[]);
    crate::webdav::create(&a, &server.url("/d/"));
    a.open();
    is_deleted(&server.root().join("d"), &a, "Needs attention", "there is no store at");
}

/// A certificate that expires, and is renewed.
fn expires(a: &Person, renew: impl Fn(i32)) {
    let reason = "has expired, or ";
    is_told(a, "an expired certificate", "Offline", reason, || renew(-1), || renew(2));
    closes(a);
}

#[test]
fn reports_a_buckets_expired_certificate_until_it_is_renewed() {
    let bench = Bench::new();
    let authority = Authority::new();
    let server = RefCell::new(S3Server::start_tls(&authority.issue("127.0.0.1", 2)));
    let url = format!("{}&ca={}", server.borrow().url("d"), authority.pem().display());
    let place = Place::with_credentials(&bench, &url, "swap", &credentials(), Box::new(()));
    let a = with_open_drive(&bench, &place, &[]);
    expires(&a, |days| server.borrow_mut().renew(&authority.issue("127.0.0.1", days)));
}

#[test]
fn reports_a_collections_expired_certificate_until_it_is_renewed() {
    let bench = Bench::new();
    let server = RefCell::new(DavServer::apache_tls(SignIn::Basic, 2));
    let ca = server.borrow().ca().unwrap().display().to_string();
    let (url, login) = (server.borrow().url(&format!("/d/?ca={ca}")), format!("{USER}:{PASSWORD}"));
    let place = Place::with_credentials(&bench, &url, "claim", &login, Box::new(()));
    let a = with_open_drive(&bench, &place, &[]);
    expires(&a, |days| server.borrow_mut().renew(SignIn::Basic, days));
}

/// A host name that cannot be resolved for a while.
fn is_unknown(a: &Person, names: &Names, proxy: &FaultProxy, reason: &str) {
    let begin = || {
        names.are(&[]);
        // An open connection needs no name.
        proxy.cut_all();
    };
    is_told(a, "an unknown name", "Offline", reason, begin, || names.are(&[STORE_HOST]));
    closes(a);
}

const STORE_HOST: (&str, IpAddr) = ("store.test", IpAddr::V4(Ipv4Addr::LOCALHOST));

#[test]
fn reports_a_host_name_that_no_longer_resolves() {
    let names = Names::new();
    names.are(&[STORE_HOST]);
    let environment = names.environment();
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let named = |url: &str| url.replacen("127.0.0.1", STORE_HOST.0, 1);

    let bench = Bench::new();
    let (_server, proxy, url) = with_server(&bench);
    let a = Person::new(&bench, "a", &environment);
    crate::s3::create(&bench, &a, &named(&url));
    a.open();
    is_unknown(&a, &names, &proxy, "the name store.test");

    let bench = Bench::new();
    let server = DavServer::apache(SignIn::None);
    let proxy = FaultProxy::start(server.address());
    let a = Person::new(&bench, "a", &environment);
    crate::webdav::create(&a, &named(&format!("http://{}/d/", proxy.address())));
    a.open();
    is_unknown(&a, &names, &proxy, "the name store.test is not known");
}
