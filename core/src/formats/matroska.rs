//! Matroska and WebM (RFC 9559, EBML by RFC 8794): elements of an ID, a length and a body. The first element of the segment (SeekHead) says
//! where the others are, among them the index of the media (Cues).

use super::{GUESS_BYTES, Peek, Wants, be, peek};

const EBML: u64 = 0x1a45_dfa3;
const SEGMENT: u64 = 0x1853_8067;
const SEEK_HEAD: u64 = 0x114d_9b74;
const SEEK: u64 = 0x4dbb;
const SEEK_ID: u64 = 0x53ab;
const SEEK_POSITION: u64 = 0x53ac;
const CUES: u64 = 0x1c53_bb6b;
const CLUSTER: u64 = 0x1f43_b675;

/// The most elements to look at on one level.
const ELEMENTS_MAX: usize = 64;
/// The media that a player reads first.
const MEDIA_BYTES: u64 = 256 << 10;
const HEADER_BYTES: u64 = 12;
/// The most bytes of a SeekHead: such lists are short.
const SEEK_HEAD_BYTES_MAX: u64 = 16 << 10;

/// An element's header.
struct Element {
    id: u64,
    /// Where its body begins.
    body: u64,
    /// `None` if it continues until another element ends it.
    bytes: Option<u64>,
}

pub(super) fn recognises(head: &[u8]) -> bool {
    be(head, 0, 4) == Some(EBML)
}

pub(super) fn wants(file: &dyn Peek, wants: &mut Wants) {
    let Some(header) = element(file, 0) else { return };
    let Some(segment) = header.end().and_then(|end| element(file, end)) else { return };
    if segment.id != SEGMENT {
        return;
    }
    let mut at = segment.body;
    for _ in 0..ELEMENTS_MAX {
        let Some(element) = element(file, at) else { return wants.push(at, GUESS_BYTES) };
        match element.id {
            SEEK_HEAD => seek_head(file, &segment, &element, wants),
            CUES => wants.push(at, element.body - at + element.bytes.unwrap_or(GUESS_BYTES)),
            // The media begins here.
            CLUSTER => return wants.push(at, MEDIA_BYTES),
            _ => {}
        }
        match element.end() {
            Some(end) if end > at && end < file.len() => at = end,
            _ => return,
        }
    }
}

fn seek_head(file: &dyn Peek, segment: &Element, element: &Element, wants: &mut Wants) {
    let bytes = element.bytes.unwrap_or(0).min(SEEK_HEAD_BYTES_MAX);
    let Some(body) = peek(file, element.body, bytes) else {
        return wants.push(element.body, bytes);
    };
    for (_, seek) in children(&body).filter(|(id, _)| *id == SEEK) {
        let number = |of: u64| {
            let (_, value) = children(seek).find(|(id, _)| *id == of)?;
            be(value, 0, value.len().min(8))
        };
        if number(SEEK_ID) == Some(CUES)
            && let Some(at) = number(SEEK_POSITION).and_then(|position| segment.body.checked_add(position))
        {
            let bytes = self::element(file, at)
                .filter(|element| element.id == CUES)
                .and_then(|element| Some(element.end()? - at));
            wants.push(at, bytes.unwrap_or(GUESS_BYTES));
        }
    }
}

impl Element {
    fn end(&self) -> Option<u64> {
        self.body.checked_add(self.bytes?)
    }
}

fn element(file: &dyn Peek, at: u64) -> Option<Element> {
    let bytes = peek(file, at, HEADER_BYTES)?;
    let (id, id_len) = id(&bytes)?;
    let (len, len_len) = length(bytes.get(id_len..)?)?;
    Some(Element { id, body: at.checked_add((id_len + len_len) as u64)?, bytes: len })
}

/// The elements within a local body.
fn children(body: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (id, id_len) = id(rest)?;
        let (len, len_len) = length(rest.get(id_len..)?)?;
        let start = id_len + len_len;
        let end = start.checked_add(usize::try_from(len?).ok()?)?;
        let body = rest.get(start..end)?;
        rest = &rest[end..];
        Some((id, body))
    })
    .take(ELEMENTS_MAX)
}

/// An ID with its marker, and its length.
fn id(bytes: &[u8]) -> Option<(u64, usize)> {
    let len = bytes.first()?.leading_zeros() as usize + 1;
    (len <= 4).then(|| be(bytes, 0, len)).flatten().map(|id| (id, len))
}

/// A length without its marker, and the number of its bytes. The length is `None` if it is marked as unknown.
fn length(bytes: &[u8]) -> Option<(Option<u64>, usize)> {
    let len = bytes.first()?.leading_zeros() as usize + 1;
    if len > 8 {
        return None;
    }
    let mask = (1_u64 << (7 * len)) - 1;
    let value = be(bytes, 0, len)? & mask;
    Some(((value != mask).then_some(value), len))
}
