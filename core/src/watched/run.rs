//! The rounds of a watched directory, one after the other: after a hint, after a while, and when a failure may have passed.

use super::engine::{POLL, RESCAN, Turn, Watched};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Without events, changes are looked for this often.
const LOOK: Duration = Duration::from_secs(60);
/// After an event, more of them follow.
const GATHER: Duration = Duration::from_millis(300);

impl Watched {
    /// Works until [`stop`](Self::stop) is called.
    pub async fn run(self: Arc<Self>) {
        loop {
            let turn = self.round(false).await;
            let most = match (self.two_way, self.has_events()) {
                (true, _) => POLL,
                (false, true) => RESCAN,
                (false, false) => LOOK,
            };
            let wait = match turn {
                Turn::Stopped => return,
                Turn::Progress => continue,
                Turn::Clean => most,
                Turn::Waits(wait) | Turn::Trouble(wait) => wait.min(most),
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.wake.notified() => sleep(GATHER).await,
            }
        }
    }
}
