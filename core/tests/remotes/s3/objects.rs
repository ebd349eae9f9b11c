//! What other programs keep in a bucket, and find there afterwards.

use super::{OPTIONS, Program, parsed, remote};
use crate::{path, put};
use holdall_core::store::StoreError;
use holdall_core::store::meter::Meter;
use holdall_core::store::pace::Pacer;
use holdall_core::store::remote::connect::{ConnectError, Options as Opening, connect_remote};
use holdall_core::store::remote::s3::{Options, S3Remote};
use holdall_core::store::remote::{Condition, Kind, Meta, Relocation, Remote, RemoteError, RemotePath, Time};
use holdall_core::store::s3::Limits;
use holdall_core::store::url::StoreUrl;
use holdall_servers::s3::{KEEPER, READER, S3Server, User};

const FOREIGN: [(&str, &str); 7] = [
    ("content-type", "image/x-own"),
    ("cache-control", "max-age=60"),
    ("content-disposition", "attachment"),
    ("content-encoding", "gzip"),
    ("content-language", "de"),
    ("x-amz-meta-author", "Ada"),
    ("x-amz-tagging", "project=blue&year=2026"),
];

/// The headers of a key that others have set, and its tags.
fn foreign(server: &S3Server, key: &str) -> Vec<String> {
    let head = server.ask("HEAD", key, &[], b"").to_ascii_lowercase();
    let is_kept = |line: &&str| {
        FOREIGN.iter().any(|(name, _)| line.starts_with(&format!("{name}:")))
            && !line.starts_with("x-amz-tagging:")
    };
    let mut found: Vec<_> = head.lines().filter(is_kept).map(str::to_owned).collect();
    let tags = server.ask("GET", &format!("{key}?tagging="), &[], b"");
    found.extend(["blue", "2026"].iter().filter(|tag| tags.contains(*tag)).map(|tag| (*tag).to_owned()));
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_have_set_is_kept() {
    let server = S3Server::start();
    let remote = remote(&server.url("p")).await;
    assert!(server.ask("PUT", "p/a", &FOREIGN, b"theirs").starts_with("HTTP/1.1 200"));
    let before = foreign(&server, "p/a");
    assert!(before.len() >= 8, "{before:?}");
    let version = remote.stat(&path("a")).await.unwrap().version;
    let version = put(&remote, "a", b"ours", Condition::Matches(version)).await.unwrap().version;
    assert_eq!(foreign(&server, "p/a"), before, "after new bytes");
    let meta = Meta { mode: Some(0o600), mtime: Some(Time(1_500_000_000)), ..Meta::default() };
    let version = remote.set_meta(&path("a"), &version, &meta).await.unwrap().version;
    assert_eq!(foreign(&server, "p/a"), before, "after new bits");
    remote.relocate(&path("a"), &version, &path("b"), Condition::Absent, Relocation::Move).await.unwrap();
    assert_eq!(foreign(&server, "p/b"), before, "after a move");
    assert_eq!(remote.stat(&path("b")).await.unwrap().meta.unwrap().mtime, meta.mtime);
    let head = server.ask("HEAD", "p/b", &[], b"").to_ascii_lowercase();
    assert!(
        head.contains("x-amz-meta-mode: 33152") && head.contains("x-amz-meta-mtime: 1.500000000"),
        "{head}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_links_of_other_programs_are_read() {
    let server = S3Server::start();
    let remote = remote(&server.url("p")).await;
    server.ask("PUT", "p/rclone.txt", &[("x-amz-meta-mtime", "1354040105.123456789")], b"1");
    server.ask("PUT", "p/link", &[("x-amz-meta-mode", "41471"), ("x-amz-meta-mtime", "5")], b"../to/it");
    let meta = remote.stat(&path("rclone.txt")).await.unwrap().meta.unwrap();
    assert_eq!((meta.mtime, meta.mode), (Some(Time(1_354_040_105_123_456_789)), None));
    let link = remote.stat(&path("link")).await.unwrap();
    assert_eq!((link.kind, link.meta.unwrap().link.as_deref()), (Kind::Link, Some("../to/it")));
    put(&remote, "new.jpg", b"1", Condition::Absent).await.unwrap();
    let head = server.ask("HEAD", "p/new.jpg", &[], b"").to_ascii_lowercase();
    assert!(head.contains("content-type: image/jpeg"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_of_the_users_is_a_file() {
    let server = S3Server::start();
    let remote = remote(&server.url("pages")).await;
    let page = b"<html><body>my own page</body></html>";
    let entry = put(&remote, "index.html", page, Condition::Absent).await.unwrap();
    let file = path("index.html");
    assert_eq!(remote.stat(&file).await.unwrap().version, entry.version);
    let read = remote.read(&file, &entry.version, 0..page.len() as u64).await.unwrap();
    assert_eq!(&read[..], page);
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_without_markers_outlive_their_last_file() {
    let server = S3Server::start();
    let url = server.url("p");
    let (remote, program) = (remote(&url).await, Program::at(&url));
    for (at, moves) in [("d/one", false), ("e/one", true)] {
        program.puts(at, b"1").await;
        let (directory, _) = path(at).split().unwrap();
        let version = remote.stat(&path(at)).await.unwrap().version;
        match moves {
            true => {
                let to = path("moved");
                remote.relocate(&path(at), &version, &to, Condition::Absent, Relocation::Move).await.map(drop)
            }
            false => remote.remove(&path(at), Condition::Matches(version)).await,
        }
        .unwrap();
        assert!(remote.list(&directory, None).await.unwrap().entries.is_empty(), "{at}");
        assert_eq!(remote.stat(&directory).await.unwrap().kind, Kind::Directory);
        remote.remove_directory(&directory).await.unwrap();
        assert_eq!(remote.stat(&directory).await.unwrap_err(), RemoteError::NotFound(directory));
    }
    assert_eq!(program.keys().await, ["moved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn markers_with_content_stay() {
    let server = S3Server::start();
    let remote = remote(&server.url("p")).await;
    // The test's server refuses bytes in a marker, as many do; a plain marker has metadata.
    server.ask(
        "PUT",
        "p/d/",
        &[("content-type", "application/x-directory"), ("x-amz-meta-author", "Ada")],
        b"",
    );
    let version = remote.stat(&path("d")).await.unwrap().version;
    let meta = Meta { mode: Some(0o700), ..Meta::default() };
    remote.set_meta(&path("d"), &version, &meta).await.unwrap();
    assert_eq!(remote.stat(&path("d")).await.unwrap().meta.unwrap().mode, Some(0o700));
    let head = server.ask("HEAD", "p/d/", &[], b"").to_ascii_lowercase();
    assert!(head.contains("x-amz-meta-author: ada") && head.contains("x-amz-meta-mode: 16832"), "{head}");

    server.ask("PUT", "p/plain", &[("content-type", "application/x-directory")], b"");
    assert_eq!(remote.stat(&path("plain")).await.unwrap().kind, Kind::Directory);
    assert!(remote.list(&path("plain"), None).await.unwrap().entries.is_empty());
    let over = put(&remote, "plain", b"1", Condition::Always).await;
    assert_eq!(over.unwrap_err(), RemoteError::Changed(path("plain")));
    remote.remove_directory(&path("plain")).await.unwrap();
    assert!(matches!(remote.stat(&path("plain")).await, Err(RemoteError::NotFound(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_that_do_not_fit_are_refused_before_anything_changes() {
    let server = S3Server::start();
    let remote = remote(&server.url("p")).await;
    let version = put(&remote, "a", b"1", Condition::Absent).await.unwrap().version;
    let xattrs = [("user.a".to_owned(), vec![7; 2000])].into();
    let meta = Meta { xattrs, ..Meta::default() };
    let refused = remote.set_meta(&path("a"), &version, &meta).await.unwrap_err();
    assert!(
        matches!(&refused, RemoteError::Forbidden { reason, .. } if reason.contains("space for 2048")),
        "{refused}"
    );
    assert_eq!(remote.stat(&path("a")).await.unwrap().version, version);
}

async fn as_user(server: &S3Server, user: &User) -> S3Remote {
    let credentials = serde_json::from_str(&user.credentials()).unwrap();
    let (url, pacer, meter) = (parsed(&server.url("p")), Pacer::new(), Meter::default());
    S3Remote::open(&url, &credentials, OPTIONS, Limits::default(), (&pacer, &meter)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_account_may_do_is_found_out() {
    let server = S3Server::start_with_users();
    let program = Program::at(&server.url("p"));
    program.puts("a", b"1").await;
    let reader = as_user(&server, &READER).await;
    let reason = reader.facts().read_only.clone().unwrap();
    assert!(reason.contains("do not allow this"), "{reason}");
    let page = reader.list(&RemotePath::root(), None).await.unwrap();
    assert!(!page.entries[0].is_writable);
    let denied = put(&reader, "b", b"1", Condition::Absent).await.unwrap_err();
    assert!(matches!(denied, RemoteError::Store(StoreError::Denied { .. })), "{denied:?}");
    assert_eq!(program.keys().await, ["a"]);

    let keeper = as_user(&server, &KEEPER).await;
    assert_eq!(keeper.facts().read_only, None, "it may write, though not delete");
    put(&keeper, "b", b"1", Condition::Absent).await.unwrap();
    as_user(&server, &KEEPER).await;
    let left: Vec<_> = program.keys().await.into_iter().filter(|key| key.contains("upload")).collect();
    assert_eq!(left.len(), 1, "one object for each device, however often it opens: {left:?}");

    let (pacer, meter) = (Pacer::new(), Meter::default());
    let options = Options { read_only: true, ..OPTIONS };
    let credentials = super::credentials();
    let url = parsed(&server.url("p"));
    let still =
        S3Remote::open(&url, &credentials, options, Limits::default(), (&pacer, &meter)).await.unwrap();
    assert!(still.facts().read_only.is_some());
    assert_eq!(meter.requests().put, 0, "a remote that is opened read-only tries nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_with_a_store_is_no_folder() {
    let server = S3Server::start();
    let program = Program::at(&server.url("p"));
    let directory = tempfile::tempdir().unwrap();
    let local = format!("file://{}", directory.path().display());
    let open = async |url: &str| {
        let (url, credentials) = (StoreUrl::parse(url).unwrap(), super::credentials());
        let options = Opening { device: OPTIONS.device, root: None, read_only: false };
        connect_remote(&url, &credentials, options, &Pacer::new(), &Meter::default())
            .await
            .map(|open| open.root)
    };
    for (url, has_identity) in [(server.url("p"), false), (local, true)] {
        assert_eq!(open(&url).await.unwrap().is_some(), has_identity, "{url}");
        for (body, is_store) in [
            (&br#"{"format": 1, "family": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}"#[..], true),
            (b"{\"family\": [\"Ada\"]}", false),
        ] {
            program.puts("family.json", body).await;
            std::fs::write(directory.path().join("family.json"), body).unwrap();
            let opened = open(&url).await;
            assert_eq!(matches!(opened, Err(ConnectError::IsStore { .. })), is_store, "{url}: {opened:?}");
        }
    }
    let gone = open(&server.url("p").replace("s3://holdall", "s3://elsewhere")).await.unwrap_err();
    assert!(matches!(gone, ConnectError::Remote(RemoteError::Store(StoreError::NoPlace { .. }))), "{gone:?}");
}
