//! Readers of file formats: which parts of a file a program needs next, once it has opened the file. Pure.
//!
//! A film player needs the index, which may be at the end; an archive program the directory; a database the roots of its trees. Each reader
//! looks at the local parts of a file and says which others to pull. Once those are local the reader runs again, until everything that it
//! wants is local. All bytes may be hostile: a bad file costs at most [`RANGES_MAX`] useless ranges of [`RANGE_BYTES_MAX`] each, and
//! [`BYTES_MAX`] in all.

mod matroska;
mod mp4;
mod pdf;
mod sqlite;
mod zip;

use std::ops::Range;

/// The most ranges of one file: the roots of a large database, and pages below some of them.
pub const RANGES_MAX: usize = 512;
/// The most bytes of a range: the index of a film of several hours.
pub const RANGE_BYTES_MAX: u64 = 16 << 20;
/// The most bytes of all ranges of a file.
pub const BYTES_MAX: u64 = 64 << 20;
/// Bytes at the beginning of a file by which its format is recognised.
pub const HEAD_BYTES: u64 = 4096;
/// Bytes to pull at the start of a structure whose length is not known yet.
const GUESS_BYTES: u64 = 64 << 10;

/// The local parts of a file.
pub trait Peek {
    /// Its length in bytes.
    fn len(&self) -> u64;

    /// The bytes of `range`, which ends within the file; `None` if some are not local.
    fn bytes(&self, range: Range<u64>) -> Option<Vec<u8>>;

    /// Whether it is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A format.
pub struct Format {
    /// Its name, for people.
    pub name: &'static str,
    /// Whether a file that begins with these bytes has this format.
    recognises: fn(&[u8]) -> bool,
    /// Says what to pull.
    wants: fn(&dyn Peek, &mut Wants),
    /// Whether programs play it: they jump, and then read on from there.
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

/// The format of a file whose first [`HEAD_BYTES`] are local; `None` if it is unknown.
pub fn recognise(file: &dyn Peek) -> Option<&'static Format> {
    let head = file.bytes(0..HEAD_BYTES.min(file.len()))?;
    FORMATS.iter().find(|format| (format.recognises)(&head))
}

impl Format {
    /// The ranges to pull, in bytes of the file. Some of them may already be local.
    pub fn wants(&self, file: &dyn Peek) -> Vec<Range<u64>> {
        let mut wants = Wants { len: file.len(), ranges: Vec::new(), bytes: 0 };
        (self.wants)(file, &mut wants);
        wants.ranges
    }
}

/// Wanted ranges, kept within the limits.
struct Wants {
    len: u64,
    ranges: Vec<Range<u64>>,
    /// The sum over all ranges.
    bytes: u64,
}

impl Wants {
    /// Wants `bytes` bytes from `start`, as far as the file reaches. Extends the last range if this one follows it directly.
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

/// Up to `count` bytes from `start`, as far as the file reaches; `None` if they are not local.
fn peek(file: &dyn Peek, start: u64, count: u64) -> Option<Vec<u8>> {
    let end = start.saturating_add(count).min(file.len());
    if start < end { file.bytes(start..end) } else { None }
}

/// A big-endian number at `at`, of `count` bytes.
fn be(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// A little-endian number at `at`, of `count` bytes.
fn le(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests;
