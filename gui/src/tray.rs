//! The tray's menu as data. On Linux a tray reports no clicks, so the menu has everything.

use crate::card::{Action, Card};
use crate::folder::unsent;
use crate::texts::{counted, said, text};
use crate::words;
use holdall_api::{DriveState, FolderStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The menu.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrayMenu {
    /// The entries from the top.
    pub entries: Vec<Entry>,
    /// The question before quitting; null if quitting loses nothing.
    pub leaving: Option<Leaving>,
}

/// An entry. One without a label is a separator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// What it does: "window", "settings", "attention", "start", "pause:1h", "pause:tomorrow", "resume", "quit", "drive:ACTION:NAME" or
    /// "folder:ACTION:NAME", where the action is show, directory, open, close, pause, resume or upload_now.
    pub id: String,
    /// Its text.
    pub label: String,
    /// Whether it can be chosen.
    pub enabled: bool,
    /// Whether it is checked; null if it has no check mark.
    pub checked: Option<bool>,
    /// Its submenu.
    pub submenu: Vec<Entry>,
}

/// The question before quitting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leaving {
    /// What is only on this computer.
    pub message: String,
    /// The button for staying.
    pub stay: String,
    /// The button for quitting.
    pub leave: String,
}

impl Leaving {
    /// The question while the window holds something that quitting would lose, together with any other question.
    pub fn holding(lost: String, unsent: Option<Leaving>) -> Leaving {
        let messages: Vec<_> = std::iter::once(lost).chain(unsent.map(|unsent| unsent.message)).collect();
        Leaving::new(messages.join("\n\n"))
    }

    fn new(message: String) -> Leaving {
        Leaving { message, stay: text("tray.leaving.stay"), leave: text("tray.leaving.leave") }
    }
}

impl Entry {
    fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self { id: id.into(), label: label.into(), enabled: true, checked: None, submenu: Vec::new() }
    }

    fn line_between() -> Self {
        Self { enabled: false, ..Self::new("", "") }
    }
}

impl TrayMenu {
    /// The menu before the daemon has sent anything.
    pub fn connecting() -> TrayMenu {
        TrayMenu { entries: bare(&text("line.connecting"), None), leaving: None }
    }

    /// The menu while the daemon is not running. `unsent_bytes` was only on this computer when the daemon was last heard.
    pub fn down(unsent_bytes: u64, is_known: bool) -> TrayMenu {
        let start = Entry::new("start", text("tray.start"));
        let entries = bare(&text("tray.down"), Some(start));
        TrayMenu { entries, leaving: question("tray.leaving.down", unsent_bytes, is_known) }
    }
}

/// The entries without a daemon.
fn bare(line: &str, more: Option<Entry>) -> Vec<Entry> {
    let mut entries = vec![Entry { enabled: false, ..Entry::new("status", line) }];
    entries.extend(more);
    entries.extend([
        Entry::line_between(),
        Entry::new("window", text("tray.window")),
        Entry::line_between(),
        Entry::new("quit", text("tray.quit")),
    ]);
    entries
}

/// The question before quitting, if something is only here.
pub(crate) fn leaving(goes_on: bool, unsent_bytes: u64, is_known: bool) -> Option<Leaving> {
    question(if goes_on { "tray.leaving" } else { "tray.leaving.waits" }, unsent_bytes, is_known)
}

fn question(key: &str, unsent_bytes: u64, is_known: bool) -> Option<Leaving> {
    let size = words::unsent(unsent_bytes, is_known);
    (unsent_bytes > 0).then(|| Leaving::new(words::capital(&said(key, &[("size", &size)]))))
}

/// The menu for these drives and folders.
pub(crate) fn menu(
    line: &str,
    (drives, folders): (&[Card], &[FolderStatus]),
    attention: u32,
    leaving: Option<Leaving>,
    paused_until: Option<&str>,
) -> TrayMenu {
    let mut entries = vec![Entry { enabled: false, ..Entry::new("status", line) }];
    if attention > 0 {
        entries.push(Entry::new("attention", counted("tray.attention", attention.into(), &[])));
    }
    entries.push(Entry::line_between());
    let mut places: Vec<_> = drives.iter().map(|card| (&card.name, drive(card))).collect();
    places.extend(folders.iter().map(|status| (&status.name, folder(status))));
    places.sort_by_key(|(name, _)| *name);
    let is_empty = places.is_empty();
    entries.extend(places.into_iter().map(|(_, entry)| entry));
    if !is_empty {
        entries.push(Entry::line_between());
        match paused_until {
            Some(_) => entries.push(Entry::new("resume", text("tray.resume_all"))),
            None => entries.push(Entry {
                submenu: vec![
                    Entry::new("pause:1h", text("tray.pause.hour")),
                    Entry::new("pause:tomorrow", text("tray.pause.tomorrow")),
                ],
                ..Entry::new("pause", text("tray.pause_all"))
            }),
        }
    }
    entries.push(Entry::new("window", text("tray.window")));
    entries.push(Entry::new("settings", text("tray.settings")));
    entries.push(Entry::line_between());
    entries.push(Entry::new("quit", text("tray.quit")));
    TrayMenu { entries, leaving }
}

fn drive(card: &Card) -> Entry {
    let of = |action: &str, label: &str| Entry::new(format!("drive:{action}:{}", card.name), text(label));
    let mut submenu = Vec::new();
    if card.mountpoint.is_some() {
        submenu.push(of("directory", "tray.drive.directory"));
    }
    submenu.extend(card.actions.iter().map(|action| match action {
        Action::Open => of("open", "tray.drive.open"),
        Action::Close => of("close", "tray.drive.close"),
        Action::Pause => of("pause", "tray.drive.pause"),
        Action::Resume => of("resume", "tray.drive.resume"),
        Action::UploadNow => of("upload_now", "tray.drive.upload_now"),
    }));
    submenu.push(of("show", "tray.drive.show"));
    let label = said("tray.drive", &[("name", &card.name), ("state", &card.state.word)]);
    Entry { submenu, ..Entry::new(format!("drive:show:{}", card.name), label) }
}

fn folder(status: &FolderStatus) -> Entry {
    let of = |action: &str, label: &str| Entry::new(format!("folder:{action}:{}", status.name), text(label));
    let mut submenu = Vec::new();
    if status.mountpoint.is_some() {
        submenu.push(of("directory", "tray.drive.directory"));
        if unsent(status).0 > 0 && !status.paused && !status.read_only {
            submenu.push(of("upload_now", "tray.drive.upload_now"));
        }
        submenu.push(match status.paused {
            true => of("resume", "tray.drive.resume"),
            false => of("pause", "tray.drive.pause"),
        });
        submenu.push(of("close", "tray.folder.close"));
    } else {
        submenu.push(of("open", "tray.folder.open"));
    }
    submenu.push(of("show", "tray.drive.show"));
    let word = word(status);
    let label = said("tray.drive", &[("name", &status.name), ("state", &word)]);
    Entry { submenu, ..Entry::new(format!("folder:show:{}", status.name), label) }
}

/// The state in a word. A folder with something unsent is not ready.
fn word(status: &FolderStatus) -> String {
    text(match status.state {
        DriveState::Ready if unsent(status).0 > 0 => "state.syncing",
        DriveState::Ready => "state.ready",
        DriveState::Syncing => "state.syncing",
        DriveState::Connecting => "state.connecting",
        DriveState::Recovering => "state.recovering",
        DriveState::Offline => "state.offline",
        DriveState::Paused => "state.paused",
        DriveState::ReadOnly => "state.read_only",
        DriveState::Conflict => "state.conflict",
        DriveState::NeedsAttention => "state.needs_attention",
        DriveState::Closed => "state.closed",
    })
}

#[cfg(test)]
mod tests {
    use crate::model::tests::status;
    use crate::{Leaving, Model, Now, TrayMenu};
    use holdall_api::{DriveState, Event};
    use std::time::Duration;

    fn menu(drives: &[(&str, DriveState, u64)], paused: Option<&str>) -> TrayMenu {
        let mut model = Model::default();
        for (name, state, unsent) in drives {
            let mut status = status(name, *state);
            status.unpushed_bytes = *unsent;
            if *state == DriveState::Closed {
                status.mountpoint = None;
            }
            model.apply(Now(Duration::ZERO), Event::Drive(Box::new(status)));
        }
        model.set_paused_until(paused.map(str::to_owned));
        model.overview().tray
    }

    fn ids(menu: &TrayMenu) -> Vec<&str> {
        menu.entries.iter().map(|entry| entry.id.as_str()).collect()
    }

    #[test]
    fn a_folder_has_its_actions_between_the_drives() {
        let mut model = Model::default();
        model.apply(Now(Duration::ZERO), Event::Drive(Box::new(status("work", DriveState::Ready))));
        let mut photos = crate::folder::tests::folder("photos", DriveState::Ready);
        photos.dirty_bytes = 7;
        model.apply(Now(Duration::ZERO), Event::Folder(Box::new(photos.clone())));
        let menu = model.overview().tray;
        assert_eq!(&ids(&menu)[2..4], ["folder:show:photos", "drive:show:work"]);
        assert_eq!(menu.entries[2].label, "photos: Syncing");
        let below = |menu: &TrayMenu| {
            let submenu = &menu.entries[2].submenu;
            submenu.iter().map(|entry| entry.id.rsplit(':').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(below(&menu), ["directory", "upload_now", "pause", "close", "show"]);
        (photos.mountpoint, photos.state) = (None, DriveState::Closed);
        model.apply(Now(Duration::ZERO), Event::Folder(Box::new(photos)));
        assert_eq!(below(&model.overview().tray), ["open", "show"]);
    }

    #[test]
    fn the_menu_has_every_action() {
        let menu = menu(&[("home", DriveState::Closed, 0), ("work", DriveState::Conflict, 7)], None);
        let expected = [
            "status",
            "attention",
            "",
            "drive:show:home",
            "drive:show:work",
            "",
            "pause",
            "window",
            "settings",
            "",
            "quit",
        ];
        assert_eq!(ids(&menu), expected);
        assert!(!menu.entries[0].enabled && menu.entries[0].label == "1 drive needs attention");
        let below = |index: usize| {
            menu.entries[index].submenu.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(below(3), ["drive:open:home", "drive:show:home"]);
        assert_eq!(below(4)[..2], ["drive:directory:work", "drive:upload_now:work"]);
        assert_eq!(menu.entries[4].label, "work: Conflict");
    }

    #[test]
    fn quitting_asks_only_where_something_is_only_here() {
        assert_eq!(menu(&[("work", DriveState::Ready, 0)], None).leaving, None);
        let leaving = menu(&[("work", DriveState::Ready, 340 << 20)], None).leaving.unwrap();
        assert!(leaving.message.starts_with("340 MiB exist only on this computer."), "{}", leaving.message);
        assert!(leaving.message.contains("keeps uploading"), "{}", leaving.message);
        let waiting = menu(&[("work", DriveState::Paused, 1)], None).leaving.unwrap();
        assert!(waiting.message.contains("uploads are on hold"), "{}", waiting.message);
    }

    #[test]
    fn a_closed_drive_that_uploads_can_be_opened_from_the_tray() {
        let mut status = status("work", DriveState::Closed);
        (status.unpushed_bytes, status.draining, status.mountpoint) = (5 << 20, true, None);
        let mut model = Model::default();
        model.apply(Now(Duration::ZERO), Event::Drive(Box::new(status)));
        let menu = model.overview().tray;
        assert_eq!(
            ids(&menu),
            ["status", "", "drive:show:work", "", "pause", "window", "settings", "", "quit"]
        );
        assert_eq!(
            (menu.entries[0].label.as_str(), menu.entries[2].label.as_str()),
            ("Uploading 5 MiB", "work: Closed")
        );
        let below: Vec<_> = menu.entries[2].submenu.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(below, ["drive:open:work", "drive:show:work"]);
        let leaving = menu.leaving.unwrap().message;
        assert!(
            leaving.starts_with("5 MiB exist only on this computer. The background service keeps"),
            "{leaving}"
        );
    }

    #[test]
    fn quitting_asks_first_about_what_the_window_would_lose() {
        let alone = Leaving::holding("A key.".to_owned(), None);
        assert_eq!((alone.message.as_str(), alone.leave.as_str()), ("A key.", "Quit anyway"));
        let unsent = menu(&[("work", DriveState::Ready, 340 << 20)], None).leaving;
        let both = Leaving::holding("A key.".to_owned(), unsent).message;
        assert!(both.starts_with("A key.\n\n340 MiB exist only on this computer."), "{both}");
    }

    #[test]
    fn without_a_daemon_the_tray_offers_to_start_it() {
        let menu = TrayMenu::down(340 << 20, true);
        assert_eq!(ids(&menu), ["status", "start", "", "window", "", "quit"]);
        let leaving = menu.leaving.unwrap();
        assert!(leaving.message.contains("is not running"), "{}", leaving.message);
        assert_eq!(TrayMenu::down(0, true).leaving, None);
        assert_eq!(ids(&TrayMenu::connecting()), ["status", "", "window", "", "quit"]);
    }

    #[test]
    fn paused_drives_can_be_resumed() {
        let menu = menu(&[("work", DriveState::Ready, 0)], Some("2026-11-20T13:00:00Z"));
        assert!(ids(&menu).contains(&"resume") && !ids(&menu).contains(&"pause"));
    }

    #[test]
    fn without_drives_there_is_nothing_to_pause() {
        assert_eq!(ids(&menu(&[], None)), ["status", "", "window", "settings", "", "quit"]);
    }
}
