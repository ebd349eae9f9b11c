//! Events: the status of each drive and folder that has changed, at most four times a second. Computes nothing while nobody listens.

use super::Shared;
use crate::api::{Event, FolderStatus};
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(250);

struct Listener {
    drives: Shared,
    /// The statuses that were last sent to the listener, by the drive's or folder's name.
    told: BTreeMap<String, String>,
    /// How many forks each drive had then.
    forks: BTreeMap<String, usize>,
    /// How many conflicts and held deletions each folder had then.
    undecided: BTreeMap<String, (u64, u64)>,
    waiting: VecDeque<Event>,
    /// The newest row of the activity that was sent.
    activity: u64,
}

/// The stream of one listener. It begins with the status of every drive and folder.
pub async fn stream(State(drives): State<Shared>) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let activity = drives.activity().newest();
    let (told, forks, undecided) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let listener = Listener { drives, told, forks, undecided, waiting: VecDeque::new(), activity };
    let events = stream::unfold(listener, |mut listener| async move {
        loop {
            if let Some(event) = listener.waiting.pop_front() {
                let data = serde_json::to_string(&event).expect("the API's types become JSON");
                return Some((Ok(sse::Event::default().data(data)), listener));
            }
            if !listener.told.is_empty() {
                tokio::time::sleep(EVERY).await;
            }
            listener.look().await;
            if listener.told.is_empty() {
                tokio::time::sleep(EVERY).await;
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

impl Listener {
    async fn look(&mut self) {
        for row in self.drives.activity().since(self.activity) {
            self.activity = row.id;
            self.waiting.push_back(Event::Activity(row));
        }
        let statuses = self.drives.statuses().await;
        let folders = self.drives.folders().statuses();
        let is_gone = |name: &&String| {
            statuses.iter().all(|status| status.name != **name)
                && folders.iter().all(|folder| folder.name != **name)
        };
        let gone: Vec<_> = self.told.keys().filter(is_gone).cloned().collect();
        for name in gone {
            self.told.remove(&name);
            self.waiting.push_back(Event::Removed { name });
        }
        for status in statuses {
            let mut shown = status.clone();
            // An age grows by itself; only other changes are news.
            shown.oldest_dirty_age_ms = 0;
            let text = serde_json::to_string(&shown).expect("the API's types become JSON");
            if let Some(before) = self.forks.insert(status.name.clone(), status.forks.len())
                && before < status.forks.len()
                && let Some(fork) = status.forks.last()
            {
                let message = format!(
                    "{} has taken the drive over. Your changes are in the fork \"{}\"; both versions are kept.",
                    fork.taken_by, fork.name
                );
                self.waiting.push_back(Event::Notice { name: status.name.clone(), message });
            }
            if self.told.get(&status.name) != Some(&text) {
                self.told.insert(status.name.clone(), text);
                self.waiting.push_back(Event::Drive(Box::new(status)));
            }
        }
        folders.into_iter().for_each(|folder| self.look_at_folder(folder));
    }

    fn look_at_folder(&mut self, folder: FolderStatus) {
        let now = (folder.conflicts, folder.held_deletions);
        if let Some(before) = self.undecided.insert(folder.name.clone(), now) {
            for message in notices(before, now) {
                self.waiting.push_back(Event::Notice { name: folder.name.clone(), message });
            }
        }
        let text = serde_json::to_string(&folder).expect("the API's types become JSON");
        if self.told.get(&folder.name) != Some(&text) {
            self.told.insert(folder.name.clone(), text);
            self.waiting.push_back(Event::Folder(Box::new(folder)));
        }
    }
}

/// What a person should know when the numbers of a folder's conflicts and held deletions change.
fn notices(before: (u64, u64), now: (u64, u64)) -> Vec<String> {
    let mut notices = Vec::new();
    match now.0.saturating_sub(before.0) {
        0 => {}
        1 => {
            notices.push("A file was changed both here and at the remote. Both versions are kept.".to_owned())
        }
        count => notices
            .push(format!("{count} files were changed both here and at the remote. Both versions are kept.")),
    }
    if now.1 > before.1 {
        notices.push(format!(
            "{} files were deleted at the remote at once. Here they stay until you decide.",
            now.1
        ));
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_conflicts_and_more_deletions_are_noticed() {
        assert_eq!(notices((1, 0), (1, 0)), [""; 0]);
        assert_eq!(notices((2, 600), (1, 0)), [""; 0]);
        assert!(notices((0, 0), (1, 0))[0].starts_with("A file"));
        let both = notices((1, 0), (3, 600));
        assert!(both[0].starts_with("2 files") && both[1].starts_with("600 files"));
    }
}
