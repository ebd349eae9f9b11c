//! The remote of a WebDAV collection, on real servers and on ones that answer as badly as a test wants.

mod faults;
mod nextcloud;
mod tree;

use bytes::Bytes;
use holdall_core::sim::contract::{self, Other};
use holdall_core::store::credentials::Credentials;
use holdall_core::store::dav::DavClient;
use holdall_core::store::dav::http::{Answer, Limits, Request};
use holdall_core::store::meter::Meter;
use holdall_core::store::pace::Pacer;
use holdall_core::store::remote::dav::{DavRemote, OpenError, Options};
use holdall_core::store::remote::{Remote, RemotePath};
use holdall_core::store::url::{DavUrl, StoreUrl};
use holdall_servers::dav::{DavServer, SignIn};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

const DEVICE: Uuid = Uuid::from_u128(7);

fn url(text: &str) -> DavUrl {
    match StoreUrl::parse(text).unwrap() {
        StoreUrl::Dav(url) => url,
        other => panic!("{other}"),
    }
}

async fn open(text: &str) -> Result<DavRemote, OpenError> {
    open_with(text, false, &Meter::default()).await
}

async fn open_with(text: &str, read_only: bool, meter: &Meter) -> Result<DavRemote, OpenError> {
    let options = Options { device: DEVICE, read_only };
    let (limits, pacer) = (Limits::default(), Pacer::new());
    DavRemote::open(&url(text), &Credentials::None, options, limits, (&pacer, meter)).await
}

/// Programs on the server's own computer.
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
        let name = OsStr::from_bytes(b"\xff\xfe");
        std::fs::write(self.0.join(directory.as_str()).join(name), "").unwrap();
        true
    }
}

/// Another client of a server that does not see at once what changes on its disk.
struct OtherClient(DavClient);

impl OtherClient {
    async fn ask(&self, verb: &str, path: &RemotePath, body: &[u8]) -> Answer {
        let mut url = self.0.base().clone();
        url.path_segments_mut().unwrap().pop_if_empty().extend(path.names());
        let body = Bytes::copy_from_slice(body);
        let request = Request { body, ..Request::new(verb.parse().unwrap(), url) };
        self.0.send(&request).await.unwrap()
    }
}

#[async_trait::async_trait]
impl Other for OtherClient {
    async fn write(&self, path: &RemotePath, bytes: &[u8]) {
        assert!(self.ask("PUT", path, bytes).await.status.is_success());
    }

    async fn remove(&self, path: &RemotePath) {
        assert!(self.ask("DELETE", path, b"").await.status.is_success());
    }

    async fn read(&self, path: &RemotePath) -> Option<Vec<u8>> {
        let answer = self.ask("GET", path, b"").await;
        match answer.status.is_success() {
            true => Some(answer.read(0, 16 << 20).await.unwrap().to_vec()),
            false => None,
        }
    }

    async fn leave_unusable(&self, _directory: &RemotePath) -> bool {
        false
    }
}

/// Names of uploads below a directory.
fn uploads(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            found.extend(uploads(&entry.path()));
        }
        if name.starts_with(".holdall") {
            found.push(name);
        }
    }
    found
}

async fn keeps_the_contract(server: &DavServer, other: Option<&dyn Other>) {
    let remote = open(&server.url("/s/")).await.unwrap();
    let facts = remote.facts();
    assert!(facts.moves_trees && !facts.folds_case && facts.read_only.is_none(), "{facts:?}");
    let root = server.root().join("s");
    assert!(uploads(&root).is_empty(), "the probe leaves nothing");
    contract::holds(&remote, other.unwrap_or(&Programs(root.clone()))).await;
    assert_eq!(uploads(&root), [".holdall-upload-somebody-1"], "nothing of its own is left behind");
}

#[tokio::test]
async fn apache_keeps_the_contract() {
    let server = DavServer::apache(SignIn::None);
    server.make_directory("s");
    keeps_the_contract(&server, None).await;
    let remote = open(&server.url("/s/")).await.unwrap();
    assert!(remote.facts().keeps_meta && remote.facts().keeps_mtime, "{:?}", remote.facts());
    assert!(!remote.facts().has_conditions, "they are checked before the body comes");
}

#[tokio::test]
async fn nginx_keeps_the_contract() {
    let server = DavServer::nginx(SignIn::None);
    server.make_directory("s");
    keeps_the_contract(&server, None).await;
}

#[tokio::test]
async fn rclone_keeps_the_contract() {
    let server = DavServer::rclone();
    server.make_directory("s");
    let (limits, pacer) = (Limits::default(), Pacer::new());
    let client =
        DavClient::new(&url(&server.url("/s/")), &Credentials::None, limits, &pacer, &Meter::default())
            .unwrap();
    keeps_the_contract(&server, Some(&OtherClient(client))).await;
}
