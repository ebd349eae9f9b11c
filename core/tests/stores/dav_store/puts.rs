//! Puts: how many requests they take, what they leave when they are cut off, and servers that lack something.

use super::*;

fn asked(fake: &Fake) -> Vec<String> {
    let asked = fake.asked().into_iter();
    asked.map(|asked| format!("{} {}", asked.method, asked.path)).collect()
}

fn body() -> Bytes {
    Bytes::from_static(b"0123456789")
}

#[tokio::test]
async fn puts_to_a_temporary_name_and_moves_in_two_requests() {
    let (fake, store) = fake(|asked| Reply::status(if asked.method == "PROPFIND" { 404 } else { 201 }));
    for name in ["seg/00/a", "seg/00/b", "head/d/a"] {
        store.put(name, body(), When::Absent).await.unwrap();
    }
    let requests = fake.asked();
    let of = |method: &str| requests.iter().filter(|asked| asked.method == method).collect::<Vec<_>>();
    let mut made: Vec<_> = of("MKCOL").iter().map(|asked| asked.path.clone()).collect();
    made.sort();
    assert_eq!(made, ["/s/head/d/", "/s/seg/00/", "/s/tmp/"]);
    let (puts, moves) = (of("PUT"), of("MOVE"));
    assert_eq!((puts.len(), moves.len()), (3, 3));
    assert!(puts.iter().chain(&moves).all(|asked| asked.path.starts_with("/s/tmp/")), "{requests:?}");
    for (moved, name) in moves.iter().zip(["seg/00/a", "seg/00/b", "head/d/a"]) {
        let destination = format!("destination: http://{}/s/{name}", fake.address());
        assert!(moved.headers.contains(&destination), "{}", moved.headers);
        assert!(moved.headers.contains("overwrite: f"));
    }
}

#[tokio::test]
async fn a_put_that_is_cut_off_leaves_no_object() {
    const LEN: usize = 12 << 20;
    for server in both() {
        let store = std::sync::Arc::new(begun(&server, "/s/").await);
        let mut broken = 0;
        for round in 0..24u64 {
            let name = format!("{}/00/{round}", if round % 2 == 0 { "seg" } else { "keys" });
            let put = tokio::spawn({
                let (store, name) = (store.clone(), name.clone());
                async move { store.put(&name, vec![1; LEN].into(), When::Absent).await }
            });
            tokio::time::sleep(Duration::from_millis(round)).await;
            put.abort();
            broken += u32::from(put.await.is_err());
        }
        assert!(broken > 0, "no put broke off");
        for prefix in ["seg/", "keys/"] {
            for listed in store.list(prefix).await.unwrap() {
                assert_eq!(listed.len, LEN as u64, "{}", listed.name);
            }
        }
    }
}

#[tokio::test]
async fn only_conditional_puts_can_fail_a_condition() {
    for (refused, when, is_lost) in [
        ("PUT", When::Absent, false),
        ("PUT", When::Always, false),
        ("MOVE", When::Absent, true),
        ("MOVE", When::Always, false),
    ] {
        let (_, store) = fake(move |asked| match &*asked.method {
            method if method == refused => Reply::status(412),
            "DELETE" => Reply::status(204),
            "PROPFIND" => Reply::status(404),
            _ => Reply::status(201),
        });
        let error = store.put("seg/00/a", body(), when.clone()).await.unwrap_err();
        match is_lost {
            true => assert_eq!(error, StoreError::Precondition { name: "seg/00/a".into() }),
            false => assert!(matches!(error, StoreError::Unreachable { .. }), "{refused} {when:?}: {error}"),
        }
    }
}

#[tokio::test]
async fn checks_the_length_on_servers_without_move() {
    for len in [10, 3] {
        let (fake, store) = fake(move |asked| match &*asked.method {
            "MOVE" => Reply::status(405),
            "HEAD" => Reply::status(200).body(&vec![0; len]),
            "DELETE" => Reply::status(204),
            _ => Reply::status(201),
        });
        for name in ["head/d/a", "head/d/b"] {
            let put = store.put(name, body(), When::Absent).await;
            match len {
                10 => drop(put.unwrap()),
                _ => assert!(unreachable(put).contains("has kept 3 of 10 bytes")),
            }
        }
        let asked = asked(&fake);
        assert_eq!(asked.iter().filter(|asked| asked.starts_with("MOVE")).count(), 1, "{asked:?}");
        assert_eq!(asked.iter().filter(|asked| asked.starts_with("DELETE /s/tmp/")).count(), 1, "{asked:?}");
        assert!(asked.ends_with(&["PUT /s/head/d/b".into(), "HEAD /s/head/d/b".into()]), "{asked:?}");
    }
}

#[tokio::test]
async fn falls_back_to_a_path_as_move_destination() {
    let (_, store) = super::fake(|asked| match &*asked.method {
        "MOVE" if asked.headers.contains("destination: /s/head/d/a") => Reply::status(201),
        "MOVE" => Reply::status(502),
        _ => Reply::status(201),
    });
    store.put("head/d/a", body(), When::Always).await.unwrap();
    // A server that fails for now is not taken for one without MOVE.
    let (fake, store) = super::fake(|asked| Reply::status(if asked.method == "MOVE" { 502 } else { 201 }));
    unreachable(store.put("head/d/a", body(), When::Always).await);
    assert!(!asked(&fake).contains(&"PUT /s/head/d/a".to_owned()));
}

#[tokio::test]
async fn deletes_only_old_leftovers_and_lists_them_once() {
    let listing = |asked: &Asked| {
        let entry = |name: &str, modified: &str| {
            format!(
                "<D:response><D:href>{}{name}</D:href><D:propstat><D:prop><D:resourcetype/><D:getcontentlength>1</D:getcontentlength><D:getlastmodified>{modified}</D:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>",
                asked.path
            )
        };
        format!(
            "<D:multistatus xmlns:D=\"DAV:\">{}{}</D:multistatus>",
            entry("old", "Sat, 05 Nov 1994 08:49:36 GMT"),
            entry("new", "Sat, 05 Nov 1994 08:49:38 GMT")
        )
    };
    let (fake, store) = fake(move |asked| match (&*asked.method, &*asked.path) {
        ("MKCOL", "/s/tmp/") => Reply::status(405),
        ("PROPFIND", _) => {
            Reply::status(207).with("date", "Sun, 06 Nov 1994 08:49:37 GMT").body(listing(asked).as_bytes())
        }
        ("DELETE", _) => Reply::status(204),
        _ => Reply::status(201),
    });
    for name in ["head/d/a", "head/d/b"] {
        store.put(name, body(), When::Absent).await.unwrap();
    }
    let asked = asked(&fake);
    let swept: Vec<_> = asked.iter().filter(|asked| asked.starts_with("DELETE")).collect();
    assert_eq!(swept, ["DELETE /s/tmp/old"]);
    assert_eq!(asked.iter().filter(|asked| asked.starts_with("PROPFIND")).count(), 1, "once");
}
