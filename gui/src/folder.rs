//! Folders at a glance: what the line on top, the tray and the notices have to know of one.

use holdall_api::{DriveState, FolderStatus};

/// Bytes that are only on this device, and whether they have been counted. If not, the figure stands for any number.
pub(crate) fn unsent(folder: &FolderStatus) -> (u64, bool) {
    match folder.dirty_bytes {
        0 if folder.unsent || folder.queue.all() > 0 => (1, false),
        bytes => (bytes, true),
    }
}

/// Whether some of that is being uploaded.
pub(crate) fn is_uploading(folder: &FolderStatus) -> bool {
    folder.queue.uploading > 0 && folder.state != DriveState::Offline
}

/// Whether a person has to act.
pub(crate) fn needs_person(folder: &FolderStatus) -> bool {
    let state = matches!(folder.state, DriveState::Conflict | DriveState::NeedsAttention);
    state || folder.conflicts > 0 || folder.held_deletions > 0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An open folder with nothing to do.
    pub fn folder(name: &str, state: DriveState) -> FolderStatus {
        let value = serde_json::json!({
            "name": name, "uuid": "u", "url": "https://cloud.example.org/files", "kind": "dav", "state": state,
            "reason": null, "since": "2026-11-20T11:00:00Z", "mountpoint": "/mnt", "read_only": false,
            "passthrough": {"on": true, "why": null}, "known_files": 3, "cached_bytes": 10, "dirty_bytes": 0,
            "queue": {"waiting": 0, "uploading": 0, "failed": 0, "in_use": 0}, "conflicts": 0, "held_deletions": 0,
            "pinned_bytes": 0, "requests": {"get": 0, "put": 0, "head": 0, "list": 0, "delete": 0},
            "sent_bytes": 0, "received_bytes": 0, "last_uploaded_at": null, "daemon_pid": 1,
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_was_not_counted_is_unsent_too() {
        let mut photos = folder("photos", DriveState::Ready);
        assert_eq!(unsent(&photos), (0, true));
        photos.queue.waiting = 1;
        assert_eq!(unsent(&photos), (1, false));
        photos.dirty_bytes = 70;
        assert_eq!(unsent(&photos), (70, true));
    }

    #[test]
    fn a_decision_needs_a_person_in_every_state() {
        let mut photos = folder("photos", DriveState::Closed);
        assert!(!needs_person(&photos));
        photos.held_deletions = 30;
        assert!(needs_person(&photos) && needs_person(&folder("x", DriveState::NeedsAttention)));
    }
}
