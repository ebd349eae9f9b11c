//! What pulling asks of a drive or a folder: where blocks that are not here come from, and which file has them.

use crate::read_error::ReadError;
use crate::store::StoreError;
use crate::units::BlockRange;
use parking_lot::RwLock;
use std::fmt::Debug;

/// What a run of blocks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<P> {
    /// Zeros.
    Zero,
    /// Blocks of a part of what the store holds.
    Part(P),
}

/// What `look_up` answers: the blocks that were asked for, in order and without gaps.
pub type Found<P> = Vec<(BlockRange, Content<P>)>;

/// Where blocks that are not here come from.
pub trait Source: Send + Sync + 'static {
    /// What comes as a whole, for instance a frame of a segment. Parts are ordered as they lie in the store.
    type Part: Copy + Ord + Debug + Send + Sync + 'static;

    /// What is known of the files that have the blocks.
    type Files: Files;

    /// How many blocks there are.
    fn size_blocks(&self) -> u64;

    /// What the blocks of `range` are now. May ask the store.
    fn look_up(&self, range: BlockRange)
    -> impl Future<Output = Result<Found<Self::Part>, ReadError>> + Send;

    /// The blocks that a part holds.
    fn blocks_of(&self, part: &Self::Part) -> BlockRange;

    /// Groups parts, which are in order, so that each group is one request.
    fn requests(&self, parts: Vec<Self::Part>) -> Vec<Vec<Self::Part>>;

    /// Fetches parts of one request: the bytes of each one's blocks, proved to be what was stored.
    fn fetch(&self, parts: &[Self::Part]) -> impl Future<Output = Result<Vec<Vec<u8>>, ReadError>> + Send;

    /// What of `range` has to come from the store if the cache does not hold it. The rest was written here and has not
    /// reached the cache yet.
    fn not_written_here(&self, range: BlockRange) -> Vec<BlockRange>;

    /// Asks the store something small. Well if it answers, whatever the answer is.
    fn ask(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// What is known of the files. Nobody waits for whoever is learning more of them.
    fn files(&self) -> &RwLock<Self::Files>;
}

/// A file, by a number that no other file of the same drive or folder has at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u32);

/// A place in a file, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file.
    pub file: FileNumber,
    /// Which of its blocks.
    pub at: u64,
    /// How many it has.
    pub end: u64,
}

/// Which file has which blocks.
pub trait Files: Send + Sync + 'static {
    /// The file that has the block, where that is known.
    fn file_at(&self, block: u64) -> Option<FilePlace>;

    /// The blocks of a part of a file, in the order of the file, without its holes.
    fn blocks_of(&self, file: FileNumber, part: BlockRange) -> Vec<BlockRange>;
}
