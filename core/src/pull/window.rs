//! How much background work to have under way: enough to fill the link, but so little that a reader that comes meanwhile
//! does not wait behind it. Pure: the time is an argument.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// At least one job.
pub(super) const BYTES_MIN: u64 = 1 << 20;
/// 1 Gbit/s times 250 ms.
pub(super) const BYTES_MAX: u64 = 32 << 20;
/// Before anything is known: what a link of 100 Mbit/s carries in a third of a second.
const BYTES_FIRST: u64 = 4 << 20;
/// The shortest time over which a rate is measured.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long the best rate and the shortest answer count: older ones may be from another network.
const MEMORY: Duration = Duration::from_secs(10);
/// How much work is under way beyond one answer's time. All of it shares the link: with more, the next blocks of a file's
/// reader come later, and blocks after the end of the file are fetched beside its last ones.
const AHEAD: Duration = Duration::from_millis(200);

/// The measure, taken from pulls that end.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The interval that is being measured; none while nothing is under way.
    interval: Option<Interval>,
    /// Bytes per second, by the end of their interval.
    rates: VecDeque<(Instant, u64)>,
    /// The shortest answer, and when it came.
    answer: Option<(Instant, Duration)>,
    /// Since when an answer is waited for that nothing else delays.
    probing: Option<Instant>,
    /// Nothing was under way when the next pull was begun.
    was_idle: bool,
}

#[derive(Debug)]
struct Interval {
    begun: Instant,
    /// Bytes that have come in it.
    bytes: u64,
    /// Whether more was wanted than the window admitted. Otherwise the rate shows what was wanted, not what the link
    /// carries.
    is_full: bool,
}

impl Window {
    /// A job has to wait for the window.
    pub(super) fn note_full(&mut self) {
        self.interval.iter_mut().for_each(|interval| interval.is_full = true);
    }

    /// Records a pull of `bytes` that took `took` and ends now.
    pub(super) fn ended(&mut self, bytes: u64, took: Duration, now: Instant) {
        let begin = |begun| Interval { begun, bytes: 0, is_full: false };
        let interval = self.interval.get_or_insert_with(|| begin(now - took));
        interval.bytes += bytes;
        let elapsed = now - interval.begun;
        if elapsed >= INTERVAL {
            let rate = (interval.bytes as f64 / elapsed.as_secs_f64()) as u64;
            let is_best = self.rates.front().is_some_and(|(_, best)| rate > *best);
            // While the window is closed for a probe, a low rate is not due to the link.
            if interval.is_full && self.probing.is_none() || is_best {
                keep_best(&mut self.rates, (now, rate));
            }
            *interval = begin(now);
        }
        self.measure_answer(took, now);
    }

    /// A full window delays its own answers, and a window that followed them would grow and grow. So when the shortest
    /// answer is old, the window closes until an answer has come that nothing else ran beside (as BBR's ProbeRTT does).
    fn measure_answer(&mut self, took: Duration, now: Instant) {
        let is_first = std::mem::take(&mut self.was_idle);
        let is_alone = is_first || self.probing.is_some_and(|since| now - took >= since);
        let is_shortest = self.answer.is_none_or(|(_, shortest)| took <= shortest);
        if is_alone || is_shortest {
            self.answer = Some((now, took));
            self.probing = None;
        } else if self.probing.is_none() && self.answer.is_some_and(|(at, _)| now - at > MEMORY) {
            self.probing = Some(now);
        }
    }

    /// Nothing is under way: the next pull begins a new measurement.
    pub(super) fn note_idle(&mut self) {
        self.interval = None;
        self.was_idle = true;
    }

    /// Bytes of the background that may be under way.
    pub(super) fn bytes(&self) -> u64 {
        let (Some((_, rate)), Some((_, answer))) = (self.rates.front(), self.answer) else {
            return BYTES_FIRST;
        };
        if self.probing.is_some() {
            return BYTES_MIN;
        }
        // Half more than was seen: otherwise it could never find out that the link carries more.
        let bytes = 1.5 * *rate as f64 * (answer + AHEAD).as_secs_f64();
        (bytes as u64).clamp(BYTES_MIN, BYTES_MAX)
    }
}

/// Keeps the best rate within [`MEMORY`] in front. A rate that a newer one beats can never be the best again.
fn keep_best(values: &mut VecDeque<(Instant, u64)>, new: (Instant, u64)) {
    while values.back().is_some_and(|(_, old)| *old <= new.1) {
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

    /// Keeps the window full for 20 s on a link of `rate` bytes per second.
    fn settle(window: &mut Window, rate: u64, round_trip: Duration, from: Instant) -> Instant {
        let mut now = from;
        while now - from < Duration::from_secs(20) {
            let bytes = window.bytes();
            let took = round_trip.max(Duration::from_secs_f64(bytes as f64 / rate as f64));
            now += took;
            for _ in 0..bytes / MIB {
                window.ended(MIB, took, now);
                window.note_full();
            }
        }
        now
    }

    #[test]
    fn the_window_fills_a_fast_link_at_any_round_trip() {
        for (rate, round_trip) in
            [(12 * MIB, 20), (12 * MIB, 100), (110 * MIB, 5), (110 * MIB, 150), (8 * MIB, 900)]
        {
            let mut window = Window::default();
            settle(&mut window, rate, Duration::from_millis(round_trip), Instant::now());
            let needed = rate as f64 * round_trip as f64 / 1000.0;
            assert!(window.bytes() as f64 > 1.2 * needed, "{rate} {round_trip}: {}", window.bytes());
        }
    }

    #[test]
    fn few_requests_do_not_change_the_window() {
        let (mut window, mut now) = (Window::default(), Instant::now());
        for _ in 0..100 {
            now += Duration::from_millis(250);
            window.ended(64 << 10, Duration::from_millis(200), now);
        }
        assert_eq!(window.bytes(), BYTES_FIRST);
    }

    #[test]
    fn the_window_stays_small_on_a_slow_link() {
        let mut window = Window::default();
        settle(&mut window, MIB, Duration::from_millis(50), Instant::now());
        assert!(window.bytes() <= 3 * MIB, "{}", window.bytes());
    }

    #[test]
    fn the_window_is_full_again_at_once_after_a_pause() {
        let (rate, round_trip) = (12 * MIB, Duration::from_millis(100));
        let mut window = Window::default();
        let mut now = settle(&mut window, rate, round_trip, Instant::now());
        let full = window.bytes();
        window.note_idle();
        now += 3 * MEMORY;
        // A little longer than the shortest answer.
        now += round_trip + Duration::from_millis(5);
        window.ended(64 << 10, round_trip + Duration::from_millis(5), now);
        for _ in 0..4 {
            assert!(window.bytes() >= full * 9 / 10, "{} of {full}", window.bytes());
            now += Duration::from_millis(20);
            window.ended(64 << 10, round_trip + Duration::from_millis(20), now);
            window.note_full();
        }
    }

    #[test]
    fn the_window_adapts_to_another_network() {
        let mut window = Window::default();
        let now = settle(&mut window, 110 * MIB, Duration::from_millis(10), Instant::now());
        let fast = window.bytes();
        let now = settle(&mut window, MIB, Duration::from_millis(10), now);
        assert!(window.bytes() < fast / 4, "{} after {fast}", window.bytes());
        settle(&mut window, 110 * MIB, Duration::from_millis(10), now);
        assert!(window.bytes() >= fast / 2);
    }
}
