//! All drives and folders at a glance, and one line that says whether the user's data is safe.

use crate::card::{Card, Tone, is_uploading, needs_person};
use crate::folder;
use crate::texts::{counted, said, text};
use crate::tray::{self, TrayMenu};
use crate::words;
use holdall_api::{DriveState, DriveStatus, FolderStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The overview of all drives and folders.
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
    /// How many drives and folders need a person.
    pub attention: u32,
    /// When the pause of uploads and background downloads of all drives ends; null if they are not paused.
    pub paused_until: Option<String>,
    /// The drives, sorted by name.
    pub drives: Vec<Card>,
    /// The folders, sorted by name.
    #[serde(default)]
    pub folders: Vec<FolderStatus>,
    /// The tray's menu.
    pub tray: TrayMenu,
}

/// Makes the overview.
pub(crate) fn overview(
    drives: Vec<Card>,
    statuses: &[&DriveStatus],
    folders: Vec<FolderStatus>,
    paused_until: Option<String>,
) -> Overview {
    let places = places(&drives, statuses, &folders);
    let unsent_bytes = places.iter().map(|place| place.unsent.0).sum();
    let attention = places.iter().filter(|place| place.needs_person).count() as u32;
    let unsent_is_known = places.iter().all(|place| place.unsent.1);
    let size = words::unsent(unsent_bytes, unsent_is_known);
    let (line, tone) = line(&places, (unsent_bytes, &size), attention);
    let line = words::capital(&line);
    let goes_on = places.iter().any(Place::goes_on);
    let leaving = tray::leaving(goes_on, unsent_bytes, unsent_is_known);
    let tray = tray::menu(&line, (&drives, &folders), attention, leaving, paused_until.as_deref());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Overview {
        version,
        line,
        tone,
        unsent_bytes,
        unsent_is_known,
        attention,
        paused_until,
        drives,
        folders,
        tray,
    }
}

/// A drive or folder, as far as the line is concerned.
struct Place<'a> {
    is_folder: bool,
    state: DriveState,
    reason: Option<&'a str>,
    /// Whether a person has paused it.
    is_paused: bool,
    needs_person: bool,
    is_uploading: bool,
    /// Bytes, and whether they have been counted.
    unsent: (u64, bool),
    eta_s: Option<u64>,
}

impl Place<'_> {
    /// Whether some of what is only here is being uploaded, or soon will be without anybody's help.
    fn goes_on(&self) -> bool {
        let uploads = [DriveState::Ready, DriveState::Syncing, DriveState::Conflict];
        self.unsent.0 > 0 && !self.is_paused && uploads.contains(&self.state) || self.is_uploading
    }
}

fn places<'a>(cards: &[Card], statuses: &[&'a DriveStatus], folders: &'a [FolderStatus]) -> Vec<Place<'a>> {
    let drives = cards.iter().zip(statuses).map(|(card, status)| Place {
        is_folder: false,
        state: status.state,
        reason: status.reason.as_deref(),
        is_paused: status.paused,
        needs_person: needs_person(status),
        is_uploading: is_uploading(status),
        unsent: (card.unsent_bytes, card.unsent_is_known),
        eta_s: card.eta_s,
    });
    let folders = folders.iter().map(|status| Place {
        is_folder: true,
        state: status.state,
        reason: status.reason.as_deref(),
        is_paused: status.paused,
        needs_person: folder::needs_person(status),
        is_uploading: folder::is_uploading(status),
        unsent: folder::unsent(status),
        eta_s: None,
    });
    drives.chain(folders).collect()
}

/// The line that matters most.
fn line(places: &[Place<'_>], (unsent, size): (u64, &str), attention: u32) -> (String, Tone) {
    let with_size = |key: &str| said(key, &[("size", size)]);
    let is = |state: DriveState| places.iter().any(|place| place.state == state);
    let waits = |state: DriveState| places.iter().any(|place| place.state == state && place.unsent.0 > 0);
    let has_folders = places.iter().any(|place| place.is_folder);
    if places.is_empty() {
        return (text("line.none"), Tone::Quiet);
    }
    if attention > 0 {
        let is_of_folder = places.iter().any(|place| place.is_folder && place.needs_person);
        let key = if is_of_folder { "line.attention.folders" } else { "line.attention" };
        return (counted(key, attention.into(), &[]), Tone::Attention);
    }
    if waits(DriveState::Offline) {
        return (with_size("line.offline.unsent"), Tone::Waiting);
    }
    if places.iter().any(|place| place.is_uploading) {
        return (uploading(places), Tone::Busy);
    }
    if let Some(paused) = places.iter().find(|place| place.state == DriveState::Paused) {
        let reason = paused.reason.unwrap_or_default();
        let key = match (unsent > 0, paused.is_paused) {
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
    if places.iter().all(|place| place.state == DriveState::Closed) {
        let key = if has_folders { "line.closed.folders" } else { "line.closed" };
        return (text(key), Tone::Quiet);
    }
    (text("line.safe"), Tone::Safe)
}

/// How much is left to upload of all that is being uploaded, and the longest of the times.
fn uploading(places: &[Place<'_>]) -> String {
    let uploads = || places.iter().filter(|place| place.is_uploading);
    let left = uploads().map(|place| place.unsent.0).sum();
    let is_known = uploads().all(|place| place.unsent.1);
    let size = words::unsent(left, is_known);
    // If the time of one is unknown, so is the time of all.
    let times: Option<Vec<u64>> = uploads().map(|place| place.eta_s).collect();
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
    fn the_line_counts_folders_too() {
        let line = |change: fn(&mut FolderStatus)| {
            let mut photos = crate::folder::tests::folder("photos", DriveState::Ready);
            change(&mut photos);
            let mut model = Model::default();
            let closed = status("d", DriveState::Closed);
            model.apply(Now(Duration::ZERO), Event::Drive(Box::new(closed)));
            model.apply(Now(Duration::ZERO), Event::Folder(Box::new(photos)));
            let overview = model.overview();
            assert_eq!(overview.folders.len(), 1);
            (overview.line, overview.tone)
        };
        let is = |text: &str, tone| (text.to_owned(), tone);
        assert_eq!(line(|_| {}), is("All changes uploaded", Tone::Safe));
        assert_eq!(line(|photos| photos.state = DriveState::Closed), is("Everything is closed", Tone::Quiet));
        assert_eq!(line(|photos| photos.dirty_bytes = 5 << 20), is("5 MiB waiting to upload", Tone::Waiting));
        assert_eq!(line(|photos| photos.conflicts = 2), is("1 folder needs attention", Tone::Attention));
        let uploads = |photos: &mut FolderStatus| (photos.queue.uploading, photos.dirty_bytes) = (1, 5 << 20);
        assert_eq!(line(uploads), is("Uploading 5 MiB", Tone::Busy));
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
