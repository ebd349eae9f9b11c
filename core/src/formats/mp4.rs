//! MP4 and QuickTime (ISO/IEC 14496-12): boxes, one after another. The index is `moov`, before or after the media (`mdat`). A fragmented
//! file may have an index of its fragments at the end (`mfra`, whose last word is its length).

use super::{GUESS_BYTES, Peek, RANGE_BYTES_MAX, Wants, be, peek};

/// The most boxes to look at.
const BOXES_MAX: usize = 64;
/// The media that a player reads first.
const MEDIA_BYTES: u64 = 256 << 10;
const HEADER_BYTES: u64 = 16;

pub(super) fn recognises(head: &[u8]) -> bool {
    let kinds: [&[u8]; 6] = [b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"];
    head.get(4..8).is_some_and(|kind| kinds.contains(&kind)) && be(head, 0, 4) != Some(0)
}

pub(super) fn wants(file: &dyn Peek, wants: &mut Wants) {
    let mut at = 0;
    let mut has_index = false;
    for _ in 0..BOXES_MAX {
        let Some(header) = peek(file, at, HEADER_BYTES) else {
            // The index follows the media, usually up to the end of the file.
            let rest = file.len().saturating_sub(at);
            let is_index = !has_index && rest <= RANGE_BYTES_MAX;
            return wants.push(at, if is_index { rest } else { GUESS_BYTES });
        };
        let (Some(short), Some(kind)) = (be(&header, 0, 4), header.get(4..8)) else { return };
        let bytes = match short {
            0 => file.len() - at,
            1 => be(&header, 8, 8).unwrap_or(0),
            short => short,
        };
        match kind {
            b"moov" => {
                wants.push(at, bytes);
                has_index = true;
            }
            b"sidx" => wants.push(at, bytes),
            b"mdat" => wants.push(at, bytes.min(MEDIA_BYTES)),
            b"moof" => {
                wants.push(at, bytes.saturating_add(MEDIA_BYTES).min(4 * MEDIA_BYTES));
                return fragments(file, wants);
            }
            _ => {}
        }
        match at.checked_add(bytes) {
            Some(next) if bytes >= 8 && next < file.len() => at = next,
            _ => return,
        }
    }
}

/// The index of the fragments, if there is one.
fn fragments(file: &dyn Peek, wants: &mut Wants) {
    let Some(last) = peek(file, file.len().saturating_sub(16), 16) else {
        return wants.tail(GUESS_BYTES);
    };
    if last.get(4..8) == Some(b"mfro")
        && let Some(bytes) = be(&last, 12, 4)
    {
        wants.tail(bytes);
    }
}
