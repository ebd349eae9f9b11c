//! Names of objects in texts for people. In full they have 100 characters that nobody reads; `--verbose` shows them in full.

use std::borrow::Cow;

/// How many characters of the unique part are shown.
const SHOWN: usize = 8;
/// The shortest name: a kind, a drive, an epoch, a number and the unique part.
const LONG: usize = 100;

/// The same text with `seg/4f/<drive>-<epoch>-<number>-<unique>` as `seg/…4f0e1d2c`.
pub fn shortened(text: &str) -> Cow<'_, str> {
    if !["root/", "seg/"].iter().any(|kind| text.contains(kind)) {
        return text.into();
    }
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| is_in_names(c)) {
        let (before, from) = rest.split_at(at);
        let (word, after) = from.split_at(from.find(|c: char| !is_in_names(c)).unwrap_or(from.len()));
        short.push_str(before);
        match short_name(word) {
            Some(name) => short.push_str(&name),
            None => short.push_str(word),
        }
        rest = after;
    }
    short.push_str(rest);
    short.into()
}

fn is_in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '/' || c == '-'
}

fn short_name(word: &str) -> Option<String> {
    let (kind, _) = word.split_once('/').filter(|(kind, _)| ["root", "seg"].contains(kind))?;
    let (_, unique) = word.rsplit_once('-')?;
    let is_long = word.len() >= LONG && unique.len() > SHOWN;
    is_long.then(|| format!("{kind}/…{}", &unique[..SHOWN]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "seg/4f/0b7e5f2ad1c94c3e8a6b7d5e4f3c2b1a-0000000000000003-00000000000000a1-4f0e1d2c3b4a59687766554433221100";

    #[test]
    fn object_names_are_shortened_anywhere_in_a_text() {
        let root = NAME.replace("seg", "root");
        let text = format!("{NAME} is missing (needed by {root}).\n  {NAME}");
        assert_eq!(shortened(&text), "seg/…4f0e1d2c is missing (needed by root/…4f0e1d2c).\n  seg/…4f0e1d2c");
    }

    #[test]
    fn everything_else_stays() {
        for text in [
            "",
            "seg/ab is missing",
            "root/ab/1",
            "file:///home/root/seg/work-in-progress",
            "Größe: 10 GiB … ✓",
            "head/0b7e5f2ad1c94c3e8a6b7d5e4f3c2b1a",
        ] {
            assert_eq!(shortened(text), text);
        }
        // A path that only ends like a name.
        let path = format!("/srv/{NAME}");
        assert_eq!(shortened(&path), path);
    }
}
