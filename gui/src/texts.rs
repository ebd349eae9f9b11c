//! The one catalogue of texts (`gui/texts/en.json`), which the pages use too.
//!
//! A text is a string with `{placeholders}`, or one string for each plural form (`one`, `other`) of the placeholder `{count}`. Code that
//! uses a key writes it in full, so that a test can find keys that are missing or unused.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const CATALOGUE: &str = include_str!("../texts/en.json");

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Plural { one: String, other: String },
}

fn catalogue() -> &'static BTreeMap<String, Text> {
    static PARSED: OnceLock<BTreeMap<String, Text>> = OnceLock::new();
    PARSED.get_or_init(|| serde_json::from_str(CATALOGUE).expect("the catalogue is compiled in and tested"))
}

/// The text of a key.
pub fn text(key: &str) -> String {
    said(key, &[])
}

/// The text of a key, with its placeholders filled.
pub fn said(key: &str, fill: &[(&str, &str)]) -> String {
    let text = match find(key) {
        Text::Plain(text) | Text::Plural { other: text, .. } => text,
    };
    filled(text, fill)
}

/// The text of a key for a number; `{count}` is filled too.
pub fn counted(key: &str, count: u64, fill: &[(&str, &str)]) -> String {
    let text = match find(key) {
        Text::Plural { one, .. } if count == 1 => one,
        Text::Plain(text) | Text::Plural { other: text, .. } => text,
    };
    let count = count.to_string();
    let fill: Vec<_> = fill.iter().copied().chain([("count", &*count)]).collect();
    filled(text, &fill)
}

fn find(key: &str) -> &'static Text {
    catalogue().get(key).unwrap_or_else(|| panic!("the catalogue has no text {key:?}"))
}

/// Fills the placeholders in one pass: a filled value may look like a placeholder.
fn filled(text: &str, fill: &[(&str, &str)]) -> String {
    let (mut done, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, from)) = rest.split_once('{') {
        done.push_str(before);
        let found = from.split_once('}').and_then(|(name, after)| {
            let (_, value) = fill.iter().find(|(known, _)| *known == name)?;
            Some((value, after))
        });
        match found {
            Some((value, after)) => {
                done.push_str(value);
                rest = after;
            }
            None => {
                done.push('{');
                rest = from;
            }
        }
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The sections that only this package uses.
    const OURS: [&str; 7] = ["act.", "card.", "line.", "notice.", "state.", "tray.", "words."];

    /// All string literals of the sources of this package that are keys.
    fn used() -> BTreeSet<String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut used = BTreeSet::new();
        for entry in sources.read_dir().unwrap() {
            let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            for literal in source.split('"') {
                let is_key = OURS.iter().any(|section| literal.starts_with(section) && literal != *section);
                if is_key
                    && literal.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '.' | '_' | '0'..='9'))
                {
                    used.insert(literal.to_owned());
                }
            }
        }
        used
    }

    #[test]
    fn catalogue_and_code_have_the_same_keys() {
        let used = used();
        assert!(used.len() > 20);
        for key in &used {
            assert!(catalogue().contains_key(key), "the catalogue has no {key}");
        }
        for key in catalogue().keys().filter(|key| OURS.iter().any(|ours| key.starts_with(ours))) {
            assert!(used.contains(key), "nobody uses {key}");
        }
    }

    #[test]
    fn placeholders_are_closed_and_plurals_count() {
        for (key, text) in catalogue() {
            let forms = match text {
                Text::Plain(text) => vec![text],
                Text::Plural { one, other } => vec![one, other],
            };
            for form in forms {
                assert_eq!(form.matches('{').count(), form.matches('}').count(), "{key}");
                assert!(!form.trim().is_empty(), "{key}");
            }
        }
    }

    #[test]
    fn plurals_are_chosen_and_placeholders_filled() {
        assert_eq!(counted("line.attention", 1, &[]), "1 drive needs attention");
        assert_eq!(counted("line.attention", 3, &[]), "3 drives need attention");
        assert_eq!(said("line.uploading", &[("size", "1 GiB")]), "Uploading 1 GiB");
    }

    #[test]
    fn filled_values_are_not_filled_again() {
        let names = [("one", "{two}"), ("two", "{one}")];
        assert_eq!(filled("{one} and {two}, {three} {", &names), "{two} and {one}, {three} {");
    }
}
