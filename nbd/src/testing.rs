//! A device in memory, and a way to feed the server arbitrary bytes. Built with the feature `testing` only.

mod feed;
mod memory;

pub use feed::feed;
pub use memory::{MemoryDevice, MemoryFile, Policy};
