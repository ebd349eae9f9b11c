//! Parts that are being fetched: whoever misses blocks of one at the same time costs one request.
//!
//! A reader waits for what another reader fetches. What is fetched in the background may be slow on purpose, so that it
//! does not wait for that.

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
pub(super) struct Flights<P> {
    // Shared with the flights, which take themselves out; held for map operations only.
    flying: Arc<Mutex<BTreeMap<P, Flying>>>,
}

/// Parts that somebody fetches, until it is dropped.
pub(super) struct Flight<P: Ord> {
    flights: Flights<P>,
    parts: Vec<P>,
    // Whoever waits is told by its end.
    _landing: watch::Sender<()>,
}

impl<P> Default for Flights<P> {
    fn default() -> Self {
        Self { flying: Arc::default() }
    }
}

impl<P: Copy + Ord> Flights<P> {
    /// Splits parts into those that the caller fetches while it keeps the flight, and what others fetch already.
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

/// Ready when a part that somebody else fetches has come, or does not come.
pub(super) async fn landed(mut flight: watch::Receiver<()>) {
    // Nothing is ever sent: the end of the sender is what is waited for.
    let _ = flight.changed().await;
}
