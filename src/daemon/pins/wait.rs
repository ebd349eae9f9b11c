//! Waiting until pins are all here, and when not to wait any longer.

use crate::api::{Failure, Pin, PinState, Unit};
use crate::daemon::failure;
use crate::daemon::work::Work;
use std::future::pending;
use std::time::Duration;
use tokio::time::Instant;

/// How often a waiting client gets the progress.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// A store that does not answer for this long is away.
pub const OFFLINE_AFTER: Duration = Duration::from_secs(5);
/// If something is wrong, and nothing has arrived for this long, waiting ends.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// From this many files on, progress counts files and not bytes.
const MANY_FILES: u64 = 20;
const GOES_ON: &str = "The pin stays. Missing files are downloaded in the background.";

/// Until when a client waits.
pub struct Deadline(Option<(Duration, Instant)>);

impl Deadline {
    /// After `timeout` from now on; `None` waits for as long as it takes.
    pub fn after(timeout: Option<Duration>) -> Self {
        let at = timeout.and_then(|timeout| Some((timeout, Instant::now().checked_add(timeout)?)));
        Self(at)
    }

    /// Returns once it has passed, with the length of the timeout.
    pub async fn passed(&self) -> Duration {
        let Some((timeout, at)) = self.0 else { return pending().await };
        tokio::time::sleep_until(at).await;
        timeout
    }
}

/// Waits until all of the pins that `pins` returns are here, and reports their progress.
pub async fn until_ready(pins: impl Fn() -> Vec<Pin>, work: &Work) -> Result<Vec<Pin>, Failure> {
    let waiting = async {
        let mut patience = Patience::new(Instant::now());
        loop {
            let pins = pins();
            match patience.judge(Instant::now(), &pins) {
                Verdict::Ready => return Ok(pins),
                Verdict::Hopeless(failure) => return Err(*failure),
                Verdict::Wait => {}
            }
            tell(&pins, work);
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    };
    work.unless_interrupted(GOES_ON, waiting).await?
}

fn tell(pins: &[Pin], work: &Work) {
    let sum = |of: fn(&Pin) -> u64| pins.iter().map(of).sum::<u64>();
    let files = sum(|pin| pin.files_total);
    match files >= MANY_FILES {
        true => work.progress("Ready for offline", sum(|pin| pin.files_ready), files, Unit::Items),
        false => work.progress("Downloading", sum(|pin| pin.ready_bytes), sum(|pin| pin.bytes), Unit::Bytes),
    }
}

/// Whether to wait any longer.
#[derive(Debug)]
enum Verdict {
    /// All of it is here.
    Ready,
    /// More may arrive.
    Wait,
    /// Nothing more arrives without a person or the network.
    Hopeless(Box<Failure>),
}

/// Decides when waiting ends. Pure.
struct Patience {
    /// Since when the store is away.
    away_since: Option<Instant>,
    /// The bytes that were here last, and since when.
    moved: (u64, Instant),
}

impl Patience {
    fn new(now: Instant) -> Self {
        Self { away_since: None, moved: (0, now) }
    }

    fn judge(&mut self, now: Instant, pins: &[Pin]) -> Verdict {
        let here = pins.iter().map(|pin| pin.ready_bytes).sum();
        if self.moved.0 != here {
            self.moved = (here, now);
        }
        if pins.iter().all(Pin::is_ready) {
            return Verdict::Ready;
        }
        let hopeless = |failure| Verdict::Hopeless(Box::new(failure));
        let first = |is: fn(&Pin) -> bool| pins.iter().find(|pin| is(pin));
        if let Some(pin) = first(|pin| matches!(pin.state, PinState::Error | PinState::Closed)) {
            return hopeless(failure::pin_stuck(pin));
        }
        if let Some(pin) = first(|pin| pin.state == PinState::Paused) {
            return hopeless(failure::pin_paused(pin));
        }
        let Some(pin) = first(|pin| pin.state == PinState::Offline) else {
            self.away_since = None;
            let troubled = first(|pin| pin.state == PinState::Syncing && pin.reason.is_some());
            return match troubled.filter(|_| now - self.moved.1 >= STUCK_AFTER) {
                Some(pin) => hopeless(failure::pin_stuck(pin)),
                None => Verdict::Wait,
            };
        };
        match now - *self.away_since.get_or_insert(now) >= OFFLINE_AFTER {
            true => hopeless(failure::pin_offline(pin)),
            false => Verdict::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Code;

    const SECOND: Duration = Duration::from_secs(1);

    fn pin(state: PinState, ready_bytes: u64, reason: Option<&str>) -> Pin {
        Pin {
            drive: "photos".to_owned(),
            path: None,
            at: None,
            state,
            reason: reason.map(str::to_owned),
            files_ready: 0,
            files_total: 1,
            bytes: 100,
            ready_bytes,
            unreadable: 0,
        }
    }

    #[track_caller]
    fn fails(verdict: Verdict) -> Code {
        match verdict {
            Verdict::Hopeless(failure) => failure.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_pins_must_be_here() {
        let mut patience = Patience::new(Instant::now());
        let ready = || pin(PinState::AlwaysKeep, 100, None);
        let now = Instant::now();
        assert!(matches!(patience.judge(now, &[ready(), ready()]), Verdict::Ready));
        assert!(matches!(patience.judge(now, &[ready(), pin(PinState::Syncing, 3, None)]), Verdict::Wait));
    }

    #[test]
    fn a_pin_that_a_person_must_act_on_ends_the_wait_at_once() {
        for (state, code) in [
            (PinState::Error, Code::Failed),
            (PinState::Closed, Code::Failed),
            (PinState::Paused, Code::Paused),
        ] {
            let now = Instant::now();
            assert_eq!(
                fails(Patience::new(now).judge(now, &[pin(state, 0, Some("why"))])),
                code,
                "{state:?}"
            );
        }
    }

    #[test]
    fn a_store_may_be_away_for_a_moment() {
        let begun = Instant::now();
        let mut patience = Patience::new(begun);
        let away = || [pin(PinState::Offline, 0, Some("no route"))];
        assert!(matches!(patience.judge(begun, &away()), Verdict::Wait));
        assert!(matches!(patience.judge(begun + OFFLINE_AFTER - SECOND, &away()), Verdict::Wait));
        // It was back in between.
        assert!(matches!(
            patience.judge(begun + OFFLINE_AFTER, &[pin(PinState::Syncing, 1, None)]),
            Verdict::Wait
        ));
        assert!(matches!(patience.judge(begun + OFFLINE_AFTER + SECOND, &away()), Verdict::Wait));
        assert_eq!(fails(patience.judge(begun + OFFLINE_AFTER * 2 + SECOND, &away())), Code::Offline);
    }

    #[test]
    fn trouble_ends_the_wait_once_nothing_arrives() {
        let begun = Instant::now();
        let mut patience = Patience::new(begun);
        let syncing = |bytes, reason| [pin(PinState::Syncing, bytes, reason)];
        assert!(matches!(patience.judge(begun + STUCK_AFTER * 9, &syncing(0, None)), Verdict::Wait));
        assert!(matches!(patience.judge(begun + STUCK_AFTER * 9, &syncing(7, Some("slow"))), Verdict::Wait));
        assert_eq!(fails(patience.judge(begun + STUCK_AFTER * 10, &syncing(7, Some("slow")))), Code::Failed);
    }
}
