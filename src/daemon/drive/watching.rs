//! Records what happens to an open drive: complete uploads, a store or a replica that goes away and comes back, a take-over, a stopped
//! push, and a journal that fills up. It waits for the engine's news, and does nothing while there is none and no upload is pending.

use super::Drive;
use crate::api::ActivityKind;
use crate::api::words::sentence;
use crate::daemon::failure;
use crate::daemon::status::{JOURNAL_IS_NEARLY_FULL, JOURNAL_WARNS};
use crate::daemon::stores::renewable::Hindrance;
use crate::sizes::format_bytes;
use holdall_core::push::PushState;
use holdall_core::replica::{Progress, Standing};
use holdall_core::store::url::StoreUrl;
use holdall_core::units::Lsn;
use holdall_core::volume::Volume;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A shorter absence of a store is not worth a row: networks come and go.
const AWAY_FOR: Duration = Duration::from_secs(20);
/// How often the journal is checked while uploads are pending: it takes minutes to fill.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Below this part of its limit (per mille) the journal counts as emptied.
const JOURNAL_IS_EASY: u64 = 400;

/// The state as it was last seen.
struct Seen {
    committed: Lsn,
    /// Bytes put into the store for the drive, as of the last complete upload.
    uploaded: u64,
    absence: Absence,
    is_forked: bool,
    is_stopped: bool,
    /// How full the journal was at the last report, per mille of its limit; 0 if nothing was reported.
    filled: u64,
}

/// Whether a store is away, and whether that was reported.
#[derive(Default)]
struct Absence {
    since: Option<Instant>,
    is_told: bool,
}

/// A change of a store that is worth a row.
#[derive(Debug, PartialEq)]
enum Turn {
    /// It has been away for a while.
    Away,
    /// It is back, and its absence was reported.
    Back,
}

impl Absence {
    /// Records whether it is away now.
    fn turn(&mut self, now: Instant, is_away: bool) -> Option<Turn> {
        match (is_away, self.since) {
            (true, None) => self.since = Some(now),
            (true, Some(since)) if !self.is_told && now.duration_since(since) >= AWAY_FOR => {
                self.is_told = true;
                return Some(Turn::Away);
            }
            (false, Some(_)) => {
                let was_told = std::mem::take(self).is_told;
                return was_told.then_some(Turn::Back);
            }
            _ => {}
        }
        None
    }

    /// Returns once it has been away for long enough to report.
    async fn long_enough(&self) {
        match self.since.filter(|_| !self.is_told) {
            Some(since) => tokio::time::sleep_until(since + AWAY_FOR).await,
            None => std::future::pending().await,
        }
    }
}

/// Bytes in the journal, and its limit.
#[derive(Clone, Copy)]
struct Journal {
    bytes: u64,
    limit: u64,
}

impl Drive {
    /// Begins for an engine that was just opened for writing; ends with it.
    pub(super) fn begin_watching(&self, volume: &Arc<Volume>) {
        let Some(pusher) = volume.pusher() else { return };
        let (mut state, volume) = (pusher.state(), Arc::downgrade(volume));
        let (name, registry, reached) =
            (self.name.clone(), self.registry.clone(), self.reached.read().clone());
        let mut seen = Seen::new(&state.borrow());
        tokio::spawn(async move {
            loop {
                let is_over = tokio::select! {
                    changed = state.changed() => changed.is_err(),
                    () = seen.absence.long_enough() => false,
                    () = tokio::time::sleep(LOOK_EVERY), if state.borrow().waiting_since.is_some() => false,
                };
                let Some((has_unsent, journal)) = volume.upgrade().map(|volume| {
                    let status = volume.status();
                    let journal = Journal { bytes: status.journal_bytes, limit: status.journal_limit_bytes };
                    (volume.has_unsent(), journal)
                }) else {
                    return;
                };
                let login = reached.as_ref().and_then(|reached| match reached.hindrance()? {
                    // A directory has no login.
                    Hindrance::Credentials(_) if !matches!(reached.url(), StoreUrl::File(_)) => {
                        Some("Log in to the store again.")
                    }
                    Hindrance::Keyring { .. } => Some("Unlock the keyring."),
                    _ => None,
                });
                let mut news = seen.news(Instant::now(), &state.borrow_and_update(), has_unsent, login);
                news.extend(seen.filling(journal));
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

impl Drive {
    /// Reports a replica that is away for long, and its return; ends with the replica.
    pub(super) fn watch_replica(&self, url: &str, mut progress: watch::Receiver<Progress>) {
        let (name, registry, url) = (self.name.clone(), self.registry.clone(), url.to_owned());
        tokio::spawn(async move {
            let (mut absence, mut why) = (Absence::default(), String::new());
            loop {
                let is_away = match &progress.borrow_and_update().standing {
                    Standing::Trouble(trouble) => {
                        why.clone_from(trouble);
                        true
                    }
                    // It is being tried, and may refuse again.
                    Standing::Behind | Standing::Unknown => absence.since.is_some(),
                    Standing::UpToDate | Standing::Paused => false,
                };
                let turn = absence.turn(Instant::now(), is_away);
                if let Some(message) = turn.map(|turn| of_replica(&url, turn, &why)) {
                    registry.activity().note(Some(&name), ActivityKind::Network, message);
                }
                let is_over = tokio::select! {
                    changed = progress.changed() => changed.is_err(),
                    () = absence.long_enough() => false,
                };
                if is_over {
                    return;
                }
            }
        });
    }
}

fn of_replica(url: &str, turn: Turn, why: &str) -> String {
    match turn {
        Turn::Away => format!("The replica at {url} is not up to date. {}", sentence(why)),
        Turn::Back => format!("The replica at {url} is back."),
    }
}

impl Seen {
    fn new(state: &PushState) -> Self {
        Self {
            committed: state.committed,
            uploaded: state.put_bytes,
            absence: Absence::default(),
            is_forked: state.fork.is_some(),
            is_stopped: state.stopped.is_some(),
            filled: 0,
        }
    }

    /// Reports a journal that fills up: once well before writes must wait, once shortly before.
    fn filling(&mut self, journal: Journal) -> Option<(ActivityKind, String)> {
        let full = journal.bytes * 1000 / journal.limit.max(1);
        if full < JOURNAL_IS_EASY {
            self.filled = 0;
        }
        let levels = [JOURNAL_IS_NEARLY_FULL, JOURNAL_WARNS];
        let level = levels.into_iter().find(|level| full >= *level).filter(|level| *level > self.filled)?;
        self.filled = level;
        let (bytes, left) =
            (format_bytes(journal.bytes), format_bytes(journal.limit.saturating_sub(journal.bytes)));
        let message = format!(
            "{bytes} is still to be uploaded, and this computer has space for {left} more. When that is full, saving waits until \
             uploads continue; nothing is lost."
        );
        Some((ActivityKind::Attention, message))
    }

    /// The news since the last look. If the store refuses access, `login` says what a person can do.
    fn news(
        &mut self,
        now: Instant,
        state: &PushState,
        has_unsent: bool,
        login: Option<&str>,
    ) -> Vec<(ActivityKind, String)> {
        let mut news = Vec::new();
        match (self.absence.turn(now, state.trouble.is_some()), &state.trouble) {
            (Some(Turn::Away), Some(trouble)) => {
                let why = sentence(trouble);
                let login = login.map(|login| format!(" {login}")).unwrap_or_default();
                news.push((ActivityKind::Network, format!("Uploads wait. {why}{login}")));
            }
            (Some(Turn::Back), _) => news.push((ActivityKind::Network, "The store is back.".to_owned())),
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
                format!("Uploads have stopped. {}", failure::push(error).message),
            ));
        }
        self.is_stopped = state.stopped.is_some();
        if state.committed > self.committed && !has_unsent {
            self.committed = state.committed;
            let bytes = state.put_bytes.saturating_sub(self.uploaded);
            self.uploaded = state.put_bytes;
            // Zeros and trims take next to no upload.
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
    use holdall_core::drive::ObjectId;
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
            batch_journal_bytes: 0,
            put_bytes: 0,
            outgoing: Vec::new(),
            answered: None,
            trouble: None,
            is_full: false,
            is_taken: true,
            is_on_hold: false,
            stopped: None,
            waiting_since: None,
            fork: None,
            stored: holdall_core::push::Stored::default(),
            collecting: None,
        }
    }

    #[test]
    fn pending_bytes_fall_with_puts_and_last_until_the_commit() {
        const MIB: u64 = 1 << 20;
        let mut now = state();
        assert_eq!((now.waiting_bytes(0), now.waiting_bytes(300 * MIB)), (0, 300 * MIB));
        // The batch is 200 of the 300 MiB, which shrink to half once overwritten data is left out.
        (now.batch, now.batch_journal_bytes) = ((0, 100 * MIB), 200 * MIB);
        assert_eq!(now.waiting_bytes(300 * MIB), 300 * MIB);
        now.batch.0 = 50 * MIB;
        assert_eq!(now.waiting_bytes(300 * MIB), 200 * MIB);
        now.batch.0 = 100 * MIB;
        assert_eq!(now.waiting_bytes(300 * MIB), 100 * MIB);
        assert_eq!(now.waiting_bytes(200 * MIB), 4096, "it is not there before the commit");
        // Interrupted: all of it is sent again.
        now.batch_journal_bytes = 0;
        assert_eq!(now.waiting_bytes(300 * MIB), 300 * MIB);
    }

    #[test]
    fn an_upload_is_reported_when_nothing_is_left() {
        let mut now = state();
        let mut seen = Seen::new(&now);
        (now.committed, now.put_bytes) = (Lsn(5), 4 << 20);
        assert_eq!(seen.news(Instant::now(), &now, true, None), []);
        (now.committed, now.put_bytes) = (Lsn(9), 6 << 20);
        let told = seen.news(Instant::now(), &now, false, None);
        assert_eq!(told, [(ActivityKind::Uploaded, "All changes are uploaded (6 MiB).".to_owned())]);
        assert_eq!(seen.news(Instant::now(), &now, false, None), []);
    }

    #[test]
    fn a_filling_journal_is_reported_early_and_once_nearly_full() {
        let mut seen = Seen::new(&state());
        let mut at =
            |share: u64| seen.filling(Journal { bytes: share << 20, limit: 100 << 20 }).map(|(_, text)| text);
        assert_eq!(at(59), None);
        let told = at(60).unwrap();
        assert!(
            told.starts_with("60 MiB is still to be uploaded") && told.contains("space for 40 MiB more"),
            "{told}"
        );
        assert_eq!(
            (at(61), at(50), at(70)),
            (None, None, None),
            "it is reported once while it stays about as full"
        );
        assert!(at(90).is_some_and(|told| told.contains("10 MiB")));
        assert_eq!(at(100), None);
        assert_eq!((at(10), at(60).is_some()), (None, true), "emptied and filled again is news again");
    }

    #[test]
    fn a_store_that_refuses_credentials_is_reported_with_a_remedy() {
        let mut now = state();
        let (mut seen, start) = (Seen::new(&now), Instant::now());
        now.trouble = Some("the store refused the credentials: h does not know the access key".to_owned());
        seen.news(start, &now, true, Some("Log in to the store again."));
        let told = seen.news(start + AWAY_FOR, &now, true, Some("Log in to the store again."));
        assert_eq!(
            told[0].1,
            "Uploads wait. The store refused the credentials: h does not know the access key. \
             Log in to the store again."
        );
    }

    #[test]
    fn a_stores_absence_and_its_return_are_reported_once() {
        let mut now = state();
        let (mut seen, start) = (Seen::new(&now), Instant::now());
        now.trouble = Some("no route to host".to_owned());
        assert_eq!(seen.news(start, &now, true, None), []);
        assert_eq!(seen.news(start + AWAY_FOR / 2, &now, true, None), []);
        let told = seen.news(start + AWAY_FOR, &now, true, None);
        assert_eq!(told[0].0, ActivityKind::Network);
        assert!(told[0].1.ends_with("No route to host."), "{}", told[0].1);
        assert_eq!(seen.news(start + AWAY_FOR * 2, &now, true, None), []);
        now.trouble = None;
        assert_eq!(seen.news(start + AWAY_FOR * 2, &now, true, None)[0].1, "The store is back.");
        // Away only for a moment: neither that nor its return is news.
        now.trouble = Some("no route to host".to_owned());
        seen.news(start + AWAY_FOR * 3, &now, true, None);
        now.trouble = None;
        assert_eq!(seen.news(start + AWAY_FOR * 3, &now, true, None), []);
    }

    #[test]
    fn a_replicas_absence_is_reported_once_with_reason_and_return() {
        let (mut absence, start) = (Absence::default(), Instant::now());
        assert_eq!(absence.turn(start, true), None);
        let turn = absence.turn(start + AWAY_FOR, true).unwrap();
        assert_eq!(
            of_replica("file:///usb", turn, "no such directory"),
            "The replica at file:///usb is not up to date. No such directory."
        );
        assert_eq!(absence.turn(start + AWAY_FOR * 2, true), None);
        let turn = absence.turn(start + AWAY_FOR * 3, false).unwrap();
        assert_eq!(of_replica("file:///usb", turn, ""), "The replica at file:///usb is back.");
        // Away only for a moment.
        assert_eq!(absence.turn(start + AWAY_FOR * 4, true), None);
        assert_eq!(absence.turn(start + AWAY_FOR * 4, false), None);
    }
}
