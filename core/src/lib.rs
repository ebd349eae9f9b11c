//! The engine of Holdall: a virtual disk whose writes are durable in a local journal, whose reads come from a
//! local cache, and whose committed state lives as sealed segments in a store.
//!
//! `ARCHITECTURE.md` is the map of this code; `core/FORMAT.md` documents every byte that it writes.

// These macros panic if the output cannot be written, as with a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod bitmap;
pub mod cache;
mod clock;
pub mod device;
pub mod disk;
pub mod drive;
pub mod evict;
pub mod ext4;
pub mod family;
pub mod fence;
pub mod folder;
pub mod fork;
pub mod format;
pub mod formats;
pub mod grant;
pub mod heads;
pub mod journal;
pub mod keys;
mod local;
pub mod log;
pub mod map;
pub mod migrate;
pub mod planted;
pub mod pull;
pub mod push;
mod reach;
mod read_error;
pub mod replica;
pub mod retry;
pub mod room;
pub mod runs;
pub mod seal;
#[cfg(feature = "sim")]
pub mod sim;
pub mod store;
pub mod units;
pub mod volume;

pub use holdall_store::entropy;
