//! Replicas: more stores that have what the first one, the primary, has.
//!
//! Only the primary's HEAD commits. A replica gets each immutable object once the primary has it ([`Replicated`] passes the bytes on, which
//! saves fetching them again). After each commit it gets whatever else of that version is missing there ([`Replica`]). When the version is
//! complete, a *record* says so: `replica/<drive>/<epoch>-<seq>-<random>`, a copy of the primary's HEAD. Each version has a record of its
//! own name. So a device that was overtaken and wakes up late cannot make an old version look like the newest one. If the primary is lost,
//! [`promote`] makes the replica's newest version its HEAD.
//!
//! A replica that is slow or away delays nothing. It catches up as soon as it answers. An object that was deleted from the primary is
//! deleted from a replica only after the replica has a version that was committed later.
//!
//! A replica follows the HEAD that the engine puts. A drive that continues as a fork in place puts another HEAD from then on. The replica
//! then gets versions of the fork: no one has to tell it.

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
pub mod plan;
mod promote;
mod record;
mod worker;

pub use promote::{
    Left, Promoted, Promotion, ReplicaError, Told, candidate, check_no_primary, newest, prepare, promote,
    promoted_with, retire_former,
};
pub(crate) use promote::{finish_interrupted, newest_of_all};
pub(crate) use record::ALL as RECORDS;
pub use worker::{Progress, Replica, Standing, Wanted};

/// Objects passed on that may wait for a replica: up to 8 MiB each. The rest is fetched later.
const OFFERS_MAX: usize = 4;
/// After the primary has given no answer, replicas are read first for this long: not every reader should have to wait for the primary.
const ASIDE: Duration = Duration::from_secs(30);

/// A store with replicas, which come and go.
pub struct Replicated {
    primary: Arc<dyn Store>,
    /// Held to tell the replicas something, or to copy the list.
    feeds: RwLock<Vec<Feed>>,
    /// The state of the primary. Held with `feeds`.
    current: Mutex<Current>,
    /// Until when replicas are read first, because the primary has given no answer.
    // Held to look and to note.
    aside_until: Mutex<Option<Instant>>,
}

/// The channels to one replica's task.
struct Feed {
    /// Read for objects that the primary does not give.
    store: Arc<dyn Store>,
    offers: mpsc::Sender<(String, Bytes)>,
    deleted: mpsc::UnboundedSender<(u64, String)>,
    current: watch::Sender<Current>,
}

/// The state of the primary.
#[derive(Clone, Debug)]
struct Current {
    /// Name of the HEAD whose changes are commits.
    name: String,
    /// Its HEAD, once it is known.
    head: Option<Bytes>,
    /// How often HEAD has changed.
    commits: u64,
    /// How often a caller has asked to look at the replicas again.
    asked: u64,
}

/// The other end of a feed, for a replica's task.
pub struct Changed {
    /// Objects that were put.
    offers: mpsc::Receiver<(String, Bytes)>,
    /// Objects that were deleted, and how often HEAD had changed before.
    deleted: mpsc::UnboundedReceiver<(u64, String)>,
    current: watch::Receiver<Current>,
}

impl Replicated {
    /// The store with `primary`, for a drive and the forks that it may become. It has no replicas yet.
    pub fn new(primary: Arc<dyn Store>, drive: Uuid) -> Self {
        let current = Current { name: head::name(drive), head: None, commits: 0, asked: 0 };
        let (feeds, current, aside_until) = (RwLock::default(), Mutex::new(current), Mutex::default());
        Self { primary, feeds, current, aside_until }
    }

    /// Adds a replica. The result is for its [`Replica`]; once that is dropped, the store is no longer a replica.
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

    /// Makes replicas that wait try at once and look again: the family's keys have changed, or the credentials for a replica have.
    pub fn look_again(&self) {
        let feeds = self.feeds.read();
        let mut current = self.current.lock();
        current.asked += 1;
        feeds.iter().for_each(|feed| drop(feed.current.send_replace(current.clone())));
    }

    fn is_immutable(name: &str) -> bool {
        ObjectId::parse(name).is_some()
    }

    /// From now on the engine's drive is that of this HEAD, whether or not the put succeeds.
    fn follows(&self, name: &str) {
        let mut current = self.current.lock();
        if current.name != name {
            (current.name, current.head) = (name.to_owned(), None);
        }
    }

    /// The HEAD `name` is this now: it was put, or a get shows that a put without an answer was applied.
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
        // A segment that the primary lacks or cannot give may be in a replica: its name identifies it, and its seal proves it. Roots are
        // read from the primary alone, which decides what is current.
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
