//! What was asked, when, and what was done to it.

use super::plan::{Asked, Fault};
use std::time::Duration;

/// One request.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What was asked.
    pub asked: Asked,
    /// Bytes of its body, as far as it was read.
    pub body_bytes: u64,
    /// When its head had come, since the proxy was started.
    pub came: Duration,
    /// When the answer was sent or the connection was cut; none while it is under way.
    pub ended: Option<Duration>,
    /// What was done to it; none is passed on unharmed.
    pub fault: Option<Fault>,
    /// The status that the client was sent; none where it was sent none.
    pub status: Option<u16>,
}

/// A client that was told to come back later, and what it asked next.
#[derive(Clone, Debug)]
pub struct Wait {
    /// What was asked.
    pub asked: Asked,
    /// How long the client was to wait.
    pub told: Duration,
    /// How long it did until it asked the same again; none where it never came back.
    pub waited: Option<Duration>,
    /// How long it was until anything was asked, be it by who could not know yet; none where nothing more was.
    pub next: Option<Duration>,
    /// How long nothing at all was asked by who could know; none where nothing more was.
    pub left_alone: Option<Duration>,
}

impl Wait {
    /// Whether it came too early, whatever it asked.
    pub fn was_cut_short(&self) -> bool {
        [self.waited, self.left_alone].into_iter().flatten().any(|waited| waited < self.told)
    }
}

/// What comes so soon after an answer was sent was asked by somebody who could not know of it yet.
const ON_ITS_WAY: Duration = Duration::from_millis(50);

/// Everyone who was told to come back later, and when they did.
pub fn waits(log: &[Entry]) -> Vec<Wait> {
    let told = |(index, entry): (usize, &Entry)| {
        let Some(Fault::Status { retry_after: Some(seconds), .. }) = entry.fault else { return None };
        let same = |later: &&Entry| {
            let (later, entry) = (&later.asked, &entry.asked);
            (&later.method, place(&later.target)) == (&entry.method, place(&entry.target))
        };
        let ended = entry.ended?;
        let since = |later: &Entry| later.came.saturating_sub(ended);
        let waited = log[index + 1..].iter().find(same).map(since);
        let next = log[index + 1..].iter().find(|later| later.came > ended).map(since);
        let could_know = |later: &&Entry| since(later) > ON_ITS_WAY;
        let left_alone = log[index + 1..].iter().find(could_know).map(since);
        let (asked, told) = (entry.asked.clone(), Duration::from_secs(seconds));
        Some(Wait { asked, told, waited, next, left_alone })
    };
    log.iter().enumerate().filter_map(told).collect()
}

/// What was asked for, without the name that is another one at each try of a put aside.
fn place(target: &str) -> &str {
    target.find("/tmp/").map_or(target, |at| &target[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_clients_that_return_too_early() {
        let entry = |number: u64, at_ms: u64, fault: Option<Fault>| Entry {
            asked: Asked { number, method: "PUT".into(), target: "/a".into() },
            body_bytes: 0,
            came: Duration::from_millis(at_ms),
            ended: Some(Duration::from_millis(at_ms + 1)),
            fault,
            status: None,
        };
        let told = || Some(Fault::come_back(503, 1));
        let log = [entry(0, 0, told()), entry(1, 900, told()), entry(2, 1901, None)];
        let waits = waits(&log);
        assert_eq!(waits.iter().map(Wait::was_cut_short).collect::<Vec<_>>(), [true, false]);
        assert!(super::waits(&log[..1])[0].waited.is_none());
        // Another question is one, too.
        let mut other = entry(1, 500, None);
        other.asked.target = "/b".into();
        let waits = super::waits(&[entry(0, 0, told()), other, entry(2, 1901, None)]);
        assert!(waits[0].was_cut_short() && waits[0].waited.unwrap() > waits[0].told);
        // Unless it was on its way.
        let mut other = entry(1, 20, None);
        other.asked.target = "/b".into();
        assert!(!super::waits(&[entry(0, 0, told()), other])[0].was_cut_short());
    }

    #[test]
    fn each_try_of_a_put_aside_is_one_of_the_same() {
        assert_eq!(place("/s/tmp/0a?x"), place("/s/tmp/0b"));
        assert_ne!(place("/s/seg/0a"), place("/s/seg/0b"));
    }
}
