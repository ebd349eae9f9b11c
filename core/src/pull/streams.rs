//! Who reads on and on, and what to pull ahead of them. Pure: it is told of reads and says what to want.
//!
//! A run of reads that follow each other, upwards or downwards, is a *stream*. Ahead of it twice as much is wanted as it
//! has read so far, up to a limit: a reader that stops soon costs little, one that goes on soon fills the link. Reads by
//! themselves, as a database makes them, open none, so that a random miss fetches one frame.

use crate::units::{BLOCK_BYTES, BlockRange, DRIVE_BYTES_MAX};

/// Runs that are followed at once. The one that was read longest ago makes way.
const STREAMS_MAX: usize = 32;
/// Blocks read in a row before it counts as a stream (64 KiB), in two reads at least.
const RUN_MIN: u64 = 16;
/// The kernel has several requests under way, which may come in another order: so far behind or ahead of the expected
/// block counts as next (256 KiB).
const DISORDER: u64 = 64;
/// What is wanted is extended in pieces of at most one request to the store (1 MiB).
const STEP_MAX: u64 = 256;
/// A stream that was not read for so many reads of others is over.
const READS_IDLE_MAX: u64 = 4096;
/// After so many blocks ahead that were all local (32 MiB), there is no use in looking further.
const LOCAL_MAX: u64 = 8192;

/// Blocks of a stream that goes downwards are counted from here.
const TOP: u64 = DRIVE_BYTES_MAX / BLOCK_BYTES;

/// What a read leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// To be pulled ahead, as far as it is missing; it may reach beyond the end of the drive.
    pub want: Option<BlockRange>,
    /// Was wanted for streams that are over.
    pub no_more: Vec<BlockRange>,
}

/// The runs of reads of one drive.
#[derive(Debug, Default)]
pub struct Streams {
    /// The one read last is the last.
    streams: Vec<Stream>,
    reads: u64,
}

/// One run of reads.
#[derive(Debug)]
struct Stream {
    way: Way,
    /// The block expected next.
    next: u64,
    /// Blocks read in a row.
    run: u64,
    /// What was wanted ahead ends here.
    ahead: u64,
    /// Blocks wanted since any of them was missing.
    local: u64,
    /// Of all reads, the number of its last one.
    read_at: u64,
}

/// Where a run goes. Of one that goes downwards the blocks are counted from the top, as if it went upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is not known yet: what was read, and how often it was extended at either end.
    Unknown {
        read: BlockRange,
        ups: u32,
        downs: u32,
    },
    Up,
    Down,
}

impl Streams {
    /// Whether any read matters, also one of what is local.
    pub fn is_any_open(&self) -> bool {
        self.streams.iter().any(Stream::is_open)
    }

    /// Blocks were read, of which some were missing or none. `most` is how many blocks ahead are of use.
    pub fn read(&mut self, blocks: BlockRange, missed: bool, most: u64) -> Step {
        self.reads += 1;
        let mut step = Step { want: None, no_more: self.forget_idle() };
        let at = (0..self.streams.len()).rev().find(|at| self.streams[*at].take(blocks));
        let Some(at) = at else {
            if missed {
                step.no_more.extend(self.begin(blocks));
            }
            return step;
        };
        let mut stream = self.streams.remove(at);
        stream.read_at = self.reads;
        step.want = stream.extend(most).map(|want| stream.real(want));
        self.streams.push(stream);
        step
    }

    /// Of what the last read led to, so many blocks were missing.
    pub fn was_missing(&mut self, wanted: BlockRange, missing_blocks: u64) {
        let Some(stream) = self.streams.last_mut() else { return };
        stream.local = if missing_blocks == 0 { stream.local + wanted.count() } else { 0 };
        if stream.local >= LOCAL_MAX {
            self.streams.pop();
        }
    }

    fn begin(&mut self, blocks: BlockRange) -> Option<BlockRange> {
        let oldest = (self.streams.len() >= STREAMS_MAX).then(|| self.streams.remove(0));
        self.streams.push(Stream {
            way: Way::Unknown { read: blocks, ups: 0, downs: 0 },
            next: blocks.end,
            run: blocks.count(),
            ahead: blocks.end,
            local: 0,
            read_at: self.reads,
        });
        oldest.and_then(|stream| stream.unread())
    }

    fn forget_idle(&mut self) -> Vec<BlockRange> {
        let reads = self.reads;
        let idle = self.streams.iter().take_while(|stream| reads - stream.read_at > READS_IDLE_MAX).count();
        self.streams.drain(..idle).filter_map(|stream| stream.unread()).collect()
    }
}

impl Stream {
    fn is_open(&self) -> bool {
        matches!(self.way, Way::Up | Way::Down)
    }

    /// Whether the read belongs to it, which then moves on.
    fn take(&mut self, blocks: BlockRange) -> bool {
        match self.way {
            Way::Unknown { read, ups, downs } => {
                let Some(way) = extended(read, ups, downs, blocks) else { return false };
                self.run += blocks.count();
                self.way = settled(way, self.run);
                self.next = match (self.way, way) {
                    (Way::Down, Way::Unknown { read, .. }) => TOP - read.start,
                    (_, Way::Unknown { read, .. }) => read.end,
                    (_, Way::Up | Way::Down) => self.next,
                };
                self.ahead = self.next;
            }
            Way::Up | Way::Down => {
                let blocks = self.real(blocks);
                let reach = self.ahead.max(self.next + DISORDER);
                if !(self.next.saturating_sub(DISORDER)..=reach).contains(&blocks.start) {
                    return false;
                }
                self.run += blocks.end.saturating_sub(blocks.start.max(self.next));
                self.next = self.next.max(blocks.end);
                self.ahead = self.ahead.max(self.next);
            }
        }
        true
    }

    /// What to want next: whole steps, so that it is not asked for in crumbs.
    fn extend(&mut self, most: u64) -> Option<BlockRange> {
        if !self.is_open() {
            return None;
        }
        let window = (2 * self.run).min(most);
        let step = (window / 4).clamp(RUN_MIN, STEP_MAX);
        let until = match self.next + window {
            beyond if beyond > TOP => TOP,
            until => until / step * step,
        };
        let want = BlockRange { start: self.ahead, end: until };
        if want.is_empty() {
            return None;
        }
        self.ahead = until;
        Some(want)
    }

    /// What was wanted for it and not read.
    fn unread(&self) -> Option<BlockRange> {
        let unread = BlockRange { start: self.next, end: self.ahead };
        (!unread.is_empty()).then(|| self.real(unread))
    }

    /// From the stream's own direction to the drive's, and back.
    fn real(&self, blocks: BlockRange) -> BlockRange {
        match self.way {
            Way::Down => BlockRange { start: TOP - blocks.end, end: TOP - blocks.start },
            Way::Up | Way::Unknown { .. } => blocks,
        }
    }
}

/// A run with one more read, if that follows it at either end. Of large requests, which are the kernel's own read-ahead,
/// one may be late.
fn extended(read: BlockRange, ups: u32, downs: u32, blocks: BlockRange) -> Option<Way> {
    let late = if blocks.count() >= RUN_MIN { blocks.count() } else { 0 };
    if (read.end..=read.end + late).contains(&blocks.start) {
        let read = BlockRange { start: read.start, end: blocks.end };
        Some(Way::Unknown { read, ups: ups + 1, downs })
    } else if blocks.end == read.start {
        let read = BlockRange { start: blocks.start, end: read.end };
        Some(Way::Unknown { read, ups, downs: downs + 1 })
    } else if late > 0 && (read.start..read.end).contains(&blocks.start) {
        Some(Way::Unknown { read, ups, downs })
    } else {
        None
    }
}

/// Where a run goes that has read so many blocks. Downwards only what has gone there twice: two requests in the wrong
/// order look the same.
fn settled(way: Way, run: u64) -> Way {
    match way {
        Way::Unknown { ups, downs, .. } if run >= RUN_MIN && ups > downs => Way::Up,
        Way::Unknown { ups: 0, downs: 2.., .. } if run >= RUN_MIN => Way::Down,
        way => way,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    const DRIVE: u64 = 1 << 20;
    const MOST: u64 = 2048;

    /// Reads runs of `len` blocks from `starts`, and tells what was wanted.
    fn read(streams: &mut Streams, starts: impl IntoIterator<Item = u64>, len: u64) -> Vec<BlockRange> {
        let steps = starts.into_iter().map(|start| streams.read(BlockRange::new(start, len), true, MOST));
        steps.filter_map(|step| step.want).collect()
    }

    #[test]
    fn reads_by_themselves_want_nothing() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut streams = Streams::default();
        let starts: Vec<_> = (0..10_000).map(|_| rng.random_range(0..DRIVE / 8) * 8).collect();
        assert_eq!(read(&mut streams, starts, 1), []);
        assert!(!streams.is_any_open());
    }

    #[test]
    fn the_window_grows_with_what_was_read_and_stays_ahead_up_to_its_limit() {
        let mut streams = Streams::default();
        assert_eq!(read(&mut streams, [0], 16), []);
        assert_eq!(read(&mut streams, [16], 16), [BlockRange { start: 32, end: 96 }]);
        let mut ahead = 96;
        for start in (32..40_000).step_by(32) {
            for want in read(&mut streams, [start], 32) {
                assert_eq!(want.start, ahead, "nothing twice, and no hole");
                ahead = want.end;
            }
            let (next, run) = (start + 32, start + 32);
            assert!(ahead + STEP_MAX >= next + (2 * run).min(MOST), "at {start} only to {ahead}");
            assert!(ahead <= next + MOST);
        }
    }

    #[test]
    fn it_wants_whole_requests_once_it_runs() {
        let mut streams = Streams::default();
        let wants = read(&mut streams, (0..20_000).step_by(32), 32);
        let full = wants.iter().filter(|want| want.count() >= STEP_MAX).count();
        assert!(full * 10 > wants.len() * 8, "{full} of {}", wants.len());
    }

    #[test]
    fn downwards_it_ends_with_the_drive() {
        let mut streams = Streams::default();
        let wants = read(&mut streams, (0..64).map(|i| 2016 - i * 32), 32);
        assert_eq!(wants.last().unwrap().start, 0);
    }

    #[test]
    fn downwards_goes_as_well() {
        let mut streams = Streams::default();
        let wants = read(&mut streams, (0..100).map(|i| 10_000 - i * 16), 16);
        assert!(!wants.is_empty());
        let mut ahead = wants[0].end;
        for want in &wants {
            assert_eq!(want.end, ahead);
            ahead = want.start;
        }
        assert!(ahead + 16 < 10_000 - 99 * 16 - MOST / 2);
    }

    #[test]
    fn several_at_once_out_of_order_and_with_seeks_forward() {
        let mut streams = Streams::default();
        let mut wanted = 0;
        for i in 0..100 {
            for base in [0, 100_000, 200_000, 300_000] {
                // The kernel's requests two by two in the wrong order.
                let start = base + (i ^ 1) * 32;
                wanted += read(&mut streams, [start], 32).iter().map(BlockRange::count).sum::<u64>();
            }
        }
        assert!(wanted >= 4 * 3000, "{wanted}");
        // Half a window ahead.
        let before = streams.streams.len();
        assert_ne!(read(&mut streams, [3200 + 1000], 32), []);
        assert_eq!(streams.streams.len(), before);
    }

    #[test]
    fn what_a_stream_does_not_need_any_more_is_told() {
        let mut streams = Streams::default();
        let last = *read(&mut streams, (0..3200).step_by(32), 32).last().unwrap();
        let mut no_more = Vec::new();
        for start in (500_000..).step_by(100).take(40) {
            no_more.extend(streams.read(BlockRange::new(start, 1), true, MOST).no_more);
        }
        assert_eq!(no_more, [BlockRange { start: 3200, end: last.end }]);
    }

    #[test]
    fn a_stream_through_what_is_local_or_that_nobody_reads_is_closed() {
        let mut streams = Streams::default();
        for start in (0..100_000).step_by(32) {
            let step = streams.read(BlockRange::new(start, 32), start < 64, MOST);
            step.want.into_iter().for_each(|want| streams.was_missing(want, 0));
        }
        assert!(!streams.is_any_open());
        read(&mut streams, (0..64).step_by(32), 32);
        assert!(streams.is_any_open());
        for _ in 0..=READS_IDLE_MAX {
            streams.read(BlockRange::new(900_000, 1), false, MOST);
        }
        assert!(!streams.is_any_open());
    }
}
