//! The probe on simulated stores: correct ones, and faulty ones that hide their faults.

use crate::bench::layer::{Layer, Layered};
use crate::bench::run;
use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::sim::store::{Habits, SimStore, StoreFaults};
use holdall_core::store::file::FileStore;
use holdall_core::store::names::DriveNames;
use holdall_core::store::probe::{self, Effort, Mode, Report, probe};
use holdall_core::store::{Etag, Facts, Fetched, Listed, Store, StoreError, When};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

const NOW_MS: u64 = 1_700_000_000_000;
const RTT: Duration = Duration::from_millis(100);

/// A distant store with its own clock.
struct Far {
    store: SimStore,
    facts: Facts,
}

impl Far {
    fn new(store: SimStore) -> Self {
        let facts = Facts {
            tls: Some("TLS 1.3".into()),
            date_ms: Some(NOW_MS + 90_000),
            free_bytes: Some(7),
            never_swaps: false,
            lists_whole: false,
        };
        Self { store, facts }
    }
}

#[async_trait]
impl Store for Far {
    async fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Fetched, StoreError> {
        tokio::time::sleep(RTT).await;
        self.store.get(name, range).await
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        tokio::time::sleep(RTT).await;
        self.store.put(name, body, when).await
    }

    async fn head(&self, name: &str) -> Result<u64, StoreError> {
        tokio::time::sleep(RTT).await;
        self.store.head(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        tokio::time::sleep(RTT).await;
        self.store.list(prefix).await
    }

    async fn delete(&self, name: &str) -> Result<(), StoreError> {
        tokio::time::sleep(RTT).await;
        self.store.delete(name).await
    }

    async fn facts(&self) -> Result<Facts, StoreError> {
        Ok(self.facts.clone())
    }
}

async fn ask(store: &dyn Store, effort: Effort) -> Result<Report, StoreError> {
    probe([store, store], effort, &|| NOW_MS).await
}

fn good() -> SimStore {
    SimStore::new(1, StoreFaults::default())
}

fn report(habits: Habits, effort: Effort) -> Report {
    let store = good().with_habits(habits);
    let report = run(ask(&store, effort)).unwrap();
    assert!(!habits.may_delete || store.names().is_empty(), "it cleans up: {:?}", store.names());
    report
}

#[test]
fn the_verdict_follows_the_stores_behaviour() {
    for effort in [Effort::FULL, Effort::QUICK] {
        let mode = |habits| report(habits, effort).mode;
        assert_eq!(mode(Habits::GOOD), Mode::Swap);
        assert_eq!(mode(Habits { swaps: false, ..Habits::GOOD }), Mode::Claim);
        assert_eq!(mode(Habits { swaps: false, creates: false, ..Habits::GOOD }), Mode::None);
        assert_eq!(mode(Habits { creates: false, ..Habits::GOOD }), Mode::None);
        assert_eq!(mode(Habits { lists_late: Duration::from_secs(2), ..Habits::GOOD }), Mode::None);
        assert_eq!(mode(Habits { ignores_ranges: true, ..Habits::GOOD }), Mode::None);
    }
}

#[test]
fn only_a_race_detects_a_store_without_atomic_checks() {
    for effort in [Effort::FULL, Effort::QUICK] {
        let report = report(Habits { in_two_steps: true, ..Habits::GOOD }, effort);
        assert!(report.refused.absent && report.refused.matches, "one at a time it does all that it should");
        let races = [&report.races.absent, &report.races.matches, &report.races.claim];
        for race in races {
            let race = race.as_ref().unwrap();
            assert!(race.winners.iter().all(|winners| *winners == race.ways), "{race:?}");
        }
        assert_eq!(report.mode, Mode::None);
        assert!(report.reasons.iter().any(|reason| reason.contains("raced")), "{:?}", report.reasons);
    }
}

#[test]
fn a_protocol_without_swaps_is_only_tested_for_claims() {
    let mut store = Far::new(good());
    store.facts.never_swaps = true;
    let report = run(ask(&store, Effort::FULL)).unwrap();
    assert_eq!((report.mode, report.races.matches), (Mode::Claim, None));
    assert_eq!(report.races.claim.unwrap().winners, [1; 5]);
}

#[test]
fn reports_latency_tls_space_and_clock() {
    let report = run(ask(&Far::new(good()), Effort::QUICK)).unwrap();
    assert_eq!(report.latency_us, 100_000);
    assert_eq!((report.tls.as_deref(), report.free_bytes), (Some("TLS 1.3"), Some(7)));
    assert_eq!(report.clock_ahead_ms, Some(90_000));
    assert!(report.reasons.is_empty() && report.is_usable());
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.contains(r#""mode":"swap""#) && text.contains(r#""winners":[1,1]"#), "{text}");
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

#[test]
fn reports_credentials_with_few_rights() {
    let readable = report(Habits { may_write: false, ..Habits::GOOD }, Effort::FULL);
    assert_eq!((readable.mode, readable.is_usable()), (Mode::None, false));
    assert!(readable.rights.read && !readable.rights.write && readable.rights.list);
    assert!(readable.reasons[0].contains("may not write"), "{:?}", readable.reasons);
    let kept = report(Habits { may_delete: false, ..Habits::GOOD }, Effort::FULL);
    assert_eq!((kept.mode, kept.is_usable(), kept.rights.delete), (Mode::Swap, true, false));
    assert!(kept.reasons[0].contains("may not delete"), "{:?}", kept.reasons);
}

#[test]
fn a_store_that_is_away_has_no_verdict() {
    let store = SimStore::new(1, StoreFaults { refused: 1000, ..StoreFaults::default() });
    assert!(matches!(run(ask(&store, Effort::FULL)), Err(StoreError::Unreachable { .. })));
}

#[test]
fn network_trouble_never_improves_a_verdict() {
    let faults =
        StoreFaults { answer_lost: 60, busy: 60, time: Duration::from_millis(20), ..Default::default() };
    for seed in 0..50 {
        let worse = Habits { swaps: false, creates: false, ..Habits::GOOD };
        for (habits, best) in [(Habits::GOOD, Mode::Swap), (worse, Mode::None)] {
            holdall_core::entropy::seed_this_thread(seed);
            let store = SimStore::new(seed, faults).with_habits(habits);
            if let Ok(report) = run(ask(&store, Effort::QUICK)) {
                assert!(report.mode <= best, "seed {seed}: {report:?}");
            }
        }
    }
}

/// A correct store that loses one answer, which would say who won a race.
struct LosesOne {
    store: SimStore,
    /// How many answers arrive before that.
    left: AtomicU32,
}

#[async_trait]
impl Layer for LosesOne {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn put(&self, name: &str, body: Bytes, when: When) -> Result<Etag, StoreError> {
        let races = when != When::Always && (name.contains("-new-") || name.contains("-old-"));
        let answer = self.store.put(name, body, when).await;
        if races && answer.is_ok() && self.left.fetch_sub(1, Relaxed) == 0 {
            return Err(StoreError::Unreachable { reason: "the answer is lost".into() });
        }
        answer
    }
}

#[test]
fn one_lost_answer_changes_no_verdict() {
    for effort in [Effort::FULL, Effort::QUICK] {
        let mut lost = 0;
        loop {
            let store = Layered(LosesOne { store: good(), left: AtomicU32::new(lost) });
            let report = run(ask(&store, effort)).unwrap();
            assert_eq!(report.mode, Mode::Swap, "answer {lost} of {effort:?}: {report:?}");
            if store.left.load(Relaxed) <= lost {
                break;
            }
            lost += 1;
        }
        assert!(lost >= 4, "{lost}");
    }
}

#[test]
fn probes_stay_within_their_budget_of_requests_and_time() {
    for (effort, requests, round_trips) in [(Effort::FULL, 840, 65), (Effort::QUICK, 100, 18)] {
        for habits in [Habits::GOOD, Habits { swaps: false, ..Habits::GOOD }] {
            let store = good().with_habits(habits);
            let (took, report) = run(async {
                let begun = Instant::now();
                let report = ask(&Far::new(store.clone()), effort).await.unwrap();
                (begun.elapsed(), report)
            });
            println!("{effort:?}, {:?}: {} requests, {took:?}", report.mode, store.requests());
            assert!(store.requests() <= requests, "{effort:?}: {} requests", store.requests());
            assert!(took <= round_trips * RTT, "{effort:?}: {took:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_a_directory_without_a_family() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [(), ()].map(|()| FileStore::new(dir.path().to_owned(), &DriveNames));
    let report = probe([&a, &b], Effort::FULL, &|| NOW_MS).await.unwrap();
    assert_eq!((report.mode, report.reasons.len(), report.names), (Mode::Claim, 1, None), "{report:?}");
    assert!(report.free_bytes.unwrap() > 0);
    assert!(a.list("probe/").await.unwrap().is_empty());
    let gone = FileStore::new(dir.path().join("unplugged"), &DriveNames);
    assert!(matches!(ask(&gone, Effort::FULL).await, Err(StoreError::Unreachable { .. })));
    assert!(!dir.path().join("unplugged").exists());
}

#[test]
fn finds_leftovers_of_a_probe_by_their_names() {
    run(async {
        let store = SimStore::new(1, StoreFaults::default());
        let id = "00112233445566778899aabbccddeeff";
        let (rights, claim) = (format!("probe/{id}-rights-0"), format!("probe/{id}-claim-0"));
        let parts = [rights.clone(), format!("{claim}/nonce"), format!("{claim}/other")];
        // The family of another drive, and a person's files.
        let others = ["seg/00/x", "probe/family.json", "probe/notes-1/x", "probe/0011-x"].map(str::to_owned);
        for name in parts.iter().chain(&others) {
            store.put(name, Bytes::from_static(b"x"), When::Always).await.unwrap();
        }
        let left: Vec<_> = probe::left_behind(&store).await.unwrap().into_iter().collect();
        assert_eq!(left, [claim, rights]);
    });
}
