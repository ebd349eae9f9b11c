//! What the shell has to say to the page. What is said before there is one waits for it.

use holdall::api::Failure;
use holdall_gui::Leaving;
use parking_lot::Mutex;
use serde::Serialize;
use tauri::ipc::Channel;

/// A message to the page.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToPage {
    /// Show this screen: the address's fragment.
    Go(String),
    /// Ask before quitting.
    Quit(Leaving),
    /// Ask before a drive is closed that has something of which there is nothing elsewhere.
    Close {
        /// The drive.
        name: String,
        /// The question.
        title: String,
        /// What closing means.
        text: String,
    },
    /// What was chosen in the tray's menu did not work.
    Failed {
        /// What was to be done.
        title: String,
        /// Why not.
        failure: Failure,
    },
}

/// The page that is in the window.
#[derive(Default)]
pub struct Page {
    // Held to send, which only puts a message into a queue.
    listening: Mutex<Listening>,
}

#[derive(Default)]
struct Listening {
    channel: Option<Channel<ToPage>>,
    waiting: Vec<ToPage>,
}

impl Page {
    /// It is there, and listens.
    pub fn arrived(&self, channel: Channel<ToPage>) {
        let mut listening = self.listening.lock();
        for message in listening.waiting.drain(..) {
            // One that is gone again is followed by another, which is told by whoever asks again.
            let _ = channel.send(message);
        }
        listening.channel = Some(channel);
    }

    /// Another one is loaded in its place.
    pub fn left(&self) {
        self.listening.lock().channel = None;
    }

    /// Says it, now or once somebody listens.
    pub fn tell(&self, message: ToPage) {
        let mut listening = self.listening.lock();
        let unheard = match &listening.channel {
            Some(channel) => channel.send(message.clone()).is_err(),
            None => true,
        };
        if unheard {
            listening.channel = None;
            listening.waiting.push(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_is_said_early_is_heard_late() {
        let page = Page::default();
        page.tell(ToPage::Go("#/settings".to_owned()));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        let channel = Channel::new(move |body| {
            hears.lock().push(body.deserialize::<serde_json::Value>()?);
            Ok(())
        });
        page.arrived(channel);
        page.tell(ToPage::Go("#/drives".to_owned()));
        let expected = [serde_json::json!({"go": "#/settings"}), serde_json::json!({"go": "#/drives"})];
        assert_eq!(*heard.lock(), expected);
        page.left();
        page.tell(ToPage::Go("#/forks".to_owned()));
        assert_eq!(heard.lock().len(), 2);
    }
}
