//! The state that the parts of the shell share.

use crate::calls::Calls;
use crate::page::Page;
use crate::wishes::Wishes;
use holdall_client::paths::Paths;
use holdall_gui::{Leaving, Overview, Tone, TrayMenu};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, watch};

/// The shell's state.
pub struct Shell {
    /// Where to find the daemon.
    pub paths: Paths,
    /// The page's unanswered calls.
    pub calls: Calls,
    /// The page.
    pub page: Page,
    /// Which notifications the user wants.
    pub wishes: Wishes,
    /// Wakes streams that wait before they try again.
    pub retry: Notify,
    /// The last known state of all drives.
    pub known: watch::Sender<Known>,
    /// Whether starting the daemon has succeeded or failed; before that, a stream that is down means nothing.
    pub begun: watch::Sender<bool>,
    /// Whether the question before quitting is open.
    pub asked: AtomicBool,
    // Held only to replace it and to copy it.
    held: Mutex<Option<String>>,
    tray_is_shown: AtomicBool,
}

impl Shell {
    /// The state at the start, when nothing is known yet.
    pub fn new(paths: Paths) -> Shell {
        Shell {
            paths,
            calls: Calls::default(),
            page: Page::default(),
            wishes: Wishes::from_environment(),
            retry: Notify::new(),
            known: watch::Sender::new(Known::default()),
            begun: watch::Sender::new(false),
            asked: AtomicBool::new(false),
            held: Mutex::new(None),
            tray_is_shown: AtomicBool::new(false),
        }
    }

    /// Says in a sentence what quitting would lose on the page; `None` if nothing.
    pub fn hold(&self, lost: Option<String>) {
        *self.held.lock() = lost;
    }

    /// The question before quitting; `None` if quitting loses nothing.
    pub fn leaving(&self) -> Option<Leaving> {
        let unsent = self.known.borrow().menu().leaving;
        match self.held.lock().clone() {
            Some(lost) => Some(Leaving::holding(lost, unsent)),
            None => unsent,
        }
    }

    /// Whether the desktop shows the tray's icon.
    pub fn tray_is_shown(&self) -> bool {
        self.tray_is_shown.load(Ordering::Relaxed)
    }

    /// Sets whether the desktop shows the tray's icon.
    pub fn set_tray_is_shown(&self, is_shown: bool) {
        self.tray_is_shown.store(is_shown, Ordering::Relaxed);
    }
}

/// The last known state of all drives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// The daemon's last message.
    pub overview: Option<Overview>,
    /// Whether that message is current.
    pub link: Link,
}

/// The state of the connection to the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// The daemon has sent nothing yet, and may be starting.
    #[default]
    Begins,
    /// The daemon sends changes.
    Live,
    /// The daemon is not running.
    Down,
}

impl Known {
    /// The tray's menu.
    pub fn menu(&self) -> TrayMenu {
        match (self.link, &self.overview) {
            (Link::Live, Some(overview)) => overview.tray.clone(),
            (Link::Begins | Link::Live, _) => TrayMenu::connecting(),
            (Link::Down, overview) => {
                let unsent = overview.as_ref().map(|known| (known.unsent_bytes, known.unsent_is_known));
                let (bytes, is_known) = unsent.unwrap_or((0, true));
                TrayMenu::down(bytes, is_known)
            }
        }
    }

    /// The colour of its icon.
    pub fn tone(&self) -> Tone {
        match (self.link, &self.overview) {
            (Link::Live, Some(overview)) => overview.tone,
            _ => Tone::Quiet,
        }
    }

    /// Where a drive or folder is mounted.
    pub fn mountpoint(&self, name: &str) -> Option<String> {
        let overview = self.overview.as_ref()?;
        let drives = overview.drives.iter().map(|card| (&card.name, &card.mountpoint));
        let mut all = drives.chain(overview.folders.iter().map(|folder| (&folder.name, &folder.mountpoint)));
        all.find(|(known, _)| *known == name)?.1.clone()
    }

    /// The question before closing a drive, and its consequence; `None` if nothing is only here.
    pub fn closing(&self, name: &str) -> Option<(String, String)> {
        let drives = &self.overview.as_ref()?.drives;
        drives.iter().find(|card| card.name == name)?.closing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quitting_asks_while_the_page_holds_something() {
        let dir = std::path::PathBuf::from("/nowhere");
        let shell = Shell::new(Paths { state: dir.clone(), cache: dir.clone(), runtime: dir });
        assert_eq!(shell.leaving(), None);
        shell.hold(Some("A key.".to_owned()));
        assert_eq!(shell.leaving().unwrap().message, "A key.");
        let mut overview = holdall_gui::Model::default().overview();
        overview.unsent_bytes = 5 << 20;
        shell.known.send_replace(Known { overview: Some(overview), link: Link::Down });
        assert!(shell.leaving().unwrap().message.starts_with("A key.\n\n5 MiB existed only"));
        shell.hold(None);
        assert!(shell.leaving().unwrap().message.starts_with("5 MiB existed only"));
    }

    #[test]
    fn without_a_daemon_the_old_state_is_not_shown() {
        let mut overview = holdall_gui::Model::default().overview();
        (overview.unsent_bytes, overview.tone) = (5 << 20, Tone::Safe);
        let known = |link| Known { overview: Some(overview.clone()), link };
        assert_eq!(known(Link::Live).menu(), overview.tray);
        assert_eq!(known(Link::Live).tone(), Tone::Safe);
        assert_eq!(known(Link::Down).tone(), Tone::Quiet);
        assert!(known(Link::Down).menu().leaving.is_some());
        assert_eq!(Known::default().menu(), TrayMenu::connecting());
    }
}
