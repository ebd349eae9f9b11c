//! The names of claims and records. Pure.
//!
//! A name counts only if it is the very one that a device would give. Whatever else lies there is nobody's: what a tool has
//! left behind, or what somebody has put there to be taken for one.

/// No turn and no record has a higher number: an opening takes half a million turns on the average, so that one in each second
/// would come to it after four thousand years.
pub const NUMBER_MAX: u64 = 1 << 56;

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub turn: u64,
    pub seq: u64,
    /// That of the HEAD.
    pub epoch: u64,
    pub nonce: u128,
}

impl Place {
    /// The record's name, where `drive` is that of the HEAD.
    pub fn name(&self, drive: &str) -> String {
        let Self { turn, seq, epoch, nonce } = self;
        format!("{drive}/{turn:016x}-{seq:016x}-{epoch:016x}-{nonce:032x}")
    }

    /// The record that has this name.
    pub fn parse(drive: &str, name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(drive)?.strip_prefix('/')?.split('-');
        let mut part = |digits| parts.next().and_then(|part| number(part, digits));
        let [turn, seq, epoch] = [part(16)? as u64, part(16)? as u64, part(16)? as u64];
        let nonce = part(32)?;
        let is_possible = parts.next().is_none() && turn.max(seq).max(epoch) <= NUMBER_MAX;
        is_possible.then_some(Self { turn, seq, epoch, nonce })
    }

    /// Whether it is the same HEAD, perhaps handed on to another turn.
    pub fn has_version_of(&self, other: &Self) -> bool {
        (self.epoch, self.nonce) == (other.epoch, other.nonce)
    }
}

/// The name of the claim of a turn, where `claims` is what the claims of the drive lie in.
pub fn claim(claims: &str, turn: u64) -> String {
    format!("{claims}/{turn:016x}")
}

/// The turn that this name claims, or the name of something in a claim.
pub fn claimed(claims: &str, name: &str) -> Option<u64> {
    let turn = name.strip_prefix(claims)?.strip_prefix('/')?.split('/').next()?;
    number(turn, 16).map(|turn| turn as u64).filter(|turn| *turn <= NUMBER_MAX)
}

/// So many digits as they are written here: no signs, and no capitals.
fn number(text: &str, digits: usize) -> Option<u128> {
    let is_plain = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_plain.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str =
        "head/d/000000000000000a-000000000000000b-000000000000000c-0000000000000000000000000000000d";

    #[test]
    fn names_are_read_as_they_are_written() {
        let place = Place { turn: 10, seq: 11, epoch: 12, nonce: 13 };
        assert_eq!(place.name("head/d"), RECORD);
        assert_eq!(Place::parse("head/d", RECORD), Some(place));
        assert_eq!(claim("claim/d", 10), "claim/d/000000000000000a");
        assert_eq!(claimed("claim/d", "claim/d/000000000000000a"), Some(10));
        assert_eq!(claimed("claim/d", "claim/d/000000000000000a/00ff"), Some(10), "a nonce in it");
    }

    #[test]
    fn what_only_looks_like_a_claim_is_none() {
        for rest in [
            "000000000000000A",
            "+00000000000000a",
            "-00000000000000a",
            "a",
            "0000000000000000a",
            "000000000000000a.tmp",
            ".000000000000000a",
            "00000000 000000a",
            "0100000000000001",
            "ffffffffffffffff",
            "",
            "/000000000000000a",
        ] {
            assert_eq!(claimed("claim/d", &format!("claim/d/{rest}")), None, "{rest}");
        }
        assert_eq!(claimed("claim/d", "claim/dd/000000000000000a"), None);
        assert_eq!(claimed("claim/d", "claim/d/0100000000000000"), Some(NUMBER_MAX));
    }

    #[test]
    fn what_only_looks_like_a_record_is_none() {
        for name in [
            RECORD.to_uppercase().replace("HEAD/D", "head/d"),
            RECORD.replacen("0000", "+000", 1),
            RECORD.replacen("0000", "ffff", 1),
            RECORD.replacen("a-0000", "a-ffff", 1),
            format!("{RECORD}.tmp"),
            format!("{RECORD}-0"),
            RECORD.replace("head/d/", "head/d/x/"),
            RECORD.replace("head/d/", "head/dd/"),
            RECORD.replace("head/d/", "head/d/0"),
        ] {
            assert_eq!(Place::parse("head/d", &name), None, "{name}");
        }
    }
}
