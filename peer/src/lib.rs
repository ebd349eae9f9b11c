//! Devices that trust each other, and the connections between them.
//!
//! A device is its Ed25519 key ([`DeviceKey`]). Two devices learn each other's key once, by a short code that a person carries from one to
//! the other ([`pairing`]). From then on each accepts exactly the keys in its list ([`Devices`]), by TLS 1.3 with raw public keys
//! ([`tls`]). Nothing that a peer says about itself counts, but for what its key proves.
//!
//! [`Peers`] holds all of it: it listens, dials, pairs, and closes the connections of a device that is unpaired.
//!
//! An unpaired peer reaches only the pairing, and that only while a person waits for it: [`tls::Door`] refuses its key otherwise, at most
//! one such connection a second is let in, and no message of it is longer than 4 KiB.

mod code;
mod discovery;
mod error;
mod file;
pub mod frame;
pub mod hello;
mod key;
mod link;
mod list;
pub mod pairing;
mod peers;
mod spake;
pub mod tls;

pub use code::Code;
pub use error::{PeerError, Result};
pub use hello::Purpose;
pub use key::{DeviceId, DeviceKey, PublicKey};
pub use link::Link;
pub use list::{Device, Devices};
pub use pairing::{Pairing, Stage};
pub use peers::{Listening, Peers};
