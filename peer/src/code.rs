//! The code that a person carries from one device to the other.

use rand::Rng;
use std::fmt;
use zeroize::Zeroizing;

/// Digits of a code: 30 bits. Three tries guess it once in 333 million pairings.
const DIGITS: usize = 9;

/// A one-time code of nine digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(Zeroizing<String>);

impl Code {
    /// A new code.
    pub fn random() -> Self {
        let number = rand::rng().random_range(0..10_u32.pow(DIGITS as u32));
        Self(Zeroizing::new(format!("{number:09}")))
    }

    /// A code as a person types it: nine digits, with spaces or hyphens anywhere.
    pub fn parse(text: &str) -> Option<Self> {
        let apart = |c: &char| !(c.is_whitespace() || *c == '-');
        // Longer texts are not looked at: each digit has at most a few characters beside it.
        if text.len() > 64 {
            return None;
        }
        let digits: String = text.chars().filter(apart).collect();
        let is_code = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_code.then(|| Self(Zeroizing::new(digits)))
    }

    /// In three groups, to be shown to the person.
    pub fn shown(&self) -> String {
        format!("{} {} {}", &self.0[..3], &self.0[3..6], &self.0[6..])
    }

    /// The digits.
    pub(crate) fn digits(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Code {
    /// Does not show the code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_it_is_shown() {
        for _ in 0..100 {
            let code = Code::random();
            assert_eq!(Code::parse(&code.shown()), Some(code.clone()));
            assert_eq!(code.shown().len(), 11);
        }
        assert_eq!(Code::parse("012-345-678"), Code::parse(" 012345678\n"));
    }

    #[test]
    fn other_texts_are_no_codes() {
        for text in ["", "12345678", "1234567890", "12345678a", "١٢٣٤٥٦٧٨٩", "+12345678"] {
            assert_eq!(Code::parse(text), None, "{text}");
        }
        assert_eq!(Code::parse(&format!("{}123456789", " ".repeat(60))), None);
    }

    #[test]
    fn a_code_is_not_shown_by_debug() {
        assert_eq!(format!("{:?}", Code::random()), "Code");
    }
}
