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
//! `open_folder` joins them. `ledger` keeps the tree and its log, `contents` the bytes that the remote does not have, `outbox` brings both to the
//! remote, and `opens` knows what programs have open.

pub mod api;
mod backing;
pub mod contents;
pub mod entries;
mod fetch;
mod files;
pub(crate) mod guard;
pub mod inodes;
mod leaving;
pub mod ledger;
mod links;
mod listed;
mod local_copy;
mod modes;
mod names;
pub mod node;
mod open_folder;
pub mod opens;
pub mod outbox;
pub mod outcome;
mod overlay;
mod pins;
pub mod plan;
mod recover;
mod refresh;
mod shared;
mod small_file;
mod source;
mod spans;
pub mod step;
pub mod tree;
mod turns;
mod view;

pub use backing::Backing;
pub use fetch::Fetch;
pub use listed::{Here, Listed};
pub use local_copy::{Environment, LocalCopy, ReadFailure};
pub use node::{Ino, Known, Place};
pub use open_folder::{Folder, FolderEnvironment, FolderStatus, Held, OpenError};
pub use opens::Survivor;
pub use pins::{Amount, PinnedPath, pinned_while_closed, unpin_while_closed};
pub use recover::Recovered;
pub use source::{Owner, Versions};
pub use spans::{NoSpace, Span, Spans};
