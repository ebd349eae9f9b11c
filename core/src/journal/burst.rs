//! Whether much is being written right now. Pure.
//!
//! A large write (a copy, an export, a virtual machine's disk) gets the local disk and the processors to itself: applying it to the cache
//! and sealing it for the store can come afterwards, as long as the journal has space. On a single disk they would triple the bytes that it
//! has to write, while a person waits.

use std::time::Duration;
use tokio::time::Instant;

/// This many bytes ...
const BURST_BYTES: u64 = 16 << 20;
/// ... within this time are a burst. Even saving by many programs at once stays far below.
const WINDOW: Duration = Duration::from_millis(100);
/// A burst is over after this time without as much again.
const CALM_AFTER: Duration = Duration::from_millis(200);

/// Measures how fast the journal grows.
pub(super) struct Burst {
    window_began: Instant,
    window_bytes: u64,
    ends: Instant,
}

impl Burst {
    pub fn new(now: Instant) -> Self {
        Self { window_began: now, window_bytes: 0, ends: now }
    }

    /// This many bytes were appended.
    pub fn note(&mut self, bytes: u64, now: Instant) {
        if now.duration_since(self.window_began) > WINDOW {
            (self.window_began, self.window_bytes) = (now, 0);
        }
        self.window_bytes += bytes;
        if self.window_bytes >= BURST_BYTES {
            (self.window_began, self.window_bytes) = (now, 0);
            self.ends = now + CALM_AFTER;
        }
    }

    /// How long the burst lasts at least. None if there is none.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.ends.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_copy_is_a_burst_until_a_moment_after_its_end() {
        let start = Instant::now();
        let mut burst = Burst::new(start);
        assert_eq!(burst.left(start), None);
        let at = |ms| start + Duration::from_millis(ms);
        for ms in 0..500 {
            burst.note(MIB, at(ms));
            assert_eq!(burst.left(at(ms)).is_some(), ms >= 15, "{ms}");
        }
        let left = burst.left(at(500)).unwrap();
        assert!(left <= CALM_AFTER && left > CALM_AFTER / 2, "{left:?}");
        assert_eq!(burst.left(at(500) + left), None);
    }

    #[test]
    fn steady_saving_is_no_burst() {
        let start = Instant::now();
        let mut burst = Burst::new(start);
        for ms in 0..10_000 {
            // 80 MiB a second.
            (0..20).for_each(|_| burst.note(4096, start + Duration::from_millis(ms)));
            assert_eq!(burst.left(start + Duration::from_millis(ms)), None);
        }
    }
}
