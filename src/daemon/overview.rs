//! The overview in the tray and on the pages: computed four times a second while somebody listens, and sent when it has changed.
//!
//! All listeners share one [`Feed`]: rates need samples of several seconds, and computing them once is enough. The feed ends with its last
//! listener.

use super::Shared;
use super::drives::Drives;
use crate::api::Event;
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use holdall_gui::{Model, Most, Now, Overview};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

const EVERY: Duration = Duration::from_millis(250);

/// The feed, while somebody listens.
#[derive(Default)]
pub struct Overviews {
    // Held to find it, or to begin it.
    feed: Mutex<Weak<Feed>>,
}

/// The overviews for all listeners.
struct Feed {
    /// As JSON; `None` before the first look.
    told: watch::Receiver<Option<Arc<str>>>,
    looking: JoinHandle<()>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

impl Overviews {
    fn feed(&self, drives: &Shared) -> Arc<Feed> {
        let mut feed = self.feed.lock();
        if let Some(feed) = feed.upgrade() {
            return feed;
        }
        let (tell, told) = watch::channel(None);
        let begun = Arc::new(Feed { told, looking: tokio::spawn(look(drives.clone(), tell)) });
        *feed = Arc::downgrade(&begun);
        begun
    }
}

/// The stream of one listener: the current overview, and then a new one whenever it has changed.
pub async fn stream(State(drives): State<Shared>) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let feed = drives.overviews().feed(&drives);
    let mut told = feed.told.clone();
    told.mark_changed();
    // The feed lives in the stream, and so for as long as the listener's connection.
    let events = stream::unfold((feed, told), |(feed, mut told)| async move {
        loop {
            told.changed().await.ok()?;
            let now = told.borrow_and_update().clone();
            if let Some(now) = now {
                return Some((Ok(sse::Event::default().data(now)), (feed, told)));
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

async fn look(drives: Shared, tell: watch::Sender<Option<Arc<str>>>) {
    let (mut model, began) = (Model::default(), Instant::now());
    let mut turns = tokio::time::interval(EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        let overview = shown(&drives, &mut model, Now(began.elapsed())).await;
        let text = serde_json::to_string(&overview).expect("the API's types become JSON");
        tell.send_if_modified(|before| {
            let is_new = before.as_deref() != Some(&text);
            if is_new {
                *before = Some(text.into());
            }
            is_new
        });
    }
}

async fn shown(drives: &Drives, model: &mut Model, now: Now) -> Overview {
    let statuses = drives.statuses().await;
    let folders = drives.folders().statuses();
    let names = statuses.iter().map(|status| &status.name).chain(folders.iter().map(|folder| &folder.name));
    let known: BTreeSet<_> = names.cloned().collect();
    model.keep_only(|name| known.contains(name));
    for status in statuses {
        model.apply(now, Event::Drive(Box::new(status)));
    }
    for folder in folders {
        model.apply(now, Event::Folder(Box::new(folder)));
    }
    let limits = drives.limits().shown();
    model.set_most(Most { up: limits.up_bytes_per_s, down: limits.down_bytes_per_s });
    model.set_paused_until(limits.paused_until);
    model.overview()
}
