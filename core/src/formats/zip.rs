//! ZIP (PKWARE's APPNOTE), and the formats based on it: office documents, EPUB, JAR. The directory is at the end.

use super::{GUESS_BYTES, Peek, Wants, le, peek};

const ENTRY: &[u8] = b"PK\x03\x04";
const EMPTY: &[u8] = b"PK\x05\x06";
const END: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const LOCATOR: &[u8] = b"PK\x06\x07";
const LOCATOR_BYTES: usize = 20;
const END_64: &[u8] = b"PK\x06\x06";
/// Stands in place of a number that does not fit.
const ELSEWHERE: u64 = 0xffff_ffff;

pub(super) fn recognises(head: &[u8]) -> bool {
    head.starts_with(ENTRY) || head.starts_with(EMPTY)
}

pub(super) fn wants(file: &dyn Peek, wants: &mut Wants) {
    wants.tail(GUESS_BYTES);
    let start = file.len().saturating_sub(GUESS_BYTES);
    let Some(tail) = peek(file, start, GUESS_BYTES) else { return };
    let last = tail.len().checked_sub(END_BYTES);
    let found = last.and_then(|last| (0..=last).rev().find(|at| tail[*at..].starts_with(END)));
    let Some(end) = found else { return };
    let directory = (le(&tail, end + 16, 4), le(&tail, end + 12, 4));
    match directory {
        (Some(ELSEWHERE), _) | (_, Some(ELSEWHERE)) => large(file, &tail, end, wants),
        (Some(offset), Some(bytes)) => wants.push(offset, bytes),
        _ => {}
    }
}

/// The directory of an archive that needs 64-bit numbers.
fn large(file: &dyn Peek, tail: &[u8], end: usize, wants: &mut Wants) {
    let Some(locator) = end.checked_sub(LOCATOR_BYTES).and_then(|at| tail.get(at..end)) else { return };
    if !locator.starts_with(LOCATOR) {
        return;
    }
    let Some(at) = le(locator, 8, 8) else { return };
    let Some(record) = peek(file, at, 56) else { return wants.push(at, 56) };
    if record.starts_with(END_64)
        && let (Some(bytes), Some(offset)) = (le(&record, 40, 8), le(&record, 48, 8))
    {
        wants.push(offset, bytes);
    }
}
