//! Parts that are being fetched: readers that miss blocks of one part at the same time share one request.
//!
//! A reader waits for a fetch by another reader. It does not wait for a background fetch, which may be slow on purpose.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Clone)]
struct Flying {
    in_background: bool,
    landed: watch::Receiver<()>,
}

/// The parts under way.
#[derive(Clone)]
pub(super) struct SingleFlight<P> {
    // Shared with the flights, which take themselves out; held for map operations only.
    flying: Arc<Mutex<BTreeMap<P, Flying>>>,
}

/// Parts that one caller fetches, until it is dropped.
pub(super) struct Flight<P: Ord> {
    flights: SingleFlight<P>,
    parts: Vec<P>,
    // Dropping it wakes the waiters.
    _landing: watch::Sender<()>,
}

impl<P> Default for SingleFlight<P> {
    fn default() -> Self {
        Self { flying: Arc::default() }
    }
}

impl<P: Copy + Ord> SingleFlight<P> {
    /// Splits parts into those that the caller fetches while it keeps the flight, and those that others fetch already.
    pub fn begin(&self, parts: Vec<P>, in_background: bool) -> (Flight<P>, Vec<P>, Vec<watch::Receiver<()>>) {
        let (landing, landed) = watch::channel(());
        let (mut ours, mut theirs, mut begun) = (Vec::new(), Vec::new(), Vec::new());
        let mut flying = self.flying.lock();
        for part in parts {
            match flying.get(&part) {
                Some(other) if in_background || !other.in_background => theirs.push(other.landed.clone()),
                Some(_) => ours.push(part),
                None => {
                    flying.insert(part, Flying { in_background, landed: landed.clone() });
                    begun.push(part);
                    ours.push(part);
                }
            }
        }
        (Flight { flights: self.clone(), parts: begun, _landing: landing }, ours, theirs)
    }
}

impl<P: Ord> Drop for Flight<P> {
    fn drop(&mut self) {
        let mut flying = self.flights.flying.lock();
        self.parts.iter().for_each(|part| {
            flying.remove(part);
        });
    }
}

/// Ready when a part that another caller fetches has come, or has failed to.
pub(super) async fn landed(mut flight: watch::Receiver<()>) {
    // Nothing is ever sent: this waits for the sender to be dropped.
    let _ = flight.changed().await;
}
