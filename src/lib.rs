//! Holdall: the daemon (`holdalld`) and its command line (`holdall`).
//!
//! `api` is what the two say to each other; `ARCHITECTURE.md` is the map.

pub mod api;
pub mod cli;
pub mod paths;
pub mod sizes;
