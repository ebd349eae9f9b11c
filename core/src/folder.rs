//! The engine of folders: ordinary files of a remote as a tree of inodes that reads and writes like a local file system. No FUSE in it.
//!
//! Three things are kept apart:
//! * what the remote has, as far as it was listed (`entries`, `inodes`): it can be listed again, so it may be lost;
//! * what was changed here and is not in the remote yet (`tree`), which the log of operations (`step`) makes survive a power cut;
//! * bytes: one local file for each version of a file (`spans`, `backing`). All of them share one virtual space of blocks, so that the
//!   cache, the pull queue, pins and eviction of drives serve folders as they are.
//!
//! The plan of uploads is computed from the difference of the first two (`plan`, pure), and what came of an action changes the tree
//! (`outcome`, pure).
//!
//! These are the parts. Nothing joins them into an open folder yet, and no command reaches them.

mod backing;
pub mod entries;
pub mod inodes;
mod local_copy;
pub mod node;
pub mod outcome;
pub mod plan;
mod source;
mod spans;
pub mod step;
pub mod tree;

pub use backing::Backing;
pub use local_copy::{Environment, LocalCopy, ReadFailure};
pub use node::{Ino, Known, Place};
pub use source::{Owner, Versions};
pub use spans::{NoSpace, Span, Spans};
