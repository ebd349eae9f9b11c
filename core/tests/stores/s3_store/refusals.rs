//! Refusals of a server, and answers from something that is not one.

use super::canned::Canned;
use super::{NO_LIMITS, checked, credentials, denied, limited, run, store, store_as, unknown, unreachable};
use bytes::Bytes;
use holdall_core::store::credentials::Credentials;
use holdall_core::store::meter::Meter;
use holdall_core::store::pace::Pacer;
use holdall_core::store::{Store, StoreError, When};
use holdall_servers::s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};
use std::process::Command;
use std::time::Duration;
use zeroize::Zeroizing;

fn keys(access: &str, secret: &str, token: Option<&str>) -> Credentials {
    Credentials::S3 {
        access_key: access.into(),
        secret_key: Zeroizing::new(secret.into()),
        session_token: token.map(|token| Zeroizing::new(token.into())),
    }
}

/// One request of each verb.
async fn all(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let body = || Bytes::from_static(b"body");
    vec![
        store.get("head/1", None).await.map(drop),
        store.get("head/1", Some(1..2)).await.map(drop),
        store.put("head/1", body(), When::Always).await.map(drop),
        store.put("head/1", body(), When::Absent).await.map(drop),
        store.head("head/1").await.map(drop),
        store.list("head/").await.map(drop),
        store.delete("head/1").await.map(drop),
    ]
}

#[test]
fn wrong_keys_are_named() {
    let server = S3Server::start();
    run(async {
        let url = server.url("p");
        for result in all(&*store_as(&url, &keys("nobody", SECRET_KEY, None))).await {
            let reason = unknown(result);
            assert!(reason.contains("does not know the access key"), "{reason}");
        }
        for result in all(&*store_as(&url, &keys(ACCESS_KEY, "hunter2", None))).await {
            let reason = unknown(result);
            assert!(reason.contains("the secret key does not belong to the access key"), "{reason}");
        }
        for result in all(&*store_as(&url, &Credentials::None)).await {
            let reason = denied(result);
            assert!(reason.contains("do not allow this"), "{reason}");
        }
    });
}

#[test]
fn a_missing_bucket_is_not_a_missing_object() {
    let server = S3Server::start();
    run(async {
        let store = store(&server.url("p").replace(BUCKET, "elsewhere"));
        for result in all(&*store).await {
            let error = result.unwrap_err();
            let StoreError::NoPlace { place } = &error else { panic!("{error:?}") };
            assert!(place.starts_with("bucket elsewhere at 127.0.0.1"), "{error}");
            assert!(error.is_transient(), "it may come back");
        }
    });
}

#[test]
fn asks_a_busy_server_for_no_details() {
    for status in ["503 Slow Down", "429 Too Many Requests", "500 Internal Server Error"] {
        let busy = Canned::saying(status, "Retry-After: 7\r\n", "");
        run(async {
            let store = limited(&busy.url(), NO_LIMITS, &Pacer::new());
            match store.head("head/1").await.unwrap_err() {
                StoreError::Busy { retry_after, .. } => assert_eq!(retry_after.unwrap().as_secs(), 7),
                StoreError::Unreachable { .. } if status.starts_with("500") => {}
                error => panic!("{status}: {error:?}"),
            }
            assert!(busy.asked().starts_with("head "), "{status}");
            let _ = store.list("seg/").await;
            assert!(busy.asked().contains("list-type"), "{status}");
        });
    }
}

#[test]
fn refuses_credentials_of_another_kind_before_any_request() {
    let url = holdall_core::store::url::StoreUrl::parse("s3://b").unwrap();
    let password = Credentials::Password { user: "me".into(), password: Zeroizing::new("hunter2".into()) };
    let error = holdall_core::store::connect::connect(&url, &password, &Pacer::new(), &Meter::default())
        .err()
        .unwrap();
    assert!(checked(error.to_string()).contains("an access key and a secret key"));
}

#[test]
fn sends_a_session_token_and_never_shows_it() {
    let canned = Canned::saying(
        "400 Bad Request",
        "",
        "<Error><Code>ExpiredToken</Code><Message>token-of-a-session</Message></Error>",
    );
    run(async {
        let credentials = keys(ACCESS_KEY, SECRET_KEY, Some("token-of-a-session"));
        let store = store_as(&canned.url(), &credentials);
        let reason = unknown(store.get("head/1", None).await);
        assert!(reason.contains("have expired"), "{reason}");
        let asked = canned.asked();
        assert!(asked.contains("\r\nx-amz-security-token: token-of-a-session\r\n"), "{asked}");
        let signed = asked.split_once("signedheaders=").unwrap().1.split_once(',').unwrap().0;
        assert!(signed.split(';').any(|header| header == "x-amz-security-token"), "{signed}");
    });
}

#[test]
fn requests_are_signed_and_carry_no_new_checksums() {
    let canned = Canned::saying("200 OK", "ETag: \"1\"\r\n", "");
    run(async {
        let etag =
            store(&canned.url()).put("head/1", Bytes::from_static(b"body"), When::Absent).await.unwrap();
        assert_eq!(etag.0, "\"1\"");
        let asked = canned.asked();
        assert!(asked.starts_with("put /holdall/p/head/1"), "{asked}");
        assert!(
            asked.contains("\r\nif-none-match: *\r\n") && asked.contains("\r\ncontent-length: 4\r\n"),
            "{asked}"
        );
        // The body's own hash, so that the server notices damage.
        let hash = "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5";
        assert!(asked.contains(&format!("x-amz-content-sha256: {hash}")), "{asked}");
        assert!(!asked.contains("x-amz-checksum") && !asked.contains("x-amz-sdk-checksum"), "{asked}");
    });
}

#[test]
fn login_pages_are_not_data() {
    const PAGE: &str = "<html><body>Welcome to our hotel</body></html>";
    run(async {
        for (status, headers) in [
            ("200 OK", "Content-Type: text/html; charset=utf-8\r\n"),
            ("200 OK", "Content-Type: text/html\r\nETag: \"1\"\r\n"),
            ("302 Found", "Location: http://hotel.example.org/\r\n"),
            ("403 Forbidden", "Content-Type: text/html\r\n"),
            ("404 Not Found", "Content-Type: text/html\r\n"),
            ("511 Network Authentication Required", "Content-Type: text/html\r\n"),
        ] {
            let canned = Canned::saying(status, headers, PAGE);
            for (verb, result) in all(&*store(&canned.url())).await.into_iter().enumerate() {
                // A HEAD has no body that could show the page, so the client asks again.
                let reason = unreachable(result);
                assert!(reason.contains("login"), "{status}, verb {verb}: {reason}");
            }
        }
    });
}

#[test]
fn answers_that_are_not_s3_mean_unreachable() {
    run(async {
        for (status, headers, body) in [
            ("404 Not Found", "", ""),
            ("200 OK", "", ""),
            ("200 OK", "", "hello"),
            ("200 OK", "Content-Type: application/xml\r\n", "<Other/>"),
            ("405 Method Not Allowed", "", ""),
            ("500 Internal Server Error", "", "<Error><Code>InternalError</Code></Error>"),
        ] {
            let canned = Canned::saying(status, headers, body);
            let results = all(&*store(&canned.url())).await;
            for (verb, result) in results.into_iter().enumerate() {
                // A delete has no answer except that it was done.
                if !(verb == 6 && status == "200 OK") {
                    assert!(!unreachable(result).is_empty(), "{status} {body}, verb {verb}");
                }
            }
        }
    });
}

#[test]
fn only_conditional_puts_can_fail_a_condition() {
    const CONDITIONAL_PUT: usize = 3;
    run(async {
        for body in ["", "<Error><Code>PreconditionFailed</Code></Error>"] {
            let canned = Canned::saying("412 Precondition Failed", "", body);
            for (verb, result) in all(&*store(&canned.url())).await.into_iter().enumerate() {
                if verb == CONDITIONAL_PUT {
                    assert_eq!(result, Err(StoreError::Precondition { name: "head/1".into() }));
                } else {
                    assert!(!unreachable(result).is_empty(), "verb {verb}, {body}");
                }
            }
        }
    });
}

#[test]
fn reports_the_retry_time_of_a_busy_server() {
    run(async {
        let body = "<Error><Code>SlowDown</Code></Error>";
        let canned = Canned::saying("503 Slow Down", "Retry-After: 7\r\n", body);
        for result in all(&limited(&canned.url(), NO_LIMITS, &Pacer::new())).await {
            let Err(StoreError::Busy { retry_after, reason }) = result else { panic!("{result:?}") };
            assert_eq!(retry_after, Some(Duration::from_secs(7)));
            checked(reason);
        }
        let canned =
            Canned::saying("429 Too Many Requests", "Retry-After: Fri, 31 Dec 2150 23:59:59 GMT\r\n", "");
        let error = store(&canned.url()).list("").await.unwrap_err();
        assert!(matches!(error, StoreError::Busy { retry_after: Some(_), .. }), "{error:?}");
        let canned = Canned::saying("507 Insufficient Storage", "", "");
        let error = store(&canned.url()).put("a", Bytes::new(), When::Always).await.unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    });
}

#[test]
fn cuts_ranges_from_servers_without_ranges() {
    let canned = Canned::saying("200 OK", "ETag: \"1\"\r\n", "0123456789");
    run(async {
        let store = store(&canned.url());
        assert_eq!(&store.get("a", Some(3..6)).await.unwrap().bytes[..], b"345");
        assert_eq!(&store.get("a", Some(0..10)).await.unwrap().bytes[..], b"0123456789");
        let error = store.get("a", Some(3..11)).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    });
}

#[test]
fn a_truncated_body_is_an_error() {
    run(async {
        let canned = Canned::answering("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 10\r\n\r\n0123");
        unreachable(store(&canned.url()).get("a", None).await);
        let canned = Canned::answering(
            "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\n0123",
        );
        let reason = unreachable(store(&canned.url()).get("a", Some(2..6)).await);
        assert!(reason.contains("other bytes"), "{reason}");
    });
}

#[test]
fn the_environment_has_no_say() {
    let server = S3Server::start();
    let test = Command::new(std::env::current_exe().unwrap())
        .args(["s3_store::refusals::reached_with_a_hostile_environment", "--exact", "--ignored"])
        .env("HOLDALL_TEST_URL", server.url("p"))
        .env("AWS_ACCESS_KEY_ID", "nobody")
        .env("AWS_SECRET_ACCESS_KEY", "hunter2")
        .env("AWS_SESSION_TOKEN", "token")
        .env("AWS_REGION", "mars-1")
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        .env("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        .env("AWS_PROFILE", "nobody")
        .env("AWS_CA_BUNDLE", "/nowhere")
        .env("http_proxy", "http://127.0.0.1:9")
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("ALL_PROXY", "http://127.0.0.1:9")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&test.stdout);
    assert!(test.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by the_environment_has_no_say"]
fn reached_with_a_hostile_environment() {
    let url = std::env::var("HOLDALL_TEST_URL").unwrap();
    run(async {
        for result in all(&*store_as(&url, &credentials())).await.into_iter().skip(2) {
            match result {
                Ok(()) | Err(StoreError::Precondition { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn a_profile_is_read_from_the_home_directory() {
    let server = S3Server::start();
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let keys = format!("[work]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n");
    std::fs::write(home.path().join(".aws/credentials"), keys).unwrap();
    let test = Command::new(std::env::current_exe().unwrap())
        .args(["s3_store::refusals::reached_with_a_profile", "--exact", "--ignored"])
        .env("HOLDALL_TEST_URL", server.url("p"))
        .env("HOME", home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&test.stdout);
    assert!(test.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by a_profile_is_read_from_the_home_directory"]
fn reached_with_a_profile() {
    let url = std::env::var("HOLDALL_TEST_URL").unwrap();
    let profile = |name: &str| Credentials::S3Profile { profile: name.into() };
    run(async {
        let store = store_as(&url, &profile("work"));
        store.put("a", Bytes::from_static(b"b"), When::Absent).await.unwrap();
    });
    let url = holdall_core::store::url::StoreUrl::parse(&url).unwrap();
    let error =
        holdall_core::store::connect::connect(&url, &profile("home"), &Pacer::new(), &Meter::default())
            .err()
            .unwrap();
    assert!(error.to_string().contains("there is no profile home"), "{error}");
}
