//! What people ask for: decisions about conflicts and held deletions, and the wait until both sides are alike.

use super::engine::{Settled, Turn, Watched};
use super::row::{Conflict, Held, Row, Side};
use super::table::{Change, TableError};
use super::tree::TreeError;
use crate::folder::outbox::{Keep, QueueItem, QueueState, Unsettled};
use crate::store::remote::{Condition, RemoteError, RemotePath};
use std::collections::BTreeMap;
use std::time::Duration;

impl Watched {
    /// Conflicts that nobody has settled, by the path that kept its name.
    pub async fn conflicts(&self) -> BTreeMap<RemotePath, Conflict> {
        self.table.lock().await.known().conflicts.clone()
    }

    /// Held deletions: the path, where the file is gone, and since when (Unix time in ms).
    pub async fn held(&self) -> Vec<(RemotePath, Side, u64)> {
        let table = self.table.lock().await;
        let held = table.known().rows.iter().filter_map(|(path, row)| match row.held {
            Some((Held::Waits(side), at)) => Some((path.clone(), side, at)),
            _ => None,
        });
        held.collect()
    }

    /// Decides about all held deletions: they are right, or the files come back.
    pub async fn decide(&self, is_right: bool) -> Result<Settled, TableError> {
        let mut settled = Settled::default();
        {
            let mut table = self.table.lock().await;
            let mut changes = Vec::new();
            for (path, row) in &table.known().rows {
                let Some((Held::Waits(side), at)) = row.held else { continue };
                let held = if is_right { Held::Accepted(side) } else { Held::Restored(side) };
                let row = Row { held: Some((held, at)), ..row.clone() };
                changes.push(Change::Row(path.clone(), Some(row)));
            }
            let count = changes.len() as u64;
            if is_right {
                settled.removed = count
            } else {
                settled.restored = count
            }
            table.change(changes)?;
            table.sync().await?;
        }
        self.count().await;
        self.wake.notify_one();
        Ok(settled)
    }

    /// Settles a conflict, by either path.
    pub async fn keep(&self, path: &str, keep: Keep) -> Result<(), String> {
        let path = RemotePath::parse(path).map_err(|error| error.to_string())?;
        let _turn = self.rounds.lock().await;
        let found = self.table.lock().await.known().conflicts.clone();
        let found = found.into_iter().find(|(at, of)| *at == path || of.kept_as == path);
        let Some((at, conflict)) = found else { return Err(format!("there is no conflict about {path}")) };
        let words = |error: TreeError| error.to_string();
        let remote = |error: RemoteError| error.to_string();
        match (keep, self.two_way) {
            (Keep::Both, _) => {}
            (Keep::Mine, true) => {
                let scan = self.tree.scan().await.map_err(words)?;
                if scan.entries.contains_key(&conflict.kept_as) {
                    if let Some(theirs) = scan.entries.get(&at) {
                        self.tree.remove(&at, theirs.print).await.map_err(words)?;
                    }
                    self.tree.rename(&conflict.kept_as, &at).await.map_err(words)?;
                }
            }
            (Keep::Theirs, true) => {
                let scan = self.tree.scan().await.map_err(words)?;
                if let Some(ours) = scan.entries.get(&conflict.kept_as) {
                    self.tree.remove(&conflict.kept_as, ours.print).await.map_err(words)?;
                }
            }
            (Keep::Mine, false) => match self.remote.stat(&conflict.kept_as).await {
                Err(RemoteError::NotFound(_)) => {}
                Err(error) => return Err(remote(error)),
                Ok(entry) => {
                    let when = Condition::Matches(entry.version);
                    self.remote.remove(&conflict.kept_as, when).await.map_err(remote)?;
                }
            },
            (Keep::Theirs, false) => {
                return Err(format!(
                    "this directory is kept one way only: download {} yourself, and replace {at} by it",
                    conflict.kept_as
                ));
            }
        }
        let mut table = self.table.lock().await;
        let words = |error: TableError| error.to_string();
        table.change([Change::Conflict(at, None)]).map_err(words)?;
        table.sync().await.map_err(words)?;
        drop(table);
        self.count().await;
        self.wake.notify_one();
        Ok(())
    }

    /// Ready when both sides are alike. Failures that wait for another try are tried at once; files that programs still write to count as
    /// failed.
    pub async fn settle(&self) -> Result<(), Unsettled> {
        /// Failures that may pass are waited for so often before they count.
        const PATIENCE: u32 = 6;
        let (mut is_first, mut waited) = (true, 0);
        loop {
            if let Some(why) = self.paused.borrow().clone() {
                return Err(Unsettled::Paused(why));
            }
            let turn = self.round(is_first).await;
            is_first = false;
            let status = self.status();
            let failed = |path: &str, reason: String| {
                Err(Unsettled::Failed { count: status.queue.failed.max(1), path: path.to_owned(), reason })
            };
            match turn {
                Turn::Progress => {}
                Turn::Stopped => return Err(Unsettled::Closed),
                Turn::Trouble(_) => {
                    return failed("all of it", status.queue.trouble.clone().unwrap_or_default());
                }
                Turn::Clean | Turn::Waits(_) => {
                    let of = |item: &&QueueItem| matches!(item.state, QueueState::Failed { .. });
                    if let Some(item) = status.queue.items.iter().find(of)
                        && let QueueState::Failed { reason, again_ms } = &item.state
                    {
                        if let (Turn::Waits(wait), Some(_)) = (&turn, again_ms)
                            && waited < PATIENCE
                        {
                            waited += 1;
                            tokio::time::sleep(*wait).await;
                            continue;
                        }
                        return failed(&item.path, reason.clone());
                    }
                    match turn {
                        Turn::Waits(wait) if wait <= Duration::from_millis(super::places::SETTLED_MS + 1) => {
                            tokio::time::sleep(wait).await;
                        }
                        Turn::Waits(_) => {
                            let item = status.queue.items.first().map(|item| item.path.clone());
                            return failed(&item.unwrap_or_default(), "a program still writes to it".into());
                        }
                        _ => return Ok(()),
                    }
                }
            }
        }
    }
}
