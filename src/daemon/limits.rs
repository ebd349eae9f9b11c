//! The limits: how much of the network all drives together may use, whether they wait for another network, and how much of the local disk
//! each may take.

use super::failure::{self, failure};
use super::registry;
use super::status::{now_ms, time};
use crate::api::{self, Code, Failure, Indexers, OnMetered, ProxyUse, QuietHours, SetLimits, SetProxy};
use holdall_core::store::pace::{Direction, Pacer, RATE_MIN};
use holdall_core::store::proxy::ProxyError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

mod metered;
mod proxy;
mod quiet;

/// The remembered limits (`limits.json`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    #[serde(default)]
    up: Option<u64>,
    #[serde(default)]
    down: Option<u64>,
    #[serde(default)]
    cache: Option<u64>,
    #[serde(default)]
    cache_total: Option<u64>,
    #[serde(default)]
    indexers: Indexers,
    #[serde(default)]
    on_metered: OnMetered,
    /// Unix time in ms.
    #[serde(default)]
    paused_until: Option<u64>,
    #[serde(default)]
    quiet: Option<QuietHours>,
    #[serde(default)]
    proxy: Option<SetProxy>,
}

impl Saved {
    fn is_quiet(&self) -> bool {
        self.quiet.is_some_and(|hours| quiet::holds(&hours, quiet::now()))
    }
}

/// Why uploads and background downloads of all drives wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The network is metered.
    Metered,
    /// A person has paused them for a while.
    Paused,
    /// These are a person's quiet hours.
    Quiet,
}

/// The longest pause. For longer, the drives themselves can be paused.
const PAUSE_MAX: Duration = Duration::from_secs(31 * 24 * 3600);
/// How soon a changed clock, or the end of a computer's sleep, is noticed.
const CLOCK_EVERY: Duration = Duration::from_secs(30);

/// The least that a drive's cache may be: metadata of a small drive, and some requests.
const CACHE_MIN: u64 = 64 << 20;

/// The limits, and their current effect.
pub struct Limits {
    path: PathBuf,
    pacer: Pacer,
    // Held for a change and its file.
    saved: Mutex<Saved>,
    /// Whether the network is metered, if known.
    metered: watch::Sender<Option<bool>>,
    /// Why uploads and background downloads wait, if they do.
    waiting: watch::Sender<Option<Waits>>,
    /// A setting that depends on the clock was changed: a pause, or the quiet hours.
    clocked: Notify,
    /// Count caches beside one.
    // Held to ask them, or to add one.
    caches: Mutex<Vec<CountCaches>>,
}

/// Bytes in the caches of closed places, and the number of open places, without the one of this identity.
type CountCaches = Box<dyn Fn(Uuid) -> (u64, u64) + Send + Sync>;

/// A place's share of the limit for all caches, beside closed places and other open ones. Pure.
pub(super) fn share(total: u64, (closed_bytes, others_open): (u64, u64)) -> u64 {
    total.saturating_sub(closed_bytes) / (others_open + 1)
}

impl Limits {
    /// The limits that the state directory remembers. A file that cannot be read means no limits, and that is logged.
    pub fn load(state: &Path) -> Arc<Self> {
        let path = state.join("limits.json");
        let saved = read(&path).unwrap_or_else(|error| {
            tracing::error!(%error, "limits.json cannot be read: there are no limits until some are set");
            Saved::default()
        });
        let login = proxy::Login::load(state).unwrap_or_else(|error| {
            tracing::error!(%error, "the login for the proxy cannot be read: requests are sent without it");
            None
        });
        let limits = Self {
            path,
            pacer: Pacer::new(),
            saved: Mutex::new(saved.clone()),
            metered: watch::Sender::new(None),
            waiting: watch::Sender::new(None),
            clocked: Notify::new(),
            caches: Mutex::default(),
        };
        if let Err(error) = limits.apply_proxy(saved.proxy.as_ref(), login.as_ref()) {
            tracing::error!(%error, "the proxy cannot be used: stores are reached directly");
        }
        limits.apply(&saved);
        Arc::new(limits)
    }

    /// Paces the traffic to stores.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Why uploads and background downloads wait, if they do.
    pub fn waiting(&self) -> watch::Receiver<Option<Waits>> {
        self.waiting.subscribe()
    }

    /// Bytes of cache for each drive, if a person has set a limit.
    pub fn cache_bytes(&self) -> Option<u64> {
        self.saved.lock().cache
    }

    /// Bytes of cache for all drives together, if a person has set a limit.
    pub fn cache_total_bytes(&self) -> Option<u64> {
        self.saved.lock().cache_total
    }

    /// Has caches counted too.
    pub fn count_caches(&self, count: impl Fn(Uuid) -> (u64, u64) + Send + Sync + 'static) {
        self.caches.lock().push(Box::new(count));
    }

    /// Bytes in the caches of closed drives and folders, and the number of open ones, without the one of this identity.
    pub fn others_caches(&self, but_for: Uuid) -> (u64, u64) {
        let counts = self.caches.lock();
        counts.iter().map(|count| count(but_for)).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// How programs that scan a drive are treated.
    pub fn indexers(&self) -> Indexers {
        self.saved.lock().indexers
    }

    /// The limits as they are now.
    pub fn shown(&self) -> api::Limits {
        let saved = self.saved.lock().clone();
        api::Limits {
            up_bytes_per_s: saved.up,
            down_bytes_per_s: saved.down,
            cache_bytes: saved.cache,
            cache_total_bytes: saved.cache_total,
            cache_of: BTreeMap::new(),
            indexers: saved.indexers,
            on_metered: saved.on_metered,
            metered: *self.metered.borrow(),
            waiting: *self.waiting.borrow() == Some(Waits::Metered),
            paused_until: saved.paused_until.filter(|until| *until > now_ms()).map(time),
            quiet: saved.quiet,
            quiet_now: saved.is_quiet(),
            proxy: match &saved.proxy {
                None | Some(SetProxy::Off) => ProxyUse::Off,
                Some(SetProxy::Environment) => ProxyUse::Environment,
                Some(SetProxy::Server { .. }) => ProxyUse::Server,
            },
            proxy_address: self.pacer.proxy().map(|proxy| proxy.address()),
            proxy_except: match saved.proxy {
                Some(SetProxy::Server { except, .. }) if !except.is_empty() => Some(except),
                _ => None,
            },
        }
    }

    /// Changes them. Transfers under way continue at the new rate.
    pub fn set(&self, changes: SetLimits) -> Result<api::Limits, Failure> {
        {
            let proxied = changes.proxy.map(proxy::split);
            let mut saved = self.saved.lock();
            let changed = Saved {
                up: changed(saved.up, changes.up_bytes_per_s)?,
                down: changed(saved.down, changes.down_bytes_per_s)?,
                cache: changed_cache(saved.cache, changes.cache_bytes)?,
                cache_total: changed_cache(saved.cache_total, changes.cache_total_bytes)?,
                indexers: changes.indexers.unwrap_or(saved.indexers),
                on_metered: changes.on_metered.unwrap_or(saved.on_metered),
                paused_until: changed_pause(saved.paused_until, changes.pause_for_ms)?,
                quiet: quiet::changed(saved.quiet, changes.quiet)?,
                proxy: proxied.as_ref().map(|(set, _)| set.clone()).or_else(|| saved.proxy.clone()),
            };
            if let Some((set, login)) = &proxied {
                // An unusable proxy is not remembered. Its login is saved first: a proxy that is asked without it only refuses.
                proxy::of(Some(set), login.as_ref()).map_err(|error| proxy::failure(&error))?;
                let state = self.path.parent().expect("a file lies in a directory");
                proxy::Login::save(login.as_ref(), state).map_err(|error| failure::local(&error))?;
            }
            let bytes =
                serde_json::to_vec_pretty(&changed).expect("a structure of plain fields becomes JSON");
            registry::replace(&self.path, &bytes).map_err(|error| failure::local(&error))?;
            self.apply(&changed);
            if let Some((set, login)) = &proxied {
                // It was checked just now.
                let _ = self.apply_proxy(Some(set), login.as_ref());
            }
            *saved = changed;
            self.clocked.notify_one();
        }
        Ok(self.shown())
    }

    /// Follows the network for as long as the daemon runs.
    pub async fn follow_network(self: Arc<Self>) {
        metered::follow(|metered| {
            self.metered.send_replace(metered);
            let saved = self.saved.lock().clone();
            self.apply(&saved);
        })
        .await;
    }

    /// Begins and ends what depends on the clock, for as long as the daemon runs.
    pub async fn follow_clock(self: Arc<Self>) {
        loop {
            let saved = self.saved.lock().clone();
            self.apply(&saved);
            let left = saved.paused_until.map(|until| Duration::from_millis(until.saturating_sub(now_ms())));
            let left = left.filter(|left| !left.is_zero()).or(saved.quiet.map(|_| CLOCK_EVERY));
            match left {
                Some(left) => tokio::select! {
                    () = self.clocked.notified() => {}
                    () = tokio::time::sleep(left.min(CLOCK_EVERY)) => {}
                },
                None => self.clocked.notified().await,
            }
        }
    }

    fn apply_proxy(&self, set: Option<&SetProxy>, login: Option<&proxy::Login>) -> Result<(), ProxyError> {
        let used = proxy::of(set, login);
        self.pacer.set_proxy(used.clone().ok().flatten());
        used.map(drop)
    }

    fn apply(&self, saved: &Saved) {
        self.pacer.set(Direction::Up, saved.up);
        self.pacer.set(Direction::Down, saved.down);
        let is_metered = saved.on_metered == OnMetered::Pause && *self.metered.borrow() == Some(true);
        let waiting = match saved.paused_until.is_some_and(|until| until > now_ms()) {
            true => Some(Waits::Paused),
            false if saved.is_quiet() => Some(Waits::Quiet),
            false => is_metered.then_some(Waits::Metered),
        };
        self.waiting.send_if_modified(|before| std::mem::replace(before, waiting) != waiting);
    }
}

fn read(path: &Path) -> io::Result<Saved> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Saved::default()),
        Err(error) => Err(error),
    }
}

fn changed(before: Option<u64>, change: Option<u64>) -> Result<Option<u64>, Failure> {
    match change {
        None => Ok(before),
        Some(0) => Ok(None),
        Some(rate) if rate < RATE_MIN => Err(failure(
            Code::Usage,
            format!("{} per second is too slow: requests would time out.", crate::sizes::format_bytes(rate)),
            failure::NOTHING_CHANGED,
            format!("Give {} or more, or pause uploads.", crate::sizes::format_bytes(RATE_MIN)),
        )),
        Some(rate) => Ok(Some(rate)),
    }
}

fn changed_pause(before: Option<u64>, change: Option<u64>) -> Result<Option<u64>, Failure> {
    match change.map(Duration::from_millis) {
        None => Ok(before.filter(|until| *until > now_ms())),
        Some(Duration::ZERO) => Ok(None),
        Some(pause) if pause > PAUSE_MAX => Err(failure(
            Code::Usage,
            "All drives can be paused for a month at most.",
            failure::NOTHING_CHANGED,
            api::Action::Pause { drive: None },
        )),
        Some(pause) => Ok(Some(now_ms() + pause.as_millis() as u64)),
    }
}

pub(super) fn changed_cache(before: Option<u64>, change: Option<u64>) -> Result<Option<u64>, Failure> {
    match change {
        None => Ok(before),
        Some(0) => Ok(None),
        Some(bytes) if bytes < CACHE_MIN => Err(failure(
            Code::Usage,
            format!("A cache of {} is too small to work with.", crate::sizes::format_bytes(bytes)),
            failure::NOTHING_CHANGED,
            format!("Give {} or more.", crate::sizes::format_bytes(CACHE_MIN)),
        )),
        Some(bytes) => Ok(Some(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_remembered_and_taken_away() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let limits = Limits::load(state.path());
        assert_eq!(limits.shown().up_bytes_per_s, None);
        let change = SetLimits { up_bytes_per_s: Some(1 << 20), ..SetLimits::default() };
        limits.set(change).expect("it is saved");
        assert_eq!(limits.pacer().rate(Direction::Up), Some(1 << 20));
        let again = Limits::load(state.path());
        assert_eq!((again.shown().up_bytes_per_s, again.shown().down_bytes_per_s), (Some(1 << 20), None));
        again.set(SetLimits { up_bytes_per_s: Some(0), ..SetLimits::default() }).expect("it is saved");
        assert_eq!(Limits::load(state.path()).pacer().rate(Direction::Up), None);
        let refused = again.set(SetLimits { down_bytes_per_s: Some(100), ..SetLimits::default() });
        assert_eq!(refused.expect_err("it is too slow").code, Code::Usage);
        let cache = |bytes| SetLimits { cache_bytes: Some(bytes), ..SetLimits::default() };
        assert_eq!(again.set(cache(1 << 20)).expect_err("it is too small").code, Code::Usage);
        again.set(cache(1 << 30)).expect("it is saved");
        assert_eq!(Limits::load(state.path()).cache_bytes(), Some(1 << 30));
    }

    #[test]
    fn open_places_share_what_closed_ones_leave() {
        const GIB: u64 = 1 << 30;
        assert_eq!(share(20 * GIB, (0, 0)), 20 * GIB);
        assert_eq!(share(20 * GIB, (8 * GIB, 0)), 12 * GIB);
        assert_eq!(share(20 * GIB, (8 * GIB, 2)), 4 * GIB);
        assert_eq!(share(20 * GIB, (30 * GIB, 1)), 0);
        let state = tempfile::tempdir().expect("a temporary directory");
        let limits = Limits::load(state.path());
        limits.count_caches(|_| (3, 1));
        limits.count_caches(|but_for| if but_for.is_nil() { (0, 0) } else { (4, 0) });
        assert_eq!(limits.others_caches(Uuid::nil()), (3, 1));
        assert_eq!(limits.others_caches(Uuid::from_u128(1)), (7, 1));
    }

    #[test]
    fn uploads_wait_on_a_metered_network_by_default() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let limits = Limits::load(state.path());
        let waiting = limits.waiting();
        assert!(waiting.borrow().is_none(), "nobody says that it is metered");
        limits.metered.send_replace(Some(true));
        limits.apply(&limits.saved.lock().clone());
        assert_eq!(*waiting.borrow(), Some(Waits::Metered));
        let change = SetLimits { on_metered: Some(OnMetered::GoOn), ..SetLimits::default() };
        limits.set(change).expect("it is saved");
        assert!(waiting.borrow().is_none());
    }

    #[tokio::test]
    async fn quiet_hours_are_remembered_and_end() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let limits = Limits::load(state.path());
        let quiet = |days| SetLimits {
            quiet: Some(QuietHours { from_minute: 600, until_minute: 600, days: [days; 7] }),
            ..SetLimits::default()
        };
        let following = tokio::spawn(limits.clone().follow_clock());
        // The whole of every day.
        assert!(limits.set(quiet(true)).expect("it is saved").quiet_now);
        assert_eq!(*Limits::load(state.path()).waiting().borrow(), Some(Waits::Quiet));
        assert_eq!(limits.set(quiet(false)).expect("it is saved").quiet, None);
        let mut waiting = limits.waiting();
        waiting.wait_for(Option::is_none).await.expect("it goes on");
        following.abort();
        let mut late = quiet(true);
        late.quiet.as_mut().expect("it has hours").until_minute = 1440;
        assert_eq!(limits.set(late).expect_err("no such time").code, Code::Usage);
    }

    #[tokio::test]
    async fn a_pause_of_all_drives_is_remembered_and_ended() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let pause = |ms| SetLimits { pause_for_ms: Some(ms), ..SetLimits::default() };
        let limits = Limits::load(state.path());
        assert!(limits.set(pause(3_600_000)).expect("it is saved").paused_until.is_some());
        assert_eq!(*limits.waiting().borrow(), Some(Waits::Paused));
        let again = Limits::load(state.path());
        assert_eq!(*again.waiting().borrow(), Some(Waits::Paused));
        let other = SetLimits { up_bytes_per_s: Some(1 << 20), ..SetLimits::default() };
        assert!(again.set(other).expect("it is saved").paused_until.is_some(), "it stays");
        assert_eq!(again.set(pause(0)).expect("it is saved").paused_until, None);
        assert!(again.waiting().borrow().is_none());
        assert_eq!(again.set(pause(u64::MAX)).expect_err("it is too long").code, Code::Usage);
        // A pause that is over ends by itself.
        again.set(pause(1)).expect("it is saved");
        let mut waiting = again.waiting();
        let following = tokio::spawn(again.clone().follow_clock());
        waiting.wait_for(Option::is_none).await.expect("it goes on");
        following.abort();
    }
}
