//! Holdall's daemon (`holdalld`).
//!
//! `daemon` keeps drives and serves the API; `attach` makes a drive a mounted file system, through the crate `holdall_helper` where that
//! needs root's rights; `scanner` looks at its files. `api`, a crate of its own, is what the daemon and its clients say to each other; its
//! clients are the command line (`holdall_cli`) and the app. `ARCHITECTURE.md` is the map.

// They panic if the output cannot be written, such as a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod attach;
pub mod daemon;
pub mod scanner;

pub use holdall_api as api;
pub use holdall_api::sizes;
