//! When to try again. Pure but for the jitter, which is drawn from the engine's own entropy.

use crate::map::ReadError;
use crate::store::StoreError;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);
/// Half of it is the least that is waited at last: one request in five minutes.
const LONGEST_UNWATCHED: Duration = Duration::from_secs(600);

/// Exponential back-off with full jitter: devices that lost the same store do not come back in step.
#[derive(Clone, Debug)]
pub struct Backoff {
    tries: u32,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

impl Backoff {
    /// Nothing has failed yet.
    pub fn new() -> Self {
        Self { tries: 0, longest: LONGEST }
    }

    /// The same, for what nobody waits for: what stays away is asked at last no more than once in five minutes.
    pub fn unwatched() -> Self {
        Self { tries: 0, longest: LONGEST_UNWATCHED }
    }

    /// How often it failed.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How long to wait after one more failure; at least `hint`, where the store said when to come back.
    pub fn next(&mut self, hint: Option<Duration>) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.tries.min(16)).min(self.longest);
        self.tries += 1;
        let jitter = longest.mul_f64((crate::entropy::u128() % 1000) as f64 / 1000.0);
        (longest / 2 + jitter / 2).max(hint.unwrap_or_default())
    }
}

/// When the store asked to be tried again.
pub fn hint(error: &ReadError) -> Option<Duration> {
    match error {
        ReadError::Store(error) => hint_of(error),
        ReadError::Format { .. } => None,
    }
}

/// The same of an error of the store itself.
pub fn hint_of(error: &StoreError) -> Option<Duration> {
    match error {
        StoreError::Busy { retry_after, .. } => *retry_after,
        _ => None,
    }
}
