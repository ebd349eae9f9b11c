//! Claims and records on a simulated store.

use super::*;
use crate::format::head::{Head, HeadState};
use crate::format::id::ObjectId;
use crate::seal::{Cipher, DataKey, Sealer};
use crate::sim::store::{SimStore, StoreFaults};
use crate::units::Epoch;
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
async fn of_two_who_take_a_drive_at_once_one_wins() {
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
async fn who_loses_does_not_hold_up_who_wins() {
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
        // The winner goes on, whatever turn it has ended up with: who lost may have handed it on since.
        let held = a.or(b).unwrap();
        process(&store).put(&name, body(1, 4), When::Matches(held)).await.unwrap();
        assert_eq!(nonce(&store).await, 4, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_was_overtaken_commits_no_more() {
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
async fn a_claimant_that_died_holds_nobody_up_for_long() {
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
async fn an_answer_that_was_lost_is_not_taken_for_a_commit_that_was_overtaken() {
    let (store, name) = (store(), head::name(DRIVE));
    let old = process(&store);
    old.put(&name, body(0, 1), When::Absent).await.unwrap();
    let seen = old.get(&name, None).await.unwrap().etag;
    let held = old.put(&name, body(1, 2), When::Matches(seen)).await.unwrap();
    // The record is put, and what should follow is not.
    let place = Place::parse(&name, &held.0).unwrap();
    let next = Place { seq: place.seq + 1, nonce: 3, ..place };
    old.unconfirmed.lock().insert(3, place.turn);
    old.put_record(&name, next, &body(1, 3)).await.unwrap();
    // Meanwhile another device takes the drive, from the version before: it has listed the records earlier.
    let turn = process(&store).claim_next(&name, 9, false).await.unwrap();
    let other = Place { turn, seq: 0, epoch: 2, nonce: 9 };
    process(&store).put_record(&name, other, &body(2, 9)).await.unwrap();
    let now = old.get(&name, None).await.unwrap();
    assert_eq!(peek("", &now.bytes).unwrap().1, 9, "who looks sees that it was fenced");
}

#[tokio::test(start_paused = true)]
async fn a_listing_shows_one_head_for_each_drive_and_old_records_go() {
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

/// Somebody tidies up what no program has written a name on.
fn delete_claims(store: &SimStore) {
    store.names().iter().filter(|name| name.starts_with("claim/")).for_each(|name| store.lose(name));
}

#[tokio::test(start_paused = true)]
async fn a_drive_whose_claims_were_deleted_can_be_taken_and_fences_who_had_it() {
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
async fn a_writer_whose_claim_was_deleted_goes_on_under_another_turn() {
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

/// A writer commits, two others take the drive from it, and at some moment of that all claims are deleted.
#[tokio::test(start_paused = true)]
async fn claims_that_are_deleted_in_mid_race_never_let_two_win() {
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
async fn what_only_looks_like_a_claim_or_a_record_changes_nothing() {
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
