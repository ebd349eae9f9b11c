//! How many uploads to have under way: enough to fill the link, but so few that each ends soon. Pure: it learns how long
//! each took.
//!
//! Four segments under way are 32 MiB, which is 1 Gbit/s times 250 ms. On a slow link that many would only share it: each
//! would take that many times as long, a broken connection would lose that much more, and nothing would be committed any
//! sooner. A store that asks for patience gets half as many from then on, and then one more at a time while all goes well.

use std::time::Duration;

/// 8 MiB each in memory, and as much again is sealed meanwhile.
const MOST: usize = 4;
/// The longest that a put should take, whatever is put beside it.
const PUT_TIME: Duration = Duration::from_secs(8);
/// Puts that must succeed before one more is tried beside them: at 8 MiB each they take a while.
const PUTS_UNTIL_MORE: u32 = 8;
/// A smaller body says more about round trips than about the link.
const BYTES_MIN: u64 = 1 << 20;
/// Times are measured for this many bytes: a whole segment.
const SEGMENT_BYTES: f64 = (8 << 20) as f64;

/// The measure.
#[derive(Debug)]
pub(super) struct Lanes {
    /// How long a segment would take alone. The newest value counts half.
    alone: Option<Duration>,
    /// As many as the store accepts without asking for patience, as far as known.
    most: usize,
    /// Successful puts since that last changed.
    went_well: u32,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { alone: None, most: MOST, went_well: 0 }
    }
}

impl Lanes {
    /// How many puts may be under way.
    pub fn at_once(&self) -> usize {
        match self.alone {
            None => self.most,
            Some(alone) => ((PUT_TIME.as_secs_f64() / alone.as_secs_f64()) as usize).clamp(1, self.most),
        }
    }

    /// The store has asked for patience while `lanes` puts may have been under way: half as many may be from now on,
    /// however many of them were refused. Returns how many may be.
    pub fn refused(&mut self, lanes: usize) -> usize {
        self.most = self.most.min((lanes / 2).max(1));
        self.went_well = 0;
        self.at_once()
    }

    /// A put of `bytes` has ended after `took`, with at most `lanes` under way.
    pub fn ended(&mut self, bytes: u64, took: Duration, lanes: usize) {
        self.went_well += 1;
        if self.most < MOST && self.went_well >= PUTS_UNTIL_MORE {
            (self.most, self.went_well) = (self.most + 1, 0);
        }
        if bytes < BYTES_MIN {
            return;
        }
        let alone = took.div_f64(lanes.max(1) as f64).mul_f64(SEGMENT_BYTES / bytes as f64);
        let alone = alone.max(Duration::from_millis(1));
        self.alone = Some(self.alone.map_or(alone, |before| (before + alone) / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts segments over a link of `rate` bytes per second that all puts share.
    fn settle(lanes: &mut Lanes, rate: f64) -> usize {
        for _ in 0..16 {
            let at_once = lanes.at_once();
            lanes.ended(8 << 20, Duration::from_secs_f64(SEGMENT_BYTES * at_once as f64 / rate), at_once);
        }
        lanes.at_once()
    }

    #[test]
    fn slow_links_get_one_upload_and_fast_links_four() {
        const MBIT: f64 = 1e6 / 8.0;
        let mut lanes = Lanes::default();
        assert_eq!(lanes.at_once(), MOST, "nothing is known");
        assert_eq!(settle(&mut lanes, 2.0 * MBIT), 1);
        assert_eq!(settle(&mut lanes, 20.0 * MBIT), 2);
        assert_eq!(settle(&mut lanes, 100.0 * MBIT), MOST);
        assert_eq!(settle(&mut lanes, 5.0 * MBIT), 1, "another network");
    }

    #[test]
    fn uploads_halve_for_a_busy_store_and_grow_back_slowly() {
        let mut lanes = Lanes::default();
        // The store refuses all four of them.
        assert_eq!([(); 4].map(|()| lanes.refused(4)), [2; 4]);
        assert_eq!([(); 2].map(|()| lanes.refused(2)), [1; 2]);
        assert_eq!(lanes.refused(1), 1, "one goes on");
        let mut seen = Vec::new();
        for _ in 0..4 * PUTS_UNTIL_MORE {
            lanes.ended(8 << 20, Duration::from_secs(1), lanes.at_once());
            seen.push(lanes.at_once());
        }
        assert!(seen.is_sorted() && seen[0] == 1 && seen.ends_with(&[MOST]), "{seen:?}");
        assert_eq!(seen.iter().filter(|at_once| **at_once == 2).count(), PUTS_UNTIL_MORE as usize);
    }

    #[test]
    fn slow_small_puts_do_not_count_as_a_slow_link() {
        let mut lanes = Lanes::default();
        for _ in 0..16 {
            lanes.ended(4096, Duration::from_secs(30), lanes.at_once());
            lanes.ended(8 << 20, Duration::from_secs(1), lanes.at_once());
        }
        assert_eq!(lanes.at_once(), MOST);
    }
}
