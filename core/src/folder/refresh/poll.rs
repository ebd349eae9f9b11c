//! Looking again at directories that are in use, so that changes at the remote are seen without anybody asking.

use super::Refresher;
use crate::folder::node::Ino;
use crate::store::remote::RemotePath;
use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

/// How often directories in use are listed again.
const EVERY: Duration = Duration::from_secs(60);
/// How often the root is asked whether anything has changed, where it tells.
const EVERY_ROOT: Duration = Duration::from_secs(30);
/// How long a directory counts as in use after its last use.
const IN_USE: Duration = Duration::from_secs(600);

/// Runs until the folder is closed.
pub(super) async fn poll(refresher: Weak<Refresher>) {
    let mut last_tag = None;
    loop {
        let mut tag = None;
        let Some(now) = refresher.upgrade() else { return };
        let tells = now.shared.remote.facts().root_tag_tells;
        drop(now);
        tokio::time::sleep(if tells { EVERY_ROOT } else { EVERY }).await;
        let Some(refresher) = refresher.upgrade() else { return };
        if tells && let Ok(root) = refresher.shared.remote.stat(&RemotePath::root()).await {
            refresher.works();
            tag = Some(root.version.tag);
            if tag == last_tag {
                continue;
            }
        }
        let mut is_seen = true;
        for directory in refresher.in_use() {
            // Its trouble is in the folder's state.
            is_seen &= super::landed(refresher.list(directory)).await.is_ok();
        }
        // The tag of before the listings: what has changed since has another one. A change that no listing has shown is looked for again.
        if is_seen {
            last_tag = tag;
        }
    }
}

impl Refresher {
    fn in_use(&self) -> BTreeSet<Ino> {
        let mut found: BTreeSet<Ino> = BTreeSet::new();
        for ino in self.shared.opens.all() {
            found.extend(self.shared.place_here(ino).ok().flatten().map(|place| place.parent));
        }
        let used = self.directories.lock();
        found.extend(used.iter().filter(|(_, at)| at.used.elapsed() < IN_USE).map(|(ino, _)| *ino));
        drop(used);
        found.retain(|ino| !self.is_only_here(*ino));
        found
    }
}
