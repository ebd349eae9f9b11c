//! Files on a drive whose store is far away. Data that a file's format points to arrives before a program reads it. Any regular
//! way of reading takes few round trips and fetches little in vain.

use crate::bench::layer::Narrow;
use crate::bench::world::{ROUND_TRIP, World, are_local, read, until};
use crate::bench::{close, run};
use holdall_core::units::BlockRange;
use holdall_core::volume::Volume;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::slice::from_ref;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::time::Instant;

const MIB: usize = 1 << 20;

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    StdRng::seed_from_u64(len as u64).fill(&mut bytes[..]);
    bytes
}

/// Opens a drive with the files on a computer that has only its metadata.
async fn open(world: &World) -> Arc<Volume> {
    let volume = world.open_from_afar().await;
    until(&volume, |volume| volume.status().has_metadata).await;
    volume
}

/// Opens a file that a program recognises by its first 4 KiB. Returns how many round trips later the `named` bytes are here, and
/// how many bytes were fetched.
fn opened(file: &[u8], named: &[Range<u64>]) -> (f64, u64) {
    let world = World::of(|source| std::fs::write(source.join("file"), file).unwrap());
    let place = world.place("/file");
    let named: Vec<_> = named.iter().flat_map(|bytes| place.of(bytes.clone())).collect();
    let head = place.of(0..4096)[0];
    // The file's beginning may share a chunk with directories, and so stay here: its middle is read, too.
    let middle = file.len() as u64 / 2 / 4096 * 4096;
    let then = place.of(middle..middle + 4096)[0];
    run(async {
        let volume = open(&world).await;
        assert!(!are_local(&volume, &named));
        let begun = Instant::now();
        read(&volume, head).await;
        until(&volume, |volume| are_local(volume, &named)).await;
        let trips = begun.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64();
        tokio::time::sleep(20 * ROUND_TRIP).await;
        let fetched = volume.status().fetched_bytes;
        // Once the file has left this computer, the same happens again.
        volume.evict_all().await.unwrap();
        assert!(!are_local(&volume, &named));
        tokio::time::sleep(std::time::Duration::from_secs(120)).await;
        read(&volume, head).await;
        read(&volume, then).await;
        until(&volume, |volume| are_local(volume, &named)).await;
        close(volume).await;
        (trips, fetched)
    })
}

#[test]
fn prefetches_the_cues_of_a_matroska_film() {
    let element = |id: &[u8], body: &[u8]| {
        let length = (8_u64 << 32 | body.len() as u64).to_be_bytes();
        [id, &length[3..], body].concat()
    };
    let cues: &[u8] = &[0x1c, 0x53, 0xbb, 0x6b];
    let index = element(cues, &noise(200_000));
    let cluster = element(&[0x1f, 0x43, 0xb6, 0x75], &noise(16 * MIB));
    let seek_head = |position: usize| {
        let position = (position as u32).to_be_bytes();
        let seek = [element(&[0x53, 0xab], cues), element(&[0x53, 0xac], &position)].concat();
        element(&[0x11, 0x4d, 0x9b, 0x74], &element(&[0x4d, 0xbb], &seek))
    };
    let body = [seek_head(seek_head(0).len() + cluster.len()), cluster, index.clone()].concat();
    let header = element(&[0x1a, 0x45, 0xdf, 0xa3], &[1; 20]);
    let film = [header, element(&[0x18, 0x53, 0x80, 0x67], &body)].concat();
    let end = film.len() as u64;
    let (trips, fetched) = opened(&film, from_ref(&(end - index.len() as u64..end)));
    assert!(trips < 4.0 && fetched < MIB as u64, "{trips} round trips, {fetched} bytes");
}

#[test]
fn prefetches_the_directory_of_an_archive() {
    let entries = [b"PK\x01\x02".as_slice(), &[7; 42]].concat().repeat(4000);
    let data = [b"PK\x03\x04".as_slice(), &noise(16 * MIB)].concat();
    let place = [(entries.len() as u32).to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
    let end = [b"PK\x05\x06\0\0\0\0\xa0\x0f\xa0\x0f".as_slice(), &place, &[0, 0]].concat();
    let archive = [data.clone(), entries, end].concat();
    let (trips, fetched) = opened(&archive, from_ref(&(data.len() as u64..archive.len() as u64)));
    assert!(trips < 4.0 && fetched < MIB as u64, "{trips} round trips, {fetched} bytes");
}

#[test]
fn prefetches_the_object_tables_of_a_document() {
    let mut document = [b"%PDF-1.7\n".as_slice(), &noise(8 * MIB)].concat();
    let first = document.len() as u64;
    document.extend(b"xref\n0 1\ntrailer\n<< /Size 1 >>\nstartxref\n0\n%%EOF\n");
    document.extend(noise(9 * MIB));
    let second = document.len() as u64;
    let trailer = format!("xref\n0 1\ntrailer\n<< /Prev {first} >>\nstartxref\n{second}\n%%EOF\n");
    document.extend(trailer.as_bytes());
    let (trips, fetched) = opened(&document, &[first..first + 40, second..second + 40]);
    assert!(trips < 5.0 && fetched < MIB as u64, "{trips} round trips, {fetched} bytes");
}

/// A database with the tree and the path of each page.
struct Database {
    dir: TempDir,
    /// For each page of a tree: the tree's name, the page's path from the root, and its number.
    pages: Vec<(String, String, u64)>,
}

impl Database {
    /// Makes a table with an index, and this many other tables with an index.
    fn new(others: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut sql = String::from("CREATE TABLE a(x, y); CREATE INDEX i ON a(y);");
        let columns: Vec<_> = (0..40).map(|column| format!("column_{column}")).collect();
        for number in 0..others {
            sql += &format!("CREATE TABLE other_{number}(x PRIMARY KEY, {});", columns.join(","));
        }
        sql += "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
            INSERT INTO a SELECT i, hex(randomblob(20)) FROM n;
            SELECT name, path, pageno FROM dbstat;";
        let ran = Command::new("sqlite3").arg(dir.path().join("db")).arg(&sql).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let row = |line: &str| {
            let mut columns = line.split('|').map(str::to_owned);
            Some((columns.next()?, columns.next()?, columns.next()?.parse().ok()?))
        };
        let pages = String::from_utf8(ran.stdout).unwrap().lines().filter_map(row).collect();
        Self { dir, pages }
    }

    /// The pages of a tree from its root to one of its leaves.
    fn way(&self, tree: &str, rng: &mut StdRng) -> Vec<u64> {
        let of_tree = || self.pages.iter().filter(|(name, ..)| name == tree);
        let depth = of_tree().map(|(_, path, _)| path.len()).max().unwrap();
        let (_, leaf, _) = of_tree().filter(|(_, path, _)| path.len() == depth).choose(rng).unwrap();
        let mut way: Vec<_> = of_tree().filter(|(_, path, _)| leaf.starts_with(path.as_str())).collect();
        way.sort_by_key(|(_, path, _)| path.len());
        way.into_iter().map(|(.., page)| *page).collect()
    }
}

#[test]
fn prefetches_the_schema_and_the_roots_of_a_database() {
    let database = Database::new(80);
    let file = std::fs::read(database.dir.path().join("db")).unwrap();
    let is_meant = |(name, path, _): &&(String, String, u64)| name == "sqlite_schema" || path == "/";
    let meant = database.pages.iter().filter(is_meant).map(|(.., page)| (page - 1) * 4096..page * 4096);
    let meant: Vec<_> = meant.collect();
    assert!(meant.len() > 170, "{} pages", meant.len());
    let (trips, fetched) = opened(&file, &meant);
    assert!(trips < 5.0 && fetched < 2 * MIB as u64, "{trips} round trips, {fetched} bytes");
}

#[test]
fn database_queries_wait_only_for_leaves_and_fetch_little_else() {
    const QUERIES: usize = 20;
    let database = Database::new(0);
    let from = database.dir.path().join("db");
    let world = World::of(|source| {
        std::fs::copy(from, source.join("file")).unwrap();
    });
    let place = world.place("/file");
    let page = |number: u64| place.of((number - 1) * 4096..number * 4096)[0];
    let mut rng = StdRng::seed_from_u64(5);
    let mut query = || ["i", "a"].iter().flat_map(|tree| database.way(tree, &mut rng)).collect::<Vec<_>>();
    let pages: Vec<u64> = std::iter::repeat_with(&mut query).take(QUERIES).flatten().collect();
    let touched: BTreeSet<_> = pages.iter().chain(&[1]).collect();
    let blocks: Vec<_> = pages.iter().map(|number| page(*number)).collect();
    run(async {
        let volume = open(&world).await;
        read(&volume, page(1)).await;
        tokio::time::sleep(10 * ROUND_TRIP).await;
        let begun = Instant::now();
        for block in blocks {
            read(&volume, block).await;
        }
        let trips = begun.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64();
        // One of the index and one of the table for each query.
        assert!(trips < (2 * QUERIES) as f64 + 0.5, "{trips} round trips for {QUERIES} queries");
        let fetched = volume.status().fetched_bytes as f64 / (touched.len() * 4096) as f64;
        eprintln!("{trips:.1} round trips, {fetched:.2} bytes for each that was touched");
        assert!(fetched <= 4.0, "{fetched}");
        close(volume).await;
    });
}

/// A drive with one file of this size, and where it is.
fn large(len: usize) -> (World, BlockRange) {
    let world = World::of(|source: &Path| std::fs::write(source.join("file"), noise(len)).unwrap());
    let runs = world.place("/file").of(0..len as u64);
    // It lies in one piece, or in two around the beginning of a block group.
    let longest = runs.into_iter().max_by_key(BlockRange::count).unwrap();
    assert!(longest.byte_len() as usize > len / 2);
    (world, longest)
}

/// The cost of a reader's reads.
struct Cost {
    seconds: f64,
    /// Bytes fetched for each byte that was read.
    fetched: f64,
}

async fn reads(volume: &Arc<Volume>, reads: impl IntoIterator<Item = BlockRange>) -> Cost {
    let (begun, before) = (Instant::now(), volume.status().fetched_bytes);
    let mut used = 0;
    for blocks in reads {
        read(volume, blocks).await;
        used += blocks.byte_len();
    }
    let seconds = begun.elapsed().as_secs_f64();
    tokio::time::sleep(100 * ROUND_TRIP).await;
    let fetched = (volume.status().fetched_bytes - before) as f64 / used as f64;
    eprintln!("{seconds:.2} s, {fetched:.2} bytes for each that was read");
    Cost { seconds, fetched }
}

/// Opens the drive on a computer behind a link of this capacity.
async fn open_narrow(world: &World, computer: usize, bytes_per_ms: u64) -> Arc<Volume> {
    let volume = world.open(computer, Narrow::of(world.store(), bytes_per_ms)).await;
    until(&volume, |volume| volume.status().has_metadata).await;
    volume
}

#[test]
fn reading_backwards_takes_few_round_trips() {
    let (world, file) = large(48 * MIB);
    run(async {
        let volume = open_narrow(&world, 1, Narrow::BYTES_PER_MS).await;
        let blocks = (0..200).map(|number| BlockRange::new(file.end - (number + 1) * 32, 32));
        let cost = reads(&volume, blocks).await;
        // The link needs 2.1 s for the bytes; a round trip for each read would add 10 s.
        assert!(cost.seconds < 2.7 && cost.fetched < 1.5, "{} s, {}", cost.seconds, cost.fetched);
        close(volume).await;
    });
}

#[test]
fn strided_reads_take_few_round_trips_and_fetch_little_else() {
    let (world, file) = large(48 * MIB);
    let first = (file.start + 64).next_multiple_of(64);
    run(async {
        let volume = open_narrow(&world, 1, Narrow::BYTES_PER_MS).await;
        // Whole frames.
        let cost = reads(&volume, (0..200).map(|number| BlockRange::new(first + number * 32, 4))).await;
        assert!(cost.seconds < 1.3 && cost.fetched < 1.1, "{} s, {}", cost.seconds, cost.fetched);
        close(volume).await;
    });
}

/// This many files of 1 MiB, and where each begins.
fn many(count: usize) -> (World, Vec<BlockRange>) {
    let name = |number: usize| format!("file {number}");
    let world = World::of(|source| {
        (0..count).for_each(|number| std::fs::write(source.join(name(number)), noise(MIB + number)).unwrap());
    });
    let beginning = |number| world.place(&format!("\"/{}\"", name(number))).of(0..128 << 10);
    let beginnings =
        (0..count).filter_map(|number| beginning(number).into_iter().find(|run| run.count() == 32));
    let beginnings: Vec<_> = beginnings.collect();
    assert!(beginnings.len() * 10 >= count * 9, "{}", beginnings.len());
    (world, beginnings)
}

#[test]
fn reading_the_beginnings_of_many_files_fetches_little_more() {
    let (world, beginnings) = many(40);
    run(async {
        let volume = open(&world).await;
        let requests = volume.status().requests.get;
        let cost = reads(&volume, beginnings.iter().copied()).await;
        let requests = volume.status().requests.get - requests;
        // For three of them, the data behind the beginning is prefetched.
        assert!(cost.fetched < 1.3, "{} bytes for each that was read", cost.fetched);
        assert!(requests <= beginnings.len() as u64 + 6, "{requests} requests for {}", beginnings.len());
        close(volume).await;
    });
}

#[test]
fn cancels_the_readahead_of_a_reader_that_left() {
    const FRAME_BYTES: u64 = 16 << 10;
    let (world, file) = large(48 * MIB);
    // Other reads are either enough to show that the first reader has stopped, or too few.
    let fetched = [40_u64, 8].map(|others| {
        run(async {
            let volume = open_narrow(&world, others as usize, 1000).await;
            for start in (0..1024).step_by(32) {
                read(&volume, BlockRange::new(file.start + start, 32)).await;
            }
            // At unequal distances.
            let apart = |number| BlockRange::new(file.start + 3000 + number * number * 4, 1);
            reads(&volume, (0..others).map(apart)).await;
            let fetched = volume.status().fetched_bytes - others * FRAME_BYTES;
            close(volume).await;
            fetched
        })
    });
    assert!(fetched[0] + (512 << 10) < fetched[1], "{fetched:?}");
}
