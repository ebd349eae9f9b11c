//! Keeps the computer from sleeping and shutting down while something is under way that a person waits for. logind does so on request over
//! D-Bus, and tells programs that ask for either which program is in the way, and why.
//!
//! A wish, not a need: if it is not granted, nothing is lost, only done later.

use std::future::pending;
use tokio::task::JoinHandle;
use zbus::Connection;
use zbus::zvariant::OwnedFd;

const NAME: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const INTERFACE: &str = "org.freedesktop.login1.Manager";
const WHAT: &str = "sleep:shutdown";
const WHO: &str = "Holdall";
/// "block" first; if polkit does not allow this user to block, "delay" delays it for the few seconds that every user may have.
const MODES: [&str; 2] = ["block", "delay"];

/// Keeps the computer awake until this is dropped, if logind can be asked.
#[derive(Debug)]
pub struct StaysAwake {
    holding: JoinHandle<()>,
}

impl StaysAwake {
    /// Asks for it in the background. `why` is shown to a person who wants the computer to sleep: a sentence without its period.
    pub fn because(why: String) -> Self {
        let holding = tokio::spawn(async move {
            match inhibit(&why).await {
                // Closing the descriptor ends the inhibition.
                Ok(_held) => pending().await,
                Err(error) => tracing::debug!(%error, why, "the computer may go to sleep during uploads"),
            }
        });
        Self { holding }
    }
}

impl Drop for StaysAwake {
    fn drop(&mut self) {
        self.holding.abort();
    }
}

async fn inhibit(why: &str) -> zbus::Result<OwnedFd> {
    let bus = Connection::system().await?;
    let mut refused = None;
    for mode in MODES {
        let arguments = (WHAT, WHO, why, mode);
        match bus.call_method(Some(NAME), PATH, Some(INTERFACE), "Inhibit", &arguments).await {
            Ok(answer) => return answer.body().deserialize(),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.expect("at least one mode was tried"))
}
