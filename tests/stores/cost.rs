//! The cost in a drive's status equals the requests that its server got, from the first request of its opening on.

use crate::bench::{Bench, wait_until};
use crate::person::Person;
use crate::s3;
use holdall_servers::dav::{DavServer, SignIn};
use holdall_servers::faults::{self, FaultProxy};
use serde_json::{Value, json};

/// The requests that the server saw since the plan was set, in the format of a status.
fn seen(proxy: &FaultProxy) -> Value {
    let mut seen = json!({"get": 0, "put": 0, "head": 0, "list": 0, "delete": 0});
    for entry in proxy.log() {
        let kind = match &*entry.asked.method {
            "GET" if entry.asked.target.contains("list-type=2") => "list",
            "PROPFIND" => "list",
            "GET" => "get",
            "HEAD" => "head",
            "DELETE" => "delete",
            _ => "put",
        };
        seen[kind] = json!(seen[kind].as_u64().unwrap() + 1);
    }
    seen
}

/// Opens the drive on a computer that has never tested its store, writes, and compares.
fn is_told(bench: &Bench, proxy: &FaultProxy, add: &[&str]) {
    let b = Person::new(bench, "b", &[]);
    b.ok(add);
    proxy.plan(faults::none());
    b.open();
    let probes = proxy.log().iter().filter(|entry| entry.asked.target.contains("/probe")).count();
    assert!(probes > 50, "its store is tried: {probes}");
    std::fs::write(b.machine.mountpoint().join("note"), [7; 100_000]).unwrap();
    b.ok(&["drive", "sync", "d"]);
    b.ok(&["drive", "snapshot", "list", "d"]);
    let (mut told, mut saw) = (Value::Null, Value::Null);
    let is_same = wait_until("all requests are told", || {
        told = b.ok(&["drive", "status", "d"]);
        saw = seen(proxy);
        told["requests"] == saw
    });
    assert!(is_same.is_ok(), "told {}, and seen {saw}", told["requests"]);
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn reports_the_cost_of_a_drive_in_a_bucket() {
    let bench = Bench::new();
    let (_server, proxy, url, a) = s3::with_drive(&bench);
    drop(a);
    is_told(
        &bench,
        &proxy,
        &["drive", "add", "d", "--store", &url, "--credentials-file", &bench.text("ini")],
    );
}

#[test]
fn reports_the_cost_of_a_drive_in_a_collection() {
    let bench = Bench::new();
    let server = DavServer::apache(SignIn::None);
    let proxy = FaultProxy::start(server.address());
    let url = format!("http://{}/drives/", proxy.address());
    let a = Person::new(&bench, "a", &[]);
    a.ok(&["drive", "create", "d", "--store", &url, "--size", "64M", "--no-encryption"]);
    is_told(&bench, &proxy, &["drive", "add", "d", "--store", &url]);
}
