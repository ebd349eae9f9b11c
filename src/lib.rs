//! Holdall: the daemon (`holdalld`) and its command line (`holdall`).
//!
//! `api`, a crate of its own, is what the two say to each other. `daemon` keeps drives and serves the API; `attach` makes a drive a mounted
//! file system, through the crate `holdall_helper` where that needs root's rights; `scanner` looks at its files; `cli` is a client.
//! `ARCHITECTURE.md` is the map.

// They panic if the output cannot be written, such as a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod attach;
pub mod cli;
pub mod daemon;
pub mod paths;
pub mod scanner;
mod words;

pub use holdall_api as api;
pub use holdall_api::sizes;
