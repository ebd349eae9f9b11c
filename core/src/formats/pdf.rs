//! PDF (ISO 32000-1, 7.5): the last line but one says where the table of objects is. The table's trailer may name an earlier table.

use super::{GUESS_BYTES, Peek, Wants, peek};

const TAIL_BYTES: u64 = 16 << 10;
/// The most tables to follow, one version after another.
const TABLES_MAX: usize = 4;

pub(super) fn recognises(head: &[u8]) -> bool {
    head.starts_with(b"%PDF-")
}

pub(super) fn wants(file: &dyn Peek, wants: &mut Wants) {
    wants.tail(TAIL_BYTES);
    let Some(tail) = peek(file, file.len().saturating_sub(TAIL_BYTES), TAIL_BYTES) else { return };
    let mut table = last_number_after(&tail, b"startxref");
    for _ in 0..TABLES_MAX {
        let Some(at) = table.filter(|at| *at < file.len()) else { return };
        wants.push(at, GUESS_BYTES);
        let Some(bytes) = peek(file, at, GUESS_BYTES) else { return };
        let trailer = bytes.windows(9).position(|window| window == b"startxref").unwrap_or(bytes.len());
        table = last_number_after(&bytes[..trailer], b"/Prev").filter(|earlier| *earlier < at);
    }
}

/// The number that follows the last occurrence of `word`.
fn last_number_after(bytes: &[u8], word: &[u8]) -> Option<u64> {
    let at = bytes.windows(word.len()).rposition(|window| window == word)?;
    let text = bytes[at + word.len()..].trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).take(19);
    let number = std::str::from_utf8(&text[..digits.count()]).ok()?;
    number.parse().ok()
}
