//! Decides what to evict from a full cache: S3-FIFO (Yang et al., SOSP 2023). Pure; readers raise the counters ([`Heat`])
//! as they pass.
//!
//! A new chunk goes into a *small* queue, which holds a tenth of all. If it was read again by the time it reaches the end,
//! it moves to the *main* queue. Otherwise it is evicted and remembered for a while: if it comes back, it goes straight to
//! the main queue. In the main queue, a chunk that was read goes round once more. So a scan of the whole drive passes
//! through the small queue and pushes out nothing that is in use. Unlike with LRU, a hit moves nothing and takes no lock.

use crate::units::ChunkIndex;
use std::collections::{HashSet, VecDeque};

mod heat;

pub use heat::Heat;
use heat::READS_MAX;

/// One in this many chunks is in the small queue.
const SMALL_SHARE: usize = 10;
/// With this many reads since it came, a chunk moves from the small queue to the main one.
const READS_OF_MAIN: u8 = 2;

/// Whether a chunk may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Yes.
    Goes,
    /// Not now: it is dirty, or is being read or pulled.
    Later,
    /// Never, until [`Evictor::came`] announces it again: it is metadata, or is always kept on this device.
    Never,
}

/// The order in which chunks are evicted.
#[derive(Debug, Default)]
pub struct Evictor {
    small: VecDeque<ChunkIndex>,
    main: VecDeque<ChunkIndex>,
    /// The chunks of both queues.
    queued: HashSet<ChunkIndex>,
    /// Chunks that were evicted, the latest at the end: at most as many as the longer queue has.
    gone: VecDeque<ChunkIndex>,
    remembered: HashSet<ChunkIndex>,
}

impl Evictor {
    /// Number of chunks that can be evicted, now or later.
    pub fn len(&self) -> usize {
        self.queued.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// A chunk has blocks in the cache, perhaps since before.
    pub fn came(&mut self, chunk: ChunkIndex, heat: &Heat) {
        if !self.queued.insert(chunk) {
            return;
        }
        heat.forget(chunk);
        match self.remembered.remove(&chunk) {
            true => self.main.push_back(chunk),
            false => self.small.push_back(chunk),
        }
    }

    /// The next chunk to evict, if any may be. It counts as evicted.
    pub fn next(&mut self, heat: &Heat, mut fate: impl FnMut(ChunkIndex) -> Fate) -> Option<ChunkIndex> {
        // Enough for every chunk to use up its reads and reach the end again.
        let mut looks = (usize::from(READS_MAX) + 2) * (self.small.len() + self.main.len());
        let mut passed_over = 0;
        while looks > 0 {
            looks -= 1;
            let has_share = self.small.len() * SMALL_SHARE >= self.queued.len();
            let is_small = !self.small.is_empty() && (has_share || passed_over >= self.main.len());
            let chunk = if is_small { self.small.pop_front() } else { self.main.pop_front() }?;
            let reads = heat.reads(chunk);
            if is_small && reads >= READS_OF_MAIN {
                heat.forget(chunk);
                self.main.push_back(chunk);
                continue;
            }
            if !is_small && reads > 0 {
                heat.lower(chunk);
                self.main.push_back(chunk);
                continue;
            }
            match fate(chunk) {
                Fate::Goes => {
                    self.queued.remove(&chunk);
                    self.remember(chunk);
                    return Some(chunk);
                }
                Fate::Later => {
                    passed_over += 1;
                    self.main.push_back(chunk);
                }
                Fate::Never => {
                    self.queued.remove(&chunk);
                }
            }
        }
        None
    }

    fn remember(&mut self, chunk: ChunkIndex) {
        if self.remembered.insert(chunk) {
            self.gone.push_back(chunk);
        }
        while self.gone.len() > self.main.len().max(self.small.len()) {
            if let Some(old) = self.gone.pop_front() {
                self.remembered.remove(&old);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeSet;

    const DRIVE: u64 = 1 << 20;

    /// A cache of `capacity` chunks, and a clock that advances with the reads.
    struct Model {
        evictor: Evictor,
        heat: Heat,
        here: BTreeSet<u64>,
        capacity: usize,
        reads: u64,
    }

    impl Model {
        fn new(capacity: usize) -> Self {
            let here = BTreeSet::new();
            Self { evictor: Evictor::default(), heat: Heat::new(DRIVE), here, capacity, reads: 0 }
        }

        fn read(&mut self, chunk: u64) -> bool {
            const READS_IN_A_SECOND: u64 = 100;
            self.reads += 1;
            let hit = self.here.contains(&chunk);
            if !hit {
                while self.here.len() >= self.capacity {
                    let goes = self.evictor.next(&self.heat, |_| Fate::Goes).unwrap();
                    assert!(self.here.remove(&goes.0));
                }
                self.here.insert(chunk);
                self.evictor.came(ChunkIndex(chunk), &self.heat);
            }
            self.heat.is_read(ChunkIndex(chunk), self.reads / READS_IN_A_SECOND);
            hit
        }
    }

    #[test]
    fn a_scan_of_the_drive_evicts_nothing_in_use() {
        let mut model = Model::new(1000);
        let mut rng = StdRng::seed_from_u64(5);
        let mut rate = |model: &mut Model, scan: Option<u64>| {
            let mut hits = 0;
            for turn in 0..20_000 {
                hits += u32::from(model.read(rng.random_range(0..600)));
                // Three of four reads belong to the scan.
                if let Some(start) = scan {
                    (0..3).for_each(|at| _ = model.read(start + turn * 3 + at));
                }
            }
            f64::from(hits) / 20_000.0
        };
        rate(&mut model, None);
        let quiet = rate(&mut model, None);
        let scanned = rate(&mut model, Some(10_000));
        assert!(quiet > 0.99 && scanned >= 0.9 * quiet, "{quiet} {scanned}");
    }

    #[test]
    fn a_chunk_that_comes_back_stays() {
        let mut model = Model::new(100);
        (0..200).for_each(|chunk| _ = model.read(chunk));
        assert!(!model.here.contains(&95));
        assert!(!model.read(95), "it went");
        (1000..1080).for_each(|chunk| _ = model.read(chunk));
        assert!(model.read(95), "and went round the main queue then");
    }

    #[test]
    fn skips_chunks_that_must_stay_and_ends_with_none() {
        let mut model = Model::new(100);
        (0..100).for_each(|chunk| _ = model.read(chunk));
        let is_even = |chunk: ChunkIndex| chunk.0.is_multiple_of(2);
        let mut gone = Vec::new();
        while let Some(chunk) =
            model.evictor.next(&model.heat, |chunk| if is_even(chunk) { Fate::Later } else { Fate::Goes })
        {
            gone.push(chunk.0);
        }
        gone.sort_unstable();
        assert!(gone.iter().copied().eq((1..100).step_by(2)), "{gone:?}");
        let never = |chunk: ChunkIndex| if chunk.0 < 50 { Fate::Never } else { Fate::Goes };
        let rest: Vec<_> = std::iter::from_fn(|| model.evictor.next(&model.heat, never)).collect();
        assert_eq!(rest.len(), 25);
        assert!(model.evictor.is_empty());
        // The chunk may be evicted again.
        model.evictor.came(ChunkIndex(8), &model.heat);
        assert_eq!(model.evictor.next(&model.heat, |_| Fate::Goes), Some(ChunkIndex(8)));
    }

    #[test]
    fn memory_is_bounded_by_the_chunks_in_the_cache() {
        let mut model = Model::new(500);
        (0..100_000).for_each(|chunk| _ = model.read(chunk));
        let evictor = &model.evictor;
        assert!(evictor.len() <= 500 && evictor.gone.len() <= 500 && evictor.remembered.len() <= 500);
    }
}
