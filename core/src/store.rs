//! Stores as drives use them: all of the store crate, with the names of drives handed in and HEADs that every store can swap.

pub use holdall_store::*;

pub mod claims;
pub mod connect;
pub mod names;
