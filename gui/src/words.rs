//! Sizes and times as people read them at a glance.

use crate::texts::{counted, said, text};

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Bytes in steps of 1024, with at most three digits: `1.2 GiB`. The pages, the command line and the daemon write them in the same way.
pub fn size(bytes: u64) -> String {
    let (mut scaled, mut unit) = (bytes as f64, 0);
    // 999.6 KiB would be shown as 1000 KiB.
    while scaled >= 999.5 && unit < UNITS.len() - 1 {
        scaled /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || scaled >= 99.95 { 0 } else { 1 };
    let text = format!("{scaled:.digits$}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

/// The amount that is only on this computer: a size, or "some" if it was not counted.
pub fn unsent(bytes: u64, is_known: bool) -> String {
    if is_known { size(bytes) } else { text("words.some") }
}

/// `text` with a capital letter.
pub fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// How long something still takes: `30 s`, `4 min`, `2 h 5 min`.
pub fn left(seconds: u64) -> String {
    match seconds {
        0..60 => counted("words.seconds", seconds.max(1), &[]),
        60..3600 => counted("words.minutes", seconds.div_ceil(60), &[]),
        _ => {
            let minutes = seconds.div_ceil(60);
            said(
                "words.hours",
                &[("hours", &(minutes / 60).to_string()), ("minutes", &(minutes % 60).to_string())],
            )
        }
    }
}

/// `text` with a capital letter and a full stop: reasons are parts of sentences. A name at the beginning stays as it is.
pub fn sentence(text: &str, names: &[&str]) -> String {
    let begins_with = |name: &&&str| !name.is_empty() && text.trim().starts_with(**name);
    let mut rest = text.trim().chars();
    let capital: String = match names.iter().find(begins_with) {
        Some(_) => String::new(),
        None => rest.next().map(|first| first.to_uppercase().collect()).unwrap_or_default(),
    };
    let stop = if text.trim_end().ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{capital}{}{stop}", rest.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_at_most_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 KiB"),
            (1 << 20, "1 MiB"),
            (1_288_490_189, "1.2 GiB"),
            (150 << 20, "150 MiB"),
            (1023 << 20, "1 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn sentences_start_with_a_capital_or_a_name() {
        assert_eq!(sentence("the store is away", &["vm"]), "The store is away.");
        assert_eq!(sentence("vm has it", &["pc", "vm"]), "vm has it.");
        assert_eq!(sentence("Is it?", &[""]), "Is it?");
    }

    #[test]
    fn times_are_rounded_up() {
        for (seconds, text) in [(0, "1 s"), (45, "45 s"), (60, "1 min"), (61, "2 min"), (7_500, "2 h 5 min")]
        {
            assert_eq!(left(seconds), text);
        }
    }
}
