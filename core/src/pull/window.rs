//! How much of the background to have under way: enough to fill the link, so little that a reader who comes meanwhile
//! does not wait behind it. Pure: it is told the time.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// At least one job.
pub(super) const BYTES_MIN: u64 = 1 << 20;
/// 1 Gbit/s times 250 ms.
pub(super) const BYTES_MAX: u64 = 32 << 20;
/// Before anything is known: what a link of 100 Mbit/s carries in a third of a second.
const BYTES_FIRST: u64 = 4 << 20;
/// A rate is what came in so long at least.
const INTERVAL: Duration = Duration::from_millis(200);
/// The best rate and the shortest answer of so long count: what was before may have been another network.
const MEMORY: Duration = Duration::from_secs(10);
/// Answers are kept coming for so long beyond the time that one takes.
const AHEAD: Duration = Duration::from_millis(250);

/// The measure, taken from pulls that end.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// When the interval began that is being measured, and what has come in it.
    interval: Option<(Instant, u64)>,
    /// Bytes per second, by the end of their interval.
    rates: VecDeque<(Instant, u64)>,
    answers: VecDeque<(Instant, Duration)>,
}

impl Window {
    /// Notes a pull of so many bytes that took so long and ends now.
    pub(super) fn ended(&mut self, bytes: u64, took: Duration, now: Instant) {
        let (begun, before) = self.interval.unwrap_or((now - took, 0));
        let elapsed = now - begun;
        self.interval = match elapsed >= INTERVAL {
            true => {
                let rate = (before + bytes) as f64 / elapsed.as_secs_f64();
                keep(&mut self.rates, (now, rate as u64), |old, new| old <= new);
                None
            }
            false => Some((begun, before + bytes)),
        };
        keep(&mut self.answers, (now, took), |old, new| old >= new);
    }

    /// Nothing is under way: what comes later is measured anew.
    pub(super) fn is_idle(&mut self) {
        self.interval = None;
    }

    /// Bytes of the background that may be under way.
    pub(super) fn bytes(&self) -> u64 {
        let (Some((_, rate)), Some((_, answer))) = (self.rates.front(), self.answers.front()) else {
            return BYTES_FIRST;
        };
        // Half more than was seen, or it could never find out that the link carries more.
        let bytes = 1.5 * *rate as f64 * (*answer + AHEAD).as_secs_f64();
        (bytes as u64).clamp(BYTES_MIN, BYTES_MAX)
    }
}

/// Keeps the best value of the memory in front: those that `beaten` by a newer one can never be it any more.
fn keep<T: Copy>(values: &mut VecDeque<(Instant, T)>, new: (Instant, T), beaten: impl Fn(T, T) -> bool) {
    while values.back().is_some_and(|(_, old)| beaten(*old, new.1)) {
        values.pop_back();
    }
    values.push_back(new);
    while values.len() > 1 && values.front().is_some_and(|(at, _)| new.0 - *at > MEMORY) {
        values.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Keeps the window full on a link of so many bytes per second for 20 s.
    fn settle(window: &mut Window, rate: u64, round_trip: Duration, from: Instant) -> Instant {
        let mut now = from;
        while now - from < Duration::from_secs(20) {
            let bytes = window.bytes();
            let took = round_trip.max(Duration::from_secs_f64(bytes as f64 / rate as f64));
            now += took;
            for _ in 0..bytes / MIB {
                window.ended(MIB, took, now);
            }
        }
        now
    }

    #[test]
    fn a_fast_link_is_filled_whatever_its_round_trip() {
        for (rate, round_trip) in [(12 * MIB, 20), (12 * MIB, 100), (110 * MIB, 5), (110 * MIB, 50)] {
            let mut window = Window::default();
            settle(&mut window, rate, Duration::from_millis(round_trip), Instant::now());
            let needed = rate as f64 * round_trip as f64 / 1000.0;
            assert!(window.bytes() as f64 > 1.2 * needed, "{rate} {round_trip}: {}", window.bytes());
        }
    }

    #[test]
    fn on_a_slow_link_a_reader_waits_for_little() {
        let mut window = Window::default();
        settle(&mut window, MIB, Duration::from_millis(50), Instant::now());
        assert!(window.bytes() <= 3 * MIB, "{}", window.bytes());
    }

    #[test]
    fn another_network_is_noticed() {
        let mut window = Window::default();
        let now = settle(&mut window, 110 * MIB, Duration::from_millis(10), Instant::now());
        let fast = window.bytes();
        let now = settle(&mut window, MIB, Duration::from_millis(10), now);
        assert!(window.bytes() < fast / 4, "{} after {fast}", window.bytes());
        settle(&mut window, 110 * MIB, Duration::from_millis(10), now);
        assert!(window.bytes() >= fast / 2);
    }
}
