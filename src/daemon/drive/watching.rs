//! Writes down what happens to an open drive: uploads that are complete, a store that goes away and comes back, a take-over, and what
//! stops pushing. It waits for news of the engine, and does nothing while there are none.

use super::Drive;
use crate::api::ActivityKind;
use crate::sizes::format_bytes;
use crate::words::sentence;
use holdall_core::push::PushState;
use holdall_core::units::Lsn;
use holdall_core::volume::Volume;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A store that is away for less is not worth a row: networks come and go.
const AWAY_FOR: Duration = Duration::from_secs(20);

/// What was seen.
struct Seen {
    committed: Lsn,
    /// Of the drive's bytes those that were in the store when everything was.
    uploaded: u64,
    away_since: Option<Instant>,
    is_away_told: bool,
    is_forked: bool,
    is_stopped: bool,
}

impl Drive {
    /// Begins for an engine that was just opened for writing; ends with it.
    pub(super) fn begin_watching(&self, volume: &Arc<Volume>) {
        let Some(pusher) = volume.pusher() else { return };
        let (mut state, volume) = (pusher.state(), Arc::downgrade(volume));
        let (name, registry) = (self.name.clone(), self.registry.clone());
        let mut seen = Seen::new(&state.borrow());
        tokio::spawn(async move {
            loop {
                let is_over = tokio::select! {
                    changed = state.changed() => changed.is_err(),
                    () = seen.away_long_enough() => false,
                };
                let Some(has_unsent) = volume.upgrade().map(|volume| volume.has_unsent()) else { return };
                let news = seen.news(Instant::now(), &state.borrow_and_update(), has_unsent);
                for (kind, message) in news {
                    registry.activity().note(Some(&name), kind, message);
                }
                if is_over {
                    return;
                }
            }
        });
    }
}

impl Seen {
    fn new(state: &PushState) -> Self {
        Self {
            committed: state.committed,
            uploaded: state.put_bytes,
            away_since: None,
            is_away_told: false,
            is_forked: state.fork.is_some(),
            is_stopped: state.stopped.is_some(),
        }
    }

    async fn away_long_enough(&self) {
        match self.away_since.filter(|_| !self.is_away_told) {
            Some(since) => tokio::time::sleep_until(since + AWAY_FOR).await,
            None => std::future::pending().await,
        }
    }

    fn news(&mut self, now: Instant, state: &PushState, has_unsent: bool) -> Vec<(ActivityKind, String)> {
        let mut news = Vec::new();
        match (&state.trouble, self.away_since) {
            (Some(_), None) => self.away_since = Some(now),
            (Some(trouble), Some(since)) if !self.is_away_told && now.duration_since(since) >= AWAY_FOR => {
                self.is_away_told = true;
                let why = sentence(trouble);
                news.push((ActivityKind::Network, format!("The store does not answer, uploads wait. {why}")));
            }
            (None, Some(_)) => {
                if self.is_away_told {
                    news.push((ActivityKind::Network, "The store is back.".to_owned()));
                }
                (self.away_since, self.is_away_told) = (None, false);
            }
            _ => {}
        }
        if let Some(fork) = state.fork.as_ref().filter(|_| !self.is_forked) {
            self.is_forked = true;
            let message = format!("{} has taken the drive over. Both versions are kept.", fork.taken_by);
            news.push((ActivityKind::Conflict, message));
        }
        if let Some(error) = state.stopped.as_ref().filter(|_| !self.is_stopped) {
            news.push((
                ActivityKind::Attention,
                format!("Uploading has stopped. {}", sentence(&error.to_string())),
            ));
        }
        self.is_stopped = state.stopped.is_some();
        if state.committed > self.committed && !has_unsent {
            self.committed = state.committed;
            let bytes = state.put_bytes.saturating_sub(self.uploaded);
            self.uploaded = state.put_bytes;
            // Zeros and trims take no upload to speak of.
            if bytes > 0 {
                let message = format!("All changes are uploaded ({}).", format_bytes(bytes));
                news.push((ActivityKind::Uploaded, message));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdall_core::format::id::ObjectId;
    use holdall_core::units::Epoch;
    use uuid::Uuid;

    fn state() -> PushState {
        let root = ObjectId { drive: Uuid::nil(), epoch: Epoch(1), seq: 0, unique: 0 };
        PushState {
            committed: Lsn(1),
            root,
            root_hash: [0; 32],
            epoch: Epoch(1),
            committed_ms: 0,
            pushing: false,
            batch: (0, 0),
            put_bytes: 0,
            outgoing: Vec::new(),
            trouble: None,
            is_taken: true,
            stopped: None,
            waiting_since: None,
            fork: None,
        }
    }

    #[test]
    fn an_upload_is_told_when_nothing_is_left() {
        let mut now = state();
        let mut seen = Seen::new(&now);
        (now.committed, now.put_bytes) = (Lsn(5), 4 << 20);
        assert_eq!(seen.news(Instant::now(), &now, true), []);
        (now.committed, now.put_bytes) = (Lsn(9), 6 << 20);
        let told = seen.news(Instant::now(), &now, false);
        assert_eq!(told, [(ActivityKind::Uploaded, "All changes are uploaded (6 MiB).".to_owned())]);
        assert_eq!(seen.news(Instant::now(), &now, false), []);
    }

    #[test]
    fn a_store_that_stays_away_is_told_once_and_so_is_that_it_is_back() {
        let mut now = state();
        let (mut seen, start) = (Seen::new(&now), Instant::now());
        now.trouble = Some("no route to host".to_owned());
        assert_eq!(seen.news(start, &now, true), []);
        assert_eq!(seen.news(start + AWAY_FOR / 2, &now, true), []);
        let told = seen.news(start + AWAY_FOR, &now, true);
        assert_eq!(told[0].0, ActivityKind::Network);
        assert!(told[0].1.ends_with("No route to host."), "{}", told[0].1);
        assert_eq!(seen.news(start + AWAY_FOR * 2, &now, true), []);
        now.trouble = None;
        assert_eq!(seen.news(start + AWAY_FOR * 2, &now, true)[0].1, "The store is back.");
        // For a moment only: no news, and none of its end.
        now.trouble = Some("no route to host".to_owned());
        seen.news(start + AWAY_FOR * 3, &now, true);
        now.trouble = None;
        assert_eq!(seen.news(start + AWAY_FOR * 3, &now, true), []);
    }
}
