//! Connections to a server that are broken, silent, slow or not secret.

use super::canned::{Canned, Counting};
use super::{NO_DRIP, NO_SILENCE, credentials, limited, parsed, run, store, unreachable};
use bytes::Bytes;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::pace::{Direction, Pacer};
use holdall_core::store::proxy::Proxy;
use holdall_core::store::s3::Limits;
use holdall_core::store::s3::S3Store;
use holdall_core::store::{Store, When};
use holdall_servers::connect::{self, ConnectProxy};
use holdall_servers::process::free_address;
use holdall_servers::s3::{S3Server, url};
use holdall_servers::tls::Authority;
use std::path::Path;
use std::time::Duration;

/// The address, with the certificates to trust.
fn trusting(url: &str, ca: &Path) -> String {
    format!("{url}&ca={}", ca.display())
}

#[test]
fn trusts_a_private_authority_only_where_configured() {
    let authority = Authority::new();
    let server = S3Server::start_tls(&authority.issue("127.0.0.1", 2));
    run(async {
        let reason = unreachable(store(&server.url("p")).list("").await);
        assert!(reason.contains("nobody whom this computer trusts") && reason.contains("ca="), "{reason}");

        let store = store(&trusting(&server.url("p"), &authority.pem()));
        let body = Bytes::from(vec![7; 3_000_000]);
        let etag = store.put("a", body.clone(), When::Absent).await.unwrap();
        let fetched = store.get("a", None).await.unwrap();
        assert!((fetched.bytes, fetched.etag) == (body, etag));

        let other = super::store(&trusting(&server.url("p"), &Authority::new().pem()));
        assert!(unreachable(other.list("").await).contains("nobody whom this computer trusts"));
        let missing = S3Store::new(
            &parsed(&trusting(&server.url("p"), Path::new("/no/ca.pem"))),
            &credentials(),
            &DriveNames,
            Limits::default(),
            &Pacer::new(),
            &Meter::default(),
        );
        assert!(missing.err().unwrap().contains("/no/ca.pem"));
    });
}

/// Only the proxy can resolve the name.
#[test]
fn uses_a_configured_proxy_for_a_bucket() {
    let authority = Authority::new();
    let server = S3Server::start_tls(&authority.issue("store.example.org", 2));
    let proxy = ConnectProxy::start(server.address());
    let url = trusting(&server.url("p").replace("127.0.0.1", "store.example.org"), &authority.pem());
    let through = |proxy: Proxy| {
        let pacer = Pacer::new();
        pacer.set_proxy(Some(proxy));
        S3Store::new(&parsed(&url), &credentials(), &DriveNames, Limits::default(), &pacer, &Meter::default())
            .unwrap()
    };
    let address = Proxy::parse(&proxy.address().to_string()).unwrap();
    let known = |password: &str| address.clone().with_login(connect::USER.into(), password.to_owned().into());
    run(async {
        let store = through(known(connect::PASSWORD));
        let body = Bytes::from(vec![7; 300_000]);
        store.put("a", body.clone(), When::Absent).await.unwrap();
        assert_eq!(store.get("a", None).await.unwrap().bytes, body);
        let asked = proxy.asked();
        let port = server.address().port();
        assert!(
            !asked.is_empty() && asked.iter().all(|to| *to == format!("store.example.org:{port}")),
            "{asked:?}"
        );

        for stranger in [address.clone(), known("hunter2")] {
            let reason = unreachable(through(stranger).list("").await);
            assert!(reason.contains("asks for a login") && !reason.contains("hunter2"), "{reason}");
        }
        let before = proxy.asked().len();
        unreachable(through(known(connect::PASSWORD).except("example.org")).list("").await);
        assert_eq!(proxy.asked().len(), before, "what is excepted is asked directly");
        let nobody = Proxy::parse(&free_address().to_string()).unwrap();
        assert!(unreachable(through(nobody).list("").await).contains("the proxy 127.0.0.1:"));
    });
}

/// A certificate as people make it for a server at home.
#[test]
fn trusts_a_self_signed_certificate_only_where_configured() {
    let authority = Authority::of_server("127.0.0.1", 2);
    run(async {
        let server = S3Server::start_tls(&authority.as_server());
        let url = server.url("p");
        let trusting_store = |ca: &Authority| store(&trusting(&url, &ca.pem()));
        trusting_store(&authority).put("a", Bytes::from_static(b"x"), When::Absent).await.unwrap();
        assert!(unreachable(store(&url).list("").await).contains("ca="));
        // Another certificate for the same name is refused.
        unreachable(trusting_store(&Authority::of_server("127.0.0.1", 2)).list("").await);

        for (host, days, words) in
            [("store.example.org", 2, "another name"), ("127.0.0.1", -1, "has expired")]
        {
            let authority = Authority::of_server(host, days);
            let server = S3Server::start_tls(&authority.as_server());
            let reason = unreachable(store(&trusting(&server.url("p"), &authority.pem())).list("").await);
            assert!(reason.contains(words), "{host} {days}: {reason}");
        }
    });
}

#[test]
fn explains_invalid_certificates() {
    let authority = Authority::new();
    run(async {
        let server = S3Server::start_tls(&authority.issue("127.0.0.1", -1));
        let reason = unreachable(store(&trusting(&server.url("p"), &authority.pem())).list("").await);
        assert!(reason.contains("has expired") && reason.contains("clock"), "{reason}");

        let server = S3Server::start_tls(&authority.issue("store.example.org", 2));
        let reason = unreachable(store(&trusting(&server.url("p"), &authority.pem())).list("").await);
        assert!(reason.contains("is for another name"), "{reason}");
    });
}

#[test]
fn tells_plain_and_encrypted_ports_apart() {
    let authority = Authority::new();
    let (encrypted, plain) = (S3Server::start_tls(&authority.issue("127.0.0.1", 2)), S3Server::start());
    run(async {
        let reason = unreachable(store(&url("http", encrypted.address(), "p")).list("").await);
        assert!(reason.contains("https://"), "{reason}");
        let reason = unreachable(store(&url("https", plain.address(), "p")).list("").await);
        assert!(reason.contains("http://"), "{reason}");
    });
}

#[test]
fn a_cut_network_does_not_suggest_tls() {
    let cut = Canned::answering("");
    let answer = "HTTP/1.1 404 Not Found\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nConnection: close\r\n\
                  Content-Length: 0\r\n\r\n";
    let known = Canned::answering_once(answer);
    run(async {
        let reason = unreachable(store(&cut.url()).list("").await);
        assert!(reason.contains("https://"), "{reason}");
        // This server has answered without TLS before.
        let store = store(&known.url());
        let _ = store.get("a", None).await;
        let reason = unreachable(store.list("").await);
        assert!(reason.contains("closed the connection") && !reason.contains("TLS"), "{reason}");
    });
}

#[test]
fn says_why_a_server_cannot_be_reached() {
    run(async {
        let reason = unreachable(store(&url("http", free_address(), "p")).list("").await);
        assert!(reason.contains("refuses the connection"), "{reason}");
        let nowhere = "s3://b/p?endpoint=http%3A%2F%2Fnowhere.invalid";
        let reason = unreachable(store(nowhere).get("a", None).await);
        assert!(reason.contains("nowhere.invalid cannot be found"), "{reason}");
    });
}

#[test]
fn silence_times_out() {
    let silent = Canned::silent();
    run(async {
        for pacer in pacers() {
            let store = limited(&silent.url(), NO_SILENCE, &pacer);
            for result in [
                store.get("a", None).await.map(drop),
                store.put("a", Bytes::from(vec![0; 1 << 20]), When::Always).await.map(drop),
                // More than the kernel buffers, so that the put stops in the middle.
                store.put("a", Bytes::from(vec![0; 32 << 20]), When::Always).await.map(drop),
                store.head("a").await.map(drop),
                store.list("").await.map(drop),
                store.delete("a").await,
            ] {
                let reason = unreachable(result);
                assert!(reason.contains("no byte"), "{reason}");
            }
        }
    });
}

/// One without a limit, and one whose limit slows nothing down, which must extend no time-out.
fn pacers() -> [Pacer; 2] {
    let limited = Pacer::new();
    for way in [Direction::Up, Direction::Down] {
        limited.set(way, Some(1 << 30));
    }
    [Pacer::new(), limited]
}

#[test]
fn silence_in_the_middle_of_a_body_times_out() {
    let every = Duration::from_secs(3600);
    let head =
        "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Type: application/xml\r\nContent-Length: 100\r\n\r\n<a>";
    let canned = Canned::dripping(head, every);
    run(async {
        let store = limited(&canned.url(), NO_SILENCE, &Pacer::new());
        assert!(unreachable(store.get("a", None).await).contains("no byte"));
        assert!(unreachable(store.list("").await).contains("no byte"));
    });
}

#[test]
fn a_drip_times_out() {
    let head = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Type: application/xml\r\nContent-Length: 100000\r\n\r\n<a>";
    let canned = Canned::dripping(head, Duration::from_millis(50));
    run(async {
        for pacer in pacers() {
            let store = limited(&canned.url(), NO_DRIP, &pacer);
            let reason = unreachable(store.get("a", None).await);
            assert!(reason.contains("was not done within"), "{reason}");
            let reason = unreachable(store.list("").await);
            assert!(reason.contains("was not done within"), "{reason}");
        }
    });
}

#[test]
fn connections_are_reused() {
    let server = S3Server::start();
    let counting = Counting::start(server.address());
    run(async {
        let store = store(&url("http", counting.address(), "p"));
        for i in 0..20 {
            let name = format!("a{i}");
            store.put(&name, Bytes::from(vec![1; 100_000]), When::Absent).await.unwrap();
            store.get(&name, None).await.unwrap();
            store.get(&name, Some(5..500)).await.unwrap();
            store.get("missing", None).await.unwrap_err();
            store.head(&name).await.unwrap();
        }
        store.list("").await.unwrap();
        // Some requests begin before the previous connection is free again.
        assert!(counting.connections() <= 10, "{} for a hundred requests", counting.connections());
    });
}
