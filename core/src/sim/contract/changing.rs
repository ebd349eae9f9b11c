//! What files have beside their bytes.

use super::{Place, expect, path, pattern};
use crate::store::remote::{Condition, Kind, Meta, RemoteError, Time};
use std::collections::BTreeMap;

const SECOND: i128 = 1_000_000_000;

pub(super) async fn holds(place: &Place<'_>) {
    place.make_directory("meta").await;
    files(place).await;
    directories(place).await;
    links(place).await;
}

fn xattrs(pairs: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect()
}

async fn files(place: &Place<'_>) {
    let facts = place.remote.facts();
    let bytes = pattern(5000, 1);
    let first = Meta {
        mode: Some(0o750),
        mtime: Some(Time(981_173_107 * SECOND)),
        xattrs: xattrs(&[("user.a", b"1"), ("user.\u{fc}", &[0, 255])]),
        link: None,
    };
    let check = async |expected: &Meta| {
        let entry = place.stat("meta/a").await.unwrap();
        let found = entry.meta.unwrap();
        if facts.keeps_meta {
            assert_eq!((found.mode, &found.xattrs), (expected.mode, &expected.xattrs));
        }
        if facts.keeps_mtime {
            assert_eq!(found.mtime, expected.mtime);
        }
        assert_eq!(place.read("meta/a").await, bytes);
        entry.version
    };
    place.put_with("meta/a", &bytes, &first, Condition::Absent).await.unwrap();
    let version = check(&first).await;

    let second = Meta { mode: Some(0o640), mtime: None, xattrs: xattrs(&[("user.b", b"2")]), link: None };
    place.remote.set_meta(&path("meta/a"), &version, &second).await.unwrap();
    let after = Meta { mtime: first.mtime, ..second };
    let version = check(&after).await;

    // An upload keeps what it does not name.
    let third = Meta {
        mtime: Some(Time(981_173_109 * SECOND)),
        xattrs: xattrs(&[("user.c", b"3")]),
        ..Meta::default()
    };
    place.put_with("meta/a", &bytes, &third, Condition::Matches(version)).await.unwrap();
    let after = Meta { xattrs: xattrs(&[("user.b", b"2"), ("user.c", b"3")]), mode: after.mode, ..third };
    let version = check(&after).await;

    place.other.write(&path("meta/a"), b"theirs").await;
    let late = place.remote.set_meta(&path("meta/a"), &version, &first).await;
    expect(late, RemoteError::Changed(path("meta/a")));
    let none = place.remote.set_meta(&path("meta/none"), &version, &first).await;
    expect(none, RemoteError::NotFound(path("meta/none")));
}

async fn directories(place: &Place<'_>) {
    if !place.remote.facts().keeps_meta {
        return;
    }
    let made = place.make_directory("meta/d").await;
    let meta = Meta { mode: Some(0o700), xattrs: xattrs(&[("user.a", b"1")]), ..Meta::default() };
    place.remote.set_meta(&path("meta/d"), &made.version, &meta).await.unwrap();
    let found = place.stat("meta/d").await.unwrap().meta.unwrap();
    assert_eq!((found.mode, found.xattrs), (meta.mode, meta.xattrs));
}

async fn links(place: &Place<'_>) {
    let link = |target: &str| Meta { link: Some(target.to_owned()), ..Meta::default() };
    let nothing = pattern(0, 0);
    match place.put_with("meta/link", &nothing, &link("../write/if"), Condition::Absent).await {
        Err(RemoteError::Unsupported(_)) => return,
        made => assert_eq!(made.unwrap().kind, Kind::Link),
    }
    let again = place.put_with("meta/link", &nothing, &link("elsewhere"), Condition::Absent).await;
    expect(again, RemoteError::Changed(path("meta/link")));
    let entry = place.stat("meta/link").await.unwrap();
    assert_eq!(entry.kind, Kind::Link);
    assert_eq!(entry.meta.unwrap().link.as_deref(), Some("../write/if"));
    let dangling = link("/no where/ä");
    place.put_with("meta/link", &nothing, &dangling, Condition::Matches(entry.version)).await.unwrap();
    let entry = place.stat("meta/link").await.unwrap();
    assert_eq!(entry.meta.unwrap().link, dangling.link);

    // Nothing lies beyond a link.
    place.put_with("meta/to", &nothing, &link("../list"), Condition::Absent).await.unwrap();
    assert!(matches!(place.stat("meta/to/a").await, Err(RemoteError::NotFound(_))));
    assert!(matches!(place.remote.list(&path("meta/to"), None).await, Err(RemoteError::NotFound(_))));
    assert!(place.put("meta/to/new", &pattern(1, 1), Condition::Always).await.is_err());
    place.remote.remove(&path("meta/to"), Condition::Always).await.unwrap();
    assert!(place.stat("list/a").await.is_ok(), "only the link is gone");
}
