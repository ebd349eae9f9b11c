//! SQLite ("Database File Format", sqlite.org/fileformat2.html): page 1 has the schema, which names the roots of all trees.
//! What lies below the roots is left to the queries: each touches few pages of them.

use super::{Peek, Wants, be, peek};

const MAGIC: &[u8] = b"SQLite format 3\0";
/// Before the tree of page 1.
const FILE_HEADER_BYTES: usize = 100;
const LEAF_OF_TABLE: u8 = 13;
/// Roots of trees: in most databases the first pages.
const ROOTS_MAX: usize = 12;
/// Entries of the schema looked at.
const CELLS_MAX: usize = 256;
/// The fourth column of the schema is the root.
const ROOT_COLUMN: usize = 3;

pub(super) fn recognises(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

pub(super) fn wants(file: &dyn Peek, wants: &mut Wants) {
    let Some(page_bytes) = peek(file, 0, 100).as_deref().and_then(page_bytes) else { return };
    let Some(page) = peek(file, 0, page_bytes) else {
        return wants.push(0, page_bytes);
    };
    wants.push(0, page_bytes);
    let mut roots: Vec<u64> = roots(&page).take(CELLS_MAX).collect();
    roots.sort_unstable();
    roots.dedup();
    for root in roots.into_iter().take(ROOTS_MAX) {
        wants.push((root - 1).saturating_mul(page_bytes), page_bytes);
    }
}

fn page_bytes(head: &[u8]) -> Option<u64> {
    match be(head, 16, 2)? {
        1 => Some(65536),
        bytes @ 512..=32768 if bytes.is_power_of_two() => Some(bytes),
        _ => None,
    }
}

/// The roots that the schema names, as numbers of pages, counted from 1. A schema that is more than one page names none here.
fn roots(page: &[u8]) -> impl Iterator<Item = u64> {
    let is_leaf = page.get(FILE_HEADER_BYTES) == Some(&LEAF_OF_TABLE);
    let cells = be(page, FILE_HEADER_BYTES + 3, 2).filter(|_| is_leaf).unwrap_or(0) as usize;
    (0..cells).filter_map(move |cell| root(page, be(page, FILE_HEADER_BYTES + 8 + 2 * cell, 2)? as usize))
}

/// The root that one entry of the schema names.
fn root(page: &[u8], cell: usize) -> Option<u64> {
    let mut at = cell;
    let next = |at: &mut usize| {
        let (value, len) = varint(page.get(*at..)?)?;
        *at += len;
        Some(value)
    };
    let (_payload, _row) = (next(&mut at)?, next(&mut at)?);
    let record = at;
    let header_bytes = usize::try_from(next(&mut at)?).ok()?;
    let mut value = record.checked_add(header_bytes)?;
    for _ in 0..ROOT_COLUMN {
        value = value.checked_add(value_bytes(next(&mut at)?)?)?;
    }
    match next(&mut at)? {
        kind @ 1..=6 => be(page, value, value_bytes(kind)?).filter(|root| *root > 0),
        // The numbers 0 (a view has no root) and 1 take no bytes.
        _ => None,
    }
}

/// Bytes of a value of a serial type.
fn value_bytes(kind: u64) -> Option<usize> {
    Some(match kind {
        0 | 8 | 9 => 0,
        1..=4 => kind as usize,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        kind => usize::try_from((kind - 12) / 2).ok()?,
    })
}

/// Up to nine bytes, seven bits in each of the first eight; and how many they were.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        if at == 8 {
            return Some((value << 8 | u64::from(*byte), 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}
