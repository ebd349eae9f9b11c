//! Holds on versions that are open for looking. Each is written down here before it is put into the store, and forgotten after it is
//! deleted there: a crash in between leaves a name here that the store may not have, never a hold in the store that nobody knows, which
//! would keep garbage forever. Holds left by an earlier look are released when the daemon starts, before the next look, and before the
//! drive is forgotten here.

use super::Drive;
use super::lock::lock;
use crate::api::Failure;
use crate::daemon::registry::{private_directory, sync_directory};
use holdall_core::drive::HOLDS;
use holdall_core::retry::Backoff;
use holdall_core::store::{Store, StoreError};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The directory of their names, in the drive's directory: an empty file for each.
const DIRECTORY: &str = "holds";
/// How long the removal of a drive waits for its store.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// Holds that are being released.
#[derive(Default)]
pub(super) struct LettingGo {
    names: BTreeSet<String>,
    /// Whether a task releases them.
    is_under_way: bool,
}

impl Drive {
    fn holds(&self) -> PathBuf {
        self.registry.directory(&self.name).join(DIRECTORY)
    }

    /// Writes down that the hold may be in the store from now on.
    pub(super) fn remember_hold(&self, name: &str) -> io::Result<()> {
        remember(&self.holds(), name)
    }

    /// The hold is not in the store.
    pub(super) fn forget_hold(&self, name: &str) {
        forget(&self.holds(), name);
    }

    /// Deletes a hold from the store. A hold that stays there is tried again in the background.
    pub(super) async fn let_go(self: &Arc<Self>, store: &dyn Store, name: &str) {
        if !self.delete_hold(store, name).await {
            self.let_go_in_background([name.to_owned()]);
        }
    }

    /// Whether the hold is gone, or nothing more can be done about it now.
    async fn delete_hold(&self, store: &dyn Store, name: &str) -> bool {
        match store.delete(name).await {
            Ok(()) => {}
            Err(error @ StoreError::Denied { .. }) => {
                // It stays written down: the next start may have other credentials.
                tracing::warn!(drive = self.name, %error, "a version stays held in the store");
                return true;
            }
            Err(error) => {
                tracing::info!(drive = self.name, %error, "a version is still held in the store; it is released later");
                return false;
            }
        }
        self.forget_hold(name);
        true
    }

    /// Holds that are left although nobody looks at anything now. The caller must have locked the drive's files.
    pub(super) fn left_holds(&self) -> Vec<String> {
        remembered(&self.holds())
    }

    /// Releases, in the background, the holds that an earlier service has left. Not while another process has the drive open: the holds of
    /// its own looks are written down here as well.
    pub fn let_go_of_what_was_looked_at(self: &Arc<Self>) {
        let Ok(lock) = lock(&self.registry.directory(&self.name)) else { return };
        let left = self.left_holds();
        drop(lock);
        self.let_go_in_background(left);
    }

    /// Releases these, however long that takes.
    pub(super) fn let_go_in_background(self: &Arc<Self>, names: impl IntoIterator<Item = String>) {
        let mut now = self.letting_go.lock();
        now.names.extend(names);
        if !now.names.is_empty() && !std::mem::replace(&mut now.is_under_way, true) {
            tokio::spawn(self.clone().let_go_until_gone());
        }
    }

    async fn let_go_until_gone(self: Arc<Self>) {
        let mut backoff = Backoff::unwatched();
        loop {
            let hint = self.let_go_of_all().await.err().and_then(|failure| failure.retry_after());
            {
                let mut now = self.letting_go.lock();
                if now.names.is_empty() || !self.is_known() {
                    now.is_under_way = false;
                    return;
                }
            }
            tokio::time::sleep(backoff.next(hint)).await;
        }
    }

    /// Tries each once.
    async fn let_go_of_all(&self) -> Result<(), Failure> {
        let (store, _) = self.unlock().await?;
        let names: Vec<_> = self.letting_go.lock().names.iter().cloned().collect();
        for name in names {
            if self.delete_hold(&*store, &name).await {
                self.letting_go.lock().names.remove(&name);
            }
        }
        Ok(())
    }

    /// Tries the same for a drive that is about to be forgotten here: nobody would know of its holds afterwards. Waits only a moment for a
    /// store that is away.
    pub(super) async fn let_go_at_last(&self) {
        let left = self.left_holds();
        if !left.is_empty() {
            self.letting_go.lock().names.extend(left);
            let _ = tokio::time::timeout(LAST_PATIENCE, self.let_go_of_all()).await;
        }
    }
}

fn remember(directory: &Path, name: &str) -> io::Result<()> {
    private_directory(directory)?;
    File::create(directory.join(name.trim_start_matches(HOLDS)))?;
    sync_directory(directory)?;
    sync_directory(directory.parent().expect("it lies in the drive's"))
}

/// A name that comes back after a crash is deleted again.
fn forget(directory: &Path, name: &str) {
    let _ = std::fs::remove_file(directory.join(name.trim_start_matches(HOLDS)));
}

fn remembered(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.map(|name| format!("{HOLDS}{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_remembered_until_it_is_forgotten() {
        let drive = tempfile::tempdir().unwrap();
        let directory = drive.path().join(DIRECTORY);
        assert_eq!(remembered(&directory), [""; 0]);
        let names = [0, 1].map(|_| holdall_core::drive::new_hold());
        names.iter().for_each(|name| remember(&directory, name).unwrap());
        let mut all = remembered(&directory);
        all.sort();
        assert!(names.iter().all(|name| all.contains(name)) && all.len() == 2, "{all:?}");
        forget(&directory, &names[0]);
        forget(&directory, &names[0]);
        assert_eq!(remembered(&directory), names[1..]);
    }
}
