//! The contents of a directory of a mounted drive, and how much of each entry is here: one level, when somebody looks.

use super::Drive;
use super::scanning::{Piece, ScanError};
use crate::api::{DirectoryEntry, EntryKind, EntryState, Failure};
use crate::daemon::failure;
use crate::scanner::Named;
use holdall_core::units::{BLOCK_BYTES, BlockRange};
use holdall_core::volume::Volume;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How long a listing may take: somebody waits for it. File names are here, or are fetched before everything else.
const PATIENCE: Duration = Duration::from_secs(15);
/// The most entries of one directory that are listed. Larger directories are for a file manager.
const ENTRIES_MAX: usize = 50_000;

impl Drive {
    /// Lists the directory `path`, relative to the drive's root; empty means the root itself.
    pub async fn directory(&self, path: &str) -> Result<Vec<DirectoryEntry>, Failure> {
        let volume = self.live.read().clone().ok_or_else(|| failure::not_mounted(&self.name))?;
        let path = if path.is_empty() { "." } else { path };
        let listed = tokio::time::timeout(PATIENCE, self.listed(path)).await;
        let names = listed.map_err(|_| {
            let shown = self.shown_path(path);
            match &volume.puller().health().borrow().trouble {
                Some(trouble) => failure::directory_offline(&shown, trouble),
                None => failure::directory_late(&shown, PATIENCE),
            }
        })?;
        let names = names.map_err(|error| failure::unscannable(path, &error))?;
        let (pins, whole) = self.pins.wanted();
        let pins = Pins { pins: &pins, whole };
        Ok(names.into_iter().map(|named| entry(path, named, &pins, &volume)).collect())
    }

    async fn listed(&self, path: &str) -> Result<Vec<Named>, ScanError> {
        let scanner = self.scanner().map_err(|failure| ScanError::Gone(failure.message))?;
        let listed = Arc::new(Mutex::new(Vec::new()));
        let collected = listed.clone();
        let collect = Box::new(move |piece| {
            let Piece::Names(names) = piece else { return true };
            let mut listed = collected.lock();
            listed.extend(names);
            listed.len() <= ENTRIES_MAX
        });
        scanner.list(path, collect).await?;
        let listed = std::mem::take(&mut *listed.lock());
        Ok(listed)
    }
}

struct Pins<'a> {
    pins: &'a [String],
    whole: bool,
}

impl Pins<'_> {
    /// The pin that keeps what is at `path`.
    fn over(&self, path: &str) -> Option<String> {
        let over = self.pins.iter().find(|pin| is_within(path, pin));
        over.cloned().or_else(|| self.whole.then(String::new))
    }

    /// Whether something below it is pinned.
    fn below(&self, path: &str) -> bool {
        self.pins.iter().any(|pin| is_within(pin, path))
    }
}

fn is_within(path: &str, directory: &str) -> bool {
    directory == "."
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn entry(directory: &str, named: Named, pins: &Pins<'_>, volume: &Volume) -> DirectoryEntry {
    let path = match directory {
        "." => named.name.clone(),
        directory => format!("{directory}/{}", named.name),
    };
    let pinned_by = pins.over(&path);
    let Some((bytes, runs)) = named.file else {
        let state = match pinned_by {
            Some(_) => Some(EntryState::AlwaysKeep),
            None => pins.below(&path).then_some(EntryState::Partly),
        };
        let kind = EntryKind::Directory;
        return DirectoryEntry { name: named.name, kind, bytes: 0, local_bytes: 0, state, pinned_by };
    };
    let runs: Vec<_> = runs.into_iter().map(|(start, count)| BlockRange::new(start, count)).collect();
    let blocks: u64 = runs.iter().map(BlockRange::count).sum();
    let here = blocks - volume.missing_blocks(&runs).min(blocks);
    let (local_bytes, state) = here_of(bytes, blocks, here);
    let state = if pinned_by.is_some() { EntryState::AlwaysKeep } else { state };
    DirectoryEntry {
        name: named.name,
        kind: EntryKind::File,
        bytes,
        local_bytes,
        state: Some(state),
        pinned_by,
    }
}

/// The bytes of a file that are here, and its state. A file without blocks (empty, only holes, or stored in the inode) is here.
fn here_of(bytes: u64, blocks: u64, here: u64) -> (u64, EntryState) {
    match here {
        here if here == blocks => (bytes, EntryState::Available),
        0 => (0, EntryState::OnlineOnly),
        here => (bytes.min(here * BLOCK_BYTES), EntryState::Partly),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_keeps_its_path_and_everything_below() {
        let paths = ["photos/2026".to_owned(), "notes".to_owned()];
        let pins = Pins { pins: &paths, whole: false };
        assert_eq!(pins.over("photos/2026/a.jpg").as_deref(), Some("photos/2026"));
        assert_eq!(pins.over("notes").as_deref(), Some("notes"));
        assert_eq!(pins.over("notes2"), None);
        assert_eq!(pins.over("photos"), None);
        assert!(pins.below("photos") && !pins.below("photo") && !pins.below("music"));
        assert_eq!(Pins { pins: &[], whole: true }.over("a").as_deref(), Some(""));
        assert_eq!(Pins { pins: &[".".to_owned()], whole: false }.over("a/b").as_deref(), Some("."));
    }

    #[test]
    fn a_file_is_here_as_far_as_its_blocks_are() {
        assert_eq!(here_of(10_000, 3, 3), (10_000, EntryState::Available));
        assert_eq!(here_of(10_000, 3, 1), (4096, EntryState::Partly));
        assert_eq!(here_of(10_000, 3, 0), (0, EntryState::OnlineOnly));
        assert_eq!(here_of(100, 0, 0), (100, EntryState::Available));
        // Blocks beyond the end, such as those that a program has preallocated.
        assert_eq!(here_of(5_000, 9, 8), (5_000, EntryState::Partly));
    }
}
