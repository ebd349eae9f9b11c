//! Copies and moves at the remote.

use super::{Place, expect, path, pattern};
use crate::store::remote::{Condition, Entry, Kind, Meta, Relocation, RemoteError, Time, Version};

pub(super) async fn holds(place: &Place<'_>) {
    place.make_directory("move").await;
    place.make_directory("move/in").await;
    files(place).await;
    conditions(place).await;
    spellings(place).await;
    trees(place).await;
}

async fn relocate(
    place: &Place<'_>,
    from: &str,
    version: &Version,
    to: &str,
    when: Condition,
    how: Relocation,
) -> Result<Entry, RemoteError> {
    place.remote.relocate(&path(from), version, &path(to), when, how).await
}

async fn files(place: &Place<'_>) {
    let bytes = pattern(2_500_000, 1);
    let mtime = Some(Time(981_173_107_000_000_000));
    let meta = Meta { mode: Some(0o640), mtime, ..Meta::default() };
    let version = place.put_with("move/a", &bytes, &meta, Condition::Absent).await.unwrap().version;
    let copy =
        relocate(place, "move/a", &version, "move/in/b", Condition::Absent, Relocation::Copy).await.unwrap();
    assert_eq!((copy.name.as_str(), copy.version.len), ("b", bytes.len() as u64));
    assert!(place.read("move/a").await == bytes && place.read("move/in/b").await == bytes);
    let moved =
        relocate(place, "move/a", &version, "move/in/c", Condition::Absent, Relocation::Move).await.unwrap();
    assert_eq!(place.stat("move/in/c").await.unwrap().version, moved.version);
    expect(place.stat("move/a").await, RemoteError::NotFound(path("move/a")));
    for at in ["move/in/b", "move/in/c"] {
        assert!(place.other.read(&path(at)).await.unwrap() == bytes, "{at}");
        let found = place.stat(at).await.unwrap().meta.unwrap();
        let facts = place.remote.facts();
        assert!(!facts.keeps_meta || found.mode == meta.mode, "{at}: {found:?}");
        assert!(!facts.keeps_mtime || found.mtime == mtime, "{at}: {found:?}");
    }
}

async fn conditions(place: &Place<'_>) {
    // Of two lengths: some remotes tell files of one length and one second apart by their names alone.
    let [one, two] = [1, 2].map(|seed| pattern(1000 + usize::from(seed), seed));
    for how in [Relocation::Copy, Relocation::Move] {
        let names = [format!("move/{how:?} 1"), format!("move/{how:?} 2")];
        let first = place.put(&names[0], &one, Condition::Absent).await.unwrap().version;
        let second = place.put(&names[1], &two, Condition::Absent).await.unwrap().version;
        let to =
            async |version: &Version, when| relocate(place, &names[0], version, &names[1], when, how).await;
        expect(to(&first, Condition::Absent).await, RemoteError::Changed(path(&names[1])));
        expect(to(&first, Condition::Matches(first.clone())).await, RemoteError::Changed(path(&names[1])));
        expect(to(&second, Condition::Always).await, RemoteError::Changed(path(&names[0])));
        assert_eq!(place.read(&names[0]).await, one);
        assert_eq!(place.read(&names[1]).await, two);
        to(&first, Condition::Matches(second)).await.unwrap();
        assert_eq!(place.read(&names[1]).await, one);
        let is_there = place.stat(&names[0]).await.is_ok();
        assert_eq!(is_there, how == Relocation::Copy, "{how:?}");
        let nothing = relocate(place, "move/none", &first, "move/x", Condition::Always, how).await;
        expect(nothing, RemoteError::NotFound(path("move/none")));
    }
}

/// A new spelling of a file's own name keeps the file.
async fn spellings(place: &Place<'_>) {
    let bytes = pattern(10, 1);
    let version = place.put("move/Case", &bytes, Condition::Absent).await.unwrap().version;
    relocate(place, "move/Case", &version, "move/cASE", Condition::Absent, Relocation::Move).await.unwrap();
    assert_eq!(place.read("move/cASE").await, bytes);
    let names = place.names("move").await;
    assert!(names.contains(&"cASE".to_owned()) && !names.contains(&"Case".to_owned()), "{names:?}");
}

async fn trees(place: &Place<'_>) {
    place.make_directory("move/tree").await;
    place.make_directory("move/tree/in").await;
    let bytes = pattern(10, 1);
    place.put("move/tree/in/a", &bytes, Condition::Absent).await.unwrap();
    let version = place.stat("move/tree").await.unwrap().version;
    let moved =
        relocate(place, "move/tree", &version, "move/other", Condition::Absent, Relocation::Move).await;
    if !place.remote.facts().moves_trees {
        assert!(moved.is_err());
        assert_eq!(place.read("move/tree/in/a").await, bytes);
        return;
    }
    assert_eq!(moved.unwrap().kind, Kind::Directory);
    assert_eq!(place.read("move/other/in/a").await, bytes);
    expect(place.stat("move/tree").await, RemoteError::NotFound(path("move/tree")));
    // Not into itself, and not over what is there.
    let version = place.stat("move/other").await.unwrap().version;
    for to in ["move/other/in/x", "move/in"] {
        let moved = relocate(place, "move/other", &version, to, Condition::Absent, Relocation::Move).await;
        assert!(moved.is_err(), "{to}");
    }
    assert_eq!(place.read("move/other/in/a").await, bytes);
}
