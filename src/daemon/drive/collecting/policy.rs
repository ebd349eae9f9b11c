//! When to collect garbage unasked. Pure.

use std::time::Duration;

/// Less garbage than this costs less to keep than to find.
pub const OVER_BYTES: u64 = 256 << 20;
/// ... and it must be more than one part in `SHARE` of what the store holds.
const SHARE: u64 = 4;
/// The garbage that the estimate misses is found after this time.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// A drive that never stops uploading waits this long for a pause, and no longer.
const LATEST: Duration = Duration::from_secs(14 * 24 * 3600);
/// Uploads go first while more than this is pending: a collection would delay them.
const MUCH_UNSENT: u64 = 64 << 20;
/// A collection that failed is not repeated before this time, ...
const REST: Duration = Duration::from_secs(3600);
/// ... one that something else has cut off may be repeated soon, ...
const SHORT_REST: Duration = Duration::from_secs(300);
/// ... and one that a person has stopped is not repeated on the same day.
const LONG_REST: Duration = Duration::from_secs(24 * 3600);
/// Measuring garbage writes the map's pages again.
const MEASURE_EVERY: Duration = Duration::from_secs(600);

/// The facts that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Estimate of what became garbage since the last collection; `None` if nothing is known.
    pub garbage_bytes: Option<u64>,
    /// Estimate of what the store holds for the drive, garbage included.
    pub store_bytes: u64,
    /// Bytes that were put since the last collection.
    pub put_bytes: u64,
    /// Time since the last collection, or since the drive was first opened here.
    pub since_collection: Duration,
    /// Bytes that may be garbage as well: writes since the last checkpoint may have replaced this many.
    pub maybe_garbage_bytes: u64,
    /// How the last collection that did not finish in this opening has ended, and how long ago.
    pub last_try: Option<(Ended, Duration)>,
    /// How long ago garbage was measured last, in this opening.
    pub since_measured: Option<Duration>,
    /// Bytes with their upload pending.
    pub unsent_bytes: u64,
    /// Whether the store takes nothing because it is full.
    pub is_full: bool,
    /// Whether the store takes nothing for another reason, or the drive is another device's.
    pub is_cut_off: bool,
    /// Whether two versions wait for a person to decide, who may need either.
    pub is_fork: bool,
    /// Whether uploads are paused, by a person or by the clock.
    pub paused: bool,
    /// Whether the network is metered, and the person minds.
    pub metered: bool,
    /// Whether the computer runs on its battery.
    pub on_battery: bool,
    /// How much garbage is enough: [`OVER_BYTES`].
    pub over_bytes: u64,
}

/// How a collection has ended that did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The store or the network has failed.
    Failed,
    /// Something else was asked for, or the moment no longer suited.
    CutOff,
    /// A person has stopped it.
    Stopped,
}

impl Ended {
    /// How long no collection begins after that.
    fn rest(self) -> Duration {
        match self {
            Ended::Failed => REST,
            Ended::CutOff => SHORT_REST,
            Ended::Stopped => LONG_REST,
        }
    }
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Find out how much garbage there is: it may be enough.
    Measure,
    /// Collect now.
    Collect,
    /// Not now.
    Wait(Because),
}

/// Why there is no collection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// There is little garbage, and the last collection was not long ago.
    Little,
    /// One was tried recently.
    Tried,
    /// The store takes nothing.
    CutOff,
    /// A fork waits for a person.
    Fork,
    /// The network is metered.
    Metered,
    /// Uploads are paused.
    Paused,
    /// The computer runs on its battery.
    Battery,
    /// Many changes are waiting for upload.
    Uploading,
}

impl Because {
    /// Whether a running collection ends for this reason: the person minds its cost.
    pub fn ends_it(self) -> bool {
        matches!(self, Because::Fork | Because::Metered | Because::Paused | Because::Battery)
    }
}

/// Decides whether to collect now.
pub fn decide(facts: &Facts) -> Decision {
    let is_enough = |bytes: u64| bytes > facts.over_bytes && bytes > facts.store_bytes / SHARE;
    let is_much = facts.garbage_bytes.is_some_and(is_enough);
    let may_be_much = facts.garbage_bytes.is_some_and(|bytes| is_enough(bytes + facts.maybe_garbage_bytes));
    let is_measured = facts.since_measured.is_some_and(|since| since < MEASURE_EVERY);
    // Without new writes, a drive's garbage does not grow.
    let is_weekly = facts.since_collection >= WEEK && facts.put_bytes > 0;
    // Uploads wait for space then, and deletions cost little: any garbage is worth it.
    let makes_room = facts.is_full && facts.garbage_bytes != Some(0);
    let uploads_first = facts.unsent_bytes > MUCH_UNSENT && facts.since_collection < LATEST && !makes_room;
    let waits = [
        (!makes_room && !is_much && !is_weekly && (!may_be_much || is_measured), Because::Little),
        (facts.last_try.is_some_and(|(ended, since)| since < ended.rest()), Because::Tried),
        (facts.is_cut_off, Because::CutOff),
        (facts.is_fork, Because::Fork),
        (facts.metered, Because::Metered),
        (facts.paused, Because::Paused),
        (facts.on_battery && !makes_room, Because::Battery),
        (uploads_first, Because::Uploading),
    ];
    let because = waits.into_iter().find_map(|(waits, because)| waits.then_some(because));
    let now = if makes_room || is_much || is_weekly { Decision::Collect } else { Decision::Measure };
    because.map_or(now, Decision::Wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const HOUR: Duration = Duration::from_secs(3600);
    /// A drive with more garbage than allowed, on a good day.
    const DUE: Facts = Facts {
        garbage_bytes: Some(300 * MIB),
        store_bytes: 1000 * MIB,
        put_bytes: 500 * MIB,
        since_collection: HOUR,
        maybe_garbage_bytes: 0,
        last_try: None,
        since_measured: None,
        unsent_bytes: 0,
        is_full: false,
        is_cut_off: false,
        is_fork: false,
        paused: false,
        metered: false,
        on_battery: false,
        over_bytes: OVER_BYTES,
    };
    /// A drive with little garbage, whose week is over.
    const WEEKLY: Facts = Facts { garbage_bytes: Some(MIB), since_collection: WEEK, ..DUE };

    #[test]
    fn collects_when_garbage_is_large_or_a_week_is_over() {
        let little = Decision::Wait(Because::Little);
        let rows = [
            ("over both limits", DUE, Decision::Collect),
            ("not over 256 MiB", Facts { garbage_bytes: Some(256 * MIB), ..DUE }, little),
            ("a quarter, not over it", Facts { store_bytes: 1200 * MIB, ..DUE }, little),
            ("nothing known", Facts { garbage_bytes: None, ..DUE }, little),
            ("weekly", WEEKLY, Decision::Collect),
            ("weekly, nothing known", Facts { garbage_bytes: None, ..WEEKLY }, Decision::Collect),
            ("weekly, nothing written", Facts { put_bytes: 0, ..WEEKLY }, little),
            ("not yet weekly", Facts { since_collection: WEEK - HOUR, ..WEEKLY }, little),
        ];
        for (name, facts, expected) in rows {
            assert_eq!(decide(&facts), expected, "{name}");
        }
    }

    #[test]
    fn measures_if_replaced_data_may_make_the_garbage_enough() {
        let little = Decision::Wait(Because::Little);
        let maybe = Facts { garbage_bytes: Some(200 * MIB), maybe_garbage_bytes: 100 * MIB, ..DUE };
        let rows = [
            ("together over both limits", maybe, Decision::Measure),
            ("nothing known", Facts { garbage_bytes: None, ..maybe }, little),
            ("together not over 256 MiB", Facts { maybe_garbage_bytes: 56 * MIB, ..maybe }, little),
            ("together a quarter", Facts { store_bytes: 1200 * MIB, ..maybe }, little),
            ("measured", Facts { since_measured: Some(HOUR / 10), ..maybe }, little),
            ("measured long ago", Facts { since_measured: Some(HOUR), ..maybe }, Decision::Measure),
            ("enough already", Facts { garbage_bytes: Some(300 * MIB), ..maybe }, Decision::Collect),
            ("on battery", Facts { on_battery: true, ..maybe }, Decision::Wait(Because::Battery)),
        ];
        for (name, facts, expected) in rows {
            assert_eq!(decide(&facts), expected, "{name}");
        }
    }

    #[test]
    fn makes_room_in_a_full_store() {
        let full =
            Facts { is_full: true, garbage_bytes: Some(1), unsent_bytes: 65 * MIB, on_battery: true, ..DUE };
        let rows = [
            ("a little garbage", full, Decision::Collect),
            ("nothing known", Facts { garbage_bytes: None, ..full }, Decision::Collect),
            ("no garbage", Facts { garbage_bytes: Some(0), ..full }, Decision::Wait(Because::Little)),
            ("paused", Facts { paused: true, ..full }, Decision::Wait(Because::Paused)),
            ("metered", Facts { metered: true, ..full }, Decision::Wait(Because::Metered)),
            (
                "tried",
                Facts { last_try: Some((Ended::Failed, HOUR / 2)), ..full },
                Decision::Wait(Because::Tried),
            ),
        ];
        for (name, facts, expected) in rows {
            assert_eq!(decide(&facts), expected, "{name}");
        }
    }

    #[test]
    fn rests_as_long_as_the_last_end_requires() {
        let rows = [(Ended::Failed, HOUR), (Ended::CutOff, HOUR / 12), (Ended::Stopped, 24 * HOUR)];
        for (ended, rest) in rows {
            let since = |since| Facts { last_try: Some((ended, since)), ..DUE };
            assert_eq!(decide(&since(rest / 2)), Decision::Wait(Because::Tried), "{ended:?}");
            assert_eq!(decide(&since(rest)), Decision::Collect, "{ended:?}");
        }
    }

    #[test]
    fn waits_for_a_better_moment() {
        for due in [DUE, WEEKLY] {
            let rows = [
                (Facts { is_cut_off: true, ..due }, Because::CutOff),
                (Facts { is_fork: true, ..due }, Because::Fork),
                (Facts { metered: true, paused: true, ..due }, Because::Metered),
                (Facts { paused: true, ..due }, Because::Paused),
                (Facts { on_battery: true, ..due }, Because::Battery),
                (Facts { unsent_bytes: 65 * MIB, ..due }, Because::Uploading),
            ];
            for (facts, because) in rows {
                assert_eq!(decide(&facts), Decision::Wait(because));
            }
            assert_eq!(decide(&Facts { unsent_bytes: MIB, ..due }), Decision::Collect);
            let overdue = Facts { unsent_bytes: 65 * MIB, since_collection: LATEST, ..due };
            assert_eq!(decide(&overdue), Decision::Collect, "uploads may never end");
        }
    }
}
