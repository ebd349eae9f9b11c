//! Holdall: the daemon (`holdalld`) and its command line (`holdall`).
//!
//! `api`, a package of its own, is what the two say to each other. `daemon` keeps drives and serves the API; `attach` makes a drive
//! a mounted file system, and `privileged` is what of that takes root's rights, which `helper` does for users; `scanner` looks at
//! its files; `cli` is a client. `ARCHITECTURE.md` is the map.

pub mod attach;
pub mod cli;
pub mod daemon;
pub mod helper;
pub mod paths;
pub mod privileged;
pub mod scanner;
mod words;

pub use holdall_api as api;
pub use holdall_api::sizes;
