//! A drive in a collection on a WebDAV server.

use crate::bench::Bench;
use crate::person::Person;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use holdall_servers::faults::{self, Fault, FaultProxy};

#[test]
fn a_drive_moves_through_a_collection_without_revealing_secrets() {
    let bench = Bench::new();
    let server = DavServer::apache(SignIn::Basic);
    let url = server.url("/holdall/");
    std::fs::write(bench.path("password"), format!("{USER}:{PASSWORD}\n")).unwrap();
    std::fs::write(bench.path("wrong"), format!("{USER}:mistaken identity\n")).unwrap();
    let (password, wrong) = (bench.text("password"), bench.text("wrong"));
    let mut a = Person::new(&bench, "a", &[]);
    let create = ["drive", "create", "d", "--store", &url, "--size", "64M", "--no-encryption"];
    a.refused(&create, 6, "credentials");
    let root = server.url("/");
    a.refused(&["store", "login", &root, "--credentials-file", &wrong], 6, "credentials");
    let login = a.ok(&["store", "login", &root, "--credentials-file", &password]);
    assert_eq!((login["kept"].as_str(), login["user"].as_str()), (Some("file"), Some(USER)));
    let made = a.ok(&create);
    assert_eq!(made["store_mode"], "claim");
    a.open();
    std::fs::write(a.machine.mountpoint().join("note"), "from a").unwrap();
    a.ok(&["drive", "sync", "d"]);
    assert_eq!(a.ok(&["drive", "status", "d"])["store_mode"], "claim");
    a.ok(&["drive", "close", "d", "--wait"]);

    let mut b = Person::new(&bench, "b", &[]);
    let made = b.ok(&["drive", "add", "d", "--store", &url, "--credentials-file", &password]);
    assert_eq!(made["store_mode"], "claim");
    b.open();
    assert_eq!(std::fs::read(b.machine.mountpoint().join("note")).unwrap(), b"from a");
    b.ok(&["drive", "close", "d", "--wait"]);
    // Also in the form that goes over the wire.
    let basic = data_encoding::BASE64.encode(format!("{USER}:{PASSWORD}").as_bytes());
    for person in [&mut a, &mut b] {
        person.assert_discreet(&[PASSWORD, "mistaken identity", &basic]);
    }
}

fn servers() -> [DavServer; 2] {
    [DavServer::apache(SignIn::None), DavServer::nginx(SignIn::None)]
}

pub fn create(person: &Person, url: &str) -> serde_json::Value {
    person.ok(&["drive", "create", "d", "--store", url, "--size", "64M", "--no-encryption"])
}

#[test]
fn a_collection_may_have_any_name_and_a_trailing_slash() {
    for (number, server) in servers().into_iter().enumerate() {
        let bench = Bench::new();
        let (a, b) = (Person::new(&bench, "a", &[]), Person::new(&bench, "b", &[]));
        // A space, a percent sign, letters that are not ASCII, and characters that separate other parts of addresses.
        let (with, without) =
            (server.url("/a%20b/100%25%20%C3%BC%23%3F+/"), server.url("/a%20b/100%25%20%C3%BC%23%3F+"));
        std::fs::create_dir(server.root().join("a b")).unwrap();
        crate::bench::run("chmod", &["777", &server.root().join("a b").display().to_string()]);
        let tested = a.ok(&["store", "test", &without]);
        assert_eq!(tested["usable"], true, "{tested}");
        create(&a, if number == 0 { &with } else { &without });
        a.open();
        std::fs::write(a.machine.mountpoint().join("note"), "from a").unwrap();
        a.ok(&["drive", "close", "d", "--wait"]);
        assert!(server.root().join("a b/100% ü#?+/family.json").exists());
        b.ok(&["drive", "add", "d", "--store", if number == 0 { &without } else { &with }]);
        b.open();
        assert_eq!(std::fs::read(b.machine.mountpoint().join("note")).unwrap(), b"from a");
        b.ok(&["drive", "close", "d", "--wait"]);
        assert_eq!(b.ok(&["drive", "check", "d"])["ok"], true);
    }
}

#[test]
fn reports_a_missing_parent_collection_and_creates_nothing() {
    for server in servers() {
        let bench = Bench::new();
        let a = Person::new(&bench, "a", &[]);
        let url = server.url("/no/such/place/");
        let create = ["drive", "create", "d", "--store", &url, "--size", "64M", "--no-encryption"];
        for command in [&["store", "test", &url][..], &create] {
            let failure = a.refused(command, 3, "not_found");
            let message = failure["message"].as_str().unwrap();
            assert!(message.starts_with("There is no collection that could hold"), "{failure}");
        }
        assert!(!server.root().join("no").exists());
    }
}

/// Answers of a server to every request, with the exit code, the failure's code, and words of its message.
const REFUSALS: [(Fault, i32, &str, &str); 4] = [
    (Fault::Status { code: 423, error: "Locked", retry_after: None }, 5, "offline", "has it locked (423)"),
    (Fault::FULL, 1, "full", "no room left for this user (507)"),
    (Fault::Portal, 5, "offline", "a web page came"),
    (Fault::PRECONDITION, 5, "offline", "makes no sense (412)"),
];

#[test]
fn reports_what_a_server_refuses_and_never_hangs() {
    for server in servers() {
        let bench = Bench::new();
        let proxy = FaultProxy::start(server.address());
        let url = format!("http://{}/drives/", proxy.address());
        let a = Person::new(&bench, "a", &[]);
        let elsewhere = url.replace("drives", "others");
        let new = ["drive", "create", "e", "--store", &elsewhere, "--size", "64M", "--no-encryption"];
        create(&a, &url);
        a.open();
        for (fault, exit, code, words) in REFUSALS {
            proxy.plan(faults::from(0, fault.clone()));
            for command in [&["store", "test", &elsewhere][..], &new] {
                let failure = a.refused(command, exit, code);
                assert!(failure["message"].as_str().unwrap().contains(words), "{fault:?}: {failure}");
            }
            std::fs::write(a.machine.mountpoint().join("note"), words).unwrap();
            let syncing = a.machine.begin(&["drive", "sync", "d"]);
            let status = a.machine.status_when(words, |status| {
                status["state"] != "Ready"
                    && status["reason"].as_str().is_some_and(|reason| reason.contains(words))
            });
            assert!(status["unpushed_bytes"].as_u64().unwrap() > 0, "{status}");
            proxy.plan(faults::none());
            syncing.ok();
        }
        a.ok(&["drive", "close", "d", "--wait"]);
        assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
    }
}
