//! The grammar of a drive's names: the one place that decides which names in a store are Holdall's. Pure.
//!
//! The store is handed this grammar ([`DriveNames`]), and checks names with it. So every name that a listing shows here is Holdall's.
//!
//! A name counts only if it is byte for byte one that Holdall writes (`core/FORMAT.md`, section 1). Every other name is foreign: a
//! console's folder marker, a sync tool's conflicted copy, or a name that a hostile store lists so that it gets used as a path.

use super::claims::{self, Place};
use super::probe;
use crate::format::id::ObjectId;
use crate::format::{family, head};
use holdall_store::names::{Currency, Grammar, is_hex};

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The description of the family.
    Family,
    /// A wrapped key.
    Key,
    /// The HEAD of a drive, if the store swaps it.
    Head,
    /// A record of a HEAD or of a family, if claims decide.
    Record,
    /// A claim, or the nonce inside one.
    Claim,
    /// A root or a segment.
    Object,
    /// A ref.
    Reference,
    /// A record of a replica's version.
    Replica,
    /// An object or a claim of a probe.
    Probe,
}

/// The names of a family of drives, for its store.
#[derive(Clone, Copy, Debug)]
pub struct DriveNames;

impl Grammar for DriveNames {
    fn is_own(&self, name: &str) -> bool {
        kind(name).is_some()
    }

    fn mark(&self) -> &str {
        family::NAME
    }

    /// The claims to make the family, and their records.
    fn precedes_mark(&self, name: &str) -> bool {
        name == FAMILY_CLAIMS || name.strip_prefix(FAMILY_CLAIMS).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whatever lies where claims do, and is no record. A foreign directory there is not looked into either.
    fn is_claim(&self, name: &str) -> bool {
        name.starts_with("claim/") && name.split('/').count() == 3 && !record(name)
    }

    fn is_swapped(&self, name: &str) -> bool {
        name.strip_prefix(head::ALL).is_some_and(|rest| !rest.contains('/'))
    }

    /// A device takes a turn only after a listing of the claims.
    fn currency(&self, prefix: &str) -> Currency {
        match prefix {
            _ if prefix.starts_with("claim/") => Currency::Required,
            _ if prefix.starts_with(head::ALL) => Currency::Preferred,
            _ => Currency::Any,
        }
    }
}

/// Claims and records of the family lie here, like those of a HEAD under `claim/<drive>/` and `head/<drive>/`.
pub(super) const FAMILY_CLAIMS: &str = "claim/family";

/// The meaning of `name`; `None` for a foreign name.
pub fn kind(name: &str) -> Option<Kind> {
    if name == family::NAME {
        return Some(Kind::Family);
    }
    let (area, rest) = name.split_once('/')?;
    match area {
        "keys" => is_id(rest).then_some(Kind::Key),
        "head" if is_id(rest) => Some(Kind::Head),
        "head" => record(name).then_some(Kind::Record),
        "claim" if record(name) => Some(Kind::Record),
        "claim" => claim(rest).then_some(Kind::Claim),
        "root" | "seg" => ObjectId::parse(name).map(|_| Kind::Object),
        "ref" => reference(rest).then_some(Kind::Reference),
        "replica" => replica(rest).then_some(Kind::Replica),
        "probe" => probe::is_name(name).then_some(Kind::Probe),
        _ => None,
    }
}

/// Holdall's directories at the top of a store, besides the description of its family.
const AREAS: [&str; 8] = ["keys/", "head/", "claim/", "root/", "seg/", "ref/", "replica/", "probe/"];
/// Directories that file systems put at the top of a disk.
const OF_DISKS: [&str; 3] = ["lost+found/", "System Volume Information/", "$RECYCLE.BIN/"];

/// The names at the top of a place that show that others use it: not Holdall's, not hidden, and not what every disk has. Control characters
/// are escaped.
pub fn others(top: &[String]) -> Vec<String> {
    let is_ours = |name: &str| name == family::NAME || AREAS.contains(&name) || name == "tmp/";
    let is_other = |name: &&String| !is_ours(name) && !name.starts_with('.') && !OF_DISKS.contains(&&***name);
    let mut others: Vec<_> =
        top.iter().filter(is_other).map(|name| name.chars().flat_map(char::escape_debug).collect()).collect();
    others.sort();
    others
}

/// A free directory for a store in a place that others use: the first of `holdall`, `holdall-2` and so on that is not at its `top`.
pub fn own_directory(top: &[String]) -> String {
    let numbered = (2..).map(|number| format!("holdall-{number}"));
    let is_free = |name: &String| !top.iter().any(|taken| taken.trim_end_matches('/') == name);
    std::iter::once("holdall".to_owned()).chain(numbered).find(is_free).expect("there is no end of numbers")
}

fn record(name: &str) -> bool {
    name.rsplit_once('/').is_some_and(|(drive, _)| {
        let owner = drive.strip_prefix(head::ALL).is_some_and(is_id) || drive == FAMILY_CLAIMS;
        owner && Place::parse(drive, name).is_some()
    })
}

/// `<drive>/<turn>`, perhaps followed by the nonce inside.
fn claim(rest: &str) -> bool {
    let Some((owner, turn)) = rest.split_once('/') else { return false };
    let is_whole = turn.split_once('/').is_none_or(|(_, nonce)| is_id(nonce));
    (is_id(owner) || owner == "family") && is_whole && claims::claimed(owner, rest).is_some()
}

/// For a reader or a clone: `<id>`. For a fork: `<drive>-<id>`.
fn reference(rest: &str) -> bool {
    is_id(rest) || rest.split_once('-').is_some_and(|(fork, id)| is_id(fork) && is_id(id))
}

/// `<drive>/<epoch>-<seq>-<unique>`.
fn replica(rest: &str) -> bool {
    let Some((drive, version)) = rest.split_once('/') else { return false };
    let mut parts = version.split('-');
    let mut part = |digits| parts.next().is_some_and(|part| is_hex(part, digits));
    is_id(drive) && part(16) && part(16) && part(32) && parts.next().is_none()
}

fn is_id(text: &str) -> bool {
    is_hex(text, 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::id::ObjectKind;
    use crate::units::Epoch;
    use holdall_store::names::stays_below;
    use uuid::Uuid;

    const ID: &str = "00112233445566778899aabbccddeeff";
    const TURN: &str = "000000000000000a";

    fn ours() -> Vec<(String, Kind)> {
        let object = ObjectId { drive: Uuid::from_u128(7), epoch: Epoch(3), seq: 4, unique: 0xff << 120 };
        let record = format!("{TURN}-{TURN}-{TURN}-{ID}");
        vec![
            ("family.json".into(), Kind::Family),
            (format!("keys/{ID}"), Kind::Key),
            (format!("head/{ID}"), Kind::Head),
            (format!("head/{ID}/{record}"), Kind::Record),
            (format!("claim/family/{record}"), Kind::Record),
            (format!("claim/family/{TURN}"), Kind::Claim),
            (format!("claim/{ID}/{TURN}"), Kind::Claim),
            (format!("claim/{ID}/{TURN}/{ID}"), Kind::Claim),
            (object.name(ObjectKind::Root), Kind::Object),
            (object.name(ObjectKind::Segment), Kind::Object),
            (format!("ref/{ID}"), Kind::Reference),
            (format!("ref/{ID}-{ID}"), Kind::Reference),
            (format!("replica/{ID}/{TURN}-{TURN}-{ID}"), Kind::Replica),
            (format!("probe/{ID}-rights-0"), Kind::Probe),
            (format!("probe/{ID}-claim-4294967295"), Kind::Probe),
            (format!("probe/{ID}-claim-1/{ID}"), Kind::Probe),
        ]
    }

    #[test]
    fn knows_every_name_that_holdall_writes() {
        for (name, expected) in ours() {
            assert_eq!(kind(&name), Some(expected), "{name}");
            assert!(stays_below(&name), "{name}");
        }
    }

    #[test]
    fn rejects_every_other_name() {
        for (name, _) in ours() {
            for foreign in [
                format!("{name}/"),
                format!("/{name}"),
                format!("{name} (conflicted copy)"),
                format!("{name}.tmp"),
                format!("{name}\0"),
                format!("../{name}"),
                format!("{name}/.."),
                format!("./{name}"),
                name.replacen('/', "//", 1) + "x",
                name.replacen('/', "/../", 1) + "x",
                name.to_uppercase(),
            ] {
                assert_eq!(kind(&foreign), None, "{foreign}");
            }
        }
        for name in
            ["", "/", ".", "..", "keys/", "head/", "ref/", "keys/../../../x", "claim/x", ".stfolder/a"]
        {
            assert_eq!(kind(name), None, "{name}");
        }
        assert_eq!(kind(&format!("probe/{ID}-rights-0/{ID}")), None, "only a claim holds a nonce");
    }

    #[test]
    fn tells_a_store_what_its_names_are_for() {
        let family = format!("claim/family/{TURN}-{TURN}-{TURN}-{ID}");
        for (name, _) in ours() {
            let is_family = name == "family.json" || name.starts_with("claim/family/");
            assert_eq!(name == DriveNames.mark() || DriveNames.precedes_mark(&name), is_family, "{name}");
            assert_eq!(DriveNames.is_swapped(&name), kind(&name) == Some(Kind::Head), "{name}");
            let is_claim = kind(&name) == Some(Kind::Claim) && name.split('/').count() == 3;
            assert_eq!(DriveNames.is_claim(&name), is_claim, "{name}");
        }
        assert!(DriveNames.precedes_mark("claim/family") && !DriveNames.precedes_mark("claim/familyx"));
        assert!(DriveNames.is_claim("claim/a/1") && !DriveNames.is_claim(&family));
        for (prefix, currency) in
            [("claim/x/", Currency::Required), ("head/", Currency::Preferred), ("seg/", Currency::Any)]
        {
            assert_eq!(DriveNames.currency(prefix), currency, "{prefix}");
        }
    }

    #[test]
    fn a_name_with_one_changed_character_never_climbs() {
        for (name, _) in ours() {
            for at in 0..name.len() {
                for to in ["/", ".", "..", "/../", "//", "\\", "\0", "-", "A", "ß", ""] {
                    let changed = format!("{}{to}{}", &name[..at], &name[at + 1..]);
                    assert!(kind(&changed).is_none() || stays_below(&changed), "{changed:?}");
                }
            }
        }
    }

    #[test]
    fn others_are_neither_ours_nor_what_every_disk_has() {
        let top = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let none = ["family.json", "keys/", "seg/", "tmp/", ".tmp/", ".Trash-1000/", "lost+found/"];
        assert_eq!(others(&top(&none)), [""; 0]);
        let some = ["letters/", "family.json", "keys", "a\u{1b}[2J.txt"];
        assert_eq!(others(&top(&some)), ["a\\u{1b}[2J.txt", "keys", "letters/"]);
    }

    #[test]
    fn a_directory_of_its_own_is_free() {
        let top = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(own_directory(&top(&["letters/"])), "holdall");
        assert_eq!(own_directory(&top(&["holdall/", "holdall-2"])), "holdall-3");
    }

    #[test]
    fn our_own_names_are_not_others() {
        for (name, _) in ours() {
            let top = name.split_once('/').map_or(name.clone(), |(area, _)| format!("{area}/"));
            assert_eq!(others(&[top]), [""; 0], "{name}");
        }
    }
}
