use super::*;
use std::cell::RefCell;
use std::process::{Command, Stdio};

/// A file that is local only in part.
struct Partial {
    bytes: Vec<u8>,
    local: RefCell<Vec<Range<u64>>>,
}

impl Peek for Partial {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self, range: Range<u64>) -> Option<Vec<u8>> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?}");
        let local = self.local.borrow();
        let is_local = (range.start / 4096..range.end.div_ceil(4096))
            .all(|block| local.iter().any(|range| range.contains(&(block * 4096))));
        is_local.then(|| self.bytes[range.start as usize..range.end as usize].to_vec())
    }
}

impl Partial {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, local: RefCell::new(std::iter::once(0..HEAD_BYTES * 4).collect()) }
    }

    /// Pulls what is wanted until nothing is missing. Returns the number of rounds, and what was wanted in the end.
    fn pull(&self) -> (usize, Vec<Range<u64>>) {
        for round in 0..20 {
            let wants = recognise(self).map(|format| format.wants(self)).unwrap_or_default();
            assert!(wants.len() <= RANGES_MAX);
            assert!(wants.iter().map(|want| want.end - want.start).sum::<u64>() <= BYTES_MAX);
            for want in &wants {
                assert!(
                    want.start < want.end
                        && want.end <= self.len()
                        && want.end - want.start <= RANGE_BYTES_MAX
                );
            }
            if wants.iter().all(|want| self.bytes(want.clone()).is_some()) {
                return (round, wants);
            }
            let whole = |want: Range<u64>| want.start / 4096 * 4096..want.end.next_multiple_of(4096);
            self.local.borrow_mut().extend(wants.into_iter().map(whole));
        }
        panic!("there is no end to it");
    }

    fn local_bytes(&self) -> u64 {
        let is_local = |block: &u64| self.local.borrow().iter().any(|range| range.contains(&(block * 4096)));
        (0..self.len().div_ceil(4096)).filter(is_local).count() as u64 * 4096
    }
}

fn part(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes(), kind.as_slice(), body].concat()
}

const MEDIA: usize = 8 << 20;

fn film(index_first: bool) -> Vec<u8> {
    let (index, media) = (part(b"moov", &[7; 200_000]), part(b"mdat", &vec![9; MEDIA]));
    let rest = if index_first { [index, media] } else { [media, index] };
    [part(b"ftyp", b"isom"), rest.concat()].concat()
}

fn contains(wants: &[Range<u64>], range: Range<u64>) -> bool {
    wants.iter().any(|want| want.start <= range.start && range.end <= want.end)
}

#[test]
fn films_want_their_index_and_first_media_in_one_round() {
    for (index_first, index) in [(true, 12), (false, MEDIA as u64 + 20)] {
        let film = Partial::new(film(index_first));
        assert_eq!(recognise(&film).unwrap().name, "MP4");
        let (rounds, wants) = film.pull();
        assert!(contains(&wants, index..index + 200_008), "{wants:?}");
        assert!(contains(&wants, film.bytes.windows(4).position(|at| at == b"mdat").unwrap() as u64..300));
        assert!(rounds <= 2, "{rounds}");
        assert!(film.local_bytes() < 1 << 20);
    }
}

#[test]
fn films_with_long_lengths_or_fragments_want_their_index() {
    let long =
        [&[0, 0, 0, 1], b"mdat".as_slice(), &(MEDIA as u64 + 16).to_be_bytes(), &vec![1; MEDIA]].concat();
    let bytes = [part(b"ftyp", b"isom"), long, part(b"moov", &[7; 5000])].concat();
    assert!(contains(&Partial::new(bytes).pull().1, MEDIA as u64 + 28..MEDIA as u64 + 5036));

    let fragment = || [part(b"moof", &[1; 1000]), part(b"mdat", &[2; 1 << 20])].concat();
    let last = part(b"mfro", &[[0; 4], 3024_u32.to_be_bytes()].concat());
    let index = part(b"mfra", &[vec![3; 3000], last].concat());
    let mut bytes = [part(b"ftyp", b"iso5"), part(b"moov", &[7; 1000])].concat();
    (0..8).for_each(|_| bytes.extend(fragment()));
    bytes.extend(&index);
    let film = Partial::new(bytes);
    let (_, wants) = film.pull();
    assert!(contains(&wants, film.len() - index.len() as u64..film.len()), "{wants:?}");
    assert!(film.local_bytes() < 1 << 20);
}

#[test]
fn matroska_films_want_their_cues() {
    let element =
        |id: &[u8], body: &[u8]| [id, &[0x08, 0, 0, 0, 0], body].concat().tap_length(id.len(), body.len());
    let cues = element(&[0x1c, 0x53, 0xbb, 0x6b], &[5; 40_000]);
    let cluster = element(&[0x1f, 0x43, 0xb6, 0x75], &vec![6; MEDIA]);
    let seek_head = |position: u32| {
        let seek = [
            element(&[0x53, 0xab], &[0x1c, 0x53, 0xbb, 0x6b]),
            element(&[0x53, 0xac], &position.to_be_bytes()),
        ];
        element(&[0x11, 0x4d, 0x9b, 0x74], &element(&[0x4d, 0xbb], &seek.concat()))
    };
    let position = (seek_head(0).len() + cluster.len()) as u32;
    let body = [seek_head(position), cluster, cues.clone()].concat();
    let header = element(&[0x1a, 0x45, 0xdf, 0xa3], &[1; 20]);
    let bytes = [header, element(&[0x18, 0x53, 0x80, 0x67], &body)].concat();
    let film = Partial::new(bytes);
    assert_eq!(recognise(&film).unwrap().name, "Matroska");
    let (rounds, wants) = film.pull();
    assert!(contains(&wants, film.len() - cues.len() as u64..film.len()), "{wants:?}");
    assert!(rounds <= 2, "{rounds}");
    assert!(film.local_bytes() < 1 << 20);
}

trait TapLength {
    /// Writes the length of a body after the ID, in five bytes.
    fn tap_length(self, id: usize, body: usize) -> Self;
}

impl TapLength for Vec<u8> {
    fn tap_length(mut self, id: usize, body: usize) -> Self {
        self[id + 1..id + 5].copy_from_slice(&(body as u32).to_be_bytes());
        self
    }
}

/// The database that `sqlite3` makes of statements, and its answer.
fn database(sql: &str) -> (Partial, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let script = dir.path().join("sql");
    std::fs::write(&script, sql).unwrap();
    let script = std::fs::File::open(script).unwrap();
    let ran = Command::new("sqlite3").arg(&path).stdin(script).stderr(Stdio::inherit()).output().unwrap();
    assert!(ran.status.success());
    let database = Partial::new(std::fs::read(path).unwrap());
    assert_eq!(recognise(&database).unwrap().name, "SQLite");
    (database, String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// The pages whose numbers were answered.
fn pages(answer: &[String], page_bytes: u64) -> Vec<Range<u64>> {
    let numbers = answer.iter().map(|line| line.parse::<u64>().unwrap());
    numbers.map(|number| (number - 1) * page_bytes..number * page_bytes).collect()
}

#[test]
fn databases_want_their_schema_and_the_roots_of_trees() {
    let (whole, roots) = database(
        "CREATE TABLE a(x, y); CREATE VIEW v AS SELECT x FROM a; CREATE INDEX i ON a(y); CREATE TABLE b(z);
        INSERT INTO b VALUES (1);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
        INSERT INTO a SELECT i, hex(randomblob(20)) FROM n;
        CREATE INDEX late ON a(x);
        SELECT rootpage FROM sqlite_schema WHERE rootpage > 0;",
    );
    let roots = pages(&roots, 4096);
    assert_eq!(roots.len(), 4);
    let (rounds, wants) = whole.pull();
    for root in roots {
        assert!(contains(&wants, root.clone()), "{root:?}: {wants:?}");
    }
    // One leaf of each tree of several pages, to see that it is a leaf.
    let bytes: u64 = wants.iter().map(|want| want.end - want.start).sum();
    assert!(rounds <= 2 && bytes <= (1 + 4 + 3) * 4096, "{rounds} {wants:?}");
}

#[test]
fn databases_want_a_long_schema_too() {
    for (page_bytes, columns) in [(512, 3), (4096, 30), (4096, 400)] {
        let mut sql = format!("PRAGMA page_size = {page_bytes};");
        let columns: Vec<_> = (0..columns).map(|column| format!("column_{column}")).collect();
        for number in 0..60 {
            // The name stands twice before the root.
            let name = format!("table_{number}_{}", "n".repeat(number * 6));
            sql += &format!("CREATE TABLE {name}({});", columns.join(", "));
        }
        let (whole, roots) =
            database(&format!("{sql} SELECT rootpage FROM sqlite_schema WHERE rootpage > 0;"));
        let (_, schema) = database(&format!("{sql} SELECT pageno FROM dbstat WHERE name = 'sqlite_schema';"));
        let (roots, schema) = (pages(&roots, page_bytes), pages(&schema, page_bytes));
        assert!(schema.len() > 5 && roots.len() == 60, "{} pages", schema.len());
        let (rounds, wants) = whole.pull();
        let found =
            |pages: &[Range<u64>]| pages.iter().filter(|page| contains(&wants, (*page).clone())).count();
        eprintln!(
            "{page_bytes}: {rounds} rounds, {} of {} pages of the schema",
            found(&schema),
            schema.len()
        );
        assert_eq!(found(&roots), 60, "{wants:?}");
        assert!(found(&schema) >= schema.len().min(128), "of {}", schema.len());
        assert!(rounds <= 6);
    }
}

#[test]
fn a_few_inner_pages_are_all_wanted() {
    let (shared, answer) = database(
        "CREATE TABLE a(x, y); CREATE INDEX i ON a(y);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
        INSERT INTO a SELECT i, hex(randomblob(20)) FROM n;
        SELECT pageno FROM dbstat WHERE pagetype = 'internal' AND name != 'sqlite_schema';",
    );
    let inner = pages(&answer, 4096);
    assert!(inner.len() > 6, "{inner:?}");
    let (rounds, wants) = shared.pull();
    assert!(inner.iter().all(|page| contains(&wants, page.clone())), "{wants:?} of {inner:?}");
    let bytes: u64 = wants.iter().map(|want| want.end - want.start).sum();
    assert!(bytes <= (inner.len() as u64 + 1) * 4096, "{bytes}, and nothing else");
    assert!(rounds <= 3, "{rounds}");
}

#[test]
fn at_most_a_quarter_of_many_inner_pages_is_foreseen() {
    // About ten rows in a page make the tree deep.
    let (large, answer) = database(
        "CREATE TABLE a(x PRIMARY KEY) WITHOUT ROWID;
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
        INSERT INTO a SELECT randomblob(400) FROM n;
        SELECT pageno FROM dbstat WHERE pagetype = 'internal' AND name = 'a' AND path != '/' ORDER BY length(path), pgoffset % 97;",
    );
    let inner = pages(&answer, 4096);
    assert!(inner.len() > 100, "{}", inner.len());
    let here = |page: &Range<u64>| large.bytes(page.clone()).is_some();
    large.pull();
    let few = inner.iter().filter(|page| here(page)).count();
    assert!(few <= 16, "{few}: right below the root, and no others before one was met");
    let (mut met, mut ahead) = (0, 0);
    for page in &inner {
        if !here(page) {
            large.local.borrow_mut().push(page.clone());
            met += 1;
            large.pull();
        }
        let local = inner.iter().filter(|page| here(page)).count();
        ahead = local - few - met;
        assert!(ahead <= local / 4, "{met} were met, and {local} are here");
    }
    assert!(ahead > inner.len() / 8, "{ahead} of {} came ahead", inner.len());
}

/// An archive of `entries` entries without data, which no reader of the directory notices.
fn archive(entries: u32, is_large: bool) -> (Vec<u8>, Range<u64>) {
    let mut bytes = [b"PK\x03\x04".as_slice(), &vec![0; MEDIA]].concat();
    let start = bytes.len() as u64;
    for _ in 0..entries {
        bytes.extend([b"PK\x01\x02".as_slice(), &[0; 42]].concat());
    }
    let (end, directory) = (bytes.len() as u64, start..bytes.len() as u64);
    let (count, len, offset) = (entries as u16, (end - start) as u32, start as u32);
    if is_large {
        let record = [&(end - start).to_le_bytes(), start.to_le_bytes().as_slice()].concat();
        bytes.extend([b"PK\x06\x06".as_slice(), &[0; 36], &record].concat());
        bytes.extend([b"PK\x06\x07".as_slice(), &[0; 4], &end.to_le_bytes(), &[1, 0, 0, 0]].concat());
    }
    let offset = if is_large { u32::MAX } else { offset };
    let counts = [count.to_le_bytes(), count.to_le_bytes()].concat();
    let numbers = [len.to_le_bytes(), offset.to_le_bytes()].concat();
    bytes.extend([b"PK\x05\x06".as_slice(), &[0; 4], &counts, &numbers, &[7, 0], b"comment"].concat());
    (bytes, directory)
}

#[test]
fn archives_want_their_directory() {
    for is_large in [false, true] {
        let (bytes, directory) = archive(5000, is_large);
        let archive = Partial::new(bytes);
        assert_eq!(recognise(&archive).unwrap().name, "ZIP");
        let (rounds, wants) = archive.pull();
        assert!(contains(&wants, directory.clone()), "{is_large}: {wants:?} {directory:?}");
        assert!(rounds <= 2);
        assert!(archive.local_bytes() < 1 << 20);
    }
}

#[test]
fn documents_want_their_tables_of_objects() {
    let mut bytes = [b"%PDF-1.7\n".as_slice(), &vec![b' '; MEDIA]].concat();
    let first = bytes.len();
    bytes.extend(b"xref\n0 1\ntrailer\n<< /Size 1 >>\nstartxref\n0\n%%EOF\n");
    bytes.extend(vec![b' '; MEDIA]);
    let second = bytes.len();
    bytes.extend(format!("xref\n0 1\ntrailer\n<< /Prev {first} >>\nstartxref\n{second}\n%%EOF\n").as_bytes());
    let document = Partial::new(bytes);
    assert_eq!(recognise(&document).unwrap().name, "PDF");
    let (_, wants) = document.pull();
    for at in [first as u64, second as u64] {
        assert!(contains(&wants, at..at + 40), "{wants:?}");
    }
    assert!(document.local_bytes() < 1 << 20);
}

#[test]
fn hostile_bytes_cost_a_bounded_wrong_guess() {
    let mut state = 12345_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let heads: [&[u8]; 6] = [
        b"\0\0\0\x10ftyp",
        b"\x1a\x45\xdf\xa3\x81\0\x18\x53\x80\x67\x01",
        b"SQLite format 3\0\x10\0",
        b"PK\x03\x04",
        b"%PDF-1.7 startxref 9 /Prev 1",
        b"",
    ];
    let samples: Vec<Vec<u8>> = vec![film(true), archive(500, true).0, archive(500, false).0];
    for round in 0..1500 {
        let mut bytes: Vec<u8> = match round % 3 {
            0 => (0..random() % 70_000).map(|_| random() as u8).collect(),
            1 => (0..random() % 30_000)
                .map(|_| [0, 0, 0, 1, 8, 0xff, b'P', b'K'][random() as usize % 8])
                .collect(),
            _ => {
                let sample = &samples[round % samples.len()];
                sample[sample.len() - 60_000..].to_vec()
            }
        };
        let head = heads[round % heads.len()];
        let len = head.len().min(bytes.len());
        bytes[..len].copy_from_slice(&head[..len]);
        for _ in 0..random() % 4 {
            if !bytes.is_empty() {
                let at = random() as usize % bytes.len();
                bytes[at] ^= 1 << (random() % 8);
            }
        }
        Partial::new(bytes).pull();
    }
    let (whole, _) = database(
        "PRAGMA page_size = 512; CREATE TABLE a(x PRIMARY KEY) WITHOUT ROWID;
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
        INSERT INTO a SELECT randomblob(100) FROM n;",
    );
    for _ in 0..500 {
        let mut bytes = whole.bytes.clone();
        // Pages begin with the fields that say where other pages are.
        for _ in 0..1 + random() % 40 {
            let page = random() as usize % (bytes.len() / 512);
            bytes[page * 512 + random() as usize % 32] = random() as u8;
        }
        let database = Partial::new(bytes);
        let all = 0..database.len();
        database.local.borrow_mut().extend((random() % 2 == 0).then_some(all));
        database.pull();
    }
}
