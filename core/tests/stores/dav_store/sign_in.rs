//! How a client signs in: Basic, Digest, tokens, certificates.

use super::*;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::pace::Pacer;
use holdall_core::store::proxy::Proxy;
use holdall_servers::connect::{self, ConnectProxy};
use holdall_servers::tls::Authority;

#[tokio::test]
async fn basic_and_digest_over_http_and_tls() {
    for sign_in in [SignIn::Basic, SignIn::Digest] {
        for server in [DavServer::apache(sign_in), DavServer::apache_tls(sign_in, 2)] {
            let ca = server.ca().map_or(String::new(), |ca| format!("?ca={}", ca.display()));
            let url = server.url(&format!("/s/{ca}"));
            let with = |credentials: &Credentials| store_with(&url, credentials, Limits::default());
            let right = with(&user(PASSWORD));
            assert!(right.claim("claim/family", 1).await.unwrap());
            right.put("family.json", Bytes::from_static(b"{}"), When::Absent).await.unwrap();
            // A large body at first contact, and many requests at once with one nonce.
            let large = with(&user(PASSWORD));
            let body = Bytes::from(vec![7; 3 << 20]);
            large.put("seg/00/x", body.clone(), When::Absent).await.unwrap();
            let names: Vec<_> = (0..20).map(|index| format!("seg/00/{index}")).collect();
            let puts = names.iter().map(|name| large.put(name, Bytes::from_static(b"x"), When::Absent));
            assert!(futures_util::future::join_all(puts).await.iter().all(Result::is_ok));
            assert_eq!(right.get("seg/00/x", None).await.unwrap().bytes, body);
            assert_eq!(right.list("seg/").await.unwrap().len(), 21);

            let reason = denied(with(&user("wrong")).get("family.json", None).await);
            assert!(reason.contains("does not take this user with this password"), "{reason}");
            let reason = denied(with(&Credentials::None).put("seg/00/y", body, When::Absent).await);
            assert!(reason.contains("asks for a user and a password"), "{reason}");
            let token = Credentials::Bearer { token: PASSWORD.replace(' ', "").into() };
            let reason = denied(with(&token).list("").await);
            assert!(reason.contains("does not take the token"), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_certificate_is_trusted_only_if_its_authority_is() {
    let server = DavServer::apache_tls(SignIn::None, 2);
    let ca = server.ca().unwrap().display().to_string();
    let trusting = store(&server.url(&format!("/s/?ca={ca}")));
    assert!(trusting.claim("claim/family", 1).await.unwrap());
    let reason = unreachable(store(&server.url("/s/")).get("family.json", None).await);
    assert!(reason.contains("does not trust") && reason.contains("?ca="), "{reason}");
    // By http to a port that speaks TLS, and the other way round.
    let plain = format!("http://{}/s/", server.address());
    let reason = unreachable(store(&plain).get("family.json", None).await);
    assert!(reason.contains("https"), "{reason}");
    let without_tls = DavServer::nginx(SignIn::None);
    let secure = format!("https://{}/s/?ca={ca}", without_tls.address());
    let reason = unreachable(store(&secure).get("family.json", None).await);
    assert!(reason.contains("does not speak TLS"), "{reason}");
    let expired = DavServer::apache_tls(SignIn::None, -1);
    let url = expired.url(&format!("/s/?ca={}", expired.ca().unwrap().display()));
    let reason = unreachable(store(&url).get("family.json", None).await);
    assert!(reason.contains("expired"), "{reason}");
    // A certificate for another name.
    let other = format!("https://127.0.0.2:{}/s/?ca={ca}", server.address().port());
    let reason = unreachable(store(&other).get("family.json", None).await);
    assert!(reason.contains("127.0.0.2"), "{reason}");
}

/// Only the proxy can resolve the name.
#[tokio::test]
async fn uses_a_configured_proxy_for_a_collection() {
    let server = DavServer::apache_self_signed("dav.example.org", 2);
    let proxy = ConnectProxy::start(server.address());
    let url = format!(
        "https://dav.example.org:{}/s/?ca={}",
        server.address().port(),
        server.ca().unwrap().display()
    );
    let through = |proxy: Proxy| {
        let pacer = Pacer::new();
        pacer.set_proxy(Some(proxy));
        paced_store(&url, &Credentials::None, Limits::default(), &pacer)
    };
    let address = Proxy::parse(&proxy.address().to_string()).unwrap();
    let known = |password: &str| address.clone().with_login(connect::USER.into(), password.to_owned().into());
    assert!(through(known(connect::PASSWORD)).claim("claim/family", 1).await.unwrap());
    let asked = proxy.asked();
    assert!(!asked.is_empty() && asked.iter().all(|to| to.starts_with("dav.example.org:")), "{asked:?}");
    for stranger in [address.clone(), known("hunter2")] {
        let reason = unreachable(through(stranger).get("family.json", None).await);
        assert!(reason.contains("asks for a login") && !reason.contains("hunter2"), "{reason}");
    }
    let before = proxy.asked().len();
    unreachable(through(known(connect::PASSWORD).except("*")).get("family.json", None).await);
    assert_eq!(proxy.asked().len(), before, "what is excepted is asked directly");
}

/// A certificate as people make it for a server at home.
#[tokio::test]
async fn trusts_a_self_signed_certificate_only_where_configured() {
    let server = DavServer::apache_self_signed("127.0.0.1", 2);
    let ca = server.ca().unwrap().display().to_string();
    assert!(store(&server.url(&format!("/s/?ca={ca}"))).claim("claim/family", 1).await.unwrap());
    assert!(unreachable(store(&server.url("/s/")).get("family.json", None).await).contains("?ca="));
    let another = Authority::of_server("127.0.0.1", 2);
    let trusting_another = server.url(&format!("/s/?ca={}", another.pem().display()));
    unreachable(store(&trusting_another).get("family.json", None).await);
    for (host, days, words) in [("dav.example.org", 2, "not that of"), ("127.0.0.1", -1, "expired")] {
        let server = DavServer::apache_self_signed(host, days);
        let url = server.url(&format!("/s/?ca={}", server.ca().unwrap().display()));
        let reason = unreachable(store(&url).get("family.json", None).await);
        assert!(reason.contains(words), "{host} {days}: {reason}");
    }
}

#[test]
fn reports_unreadable_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    for (content, told) in [(None, "No such file"), (Some("x"), "holds no certificate")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let url = format!("https://h/?ca={}", file.display());
        let StoreUrl::Dav(url) = StoreUrl::parse(&url).unwrap() else { panic!() };
        let error =
            DavStore::new(&url, &Credentials::None, &DriveNames, NO_LIMITS, &Pacer::new(), &Meter::default())
                .err()
                .unwrap()
                .to_string();
        assert!(error.contains(told) && error.contains("ca.pem"), "{error}");
    }
}

#[tokio::test]
async fn redirects_receive_no_secrets() {
    let other = Fake::start(|_| Reply::status(200));
    let location = format!("http://{}/login?next=/s/", other.address());
    let fake = Fake::start(move |asked| match asked.headers.contains("authorization:") {
        false => Reply::status(401).with("www-authenticate", "Basic realm=\"x\""),
        true => Reply::status(302).with("location", &location),
    });
    let store = store_with(&format!("http://{}/s/", fake.address()), &user(PASSWORD), NO_LIMITS);
    let reason = unreachable(store.get("family.json", None).await);
    assert!(reason.contains("redirected to 127.0.0.1"), "{reason}");
    assert!(!reason.contains("next="), "{reason}");
    assert_eq!(other.asked().len(), 0);
}
