//! Makes text safe for a terminal. The name of a file, a drive or a computer may contain control characters, and anybody who wrote to the
//! store may have chosen it. They are shown, and not obeyed. Output to a file or a pipe stays unchanged.

use super::output::Hue;
use std::fmt::Write;

/// Makes text safe for a terminal: line ends, tabs and our own colours stay.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let colour = Hue::CODES.iter().find(|code| rest.starts_with(**code));
        let taken = match colour {
            Some(code) => {
                shown.push_str(code);
                code.len()
            }
            None => {
                push(&mut shown, character);
                character.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    shown
}

fn push(shown: &mut String, character: char) {
    match character {
        '\n' | '\t' => shown.push(character),
        _ if is_obeyed(character) => {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        }
        _ => shown.push(character),
    }
}

/// Makes a JSON document safe for a terminal. JSON itself escapes characters below the space; the rest is escaped as JSON requires, so that
/// it stays the same document.
pub fn printable_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if is_obeyed(character) && character != '\n' => {
                let _ = write!(shown, "\\u{:04x}", u32::from(character));
            }
            _ => shown.push(character),
        }
    }
    shown
}

/// Whether a terminal may obey a character instead of showing it: controls, and those that change the direction of text.
fn is_obeyed(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Paint;

    #[test]
    fn names_are_shown_and_not_obeyed() {
        assert_eq!(printable("a\u{1b}]0;owned\u{7}b"), r"a\u{1b}]0;owned\u{7}b");
        assert_eq!(printable("x\u{9b}2Jy\rz"), r"x\u{9b}2Jy\u{d}z");
        assert_eq!(printable("gpj.\u{202e}exe"), r"gpj.\u{202e}exe");
        assert_eq!(printable("Größe\t日本\n"), "Größe\t日本\n");
    }

    #[test]
    fn our_own_colours_stay() {
        for hue in [Hue::Good, Hue::Busy, Hue::Bad, Hue::Dim] {
            let painted = Paint(true).hue(hue, "Ready");
            assert_eq!(printable(&painted), painted);
        }
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({"name": "a\u{1b}[2J\u{9b}b\u{7f}\u{202e}"});
        let shown = printable_json(&value.to_string());
        assert!(shown.chars().all(|character| !is_obeyed(character)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
