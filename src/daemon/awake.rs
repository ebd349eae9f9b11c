//! Keeps the computer from sleeping and shutting down while something is on its way that a person waits for: logind does
//! so on request over D-Bus, and tells whoever asks for either who is in the way, and why.
//!
//! A wish, not a need: nothing is lost where it is not granted, it is only done later.

use std::future::pending;
use tokio::task::JoinHandle;
use zbus::Connection;
use zbus::zvariant::OwnedFd;

const NAME: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const INTERFACE: &str = "org.freedesktop.login1.Manager";
const WHAT: &str = "sleep:shutdown";
const WHO: &str = "Holdall";
/// Asks first; where polkit does not let this user, it is held up for the few seconds that everyone may have.
const MODES: [&str; 2] = ["block", "delay"];

/// The computer stays awake until this is dropped, where it can be asked for that.
#[derive(Debug)]
pub struct StaysAwake {
    holding: JoinHandle<()>,
}

impl StaysAwake {
    /// Asks for it in the background. `why` is what a person is shown who wants the computer to sleep: a sentence without its period.
    pub fn because(why: String) -> Self {
        let holding = tokio::spawn(async move {
            match inhibit(&why).await {
                // Closing it lets go.
                Ok(_held) => pending().await,
                Err(error) => tracing::debug!(%error, why, "the computer may sleep meanwhile"),
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
