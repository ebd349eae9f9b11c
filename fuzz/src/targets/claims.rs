//! The names of claims and records. Their reader is private to the engine, and is compiled here from the same file.

#[path = "../../../core/src/store/claims/names.rs"]
mod names;

use names::{NUMBER_MAX, Place};

const HEAD: &str = "head/d";
const CLAIMS: &str = "claim/d";

/// A name from a listing, alone and with the prefixes of a drive's names. An accepted name is exactly the one that the
/// program writes, or lies in that claim.
pub fn names(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for name in [text.to_owned(), format!("{HEAD}/{text}"), format!("{CLAIMS}/{text}")] {
        if let Some(place) = Place::parse(HEAD, &name) {
            assert_eq!(place.name(HEAD), name);
            assert!(place.turn.max(place.seq) <= NUMBER_MAX, "{name} can be followed by another");
            assert!(place.has_version_of(&place));
        }
        if let Some(turn) = names::claimed(CLAIMS, &name) {
            let claim = names::claim(CLAIMS, turn);
            assert!(turn <= NUMBER_MAX, "{name} can be followed by another");
            assert!(name == claim || name.starts_with(&format!("{claim}/")), "{name} is not {claim}");
        }
    }
}

/// A record, a claim, an object inside a claim, and names that only look like one.
pub fn name_seeds() -> Vec<Vec<u8>> {
    let place = Place { turn: 3, seq: 0xab, epoch: 7, nonce: u128::MAX / 3 };
    let claim = names::claim(CLAIMS, NUMBER_MAX);
    let seeds = [place.name(HEAD), claim.clone(), format!("{claim}/00ff"), format!("{claim}.tmp")];
    let mut seeds: Vec<_> = seeds.map(String::into_bytes).into();
    seeds.extend([b"+00000000000000a".to_vec(), b"ffffffffffffffff".to_vec(), b"000000000000000A".to_vec()]);
    seeds
}
