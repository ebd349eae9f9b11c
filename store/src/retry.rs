//! When to try again. Pure except for the jitter, which comes from this crate's own entropy.

use crate::StoreError;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);
/// Devices that got the same time from a store are spread over this additional share of it.
const SPREAD: f64 = 0.25;
/// At last the wait is at least half of this: one request in five minutes.
const LONGEST_UNWATCHED: Duration = Duration::from_secs(600);

/// Exponential back-off with full jitter: devices that lost the same store do not return in step.
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
    /// For a first failure.
    pub fn new() -> Self {
        Self { tries: 0, longest: LONGEST }
    }

    /// The same for requests that nobody waits for: at last they are made at most once in five minutes.
    pub fn unwatched() -> Self {
        Self { tries: 0, longest: LONGEST_UNWATCHED }
    }

    /// How often it failed.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How long to wait after one more failure. At least `hint`, if the store named a time, with jitter so that not all devices which got
    /// that time return at once.
    pub fn next(&mut self, hint: Option<Duration>) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.tries.min(16)).min(self.longest);
        self.tries += 1;
        let random = (crate::entropy::u128() % 1000) as f64 / 1000.0;
        let wait = longest / 2 + longest.mul_f64(random) / 2;
        match hint {
            Some(hint) => wait.max(hint + hint.mul_f64(SPREAD * random)),
            None => wait,
        }
    }
}

/// The longest wait that a store may ask for while somebody waits for the answer. A longer one counts as the answer.
pub const WAITED_FOR: Duration = Duration::from_secs(3);

/// When to repeat a request that may be repeated, while somebody waits for its answer: at most `tries` tries in all.
pub fn while_waited_for(backoff: &mut Backoff, tries: u32, error: &StoreError) -> Option<Duration> {
    let is_passing = matches!(error, StoreError::Busy { .. } | StoreError::Unreachable { .. });
    let hint = hint_of(error);
    let is_again = is_passing && hint.unwrap_or_default() <= WAITED_FOR && backoff.tries() + 1 < tries;
    is_again.then(|| backoff.next(hint))
}

/// How long the store asked to be left alone.
pub fn hint_of(error: &StoreError) -> Option<Duration> {
    match error {
        StoreError::Busy { retry_after, .. } => *retry_after,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINT: Duration = Duration::from_secs(120);

    #[test]
    fn waits_grow_with_each_failure_up_to_a_limit() {
        for (mut backoff, limit) in [(Backoff::new(), LONGEST), (Backoff::unwatched(), LONGEST_UNWATCHED)] {
            for tries in 0..40 {
                assert_eq!(backoff.tries(), tries);
                let longest = FIRST.saturating_mul(1 << tries.min(16)).min(limit);
                let wait = backoff.next(None);
                assert!((longest / 2..=longest).contains(&wait), "{wait:?} of {longest:?}");
            }
        }
    }

    #[test]
    fn nobody_waits_for_a_store_that_names_a_long_time() {
        let busy = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            StoreError::Busy { reason: String::new(), retry_after }
        };
        let mut backoff = Backoff::new();
        assert!(while_waited_for(&mut backoff, 3, &busy(2)).is_some_and(|wait| wait.as_secs() == 2));
        assert_eq!(while_waited_for(&mut backoff, 3, &busy(4)), None);
        let away = StoreError::Unreachable { reason: String::new() };
        assert!(while_waited_for(&mut backoff, 3, &away).is_some());
        assert_eq!(while_waited_for(&mut backoff, 3, &away), None, "the third try was the last");
        let denied = StoreError::Denied { reason: String::new() };
        assert_eq!(while_waited_for(&mut Backoff::new(), 3, &denied), None);
    }

    #[test]
    fn devices_return_neither_too_early_nor_all_at_once() {
        let waits: std::collections::BTreeSet<_> =
            (0..100).map(|_| Backoff::new().next(Some(HINT))).collect();
        assert!(waits.iter().all(|wait| (HINT..=HINT.mul_f64(1.0 + SPREAD)).contains(wait)), "{waits:?}");
        assert!(waits.len() > 50, "{waits:?}");
        assert!(waits.last().unwrap().saturating_sub(*waits.first().unwrap()) > HINT / 10, "{waits:?}");
    }

    #[test]
    fn repeated_failures_outweigh_a_short_hint() {
        let mut backoff = Backoff::new();
        for _ in 0..20 {
            backoff.next(Some(Duration::from_secs(1)));
        }
        assert!(backoff.next(Some(Duration::from_secs(1))) >= LONGEST / 2);
        assert!(backoff.next(Some(HINT)) >= HINT);
    }
}
