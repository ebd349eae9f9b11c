//! Which bytes of an answer were asked for.

use super::limits::OBJECT_BYTES_MAX;
use std::ops::Range;

/// The part of a body to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes to skip before it.
    pub skip: u64,
    /// Its length, if known.
    pub take: Option<u64>,
    /// Whether more bytes follow, which are not read.
    pub cut: bool,
}

/// Why a body is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The object is not the one that was expected.
    Damaged(String),
    /// The server did not do as asked.
    Strange(String),
}

/// The part to take of the answer to a request for `range`, or for the whole object, judged by the answer's head.
pub(crate) fn part(
    range: Option<&Range<u64>>,
    content_range: Option<&str>,
    content_length: Option<u64>,
) -> Result<Part, Unfit> {
    if range.map_or(content_length.unwrap_or(0), |range| range.end - range.start) > OBJECT_BYTES_MAX {
        return Err(Unfit::Damaged(format!("it has more than {OBJECT_BYTES_MAX} bytes")));
    }
    let Some(range) = range else {
        return Ok(Part { skip: 0, take: content_length, cut: false });
    };
    let take = range.end - range.start;
    let short =
        |len: u64| Err(Unfit::Damaged(format!("it has {len} bytes, where {} were expected", range.end)));
    let Some(sent) = content_range else {
        // The server supports no ranges and sends the whole object.
        return match content_length {
            Some(len) if len < range.end => short(len),
            _ => Ok(Part { skip: range.start, take: Some(take), cut: true }),
        };
    };
    match parse(sent) {
        Some((sent, Some(len))) if sent.start == range.start && sent.end < range.end && sent.end == len => {
            short(len)
        }
        Some((sent, _)) if sent == *range && content_length.is_none_or(|len| len == take) => {
            Ok(Part { skip: 0, take: Some(take), cut: false })
        }
        _ => Err(Unfit::Strange("it sent other bytes than those that were asked for".into())),
    }
}

/// `bytes 0-9/100` or `bytes 0-9/*`.
fn parse(content_range: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, len) = content_range.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let end = last.trim().parse::<u64>().ok()?.checked_add(1)?;
    Some((first.trim().parse().ok()?..end, len.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(range: Range<u64>, sent: Option<&str>, len: Option<u64>) -> Result<Part, Unfit> {
        part(Some(&range), sent, len)
    }

    #[test]
    fn a_range_is_what_was_asked_for() {
        let whole = Part { skip: 0, take: Some(10), cut: false };
        assert_eq!(of(5..15, Some("bytes 5-14/100"), Some(10)), Ok(whole));
        assert_eq!(of(5..15, Some("bytes 5-14/*"), None), Ok(whole));
        assert_eq!(part(None, None, Some(7)), Ok(Part { skip: 0, take: Some(7), cut: false }));
    }

    #[test]
    fn a_whole_in_place_of_a_range_is_cut() {
        assert_eq!(of(5..15, None, Some(100)), Ok(Part { skip: 5, take: Some(10), cut: true }));
        assert!(matches!(of(5..15, None, Some(14)), Err(Unfit::Damaged(_))));
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(matches!(of(5..15, Some("bytes 5-9/10"), Some(5)), Err(Unfit::Damaged(_))));
        for sent in
            ["bytes 5-9/100", "bytes 0-14/100", "bytes 5-15/100", "5-14", "bytes 5-18446744073709551615/9"]
        {
            assert!(matches!(of(5..15, Some(sent), None), Err(Unfit::Strange(_))), "{sent}");
        }
        assert!(matches!(of(5..15, Some("bytes 5-14/100"), Some(11)), Err(Unfit::Strange(_))));
        assert!(matches!(of(0..1 << 40, None, None), Err(Unfit::Damaged(_))));
        assert!(matches!(part(None, None, Some(1 << 40)), Err(Unfit::Damaged(_))));
    }
}
