//! Uploads, their conditions, and reads of one version.

use super::{Place, expect, path, pattern};
use crate::store::remote::{Condition, RemoteError, Version};
use bytes::Bytes;

pub(super) async fn holds(place: &Place<'_>) {
    place.make_directory("write").await;
    lengths(place).await;
    conditions(place).await;
    versions(place).await;
    removals(place).await;
    races(place).await;
}

async fn lengths(place: &Place<'_>) {
    for len in [0, 1, 4096, 65_536, 65_537, 3_000_000] {
        let (at, bytes) = (format!("write/{len}"), pattern(len, 3));
        let entry = place.put(&at, &bytes, Condition::Absent).await.unwrap();
        assert_eq!(place.stat(&at).await.unwrap().version, entry.version, "{len}");
        assert!(place.read(&at).await == bytes, "{len}");
        assert!(place.other.read(&path(&at)).await.unwrap() == bytes, "{len}");
    }
    let len = 3_000_000;
    let at = path(&format!("write/{len}"));
    let (version, bytes) = (place.remote.stat(&at).await.unwrap().version, pattern(len, 3));
    for range in [0..1, 1..2, 4095..1_200_001, len as u64 - 1..len as u64] {
        let part = place.remote.read(&at, &version, range.clone()).await.unwrap();
        assert!(part == bytes[range.start as usize..range.end as usize], "{range:?}");
    }
    let nowhere = place.put("write/nowhere/a", &pattern(1, 1), Condition::Always).await;
    assert!(nowhere.is_err(), "its directory is not there");
}

async fn conditions(place: &Place<'_>) {
    let [one, two, three] = [1, 2, 3].map(|seed| pattern(1000, seed));
    let changed = || RemoteError::Changed(path("write/if"));
    let put = async |bytes: &Bytes, when| place.put("write/if", bytes, when).await;
    let nobody = Version { tag: "nobody".into(), len: 1000, written: None };
    expect(put(&one, Condition::Matches(nobody.clone())).await, changed());
    let first = put(&one, Condition::Absent).await.unwrap().version;
    expect(put(&two, Condition::Absent).await, changed());
    expect(put(&two, Condition::Matches(nobody)).await, changed());
    assert_eq!(place.read("write/if").await, one, "a change that was refused took no effect");
    let second = put(&two, Condition::Matches(first.clone())).await.unwrap().version;
    assert_ne!(first, second, "the same length, and another version");
    expect(put(&three, Condition::Matches(first.clone())).await, changed());
    assert_eq!(place.read("write/if").await, two);
    put(&three, Condition::Always).await.unwrap();
    assert_eq!(place.read("write/if").await, three);

    // What others do counts too.
    let ours = place.stat("write/if").await.unwrap().version;
    place.other.write(&path("write/if"), b"theirs").await;
    expect(put(&one, Condition::Matches(ours.clone())).await, changed());
    assert_eq!(place.other.read(&path("write/if")).await.unwrap(), b"theirs");
    place.other.remove(&path("write/if")).await;
    expect(put(&one, Condition::Matches(ours)).await, changed());
    assert_eq!(place.other.read(&path("write/if")).await, None);
}

async fn versions(place: &Place<'_>) {
    let at = path("write/versions");
    let before = place.put("write/versions", &pattern(10_000, 1), Condition::Absent).await.unwrap().version;
    place.other.write(&at, &pattern(10_001, 2)).await;
    expect(place.remote.read(&at, &before, 0..100).await.map(drop), RemoteError::Changed(at.clone()));
    let now = place.stat("write/versions").await.unwrap().version;
    assert_ne!(before, now);
    assert_eq!(place.remote.read(&at, &now, 5..105).await.unwrap(), pattern(10_001, 2)[5..105]);
    place.other.remove(&at).await;
    let gone = place.remote.read(&at, &now, 0..100).await;
    assert!(matches!(gone, Err(RemoteError::NotFound(_) | RemoteError::Changed(_))), "{gone:?}");
}

async fn removals(place: &Place<'_>) {
    let at = path("write/gone");
    let remove = async |when| place.remote.remove(&at, when).await;
    expect(remove(Condition::Always).await, RemoteError::NotFound(at.clone()));
    let first = place.put("write/gone", &pattern(10, 1), Condition::Absent).await.unwrap().version;
    place.other.write(&at, &pattern(11, 2)).await;
    expect(remove(Condition::Matches(first)).await, RemoteError::Changed(at.clone()));
    assert_eq!(place.other.read(&at).await.unwrap(), pattern(11, 2));
    let now = place.stat("write/gone").await.unwrap().version;
    remove(Condition::Matches(now)).await.unwrap();
    assert_eq!(place.other.read(&at).await, None);
    place.make_directory("write/directory").await;
    let removed = place.remote.remove(&path("write/directory"), Condition::Always).await;
    expect(removed, RemoteError::Changed(path("write/directory")));
}

/// Of several uploads with one condition, one takes effect.
async fn races(place: &Place<'_>) {
    if !place.remote.facts().has_conditions {
        return;
    }
    let mut when = Condition::Absent;
    for round in 0..10_u8 {
        let bodies: Vec<_> = (0..4).map(|seed| pattern(5000, 16 * round + seed)).collect();
        let puts = bodies.iter().map(|bytes| place.put("write/race", bytes, when.clone()));
        let done = futures_util::future::join_all(puts).await;
        let won: Vec<_> = (0..done.len()).filter(|number| done[*number].is_ok()).collect();
        assert_eq!(won.len(), 1, "round {round}: {done:?}");
        assert_eq!(place.read("write/race").await, bodies[won[0]]);
        when = Condition::Matches(place.stat("write/race").await.unwrap().version);
    }
}
