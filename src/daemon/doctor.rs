//! Looks for problems: this computer, its disks, its folders, the stores of its drives, and all logins.
//!
//! Stores are asked in parallel, each with a deadline: a dead store delays nothing. All requests here only read, so an interruption leaves
//! nothing half done. The verdicts are in [`judge`].

use super::drive::Drive;
use super::drives::Drives;
use super::failure;
use super::secrets::scope::Scope;
use super::secrets::{Kept, Login, keyring};
use super::stores;
use super::work::Work;
use crate::api::{Diagnosis, Failure, Finding, Unit};
use futures_util::stream::{self, StreamExt};
use holdall_core::family;
use holdall_core::store::meter::Meter;
use holdall_core::store::url::StoreUrl;
use holdall_core::store::{Store, StoreError};
use judge::{Asked, Space};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod judge;

/// How long a store may take to answer: more than a slow store needs, and less than a person would wait.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long a local disk may take to report its free space.
const DISK_LIMIT: Duration = Duration::from_secs(5);
/// Stores that are asked at the same time. A person has fewer; each takes a connection.
const ASKED_AT_ONCE: usize = 32;
const REPAIRED_STAYS: &str = "Repairs that were made stay. Stores and logins were not checked.";

/// A store, and the drives that rely on it.
#[derive(Default)]
struct Use {
    drives: Vec<String>,
    /// What must be there.
    there: There,
}

/// What must be in a store.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum There {
    /// A replica, which may have just begun.
    #[default]
    Replica,
    /// A drive, and so the family's description.
    Drive,
    /// Nothing: only the login is tried.
    Anything,
}

impl Drives {
    /// Looks for problems, and repairs them if `repair` is set.
    pub async fn doctor(&self, repair: bool, work: Option<&Work>) -> Result<Diagnosis, Failure> {
        let mut findings = self.look_at_computer(repair).await?;
        for drive in self.all() {
            findings.extend(drive.full_for_doctor().await);
        }
        findings.extend(self.folders().statuses().iter().map(judge::folder));
        findings.extend(self.devices().look().await);
        let disks = self.look_at_disks();
        let looking = async { tokio::join!(disks, self.look_at_keyring(), self.ask_stores(work)) };
        let (disks, keyring, stores) = match work {
            Some(work) => {
                let consequence = if repair { REPAIRED_STAYS } else { failure::NOTHING_CHANGED };
                work.unless_interrupted(consequence, looking).await?
            }
            None => looking.await,
        };
        findings.extend(disks);
        findings.push(keyring);
        findings.extend(stores);
        let shown = findings.into_iter().map(holdall_gui::advice::shown_finding);
        Ok(judge::diagnosis(shown.collect()))
    }

    async fn look_at_disks(&self) -> Vec<Finding> {
        let paths = [self.paths().state.clone(), self.paths().cache.clone()];
        let looking = tokio::task::spawn_blocking(move || paths.map(space));
        match tokio::time::timeout(DISK_LIMIT, looking).await {
            Ok(Ok([Ok(state), Ok(cache)])) => judge::disks(&state, &cache),
            Ok(Ok([Err(error), _] | [_, Err(error)])) => vec![judge::unknown_disk(&error)],
            Ok(Err(error)) => vec![judge::unknown_disk(&io::Error::other(error))],
            Err(_) => vec![judge::unknown_disk(&io::ErrorKind::TimedOut.into())],
        }
    }

    async fn look_at_keyring(&self) -> Finding {
        let logins = match self.stores().secrets().list() {
            Ok(logins) => logins,
            Err(error) => return judge::logins(&failure::secrets(&error.into())),
        };
        let is_in_it = |login: &&Login| matches!(login.kept, Kept::Keyring(_));
        judge::keyring(keyring::look().await.as_ref(), logins.iter().filter(is_in_it).count())
    }

    /// Asks every store that a drive relies on, or that has a login.
    async fn ask_stores(&self, work: Option<&Work>) -> Vec<Finding> {
        let mut uses = uses(&self.all());
        // Logins that cannot be read are a finding already.
        let logins = self.stores().secrets().list().unwrap_or_default();
        uses.extend(unused(&logins, &uses));
        let total = uses.len() as u64;
        let progress = |done| {
            if let Some(work) = work {
                work.progress("Asking stores", done, total, Unit::Items);
            }
        };
        progress(0);
        let asking = uses.into_iter().map(|(store, used)| self.ask(store, used));
        let mut answers = stream::iter(asking).buffer_unordered(ASKED_AT_ONCE);
        let mut asked = Vec::new();
        while let Some(answer) = answers.next().await {
            asked.push(answer);
            progress(asked.len() as u64);
        }
        asked.sort_by(|one, other| one.store.cmp(&other.store));
        asked.iter().map(judge::store).collect()
    }

    async fn ask(&self, store: String, used: Use) -> Asked {
        let begun = Instant::now();
        let answer = tokio::time::timeout(ANSWER_LIMIT, self.answer(&store, used.there)).await;
        let answer = match answer {
            Ok(Ok(())) => Ok(begun.elapsed()),
            Ok(Err(failure)) => Err(failure),
            Err(_) => {
                let reason = format!("no answer within {} s", ANSWER_LIMIT.as_secs());
                Err(failure::store(&StoreError::Unreachable { reason }))
            }
        };
        let answer = answer.map_err(|failure| failure::at_store(failure, &store));
        Asked { user: self.user_at(&store), store, drives: used.drives, answer }
    }

    /// Reads what every drive reads first: a login that may read it works.
    async fn answer(&self, store: &str, there: There) -> Result<(), Failure> {
        let (url, meter) = (stores::parse(store)?, Meter::default());
        if there == There::Drive {
            return self.stores().family_of(&url, &meter, failure::known_family).await.map(drop);
        }
        let replica = self.stores().connect(&url, &meter).await?;
        match replica.get(family::NAME, None).await {
            // A replica that has just begun does not have it yet.
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            // The login is for the whole bucket, and may be allowed only a part of it. But the server knows it.
            Err(StoreError::Denied { .. }) if there == There::Anything && matches!(url, StoreUrl::S3(_)) => {
                Ok(())
            }
            Err(error) => Err(failure::store(&error)),
        }
    }

    fn user_at(&self, store: &str) -> Option<String> {
        let url = stores::parse(store).ok()?;
        let login = self.stores().secrets().find(&url).ok()??;
        Some(login.user)
    }
}

/// Every store that a drive of this computer relies on.
fn uses(drives: &[Arc<Drive>]) -> BTreeMap<String, Use> {
    let mut uses: BTreeMap<String, Use> = BTreeMap::new();
    for drive in drives {
        let home = uses.entry(drive.store_url()).or_default();
        home.there = There::Drive;
        home.drives.push(drive.name.clone());
        for replica in drive.replica_urls() {
            uses.entry(replica).or_default().drives.push(drive.name.clone());
        }
    }
    uses
}

/// The stores of logins that none of these uses relies on: a person may rely on them with the next drive.
fn unused(logins: &[Login], uses: &BTreeMap<String, Use>) -> Vec<(String, Use)> {
    let used: Vec<_> = uses.keys().filter_map(|store| stores::parse(store).ok()).collect();
    let is_used = |login: &&Login| {
        let scope = Scope::parse(&login.store);
        scope.is_none_or(|scope| used.iter().any(|store| scope.covers(store).is_some()))
    };
    let unused = logins.iter().filter(|login| !is_used(login));
    unused.map(|login| (login.store.clone(), Use { there: There::Anything, ..Use::default() })).collect()
}

/// The free space of the disk of a directory, which may not exist yet.
fn space(path: PathBuf) -> io::Result<Space> {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(&path);
    let figures = rustix::fs::statvfs(there)?;
    let device = std::fs::metadata(there)?.dev();
    let free_bytes = figures.f_bavail.saturating_mul(figures.f_frsize);
    Ok(Space { path, device, free_bytes })
}
