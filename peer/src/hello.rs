//! The first messages of each connection: HELLO of the side that dialed, WELCOME or REFUSED of the other.

use crate::error::{PeerError, Refusal, Result};
use crate::frame::Frame;
use uuid::Uuid;

/// The protocols that this version speaks, oldest and newest.
pub const PROTOCOLS: (u16, u16) = (1, 1);
/// The longest name of a device, in bytes. Host names have up to 64.
pub const NAME_BYTES_MAX: usize = 64;

/// The kind of HELLO.
pub const HELLO: u8 = 1;
/// The kind of WELCOME.
pub const WELCOME: u8 = 2;
/// The kind of REFUSED.
pub const REFUSED: u8 = 3;
/// The first kind that a purpose's own protocol uses.
pub const FIRST_OF_PURPOSE: u8 = 16;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// To pair, the only one for a device that is not paired.
    Pair,
    /// To move a drive.
    Migrate,
    /// To follow a drive's versions.
    Follow,
    /// To read blocks of a drive.
    Blocks,
    /// To read and write a directory of the other device.
    Mirror,
}

impl Purpose {
    /// All purposes.
    pub const ALL: [Purpose; 5] =
        [Purpose::Pair, Purpose::Migrate, Purpose::Follow, Purpose::Blocks, Purpose::Mirror];

    fn to_byte(self) -> u8 {
        match self {
            Purpose::Pair => 1,
            Purpose::Migrate => 2,
            Purpose::Follow => 3,
            Purpose::Blocks => 4,
            Purpose::Mirror => 5,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Purpose::ALL.into_iter().find(|purpose| purpose.to_byte() == byte)
    }
}

/// HELLO. For a pairing, uuid and name are empty: they are told after the code has proved both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest and newest protocol of the sender.
    pub protocols: (u16, u16),
    /// What the connection is for.
    pub purpose: Purpose,
    /// Who the sender says that it is.
    pub who: Who,
}

/// Who a device says that it is. Only its key proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The device, as drives name it.
    pub uuid: Uuid,
    /// Its name for people.
    pub name: String,
    /// The port at which it listens; 0 if it does not.
    pub port: u16,
}

impl Who {
    /// Nobody: for a pairing.
    pub fn nobody() -> Self {
        Who { uuid: Uuid::nil(), name: String::new(), port: 0 }
    }

    /// As bytes: uuid, port, length of the name, name.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.uuid.as_bytes().to_vec();
        bytes.extend(self.port.to_le_bytes());
        bytes.push(u8::try_from(self.name.len()).expect("a name was checked"));
        bytes.extend(self.name.as_bytes());
        bytes
    }

    /// From exactly these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let broken = PeerError::Protocol("an identity that cannot be read");
        let Some((uuid, rest)) = bytes.split_first_chunk::<16>() else { return Err(broken) };
        let Some((port, rest)) = rest.split_first_chunk::<2>() else { return Err(broken) };
        let Some((length, name)) = rest.split_first() else { return Err(broken) };
        if usize::from(*length) != name.len() || name.len() > NAME_BYTES_MAX {
            return Err(broken);
        }
        let Ok(name) = std::str::from_utf8(name) else { return Err(broken) };
        if !name.is_empty() && !is_name(name) {
            return Err(PeerError::Protocol("a name that cannot be shown"));
        }
        Ok(Who { uuid: Uuid::from_bytes(*uuid), name: name.to_owned(), port: u16::from_le_bytes(*port) })
    }
}

/// Whether a device may have this name: it is shown, so it has no control characters and nothing that turns text around.
pub fn is_name(name: &str) -> bool {
    let shows = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.trim() == name && name.chars().all(shows)
}

impl Hello {
    /// As a frame.
    pub fn frame(&self) -> Frame {
        let mut body = Vec::with_capacity(32);
        body.extend(self.protocols.0.to_le_bytes());
        body.extend(self.protocols.1.to_le_bytes());
        body.push(self.purpose.to_byte());
        body.extend(self.who.encode());
        Frame { kind: HELLO, seq: 0, body }
    }

    /// From a frame.
    pub fn decode(frame: &Frame) -> Result<Self> {
        let [min0, min1, max0, max1, purpose, who @ ..] = &frame.body[..] else {
            return Err(PeerError::Protocol("a greeting that cannot be read"));
        };
        if frame.kind != HELLO {
            return Err(PeerError::Protocol("a message before the greeting"));
        }
        let protocols = (u16::from_le_bytes([*min0, *min1]), u16::from_le_bytes([*max0, *max1]));
        let Some(purpose) = Purpose::from_byte(*purpose) else {
            return Err(PeerError::Protocol("an unknown purpose"));
        };
        Ok(Hello { protocols, purpose, who: Who::decode(who)? })
    }

    /// The newest protocol that both sides speak.
    pub fn agreed(&self) -> Option<u16> {
        let newest = self.protocols.1.min(PROTOCOLS.1);
        (newest >= self.protocols.0.max(PROTOCOLS.0)).then_some(newest)
    }
}

/// The answer to HELLO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection is open.
    Welcome {
        /// The protocol that both use.
        protocol: u16,
        /// Who the sender says that it is.
        who: Who,
    },
    /// The connection ends.
    Refused(Refusal),
}

impl Answer {
    /// As a frame.
    pub fn frame(&self) -> Frame {
        match self {
            Answer::Welcome { protocol, who } => {
                let body = [&protocol.to_le_bytes()[..], &who.encode()].concat();
                Frame { kind: WELCOME, seq: 0, body }
            }
            Answer::Refused(why) => Frame { kind: REFUSED, seq: 0, body: vec![why.to_byte()] },
        }
    }

    /// From a frame.
    pub fn decode(frame: &Frame) -> Result<Self> {
        match (frame.kind, &frame.body[..]) {
            (WELCOME, [low, high, who @ ..]) => {
                Ok(Answer::Welcome { protocol: u16::from_le_bytes([*low, *high]), who: Who::decode(who)? })
            }
            (REFUSED, [why]) => {
                Refusal::from_byte(*why).map(Answer::Refused).ok_or(PeerError::Protocol("an unknown refusal"))
            }
            _ => Err(PeerError::Protocol("an answer that cannot be read")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let who = Who { uuid: Uuid::from_u128(7), name: "Łukasz's desk".to_owned(), port: 7 };
        Hello { protocols: (1, 3), purpose: Purpose::Migrate, who }
    }

    #[test]
    fn a_greeting_is_read_as_it_was_written() {
        assert_eq!(Hello::decode(&hello().frame()).unwrap(), hello());
        for answer in
            [Answer::Welcome { protocol: 1, who: hello().who }, Answer::Refused(Refusal::NotPairing)]
        {
            assert_eq!(Answer::decode(&answer.frame()).unwrap(), answer);
        }
    }

    #[test]
    fn a_cut_or_longer_greeting_is_refused() {
        let frame = hello().frame();
        for cut in 0..frame.body.len() {
            let body = frame.body[..cut].to_vec();
            assert!(Hello::decode(&Frame { body, ..frame.clone() }).is_err(), "{cut}");
        }
        let body = [&frame.body[..], &[0]].concat();
        assert!(Hello::decode(&Frame { body, ..frame.clone() }).is_err());
        assert!(Hello::decode(&Frame { kind: WELCOME, ..frame }).is_err());
    }

    #[test]
    fn names_that_deceive_are_refused() {
        for name in ["", " desk", "a\nb", "a\u{202e}b", "\u{1b}[2J", &"x".repeat(65)] {
            assert!(!is_name(name), "{name:?}");
        }
        let mut frame = hello().frame();
        let end = frame.body.len() - 1;
        frame.body[end] = 7;
        assert!(Hello::decode(&frame).is_err());
    }

    #[test]
    fn the_newest_common_protocol_is_used() {
        let speaks = |protocols| Hello { protocols, ..hello() }.agreed();
        assert_eq!(speaks((1, 9)), Some(1));
        assert_eq!(speaks((2, 9)), None);
        assert_eq!(speaks((0, 0)), None);
        assert_eq!(speaks((9, 1)), None);
    }
}
