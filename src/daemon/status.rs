//! The status of a drive, for people and programs.

use super::drive::Drive;
use super::{failure, stores};
use crate::api::{self, DriveState, DriveStatus};
use condition::{Condition, Engine, Facts, Uploads, condition};
pub use condition::{JOURNAL_IS_NEARLY_FULL, JOURNAL_WARNS, Phase};
use holdall_core::drive::{Root, Snapshot};
use holdall_core::heads::Head;
use holdall_core::push::{Collecting, Device, Stage};
use holdall_core::store::meter::ByKind;
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{Volume, VolumeStatus};

mod condition;

impl Drive {
    /// Sets the operation under way.
    pub(super) fn set_phase(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// The current status.
    pub async fn status(&self) -> DriveStatus {
        let volume = self.live.read().clone();
        let place = self.place.read().clone();
        let used_bytes = match &place {
            Some(place) => self.figures.used_bytes(place).await,
            None => 0,
        };
        // Before anything is locked: looking for the forks examines all drives, including this one.
        let (replicas, forks, pins) = (self.replica_statuses(), self.forks(), self.pins());
        let pins_warning = self.pins.warning(volume.as_deref());
        let config = self.config.lock().clone();
        let now = volume.as_ref().map(|volume| volume.status());
        let (phase, last) = (self.phase.lock().clone(), self.figures.last());
        let mut status = match (&volume, &now) {
            (Some(volume), Some(now)) => self.of_volume(volume, now, last.as_ref()),
            _ => last.unwrap_or_else(|| self.blank()),
        };
        if volume.is_some() {
            let in_memory = self.in_memory_bytes();
            (status.dirty_bytes, status.unpushed_bytes) =
                (status.dirty_bytes + in_memory, status.unpushed_bytes + in_memory);
        }
        let Condition { state, why, needs_login } = condition(&Facts {
            name: self.name.clone(),
            store: config.store.clone(),
            phase: phase.clone(),
            engine: now.as_ref().map(engine),
            paused: self.pause(),
            hindrance: self.reached.read().as_ref().and_then(|reached| reached.hindrance()),
            looks_because: self.looks_because.lock().clone(),
            has_unsent: status.unpushed_bytes > 0,
            unsent: status.unsent(),
            pins: pins_warning,
            full: place
                .as_ref()
                .and_then(|_| self.figures.full())
                .map(|full| (full.reason(), full.action(&self.name))),
            taken_by: volume.as_deref().and_then(|volume| self.fork_in(volume)).map(|fork| fork.taken_by),
            has_forks: !forks.is_empty(),
        });
        status.needs_login = needs_login;
        status.draining = phase == Phase::Draining && config.open.is_none();
        status.state = state;
        (status.reason, status.advice) = why.map_or((None, None), |why| (Some(why.reason), why.advice));
        status.since = time(self.figures.since_ms(state));
        status.paused = config.paused;
        status.used_bytes = used_bytes;
        status.proxy = stores::proxy_to(self.stores.limits(), &config.store);
        status.pins = pins;
        status.replicas = replicas;
        status.forks = forks;
        if let Some(place) = place {
            status.mountpoint = Some(place.mountpoint());
            status.block_device = Some(place.block_device);
            status.attach = Some(place.attach);
        }
        if let Some(volume) = &volume {
            self.figures.keep(&status, volume.pusher().is_none());
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

    fn of_volume(&self, volume: &Volume, now: &VolumeStatus, last: Option<&DriveStatus>) -> DriveStatus {
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
            status.last_commit_at = last.and_then(|last| last.last_commit_at.clone());
            if is_left {
                let counted =
                    last.filter(|last| last.unpushed_is_known).map_or(0, |last| last.unpushed_bytes);
                status.set_unsent(counted);
            }
        }
        let since = now.push.as_ref().and_then(|push| push.waiting_since);
        status.oldest_dirty_age_ms = since.map_or(0, |since| since.elapsed().as_millis() as u64);
        status.cache = split(volume, now);
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

/// What decides the state of a drive, of what the engine says.
fn engine(now: &VolumeStatus) -> Engine {
    let uploads = now.push.as_ref().map(|push| Uploads {
        stopped: push.stopped.as_ref().map(failure::push),
        trouble: push.trouble.clone(),
        is_pushing: push.pushing,
    });
    Engine {
        uploads,
        local_trouble: now.local_trouble.clone(),
        pull_trouble: now.pull_trouble.clone(),
        pull_damage: now.pull_damage.clone(),
        unpushed_bytes: now.unpushed_bytes,
        journal_bytes: now.journal_bytes,
        journal_limit_bytes: now.journal_limit_bytes,
        has_metadata: now.has_metadata,
        has_more_metadata: now.has_more_metadata,
        metadata_without_room_bytes: now.metadata_without_room_bytes,
        least_cache_bytes: now.least_cache_bytes,
        slows_scan: now.slows_scan,
    }
}

/// One figure for each kind of request.
pub fn by_kind(ByKind { get, put, head, list, delete }: ByKind) -> api::ByKind {
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
