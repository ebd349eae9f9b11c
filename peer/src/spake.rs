//! SPAKE2: both sides turn a short code into a strong key, without telling it. The only file that knows the crate for it.
//!
//! The exchange is bound to both devices' keys, as the identities of its two sides. Somebody in the middle has one guess for each exchange.

use crate::code::Code;
use crate::error::{PeerError, Result};
use crate::key::PublicKey;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use zeroize::Zeroizing;

/// The bytes of a side's message.
pub const ELEMENT_BYTES: usize = 33;

/// The side of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The device on which the code is typed.
    Types,
    /// The device that shows the code.
    Shows,
}

/// A started exchange.
pub struct Exchange(Spake2<Ed25519Group>);

/// The key of an exchange: the same on both sides if the codes were the same.
pub struct Shared(pub Zeroizing<Vec<u8>>);

impl Exchange {
    /// Starts; the second result is for the other side.
    pub fn start(side: Side, code: &Code, types: &PublicKey, shows: &PublicKey) -> (Self, Vec<u8>) {
        let password = Password::new(code.digits());
        let (types, shows) = (Identity::new(&types.spki()), Identity::new(&shows.spki()));
        let (exchange, element) = match side {
            Side::Types => Spake2::start_a(&password, &types, &shows),
            Side::Shows => Spake2::start_b(&password, &types, &shows),
        };
        (Self(exchange), element)
    }

    /// Finishes with the other side's message.
    pub fn finish(self, element: &[u8]) -> Result<Shared> {
        let shared = self.0.finish(element).map_err(|_| PeerError::Protocol("a pairing message"))?;
        Ok(Shared(Zeroizing::new(shared)))
    }
}
