//! Rates and remaining times, from samples of a counter that only grows.
//!
//! A rate is the mean over the last ten seconds. A remaining time is shown only where it can be trusted: after enough samples, while the
//! rate of the last seconds varies little, and if it takes less than a day. It is rounded coarsely, so that it does not jump with each
//! sample and a person can use it.

use std::collections::VecDeque;
use std::time::Duration;

/// How far back samples count.
const WINDOW: Duration = Duration::from_secs(10);
/// No remaining time is known before this.
const STEADY_AFTER: Duration = Duration::from_secs(4);
/// The number of parts of the window that are compared to see how steady the rate is.
const PARTS: u32 = 4;
/// How much a part's rate may differ from the mean, as a share of it.
const SPREAD_MAX: f64 = 0.6;
/// Nobody waits for anything that takes longer.
const TOLD_AT_MOST: Duration = Duration::from_secs(24 * 3600);
/// Samples that come faster than this add nothing.
const APART: Duration = Duration::from_millis(200);

/// Samples of one counter.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// The time since any fixed beginning, and the total until then. Oldest first.
    samples: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// Adds that the total was `total` at `at`. A counter that became smaller has started again.
    pub fn sample(&mut self, at: Duration, total: u64) {
        if let Some(&(last_at, last)) = self.samples.back() {
            if total < last {
                self.samples.clear();
            } else if at < last_at + APART {
                return;
            }
        }
        self.samples.push_back((at, total));
        // Keep one older sample, so that the whole window is covered.
        while self.samples.len() > 2 && self.samples[1].0 + WINDOW <= at {
            self.samples.pop_front();
        }
    }

    /// The rate per second, over the window.
    pub fn rate(&self) -> u64 {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else { return 0 };
        per_second(*first, *last).map_or(0, |rate| rate as u64)
    }

    /// How long the rest of `left` takes, if that can be trusted.
    pub fn time_left(&self, left: u64) -> Option<Duration> {
        let (first, last) = (*self.samples.front()?, *self.samples.back()?);
        let span = last.0 - first.0;
        if left == 0 || span < STEADY_AFTER {
            return None;
        }
        let mean = per_second(first, last).filter(|mean| *mean > 0.0)?;
        let mut from = first;
        for part in 1..=PARTS {
            let until = first.0 + span * part / PARTS;
            let to = *self.samples.iter().rfind(|(at, _)| *at <= until)?;
            let rate = per_second(from, to)?;
            if (rate - mean).abs() > mean * SPREAD_MAX {
                return None;
            }
            from = to;
        }
        let seconds = left as f64 / mean;
        (seconds <= TOLD_AT_MOST.as_secs_f64()).then(|| coarse(seconds))
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        self.samples.clear();
    }
}

fn per_second(from: (Duration, u64), to: (Duration, u64)) -> Option<f64> {
    let seconds = to.0.checked_sub(from.0)?.as_secs_f64();
    (seconds > 0.0).then(|| (to.1 - from.1) as f64 / seconds)
}

/// Rounds up, to 5 s below a minute and to a minute above.
fn coarse(seconds: f64) -> Duration {
    let step = if seconds <= 55.0 { 5.0 } else { 60.0 };
    Duration::from_secs_f64((seconds / step).ceil().max(1.0) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    /// A meter that has seen `seconds` seconds, each at the rate that `rate` gives for it.
    fn metered(seconds: u64, rate: impl Fn(u64) -> u64) -> Meter {
        let (mut meter, mut at, mut total) = (Meter::default(), Duration::ZERO, 0);
        meter.sample(at, total);
        for second in 0..seconds {
            for _ in 0..4 {
                at += TICK;
                total += rate(second) / 4;
                meter.sample(at, total);
            }
        }
        meter
    }

    #[test]
    fn a_steady_rate_gives_the_time_left() {
        let meter = metered(6, |_| 1000);
        assert_eq!(meter.rate(), 1000);
        assert_eq!(meter.time_left(42_000), Some(Duration::from_secs(45)));
        assert_eq!(meter.time_left(200_000), Some(Duration::from_secs(240)));
        assert_eq!(meter.time_left(0), None);
    }

    #[test]
    fn too_few_samples_give_no_time_left() {
        assert_eq!(Meter::default().rate(), 0);
        assert_eq!(Meter::default().time_left(1), None);
        assert_eq!(metered(3, |_| 1000).time_left(9_000), None);
        assert!(metered(5, |_| 1000).time_left(9_000).is_some());
    }

    #[test]
    fn time_left_hides_while_the_rate_varies() {
        let bursts = |second: u64| if second % 5 < 2 { 10_000 } else { 0 };
        assert_eq!(metered(10, bursts).time_left(100_000), None);
        // The bursts are out of the window.
        let calm = |second: u64| if second < 10 { bursts(second) } else { 1000 };
        assert!(metered(21, calm).time_left(100_000).is_some());
        // The counter has stopped.
        let halted = |second: u64| if second < 8 { 1000 } else { 0 };
        assert_eq!(metered(12, halted).time_left(100_000), None);
    }

    #[test]
    fn time_left_of_days_is_not_shown() {
        let meter = metered(10, |_| 1000);
        assert_eq!(meter.time_left(1000 * 24 * 3600 + 1), None);
    }

    #[test]
    fn a_counter_that_restarts_is_a_new_one() {
        let mut meter = metered(10, |_| 1000);
        meter.sample(Duration::from_secs(11), 0);
        assert_eq!((meter.rate(), meter.time_left(1000)), (0, None));
        meter.sample(Duration::from_secs(12), 500);
        assert_eq!(meter.rate(), 500);
    }

    #[test]
    fn the_window_is_bounded() {
        assert!(metered(600, |_| 8).samples.len() <= 42);
        assert_eq!(metered(600, |second| second * 4).rate(), 2378, "the mean of the last ten seconds");
    }
}
