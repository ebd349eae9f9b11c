//! Forgetting a folder: its files on this device go, and nothing at the remote changes.

use super::condition::Phase;
use super::remote::Known;
use super::{Engine, Folder};
use crate::api::{Action, Code, Failure, FolderCommand, ForgetFolder};
use crate::daemon::failure::{self, failure};
use std::sync::Arc;

/// What a folder has that exists nowhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Keeps {
    unsent: bool,
    /// Local files that a crash has left of changes that nothing is known of.
    aside: u64,
    conflicts: u64,
    held: u64,
}

impl Folder {
    /// Removes it from this device.
    pub async fn forget(self: &Arc<Self>, request: &ForgetFolder) -> Result<(), Failure> {
        let mut open = self.open.lock().await;
        self.check_known()?;
        if open.as_ref().is_some_and(|open| open.mount.is_some()) || self.config.lock().is_open {
            return Err(failure::state("The folder is open.", self.action(FolderCommand::Close)));
        }
        if !request.discard_unsent
            && let Some(kept) =
                refusal(&self.keeps(open.as_ref().map(|open| open.live.engine.clone())).await?)
        {
            return Err(failure(Code::Unsent, kept.message, kept.consequence, kept.actions));
        }
        if let Some(open) = open.take() {
            self.put_down(open, false).await;
            self.set_phase(Phase::Closed);
        }
        // The database writes to its files until its last owner is gone.
        *self.database.lock() = None;
        let (directories, uuid) = (self.common.directories.clone(), self.uuid);
        let work = tokio::task::spawn_blocking(move || directories.forget(uuid));
        let forgotten = work.await.map_err(std::io::Error::other).flatten();
        forgotten.map_err(|error| failure::local(&error))?;
        // Within the lock: whoever waits for it finds that the folder is no longer known.
        if let Some(known) = self.common.known.upgrade() {
            known.lock().remove(&self.name);
        }
        Ok(())
    }

    /// What its log and its files say. A closed folder's engine is begun to ask it.
    async fn keeps(&self, engine: Option<Arc<Engine>>) -> Result<Keeps, Failure> {
        if let Some(engine) = engine {
            return keeps(&engine);
        }
        if Known::load(&self.directory()).is_none() {
            // Its remote was never connected, so it was never open.
            return Ok(Keeps { unsent: self.config.lock().unsent, ..Keeps::default() });
        }
        let (live, _stale) = self.begin(true, false).await?;
        let kept = keeps(&live.engine);
        if let Err(error) = live.engine.close().await {
            tracing::warn!(folder = self.name, %error, "the engine could not be closed in order");
        }
        kept
    }
}

fn keeps(engine: &Engine) -> Result<Keeps, Failure> {
    Ok(Keeps {
        unsent: engine.unsent() > 0 || engine.outbox().queue(0).failed > 0,
        aside: engine.set_aside().map_err(|error| failure::folder(&error))?,
        conflicts: engine.outbox().conflicts().len() as u64,
        held: engine.held().count,
    })
}

/// Why a folder is not forgotten, and what to do about it.
struct Refusal {
    message: String,
    consequence: &'static str,
    actions: Vec<Action>,
}

fn refusal(keeps: &Keeps) -> Option<Refusal> {
    let discard = Action::folder(FolderCommand::DiscardUnsent);
    let of = |message: String, consequence, first: FolderCommand| {
        let actions = vec![Action::folder(first), discard.clone()];
        Some(Refusal { message, consequence, actions })
    };
    match keeps {
        Keeps { unsent: true, .. } => of(
            "Some changes of the folder are only on this computer.".to_owned(),
            "Nothing was changed. They would be lost.",
            FolderCommand::Queue,
        ),
        Keeps { aside, .. } if *aside > 0 => of(
            format!("{aside} files that a crash has left are only on this computer."),
            "Nothing was changed. They would be lost.",
            FolderCommand::Status,
        ),
        Keeps { conflicts, .. } if *conflicts > 0 => of(
            format!("{conflicts} conflicts of the folder are not settled."),
            "Nothing was changed. What Holdall knows of them would be lost; the files at the remote stay.",
            FolderCommand::Conflicts,
        ),
        Keeps { held, .. } if *held > 0 => of(
            format!("{held} files that were deleted at the remote are only on this computer."),
            "Nothing was changed. They would be lost.",
            FolderCommand::Deletions,
        ),
        Keeps { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_without_anything_of_its_own_is_forgotten() {
        let message = |keeps: Keeps| refusal(&keeps).map(|refusal| refusal.message);
        assert_eq!(message(Keeps::default()), None);
        for (keeps, word) in [
            (Keeps { unsent: true, aside: 1, conflicts: 1, held: 1 }, "only on this computer"),
            (Keeps { aside: 4, conflicts: 1, ..Keeps::default() }, "4 files that a crash"),
            (Keeps { conflicts: 2, ..Keeps::default() }, "2 conflicts"),
            (Keeps { held: 30, ..Keeps::default() }, "30 files"),
        ] {
            assert!(message(keeps).unwrap().contains(word), "{keeps:?}");
            let last = refusal(&keeps).unwrap().actions.pop();
            assert_eq!(last, Some(Action::folder(FolderCommand::DiscardUnsent)));
        }
    }
}
