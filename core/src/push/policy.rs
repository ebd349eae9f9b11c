//! When to push. Pure.

use std::time::Duration;

/// A batch is pushed when it is full, or when its oldest data has waited this long ...
pub const BATCH_AGE: Duration = Duration::from_secs(30);
/// ... or when the journal is this full (per mille), since only a commit frees it.
pub(super) const JOURNAL_FULL: u64 = 500;

/// The facts that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Bytes that are not in the store.
    pub unsent_bytes: u64,
    /// How long the oldest of them has waited.
    pub oldest_age: Duration,
    /// How full the journal is.
    pub journal_per_mille: u64,
    /// Whether pushing is switched off.
    pub paused: bool,
    /// Bytes of a full batch.
    pub batch_bytes: u64,
    /// How much longer a burst of writes lasts at least, if there is one.
    pub burst: Option<Duration>,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Push now.
    Push,
    /// Look again after this time, or when something changes.
    Wait(Duration),
    /// Nothing to do until something changes.
    Idle,
}

/// Decides.
pub fn decide(facts: &Facts) -> Decision {
    if facts.paused || facts.unsent_bytes == 0 {
        Decision::Idle
    } else if let Some(burst) = facts.burst.filter(|_| facts.journal_per_mille < JOURNAL_FULL) {
        Decision::Wait(burst)
    } else if facts.unsent_bytes >= facts.batch_bytes
        || facts.oldest_age >= BATCH_AGE
        || facts.journal_per_mille >= JOURNAL_FULL
    {
        Decision::Push
    } else {
        // The bytes are checked every second: a notice for each write would cost more than it is worth.
        Decision::Wait((BATCH_AGE - facts.oldest_age).min(Duration::from_secs(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Facts = Facts {
        unsent_bytes: 0,
        oldest_age: Duration::ZERO,
        journal_per_mille: 0,
        paused: false,
        batch_bytes: 1 << 20,
        burst: None,
    };

    #[test]
    fn size_age_or_a_full_journal_triggers_a_push() {
        assert_eq!(decide(&QUIET), Decision::Idle);
        let some = Facts { unsent_bytes: 4096, ..QUIET };
        assert_eq!(decide(&some), Decision::Wait(Duration::from_secs(1)));
        assert_eq!(decide(&Facts { unsent_bytes: 1 << 20, ..QUIET }), Decision::Push);
        assert_eq!(decide(&Facts { oldest_age: BATCH_AGE, ..some }), Decision::Push);
        assert_eq!(decide(&Facts { journal_per_mille: 500, ..some }), Decision::Push);
        assert_eq!(decide(&Facts { unsent_bytes: 1 << 20, paused: true, ..some }), Decision::Idle);
    }

    #[test]
    fn pushing_waits_for_a_burst_unless_the_journal_fills() {
        let burst = Duration::from_millis(120);
        let writing = Facts { unsent_bytes: 1 << 20, oldest_age: BATCH_AGE, burst: Some(burst), ..QUIET };
        assert_eq!(decide(&writing), Decision::Wait(burst));
        assert_eq!(decide(&Facts { journal_per_mille: 499, ..writing }), Decision::Wait(burst));
        assert_eq!(decide(&Facts { journal_per_mille: 500, ..writing }), Decision::Push);
    }
}
