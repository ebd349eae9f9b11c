//! A real directory and real servers: what programs write here and there reaches the other side, and only changed parts are sent.

use holdall_core::disk::real::Directory;
use holdall_core::folder::outbox::Keep;
use holdall_core::store::credentials::Credentials;
use holdall_core::store::dav::http::Limits as DavLimits;
use holdall_core::store::meter::Meter;
use holdall_core::store::pace::Pacer;
use holdall_core::store::remote::dav::{DavRemote, Options as DavOptions};
use holdall_core::store::remote::s3::{Options as S3Options, S3Remote};
use holdall_core::store::remote::{Condition, Meta, Progress, Put, ReadAt, Remote, RemotePath};
use holdall_core::store::s3::Limits as S3Limits;
use holdall_core::store::url::StoreUrl;
use holdall_core::watched::local::{LocalTree, mark};
use holdall_core::watched::{Environment, Watched};
use holdall_servers::dav::{DavServer, SignIn};
use holdall_servers::s3::{S3Server, credentials};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

const DEVICE: Uuid = Uuid::from_u128(7);
const DIRECTORY: Uuid = Uuid::from_u128(8);

struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.copy_from_slice(&self.0[offset as usize..][..buf.len()]);
        Ok(())
    }
}

struct Unheard;

#[async_trait::async_trait]
impl Progress for Unheard {
    async fn can_resume(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sent(&self, _: u64) {}
}

/// Another program's upload.
async fn puts(remote: &dyn Remote, at: &str, bytes: &[u8]) {
    let (path, meta) = (RemotePath::parse(at).unwrap(), Meta::default());
    let put = Put {
        path: &path,
        content: Arc::new(Bytes(bytes.to_vec())),
        len: bytes.len() as u64,
        meta: &meta,
        when: Condition::Always,
        unchanged: None,
        resume: None,
        progress: &Unheard,
    };
    remote.write(put).await.unwrap();
}

async fn gets(remote: &dyn Remote, at: &str) -> Vec<u8> {
    let path = RemotePath::parse(at).unwrap();
    let entry = remote.stat(&path).await.unwrap();
    remote.read(&path, &entry.version, 0..entry.version.len).await.unwrap().to_vec()
}

async fn watch(here: &Path, state: &Path, remote: &Arc<dyn Remote>) -> Arc<Watched> {
    let environment = Environment {
        tree: Arc::new(LocalTree::new(here, DIRECTORY)),
        remote: remote.clone(),
        disk: Arc::new(Directory::create(state).unwrap()),
        uuid: DIRECTORY,
        two_way: true,
        device_name: "laptop".into(),
    };
    Watched::open(environment).await.unwrap()
}

async fn life(remote: Arc<dyn Remote>) {
    let (here, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    mark(here.path(), DIRECTORY).unwrap();
    let at = |name: &str| here.path().join(name);
    fs::create_dir_all(at("d/ü 1")).unwrap();
    fs::write(at("d/ü 1/100% + #.txt"), "odd").unwrap();
    fs::write(at("both.txt"), "base").unwrap();
    puts(&*remote, "theirs.txt", b"theirs").await;
    let watched = watch(here.path(), state.path(), &remote).await;
    watched.settle().await.unwrap();
    assert_eq!(gets(&*remote, "d/ü 1/100% + #.txt").await, b"odd");
    assert_eq!(fs::read(at("theirs.txt")).unwrap(), b"theirs");

    fs::rename(at("d/ü 1/100% + #.txt"), at("d/moved.txt")).unwrap();
    fs::remove_file(at("theirs.txt")).unwrap();
    fs::write(at("both.txt"), "ours").unwrap();
    puts(&*remote, "both.txt", b"them").await;
    // Another start finds what the first one knew.
    let watched = watch(here.path(), state.path(), &remote).await;
    watched.settle().await.unwrap();
    assert_eq!(gets(&*remote, "d/moved.txt").await, b"odd");
    assert!(remote.stat(&RemotePath::parse("theirs.txt").unwrap()).await.is_err());
    let conflicts = watched.conflicts().await;
    let kept_as = conflicts.values().next().unwrap().kept_as.clone();
    assert_eq!(fs::read(at("both.txt")).unwrap(), b"them");
    assert_eq!(gets(&*remote, kept_as.as_str()).await, b"ours");
    watched.keep("both.txt", Keep::Mine).await.unwrap();
    watched.settle().await.unwrap();
    assert_eq!(gets(&*remote, "both.txt").await, b"ours");
    // Nothing is left to do, and nothing is sent again.
    watched.settle().await.unwrap();
    assert!(watched.status().queue.items.is_empty(), "{:?}", watched.status().queue);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_kept_in_a_bucket() {
    let server = S3Server::start();
    let StoreUrl::S3(url) = StoreUrl::parse(&server.url("watched")).unwrap() else { panic!("not S3") };
    let credentials: Credentials = serde_json::from_str(&credentials()).unwrap();
    let options = S3Options { device: DEVICE, read_only: false };
    let (pacer, meter) = (Pacer::new(), Meter::default());
    let opened = S3Remote::open(&url, &credentials, options, S3Limits::default(), (&pacer, &meter)).await;
    life(Arc::new(opened.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_kept_in_a_collection() {
    let server = DavServer::apache(SignIn::None);
    server.make_directory("s");
    let StoreUrl::Dav(url) = StoreUrl::parse(&server.url("/s/")).unwrap() else { panic!("not WebDAV") };
    let options = DavOptions { device: DEVICE, read_only: false };
    let (pacer, meter) = (Pacer::new(), Meter::default());
    let none = Credentials::None;
    let opened = DavRemote::open(&url, &none, options, DavLimits::default(), (&pacer, &meter)).await;
    life(Arc::new(opened.unwrap())).await;
}
