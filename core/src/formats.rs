//! Readers of file formats: what of a file a program asks for next, once it has opened it. Pure.
//!
//! A film wants its index, which may lie at its end; an archive its directory; a database the roots of its trees. Each
//! reader looks at what is local of a file and says what else to pull. When that is local it is asked again, until it wants
//! nothing that is missing. All bytes may be hostile: a file can cost at most [`RANGES_MAX`] ranges of
//! [`RANGE_BYTES_MAX`], and [`BYTES_MAX`] of all of them, that are of no use.

mod matroska;
mod mp4;
mod pdf;
mod sqlite;
mod zip;

use std::ops::Range;

/// At most so many ranges of one file: the roots of a large database, and what lies below some of them.
pub const RANGES_MAX: usize = 512;
/// Each of at most so many bytes: the index of a film of several hours.
pub const RANGE_BYTES_MAX: u64 = 16 << 20;
/// All of them of at most so many bytes.
pub const BYTES_MAX: u64 = 64 << 20;
/// Bytes at the beginning of a file by which its format is recognised.
pub const HEAD_BYTES: u64 = 4096;
/// Where a structure begins whose length is not known yet, so much is pulled.
const GUESS_BYTES: u64 = 64 << 10;

/// What is local of a file.
pub trait Peek {
    /// Its length in bytes.
    fn len(&self) -> u64;

    /// The bytes of `range`, which ends within the file; none where some are not local.
    fn bytes(&self, range: Range<u64>) -> Option<Vec<u8>>;

    /// Whether it is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A format.
pub struct Format {
    /// What people call it.
    pub name: &'static str,
    /// Whether a file that begins with these bytes is one.
    recognises: fn(&[u8]) -> bool,
    /// What to pull of it.
    wants: fn(&dyn Peek, &mut Wants),
    /// Whether programs play it: they jump, and read on from there.
    pub is_played: bool,
}

/// To read another format, add it here.
const FORMATS: &[Format] = &[
    Format { name: "MP4", recognises: mp4::recognises, wants: mp4::wants, is_played: true },
    Format { name: "Matroska", recognises: matroska::recognises, wants: matroska::wants, is_played: true },
    Format { name: "SQLite", recognises: sqlite::recognises, wants: sqlite::wants, is_played: false },
    Format { name: "ZIP", recognises: zip::recognises, wants: zip::wants, is_played: false },
    Format { name: "PDF", recognises: pdf::recognises, wants: pdf::wants, is_played: false },
];

/// The format of a file whose first [`HEAD_BYTES`] are local; none where it is not known.
pub fn recognise(file: &dyn Peek) -> Option<&'static Format> {
    let head = file.bytes(0..HEAD_BYTES.min(file.len()))?;
    FORMATS.iter().find(|format| (format.recognises)(&head))
}

impl Format {
    /// What to pull, in bytes of the file. Some of it may be local.
    pub fn wants(&self, file: &dyn Peek) -> Vec<Range<u64>> {
        let mut wants = Wants { len: file.len(), ranges: Vec::new(), bytes: 0 };
        (self.wants)(file, &mut wants);
        wants.ranges
    }
}

/// Ranges that are kept within their bounds.
struct Wants {
    len: u64,
    ranges: Vec<Range<u64>>,
    /// Of all ranges.
    bytes: u64,
}

impl Wants {
    /// Wants so many bytes from `start`, as far as the file goes. What follows what was wanted last is one with it.
    fn push(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes.min(RANGE_BYTES_MAX)).min(self.len);
        let is_wanted = |range: &Range<u64>| range.start <= start && end <= range.end;
        if start >= end || self.ranges.iter().any(is_wanted) || self.bytes + (end - start) > BYTES_MAX {
            return;
        }
        let has_room = self.ranges.len() < RANGES_MAX;
        match self.ranges.last_mut() {
            Some(last) if last.end == start && end - last.start <= RANGE_BYTES_MAX => last.end = end,
            _ if has_room => self.ranges.push(start..end),
            _ => return,
        }
        self.bytes += end - start;
    }

    /// The last bytes of the file.
    fn tail(&mut self, bytes: u64) {
        self.push(self.len.saturating_sub(bytes), bytes);
    }
}

/// Up to `count` bytes from `start`, as far as the file goes; none where they are not local.
fn peek(file: &dyn Peek, start: u64, count: u64) -> Option<Vec<u8>> {
    let end = start.saturating_add(count).min(file.len());
    if start < end { file.bytes(start..end) } else { None }
}

/// A big-endian number of the bytes at `at`.
fn be(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// A little-endian number of the bytes at `at`.
fn le(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests;
