//! Claims and records on a simulated store.

use super::collect::RECORDS_KEPT;
use super::*;
use crate::format::head::{Head, HeadState};
use crate::format::id::ObjectId;
use crate::seal::{Cipher, DataKey, Sealer};
use crate::sim::store::{Habits, SimStore, StoreFaults};
use crate::units::Epoch;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use uuid::Uuid;

const DRIVE: Uuid = Uuid::from_u128(1);

fn body(epoch: u64, nonce: u128) -> Bytes {
    let head = Head {
        drive: DRIVE,
        epoch: Epoch(epoch),
        nonce,
        device: Uuid::nil(),
        device_name: String::new(),
        state: HeadState::Held,
        written_ms: 0,
        root: ObjectId::NONE,
        root_hash: [0; 32],
        parent: ObjectId::NONE,
        moved_to: Vec::new(),
    };
    head.encode(&Sealer::new(Cipher::None, &DataKey([1; 32].into()))).into()
}

fn store() -> SimStore {
    SimStore::new(1, StoreFaults::default()).without_swap()
}

/// One process.
fn process(store: &SimStore) -> Claims {
    Claims::new(Arc::new(store.clone()))
}

async fn nonce(store: &SimStore) -> u128 {
    let head = process(store).get(&head::name(DRIVE), None).await.expect("there is a HEAD");
    peek("", &head.bytes).expect("it is a HEAD").1
}

#[tokio::test(start_paused = true)]
async fn one_of_two_simultaneous_takers_wins_the_drive() {
    let (store, name) = (store(), head::name(DRIVE));
    process(&store).put(&name, body(0, 1), When::Absent).await.unwrap();
    let (a, b) = (process(&store), process(&store));
    let seen = a.get(&name, None).await.unwrap().etag;
    let take = |process: Claims, nonce| {
        let (name, seen) = (name.clone(), seen.clone());
        async move { process.put(&name, body(1, nonce), When::Matches(seen)).await }
    };
    let (a, b) = tokio::join!(take(a, 2), take(b, 3));
    let winner = if a.is_ok() { 2 } else { 3 };
    assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
    assert_eq!(nonce(&store).await, winner);
}

#[tokio::test(start_paused = true)]
async fn the_loser_does_not_hold_up_the_winner() {
    for seed in 0..200 {
        let faults = StoreFaults { time: Duration::from_millis(20), ..StoreFaults::default() };
        let (store, name) = (SimStore::new(seed, faults).without_swap(), head::name(DRIVE));
        process(&store).put(&name, body(0, 1), When::Absent).await.unwrap();
        let seen = process(&store).get(&name, None).await.unwrap().etag;
        let begun = Instant::now();
        let take =
            async |nonce| process(&store).put(&name, body(1, nonce), When::Matches(seen.clone())).await;
        let (a, b) = tokio::join!(take(2), take(3));
        let winner = if a.is_ok() { 2 } else { 3 };
        assert!(a.is_ok() != b.is_ok(), "seed {seed}: {a:?} {b:?}");
        assert_eq!(nonce(&store).await, winner, "seed {seed}");
        assert!(begun.elapsed() < 4 * LOOK_EVERY, "seed {seed}: {:?}", begun.elapsed());
        // The winner continues, whatever turn it has ended up with: the loser may have handed the version on since.
        let held = a.or(b).unwrap();
        process(&store).put(&name, body(1, 4), When::Matches(held)).await.unwrap();
        assert_eq!(nonce(&store).await, 4, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overtaken_writer_no_longer_commits() {
    let (store, name) = (store(), head::name(DRIVE));
    let old = process(&store);
    old.put(&name, body(0, 1), When::Absent).await.unwrap();
    let seen = old.get(&name, None).await.unwrap().etag;
    let held = old.put(&name, body(1, 2), When::Matches(seen.clone())).await.unwrap();
    let held = old.put(&name, body(1, 3), When::Matches(held)).await.unwrap();
    let new = process(&store).put(&name, body(2, 4), When::Matches(held.clone())).await.unwrap();
    let late = old.put(&name, body(1, 5), When::Matches(held)).await;
    assert!(matches!(late, Err(StoreError::Precondition { .. })), "{late:?}");
    assert!(matches!(
        process(&store).put(&name, body(3, 6), When::Matches(seen)).await,
        Err(StoreError::Precondition { .. })
    ));
    assert_eq!(nonce(&store).await, 4);
    process(&store).put(&name, body(2, 7), When::Matches(new)).await.unwrap();
    assert_eq!(nonce(&store).await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_dead_claimant_delays_a_writer_only_once() {
    let (store, name) = (store(), head::name(DRIVE));
    let writer = process(&store);
    writer.put(&name, body(0, 1), When::Absent).await.unwrap();
    let seen = writer.get(&name, None).await.unwrap().etag;
    let held = writer.put(&name, body(1, 2), When::Matches(seen)).await.unwrap();
    process(&store).claim_next(&name, 99, false).await.unwrap();
    let begun = Instant::now();
    let held = writer.put(&name, body(1, 3), When::Matches(held)).await.unwrap();
    assert!(begun.elapsed() >= PATIENCE, "it was given its time");
    assert_eq!(nonce(&store).await, 3);
    let begun = Instant::now();
    writer.put(&name, body(1, 4), When::Matches(held)).await.unwrap();
    assert!(begun.elapsed() < LOOK_EVERY, "once is enough");
}

#[tokio::test(start_paused = true)]
async fn a_writer_without_an_answer_sees_that_it_was_fenced() {
    let (store, name) = (store(), head::name(DRIVE));
    let old = process(&store);
    old.put(&name, body(0, 1), When::Absent).await.unwrap();
    let seen = old.get(&name, None).await.unwrap().etag;
    let held = old.put(&name, body(1, 2), When::Matches(seen)).await.unwrap();
    // The record is put, and the requests after it are not sent.
    let place = Place::parse(&name, &held.0).unwrap();
    let next = Place { seq: place.seq + 1, nonce: 3, ..place };
    old.unconfirmed.lock().insert(3, Followed { record: place, is_seen: false });
    old.put_record(&name, next, &body(1, 3)).await.unwrap();
    // Meanwhile another device takes the drive from the version before, because it listed the records earlier.
    let turn = process(&store).claim_next(&name, 9, false).await.unwrap();
    let other = Place { turn, seq: 0, epoch: 2, nonce: 9 };
    process(&store).put_record(&name, other, &body(2, 9)).await.unwrap();
    let now = old.get(&name, None).await.unwrap();
    assert_eq!(peek("", &now.bytes).unwrap().1, 9, "who looks sees that it was fenced");
}

#[tokio::test(start_paused = true)]
async fn listings_show_one_head_per_drive_and_old_records_go() {
    let (store, name) = (store(), head::name(DRIVE));
    let writer = process(&store);
    let mut held = writer.put(&name, body(0, 1), When::Absent).await.unwrap();
    for commit in 0..200 {
        held = writer.put(&name, body(1, 2 + commit), When::Matches(held)).await.unwrap();
    }
    let listed = writer.list("head/").await.unwrap();
    assert_eq!(listed.iter().map(|listed| listed.name.clone()).collect::<Vec<_>>(), [name]);
    assert!(store.names().len() < 3 * RECORDS_KEPT, "{} objects", store.names().len());
}

/// Somebody deletes files that carry no program's name.
fn delete_claims(store: &SimStore) {
    store.names().iter().filter(|name| name.starts_with("claim/")).for_each(|name| store.lose(name));
}

#[tokio::test(start_paused = true)]
async fn deleted_claims_prevent_neither_opening_nor_fencing() {
    let (store, name) = (store(), head::name(DRIVE));
    let old = process(&store);
    let mut held = old.put(&name, body(0, 1), When::Absent).await.unwrap();
    for epoch in 1..4 {
        held = old.put(&name, body(epoch, 2 * u128::from(epoch)), When::Matches(held)).await.unwrap();
        held = old.put(&name, body(epoch, 2 * u128::from(epoch) + 1), When::Matches(held)).await.unwrap();
    }
    delete_claims(&store);
    let new = process(&store);
    let seen = new.get(&name, None).await.unwrap().etag;
    let taken = new.put(&name, body(4, 8), When::Matches(seen)).await.unwrap();
    assert_eq!(nonce(&store).await, 8);
    delete_claims(&store);
    let late = old.put(&name, body(3, 9), When::Matches(held)).await;
    assert!(matches!(late, Err(StoreError::Precondition { .. })), "{late:?}");
    new.put(&name, body(4, 10), When::Matches(taken)).await.unwrap();
    assert_eq!(nonce(&store).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_writer_with_a_deleted_claim_continues_under_another_turn() {
    let (store, name) = (store(), head::name(DRIVE));
    let writer = process(&store);
    let held = writer.put(&name, body(0, 1), When::Absent).await.unwrap();
    let held = writer.put(&name, body(1, 2), When::Matches(held)).await.unwrap();
    delete_claims(&store);
    let held = writer.put(&name, body(1, 3), When::Matches(held)).await.unwrap();
    let turn = Place::parse(&name, &held.0).unwrap().turn;
    assert!(turn > TURNS_LEFT_OUT && writer.claimed(&name).await.unwrap().contains(&turn));
    assert_eq!(nonce(&store).await, 3);
}

/// A writer commits, two others take the drive from it, and somewhere in between all claims are deleted.
#[tokio::test(start_paused = true)]
async fn claims_deleted_in_mid_race_never_let_two_win() {
    let (mut committed, mut taken) = (0, 0);
    for seed in 0..12_000 {
        let faults = StoreFaults { time: Duration::from_millis(20), ..StoreFaults::default() };
        let (store, name) = (SimStore::new(seed, faults).without_swap(), head::name(DRIVE));
        let writer = process(&store);
        let held = writer.put(&name, body(0, 1), When::Absent).await.unwrap();
        let held = writer.put(&name, body(1, 2), When::Matches(held)).await.unwrap();
        // One of the two may be late.
        let later = async |process: Claims, wait_ms: u64, body: Bytes| {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            process.put(&name, body, When::Matches(held.clone())).await
        };
        let deleted = async {
            tokio::time::sleep(Duration::from_millis(seed % 170)).await;
            delete_claims(&store);
        };
        let (a, b, c, ()) = tokio::join!(
            later(writer, seed % 67, body(1, 3)),
            later(process(&store), 0, body(2, 4)),
            later(process(&store), seed % 41, body(2, 5)),
            deleted
        );
        let won = [(3, &a), (4, &b), (5, &c)].into_iter().filter(|(_, put)| put.is_ok()).collect::<Vec<_>>();
        assert!(won.len() <= 1, "seed {seed}: {won:?}");
        if let [(winner, _)] = won[..] {
            assert_eq!(nonce(&store).await, winner, "seed {seed}");
        }
        (committed, taken) = (committed + u32::from(a.is_ok()), taken + u32::from(b.is_ok() || c.is_ok()));
    }
    assert!(committed > 0 && taken > 0, "{committed} {taken}");
}

#[tokio::test(start_paused = true)]
async fn lookalikes_of_claims_and_records_change_nothing() {
    let (store, name) = (store(), head::name(DRIVE));
    let writer = process(&store);
    let held = writer.put(&name, body(0, 1), When::Absent).await.unwrap();
    for rest in [
        "ffffffffffffffff",
        "+ffffffffffffff0",
        "00000000000000Ff",
        "9",
        "0000000000000009.tmp",
        "00000000000000009",
    ] {
        store.put(&format!("{}/{rest}", claims_of(&name)), Bytes::new(), When::Always).await.unwrap();
        let tail = "0000000000000001-0000000000000009-00000000000000000000000000000009";
        store.put(&format!("{name}/{rest}-{tail}"), Bytes::new(), When::Always).await.unwrap();
        store.put(&format!("{name}/{rest}"), Bytes::new(), When::Always).await.unwrap();
    }
    let begun = Instant::now();
    let held = writer.put(&name, body(1, 2), When::Matches(held)).await.unwrap();
    writer.put(&name, body(1, 3), When::Matches(held)).await.unwrap();
    assert!(begun.elapsed() < LOOK_EVERY, "nobody is waited for");
    assert_eq!(nonce(&store).await, 3);
    store.put("head/another/x.tmp", Bytes::new(), When::Always).await.unwrap();
    assert_eq!(writer.list("head/").await.unwrap().len(), 1);
}

/// Its listings of one drive's claims and records show only the oldest `names` names, and do not mention the rest.
fn cut_off(seed: u64, names: usize) -> SimStore {
    let faults = StoreFaults { time: Duration::from_millis(20), ..StoreFaults::default() };
    SimStore::new(seed, faults).with_habits(Habits {
        swaps: false,
        lists_at_most: Some(names),
        ..Habits::GOOD
    })
}

/// Opens the drive and commits under these nonces, as an engine does: reads, and swaps what it has read.
async fn open(store: &SimStore, epoch: u64, nonces: Range<u128>) -> Result<(), StoreError> {
    let (process, name) = (process(store), head::name(DRIVE));
    let mut held = process.get(&name, None).await?.etag;
    for nonce in nonces {
        held = process.put(&name, body(epoch, nonce), When::Matches(held)).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_openings_leave_few_names_and_stay_current() {
    let (store, name) = (cut_off(1, 3 * RECORDS_KEPT), head::name(DRIVE));
    process(&store).put(&name, body(0, 0), When::Absent).await.unwrap();
    for opening in 1..=1000_u64 {
        let first = u128::from(opening) * 10;
        open(&store, opening, first..first + 1 + u128::from(opening % 5)).await.unwrap();
        assert_eq!(nonce(&store).await, first + u128::from(opening % 5), "opening {opening}");
        let names = store.names();
        let claims = names.iter().filter(|name| name.starts_with("claim/")).count();
        assert!(claims <= 2 && names.len() <= 2 * RECORDS_KEPT + 4, "opening {opening}: {names:?}");
    }
}

/// Like the leftovers of a version that collected no claims, or of a key that may not delete.
#[tokio::test(start_paused = true)]
async fn a_cut_off_listing_never_opens_an_older_version() {
    for (names, left) in [(42, 50), (42, 300), (60, 1000), (200, 201), (200, 1000), (750, 2000)] {
        let (store, name) = (cut_off(1, names), head::name(DRIVE));
        let writer = process(&store);
        writer.put(&name, body(0, 0), When::Absent).await.unwrap();
        for turn in 1..left {
            let claim = names::claim(&claims_of(&name), turn);
            store.put(&claim, Bytes::from_static(b"x"), When::Always).await.unwrap();
            let place = Place { turn, seq: 0, epoch: turn, nonce: u128::from(turn) };
            writer.put_record(&name, place, &body(turn, u128::from(turn))).await.unwrap();
        }
        let last = u128::from(left) - 1;
        assert_eq!(
            nonce(&store).await,
            last,
            "{left} of which {names} are listed: an older version is opened"
        );
        let mut tries = 0;
        while let Err(error) = open(&store, left, 5_000..5_003).await {
            assert!(tries < 3, "{left} of which {names} are listed: {error}");
            tries += 1;
        }
        assert_eq!(nonce(&store).await, 5_002);
        assert!(store.names().len() < names, "{left} of which {names} are listed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_listing_never_fences_the_holder() {
    let (store, name) = (cut_off(1, 1000), head::name(DRIVE));
    let writer = process(&store);
    let held = writer.put(&name, body(0, 1), When::Absent).await.unwrap();
    let held = writer.put(&name, body(1, 2), When::Matches(held)).await.unwrap();
    let place = Place::parse(&name, &held.0).unwrap();
    // Claims without a result and records of lower turns, more than will be listed from now on.
    for turn in 1..100.min(place.turn) {
        let claim = names::claim(&claims_of(&name), turn);
        store.put(&claim, Bytes::from_static(b"x"), When::Always).await.unwrap();
        let late = Place { turn, seq: 0, epoch: 1, nonce: 1_000 + u128::from(turn) };
        writer.put_record(&name, late, &body(1, late.nonce)).await.unwrap();
    }
    let store = store.with_habits(Habits { swaps: false, lists_at_most: Some(50), ..Habits::GOOD });
    let held = writer.put(&name, body(1, 3), When::Matches(held)).await.unwrap();
    let mut held = writer.put(&name, body(1, 4), When::Matches(held)).await.unwrap();
    assert_eq!(nonce(&store).await, 4);
    // If nothing can be deleted, no error says that another device has the drive.
    let useless = Habits { swaps: false, may_delete: false, lists_at_most: Some(3), ..Habits::GOOD };
    let _ = store.with_habits(useless);
    for nonce in 5..9 {
        match writer.put(&name, body(1, nonce), When::Matches(held.clone())).await {
            Ok(next) => held = next,
            Err(StoreError::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A device stops for an hour at one of its requests. Meanwhile others open the drive so often that everything it has listed is collected.
#[tokio::test(start_paused = true)]
async fn a_sleeper_loses_even_if_its_claims_were_collected() {
    const OPENINGS: u64 = 40;
    let (mut won, mut lost) = (0, 0);
    for seed in 0..60_u32 {
        let (store, name) = (cut_off(u64::from(seed), 60), head::name(DRIVE));
        process(&store).put(&name, body(0, 0), When::Absent).await.unwrap();
        open(&store, 1, 1..3).await.unwrap();
        let (stops_at, commits) = (seed % 20, seed >= 40);
        let sleeper = Claims::new(Arc::new(Stops::new(&store, &[stops_at])));
        let slept = async {
            let mut held = process(&store).get(&name, None).await?.etag;
            for nonce in 100..if commits { 103 } else { 101 } {
                held = sleeper.put(&name, body(2, nonce), When::Matches(held)).await?;
            }
            Ok::<_, StoreError>(held)
        };
        let others = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let mut seen = BTreeSet::new();
            for opening in 0..OPENINGS {
                let process = process(&store);
                let before = process.get(&name, None).await.unwrap();
                seen.insert(peek("", &before.bytes).unwrap().1);
                let put = process.put(
                    &name,
                    body(3 + opening, 1_000 + u128::from(opening)),
                    When::Matches(before.etag),
                );
                put.await.unwrap_or_else(|error| panic!("seed {seed}, opening {opening}: {error}"));
            }
            seen
        };
        let (slept, seen) = tokio::join!(slept, others);
        assert_eq!(nonce(&store).await, 999 + u128::from(OPENINGS), "seed {seed}");
        match slept {
            Ok(held) => {
                let place = Place::parse(&name, &held.0).unwrap();
                assert!(seen.contains(&place.nonce), "seed {seed}: a commit that counts is nobody's past");
                won += 1;
            }
            Err(StoreError::Precondition { .. }) => lost += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(won > 3 && lost > 20, "{won} {lost}");
}

/// A store is restored to a state without the record that a commit follows, and the commit is cut off at a later request. Trying the commit
/// again must not make it count: the record that it follows is gone.
#[tokio::test(start_paused = true)]
async fn a_commit_retried_after_a_restore_does_not_count() {
    let mut cut_off = 0;
    for (first, second) in (0..12).flat_map(|first| (first + 1..first + 8).map(move |second| (first, second)))
    {
        let (store, name) = (store(), head::name(DRIVE));
        process(&store).put(&name, body(0, 1), When::Absent).await.unwrap();
        let backup = store.copy();
        open(&store, 1, 2..3).await.unwrap();
        let held = process(&store).get(&name, None).await.unwrap().etag;
        let writer = Claims::new(Arc::new(Stops::new(&store, &[first, second])));
        let write = async || writer.put(&name, body(2, 3), When::Matches(held.clone())).await;
        let restore = async {
            tokio::time::sleep(Duration::from_secs(1800)).await;
            store.restore(&backup);
            tokio::time::sleep(Duration::from_secs(3600)).await;
        };
        tokio::select! { biased;
            // The commit counted before, or has lost.
            _ = write() => {}
            () = restore => {
                let again = write().await;
                assert!(matches!(again, Err(StoreError::Precondition { .. })), "{first}, {second}: {again:?}");
                assert_eq!(nonce(&store).await, 1, "{first}, {second}");
                cut_off += 1;
            }
        }
    }
    assert!(cut_off > 20, "{cut_off}");
}

/// The same without a cut, and with the claims deleted too, so that the record is put again under another turn.
#[tokio::test(start_paused = true)]
async fn a_commit_during_a_restore_does_not_count() {
    let mut in_the_middle = [0, 0];
    for (are_deleted, stop) in
        [false, true].into_iter().flat_map(|deleted| (0..24).map(move |stop| (deleted, stop)))
    {
        let (store, name) = (store(), head::name(DRIVE));
        process(&store).put(&name, body(0, 1), When::Absent).await.unwrap();
        let backup = store.copy();
        open(&store, 1, 2..3).await.unwrap();
        let held = process(&store).get(&name, None).await.unwrap().etag;
        if are_deleted {
            delete_claims(&store);
        }
        let writer = Claims::new(Arc::new(Stops::new(&store, &[stop])));
        let mut write = std::pin::pin!(writer.put(&name, body(1, 3), When::Matches(held)));
        if tokio::time::timeout(Duration::from_secs(1800), &mut write).await.is_err() {
            store.restore(&backup);
            let done = write.await;
            assert_eq!(nonce(&store).await, 1, "claims deleted: {are_deleted}, request {stop}: {done:?}");
            in_the_middle[usize::from(are_deleted)] += 1;
        }
    }
    assert!(in_the_middle[0] > 2 && in_the_middle[1] > 6, "{in_the_middle:?}");
}

/// Passes requests on; some of them take an hour.
struct Stops {
    store: SimStore,
    asked: AtomicU32,
    /// The numbers of the requests that take an hour.
    at: Vec<u32>,
}

impl Stops {
    fn new(store: &SimStore, at: &[u32]) -> Self {
        Self { store: store.clone(), asked: AtomicU32::new(0), at: at.to_vec() }
    }

    async fn pass(&self) {
        if self.at.contains(&self.asked.fetch_add(1, Relaxed)) {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
    }
}

#[async_trait]
impl Store for Stops {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        self.pass().await;
        self.store.get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.pass().await;
        self.store.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.pass().await;
        self.store.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.pass().await;
        self.store.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.pass().await;
        self.store.delete(name).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_damaged_on_its_way_never_becomes_the_head() {
    for damaged in 0..3 {
        let (store, name) = (store(), head::name(DRIVE));
        process(&store).put(&name, body(0, 1), When::Absent).await.unwrap();
        let garbles = Garbles { store: store.clone(), left: AtomicU32::new(u32::MAX) };
        let garbles = Arc::new(garbles);
        let writer = Claims::new(garbles.clone());
        let seen = writer.get(&name, None).await.unwrap().etag;
        let held = writer.put(&name, body(1, 2), When::Matches(seen)).await.unwrap();
        // Its record is there, and no answer has come; then another device claims a turn and dies.
        let place = Place::parse(&name, &held.0).unwrap();
        let next = Place { seq: place.seq + 1, nonce: 3, ..place };
        writer.unconfirmed.lock().insert(3, Followed { record: place, is_seen: false });
        writer.put_record(&name, next, &body(1, 3)).await.unwrap();
        process(&store).claim_next(&name, 9, false).await.unwrap();
        garbles.left.store(damaged, Relaxed);
        let read = writer.get(&name, None).await.unwrap();
        let confirmed = Place::parse(&name, &read.etag.0).unwrap();
        assert!(confirmed.turn > place.turn, "the record is put once more");
        let there = store.get(&confirmed.name(&name), None).await.unwrap();
        assert_eq!(there.bytes, body(1, 3), "answer {damaged} was damaged");
    }
}

/// Damages the answer to one get.
struct Garbles {
    store: SimStore,
    /// Gets before the damaged one.
    left: AtomicU32,
}

#[async_trait]
impl Store for Garbles {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        let Fetched { bytes, etag } = self.store.get(name, range).await?;
        if self.left.fetch_sub(1, Relaxed) != 0 {
            return Ok(Fetched { bytes, etag });
        }
        let mut bytes = bytes.to_vec();
        *bytes.last_mut().expect("a record is not empty") ^= 1;
        Ok(Fetched { bytes: bytes.into(), etag })
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        self.store.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        self.store.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.store.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.store.delete(name).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_listing_leaves_out_no_drive() {
    let faults = StoreFaults::default();
    let store = SimStore::new(1, faults).without_swap();
    let drives = [1_u128, 1 << 124, 2 << 124, 0xf << 124].map(|drive| head::name(Uuid::from_u128(drive)));
    let writer = process(&store);
    for name in &drives {
        for seq in 0..LISTED_SURELY as u64 {
            let place = Place { turn: 0, seq, epoch: 0, nonce: 1 };
            writer.put_record(name, place, &body(0, 1)).await.unwrap();
        }
    }
    let requests = store.requests();
    let listed = writer.list("head/").await.unwrap();
    assert_eq!(listed.iter().map(|listed| &*listed.name).collect::<BTreeSet<_>>().len(), drives.len());
    assert!(store.requests() - requests > 16, "each begins with another digit, and is listed for itself");
}
