//! Holdall: the daemon (`holdalld`) and its command line (`holdall`).
//!
//! `api` is what the two say to each other; `attach` makes a drive a mounted file system, and `privileged` is what of
//! that takes root's rights; `ARCHITECTURE.md` is the map.

pub mod api;
pub mod attach;
pub mod privileged;
