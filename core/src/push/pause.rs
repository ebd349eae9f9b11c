//! Pushing that is switched off in the middle of a batch.

use super::PushError;
use super::requests::Waiting;
use std::future::pending;
use tokio::sync::watch;

/// Whether pushing is switched off.
pub(super) struct Pause {
    is_on: watch::Receiver<bool>,
    /// Requests that somebody may wait for.
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

    /// Waits until somebody waits for a collection.
    pub async fn until_collection(&self) {
        until(&self.waiting, |waiting| waiting.collections > 0).await;
    }

    /// Does what may be done over and over, such as putting an immutable object: it is cut off when pushing is switched off, and done
    /// anew once it is on again. Given up where somebody waits for an answer meanwhile. A put that was cut off may still arrive: it has the same
    /// bytes under the same name, and where the next one got another name it is garbage. No root names it before all are there.
    /// `cut_off` is told each time.
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

/// For ever, where nobody can say it any more.
async fn until<T>(said: &watch::Receiver<T>, holds: impl FnMut(&T) -> bool) {
    if said.clone().wait_for(holds).await.is_err() {
        pending().await
    }
}
