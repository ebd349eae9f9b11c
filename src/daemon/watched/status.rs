//! The status of a watched directory, in the terms of folders.

use super::directory::Directory;
use crate::api::{Action, FolderCommand, FolderStatus, Passthrough, WatchedDirectory};
use crate::daemon::folder::condition::{Condition, Engine, Facts, Phase, condition};
use crate::daemon::folder::queue::{counts, first_failed};
use crate::daemon::folder::status::kind;
use crate::daemon::status::{by_kind, time};
use holdall_core::watched::Problem;

impl Directory {
    /// The current status.
    pub fn status(&self) -> FolderStatus {
        let (config, live) = (self.config(), self.live.read().clone());
        let now = live.as_ref().map(|live| live.engine.status()).unwrap_or_default();
        let failed = self.failed.lock().clone();
        let phase = match (&failed, &live) {
            (Some(failure), None) => Phase::Failed(failure.clone()),
            (None, None) => Phase::Connecting,
            (_, Some(_)) => Phase::Open,
        };
        let engine = live.as_ref().map(|live| Engine {
            link: live.remote.link(),
            read_only: None,
            queue: counts(&now.queue),
            failed: first_failed(&now.queue),
            trouble: now.queue.trouble.clone(),
            stale_because: None,
            conflicts: now.conflicts,
            held: now.held_there,
        });
        let facts = Facts {
            name: self.name.clone(),
            url: config.url.clone(),
            phase,
            engine,
            paused: self.pause(),
            unsent: counts(&now.queue).all() > 0,
        };
        let deletions = Action::Folder { command: FolderCommand::Deletions, folder: Some(self.name.clone()) };
        let Condition { state, reason, advice, needs_login } = match &now.problem {
            Some(Problem::NoRoot(why)) => Condition::needs_attention(
                why.clone(),
                Action::tell("Bring the directory back, with its .holdall-folder."),
            ),
            Some(Problem::NoSpace) => Condition::needs_attention(
                "the local disk is full, so files of the remote do not come here",
                Action::tell("Free space on the local disk. Work resumes by itself."),
            ),
            Some(Problem::Table(why)) => Condition::needs_attention(
                format!("{why}; nothing is uploaded and nothing is deleted"),
                Action::tell("Check the local disk, and restart the service."),
            ),
            _ if now.held_here > 0 => Condition::needs_attention(
                format!(
                    "{} files were deleted here, which is unusual; at the remote they stay until you decide",
                    now.held_here
                ),
                deletions,
            ),
            _ => condition(&facts),
        };
        let meter = live.as_ref().map(|live| live.meter.clone()).unwrap_or_default();
        FolderStatus {
            name: self.name.clone(),
            uuid: config.uuid.to_string(),
            kind: kind(&config.url),
            url: config.url,
            state,
            reason,
            advice,
            since: self.since(state),
            paused: config.paused,
            needs_login,
            draining: false,
            unsent: facts.unsent,
            mountpoint: None,
            read_only: false,
            passthrough: Passthrough::default(),
            known_files: now.known_files,
            cached_bytes: 0,
            dirty_bytes: now.queue.bytes,
            queue: counts(&now.queue),
            conflicts: now.conflicts,
            held_deletions: now.held_here + now.held_there,
            pinned_bytes: 0,
            requests: by_kind(meter.requests()),
            sent_bytes: meter.sent_bytes().total(),
            received_bytes: meter.received_bytes().total(),
            last_uploaded_at: now.queue.last_uploaded_ms.map(time),
            daemon_pid: std::process::id(),
            watched: Some(WatchedDirectory {
                directory: config.directory,
                two_way: config.two_way,
                left_out: now.left_out.count,
                left_out_paths: now.left_out.examples,
                changed_at_remote: now.changed_there,
                held_at_remote: now.held_here,
                no_events_because: now.has_no_events,
            }),
        }
    }
}
