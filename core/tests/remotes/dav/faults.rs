//! Servers that lie, break off, lock, and do something else than they say.

use super::tree::{ROOT, Tree, multistatus};
use super::*;
use crate::{Notes, path, put};
use holdall_core::sim::contract;
use holdall_core::store::StoreError;
use holdall_core::store::remote::{Condition, Meta, Put, ReadAt, Relocation, Remote, RemoteError, Version};
use holdall_servers::fake::Reply;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn unreachable<T: std::fmt::Debug>(result: Result<T, RemoteError>) -> String {
    match result {
        Err(RemoteError::Store(StoreError::Unreachable { reason })) => reason,
        other => panic!("{other:?}"),
    }
}

async fn moved(remote: &DavRemote, version: &Version) -> Result<String, RemoteError> {
    let entry = remote.relocate(&path("a"), version, &path("b"), Condition::Absent, Relocation::Move).await?;
    Ok(entry.name.to_string())
}

/// A server with one file, and its version.
async fn with_a() -> (Tree, DavRemote, Version) {
    let tree = Tree::start();
    tree.set("a", b"0123456789");
    let remote = tree.open().await;
    let version = remote.stat(&path("a")).await.unwrap().version;
    (tree, remote, version)
}

#[tokio::test]
async fn a_good_server_keeps_the_contract() {
    let tree = Tree::start();
    let remote = tree.open().await;
    let facts = remote.facts();
    assert!(facts.has_conditions && facts.moves_trees && facts.keeps_meta && facts.keeps_mtime, "{facts:?}");
    assert!(!facts.folds_case && !facts.folds_forms && !facts.root_tag_tells, "{facts:?}");
    assert!(tree.left().is_empty(), "the probe leaves nothing");
    contract::holds(&remote, &tree).await;
    assert!(tree.left().is_empty());
}

#[tokio::test]
async fn the_common_requests_are_few() {
    let (tree, remote, version) = with_a().await;
    let mut since = tree.fake.asked().len();
    let mut expect = |requests: &[&str]| {
        assert_eq!(tree.requests(since), requests);
        since = tree.fake.asked().len();
    };
    remote.list(&RemotePath::root(), None).await.unwrap();
    expect(&["PROPFIND ada"]);
    remote.read(&path("a"), &version, 2..5).await.unwrap();
    expect(&["GET a"]);
    let new = put(&remote, "b", b"1", Condition::Absent).await.unwrap().version;
    expect(&["PUT b", "PROPFIND b"]);
    put(&remote, "b", b"2", Condition::Matches(new)).await.unwrap();
    expect(&["PUT b", "PROPFIND b"]);
    remote.remove(&path("b"), Condition::Always).await.unwrap();
    expect(&["PROPFIND b", "DELETE b"]);
    remote.make_directory(&path("d")).await.unwrap();
    expect(&["MKCOL d", "PROPFIND d"]);
    moved(&remote, &version).await.unwrap();
    expect(&["PROPFIND a", "MOVE a", "PROPFIND b"]);
}

#[tokio::test]
async fn a_listing_shows_nothing_but_children() {
    let (tree, remote, _) = with_a().await;
    let file = |href: &str| {
        format!(
            "<d:response><d:href>{href}</d:href><d:propstat><d:prop><d:getcontentlength>1</d:getcontentlength></d:prop>\
             <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
        )
    };
    let listing = async |body: String| {
        tree.answer(move |asked| (asked.method == "PROPFIND").then(|| multistatus(&body)));
        remote.list(&RemotePath::root(), None).await
    };
    for href in ["/etc/passwd", "../x", "%2e%2e/x", "/remote.php/dav/files/eve/x", "x/y", "http://["] {
        assert!(unreachable(listing(file(href)).await).contains("another place"), "{href}");
    }
    for href in ["a%2Fb", "..%2Fx", "%00", "%FF%FE", "a?b", &"x".repeat(256)] {
        let page = listing(file(&format!("{ROOT}{href}"))).await.unwrap();
        assert_eq!((page.entries.len(), page.unusable.count), (0, 1), "{href}");
    }
    let page = listing(file(&format!("http://elsewhere{ROOT}%C3%BC%20%25"))).await.unwrap();
    assert_eq!(page.entries[0].name.as_str(), "ü %");
    let failed = "<d:response><d:href>x</d:href><d:status>HTTP/1.1 500 No</d:status></d:response>";
    assert!(unreachable(listing(failed.to_owned()).await).contains("leaves things out"));
    assert!(unreachable(listing("<d:response>".repeat(100)).await).contains("cannot be read"));
}

#[tokio::test]
async fn what_is_no_listing_is_an_error() {
    let (tree, remote, _) = with_a().await;
    let xml = |body: &str| Reply::status(207).body(body.as_bytes());
    let bomb = format!(
        "<!DOCTYPE m [<!ENTITY a \"{}\"><!ENTITY b \"&a;&a;&a;&a;\">]><m:multistatus xmlns:m=\"DAV:\">&b;</m:multistatus>",
        "a".repeat(1000)
    );
    let endless = format!("HTTP/1.1 207 OK\r\n\r\n<multistatus xmlns=\"DAV:\"><x>{}", "x".repeat(2 << 20));
    let cut = "HTTP/1.1 207 OK\r\ncontent-length: 99\r\n\r\n<multistatus xmlns=\"DAV:\"/>";
    for reply in [
        xml(""),
        xml("<html>Log in</html>"),
        xml("<multistatus/>"),
        xml("<multistatus xmlns=\"DAV:\"><response>"),
        xml(&bomb),
        Reply::Raw(endless.into_bytes()),
        Reply::Raw(cut.as_bytes().to_vec()),
        Reply::status(200).with("content-type", "text/html").body(b"<html>Log in</html>"),
        Reply::status(204),
        Reply::status(503),
    ] {
        let answer = reply.clone();
        tree.answer(move |_| Some(answer.clone()));
        let listed = remote.list(&RemotePath::root(), None).await;
        assert!(matches!(listed, Err(RemoteError::Store(_))), "{reply:?}: {listed:?}");
        let looked = remote.stat(&path("a")).await;
        assert!(matches!(looked, Err(RemoteError::Store(_))), "{reply:?}: {looked:?}");
    }
}

#[tokio::test]
async fn a_sign_in_page_is_neither_data_nor_success() {
    let (tree, remote, version) = with_a().await;
    let page = Reply::status(200)
        .with("content-type", "text/html; charset=utf-8")
        .body(b"<html>Welcome, guest</html>");
    let everything = async || {
        let meta = Meta { mode: Some(0o600), ..Meta::default() };
        let (a, always) = (path("a"), Condition::Always);
        vec![
            remote.list(&RemotePath::root(), None).await.map(drop),
            remote.stat(&a).await.map(drop),
            remote.read(&a, &version, 0..10).await.map(drop),
            put(&remote, "new", b"<html>Welcome, guest</html>", Condition::Absent).await.map(drop),
            put(&remote, "a", b"<html>Welcome, guest</html>", always.clone()).await.map(drop),
            remote.set_meta(&a, &version, &meta).await.map(drop),
            moved(&remote, &version).await.map(drop),
            remote.remove(&a, always).await,
            remote.make_directory(&path("d")).await.map(drop),
            remote.remove_directory(&path("d")).await,
            remote.quota().await.map(drop),
        ]
    };
    let answer = page.clone();
    tree.answer(move |_| Some(answer.clone()));
    for done in everything().await {
        let reason = unreachable(done);
        assert!(reason.contains("web page"), "{reason}");
    }
    // The page comes only to what would change something.
    let answer = page.clone();
    tree.answer(move |asked| {
        let changes = !matches!(&*asked.method, "PROPFIND" | "GET");
        changes.then(|| answer.clone())
    });
    assert!(put(&remote, "new", b"1", Condition::Absent).await.is_err());
    assert!(moved(&remote, &version).await.is_err());
    assert!(remote.remove(&path("a"), Condition::Always).await.is_err());
    tree.be_good();
    assert_eq!(tree.file("a").unwrap(), b"0123456789");
    let url = tree.url();
    tree.answer(move |_| Some(page.clone()));
    let opened = open(&url).await.map(drop).unwrap_err().to_string();
    assert!(opened.contains("web page"), "{opened}");
}

#[tokio::test]
async fn an_upload_that_was_not_kept_is_an_error() {
    let (tree, remote, version) = with_a().await;
    tree.answer(|asked| (asked.method == "PUT").then(|| Reply::status(201)));
    unreachable(put(&remote, "new", b"1", Condition::Absent).await);
    unreachable(put(&remote, "a", b"9876543210", Condition::Matches(version)).await);
    tree.answer({
        let tree = tree.clone();
        move |asked| {
            let mut short = asked.clone();
            short.body.truncate(3);
            (asked.method == "PUT").then(|| tree.carry_out(&short))
        }
    });
    assert!(unreachable(put(&remote, "new", b"12345", Condition::Absent).await).contains("has 3"));
}

#[tokio::test]
async fn a_move_is_what_the_server_has_then() {
    for (status, acts, succeeds) in
        [(201, false, false), (502, true, true), (504, true, true), (502, false, false), (500, false, false)]
    {
        let (tree, remote, version) = with_a().await;
        tree.answer({
            let tree = tree.clone();
            move |asked| {
                (asked.method == "MOVE").then(|| {
                    if acts {
                        tree.carry_out(asked);
                    }
                    Reply::status(status)
                })
            }
        });
        let since = tree.fake.asked().len();
        let done = moved(&remote, &version).await;
        assert_eq!(done.is_ok(), succeeds, "{status} {acts}: {done:?}");
        let requests = tree.requests(since);
        let moves = requests.iter().filter(|request| request.starts_with("MOVE")).count();
        // Only a server that has done nothing is asked again, by the path alone.
        assert_eq!(moves, if status == 502 && !acts { 2 } else { 1 }, "{requests:?}");
        let name = if acts { "b" } else { "a" };
        assert_eq!(tree.file(name).unwrap(), b"0123456789");
    }
}

#[tokio::test]
async fn a_lock_tells_whose_it_is() {
    let (tree, remote, version) = with_a().await;
    let told = "<d:response><d:href>/a</d:href><d:propstat><d:prop><d:lockdiscovery><d:activelock><d:owner>Ada</d:owner>\
                </d:activelock></d:lockdiscovery></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>";
    for (owner, by) in [(Some(told), Some("Ada".to_owned())), (None, None)] {
        tree.answer(move |asked| {
            let asks = String::from_utf8_lossy(&asked.body).contains("lockdiscovery");
            match &*asked.method {
                "PUT" | "DELETE" | "MOVE" | "PROPPATCH" => Some(Reply::status(423)),
                "PROPFIND" if asks => Some(owner.map_or(Reply::status(403), multistatus)),
                _ => None,
            }
        });
        let locked = |at: &str| RemoteError::Locked { path: path(at), by: by.clone() };
        assert_eq!(put(&remote, "a", b"1", Condition::Always).await, Err(locked("a")));
        assert_eq!(remote.remove(&path("a"), Condition::Always).await, Err(locked("a")));
        assert_eq!(moved(&remote, &version).await, Err(locked("b")));
        assert!(locked("a").is_transient());
    }
}

#[tokio::test]
async fn refusals_say_what_they_are_about() {
    let (tree, remote, _) = with_a().await;
    let words = b"<d:error xmlns:d=\"DAV:\" xmlns:s=\"http://sabredav.org/ns\"><s:message>No such share</s:message></d:error>";
    let refuse = async |status: u16| {
        tree.answer(move |asked| (asked.method == "PUT").then(|| Reply::status(status).body(words)));
        put(&remote, "a", b"1", Condition::Always).await.unwrap_err()
    };
    assert!(matches!(refuse(507).await, RemoteError::Store(StoreError::Full { .. })));
    assert!(matches!(refuse(413).await, RemoteError::TooLarge(_)));
    assert!(matches!(refuse(503).await, RemoteError::Store(StoreError::Busy { .. })));
    for status in [403, 400] {
        match refuse(status).await {
            RemoteError::Forbidden { reason, .. } | RemoteError::BadName { reason, .. } => {
                assert_eq!(reason, "No such share");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn weak_tags_are_compared_and_never_sent() {
    let (tree, remote, _) = with_a().await;
    tree.answer({
        let tree = tree.clone();
        move |asked| match &*asked.method {
            // As RFC 9110 has it: a weak ETag matches nothing.
            "PUT" | "DELETE" if asked.header("if-match").is_some() => Some(Reply::status(412)),
            "PROPFIND" => match tree.carry_out(asked) {
                Reply::Answer(status, headers, body) => {
                    let weak = String::from_utf8(body).unwrap().replace("<d:getetag>", "<d:getetag>W/");
                    Some(Reply::Answer(status, headers, weak.into_bytes()))
                }
                other => Some(other),
            },
            _ => None,
        }
    });
    let version = remote.stat(&path("a")).await.unwrap().version;
    assert_eq!(&remote.read(&path("a"), &version, 2..5).await.unwrap()[..], b"234");
    let second = put(&remote, "a", b"second", Condition::Matches(version.clone())).await.unwrap().version;
    let late = put(&remote, "a", b"third", Condition::Matches(version)).await;
    assert_eq!(late, Err(RemoteError::Changed(path("a"))));
    remote.remove(&path("a"), Condition::Matches(second)).await.unwrap();
    assert_eq!(tree.file("a"), None);
}

#[tokio::test]
async fn a_read_never_gives_other_bytes() {
    let (tree, remote, version) = with_a().await;
    let tag = format!("\"{}\"", version.tag);
    let part = |range: &str, body: &[u8]| Reply::status(206).with("content-range", range).body(body);
    let short = format!(
        "HTTP/1.1 206 OK\r\ncontent-range: bytes 2-4/10\r\netag: {tag}\r\ncontent-length: 3\r\n\r\n23"
    );
    let changed = || Err(RemoteError::Changed(path("a")));
    type Read<'a> = Result<&'a [u8], RemoteError>;
    let cases: [(Reply, Option<Read<'_>>); 9] = [
        (part("bytes 2-4/10", b"234").with("etag", &tag), Some(Ok(b"234"))),
        (part("bytes 2-4/*", b"234").with("etag", &tag), Some(Ok(b"234"))),
        (Reply::status(200).body(b"0123456789").with("etag", &tag), Some(Ok(b"234"))),
        // Without an ETag, a look decides.
        (part("bytes 2-4/10", b"234"), Some(Ok(b"234"))),
        (part("bytes 2-4/11", b"234").with("etag", &tag), Some(changed())),
        (Reply::status(200).body(b"012345678").with("etag", &tag), Some(changed())),
        (part("bytes 3-5/10", b"345").with("etag", &tag), None),
        (part("bytes 2-4/10", b"23").with("etag", &tag), None),
        (Reply::Raw(short.into_bytes()), None),
    ];
    for (reply, expected) in cases {
        let answer = reply.clone();
        tree.answer(move |asked| (asked.method == "GET").then(|| answer.clone()));
        let read = remote.read(&path("a"), &version, 2..5).await;
        match expected {
            Some(Ok(bytes)) => assert_eq!(read.unwrap(), bytes, "{reply:?}"),
            Some(Err(error)) => assert_eq!(read.unwrap_err(), error, "{reply:?}"),
            None => drop(unreachable(read)),
        }
    }
    // The head is that of another version, and so is the file.
    tree.be_good();
    tree.set("a", b"abcdefghij");
    assert_eq!(
        remote.read(&path("a"), &version, 2..5).await,
        changed().map(|bytes: &[u8]| bytes.to_vec().into())
    );
}

#[tokio::test]
async fn nothing_is_missing_while_the_root_is() {
    let (tree, remote, version) = with_a().await;
    tree.answer(|_| Some(Reply::status(404)));
    for done in [
        remote.list(&path("d"), None).await.map(drop),
        remote.list(&RemotePath::root(), None).await.map(drop),
        remote.stat(&path("a")).await.map(drop),
        remote.read(&path("a"), &version, 0..1).await.map(drop),
        remote.remove(&path("a"), Condition::Always).await,
    ] {
        assert!(matches!(done, Err(RemoteError::Store(StoreError::NoPlace { .. }))), "{done:?}");
    }
    let opened = open(&tree.url()).await.map(drop);
    assert!(
        matches!(opened, Err(OpenError::Remote(RemoteError::Store(StoreError::NoPlace { .. })))),
        "{opened:?}"
    );
}

#[tokio::test]
async fn what_may_not_be_written_is_read_only() {
    let tree = Tree::start();
    tree.set("a", b"1");
    let writes = |tree: &Tree| {
        let asked = tree.fake.asked();
        asked.iter().filter(|asked| !matches!(&*asked.method, "PROPFIND" | "GET" | "MKCOL")).count()
    };
    tree.answer(|asked| (asked.method == "MKCOL").then(|| Reply::status(403)));
    let refused = open(&tree.url()).await.unwrap();
    let chosen = open_with(&tree.url(), true, &Meter::default()).await.unwrap();
    for remote in [&refused, &chosen] {
        assert!(remote.facts().read_only.is_some());
        let done = put(remote, "b", b"1", Condition::Absent).await;
        assert!(matches!(done, Err(RemoteError::Store(StoreError::Denied { .. }))), "{done:?}");
        let version = remote.stat(&path("a")).await.unwrap().version;
        assert_eq!(&remote.read(&path("a"), &version, 0..1).await.unwrap()[..], b"1");
    }
    assert_eq!(writes(&tree), 0);
}

#[tokio::test]
async fn permissions_show_what_may_be_written() {
    let (tree, remote, _) = with_a().await;
    for (letters, is_writable) in [("RGDNVW", true), ("RG", false)] {
        tree.answer({
            let tree = tree.clone();
            move |asked| match tree.carry_out(asked) {
                Reply::Answer(status, headers, body) => {
                    let told = format!("<oc:permissions>{letters}</oc:permissions></d:prop>");
                    let body = String::from_utf8(body).unwrap().replace("</d:prop>", &told);
                    Some(Reply::Answer(status, headers, body.into_bytes()))
                }
                other => Some(other),
            }
        });
        assert_eq!(remote.stat(&path("a")).await.unwrap().is_writable, is_writable);
        let page = remote.list(&RemotePath::root(), None).await.unwrap();
        assert_eq!(page.entries[0].is_writable, is_writable);
    }
}

/// A server on which a broken PUT damages the file, as far as the probe can see.
async fn careless() -> (Tree, DavRemote) {
    let tree = Tree::start();
    tree.answer(|asked| {
        (asked.method == "PROPFIND" && asked.path.ends_with("/old")).then(|| Reply::status(404))
    });
    let remote = tree.open().await;
    tree.be_good();
    (tree, remote)
}

#[tokio::test]
async fn where_a_broken_put_damages_the_file_uploads_are_moved() {
    let (tree, remote) = careless().await;
    assert!(!remote.facts().has_conditions, "a look comes before the move");
    let since = tree.fake.asked().len();
    let first = put(&remote, "a", b"first", Condition::Absent).await.unwrap().version;
    let requests: Vec<_> = tree.requests(since).iter().map(|request| request[..4].to_owned()).collect();
    assert_eq!(requests, ["PUT ", "PROP", "MOVE", "PROP"]);
    put(&remote, "a", b"second", Condition::Matches(first.clone())).await.unwrap();
    assert_eq!(
        put(&remote, "a", b"third", Condition::Matches(first)).await,
        Err(RemoteError::Changed(path("a")))
    );
    assert_eq!(put(&remote, "a", b"third", Condition::Absent).await, Err(RemoteError::Changed(path("a"))));
    remote.make_directory(&path("d")).await.unwrap();
    assert_eq!(put(&remote, "d", b"1", Condition::Always).await, Err(RemoteError::Changed(path("d"))));
    assert_eq!(tree.file("a").unwrap(), b"second");
    assert!(tree.left().is_empty());
}

#[tokio::test]
async fn a_move_that_loses_the_old_file_keeps_the_new_one() {
    for fails in [1, 9] {
        let (tree, remote) = careless().await;
        put(&remote, "a", b"old", Condition::Absent).await.unwrap();
        let failed = Arc::new(AtomicUsize::new(0));
        tree.answer({
            let (tree, failed) = (tree.clone(), failed.clone());
            move |asked| {
                (asked.method == "MOVE" && failed.fetch_add(1, Relaxed) < fails).then(|| {
                    // As some servers do it: the old file goes first.
                    let target = asked.destination.as_ref().unwrap().split_once(ROOT).unwrap().1.to_owned();
                    let delete = holdall_servers::fake::Asked {
                        method: "DELETE".into(),
                        path: format!("{ROOT}{target}"),
                        headers: String::new(),
                        ..asked.clone()
                    };
                    tree.carry_out(&delete);
                    Reply::status(500)
                })
            }
        });
        let done = put(&remote, "a", b"newer", Condition::Always).await;
        assert_eq!(done.is_ok(), fails == 1, "{done:?}");
        match fails {
            1 => assert_eq!(tree.file("a").unwrap(), b"newer"),
            _ => assert_eq!(tree.left().len(), 1, "the only copy stays"),
        }
    }
}

#[tokio::test]
async fn a_local_disk_that_fails_is_told() {
    struct Broken;
    impl ReadAt for Broken {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Err(io::Error::other("worn out"))
        }
    }
    let (tree, remote, _) = with_a().await;
    let (at, meta, notes) = (path("a"), Meta::default(), Notes::default());
    let put = Put {
        path: &at,
        content: Arc::new(Broken),
        len: 100,
        meta: &meta,
        when: Condition::Always,
        unchanged: None,
        resume: None,
        progress: &notes,
    };
    assert_eq!(remote.write(put).await, Err(RemoteError::Local("worn out".into())));
    assert_eq!(tree.file("a").unwrap(), b"0123456789");
}
