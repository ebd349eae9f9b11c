//! Stores by their addresses: the one place that turns an address into a store, with the credentials that are kept for it, and with HEADs
//! that change as its family requires.

use super::failure::{self, failure};
use super::limits::Limits;
use super::secrets::scope::Scope;
use super::secrets::{Login, SecretStore};
use crate::api::{Action, Code, Failure, StoreCredentials, StoreMode};
use holdall_core::family::{self, Family, FamilyError, Mode};
use holdall_core::store::Store;
use holdall_core::store::connect::{self, ConnectError, with_heads};
use holdall_core::store::credentials::Credentials;
use holdall_core::store::file::FileStore;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::probe;
use holdall_core::store::url::StoreUrl;
use later::Later;
use parking_lot::Mutex;
use renewable::{LoggedOut, Renewable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

pub mod directory;
pub mod found;
pub mod later;
pub mod place;
pub mod renewable;
pub mod trial;

/// How long a directory may take to report its file system: one that takes longer is not on a working disk of this computer.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// How long a trial stays valid: commands that each open a drive briefly do not each try its store.
const PROVED_FOR: Duration = Duration::from_secs(600);

/// Objects that have been in a store for this long belong to no trial under way.
const TRIAL_IS_LEFT_AFTER: Duration = Duration::from_secs(3600);

/// The stores in use, and all credentials.
pub struct Stores {
    secrets: SecretStore,
    limits: Arc<Limits>,
    /// Held to search it. The user of a store keeps it alive.
    used: Mutex<Vec<Weak<Renewable>>>,
    /// When stores last passed a trial. Held for a look-up.
    proved: Mutex<BTreeMap<String, Instant>>,
    /// Objects that trials have left in stores, and when each was first seen. Held to compare.
    trials_left: Mutex<BTreeMap<String, BTreeMap<String, Instant>>>,
}

/// A store, with the family that it holds.
pub struct FamilyStore {
    /// The store as it is reached.
    pub reached: Arc<Renewable>,
    /// With HEADs that can be swapped.
    pub store: Arc<dyn Store>,
    /// The family that it holds.
    pub family: Family,
}

impl FamilyStore {
    fn new(reached: Arc<Renewable>, family: Family) -> Self {
        Self { store: with_heads(reached.clone(), family.mode), reached, family }
    }
}

impl Stores {
    /// No store is in use yet.
    pub fn new(secrets: SecretStore, limits: Arc<Limits>) -> Arc<Self> {
        Arc::new(Self {
            secrets,
            limits,
            used: Mutex::default(),
            proved: Mutex::default(),
            trials_left: Mutex::default(),
        })
    }

    /// The limits for all drives.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Keeps the credentials.
    pub fn secrets(&self) -> &SecretStore {
        &self.secrets
    }

    /// The store at `url`, with the credentials that are kept for it; `meter` counts the requests. Contacts nothing yet.
    pub async fn connect(&self, url: &StoreUrl, meter: &Meter) -> Result<Arc<Renewable>, Failure> {
        let credentials = self.credentials(url).await?;
        let store = self.reach(url, &credentials, meter)?;
        Ok(self.in_use(Renewable::new(url.clone(), meter.clone(), store)))
    }

    fn in_use(&self, store: Renewable) -> Arc<Renewable> {
        let store = Arc::new(store);
        let mut used = self.used.lock();
        used.retain(|store| store.strong_count() > 0);
        used.push(Arc::downgrade(&store));
        store
    }

    /// The store at `url`, and its family's description, for a known drive.
    pub async fn family(&self, url: &str, meter: &Meter) -> Result<FamilyStore, Failure> {
        self.family_of(&parse(url)?, meter, failure::family).await
    }

    /// The store at `url`, whose family is remembered. Contacts nothing yet, so a keyring that does not open now may open later.
    pub async fn known_family(
        self: &Arc<Self>,
        url: &str,
        meter: &Meter,
        family: Family,
    ) -> Result<FamilyStore, Failure> {
        let place = parse(url)?;
        let reached = match self.connect(&place, meter).await {
            Err(failure) if failure.actions.contains(&Action::UnlockKeyring) => {
                let later = Arc::new(Later::new(self.clone(), url, meter.clone()));
                self.in_use(Renewable::later(place, meter.clone(), later))
            }
            reached => reached?,
        };
        Ok(FamilyStore::new(reached, family))
    }

    /// The store at `url`, and its family's description; `explain` turns errors into failures.
    pub async fn family_of(
        &self,
        url: &StoreUrl,
        meter: &Meter,
        explain: fn(&FamilyError) -> Failure,
    ) -> Result<FamilyStore, Failure> {
        let reached = self.connect(url, meter).await?;
        let described = family::describe(&*reached).await;
        let family = described.map_err(|error| failure::at_store(explain(&error), &url.to_string()))?;
        Ok(FamilyStore::new(reached, family))
    }

    /// The credentials that are kept for `url`.
    pub async fn credentials(&self, url: &StoreUrl) -> Result<Credentials, Failure> {
        if matches!(url, StoreUrl::File(_)) {
            return Ok(Credentials::None);
        }
        match self.secrets.find(url).map_err(|error| failure::secrets(&error.into()))? {
            Some(login) => self.of_login(&login).await,
            // Some WebDAV servers need no login.
            None if matches!(url, StoreUrl::Dav(_)) => Ok(Credentials::None),
            None => Err(failure::no_login(&url.to_string())),
        }
    }

    /// The store at `url` with `credentials`; `meter` counts the requests. Contacts nothing yet.
    pub fn reach(
        &self,
        url: &StoreUrl,
        credentials: &Credentials,
        meter: &Meter,
    ) -> Result<Arc<dyn Store>, Failure> {
        connect::connect(url, credentials, self.limits.pacer(), meter).map_err(|error| match error {
            ConnectError::Url(error) => failure::url(&error),
            ConnectError::Setup { reason } => failure(
                Code::Usage,
                format!("The store cannot be reached: {reason}."),
                failure::NOTHING_CHANGED,
                "Check the address, and the credentials that go with it.",
            ),
        })
    }

    async fn of_login(&self, login: &Login) -> Result<Credentials, Failure> {
        let credentials = self.secrets.credentials(login).await;
        credentials.map_err(|error| failure::at_store(failure::secrets(&error), &login.store))
    }

    /// Whether the store passed a trial so recently that it need not be tried again.
    pub fn is_proved(&self, url: &StoreUrl) -> bool {
        self.proved.lock().get(&url.to_string()).is_some_and(|when| when.elapsed() < PROVED_FOR)
    }

    /// Records that the store has passed a trial.
    pub fn proved(&self, url: &StoreUrl) {
        self.proved.lock().insert(url.to_string(), Instant::now());
    }

    /// Deletes what interrupted trials have left in the store. Objects that were there an hour ago belong to no trial under way on any
    /// computer: no trial takes that long, and their names are never used again. A trial on a computer that was suspended in the middle may
    /// miss objects that it has put, and judge the store too harshly until the next trial.
    pub async fn sweep_trials(&self, url: &StoreUrl, credentials: &Credentials, meter: &Meter) {
        let Ok(store) = self.reach(url, credentials, meter) else { return };
        let Ok(names) = probe::left_behind(&*store).await else { return };
        let old = old_of(self.trials_left.lock().entry(url.to_string()).or_default(), names, Instant::now());
        for name in old {
            if store.delete(&name).await.is_err() {
                return;
            }
        }
    }

    /// Makes stores in use continue with the credentials that are kept now.
    pub async fn renew(&self) {
        let used: Vec<_> = self.used.lock().iter().filter_map(Weak::upgrade).collect();
        for store in used {
            if matches!(store.url(), StoreUrl::File(_)) {
                continue;
            }
            let login = self.secrets.find(store.url());
            if matches!((&login, store.url()), (Ok(None), StoreUrl::S3(_))) {
                store.renew(Arc::new(LoggedOut));
                continue;
            }
            let renewed = match self.credentials(store.url()).await {
                Ok(credentials) => self.reach(store.url(), &credentials, store.meter()),
                Err(failure) => Err(failure),
            };
            match renewed {
                Ok(renewed) => store.renew(renewed),
                // A keyring that is locked for now logs nobody out.
                Err(failure) => {
                    tracing::warn!(message = failure.message, "a store keeps its former credentials");
                }
            }
        }
    }
}

/// The names that were first seen long enough ago; updates `seen`, which remembers when each was first seen.
fn old_of(seen: &mut BTreeMap<String, Instant>, names: BTreeSet<String>, now: Instant) -> Vec<String> {
    seen.retain(|name, _| names.contains(name));
    let since = |name: String| (*seen.entry(name.clone()).or_insert(now), name);
    let all = names.into_iter().map(since).collect::<Vec<_>>();
    let old = all.into_iter().filter(|(since, _)| now.duration_since(*since) >= TRIAL_IS_LEFT_AFTER);
    old.map(|(_, name)| name).collect()
}

/// Parses the address or the path that a person gave.
pub fn read(given: &str) -> Result<StoreUrl, Failure> {
    let home = std::env::home_dir();
    StoreUrl::read(given, home.as_deref()).map_err(|error| failure::url(&error))
}

/// The proxy through which a store is asked, as host and port.
pub fn proxy_to(limits: &Limits, store: &str) -> Option<String> {
    let server = StoreUrl::parse(store).ok()?.server()?;
    limits.pacer().proxy().filter(|proxy| proxy.serves(&server)).map(|proxy| proxy.address())
}

/// Parses a remembered address.
pub fn parse(url: &str) -> Result<StoreUrl, Failure> {
    StoreUrl::parse(url).map_err(|error| failure::url(&error))
}

/// The scope of a login at `url`.
pub fn scope(url: &StoreUrl) -> Result<Scope, Failure> {
    Scope::of(url).ok_or_else(|| failure::usage(format!("{url} is a directory, which takes no login.")))
}

/// The credentials of a request, if `url` takes their kind.
pub fn credentials(url: &StoreUrl, given: StoreCredentials) -> Result<Credentials, Failure> {
    let credentials = match given {
        StoreCredentials::S3 { access_key, secret_key, session_token } => Credentials::S3 {
            access_key,
            secret_key: Zeroizing::new(secret_key),
            session_token: session_token.map(Zeroizing::new),
        },
        StoreCredentials::S3Profile { profile } => Credentials::S3Profile { profile },
        StoreCredentials::Password { user, password } => {
            Credentials::Password { user, password: Zeroizing::new(password) }
        }
        StoreCredentials::Bearer { token } => Credentials::Bearer { token: Zeroizing::new(token) },
    };
    let fits = match &credentials {
        Credentials::None => false,
        Credentials::S3 { .. } | Credentials::S3Profile { .. } => matches!(url, StoreUrl::S3(_)),
        Credentials::Password { .. } | Credentials::Bearer { .. } => matches!(url, StoreUrl::Dav(_)),
    };
    match (fits, url) {
        (true, _) => Ok(credentials),
        (false, StoreUrl::File(_)) => {
            Err(failure::usage(format!("{url} is a directory, which takes no login.")))
        }
        (false, StoreUrl::S3(_)) => {
            Err(failure::usage(format!("{url} takes an access key and a secret key.")))
        }
        (false, StoreUrl::Dav(_)) => {
            Err(failure::usage(format!("{url} takes a user and a password, or a bearer token.")))
        }
    }
}

/// Whether it is a directory that only this computer changes. A directory that cannot be accessed does not count.
pub async fn is_local_directory(url: &StoreUrl) -> bool {
    match url {
        StoreUrl::File(path) => {
            let store = FileStore::new(path.clone(), &DriveNames);
            let looked = tokio::time::timeout(LOOK_PATIENCE, store.is_local()).await;
            looked.is_ok_and(|is_local| is_local.unwrap_or(false))
        }
        StoreUrl::S3(_) | StoreUrl::Dav(_) => false,
    }
}

/// The mode of a new family at `url` if it needs no trial: a directory that only this computer changes today uses claims. They cost little,
/// and the directory may later move to a network file system, where locks would no longer hold.
pub async fn untried_mode(url: &StoreUrl) -> Option<Mode> {
    is_local_directory(url).await.then_some(Mode::Claim)
}

/// Whether it is a directory that other computers may change. A directory that cannot be accessed does not count.
pub async fn is_shared_directory(url: &StoreUrl) -> bool {
    match url {
        StoreUrl::File(path) => {
            let store = FileStore::new(path.clone(), &DriveNames);
            let looked = tokio::time::timeout(LOOK_PATIENCE, store.is_local()).await;
            matches!(looked, Ok(Ok(false)))
        }
        StoreUrl::S3(_) | StoreUrl::Dav(_) => false,
    }
}

/// The tool that keeps the directory at `url` in sync with other computers, if any.
pub async fn sync_tool(url: &StoreUrl) -> Option<&'static str> {
    let StoreUrl::File(path) = url else { return None };
    let store = FileStore::new(path.clone(), &DriveNames);
    tokio::time::timeout(LOOK_PATIENCE, store.sync_tool()).await.ok()?.ok()?
}

/// Refuses a directory that a tool keeps in sync with other computers.
pub async fn check_not_synced(url: &StoreUrl) -> Result<(), Failure> {
    let StoreUrl::File(path) = url else { return Ok(()) };
    match sync_tool(url).await {
        Some(tool) => Err(failure::synced_directory(path, tool)),
        None => Ok(()),
    }
}

/// A mode in the API's terms.
pub fn told(mode: Mode) -> StoreMode {
    match mode {
        Mode::Swap => StoreMode::Swap,
        Mode::Claim => StoreMode::Claim,
        Mode::None => StoreMode::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_trial_are_names_that_stay_for_long() {
        let (mut seen, begun) = (BTreeMap::new(), Instant::now());
        let mut look = |names: &[&str], minutes: u64| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            old_of(&mut seen, names, begun + Duration::from_secs(60 * minutes))
        };
        assert_eq!(look(&["a", "b"], 0), [""; 0]);
        assert_eq!(look(&["a", "c"], 59), [""; 0]);
        // A name that has gone meanwhile counts as new when it comes again.
        assert_eq!(look(&["a", "b", "c"], 61), ["a"]);
        assert_eq!(look(&["b", "c"], 119), ["c"]);
    }
}
