//! Answers that are errors or nonsense.

use super::*;

async fn all_errors(store: &DavStore) -> Vec<StoreError> {
    let body = || Bytes::from_static(b"x");
    vec![
        store.get("seg/00/x", None).await.unwrap_err(),
        store.get("seg/00/x", Some(3..7)).await.unwrap_err(),
        store.head("seg/00/x").await.unwrap_err(),
        store.list("seg/").await.unwrap_err(),
        store.delete("seg/00/x").await.unwrap_err(),
        store.put("seg/00/x", body(), When::Absent).await.unwrap_err(),
        store.put("keys/x", body(), When::Absent).await.unwrap_err(),
        store.claim("claim/d/1", 1).await.unwrap_err(),
    ]
}

#[tokio::test]
async fn a_status_means_the_same_on_every_verb() {
    type Is = fn(&StoreError) -> bool;
    let cases: [(Reply, Is); 9] = [
        (Reply::status(403), |error| matches!(error, StoreError::Denied { .. })),
        // Only conditional puts know this status.
        (Reply::status(412), |error| matches!(error, StoreError::Unreachable { .. })),
        (Reply::status(423), |error| matches!(error, StoreError::Busy { retry_after: None, .. })),
        (Reply::status(507), |error| matches!(error, StoreError::Full { .. })),
        (
            Reply::status(429).with("retry-after", "7"),
            |error| matches!(error, StoreError::Busy { retry_after: Some(after), .. } if after.as_secs() == 7),
        ),
        (
            Reply::status(503)
                .with("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")
                .with("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            |error| matches!(error, StoreError::Busy { retry_after: Some(after), .. } if after.as_secs() == 60),
        ),
        (Reply::status(500), |error| matches!(error, StoreError::Unreachable { .. })),
        (Reply::status(511), |error| matches!(error, StoreError::Unreachable { .. })),
        (Reply::Raw(Vec::new()), |error| matches!(error, StoreError::Unreachable { .. })),
    ];
    for (reply, is) in cases {
        let answer = reply.clone();
        let (_, store) = fake(move |_| answer.clone());
        for error in all_errors(&store).await {
            assert!(is(&error), "{reply:?}: {error}");
        }
    }
}

#[tokio::test]
async fn sends_nothing_more_to_a_busy_server() {
    const SOON: &str = "7";
    let busy = || Reply::status(503).with("retry-after", SOON);
    let is_busy = |error: &StoreError| matches!(error, StoreError::Busy { retry_after: Some(after), .. } if after.as_secs() == 7);
    let (fake, store) = fake(move |asked| match &*asked.method {
        "MKCOL" | "PUT" => Reply::status(201),
        _ => busy(),
    });
    let error = store.put("seg/00/x", Bytes::from_static(b"x"), When::Absent).await.unwrap_err();
    assert!(is_busy(&error), "{error}");
    let verbs: Vec<_> = fake.asked().into_iter().map(|asked| asked.method).collect();
    assert_eq!(verbs, ["MKCOL", "MKCOL", "PUT", "MOVE"], "what lies aside stays there for now");

    // A large body goes only to a server that is known to accept the credentials. This one answers busy even to that question.
    let fake = Fake::start(move |_| busy());
    let StoreUrl::Dav(url) = StoreUrl::parse(&format!("http://{}/s/", fake.address())).unwrap() else {
        panic!()
    };
    let client = DavClient::new(&url, &user(PASSWORD), NO_LIMITS, &Pacer::new(), &Meter::default()).unwrap();
    let body = Bytes::from(vec![0; 100 << 10]);
    let request =
        Request { body, ..Request::new("PUT".parse().unwrap(), url.base.join("seg/00/x").unwrap()) };
    assert!(client.send(&request).await.is_err_and(|error| is_busy(&error)));
    let verbs: Vec<_> = fake.asked().into_iter().map(|asked| asked.method).collect();
    assert_eq!(verbs, ["HEAD"]);
}

#[tokio::test]
async fn a_missing_collection_reports_the_free_space_of_its_parent() {
    let room = br#"<d:multistatus xmlns:d="DAV:"><d:response><d:href>/</d:href><d:propstat><d:prop>
        <d:quota-available-bytes>4096</d:quota-available-bytes></d:prop><d:status>HTTP/1.1 200 OK</d:status>
        </d:propstat></d:response></d:multistatus>"#;
    let (_fake, store) = fake(move |asked| match (&*asked.method, &*asked.path) {
        ("PROPFIND", "/s/") => Reply::status(404),
        ("PROPFIND", "/") => Reply::status(207).with("content-type", "application/xml").body(room),
        _ => Reply::status(500),
    });
    assert_eq!(store.facts().await.unwrap().free_bytes, Some(4096));
}

#[tokio::test]
async fn a_sign_in_page_is_neither_data_nor_success() {
    let page = Reply::status(200)
        .with("content-type", "text/html; charset=utf-8")
        .body(b"<html>Welcome, guest</html>");
    let fake = Fake::start(move |_| page.clone());
    let store = store_with(&format!("http://{}/s/", fake.address()), &Credentials::None, NO_LIMITS);
    for error in all_errors(&store).await {
        let StoreError::Unreachable { reason } = &error else { panic!("{error:?}") };
        assert!(reason.contains("a web page came") && reason.contains("sign in"), "{reason}");
    }
    unreachable(store.get("family.json", None).await);
}

#[tokio::test]
async fn follows_redirects_only_on_the_same_server() {
    let (fake, store) = fake(|asked| match &*asked.path {
        "/s/seg/00/x" => Reply::status(307).with("location", "/t/x"),
        "/t/x" => Reply::status(200).body(b"data"),
        _ => Reply::status(302).with("location", "/round/and/round"),
    });
    assert_eq!(store.get("seg/00/x", None).await.unwrap().bytes, "data");
    assert!(unreachable(store.get("seg/00/y", None).await).contains("circle"));
    assert!(fake.asked().len() < 20);
}

#[tokio::test]
async fn reads_no_further_than_needed_from_servers_without_ranges() {
    let endless = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n0123456789".to_vec();
    let (_, store) = fake(move |asked| match &*asked.path {
        "/s/seg/00/endless" => Reply::Raw(endless.clone()),
        "/s/seg/00/unsized" => Reply::Raw(b"HTTP/1.1 200 OK\r\n\r\n0123456789".to_vec()),
        _ => Reply::status(200).body(b"0123456789"),
    });
    for name in ["endless", "unsized", "whole"] {
        let part = store.get(&format!("seg/00/{name}"), Some(3..7)).await.unwrap();
        assert_eq!(part.bytes, "3456", "{name}");
    }
    for name in ["unsized", "whole"] {
        let error = store.get(&format!("seg/00/{name}"), Some(3..11)).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{name}: {error}");
    }
}

#[tokio::test]
async fn unrequested_bytes_are_damage() {
    let part = |range: &str, body: &[u8]| Reply::status(206).with("content-range", range).body(body);
    for (reply, is_well) in [
        (part("bytes 3-6/10", b"3456"), true),
        (part("bytes 3-6/*", b"3456"), true),
        (part("bytes 0-3/10", b"0123"), false),
        (part("bytes 3-5/6", b"345"), false),
        (part("bytes 3-6/10", b"345"), false),
        (Reply::status(206).body(b"3456"), false),
        (Reply::status(416), false),
    ] {
        let told = format!("{reply:?}");
        let (_, store) = fake(move |_| reply.clone());
        match store.get("seg/00/x", Some(3..7)).await {
            Ok(read) => assert!(is_well && read.bytes == "3456", "{told}"),
            Err(error) => assert!(!is_well && matches!(error, StoreError::Damaged { .. }), "{told}: {error}"),
        }
    }
}

#[tokio::test]
async fn nonsense_is_not_an_empty_listing() {
    let entry = |href: &str| format!("<response><href>{href}</href></response>");
    for (body, told) in [
        (String::new(), "no multistatus"),
        ("<multistatus xmlns=\"DAV:\"><response>".into(), "cannot be read"),
        (format!("<multistatus xmlns=\"DAV:\">{}</multistatus>", entry("/other/place/x")), "another place"),
    ] {
        let (_, store) = fake(move |_| Reply::status(207).body(body.as_bytes()));
        let reason = unreachable(store.list("seg/").await);
        assert!(reason.contains(told), "{reason}");
    }
}

#[tokio::test]
async fn only_the_nonce_makes_a_claim_ones_own() {
    let mine = format!("{:032x}", 7);
    let other = format!("{:032x}", 8);
    for (status, inside, owned) in [
        (201, vec![&mine], true),
        (405, vec![&mine], true),
        (405, vec![], false),
        (405, vec![&other], false),
        // A server that told two clients that each had made it.
        (201, vec![&mine, &other], false),
        (405, vec![&other, &mine], false),
    ] {
        let entries: String = inside
            .iter()
            .map(|nonce| format!("<response><href>/s/claim/d/1/{nonce}</href></response>"))
            .collect();
        let listing = format!("<multistatus xmlns=\"DAV:\">{entries}</multistatus>");
        let (fake, store) = fake(move |asked| match (&*asked.method, &*asked.path) {
            ("MKCOL", "/s/claim/d/1/") => Reply::status(status),
            ("PROPFIND", _) => Reply::status(207).body(listing.as_bytes()),
            _ => Reply::status(201),
        });
        assert_eq!(store.claim("claim/d/1", 7).await.unwrap(), owned, "{status} {inside:?}");
        let puts = fake.asked().iter().filter(|asked| asked.method == "PUT").count();
        assert_eq!(puts, usize::from(status == 201), "only who has made it puts a nonce");
    }
}

#[tokio::test]
async fn creates_parent_collections_when_the_server_needs_them() {
    for missing in [404, 409] {
        let made = std::sync::Mutex::new(Vec::<String>::new());
        let (fake, store) = fake(move |asked| {
            let mut made = made.lock().unwrap();
            let path = asked.path.trim_end_matches('/');
            let parent = path.rsplit_once('/').unwrap().0;
            let is_there = |path: &str| path == "/s" || made.iter().any(|made| made == path);
            match &*asked.method {
                _ if !is_there(parent) => Reply::status(missing),
                "MKCOL" if is_there(path) => Reply::status(405),
                "MKCOL" => {
                    made.push(path.to_owned());
                    Reply::status(201)
                }
                _ => Reply::status(201),
            }
        });
        store.put("seg/00/x", Bytes::from_static(b"x"), When::Absent).await.unwrap();
        let asked = fake.asked();
        let verbs: Vec<_> = asked.iter().map(|asked| &*asked.method).collect();
        assert_eq!(verbs, ["MKCOL", "MKCOL", "MKCOL", "MKCOL", "PUT", "MOVE"], "{missing}");
        let made: Vec<_> = asked.iter().take(4).map(|asked| &*asked.path).collect();
        assert_eq!(made, ["/s/seg/00/", "/s/seg/", "/s/seg/00/", "/s/tmp/"], "{missing}");
    }
}
