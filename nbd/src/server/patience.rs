//! How long to poll for the next request before sleeping.
//!
//! If a client sends one request at a time, most of a short request's time is two wake-ups, each on a processor that has gone idle
//! meanwhile. For a client that answers a reply with the next request within microseconds, the thread polls that long, and yields the
//! processor to others between two polls. For a slow client it sleeps, which costs nothing.

use std::time::Duration;

/// How long to poll for the next request of such a client.
pub(super) const LOOK_LIMIT: Duration = Duration::from_micros(100);
/// How often in a row the next request must have come this soon.
const TRUST: u8 = 4;
const TRUST_MAX: u8 = 16;

/// The pace of a client.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Rises when the next request comes soon, and falls when it does not.
    soon: u8,
}

impl Patience {
    /// Whether polling is worth it.
    pub(super) fn looks(&self) -> bool {
        self.soon >= TRUST
    }

    /// Records that a request came after `waited`.
    pub(super) fn came_after(&mut self, waited: Duration) {
        self.soon = match waited <= LOOK_LIMIT * 2 {
            true => (self.soon + 1).min(TRUST_MAX),
            false => self.soon / 2,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_for_quick_clients_only() {
        let mut patience = Patience::default();
        let pace = |patience: &mut Patience, waited, times| {
            (0..times).for_each(|_| patience.came_after(Duration::from_micros(waited)));
        };
        assert!(!patience.looks());
        pace(&mut patience, 60, 4);
        assert!(patience.looks());
        pace(&mut patience, 60, 100);
        pace(&mut patience, 2_000, 1);
        assert!(patience.looks(), "one slow request is no habit");
        pace(&mut patience, 2_000, 2);
        assert!(!patience.looks());
    }
}
