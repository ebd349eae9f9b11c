//! Switching uploads and background downloads off and on.

use super::Folder;
use crate::api::Failure;

impl Folder {
    /// Switches uploads and background downloads off or on until changed again.
    pub fn set_paused(&self, paused: bool) -> Result<(), Failure> {
        self.remember(|config| config.paused = paused)?;
        self.apply_pause();
        Ok(())
    }

    /// Applies the current pause to the engine.
    pub fn apply_pause(&self) {
        if let Some(live) = &*self.live.read() {
            let pause = self.pause();
            live.engine.set_background_pulls(pause.is_none());
            live.engine.outbox().set_paused(pause.map(str::to_owned));
        }
    }

    /// The way to the remote has changed: other credentials, another proxy.
    pub fn renew(&self) {
        if let Some(live) = &*self.live.read() {
            live.remote.renew();
        }
    }
}
