//! People's files: the parts that are pulled because the format says that they are read next.

use holdall_core::formats::{BYTES_MAX, HEAD_BYTES, Peek, RANGE_BYTES_MAX, RANGES_MAX, recognise};
use std::cell::RefCell;
use std::ops::Range;

const BLOCK: u64 = 4096;
/// No reader looks at more at once; the most is the first page of a database, which is a guess.
const LOOK_BYTES_MAX: u64 = 64 << 10;
/// Rounds until a reader wants nothing that is missing. Each can name the next link of a chain.
const ROUNDS_MAX: usize = 100;

/// A file with the input's two parts at its ends and zeros in between. Only some of it is local.
struct Sparse<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    len: u64,
    local: RefCell<Vec<Range<u64>>>,
}

impl<'a> Sparse<'a> {
    /// The first byte says how many zeros there are, the next two where the input is cut.
    fn new(input: &'a [u8]) -> Option<Self> {
        let (&[zeros, high, low], rest) = input.split_first_chunk()?;
        let (head, tail) = rest.split_at(usize::from(u16::from_be_bytes([high, low])).min(rest.len()));
        let zeros = if zeros == 0 { 0 } else { 1_u64 << (zeros % 63) };
        let local = RefCell::new(std::iter::once(0..HEAD_BYTES).collect());
        Some(Self { head, tail, len: rest.len() as u64 + zeros, local })
    }

    fn is_local(&self, range: &Range<u64>) -> bool {
        let local = self.local.borrow();
        let mut at = range.start / BLOCK * BLOCK;
        while at < range.end {
            match local.iter().find(|known| known.contains(&at)) {
                Some(known) => at = known.end,
                None => return false,
            }
        }
        true
    }

    fn byte(&self, at: u64) -> u8 {
        let tail_from = self.len - self.tail.len() as u64;
        let found = match at.checked_sub(tail_from) {
            Some(at) => self.tail.get(at as usize),
            None => self.head.get(at as usize),
        };
        found.copied().unwrap_or(0)
    }
}

impl Peek for Sparse<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn bytes(&self, range: Range<u64>) -> Option<Vec<u8>> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        assert!(range.end - range.start <= LOOK_BYTES_MAX, "{range:?}");
        self.is_local(&range).then(|| range.map(|at| self.byte(at)).collect())
    }
}

/// The wanted ranges lie in the file, are bounded, and come to an end.
pub fn files(input: &[u8]) {
    let Some(file) = Sparse::new(input) else { return };
    for _ in 0..ROUNDS_MAX {
        let Some(format) = recognise(&file) else { return };
        let wants = format.wants(&file);
        assert!(wants.len() <= RANGES_MAX);
        assert!(wants.iter().map(|want| want.end - want.start).sum::<u64>() <= BYTES_MAX);
        for want in &wants {
            assert!(want.start < want.end && want.end <= file.len, "{want:?} of {}", file.len);
            assert!(want.end - want.start <= RANGE_BYTES_MAX, "{want:?}");
        }
        let missing: Vec<_> = wants.into_iter().filter(|want| !file.is_local(want)).collect();
        if missing.is_empty() {
            return;
        }
        let whole = |want: Range<u64>| want.start / BLOCK * BLOCK..want.end.next_multiple_of(BLOCK);
        file.local.borrow_mut().extend(missing.into_iter().map(whole));
    }
    panic!("there is no end to it");
}

/// One file of each format, in two pieces.
pub fn file_seeds() -> Vec<Vec<u8>> {
    let sparse = |zeros: u8, head: &[u8], tail: &[u8]| {
        [&[zeros][..], &(head.len() as u16).to_be_bytes(), head, tail].concat()
    };
    let boxed =
        |kind: &[u8; 4], body: &[u8]| [&(body.len() as u32 + 8).to_be_bytes(), &kind[..], body].concat();
    let film = {
        let media = [&1_u32.to_be_bytes()[..], b"mdat", &((1_u64 << 24) + 16).to_be_bytes()].concat();
        sparse(24, &[boxed(b"ftyp", b"isom"), media].concat(), &boxed(b"moov", &[7; 300]))
    };
    let fragments = {
        let last = boxed(b"mfro", &[[0; 4], 124_u32.to_be_bytes()].concat());
        let parts = [
            boxed(b"ftyp", b"iso5"),
            boxed(b"moov", &[7; 100]),
            boxed(b"sidx", &[1; 50]),
            boxed(b"moof", &[2; 90]),
        ];
        sparse(20, &parts.concat(), &boxed(b"mfra", &[vec![3; 100], last].concat()))
    };
    let matroska = {
        // Lengths of four bytes, and one unknown length.
        let element = |id: &[u8], body: &[u8]| {
            let length = (0x1000_0000 | body.len() as u32).to_be_bytes();
            [id, &length, body].concat()
        };
        let cues: &[u8] = &[0x1c, 0x53, 0xbb, 0x6b];
        let cluster = [0x1f, 0x43, 0xb6, 0x75, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let head = |position: u32| {
            let seek =
                [element(&[0x53, 0xab], cues), element(&[0x53, 0xac], &position.to_be_bytes())].concat();
            let seek_head = element(&[0x11, 0x4d, 0x9b, 0x74], &element(&[0x4d, 0xbb], &seek));
            let header = element(&[0x1a, 0x45, 0xdf, 0xa3], &[1; 20]);
            [&header[..], &[0x18, 0x53, 0x80, 0x67, 0xff], &seek_head, &cluster].concat()
        };
        // Counted from the beginning of the segment's body, after the first two headers.
        let position = head(0).len() - 33 + (1 << 21);
        sparse(21, &head(position as u32), &element(cues, &[6; 40]))
    };
    let database = {
        let mut page = vec![0; 512];
        page[..18].copy_from_slice(b"SQLite format 3\0\x02\0");
        // A leaf of a table with two entries: payload, row, a record's header, and five columns.
        page[100..112].copy_from_slice(&[13, 0, 0, 0, 2, 0, 0, 0, 0x01, 0x00, 0x01, 0x40]);
        page[0x100..0x10c].copy_from_slice(&[20, 1, 6, 13, 13, 13, 1, 13, b't', b't', b't', 9]);
        page[0x140..0x14e].copy_from_slice(&[20, 2, 6, 13, 0, 13, 4, 13, b't', b't', 0, 1, 0, 7]);
        sparse(30, &page, &[0; 16])
    };
    let schema = {
        // Page 1 names pages 2 and 3. The row of page 2 continues in page 4, which holds its root: page 5, which is its own
        // child.
        let mut pages = vec![0; 5 * 512];
        let mut set = |page: usize, at: usize, bytes: &[u8]| {
            let start = (page - 1) * 512 + at;
            pages[start..start + bytes.len()].copy_from_slice(bytes);
        };
        set(1, 0, b"SQLite format 3\0\x02\0");
        set(1, 100, &[5, 0, 0, 0, 1, 1, 0xf0, 0, 0, 0, 0, 3, 1, 0xf0]);
        set(1, 0x1f0, &[0, 0, 0, 2, 1]);
        // A row of 600 bytes, 92 of them here, with a name of 118.
        set(2, 0, &[13, 0, 0, 0, 1, 1, 0, 0, 1, 0]);
        set(2, 0x100, &[0x84, 0x58, 1, 9, 13, 0x81, 0x79, 13, 1, 0x87, 0x6d, 0]);
        set(2, 0x103 + 92, &[0, 0, 0, 4]);
        set(4, 4 + 129 - 92, &[5]);
        set(3, 0, &[13, 0, 0, 0, 1, 1, 0, 0, 1, 0]);
        set(3, 0x100, &[20, 1, 6, 13, 13, 13, 1, 13, b't', b't', b't', 7]);
        set(5, 0, &[2, 0, 0, 0, 1, 1, 0xf0, 0, 0, 0, 0, 5, 1, 0xf0]);
        set(5, 0x1f0, &[0, 0, 0, 4, 1]);
        sparse(20, &pages, &[0; 16])
    };
    let archive = |offset: u32, bytes: u32, before: &[u8]| {
        let end =
            [&b"PK\x05\x06"[..], &[0; 8], &bytes.to_le_bytes(), &offset.to_le_bytes(), &[0; 2]].concat();
        sparse(18, b"PK\x03\x04\x14\0\0\0", &[before, &end].concat())
    };
    let long_archive = {
        let at = 8_u64 + (1 << 18);
        let record = [&b"PK\x06\x06"[..], &[0; 36], &100_u64.to_le_bytes(), &50_u64.to_le_bytes()].concat();
        let locator = [&b"PK\x06\x07"[..], &[0; 4], &at.to_le_bytes(), &[1, 0, 0, 0]].concat();
        archive(u32::MAX, u32::MAX, &[record, locator].concat())
    };
    let document = {
        let table = b"xref\n0 1\ntrailer << /Prev 9 >>\nstartxref\n";
        sparse(17, b"%PDF-1.7\nxref trailer << >> startxref", &[&table[..], b"131109\n%%EOF"].concat())
    };
    vec![film, fragments, matroska, database, schema, archive(100, 200, &[]), long_archive, document]
}
