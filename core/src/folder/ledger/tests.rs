//! The ledger on a disk that forgets, tears and fails.

use super::parts::PARTS_MAX;
use super::record::{FILE_BYTES, STEP_BYTES_MAX};
use super::*;
use crate::folder::node::{Brings, ContentHere, Intent, Known, MetaHere, Place};
use crate::folder::tree::Child;
use crate::sim::disk::{DiskFaults, SimDisk};
use crate::store::remote::{Kind, Meta, Name, Time, Version};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

const FOLDER: Uuid = Uuid::from_u128(0xf01d);

fn place(parent: u32, name: &str) -> Place {
    Place::new(Ino(parent), Name::new(name).unwrap())
}

fn known(place: Place, tag: &str) -> Known {
    let version = Version { tag: tag.into(), len: 3, written: None };
    Known { place, kind: Kind::File, version, meta: None, is_writable: true }
}

fn made(parent: u32, name: &str) -> Node {
    Node::made(Kind::File, place(parent, name), Meta::default(), 7)
}

fn content(generation: u64) -> Option<ContentHere> {
    Some(ContentHere { generation, len: generation, mtime: Time(-1), base: None })
}

async fn open(disk: &SimDisk) -> Result<Arc<Ledger>, LedgerError> {
    Ledger::open(Arc::new(disk.clone()), FOLDER).await
}

fn set(ledger: &Ledger, step: Step) -> Result<(), LedgerError> {
    ledger.change(|_| Ok((step, ())))
}

fn nodes(ledger: &Ledger) -> Vec<(Ino, Node)> {
    ledger.read(|tree| tree.nodes().map(|(ino, node)| (ino, node.clone())).collect())
}

fn shape(ledger: &Ledger) -> String {
    ledger.read(|tree| format!("{tree:?}"))
}

/// A step that may fit the tree or not.
fn random_step(rng: &mut StdRng) -> Step {
    let states = (0..rng.random_range(1..3)).map(|_| {
        let place =
            |rng: &mut StdRng| place(rng.random_range(1..4), &format!("name {}", rng.random_range(0..20)));
        let ino = Ino(rng.random_range(2..30));
        let local = place(rng);
        let node = match rng.random_range(0..5) {
            0 => None,
            1 => Some(Node {
                content: content(rng.random_range(1..9)),
                ..made(local.parent.0, local.name.as_str())
            }),
            2 => Some(Node { local: None, ..Node::as_remote(known(place(rng), "1")) }),
            3 => Some(Node { local: Some(local), ..Node::as_remote(known(place(rng), "2")) }),
            _ => {
                Some(Node { content: content(rng.random_range(1..9)), ..Node::as_remote(known(local, "3")) })
            }
        };
        (ino, node)
    });
    Step::of(states.collect())
}

/// What the tree was after each change that was acknowledged, and how many of these are durable.
struct History {
    shapes: Vec<String>,
    durable: usize,
}

impl History {
    fn note(&mut self, ledger: &Ledger) {
        let shape = shape(ledger);
        if self.shapes.last() != Some(&shape) {
            self.shapes.push(shape);
        }
    }

    /// The ledger was opened again.
    fn check(&mut self, ledger: &Ledger, was_cut: bool, seed: u64) {
        let now = shape(ledger);
        let last = self.shapes.len() - 1;
        let oldest = if was_cut { self.durable } else { last };
        let found = self.shapes[oldest..].iter().rposition(|shape| *shape == now);
        let found =
            found.unwrap_or_else(|| panic!("seed {seed}: the tree is none of those from {oldest} to {last}"));
        self.shapes.truncate(oldest + found + 1);
        self.durable = self.shapes.len() - 1;
    }
}

async fn lives(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let sync_fails = if seed.is_multiple_of(4) { 100 } else { 0 };
    let disk = SimDisk::new(seed, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(20) });
    let mut history = History { shapes: vec![format!("{:?}", Tree::default())], durable: 0 };
    let (mut was_cut, mut counts_as_cut) = (true, true);
    for _ in 0..6 {
        let faults = disk.faults();
        disk.set_faults(DiskFaults { sync_fails: 0, ..faults });
        let ledger = open(&disk).await.unwrap();
        disk.set_faults(DiskFaults { sync_fails, ..faults });
        history.check(&ledger, was_cut, seed);
        assert_eq!(ledger.was_cut(), counts_as_cut, "seed {seed}");
        let _ = ledger.recovered().await;
        let mut compacting = None;
        for _ in 0..rng.random_range(5..60) {
            match rng.random_range(0..12) {
                0 => {
                    let upto = history.shapes.len() - 1;
                    if ledger.sync().await.is_ok() {
                        history.durable = upto;
                    }
                }
                1 if compacting.is_none() => {
                    let ledger = ledger.clone();
                    compacting = Some(tokio::spawn(async move { ledger.compact().await }));
                }
                2 => tokio::time::sleep(Duration::from_millis(rng.random_range(0..30))).await,
                _ => {
                    let before = shape(&ledger);
                    let step = random_step(&mut rng);
                    let fits = ledger.read(|tree| tree.check(&step).is_ok());
                    let changed = set(&ledger, step);
                    assert_eq!(matches!(changed, Err(LedgerError::Refused(_))), !fits, "seed {seed}");
                    match changed {
                        Ok(()) => history.note(&ledger),
                        Err(_) => assert_eq!(shape(&ledger), before, "seed {seed}"),
                    }
                }
            }
        }
        // At any moment of a sync or a compaction.
        let syncing = ledger.clone();
        let syncing = tokio::spawn(async move { syncing.sync().await });
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..40))).await;
        let is_synced = syncing.is_finished();
        // What was noted as recovered is so only if it was durable.
        was_cut = rng.random_bool(0.6);
        if was_cut {
            disk.power_cut()
        } else {
            disk.kill()
        }
        // What still runs finds a dead disk. It must not meet the next life, as in a process that is gone.
        ledger.dies().await;
        if syncing.await.unwrap().is_ok() && is_synced {
            history.durable = history.shapes.len() - 1;
        }
        if let Some(compacting) = compacting {
            let _ = compacting.await;
        }
        counts_as_cut = Boot::load(&disk).unwrap().map(|boot| boot.boot) != disk.boot();
        assert!(counts_as_cut || !was_cut, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn random_lives_keep_what_was_acknowledged() {
    for seed in 0..100 {
        lives(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn replays_whatever_compaction_left_behind_at_each_sync() {
    for syncs in 0..12 {
        let disk = SimDisk::new(syncs, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(5) });
        let ledger = open(&disk).await.unwrap();
        for ino in 2..500 {
            set(&ledger, Step::one(Ino(ino), Some(made(1, &format!("file {ino}"))))).unwrap();
        }
        ledger.sync().await.unwrap();
        let expected = shape(&ledger);
        let compacting = ledger.clone();
        let task = tokio::spawn(async move { compacting.tidied_at_once().await });
        let _ = tokio::time::timeout(Duration::from_secs(1), disk.after_syncs(syncs)).await;
        disk.power_cut();
        let _ = task.await;
        ledger.dies().await;
        assert_eq!(shape(&open(&disk).await.unwrap()), expected, "after {syncs} syncs");
    }
}

impl Ledger {
    /// What runs in the background ends with the process.
    async fn dies(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.tidy_wanted.notify_one();
        let tidying = self.tidying.lock().take().unwrap();
        tidying.await.unwrap();
    }

    async fn tidied_at_once(&self) -> Result<(), LedgerError> {
        self.compact().await?;
        self.log.keep_spare().await?;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_under_load_stays_short_and_forgets_nothing() {
    let disk = SimDisk::new(3, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(2) });
    let ledger = open(&disk).await.unwrap();
    for ino in 2..40 {
        set(&ledger, Step::one(Ino(ino), Some(made(1, &format!("stays {ino}"))))).unwrap();
    }
    // The highest number is forgotten as soon as it was seen.
    set(&ledger, Step::one(Ino(5000), Some(made(1, "goes")))).unwrap();
    set(&ledger, Step::one(Ino(5000), None)).unwrap();
    for round in 1..12_000 {
        let node = Node { content: content(round), ..made(1, "stays 2") };
        set(&ledger, Step::one(Ino(2), Some(node))).unwrap();
        if round % 2 == 0 {
            ledger.sync().await.unwrap();
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let used = ledger.log.space().used_bytes;
    assert!(used <= compact::BYTES_MIN + 2 * FILE_BYTES, "{used} bytes");
    assert!(ledger.log.first() > Lsn(6000), "the files before were freed");
    ledger.sync().await.unwrap();
    let expected = shape(&ledger);
    ledger.dies().await;
    disk.power_cut();
    let ledger = open(&disk).await.unwrap();
    assert_eq!(shape(&ledger), expected);
    assert_eq!(ledger.highest_ino(), Ino(5000));
}

#[tokio::test(start_paused = true)]
async fn bursts_need_no_waiting() {
    let disk = SimDisk::new(4, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    // Ten files, before any other task runs.
    for ino in 2..200 {
        let mut node = made(1, &format!("file {ino}"));
        node.meta.as_mut().unwrap().meta.xattrs.insert("user.x".into(), vec![7; 100_000]);
        set(&ledger, Step::one(Ino(ino), Some(node))).unwrap();
    }
    let expected = nodes(&ledger);
    ledger.sync().await.unwrap();
    ledger.dies().await;
    disk.power_cut();
    assert_eq!(nodes(&open(&disk).await.unwrap()), expected);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_changes_and_nothing_else() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed, DiskFaults::default());
        let ledger = open(&disk).await.unwrap();
        let mut rng = StdRng::seed_from_u64(seed);
        disk.set_free(rng.random_range(0..3 * FILE_BYTES));
        let (mut ino, mut refused) = (2, 0);
        while refused < 50 {
            let before = nodes(&ledger);
            disk.set_full(rng.random_bool(0.1));
            let mut node = made(1, &format!("file {ino}"));
            node.meta.as_mut().unwrap().meta.xattrs.insert("user.x".into(), vec![7; 100_000]);
            match set(&ledger, Step::one(Ino(ino), Some(node))) {
                Ok(()) => ino += 1,
                Err(error) => {
                    assert_eq!((error, nodes(&ledger)), (LedgerError::NoSpace, before), "seed {seed}");
                    refused += 1;
                }
            }
            if rng.random_bool(0.2) {
                ledger.sync().await.unwrap();
            }
        }
        disk.set_full(false);
        disk.set_free(u64::MAX);
        set(&ledger, Step::one(Ino(ino), Some(made(1, "fits again")))).unwrap();
        ledger.sync().await.unwrap();
        let expected = nodes(&ledger);
        ledger.dies().await;
        disk.power_cut();
        assert_eq!(nodes(&open(&disk).await.unwrap()), expected, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn damage_stops_everything_and_touches_nothing() {
    let disk = SimDisk::new(5, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    for ino in 2..20 {
        set(&ledger, Step::one(Ino(ino), Some(made(1, &format!("file {ino}"))))).unwrap();
        ledger.sync().await.unwrap();
    }
    ledger.close().await.unwrap();
    let name = "changes-j00000001";
    let names = disk.list().unwrap();
    for at in [30, 4096 + 20, 4096 + 100, 3 * 4096 + 70] {
        disk.flip_bit(name, at * 8);
        let damaged = open(&disk).await.err().unwrap();
        assert!(matches!(damaged, LedgerError::Damaged(_)), "{at}: {damaged:?}");
        let told = damaged.to_string();
        assert!(told.contains("Nothing was uploaded") && told.contains("here-"), "{told}");
        disk.flip_bit(name, at * 8);
    }
    assert!(matches!(
        Ledger::open(Arc::new(disk.clone()), Uuid::from_u128(1)).await,
        Err(LedgerError::Damaged(_))
    ));
    assert_eq!(disk.list().unwrap(), names);
    let ledger = open(&disk).await.unwrap();
    assert_eq!(ledger.read(|tree| tree.nodes().count()), 18);
    ledger.close().await.unwrap();
    // Another file has been begun, but the records lie in the first.
    disk.flip_bit(name, 30 * 8);
    assert!(matches!(open(&disk).await, Err(LedgerError::Damaged(_))));
    disk.remove(name).unwrap();
    let missing = open(&disk).await.err().unwrap();
    assert!(matches!(&missing, LedgerError::Damaged(told) if told.contains("not there")), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn records_that_contradict_each_other_are_damage() {
    let disk = SimDisk::new(6, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    for ino in 2..4 {
        // Past the check that refuses it.
        ledger.append(&Step::one(Ino(ino), Some(made(1, "same")))).unwrap();
    }
    ledger.dies().await;
    disk.kill();
    let damaged = open(&disk).await.err().unwrap();
    assert!(matches!(&damaged, LedgerError::Damaged(reason) if reason.contains("same")), "{damaged}");
    assert!(disk.list().unwrap().contains(&"changes-j00000001".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_cut_counts_until_it_was_recovered_from() {
    let disk = SimDisk::new(7, DiskFaults::default());
    let is_cut = async |recovers| {
        let ledger = open(&disk).await.unwrap();
        let was_cut = ledger.was_cut();
        if recovers {
            ledger.recovered().await.unwrap();
        }
        ledger.dies().await;
        disk.kill();
        was_cut
    };
    assert!(is_cut(false).await, "nothing is known of the time before");
    assert!(is_cut(true).await, "the first life ended before it had recovered");
    assert!(!is_cut(true).await);
    disk.power_cut();
    assert!(is_cut(false).await);
    assert!(is_cut(true).await, "recovery was cut off");
    assert!(!is_cut(false).await);
}

#[tokio::test(start_paused = true)]
async fn a_closed_ledger_is_durable_and_takes_no_change() {
    let disk = SimDisk::new(12, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(5) });
    let ledger = open(&disk).await.unwrap();
    for ino in 2..9000 {
        set(&ledger, Step::one(Ino(ino), Some(made(1, &format!("file {ino}"))))).unwrap();
    }
    let expected = shape(&ledger);
    let compacting = ledger.clone();
    let compacting = tokio::spawn(async move { compacting.compact().await });
    ledger.close().await.unwrap();
    assert!(matches!(set(&ledger, Step::one(Ino(2), None)), Err(LedgerError::Failed(_))));
    compacting.await.unwrap().unwrap();
    disk.power_cut();
    assert_eq!(shape(&open(&disk).await.unwrap()), expected);
}

#[tokio::test(start_paused = true)]
async fn changes_are_counted_and_those_that_change_nothing_are_not_recorded() {
    let disk = SimDisk::new(8, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    let changes = ledger.changes();
    let step = Step::one(Ino(2), Some(made(1, "file")));
    set(&ledger, step.clone()).unwrap();
    set(&ledger, step.clone()).unwrap();
    assert_eq!((*changes.borrow(), ledger.log.appended()), (1, Lsn(1)));
    set(&ledger, Step { request: 9, ..step }).unwrap();
    assert_eq!((*changes.borrow(), ledger.log.appended()), (2, Lsn(2)));
    let refused: Result<(), LedgerError> = ledger.change(|_| Err(LedgerError::NoSpace));
    assert_eq!((refused, *changes.borrow()), (Err(LedgerError::NoSpace), 2));
    assert_eq!(ledger.highest_ino(), Ino(2));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_too_long_for_a_record_is_refused() {
    let disk = SimDisk::new(9, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    let mut node = made(1, "file");
    node.meta.as_mut().unwrap().meta.xattrs.insert("user.x".into(), vec![0; STEP_BYTES_MAX as usize]);
    assert_eq!(set(&ledger, Step::one(Ino(2), Some(node))), Err(LedgerError::TooLarge { files: 1 }));
    assert_eq!(ledger.read(|tree| tree.child(&place(1, "file"))), Child::AsRemote);
}

/// A step that makes many files, each with an attribute of that many bytes.
fn large_step(files: u32, bytes: usize) -> Step {
    let state = |ino: u32| {
        let mut node = made(1, &format!("file {ino}"));
        node.meta.as_mut().unwrap().meta.xattrs.insert("user.x".into(), vec![7; bytes]);
        (Ino(ino), Some(node))
    };
    Step { request: 9, made: None, states: (2..2 + files).map(state).collect() }
}

#[tokio::test(start_paused = true)]
async fn steps_of_many_states_and_many_bytes_are_there_after_opening() {
    for (files, bytes) in [(25_000, 0), (200, 50_000)] {
        let disk = SimDisk::new(13, DiskFaults::default());
        let ledger = open(&disk).await.unwrap();
        set(&ledger, large_step(files, bytes)).unwrap();
        assert_eq!(*ledger.changes().borrow(), 1);
        set(&ledger, Step::one(Ino(3), None)).unwrap();
        ledger.sync().await.unwrap();
        let expected = nodes(&ledger);
        assert_eq!(expected.len(), files as usize - 1);
        ledger.dies().await;
        disk.power_cut();
        let ledger = open(&disk).await.unwrap();
        assert_eq!(nodes(&ledger), expected);
        ledger.compact().await.unwrap();
        ledger.dies().await;
        disk.power_cut();
        assert_eq!(nodes(&open(&disk).await.unwrap()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_too_long_for_all_its_records_changes_nothing() {
    let disk = SimDisk::new(14, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    let appended = ledger.log.appended();
    let files = STATES_MAX + 1;
    let states = (2..2 + files as u32).map(|ino| (Ino(ino), None)).collect();
    // It names a request: otherwise there would be nothing to record.
    assert_eq!(set(&ledger, Step { request: 1, made: None, states }), Err(LedgerError::TooLarge { files }));
    let files = PARTS_MAX + 1;
    let refused = set(&ledger, large_step(files, STEP_BYTES_MAX as usize - 1000));
    assert_eq!(refused, Err(LedgerError::TooLarge { files: files as usize }));
    assert_eq!((nodes(&ledger), ledger.log.appended()), (vec![], appended));
    set(&ledger, Step::one(Ino(2), Some(made(1, "file")))).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_step_of_several_records_is_whole_or_not_there() {
    let (mut whole, mut nothing) = (0, 0);
    for seed in 0..60 {
        let disk = SimDisk::new(seed, DiskFaults { sync_fails: 0, sync_time: Duration::from_millis(9) });
        let ledger = open(&disk).await.unwrap();
        set(&ledger, Step::one(Ino(900), Some(made(1, "before")))).unwrap();
        ledger.sync().await.unwrap();
        set(&ledger, large_step(70, 50_000)).unwrap();
        let syncing = ledger.clone();
        let syncing = tokio::spawn(async move { syncing.sync().await });
        tokio::time::sleep(Duration::from_millis(seed % 40)).await;
        disk.power_cut();
        ledger.dies().await;
        let is_durable = syncing.await.unwrap().is_ok();
        let ledger = open(&disk).await.unwrap();
        let found = nodes(&ledger).len();
        assert!(found == 71 || found == 1 && !is_durable, "seed {seed}: {found}");
        if found == 71 {
            whole += 1
        } else {
            nothing += 1
        }
        // What follows is not taken for the rest of it.
        set(&ledger, large_step(80, 50_000)).unwrap();
        set(&ledger, Step::one(Ino(901), Some(made(1, "after")))).unwrap();
        ledger.sync().await.unwrap();
        ledger.dies().await;
        disk.power_cut();
        assert_eq!(nodes(&open(&disk).await.unwrap()).len(), 82, "seed {seed}");
    }
    assert!(whole > 0 && nothing > 0, "{whole} {nothing}");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fills_up_within_a_step_refuses_all_of_it() {
    let disk = SimDisk::new(15, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    set(&ledger, Step::one(Ino(900), Some(made(1, "before")))).unwrap();
    let (expected, appended) = (nodes(&ledger), ledger.log.appended());
    disk.set_free(FILE_BYTES);
    assert_eq!(set(&ledger, large_step(200, 50_000)), Err(LedgerError::NoSpace));
    assert!(ledger.log.appended() > appended, "some of its records were written");
    assert_eq!(nodes(&ledger), expected);
    disk.set_free(u64::MAX);
    set(&ledger, Step::one(Ino(901), Some(made(1, "after")))).unwrap();
    ledger.sync().await.unwrap();
    let expected = nodes(&ledger);
    ledger.dies().await;
    disk.power_cut();
    let ledger = open(&disk).await.unwrap();
    assert_eq!(nodes(&ledger), expected);
    assert_eq!(expected.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn compaction_costs_no_more_than_the_changes() {
    let disk = SimDisk::new(16, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    // The states take 10 MB of the log, and 100 MB of changes come.
    let (mut first, mut compactions) = (ledger.log.first(), 0);
    for round in 0..10 {
        for step in 0..100 {
            let mut node = made(1, &format!("file {step}"));
            node.content = content(round);
            node.meta.as_mut().unwrap().meta.xattrs.insert("user.x".into(), vec![round as u8; 100_000]);
            set(&ledger, Step::one(Ino(2 + step), Some(node))).unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            if ledger.log.first() != first {
                (first, compactions) = (ledger.log.first(), compactions + 1);
            }
        }
    }
    assert!((3..=6).contains(&compactions), "{compactions}");
}

/// The log of version 1 as far as it is not zero, written by [`writes_the_log_of_today`] once and never again.
const VERSION_1: &[u8] = include_bytes!("../../../tests/data/v1/folder/changes-j00000001");

/// The steps of that log: all that a node can have.
fn steps_of_version_1() -> [Step; 4] {
    let version = Version { tag: "\"etag\"".into(), len: 77, written: Some(Time(-5)) };
    let meta = Meta {
        mode: Some(0o640),
        mtime: Some(Time(1_700_000_000_123_456_789)),
        xattrs: [("user.a".to_owned(), vec![0, 1, 2])].into(),
        link: Some("../elsewhere".into()),
    };
    let known = Known {
        place: place(1, "before"),
        kind: Kind::File,
        version: version.clone(),
        meta: Some(meta.clone()),
        is_writable: true,
    };
    let intent = |brings| Some(Intent { at: place(2, "after"), brings });
    let digest = std::array::from_fn(|at| at as u8);
    let sent = Brings::Content { generation: 3, meta: 4, len: 100, digest, resume: b"part 2".to_vec() };
    let full = Node {
        kind: Kind::File,
        remote: Some(known.clone()),
        local: Some(place(2, "after")),
        content: Some(ContentHere { generation: 3, len: 100, mtime: Time(9), base: Some(version) }),
        meta: Some(MetaHere { generation: 4, meta: meta.clone() }),
        may_be_written: true,
        intent: intent(sent),
        since_ms: 1_700_000_000_000,
    };
    let directory = Node {
        intent: Some(Intent { at: place(1, "docs"), brings: Brings::Directory }),
        ..Node::made(Kind::Directory, place(1, "docs"), Meta::default(), 3)
    };
    let moved = Node { remote: None, intent: intent(Brings::Relocated { is_copied: true }), ..full.clone() };
    let named = Node { local: None, intent: intent(Brings::Meta(6)), ..full.clone() };
    let link = Node::made(Kind::Link, place(2, "link"), meta, 8);
    let (docs, gone) = (Ino(2), Ino(900));
    [
        Step {
            request: 42,
            made: None,
            states: vec![(docs, Some(directory)), (Ino(3), Some(full)), (gone, Some(made(2, "gone")))],
        },
        Step::of(vec![(Ino(3), Some(moved)), (Ino(4), Some(named))]),
        Step::one(Ino(5), Some(link)),
        Step::one(gone, None),
    ]
}

#[tokio::test(start_paused = true)]
async fn reads_the_log_of_version_1() {
    let disk = SimDisk::new(10, DiskFaults::default());
    let file = disk.open("changes-j00000001", true).unwrap();
    file.write_at(VERSION_1, 0).unwrap();
    file.set_len(FILE_BYTES).unwrap();
    let ledger = open(&disk).await.unwrap();
    let (mut expected, log) = (Tree::default(), [VERSION_1, &[0; 64]].concat());
    for step in steps_of_version_1() {
        expected.replay(&step).unwrap();
        let data = step.encode();
        assert!(log.windows(data.len()).any(|bytes| bytes == data), "what is written is the same bytes");
    }
    assert_eq!(shape(&ledger), format!("{expected:?}"));
    assert_eq!(ledger.highest_ino(), Ino(900));
}

#[tokio::test(start_paused = true)]
#[ignore = "writes the fixture of today's format"]
async fn writes_the_log_of_today() {
    let disk = SimDisk::new(11, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    for step in steps_of_version_1() {
        ledger.append(&step).unwrap();
        ledger.sync().await.unwrap();
    }
    let file = disk.open("changes-j00000001", false).unwrap();
    let mut bytes = vec![0; FILE_BYTES as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/v1/folder/changes-j00000001");
    assert!(VERSION_1.is_empty(), "a fixture is never written again");
    std::fs::write(path, bytes).unwrap();
}

/// A log of version 1 with a step of three records and one of two, written by [`writes_a_divided_step_of_today`] once.
const DIVIDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/v1/folder/changes-divided");

#[tokio::test(start_paused = true)]
async fn reads_a_divided_step_of_version_1() {
    let disk = SimDisk::new(17, DiskFaults::default());
    let file = disk.open("changes-j00000001", true).unwrap();
    file.write_at(&std::fs::read(DIVIDED).unwrap(), 0).unwrap();
    file.set_len(FILE_BYTES).unwrap();
    let ledger = open(&disk).await.unwrap();
    let mut expected = Tree::default();
    for step in &steps_of_version_1()[..2] {
        expected.replay(step).unwrap();
    }
    assert_eq!(shape(&ledger), format!("{expected:?}"));
}

#[tokio::test(start_paused = true)]
#[ignore = "writes the fixture of today's format"]
async fn writes_a_divided_step_of_today() {
    assert!(!std::fs::exists(DIVIDED).unwrap(), "a fixture is never written again");
    let disk = SimDisk::new(18, DiskFaults::default());
    let ledger = open(&disk).await.unwrap();
    for step in &steps_of_version_1()[..2] {
        ledger.append_divided(step, Sizes { states: 1, bytes: 1000 }).unwrap();
        ledger.sync().await.unwrap();
    }
    let file = disk.open("changes-j00000001", false).unwrap();
    let mut bytes = vec![0; FILE_BYTES as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    std::fs::write(DIVIDED, bytes).unwrap();
}
