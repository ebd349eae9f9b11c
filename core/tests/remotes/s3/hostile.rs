//! Servers that answer as no server should, and bucket contents that no file system has.

use super::{OPTIONS, credentials, parsed};
use crate::{path, put};
use holdall_core::store::StoreError;
use holdall_core::store::meter::Meter;
use holdall_core::store::pace::Pacer;
use holdall_core::store::remote::s3::{Options, S3Remote};
use holdall_core::store::remote::{Condition, Kind, Page, Remote, RemoteError, RemotePath, Version};
use holdall_core::store::s3::Limits;
use holdall_servers::fake::{Asked, Fake, Reply};
use holdall_servers::s3::url;

/// The remote of a server that a test has written. It is opened read-only, so that no trial disturbs the test.
async fn remote(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> (S3Remote, Fake) {
    let fake = Fake::start(move |asked| match is_first_look(asked) {
        true => listing(&[], &[], None),
        false => answer(asked),
    });
    let (at, pacer, meter) = (parsed(&url("http", fake.address(), "p")), Pacer::new(), Meter::default());
    let options = Options { read_only: true, ..OPTIONS };
    let remote = S3Remote::open(&at, &credentials(), options, Limits::default(), (&pacer, &meter)).await;
    (remote.unwrap(), fake)
}

/// The look at the root when it is opened: a listing without a delimiter.
fn is_first_look(asked: &Asked) -> bool {
    let has = |word: &str| asked.path.contains(word);
    has("list-type=2") && has("max-keys=1&") && !has("delimiter=") && asked.path.ends_with("prefix=p%2F")
}

/// A page of a listing: keys below the prefix, and where it continues.
fn listing(objects: &[&str], prefixes: &[&str], next: Option<&str>) -> Reply {
    let object = |key: &&str| {
        format!(
            "<Contents><Key>p/{key}</Key><Size>1</Size><ETag>&quot;t&quot;</ETag>\
             <LastModified>2026-01-01T00:00:00.123Z</LastModified></Contents>"
        )
    };
    let prefix = |key: &&str| format!("<CommonPrefixes><Prefix>p/{key}</Prefix></CommonPrefixes>");
    let next = next.map(|next| {
        format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>")
    });
    let body = format!(
        "<?xml version=\"1.0\"?><ListBucketResult>{}{}{}</ListBucketResult>",
        objects.iter().map(object).collect::<String>(),
        prefixes.iter().map(prefix).collect::<String>(),
        next.unwrap_or_default()
    );
    Reply::status(200).with("content-type", "application/xml").body(body.as_bytes())
}

/// All pages of the root, or the first error.
async fn pages(remote: &S3Remote) -> Result<Vec<Page>, RemoteError> {
    let (mut pages, mut token) = (Vec::new(), None);
    loop {
        let page = remote.list(&RemotePath::root(), token.as_ref()).await?;
        token = page.next.clone();
        pages.push(page);
        assert!(pages.len() < 100, "the listing does not end");
        if token.is_none() {
            return Ok(pages);
        }
    }
}

#[track_caller]
fn unreachable<T: std::fmt::Debug>(result: Result<T, RemoteError>) -> String {
    match result {
        Err(RemoteError::Store(StoreError::Unreachable { reason })) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_no_file_has_are_counted_and_not_shown() {
    let long = "x".repeat(300);
    let objects = ["", "a", "both", "..", &long, ".holdall-upload-1", "d_$folder$"].map(str::to_owned);
    let (remote, _fake) = remote(move |_| {
        let objects: Vec<_> = objects.iter().map(String::as_str).collect();
        listing(&objects, &["both/", "d/", "/", "./"], None)
    })
    .await;
    let page = remote.list(&RemotePath::root(), None).await.unwrap();
    let mut found: Vec<_> = page.entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    found.sort_by_key(|(name, _)| *name);
    assert_eq!(found, [("a", Kind::File), ("both", Kind::Directory), ("d", Kind::Directory)]);
    assert_eq!(page.unusable.count, 5, "{:?}", page.unusable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_file_and_prefix_stays_a_directory() {
    let (remote, _fake) = remote(|asked| match &*asked.method {
        "HEAD" if asked.path.ends_with("/p/both/") => Reply::status(404),
        "HEAD" => Reply::status(200).with("etag", "\"t\"").with("content-length", "1"),
        "GET" if asked.path.contains("prefix=p%2Fboth%2F") => listing(&["both/in"], &[], None),
        _ => listing(&["both"], &["both/"], None),
    })
    .await;
    remote.list(&RemotePath::root(), None).await.unwrap();
    assert_eq!(remote.stat(&path("both")).await.unwrap().kind, Kind::Directory);
}

/// A server that keeps every condition and stores nothing. `lists` answers each look at names, `heads` each look at an object.
fn keeping(
    lists: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    heads: impl Fn() -> Reply + Send + Sync + 'static,
) -> Fake {
    Fake::start(move |asked| {
        let has = |word: &str| asked.path.contains(word);
        let is_probe = has("-probe");
        let is_plain = asked.header("if-none-match").or(asked.header("if-match")).is_none();
        match &*asked.method {
            "GET" => lists(asked),
            "HEAD" => heads(),
            "POST" if has("uploads") => Reply::status(200).body(
                b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
            ),
            "PUT" if has("partNumber") => Reply::status(200).with("etag", "\"p\""),
            "DELETE" if is_plain => Reply::status(204),
            "PUT" if asked.header("x-amz-copy-source").is_none() && (is_plain || !is_probe) => {
                Reply::status(200).with("etag", "\"t\"")
            }
            _ => Reply::status(412),
        }
    })
}

async fn opened(fake: &Fake) -> S3Remote {
    let (at, pacer, meter) = (parsed(&url("http", fake.address(), "p")), Pacer::new(), Meter::default());
    S3Remote::open(&at, &credentials(), OPTIONS, Limits::default(), (&pacer, &meter)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_decoded_only_where_they_are_encoded() {
    let says = |is_encoded: bool, key: &str| {
        let encoding = if is_encoded { "<EncodingType>url</EncodingType>" } else { "" };
        let body = format!(
            "<ListBucketResult>{encoding}<Contents><Key>{key}</Key><Size>1</Size><ETag>t</ETag></Contents></ListBucketResult>"
        );
        Reply::status(200).body(body.as_bytes())
    };
    for (is_honest, is_encoded, name) in
        [(true, true, "a+b c"), (true, false, "a%2Bb+c"), (false, true, "a%2Bb+c"), (false, false, "a%2Bb+c")]
    {
        let fake = keeping(
            move |asked| match asked.path.split_once("prefix=p%2F.holdall") {
                // The key of the trial: as it was sent, it is encoded.
                Some((_, rest)) if is_honest => says(true, &format!("p/.holdall{rest}")),
                Some((_, rest)) => says(true, &format!("p/.holdall{rest}").replace("%2541%2B%20", "%41+ ")),
                None => says(is_encoded, "p/a%2Bb+c"),
            },
            || Reply::status(404),
        );
        let remote = opened(&fake).await;
        let page = remote.list(&RemotePath::root(), None).await.unwrap();
        assert_eq!(page.entries[0].name.as_str(), name, "{is_honest} {is_encoded}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_that_lead_in_a_circle_are_errors() {
    for circle in [1, 2, 5] {
        let (remote, _fake) = remote(move |asked| {
            let token = |number: usize| format!("continuation-token=t{number}&");
            let now = (0..circle).find(|number| asked.path.contains(&token(*number)));
            let next = now.map_or(0, |now| (now + 1) % circle);
            listing(&["a"], &[], Some(&format!("t{next}")))
        })
        .await;
        let reason = unreachable(pages(&remote).await);
        assert!(reason.contains("in a circle"), "{circle}: {reason}");
    }
    let (remote, _fake) = remote(|_| {
        let body = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
        Reply::status(200).body(body.as_bytes())
    })
    .await;
    assert!(unreachable(pages(&remote).await).contains("does not go on"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_listing_is_never_an_empty_one() {
    let page = Reply::status(200).with("content-type", "text/html").body(b"<html>log in</html>");
    let disguised = Reply::status(200).with("content-type", "application/xml").body(b"<html>log in</html>");
    let other = "<ListBucketResult><Contents><Key>elsewhere/a</Key><Size>1</Size><ETag>t</ETag></Contents></ListBucketResult>";
    let nameless = "<ListBucketResult><Contents><Key>p/a</Key><Size>1</Size></Contents></ListBucketResult>";
    let negative = "<ListBucketResult><Contents><Key>p/a</Key><Size>-1</Size><ETag>t</ETag></Contents></ListBucketResult>";
    let cut = "<ListBucketResult><Contents><Key>p/a</Key>";
    let mut answers = vec![page, disguised, Reply::status(200), Reply::status(204), Reply::status(500)];
    answers.extend([other, nameless, negative, cut].map(|body| Reply::status(200).body(body.as_bytes())));
    for answer in answers {
        let said = answer.clone();
        let (remote, _fake) = remote(move |_| said.clone()).await;
        let listed = remote.list(&RemotePath::root(), None).await;
        assert!(matches!(listed, Err(RemoteError::Store(_))), "{answer:?}: {listed:?}");
        let listed = remote.list(&path("d"), None).await;
        assert!(matches!(listed, Err(RemoteError::Store(_))), "{answer:?}: {listed:?}");
        let stat = remote.stat(&path("d")).await;
        assert!(!matches!(stat, Err(RemoteError::NotFound(_)) | Ok(_)), "{answer:?}: {stat:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_end_are_ended() {
    let (remote, _fake) = remote(|_| {
        let name = "<CommonPrefixes><Prefix>p/a/</Prefix></CommonPrefixes>".repeat(400_000);
        let body = format!("<ListBucketResult>{name}</ListBucketResult>");
        Reply::status(200).body(body.as_bytes())
    })
    .await;
    unreachable(remote.list(&RemotePath::root(), None).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_exact_or_errors() {
    let version = Version { tag: "t".into(), len: 10, written: None };
    let answer = |etag: &str, range: Option<&str>, body: &'static [u8]| {
        let status = if range.is_some() { 206 } else { 200 };
        let answer = Reply::status(status).with("etag", etag).body(body);
        match range {
            Some(range) => answer.with("content-range", range),
            None => answer,
        }
    };
    let changed = || RemoteError::Changed(path("a"));
    for (said, expected) in [
        (answer("\"t\"", Some("bytes 2-4/10"), b"234"), Ok(())),
        (answer("\"t\"", None, b"0123456789"), Ok(())),
        (answer("\"u\"", Some("bytes 2-4/10"), b"234"), Err(Some(changed()))),
        (answer("\"t\"", Some("bytes 2-4/11"), b"234"), Err(Some(changed()))),
        (answer("\"t\"", Some("bytes 2-3/10"), b"23"), Err(None)),
        (answer("\"t\"", Some("bytes 3-5/10"), b"345"), Err(None)),
        (
            Reply::Raw(
                b"HTTP/1.1 206 P\r\netag: \"t\"\r\ncontent-range: bytes 2-4/10\r\ncontent-length: 3\r\n\r\n2"
                    .to_vec(),
            ),
            Err(None),
        ),
        (answer("\"t\"", None, b"012"), Err(Some(changed()))),
        (Reply::status(412), Err(Some(changed()))),
        (error(404, "NoSuchKey"), Err(Some(RemoteError::NotFound(path("a"))))),
        (Reply::status(404), Err(None)),
        (error(416, "InvalidRange"), Err(Some(changed()))),
        (error(403, "InvalidObjectState"), Err(Some(RemoteError::Archived(path("a"))))),
    ] {
        let reply = said.clone();
        let (remote, _fake) = remote(move |_| reply.clone()).await;
        match (remote.read(&path("a"), &version, 2..5).await, expected) {
            (Ok(bytes), Ok(())) => assert_eq!(&bytes[..], b"234"),
            (Err(error), Err(Some(expected))) => assert_eq!(error, expected, "{said:?}"),
            (Err(RemoteError::Store(StoreError::Unreachable { .. })), Err(None)) => {}
            (read, _) => panic!("{said:?}: {read:?}"),
        }
    }
}

fn error(status: u16, code: &str) -> Reply {
    Reply::status(status).body(format!("<Error><Code>{code}</Code></Error>").as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_was_stored_otherwise_is_an_error() {
    let two_bytes = || Reply::status(200).with("etag", "\"t\"").with("content-length", "2");
    let fake = keeping(|_| listing(&[], &[], None), two_bytes);
    let remote = opened(&fake).await;
    assert!(remote.facts().has_conditions, "{:?}", remote.facts());
    let reason = unreachable(put(&remote, "a", b"123", Condition::Absent).await);
    assert!(reason.contains("has 2 bytes") && reason.contains("3 were written"), "{reason}");
    put(&remote, "a", b"12", Condition::Absent).await.unwrap();

    let fake = keeping(|_| listing(&[], &[], None), || Reply::status(404));
    let reason = unreachable(put(&opened(&fake).await, "a", b"12", Condition::Absent).await);
    assert!(reason.contains("does not have it"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_is_no_upload() {
    let fake = keeping(|_| listing(&[], &[], None), || Reply::status(404));
    let page = Fake::start(|asked| match &*asked.method {
        "GET" => listing(&[], &[], None),
        "HEAD" => Reply::status(404),
        _ => Reply::status(200).with("content-type", "text/html").body(b"<html>log in</html>"),
    });
    assert!(opened(&fake).await.facts().read_only.is_none());
    let (at, pacer, meter) = (parsed(&url("http", page.address(), "p")), Pacer::new(), Meter::default());
    let refused = S3Remote::open(&at, &credentials(), OPTIONS, Limits::default(), (&pacer, &meter)).await;
    let reason = refused.map(drop).unwrap_err().to_string();
    assert!(reason.contains("web page"), "{reason}");
}
