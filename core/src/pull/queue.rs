//! Decides what to pull next. Pure: no I/O, no runtime, and the time is an argument.
//!
//! Nothing overtakes the blocks that readers wait for. They have a budget of their own, so they never wait behind
//! background work for longer than the one request that a shared link is just carrying. In the background the most urgent
//! class goes first. But after [`PASSED_MOST`] pulls that went before a waiting class, that class gets one: pinning a whole
//! drive takes days, and nobody should watch a film without read-ahead for that long. Inside a class, first come, first
//! served.

use super::PullError;
use super::window::Window;
use crate::runs::{Run, RunMap};
use crate::units::{BLOCK_BYTES, BlockRange};
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// Why blocks are wanted, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A reader waits.
    Reader,
    /// File-system metadata.
    Metadata,
    /// Always kept on this device.
    Pinned,
    /// Ahead of a recognised stream.
    ReadAhead,
    /// Blocks that the last mounts read first.
    Trace,
}

const CLASSES: usize = 5;
const BACKGROUND: [Class; CLASSES - 1] = [Class::Metadata, Class::Pinned, Class::ReadAhead, Class::Trace];
/// Background pulls that may begin before one of a less urgent class.
const PASSED_MOST: u32 = 8;
/// Readers' jobs in flight: more would only queue in the network.
const READER_JOBS: usize = 64;
/// Background jobs in flight; the limit of their bytes is measured ([`Window`]).
const BACKGROUND_JOBS: usize = 32;
/// A reader's job: as much as one request of the kernel asks for.
const READER_JOB_BLOCKS: u64 = 256;
/// A background job: so small that a reader that comes meanwhile waits only briefly.
const BACKGROUND_JOB_BLOCKS: u64 = 256;
/// Read-ahead jobs that may wait: they are hints, and a hint that waits long is stale.
const READ_AHEAD_JOBS_MAX: usize = 1024;
/// Read-ahead of a running stream: 4 MiB, or more if the link carries more in the time that an answer takes.
const AHEAD_BYTES_MIN: u64 = 4 << 20;
const AHEAD_BYTES_MAX: u64 = 32 << 20;
/// Errors kept for waiting callers.
const ERRORS_MAX: usize = 256;

/// One pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// For whom.
    pub class: Class,
    /// The blocks.
    pub blocks: BlockRange,
}

/// How a pull has ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// All blocks have come from the store, after this time.
    Pulled(Duration),
    /// The store was not asked: all blocks were here by then.
    Needless,
    /// The store does not answer, and nobody waits for the blocks.
    Left,
    /// The pull failed.
    Failed(PullError),
}

/// Everything that is wanted or under way.
#[derive(Default)]
pub struct Queue {
    waiting: [Waiting; CLASSES],
    /// Under way, by block.
    flying: RunMap<()>,
    /// The ranges that readers wait for, one for each reader.
    readers: Vec<BlockRange>,
    /// For each class: how many background pulls have begun while it waited, since one of its own began.
    passed: [u32; CLASSES],
    reader_jobs: usize,
    background_jobs: usize,
    background_blocks: u64,
    background_off: bool,
    window: Window,
    errors: VecDeque<(Class, BlockRange, PullError)>,
}

impl Run for () {
    fn skip(&self, _blocks: u64) {}
}

/// The waiting blocks of one class, no block twice.
#[derive(Default)]
struct Waiting {
    order: VecDeque<BlockRange>,
    listed: RunMap<()>,
}

impl Waiting {
    /// Adds blocks that do not wait yet, after all others.
    fn push(&mut self, range: BlockRange) {
        for (run, _) in self.listed.pieces(range).into_iter().filter(|(_, listed)| listed.is_none()) {
            self.listed.insert(run, ());
            self.order.push_back(run);
        }
    }

    fn push_front(&mut self, range: BlockRange) {
        self.listed.insert(range, ());
        self.order.push_front(range);
    }

    fn pop(&mut self) -> Option<BlockRange> {
        let range = self.order.pop_front()?;
        self.listed.remove(range);
        Some(range)
    }

    /// No block of `range` waits any longer; blocks around it do.
    fn leave_out(&mut self, range: &BlockRange) {
        if self.order.iter().any(|waits| waits.overlaps(range)) {
            self.order = self.order.iter().flat_map(|waits| waits.without(range)).collect();
            self.listed.remove(*range);
        }
    }

    fn retain(&mut self, mut stays: impl FnMut(&BlockRange) -> bool) {
        let Self { order, listed } = self;
        order.retain(|range| {
            let stays = stays(range);
            if !stays {
                listed.remove(*range);
            }
            stays
        });
    }
}

impl Queue {
    /// Nothing is wanted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches the background on or off. Pulls that are under way run to their end.
    pub fn set_background(&mut self, on: bool) {
        self.background_off = !on;
    }

    /// Wants missing blocks. Blocks that are under way, or wait already, are not begun twice.
    pub fn want(&mut self, class: Class, range: BlockRange) {
        let most = if class == Class::Reader { READER_JOB_BLOCKS } else { BACKGROUND_JOB_BLOCKS };
        let pieces: Vec<_> =
            self.flying.pieces(range).into_iter().filter(|(_, flying)| flying.is_none()).collect();
        let waiting = &mut self.waiting[class as usize];
        for (run, _) in pieces {
            let mut at = run.start;
            while at < run.end {
                // Cut at multiples, so that two callers that want the same blocks want the same pieces.
                let piece = BlockRange { start: at, end: ((at / most + 1) * most).min(run.end) };
                at = piece.end;
                if class == Class::ReadAhead && waiting.order.len() >= READ_AHEAD_JOBS_MAX {
                    return;
                }
                waiting.push(piece);
            }
        }
    }

    /// No longer wants read-ahead of a stream that is over. Returns whether any of it waited. Pulls that are under way run
    /// to their end.
    pub fn want_no_more(&mut self, range: BlockRange) -> bool {
        let waiting = &mut self.waiting[Class::ReadAhead as usize];
        let before = waiting.order.len();
        waiting.retain(|blocks| blocks.intersect(&range) != *blocks);
        waiting.order.len() < before
    }

    /// No longer wants trace blocks in a range. Pulls that are under way run to their end.
    pub fn leave_out(&mut self, range: BlockRange) {
        self.waiting[Class::Trace as usize].leave_out(&range);
    }

    /// A reader waits for these blocks from now on.
    pub fn wait_for(&mut self, range: BlockRange) {
        self.readers.push(range);
    }

    /// A reader that waited for these blocks has left, with them or without. Blocks that no other reader waits for are not
    /// begun.
    pub fn wait_no_more(&mut self, range: BlockRange) {
        let Some(at) = self.readers.iter().position(|awaited| *awaited == range) else { return };
        self.readers.swap_remove(at);
        let Self { waiting, readers, .. } = self;
        let is_awaited = |blocks: &BlockRange| readers.iter().any(|other| other.overlaps(blocks));
        waiting[Class::Reader as usize].retain(|blocks| !blocks.overlaps(&range) || is_awaited(blocks));
    }

    /// Whether a reader waits for any of the blocks.
    pub fn is_awaited(&self, blocks: BlockRange) -> bool {
        self.readers.iter().any(|awaited| awaited.overlaps(&blocks))
    }

    /// How many blocks ahead of a stream are useful: those that may be under way, and half as many again to continue with.
    /// Any more would be wasted if the stream ends.
    pub fn blocks_ahead(&self) -> u64 {
        (self.window.bytes() * 3 / 2).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX) / BLOCK_BYTES
    }

    /// The next pull that may begin.
    pub fn begin_next(&mut self) -> Option<Job> {
        while self.reader_jobs < READER_JOBS
            && let Some(blocks) = self.waiting[Class::Reader as usize].pop()
        {
            if let Some(job) = self.begin(Class::Reader, blocks) {
                self.reader_jobs += 1;
                return Some(job);
            }
        }
        // While there are more readers than may be served at once, the background has one pull at a time.
        let readers_wait = !self.waiting[Class::Reader as usize].order.is_empty();
        if self.background_off || readers_wait && self.background_jobs > 0 {
            return None;
        }
        while let Some((class, blocks)) = self.next_in_background() {
            let bytes = (self.background_blocks + blocks.count()) * BLOCK_BYTES;
            if self.background_jobs >= BACKGROUND_JOBS || bytes > self.window.bytes() {
                self.window.note_full();
                return None;
            }
            self.waiting[class as usize].pop();
            if let Some(job) = self.begin(class, blocks) {
                self.background_jobs += 1;
                self.background_blocks += job.blocks.count();
                self.has_begun(class);
                return Some(job);
            }
        }
        None
    }

    /// The next background run. While a reader waits for its blocks, blocks that nobody is about to read come one pull at a
    /// time, because they would take their share of the link.
    fn next_in_background(&self) -> Option<(Class, BlockRange)> {
        let waiting = |class: &Class| Some((*class, *self.waiting[*class as usize].order.front()?));
        let is_due = |class: &&Class| self.passed[**class as usize] >= PASSED_MOST;
        let may = |class: &&Class| match class {
            Class::Reader | Class::Metadata | Class::ReadAhead => true,
            Class::Pinned | Class::Trace => self.reader_jobs == 0 || self.background_jobs == 0,
        };
        let due = BACKGROUND.iter().filter(is_due).find_map(waiting);
        due.or_else(|| BACKGROUND.iter().filter(may).find_map(waiting))
    }

    /// A background pull of this class has begun.
    fn has_begun(&mut self, class: Class) {
        for other in BACKGROUND {
            let waits = !self.waiting[other as usize].order.is_empty();
            let passed = &mut self.passed[other as usize];
            if other == class || !waits {
                *passed = 0;
            } else {
                *passed += 1;
            }
        }
    }

    /// Begins the first run of `blocks` that is not under way; the rest waits in front.
    fn begin(&mut self, class: Class, blocks: BlockRange) -> Option<Job> {
        let mut idle = self.flying.pieces(blocks).into_iter().filter(|(_, flying)| flying.is_none());
        let (first, _) = idle.next()?;
        let rest: Vec<_> = idle.map(|(run, _)| run).collect();
        for run in rest.into_iter().rev() {
            self.waiting[class as usize].push_front(run);
        }
        self.flying.insert(first, ());
        Some(Job { class, blocks: first })
    }

    /// A pull has ended now.
    pub fn ended(&mut self, job: &Job, ending: Ending, now: Instant) {
        self.flying.remove(job.blocks);
        match job.class {
            Class::Reader => self.reader_jobs -= 1,
            Class::Metadata | Class::Pinned | Class::ReadAhead | Class::Trace => {
                self.background_jobs -= 1;
                self.background_blocks -= job.blocks.count();
            }
        }
        self.errors.retain(|(_, blocks, _)| !blocks.overlaps(&job.blocks));
        let error = match ending {
            Ending::Pulled(took) => {
                self.window.ended(job.blocks.byte_len(), took, now);
                None
            }
            Ending::Needless => None,
            // If a reader comes, it is tried again.
            Ending::Left => (job.class != Class::Reader).then_some(PullError::Away),
            Ending::Failed(error) => Some(error),
        };
        if let Some(error) = error {
            self.errors.push_back((job.class, job.blocks, error));
            if self.errors.len() > ERRORS_MAX {
                self.errors.pop_front();
            }
        }
        if self.flying.is_empty() {
            self.window.note_idle();
        }
    }

    /// A failed pull of that class and of some of these blocks, with the reason. Each failure is returned once: a caller
    /// that wants the blocks again has the pull tried again.
    pub fn take_error(&mut self, class: Class, range: BlockRange) -> Option<(BlockRange, PullError)> {
        let is_meant =
            |(of, blocks, _): &(Class, BlockRange, PullError)| *of == class && blocks.overlaps(&range);
        let at = self.errors.iter().position(is_meant)?;
        self.errors.remove(at).map(|(_, blocks, error)| (blocks, error))
    }

    /// Forgets failures of a class that were never taken.
    pub fn forget_errors(&mut self, class: Class) {
        self.errors.retain(|(of, ..)| *of != class);
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.flying.is_empty()
    }

    /// Waiting blocks of one class.
    pub fn pending_blocks_of(&self, class: Class) -> u64 {
        self.waiting[class as usize].order.iter().map(BlockRange::count).sum()
    }

    /// Blocks that are wanted or under way.
    pub fn pending_blocks(&self) -> u64 {
        let waiting: u64 =
            self.waiting.iter().flat_map(|waiting| &waiting.order).map(BlockRange::count).sum();
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
        [Class::Reader, Class::Metadata, Class::Pinned, Class::ReadAhead, Class::Trace];

    fn pulled(ms: u64) -> Ending {
        Ending::Pulled(Duration::from_millis(ms))
    }

    #[test]
    fn a_reader_begins_at_once_despite_background_work() {
        let mut queue = Queue::new();
        queue.want(Class::Trace, BlockRange::new(0, 1 << 20));
        while queue.begin_next().is_some() {}
        queue.want(Class::Reader, BlockRange::new(1 << 21, 4));
        assert_eq!(
            queue.begin_next(),
            Some(Job { class: Class::Reader, blocks: BlockRange::new(1 << 21, 4) })
        );
    }

    #[test]
    fn leaving_a_range_out_keeps_its_neighbours() {
        let mut queue = Queue::new();
        queue.want(Class::Trace, BlockRange::new(0, 64));
        queue.want(Class::Pinned, BlockRange::new(1 << 20, 32));
        assert_eq!(queue.pending_blocks_of(Class::Trace), 64);
        queue.leave_out(BlockRange::new(16, 16));
        assert_eq!(queue.pending_blocks_of(Class::Trace), 48);
        queue.leave_out(BlockRange::new(1 << 20, 32));
        let begun: Vec<_> = std::iter::from_fn(|| queue.begin_next()).collect();
        let of = |class| begun.iter().filter(move |job| job.class == class).map(|job| job.blocks);
        assert_eq!(of(Class::Trace).collect::<Vec<_>>(), [BlockRange::new(0, 16), BlockRange::new(32, 32)]);
        assert_eq!(of(Class::Pinned).count(), 1, "what else is wanted stays");
        // It can be wanted again.
        queue.want(Class::Trace, BlockRange::new(16, 16));
        assert_eq!(queue.begin_next().map(|job| job.blocks), Some(BlockRange::new(16, 16)));
    }

    #[test]
    fn pinned_pulls_go_one_by_one_while_a_reader_waits() {
        let mut queue = Queue::new();
        let begun = |queue: &mut Queue| std::iter::from_fn(|| queue.begin_next()).collect::<Vec<_>>();
        queue.want(Class::Reader, BlockRange::new(0, 4));
        let reader = begun(&mut queue).pop().unwrap();
        queue.want(Class::Pinned, BlockRange::new(1 << 20, 1 << 14));
        let first = begun(&mut queue);
        assert_eq!(first.len(), 1, "it does not starve");
        // Read-ahead of the reader continues.
        queue.want(Class::ReadAhead, BlockRange::new(4, 64));
        let ahead = begun(&mut queue);
        assert!(ahead.iter().all(|job| job.class == Class::ReadAhead) && !ahead.is_empty(), "{ahead:?}");
        for job in [first, ahead].concat() {
            queue.ended(&job, pulled(50), Instant::now());
        }
        assert_eq!(begun(&mut queue).len(), 1);
        queue.ended(&reader, pulled(50), Instant::now());
        assert!(begun(&mut queue).len() > 1, "all that fits, once nobody waits");
    }

    #[test]
    fn many_readers_do_not_starve_the_background() {
        let mut queue = Queue::new();
        queue.want(Class::Pinned, BlockRange::new(1 << 20, 16 * BACKGROUND_JOB_BLOCKS));
        let (mut next, mut pinned) = (0, 0);
        let mut flying = Vec::new();
        for _ in 0..64 {
            while next < 4096 && queue.waiting[Class::Reader as usize].order.len() < 2 * READER_JOBS {
                queue.want(Class::Reader, BlockRange::new(next * 8, 4));
                next += 1;
            }
            flying.extend(std::iter::from_fn(|| queue.begin_next()));
            let background = flying.iter().filter(|job: &&Job| job.class == Class::Pinned).count();
            assert_eq!(background, usize::from(pinned < 16), "one at a time");
            for job in flying.drain(..) {
                pinned += u32::from(job.class == Class::Pinned);
                queue.ended(&job, pulled(50), Instant::now());
            }
        }
        assert_eq!(pinned, 16);
    }

    #[test]
    fn concurrent_misses_share_one_pull() {
        let mut queue = Queue::new();
        queue.want(Class::Reader, BlockRange::new(8, 4));
        let job = queue.begin_next().unwrap();
        queue.want(Class::Reader, BlockRange::new(8, 4));
        queue.want(Class::Reader, BlockRange::new(10, 4));
        assert_eq!(queue.begin_next().map(|job| job.blocks), Some(BlockRange::new(12, 2)));
        assert_eq!(queue.begin_next(), None);
        queue.ended(&job, pulled(9), Instant::now());
        assert_eq!(queue.begin_next(), None, "what ended was not wanted again");
    }

    #[test]
    fn random_demands_and_failures_keep_order_and_bounds() {
        for seed in 0..200 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut queue = Queue::new();
            let mut flying: Vec<Job> = Vec::new();
            let mut wanted = std::collections::BTreeSet::new();
            let mut done = std::collections::BTreeSet::new();
            let (mut since, mut passed) = ([0; CLASSES], [0; CLASSES]);
            let mut now = Instant::now();
            for step in 0.. {
                if step < 200 {
                    let class = *ALL.choose(&mut rng).unwrap();
                    let range = BlockRange::new(rng.random_range(0..5000), rng.random_range(1..600));
                    wanted.extend(range.iter());
                    queue.want(class, range);
                }
                while let Some(job) = queue.begin_next() {
                    let idle = |run: &BlockRange| queue.flying.pieces(*run).iter().any(|(_, f)| f.is_none());
                    let waits = |class: Class| queue.waiting[class as usize].order.iter().any(idle);
                    let is_due = since[job.class as usize] >= PASSED_MOST;
                    let mut more_urgent = ALL.into_iter().filter(|class| *class < job.class);
                    let is_flying = |reader| flying.iter().any(|job| (job.class == Class::Reader) == reader);
                    let gives_way = |class: Class| {
                        matches!(class, Class::Pinned | Class::Trace) && is_flying(true) && is_flying(false)
                    };
                    // One background pull may run beside readers that exceed the number served at once.
                    let goes_beside = |class: Class| class == Class::Reader && !is_flying(false);
                    let overtakes =
                        more_urgent.find(|class| waits(*class) && !gives_way(*class) && !goes_beside(*class));
                    assert!(is_due || !gives_way(job.class), "seed {seed}: {job:?} is in a reader's way");
                    let may = |class: Class| is_due && class != Class::Reader;
                    assert!(overtakes.is_none_or(may), "seed {seed}: {job:?} overtakes {overtakes:?}");
                    if job.class != Class::Reader {
                        for class in BACKGROUND.into_iter().filter(|class| *class != job.class) {
                            let passed = &mut passed[class as usize];
                            *passed = if waits(class) { *passed + 1 } else { 0 };
                            // All classes may be due at once.
                            assert!(
                                *passed <= PASSED_MOST + CLASSES as u32,
                                "seed {seed}: {class:?} starves"
                            );
                        }
                        since.iter_mut().for_each(|since| *since += 1);
                        (passed[job.class as usize], since[job.class as usize]) = (0, 0);
                    }
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
                let (ending, is_told) = match rng.random_range(0..6) {
                    0 => (Ending::Failed(PullError::Away), true),
                    1 => (Ending::Left, job.class != Class::Reader),
                    2 => (Ending::Needless, false),
                    _ => (pulled(rng.random_range(0..900)), false),
                };
                let has_come = matches!(ending, Ending::Pulled(_) | Ending::Needless);
                queue.ended(&job, ending, now);
                // The failure is returned once, and no earlier one of the same blocks is.
                assert_eq!(
                    queue.take_error(job.class, job.blocks).is_some(),
                    is_told,
                    "seed {seed}: {job:?}"
                );
                assert!(queue.take_error(job.class, job.blocks).is_none(), "seed {seed}");
                if has_come {
                    done.extend(job.blocks.iter());
                } else {
                    queue.want(job.class, job.blocks);
                }
            }
            assert_eq!(done, wanted, "seed {seed}: all of it came");
            assert_eq!(queue.pending_blocks(), 0, "seed {seed}");
        }
    }

    #[test]
    fn wanting_blocks_again_does_not_fetch_them_twice() {
        let mut queue = Queue::new();
        for _ in 0..5 {
            (0..1000).for_each(|run| queue.want(Class::Metadata, BlockRange::new(run * 16, 4)));
        }
        assert_eq!(queue.pending_blocks(), 4000);
        let mut begun = 0;
        while let Some(job) = queue.begin_next() {
            queue.ended(&job, pulled(50), Instant::now());
            begun += 1;
        }
        assert_eq!(begun, 1000);
    }

    #[test]
    fn less_urgent_classes_get_a_share_of_the_background() {
        let mut queue = Queue::new();
        queue.want(Class::Pinned, BlockRange::new(0, 1 << 20));
        queue.want(Class::ReadAhead, BlockRange::new(1 << 21, 1 << 14));
        let mut begun = [0; CLASSES];
        for _ in 0..90 {
            let job = queue.begin_next().unwrap();
            begun[job.class as usize] += 1;
            queue.ended(&job, pulled(10), Instant::now());
        }
        assert_eq!((begun[Class::Pinned as usize], begun[Class::ReadAhead as usize]), (80, 10));
    }

    #[test]
    fn blocks_without_a_waiting_reader_are_not_begun() {
        let mut queue = Queue::new();
        let (both, first) = (BlockRange::new(0, 4), BlockRange::new(512, 4));
        for range in [both, first, both] {
            queue.wait_for(range);
            queue.want(Class::Reader, range);
        }
        queue.wait_no_more(first);
        queue.wait_no_more(both);
        assert!(queue.is_awaited(both) && !queue.is_awaited(first));
        assert_eq!(queue.begin_next().map(|job| job.blocks), Some(both));
        assert_eq!(queue.begin_next(), None);
    }
}
