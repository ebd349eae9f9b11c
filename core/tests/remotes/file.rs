//! The remote of a directory.

use crate::{path, put};
use holdall_core::sim::contract::{self, Other};
use holdall_core::store::StoreError;
use holdall_core::store::file::Limits;
use holdall_core::store::pace::Pacer;
use holdall_core::store::remote::file::{FileRemote, Options, RootId};
use holdall_core::store::remote::{Condition, Kind, Meta, Relocation, Remote, RemoteError, RemotePath};
use rustix::fs::{FileType, Mode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

pub const DEVICE: Uuid = Uuid::from_u128(7);

pub fn options(root: Option<RootId>) -> Options {
    Options { device: DEVICE, root, read_only: false, limits: Limits::default(), pacer: Pacer::new() }
}

pub async fn remote() -> (TempDir, FileRemote) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let remote = FileRemote::open(&root, options(None)).await.unwrap();
    (dir, remote)
}

/// Ordinary programs.
struct Programs(PathBuf);

#[async_trait::async_trait]
impl Other for Programs {
    async fn write(&self, path: &RemotePath, bytes: &[u8]) {
        std::fs::write(self.0.join(path.as_str()), bytes).unwrap();
    }

    async fn remove(&self, path: &RemotePath) {
        std::fs::remove_file(self.0.join(path.as_str())).unwrap();
    }

    async fn read(&self, path: &RemotePath) -> Option<Vec<u8>> {
        std::fs::read(self.0.join(path.as_str())).ok()
    }

    async fn leave_unusable(&self, directory: &RemotePath) -> bool {
        std::fs::write(self.0.join(directory.as_str()).join(OsStr::from_bytes(b"\xff\xfe")), "").unwrap();
        true
    }
}

/// Everything below a directory, by path.
fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        }
        found.push(name);
    }
    found.sort();
    found
}

#[tokio::test]
async fn the_contract_holds() {
    let (dir, remote) = remote().await;
    assert!(remote.facts().has_conditions, "{:?}", remote.facts());
    contract::holds(&remote, &Programs(dir.path().join("root"))).await;
    let left: Vec<_> = tree(dir.path()).into_iter().filter(|name| name.contains("upload")).collect();
    assert_eq!(left, ["root/unusable/.holdall-upload-somebody-1"], "nothing of its own is left behind");
}

#[tokio::test]
async fn a_missing_root_is_no_place_and_comes_back() {
    let (dir, remote) = remote().await;
    put(&remote, "a", b"1", Condition::Absent).await.unwrap();
    let version = remote.stat(&path("a")).await.unwrap().version;
    let (here, away) = (dir.path().join("root"), dir.path().join("away"));
    let check = async || {
        let no_place = |error: RemoteError| {
            assert!(matches!(error, RemoteError::Store(StoreError::NoPlace { .. })), "{error:?}")
        };
        no_place(remote.list(&RemotePath::root(), None).await.map(drop).unwrap_err());
        no_place(remote.stat(&path("a")).await.map(drop).unwrap_err());
        no_place(remote.stat(&RemotePath::root()).await.map(drop).unwrap_err());
        no_place(remote.read(&path("a"), &version, 0..1).await.map(drop).unwrap_err());
        no_place(put(&remote, "b", b"2", Condition::Always).await.map(drop).unwrap_err());
        no_place(remote.make_directory(&path("d")).await.map(drop).unwrap_err());
        no_place(remote.remove(&path("a"), Condition::Always).await.unwrap_err());
        no_place(remote.quota().await.map(drop).unwrap_err());
        let again = FileRemote::open(&here, options(Some(remote.root_id().clone()))).await;
        assert!(matches!(again.map(drop), Err(StoreError::NoPlace { .. })));
    };
    std::fs::rename(&here, &away).unwrap();
    check().await;
    assert!(!here.exists());
    // The bare mount point of a disk that is not mounted.
    std::fs::create_dir(&here).unwrap();
    check().await;
    assert!(tree(&here).is_empty(), "nothing is written there");
    std::fs::remove_dir(&here).unwrap();
    std::fs::rename(&away, &here).unwrap();
    assert_eq!(&remote.read(&path("a"), &version, 0..1).await.unwrap()[..], b"1");
    let id = serde_json::to_string(remote.root_id()).unwrap();
    let again = FileRemote::open(&here, options(Some(serde_json::from_str(&id).unwrap()))).await.unwrap();
    assert_eq!(again.stat(&path("a")).await.unwrap().version, version);
    let wrong = FileRemote::open(&dir.path().join("nowhere"), options(None)).await;
    assert!(matches!(wrong.map(drop), Err(StoreError::NoPlace { .. })));
}

#[tokio::test]
async fn links_lead_nowhere_and_special_files_are_only_counted() {
    let (dir, remote) = remote().await;
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "before").unwrap();
    symlink(&outside, root.join("out")).unwrap();
    symlink(outside.join("secret"), root.join("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .unwrap();
    let page = remote.list(&RemotePath::root(), None).await.unwrap();
    let mut found: Vec<_> = page.entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    found.sort_by_key(|(name, _)| *name);
    assert_eq!(found, [("link", Kind::Link), ("out", Kind::Link)]);
    assert_eq!((page.unusable.count, page.unusable.examples), (1, vec!["pipe".to_owned()]));

    let version = remote.stat(&path("link")).await.unwrap().version;
    assert!(remote.read(&path("link"), &version, 0..6).await.is_err());
    assert!(remote.stat(&path("pipe")).await.is_err());
    assert!(remote.read(&path("pipe"), &version, 0..1).await.is_err(), "it does not wait for a writer");
    for at in ["out/secret", "out/new"] {
        assert!(remote.stat(&path(at)).await.is_err(), "{at}");
        assert!(put(&remote, at, b"x", Condition::Always).await.is_err(), "{at}");
        assert!(remote.remove(&path(at), Condition::Always).await.is_err(), "{at}");
        assert!(remote.make_directory(&path(at)).await.is_err(), "{at}");
    }
    let meta = Meta { mode: Some(0o777), ..Meta::default() };
    remote.set_meta(&path("link"), &version, &meta).await.unwrap();
    // The link itself is replaced, not what it points to.
    put(&remote, "link", b"mine", Condition::Matches(version)).await.unwrap();
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "before");
    assert_eq!(std::fs::metadata(outside.join("secret")).unwrap().mode() & 0o777 & !0o022, 0o644);
    assert_eq!(tree(&outside), ["secret"]);
}

#[tokio::test]
async fn a_chmod_is_no_new_version_and_a_write_in_place_is() {
    let (dir, remote) = remote().await;
    let at = dir.path().join("root/a");
    let version = put(&remote, "a", b"1234", Condition::Absent).await.unwrap().version;
    std::fs::set_permissions(&at, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::hard_link(&at, dir.path().join("root/b")).unwrap();
    let entry = remote.stat(&path("a")).await.unwrap();
    assert_eq!(entry.version, version);
    assert_eq!(entry.meta.unwrap().mode, Some(0o600));
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(&at, b"4321").unwrap();
    assert_ne!(remote.stat(&path("a")).await.unwrap().version, version);
    // The same bytes, length and time in another file.
    let (old, new) = (std::fs::metadata(&at).unwrap(), dir.path().join("root/new"));
    let version = remote.stat(&path("a")).await.unwrap().version;
    std::fs::write(&new, b"9999").unwrap();
    std::fs::File::options().write(true).open(&new).unwrap().set_modified(old.modified().unwrap()).unwrap();
    std::fs::rename(&new, &at).unwrap();
    assert_ne!(remote.stat(&path("a")).await.unwrap().version, version);
}

#[tokio::test]
async fn moves_between_hard_links_leave_one_name() {
    let (dir, remote) = remote().await;
    let root = dir.path().join("root");
    for to in ["b", "d/b"] {
        std::fs::create_dir_all(root.join("d")).unwrap();
        std::fs::write(root.join("a"), "1").unwrap();
        std::fs::hard_link(root.join("a"), root.join(to)).unwrap();
        let version = remote.stat(&path("a")).await.unwrap().version;
        let when = Condition::Matches(version.clone());
        remote.relocate(&path("a"), &version, &path(to), when, Relocation::Move).await.unwrap();
        assert!(!root.join("a").exists(), "{to}");
        assert_eq!(std::fs::read_to_string(root.join(to)).unwrap(), "1");
    }
}

#[tokio::test]
async fn a_replaced_file_keeps_its_bits_and_attributes() {
    let (dir, remote) = remote().await;
    let at = dir.path().join("root/a");
    std::fs::write(&at, "theirs").unwrap();
    std::fs::set_permissions(&at, PermissionsExt::from_mode(0o604)).unwrap();
    rustix::fs::setxattr(&at, "user.theirs", b"kept", rustix::fs::XattrFlags::empty()).unwrap();
    let version = remote.stat(&path("a")).await.unwrap().version;
    let entry = put(&remote, "a", b"ours", Condition::Matches(version)).await.unwrap();
    let meta = entry.meta.unwrap();
    assert_eq!(meta.mode, Some(0o604));
    assert_eq!(meta.xattrs["user.theirs"], b"kept");
    assert_eq!(std::fs::metadata(&at).unwrap().mode() & 0o7777, 0o604);
}

#[tokio::test]
async fn a_read_only_remote_changes_nothing() {
    let (dir, writer) = remote().await;
    let root = dir.path().join("root");
    put(&writer, "a", b"1", Condition::Absent).await.unwrap();
    let left = format!(".holdall-upload-{}-1", DEVICE.simple());
    std::fs::write(root.join(&left), "").unwrap();
    let before = std::fs::metadata(&root).unwrap();
    let remote = FileRemote::open(&root, Options { read_only: true, ..options(None) }).await.unwrap();
    assert!(remote.facts().read_only.is_some() && !remote.facts().has_conditions);
    let page = remote.list(&RemotePath::root(), None).await.unwrap();
    assert_eq!(page.entries.len(), 1);
    assert!(!page.entries[0].is_writable);
    let version = page.entries[0].version.clone();
    let denied = |error: RemoteError| {
        assert!(matches!(error, RemoteError::Store(StoreError::Denied { .. })), "{error:?}")
    };
    denied(put(&remote, "b", b"2", Condition::Absent).await.map(drop).unwrap_err());
    denied(remote.remove(&path("a"), Condition::Always).await.unwrap_err());
    denied(remote.make_directory(&path("d")).await.map(drop).unwrap_err());
    denied(remote.set_meta(&path("a"), &version, &Meta::default()).await.map(drop).unwrap_err());
    let moved = remote.relocate(&path("a"), &version, &path("b"), Condition::Absent, Relocation::Move).await;
    denied(moved.map(drop).unwrap_err());
    let after = std::fs::metadata(&root).unwrap();
    assert_eq!((before.mtime(), before.mtime_nsec()), (after.mtime(), after.mtime_nsec()));
    assert_eq!(tree(&root), [left, "a".to_owned()]);
}
