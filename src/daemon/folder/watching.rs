//! Notes what happens to an open folder in the activity.

use super::remote::Link;
use super::{Folder, Live};
use crate::api::ActivityKind;
use crate::api::words::sentence;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A remote that is away for a shorter time is no news.
const AWAY_FOR: Duration = Duration::from_secs(15);

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look {
    /// Files that were uploaded since the opening.
    uploads: u64,
    /// Nothing waits or is under way.
    is_idle: bool,
    /// The paths of conflicts that nobody has settled: the remote's, and ours.
    conflicts: Vec<(String, String)>,
    /// Held deletions.
    held: u64,
    /// Why the remote cannot be used.
    trouble: Option<String>,
}

/// What has been noted.
struct Noted {
    uploads: u64,
    conflicts: Vec<(String, String)>,
    held: u64,
    /// Since when the remote cannot be used, and whether that was noted.
    away: Option<(Instant, bool)>,
}

impl Folder {
    /// Looks until the engine is put down.
    pub(super) fn watch(self: &Arc<Self>, live: &Live) -> tokio::task::AbortHandle {
        let (folder, live) = (Arc::downgrade(self), live.clone());
        let watching = tokio::spawn(async move {
            let mut down = live.down.subscribe();
            let mut noted = Noted::since(&look(&live));
            let mut turns = tokio::time::interval(LOOK_EVERY);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let is_over = tokio::select! {
                    _ = down.wait_for(|&is_down| is_down) => true,
                    _ = turns.tick() => false,
                };
                let Some(folder) = folder.upgrade() else { return };
                for (kind, message) in noted.news(Instant::now(), &look(&live)) {
                    folder.note(kind, message);
                }
                if is_over {
                    return;
                }
            }
        });
        watching.abort_handle()
    }
}

fn look(live: &Live) -> Look {
    let outbox = live.engine.outbox();
    let queue = outbox.queue(0);
    let conflicts = outbox.conflicts().into_iter().map(|conflict| (conflict.path, conflict.kept_as));
    let trouble = match live.remote.link() {
        Link::Silent(why) => Some(why),
        Link::Unknown | Link::Answers | Link::Hindered(_) => None,
    };
    Look {
        uploads: live.remote.uploads(),
        is_idle: queue.waiting + queue.uploading == 0,
        conflicts: conflicts.collect(),
        held: live.engine.held().count,
        trouble,
    }
}

impl Noted {
    /// What was there at the opening is no news.
    fn since(look: &Look) -> Self {
        Self { uploads: look.uploads, conflicts: look.conflicts.clone(), held: look.held, away: None }
    }

    fn news(&mut self, now: Instant, look: &Look) -> Vec<(ActivityKind, String)> {
        let mut news = Vec::new();
        for (path, kept_as) in look.conflicts.iter().filter(|conflict| !self.conflicts.contains(conflict)) {
            let message =
                format!("{path} was changed both here and at the remote. Yours is kept as {kept_as}.");
            news.push((ActivityKind::Conflict, message));
        }
        self.conflicts.clone_from(&look.conflicts);
        if look.held > self.held {
            let message = format!(
                "{} files were deleted at the remote at once. Here they stay until you decide.",
                look.held
            );
            news.push((ActivityKind::Deletions, message));
        }
        self.held = look.held;
        if look.is_idle && look.uploads > self.uploads {
            let message = match look.uploads - self.uploads {
                1 => "Uploaded 1 file.".to_owned(),
                count => format!("Uploaded {count} files."),
            };
            news.push((ActivityKind::Uploaded, message));
            self.uploads = look.uploads;
        }
        news.extend(self.network(now, look.trouble.as_deref()));
        news
    }

    fn network(&mut self, now: Instant, trouble: Option<&str>) -> Option<(ActivityKind, String)> {
        match (trouble, self.away) {
            (Some(_), None) => {
                self.away = Some((now, false));
                None
            }
            (Some(why), Some((since, false))) if now.duration_since(since) >= AWAY_FOR => {
                self.away = Some((since, true));
                Some((ActivityKind::Network, format!("Uploads wait. {}", sentence(why))))
            }
            (Some(_), Some(_)) => None,
            (None, away) => {
                self.away = None;
                away.filter(|(_, is_noted)| *is_noted)
                    .map(|_| (ActivityKind::Network, "The remote is back.".to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle() -> Look {
        Look { is_idle: true, ..Look::default() }
    }

    fn kinds(news: Vec<(ActivityKind, String)>) -> Vec<ActivityKind> {
        news.into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn uploads_are_one_row_once_all_are_done() {
        let (mut noted, now) = (Noted::since(&idle()), Instant::now());
        assert_eq!(noted.news(now, &Look { uploads: 2, is_idle: false, ..Look::default() }), []);
        let told = noted.news(now, &Look { uploads: 3, ..idle() });
        assert_eq!(told, [(ActivityKind::Uploaded, "Uploaded 3 files.".to_owned())]);
        assert_eq!(noted.news(now, &Look { uploads: 3, ..idle() }), []);
        assert_eq!(noted.news(now, &Look { uploads: 4, ..idle() })[0].1, "Uploaded 1 file.");
    }

    #[test]
    fn each_conflict_and_a_grown_hold_are_news_once() {
        let old = ("old".to_owned(), "old (conflict)".to_owned());
        let at_opening = Look { conflicts: vec![old.clone()], ..idle() };
        let (mut noted, now) = (Noted::since(&at_opening), Instant::now());
        assert_eq!(noted.news(now, &at_opening), []);
        let new = ("a".to_owned(), "a (conflict)".to_owned());
        let look = Look { conflicts: vec![old, new], held: 600, ..idle() };
        assert_eq!(kinds(noted.news(now, &look)), [ActivityKind::Conflict, ActivityKind::Deletions]);
        assert_eq!(noted.news(now, &look), []);
        // A person has settled both.
        assert_eq!(noted.news(now, &idle()), []);
    }

    #[test]
    fn a_remote_that_is_away_for_a_moment_is_no_news() {
        let (mut noted, start) = (Noted::since(&idle()), Instant::now());
        let away = Look { trouble: Some("no route to host".to_owned()), ..idle() };
        assert_eq!(noted.news(start, &away), []);
        assert_eq!(noted.news(start + AWAY_FOR / 2, &idle()), []);
        noted.news(start + AWAY_FOR, &away);
        let told = noted.news(start + AWAY_FOR * 2, &away);
        assert_eq!(told, [(ActivityKind::Network, "Uploads wait. No route to host.".to_owned())]);
        assert_eq!(noted.news(start + AWAY_FOR * 3, &away), []);
        assert_eq!(noted.news(start + AWAY_FOR * 3, &idle())[0].1, "The remote is back.");
    }
}
