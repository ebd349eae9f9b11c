//! What is shown of a watched directory.

use super::action::Action;
use super::engine::{Rounds, Status, Watched};
use super::places::SETTLED_MS;
use super::plan::Plan;
use super::tree::Scan;
use crate::folder::outbox::{Queue, QueueItem, QueueKind, QueueState};
use crate::store::remote::RemotePath;
use std::collections::BTreeMap;

/// Paths of one answer: more than a person reads.
const PATHS_TOLD: usize = 1_000;

impl Watched {
    /// The status.
    pub fn status(&self) -> Status {
        let mut status = self.view.lock().clone();
        let sent = self.sent.lock();
        for item in &mut status.queue.items {
            if let Some(sent) = sent.get(&RemotePath::parse(&item.path).unwrap_or_default()) {
                item.sent = (*sent).min(item.bytes);
                if item.state == QueueState::Waiting {
                    item.state = QueueState::Uploading;
                    status.queue.waiting = status.queue.waiting.saturating_sub(1);
                    status.queue.uploading += 1;
                }
            }
        }
        status
    }

    /// Shows what a plan found.
    pub(super) fn show(
        &self,
        rounds: &Rounds,
        scan: &Scan,
        planned: &Plan,
        waits: &BTreeMap<RemotePath, u64>,
    ) {
        let now_ms = self.tree.now_ms();
        let mut queue = Queue::default();
        let mut add = |path: &RemotePath, kind, state: QueueState, bytes| {
            match &state {
                QueueState::Failed { .. } => queue.failed += 1,
                QueueState::InUse => queue.in_use += 1,
                QueueState::Waiting | QueueState::Uploading => queue.waiting += 1,
            }
            if kind == QueueKind::Upload {
                queue.bytes += bytes;
            }
            let item = QueueItem { path: path.to_string(), kind, bytes, sent: 0, state, since_ms: now_ms };
            queue.items.push(item);
        };
        for action in &planned.actions {
            let Some(kind) = queue_kind(action) else { continue };
            let here = scan.entries.get(action.path()).map_or(0, |here| here.print.len);
            let there = rounds.there.as_ref().and_then(|there| there.get(action.path()));
            let bytes = match kind {
                QueueKind::Upload => here,
                QueueKind::Download => there.map_or(0, |there| there.version.len),
                _ => 0,
            };
            let state = match rounds.failures.get(action.path()) {
                Some(failed) => QueueState::Failed {
                    reason: failed.reason.clone(),
                    again_ms: failed.is_passing.then_some(failed.next_ms),
                },
                None => QueueState::Waiting,
            };
            add(action.path(), kind, state, bytes);
        }
        for (path, reason) in &planned.refused {
            let state = QueueState::Failed { reason: reason.clone(), again_ms: None };
            add(path, QueueKind::Upload, state, 0);
        }
        for path in &planned.in_use {
            let is_waiting = waits.get(path).is_none_or(|wait| *wait <= SETTLED_MS + 1);
            let state = if is_waiting { QueueState::Waiting } else { QueueState::InUse };
            let bytes = scan.entries.get(path).map_or(0, |here| here.print.len);
            add(path, QueueKind::Upload, state, bytes);
        }
        queue.items.sort_by_key(|item| !matches!(item.state, QueueState::Failed { .. }));
        queue.items.truncate(PATHS_TOLD);
        let mut left_out = scan.left_out.clone();
        left_out.count += rounds.unusable.count;
        left_out.examples.extend(rounds.unusable.examples.iter().cloned());
        let view = &mut *self.view.lock();
        queue.last_uploaded_ms = view.queue.last_uploaded_ms;
        queue.trouble = view.problem.as_ref().and(view.queue.trouble.clone());
        (view.queue, view.left_out, view.changed_there) = (queue, left_out, planned.changed_there);
        view.is_known = true;
    }
}

fn queue_kind(action: &Action) -> Option<QueueKind> {
    match action {
        Action::Forget(_) | Action::Adopt(_) | Action::Refresh(_) | Action::Hold(..) => None,
        Action::Compare(_) | Action::Fetch { .. } | Action::MakeHere(_) => Some(QueueKind::Download),
        Action::PutOursAside { .. } | Action::PutTheirsAside { .. } | Action::Move { .. } => {
            Some(QueueKind::Move)
        }
        Action::MakeThere(_) => Some(QueueKind::MakeDirectory),
        Action::Put { .. } => Some(QueueKind::Upload),
        Action::SetMeta { .. } => Some(QueueKind::Attributes),
        Action::RemoveThere { .. }
        | Action::RemoveHere { .. }
        | Action::RemoveDirectoryThere(_)
        | Action::RemoveDirectoryHere(_) => Some(QueueKind::Remove),
    }
}
