//! The name by which the kernel knows an nbd device of ours: its drive, and the user whose daemon serves it.
//!
//! Only root can give a device its identifier, and anyone can read it. So the kernel itself remembers the device's owner as long as the
//! device exists, whatever happens to the processes that made it.

use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// The identifier of an nbd device of ours: `holdall:UUID:UID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifier {
    /// The drive.
    pub drive: Uuid,
    /// The user whose daemon serves it.
    pub user: u32,
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "holdall:{}:{}", self.drive, self.user)
    }
}

impl FromStr for Identifier {
    type Err = ();

    /// Accepts only the exact text that [`Display`](fmt::Display) gives: the device could not be found again under another spelling.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (drive, user) = text.strip_prefix("holdall:").and_then(|rest| rest.split_once(':')).ok_or(())?;
        let identifier =
            Identifier { drive: drive.parse().map_err(|_| ())?, user: user.parse().map_err(|_| ())? };
        if identifier.to_string() == text { Ok(identifier) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_parses_only_in_its_own_spelling() {
        let identifier = Identifier { drive: Uuid::from_u128(7), user: 1000 };
        let text = identifier.to_string();
        assert_eq!(text.parse(), Ok(identifier));
        for text in ["", "holdall:", &text.to_uppercase(), &text.replace(":1000", ""), &format!("{text}0 ")] {
            assert_eq!(text.parse::<Identifier>(), Err(()), "{text}");
        }
        assert_eq!(text.replace(":1000", ":+1000").parse::<Identifier>(), Err(()));
        assert_eq!(text.replace("-", "").parse::<Identifier>(), Err(()));
    }
}
