//! The contents of a directory of an open folder, and how much of each file is here: one level, when somebody looks.

use super::Folder;
use super::pins::{engine_path, is_within, trouble};
use crate::api::{DirectoryEntry, EntryKind, EntryState, Failure};
use crate::daemon::failure;
use holdall_core::folder::{Here, Listed};
use std::time::Duration;

/// How long a listing may take: somebody waits for it.
const PATIENCE: Duration = Duration::from_secs(15);

impl Folder {
    /// Lists the directory `path`, relative to the folder; empty means the folder itself.
    pub async fn directory_entries(&self, path: &str) -> Result<Vec<DirectoryEntry>, Failure> {
        let (live, path) = (self.opened_live()?, engine_path(path));
        let listed = tokio::time::timeout(PATIENCE, live.engine.listed(&path)).await;
        let listed = listed.map_err(|_| {
            let shown = self.shown_path(&path);
            match trouble(&live) {
                Some(trouble) => failure::directory_offline(&shown, &trouble),
                None => failure::directory_late(&shown, PATIENCE),
            }
        })?;
        let mut listed = listed.map_err(|error| self.unusable(&path, &error))?;
        listed.sort_by_cached_key(|entry| (entry.name.to_lowercase(), entry.name.clone()));
        let pins: Vec<_> = live.engine.pinned().into_iter().collect();
        Ok(listed.into_iter().map(|entry| shown(&path, entry, &pins)).collect())
    }
}

fn shown(directory: &str, entry: Listed, pins: &[String]) -> DirectoryEntry {
    let path = match directory {
        "" => entry.name.clone(),
        directory => format!("{directory}/{}", entry.name),
    };
    let pinned_by = pins.iter().find(|pin| is_within(&path, pin)).cloned();
    let is_kept = pinned_by.is_some();
    let (local_bytes, state) = match entry.here {
        None if is_kept => (0, Some(EntryState::AlwaysKeep)),
        None => (0, pins.iter().any(|pin| is_within(pin, &path)).then_some(EntryState::Partly)),
        Some(here) => {
            let (bytes, state) = state_of(entry.bytes, here, entry.is_in_conflict, is_kept);
            (bytes, Some(state))
        }
    };
    let kind = if entry.is_directory { EntryKind::Directory } else { EntryKind::File };
    DirectoryEntry { name: entry.name, kind, bytes: entry.bytes, local_bytes, state, pinned_by }
}

/// What a person has to know of a file first. Pure.
fn state_of(bytes: u64, here: Here, is_in_conflict: bool, is_kept: bool) -> (u64, EntryState) {
    let local_bytes = match here {
        Here::Unsent => bytes,
        Here::Cached(local_bytes) => local_bytes.min(bytes),
    };
    let state = match here {
        _ if is_in_conflict => EntryState::Conflict,
        Here::Unsent => EntryState::Waiting,
        Here::Cached(_) if is_kept => EntryState::AlwaysKeep,
        Here::Cached(_) if local_bytes == bytes => EntryState::Available,
        Here::Cached(0) => EntryState::OnlineOnly,
        Here::Cached(_) => EntryState::Partly,
    };
    (local_bytes, state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_must_act_on_comes_before_what_is_here() {
        for (here, is_in_conflict, is_kept, expected) in [
            (Here::Unsent, true, true, (10, EntryState::Conflict)),
            (Here::Unsent, false, true, (10, EntryState::Waiting)),
            (Here::Cached(3), false, true, (3, EntryState::AlwaysKeep)),
            (Here::Cached(3), false, false, (3, EntryState::Partly)),
            (Here::Cached(0), false, false, (0, EntryState::OnlineOnly)),
            (Here::Cached(10), false, false, (10, EntryState::Available)),
        ] {
            assert_eq!(state_of(10, here, is_in_conflict, is_kept), expected, "{here:?}");
        }
        assert_eq!(state_of(0, Here::Cached(0), false, false), (0, EntryState::Available));
    }

    #[test]
    fn a_directory_says_whether_it_or_something_below_is_kept() {
        let directory = |name: &str| Listed {
            name: name.into(),
            is_directory: true,
            bytes: 0,
            here: None,
            is_in_conflict: false,
        };
        let pins = ["a/b".to_owned()];
        assert_eq!(shown("", directory("a"), &pins).state, Some(EntryState::Partly));
        let kept = shown("a", directory("b"), &pins);
        assert_eq!((kept.state, kept.pinned_by.as_deref()), (Some(EntryState::AlwaysKeep), Some("a/b")));
        assert_eq!(shown("", directory("c"), &pins).state, None);
        assert_eq!(shown("", directory("c"), &[String::new()]).pinned_by.as_deref(), Some(""));
    }
}
