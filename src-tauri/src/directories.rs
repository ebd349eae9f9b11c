//! Shows a drive in the file manager.

use crate::bridge::{self, failure};
use holdall_client::api::{Code, DriveStatus, Failure};
use holdall_client::paths::Paths;
use holdall_gui::texts::{said, text};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long to wait for xdg-open. It ends when the file manager has taken over, but stays if it runs the file manager itself.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Opens `path`, if one of the daemon's drives is mounted there: a page cannot open anything else.
pub async fn open(paths: &Paths, path: &str) -> Result<(), Failure> {
    let drives = bridge::call(paths, "GET", "/v1/drives", None, |_| ()).await?;
    let drives: Vec<DriveStatus> = serde_json::from_value(drives)
        .map_err(|error| failure(Code::Failed, said("app.not_understood", &[("why", &error.to_string())])))?;
    if !is_mountpoint(path, &drives) {
        return Err(failure(Code::NotFound, said("app.directory.not_a_drive", &[("path", path)])));
    }
    let child = Command::new("xdg-open")
        .arg(path)
        // This variable is only for this app's own window.
        .env_remove(crate::RENDERER_VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut child = child.map_err(|_| no_file_manager(path))?;
    let ends = tokio::task::spawn_blocking(move || child.wait());
    match tokio::time::timeout(ANSWERS_WITHIN, ends).await {
        Ok(Ok(Ok(status))) if !status.success() => Err(no_file_manager(path)),
        _ => Ok(()),
    }
}

fn is_mountpoint(path: &str, drives: &[DriveStatus]) -> bool {
    let forks = drives.iter().flat_map(|drive| &drive.forks).map(|fork| &fork.mountpoint);
    drives.iter().map(|drive| &drive.mountpoint).chain(forks).any(|place| place.as_deref() == Some(path))
}

fn no_file_manager(path: &str) -> Failure {
    let action = said("app.directory.action", &[("path", path)]);
    Failure { action, ..failure(Code::Failed, text("app.directory.failed")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_mount_points_of_drives() {
        let drives = r#"[{
            "name": "work", "uuid": "u", "state": "Ready", "reason": null, "since": "2026-11-20T11:00:00Z", "epoch": 1,
            "root": null, "size_bytes": 1, "cached_bytes": 1, "cache_limit_bytes": 1, "dirty_bytes": 0,
            "unpushed_bytes": 0, "oldest_dirty_age_ms": 0, "journal_bytes": 0, "journal_limit_bytes": 1,
            "pending_pull_bytes": 0, "pinned_bytes": 0, "block_device": null, "attach": null,
            "mountpoint": "/home/ann/Holdall/work", "store": "s3://bucket/work", "store_mode": "swap", "holder": null,
            "last_commit_at": null, "requests": {"get": 0, "put": 0, "head": 0, "list": 0, "delete": 0},
            "sent_bytes": 0, "received_bytes": 0, "used_bytes": 1, "daemon_pid": 1,
            "forks": [{
                "name": "f", "uuid": "v", "device": "a", "taken_by": "b", "made_at": "2026-11-20T11:00:00Z",
                "base": "r", "records": 0, "bytes": 0, "mountpoint": "/home/ann/Holdall/f", "in_place": false
            }]
        }]"#;
        let drives: Vec<DriveStatus> = serde_json::from_str(drives).unwrap();
        assert!(is_mountpoint("/home/ann/Holdall/work", &drives));
        assert!(is_mountpoint("/home/ann/Holdall/f", &drives));
        for path in ["/home/ann/Holdall/work/run.desktop", "/home/ann/Holdall/work/..", "/etc", "", "--help"]
        {
            assert!(!is_mountpoint(path, &drives), "{path}");
        }
    }
}
