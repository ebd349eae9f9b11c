//! The remote of a bucket, on a real server, and on servers that only a test has.

mod hostile;
mod objects;
mod requests;
mod uploads;

use bytes::Bytes;
use holdall_core::sim::contract::{self, Other};
use holdall_core::store::credentials::Credentials;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::pace::Pacer;
use holdall_core::store::remote::s3::{Options, S3Remote};
use holdall_core::store::remote::{Remote, RemotePath};
use holdall_core::store::s3::Limits;
use holdall_core::store::url::{S3Url, StoreUrl};
use holdall_core::store::{Store, When};
use holdall_servers::s3::{S3Server, credentials as json};
use holdall_servers::unconditional::Unconditional;
use holdall_store::connect::raw;
use std::sync::Arc;
use uuid::Uuid;

pub const OPTIONS: Options = Options { device: Uuid::from_u128(7), read_only: false };

pub fn credentials() -> Credentials {
    serde_json::from_str(&json()).unwrap()
}

pub fn parsed(url: &str) -> S3Url {
    match StoreUrl::parse(url).unwrap() {
        StoreUrl::S3(url) => url,
        other => panic!("{other}"),
    }
}

/// The remote at an address; `meter` counts its requests.
pub async fn counted(url: &str, meter: &Meter) -> S3Remote {
    let (pacer, limits) = (Pacer::new(), Limits::default());
    S3Remote::open(&parsed(url), &credentials(), OPTIONS, limits, (&pacer, meter)).await.unwrap()
}

pub async fn remote(url: &str) -> S3Remote {
    counted(url, &Meter::default()).await
}

/// Another program, which knows only keys.
pub struct Program(pub Arc<dyn Store>);

impl Program {
    pub fn at(url: &str) -> Self {
        let url = StoreUrl::parse(url).unwrap();
        Self(raw(&url, &credentials(), &DriveNames, &Pacer::new(), &Meter::default()).unwrap())
    }

    pub async fn puts(&self, key: &str, bytes: &[u8]) {
        self.0.put(key, Bytes::copy_from_slice(bytes), When::Always).await.unwrap();
    }

    /// All keys.
    pub async fn keys(&self) -> Vec<String> {
        let listed = self.0.list("").await.unwrap();
        listed.into_iter().map(|listed| listed.name).collect()
    }
}

#[async_trait::async_trait]
impl Other for Program {
    async fn write(&self, path: &RemotePath, bytes: &[u8]) {
        self.puts(path.as_str(), bytes).await;
    }

    async fn remove(&self, path: &RemotePath) {
        self.0.delete(path.as_str()).await.unwrap();
    }

    async fn read(&self, path: &RemotePath) -> Option<Vec<u8>> {
        self.0.get(path.as_str(), None).await.ok().map(|fetched| fetched.bytes.into())
    }

    async fn leave_unusable(&self, _directory: &RemotePath) -> bool {
        // The test's server keeps objects as files: it has no other names than they.
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_where_conditions_are_kept() {
    let server = S3Server::start();
    let url = server.url("some/where");
    let remote = remote(&url).await;
    assert!(remote.facts().has_conditions, "{:?}", remote.facts());
    let program = Program::at(&url);
    contract::holds(&remote, &program).await;
    let left: Vec<_> = program.keys().await.into_iter().filter(|key| key.contains("upload")).collect();
    assert_eq!(left, ["unusable/.holdall-upload-somebody-1"], "nothing of its own is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_where_conditions_are_ignored() {
    let server = S3Server::start();
    let heedless = Unconditional::start(server.address());
    let url = heedless.url("some/where");
    let remote = remote(&url).await;
    assert!(!remote.facts().has_conditions, "{:?}", remote.facts());
    contract::holds(&remote, &Program::at(&url)).await;
}
