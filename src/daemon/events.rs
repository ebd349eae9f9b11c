//! Events: the status of each drive that has changed, at most four times a second. Computes nothing while nobody listens.

use super::Shared;
use crate::api::Event;
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(250);

struct Listener {
    drives: Shared,
    /// The statuses that were last sent to the listener, by drive.
    told: BTreeMap<String, String>,
    /// How many forks each drive had then.
    forks: BTreeMap<String, usize>,
    waiting: VecDeque<Event>,
    /// The newest row of the activity that was sent.
    activity: u64,
}

/// The stream of one listener. It begins with the status of every drive.
pub async fn stream(State(drives): State<Shared>) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let activity = drives.activity().newest();
    let (told, forks, waiting) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
    let listener = Listener { drives, told, forks, waiting, activity };
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
        let gone: Vec<_> = self
            .told
            .keys()
            .filter(|name| statuses.iter().all(|status| status.name != **name))
            .cloned()
            .collect();
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
    }
}
