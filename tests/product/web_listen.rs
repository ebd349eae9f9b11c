//! `holdall web --listen` as browsers on other computers and attackers see it: real TLS.

use crate::web::{Daemon, asks_as};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

const PASSWORD: &str = "a password & 12+ signs";
/// The password in a form.
const FILLED_IN: &str = "password=a+password+%26+12%2B+signs";

/// A browser that trusts the daemon's own certificate.
struct Browser {
    port: u16,
    certificate: CertificateDer<'static>,
    cookie: Option<String>,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|it| it.1)
    }
}

impl Browser {
    fn of(daemon: &Daemon, listening: &Value) -> Self {
        let url = listening["url"].as_str().unwrap();
        let port = url.strip_prefix("https://127.0.0.1:").unwrap().trim_end_matches('/').parse().unwrap();
        let file = daemon.dir.path().join("state/web-certificate.pem");
        Browser { port, certificate: CertificateDer::from_pem_file(file).unwrap(), cookie: None }
    }

    /// Whether the server has the certificate that this browser trusts.
    fn is_trusted(&self) -> bool {
        let mut connection = self.connection();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        while connection.is_handshaking() {
            if connection.complete_io(&mut stream).is_err() {
                return false;
            }
        }
        true
    }

    fn connection(&self) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream =
            StreamOwned::new(self.connection(), TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        let length = body.len();
        let mut request = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nContent-Length: {length}\r\n",
            self.port
        );
        let cookie = self.cookie.as_ref().map(|cookie| ("Cookie", cookie.as_str()));
        for (name, value) in headers.iter().copied().chain(cookie) {
            request += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Some servers end a connection without TLS's closing message. The headers are all that matters.
        let _ = stream.read_to_end(&mut answer);
        Answer::of(&String::from_utf8(answer).unwrap())
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    fn sign_in(&self, filled_in: &str, origin: Option<&str>) -> Answer {
        let own = format!("https://127.0.0.1:{}", self.port);
        let origin = ("Origin", origin.unwrap_or(&own));
        self.ask(
            "POST",
            "/sign-in",
            &[origin, ("Content-Type", "application/x-www-form-urlencoded")],
            filled_in,
        )
    }
}

/// Makes the daemon listen, and returns its answer.
fn listen(daemon: &Daemon, address: &str, more: &[&str]) -> Result<Value, Value> {
    let file = daemon.dir.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let arguments = ["web", "--listen", address, "--password-file", file.to_str().unwrap()];
    daemon.told.borrow_mut().push(PASSWORD.to_owned());
    daemon.holdall(&[&arguments, more].concat())
}

#[test]
fn a_remote_browser_signs_in_and_survives_a_restart() {
    let mut daemon = Daemon::start();
    let listening = listen(&daemon, "127.0.0.1:0", &[]).unwrap();
    let mut browser = Browser::of(&daemon, &listening);
    let hash =
        Sha256::digest(&browser.certificate).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>();
    assert_eq!(listening["fingerprint"], hash.join(":"));
    for name in ["web-key.pem", "web-listen.json"] {
        assert_eq!(
            std::fs::metadata(daemon.dir.path().join("state").join(name)).unwrap().mode() & 0o777,
            0o600
        );
    }

    // Without the password there is nothing to see, and a token does not help.
    let sent = browser.get("/");
    assert_eq!((sent.status, sent.header("location")), (303, Some("/sign-in")));
    assert_eq!(browser.get("/v1/drives").status, 401);
    let page = browser.get("/sign-in");
    assert!(page.status == 200 && page.body.contains("type=\"password\""));
    assert_eq!(browser.sign_in("password=wrong", None).status, 403);
    assert_eq!(browser.sign_in("user=me", None).status, 400);
    let address = daemon.holdall(&["web"]).unwrap();
    let token = address["url"].as_str().unwrap().split_once("token=").unwrap().1.to_owned();
    daemon.told.borrow_mut().push(token.clone());
    assert_eq!(browser.get(&format!("/?token={token}")).status, 303);
    assert_eq!(browser.get(&format!("/?token={token}")).header("set-cookie"), None);

    // Another site cannot sign a browser in.
    assert_eq!(browser.sign_in(FILLED_IN, Some("https://example.org")).status, 403);
    let let_in = browser.sign_in(FILLED_IN, None);
    assert_eq!((let_in.status, let_in.header("location")), (303, Some("/")));
    let cookie = let_in.header("set-cookie").unwrap();
    assert!(["HttpOnly", "SameSite=Strict", "Secure"].iter().all(|part| cookie.contains(part)), "{cookie}");
    browser.cookie = cookie.split(';').next().map(str::to_owned);
    daemon.told.borrow_mut().push(cookie.split(['=', ';']).nth(1).unwrap().to_owned());
    let drives = browser.get("/v1/drives");
    assert_eq!((drives.status, drives.body.as_str()), (200, "[]"));
    assert!(browser.get("/").body.contains("the page"));

    // Requests that change something must come from these pages.
    let own = format!("https://127.0.0.1:{}", browser.port);
    let limits = |headers: &[(&str, &str)]| browser.ask("DELETE", "/v1/web", headers, "").status;
    assert_eq!(limits(&[]), 403);
    assert_eq!(limits(&[("Origin", &own.replace("https", "http")), ("X-Holdall", "1")]), 403);
    assert_eq!(limits(&[("Origin", "https://example.org"), ("X-Holdall", "1")]), 403);

    daemon.restart();
    daemon.serves(browser.port);
    assert_eq!(browser.get("/v1/drives").status, 200);
    assert_eq!(browser.get("/").status, 200);

    // Stopping it lasts beyond this daemon.
    daemon.holdall(&["web", "--stop"]).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", browser.port)).is_err());
    daemon.restart();
    daemon.holdall(&["daemon", "status"]).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", browser.port)).is_err());
    let again = listen(&daemon, &format!("127.0.0.1:{}", browser.port), &[]).unwrap();
    assert_eq!(again["fingerprint"].as_str().unwrap().len(), 95);
    browser.certificate = Browser::of(&daemon, &again).certificate;
    assert_eq!(browser.get("/v1/drives").status, 401, "nobody is in any more");
}

#[test]
fn wrong_passwords_slow_down_further_sign_ins() {
    let daemon = Daemon::start();
    let browser = Browser::of(&daemon, &listen(&daemon, "127.0.0.1:0", &[]).unwrap());
    for _ in 0..5 {
        assert_eq!(browser.sign_in("password=wrong", None).status, 403);
    }
    let waits = browser.sign_in(FILLED_IN, None);
    assert_eq!((waits.status, waits.header("set-cookie")), (429, None));
    assert!(waits.header("retry-after").unwrap().parse::<u64>().unwrap() <= 2);
    let activity = daemon.holdall(&["activity"]).unwrap().to_string();
    assert!(
        activity.contains("There were several attempts to sign in to the pages from 127.0.0.1."),
        "{activity}"
    );
}

#[test]
fn serves_nothing_over_plain_http() {
    let daemon = Daemon::start();
    let browser = Browser::of(&daemon, &listen(&daemon, "127.0.0.1:0", &[]).unwrap());
    let mut stream = TcpStream::connect(("127.0.0.1", browser.port)).unwrap();
    stream.write_all(b"GET /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(!String::from_utf8_lossy(&said).contains("HTTP/"), "{said:?}");

    let refused = listen(&daemon, "0.0.0.0:0", &["--no-tls"]).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("no TLS"), "{refused}");
    // The refused requests have changed nothing.
    assert_eq!(browser.get("/sign-in").status, 200);
    assert_eq!(browser.get("/v1/web/listen").status, 403, "the password is chosen on this computer");
}

/// A browser's request, as a proxy that does TLS for `name` forwards it.
fn by_proxy(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut request = format!("{method} {path} HTTP/1.0\r\nHost: name\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Answer::of(&answer)
}

#[test]
fn guessing_behind_a_proxy_delays_only_the_guesser() {
    let daemon = Daemon::start();
    let clear = listen(&daemon, "127.0.0.1:0", &["--no-tls"]).unwrap();
    assert!(clear["fingerprint"].is_null());
    let port = clear["url"].as_str().unwrap().strip_prefix("http://127.0.0.1:").unwrap();
    let port: u16 = port.trim_end_matches('/').parse().unwrap();
    let sign_in = |from: &str, origin: &str, filled_in: &str| {
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        by_proxy(port, "POST", "/sign-in", &[("Origin", origin), ("X-Forwarded-For", from), form], filled_in)
    };
    for _ in 0..5 {
        assert_eq!(sign_in("192.0.2.66", "https://name", "password=wrong").status, 403);
    }
    assert_eq!(sign_in("192.0.2.66", "https://name", FILLED_IN).status, 429);
    assert_eq!(sign_in("192.0.2.1", "http://name", FILLED_IN).status, 403, "a page that came in the clear");
    let let_in = sign_in("192.0.2.66, 192.0.2.1", "https://name", FILLED_IN);
    assert_eq!(let_in.status, 303);
    let cookie = let_in.header("set-cookie").unwrap();
    assert!(cookie.contains("Secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    daemon.told.borrow_mut().push(cookie.split('=').nth(1).unwrap().to_owned());
    let drives = by_proxy(port, "GET", "/v1/drives", &[("Cookie", cookie)], "");
    assert_eq!((drives.status, drives.body.as_str()), (200, "[]"));
}

#[test]
fn a_forged_client_gains_another_user_nothing() {
    const ANOTHER: u32 = 4242;
    /// Debian's www-data.
    const PROXY: u32 = 33;
    assert!(rustix::process::geteuid().is_root(), "only root can be another user");
    let daemon = Daemon::start();
    let clear = listen(&daemon, "127.0.0.1:0", &["--no-tls"]).unwrap();
    let port = clear["url"].as_str().unwrap().strip_prefix("http://127.0.0.1:").unwrap();
    let port: u16 = port.trim_end_matches('/').parse().unwrap();
    let sign_in = |user: u32, from: &str, body: &str| {
        let request = format!(
            "POST /sign-in HTTP/1.0\r\nHost: name\r\nOrigin: https://name\r\nX-Forwarded-For: {from}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Answer::of(&asks_as(user, port, &request)).status
    };
    for number in 1..=5 {
        assert_eq!(sign_in(ANOTHER, &format!("192.0.2.{number}"), "password=wrong"), 403);
    }
    assert_eq!(sign_in(ANOTHER, "192.0.2.6", FILLED_IN), 429, "another name is no other client");
    // Nor does the client wait whose name was used.
    for _ in 0..5 {
        assert_eq!(sign_in(PROXY, "192.0.2.1", "password=wrong"), 403);
    }
    assert_eq!(sign_in(PROXY, "192.0.2.1", "password=wrong"), 429);
    assert_eq!(sign_in(PROXY, "192.0.2.2", "password=wrong"), 403);
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart() {
    let daemon = Daemon::start();
    let path = |name: &str| daemon.dir.path().join(name);
    let renew = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(path("given.pem"), certificate.pem()).unwrap();
        std::fs::write(path("given-key.pem"), key.serialize_pem()).unwrap();
        certificate.der().clone()
    };
    let first = renew();
    let (certificate, key) = (path("given.pem"), path("given-key.pem"));
    let given = ["--certificate", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let listening = listen(&daemon, "127.0.0.1:0", &given).unwrap();
    let url = listening["url"].as_str().unwrap();
    let port = url.strip_prefix("https://127.0.0.1:").unwrap().trim_end_matches('/').parse().unwrap();
    let browser = |certificate| Browser { port, certificate, cookie: None };
    assert_eq!(browser(first.clone()).get("/sign-in").status, 200);

    let second = renew();
    crate::bench::wait_until("the renewed certificate is used", || browser(second.clone()).is_trusted())
        .unwrap();
    assert!(!browser(first).is_trusted(), "the former one is no longer shown");
    assert_eq!(browser(second.clone()).get("/sign-in").status, 200);

    std::fs::write(&key, "nonsense").unwrap();
    let told = || daemon.holdall(&["activity"]).unwrap().to_string();
    crate::bench::wait_until("it is told", || {
        told().contains("The new certificate for the pages cannot be used")
    })
    .unwrap();
    assert!(told().contains("given-key.pem"), "{}", told());
    assert_eq!(browser(second).get("/sign-in").status, 200, "the one in use stays");
}

#[test]
fn says_why_an_address_cannot_be_listened_on() {
    let daemon = Daemon::start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let failed = listen(&daemon, &taken.local_addr().unwrap().to_string(), &[]).unwrap_err();
    assert!(failed["message"].as_str().unwrap().contains("Cannot listen at"), "{failed}");
    assert!(!daemon.dir.path().join("state/web-listen.json").exists(), "the next daemon does not try");
    let failed =
        listen(&daemon, "127.0.0.1:0", &["--certificate", "/nowhere/c.pem", "--key", "/nowhere/k.pem"]);
    assert!(failed.unwrap_err()["message"].as_str().unwrap().contains("/nowhere/c.pem"));
    assert!(listen(&daemon, "localhost", &[]).is_err());
}
