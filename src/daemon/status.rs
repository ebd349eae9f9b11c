//! The status of a drive, for people and programs.

use super::drive::Drive;
use super::stores::renewable::Hindrance;
use super::{failure, stores};
use crate::api::{self, Action, Actions, DriveState, DriveStatus};
use crate::sizes::format_bytes;
use holdall_core::drive::{Root, Snapshot};
use holdall_core::family::FamilyError;
use holdall_core::heads::Head;
use holdall_core::push::{Collecting, Device, Stage};
use holdall_core::store::meter::ByKind;
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{Volume, VolumeStatus};
use holdall_gui::advice;

/// The last shown state, since when, and the other facts that are known without the engine.
pub struct Shown {
    /// The operation under way, or what went wrong, apart from the engine.
    pub phase: Phase,
    state: DriveState,
    since_ms: u64,
    /// The figures from when it was last open.
    pub(super) last: Option<DriveStatus>,
}

/// The phase of a drive, as far as the engine does not know it.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Not open.
    Closed,
    /// Being opened.
    Connecting,
    /// The same for a drive that was open when the service ended: what was saved then is used.
    Recovering,
    /// Open.
    Open,
    /// Unmounted; the rest is being uploaded.
    Draining,
    /// It could not be opened again.
    Failed(api::Failure),
}

/// Why a drive is in its state, and what to do about it, where the state alone does not say so.
struct Why {
    reason: String,
    advice: Option<api::Advice>,
}

impl Why {
    /// With what to do about it.
    fn and_do(reason: String, actions: impl Into<Actions>) -> Self {
        let actions = actions.into();
        let on_screen = advice::steps(&actions.0);
        Self { reason, advice: Some(api::Advice::new(None, actions, on_screen)) }
    }

    fn and(self, more: &str) -> Self {
        Self { reason: format!("{}; {more}", self.reason), ..self }
    }
}

impl From<&str> for Why {
    fn from(reason: &str) -> Self {
        Self { reason: reason.to_owned(), advice: None }
    }
}

impl From<api::Failure> for Why {
    fn from(failure: api::Failure) -> Self {
        let api::Failure { message, consequence, actions, on_screen, .. } = advice::shown(failure);
        let advice = api::Advice::new(Some(consequence), actions, on_screen.into_vec());
        Self { reason: message, advice: Some(advice) }
    }
}

impl Shown {
    /// A drive before its first look.
    pub fn closed() -> Self {
        Self { phase: Phase::Closed, state: DriveState::Closed, since_ms: now_ms(), last: None }
    }
}

impl Drive {
    /// The last figures were those of a fork that is no longer in the drive's place.
    pub(super) fn forget_figures(&self) {
        super::drive::forget_figures(&self.registry.directory(&self.name));
        self.shown.lock().last = None;
    }

    /// Sets the operation under way.
    pub(super) fn set_phase(&self, phase: Phase) {
        self.shown.lock().phase = phase;
    }

    /// The current status.
    pub async fn status(&self) -> DriveStatus {
        let volume = self.live.read().clone();
        let place = self.place.read().clone();
        let used_bytes = match &place {
            Some(place) => self.usage.used_bytes(place).await,
            None => 0,
        };
        // Before anything is locked: looking for the forks examines all drives, including this one.
        let (replicas, forks, pins) = (self.replica_statuses(), self.forks(), self.pins());
        let config = self.config.lock().clone();
        let mut shown = self.shown.lock();
        let mut status = match &volume {
            Some(volume) => self.of_volume(volume, &shown),
            None => shown.last.clone().unwrap_or_else(|| self.blank()),
        };
        if volume.is_some() {
            let in_memory = self.in_memory_bytes();
            (status.dirty_bytes, status.unpushed_bytes) =
                (status.dirty_bytes + in_memory, status.unpushed_bytes + in_memory);
        }
        let named = |failure| failure::named(failure, &self.name, &config.store);
        let (mut state, mut why) = state(&shown.phase, volume.as_deref(), self.pause(), &self.name, &named);
        let is_directory = failure::is_directory(&config.store);
        status.needs_login = !is_directory
            && matches!(&shown.phase, Phase::Failed(failure) if failure.code == api::Code::Credentials);
        let hindrance = self.reached.read().as_ref().and_then(|reached| reached.hindrance());
        // A directory has no login: the file system it is on must let this user in.
        let hindrance = hindrance.map(|hindrance| match hindrance {
            Hindrance::Credentials(what) if is_directory => Hindrance::Store(what),
            hindrance => hindrance,
        });
        match (state, hindrance) {
            // Waiting does not help: a person must act.
            (DriveState::Offline, Some(Hindrance::Credentials(what))) if volume.is_some() => {
                state = DriveState::NeedsAttention;
                status.needs_login = true;
                let reason = format!("{what}; {UPLOADS_WAIT}");
                why = Some(Why::and_do(reason, Action::LogIn { store: Some(config.store.clone()) }));
            }
            (DriveState::Offline, Some(Hindrance::Keyring { what, actions })) if volume.is_some() => {
                state = DriveState::NeedsAttention;
                why = Some(Why::and_do(format!("{what}; {UPLOADS_WAIT}"), actions));
            }
            (DriveState::Offline, Some(Hindrance::Store(what))) if volume.is_some() => {
                state = DriveState::NeedsAttention;
                let safe = "your files on this computer are safe, and uploads continue by themselves once this is fixed";
                why = Some(Why::from(&*what).and(safe));
            }
            (DriveState::Offline, Some(Hindrance::Emptied)) if volume.is_some() => {
                state = DriveState::NeedsAttention;
                why = Some(Why::from(named(failure::known_family(&FamilyError::None))));
            }
            (DriveState::ReadOnly, hindrance) => {
                let needs_login = matches!(hindrance, Some(Hindrance::Credentials(_)));
                why = self.looks_because.lock().as_deref().map(Why::from).or(why);
                let now = volume.as_ref().map(|volume| volume.status());
                let hindered = match hindrance {
                    Some(
                        Hindrance::Credentials(what)
                        | Hindrance::Store(what)
                        | Hindrance::Keyring { what, .. },
                    ) => Some(what),
                    Some(Hindrance::Emptied) | None => None,
                };
                if let Some(trouble) = now.as_ref().and_then(|now| now.pull_trouble.clone()) {
                    status.needs_login |= needs_login;
                    why = why.map(|why| why.and(&format!("{LACKS_REST}: {}", hindered.unwrap_or(trouble))));
                } else if let Some(damage) = now.and_then(|now| now.pull_damage) {
                    why = why.map(|why| why.and(&damage));
                }
                if status.unpushed_bytes > 0 {
                    why = why.map(|why| why.and(WAITS_FOR_LOOK));
                }
            }
            (DriveState::Ready | DriveState::Syncing, _) => {
                let kept =
                    || [Action::Pins { drive: Some(self.name.clone()) }, Action::GrowCache { size: None }];
                let warned = |reason| Why::and_do(reason, kept());
                // The names of files may never arrive if what is kept leaves no space for them.
                let waits = volume.as_ref().is_some_and(|volume| !volume.status().has_metadata);
                let pins = self.pins.warning(volume.as_deref()).map(warned);
                why = if waits { pins.or(why) } else { why.or(pins) };
                let full = place.as_ref().and_then(|_| self.usage.full());
                let full = full.map(|full| Why::and_do(full.reason(), full.action(&self.name)));
                why = why.or(full);
            }
            _ => {}
        }
        let fork = volume.as_deref().and_then(|volume| self.fork_in(volume));
        if let Some(fork) = fork.filter(|_| state != DriveState::NeedsAttention) {
            state = DriveState::Conflict;
            let uploads = match status.unpushed_bytes {
                0 => "all of it is uploaded".to_owned(),
                _ => format!("{} are being uploaded", status.unsent()),
            };
            let reason = format!(
                "{} has taken the drive over; your changes continue here as a fork, and {uploads}",
                fork.taken_by
            );
            why = Some(Why::and_do(reason, Action::Forks { drive: Some(self.name.clone()) }));
        }
        // Only with a fork are both versions kept, and can be compared.
        if state == DriveState::Conflict && forks.is_empty() {
            state = DriveState::NeedsAttention;
        }
        if shown.state != state {
            (shown.state, shown.since_ms) = (state, now_ms());
        }
        status.draining = shown.phase == Phase::Draining && config.open.is_none();
        status.state = state;
        (status.reason, status.advice) = why.map_or((None, None), |why| (Some(why.reason), why.advice));
        status.since = time(shown.since_ms);
        status.paused = config.paused;
        status.used_bytes = used_bytes;
        status.proxy = stores::proxy_to(self.stores.limits(), &config.store);
        status.pins = pins;
        status.replicas = replicas;
        if let (Some(last), true) = (&mut shown.last, volume.is_some()) {
            last.replicas.clone_from(&status.replicas);
        }
        status.forks = forks;
        if let Some(place) = place {
            status.mountpoint = Some(place.mountpoint());
            status.block_device = Some(place.block_device);
            status.attach = Some(place.attach);
        }
        let is_of_a_look = volume.as_ref().is_some_and(|volume| volume.pusher().is_none());
        if volume.is_some() && (!is_of_a_look || shown.last.is_none()) {
            let mut last = status.clone();
            (last.block_device, last.mountpoint, last.attach) = (None, None, None);
            (last.pending_pull_bytes, last.batch_bytes, last.batch_done_bytes) = (0, 0, 0);
            (last.lacks_metadata, last.collecting, last.prefetch_bytes) = (false, None, 0);
            shown.last = Some(last);
        }
        status
    }

    pub(super) fn blank(&self) -> DriveStatus {
        let mode = self.store_mode();
        let config = self.config.lock();
        DriveStatus {
            name: self.name.clone(),
            uuid: config.drive.to_string(),
            state: DriveState::Closed,
            reason: None,
            advice: None,
            since: time(now_ms()),
            paused: config.paused,
            needs_login: false,
            draining: false,
            epoch: 0,
            root: None,
            size_bytes: 0,
            cached_bytes: 0,
            unapplied_bytes: 0,
            cache_limit_bytes: 0,
            dirty_bytes: 0,
            unpushed_bytes: 0,
            unpushed_is_known: true,
            batch_bytes: 0,
            batch_done_bytes: 0,
            uploaded_bytes: 0,
            collecting: None,
            cache: api::CacheSplit::default(),
            oldest_dirty_age_ms: 0,
            journal_bytes: 0,
            journal_limit_bytes: 0,
            pending_pull_bytes: 0,
            prefetch_bytes: 0,
            lacks_metadata: false,
            fetched_bytes: 0,
            fetched_used_bytes: 0,
            pinned_bytes: 0,
            pins: Vec::new(),
            block_device: None,
            attach: None,
            mountpoint: None,
            store: config.store.clone(),
            proxy: stores::proxy_to(self.stores.limits(), &config.store),
            store_mode: stores::told(mode),
            holder: None,
            last_commit_at: None,
            requests: api::ByKind::default(),
            sent_bytes: 0,
            received_bytes: 0,
            sent_by_kind: api::ByKind::default(),
            received_by_kind: api::ByKind::default(),
            used_bytes: 0,
            replicas: Vec::new(),
            forks: Vec::new(),
            daemon_pid: std::process::id(),
        }
    }

    fn of_volume(&self, volume: &Volume, shown: &Shown) -> DriveStatus {
        let now = volume.status();
        let mut status = self.blank();
        status.size_bytes = now.size_bytes;
        status.cached_bytes = now.cached_bytes;
        status.unapplied_bytes = now.unapplied_bytes;
        status.cache_limit_bytes = now.cache_limit_bytes;
        status.dirty_bytes = now.dirty_bytes;
        status.unpushed_bytes = now.unpushed_bytes;
        status.journal_bytes = now.journal_bytes;
        status.journal_limit_bytes = now.journal_limit_bytes;
        status.pending_pull_bytes = now.pending_pull_bytes;
        status.prefetch_bytes = now.pending_trace_bytes;
        status.lacks_metadata = !now.has_metadata;
        status.fetched_bytes = now.fetched_bytes;
        status.fetched_used_bytes = now.fetched_used_bytes;
        status.pinned_bytes = volume.pinned_bytes();
        status.requests = by_kind(now.requests);
        (status.sent_bytes, status.sent_by_kind) = (now.sent_bytes.total(), by_kind(now.sent_bytes));
        (status.received_bytes, status.received_by_kind) =
            (now.received_bytes.total(), by_kind(now.received_bytes));
        if now.push.is_none() {
            status.root = Some(volume.opened_root_id().root_name());
            let is_left = self.config.lock().unsent;
            let last = shown.last.as_ref();
            status.last_commit_at = last.and_then(|last| last.last_commit_at.clone());
            if is_left {
                let counted =
                    last.filter(|last| last.unpushed_is_known).map_or(0, |last| last.unpushed_bytes);
                status.set_unsent(counted);
            }
        }
        let since = now.push.as_ref().and_then(|push| push.waiting_since);
        status.oldest_dirty_age_ms = since.map_or(0, |since| since.elapsed().as_millis() as u64);
        status.cache = split(volume, &now);
        if let Some(push) = &now.push {
            status.uploaded_bytes = push.put_bytes;
            if push.pushing {
                (status.batch_done_bytes, status.batch_bytes) = push.batch;
            }
            status.collecting = push.collecting.map(collecting);
            status.epoch = push.epoch.0;
            status.root = Some(push.root.root_name());
            status.last_commit_at = Some(time(push.committed_ms));
            let Device { id, name } = self.registry.device().clone();
            let (device, last_commit_at) = (id.to_string(), status.last_commit_at.clone());
            status.holder = Some(api::Holder { device, name, epoch: push.epoch.0, last_commit_at });
        }
        status
    }
}

fn collecting(Collecting { stage, done, total }: Collecting) -> api::Collecting {
    let stage = match stage {
        Stage::Looking => api::CollectingStage::Looking,
        Stage::Deleting => api::CollectingStage::Deleting,
        Stage::Repacking => api::CollectingStage::Repacking,
    };
    api::Collecting { stage, done, total }
}

/// The parts of the cache. They are counted one after the other, so each is limited to what is left of the whole.
fn split(volume: &Volume, now: &VolumeStatus) -> api::CacheSplit {
    let mut left = now.cached_bytes;
    let mut take = |bytes: u64| {
        let taken = bytes.min(left);
        left -= taken;
        taken
    };
    let dirty_bytes = take(now.dirty_bytes);
    let pins = volume.pins_status();
    let pinned_bytes = take(pins.pinned_bytes.saturating_sub(pins.missing_bytes));
    let metadata_bytes = take(now.metadata_bytes);
    api::CacheSplit { dirty_bytes, pinned_bytes, metadata_bytes, evictable_bytes: left }
}

/// Shown while credentials are missing.
const UPLOADS_WAIT: &str = "your files on this computer are safe, and uploads wait";
/// Shown for a version that is only looked at, while the drive has a pending upload.
const WAITS_FOR_LOOK: &str = "changes that are only on this computer are uploaded once it is closed";
/// Shown for such a version while its store refuses requests.
const LACKS_REST: &str = "files that are not on this computer cannot be read now";
/// Shown for a drive that was open when the service ended.
const RECOVERS: &str = "it was open before a restart; saved files are being recovered";
/// From this fill level on (per mille of its limit), well before it slows writes, a filling journal is announced ...
pub const JOURNAL_WARNS: u64 = 600;
/// ... and once more when it is nearly full.
pub const JOURNAL_IS_NEARLY_FULL: u64 = 900;

fn state(
    phase: &Phase,
    volume: Option<&Volume>,
    paused: Option<&str>,
    name: &str,
    named: &dyn Fn(api::Failure) -> api::Failure,
) -> (DriveState, Option<Why>) {
    match (phase, volume) {
        (Phase::Connecting, _) => (DriveState::Connecting, None),
        (Phase::Recovering, _) => (DriveState::Recovering, Some(RECOVERS.into())),
        (Phase::Failed(failure), _) => {
            let state = match failure.code {
                api::Code::Offline => DriveState::Offline,
                api::Code::Conflict => DriveState::Conflict,
                api::Code::Held => DriveState::ReadOnly,
                _ => DriveState::NeedsAttention,
            };
            (state, Some(failure.clone().into()))
        }
        (Phase::Closed, _) | (_, None) => (DriveState::Closed, None),
        (Phase::Draining, Some(volume)) => {
            let status = volume.status();
            let waiting = (status.unpushed_bytes > 0)
                .then(|| format!("{} is still being uploaded", format_bytes(status.unpushed_bytes)));
            match of_engine(&status, paused, name, named) {
                (DriveState::Ready | DriveState::Syncing, _) => {
                    (DriveState::Closed, waiting.as_deref().map(Why::from))
                }
                trouble => trouble,
            }
        }
        (Phase::Open, Some(volume)) => of_engine(&volume.status(), paused, name, named),
    }
}

fn of_engine(
    status: &VolumeStatus,
    paused: Option<&str>,
    name: &str,
    named: &dyn Fn(api::Failure) -> api::Failure,
) -> (DriveState, Option<Why>) {
    let Some(push) = &status.push else {
        return (DriveState::ReadOnly, Some("it was opened read-only".into()));
    };
    if let Some(error) = &push.stopped {
        return (DriveState::NeedsAttention, Some(named(failure::push(error)).into()));
    }
    if let Some(trouble) = &status.local_trouble {
        return (DriveState::NeedsAttention, Some((&**trouble).into()));
    }
    let per_mille = status.journal_bytes * 1000 / status.journal_limit_bytes.max(1);
    let filling = (per_mille >= JOURNAL_WARNS).then(|| {
        format!(
            "the space for pending uploads is {} % full; at 100 %, saving waits for uploads",
            per_mille / 10
        )
    });
    // A person can do something about the cause of the filling.
    let because = |why: Why| match &filling {
        Some(filling) => Some(why.and(filling)),
        None => Some(why),
    };
    if let Some(trouble) = push.trouble.as_ref().or(status.pull_trouble.as_ref()) {
        return (DriveState::Offline, because((&**trouble).into()));
    }
    if let Some(damage) = &status.pull_damage {
        let why = Why::and_do(damage.clone(), Action::Check { drive: Some(name.to_owned()) });
        return (DriveState::NeedsAttention, because(why));
    }
    if let Some(why) = paused {
        return (DriveState::Paused, because(why.into()));
    }
    let too_small = (status.metadata_without_room_bytes > 0).then(|| {
        let (lacking, least) = (status.metadata_without_room_bytes, status.least_cache_bytes);
        let (lacking, least) = (format_bytes(lacking), format_bytes(least + least / 10));
        Why::and_do(
            format!("the cache is too small for all folder listings ({lacking} does not fit): it needs {least} or more"),
            Action::GrowCache { size: Some(least.clone()) },
        )
    });
    let too_many = status.has_more_metadata.then(|| {
        Why::from(
            "the drive has more folders than this computer keeps: without the store, some cannot be listed",
        )
    });
    if !status.has_metadata && too_small.is_none() && too_many.is_none() {
        return (
            DriveState::Syncing,
            Some(filling.as_deref().unwrap_or("folder listings are being downloaded").into()),
        );
    }
    let slowed = status.slows_scan.then(|| {
        Why::and_do(
            "a program reads the beginnings of many files and is slowed down".to_owned(),
            Action::Indexers,
        )
    });
    let filling = filling.as_deref().map(Why::from);
    match push.pushing {
        true => (DriveState::Syncing, filling.or(too_small).or(too_many)),
        false => (DriveState::Ready, filling.or(too_small).or(too_many).or(slowed)),
    }
}

fn by_kind(ByKind { get, put, head, list, delete }: ByKind) -> api::ByKind {
    api::ByKind { get, put, head, list, delete }
}

/// A snapshot.
pub fn snapshot(snapshot: &Snapshot) -> api::Snapshot {
    api::Snapshot {
        label: holdall_core::fork::shown(&snapshot.label).to_owned(),
        root: snapshot.root.root_name(),
        taken_at: time(snapshot.taken_ms),
        size_bytes: snapshot.size_blocks * BLOCK_BYTES,
    }
}

/// The device that holds a drive.
pub fn holder(head: &Head, root: &Root) -> api::Holder {
    let (device, last_commit_at) = (head.device.to_string(), Some(time(root.committed_ms)));
    api::Holder { device, name: head.device_name.clone(), epoch: head.epoch.0, last_commit_at }
}

/// The version that a HEAD names, to be compared with another one on this device.
pub fn current(head: &Head, root: &Root, here: &Device) -> api::Version {
    api::Version {
        device: head.device_name.clone(),
        this_device: head.device == here.id,
        committed_at: time(root.committed_ms),
        size_bytes: root.geometry.size_blocks * BLOCK_BYTES,
    }
}

/// The version that a HEAD names.
pub fn version(head: &Head, root: &Root) -> api::Synced {
    let lsn = root.lineage.iter().max_by_key(|lineage| lineage.epoch).map_or(0, |lineage| lineage.cut.0);
    api::Synced {
        root: head.root.root_name(),
        root_hash: data_encoding::HEXLOWER.encode(&head.root_hash),
        epoch: head.epoch.0,
        lsn,
    }
}

/// A time as RFC 3339.
pub fn time(ms: u64) -> String {
    let timestamp = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    timestamp.unwrap_or_default().to_string()
}

pub fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |elapsed| elapsed.as_millis() as u64)
}
