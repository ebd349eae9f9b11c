//! Servers as people have them. Each row has a habit, and how a store on such a server works.

use super::{run, store};
use bytes::Bytes;
use holdall_core::store::probe::{Effort, Mode, probe};
use holdall_core::store::{StoreError, When};
use holdall_servers::odd_s3::{self, Habits};

struct Row {
    habits: Habits,
    mode: Mode,
    may_delete: bool,
    /// The words of the report about it, if it is not perfect.
    told: &'static str,
}

const NONE: Habits = Habits {
    refuses_conditions: None,
    wants_digest: None,
    keeps: None,
    forgets_connections: false,
    lists_at_most: None,
    has: &[],
};
const NO_CONDITIONS: &str = "does not support conditional writes";
const NO_DELETES: &str = "may not delete";

const fn row(habits: Habits, mode: Mode, may_delete: bool, told: &'static str) -> Row {
    Row { habits, mode, may_delete, told }
}

const fn without_conditions(status: u16, code: &'static str) -> Row {
    row(Habits { refuses_conditions: Some((status, code)), ..NONE }, Mode::None, true, NO_CONDITIONS)
}

const fn with_digests(status: u16, code: &'static str) -> Row {
    row(Habits { wants_digest: Some((status, code)), ..NONE }, Mode::Swap, true, "")
}

const fn kept(status: u16, code: &'static str) -> Row {
    row(Habits { keeps: Some((status, code)), ..NONE }, Mode::Swap, false, NO_DELETES)
}

const ROWS: &[Row] = &[
    row(NONE, Mode::Swap, true, ""),
    // As Backblaze B2 and Aliyun OSS are reported to answer, and as a gateway may change that.
    without_conditions(501, "NotImplemented"),
    without_conditions(501, ""),
    without_conditions(400, "NotImplemented"),
    without_conditions(400, "InvalidArgument"),
    without_conditions(400, "InvalidRequest"),
    without_conditions(400, ""),
    // Object Lock with a default retention.
    with_digests(400, "InvalidRequest"),
    with_digests(400, "MissingContentMD5"),
    row(Habits { forgets_connections: true, ..NONE }, Mode::Swap, true, ""),
    kept(403, "AccessDenied"),
    kept(400, "ObjectLocked"),
    kept(409, "FileImmutable"),
    row(
        Habits {
            refuses_conditions: Some((501, "NotImplemented")),
            wants_digest: Some((400, "InvalidRequest")),
            keeps: Some((403, "AccessDenied")),
            ..NONE
        },
        Mode::None,
        false,
        NO_CONDITIONS,
    ),
];

#[test]
fn recognises_each_kind_of_server_by_its_behaviour() {
    for Row { habits, mode, may_delete, told } in ROWS {
        let fake = odd_s3::start(*habits);
        let url = odd_s3::address(&fake);
        for effort in [Effort::FULL, Effort::QUICK] {
            let report = run(async { probe([&*store(&url), &*store(&url)], effort, &|| 0).await });
            let report = report.unwrap_or_else(|error| panic!("{habits:?}: {error}"));
            assert_eq!((report.mode, report.rights.delete), (*mode, *may_delete), "{habits:?}: {report:?}");
            let reasons = report.reasons.join("; ");
            assert!(reasons.contains(told) && reasons.is_empty() == told.is_empty(), "{habits:?}: {reasons}");
        }
    }
}

#[test]
fn puts_succeed_once_on_every_kind_of_server() {
    for Row { habits, .. } in ROWS {
        let fake = odd_s3::start(*habits);
        run(async {
            let store = store(&odd_s3::address(&fake));
            let body = || Bytes::from_static(b"some bytes");
            for name in ["seg/00/a", "seg/00/b"] {
                store
                    .put(name, body(), When::Absent)
                    .await
                    .unwrap_or_else(|error| panic!("{habits:?}: {error}"));
                assert_eq!(store.get(name, None).await.unwrap().bytes, body(), "{habits:?}");
                let again = store.put(name, body(), When::Absent).await;
                assert!(matches!(again, Err(StoreError::Precondition { .. })), "{habits:?}: {again:?}");
            }
        });
        // The store remembers what it learned at the first put.
        let puts =
            fake.asked().into_iter().filter(|asked| asked.method == "PUT" && asked.path.contains("seg/00/b"));
        assert!(puts.count() <= 2, "{habits:?}");
    }
}

/// A look before a put decides nothing between two clients that swap.
#[test]
fn refuses_to_swap_heads_without_conditions() {
    for habits in ROWS.iter().map(|row| row.habits).filter(|habits| habits.refuses_conditions.is_some()) {
        let fake = odd_s3::start(habits);
        run(async {
            let store = store(&odd_s3::address(&fake));
            let body = Bytes::from_static(b"a version");
            let etag = store.put("head/a", body.clone(), When::Always).await.unwrap();
            for when in [When::Matches(etag), When::Absent] {
                for name in ["head/a", "head/b"] {
                    let put = store.put(name, body.clone(), when.clone()).await;
                    assert!(
                        matches!(put, Err(StoreError::Denied { .. })),
                        "{habits:?} {name} {when:?}: {put:?}"
                    );
                }
            }
        });
    }
}

#[test]
fn detects_and_refuses_a_truncated_listing() {
    for (most, whole) in [(1, false), (100, false), (200, false), (750, true)] {
        let fake = odd_s3::start(Habits { lists_at_most: Some(most), ..NONE });
        let url = odd_s3::address(&fake);
        let report = run(async { probe([&*store(&url), &*store(&url)], Effort::FULL, &|| 0).await });
        let report = report.unwrap_or_else(|error| panic!("{most}: {error}"));
        assert_eq!((report.is_usable(), report.lists_whole()), (whole, whole), "{most}: {report:?}");
        let told = report.reasons.join("; ");
        assert!(whole || told.contains(&format!("of 240 that were there {most} were shown")), "{told}");
        let left = fake.asked().into_iter().filter(|asked| asked.path.contains("-listed-"));
        assert_eq!(left.filter(|asked| asked.method == "DELETE").count(), 240, "they are deleted");
    }
}
