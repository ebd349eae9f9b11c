//! Answers of WebDAV servers. Their readers are private to the store crate and are compiled here from the same files, so that
//! nothing is made public for tests alone.

#[path = "../../../store/src/dav/challenge.rs"]
mod challenge;
#[allow(dead_code, reason = "not all of it is asked")]
#[path = "../../../store/src/dav/digest.rs"]
mod digest;
#[allow(dead_code, reason = "not all of it is asked")]
#[path = "../../../store/src/dav/multistatus.rs"]
mod multistatus;
#[allow(dead_code, reason = "not all of it is asked")]
#[path = "../../../store/src/dav/names.rs"]
mod names;

use digest::{Ask, Request};
use names::Place;
use std::sync::LazyLock;
use url::Url;

static LISTED: LazyLock<Url> =
    LazyLock::new(|| Url::parse("https://h/a%20b/~me/").expect("it is a collection's address"));

/// A listing. A resource in the collection is found again at the address of its name.
pub fn listing(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for resource in multistatus::parse(text).unwrap_or_default() {
        if let Place::Child(name) = names::place(&LISTED, &resource.href) {
            assert!(!name.is_empty() && !name.contains('/'), "{name:?} is one part of a path");
            let address = names::object(&LISTED, &name);
            assert_eq!(names::place(&LISTED, address.as_str()), Place::Child(name));
        }
    }
}

/// Listings as servers write them.
pub fn listing_seeds() -> Vec<Vec<u8>> {
    let plain = r#"<?xml version="1.0" encoding="utf-8"?>
<D:multistatus xmlns:D="DAV:" xmlns:o="http://owncloud.org/ns"><D:response><D:href>/a%20b/~me/</D:href><D:propstat><D:prop>
<D:resourcetype><D:collection/></D:resourcetype><D:quota-available-bytes>-3</D:quota-available-bytes></D:prop>
<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
<D:response><D:href>https://h/a%20b/%7Eme/x%2Dy%25</D:href><D:propstat><D:prop><D:getcontentlength>17</D:getcontentlength>
<D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified><o:id>9</o:id></D:prop><D:status>HTTP/1.1 200 OK</D:status>
</D:propstat><D:propstat><D:prop/><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response></D:multistatus>"#;
    let terse = r#"<multistatus xmlns="DAV:"><response><href><![CDATA[z]]>&amp;&#x2D;</href><status>HTTP/1.1 404 Gone</status></response><!-- x --><response><href>y/</href></response></multistatus>"#;
    let names = ["x", "x%20y", "/a b/~me/%C3%BC", "z%25/", "https://h/a%20b/~me/a&amp;b"];
    let names = names.map(|name| format!("<response><href>{name}</href></response>")).concat();
    let names = format!(r#"<multistatus xmlns="DAV:">{names}</multistatus>"#).into_bytes();
    vec![plain.into(), terse.into(), names, b"<!DOCTYPE html><html><body>Log in</body></html>".to_vec()]
}

/// Challenges that ask for authentication. Each parameter comes back in the answer unchanged, and as nothing else.
pub fn challenges(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    challenge::parameters(text);
    challenge::parse_bytes(input);
    for challenge in challenge::parse(text) {
        let Some(ask) = Ask::new(&challenge) else { continue };
        let request = Request { user: "ann \"a\" \\", password: "p", method: "PUT", target: "/a%20b/x" };
        let answer = ask.answer(&request, 1, "cafe");
        let read = challenge::parse(&answer);
        assert_eq!(read.len(), 1, "{answer}");
        assert_eq!(read[0].scheme, "digest");
        for name in ["realm", "nonce", "opaque", "algorithm"] {
            assert_eq!(read[0].get(name), challenge.get(name), "{name} in {answer}");
        }
        let own = [("username", request.user), ("uri", request.target)];
        own.into_iter().for_each(|(name, value)| assert_eq!(read[0].get(name), Some(value), "{answer}"));
    }
}

/// Challenges of all kinds.
pub fn challenge_seeds() -> Vec<Vec<u8>> {
    [
        r#"Basic realm="a, \"b\"", charset="UTF-8""#,
        r#"Digest realm="x", nonce="n==", qop="auth,auth-int", algorithm=SHA-256, opaque="o", stale=TRUE"#,
        r#"Negotiate YII=, Digest realm = "a \\ b" , nonce=plain,algorithm=MD5-sess,qop=auth, Bearer"#,
        r#"Digest realm="", nonce="", opaque="é""#,
        r#"nextnonce="abc", rspauth="1""#,
    ]
    .map(Vec::from)
    .into()
}
