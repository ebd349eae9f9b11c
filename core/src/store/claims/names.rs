//! The names of claims and records. Pure.
//!
//! A name counts only if a device would write exactly that name. Every other name is ignored: a tool left it behind, or somebody put it
//! there to be mistaken for one.

/// The highest number of a turn or record. An opening takes half a million turns on average, so one opening each second would reach it
/// after four thousand years.
pub const NUMBER_MAX: u64 = 1 << 56;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub turn: u64,
    pub seq: u64,
    /// The epoch of the HEAD.
    pub epoch: u64,
    pub nonce: u128,
}

impl Place {
    /// The record's name, where `drive` is that of the HEAD.
    pub fn name(&self, drive: &str) -> String {
        let Self { turn, seq, epoch, nonce } = self;
        format!("{drive}/{turn:016x}-{seq:016x}-{epoch:016x}-{nonce:032x}")
    }

    /// The record with this name.
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

/// The name of a turn's claim, if the drive's claims are in `claims`.
pub fn claim(claims: &str, turn: u64) -> String {
    format!("{claims}/{turn:016x}")
}

/// The turn that is claimed by this name, or by the claim that contains it.
pub fn claimed(claims: &str, name: &str) -> Option<u64> {
    let turn = name.strip_prefix(claims)?.strip_prefix('/')?.split('/').next()?;
    number(turn, 16).map(|turn| turn as u64).filter(|turn| *turn <= NUMBER_MAX)
}

/// Exactly `digits` digits in the form written here: no signs, and no capitals.
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
    fn lookalikes_of_claims_are_rejected() {
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
    fn lookalikes_of_records_are_rejected() {
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
