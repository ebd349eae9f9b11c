//! The targets, by what they decode.

pub mod ext4;
pub mod formats;
mod hole;
pub mod keys;
pub mod local;
pub mod nbd;
pub mod text;
pub mod wire;
