//! The status of a folder, for people and programs.

use super::condition::{Condition, Engine, Facts, Phase, condition};
use super::queue::{counts, first_failed};
use super::{Folder, Live, passthrough};
use crate::api::{self, FolderKind, FolderStatus, Passthrough};
use crate::daemon::status::{by_kind, time};
use holdall_core::folder::outbox::Queue;

/// Items that are looked at to explain a state: failures come among the first.
const LOOKED_AT: usize = 100;

impl Folder {
    /// The current status.
    pub fn status(&self) -> FolderStatus {
        let live = self.live.read().clone();
        let phase = self.phase.lock().clone();
        let (config, last) = (self.config.lock().clone(), self.figures.last());
        let queue = live.as_ref().map(|live| live.engine.outbox().queue(LOOKED_AT)).unwrap_or_default();
        let engine = live.as_ref().map(|live| engine(live, &queue));
        let now = live.as_ref().map(|live| live.engine.status());
        // Bytes that were just uploaded count as dirty for a moment longer; the queue says what differs.
        let unsent = if live.is_some() { counts(&queue).all() > 0 } else { config.unsent };
        let Condition { state, reason, advice, needs_login } = condition(&Facts {
            name: self.name.clone(),
            url: config.url.clone(),
            phase: phase.clone(),
            engine,
            paused: self.pause(),
            unsent,
        });
        let is_mounted = phase == Phase::Open;
        let meter = live.as_ref().map(|live| live.meter.clone()).unwrap_or_default();
        let passthrough = match (&live, is_mounted) {
            (Some(live), true) => passthrough::now(&live.passthrough, live.registering.now()),
            _ => Passthrough::default(),
        };
        let read_only = live.as_ref().map_or(config.read_only, |live| live.read_only.is_some());
        let mountpoint = config.mount.filter(|_| is_mounted).map(|mount| mount.path.display().to_string());
        FolderStatus {
            name: self.name.clone(),
            uuid: self.uuid.to_string(),
            kind: kind(&config.url),
            url: config.url,
            state,
            reason,
            advice,
            since: time(self.figures.since_ms(state)),
            paused: config.paused,
            needs_login,
            draining: phase == Phase::Draining && unsent,
            unsent,
            mountpoint,
            read_only,
            passthrough,
            known_files: now.as_ref().map_or(last.known_files, |now| now.known_files),
            cached_bytes: now.as_ref().map_or(last.cached_bytes, |now| now.cached_bytes),
            dirty_bytes: now.as_ref().map_or(last.dirty_bytes, |now| now.dirty_bytes),
            queue: counts(&queue),
            conflicts: now.as_ref().map_or(last.conflicts, |now| now.conflicts),
            held_deletions: now.as_ref().map_or(last.held_deletions, |now| now.held_deletions),
            pinned_bytes: match &live {
                Some(live) => live.engine.pinned_and_missing_bytes().0,
                None => last.pinned_bytes,
            },
            requests: by_kind(meter.requests()),
            sent_bytes: meter.sent_bytes().total(),
            received_bytes: meter.received_bytes().total(),
            last_uploaded_at: queue.last_uploaded_ms.or(last.last_uploaded_ms).map(time),
            daemon_pid: std::process::id(),
            watched: None,
        }
    }
}

fn engine(live: &Live, queue: &Queue) -> Engine {
    let status = live.engine.status();
    Engine {
        link: live.remote.link(),
        read_only: live.read_only.clone(),
        queue: counts(queue),
        failed: first_failed(queue),
        trouble: queue.trouble.clone(),
        stale_because: status.stale_because,
        conflicts: status.conflicts,
        held: status.held_deletions,
    }
}

/// Where the files of a folder are.
pub fn kind(url: &str) -> FolderKind {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("s3") => FolderKind::S3,
        Some("file") => FolderKind::File,
        _ => FolderKind::Dav,
    }
}

/// The status of a folder whose configuration cannot be read.
pub fn damaged(uuid: uuid::Uuid, name: &str, failure: api::Failure, since_ms: u64) -> FolderStatus {
    let facts = Facts {
        name: name.to_owned(),
        url: String::new(),
        phase: Phase::Failed(failure),
        engine: None,
        paused: None,
        unsent: true,
    };
    let Condition { state, reason, advice, .. } = condition(&facts);
    FolderStatus {
        name: name.to_owned(),
        uuid: uuid.to_string(),
        url: String::new(),
        kind: FolderKind::File,
        state,
        reason,
        advice,
        since: time(since_ms),
        paused: false,
        needs_login: false,
        draining: false,
        unsent: true,
        mountpoint: None,
        read_only: false,
        passthrough: Passthrough::default(),
        known_files: 0,
        cached_bytes: 0,
        dirty_bytes: 0,
        queue: api::FolderQueueCounts::default(),
        conflicts: 0,
        held_deletions: 0,
        pinned_bytes: 0,
        requests: api::ByKind::default(),
        sent_bytes: 0,
        received_bytes: 0,
        last_uploaded_at: None,
        daemon_pid: std::process::id(),
        watched: None,
    }
}
