//! The real directory: leases, exchanges, links and patterns.

use crate::rig::path;
use holdall_core::store::remote::{Kind, Meta, Time};
use holdall_core::watched::local::{LocalTree, mark};
use holdall_core::watched::tree::{Here, Incoming, Tree, TreeError};
use holdall_core::watched::{Digest, MARKER, Print, TEMPORARY_PREFIX};
use rustix::fs::{FileType, Mode};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use uuid::Uuid;

/// Larger files are read where they are.
const IN_MEMORY_MAX: u64 = 4 << 20;

struct Watched {
    dir: tempfile::TempDir,
    tree: LocalTree,
}

impl Watched {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let uuid = Uuid::from_u128(5);
        mark(dir.path(), uuid).unwrap();
        let tree = LocalTree::new(dir.path(), uuid);
        Self { dir, tree }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn print(&self, name: &str) -> Print {
        self.tree.scan().await.unwrap().entries[&path(name)].print
    }

    async fn fetch(
        &self,
        name: &str,
        bytes: &[u8],
        over: Option<Print>,
        mode: u32,
    ) -> Result<Here, TreeError> {
        let meta = Meta { mode: Some(mode), mtime: Some(Time(1_700_000_000_000_000_005)), ..Meta::default() };
        let at = path(name);
        let incoming = Incoming { path: &at, kind: Kind::File, meta: &meta, over };
        let mut download = self.tree.download(incoming).await?;
        download.write(bytes.to_vec().into()).await?;
        download.finish().await
    }

    /// Names beside those that were made, of which there must be none.
    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| name.starts_with(TEMPORARY_PREFIX)).collect()
    }
}

#[tokio::test]
async fn a_walk_follows_no_link_and_leaves_out_the_marker() {
    let watched = Watched::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    fs::create_dir_all(watched.at("d/build")).unwrap();
    fs::write(watched.at("d/file"), "f").unwrap();
    fs::write(watched.at("d/build/x"), "x").unwrap();
    fs::write(watched.at("d/.holdallignore"), "build/\n").unwrap();
    symlink(outside.path(), watched.at("link")).unwrap();
    let scan = watched.tree.scan().await.unwrap();
    let names: Vec<_> = scan.entries.keys().map(|path| path.as_str()).collect();
    assert_eq!(names, ["d", "d/.holdallignore", "d/file", "link"]);
    assert_eq!(scan.entries[&path("link")].kind, Kind::Link);
    assert!(scan.ignores.is_ignored(&path("d/build/x"), false));
    // Neither reading nor writing goes through the link.
    assert!(watched.fetch("link/new", b"n", None, 0o644).await.is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_download_replaces_the_file_that_was_meant_and_no_other() {
    let watched = Watched::new();
    fs::write(watched.at("a"), "old").unwrap();
    let print = watched.print("a").await;
    let here = watched.fetch("a", b"new", Some(print), 0o4755).await.unwrap();
    assert_eq!((fs::read(watched.at("a")).unwrap(), here.mode), (b"new".to_vec(), 0o755));
    assert_eq!(here.print, watched.print("a").await);
    // It is another file by now.
    assert_eq!(watched.fetch("a", b"late", Some(print), 0o644).await, Err(TreeError::Changed));
    assert_eq!(watched.fetch("a", b"late", None, 0o644).await, Err(TreeError::Changed));
    assert_eq!(fs::read(watched.at("a")).unwrap(), b"new");
    assert!(watched.leftovers().is_empty());
}

#[tokio::test]
async fn a_file_that_a_program_writes_to_is_neither_read_nor_replaced_nor_removed() {
    let watched = Watched::new();
    fs::write(watched.at("a"), "old").unwrap();
    let print = watched.print("a").await;
    let program = fs::OpenOptions::new().append(true).open(watched.at("a")).unwrap();
    assert_eq!(watched.tree.read(&path("a"), print).await.err(), Some(TreeError::InUse));
    assert_eq!(watched.fetch("a", b"new", Some(print), 0o644).await, Err(TreeError::InUse));
    assert_eq!(watched.tree.remove(&path("a"), print).await, Err(TreeError::InUse));
    drop(program);
    assert_eq!(watched.tree.read(&path("a"), print).await.unwrap().digest, Digest::of(b"old"));
    watched.tree.remove(&path("a"), print).await.unwrap();
    assert!(!watched.at("a").exists() && watched.leftovers().is_empty());
}

#[tokio::test]
async fn a_directory_without_its_marker_is_no_root() {
    let watched = Watched::new();
    fs::write(watched.at("a"), "a").unwrap();
    let print = watched.print("a").await;
    fs::remove_file(watched.at(MARKER)).unwrap();
    assert!(matches!(watched.tree.scan().await, Err(TreeError::NoRoot(_))));
    assert!(matches!(watched.tree.remove(&path("a"), print).await, Err(TreeError::NoRoot(_))));
    mark(watched.dir.path(), Uuid::from_u128(6)).unwrap();
    assert!(matches!(watched.tree.scan().await, Err(TreeError::NoRoot(_))));
    assert!(mark(watched.dir.path(), Uuid::from_u128(5)).is_err());
}

#[tokio::test]
async fn what_cannot_be_read_is_unseen_and_not_gone() {
    let watched = Watched::new();
    rustix::fs::mknodat(rustix::fs::CWD, watched.at("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let scan = watched.tree.scan().await.unwrap();
    assert!(scan.unseen.contains(&path("pipe")) && scan.left_out.count == 1);
    assert!(!scan.entries.contains_key(&path("pipe")));
}

#[tokio::test]
async fn a_large_file_has_the_same_digest_read_in_place() {
    let watched = Watched::new();
    let bytes: Vec<u8> = (0..IN_MEMORY_MAX as usize + 3).map(|at| (at / 7) as u8).collect();
    fs::write(watched.at("large"), &bytes).unwrap();
    let print = watched.print("large").await;
    let stable = watched.tree.read(&path("large"), print).await.unwrap();
    assert_eq!(stable.digest, Digest::of(&bytes));
    let mut some = [0; 3];
    stable.content.read_at(&mut some, IN_MEMORY_MAX).unwrap();
    assert_eq!(some, bytes[IN_MEMORY_MAX as usize..]);
    // As soon as it is another one, nothing more is read.
    fs::write(watched.at("large"), "short").unwrap();
    assert!(stable.content.read_at(&mut some, 0).is_err());
}
