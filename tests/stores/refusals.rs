//! Refusals of a store, and mistakes in requests to it: credentials with few rights, on real servers, and addresses with
//! mistakes. The person reads what is wrong and what to do, and nothing is lost or created.

use crate::bench::Bench;
use crate::person::Person;
use crate::place::Place;
use crate::s3;
use holdall_servers::dav::{self, DavServer, PASSWORD, SignIn};
use holdall_servers::s3::{KEEPER, READER, S3Server};
use holdall_servers::tls::Authority;
use holdall_servers::unconditional::Unconditional;
use std::fs;
use std::net::TcpListener;

/// A store, and credentials for it with fewer rights than those of the drive's creator.
struct Little {
    place: Place,
    file: String,
}

impl Little {
    fn new(bench: &Bench, place: Place, credentials: &str) -> Self {
        fs::write(bench.path("little"), credentials).unwrap();
        Self { place, file: bench.text("little") }
    }

    /// The keys of another user, restricted by the bucket's policy.
    fn of_bucket(bench: &Bench, user: &holdall_servers::s3::User) -> Self {
        let server = S3Server::start_with_users();
        let (url, all) = (server.url("d"), holdall_servers::s3::credentials());
        let place = Place::with_credentials(bench, &url, "swap", &all, Box::new(server));
        Self::new(bench, place, &user.credentials())
    }

    /// The same in a bucket that ignores conditions.
    fn of_weak_bucket(bench: &Bench, user: &holdall_servers::s3::User) -> Self {
        let server = S3Server::start_with_users();
        let weak = Unconditional::start(server.address());
        let (url, all) =
            (holdall_servers::s3::url("http", weak.address(), "d"), holdall_servers::s3::credentials());
        let place = Place::with_credentials(bench, &url, "none", &all, Box::new((weak, server)));
        Self::new(bench, place, &user.credentials())
    }

    /// Another user, restricted by Apache's configuration.
    fn of_collection(bench: &Bench, user: &str) -> Self {
        let server = DavServer::apache(SignIn::Basic);
        let (url, all) = (server.url("/d/"), format!("{}:{PASSWORD}", dav::USER));
        let place = Place::with_credentials(bench, &url, "claim", &all, Box::new(server));
        Self::new(bench, place, &format!("{user}:{PASSWORD}"))
    }

    fn with<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        [command, &["--credentials-file", &self.file]].concat()
    }
}

/// Creates a drive with a note in it.
fn with_note(bench: &Bench, place: &Place) -> Person {
    let a = Person::new(bench, "a", &[]);
    a.ok(&place.create("64M"));
    a.open();
    fs::write(a.machine.mountpoint().join("note"), "from a").unwrap();
    a.ok(&["drive", "close", "d", "--wait"]);
    a
}

/// The drive opens read-only, and says why.
fn is_looked_at(person: &Person) {
    let opened = person.open();
    let why = opened["read_only_because"].as_str().unwrap_or_default();
    assert!(why.contains("read-only") && why.contains("allow"), "{opened}");
    let note = person.machine.mountpoint().join("note");
    assert_eq!(fs::read_to_string(&note).unwrap(), "from a");
    assert_eq!(fs::write(&note, "x").unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    person.ok(&["drive", "close", "d"]);
}

fn who_may_only_read_looks(bench: &Bench, little: &Little) {
    let Little { place, file } = little;
    let a = with_note(bench, place);
    // On a computer that never had it.
    let b = Person::new(bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &place.url, "--credentials-file", file]);
    is_looked_at(&b);
    assert_eq!(b.ok(&["drive", "check", "d"])["ok"], true);
    // They are not enough for a new drive, as the test of the store says.
    let tested = b.machine.run(&["store", "test", &place.url]);
    assert_eq!(tested.status.code(), Some(1));
    let text = b.reads(&["store", "test", &place.url]);
    assert!(text.contains("may not write, delete") && text.contains("cannot hold a drive"), "{text}");
    let elsewhere = place.url.replacen("/d", "/e", 1);
    let create = ["drive", "create", "e", "--store", &elsewhere, "--size", "64M", "--no-encryption"];
    let failure = b.refused(&little.with(&create), 6, "credentials");
    assert!(failure["message"].as_str().unwrap().contains("may not write"), "{failure}");
    // On the computer that has written it, too, and back again.
    a.ok(&little.with(&["store", "login", &place.url]));
    is_looked_at(&a);
    a.ok(&place.store("login"));
    assert!(a.open()["read_only_because"].is_null());
    fs::write(a.machine.mountpoint().join("note"), "again").unwrap();
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}

#[test]
fn a_reader_of_a_bucket_opens_the_drive_read_only() {
    let bench = Bench::new();
    who_may_only_read_looks(&bench, &Little::of_bucket(&bench, &READER));
}

#[test]
fn a_reader_of_a_bucket_without_conditions_opens_read_only() {
    let bench = Bench::new();
    who_may_only_read_looks(&bench, &Little::of_weak_bucket(&bench, &READER));
}

#[test]
fn a_reader_of_a_collection_opens_the_drive_read_only() {
    let bench = Bench::new();
    who_may_only_read_looks(&bench, &Little::of_collection(&bench, dav::READER));
}

fn who_may_not_delete_works(bench: &Bench, little: &Little) {
    let place = &little.place;
    let a = Person::new(bench, "a", &[]);
    let text = a.reads(&little.with(&["store", "test", &place.url]));
    assert!(text.contains("may not delete") && text.contains("takes up space"), "{text}");
    let create = ["drive", "create", "d", "--store", &place.url, "--size", "64M", "--no-encryption"];
    assert_eq!(a.ok(&little.with(&create))["store_mode"], place.mode);
    a.open();
    for content in ["one", "two"] {
        fs::write(a.machine.mountpoint().join("note"), content).unwrap();
        a.ok(&["drive", "sync", "d"]);
    }
    assert_eq!(a.ok(&["drive", "status", "d"])["state"], "Ready");
    let failure = a.refused(&["drive", "gc", "d"], 6, "credentials");
    assert!(failure["message"].as_str().unwrap().contains("allow"), "{failure}");
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
    // Another user, with all rights, reads what was written.
    let b = Person::new(bench, "b", &[]);
    b.ok(&place.drive(&["add"]));
    b.open();
    assert_eq!(fs::read_to_string(b.machine.mountpoint().join("note")).unwrap(), "two");
    b.ok(&["drive", "gc", "d"]);
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn works_without_deleting_in_a_bucket_and_reports_growth() {
    let bench = Bench::new();
    who_may_not_delete_works(&bench, &Little::of_bucket(&bench, &KEEPER));
}

#[test]
fn works_without_deleting_in_a_collection_and_reports_growth() {
    let bench = Bench::new();
    who_may_not_delete_works(&bench, &Little::of_collection(&bench, dav::KEEPER));
}

/// An address with a mistake: the exit code, the failure's code, and words of its message and its action.
struct Mistake {
    url: String,
    exit: i32,
    code: &'static str,
    message: &'static str,
    action: &'static str,
}

fn are_told(bench: &Bench, mistakes: &[Mistake], credentials: Option<&str>) {
    let a = Person::new(bench, "a", &[]);
    let login: Vec<_> = credentials.map_or_else(Vec::new, |file| vec!["--credentials-file", file]);
    for Mistake { url, exit, code, message, action } in mistakes {
        let create = ["drive", "create", "d", "--store", url, "--size", "64M", "--no-encryption"];
        let add = ["drive", "add", "d", "--store", url];
        let mut commands = vec![create.to_vec(), add.to_vec(), vec!["store", "test", url]];
        // Logging in needs credentials.
        commands.extend(credentials.map(|_| vec!["store", "login", url]));
        for command in commands {
            let failure = a.refused(&[&command[..], &login].concat(), *exit, code);
            let says = |part: &str, words: &str| failure[part].as_str().unwrap().contains(words);
            assert!(says("message", message) && says("action", action), "{command:?}: {failure}");
        }
    }
    assert_eq!(a.ok(&["store", "list"]), serde_json::json!([]));
    assert_eq!(a.ok(&["drive", "list"]), serde_json::json!([]));
}

/// A port where nothing listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

const SECURE: &str = "If the server speaks TLS, its address begins with https://";
const CORRECT: &str = "Correct the address";

#[test]
fn reports_mistakes_in_the_address_of_a_bucket() {
    let bench = Bench::new();
    s3::files(&bench);
    let server = S3Server::start();
    let secure = S3Server::start_tls(&Authority::new().issue("127.0.0.1", 2));
    let url = server.url("d");
    let of = |from: &str, to: &str| {
        assert!(url.contains(from), "{url}");
        url.replacen(from, to, 1)
    };
    let mistake = |url: String, exit, code, message, action| Mistake { url, exit, code, message, action };
    let closed = of(&server.address().to_string(), &format!("127.0.0.1:{}", closed_port()));
    let clear = secure.url("d").replacen("https", "http", 1);
    let mistakes = [
        mistake(of("s3://", ""), 2, "usage", "is not a store", CORRECT),
        mistake(of("s3://", "s4://"), 2, "usage", "is not a store", CORRECT),
        mistake(
            of("holdall/", "holdal/"),
            3,
            "not_found",
            "There is no bucket holdal at",
            "correct the address",
        ),
        mistake(of("holdall/", "hold_all!/"), 3, "not_found", "no name that a bucket can have", CORRECT),
        mistake(of("endpoint=", "endpont="), 2, "usage", "endpont is no option", CORRECT),
        mistake(of("http%3A%2F%2F", ""), 2, "usage", "endpoint", CORRECT),
        mistake(of("http%3A", "https%3A"), 5, "offline", "cannot be reached", ""),
        mistake(clear, 5, "offline", "cannot be reached", SECURE),
        mistake(closed, 5, "offline", "cannot be reached", ""),
    ];
    are_told(&bench, &mistakes, Some(&bench.text("ini")));
}

#[test]
fn reports_mistakes_in_the_address_of_a_collection() {
    let bench = Bench::new();
    let (server, secure) = (DavServer::apache(SignIn::None), DavServer::apache_tls(SignIn::None, 2));
    // A server that does not answer clients without TLS.
    let silent = S3Server::start_tls(&Authority::new().issue("127.0.0.1", 2));
    let host = server.address().to_string();
    let mistake = |url: String, exit, code, message, action| Mistake { url, exit, code, message, action };
    let mistakes = [
        mistake(format!("{host}/d/"), 2, "usage", "is not a store", CORRECT),
        mistake(format!("htp://{host}/d/"), 2, "usage", "is not a store", CORRECT),
        mistake(format!("http://{host}/d/?cert=/x"), 2, "usage", "cert is no option", CORRECT),
        mistake(format!("https://{host}/d/"), 5, "offline", "does not speak TLS there", ""),
        mistake(format!("http://{}/d/", secure.address()), 5, "offline", "cannot be reached", SECURE),
        mistake(format!("http://{}/d/", silent.address()), 5, "offline", "cannot be reached", SECURE),
        mistake(format!("http://127.0.0.1:{}/d/", closed_port()), 5, "offline", "nothing listens there", ""),
        mistake("http://no.such.host.invalid/d/".into(), 5, "offline", "is not known (DNS)", ""),
    ];
    are_told(&bench, &mistakes, None);
    // A user in the address is not repeated, and the failure says where to enter it.
    let a = Person::new(&bench, "b", &[]);
    let failure = a.refused(&["store", "test", &format!("http://ann:hunter2@{host}/d/")], 2, "usage");
    assert!(failure["action"].as_str().unwrap().contains("holdall store login"), "{failure}");
    assert!(!failure.to_string().contains("hunter2"), "{failure}");
}

#[test]
fn reports_an_emptied_store_and_does_not_start_over() {
    let bench = Bench::new();
    let server = S3Server::start();
    let url = server.url("d");
    let all = holdall_servers::s3::credentials();
    let bucket = server.bucket();
    let place = Place::with_credentials(&bench, &url, "swap", &all, Box::new(server));
    let a = with_note(&bench, &place);
    fs::rename(bucket.join("d"), bucket.with_extension("aside")).unwrap();
    let failure = a.refused(&["drive", "open", "d"], 3, "not_found");
    let told = |part: &str| failure[part].as_str().unwrap().to_owned();
    assert!(told("message").contains("no longer has any data of this drive"), "{failure}");
    assert!(told("consequence").contains("safe") && told("action").contains("replica"), "{failure}");
    // A missing bucket may come back. Meanwhile the local data is used.
    let gone = bucket.with_extension("gone");
    fs::rename(&bucket, &gone).unwrap();
    let opened = a.open();
    assert!(opened["away_because"].as_str().is_some_and(|why| why.contains("no bucket")), "{opened}");
    assert_eq!(fs::read_to_string(a.machine.mountpoint().join("note")).unwrap(), "from a");
    fs::rename(gone, &bucket).unwrap();
    fs::rename(bucket.with_extension("aside"), bucket.join("d")).unwrap();
    a.machine.status_when("back", |status| status["state"] == "Ready" && status["reason"].is_null());
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}
