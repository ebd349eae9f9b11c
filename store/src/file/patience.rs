//! Calls that may never be answered: on a network file system whose server is gone they hang in the kernel, and no thread can be called
//! back from there.
//!
//! Such a call is left behind on its thread, and its caller gets an error. So that a directory that hangs cannot take one thread after
//! another, only [`AT_ONCE`] calls of this process are let in at a time. While all of those hang, no further call goes in, and a caller
//! that waits for a place gets an error as well. Once the directory answers, the calls left behind end by themselves and free their places.
//! Their effect is that of a request whose answer was lost.

use crate::StoreError;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Calls at once, each with a thread: as many as a busy reader makes at once, and an eighth of the threads that the runtime has for
/// everything.
const AT_ONCE: usize = 64;

/// The directories that this process uses. Held for a look-up.
static ROOMS: Mutex<BTreeMap<PathBuf, Weak<Room>>> = Mutex::new(BTreeMap::new());

/// How long a call may take, as with stores reached over a network.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time without a sign of life, beyond the time that the bytes take.
    pub silence: Duration,
    /// Bytes per second below which a disk counts as hanging.
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

impl NoAnswer {
    /// What it means for the caller.
    pub fn explain(self, root: &Path) -> StoreError {
        let reason = match self {
            NoAnswer::Late => format!("{} does not answer", root.display()),
            NoAnswer::Panicked(panicked) => panicked.to_string(),
        };
        StoreError::Unreachable { reason }
    }
}

/// A sign of life of one call.
#[derive(Clone, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// The call makes progress.
    pub fn beat(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// All calls of this process to one directory.
struct Room {
    places: Arc<Semaphore>,
    /// Beats when a call ends.
    ended: Pulse,
}

/// The limits on waiting for one directory.
#[derive(Clone)]
pub struct Patience {
    limits: Limits,
    room: Arc<Room>,
}

impl Patience {
    /// For calls to `root`.
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

    /// Runs `work`, which may move `bytes` bytes between two signs of life, on its own thread.
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

/// Waits as long as each `limit` brings a sign of life.
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
    async fn progress_may_take_long_and_silence_may_not() {
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
