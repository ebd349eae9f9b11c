//! What to pull next. Pure: no I/O, no runtime, and it is told the time.
//!
//! Classes are strict: nothing of a lower class begins while a higher one has something to begin. Inside a class it
//! is first come, first served. What readers wait for has a budget of its own, so that it never waits behind
//! background work for more than the request that a shared link is just carrying.

use super::PullError;
use super::window::Window;
use crate::runs::{Run, RunMap};
use crate::units::{BLOCK_BYTES, BlockRange};
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// Who wants it, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A reader waits.
    Reader,
    /// File-system metadata.
    Metadata,
    /// Always kept on this device.
    Pinned,
    /// Ahead of a stream that was recognised.
    ReadAhead,
    /// What the last mounts read first.
    Trace,
    /// The rest of the drive.
    Rest,
}

const CLASSES: usize = 6;
/// Readers' jobs in flight: more would only queue in the network.
const READER_JOBS: usize = 64;
/// Background jobs in flight; how many bytes they may be is measured ([`Window`]).
const BACKGROUND_JOBS: usize = 32;
/// A reader's job: what one request of the kernel asks for at most.
const READER_JOB_BLOCKS: u64 = 256;
/// A background job: small enough that a reader that comes meanwhile waits for little.
const BACKGROUND_JOB_BLOCKS: u64 = 256;
/// Jobs of read-ahead that may wait: it is a hint, and what is hinted at long before its turn is stale.
const READ_AHEAD_JOBS_MAX: usize = 1024;
/// Ahead of a stream that runs: 4 MiB, and more where the link carries more in the time that an answer takes.
const AHEAD_BYTES_MIN: u64 = 4 << 20;
const AHEAD_BYTES_MAX: u64 = 32 << 20;
/// Errors kept for the readers that wait for them.
const ERRORS_MAX: usize = 256;

/// One pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// For whom.
    pub class: Class,
    /// The blocks.
    pub blocks: BlockRange,
}

/// All that is wanted and under way.
#[derive(Default)]
pub struct Queue {
    waiting: [VecDeque<BlockRange>; CLASSES],
    /// Under way, by block. The value is the class.
    flying: RunMap<Flying>,
    reader_jobs: usize,
    background_jobs: usize,
    background_blocks: u64,
    background_off: bool,
    background_failures: u64,
    window: Window,
    errors: VecDeque<(BlockRange, PullError)>,
}

#[derive(Clone, Copy)]
struct Flying;

impl Run for Flying {
    fn skip(&self, _blocks: u64) -> Self {
        Flying
    }
}

impl Queue {
    /// Nothing is wanted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches the background on or off. What is under way ends.
    pub fn set_background(&mut self, on: bool) {
        self.background_off = !on;
    }

    /// Wants blocks that are missing. What is under way already is not begun again, whoever began it.
    pub fn want(&mut self, class: Class, range: BlockRange) {
        let most = if class == Class::Reader { READER_JOB_BLOCKS } else { BACKGROUND_JOB_BLOCKS };
        let pieces: Vec<_> =
            self.flying.pieces(range).into_iter().filter(|(_, flying)| flying.is_none()).collect();
        for (run, _) in pieces {
            let mut at = run.start;
            while at < run.end {
                // Cut at multiples, so that two who want the same want the same pieces.
                let piece = BlockRange { start: at, end: ((at / most + 1) * most).min(run.end) };
                at = piece.end;
                let waiting = &mut self.waiting[class as usize];
                if class == Class::ReadAhead && waiting.len() >= READ_AHEAD_JOBS_MAX {
                    return;
                }
                if !waiting.iter().rev().take(64).any(|other| other.intersect(&piece) == piece) {
                    waiting.push_back(piece);
                }
            }
        }
    }

    /// Wants no more ahead of a stream that is over. What is under way ends.
    pub fn want_no_more(&mut self, range: BlockRange) {
        let waiting = &mut self.waiting[Class::ReadAhead as usize];
        waiting.retain(|blocks| blocks.intersect(&range) != *blocks);
    }

    /// Blocks ahead of a stream that are of use: what may be under way, and half of that to go on with. What is more than
    /// that is for nothing where the stream ends.
    pub fn blocks_ahead(&self) -> u64 {
        (self.window.bytes() * 3 / 2).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX) / BLOCK_BYTES
    }

    /// The next pull that may begin.
    pub fn begin_next(&mut self) -> Option<Job> {
        while let Some(blocks) = self.waiting[Class::Reader as usize].front().copied() {
            if self.reader_jobs >= READER_JOBS {
                return None;
            }
            self.waiting[Class::Reader as usize].pop_front();
            if let Some(job) = self.begin(Class::Reader, blocks) {
                self.reader_jobs += 1;
                return Some(job);
            }
        }
        if self.background_off {
            return None;
        }
        for class in [Class::Metadata, Class::Pinned, Class::ReadAhead, Class::Trace, Class::Rest] {
            while let Some(blocks) = self.waiting[class as usize].front().copied() {
                let bytes = (self.background_blocks + blocks.count()) * BLOCK_BYTES;
                if self.background_jobs >= BACKGROUND_JOBS || bytes > self.window.bytes() {
                    self.window.note_full();
                    return None;
                }
                self.waiting[class as usize].pop_front();
                if let Some(job) = self.begin(class, blocks) {
                    self.background_jobs += 1;
                    self.background_blocks += job.blocks.count();
                    return Some(job);
                }
            }
        }
        None
    }

    /// Begins what is not under way of `blocks`: the first such run; the rest waits in front.
    fn begin(&mut self, class: Class, blocks: BlockRange) -> Option<Job> {
        let mut idle = self.flying.pieces(blocks).into_iter().filter(|(_, flying)| flying.is_none());
        let (first, _) = idle.next()?;
        let rest: Vec<_> = idle.map(|(run, _)| run).collect();
        for run in rest.into_iter().rev() {
            self.waiting[class as usize].push_front(run);
        }
        self.flying.insert(first, Flying);
        Some(Job { class, blocks: first })
    }

    /// A pull has ended now, well or not, after it took so long.
    pub fn ended(&mut self, job: &Job, result: Result<(), PullError>, took: Duration, now: Instant) {
        self.flying.remove(job.blocks);
        if result.is_err() && job.class != Class::Reader {
            self.background_failures += 1;
        }
        if result.is_ok() {
            self.window.ended(job.blocks.byte_len(), took, now);
        }
        match job.class {
            Class::Reader => self.reader_jobs -= 1,
            Class::Metadata | Class::Pinned | Class::ReadAhead | Class::Trace | Class::Rest => {
                self.background_jobs -= 1;
                self.background_blocks -= job.blocks.count();
            }
        }
        if self.flying.is_empty() {
            self.window.note_idle();
        }
        self.errors.retain(|(blocks, _)| blocks.intersect(&job.blocks).is_empty());
        // What failed in the background nobody has waited for: a reader that comes has it tried again.
        if let (Err(error), Class::Reader) = (result, job.class) {
            self.errors.push_back((job.blocks, error));
            if self.errors.len() > ERRORS_MAX {
                self.errors.pop_front();
            }
        }
    }

    /// Why a pull of these blocks failed, told once: who asks again has it tried again.
    pub fn take_error(&mut self, range: BlockRange) -> Option<PullError> {
        let at = self.errors.iter().position(|(blocks, _)| !blocks.intersect(&range).is_empty())?;
        self.errors.remove(at).map(|(_, error)| error)
    }

    /// Pulls of the background that failed, ever.
    pub fn background_failures(&self) -> u64 {
        self.background_failures
    }

    /// Blocks waiting or under way.
    pub fn pending_blocks(&self) -> u64 {
        let waiting: u64 = self.waiting.iter().flatten().map(BlockRange::count).sum();
        waiting + self.flying.iter().map(|(run, _)| run.count()).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::BYTES_MAX;
    use super::*;
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    const ALL: [Class; CLASSES] =
        [Class::Reader, Class::Metadata, Class::Pinned, Class::ReadAhead, Class::Trace, Class::Rest];

    #[test]
    fn a_reader_begins_at_once_however_much_is_wanted_in_the_background() {
        let mut queue = Queue::new();
        queue.want(Class::Rest, BlockRange::new(0, 1 << 20));
        while queue.begin_next().is_some() {}
        queue.want(Class::Reader, BlockRange::new(1 << 21, 4));
        assert_eq!(
            queue.begin_next(),
            Some(Job { class: Class::Reader, blocks: BlockRange::new(1 << 21, 4) })
        );
    }

    #[test]
    fn concurrent_misses_are_one_pull() {
        let mut queue = Queue::new();
        queue.want(Class::Reader, BlockRange::new(8, 4));
        let job = queue.begin_next().unwrap();
        queue.want(Class::Reader, BlockRange::new(8, 4));
        queue.want(Class::Reader, BlockRange::new(10, 4));
        assert_eq!(queue.begin_next().map(|job| job.blocks), Some(BlockRange::new(12, 2)));
        assert_eq!(queue.begin_next(), None);
        queue.ended(&job, Ok(()), Duration::from_millis(9), Instant::now());
        assert_eq!(queue.begin_next(), None, "what ended was not wanted again");
    }

    #[test]
    fn random_demands_stay_within_bounds_begin_in_order_of_class_and_all_end() {
        for seed in 0..200 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut queue = Queue::new();
            let mut flying: Vec<Job> = Vec::new();
            let mut wanted = std::collections::BTreeSet::new();
            let mut pulled = std::collections::BTreeSet::new();
            let mut now = Instant::now();
            for step in 0.. {
                if step < 200 {
                    let class = *ALL.choose(&mut rng).unwrap();
                    let range = BlockRange::new(rng.random_range(0..5000), rng.random_range(1..600));
                    wanted.extend(range.iter());
                    queue.want(class, range);
                }
                while let Some(job) = queue.begin_next() {
                    let more_urgent = &queue.waiting[..job.class as usize];
                    let idle = |run: &BlockRange| queue.flying.pieces(*run).iter().any(|(_, f)| f.is_none());
                    assert!(!more_urgent.iter().flatten().any(idle), "seed {seed}: {job:?} overtakes");
                    assert!(
                        flying.iter().all(|other| other.blocks.intersect(&job.blocks).is_empty()),
                        "seed {seed}"
                    );
                    flying.push(job);
                }
                let background: Vec<_> = flying.iter().filter(|job| job.class != Class::Reader).collect();
                assert!(
                    background.len() <= BACKGROUND_JOBS && flying.len() - background.len() <= READER_JOBS
                );
                assert!(background.iter().map(|job| job.blocks.byte_len()).sum::<u64>() <= BYTES_MAX);
                if flying.is_empty() {
                    break;
                }
                now += Duration::from_millis(rng.random_range(0..300));
                let job = flying.swap_remove(rng.random_range(0..flying.len()));
                pulled.extend(job.blocks.iter());
                queue.ended(&job, Ok(()), Duration::from_millis(rng.random_range(0..900)), now);
            }
            assert_eq!(pulled, wanted, "seed {seed}: nothing starves");
            assert_eq!(queue.pending_blocks(), 0, "seed {seed}");
        }
    }
}
