//! A drive in a bucket.

use crate::bench::Bench;
use crate::person::Person;
use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::s3::{ACCESS_KEY, S3Server, SECRET_KEY, credentials, url};
use holdall_servers::unconditional::Unconditional;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

const WRONG_KEY: &str = "battery-staple-horse-correct";
const PASSPHRASE: &str = "tangerine paperclip";

/// Files with credentials, as people have them.
pub fn files(bench: &Bench) {
    let ini = format!("[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n");
    std::fs::write(bench.path("ini"), ini).unwrap();
    let csv = format!("Access key ID,Secret access key\r\n{ACCESS_KEY},{SECRET_KEY}\r\n");
    std::fs::write(bench.path("csv"), csv).unwrap();
    std::fs::write(bench.path("json"), credentials()).unwrap();
    std::fs::write(bench.path("wrong"), format!("{ACCESS_KEY}:{WRONG_KEY}\n")).unwrap();
    std::fs::write(bench.path("passphrase"), format!("{PASSPHRASE}\n")).unwrap();
}

/// A server, a proxy in front of it, and a drive's address through that proxy.
pub fn with_server(bench: &Bench) -> (S3Server, FaultProxy, String) {
    files(bench);
    let server = S3Server::start();
    let proxy = FaultProxy::start(server.address());
    let url = url("http", proxy.address(), "d");
    (server, proxy, url)
}

/// Has a person create a drive `d` there.
pub fn create(bench: &Bench, person: &Person, url: &str) {
    let from = bench.text("ini");
    let create = ["drive", "create", "d", "--store", url, "--size", "64M", "--no-encryption"];
    person.ok(&[&create[..], &["--credentials-file", &from]].concat());
}

/// A server, and a person with a drive `d` on it, through a proxy.
pub fn with_drive(bench: &Bench) -> (S3Server, FaultProxy, String, Person) {
    let (server, proxy, url) = with_server(bench);
    let person = Person::new(bench, "a", &[]);
    create(bench, &person, &url);
    (server, proxy, url, person)
}

#[test]
fn a_drive_moves_through_a_bucket_without_revealing_secrets() {
    let bench = Bench::new();
    files(&bench);
    let server = S3Server::start();
    let (url, other) = (server.url("photos"), server.url("music"));
    // Keys in the daemon's own environment are not used as a login.
    let environment = [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)];
    let mut a = Person::new(&bench, "a", &environment);
    let (ini, json, wrong, passphrase) =
        (bench.text("ini"), bench.text("json"), bench.text("wrong"), bench.text("passphrase"));
    let create = ["drive", "create", "d", "--store", &url, "--size", "64M", "--passphrase-file", &passphrase];
    let failure = a.refused(&create, 6, "credentials");
    assert!(failure["action"].as_str().unwrap().contains("holdall store login 's3://holdall/"), "{failure}");

    // Wrong credentials are refused, and not kept.
    a.refused(&["store", "login", &url, "--credentials-file", &wrong], 6, "credentials");
    let nowhere = url.replace("//holdall/", "//holdal/");
    for command in [&["store", "login", &nowhere][..], &["store", "test", &nowhere]] {
        let failure = a.refused(&[command, &["--credentials-file", &ini]].concat(), 3, "not_found");
        let message = failure["message"].as_str().unwrap();
        assert!(message.starts_with("There is no bucket holdal at 127.0.0.1"), "{failure}");
    }
    a.refused(
        &["store", "login", &url.replace("endpoint=", "endpoit="), "--credentials-file", &ini],
        2,
        "usage",
    );
    a.refused(
        &["store", "login", &url.replace("http%3A", "https%3A"), "--credentials-file", &ini],
        5,
        "offline",
    );
    a.refused(&["store", "login", &url, "--credentials-file", &passphrase], 2, "usage");
    a.refused(&["store", "login", &url], 2, "usage");
    a.refused(&["store", "logout", &url], 3, "not_found");
    assert_eq!(a.ok(&["store", "list"]), serde_json::json!([]));
    assert!(!a.logins().exists());

    let login = a.ok(&["store", "login", &url, "--credentials-file", &ini]);
    assert_eq!((login["kept"].as_str(), login["user"].as_str()), (Some("file"), Some("holdal…")));
    assert_eq!(a.logins().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // The login works for the whole bucket.
    let tested = a.ok(&["store", "test", &other]);
    assert_eq!(
        (tested["store_mode"].as_str(), tested["usable"].as_bool()),
        (Some("swap"), Some(true)),
        "{tested}"
    );
    let made = a.ok(&create);
    assert_eq!(made["store_mode"], "swap");
    a.open();
    std::fs::write(a.machine.mountpoint().join("note"), "from a").unwrap();
    a.ok(&["drive", "sync", "d"]);
    assert_eq!(a.ok(&["drive", "status", "d"])["store_mode"], "swap");
    a.ok(&["drive", "close", "d", "--wait"]);

    // The second computer.
    let mut b = Person::new(&bench, "b", &[]);
    let wrong_phrase = ["drive", "add", "d", "--store", &url, "--passphrase-file", &wrong];
    b.refused(&[&wrong_phrase[..], &["--credentials-file", &json]].concat(), 6, "passphrase_wrong");
    assert_eq!(b.ok(&["store", "list"]), serde_json::json!([]), "nothing came about that needs them");
    let add = ["drive", "add", "d", "--store", &url, "--passphrase-file", &passphrase, "--credentials-file"];
    b.refused(&[&add[..], &[&wrong]].concat(), 6, "credentials");
    b.ok(&[&add[..], &[&json]].concat());
    assert_eq!(b.open()["epoch"], 2);
    assert_eq!(std::fs::read(b.machine.mountpoint().join("note")).unwrap(), b"from a");
    b.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(b.ok(&["drive", "check", "d"])["ok"], true);

    // The credentials of a drive are not replaced without consent.
    let another = ["drive", "add", "e", "--store", &other, "--credentials-file", &wrong];
    b.refused(&another, 1, "exists");
    let list = a.reads(&["store", "list"]);
    assert!(list.contains("holdal…") && list.contains("file") && list.contains(" d"), "{list}");
    let out = a.ok(&["store", "logout", &url]);
    assert_eq!(out["drives"], serde_json::json!(["d"]));
    let at = a.machine.mountpoint().display().to_string();
    a.refused(&["drive", "open", "d", "--at", &at], 6, "credentials");
    for person in [&mut a, &mut b] {
        person.assert_discreet(&[SECRET_KEY, WRONG_KEY, PASSPHRASE]);
    }
}

#[test]
fn a_revoked_key_delays_uploads_until_the_next_login() {
    let bench = Bench::new();
    let (_server, proxy, url, mut a) = with_drive(&bench);
    a.open();
    proxy.plan(faults::from(0, Fault::Status { code: 403, error: "InvalidAccessKeyId", retry_after: None }));
    let note = a.machine.mountpoint().join("note");
    std::fs::write(&note, "kept").unwrap();
    let syncing = a.machine.begin(&["drive", "sync", "d"]);
    let status = a.machine.status_when("refused", |status| status["state"] == "Needs attention");
    let (reason, action) = (status["reason"].as_str().unwrap(), status["advice"]["action"].as_str().unwrap());
    assert!(
        reason.contains("does not know the access key") && action.contains("holdall store login"),
        "{status}"
    );
    assert!(status["unpushed_bytes"].as_u64().unwrap() > 0);
    // A key that does not work either is refused.
    a.refused(&["store", "login", &url, "--credentials-file", &bench.text("csv")], 6, "credentials");
    proxy.plan(faults::none());
    a.ok(&["store", "login", &url, "--credentials-file", &bench.text("csv")]);
    syncing.ok();
    a.machine.status_when("uploaded", |status| status["state"] == "Ready" && status["unpushed_bytes"] == 0);
    // The same after a logout under an open drive.
    a.ok(&["store", "logout", &url]);
    std::fs::write(&note, "kept too").unwrap();
    let syncing = a.machine.begin(&["drive", "sync", "d"]);
    a.machine.status_when("logged out", |status| status["state"] == "Needs attention");
    a.ok(&["store", "login", &url, "--credentials-file", &bench.text("csv")]);
    syncing.ok();
    a.ok(&["drive", "close", "d", "--wait"]);
    a.assert_discreet(&[SECRET_KEY]);
}

#[test]
fn reports_a_wrong_secret_key_as_wrong_not_unauthorised() {
    let bench = Bench::new();
    let (_server, proxy, url) = with_server(&bench);
    let mut a = Person::new(&bench, "a", &[]);
    let wrong = bench.text("wrong");
    let test = ["store", "test", &url, "--credentials-file", &wrong];
    let create = ["drive", "create", "d", "--store", &url, "--size", "64M", "--no-encryption"];
    let create = [&create[..], &["--credentials-file", &wrong]].concat();
    for command in [&test[..], &create, &["store", "login", &url, "--credentials-file", &wrong]] {
        let failure = a.refused(command, 6, "credentials");
        let told = |part: &str| failure[part].as_str().unwrap().to_owned();
        assert!(told("message").contains("the secret key does not belong to the access key"), "{failure}");
        assert!(told("message").starts_with("The store refused the"), "{failure}");
        assert!(!told("message").contains("may not"), "{failure}");
    }
    let failure = a.refused(&test, 6, "credentials");
    let action = failure["action"].as_str().unwrap();
    assert!(action.contains("`holdall store login 's3://"), "{failure}");

    // Under an open drive.
    self::create(&bench, &a, &url);
    a.open();
    for (status, error, words) in [
        (403, "SignatureDoesNotMatch", "the secret key does not belong to the access key"),
        (400, "ExpiredToken", "have expired"),
    ] {
        proxy.plan(faults::from(0, Fault::Status { code: status, error, retry_after: None }));
        std::fs::write(a.machine.mountpoint().join("note"), error).unwrap();
        let syncing = a.machine.begin(&["drive", "sync", "d"]);
        let status = a.machine.status_when(error, |status| {
            let reason = status["reason"].as_str().unwrap_or_default();
            status["state"] == "Needs attention" && reason.contains(words)
        });
        let reason = status["reason"].as_str().unwrap();
        assert!(reason.starts_with("the store refuses the credentials: "), "{reason}");
        assert!(reason.contains("your files on this computer are safe"), "{reason}");
        let action = status["advice"]["action"].as_str().unwrap();
        assert!(action.contains("`holdall store login 's3://"), "{action}");
        proxy.plan(faults::none());
        a.ok(&["store", "login", &url, "--credentials-file", &bench.text("ini")]);
        syncing.ok();
    }
    a.ok(&["drive", "close", "d", "--wait"]);
    a.assert_discreet(&[SECRET_KEY, WRONG_KEY]);
}

#[test]
fn read_only_credentials_open_a_drive_read_only() {
    let bench = Bench::new();
    let (_server, proxy, url, mut a) = with_drive(&bench);
    a.open();
    std::fs::write(a.machine.mountpoint().join("note"), "to be read").unwrap();
    a.ok(&["drive", "close", "d", "--wait"]);
    proxy.plan(Box::new(|asked| asked.changes().then_some(Fault::DENIED)));
    let opened = a.open();
    assert_eq!(opened["epoch"], 0);
    assert!(opened["read_only_because"].as_str().unwrap().contains("do not allow"), "{opened}");
    assert_eq!(std::fs::read(a.machine.mountpoint().join("note")).unwrap(), b"to be read");
    assert!(std::fs::write(a.machine.mountpoint().join("note"), "x").is_err());
    let status = a.ok(&["drive", "status", "d"]);
    assert_eq!(status["state"], "Read-only");
    assert!(status["reason"].as_str().unwrap().contains("read-only"), "{status}");
    a.ok(&["drive", "close", "d"]);

    let output = a.machine.run(&["store", "test", &url]);
    let tested: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), tested["usable"].as_bool()), (Some(1), Some(false)), "{tested}");
    let text = a.reads(&["store", "test", &url]);
    assert!(text.contains("may not write, delete") && text.contains("cannot hold a drive"), "{text}");
    let elsewhere = url.replace("/d?", "/e?");
    let create = ["drive", "create", "e", "--store", &elsewhere, "--size", "64M", "--no-encryption"];
    a.refused(&create, 6, "credentials");

    // Once the rights are back, it is written again.
    proxy.plan(faults::none());
    assert!(a.open()["epoch"].as_u64().unwrap() > 0);
    a.ok(&["drive", "close", "d", "--wait"]);
    a.assert_discreet(&[SECRET_KEY]);
}

/// The number of segments in a bucket.
fn segments(server: &S3Server) -> usize {
    fn files(directory: &Path) -> usize {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
    }
    files(&server.bucket().join("d/seg"))
}

#[test]
fn uploads_wait_while_a_store_has_lost_its_conditions() {
    let bench = Bench::new();
    let (server, _proxy, _url, a) = with_drive(&bench);
    a.open();
    a.ok(&["drive", "close", "d", "--wait"]);
    let weak = Unconditional::start(server.address());
    weak.heed(true);
    let b = Person::new(&bench, "b", &[]);
    let url = url("http", weak.address(), "d");
    b.ok(&["drive", "add", "d", "--store", &url, "--credentials-file", &bench.text("ini")]);
    b.open();
    b.ok(&["drive", "pause", "d"]);
    std::fs::write(b.machine.mountpoint().join("note"), "waits").unwrap();
    b.ok(&["drive", "close", "d"]);
    b.ok(&["daemon", "stop"]);
    let before = segments(&server);
    weak.heed(false);
    // The next service tests it again.
    b.ok(&["drive", "resume", "d"]);
    let refused = b
        .machine
        .status_when("refused", |status| status["reason"].to_string().contains("no longer protects"));
    assert_eq!(refused["state"], "Needs attention", "{refused}");
    b.refused(&["drive", "sync", "d"], 1, "weak_store");
    assert_eq!(segments(&server), before, "nothing is uploaded to it");
    weak.heed(true);
    b.open();
    assert_eq!(std::fs::read(b.machine.mountpoint().join("note")).unwrap(), b"waits");
    b.ok(&["drive", "close", "d", "--wait"]);
    assert!(segments(&server) > before);
    assert_eq!(b.ok(&["drive", "check", "d"])["ok"], true);
}

#[test]
fn a_store_without_conditions_needs_consent_and_refuses_swapping_drives() {
    let bench = Bench::new();
    let (server, _proxy, swapping, a) = with_drive(&bench);
    // It gets a file system at its first opening.
    a.open();
    a.ok(&["drive", "close", "d", "--wait"]);
    let weak = Unconditional::start(server.address());
    let store = url("http", weak.address(), "weak");
    let from = bench.text("ini");
    let create = ["drive", "create", "w", "--store", &store, "--size", "64M", "--no-encryption"];
    let create = [&create[..], &["--credentials-file", &from]].concat();
    let failure = a.refused(&create, 1, "weak_store");
    assert!(failure["action"].as_str().unwrap().contains("--yes"), "{failure}");
    let made = a.ok(&[&create[..], &["--yes"]].concat());
    assert_eq!(made["store_mode"], "none");
    let at = a.machine.mountpoint().display().to_string();
    a.ok(&["drive", "open", "w", "--attach", "loop", "--at", &at]);
    std::fs::write(a.machine.mountpoint().join("note"), "weak").unwrap();
    assert_eq!(a.ok(&["drive", "status", "w"])["store_mode"], "none");
    a.ok(&["drive", "close", "w", "--wait"]);
    assert!(a.reads(&["drive", "status", "w"]).contains("one computer at a time"));

    // A family that swaps, behind a proxy that has begun to remove conditions.
    let behind = url("http", weak.address(), "d");
    assert_ne!(behind, swapping);
    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &behind, "--credentials-file", &from]);
    let failure =
        b.refused(&["drive", "open", "d", "--attach", "loop", "--at", &bench.text("b/mnt")], 1, "weak_store");
    assert!(failure["message"].as_str().unwrap().contains("no longer protects"), "{failure}");
    b.ok(&["drive", "open", "d", "--read-only", "--attach", "loop", "--at", &bench.text("b/mnt")]);
    b.ok(&["drive", "close", "d"]);
    // None of this has harmed the drive.
    a.open();
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);

    // It does not move there through a replica either, unless a person accepts that.
    let replica = url("http", weak.address(), "second");
    let store = a.ok(&["drive", "status", "d"])["store"].clone();
    a.ok(&["drive", "replica", "add", "d", &replica]);
    let refused = ask(&a, "/v1/drives/d/replicas/promote", &json!({"store": replica}));
    assert!(refused.contains("weak_store") && refused.contains("one computer at a time"), "{refused}");
    assert_eq!(a.ok(&["drive", "status", "d"])["store"], store);
    a.ok(&["drive", "replica", "promote", "d", &replica, "--yes"]);
    assert_eq!(a.ok(&["drive", "status", "d"])["store_mode"], "none");
}

/// Sends a request as the command line does, and returns the service's answer.
pub fn ask(person: &Person, path: &str, body: &Value) -> String {
    let (mut stream, body) =
        (UnixStream::connect(person.machine.runtime.join("daemon.sock")).unwrap(), body.to_string());
    let len = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: holdall\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
