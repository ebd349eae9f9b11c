//! What waits for upload, in the API's terms.

use super::Folder;
use crate::api::{FolderChange, FolderQueue, FolderQueueCounts, FolderQueued, FolderQueuedState};
use crate::daemon::status::time;
use holdall_core::folder::outbox::{Queue, QueueItem, QueueKind, QueueState};

/// Items of one answer: more than a person reads.
const ITEMS_MAX: usize = 1_000;

impl Folder {
    /// The upload queue. A folder without an engine has none that could be shown.
    pub fn queue(&self) -> FolderQueue {
        let live = self.live.read().clone();
        live.map(|live| told(live.engine.outbox().queue(ITEMS_MAX))).unwrap_or_default()
    }
}

/// A queue in numbers.
pub fn counts(queue: &Queue) -> FolderQueueCounts {
    let Queue { waiting, uploading, failed, in_use, .. } = *queue;
    FolderQueueCounts { waiting, uploading, failed, in_use }
}

/// A queue in the API's terms.
pub fn told(queue: Queue) -> FolderQueue {
    let counts = counts(&queue);
    let items = queue.items.into_iter().map(item).collect();
    FolderQueue { counts, bytes: queue.bytes, trouble: queue.trouble, items }
}

fn item(item: QueueItem) -> FolderQueued {
    let (state, reason, again_ms) = match item.state {
        QueueState::Waiting => (FolderQueuedState::Waiting, None, None),
        QueueState::Uploading => (FolderQueuedState::Uploading, None, None),
        QueueState::InUse => (FolderQueuedState::InUse, None, None),
        QueueState::Failed { reason, again_ms } => (FolderQueuedState::Failed, Some(reason), again_ms),
    };
    FolderQueued {
        path: item.path,
        change: match item.kind {
            QueueKind::Upload => FolderChange::Upload,
            QueueKind::MakeDirectory => FolderChange::MakeDirectory,
            QueueKind::Move => FolderChange::Move,
            QueueKind::Remove => FolderChange::Remove,
            QueueKind::Attributes => FolderChange::Attributes,
            QueueKind::Download => FolderChange::Download,
        },
        bytes: item.bytes,
        sent_bytes: item.sent,
        state,
        reason,
        next_try_at: again_ms.map(time),
        since: time(item.since_ms),
    }
}

/// The path and the reason of the first failed upload, and whether it is tried again without a person.
pub fn first_failed(queue: &Queue) -> Option<(String, String, bool)> {
    // One that needs a person comes before one that does not.
    let failed = queue.items.iter().filter_map(|item| match &item.state {
        QueueState::Failed { reason, again_ms } => {
            Some((item.path.clone(), reason.clone(), again_ms.is_some()))
        }
        QueueState::Waiting | QueueState::Uploading | QueueState::InUse => None,
    });
    failed.min_by_key(|(_, _, is_tried_again)| *is_tried_again)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(path: &str, again_ms: Option<u64>) -> QueueItem {
        let state = QueueState::Failed { reason: "no".into(), again_ms };
        QueueItem { path: path.into(), kind: QueueKind::Upload, bytes: 9, sent: 3, state, since_ms: 1_000 }
    }

    #[test]
    fn a_failure_that_needs_a_person_comes_first() {
        let mut queue =
            Queue { failed: 2, items: vec![failed("a", Some(5)), failed("b", None)], ..Queue::default() };
        assert_eq!(first_failed(&queue), Some(("b".into(), "no".into(), false)));
        queue.items.pop();
        assert_eq!(first_failed(&queue), Some(("a".into(), "no".into(), true)));
        queue.items[0].state = QueueState::InUse;
        assert_eq!(first_failed(&queue), None);
    }

    #[test]
    fn items_keep_what_the_engine_says() {
        let told =
            told(Queue { failed: 1, bytes: 9, items: vec![failed("a", Some(2_000))], ..Queue::default() });
        assert_eq!((told.counts.failed, told.counts.all(), told.bytes), (1, 1, 9));
        let item = &told.items[0];
        assert_eq!((item.bytes, item.sent_bytes, item.state), (9, 3, FolderQueuedState::Failed));
        assert_eq!(item.next_try_at.as_deref(), Some("1970-01-01T00:00:02Z"));
        assert_eq!((item.reason.as_deref(), item.since.as_str()), (Some("no"), "1970-01-01T00:00:01Z"));
    }
}
