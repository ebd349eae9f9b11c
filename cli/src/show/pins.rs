//! Puts pins into words.

use crate::api::{Evicted, Pin, PinState, Waited};
use crate::output::{Hue, Paint};
use crate::show::table::Table;
use crate::sizes::format_bytes;

/// Each pin in words, and then what cannot be read of it.
pub fn each(pins: &[Pin], words: fn(&Pin) -> String) -> String {
    let mut lines: Vec<_> = pins.iter().map(words).collect();
    lines.extend(pins.iter().filter(|pin| pin.unreadable > 0).map(unreadable));
    lines.join("\n")
}

/// How much of it is here.
pub fn looked(pin: &Pin) -> String {
    let here = match pin.bytes.saturating_sub(pin.ready_bytes) {
        0 => "all of it is on this computer".to_owned(),
        missing => format!("{} is online only", format_bytes(missing)),
    };
    format!("{}: {}, {here}", shown(pin), size(pin))
}

fn size(pin: &Pin) -> String {
    match pin.path {
        Some(_) => format!("{} in {}", format_bytes(pin.bytes), files(pin.files_total)),
        None => format_bytes(pin.bytes),
    }
}

/// The pin that would be made.
pub fn would_be(pin: &Pin) -> String {
    let missing = pin.bytes.saturating_sub(pin.ready_bytes);
    format!(
        "{}: {}, of which {} would be downloaded. Nothing was pinned",
        shown(pin),
        size(pin),
        format_bytes(missing)
    )
}

/// A new pin.
pub fn kept(pin: &Pin) -> String {
    match (&pin.path, pin.is_ready()) {
        (_, true) if pin.path.is_some() || pin.files_total > 0 => {
            format!(
                "{}: Ready for offline: {} of {}",
                shown(pin),
                grouped(pin.files_ready),
                grouped(pin.files_total)
            )
        }
        (_, true) => format!("{}: Ready for offline: {}", shown(pin), format_bytes(pin.bytes)),
        (_, false) => {
            let missing = pin.bytes.saturating_sub(pin.ready_bytes);
            format!(
                "{} is kept on this computer from now on; {} is downloaded in the background. See holdall pins",
                shown(pin),
                format_bytes(missing)
            )
        }
    }
}

fn unreadable(pin: &Pin) -> String {
    format!("{}: not kept, because you may not read them: {}", shown(pin), files(pin.unreadable))
}

/// The pins that were removed.
pub fn unpinned(pins: &[Pin]) -> String {
    let line = |pin: &Pin| match pin.ready_bytes {
        0 => format!("{} is no longer kept", shown(pin)),
        bytes => {
            let left = format_bytes(bytes);
            format!("{} is no longer kept; {left} of it stays here until the space is needed", shown(pin))
        }
    };
    pins.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// All pins.
pub fn list(pins: &[Pin], paint: Paint) -> String {
    if pins.is_empty() {
        return "Nothing is pinned".to_owned();
    }
    let mut table = Table::new(["PINNED", "STATE", "FILES", "HERE", "OF"]);
    for pin in pins {
        let counted = format!("{} of {}", grouped(pin.files_ready), grouped(pin.files_total));
        table.row([
            shown(pin),
            paint.hue(hue(pin.state), word(pin.state)),
            if pin.path.is_some() || pin.files_total > 0 { counted } else { "all".to_owned() },
            format_bytes(pin.ready_bytes),
            format_bytes(pin.bytes),
        ]);
    }
    let mut text = table.to_string();
    for pin in pins {
        if let Some(reason) = &pin.reason {
            text.push_str(&format!("{}: {reason}\n", shown(pin)));
        }
        if pin.unreadable > 0 {
            text.push_str(&unreadable(pin));
            text.push('\n');
        }
    }
    text
}

/// The result of an eviction.
pub fn evicted(evicted: &Evicted) -> String {
    let freed = format!("Freed {} on this computer", format_bytes(evicted.bytes_freed));
    match evicted.stayed_bytes {
        0 => freed,
        bytes => format!(
            "{freed}; {} was kept: pending uploads, folder listings and pinned files",
            format_bytes(bytes)
        ),
    }
}

/// Enough is here.
pub fn waited(waited: &Waited) -> String {
    format!("{} of {} is on this computer", format_bytes(waited.ready_bytes), format_bytes(waited.bytes))
}

fn shown(pin: &Pin) -> String {
    match (&pin.at, &pin.path) {
        (Some(at), Some(_)) => at.clone(),
        (None, Some(path)) => format!("{}: {path}", pin.drive),
        (_, None) => format!("The drive {}", pin.drive),
    }
}

fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{} files", grouped(count)) }
}

/// 1204 as 1,204.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn word(state: PinState) -> &'static str {
    match state {
        PinState::AlwaysKeep => "Always keep",
        PinState::Syncing => "Syncing",
        PinState::Offline => "Offline",
        PinState::Paused => "Paused",
        PinState::Error => "Error",
        PinState::Closed => "Closed",
    }
}

fn hue(state: PinState) -> Hue {
    match state {
        PinState::AlwaysKeep => Hue::Good,
        PinState::Syncing | PinState::Offline | PinState::Paused => Hue::Busy,
        PinState::Error => Hue::Bad,
        PinState::Closed => Hue::Dim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin() -> Pin {
        Pin {
            drive: "work".to_owned(),
            path: Some("letters".to_owned()),
            at: Some("/home/ann/Holdall/work/letters".to_owned()),
            state: PinState::AlwaysKeep,
            reason: None,
            files_ready: 1204,
            files_total: 1204,
            bytes: 3 << 20,
            ready_bytes: 3 << 20,
            unreadable: 0,
        }
    }

    #[test]
    fn pins_are_worded() {
        let ready = pin();
        assert_eq!(
            each(std::slice::from_ref(&ready), kept),
            "/home/ann/Holdall/work/letters: Ready for offline: 1,204 of 1,204"
        );
        let coming = Pin { state: PinState::Syncing, ready_bytes: 1 << 20, unreadable: 1, ..pin() };
        let text = each(std::slice::from_ref(&coming), kept);
        assert!(
            text.contains("2 MiB is downloaded") && text.contains("you may not read them: 1 file"),
            "{text}"
        );
        let text = each(std::slice::from_ref(&coming), would_be);
        assert!(text.contains("3 MiB in 1,204 files, of which 2 MiB"), "{text}");
        let text = each(std::slice::from_ref(&coming), looked);
        assert!(text.contains("3 MiB in 1,204 files, 2 MiB is online only"), "{text}");
        let whole = Pin { path: None, at: None, ..pin() };
        let counted = "The drive work: Ready for offline: 1,204 of 1,204";
        assert_eq!(each(std::slice::from_ref(&whole), kept), counted);
        let uncounted = Pin { files_total: 0, files_ready: 0, ..whole.clone() };
        assert_eq!(each(&[uncounted], kept), "The drive work: Ready for offline: 3 MiB");
        let text = list(&[ready, coming, whole], Paint(false));
        assert!(text.lines().nth(1).unwrap().contains("Always keep  1,204 of 1,204"), "{text}");
        assert_eq!(list(&[], Paint(false)), "Nothing is pinned");
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
