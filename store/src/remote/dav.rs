//! The remote of a WebDAV collection: its ordinary files, which other programs use too.
//!
//! Servers have little in common, so each is tried out once at opening (`probe`), and is judged by what it did and never by its name. The
//! rules, each argued in the file that keeps it:
//!
//! * Only a complete multistatus is a listing, and it names nothing but children (`multistatus`, `href`, `listing`).
//! * A read is one answer, so it never mixes two versions; its head, or a look at the file, says which version it is (`read`, `version`).
//! * A file is put straight to its name where a broken PUT keeps the old one, else beside it and moved (`write`, `place`). Large files go
//!   in chunks where the server takes them (`chunked`). Afterwards a look shows what the server has.
//! * A condition is sent where the server heeds it. Where it holds in no race, [`Facts::has_conditions`] says so.
//! * DELETE and MOVE act on whole trees, so each is preceded by a look (`remove`, `relocate`).
//! * What files have beside their bytes is in properties of Holdall's own, where the server keeps them (`meta`, `patch`).

mod chunked;
mod explain;
mod href;
mod listing;
mod look;
mod meta;
mod multistatus;
mod patch;
mod place;
mod probe;
mod read;
mod relocate;
mod remove;
mod temporary;
mod version;
mod write;

use super::{
    Condition, Entry, Facts, Meta, Page, PageToken, Put, Quota, Relocation, Remote, RemoteError, RemotePath,
    Version,
};
use crate::StoreError;
use crate::credentials::Credentials;
use crate::dav::http::{Limits, Request};
use crate::dav::{DavClient, names};
use crate::meter::Meter;
use crate::pace::Pacer;
use crate::url::DavUrl;
use async_trait::async_trait;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderName;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use temporary::Temporaries;
use url::Url;
use uuid::Uuid;

const DEPTH: HeaderName = HeaderName::from_static("depth");
const DESTINATION: HeaderName = HeaderName::from_static("destination");
const OVERWRITE: HeaderName = HeaderName::from_static("overwrite");

/// How a collection is opened as a remote.
#[derive(Clone, Debug)]
pub struct Options {
    /// This device. Its uploads under way carry its name.
    pub device: Uuid,
    /// Change nothing, not even to find out what the server does.
    pub read_only: bool,
}

/// Why a collection cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The server takes another kind of credentials, or its certificates cannot be read.
    #[error("{reason}")]
    Setup {
        /// The cause.
        reason: String,
    },
    /// There is no answer, or no access, or no collection.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// The ordinary files of a WebDAV collection.
pub struct DavRemote {
    client: DavClient,
    facts: Facts,
    habits: Habits,
    temporaries: Temporaries,
    /// The server wants the path alone as the destination of a MOVE.
    wants_paths: AtomicBool,
}

/// What a server was found to do, beyond [`Facts`]. The default promises nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Habits {
    /// `If-None-Match: *` is heeded, though perhaps not in a race.
    heeds_absent: bool,
    /// `If-Match` is heeded, though perhaps not in a race.
    heeds_matches: bool,
    /// `Overwrite: F` is heeded.
    heeds_overwrite: bool,
    /// A PUT that breaks off keeps the old file, and makes no new one.
    puts_whole: bool,
    /// Two versions of one length, one right after the other, have different versions.
    tells_versions: bool,
    /// The ETag in the answer to a PUT is the one that listings show.
    tells_put_tags: bool,
    /// `X-OC-Mtime` is obeyed.
    obeys_mtime: bool,
    /// Properties are kept, at files and at collections.
    keeps_properties: bool,
    /// A change of properties is no new version.
    patches_quietly: bool,
    /// A MOVE did what it said.
    moves: bool,
    /// DELETE of a collection heeds `If-Match`, whose ETag changes with its members.
    guards_collections: bool,
    /// Where uploads in chunks are made.
    chunks: Option<Url>,
}

impl DavRemote {
    /// Opens the collection at `url`, and finds out what its server does. The pacer paces transfers, and the meter counts requests.
    /// [`StoreError::NoPlace`] if it is not there.
    pub async fn open(
        url: &DavUrl,
        credentials: &Credentials,
        options: Options,
        limits: Limits,
        (pacer, meter): (&Pacer, &Meter),
    ) -> Result<Self, OpenError> {
        let client = DavClient::new(url, credentials, limits, pacer, meter)
            .map_err(|error| OpenError::Setup { reason: error.to_string() })?;
        let mut remote = Self {
            client,
            facts: probe::untried(),
            habits: Habits::default(),
            temporaries: Temporaries::new(options.device),
            wants_paths: AtomicBool::new(false),
        };
        remote.probe(options.read_only).await.map_err(RemoteError::from)?;
        Ok(remote)
    }

    /// The address of a file.
    fn url(&self, path: &RemotePath) -> Url {
        match path.is_root() {
            true => self.client.base().clone(),
            false => names::object(self.client.base(), path.as_str()),
        }
    }

    /// The address of a directory.
    fn directory_url(&self, path: &RemotePath) -> Url {
        names::collection(self.client.base(), path.as_str())
    }

    /// The place of a change, which is neither the root nor hidden.
    fn expect_place(&self, path: &RemotePath) -> Result<(), RemoteError> {
        self.expect_writable()?;
        if path.is_root() {
            return Err(RemoteError::Forbidden { path: path.clone(), reason: "it is the root".into() });
        }
        if path.is_hidden() {
            let reason = "names that begin so are those of uploads under way".to_owned();
            return Err(RemoteError::BadName { path: path.clone(), reason });
        }
        Ok(())
    }

    fn expect_writable(&self) -> Result<(), StoreError> {
        match &self.facts.read_only {
            None => Ok(()),
            Some(reason) => Err(StoreError::Denied { reason: format!("{}: {reason}", self.client.base()) }),
        }
    }

    /// An error that may go away by itself.
    fn unreachable(&self, reason: &str) -> RemoteError {
        StoreError::Unreachable { reason: format!("{} {reason}", self.client.host()) }.into()
    }
}

/// A request of one of WebDAV's own methods.
fn request(method: &str, url: Url) -> Request {
    let method = Method::from_bytes(method.as_bytes()).expect("WebDAV's methods are tokens");
    Request::new(method, url)
}

#[async_trait]
impl Remote for DavRemote {
    async fn list(&self, directory: &RemotePath, page: Option<&PageToken>) -> Result<Page, RemoteError> {
        match page {
            None => self.list_all(directory).await,
            Some(_) => Err(self.unreachable("has never begun this page: the listing begins again")),
        }
    }

    async fn stat(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        match self.look(path).await?.found {
            Some(found) => Ok(found.entry),
            None => Err(self.missing(path).await),
        }
    }

    async fn read(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        self.read_version(path, version, range).await
    }

    async fn write(&self, put: Put<'_>) -> Result<Entry, RemoteError> {
        self.write_now(put).await
    }

    async fn set_meta(
        &self,
        path: &RemotePath,
        version: &Version,
        meta: &Meta,
    ) -> Result<Entry, RemoteError> {
        self.expect_writable()?;
        self.set_meta_now(path, version, meta).await
    }

    async fn relocate(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: Condition,
        how: Relocation,
    ) -> Result<Entry, RemoteError> {
        self.expect_place(from)?;
        self.expect_place(to)?;
        self.relocate_now(from, version, to, &when, how).await
    }

    async fn remove(&self, path: &RemotePath, when: Condition) -> Result<(), RemoteError> {
        self.expect_place(path)?;
        self.remove_now(path, &when).await
    }

    async fn make_directory(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        self.expect_place(path)?;
        self.make_directory_now(path).await
    }

    async fn remove_directory(&self, path: &RemotePath) -> Result<(), RemoteError> {
        self.expect_place(path)?;
        self.remove_directory_now(path).await
    }

    async fn abandon(&self, _path: &RemotePath, resume: &[u8]) -> Result<(), RemoteError> {
        self.abandon_chunks(resume).await
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn quota(&self) -> Result<Option<Quota>, RemoteError> {
        self.quota_now().await
    }
}
