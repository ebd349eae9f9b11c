//! Recognises sequential readers, and decides what to pull ahead of them. Pure: it learns of reads and the time, and says
//! what to want.
//!
//! A run of reads that follow each other, upwards or downwards, is a *stream*. Ahead of it, twice as much is wanted as it
//! has read so far, or four times as much in a file of which it has read a good piece, up to a limit. So a reader that
//! stops soon costs little, and one that continues soon fills the link. Single reads, as a database makes them, open no
//! stream, so that a random miss fetches one frame.
//!
//! If the file of a block is known, reads are counted in that file: a stream follows the file, and ends with it. Otherwise
//! they are counted in the drive.
//!
//! A person who plays a film jumps in it and watches from there: in a file that is known to be a film, each jump opens a
//! stream at once.

use super::source::FileNumber;
use crate::units::{BLOCK_BYTES, BlockRange, DRIVE_BYTES_MAX};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Runs that are followed at once. The least recently read one is replaced.
const STREAMS_MAX: usize = 32;
/// Blocks read in a row before a run counts as a stream (64 KiB), in two reads at least.
const RUN_MIN: u64 = 16;
/// If the first read of a file is this large (128 KiB), more will probably follow: programs that only look at a file's head
/// read less.
const BEGINNING_MIN: u64 = 32;
/// After this many files in a row of which only the beginning was read, a beginning no longer opens a stream: programs that
/// make thumbnails or an index look at every file.
const LOOKS_MAX: u32 = 3;
/// A reader that has read this much of a file in a row (1 MiB) mostly reads all of it. A shorter run may be the kernel's
/// own read-ahead.
const PIECE: u64 = 256;
/// Wanted at once after a jump in a film (1 MiB): the first pictures from there, which take about a quarter of it at 13
/// Mbit/s.
const JUMP: u64 = 256;
/// Films that are remembered as such.
const PLAYED_MAX: usize = 64;
/// The kernel has several requests under way, which may arrive in another order: a block this far before or after the
/// expected one counts as next (256 KiB).
const DISORDER: u64 = 64;
/// Read-ahead grows in pieces of at most one request to the store (1 MiB).
const STEP_MAX: u64 = 256;
/// A stream is over after this many reads by others.
const READS_IDLE_MAX: u64 = 4096;
/// Nothing more is pulled ahead of a reader that has not read for this long: it may have gone. If it has not, read-ahead
/// begins again where it is.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// After this many blocks ahead that were all local (32 MiB), looking further is useless.
const LOCAL_MAX: u64 = 8192;

/// Blocks of a stream that goes downwards are counted from here.
const TOP: u64 = DRIVE_BYTES_MAX / BLOCK_BYTES;

/// The space in which a stream reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// A file; `None` for the drive, if no file is known.
    pub file: Option<FileNumber>,
    /// How many blocks it has.
    pub end: u64,
}

/// Blocks of a file, or of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file; `None` for the drive, if no file is known.
    pub file: Option<FileNumber>,
    /// Its blocks.
    pub blocks: BlockRange,
}

/// The consequences of a read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// To pull ahead, as far as it is missing.
    pub want: Option<Part>,
    /// No longer wanted: it was for streams that are over.
    pub no_more: Vec<Part>,
}

/// The runs of reads of one drive.
#[derive(Debug, Default)]
pub struct Streams {
    /// The most recently read one is last.
    streams: Vec<Stream>,
    /// Films and the like, newest last.
    played: VecDeque<FileNumber>,
    /// Beginnings of files that were read since a reader last continued after one.
    looks: u32,
    reads: u64,
}

/// One run of reads.
#[derive(Debug)]
struct Stream {
    space: Space,
    way: Direction,
    /// The block expected next.
    next: u64,
    /// Blocks read in a row.
    run: u64,
    /// If the stream is only the beginning of a file so far: where that ends.
    look: Option<u64>,
    /// Blocks that are wanted ahead at least, however few were read.
    least: u64,
    /// The end of what was wanted ahead.
    ahead: u64,
    /// Blocks wanted since any of them was missing.
    local: u64,
    /// The number of its last read among all reads.
    read_at: u64,
    /// When that was.
    read_when: Instant,
}

/// The direction of a run. The blocks of a downward run are counted from the top, as if it went upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Not known yet: what was read, and how often that was extended at either end.
    Unknown {
        read: BlockRange,
        ups: u32,
        downs: u32,
    },
    Up,
    Down,
}

impl Streams {
    /// Whether every read matters, also of local blocks.
    pub fn is_any_open(&self) -> bool {
        self.streams.iter().any(Stream::is_open)
    }

    /// The file is a film or the like: programs jump in it and continue from there.
    pub fn note_played(&mut self, file: FileNumber) {
        self.played.retain(|played| *played != file);
        if self.played.len() == PLAYED_MAX {
            self.played.pop_front();
        }
        self.played.push_back(file);
    }

    /// Blocks of `space` were read; `missed` says whether any was missing. `most` is how many blocks ahead are useful.
    pub fn read(&mut self, space: Space, blocks: BlockRange, missed: bool, most: u64, now: Instant) -> Step {
        self.reads += 1;
        let mut step = Step { want: None, no_more: self.forget_idle() };
        let at = (0..self.streams.len()).rev().find(|at| self.streams[*at].take(space, blocks));
        let mut stream = match at {
            Some(at) => {
                let mut stream = self.streams.remove(at);
                if stream.look.take_if(|end| blocks.end > *end).is_some() {
                    self.looks = 0;
                }
                stream
            }
            None if missed => {
                let oldest = (self.streams.len() >= STREAMS_MAX).then(|| self.streams.remove(0));
                step.no_more.extend(oldest.and_then(|oldest| oldest.unread()));
                let is_played = space.file.is_some_and(|file| self.played.contains(&file));
                let is_opening = is_beginning(space, blocks) && self.looks < LOOKS_MAX;
                let stream = Stream::new(space, blocks, is_opening, is_played, now);
                self.looks = self.looks.saturating_add(u32::from(stream.look.is_some()));
                stream
            }
            None => return step,
        };
        (stream.read_at, stream.read_when) = (self.reads, now);
        step.want = stream.extend(most).map(|want| stream.part(want));
        self.streams.push(stream);
        step
    }

    /// `missing_blocks` of the `wanted_blocks` that the last read asked for were missing.
    pub fn was_missing(&mut self, wanted_blocks: u64, missing_blocks: u64) {
        let Some(stream) = self.streams.last_mut() else { return };
        stream.local = if missing_blocks == 0 { stream.local + wanted_blocks } else { 0 };
        if stream.local >= LOCAL_MAX {
            self.streams.pop();
        }
    }

    /// Drops the read-ahead of readers that have stopped: `give_up` drops a part and says whether any of it still waited.
    /// It is wanted again if the reader continues.
    pub fn leave_idle(&mut self, now: Instant, mut give_up: impl FnMut(Part) -> bool) {
        let is_idle = |stream: &Stream| now.saturating_duration_since(stream.read_when) >= IDLE_MAX;
        let others: Vec<_> =
            self.streams.iter().filter(|stream| !is_idle(stream)).filter_map(Stream::unread).collect();
        // Blocks that are also ahead of another stream are in the queue only once.
        let is_theirs = |part: &Part| {
            others.iter().any(|other| other.file == part.file && other.blocks.overlaps(&part.blocks))
        };
        for stream in self.streams.iter_mut().filter(|stream| is_idle(stream)) {
            if stream.unread().filter(|part| !is_theirs(part)).is_some_and(&mut give_up) {
                (stream.ahead, stream.local) = (stream.next, 0);
            }
        }
    }

    fn forget_idle(&mut self) -> Vec<Part> {
        let reads = self.reads;
        let idle = self.streams.iter().take_while(|stream| reads - stream.read_at > READS_IDLE_MAX).count();
        self.streams.drain(..idle).filter_map(|stream| stream.unread()).collect()
    }
}

impl Stream {
    fn new(space: Space, blocks: BlockRange, is_opening: bool, is_played: bool, now: Instant) -> Self {
        let way = match is_opening || is_played {
            true => Direction::Up,
            false => Direction::Unknown { read: blocks, ups: 0, downs: 0 },
        };
        let (next, run) = (blocks.end, blocks.count());
        let look = is_beginning(space, blocks).then_some(blocks.end);
        let least = if is_played { JUMP } else { 0 };
        Self { space, way, next, run, look, least, ahead: next, local: 0, read_at: 0, read_when: now }
    }

    fn is_open(&self) -> bool {
        matches!(self.way, Direction::Up | Direction::Down)
    }

    /// Whether the read belongs to the stream. If so, the stream moves along.
    fn take(&mut self, space: Space, blocks: BlockRange) -> bool {
        if self.space.file != space.file {
            return false;
        }
        // The file may have grown.
        self.space.end = space.end;
        match self.way {
            Direction::Unknown { read, ups, downs } => {
                let Some(way) = extended(read, ups, downs, blocks) else { return false };
                self.run += blocks.count();
                self.way = settled(way, self.run);
                self.next = match (self.way, way) {
                    (Direction::Down, Direction::Unknown { read, .. }) => TOP - read.start,
                    (_, Direction::Unknown { read, .. }) => read.end,
                    (_, Direction::Up | Direction::Down) => self.next,
                };
                self.ahead = self.next;
            }
            Direction::Up | Direction::Down => {
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

    /// The next blocks to want, in whole steps, so that the store is not asked for crumbs.
    fn extend(&mut self, most: u64) -> Option<BlockRange> {
        if !self.is_open() {
            return None;
        }
        let growth = if self.space.file.is_some() && self.run >= PIECE { 4 } else { 2 };
        let window = (growth * self.run).max(self.least).min(most);
        let step = (window / 4).clamp(RUN_MIN, STEP_MAX);
        let end = if self.way == Direction::Down { TOP } else { self.space.end };
        let until = match self.next + window {
            beyond if beyond > end => end,
            until => until / step * step,
        };
        let want = BlockRange { start: self.ahead, end: until };
        if want.end <= want.start {
            return None;
        }
        self.ahead = until;
        Some(want)
    }

    /// Blocks that were wanted for it and have not been read.
    fn unread(&self) -> Option<Part> {
        let unread = BlockRange { start: self.next, end: self.ahead };
        (!unread.is_empty()).then(|| self.part(unread))
    }

    fn part(&self, blocks: BlockRange) -> Part {
        Part { file: self.space.file, blocks: self.real(blocks) }
    }

    /// Converts between the stream's own direction and real block numbers.
    fn real(&self, blocks: BlockRange) -> BlockRange {
        match self.way {
            Direction::Down => BlockRange { start: TOP - blocks.end, end: TOP - blocks.start },
            Direction::Up | Direction::Unknown { .. } => blocks,
        }
    }
}

/// Whether this first read of a file suggests that more will follow.
fn is_beginning(space: Space, blocks: BlockRange) -> bool {
    let is_large = (BEGINNING_MIN..space.end).contains(&blocks.count());
    space.file.is_some() && blocks.start == 0 && is_large
}

/// A run extended by one more read, if that follows it at either end. Large requests are the kernel's own read-ahead, so
/// one of them may be late.
fn extended(read: BlockRange, ups: u32, downs: u32, blocks: BlockRange) -> Option<Direction> {
    let late = if blocks.count() >= RUN_MIN { blocks.count() } else { 0 };
    if (read.end..=read.end + late).contains(&blocks.start) {
        let read = BlockRange { start: read.start, end: blocks.end };
        Some(Direction::Unknown { read, ups: ups + 1, downs })
    } else if blocks.end == read.start {
        let read = BlockRange { start: blocks.start, end: read.end };
        Some(Direction::Unknown { read, ups, downs: downs + 1 })
    } else if late > 0 && (read.start..read.end).contains(&blocks.start) {
        Some(Direction::Unknown { read, ups, downs })
    } else {
        None
    }
}

/// The direction of a run of `run` blocks. It is downward only after two steps downward: two requests in the wrong order
/// look the same.
fn settled(way: Direction, run: u64) -> Direction {
    match way {
        Direction::Unknown { ups, downs, .. } if run >= RUN_MIN && ups > downs => Direction::Up,
        Direction::Unknown { ups: 0, downs: 2.., .. } if run >= RUN_MIN => Direction::Down,
        way => way,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    const DRIVE: u64 = 1 << 20;
    const WHOLE: Space = Space { file: None, end: DRIVE };
    const MOST: u64 = 2048;

    /// Reads runs of `len` blocks from `starts`, and returns what was wanted.
    fn read(streams: &mut Streams, starts: impl IntoIterator<Item = u64>, len: u64) -> Vec<BlockRange> {
        let steps = starts
            .into_iter()
            .map(|start| streams.read(WHOLE, BlockRange::new(start, len), true, MOST, Instant::now()));
        steps.filter_map(|step| step.want).map(|want| want.blocks).collect()
    }

    #[test]
    fn single_reads_open_no_stream() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut streams = Streams::default();
        let starts: Vec<_> = (0..10_000).map(|_| rng.random_range(0..DRIVE / 8) * 8).collect();
        assert_eq!(read(&mut streams, starts, 1), []);
        assert!(!streams.is_any_open());
    }

    #[test]
    fn read_ahead_grows_with_the_run_up_to_its_limit() {
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
    fn a_running_stream_wants_whole_requests() {
        let mut streams = Streams::default();
        let wants = read(&mut streams, (0..20_000).step_by(32), 32);
        let full = wants.iter().filter(|want| want.count() >= STEP_MAX).count();
        assert!(full * 10 > wants.len() * 8, "{full} of {}", wants.len());
    }

    #[test]
    fn a_jump_in_a_film_opens_a_stream_at_once() {
        let mut streams = Streams::default();
        let film = Space { file: Some(FileNumber(12)), end: 100_000 };
        let jump = |streams: &mut Streams, to: u64| {
            streams.read(film, BlockRange::new(to, 8), true, MOST, Instant::now()).want
        };
        assert_eq!(jump(&mut streams, 40_000), None, "nobody has said that it is one");
        streams.note_played(FileNumber(12));
        let want = jump(&mut streams, 80_000).unwrap();
        assert_eq!((want.file, want.blocks.start), (film.file, 80_008));
        assert!((JUMP * 3 / 4..=JUMP).contains(&want.blocks.count()), "{want:?}");
        // More once reading continues, and nothing beyond the end.
        assert!((80_008..80_256).step_by(8).any(|at| jump(&mut streams, at).is_some()));
        assert_eq!(jump(&mut streams, 99_990).unwrap().blocks, BlockRange { start: 99_998, end: 100_000 });
        for other in 100..100 + PLAYED_MAX as u32 {
            streams.note_played(FileNumber(other));
        }
        assert_eq!(jump(&mut streams, 20_000), None, "it is forgotten");
    }

    #[test]
    fn a_downward_stream_ends_at_the_start_of_the_drive() {
        let mut streams = Streams::default();
        let wants = read(&mut streams, (0..64).map(|i| 2016 - i * 32), 32);
        assert_eq!(wants.last().unwrap().start, 0);
    }

    #[test]
    fn downward_reads_are_a_stream_too() {
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
    fn follows_several_streams_out_of_order_and_across_seeks() {
        let mut streams = Streams::default();
        let mut wanted = 0;
        for i in 0..100 {
            for base in [0, 100_000, 200_000, 300_000] {
                // The kernel's requests, each pair in the wrong order.
                let start = base + (i ^ 1) * 32;
                wanted += read(&mut streams, [start], 32).iter().map(BlockRange::count).sum::<u64>();
            }
        }
        assert!(wanted >= 4 * 3000, "{wanted}");
        // A seek by half a window.
        let before = streams.streams.len();
        assert_ne!(read(&mut streams, [3200 + 1000], 32), []);
        assert_eq!(streams.streams.len(), before);
    }

    #[test]
    fn a_replaced_stream_returns_its_unread_read_ahead() {
        let mut streams = Streams::default();
        let last = *read(&mut streams, (0..3200).step_by(32), 32).last().unwrap();
        let mut no_more = Vec::new();
        for start in (500_000..).step_by(100).take(40) {
            no_more
                .extend(streams.read(WHOLE, BlockRange::new(start, 1), true, MOST, Instant::now()).no_more);
        }
        assert_eq!(no_more, [Part { file: None, blocks: BlockRange { start: 3200, end: last.end } }]);
    }

    #[test]
    fn a_stopped_reader_loses_its_read_ahead_until_it_continues() {
        let (mut streams, begun) = (Streams::default(), Instant::now());
        let read = |streams: &mut Streams, start, now| {
            streams.read(WHOLE, BlockRange::new(start, 32), true, MOST, now).want.map(|want| want.blocks)
        };
        let last = (0..3200).step_by(32).filter_map(|start| read(&mut streams, start, begun)).last().unwrap();
        let left = |streams: &mut Streams, now, some_wait| {
            let mut left = Vec::new();
            streams.leave_idle(now, |part| {
                left.push(part.blocks);
                some_wait
            });
            left
        };
        let (late, ahead) = (begun + IDLE_MAX, BlockRange { start: 3200, end: last.end });
        assert_eq!(left(&mut streams, begun + IDLE_MAX / 2, true), []);
        assert_eq!(
            left(&mut streams, late, false),
            [ahead],
            "all of it has come, and is where the stream goes on"
        );
        assert_eq!(left(&mut streams, late, true), [ahead]);
        assert_eq!(left(&mut streams, late, true), [], "once is enough");
        assert_eq!(read(&mut streams, 3200, late).unwrap().start, 3232, "what was left is wanted again");

        // A reader jumps back and reads up to where it stopped.
        let later = late + IDLE_MAX;
        let behind = (2000..2600).step_by(32).filter_map(|start| read(&mut streams, start, later)).last();
        assert!(behind.unwrap().end > 3232);
        assert_eq!(left(&mut streams, later, true), [], "what it has ahead stays wanted");
    }

    #[test]
    fn a_stream_through_local_blocks_or_an_idle_one_closes() {
        let mut streams = Streams::default();
        for start in (0..100_000).step_by(32) {
            let step = streams.read(WHOLE, BlockRange::new(start, 32), start < 64, MOST, Instant::now());
            step.want.into_iter().for_each(|want| streams.was_missing(want.blocks.count(), 0));
        }
        assert!(!streams.is_any_open());
        read(&mut streams, (0..64).step_by(32), 32);
        assert!(streams.is_any_open());
        for _ in 0..=READS_IDLE_MAX {
            streams.read(WHOLE, BlockRange::new(900_000, 1), false, MOST, Instant::now());
        }
        assert!(!streams.is_any_open());
    }

    #[test]
    fn a_large_first_read_opens_a_stream_within_its_file() {
        let mut streams = Streams::default();
        let film = Space { file: Some(FileNumber(12)), end: 1000 };
        let mut read = |space, start, len| {
            streams
                .read(space, BlockRange::new(start, len), true, MOST, Instant::now())
                .want
                .map(|want| (want.file, want.blocks))
        };
        let (file, first) = read(film, 0, 64).unwrap();
        assert_eq!((file, first.start), (film.file, 64));
        // The same block numbers in another file or in the drive do not belong to it.
        assert_eq!(read(Space { file: Some(FileNumber(13)), ..film }, 64, 1), None);
        assert_eq!(read(WHOLE, 65, 1), None);
        let mut ahead = first.end;
        for start in (64..1000).step_by(32) {
            if let Some((_, want)) = read(film, start, 32.min(1000 - start)) {
                assert_eq!(want.start, ahead);
                ahead = want.end;
            }
        }
        assert_eq!(ahead, 1000, "all of it and no more");
        assert_eq!(read(Space { file: Some(FileNumber(14)), ..film }, 0, 4), None, "a look at a head");
    }

    #[test]
    fn looking_at_file_beginnings_stops_opening_streams() {
        let mut streams = Streams::default();
        let mut read = |file, start| {
            let space = Space { file: Some(FileNumber(file)), end: 1000 };
            streams
                .read(space, BlockRange::new(start, BEGINNING_MIN), true, MOST, Instant::now())
                .want
                .is_some()
        };
        let wanted: Vec<_> = (100..140).map(|file| read(file, 0)).collect();
        assert_eq!(wanted.iter().filter(|wanted| **wanted).count(), LOOKS_MAX as usize);
        assert!(!read(139, 0), "the same again");
        assert!(read(139, BEGINNING_MIN), "who reads on is followed");
        assert!(read(140, 0), "and a beginning opens a stream again");
        // A copy reads every file to its end.
        for file in 200..300 {
            assert!(read(file, 0) && read(file, BEGINNING_MIN), "{file}");
        }
    }

    #[test]
    fn a_shrunken_file_ends_its_stream() {
        let mut streams = Streams::default();
        let space = |end| Space { file: Some(FileNumber(12)), end };
        assert!(streams.read(space(1000), BlockRange::new(0, 64), true, MOST, Instant::now()).want.is_some());
        assert_eq!(streams.read(space(80), BlockRange::new(64, 16), true, MOST, Instant::now()).want, None);
    }
}
