//! A drive in a collection on a WebDAV server.

use crate::bench::Bench;
use crate::person::Person;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};

#[test]
fn a_drive_moves_by_way_of_a_collection_and_no_secret_is_told() {
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
    // As it goes over the wire, too.
    let basic = data_encoding::BASE64.encode(format!("{USER}:{PASSWORD}").as_bytes());
    for person in [&mut a, &mut b] {
        person.assert_discreet(&[PASSWORD, "mistaken identity", &basic]);
    }
}
