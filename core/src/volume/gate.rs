//! The gate in front of the journal: while it is shut, writes wait. A hand-over shuts it to send the last blocks, and opens it again if it
//! is cancelled. Once the drive is handed over, the writes that waited are refused, like all later ones.
//!
//! A write holds a [`Pass`] only while it appends, never while it waits. So [`Gate::drain`] ends at once, even if the journal is full.

use crate::device::DeviceError;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// What the gate does with writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    /// They go through.
    Open,
    /// They wait.
    Shut,
    /// They are refused, for good.
    Refusing,
}

/// The gate of one open drive.
pub struct Gate {
    state: watch::Sender<GateState>,
    /// Twice the number of passes; odd while the gate is not open. One number, so that no pass is given after the gate was found shut.
    passes: AtomicUsize,
    /// Wakes whoever waits for the last pass.
    left: tokio::sync::Notify,
}

/// The right to append now.
pub struct Pass<'a>(&'a Gate);

const CLOSED: usize = 1;
const ONE: usize = 2;

impl Default for Gate {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(GateState::Open),
            passes: AtomicUsize::new(0),
            left: tokio::sync::Notify::new(),
        }
    }
}

impl Gate {
    /// The right to append, if the gate is open.
    pub fn pass(&self) -> Option<Pass<'_>> {
        let before = self.passes.fetch_add(ONE, Ordering::AcqRel);
        let pass = Pass(self);
        (before & CLOSED == 0).then_some(pass)
    }

    /// Waits until the gate is open.
    ///
    /// # Errors
    ///
    /// `Closed` if it refuses everything from now on.
    pub async fn until_open(&self) -> Result<(), DeviceError> {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| *state != GateState::Shut).await.as_deref() {
            Ok(GateState::Open) => Ok(()),
            _ => Err(DeviceError::Closed),
        }
    }

    /// The right to append, as soon as the gate is open.
    ///
    /// # Errors
    ///
    /// `Closed` if it refuses everything from now on.
    pub async fn pass_later(&self) -> Result<Pass<'_>, DeviceError> {
        loop {
            if let Some(pass) = self.pass() {
                return Ok(pass);
            }
            self.until_open().await?;
        }
    }

    /// The state now.
    pub fn state(&self) -> GateState {
        *self.state.borrow()
    }

    /// Lets no write through from now on: they wait. A gate that refuses stays so.
    pub fn shut(&self) {
        self.change(|state| (state == GateState::Open).then_some(GateState::Shut));
    }

    /// Lets the writes through that waited, and all later ones. A gate that refuses stays so.
    pub fn open(&self) {
        self.change(|state| (state == GateState::Shut).then_some(GateState::Open));
    }

    /// Refuses the writes that wait, and all later ones.
    pub fn refuse(&self) {
        self.change(|_| Some(GateState::Refusing));
    }

    fn change(&self, next: impl FnOnce(GateState) -> Option<GateState>) {
        self.state.send_if_modified(|state| {
            let Some(after) = next(*state) else { return false };
            *state = after;
            match after {
                GateState::Open => self.passes.fetch_and(!CLOSED, Ordering::AcqRel),
                GateState::Shut | GateState::Refusing => self.passes.fetch_or(CLOSED, Ordering::AcqRel),
            };
            true
        });
    }

    /// Ready when no append is under way. Shut the gate first.
    pub async fn drain(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.passes.load(Ordering::Acquire) < ONE + CLOSED {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.0.passes.fetch_sub(ONE, Ordering::AcqRel) & CLOSED != 0 {
            self.0.left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn writes_wait_while_it_is_shut_and_go_on_when_it_opens() {
        run(async {
            let gate = Arc::new(Gate::default());
            drop(gate.pass().unwrap());
            gate.shut();
            assert!(gate.pass().is_none());
            let waits = tokio::spawn({
                let gate = gate.clone();
                async move { gate.pass_later().await.map(drop) }
            });
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(!waits.is_finished());
            gate.open();
            assert!(waits.await.unwrap().is_ok());
            assert!(gate.pass().is_some());
        });
    }

    #[test]
    fn draining_waits_for_the_last_append() {
        run(async {
            let gate = Arc::new(Gate::default());
            let (one, two) = (gate.pass().unwrap(), gate.pass().unwrap());
            gate.shut();
            let waits = gate.drain();
            tokio::pin!(waits);
            assert!(futures_util::poll!(&mut waits).is_pending());
            drop(one);
            assert!(futures_util::poll!(&mut waits).is_pending());
            drop(two);
            waits.await;
            // A refused try is no append.
            assert!(gate.pass().is_none());
            gate.drain().await;
        });
    }

    #[test]
    fn it_never_opens_after_it_has_refused() {
        run(async {
            let gate = Arc::new(Gate::default());
            gate.shut();
            let waits = tokio::spawn({
                let gate = gate.clone();
                async move { gate.pass_later().await.map(drop) }
            });
            tokio::task::yield_now().await;
            gate.refuse();
            assert!(matches!(waits.await.unwrap(), Err(DeviceError::Closed)));
            gate.open();
            gate.shut();
            assert_eq!(gate.state(), GateState::Refusing);
            assert!(gate.pass().is_none());
            assert!(matches!(gate.pass_later().await, Err(DeviceError::Closed)));
        });
    }
}
