//! Remembering each version that was committed, on this device's disk.
//!
//! Two things rely on it. It shows when a store has gone back in time. And the next opening compares the current version with the
//! remembered one, and with the journal's records, to find the blocks of the cache that are out of date. So no record is freed from the
//! journal before a version that contains it is remembered.

use super::seen::Seen;
use super::{Base, Fork, Handed, Local, handed};
use crate::disk::Disk;
use crate::format::head::Head;
use crate::format::root::{Lineage, Root};
use crate::planted::{self, Bug};
use crate::push::Remembers;
use crate::seal::Sealer;
use crate::units::Lsn;
use async_trait::async_trait;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Pause between tries of a save that fails.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The part of `drive.json` that is known to be saved.
#[derive(Clone, Copy)]
struct Saved {
    /// The last record of this device's journal that the remembered version contains.
    lsn: Lsn,
    fork: Option<Uuid>,
}

impl Saved {
    fn of(local: &Local) -> Self {
        let lsn = Lsn(local.base.as_ref().map_or(0, |base| base.lsn));
        Self { lsn, fork: local.fork.as_ref().map(|fork| fork.drive) }
    }
}

/// The next state to save.
#[derive(Clone)]
struct Latest {
    local: Local,
    /// The version that was committed last. None before the first commit.
    seen: Option<Arc<Seen>>,
}

impl Latest {
    async fn save(&self, state: &dyn Disk, sealer: &Sealer) -> io::Result<()> {
        // This comes first: the version that `drive.json` names is known completely.
        if let Some(seen) = &self.seen {
            seen.save(state, sealer).await?;
        }
        self.local.save(state).await
    }
}

/// Saves `drive.json` after each commit.
pub(super) struct Rememberer {
    state: Arc<dyn Disk>,
    /// The journal's directory, for the copy of the note that a drive is handed over.
    journal: Arc<dyn Disk>,
    /// Held while a state is saved.
    saving: Arc<tokio::sync::Mutex<()>>,
    latest: watch::Sender<Latest>,
    sealer: Arc<Sealer>,
    saved: watch::Sender<Saved>,
    // Held to take it out.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Rememberer {
    /// Continues from `local`, which was just saved.
    pub fn start(
        state: Arc<dyn Disk>,
        journal: Arc<dyn Disk>,
        sealer: Arc<Sealer>,
        local: Local,
    ) -> Arc<Self> {
        let saved = watch::Sender::new(Saved::of(&local));
        let latest = watch::Sender::new(Latest { local, seen: None });
        let saving = Arc::new(tokio::sync::Mutex::new(()));
        let kept = (state.clone(), sealer.clone(), saving.clone());
        let task = Mutex::new(Some(tokio::spawn(keep_saved(kept, latest.subscribe(), saved.clone()))));
        Arc::new(Self { state, journal, saving, latest, sealer, saved, task })
    }

    /// The last record of this device's journal that a remembered version contains.
    pub fn lsn(&self) -> Lsn {
        self.saved.borrow().lsn
    }

    /// The entries of other devices' journals that no commit has named yet.
    pub fn inherited(&self) -> Vec<Lineage> {
        let latest = self.latest.borrow();
        let pending = latest.local.inherits.iter().flat_map(|inherits| &inherits.lineage);
        pending.map(Lineage::from).collect()
    }

    /// Notes durably that the drive is handed over. Nothing is tried again: programs wait meanwhile.
    ///
    /// # Errors
    ///
    /// The note is taken back then. If even that fails and the power is cut, the next opening asks HEAD, which still names this device.
    pub async fn mark_handed(&self, handed: Handed) -> io::Result<()> {
        let _turn = self.saving.lock().await;
        let mut latest = self.latest.borrow().clone();
        latest.local.handed = Some(handed.clone());
        let noted = match handed::note(&*self.journal, &handed).await {
            Ok(()) => latest.save(&*self.state, &self.sealer).await,
            failed => failed,
        };
        match &noted {
            Ok(()) => self.latest.send_modify(|latest| latest.local.handed = Some(handed)),
            Err(_) => {
                // What is saved once the disk takes it says nothing of a hand-over.
                self.latest.send_modify(|_| {});
                if let Err(error) = handed::forget(&*self.journal).await {
                    tracing::warn!(%error, "the note of a hand-over that was cancelled could not be deleted");
                }
            }
        }
        noted
    }

    /// Ends its work, and saves up to where the journal is durable.
    pub async fn stop(&self, durable: Lsn) {
        let Some(task) = self.task.lock().take() else { return };
        task.abort();
        let _ = task.await;
        let mut latest = self.latest.borrow().clone();
        latest.local.durable = durable.0;
        if let Err(error) = latest.save(&*self.state, &self.sealer).await {
            // An older version is remembered, and the journal still has the records after it.
            tracing::warn!(%error, "the version that was committed last could not be remembered");
        }
    }
}

#[async_trait]
impl Remembers for Rememberer {
    fn committed(&self, head: &Head, root: &Root) {
        self.latest.send_modify(|Latest { local, seen }| {
            let base = base_of(head, root, local);
            local.durable = local.durable.max(base.lsn);
            local.base = Some(base);
            local.inherits.take_if(|inherits| inherits.is_in(root));
            *seen = Some(Arc::new(Seen { head: head.clone(), root: root.clone() }));
        });
    }

    fn base(&self) -> Option<Base> {
        self.latest.borrow().local.base.clone()
    }

    async fn forked(&self, fork: Fork) {
        let drive = Some(fork.drive);
        self.latest.send_modify(|latest| latest.local.fork = Some(fork));
        if !planted::has(Bug::ForkNotRemembered) {
            // It can only end with the sender, which lives as long as `self`.
            let _ = self.saved.subscribe().wait_for(|saved| saved.fork == drive).await;
        }
    }
}

impl Drop for Rememberer {
    fn drop(&mut self) {
        if let Some(task) = &*self.task.lock() {
            task.abort();
        }
    }
}

fn base_of(head: &Head, root: &Root, local: &Local) -> Base {
    let own = root.lineage.iter().find(|lineage| lineage.journal == local.journal);
    let before = local.base.as_ref().map_or(0, |base| base.lsn);
    Base::new(head, root, own.map_or(Lsn(before), |own| own.cut))
}

async fn keep_saved(
    (state, sealer, saving): (Arc<dyn Disk>, Arc<Sealer>, Arc<tokio::sync::Mutex<()>>),
    mut latest: watch::Receiver<Latest>,
    saved: watch::Sender<Saved>,
) {
    while latest.changed().await.is_ok() {
        loop {
            let turn = saving.lock().await;
            let now = latest.borrow_and_update().clone();
            match now.save(&*state, &sealer).await {
                Ok(()) => {
                    saved.send_replace(Saved::of(&now.local));
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "the version that was committed cannot be remembered yet");
                    drop(turn);
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }
        }
    }
}
