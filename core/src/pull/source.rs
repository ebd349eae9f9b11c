//! The interface that pulling needs from a drive or a folder: where missing blocks come from, and which file has them.

use crate::read_error::ReadError;
use crate::store::StoreError;
use crate::units::BlockRange;
use parking_lot::RwLock;
use std::fmt::Debug;

/// The content of a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<P> {
    /// Zeros.
    Zero,
    /// Blocks of a part that the store holds.
    Part(P),
}

/// The result of `look_up`: the requested blocks, in order and without gaps.
pub type Found<P> = Vec<(BlockRange, Content<P>)>;

/// Where missing blocks come from.
pub trait Source: Send + Sync + 'static {
    /// A unit that is fetched as a whole, such as a frame of a segment. Parts are ordered as they lie in the store.
    type Part: Copy + Ord + Debug + Send + Sync + 'static;

    /// The files that have the blocks, as far as known.
    type Files: Files;

    /// How many blocks there are.
    fn size_blocks(&self) -> u64;

    /// The current content of the blocks of `range`. May ask the store.
    fn look_up(&self, range: BlockRange)
    -> impl Future<Output = Result<Found<Self::Part>, ReadError>> + Send;

    /// The blocks that a part holds.
    fn blocks_of(&self, part: &Self::Part) -> BlockRange;

    /// Groups parts, which are in order, into one group for each request.
    fn requests(&self, parts: Vec<Self::Part>) -> Vec<Vec<Self::Part>>;

    /// Fetches the parts of one request. Returns the bytes of each part's blocks, verified to be what was stored.
    fn fetch(&self, parts: &[Self::Part]) -> impl Future<Output = Result<Vec<Vec<u8>>, ReadError>> + Send;

    /// The parts of `range` that have to come from the store if the cache lacks them. The rest was written here and has not
    /// reached the cache yet.
    fn not_written_here(&self, range: BlockRange) -> Vec<BlockRange>;

    /// Sends the store a small request. Succeeds if it answers, whatever the answer is.
    fn ask(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The files, as far as known. Readers use `try_read`: they never wait while more is being learnt.
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
    /// The file that has the block, if known.
    fn file_at(&self, block: u64) -> Option<FilePlace>;

    /// The blocks of a part of a file, in the order of the file, without its holes.
    fn blocks_of(&self, file: FileNumber, part: BlockRange) -> Vec<BlockRange>;
}
