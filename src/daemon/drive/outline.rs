//! All entries of a mounted drive, by name and facts alone.

use super::Drive;
use super::scanning::Piece;
use crate::api::Failure;
use crate::daemon::failure;
use crate::daemon::forks::differences::Outline;
use parking_lot::Mutex;
use std::sync::Arc;

/// The most files and directories that are listed: this many take about 100 MB of memory.
const ENTRIES_MAX: usize = 500_000;

impl Drive {
    /// Every entry by its path, and the number of directories that may not be read.
    pub async fn outline(&self) -> Result<(Outline, u64), Failure> {
        let scanner = self.scanner()?;
        let outline = Arc::new(Mutex::new(Outline::new()));
        let collected = outline.clone();
        let collect = Box::new(move |piece| {
            let Piece::Outline(entries) = piece else { return true };
            let mut collected = collected.lock();
            collected.extend(entries.into_iter().map(|seen| (seen.path.clone(), seen)));
            collected.len() <= ENTRIES_MAX
        });
        let blind =
            scanner.outline(collect).await.map_err(|error| failure::uncomparable(&self.name, &error))?;
        let outline = std::mem::take(&mut *outline.lock());
        Ok((outline, blind.unreadable))
    }
}
