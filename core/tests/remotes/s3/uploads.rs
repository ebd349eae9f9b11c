//! Long files: uploads in parts that continue, and parts that the server copies.

use super::{Program, remote};
use crate::{Content, Notes, path, put, resume};
use bytes::Bytes;
use holdall_core::sim::contract::Other;
use holdall_core::store::StoreError;
use holdall_core::store::remote::{
    Condition, Meta, Put, Relocation, Remote, RemoteError, RemotePath, Time, Version,
};
use holdall_servers::faults::{Asked, Fault, FaultProxy, none};
use holdall_servers::s3::{S3Server, url};
use std::ops::Range;
use std::sync::Arc;

const MIB: usize = 1 << 20;
/// Four parts of 8 MiB, and a shorter one.
const LEN: usize = 34 * MIB;

fn content(seed: u32) -> Vec<u8> {
    (0..LEN as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ (at >> 20) as u8 ^ seed as u8)
        .collect()
}

/// Requests that have this in their target.
fn count(proxy: &FaultProxy, word: &str) -> usize {
    proxy.log().iter().filter(|entry| entry.asked.target.contains(word)).count()
}

fn uploads_left(server: &S3Server) -> bool {
    let answer = server.ask("GET", "?uploads=", &[], b"");
    assert!(answer.contains("ListMultipartUploadsResult"), "{answer}");
    answer.contains("<UploadId>")
}

/// The third part fails.
fn third_part_fails(asked: &Asked) -> Option<Fault> {
    asked.target.contains("partNumber=3").then_some(Fault::BUSY)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_continues_where_it_was_cut_off() {
    let server = S3Server::start();
    let proxy = FaultProxy::start(server.address());
    let at = url("http", proxy.address(), "p");
    let (remote, program, body) = (remote(&at).await, Program::at(&server.url("p")), content(1));
    proxy.plan(Box::new(third_part_fails));
    let notes = Notes::default();
    let cut = resume(&remote, "a", &body, Condition::Absent, None, &notes).await;
    assert!(matches!(cut, Err(RemoteError::Store(StoreError::Busy { .. }))), "{cut:?}");
    assert!(program.keys().await.is_empty(), "an upload that is not complete is no file");
    assert!(remote.list(&RemotePath::root(), None).await.unwrap().entries.is_empty());
    assert!(uploads_left(&server));

    proxy.plan(none());
    let last = notes.0.lock().last().cloned().unwrap();
    let entry = resume(&remote, "a", &body, Condition::Absent, Some(&last), &notes).await.unwrap();
    assert_eq!(entry.version.len, LEN as u64);
    let sent = count(&proxy, "partNumber=");
    assert!((1..5).contains(&sent), "only the rest is sent: {sent}");
    assert!(program.read(&path("a")).await.unwrap() == body);
    assert_eq!(remote.stat(&path("a")).await.unwrap().version, entry.version);
    assert!(!uploads_left(&server));

    // Bytes that have changed since are sent again, whatever the note says.
    proxy.plan(Box::new(third_part_fails));
    let notes = Notes::default();
    assert!(resume(&remote, "b", &body, Condition::Absent, None, &notes).await.is_err());
    proxy.plan(none());
    let last = notes.0.lock().last().cloned().unwrap();
    let other = content(2);
    resume(&remote, "b", &other, Condition::Absent, Some(&last), &notes).await.unwrap();
    assert!(program.read(&path("b")).await.unwrap() == other);

    // An upload that the server has forgotten begins again.
    resume(&remote, "c", &body, Condition::Absent, Some(&last), &notes).await.unwrap();
    assert!(program.read(&path("c")).await.unwrap() == body);
    assert!(!uploads_left(&server));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_an_upload_that_does_not_continue() {
    let server = S3Server::start();
    let proxy = FaultProxy::start(server.address());
    let (remote, body) = (remote(&url("http", proxy.address(), "p")).await, content(1));
    proxy.plan(Box::new(third_part_fails));
    let notes = Notes::default();
    assert!(resume(&remote, "a", &body, Condition::Absent, None, &notes).await.is_err());
    assert!(uploads_left(&server));
    let last = notes.0.lock().last().cloned().unwrap();
    for _ in 0..2 {
        remote.abandon(&path("a"), &last).await.unwrap();
        assert!(!uploads_left(&server));
    }
    remote.abandon(&path("a"), b"another version's note").await.unwrap();

    // Somebody was faster.
    proxy.plan(none());
    let program = Program::at(&server.url("p"));
    let version = put(&remote, "b", b"1", Condition::Absent).await.unwrap().version;
    let faster = async {
        while count(&proxy, "partNumber=1") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        program.puts("b", b"theirs").await;
    };
    let (late, ()) = tokio::join!(put(&remote, "b", &body, Condition::Matches(version)), faster);
    assert_eq!(late.unwrap_err(), RemoteError::Changed(path("b")));
    assert_eq!(program.read(&path("b")).await.unwrap(), b"theirs");
    assert!(!uploads_left(&server));
}

/// An upload of which these bytes are those of a version.
async fn edit(
    remote: &dyn Remote,
    body: &[u8],
    base: &Version,
    same: &[Range<u64>],
) -> Result<Version, RemoteError> {
    let content = Arc::new(Content(Bytes::copy_from_slice(body)));
    let (path, meta, notes) = (path("a"), Meta::default(), Notes::default());
    let put = Put {
        path: &path,
        content,
        len: body.len() as u64,
        meta: &meta,
        when: Condition::Matches(base.clone()),
        unchanged: Some((base, same)),
        resume: None,
        progress: &notes,
    };
    Ok(remote.write(put).await?.version)
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_parts_are_copied_at_the_server() {
    let server = S3Server::start();
    let proxy = FaultProxy::start(server.address());
    let remote = remote(&url("http", proxy.address(), "p")).await;
    let (program, mut body) = (Program::at(&server.url("p")), content(1));
    let base = put(&remote, "a", &body, Condition::Absent).await.unwrap().version;
    body[9 * MIB] ^= 1;
    let same = [0..9 * MIB as u64, 9 * MIB as u64 + 1..LEN as u64];
    proxy.plan(none());
    let version = edit(&remote, &body, &base, &same).await.unwrap();
    assert!(program.read(&path("a")).await.unwrap() == body);
    let sent: usize = proxy.log().iter().map(|entry| entry.body_bytes as usize).sum();
    // The part that has changed, and the last, which is too short to be copied.
    assert!(sent < 11 * MIB, "{sent}");
    assert_eq!(remote.stat(&path("a")).await.unwrap().version, version);

    // A version that is gone is not copied.
    let stale = edit(&remote, &body, &base, &same).await;
    assert_eq!(stale.unwrap_err(), RemoteError::Changed(path("a")));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_files_keep_their_metadata_over_changes_and_moves() {
    let server = S3Server::start();
    let url = server.url("p");
    let (remote, program, body) = (remote(&url).await, Program::at(&url), content(3));
    let version = put(&remote, "a", &body, Condition::Absent).await.unwrap().version;
    let meta = Meta { mode: Some(0o640), mtime: Some(Time(1_700_000_000_000_000_001)), ..Meta::default() };
    let version = remote.set_meta(&path("a"), &version, &meta).await.unwrap().version;
    assert_eq!(remote.stat(&path("a")).await.unwrap().version, version);
    let moved =
        remote.relocate(&path("a"), &version, &path("b"), Condition::Absent, Relocation::Move).await.unwrap();
    let entry = remote.stat(&path("b")).await.unwrap();
    assert_eq!((entry.version, entry.meta.unwrap()), (moved.version, meta));
    assert!(program.read(&path("b")).await.unwrap() == body);
    assert_eq!(program.keys().await, ["b"]);
}
