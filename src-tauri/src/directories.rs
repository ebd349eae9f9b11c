//! Shows a drive or folder in the file manager.

use crate::bridge::{self, failure};
use holdall_client::api::{Code, Failure};
use holdall_client::paths::Paths;
use holdall_gui::texts::{said, text};
use serde::Deserialize;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long to wait for xdg-open. It ends when the file manager has taken over, but stays if it runs the file manager itself.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Opens `path`, if one of the daemon's drives or folders is mounted there: a page cannot open anything else.
pub async fn open(paths: &Paths, path: &str) -> Result<(), Failure> {
    let mut places: Vec<Place> = Vec::new();
    for all in ["/v1/drives", "/v1/folders"] {
        let found = bridge::call(paths, "GET", all, None, |_| ()).await?;
        let found: Vec<Place> = serde_json::from_value(found).map_err(|error| {
            failure(Code::Failed, said("app.not_understood", &[("why", &error.to_string())]))
        })?;
        places.extend(found);
    }
    if !is_mountpoint(path, &places) {
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

/// What counts here of the status of a drive, of one of its forks, or of a folder.
#[derive(Deserialize)]
struct Place {
    mountpoint: Option<String>,
    #[serde(default)]
    forks: Vec<Place>,
}

fn is_mountpoint(path: &str, places: &[Place]) -> bool {
    places.iter().any(|place| place.mountpoint.as_deref() == Some(path) || is_mountpoint(path, &place.forks))
}

fn no_file_manager(path: &str) -> Failure {
    let action = said("app.directory.action", &[("path", path)]);
    Failure { action, ..failure(Code::Failed, text("app.directory.failed")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_mount_points_of_drives_and_folders() {
        let places = r#"[
            {"name": "work", "mountpoint": "/home/ann/Holdall/work",
             "forks": [{"name": "f", "mountpoint": "/home/ann/Holdall/f"}]},
            {"name": "docs", "mountpoint": "/home/ann/Holdall/docs"},
            {"name": "closed", "mountpoint": null}
        ]"#;
        let places: Vec<Place> = serde_json::from_str(places).unwrap();
        for path in ["/home/ann/Holdall/work", "/home/ann/Holdall/f", "/home/ann/Holdall/docs"] {
            assert!(is_mountpoint(path, &places), "{path}");
        }
        for path in ["/home/ann/Holdall/work/run.desktop", "/home/ann/Holdall/work/..", "/etc", "", "--help"]
        {
            assert!(!is_mountpoint(path, &places), "{path}");
        }
    }
}
