//! How many requests each call costs.

use super::counted;
use crate::{path, put};
use holdall_core::store::meter::{ByKind, Meter};
use holdall_core::store::remote::{Condition, Meta, Relocation, Remote, RemotePath};
use holdall_servers::s3::S3Server;

#[tokio::test(flavor = "multi_thread")]
async fn calls_cost_few_requests() {
    let server = S3Server::start();
    let meter = Meter::default();
    let remote = counted(&server.url("p"), &meter).await;
    let mut before = ByKind::default();
    let mut cost = || {
        let (last, now) = (before, meter.requests());
        before = now;
        now - last
    };
    let opening = cost();
    assert!(opening.total() <= 20, "{opening:?}");
    let none = ByKind::default();
    remote.make_directory(&path("d")).await.unwrap();
    assert_eq!(cost(), ByKind { put: 1, head: 1, list: 1, ..none }, "a new directory");

    let version = put(&remote, "d/a", b"1", Condition::Absent).await.unwrap().version;
    assert_eq!(cost(), ByKind { put: 1, head: 1, list: 1, ..none }, "a new file");
    let when = Condition::Matches(version);
    let version = put(&remote, "d/a", b"22", when).await.unwrap().version;
    assert_eq!(cost(), ByKind { put: 1, head: 2, list: 1, ..none }, "a new version");
    remote.read(&path("d/a"), &version, 0..2).await.unwrap();
    assert_eq!(cost(), ByKind { get: 1, ..none }, "a read");
    remote.stat(&path("d/a")).await.unwrap();
    assert_eq!(cost(), ByKind { head: 1, ..none }, "a look at a file");
    remote.list(&path("d"), None).await.unwrap();
    assert_eq!(cost(), ByKind { list: 1, ..none }, "a page");
    remote.list(&RemotePath::root(), None).await.unwrap();
    assert_eq!(cost(), ByKind { list: 1, ..none }, "a page of the root");

    let meta = Meta { mode: Some(0o600), ..Meta::default() };
    let version = remote.set_meta(&path("d/a"), &version, &meta).await.unwrap().version;
    let bits = cost();
    // A server that ignores the condition of a copy copies in parts: begin, copy, complete.
    assert!([1, 3].contains(&bits.put), "{bits:?}");
    assert_eq!(bits, ByKind { put: bits.put, head: 2, ..none }, "new bits");
    remote.set_meta(&path("d/a"), &version, &meta).await.unwrap();
    assert_eq!(cost(), ByKind { head: 1, ..none }, "the same bits");
    let moved = remote
        .relocate(&path("d/a"), &version, &path("d/b"), Condition::Absent, Relocation::Move)
        .await
        .unwrap();
    let deletes = cost();
    assert_eq!((deletes.put, deletes.delete, deletes.get), (bits.put, 1, 0), "a move");
    assert!(deletes.head + deletes.list <= 5, "{deletes:?}");
    remote.remove(&path("d/b"), Condition::Matches(moved.version)).await.unwrap();
    let removal = cost();
    assert_eq!((removal.delete, removal.put, removal.get, removal.list), (1, 0, 0, 1), "{removal:?}");
    assert!(removal.head <= 2, "{removal:?}");
}
