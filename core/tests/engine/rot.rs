//! Rot in the store: an object is lost, truncated, changed, swapped with another one, or replaced by an older one of its kind. A
//! drive shows what was written or an error, never anything else. A check names the damage, and changes nothing in the store.
//!
//! `HOLDALL_SEED=n` runs one seed, `HOLDALL_SEEDS=n` this many.

use crate::bench::{Bench, GEOMETRY, close, put, run, try_get};
use holdall_core::drive::check;
use holdall_core::format::head::HeadState;
use holdall_core::map::{Objects, PageCache};
use holdall_core::seal::{Cipher, DataKey, Sealer};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const SEEDS: u64 = 150;
const BLOCKS: u64 = GEOMETRY.size_blocks;

#[test]
fn rotten_bytes_cause_errors_or_no_harm_never_wrong_content() {
    let seeds = match std::env::var("HOLDALL_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..std::env::var("HOLDALL_SEEDS").map_or(SEEDS, |count| count.parse().unwrap()),
    };
    let (mut refused, mut failed, mut harmless) = (0, 0, 0);
    for seed in seeds.clone() {
        match rot(seed) {
            Harm::Refused => refused += 1,
            Harm::Reads => failed += 1,
            Harm::None => harmless += 1,
        }
    }
    println!("{refused} did not open, {failed} had blocks that did not read, {harmless} took no harm");
    assert!(seeds.end - seeds.start < SEEDS || refused.min(failed).min(harmless) > 0, "each of them happens");
}

/// The harm that a rotten object does to a drive.
enum Harm {
    Refused,
    Reads,
    None,
}

fn rot(seed: u64) -> Harm {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut bench = Bench::new();
    if seed.is_multiple_of(2) {
        // A drive of the same name in the same store, sealed by a cipher.
        bench.store = holdall_core::sim::store::SimStore::new(1, Default::default());
        bench.sealer = Arc::new(Sealer::new(Cipher::XChaCha20Poly1305, &DataKey([7; 32].into())));
        let maker = crate::bench::device(0);
        let created = holdall_core::drive::create(
            &bench.store,
            &bench.sealer,
            crate::bench::FAMILY,
            "d",
            GEOMETRY,
            &maker,
        );
        bench.drive = run(created).unwrap();
    }
    let mut written = vec![0_u8; BLOCKS as usize];
    run(async {
        let volume = bench.open(0).await.unwrap();
        for _ in 0..rng.random_range(1..5) {
            for _ in 0..rng.random_range(1..60) {
                let (block, byte) = (rng.random_range(0..BLOCKS), rng.random_range(1..=255));
                put(&volume, block, byte).await;
                written[block as usize] = byte;
            }
            volume.pusher().unwrap().sync().await.unwrap();
        }
        close(volume).await;
    });
    let names = bench.store.names();
    let name = names.choose(&mut rng).unwrap();
    let how = damage(&bench, &mut rng, name);
    let before = bench.store.names();
    let (opened, wrong) = run(async {
        let elsewhere = bench.elsewhere();
        let volume = match elsewhere.open(1).await {
            Ok(volume) => volume,
            Err(_) => return (false, 0),
        };
        let mut wrong = 0;
        for block in 0..BLOCKS {
            match try_get(&volume, block).await {
                Ok(byte) => {
                    assert_eq!(byte, written[block as usize], "seed {seed}: {how} of {name}: block {block}");
                }
                Err(_) => wrong += 1,
            }
        }
        (true, wrong)
    });
    for name in &before {
        assert!(bench.store.names().contains(name), "seed {seed}: {name} was removed for {how}");
    }
    if !opened {
        // A person who can repair it finds it as it was left.
        let heads = run(holdall_core::drive::heads(&bench.store, &bench.sealer));
        let states = heads.iter().flatten().map(|head| head.state);
        assert!(
            states.clone().all(|state| state == HeadState::Released),
            "seed {seed}: it stays taken after {how} of {name}"
        );
    }
    let is_found = run(async {
        let objects = Objects::new(Arc::new(bench.store.clone()), bench.sealer.clone(), PageCache::none());
        let objects = Arc::new(objects);
        match check::check(&objects, bench.drive, &|_, _| {}).await {
            Ok(checked) => !checked.errors.is_empty(),
            Err(_) => true,
        }
    });
    match (opened, wrong) {
        (true, 0) => Harm::None,
        (is_open, _) => {
            assert!(is_found, "seed {seed}: a check finds nothing after {how} of {name}");
            if is_open { Harm::Reads } else { Harm::Refused }
        }
    }
}

fn damage(bench: &Bench, rng: &mut StdRng, name: &str) -> &'static str {
    let store = &bench.store;
    match rng.random_range(0..5) {
        0 => {
            store.lose(name);
            "loss"
        }
        1 => {
            let share = rng.random_range(0.0..1.0);
            store.damage(name, |bytes| bytes.truncate((bytes.len() as f64 * share) as usize));
            "a cut"
        }
        2 => {
            let (byte, bit) = (rng.random_range(0..1 << 20), rng.random_range(0..8));
            store.damage(name, |bytes| {
                let at = byte % bytes.len();
                bytes[at] ^= 1 << bit;
            });
            "a bit"
        }
        3 => {
            let kind = name.split('/').next().unwrap();
            let others: Vec<_> = store.names().into_iter().filter(|other| other.starts_with(kind)).collect();
            let mut other = Vec::new();
            store.damage(others.choose(rng).unwrap(), |bytes| other.clone_from(bytes));
            store.damage(name, |bytes| *bytes = other);
            "an exchange"
        }
        _ => {
            let (from, len) = (rng.random_range(0..1 << 20), rng.random_range(1..512));
            store.damage(name, |bytes| {
                let from = from % bytes.len();
                let end = (from + len).min(bytes.len());
                bytes[from..end].fill(0);
            });
            "a hole"
        }
    }
}
