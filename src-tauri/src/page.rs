//! The shell's messages to the page. Messages from before there is a page wait for it.

use holdall_client::api::Failure;
use holdall_gui::Leaving;
use parking_lot::Mutex;
use serde::Serialize;
use tauri::ipc::Channel;

/// A message to the page.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToPage {
    /// Show this screen, given as the fragment of its address.
    Go(String),
    /// Ask before quitting.
    Quit(Leaving),
    /// Ask before closing a drive that has changes which exist nowhere else.
    Close {
        /// The drive.
        name: String,
        /// The question.
        title: String,
        /// What closing means.
        text: String,
    },
    /// A choice in the tray's menu failed.
    Failed {
        /// What was tried.
        title: String,
        /// Why it failed.
        failure: Failure,
    },
}

/// The page in the window.
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
    /// The page has loaded, and listens.
    pub fn arrived(&self, channel: Channel<ToPage>) {
        let mut listening = self.listening.lock();
        for message in listening.waiting.drain(..) {
            // If this page is gone already, the next page asks again.
            let _ = channel.send(message);
        }
        listening.channel = Some(channel);
    }

    /// Another page is being loaded in its place.
    pub fn left(&self) {
        self.listening.lock().channel = None;
    }

    /// Sends a message, now or when a page listens.
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
    fn messages_wait_for_the_first_page() {
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
