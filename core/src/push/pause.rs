//! Switching pushing off in the middle of a batch.

use super::PushError;
use super::requests::Waiting;
use std::future::pending;
use tokio::sync::watch;

/// Whether pushing is switched off.
pub(super) struct Pause {
    is_on: watch::Receiver<bool>,
    /// Requests that someone may wait for.
    waiting: watch::Receiver<Waiting>,
}

impl Pause {
    pub fn new(is_on: watch::Receiver<bool>, waiting: watch::Receiver<Waiting>) -> Self {
        Self { is_on, waiting }
    }

    /// Whether it is switched off now.
    pub fn is_on(&self) -> bool {
        *self.is_on.borrow()
    }

    /// Waits until it is switched on or off.
    pub async fn changed(&self) {
        let was = self.is_on();
        until(&self.is_on, |is_on| *is_on != was).await;
    }

    /// Waits until a collection is requested.
    pub async fn until_collection(&self) {
        until(&self.waiting, |waiting| waiting.collections > 0).await;
    }

    /// Does `work`, which may be repeated, such as putting an immutable object. It is cut off when pushing is switched off,
    /// and repeated once pushing is on again; if a request waits meanwhile, it fails with [`PushError::Paused`]. `cut_off`
    /// is called each time. A put that was cut off may still arrive. That does no harm: it has the same bytes under the
    /// same name, or it is garbage if the next put got another name. No root names it before all puts have arrived.
    pub async fn unless_on<F: Future>(
        &self,
        work: impl Fn() -> F,
        cut_off: impl Fn(),
    ) -> Result<F::Output, PushError> {
        loop {
            tokio::select! { biased;
                () = until(&self.is_on, |is_on| !*is_on) => {}
                () = until(&self.waiting, |waiting| waiting.requests > 0) => return Err(PushError::Paused),
            }
            tokio::select! { biased;
                () = until(&self.is_on, |is_on| *is_on) => cut_off(),
                done = work() => return Ok(done),
            }
        }
    }
}

/// Waits until `holds`; forever once the sender is gone.
async fn until<T>(said: &watch::Receiver<T>, holds: impl FnMut(&T) -> bool) {
    if said.clone().wait_for(holds).await.is_err() {
        pending().await
    }
}
