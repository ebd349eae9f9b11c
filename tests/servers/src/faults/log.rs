//! The requests, their times and their faults.

use super::plan::{Asked, Fault};
use std::time::Duration;

/// One request.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The request.
    pub asked: Asked,
    /// Bytes of its body that were read.
    pub body_bytes: u64,
    /// When its head had arrived, since the proxy was started.
    pub came: Duration,
    /// When the answer was sent or the connection was cut; none while it is in progress.
    pub ended: Option<Duration>,
    /// Its fault; none if it was forwarded unharmed.
    pub fault: Option<Fault>,
    /// The status sent to the client; none if no answer was sent.
    pub status: Option<u16>,
}

/// A client that got a time to come back, and its next requests.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The request that was refused.
    pub asked: Asked,
    /// How long the client had to wait.
    pub told: Duration,
    /// How long it waited before it repeated the request; none if it never did.
    pub waited: Option<Duration>,
    /// The time until any next request, even one that was already in flight; none if there was none.
    pub next: Option<Duration>,
    /// The time until the first request that could know of the answer; none if there was none.
    pub left_alone: Option<Duration>,
}

impl Wait {
    /// Whether any request came too early.
    pub fn was_cut_short(&self) -> bool {
        [self.waited, self.left_alone].into_iter().flatten().any(|waited| waited < self.told)
    }
}

/// A request so soon after an answer was in flight already, and could not know of it.
const ON_ITS_WAY: Duration = Duration::from_millis(50);

/// All clients that got a time to come back, and when they did.
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

/// The target of a request, without the temporary name that changes at each try of a put.
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
        // Another request counts, too.
        let mut other = entry(1, 500, None);
        other.asked.target = "/b".into();
        let waits = super::waits(&[entry(0, 0, told()), other, entry(2, 1901, None)]);
        assert!(waits[0].was_cut_short() && waits[0].waited.unwrap() > waits[0].told);
        // Unless it was already in flight.
        let mut other = entry(1, 20, None);
        other.asked.target = "/b".into();
        assert!(!super::waits(&[entry(0, 0, told()), other])[0].was_cut_short());
    }

    #[test]
    fn all_tries_of_a_temporary_put_count_as_one() {
        assert_eq!(place("/s/tmp/0a?x"), place("/s/tmp/0b"));
        assert_ne!(place("/s/seg/0a"), place("/s/seg/0b"));
    }
}
