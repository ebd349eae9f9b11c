//! The engine of Holdall: a virtual disk whose writes are durable in a local journal, whose reads come from a
//! local cache, and whose committed state lives as sealed segments in a store.
//!
//! `ARCHITECTURE.md` is the map of this code; `core/FORMAT.md` documents every byte that it writes.

pub mod device;
pub mod disk;
pub mod units;
