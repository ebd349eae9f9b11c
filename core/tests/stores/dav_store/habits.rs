//! Servers as people have them. Each row is a habit, and a store works on each server.

use super::*;
use holdall_core::store::probe::{Effort, probe};
use holdall_servers::odd_dav::{self, Habits};
use holdall_servers::process::free_address;

const NONE: Habits = Habits {
    made_before: None,
    redirects: false,
    refuses_propfind: false,
    realm: None,
    forgets_connections: false,
    lists_at_most: None,
};

const fn says_of_what_is_there(status: u16) -> Habits {
    Habits { made_before: Some(status), ..NONE }
}

const ROWS: &[Habits] = &[
    NONE,
    says_of_what_is_there(200),
    says_of_what_is_there(301),
    says_of_what_is_there(400),
    says_of_what_is_there(403),
    says_of_what_is_there(406),
    says_of_what_is_there(409),
    says_of_what_is_there(423),
    says_of_what_is_there(500),
    Habits { made_before: Some(301), redirects: true, ..NONE },
    Habits { made_before: Some(403), refuses_propfind: true, ..NONE },
    Habits { realm: Some("Wölkchen für alle".as_bytes()), ..NONE },
    Habits { realm: Some(b"W\xf6lkchen"), ..NONE },
    Habits { forgets_connections: true, ..NONE },
];

#[tokio::test]
async fn every_kind_of_server_holds_a_store() {
    for habits in ROWS {
        let fake = odd_dav::start(*habits);
        let url = format!("http://{}/s/", fake.address());
        // The second client does not know what the first has made.
        for round in 0..2 {
            let store = store_with(&url, &user(PASSWORD), Limits::default());
            let body = || Bytes::from_static(b"some bytes");
            if round == 0 && !habits.refuses_propfind {
                assert!(
                    store
                        .claim("claim/family", 1)
                        .await
                        .unwrap_or_else(|error| panic!("{habits:?} {round}: {error}")),
                    "{habits:?}"
                );
            }
            if round == 0 {
                store
                    .put("family.json", body(), When::Absent)
                    .await
                    .unwrap_or_else(|error| panic!("{habits:?} {round}: {error}"));
            }
            for name in [format!("seg/00/{round}"), format!("keys/{round}"), format!("head/d/{round}")] {
                store
                    .put(&name, body(), When::Absent)
                    .await
                    .unwrap_or_else(|error| panic!("{habits:?} {round}: {error}"));
                assert_eq!(
                    store
                        .get(&name, None)
                        .await
                        .unwrap_or_else(|error| panic!("{habits:?} {round}: {error}"))
                        .bytes,
                    body(),
                    "{habits:?}"
                );
                assert_eq!(
                    store
                        .get(&name, Some(5..10))
                        .await
                        .unwrap_or_else(|error| panic!("{habits:?} {round}: {error}"))
                        .bytes,
                    "bytes"
                );
            }
            if !habits.refuses_propfind {
                assert_eq!(
                    store
                        .list("seg/")
                        .await
                        .unwrap_or_else(|error| panic!("{habits:?} {round}: {error}"))
                        .len(),
                    round + 1,
                    "{habits:?}"
                );
                let claimed = store
                    .claim("claim/d/1", round as u128 + 1)
                    .await
                    .unwrap_or_else(|error| panic!("{habits:?} {round}: {error}"));
                assert_eq!(claimed, round == 0, "{habits:?}: a claim has one owner");
            }
        }
    }
}

/// A missing collection is not taken for an existing one, whatever the server reports.
#[tokio::test]
async fn a_failed_mkcol_is_not_taken_for_an_existing_object() {
    for status in [200, 400, 403, 406, 423, 500] {
        let (_, store) = fake(move |asked| match &*asked.method {
            "MKCOL" => Reply::status(status),
            "PUT" => Reply::status(409),
            _ => Reply::status(404),
        });
        let error = store.put("seg/00/x", Bytes::from_static(b"x"), When::Absent).await.unwrap_err();
        assert!(!matches!(error, StoreError::Precondition { .. }), "{status}: {error}");
    }
}

/// A server that closes the connection is asked once more, and not again.
#[tokio::test]
async fn does_not_ask_a_server_without_answers_forever() {
    let (fake, store) = fake(|_| Reply::Raw(Vec::new()));
    unreachable(store.get("seg/00/x", None).await);
    assert_eq!(fake.asked().len(), 2);
    let nobody = store_with(&format!("http://{}/s/", free_address()), &Credentials::None, NO_LIMITS);
    unreachable(nobody.get("seg/00/x", None).await);
}

#[tokio::test]
async fn detects_and_refuses_a_truncated_listing() {
    for (most, whole) in [(200, false), (750, true)] {
        let fake = odd_dav::start(Habits { lists_at_most: Some(most), ..NONE });
        let url = format!("http://{}/s/", fake.address());
        let [a, b] = [(), ()].map(|()| store_with(&url, &user(PASSWORD), Limits::default()));
        let report =
            probe([&a, &b], Effort::FULL, &|| 0).await.unwrap_or_else(|error| panic!("{most}: {error}"));
        assert_eq!((report.is_usable(), report.lists_whole()), (whole, whole), "{most}: {report:?}");
    }
}
