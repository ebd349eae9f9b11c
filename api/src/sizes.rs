//! Sizes and durations as people write and read them.
//!
//! `G` and `GiB` are 1024 cubed, `GB` is 1000 cubed: dd, truncate and LVM read `G` like this, and disks are sold in `GB`.

use std::time::Duration;

/// Why a text is not a size or not a duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It is not a number with a unit of size.
    #[error("\"{text}\" is not a size: write a number and a unit, such as 10G, 1.5TiB or 500MB")]
    NotASize {
        /// The text.
        text: String,
    },
    /// It is not a number with a unit of time.
    #[error("\"{text}\" is not a duration: write a number and a unit, such as 500ms, 30s, 5min or 2h")]
    NotADuration {
        /// The text.
        text: String,
    },
    /// There are no fractions of a byte.
    #[error("\"{text}\" is not a whole number of bytes: add a unit, such as {text}G")]
    Fraction {
        /// The text.
        text: String,
    },
    /// Nothing has size 0.
    #[error("\"{text}\" is nothing: it must be more than 0")]
    Zero {
        /// The text.
        text: String,
    },
    /// It does not fit in 64 bits.
    #[error("\"{text}\" is too large")]
    TooLarge {
        /// The text.
        text: String,
    },
}

/// The number of bytes in `text`: `4096`, `10G`, `1.5T`, `1TiB`, `500MB`. If a unit is given, fractions of a byte are cut off.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let owned = || text.to_owned();
    let not_a_size = || SizeError::NotASize { text: owned() };
    let (number, unit) = Number::split(text).ok_or_else(not_a_size)?;
    let unit_bytes = size_unit(unit).ok_or_else(not_a_size)?;
    if unit_bytes == 1 && number.scale != 1 {
        return Err(SizeError::Fraction { text: owned() });
    }
    match number.times(unit_bytes) {
        Some(0) => Err(SizeError::Zero { text: owned() }),
        Some(bytes) => Ok(bytes),
        None => Err(SizeError::TooLarge { text: owned() }),
    }
}

/// The duration in `text`: `500ms`, `30s`, `5min` or `5m`, `2h`, `7d`. A bare number is refused: it has no unit.
pub fn parse_duration(text: &str) -> Result<Duration, SizeError> {
    let owned = || text.to_owned();
    let not_a_duration = || SizeError::NotADuration { text: owned() };
    let (number, unit) = Number::split(text).ok_or_else(not_a_duration)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" | "sec" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(not_a_duration()),
    };
    match number.times(unit_ms) {
        Some(0) => Err(SizeError::Zero { text: owned() }),
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => Err(SizeError::TooLarge { text: owned() }),
    }
}

/// `bytes` for people: `12.3 MiB`, `10 GiB`, `0 B`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut power = (bytes.ilog2() / 10) as usize;
    let mut tenths = tenths_of(bytes, power);
    // 1023.5 MiB rounds to 1 GiB, which people would rather read.
    if tenths >= 10_235 && power < UNITS.len() {
        power += 1;
        tenths = tenths_of(bytes, power);
    }
    let unit = UNITS[power - 1];
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, _) if whole >= 100 => format!("{} {unit}", (tenths + 5) / 10),
        (whole, tenth) => format!("{whole}.{tenth} {unit}"),
    }
}

/// A duration for people, in its largest unit: `3 s`, `2 min`, `5 h`, `12 d`.
pub fn format_duration(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// How long ago something was, for people: `just now`, `2 min ago`.
pub fn format_age(age: Duration) -> String {
    match age.as_secs() {
        0..5 => "just now".to_owned(),
        _ => format!("{} ago", format_duration(age)),
    }
}

fn tenths_of(bytes: u64, power: usize) -> u64 {
    let unit = 1u128 << (10 * power);
    ((u128::from(bytes) * 10 + unit / 2) / unit) as u64
}

fn size_unit(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (letter, rest) = unit.split_at_checked(1).unwrap_or(("", ""));
    let power = match letter {
        "" => return Some(1),
        "b" if rest.is_empty() => return Some(1),
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        "e" => 6,
        _ => return None,
    };
    match rest {
        "" | "ib" => Some(1024u64.pow(power)),
        "b" => Some(1000u64.pow(power)),
        _ => None,
    }
}

/// An exact decimal number: `1.5` is 15 tenths. A float would make 1.1T another size than people compute.
struct Number {
    digits: u128,
    scale: u128,
}

impl Number {
    /// The number that `text` begins with, and its unit.
    fn split(text: &str) -> Option<(Number, &str)> {
        // 20 digits hold every u64. A product that does not fit into u128 is too large in any case.
        const DIGITS: usize = 20;
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let dangling = whole.is_empty() || number.ends_with('.') || decimals.contains('.');
        if dangling || whole.len() > DIGITS || decimals.len() > 9 {
            return None;
        }
        let digits = format!("{whole}{decimals}").parse().ok()?;
        Some((Number { digits, scale: 10u128.pow(decimals.len() as u32) }, unit.trim_start()))
    }

    fn times(&self, unit: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(unit))?;
        u64::try_from(product / self.scale).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        const GIB: u64 = 1 << 30;
        for (text, bytes) in [
            ("4096", 4096),
            ("4096B", 4096),
            ("1K", 1024),
            ("10G", 10 * GIB),
            ("10 GiB", 10 * GIB),
            ("10gib", 10 * GIB),
            ("10GB", 10_000_000_000),
            ("500MB", 500_000_000),
            ("1KB", 1000),
            ("1TiB", 1024 * GIB),
            ("1.5T", 1536 * GIB),
            ("0.5K", 512),
            ("0.3K", 307),
            ("16383P", 16383 << 50),
            ("1.5EiB", 3 << 59),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn errors_show_how_a_size_looks() {
        for text in
            ["", "G", "ten", "-1G", "1..5G", "1.5.5G", ".5G", "5.G", "10X", "10Gi", "1e9", "1,5G", "0x10"]
        {
            assert!(matches!(parse_size(text), Err(SizeError::NotASize { .. })), "{text}");
        }
        assert!(matches!(parse_size("1.5"), Err(SizeError::Fraction { .. })));
        assert!(matches!(parse_size("0"), Err(SizeError::Zero { .. })));
        assert!(matches!(parse_size("0.0G"), Err(SizeError::Zero { .. })));
        assert!(matches!(parse_size("18446744073709551616"), Err(SizeError::TooLarge { .. })));
        assert!(matches!(parse_size("16384P"), Err(SizeError::TooLarge { .. })));
        assert!(matches!(parse_size("99999999999999999999.999999999P"), Err(SizeError::TooLarge { .. })));
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, ms) in
            [("500ms", 500), ("30s", 30_000), ("1.5s", 1_500), ("5min", 300_000), ("2 h", 7_200_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_duration("5m"), parse_duration("5min"));
        for text in ["30", "", "s", "5 fortnights", "-5s"] {
            assert!(matches!(parse_duration(text), Err(SizeError::NotADuration { .. })), "{text}");
        }
        assert!(matches!(parse_duration("0s"), Err(SizeError::Zero { .. })));
        assert!(matches!(parse_duration("99999999999999999d"), Err(SizeError::TooLarge { .. })));
    }

    #[test]
    fn bytes_are_written_in_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (12_897_485, "12.3 MiB"),
            (150 << 20 | 512 << 10, "151 MiB"),
            (10 << 30, "10 GiB"),
            ((1 << 30) - 1, "1 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(format_bytes(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn formatted_sizes_parse_again() {
        for bytes in [1, 1024, 1536, 10 << 30, 3 << 40, 7 << 50] {
            assert_eq!(parse_size(&format_bytes(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn ages_have_one_unit() {
        for (seconds, text) in
            [(0, "just now"), (5, "5 s ago"), (150, "2 min ago"), (7_300, "2 h ago"), (200_000, "2 d ago")]
        {
            assert_eq!(format_age(Duration::from_secs(seconds)), text);
        }
    }
}
