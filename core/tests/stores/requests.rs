//! Single faults at each request of a commit and of an opening in turn, of every kind.
//!
//! After each fault the store is clean, all that was acknowledged is there, and an empty machine opens the drive. Each kind of
//! fault has its own drive, machines and connection to the store, so that all of them wait at the same time.

use crate::place::{Drive, Place, close, push, read, write};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use holdall_core::drive;
use holdall_core::store::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use holdall_core::volume::{Access, OpenError, TakeOver};
use holdall_servers::faults::{self, Fault, FaultProxy};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

const WRITE: Access = Access::Write { over: TakeOver::Nobody, mounted: false };
/// More requests than any commit or opening has, on every store.
const REQUESTS_MAX: u64 = 60;
/// The first numbers of each fault's machines are this far apart.
const MACHINES: u128 = 1000;

/// Faults that a server, or a proxy in front of it, can cause.
const FAULTS: [Fault; 12] = [
    Fault::CutBeforeBody,
    Fault::CutInBody,
    Fault::LostAnswer,
    Fault::ShortAnswer,
    Fault::BROKEN,
    Fault::come_back(503, 0),
    Fault::come_back(429, 0),
    Fault::CONFLICT,
    Fault::PRECONDITION,
    Fault::UNKNOWN,
    Fault::DENIED,
    Fault::Zombie { later: 3 },
];

/// A connection to the store on which one request fails.
trait Counting: Send + Sync {
    /// The store as drives use it.
    fn store(&self) -> Arc<dyn Store>;
    /// From now on, the request of this number fails, counted from 0.
    fn fails_at(&self, number: u64);
    /// Ends the fault. Returns whether a request has failed.
    fn has_failed(&self) -> bool;
}

pub async fn of_commits(place: Place) {
    each(&place, commits).await;
}

pub async fn of_openings(place: Place) {
    each(&place, openings).await;
}

/// Runs `test` for each kind of fault, on its own drive and machines.
async fn each(place: &Place, test: impl AsyncFn(&Drive, &dyn Counting, &str, u128)) {
    let first = place.drive().await;
    let kinds: Vec<(String, Box<dyn Counting>)> = match place.server {
        Some(_) => FAULTS.iter().map(|fault| Proxied::start(place, fault)).collect(),
        None => LOCAL_FAULTS.iter().map(|fault| Local::start(place, *fault)).collect(),
    };
    join_all(kinds.iter().zip(1..).map(
        async |((kind, way), number): (&(String, Box<dyn Counting>), u128)| {
            let drive = first.family.drive().await;
            test(&drive, &**way, kind, number * MACHINES).await;
            let checked = drive::check::check(&drive.objects(), drive.drive, &|_, _| {}).await.unwrap();
            assert_eq!(checked.errors, [""; 0], "{kind}");
        },
    ))
    .await;
}

async fn commits(drive: &Drive<'_>, way: &dyn Counting, kind: &str, machine: u128) {
    let volume = drive.open_on(way.store(), machine, WRITE).await.unwrap();
    let mut expected = Vec::new();
    for number in 0.. {
        assert!(number < REQUESTS_MAX, "a commit has more than {REQUESTS_MAX} requests");
        way.fails_at(number);
        write(&volume, number, number as u8 + 1).await;
        push(&volume).await;
        expected.push(number as u8 + 1);
        let is_done = !way.has_failed();
        let found = drive.committed(machine + 1 + u128::from(number), number + 1).await;
        assert_eq!(found, expected, "{kind} at request {number}");
        if is_done {
            assert!(number > 2, "a commit has a segment, a root and a HEAD");
            break;
        }
    }
    close(volume).await;
    let volume = drive.open(machine + MACHINES - 1).await.unwrap();
    assert_eq!(read(&volume, expected.len() as u64).await, expected);
    close(volume).await;
}

async fn openings(drive: &Drive<'_>, way: &dyn Counting, kind: &str, machine: u128) {
    let mut expected = Vec::new();
    for number in 0.. {
        assert!(number < REQUESTS_MAX, "an opening has more than {REQUESTS_MAX} requests");
        // Each machine has never seen the drive.
        let machine = machine + u128::from(number);
        way.fails_at(number);
        let opened = drive.open_on(way.store(), machine, WRITE).await;
        let is_done = !way.has_failed();
        let volume = match opened {
            Ok(volume) => volume,
            Err(error) => {
                assert!(!is_done, "{kind}: {error}");
                assert!(matches!(error, OpenError::Store(_) | OpenError::Read(_)), "{kind}: {error:?}");
                drive.open_on(way.store(), machine, WRITE).await.unwrap()
            }
        };
        assert_eq!(read(&volume, number).await, expected, "{kind} at request {number}");
        write(&volume, number, number as u8 + 1).await;
        expected.push(number as u8 + 1);
        close(volume).await;
        if is_done {
            assert!(number > 2, "an opening reads HEAD and a root, and swaps HEAD");
            break;
        }
    }
    assert_eq!(drive.committed(machine + MACHINES - 1, expected.len() as u64).await, expected);
}

/// Through a proxy.
struct Proxied {
    proxy: FaultProxy,
    fault: Fault,
    store: Arc<dyn Store>,
}

impl Proxied {
    fn start(place: &Place, fault: &Fault) -> (String, Box<dyn Counting>) {
        let proxy = place.proxy();
        let store = place.for_drives(Some(proxy.address()));
        (format!("{fault:?}"), Box::new(Self { proxy, fault: fault.clone(), store }))
    }
}

impl Counting for Proxied {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn fails_at(&self, number: u64) {
        self.proxy.plan(faults::at(number, self.fault.clone()));
    }

    fn has_failed(&self) -> bool {
        let hit = self.proxy.log().iter().any(|entry| entry.fault.is_some());
        self.proxy.plan(faults::none());
        hit
    }
}

/// Faults of a request to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LocalFault {
    /// The disk is missing: nothing is done.
    Away,
    /// The request is done, but its answer is lost: the disk went away at that moment.
    Unheard,
    /// A read is cut short.
    Short,
    /// The disk is full.
    Full,
    /// Access is refused for a moment.
    Denied,
}

const LOCAL_FAULTS: [LocalFault; 5] =
    [LocalFault::Away, LocalFault::Unheard, LocalFault::Short, LocalFault::Full, LocalFault::Denied];

/// A directory.
struct Local {
    inner: Arc<dyn Store>,
    fault: LocalFault,
    /// Requests left until the one that fails, and whether it has failed. The lock is held only to count.
    left: Mutex<(Option<u64>, bool)>,
}

impl Local {
    fn start(place: &Place, fault: LocalFault) -> (String, Box<dyn Counting>) {
        let local = Self { inner: place.for_drives(None), fault, left: Mutex::default() };
        (format!("{fault:?}"), Box::new(Arc::new(local)))
    }

    /// Performs the request, unless it is the one that fails.
    async fn ask<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let is_hit = {
            let (left, hit) = &mut *self.left.lock();
            let is_hit = *left == Some(0);
            *left = left.and_then(|left| left.checked_sub(1));
            *hit |= is_hit;
            is_hit
        };
        if !is_hit {
            return request.await;
        }
        let reason = "as planned".to_owned();
        match self.fault {
            LocalFault::Unheard => drop(request.await),
            LocalFault::Full => return Err(StoreError::Full { reason }),
            LocalFault::Denied => return Err(StoreError::Denied { reason }),
            LocalFault::Short => return Err(StoreError::Damaged { name: "it".into(), reason }),
            LocalFault::Away => {}
        }
        Err(StoreError::Unreachable { reason })
    }
}

impl Counting for Arc<Local> {
    fn store(&self) -> Arc<dyn Store> {
        self.clone()
    }

    fn fails_at(&self, number: u64) {
        *self.left.lock() = (Some(number), false);
    }

    fn has_failed(&self) -> bool {
        std::mem::take(&mut *self.left.lock()).1
    }
}

#[async_trait]
impl Store for Local {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.ask(self.inner.get(name, range)).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.ask(self.inner.put(name, body, when)).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.ask(self.inner.head(name)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.ask(self.inner.list(prefix)).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.ask(self.inner.delete(name)).await
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        self.inner.facts().await
    }
}
