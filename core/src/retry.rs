//! When to try again. Pure but for the jitter, which is drawn from the engine's own entropy.

use crate::read_error::ReadError;
use crate::store::StoreError;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);
/// How many devices that were told the same time are spread over: so much of that time again.
const SPREAD: f64 = 0.25;
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

    /// How long to wait after one more failure; at least `hint`, where the store said when to come back, and then as well not
    /// in step with all others whom it told so.
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

/// The longest that a store may want somebody to wait who waits for it: one that wants more has answered.
pub const WAITED_FOR: Duration = Duration::from_secs(3);

/// After how long a request that may be repeated is tried again while somebody waits for it, if it is: `tries` times at most.
pub fn while_waited_for(backoff: &mut Backoff, tries: u32, error: &StoreError) -> Option<Duration> {
    let is_passing = matches!(error, StoreError::Busy { .. } | StoreError::Unreachable { .. });
    let hint = hint_of(error);
    let is_again = is_passing && hint.unwrap_or_default() <= WAITED_FOR && backoff.tries() + 1 < tries;
    is_again.then(|| backoff.next(hint))
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

#[cfg(test)]
mod tests {
    use super::*;

    const HINT: Duration = Duration::from_secs(120);

    #[test]
    fn each_failure_is_waited_for_longer_up_to_a_limit() {
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
    fn nobody_waits_for_a_store_that_wants_much_patience() {
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
    fn nobody_comes_back_before_the_store_wants_them_nor_all_at_once() {
        let waits: std::collections::BTreeSet<_> =
            (0..100).map(|_| Backoff::new().next(Some(HINT))).collect();
        assert!(waits.iter().all(|wait| (HINT..=HINT.mul_f64(1.0 + SPREAD)).contains(wait)), "{waits:?}");
        assert!(waits.len() > 50, "{waits:?}");
        assert!(waits.last().unwrap().saturating_sub(*waits.first().unwrap()) > HINT / 10, "{waits:?}");
    }

    #[test]
    fn a_store_that_fails_again_and_again_is_not_asked_as_often_as_it_would_have_it() {
        let mut backoff = Backoff::new();
        for _ in 0..20 {
            backoff.next(Some(Duration::from_secs(1)));
        }
        assert!(backoff.next(Some(Duration::from_secs(1))) >= LONGEST / 2);
        assert!(backoff.next(Some(HINT)) >= HINT);
    }
}
