//! HEAD has one home: one swap, and one set of transitions.

use crate::bench::layer::{Layer, Layered, away};
use crate::bench::{Bench, close, device, get, put, run};
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::drive::{self, DriveError};
use holdall_core::format::head::{self, Head};
use holdall_core::format::id::ObjectId;
use holdall_core::heads::{self, Author, Once, Retry, Swap, transition};
use holdall_core::map::{Objects, PageCache, ReadError};
use holdall_core::replica::{self, Left, Told};
use holdall_core::sim::store::SimStore;
use holdall_core::store::claims::Claims;
use holdall_core::store::{Etag, Fetched, Store, StoreError, When};
use holdall_core::units::Epoch;
use parking_lot::Mutex;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The fate of a HEAD that is put, and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is stored, and the answer is lost.
    AnswerLost,
    /// Both are lost, but the network delivers the request in the end.
    Late,
    /// The store does not allow it.
    Denied,
    /// The store asks for patience.
    Busy,
    /// The store says that HEAD has changed, which is wrong.
    Unfounded,
}

/// A store that does not answer the next puts of HEADs as it should.
struct Fateful {
    store: SimStore,
    /// Used up one after another.
    fates: Mutex<Vec<Fate>>,
    late: Mutex<Vec<(String, Bytes, When)>>,
    /// Whether HEADs cannot be read either.
    is_unreadable: Mutex<bool>,
    /// Requests for HEADs, in order.
    asked: Mutex<Vec<&'static str>>,
}

impl Fateful {
    fn new(store: &SimStore, fates: &[Fate]) -> Arc<Layered<Self>> {
        Arc::new(Layered(Self {
            store: store.clone(),
            fates: Mutex::new(fates.iter().rev().copied().collect()),
            late: Mutex::default(),
            is_unreadable: Mutex::default(),
            asked: Mutex::default(),
        }))
    }

    /// Delivers what was late.
    async fn deliver(&self) {
        let late = std::mem::take(&mut *self.late.lock());
        for (name, body, when) in late {
            let _ = self.store.put(&name, body, when).await;
        }
    }
}

#[async_trait]
impl Layer for Fateful {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        if head::is_name(name) {
            self.asked.lock().push("get");
            if *self.is_unreadable.lock() {
                return Err(away());
            }
        }
        self.store.get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        if !head::is_name(name) {
            return self.store.put(name, body, when).await;
        }
        self.asked.lock().push("put");
        let Some(fate) = self.fates.lock().pop() else { return self.store.put(name, body, when).await };
        let reason = || "as it is".to_owned();
        Err(match fate {
            Fate::AnswerLost => {
                self.store.put(name, body, when).await?;
                away()
            }
            Fate::Late => {
                self.late.lock().push((name.to_owned(), body, when));
                away()
            }
            Fate::Denied => StoreError::Denied { reason: reason() },
            Fate::Busy => StoreError::Busy { reason: reason(), retry_after: None },
            Fate::Unfounded => StoreError::Precondition { name: name.to_owned() },
        })
    }
}

fn objects(bench: &Bench, store: Arc<dyn Store>) -> Objects {
    Objects::new(store, bench.sealer.clone(), PageCache::none())
}

/// Waits this often, and writes down for what.
struct Times(u32, Vec<&'static str>);

#[async_trait]
impl Retry for Times {
    async fn wait(&mut self, _error: &StoreError) -> bool {
        self.1.push("put");
        self.0 -= u32::from(self.0 > 0);
        self.0 > 0
    }

    async fn wait_to_look(&mut self, _error: &StoreError) -> bool {
        self.1.push("look");
        self.0 -= u32::from(self.0 > 0);
        self.0 > 0
    }
}

#[test]
fn a_swap_is_judged_by_the_head_that_is_there() {
    use Fate::{AnswerLost, Busy, Denied, Late, Unfounded};
    let cases: [(&[Fate], bool, &str, &[&str]); 9] = [
        (&[], false, "applied", &["put"]),
        (&[AnswerLost], false, "applied", &["put", "get"]),
        (&[Late], false, "unknown", &["put", "get"]),
        (&[Late], true, "applied", &["put", "get", "put"]),
        (&[Denied], false, "refused", &["put", "get"]),
        (&[Denied, Late, Denied], true, "unknown", &["put", "get", "put", "get", "put", "get"]),
        (&[Busy], false, "unknown", &["put", "get"]),
        (&[Unfounded], false, "unknown", &["put", "get"]),
        (&[Unfounded, AnswerLost], true, "applied", &["put", "get", "put", "get"]),
    ];
    for (fates, tries_again, expected, asked) in cases {
        let bench = Bench::new();
        run(async {
            let store = Fateful::new(&bench.store, fates);
            let there = objects(&bench, store.clone());
            let (before, etag, _) = drive::current(&there, bench.drive).await.unwrap();
            store.asked.lock().clear();
            let device = device(0);
            let next = transition::retire(&before, false, |_| Vec::new(), Author::new(&device)).unwrap();
            let mut retry = Times(if tries_again { 3 } else { 0 }, Vec::new());
            let over = Some((&before, &etag));
            let swapped = heads::swap(&*store, &bench.sealer, over, next.clone(), &mut retry).await;
            let ended = match &swapped {
                Swap::Applied(..) => "applied",
                Swap::Lost(_) => "lost",
                Swap::Refused(_) => "refused",
                Swap::Unknown(_) => "unknown",
            };
            assert_eq!(ended, expected, "{fates:?}: {swapped:?}");
            assert_eq!(*store.asked.lock(), asked, "{fates:?}");
            let (now, etag, _) = drive_head(&there, bench.drive).await;
            match swapped {
                Swap::Applied(head, applied) => assert_eq!((head, applied), (now, etag), "{fates:?}"),
                _ => assert_eq!(now, before, "{fates:?}"),
            }
            // What arrives late is what was intended, or nothing.
            store.deliver().await;
            let (now, ..) = drive_head(&there, bench.drive).await;
            assert!(now == before || now == next, "{fates:?}: {now:?}");
        });
    }
}

async fn drive_head(objects: &Objects, drive: uuid::Uuid) -> (Head, Etag, ()) {
    let found = objects.store().get(&head::name(drive), None).await.unwrap();
    (Head::decode(objects.sealer(), &found.bytes).unwrap(), found.etag, ())
}

#[test]
fn an_unreadable_head_does_not_confirm_a_refused_swap() {
    for fate in [Fate::Denied, Fate::Late] {
        let bench = Bench::new();
        run(async {
            let store = Fateful::new(&bench.store, &[fate]);
            let there = objects(&bench, store.clone());
            let (before, etag, _) = drive::current(&there, bench.drive).await.unwrap();
            *store.is_unreadable.lock() = true;
            let device = device(0);
            let next = transition::retire(&before, false, |_| Vec::new(), Author::new(&device)).unwrap();
            let mut retry = Times(3, Vec::new());
            let swapped = heads::swap(&*store, &bench.sealer, Some((&before, &etag)), next, &mut retry).await;
            assert!(matches!(swapped, Swap::Unknown(_)), "{fate:?}: {swapped:?}");
            assert_eq!(retry.1, ["look", "look", "look"]);
        });
    }
}

#[test]
fn another_head_ends_a_swap() {
    let bench = Bench::new();
    run(async {
        let there = objects(&bench, Arc::new(bench.store.clone()));
        let (before, etag, _) = drive::current(&there, bench.drive).await.unwrap();
        drive::rename(&there, bench.drive, "other", &device(1)).await.unwrap();
        let device = device(0);
        let next = transition::retire(&before, false, |_| Vec::new(), Author::new(&device)).unwrap();
        let mut retry = Times(9, Vec::new());
        let over = Some((&before, &etag));
        let swapped = heads::swap(&bench.store, &bench.sealer, over, next.clone(), &mut retry).await;
        let Swap::Lost(now) = swapped else { panic!("{swapped:?}") };
        assert_eq!(now.epoch, Epoch(before.epoch.0 + 1));
        // Nor is it the first HEAD.
        let swapped = heads::swap(&bench.store, &bench.sealer, None, next, &mut Once).await;
        assert!(matches!(swapped, Swap::Lost(_)), "{swapped:?}");
    });
}

/// Blocks of a drive, in a few versions.
async fn written(bench: &Bench) {
    let volume = bench.open(0).await.unwrap();
    for block in 0..64 {
        put(&volume, block, 1).await;
    }
    volume.pusher().unwrap().sync().await.unwrap();
    close(volume).await;
}

/// Replaces everything, and deletes what no version needs.
async fn overwritten(bench: &Bench) {
    let volume = bench.open(0).await.unwrap();
    for round in 2..6 {
        for block in 0..64 {
            put(&volume, block, round).await;
        }
        volume.pusher().unwrap().collect().await.unwrap();
    }
    close(volume).await;
}

async fn references(store: &SimStore) -> usize {
    store.list("ref/").await.unwrap().len()
}

#[test]
fn a_clone_whose_head_arrives_late_is_whole() {
    let bench = Bench::new();
    run(async {
        written(&bench).await;
        let store = Fateful::new(&bench.store, &[Fate::Late]);
        let there = objects(&bench, store.clone());
        let cloned = drive::clone(&there, bench.drive, None, "e", &device(0)).await;
        assert!(matches!(cloned, Err(DriveError::Read(ReadError::Store(_)))), "{cloned:?}");
        overwritten(&bench).await;
        store.deliver().await;
        let heads = drive::heads(&bench.store, &bench.sealer).await.unwrap();
        let clone = heads.iter().find(|head| head.drive != bench.drive).unwrap().drive;
        let found = Bench { drive: clone, ..bench.elsewhere() };
        let volume = found.open(1).await.unwrap();
        for block in 0..64 {
            assert_eq!(get(&volume, block).await, 1);
        }
        close(volume).await;
        // Now the clone holds the version itself.
        overwritten(&bench).await;
        assert_eq!(references(&bench.store).await, 0);
    });
}

/// Makes all refs of a store a day older.
fn a_day_passes(store: &SimStore) {
    for name in store.names().into_iter().filter(|name| name.starts_with("ref/")) {
        store.damage(&name, |body| {
            let mut reference: serde_json::Value = serde_json::from_slice(body).unwrap();
            let created_ms = reference["created_ms"].as_u64().unwrap();
            reference["created_ms"] = (created_ms - 24 * 3600 * 1000).into();
            *body = serde_json::to_vec(&reference).unwrap();
        });
    }
}

#[test]
fn a_clone_whose_head_does_not_come_is_abandoned_after_a_day() {
    let bench = Bench::new();
    run(async {
        written(&bench).await;
        let store = Fateful::new(&bench.store, &[Fate::Late]);
        let there = objects(&bench, store.clone());
        drive::clone(&there, bench.drive, None, "e", &device(0)).await.unwrap_err();
        overwritten(&bench).await;
        assert_eq!(references(&bench.store).await, 1, "its HEAD may still come");
        a_day_passes(&bench.store);
        overwritten(&bench).await;
        assert_eq!(references(&bench.store).await, 0);
        // Now it comes, and names a version of which nothing may be left.
        store.deliver().await;
        let heads = drive::heads(&bench.store, &bench.sealer).await.unwrap();
        assert_eq!(heads.len(), 1, "{heads:?}");
        drive::clone(&there, bench.drive, None, "e", &device(0)).await.unwrap();
    });
}

#[test]
fn an_abandoned_clone_does_not_come_back_where_heads_are_claimed() {
    let bench = Bench::new();
    run(async {
        let new = uuid::Uuid::from_u128(77);
        let claims = Claims::new(Arc::new(bench.store.clone()));
        let (_, _, root) =
            drive::current(&objects(&bench, Arc::new(bench.store.clone())), bench.drive).await.unwrap();
        let version = heads::Version {
            root: ObjectId { drive: new, epoch: Epoch(0), seq: 0, unique: 1 },
            root_hash: [1; 32],
            parent: root.parent,
        };
        let device = device(0);
        let first = transition::publish(
            new,
            Epoch(0),
            version,
            false,
            Author { nonce: u128::MAX, ..Author::new(&device) },
        );
        let abandoned = transition::abandon(new, Author { nonce: 1, ..Author::new(&device) });
        let swapped = heads::swap(&claims, &bench.sealer, None, abandoned.clone(), &mut Once).await;
        assert!(matches!(swapped, Swap::Applied(..)), "{swapped:?}");
        // The record of the first HEAD was on its way.
        let name = format!("{}/{:016x}-{:016x}-{:016x}-{:032x}", head::name(new), 0, 0, 0, first.nonce);
        bench.store.leave(&name, first.encode(&bench.sealer).into());
        let found = claims.get(&head::name(new), None).await.unwrap();
        assert_eq!(Head::decode(&bench.sealer, &found.bytes).unwrap(), abandoned);
    });
}

#[test]
fn a_version_that_is_set_apart_is_not_abandoned() {
    let bench = Bench::new();
    run(async {
        written(&bench).await;
        let store = Fateful::new(&bench.store, &[Fate::Late]);
        let there = objects(&bench, store.clone());
        let left = Left { at: Epoch(99), with: (Epoch(0), 0) };
        let retire = async || replica::retire_former(&there, bench.drive, left, "s3://b", &device(0)).await;
        retire().await.unwrap_err();
        a_day_passes(&bench.store);
        overwritten(&bench).await;
        assert_eq!(references(&bench.store).await, 1);
        store.deliver().await;
        let heads = drive::heads(&bench.store, &bench.sealer).await.unwrap();
        assert_eq!(heads.len(), 2, "{heads:?}");
    });
}

#[test]
fn a_clone_is_made_though_the_answer_is_lost() {
    let bench = Bench::new();
    run(async {
        written(&bench).await;
        let there = objects(&bench, Fateful::new(&bench.store, &[Fate::AnswerLost]));
        let clone = drive::clone(&there, bench.drive, None, "e", &device(0)).await.unwrap();
        assert_eq!(references(&bench.store).await, 0);
        overwritten(&bench).await;
        let volume = Bench { drive: clone, ..bench.elsewhere() }.open(1).await.unwrap();
        assert_eq!(get(&volume, 63).await, 1);
        close(volume).await;
    });
}

#[test]
fn a_refused_clone_holds_nothing() {
    let bench = Bench::new();
    run(async {
        written(&bench).await;
        let there = objects(&bench, Fateful::new(&bench.store, &[Fate::Denied]));
        assert!(drive::clone(&there, bench.drive, None, "e", &device(0)).await.is_err());
        assert_eq!(references(&bench.store).await, 0);
    });
}

#[test]
fn a_version_set_apart_is_held_until_its_head_arrives() {
    let bench = Bench::new();
    run(async {
        written(&bench).await;
        let store = Fateful::new(&bench.store, &[Fate::Late]);
        let there = objects(&bench, store.clone());
        let left = Left { at: Epoch(99), with: (Epoch(0), 0) };
        let retire = async || replica::retire_former(&there, bench.drive, left, "s3://b", &device(0)).await;
        let told = retire().await;
        assert!(matches!(told, Err(DriveError::Read(_))), "{told:?}");
        assert_eq!(references(&bench.store).await, 1);
        overwritten(&bench).await;
        store.deliver().await;
        let heads = drive::heads(&bench.store, &bench.sealer).await.unwrap();
        let apart = heads.iter().find(|head| head.drive != bench.drive).unwrap().drive;
        let volume = Bench { drive: apart, ..bench.elsewhere() }.open(1).await.unwrap();
        assert_eq!(get(&volume, 63).await, 1);
        close(volume).await;
        let told = retire().await.unwrap();
        assert!(matches!(told, Told::Now { left_behind: Some(_) }), "{told:?}");
    });
}

/// The code of core outside its tests, by file.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut left) = (Vec::new(), vec![root.clone()]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.file_name().is_some_and(|name| name != "tests.rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((name, text.split("#[cfg(test)]").next().unwrap().to_owned()));
            }
        }
    }
    found
}

/// Lines of code that contain `word`, outside the files that may.
fn uses(word: &str, may: &[&str]) -> Vec<String> {
    let mut uses = Vec::new();
    for (file, code) in sources() {
        if may.iter().any(|may| file.starts_with(may)) {
            continue;
        }
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//") && line.contains(word));
        uses.extend(lines.map(|line| format!("{file}: {}", line.trim())));
    }
    uses
}

#[test]
fn only_the_one_swap_puts_a_head() {
    // A condition on the version of an object is a condition on HEAD: nothing else is ever changed.
    assert_eq!(uses("When::Matches", &["heads/swap.rs", "store/", "sim/"]), [""; 0]);
    // A HEAD becomes bytes where it is put, and in copies: a replica's record, what a device saw last, and what a hand-over brings and notes.
    let copies = ["replica/worker.rs", "volume/seen.rs", "volume/hand_over.rs", "volume/receive.rs"];
    let sealed = uses("head.encode(", &[&["format/head.rs"], &copies[..]].concat());
    assert_eq!(sealed, [""; 0]);
    assert!(!uses("When::Matches", &["store/", "sim/"]).is_empty(), "nothing would be found at all");
}

#[test]
fn only_transitions_make_heads() {
    let is_made = |line: &String| {
        let code = line.split_once(": ").unwrap().1;
        !["let Head {", "fn ", "impl ", "struct "].iter().any(|other| code.contains(other))
    };
    let mut made = uses(" Head {", &["format/head.rs", "heads/transition.rs"]);
    made.extend(uses("(Head {", &["format/head.rs", "heads/transition.rs"]));
    made.retain(is_made);
    assert_eq!(made, [""; 0]);
}
