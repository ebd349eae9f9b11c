//! Calls that may never be answered: on a network file system whose server is gone they hang in the kernel, from where no
//! thread can be called back.
//!
//! Such a call is left behind on its thread, and whoever waits for it is told. So that a directory that hangs cannot take thread
//! after thread, as many as [`AT_ONCE`] are let in, over all that this process does there: while all of those hang, nobody else
//! goes in, and who waits for a place is told as well. Once the directory answers, those that were left behind end by themselves,
//! and their places are free. What they did then is what a request whose answer was lost has done.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Calls at once, of which each has a thread: as many as a busy drive asks at once (`map::READS_AT_ONCE`), and an eighth of what the
/// runtime has for all.
const AT_ONCE: usize = 64;

/// The directories that this process uses. Held for a look-up.
static ROOMS: Mutex<BTreeMap<PathBuf, Weak<Room>>> = Mutex::new(BTreeMap::new());

/// How long a call may take, as with the stores that are reached over a network.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Without a sign of life, beside what its bytes take.
    pub silence: Duration,
    /// Bytes in a second below which a disk counts as one that hangs.
    pub slowest_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { silence: Duration::from_secs(60), slowest_bytes: 16 << 10 }
    }
}

/// Why there is no answer.
pub enum NoAnswer {
    /// The directory hangs.
    Late,
    /// The work panicked.
    Panicked(JoinError),
}

/// A sign of life of one call.
#[derive(Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// It goes on.
    pub fn beat(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// All calls to one directory, whoever asks.
struct Room {
    places: Arc<Semaphore>,
    /// Beats when a call ends.
    ended: Pulse,
}

/// How one directory is waited for.
#[derive(Clone)]
pub struct Patience {
    limits: Limits,
    room: Arc<Room>,
}

impl Patience {
    /// With calls to `root`.
    pub fn new(root: &Path, limits: Limits) -> Self {
        let mut rooms = ROOMS.lock();
        rooms.retain(|_, room| room.strong_count() > 0);
        let known = rooms.get(root).and_then(Weak::upgrade);
        let room = known.unwrap_or_else(|| {
            let room = Arc::new(Room { places: Arc::new(Semaphore::new(AT_ONCE)), ended: Pulse::default() });
            rooms.insert(root.to_owned(), Arc::downgrade(&room));
            room
        });
        Self { limits, room }
    }

    /// Runs `work`, which may move so many bytes between two signs of life, on a thread of its own.
    pub async fn run<T: Send + 'static>(
        &self,
        bytes: u64,
        work: impl FnOnce(&Pulse) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let limit =
            self.limits.silence + Duration::from_secs_f64(bytes as f64 / self.limits.slowest_bytes as f64);
        let place = while_alive(limit, &self.room.ended, self.room.places.clone().acquire_owned()).await?;
        let place = place.expect("the places are never closed");
        let (room, pulse) = (self.room.clone(), Pulse::default());
        let beating = pulse.clone();
        let working = tokio::task::spawn_blocking(move || {
            let done = work(&beating);
            drop(place);
            room.ended.beat();
            done
        });
        while_alive(limit, &pulse, working).await?.map_err(NoAnswer::Panicked)
    }
}

/// Waits for as long as there is a sign of life in each `limit`.
async fn while_alive<T>(
    limit: Duration,
    pulse: &Pulse,
    waiting: impl Future<Output = T>,
) -> Result<T, NoAnswer> {
    tokio::pin!(waiting);
    loop {
        let before = pulse.0.load(Relaxed);
        match tokio::time::timeout(limit, &mut waiting).await {
            Ok(done) => return Ok(done),
            Err(_) if pulse.0.load(Relaxed) == before => return Err(NoAnswer::Late),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn what_goes_on_may_take_long_and_what_is_silent_may_not() {
        let pulse = Pulse::default();
        let listing = async {
            for _ in 0..100 {
                sleep(Duration::from_secs(40)).await;
                pulse.beat();
            }
        };
        assert!(while_alive(LIMIT, &pulse, listing).await.is_ok());
        let begun = tokio::time::Instant::now();
        assert!(while_alive(LIMIT, &pulse, sleep(10 * LIMIT)).await.is_err());
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    }
}
