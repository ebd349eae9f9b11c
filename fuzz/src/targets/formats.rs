//! The objects of the store.

use crate::sealed::{sealed as seal, sealer};
use holdall_core::format::family::{Family, Mode};
use holdall_core::format::head::{HEAD_BYTES_MAX, Head, HeadState};
use holdall_core::format::id::{ObjectId, ObjectKind};
use holdall_core::format::page::{FrameRef, Page, PageRun, SegmentRef};
use holdall_core::format::root::{BoxRef, Condemned, Geometry, Lineage, Root, Snapshot, TailSegment};
use holdall_core::format::segment::{self, Directory, PAGE_BYTES_MAX, SegmentBuilder};
use holdall_core::format::usage::{self as usage_table, Usage};
use holdall_core::seal::{Cipher, Purpose};
use holdall_core::units::{BlockRange, Epoch, Lsn};
use std::collections::BTreeMap;
use uuid::Uuid;

/// `family.json`.
pub fn family(input: &[u8]) {
    if let Ok(family) = Family::decode(input) {
        assert_eq!(Family::decode(&family.encode()), Ok(family));
    }
}

/// Families of both ciphers and all modes.
pub fn family_seeds() -> Vec<Vec<u8>> {
    let family = |cipher, mode| Family::new(Uuid::from_u128(1), cipher, mode).encode();
    let modes = [Mode::Swap, Mode::Claim, Mode::None];
    modes
        .into_iter()
        .flat_map(|mode| [Cipher::None, Cipher::XChaCha20Poly1305].map(|c| family(c, mode)))
        .collect()
}

/// HEAD, without its MAC, which is added.
pub fn head(input: &[u8]) {
    let sealer = sealer();
    let _ = Head::decode(&sealer, input);
    let signed = [input, &sealer.head_mac(input)].concat();
    if let Ok(head) = Head::decode(&sealer, &signed) {
        assert!(signed.len() <= HEAD_BYTES_MAX);
        assert_eq!(head.encode(&sealer), signed);
        let _ = head.address(&sealer);
    }
}

/// A HEAD in each state.
pub fn head_seeds() -> Vec<Vec<u8>> {
    let head = |state| Head {
        drive: Uuid::from_u128(1),
        epoch: Epoch(2),
        nonce: 3,
        device: Uuid::from_u128(4),
        device_name: "laptop".into(),
        state,
        written_ms: 1 << 40,
        root: id(6),
        root_hash: [8; 32],
        parent: ObjectId::NONE,
        moved_to: Head::seal_address(&sealer(), Uuid::from_u128(1), Epoch(2), "file:///mnt/nas/work"),
    };
    [HeadState::Released, HeadState::Held, HeadState::Removed, HeadState::Moved]
        .map(|state| unsigned(&head(state)))
        .into()
}

fn unsigned(head: &Head) -> Vec<u8> {
    let mut bytes = head.encode(&sealer());
    bytes.truncate(bytes.len() - 32);
    bytes
}

/// A root's plain bytes, and the same as a whole object. Its table of objects may be in any order, so the value is
/// compared, not the bytes.
pub fn root(input: &[u8]) {
    let _ = Root::open(&sealer(), "root/x", input);
    if let Ok(root) = Root::decode(input) {
        // The questions that opening a drive of this shape asks.
        let whole = BlockRange { start: 0, end: root.geometry.size_blocks };
        assert!(root.pages.keys().all(|index| u64::from(*index) < root.geometry.pages()), "{root:?}");
        for index in root.pages.keys() {
            assert!(!root.geometry.page_range(*index).intersect(&whole).is_empty(), "{root:?}");
        }
        let object = root.seal(&sealer(), "root/x");
        assert_eq!(Root::open(&sealer(), "root/x", &object), Ok(root));
    }
}

/// An empty root, and one with an entry of every kind.
pub fn root_seeds() -> Vec<Vec<u8>> {
    let place = |seq| BoxRef { object: id(seq), object_len: 1000, offset: 10, stored_len: 90 };
    let full = Root {
        drive: Uuid::from_u128(1),
        family: Uuid::from_u128(2),
        name: "photos".into(),
        epoch: Epoch(3),
        seq: 4,
        parent: id(9),
        committed_ms: 5,
        device: Uuid::from_u128(6),
        device_name: "laptop".into(),
        geometry: Geometry::standard(1 << 24),
        lineage: vec![Lineage { epoch: Epoch(3), journal: Uuid::from_u128(7), cut: Lsn(8), crc: 9 }],
        pages: [(0, place(1)), (5, place(1)), (6, place(2))].into(),
        tail: vec![TailSegment { object: id(3), object_len: 77, directory_len: 20 }],
        usage: Some(place(2)),
        snapshots: vec![Snapshot {
            label: "before".into(),
            root: id(8),
            root_hash: [1; 32],
            taken_ms: 1,
            size_blocks: 2,
        }],
        condemned: vec![Condemned { kind: ObjectKind::Segment, object: id(4), epoch: Epoch(2), seq: 3 }],
    };
    let empty = Root {
        geometry: Geometry { size_blocks: 256, frame_blocks: 4, page_blocks: 32, segment_bytes: 24 << 10 },
        lineage: vec![],
        pages: BTreeMap::new(),
        tail: vec![],
        usage: None,
        snapshots: vec![],
        condemned: vec![],
        ..full.clone()
    };
    vec![full.encode(), empty.encode(), full.seal(&sealer(), "root/x")]
}

/// A map page of 64 blocks from block 512 on.
pub fn page(input: &[u8]) {
    const RANGE: BlockRange = BlockRange { start: 512, end: 512 + 64 };
    if let Ok(page) = Page::decode(input, 2, RANGE) {
        for run in &page.runs {
            assert!(!run.blocks.is_empty() && run.blocks.intersect(&RANGE) == run.blocks, "{run:?}");
            assert_eq!(run.blocks.intersect(&run.frame.blocks), run.blocks, "{run:?}");
        }
        assert!(page.runs.is_sorted_by(|a, b| a.blocks.end <= b.blocks.start));
        page.reached_bytes();
        assert_eq!(page.encode(RANGE.start), input);
    }
}

/// A page with a frame that two runs use, and an empty page.
pub fn page_seeds() -> Vec<Vec<u8>> {
    let frame = |start, count, offset| FrameRef {
        segment: 0,
        offset,
        stored_len: 100,
        blocks: BlockRange::new(start, count),
    };
    let run = |start, count, frame| PageRun { blocks: BlockRange::new(start, count), frame };
    let split = frame(520, 4, 200);
    let runs = vec![run(512, 2, frame(512, 2, 16)), run(520, 1, split), run(523, 1, split)];
    let page = Page { index: 2, segments: vec![SegmentRef { id: id(3), len: 1000 }], runs };
    vec![page.encode(512), Page { index: 2, ..Page::default() }.encode(512)]
}

/// The usage table.
pub fn usage(input: &[u8]) {
    if let Ok(table) = usage_table::decode(input) {
        assert_eq!(usage_table::encode(&table), input);
    }
}

/// A table of three segments.
pub fn usage_seeds() -> Vec<Vec<u8>> {
    let table = (1..4).map(|seq| (id(seq), Usage { len: 1 << 20, reached: seq << 10 })).collect();
    vec![usage_table::encode(&table)]
}

/// A segment's directory, unsealed.
pub fn directory(input: &[u8]) {
    if let Ok(directory) = segment::decode_plain(input) {
        assert_eq!(segment::encode_plain(&directory), input);
    }
}

/// One directory of each kind.
pub fn directory_seeds() -> Vec<Vec<u8>> {
    [data_segment().1, map_segment().1].iter().map(segment::encode_plain).collect()
}

/// A segment's front: header and sealed directory. The first bytes are the header, the rest the directory's plain bytes.
pub fn segment(input: &[u8]) {
    let sealer = sealer();
    let _ = segment::decode(&sealer, "seg/x", input);
    let Some((header, plain)) = input.split_at_checked(segment::HEADER_BYTES) else { return };
    let body = seal("directory", "seg/x", &[], &[&[0], plain].concat());
    let mut header = header.to_vec();
    header[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let Ok(directory) = segment::decode(&sealer, "seg/x", &[&header[..], &body].concat()) else { return };
    assert_eq!(header[..8], *b"HLDSEG\0\x01");
    assert_eq!(header[12..], [0; 4]);
    let front = (segment::HEADER_BYTES + body.len()) as u32;
    let mut end = front;
    let boxes: Vec<(u32, u32)> = match &directory {
        Directory::Data { frames, .. } => {
            frames.iter().map(|frame| (frame.offset, frame.stored_len)).collect()
        }
        Directory::Map(pages) => pages.iter().map(|page| (page.offset, page.stored_len)).collect(),
    };
    for (offset, len) in boxes {
        assert_eq!(offset, end, "boxes follow each other: {directory:?}");
        end = offset.checked_add(len).expect("no box lies beyond what 32 bits reach");
    }
}

/// Segments, of which only the front is decoded.
pub fn segment_seeds() -> Vec<Vec<u8>> {
    let header = [&b"HLDSEG\0\x01"[..], &[0; 8]].concat();
    let mut seeds: Vec<_> = directory_seeds().iter().map(|plain| [&header[..], plain].concat()).collect();
    seeds.extend([data_segment().0, map_segment().0]);
    seeds
}

fn data_segment() -> (Vec<u8>, Directory) {
    let sealer = sealer();
    let mut builder = SegmentBuilder::data(&sealer, "seg/x".into());
    for (start, count) in [(3, 2), (16, 4), (1000, 1)] {
        builder.frame(BlockRange::new(start, count), &vec![start as u8; count as usize * 4096]);
    }
    builder.zeros(BlockRange::new(64, 1 << 20));
    let (object, directory, _) = builder.finish();
    (object.to_vec(), directory)
}

fn map_segment() -> (Vec<u8>, Directory) {
    let sealer = sealer();
    let mut builder = SegmentBuilder::map(&sealer, "seg/x".into());
    builder.page(2, &page_seeds()[0]);
    builder.usage(&usage_seeds()[0]);
    let (object, directory, _) = builder.finish();
    (object.to_vec(), directory)
}

/// The bytes behind a seal: a codec and its body. The first byte chooses the limit.
pub fn sealed(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    let cap = if choice & 1 == 0 { 4096 } else { PAGE_BYTES_MAX * 2 };
    let object = seal("frame", "seg/x", b"1", body);
    if let Ok(plain) = sealer().open(Purpose::Frame, "seg/x", b"1", &object, cap) {
        assert!(plain.len() <= cap);
        let again = sealer().seal(Purpose::Frame, "seg/x", b"1", &plain);
        assert_eq!(sealer().open(Purpose::Frame, "seg/x", b"1", &again, cap), Ok(plain));
    }
    let encrypted = holdall_core::seal::Sealer::new(
        Cipher::XChaCha20Poly1305,
        &holdall_core::seal::DataKey([7; 32].into()),
    );
    assert!(encrypted.open(Purpose::Frame, "seg/x", b"1", body, cap).is_err(), "a seal cannot be guessed");
}

/// Both codecs.
pub fn sealed_seeds() -> Vec<Vec<u8>> {
    let boxed = |plain: &[u8]| {
        let mut object = sealer().seal(Purpose::Frame, "seg/x", b"1", plain);
        object.truncate(object.len() - 16);
        [&[0], &object[..]].concat()
    };
    let mixed: Vec<u8> = (0..2000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
    vec![boxed(&[7; 4096]), boxed(&mixed[..4096]), boxed(b"short"), boxed(&[])]
}

fn id(seq: u64) -> ObjectId {
    ObjectId { drive: Uuid::from_u128(1), epoch: Epoch(1), seq, unique: u128::from(seq) << 64 }
}
