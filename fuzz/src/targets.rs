//! The targets, by what they decode.

pub mod claims;
pub mod credentials;
pub mod dav;
pub mod ext4;
pub mod files;
pub mod formats;
mod hole;
pub mod keys;
pub mod local;
pub mod migrate;
pub mod nbd;
pub mod root_rights;
pub mod s3;
pub mod text;
pub mod wire;
