//! The choices in the tray's menu, from the ids of its entries.

use holdall_client::request::segment;
use holdall_gui::{Overview, Tone};
use jiff::{SignedDuration, Zoned};

/// A choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Show the window.
    Window,
    /// Show the settings.
    Settings,
    /// Show what needs a person.
    Attention,
    /// Start the daemon, which is not running.
    Start,
    /// Pause uploads and background downloads of all drives.
    Pause(Until),
    /// Resume them.
    Resume,
    /// Quit the app.
    Quit,
    /// Do something with a drive.
    Drive {
        /// The action.
        action: DriveAction,
        /// Its name.
        name: String,
    },
    /// Do something with a folder.
    Folder {
        /// The action.
        action: DriveAction,
        /// Its name.
        name: String,
    },
}

/// How long a pause lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// For an hour.
    Hour,
    /// Until tomorrow.
    Tomorrow,
}

/// An action on a drive or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveAction {
    /// Show it in the window.
    Show,
    /// Show it in the file manager.
    Directory,
    /// Open it.
    Open,
    /// Close it.
    Close,
    /// Pause uploads and background downloads.
    Pause,
    /// Resume them.
    Resume,
    /// Start uploading pending changes now.
    UploadNow,
}

impl Choice {
    /// The choice for an entry's id. `None` if the entry cannot be chosen.
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
                let (of, rest) = id.split_once(':')?;
                let (action, name) = rest.split_once(':')?;
                let action = match action {
                    "show" => DriveAction::Show,
                    "directory" => DriveAction::Directory,
                    "open" => DriveAction::Open,
                    "close" => DriveAction::Close,
                    "pause" => DriveAction::Pause,
                    "resume" => DriveAction::Resume,
                    "upload_now" => DriveAction::UploadNow,
                    _ => return None,
                };
                let name = name.to_owned();
                match of {
                    "drive" => Choice::Drive { action, name },
                    "folder" => Choice::Folder { action, name },
                    _ => return None,
                }
            }
        })
    }
}

impl Until {
    /// How long the pause is, starting at `now`.
    pub fn after(self, now: &Zoned) -> SignedDuration {
        const HOUR: SignedDuration = SignedDuration::from_hours(1);
        match self {
            Until::Hour => HOUR,
            // Until eight in the morning, as on the pages.
            Until::Tomorrow => now
                .tomorrow()
                .and_then(|day| day.date().at(8, 0, 0, 0).to_zoned(now.time_zone().clone()))
                .map_or(HOUR * 24, |morning| now.duration_until(&morning)),
        }
    }
}

/// The screen of a drive or folder: names are unique among both.
pub fn screen(drive: &str) -> String {
    format!("#/drive/{}", segment(drive))
}

/// The screen for what needs a person: the drive's own, if there is only one.
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
    fn every_entry_that_can_be_chosen_has_a_choice() {
        assert_eq!(Choice::of("pause:1h"), Some(Choice::Pause(Until::Hour)));
        let name = "a:b".to_owned();
        assert_eq!(Choice::of("drive:open:a:b"), Some(Choice::Drive { action: DriveAction::Open, name }));
        let name = "a:b".to_owned();
        assert_eq!(Choice::of("folder:close:a:b"), Some(Choice::Folder { action: DriveAction::Close, name }));
        for id in ["", "status", "pause", "disk:open:a", "drive:burn:a", "drive:open"] {
            assert_eq!(Choice::of(id), None, "{id}");
        }
    }

    #[test]
    fn tomorrow_begins_at_eight() {
        let hours = |now: &str| Until::Tomorrow.after(&now.parse().unwrap()).as_hours();
        assert_eq!(hours("2026-11-20T20:00:00[Europe/Vienna]"), 12);
        assert_eq!(hours("2026-11-20T00:00:00[Europe/Vienna]"), 32);
        // The night in which summer time ends is an hour longer.
        assert_eq!(hours("2026-10-24T20:00:00[Europe/Vienna]"), 13);
    }

    #[test]
    fn any_drive_name_has_a_screen() {
        assert_eq!(screen("a b/ü"), "#/drive/a%20b%2F%C3%BC");
        assert_eq!(attention(None), "#/drives");
    }
}
