//! Claims, and HEADs swapped by claims, on real servers.

use super::*;
use holdall_core::format::head::{self, Head, HeadState};
use holdall_core::format::id::ObjectId;
use holdall_core::seal::{Cipher, DataKey, Sealer};
use holdall_core::store::claims::Claims;
use holdall_core::units::Epoch;
use std::sync::Arc;
use uuid::Uuid;

#[tokio::test]
async fn one_of_sixteen_concurrent_claims_wins() {
    const RACERS: u128 = 16;
    for server in both() {
        let url = server.url("/race/");
        let first = begun(&server, "/race/").await;
        for round in 1..=6 {
            let name = format!("claim/00/{round:016x}");
            let mut racers = tokio::task::JoinSet::new();
            let start = Arc::new(tokio::sync::Barrier::new(RACERS as usize));
            for nonce in 1..=RACERS {
                let (store, name, start) = (store(&url), name.clone(), start.clone());
                racers.spawn(async move {
                    start.wait().await;
                    store.claim(&name, nonce).await.unwrap().then_some(nonce)
                });
            }
            let won: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
            assert_eq!(won.len(), 1, "round {round}: {won:?}");
            assert!(first.claim(&name, won[0]).await.unwrap(), "it is still its owner's");
            assert!(!first.claim(&name, 99).await.unwrap());
            let listed = first.list("claim/00/").await.unwrap();
            assert_eq!(listed.len(), round);
            assert_eq!(listed.last().unwrap().name, name);
        }
    }
}

#[tokio::test]
async fn a_claim_without_a_nonce_is_listed_without_owner() {
    for server in both() {
        let store = begun(&server, "/s/").await;
        std::fs::create_dir_all(server.root().join("s/claim/00/0000000000000001")).unwrap();
        assert!(!store.claim("claim/00/0000000000000001", 7).await.unwrap());
        assert_eq!(store.list("claim/00/").await.unwrap()[0].name, "claim/00/0000000000000001");
    }
}

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

#[tokio::test]
async fn one_of_two_concurrent_take_overs_wins() {
    for server in both() {
        let name = head::name(DRIVE);
        begun(&server, "/s/").await;
        // The loser has made a claim too, and the winner waits for it.
        let process = || Claims::new(Arc::new(store(&server.url("/s/")))).with_patience(Duration::ZERO);
        process().put(&name, body(0, 1), When::Absent).await.unwrap();
        for epoch in 1..4 {
            let (a, b) = (process(), process());
            let seen = a.get(&name, None).await.unwrap().etag;
            let nonces = [1000 + u128::from(epoch), 2000 + u128::from(epoch)];
            let (first, second) = tokio::join!(
                a.put(&name, body(epoch, nonces[0]), When::Matches(seen.clone())),
                b.put(&name, body(epoch, nonces[1]), When::Matches(seen.clone())),
            );
            let lost = StoreError::Precondition { name: name.clone() };
            let (winner, etag) = match (first, second) {
                (Ok(etag), Err(error)) if error == lost => (0, etag),
                (Err(error), Ok(etag)) if error == lost => (1, etag),
                other => panic!("{other:?}"),
            };
            let now = process().get(&name, None).await.unwrap();
            assert_eq!(now.bytes, body(epoch, nonces[winner]));
            // The winner continues, the loser cannot.
            let (winner, loser) = if winner == 0 { (a, b) } else { (b, a) };
            winner.put(&name, body(epoch, 3000), When::Matches(etag)).await.unwrap();
            let late = loser.put(&name, body(epoch, 4000), When::Matches(seen)).await;
            assert_eq!(late.unwrap_err(), lost);
        }
        let heads = process().list("head/").await.unwrap();
        assert_eq!(heads.into_iter().map(|listed| listed.name).collect::<Vec<_>>(), [name]);
    }
}
