//! Replicas: further stores that have what the first one, the primary, has.
//!
//! Only the primary's HEAD commits. A replica gets each immutable object once the primary has it ([`Replicated`] hands
//! the bytes on, so that they need not be fetched again), and after each commit whatever of that version is still missing
//! there ([`Replica`]). When all of it is there, a *record* says so: `replica/<drive>/<epoch>-<seq>-<random>`, a copy of the
//! primary's HEAD. A record is put over by none of another version, so that a device which was overtaken and wakes up late cannot make an
//! old version look like the newest one. Where the primary is lost, [`promote`] makes the replica's newest version its HEAD.
//!
//! A replica that is slow or away holds up nobody. It is caught up with as soon as it answers. What is deleted from the
//! primary is deleted from a replica only after that has a version which was committed later.
//!
//! The HEAD that is followed is the one that the engine puts. A drive that goes on as a fork in place puts another one from
//! then on, and what the replica gets is a version of the fork: nobody has to say so.

use crate::format::head;
use crate::format::id::{ObjectId, ObjectKind};
use crate::store::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use uuid::Uuid;

mod catch_up;
mod promote;
mod record;
mod worker;

pub(crate) use promote::newest_of_all;
pub use promote::{
    Left, Promoted, Promotion, ReplicaError, Told, candidate, check_no_primary, newest, prepare, promote,
    retire_former,
};
pub(crate) use record::ALL as RECORDS;
pub use worker::{Progress, Replica, Standing, Wanted};

/// Objects handed on that may wait for a replica: up to 8 MiB each. What does not fit is fetched later.
const OFFERS_MAX: usize = 4;
/// For how long replicas are read first when the primary has given no answer: not each reader is to wait for that.
const ASIDE: Duration = Duration::from_secs(30);

/// A store with replicas, which come and go.
pub struct Replicated {
    primary: Arc<dyn Store>,
    /// Held to tell them something, or to copy what is told.
    feeds: RwLock<Vec<Feed>>,
    /// Where the primary is. Held with `feeds`.
    current: Mutex<Current>,
    /// Until when replicas are read first, the primary having given no answer.
    // Held for looking and noting.
    aside_until: Mutex<Option<Instant>>,
}

/// What one replica is told.
struct Feed {
    /// Where objects are read that the primary does not give.
    store: Arc<dyn Store>,
    offers: mpsc::Sender<(String, Bytes)>,
    deleted: mpsc::UnboundedSender<(u64, String)>,
    current: watch::Sender<Current>,
}

/// Where the primary is.
#[derive(Clone, Debug)]
struct Current {
    /// Name of the HEAD whose changes are commits.
    name: String,
    /// Its HEAD, once it is known.
    head: Option<Bytes>,
    /// How often HEAD has changed.
    commits: u64,
    /// How often somebody has asked to look at the replicas anew.
    asked: u64,
}

/// What a replica's task hears.
pub struct Changed {
    /// Objects that were put.
    offers: mpsc::Receiver<(String, Bytes)>,
    /// Objects that were deleted, and how often HEAD had changed before.
    deleted: mpsc::UnboundedReceiver<(u64, String)>,
    current: watch::Receiver<Current>,
}

impl Replicated {
    /// `primary`, for a drive and the forks that it may become. There are no replicas yet.
    pub fn new(primary: Arc<dyn Store>, drive: Uuid) -> Self {
        let current = Current { name: head::name(drive), head: None, commits: 0, asked: 0 };
        let (feeds, current, aside_until) = (RwLock::default(), Mutex::new(current), Mutex::default());
        Self { primary, feeds, current, aside_until }
    }

    /// Adds a replica. What is returned is for its [`Replica`]; once that is dropped, it is one no more.
    pub fn add(&self, store: Arc<dyn Store>) -> Changed {
        let mut feeds = self.feeds.write();
        let (offers, offered) = mpsc::channel(OFFERS_MAX);
        let (deleted, was_deleted) = mpsc::unbounded_channel();
        let (current, is_current) = watch::channel(self.current.lock().clone());
        feeds.retain(|feed| !feed.offers.is_closed());
        feeds.push(Feed { store, offers, deleted, current });
        Changed { offers: offered, deleted: was_deleted, current: is_current }
    }

    /// How often HEAD has changed since the store was opened.
    pub fn commits(&self) -> u64 {
        self.current.lock().commits
    }

    /// Has replicas tried at once that are waited for, and looked at anew: what opens the family has changed, or the credentials
    /// for a replica have.
    pub fn look_again(&self) {
        let feeds = self.feeds.read();
        let mut current = self.current.lock();
        current.asked += 1;
        feeds.iter().for_each(|feed| drop(feed.current.send_replace(current.clone())));
    }

    fn is_immutable(name: &str) -> bool {
        ObjectId::parse(name).is_some()
    }

    /// What the engine has is the drive of this HEAD from now on, whether or not the put comes about.
    fn follows(&self, name: &str) {
        let mut current = self.current.lock();
        if current.name != name {
            (current.name, current.head) = (name.to_owned(), None);
        }
    }

    /// The HEAD `name` is this: it was put, or is what a put whose answer was lost has left.
    fn is_now(&self, name: &str, head: &Bytes) {
        let feeds = self.feeds.read();
        let mut current = self.current.lock();
        if current.name == name && current.head.as_ref() != Some(head) {
            (current.head, current.commits) = (Some(head.clone()), current.commits + 1);
            feeds.iter().for_each(|feed| drop(feed.current.send_replace(current.clone())));
        }
    }

    async fn get_from_others(&self, name: &str, range: Option<Range<u64>>) -> Option<Fetched> {
        for other in self.others() {
            if let Ok(fetched) = other.get(name, range.clone()).await {
                return Some(fetched);
            }
        }
        None
    }

    /// Stores that may have what the primary does not give.
    fn others(&self) -> Vec<Arc<dyn Store>> {
        let feeds = self.feeds.read();
        feeds.iter().filter(|feed| !feed.offers.is_closed()).map(|feed| feed.store.clone()).collect()
    }
}

#[async_trait]
impl Store for Replicated {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        // What is missing or away there may be here: the name says what it is, and its seal proves it. A root is asked of
        // the primary alone, which decides what is current.
        let may_be_here = matches!(ObjectId::parse(name), Some((ObjectKind::Segment, _)));
        let aside = may_be_here && self.aside_until.lock().is_some_and(|until| Instant::now() < until);
        if aside && let Some(fetched) = self.get_from_others(name, range.clone()).await {
            return Ok(fetched);
        }
        let got = self.primary.get(name, range.clone()).await;
        let is_away = matches!(got, Err(StoreError::Unreachable { .. }));
        *self.aside_until.lock() = is_away.then(|| Instant::now() + ASIDE);
        match got {
            Ok(fetched) => {
                if head::is_name(name) {
                    self.is_now(name, &fetched.bytes);
                }
                Ok(fetched)
            }
            Err(error) if may_be_here && !aside => self.get_from_others(name, range).await.ok_or(error),
            Err(error) => Err(error),
        }
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if head::is_name(name) {
            self.follows(name);
        }
        let etag = self.primary.put(name, body.clone(), when).await?;
        if head::is_name(name) {
            self.is_now(name, &body);
        } else if Self::is_immutable(name) {
            for feed in &*self.feeds.read() {
                let _ = feed.offers.try_send((name.to_owned(), body.clone()));
            }
        }
        Ok(etag)
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.primary.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.primary.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.primary.delete(name).await?;
        if Self::is_immutable(name) {
            let feeds = self.feeds.read();
            let commits = self.current.lock().commits;
            for feed in &*feeds {
                let _ = feed.deleted.send((commits, name.to_owned()));
            }
        }
        Ok(())
    }

    async fn claim(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.primary.claim(name, nonce).await
    }

    fn heeds_conditions(&self) -> bool {
        self.primary.heeds_conditions()
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.primary.facts().await
    }

    fn foreign(&self) -> Vec<String> {
        self.primary.foreign()
    }
}
