//! The files on the local disk: the journal, the cache's bitmap, `drive.json`.

use super::hole::WithHole;
use holdall_core::cache::Cache;
use holdall_core::disk::Disk;
use holdall_core::journal::import::{Import, ImportPlan};
use holdall_core::journal::{Journal, JournalError, Limits, Operation, Place, Recovered};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::units::{BLOCK_BYTES, BlockRange, Lsn};
use holdall_core::volume::Local;
use std::sync::Arc;
use uuid::Uuid;

const JOURNAL: Uuid = Uuid::from_u128(0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00);
const DRIVE: Uuid = Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
const FILE_BYTES: usize = 32 << 10;
/// A file's header: its fields follow the magic and the journal's uuid ...
const FIELDS: std::ops::Range<usize> = 24..80;
/// ... and its checksum follows them.
const HEADER_END: usize = FIELDS.end + 4;
const LIMITS: Limits = Limits { file_bytes: FILE_BYTES as u64, files: 4, reserve_files: 1 };
/// Blocks of the drive.
const CAPACITY: u64 = 32_768;

fn run<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime starts");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

fn disk() -> SimDisk {
    holdall_core::entropy::seed_this_thread(1);
    SimDisk::new(1, DiskFaults::default())
}

fn write(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let file = disk.open(name, true).expect("the simulated disk opens files");
    file.write_at(bytes, 0).expect("the simulated disk takes bytes");
}

async fn open(disk: &SimDisk, journal: Uuid) -> Result<(Arc<Journal>, Recovered), JournalError> {
    Journal::open(Arc::new(disk.clone()), LIMITS, CAPACITY, journal).await
}

/// Files of a journal. The first byte says how many, and which of them are compacted groups; each gets an equal share of
/// the rest: the header's fields, then records. Checksums are corrected, except those that a record's reserved bytes mark
/// as wrong.
pub fn journal_file(input: &[u8]) {
    journal_records(input);
}

/// How many records an opening finds in these files; `None` if the journal does not open.
pub fn journal_records(input: &[u8]) -> Option<usize> {
    let (choice, rest) = input.split_first()?;
    let count = usize::from(choice % 3) + 1;
    let is_group = |index: usize| (choice / 3) >> index & 1 != 0;
    let disk = disk();
    let mut prev_crc = 0;
    for (index, part) in rest.chunks(rest.len().div_ceil(count).max(1)).enumerate() {
        let (file, last_crc) = file_of(part, is_group(index), prev_crc);
        write(&disk, &format!("j{:08}", index + 1), &file);
        prev_crc = last_crc;
    }
    let before = headers(&disk);
    run(async {
        let (journal, recovered) = open(&disk, JOURNAL).await.ok()?;
        let records = journal.records(recovered.first, recovered.last, u64::MAX).await;
        let records = records.expect("what a recovery found can be read");
        let found = records.len();
        let lsns: Vec<_> = records.iter().map(|record| record.lsn.0).collect();
        if !(0..count).any(is_group) {
            assert_eq!(lsns, (recovered.first.0..=recovered.last.0).collect::<Vec<_>>());
        } else {
            // The records of a group all carry the last LSN that it stands for.
            let bounds = recovered.first.0..=recovered.last.0;
            assert!(lsns.is_sorted() && lsns.iter().all(|lsn| bounds.contains(lsn)), "{lsns:?}");
        }
        for record in records {
            // As an opening replays them; a drive is never smaller than what was written to it.
            if let Operation::Data(blocks) | Operation::Zero(blocks) = record.operation {
                assert!(blocks.end <= 1 << 32, "{blocks}: no drive is so large");
                journal.mark_dirty(blocks.intersect(&BlockRange { start: 0, end: CAPACITY }));
            }
        }
        drop(journal);
        let again = open(&disk, JOURNAL).await.map(|(_, again)| again);
        // A file that was no part of the log is reused for the new one. Its older bytes may then be records of this very
        // journal, which cannot happen if each file is written in its turn.
        let all_were_part = headers(&disk).starts_with(&before);
        if all_were_part {
            assert_eq!(again.expect("what was opened once can be opened again"), recovered);
        }
        Some(found)
    })
}

/// The headers of all files, by name.
fn headers(disk: &SimDisk) -> Vec<(String, [u8; HEADER_END])> {
    let mut names = disk.list().expect("the simulated disk lists");
    names.sort();
    let header = |name: &String| {
        let mut header = [0; HEADER_END];
        let file = disk.open(name, false).expect("the simulated disk opens files");
        file.read_at(&mut header, 0).expect("the simulated disk reads");
        (name.clone(), header)
    };
    names.iter().map(header).collect()
}

/// A journal file from the header's fields and the bytes after them, and the own CRC of its last record. `prev_crc` is that
/// of the file before: the field with it says by which bits the header differs.
fn file_of(part: &[u8], is_group: bool, prev_crc: u32) -> (Vec<u8>, u32) {
    let (fields, records) = part.split_at(part.len().min(FIELDS.len()));
    let mut file = vec![0; FILE_BYTES];
    file[..8].copy_from_slice(if is_group { b"HLDJCMP\x01" } else { b"HLDJRNL\x01" });
    file[8..24].copy_from_slice(JOURNAL.as_bytes());
    file[FIELDS.start..FIELDS.start + fields.len()].copy_from_slice(fields);
    let mut prev_crc = prev_crc ^ u32_at(&file, 36);
    file[36..40].copy_from_slice(&prev_crc.to_le_bytes());
    let crc = crc32c::crc32c(&file[..FIELDS.end]);
    file[FIELDS.end..HEADER_END].copy_from_slice(&crc.to_le_bytes());
    let len = records.len().min(FILE_BYTES - 4096);
    file[4096..4096 + len].copy_from_slice(&records[..len]);
    let mut at = 4096;
    while at + 64 <= FILE_BYTES {
        let (record, data) = file[at..].split_at_mut(64);
        if record[..4] != *b"HREC" {
            at += 64;
            continue;
        }
        let stays_wrong = std::mem::take(&mut record[5]);
        let blocks = u64::from_le_bytes(*record[32..].first_chunk().expect("a record is longer"));
        let data_len = if record[4] == 1 { blocks.saturating_mul(BLOCK_BYTES) } else { 0 };
        if stays_wrong & 1 == 0 && data_len <= data.len() as u64 {
            let crc = crc32c::crc32c(&data[..data_len as usize]);
            record[40..44].copy_from_slice(&crc.to_le_bytes());
        }
        if stays_wrong & 2 == 0 {
            record[48..52].copy_from_slice(&prev_crc.to_le_bytes());
        }
        record[52..60].copy_from_slice(&JOURNAL.as_bytes()[..8]);
        prev_crc = crc32c::crc32c(&record[..60]);
        if stays_wrong & 4 == 0 {
            record[60..64].copy_from_slice(&prev_crc.to_le_bytes());
        }
        at += 64 + if data_len <= data.len() as u64 { data_len as usize } else { 0 };
    }
    // In a group, the header says which CRC the record had that the next file follows.
    let last_crc = if is_group { u32_at(&file, 64) } else { prev_crc };
    (file, last_crc)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("a file is longer"))
}

/// One file, two that follow each other, one with runs of zeros, and a group with a file behind it.
pub fn journal_file_seeds() -> Vec<Vec<u8>> {
    let record = |kind: u8, lsn: u64, durable: u64, first: u64, blocks: u64| {
        let mut bytes = vec![0; 64];
        bytes[..4].copy_from_slice(b"HREC");
        bytes[4] = kind;
        for (at, value) in [(8, lsn), (16, durable), (24, first), (32, blocks)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[44] = 1;
        let data = if kind == 1 { blocks * BLOCK_BYTES } else { 0 };
        bytes.resize(64 + data as usize, kind);
        bytes
    };
    // A group that stands for the records up to `last` has two records.
    let header = |seq: u64, first: u64, durable: u64, last: u64| {
        let group = if last == 0 { [0; 8] } else { [9, 0, 0, 0, 2, 0, 0, 0] };
        [
            &seq.to_le_bytes()[..],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &first.to_le_bytes(),
            &durable.to_le_bytes(),
            &last.to_le_bytes(),
            &group,
            &(FILE_BYTES as u64).to_le_bytes(),
        ]
        .concat()
    };
    let one = [header(1, 1, 0, 0), record(1, 1, 0, 5, 1), record(2, 2, 1, 0, 100), record(3, 3, 1, 4096, 0)]
        .concat();
    let more = [header(2, 4, 3, 0), record(1, 4, 3, 9, 1)].concat();
    let zeros =
        [header(1, 1, 0, 0), record(2, 1, 0, 7, 9), record(2, 2, 0, 1, 1), record(2, 3, 2, 1, 3)].concat();
    let group = [header(1, 1, 3, 3), record(1, 3, 3, 5, 1), record(3, 3, 3, 4096, 0)].concat();
    let equally_long = |bytes: &[u8], len: usize| {
        let mut bytes = bytes.to_vec();
        bytes.resize(len, 0);
        bytes
    };
    vec![
        [&[0], &one[..]].concat(),
        [&[1], &one[..], &equally_long(&more, one.len())].concat(),
        [&[0], &zeros[..]].concat(),
        // The second of the two files is none.
        [&[1 + 3], &group[..], &equally_long(&more, group.len())].concat(),
    ]
}

/// A journal that is written as the first part of the input says, cut off, and damaged as the rest says. A recovery must
/// show what was written, or return an error.
pub fn journal_damage(input: &[u8]) {
    let (script, damage) = match input.iter().position(|byte| *byte == 0xff) {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &[][..]),
    };
    let disk = disk();
    let mut written = Vec::new();
    let journal = run(async {
        let made = Journal::create(Arc::new(disk.clone()), LIMITS, CAPACITY).await;
        let mut journal = made.expect("the simulated disk is well");
        let uuid = journal.uuid();
        for step in script.chunks(2) {
            let (what, value) = (step[0], u64::from(step.get(1).copied().unwrap_or(0)));
            match what {
                0..0x80 => append(&journal, &mut written, value, u64::from(what % 3)),
                0x80..0xa0 => drop(journal.flush().await),
                0xa0..0xb0 => {
                    let upto = Lsn(journal.durable().0 * value / 256);
                    journal.applied(upto);
                    journal.free(upto);
                }
                0xb0..0xe0 => drop(journal.keep_spare().await),
                0xe0.. => {
                    disk.kill();
                    drop(journal);
                    let opened = open(&disk, uuid).await.expect("nothing is damaged yet");
                    journal = opened.0;
                    written.truncate(opened.1.last.0 as usize);
                }
            }
        }
        uuid
    });
    match damage.first() {
        Some(1..) => disk.power_cut(),
        Some(0) | None => disk.kill(),
    }
    let names = disk.list().expect("the simulated disk lists");
    for bit in damage.get(1..).unwrap_or(&[]).chunks_exact(4) {
        let name = &names[usize::from(bit[0]) % names.len()];
        let at = u32::from_le_bytes([bit[1], bit[2], bit[3], 0]);
        disk.flip_bit(name, u64::from(at) % (FILE_BYTES as u64 * 8));
    }
    run(async {
        let Ok((journal, recovered)) = open(&disk, journal).await else { return };
        let records = journal.records(recovered.first, recovered.last, u64::MAX).await;
        for record in records.expect("what a recovery found can be read") {
            let expected = written[record.lsn.0 as usize - 1];
            assert_eq!(record.operation, expected, "{}", record.lsn);
            if let (Operation::Data(blocks), Place::Data { file, offset }) = (record.operation, record.place)
            {
                let mut data = vec![0; blocks.byte_len() as usize];
                file.read(&mut data, offset).expect("the file is there");
                assert!(data.iter().all(|byte| *byte == record.lsn.0 as u8), "{}", record.lsn);
            }
        }
    });
}

/// Appends a record whose data is its LSN, repeated.
fn append(journal: &Journal, written: &mut Vec<Operation>, block: u64, blocks: u64) {
    let lsn = written.len() as u64 + 1;
    let (operation, appended) = if blocks == 0 {
        let run = BlockRange::new(block, 1 + block % 7);
        (Operation::Zero(run), journal.writer().zero(run))
    } else {
        let data = vec![lsn as u8; (blocks * BLOCK_BYTES) as usize];
        (Operation::Data(BlockRange::new(block, blocks)), journal.append_data(block, &data))
    };
    match appended {
        Ok(found) => {
            assert_eq!(found.0, lsn);
            written.push(operation);
        }
        Err(JournalError::Full) => {}
        Err(error) => panic!("the simulated disk is well: {error}"),
    }
}

/// Short journals with damage in headers, in data and after the end.
pub fn journal_damage_seeds() -> Vec<Vec<u8>> {
    let life = [
        1, 5, 2, 9, 0, 3, 0x80, 0, 1, 7, 0xb0, 0, 2, 9, 2, 11, 0x80, 0, 2, 1, 2, 2, 0xb0, 0, 2, 3, 0xe0, 0,
        1, 4,
    ];
    let freed = [2, 1, 2, 2, 2, 3, 0x80, 0, 0xb0, 0, 2, 4, 2, 5, 0x80, 0, 0xa0, 255, 0xb0, 0, 2, 6, 0xe0, 0];
    vec![
        [&life[..], &[0xff, 0]].concat(),
        [&life[..], &[0xff, 1, 0, 10, 0x81, 0]].concat(),
        [&life[..], &[0xff, 0, 0, 0, 1, 0, 1, 0, 0x90, 0]].concat(),
        [&freed[..], &[0xff, 1, 2, 40, 0x80, 1]].concat(),
    ]
}

/// The cache's bitmap. The first byte says what is corrected: the header, the places of pages, the checksums.
pub fn bitmap(input: &[u8]) {
    const GENERATION: u128 = 5;
    let Some((choice, rest)) = input.split_first() else { return };
    let mut file = rest.to_vec();
    file.resize(rest.len().min(8 << 12).next_multiple_of(4096), 0);
    for (index, page) in file.chunks_mut(4096).enumerate() {
        if choice & 1 != 0 && index == 0 {
            page[..8].copy_from_slice(b"HLDBMAP\x01");
            page[8..24].copy_from_slice(DRIVE.as_bytes());
            page[24..40].copy_from_slice(&GENERATION.to_le_bytes());
        }
        if choice & 2 != 0 && index > 0 {
            page[..4].copy_from_slice(&(index as u32 - 1).to_le_bytes());
            page[4..12].copy_from_slice(&DRIVE.as_bytes()[..8]);
        }
        if choice & 4 != 0 {
            let crc = crc32c::crc32c(&page[..4092]);
            page[4092..].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let disk = disk();
    write(&disk, "bitmap", &file);
    let disk = WithHole(disk, CAPACITY * 3 * BLOCK_BYTES);
    let open = |generations: &[u128]| {
        Cache::open(&disk, DRIVE, CAPACITY * 3, generations).expect("the simulated disk is well")
    };
    let cache = open(&[GENERATION]);
    let valid = cache.valid().count_all();
    assert!(valid == 0 || choice & 4 != 0, "without checksums nothing is believed");
    cache.valid().set(BlockRange::new(3, 70));
    run(async {
        cache.set_generation(GENERATION + 1).await.expect("the simulated disk is well");
        cache.persist().await.expect("the simulated disk is well");
    });
    assert!(open(&[GENERATION + 1]).valid().differing_words(cache.valid()).is_empty());
    assert_eq!(open(&[GENERATION]).valid().count_all(), 0, "an old generation is not believed");
}

/// Bitmaps with some pages.
pub fn bitmap_seeds() -> Vec<Vec<u8>> {
    let mut pages = vec![0; 3 * 4096];
    pages[4096 + 12..4096 + 300].fill(0xff);
    pages[2 * 4096 + 100] = 3;
    vec![[&[7], &pages[..]].concat(), [&[0], &pages[..]].concat()]
}

/// `drive.json`.
pub fn drive_json(input: &[u8]) {
    let disk = disk();
    write(&disk, "drive.json", input);
    let Ok(Some(local)) = Local::load(&disk) else { return };
    let _ = (local.generation_numbers(), local.base.as_ref().and_then(|base| base.id()));
    run(local.save(&disk)).expect("the simulated disk is well");
    assert_eq!(Local::load(&disk).ok().flatten(), Some(local));
}

/// A device that never opened the drive, and one that did.
pub fn drive_json_seeds() -> Vec<Vec<u8>> {
    let fresh = br#"{"version":1,"drive":"00000000-0000-0000-0000-000000000001","journal":"00000000-0000-0000-0000-000000000002","base":null,"replay_from":0,"generations":[]}"#;
    let root = "root/ab/00000000000000000000000000000001-0000000000000001-0000000000000002-ab000000000000000000000000000000";
    let known = format!(
        r#"{{"version":1,"drive":"00000000-0000-0000-0000-000000000001","journal":"00000000-0000-0000-0000-000000000002",
            "base":{{"root":"{root}","hash":"{}","epoch":3}},"replay_from":7,"generations":["{:032x}"]}}"#,
        "0f".repeat(32),
        u128::MAX
    );
    vec![fresh.to_vec(), known.into_bytes()]
}

/// What another device sends with a drive. The CRCs of its headers are corrected, so that their fields count.
pub fn import(input: &[u8]) {
    let disk = disk();
    let mut file = input.to_vec();
    for place in [1024, 2048] {
        if let Some(header) = file.get_mut(place..place + 137) {
            let crc = crc32c::crc32c(&header[..133]);
            header[133..].copy_from_slice(&crc.to_le_bytes());
        }
    }
    write(&disk, "import-0", &file);
    let disk = Arc::new(disk);
    run(async {
        let Ok(Some(import)) = Import::find(disk.clone(), None).await else { return };
        assert!(import.bytes() <= file.len() as u64);
        assert_eq!(import.is_sealed(), Import::find_sealed(disk).await.is_ok_and(|found| found.is_some()));
        if import.is_sealed() {
            let _ = import.trailer();
        }
    });
}

/// An empty one, and one with a round.
pub fn import_seeds() -> Vec<Vec<u8>> {
    let made = |round: bool| {
        let disk = Arc::new(disk());
        run(async {
            let limits = Limits { file_bytes: 64 << 10, files: 8, reserve_files: 2 };
            let journal = Journal::create(disk.clone(), limits, 64).await;
            let journal = journal.expect("the simulated disk is well").uuid();
            let (session, stream) = (Uuid::from_u128(1), Uuid::from_u128(2));
            let plan = ImportPlan { session, stream, journal, size_blocks: 64, headroom_bytes: 64 << 10 };
            let mut import = Import::begin(disk.clone(), plan, &limits).await.expect("there is space");
            if round {
                import.data(3, &[7; 4096]).expect("it is a good block");
                import.acknowledge(1).await.expect("the simulated disk is well");
                import.finish(b"trailer").await.expect("the simulated disk is well");
            }
        });
        let name =
            disk.list().expect("it can be listed").into_iter().find(|name| name.starts_with("import-"));
        let file = disk.open(&name.expect("it was begun"), false).expect("it is there");
        let mut bytes = vec![0; file.len().expect("it has a length") as usize];
        file.read_at(&mut bytes, 0).expect("it can be read");
        bytes
    };
    vec![made(false), made(true)]
}
