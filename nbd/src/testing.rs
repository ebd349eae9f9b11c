//! A device in memory, and a way to feed the server arbitrary bytes. Built with the feature `testing` only.

mod feed;
mod file;
mod memory;

pub use feed::feed;
pub use file::FileDevice;
pub use memory::{MemoryDevice, MemoryFile, Policy};
