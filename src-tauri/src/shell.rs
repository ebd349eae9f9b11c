//! What the parts of the shell share.

use crate::calls::Calls;
use crate::page::Page;
use crate::wishes::Wishes;
use holdall::paths::Paths;
use holdall_gui::{Leaving, Overview, Tone, TrayMenu};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, watch};

/// The shell's state.
pub struct Shell {
    /// Where the daemon is.
    pub paths: Paths,
    /// What the page waits for.
    pub calls: Calls,
    /// The page.
    pub page: Page,
    /// Which notifications are wanted.
    pub wishes: Wishes,
    /// Wakes streams that wait before they are tried again.
    pub retry: Notify,
    /// What is known of all drives.
    pub known: watch::Sender<Known>,
    /// Whether the daemon was started, or could not be: until then a stream that is down is no news.
    pub begun: watch::Sender<bool>,
    /// Whether it was asked before quitting, and not answered yet.
    pub asked: AtomicBool,
    // Held to put it there and to copy it.
    held: Mutex<Option<String>>,
    tray_is_shown: AtomicBool,
}

impl Shell {
    /// Nothing is known yet.
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

    /// The page has something that would be lost by quitting, in a sentence; or has it no more.
    pub fn hold(&self, lost: Option<String>) {
        *self.held.lock() = lost;
    }

    /// What is asked before quitting; `None` where nothing is lost by it.
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

    /// It does, or does not any more.
    pub fn set_tray_is_shown(&self, is_shown: bool) {
        self.tray_is_shown.store(is_shown, Ordering::Relaxed);
    }
}

/// What is known of all drives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// As the daemon said last.
    pub overview: Option<Overview>,
    /// Whether that is so now.
    pub link: Link,
}

/// How the daemon is listened to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// It has said nothing yet, and may be starting.
    #[default]
    Begins,
    /// It tells what changes.
    Live,
    /// It does not run.
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

    /// Where a drive is mounted.
    pub fn mountpoint(&self, name: &str) -> Option<String> {
        let drives = &self.overview.as_ref()?.drives;
        drives.iter().find(|card| card.name == name)?.mountpoint.clone()
    }

    /// What is asked before a drive is closed, and what that means; `None` where nothing is only here.
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
    fn without_a_daemon_nothing_is_shown_as_it_was() {
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
