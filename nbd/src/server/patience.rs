//! How long to look for the next request before sleeping.
//!
//! Where a client asks for one thing at a time, most of a short request's time is two wake-ups, each of a processor that
//! has gone idle meanwhile. A client that answers a reply with the next request within microseconds is looked
//! for that long, giving the processor to whoever else wants it between any two looks; one that takes its time is waited for
//! asleep, and costs nothing.

use std::time::Duration;

/// How long the next request of such a client is looked for.
pub(super) const LOOK_LIMIT: Duration = Duration::from_micros(100);
/// How often in a row it must have come so soon.
const TRUST: u8 = 4;
const TRUST_MAX: u8 = 16;

/// What is known of a client's pace.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// How often the next request came soon, of late.
    soon: u8,
}

impl Patience {
    /// Whether looking is worth it.
    pub(super) fn looks(&self) -> bool {
        self.soon >= TRUST
    }

    /// A request came after `waited`.
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
    fn a_quick_client_is_looked_for_and_a_slow_one_is_not() {
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
