//! What waits for a person's word: conflicts, and deletions that are held.

use super::Folder;
use crate::api::{
    ActivityKind, DeletionsSettled, Failure, FolderConflict, HeldDeletions, KeepVersion, WhichVersion,
};
use crate::daemon::failure;
use crate::daemon::status::time;
use holdall_core::folder::outbox::{Conflict, Keep};

impl Folder {
    /// Conflicts that nobody has settled.
    pub fn conflicts(&self) -> Result<Vec<FolderConflict>, Failure> {
        Ok(self.live()?.engine.outbox().conflicts().into_iter().map(conflict).collect())
    }

    /// Settles a conflict. Returns the conflicts that are left.
    pub async fn keep(&self, request: &KeepVersion) -> Result<Vec<FolderConflict>, Failure> {
        let live = self.live()?;
        let path = request.path.trim_matches('/');
        let keep = match request.keep {
            WhichVersion::Mine => Keep::Mine,
            WhichVersion::Theirs => Keep::Theirs,
            WhichVersion::Both => Keep::Both,
        };
        let is_one = |conflict: &Conflict| conflict.path == path || conflict.kept_as == path;
        if !live.engine.outbox().conflicts().iter().any(is_one) {
            return Err(failure::no_conflict(path));
        }
        live.engine.outbox().keep(path, keep).await.map_err(|error| failure::folder(&error))?;
        let what = match request.keep {
            WhichVersion::Mine => "this computer's version was kept",
            WhichVersion::Theirs => "the remote's version was kept",
            WhichVersion::Both => "both versions were kept",
        };
        self.note(ActivityKind::Conflict, format!("Conflict settled: {what} ({path})."));
        self.conflicts()
    }

    /// Deletions that are held.
    pub fn deletions(&self) -> Result<HeldDeletions, Failure> {
        let held = self.live()?.engine.held();
        let at = (held.count > 0).then(|| time(held.at_ms));
        Ok(HeldDeletions { count: held.count, paths: held.paths, at })
    }

    /// The deletions are right: the files go here too.
    pub async fn accept_deletions(&self) -> Result<DeletionsSettled, Failure> {
        let live = self.live()?;
        self.check_held()?;
        let removed = live.engine.accept_deletions().await.map_err(|error| failure::folder(&error))?;
        self.note(ActivityKind::Deletions, format!("Deleted here too: {removed} files."));
        Ok(DeletionsSettled { removed, ..DeletionsSettled::default() })
    }

    /// The deletions are wrong: what is here whole is uploaded again.
    pub async fn restore_deletions(&self) -> Result<DeletionsSettled, Failure> {
        let live = self.live()?;
        self.check_held()?;
        let (restored, lost) =
            live.engine.restore_deletions().await.map_err(|error| failure::folder(&error))?;
        let told = match lost {
            0 => format!("{restored} deleted files are uploaded again."),
            lost => format!(
                "{restored} deleted files are uploaded again; {lost} were not all here, and are gone."
            ),
        };
        self.note(ActivityKind::Deletions, told);
        Ok(DeletionsSettled { restored, lost, ..DeletionsSettled::default() })
    }

    fn check_held(&self) -> Result<(), Failure> {
        match self.deletions()?.count {
            0 => Err(failure::no_held_deletions()),
            _ => Ok(()),
        }
    }
}

fn conflict(conflict: Conflict) -> FolderConflict {
    FolderConflict {
        path: conflict.path,
        kept_as: conflict.kept_as,
        at: time(conflict.at_ms),
        our_bytes: conflict.our_len,
        their_bytes: conflict.their_len,
        their_time: conflict.their_time_ms.map(time),
    }
}
