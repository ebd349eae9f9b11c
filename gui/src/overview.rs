//! All drives at a glance, and one line that says whether the user's data is safe.

use crate::card::{Card, Tone, is_uploading, needs_person};
use crate::texts::{counted, said, text};
use crate::tray::{self, TrayMenu};
use crate::words;
use holdall_api::{DriveState, DriveStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The overview of all drives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    /// The daemon's version: the pages may be of another version.
    #[serde(default)]
    pub version: String,
    /// The state of everything, in one line.
    pub line: String,
    /// Its colour.
    pub tone: Tone,
    /// Bytes that are only on this device.
    pub unsent_bytes: u64,
    /// Whether all of them have been counted.
    pub unsent_is_known: bool,
    /// How many drives need a person.
    pub attention: u32,
    /// When the pause of uploads and background downloads of all drives ends; null if they are not paused.
    pub paused_until: Option<String>,
    /// The drives, sorted by name.
    pub drives: Vec<Card>,
    /// The tray's menu.
    pub tray: TrayMenu,
}

/// Makes the overview.
pub(crate) fn overview(
    drives: Vec<Card>,
    statuses: &[&DriveStatus],
    paused_until: Option<String>,
) -> Overview {
    let unsent_bytes = drives.iter().map(|card| card.unsent_bytes).sum();
    let attention = statuses.iter().filter(|status| needs_person(status)).count() as u32;
    let unsent_is_known = drives.iter().all(|card| card.unsent_is_known);
    let size = words::unsent(unsent_bytes, unsent_is_known);
    let (line, tone) = line(&drives, statuses, (unsent_bytes, &size), attention);
    let line = words::capital(&line);
    let leaving = tray::leaving(goes_on(statuses), unsent_bytes, unsent_is_known);
    let tray = tray::menu(&line, &drives, attention, leaving, paused_until.as_deref());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Overview { version, line, tone, unsent_bytes, unsent_is_known, attention, paused_until, drives, tray }
}

/// Whether some of the changes that are only here are being uploaded, or soon will be without anybody's help.
fn goes_on(statuses: &[&DriveStatus]) -> bool {
    let uploads = [DriveState::Ready, DriveState::Syncing, DriveState::Conflict];
    statuses.iter().any(|status| {
        status.unpushed_bytes > 0 && !status.paused && uploads.contains(&status.state) || is_uploading(status)
    })
}

/// The line that matters most.
fn line(
    cards: &[Card],
    statuses: &[&DriveStatus],
    (unsent, size): (u64, &str),
    attention: u32,
) -> (String, Tone) {
    let with_size = |key: &str| said(key, &[("size", size)]);
    let is = |state: DriveState| statuses.iter().any(|status| status.state == state);
    let waits =
        |state: DriveState| statuses.iter().any(|status| status.state == state && status.unpushed_bytes > 0);
    if cards.is_empty() {
        return (text("line.none"), Tone::Quiet);
    }
    if attention > 0 {
        return (counted("line.attention", attention.into(), &[]), Tone::Attention);
    }
    if waits(DriveState::Offline) {
        return (with_size("line.offline.unsent"), Tone::Waiting);
    }
    if statuses.iter().any(|status| is_uploading(status)) {
        return (uploading(cards, statuses), Tone::Busy);
    }
    if let Some(paused) = statuses.iter().find(|status| status.state == DriveState::Paused) {
        let reason = paused.reason.as_deref().unwrap_or_default();
        let key = match (unsent > 0, paused.paused) {
            (true, true) => "line.paused.unsent",
            (false, true) => "line.paused",
            (true, false) => "line.paused.reason.unsent",
            (false, false) => "line.paused.reason",
        };
        return (said(key, &[("size", size), ("reason", reason)]), Tone::Waiting);
    }
    if is(DriveState::Offline) {
        return (text("line.offline"), Tone::Waiting);
    }
    if unsent > 0 {
        return (with_size("line.unsent"), Tone::Waiting);
    }
    if is(DriveState::Connecting) || is(DriveState::Recovering) {
        return (text("line.connecting"), Tone::Busy);
    }
    if statuses.iter().all(|status| status.state == DriveState::Closed) {
        return (text("line.closed"), Tone::Quiet);
    }
    (text("line.safe"), Tone::Safe)
}

/// How much all drives have left to upload, and the longest of their times.
fn uploading(cards: &[Card], statuses: &[&DriveStatus]) -> String {
    let uploads = || cards.iter().zip(statuses).filter(|(_, status)| is_uploading(status));
    let left = uploads().map(|(card, _)| card.unsent_bytes).sum();
    let is_known = uploads().all(|(card, _)| card.unsent_is_known);
    let size = words::unsent(left, is_known);
    // If one drive's time is unknown, so is the time of all.
    let times: Option<Vec<u64>> = uploads().map(|(card, _)| card.eta_s).collect();
    match times.and_then(|times| times.into_iter().max()) {
        Some(seconds) => said("line.uploading.eta", &[("size", &size), ("time", &words::left(seconds))]),
        None => said("line.uploading", &[("size", &size)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::status;
    use crate::{Model, Now};
    use holdall_api::Event;
    use std::time::Duration;

    fn shown(drives: &[(DriveState, u64)]) -> Overview {
        let mut model = Model::default();
        for (index, (state, unsent)) in drives.iter().enumerate() {
            let mut status = status(&format!("d{index}"), *state);
            status.unpushed_bytes = *unsent;
            status.paused = *state == DriveState::Paused && index > 0;
            status.reason = (*state == DriveState::Paused).then(|| "metered network".to_owned());
            model.apply(Now(Duration::ZERO), Event::Drive(Box::new(status)));
        }
        model.overview()
    }

    #[test]
    fn the_line_says_what_matters_most() {
        use DriveState::{Closed, Conflict, NeedsAttention, Offline, Paused, Ready, Syncing};
        const MB: u64 = 1 << 20;
        for (drives, line, tone) in [
            (&[][..], "No drives yet", Tone::Quiet),
            (&[(Ready, 0), (Closed, 0)], "All changes uploaded", Tone::Safe),
            (&[(Closed, 0)], "All drives are closed", Tone::Quiet),
            (&[(Ready, 0), (Ready, 5 * MB)], "5 MiB waiting to upload", Tone::Waiting),
            (&[(Ready, MB), (Syncing, 5 * MB)], "Uploading 5 MiB", Tone::Busy),
            (&[(Syncing, MB), (Offline, 5 * MB)], "Offline, 6 MiB waiting", Tone::Waiting),
            (&[(Offline, 0)], "Offline, nothing waiting", Tone::Waiting),
            (&[(Paused, MB)], "Paused: metered network, 1 MiB waiting", Tone::Waiting),
            (&[(Ready, 0), (Paused, 0)], "Paused by you", Tone::Waiting),
            (&[(Offline, MB), (Conflict, 0)], "1 drive needs attention", Tone::Attention),
            (&[(NeedsAttention, 0), (Conflict, 0)], "2 drives need attention", Tone::Attention),
        ] {
            let overview = shown(drives);
            assert_eq!((overview.line.as_str(), overview.tone), (line, tone), "{drives:?}");
        }
    }

    #[test]
    fn a_closed_drive_that_uploads_shows_so_and_quitting_is_safe() {
        let mut status = status("d", DriveState::Closed);
        (status.unpushed_bytes, status.mountpoint) = (5 << 20, None);
        let told = |status: &DriveStatus| {
            let mut model = Model::default();
            model.apply(Now(Duration::ZERO), Event::Drive(Box::new(status.clone())));
            let overview = model.overview();
            (overview.line, overview.tone, overview.tray.leaving.unwrap().message)
        };
        let (line, tone, leaving) = told(&status);
        assert_eq!((line.as_str(), tone), ("5 MiB waiting to upload", Tone::Waiting));
        assert!(leaving.contains("uploads are on hold"), "{leaving}");
        status.draining = true;
        let (line, tone, leaving) = told(&status);
        assert_eq!((line.as_str(), tone), ("Uploading 5 MiB", Tone::Busy));
        assert!(leaving.contains("keeps uploading"), "{leaving}");
        status.set_unsent(0);
        assert_eq!(told(&status).0, "Uploading some changes");
    }

    #[test]
    fn uncounted_changes_show_no_figure() {
        let told = |state| {
            let mut status = status("d", state);
            status.set_unsent(0);
            status.paused = state == DriveState::Paused;
            let mut model = Model::default();
            model.apply(Now(Duration::ZERO), Event::Drive(Box::new(status)));
            let overview = model.overview();
            assert!(!overview.unsent_is_known && overview.tone == Tone::Waiting, "{overview:?}");
            assert_eq!(overview.tray.entries[0].label, overview.line);
            assert!(overview.tray.leaving.unwrap().message.starts_with("Some changes exist only"));
            overview.line
        };
        assert_eq!(told(DriveState::Closed), "Some changes waiting to upload");
        assert_eq!(told(DriveState::Paused), "Paused by you, some changes waiting");
    }

    #[test]
    fn the_overview_is_green_only_if_nothing_is_unsent() {
        assert_eq!(shown(&[(DriveState::Ready, 0), (DriveState::Closed, 1)]).tone, Tone::Waiting);
        assert_eq!(shown(&[(DriveState::Ready, 0), (DriveState::Closed, 1)]).unsent_bytes, 1);
    }
}
