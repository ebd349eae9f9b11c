//! The remote of a folder, as the daemon reaches it: connected when it is first needed, and again with other credentials.
//!
//! A folder that this device knows opens without its remote: what the remote was found to do is kept in the folder's directory
//! (`remote.json`), and each request tries to connect until one succeeds. What the remote is found to do then counts from the next opening
//! on; until then the folder plans with what was known, and the remote itself checks each request by what is true now.

use crate::api::words::unsentenced;
use crate::api::{Action, Code};
use crate::daemon::registry::replace;
use crate::daemon::stores::Stores;
use crate::daemon::stores::renewable::Hindrance;
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::store::StoreError;
use holdall_core::store::meter::{Kind, Meter};
use holdall_core::store::remote::connect::{ConnectError, Connected, Options, connect_remote};
use holdall_core::store::remote::file::RootId;
use holdall_core::store::remote::{
    Condition, Entry, Facts, Meta, Page, PageToken, Put, Quota, Relocation, Remote, RemoteError, RemotePath,
    Version,
};
use holdall_core::store::url::StoreUrl;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// A failed connection answers requests for this long, so that a thousand look-ups do not each wait for a dead server.
const FAILS_FOR: Duration = Duration::from_secs(2);
/// How long the connection is tried again after a failure while nobody asks for it, and at most how long.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);
const NAME: &str = "remote.json";

/// Where a remote is, and how it is connected.
#[derive(Clone)]
pub struct Place {
    /// Its address.
    pub url: StoreUrl,
    /// The credentials and the limits.
    pub stores: Arc<Stores>,
    /// This device.
    pub device: Uuid,
    /// Nothing is changed there.
    pub read_only: bool,
    /// Counts its requests.
    pub meter: Meter,
}

/// What is kept of a remote for an opening without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it was found to do.
    pub facts: Facts,
    /// The identity of its directory, if it is one.
    pub root: Option<RootId>,
}

/// The same in the file.
#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    has_conditions: bool,
    folds_case: bool,
    folds_forms: bool,
    moves_trees: bool,
    keeps_meta: bool,
    keeps_mtime: bool,
    root_tag_tells: bool,
    /// What was saved without it is looked at twice until the remote was connected.
    #[serde(default)]
    replaces_at_once: bool,
    len_max: Option<u64>,
    read_only: Option<String>,
    root: Option<RootId>,
}

impl Known {
    /// What the folder's directory has. `None` if it was never connected, or the file cannot be used: then it has to be connected first.
    pub fn load(directory: &Path) -> Option<Self> {
        let bytes = match std::fs::read(directory.join(NAME)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, "what a folder's remote does is not known");
                return None;
            }
            Ok(bytes) => bytes,
        };
        let saved = serde_json::from_slice::<Saved>(&bytes);
        let saved = saved.inspect_err(|error| tracing::warn!(%error, "remote.json of a folder is damaged"));
        let Saved { version, root, .. } = saved.as_ref().ok()?;
        let (is_known, root) = (*version == 1, root.clone());
        saved.ok().filter(|_| is_known).map(|saved| Self { facts: saved.facts(), root })
    }

    /// Keeps it.
    pub fn save(&self, directory: &Path) -> io::Result<()> {
        let Facts {
            has_conditions,
            folds_case,
            folds_forms,
            moves_trees,
            keeps_meta,
            keeps_mtime,
            root_tag_tells,
            replaces_at_once,
            len_max,
            read_only,
        } = self.facts.clone();
        let saved = Saved {
            version: 1,
            has_conditions,
            folds_case,
            folds_forms,
            moves_trees,
            keeps_meta,
            keeps_mtime,
            root_tag_tells,
            replaces_at_once,
            len_max,
            read_only,
            root: self.root.clone(),
        };
        replace(&directory.join(NAME), &serde_json::to_vec_pretty(&saved)?)
    }
}

impl Saved {
    fn facts(self) -> Facts {
        Facts {
            has_conditions: self.has_conditions,
            folds_case: self.folds_case,
            folds_forms: self.folds_forms,
            moves_trees: self.moves_trees,
            keeps_meta: self.keeps_meta,
            keeps_mtime: self.keeps_mtime,
            root_tag_tells: self.root_tag_tells,
            replaces_at_once: self.replaces_at_once,
            len_max: self.len_max,
            read_only: self.read_only,
        }
    }
}

/// Connects the remote, and finds out what it does.
pub async fn connect(place: &Place, root: Option<RootId>) -> Result<Connected, ReachError> {
    let credentials = place.stores.credentials(&place.url).await.map_err(ReachError::Login)?;
    let options = Options { device: place.device, root, read_only: place.read_only };
    let pacer = place.stores.limits().pacer();
    Ok(connect_remote(&place.url, &credentials, options, pacer, &place.meter).await?)
}

/// Why a remote could not be connected.
#[derive(Clone, Debug)]
pub enum ReachError {
    /// There are no credentials for it, or they are not given.
    Login(crate::api::Failure),
    /// The remote, or what is there.
    Remote(ConnectError),
}

impl From<ConnectError> for ReachError {
    fn from(error: ConnectError) -> Self {
        Self::Remote(error)
    }
}

impl ReachError {
    /// As the answer to a request.
    fn answer(&self) -> RemoteError {
        match self {
            ReachError::Login(failure) => {
                let reason = unsentenced(&failure.message);
                RemoteError::Store(match failure.code {
                    Code::Credentials => StoreError::Denied { reason },
                    _ => StoreError::Unreachable { reason },
                })
            }
            ReachError::Remote(ConnectError::Remote(error)) => error.clone(),
            ReachError::Remote(error @ (ConnectError::Setup { .. } | ConnectError::IsStore { .. })) => {
                RemoteError::Store(StoreError::Unfit { reason: error.to_string() })
            }
        }
    }

    /// What a person has to do about it, if waiting does not help.
    fn hindrance(&self) -> Option<Hindrance> {
        match self {
            ReachError::Login(failure) if failure.actions.contains(&Action::UnlockKeyring) => {
                let what = unsentenced(&failure.message);
                Some(Hindrance::Keyring { what, actions: failure.actions.to_vec() })
            }
            ReachError::Login(failure) if failure.code == Code::Credentials => {
                Some(Hindrance::Credentials(unsentenced(&failure.message)))
            }
            ReachError::Login(_) => None,
            ReachError::Remote(ConnectError::Remote(error)) => hindrance(error),
            ReachError::Remote(error @ (ConnectError::Setup { .. } | ConnectError::IsStore { .. })) => {
                Some(Hindrance::Store(error.to_string()))
            }
        }
    }
}

/// What an error of a request says about the remote as a whole, if waiting does not help.
fn hindrance(error: &RemoteError) -> Option<Hindrance> {
    let RemoteError::Store(error) = error else { return None };
    match error {
        StoreError::UnknownCredentials { reason } => {
            Some(Hindrance::Credentials(format!("the server refuses the credentials: {reason}")))
        }
        StoreError::Denied { reason } => {
            Some(Hindrance::Credentials(format!("the server refuses access: {reason}")))
        }
        StoreError::Full { reason } => {
            Some(Hindrance::Store(format!("the server has no space left: {reason}")))
        }
        StoreError::NoPlace { place } => Some(Hindrance::Store(format!("there is no {place}"))),
        StoreError::Elsewhere { reason } | StoreError::Unfit { reason } => {
            Some(Hindrance::Store(reason.clone()))
        }
        StoreError::NotFound { .. }
        | StoreError::Precondition { .. }
        | StoreError::Unreachable { .. }
        | StoreError::Busy { .. }
        | StoreError::Damaged { .. } => None,
    }
}

/// How the remote has answered last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// It has answered.
    Answers,
    /// It gave no useful answer, and may do so again by itself.
    Silent(String),
    /// A person has to do something about it.
    Hindered(Hindrance),
}

impl Link {
    /// After an answer of the remote.
    fn after(before: &Link, error: Option<&RemoteError>) -> Link {
        match error {
            None => Link::Answers,
            Some(error) => match (hindrance(error), error) {
                (Some(hindrance), _) => Link::Hindered(hindrance),
                // It says nothing about what was wrong before.
                (None, RemoteError::Store(StoreError::Unreachable { .. } | StoreError::Busy { .. })) => {
                    match before {
                        Link::Hindered(_) => before.clone(),
                        _ => Link::Silent(error.to_string()),
                    }
                }
                // The disk of this computer says nothing about the remote.
                (None, RemoteError::Local(_)) => before.clone(),
                (None, _) => Link::Answers,
            },
        }
    }
}

/// A remote that is connected when it is needed.
pub struct Reached {
    place: Place,
    /// What it was known to do when the folder was opened.
    facts: Facts,
    // Held to compare and replace it.
    root: Mutex<Option<RootId>>,
    // Held to take or replace it.
    inner: RwLock<Option<Arc<dyn Remote>>>,
    /// The last failed connection. Held while one is tried, so that only one is.
    failed: tokio::sync::Mutex<Option<(Instant, RemoteError)>>,
    // Held to read or set it.
    link: Mutex<Link>,
    uploads: AtomicU64,
    /// Where new knowledge is kept.
    directory: std::path::PathBuf,
}

impl Reached {
    /// A remote that has just been connected.
    pub fn connected(place: Place, connected: Connected, directory: &Path) -> Arc<Self> {
        let Connected { remote, root } = connected;
        let reached = Self::of(place, remote.facts().clone(), root, directory);
        *reached.inner.write() = Some(remote);
        *reached.link.lock() = Link::Answers;
        Arc::new(reached)
    }

    /// A remote that was connected before. Contacts nothing yet.
    pub fn later(place: Place, known: Known, directory: &Path) -> Arc<Self> {
        Arc::new(Self::of(place, known.facts, known.root, directory))
    }

    fn of(place: Place, facts: Facts, root: Option<RootId>, directory: &Path) -> Self {
        Self {
            place,
            facts,
            root: Mutex::new(root),
            inner: RwLock::new(None),
            failed: tokio::sync::Mutex::new(None),
            link: Mutex::default(),
            uploads: AtomicU64::new(0),
            directory: directory.to_owned(),
        }
    }

    /// How it has answered last.
    pub fn link(&self) -> Link {
        self.link.lock().clone()
    }

    /// Files that were uploaded since the folder was opened.
    pub fn uploads(&self) -> u64 {
        self.uploads.load(Relaxed)
    }

    /// Connects anew at the next request: the credentials, or the way to the server, have changed.
    pub fn renew(&self) {
        *self.inner.write() = None;
        *self.link.lock() = Link::Unknown;
        self.try_now();
    }

    /// Forgets a failed connection: somebody waits for the next one.
    pub fn try_now(&self) {
        if let Ok(mut failed) = self.failed.try_lock() {
            *failed = None;
        }
    }

    /// Tries to connect until it is connected.
    pub async fn connect_in_background(self: Arc<Self>) {
        let mut pause = AGAIN_AFTER;
        while self.remote().await.is_err() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_AFTER_MAX);
        }
    }

    async fn remote(&self) -> Result<Arc<dyn Remote>, RemoteError> {
        if let Some(remote) = self.inner.read().clone() {
            return Ok(remote);
        }
        let mut failed = self.failed.lock().await;
        if let Some(remote) = self.inner.read().clone() {
            return Ok(remote);
        }
        if let Some((at, error)) = &*failed
            && at.elapsed() < FAILS_FOR
        {
            return Err(error.clone());
        }
        let root = self.root.lock().clone();
        match Box::pin(connect(&self.place, root)).await {
            Ok(connected) => {
                self.learn(&connected);
                *self.inner.write() = Some(connected.remote.clone());
                *self.link.lock() = Link::Answers;
                *failed = None;
                Ok(connected.remote)
            }
            Err(error) => {
                let answer = error.answer();
                let link = match error.hindrance() {
                    Some(hindrance) => Link::Hindered(hindrance),
                    None => Link::Silent(answer.to_string()),
                };
                *self.link.lock() = link;
                *failed = Some((Instant::now(), answer.clone()));
                Err(answer)
            }
        }
    }

    /// Keeps what the remote is found to do.
    fn learn(&self, connected: &Connected) {
        let facts = connected.remote.facts();
        if *facts != self.facts {
            tracing::info!(url = %self.place.url, ?facts, "the remote does other things than before: this counts from the next opening on");
        }
        let is_known = *facts == self.facts && *self.root.lock() == connected.root;
        *self.root.lock() = connected.root.clone();
        if is_known {
            return;
        }
        let known = Known { facts: facts.clone(), root: connected.root.clone() };
        if let Err(error) = known.save(&self.directory) {
            tracing::warn!(%error, "what a folder's remote does cannot be kept");
        }
    }

    fn noted<T>(&self, answer: Result<T, RemoteError>) -> Result<T, RemoteError> {
        let mut link = self.link.lock();
        let next = Link::after(&link, answer.as_ref().err());
        if *link != next {
            *link = next;
        }
        answer
    }

    /// Counts a request to a directory; other remotes count what they send.
    fn count(&self, kind: Kind, sent: u64, received: u64) {
        if !matches!(self.place.url, StoreUrl::File(_)) {
            return;
        }
        drop(self.place.meter.sending(kind));
        self.place.meter.sent(kind, sent as usize);
        self.place.meter.received(kind, received as usize);
    }
}

#[async_trait]
impl Remote for Reached {
    async fn list(&self, directory: &RemotePath, page: Option<&PageToken>) -> Result<Page, RemoteError> {
        let remote = self.remote().await?;
        self.count(Kind::List, 0, 0);
        self.noted(remote.list(directory, page).await)
    }

    async fn stat(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        let remote = self.remote().await?;
        self.count(Kind::Head, 0, 0);
        self.noted(remote.stat(path).await)
    }

    async fn read(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        let remote = self.remote().await?;
        let bytes = self.noted(remote.read(path, version, range).await);
        self.count(Kind::Get, 0, bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
        bytes
    }

    async fn write(&self, put: Put<'_>) -> Result<Entry, RemoteError> {
        let remote = self.remote().await?;
        let len = put.len;
        let written = self.noted(remote.write(put).await);
        self.count(Kind::Put, if written.is_ok() { len } else { 0 }, 0);
        if written.is_ok() {
            self.uploads.fetch_add(1, Relaxed);
        }
        written
    }

    async fn set_meta(
        &self,
        path: &RemotePath,
        version: &Version,
        meta: &Meta,
    ) -> Result<Entry, RemoteError> {
        let remote = self.remote().await?;
        self.count(Kind::Put, 0, 0);
        self.noted(remote.set_meta(path, version, meta).await)
    }

    async fn relocate(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: Condition,
        how: Relocation,
    ) -> Result<Entry, RemoteError> {
        let remote = self.remote().await?;
        self.count(Kind::Put, 0, 0);
        self.noted(remote.relocate(from, version, to, when, how).await)
    }

    async fn remove(&self, path: &RemotePath, when: Condition) -> Result<(), RemoteError> {
        let remote = self.remote().await?;
        self.count(Kind::Delete, 0, 0);
        self.noted(remote.remove(path, when).await)
    }

    async fn make_directory(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        let remote = self.remote().await?;
        self.count(Kind::Put, 0, 0);
        self.noted(remote.make_directory(path).await)
    }

    async fn remove_directory(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let remote = self.remote().await?;
        self.count(Kind::Delete, 0, 0);
        self.noted(remote.remove_directory(path).await)
    }

    async fn abandon(&self, path: &RemotePath, resume: &[u8]) -> Result<(), RemoteError> {
        let remote = self.remote().await?;
        self.count(Kind::Delete, 0, 0);
        self.noted(remote.abandon(path, resume).await)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn quota(&self) -> Result<Option<Quota>, RemoteError> {
        let remote = self.remote().await?;
        self.noted(remote.quota().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::limits::Limits;
    use crate::daemon::secrets::SecretStore;

    fn place(path: &Path, state: &Path) -> Place {
        Place {
            url: StoreUrl::File(path.to_owned()),
            stores: Stores::new(SecretStore::new(state), Limits::load(state)),
            device: Uuid::from_u128(1),
            read_only: false,
            meter: Meter::default(),
        }
    }

    #[tokio::test]
    async fn a_known_remote_opens_without_an_answer_and_continues_with_one() {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = dir.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let place = place(&files, state.path());
        assert!(Known::load(state.path()).is_none());
        let connected = connect(&place, None).await.unwrap();
        let known = Known { facts: connected.remote.facts().clone(), root: connected.root.clone() };
        known.save(state.path()).unwrap();
        assert_eq!(Known::load(state.path()), Some(known.clone()));

        // The disk is not plugged in.
        std::fs::rename(&files, dir.path().join("away")).unwrap();
        let reached = Reached::later(place, known.clone(), state.path());
        assert_eq!((reached.facts(), reached.link()), (&known.facts, Link::Unknown));
        assert!(reached.stat(&RemotePath::root()).await.is_err());
        assert!(matches!(reached.link(), Link::Silent(_) | Link::Hindered(_)), "{:?}", reached.link());
        std::fs::rename(dir.path().join("away"), &files).unwrap();
        reached.renew();
        reached.stat(&RemotePath::root()).await.unwrap();
        assert_eq!(reached.link(), Link::Answers);
        assert_eq!(reached.place.meter.requests().head, 1);
    }

    #[test]
    fn silence_does_not_hide_what_a_person_has_to_do() {
        let denied = RemoteError::Store(StoreError::Denied { reason: "no".into() });
        let silent = RemoteError::Store(StoreError::Unreachable { reason: "no route".into() });
        let gone = RemoteError::Changed(RemotePath::root());
        let hindered = Link::after(&Link::Answers, Some(&denied));
        assert!(matches!(hindered, Link::Hindered(Hindrance::Credentials(_))));
        assert_eq!(Link::after(&hindered, Some(&silent)), hindered);
        assert!(matches!(Link::after(&Link::Answers, Some(&silent)), Link::Silent(_)));
        // An answer about one file is an answer.
        assert_eq!(Link::after(&hindered, Some(&gone)), Link::Answers);
        assert_eq!(Link::after(&hindered, None), Link::Answers);
        assert_eq!(Link::after(&hindered, Some(&RemoteError::Local("full".into()))), hindered);
    }
}
