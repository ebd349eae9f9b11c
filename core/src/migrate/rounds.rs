//! When the next round begins, and when programs are stopped. A round sends what was written during the one before; as long as that gets less, another
//! round shortens the stop. If it does not get less, the person is asked instead of stopping programs for longer than wanted. Pure.

use crate::units::BLOCK_BYTES;
use std::collections::VecDeque;
use std::time::Duration;

/// What a stop costs beside the last delta: freezing, and the trips until the leecher writes.
const FREEZE: Duration = Duration::from_millis(100);
/// Trips between the two devices from the last part to GRANT, and back.
const TRIPS: u32 = 4;
/// Rounds that bring the stop no closer before the person is asked.
const ROUNDS_WITHOUT_GAIN: u32 = 5;
/// A round shorter than this is not worth its acknowledgement: wait for more.
const ROUND_MIN: Duration = Duration::from_millis(500);
/// Seconds of writing that are remembered.
const MEMORY_S: usize = 120;
/// How long it pays to wait for a quiet moment.
const PATIENCE_S: usize = 30;
/// Rate that is assumed before anything was measured.
const RATE_AT_FIRST: f64 = 10e6;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send another round.
    Round,
    /// Stop programs and send the rest.
    Stop,
    /// Wait.
    Wait,
    /// Programs would stop for this long, longer than wanted, and more rounds do not help.
    Ask(Duration),
}

/// The facts and the measurements.
#[derive(Debug)]
pub struct Rounds {
    limit: Duration,
    rate: Option<f64>,
    trip: Duration,
    /// Bytes written in each of the last seconds.
    seconds: VecDeque<u64>,
    best: Option<Duration>,
    without_gain: u32,
    last_began: Option<Duration>,
    forced: bool,
}

impl Rounds {
    /// Programs should stop for no longer than `limit`.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            rate: None,
            trip: Duration::ZERO,
            seconds: VecDeque::new(),
            best: None,
            without_gain: 0,
            last_began: None,
            forced: false,
        }
    }

    /// The person accepts a longer stop.
    pub fn force(&mut self) {
        self.forced = true;
    }

    /// One second has passed in which programs wrote this many bytes.
    pub fn second(&mut self, bytes: u64) {
        self.seconds.push_back(bytes);
        if self.seconds.len() > MEMORY_S {
            self.seconds.pop_front();
        }
    }

    /// A round begins.
    pub fn began(&mut self, now: Duration) {
        self.last_began = Some(now);
    }

    /// A round of this many bytes was acknowledged after `took`.
    pub fn acknowledged(&mut self, bytes: u64, took: Duration) {
        let seconds = took.as_secs_f64().max(0.001);
        // The time of a small round is that of its trip, not of its bytes. No trip takes longer than a round.
        if bytes < 256 << 10 {
            self.trip = if self.trip.is_zero() { took } else { (self.trip * 3 + took) / 4 };
            return;
        }
        self.trip = self.trip.min(took);
        let rate = bytes as f64 / seconds;
        self.rate = Some(self.rate.map_or(rate, |old| old * 0.5 + rate * 0.5));
    }

    /// Bytes per second that arrive.
    pub fn rate(&self) -> u64 {
        self.rate.unwrap_or(RATE_AT_FIRST) as u64
    }

    /// Bytes per second that programs wrote in the last ten seconds.
    pub fn dirt(&self) -> u64 {
        let recent = self.seconds.iter().rev().take(10);
        recent.clone().sum::<u64>() / (recent.count().max(1) as u64)
    }

    /// How long programs would stop if this much is left.
    pub fn stop(&self, left_blocks: u64) -> Duration {
        let seconds = (left_blocks * BLOCK_BYTES) as f64 / self.rate.unwrap_or(RATE_AT_FIRST);
        FREEZE + self.trip * TRIPS + Duration::from_secs_f64(seconds.min(1e6))
    }

    /// Decides between rounds. `left_blocks` were written and not sent; `held_blocks` of them are hot, and a round leaves them out.
    pub fn next(&self, now: Duration, left_blocks: u64, held_blocks: u64) -> Next {
        let stop = self.stop(left_blocks);
        let is_early = self.last_began.is_some_and(|began| now < began + ROUND_MIN);
        if stop <= self.limit || self.forced {
            Next::Stop
        } else if left_blocks == held_blocks {
            // A round could send nothing.
            if self.is_quiet_soon() { Next::Wait } else { Next::Ask(stop) }
        } else if self.without_gain >= ROUNDS_WITHOUT_GAIN && !self.is_quiet_soon() {
            Next::Ask(stop)
        } else if is_early {
            Next::Wait
        } else {
            Next::Round
        }
    }

    /// A round has ended, with this much left.
    pub fn ended(&mut self, left_blocks: u64) {
        let stop = self.stop(left_blocks);
        // Less than a tenth is noise.
        match self.best {
            Some(best) if stop.as_secs_f64() > best.as_secs_f64() * 0.9 => self.without_gain += 1,
            _ => self.without_gain = 0,
        }
        self.best = Some(self.best.map_or(stop, |best| best.min(stop)));
    }

    /// Whether programs write in a rhythm that leaves a quiet moment soon.
    pub fn is_quiet_soon(&self) -> bool {
        let Some(period) = self.period() else { return false };
        // What was quiet one period ago will be quiet again.
        let len = self.seconds.len();
        let mean = self.seconds.iter().sum::<u64>() / len as u64;
        let ahead = (1..=period.min(PATIENCE_S)).filter_map(|wait| self.seconds.get(len + wait - 1 - period));
        ahead.into_iter().any(|bytes| *bytes < mean / 4)
    }

    /// Seconds after which the writing repeats itself, by autocorrelation; `None` if it does not.
    pub fn period(&self) -> Option<usize> {
        let len = self.seconds.len();
        let mean = self.seconds.iter().sum::<u64>() as f64 / len.max(1) as f64;
        let off: Vec<f64> = self.seconds.iter().map(|bytes| *bytes as f64 - mean).collect();
        let power: f64 = off.iter().map(|value| value * value).sum::<f64>() / len.max(1) as f64;
        if power <= (mean * 0.25).powi(2) {
            return None;
        }
        let fit = |lag: usize| {
            let sum: f64 = (lag..len).map(|at| off[at] * off[at - lag]).sum();
            sum / ((len - lag) as f64 * power)
        };
        // Two whole periods have to be known, and the shortest one that fits is taken.
        (2..=len / 2).find(|lag| {
            fit(*lag) > 0.6 && fit(*lag) >= fit(lag - 1) && (*lag == len / 2 || fit(*lag) >= fit(lag + 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(300);

    fn measured(bytes_per_s: u64) -> Rounds {
        let mut rounds = Rounds::new(LIMIT);
        rounds.acknowledged(bytes_per_s, Duration::from_secs(1));
        rounds
    }

    #[test]
    fn stops_when_the_rest_is_small_enough() {
        let rounds = measured(40 << 20);
        let at = Duration::from_secs(10);
        assert_eq!(rounds.next(at, 4 << 20 >> 12, 0), Next::Stop);
        assert_eq!(rounds.next(at, 64 << 20 >> 12, 0), Next::Round);
    }

    #[test]
    fn asks_once_rounds_do_not_help() {
        let mut rounds = measured(1 << 20);
        let mut asked = None;
        for round in 0..20 {
            let now = Duration::from_secs(round * 10);
            match rounds.next(now, 10 << 20 >> 12, 0) {
                Next::Round => rounds.began(now),
                Next::Ask(stop) => asked = Some((round, stop)),
                other => panic!("{other:?}"),
            }
            if asked.is_some() {
                break;
            }
            rounds.ended(10 << 20 >> 12);
        }
        let (round, stop) = asked.expect("it asks");
        assert!((5..=7).contains(&round), "{round}");
        assert!(stop > Duration::from_secs(9), "{stop:?}");
        rounds.force();
        assert_eq!(rounds.next(Duration::from_secs(300), 10 << 20 >> 12, 0), Next::Stop);
    }

    #[test]
    fn finds_the_rhythm_of_a_writer() {
        let mut rounds = measured(1 << 20);
        for second in 0..120 {
            rounds.second(if second % 20 < 10 { 5 << 20 } else { 0 });
        }
        assert_eq!(rounds.period(), Some(20));
        assert!(rounds.is_quiet_soon());
    }

    #[test]
    fn steady_writers_have_no_rhythm() {
        let mut rounds = measured(1 << 20);
        for second in 0..120u64 {
            rounds.second((5 << 20) + second % 7 * 1000);
        }
        assert_eq!(rounds.period(), None);
        assert!(!rounds.is_quiet_soon());
    }

    #[test]
    fn a_round_of_nothing_but_hot_blocks_is_not_sent() {
        let rounds = measured(1 << 20);
        assert!(matches!(rounds.next(Duration::from_secs(9), 5000, 5000), Next::Ask(_)));
    }
}
