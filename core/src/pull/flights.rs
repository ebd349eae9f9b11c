//! Frames that are being fetched: whoever misses blocks of one at the same time costs one request.
//!
//! A reader waits for what another reader fetches. What is fetched in the background may be slow on purpose, so that it
//! does not wait for that.

use crate::format::id::ObjectId;
use crate::map::Frame;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// Where a frame lies: its segment, and its place in that.
type Key = (ObjectId, u32);

#[derive(Clone)]
struct Flying {
    in_background: bool,
    landed: watch::Receiver<()>,
}

/// The frames under way.
#[derive(Clone, Default)]
pub(super) struct Flights {
    // Shared with the flights, which take themselves out; held for map operations only.
    flying: Arc<Mutex<BTreeMap<Key, Flying>>>,
}

/// Frames that somebody fetches, until it is dropped.
pub(super) struct Flight {
    flights: Flights,
    keys: Vec<Key>,
    // Whoever waits is told by its end.
    _landing: watch::Sender<()>,
}

impl Flights {
    /// Splits frames into those that the caller fetches while it keeps the flight, and what others fetch already.
    pub fn begin(
        &self,
        frames: Vec<Frame>,
        in_background: bool,
    ) -> (Flight, Vec<Frame>, Vec<watch::Receiver<()>>) {
        let (landing, landed) = watch::channel(());
        let (mut ours, mut theirs, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        let mut flying = self.flying.lock();
        for frame in frames {
            let key = (frame.segment, frame.offset);
            match flying.get(&key) {
                Some(other) if in_background || !other.in_background => theirs.push(other.landed.clone()),
                Some(_) => ours.push(frame),
                None => {
                    flying.insert(key, Flying { in_background, landed: landed.clone() });
                    keys.push(key);
                    ours.push(frame);
                }
            }
        }
        (Flight { flights: self.clone(), keys, _landing: landing }, ours, theirs)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flying = self.flights.flying.lock();
        self.keys.iter().for_each(|key| {
            flying.remove(key);
        });
    }
}

/// Ready when a frame that somebody else fetches has come, or does not come.
pub(super) async fn landed(mut flight: watch::Receiver<()>) {
    // Nothing is ever sent: the end of the sender is what is waited for.
    let _ = flight.changed().await;
}
