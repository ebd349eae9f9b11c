//! Ways to reach a store: a private authority, a region, a host for each bucket, and each kind of credentials.

use crate::bench::{Bench, noise};
use crate::person::Person;
use crate::place::Place;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, TOKEN, USER};
use holdall_servers::faults::FaultProxy;
use holdall_servers::names::Names;
use holdall_servers::s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY, credentials};
use holdall_servers::temporary::{SESSION_TOKEN, Temporary};
use holdall_servers::tls::Authority;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

fn bucket(bench: &Bench, url: &str) -> Place {
    Place::with_credentials(bench, url, "swap", &credentials(), Box::new(()))
}

/// A collection for the user with the password.
fn collection(bench: &Bench, url: &str) -> Place {
    Place::with_credentials(bench, url, "claim", &format!("{USER}:{PASSWORD}"), Box::new(()))
}

/// One person writes to a drive there, and another one reads it. Neither sees a secret.
fn moves(bench: &Bench, place: &Place, environment: &[(&str, &str)], secrets: &[&str]) {
    let [mut a, mut b] = ["a", "b"].map(|name| Person::new(bench, name, environment));
    let made = a.ok(&place.create("64M"));
    assert_eq!(made["store_mode"], place.mode, "{made}");
    a.open();
    // Larger than anything that is sent before a server has accepted the credentials.
    let content = noise(1, 3 << 20);
    std::fs::write(a.machine.mountpoint().join("photo"), &content).unwrap();
    a.ok(&["drive", "close", "d", "--wait"]);
    b.ok(&place.drive(&["add"]));
    b.open();
    assert!(std::fs::read(b.machine.mountpoint().join("photo")).unwrap() == content);
    b.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(b.ok(&["drive", "check", "d"])["ok"], true);
    a.assert_discreet(secrets);
    b.assert_discreet(secrets);
}

/// Tests, logins and creations fail, and say why.
fn is_refused(person: &Person, place: &Place, exit: i32, code: &str, words: &str) {
    for command in [place.store("test"), place.store("login"), place.create("64M")] {
        let failure = person.refused(&command, exit, code);
        assert!(failure["message"].as_str().unwrap().contains(words), "{command:?}: {failure}");
    }
}

/// A store that only clients reach that trust its authority. The refusal of other clients says how to trust it.
fn asks_for_its_authority(place: fn(&Bench, &str) -> Place, url: &str, ca: &Path, secrets: &[&str]) {
    let bench = Bench::new();
    let divider = if url.contains('?') { '&' } else { '?' };
    let trusting = |ca: &Path| place(&bench, &format!("{url}{divider}ca={}", ca.display()));
    let mut stranger = Person::new(&bench, "stranger", &[]);
    is_refused(&stranger, &place(&bench, url), 5, "offline", "ca=/path/to/");
    // One with the same name and another key.
    is_refused(&stranger, &trusting(&Authority::new().pem()), 5, "offline", "ca=/path/to/");
    is_refused(&stranger, &trusting(&bench.path("no.pem")), 2, "usage", "no.pem");
    stranger.assert_discreet(secrets);
    moves(&bench, &trusting(ca), &[], secrets);
}

#[test]
fn reaches_a_bucket_over_https_with_its_authority() {
    let authority = Authority::new();
    let server = S3Server::start_tls(&authority.issue("127.0.0.1", 2));
    asks_for_its_authority(bucket, &server.url("photos"), &authority.pem(), &[SECRET_KEY]);
}

#[test]
fn reaches_a_collection_over_https_with_its_authority() {
    let server = DavServer::apache_tls(SignIn::Basic, 2);
    let basic = data_encoding::BASE64.encode(format!("{USER}:{PASSWORD}").as_bytes());
    let secrets = [PASSWORD, &basic];
    asks_for_its_authority(collection, &server.url("/photos/"), &server.ca().unwrap(), &secrets);
}

#[test]
fn a_collection_accepts_a_password_by_digest() {
    let bench = Bench::new();
    let server = DavServer::apache(SignIn::Digest);
    moves(&bench, &collection(&bench, &server.url("/photos/")), &[], &[PASSWORD]);
}

#[test]
fn a_limited_server_accepts_a_password() {
    let bench = Bench::new();
    let server = DavServer::nginx(SignIn::Basic);
    let url = server.url("/photos/");
    let wrong = Place::with_credentials(&bench, &url, "claim", "writer:mistaken", Box::new(()));
    let stranger = Person::new(&bench, "stranger", &[]);
    is_refused(&stranger, &wrong, 6, "credentials", "does not take this user with this password");
    moves(&bench, &collection(&bench, &url), &[], &[PASSWORD]);
}

#[test]
fn a_server_without_move_and_ranges_holds_a_drive() {
    let bench = Bench::new();
    let server = DavServer::apache_of_little();
    let proxy = FaultProxy::start(server.address());
    let url = format!("http://{}/photos/", proxy.address());
    let place = Place::with_credentials(&bench, &url, "claim", "unused:by the server", Box::new(()));
    moves(&bench, &place, &[], &[]);
    let log = proxy.log();
    let answered = |method: &str, status: u16| {
        log.iter().filter(|entry| entry.asked.method == method && entry.status == Some(status)).count()
    };
    assert!(answered("MOVE", 405) > 0 && answered("MOVE", 201) == 0, "{log:?}");
    assert!(answered("GET", 200) > 0 && answered("GET", 206) == 0, "{log:?}");
}

/// An address in the form of Nextcloud, for a user whose name is a mail address.
#[test]
fn a_collection_may_have_an_address_like_nextclouds() {
    let bench = Bench::new();
    let server = DavServer::apache(SignIn::Basic);
    let files =
        ["remote.php", "remote.php/dav", "remote.php/dav/files", "remote.php/dav/files/ann@example.org"];
    files.iter().for_each(|directory| server.make_directory(directory));
    let home = server.url("/remote.php/dav/files/ann%40example.org");
    // Its parent must exist (409), and a mistake in an address does not create it.
    let missing = collection(&bench, &format!("{home}/Fotos/2026"));
    let stranger = Person::new(&bench, "stranger", &[]);
    let failure = stranger.refused(&missing.create("64M"), 3, "not_found");
    assert!(failure["message"].as_str().unwrap().contains("no collection that could hold"), "{failure}");
    assert!(!server.root().join(files[3]).join("Fotos").exists());
    // One login works for everything below it, with or without a slash.
    let login = collection(&bench, &home);
    let environment: &[(&str, &str)] = &[];
    let [mut a, mut b] = ["a", "b"].map(|name| Person::new(&bench, name, environment));
    for person in [&a, &b] {
        person.ok(&login.store("login"));
    }
    let at = format!("{home}/Alben%20%26%20mehr");
    a.ok(&["drive", "create", "d", "--store", &at, "--size", "64M", "--no-encryption"]);
    a.open();
    let content = noise(2, 3 << 20);
    std::fs::write(a.machine.mountpoint().join("photo"), &content).unwrap();
    a.ok(&["drive", "close", "d", "--wait"]);
    assert!(server.root().join(files[3]).join("Alben & mehr/family.json").exists());
    b.ok(&["drive", "add", "d", "--store", &format!("{at}/")]);
    b.open();
    assert!(std::fs::read(b.machine.mountpoint().join("photo")).unwrap() == content);
    b.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(b.ok(&["drive", "check", "d"])["ok"], true);
    a.assert_discreet(&[PASSWORD]);
    b.assert_discreet(&[PASSWORD]);
}

#[test]
fn a_collection_accepts_a_token() {
    let bench = Bench::new();
    let server = DavServer::apache(SignIn::Bearer);
    let place = |token: &str| {
        let login = format!(r#"{{"token": "{token}"}}"#);
        Place::with_credentials(&bench, &server.url("/photos/"), "claim", &login, Box::new(()))
    };
    let stranger = Person::new(&bench, "stranger", &[]);
    is_refused(&stranger, &place("old"), 6, "credentials", "does not take the token; it may have expired");
    moves(&bench, &place(TOKEN), &[], &[TOKEN]);
}

#[test]
fn a_bucket_accepts_temporary_credentials() {
    let bench = Bench::new();
    let server = S3Server::start();
    let temporary = Temporary::start(server.address());
    let place = |token: &str| {
        // In the format of `aws sts`.
        let login = format!(
            r#"{{"Credentials": {{"AccessKeyId": "{ACCESS_KEY}", "SecretAccessKey": "{SECRET_KEY}", "SessionToken": "{token}"}}}}"#
        );
        Place::with_credentials(&bench, &temporary.url("photos"), "swap", &login, Box::new(()))
    };
    let stranger = Person::new(&bench, "stranger", &[]);
    is_refused(&stranger, &place("old"), 6, "credentials", "does not take the session token");
    let without = bucket(&bench, &temporary.url("photos"));
    is_refused(&stranger, &without, 6, "credentials", "does not take the session token");
    moves(&bench, &place(SESSION_TOKEN), &[], &[SECRET_KEY, SESSION_TOKEN]);
}

#[test]
fn reads_a_profile_again_when_its_keys_are_replaced() {
    let bench = Bench::new();
    let server = S3Server::start();
    let temporary = Temporary::start(server.address());
    let home = bench.path("home");
    std::fs::create_dir_all(home.join(".aws")).unwrap();
    let write_token = |token: &str| {
        let keys = format!("aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n");
        let profile = format!("[work]\n{keys}aws_session_token = {token}\n");
        std::fs::write(home.join(".aws/credentials"), profile).unwrap();
    };
    write_token(SESSION_TOKEN);
    let mut a = Person::new(&bench, "a", &[("HOME", home.to_str().unwrap())]);
    let url = temporary.url("photos");
    a.ok(&["drive", "create", "d", "--store", &url, "--size", "64M", "--no-encryption", "--profile", "work"]);
    a.open();
    let save = |name: &str| {
        std::fs::write(a.machine.mountpoint().join(name), noise(1, 1 << 20)).unwrap();
        a.machine.begin(&["drive", "sync", "d"])
    };
    save("before").ok();
    write_token("expired");
    let syncing = save("meanwhile");
    a.machine.status_when("in need of its keys", |status| {
        let reason = status["reason"].as_str().unwrap_or_default();
        status["state"] == "Needs attention" && reason.contains("session token")
    });
    write_token(SESSION_TOKEN);
    syncing.ok();
    a.machine.status_when("ready", |status| status["state"] == "Ready");
    a.ok(&["drive", "close", "d", "--wait"]);
    a.assert_discreet(&[SECRET_KEY, SESSION_TOKEN]);
}

#[test]
fn reaches_a_bucket_in_a_named_region() {
    let bench = Bench::new();
    let server = S3Server::start_in_region("eu-central-1");
    let url = format!("s3://{BUCKET}/photos?endpoint=http://{}", server.address());
    let stranger = Person::new(&bench, "stranger", &[]);
    is_refused(&stranger, &bucket(&bench, &url), 3, "not_found", "write region=eu-central-1 in the address");
    moves(&bench, &bucket(&bench, &format!("{url}&region=eu-central-1")), &[], &[SECRET_KEY]);
}

#[test]
fn a_bucket_may_have_its_own_host() {
    let bench = Bench::new();
    let server = S3Server::start_below("drives.test");
    let names = Names::new();
    // Only the bucket's host name resolves, so the server cannot be reached in another way.
    names.are(&[(&format!("{BUCKET}.drives.test"), IpAddr::V4(Ipv4Addr::LOCALHOST))]);
    let endpoint = format!("http://drives.test:{}", server.address().port());
    let url = format!("s3://{BUCKET}/photos?endpoint={endpoint}&path_style=false");
    let environment = names.environment();
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    moves(&bench, &bucket(&bench, &url), &environment, &[SECRET_KEY]);
    let stranger = Person::new(&bench, "stranger", &environment);
    let by_path = bucket(&bench, &url.replace("path_style=false", "path_style=true"));
    is_refused(&stranger, &by_path, 5, "offline", "cannot be found");
}
