//! Why a peer cannot be talked to.

use std::io;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, PeerError>;

/// Why a peer cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// No address of the device answers.
    #[error("{name} cannot be reached: {tried}")]
    Unreachable {
        /// The device's name.
        name: String,
        /// What was tried, and what came of it.
        tried: String,
    },
    /// The other side's key is not the expected one.
    #[error("the other device has another key than the paired one")]
    WrongKey,
    /// The device is not in the list.
    #[error("no paired device is named {0}")]
    Unknown(String),
    /// The device claims the identity of another device.
    #[error("a device claims the identity of another device")]
    Impostor,
    /// The other side refused the connection.
    #[error("the other device refused: {0}")]
    Refused(Refusal),
    /// The other side broke the protocol.
    #[error("the other device sent something that is not allowed: {0}")]
    Protocol(&'static str),
    /// The two versions of Holdall have no protocol in common.
    #[error("the other device speaks protocol {min} to {max}, which this version of Holdall does not")]
    Version {
        /// Its oldest protocol.
        min: u16,
        /// Its newest protocol.
        max: u16,
    },
    /// The code is wrong.
    #[error("the code is wrong")]
    WrongCode,
    /// The other side does not wait for a pairing.
    #[error("no device that shows a code was found")]
    NotFound,
    /// The time for the pairing is over.
    #[error("the time is over")]
    TimedOut,
    /// A person said no, or ended the pairing.
    #[error("the pairing was cancelled")]
    Cancelled,
    /// Three wrong codes were tried.
    #[error("three wrong codes were tried")]
    NoTriesLeft,
    /// The list of devices or the key cannot be read or written.
    #[error("{what} cannot be {done}: {error}")]
    File {
        /// The file.
        what: String,
        /// "read" or "written".
        done: &'static str,
        /// The cause.
        error: io::Error,
    },
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why the other side refused a connection, as its byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has no protocol in common.
    #[error("it speaks another protocol")]
    Version,
    /// It does not pair now.
    #[error("it does not wait for a pairing")]
    NotPairing,
    /// It has nothing for this purpose.
    #[error("it cannot do this")]
    Purpose,
    /// It knows this key under another identity.
    #[error("it knows this device under another identity")]
    Identity,
    /// It is not paired with this device.
    #[error("it is not paired with this device")]
    Unpaired,
    /// It serves enough already.
    #[error("it is busy")]
    Busy,
}

impl Refusal {
    /// As a byte.
    pub fn to_byte(self) -> u8 {
        match self {
            Refusal::Version => 1,
            Refusal::NotPairing => 2,
            Refusal::Purpose => 3,
            Refusal::Identity => 4,
            Refusal::Busy => 5,
            Refusal::Unpaired => 6,
        }
    }

    /// From a byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        use Refusal::{Busy, Identity, NotPairing, Purpose, Unpaired, Version};
        [Version, NotPairing, Purpose, Identity, Busy, Unpaired]
            .into_iter()
            .find(|refusal| refusal.to_byte() == byte)
    }
}
