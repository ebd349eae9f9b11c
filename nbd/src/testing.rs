//! A device in memory, and a way to feed arbitrary bytes to the server. Built only with the feature `testing`.

mod feed;
mod file;
mod memory;

pub use feed::feed;
pub use file::FileDevice;
pub use memory::{MemoryDevice, MemoryFile, Policy};
