//! What can be chosen in the tray's menu, from an entry's id.

use holdall::cli::client::segment;
use holdall_gui::{Overview, Tone};
use jiff::{SignedDuration, Zoned};

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The window.
    Window,
    /// Its settings.
    Settings,
    /// What needs a person.
    Attention,
    /// The daemon, which does not run.
    Start,
    /// Uploads and background downloads of all drives wait.
    Pause(Until),
    /// They go on.
    Resume,
    /// The app's end.
    Quit,
    /// Something with a drive.
    Drive {
        /// What.
        action: DriveAction,
        /// Its name.
        name: String,
    },
}

/// Until when there is a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// For an hour.
    Hour,
    /// Until tomorrow.
    Tomorrow,
}

/// What can be done with a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveAction {
    /// Show it in the window.
    Show,
    /// Show it in the file manager.
    Folder,
    /// Open it.
    Open,
    /// Close it.
    Close,
    /// Stop uploading.
    Pause,
    /// Go on uploading.
    Resume,
    /// Upload at once what waits.
    UploadNow,
}

impl Choice {
    /// What an entry's id stands for. `None` for one that cannot be chosen.
    pub fn of(id: &str) -> Option<Choice> {
        Some(match id {
            "window" => Choice::Window,
            "settings" => Choice::Settings,
            "attention" => Choice::Attention,
            "start" => Choice::Start,
            "pause:1h" => Choice::Pause(Until::Hour),
            "pause:tomorrow" => Choice::Pause(Until::Tomorrow),
            "resume" => Choice::Resume,
            "quit" => Choice::Quit,
            _ => {
                let (action, name) = id.strip_prefix("drive:")?.split_once(':')?;
                let action = match action {
                    "show" => DriveAction::Show,
                    "folder" => DriveAction::Folder,
                    "open" => DriveAction::Open,
                    "close" => DriveAction::Close,
                    "pause" => DriveAction::Pause,
                    "resume" => DriveAction::Resume,
                    "upload_now" => DriveAction::UploadNow,
                    _ => return None,
                };
                Choice::Drive { action, name: name.to_owned() }
            }
        })
    }
}

impl Until {
    /// How long that is.
    pub fn after(self, now: &Zoned) -> SignedDuration {
        const HOUR: SignedDuration = SignedDuration::from_hours(1);
        match self {
            Until::Hour => HOUR,
            // Until eight in the morning, as in the pages.
            Until::Tomorrow => now
                .tomorrow()
                .and_then(|day| day.date().at(8, 0, 0, 0).to_zoned(now.time_zone().clone()))
                .map_or(HOUR * 24, |morning| now.duration_until(&morning)),
        }
    }
}

/// The screen of a drive.
pub fn screen(drive: &str) -> String {
    format!("#/drive/{}", segment(drive))
}

/// The screen of what needs a person: the drive's, where there is one only.
pub fn attention(overview: Option<&Overview>) -> String {
    let drives = overview.map_or(&[][..], |overview| &overview.drives);
    let mut needy = drives.iter().filter(|card| card.state.tone == Tone::Attention);
    match (needy.next(), needy.next()) {
        (Some(card), None) => screen(&card.name),
        _ => "#/drives".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_that_can_be_chosen_stands_for_something() {
        assert_eq!(Choice::of("pause:1h"), Some(Choice::Pause(Until::Hour)));
        let name = "a:b".to_owned();
        assert_eq!(Choice::of("drive:open:a:b"), Some(Choice::Drive { action: DriveAction::Open, name }));
        for id in ["", "status", "pause", "drive:burn:a", "drive:open"] {
            assert_eq!(Choice::of(id), None, "{id}");
        }
    }

    #[test]
    fn tomorrow_begins_at_eight() {
        let hours = |now: &str| Until::Tomorrow.after(&now.parse().unwrap()).as_hours();
        assert_eq!(hours("2026-11-20T20:00:00[Europe/Vienna]"), 12);
        assert_eq!(hours("2026-11-20T00:00:00[Europe/Vienna]"), 32);
        // The night in which summer ends has an hour more.
        assert_eq!(hours("2026-10-24T20:00:00[Europe/Vienna]"), 13);
    }

    #[test]
    fn a_drive_has_a_screen_whatever_it_is_called() {
        assert_eq!(screen("a b/ü"), "#/drive/a%20b%2F%C3%BC");
        assert_eq!(attention(None), "#/drives");
    }
}
