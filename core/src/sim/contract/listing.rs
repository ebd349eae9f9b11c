//! Listings, names, and entries of paths.

use super::{Place, expect, path, pattern};
use crate::store::remote::{Condition, Kind, RemoteError};
use std::collections::BTreeMap;

/// More than a page of the remotes whose pages a test can fill.
const MANY: usize = 1050;

pub(super) async fn holds(place: &Place<'_>) {
    directories(place).await;
    pages(place).await;
    names(place).await;
    unusable(place).await;
}

async fn directories(place: &Place<'_>) {
    expect(place.remote.list(&path("list"), None).await.map(drop), RemoteError::NotFound(path("list")));
    expect(place.stat("list").await, RemoteError::NotFound(path("list")));
    expect(place.stat("list/a").await, RemoteError::NotFound(path("list/a")));
    let made = place.make_directory("list").await;
    assert_eq!((made.kind, made.name.as_str()), (Kind::Directory, "list"));
    place.make_directory("list").await;
    assert!(place.names("list").await.is_empty(), "an empty directory has an empty listing, and is no error");
    assert_eq!(place.stat("list").await.unwrap().kind, Kind::Directory);

    let bytes = pattern(100, 1);
    place.put("list/a", &bytes, Condition::Absent).await.unwrap();
    place.other.write(&path("list/b"), b"theirs").await;
    place.make_directory("list/c").await;
    place.put("list/c/d", &bytes, Condition::Absent).await.unwrap();
    let (entries, _, _) = place.list("list").await;
    let found: BTreeMap<_, _> = entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let kinds: Vec<_> = found.iter().map(|(name, entry)| (*name, entry.kind)).collect();
    assert_eq!(kinds, [("a", Kind::File), ("b", Kind::File), ("c", Kind::Directory)]);
    for name in ["a", "b"] {
        let stat = place.stat(&format!("list/{name}")).await.unwrap();
        assert_eq!(found[name].version, stat.version, "a listing and a stat agree on {name}");
        assert!(stat.meta.is_some(), "a stat shows all there is");
        assert!(found[name].meta.is_none() || found[name].meta == stat.meta, "{name}");
    }
    assert_eq!(found["b"].version.len, 6);
    expect(place.remote.list(&path("list/a"), None).await.map(drop), RemoteError::NotFound(path("list/a")));
    assert!(matches!(place.stat("list/a/b").await, Err(RemoteError::NotFound(_))));
    let over = place.remote.make_directory(&path("list/a")).await;
    expect(over, RemoteError::Changed(path("list/a")));
    assert!(place.remote.make_directory(&path("list/x/y")).await.is_err(), "its parent is not there");
    let file_over_directory = place.put("list/c", &bytes, Condition::Always).await;
    expect(file_over_directory, RemoteError::Changed(path("list/c")));

    let remove = async |at: &str| place.remote.remove_directory(&path(at)).await;
    expect(remove("list/c").await, RemoteError::NotEmpty(path("list/c")));
    assert_eq!(place.read("list/c/d").await, bytes, "never a tree");
    place.remote.remove(&path("list/c/d"), Condition::Always).await.unwrap();
    assert!(place.names("list/c").await.is_empty(), "the directory stays when its last file is gone");
    remove("list/c").await.unwrap();
    expect(remove("list/c").await, RemoteError::NotFound(path("list/c")));
}

async fn pages(place: &Place<'_>) {
    place.make_directory("pages").await;
    let all: Vec<_> = (0..MANY).map(|number| format!("{number:04}")).collect();
    for name in &all {
        place.other.write(&path(&format!("pages/{name}")), name.as_bytes()).await;
    }
    assert_eq!(place.names("pages").await, all);

    // What is there from the first page to the last is listed, whatever else changes.
    let first = place.remote.list(&path("pages"), None).await.unwrap();
    let Some(mut token) = first.next.clone() else { return };
    let listed = |page: &crate::store::remote::Page| -> Vec<String> {
        page.entries.iter().map(|entry| entry.name.to_string()).collect()
    };
    let gone: Vec<_> = listed(&first).into_iter().take(5).collect();
    for name in &gone {
        place.other.remove(&path(&format!("pages/{name}"))).await;
    }
    for number in 0..10 {
        place.other.write(&path(&format!("pages/0000-{number}")), b"new").await;
    }
    let mut found = listed(&first);
    loop {
        let page = place.remote.list(&path("pages"), Some(&token)).await.unwrap();
        found.extend(listed(&page));
        match page.next {
            Some(next) => token = next,
            None => break,
        }
    }
    let missing: Vec<_> = all.iter().filter(|name| !found.contains(name)).collect();
    assert!(missing.is_empty(), "a listing lacks {missing:?}, which nobody removed");
}

async fn names(place: &Place<'_>) {
    place.make_directory("names").await;
    let long = "x".repeat(255);
    let umlauts = "ä".repeat(127);
    let mut odd: Vec<&str> = vec![
        "ÄÖÜ äöü ß",
        "100%",
        "%41",
        "%2F",
        "a+b",
        "#1",
        "a?b",
        "a&b=c;d",
        " leading",
        "trailing ",
        "a  b",
        "...",
        "-rf",
        "'\"",
        "a\\b",
        "日本語",
        "🦀",
        "~",
        "a:b",
        "*",
        "[1]",
        ".hidden",
        &long,
        &umlauts,
    ];
    for name in &odd {
        let at = format!("names/{name}");
        match place.put(&at, &name.as_bytes().to_vec().into(), Condition::Absent).await {
            Ok(_) => assert_eq!(place.other.read(&path(&at)).await.unwrap(), name.as_bytes(), "{name}"),
            Err(RemoteError::BadName { .. }) => continue,
            Err(error) => panic!("{name}: {error}"),
        }
    }
    odd.sort_unstable();
    let found = place.names("names").await;
    assert!(found.iter().all(|name| odd.contains(&name.as_str())), "no name is changed: {found:?}");
    assert!(found.len() >= odd.len() - 4, "most names are taken: {found:?}");
    for name in &found {
        let at = format!("names/{name}");
        assert_eq!(place.read(&at).await, name.as_bytes());
        assert_eq!(place.stat(&at).await.unwrap().name.as_str(), name);
    }
    place.make_directory("names/ä b%20").await;
    place.put("names/ä b%20/+ #", &pattern(3, 1), Condition::Absent).await.unwrap();
    assert_eq!(place.names("names/ä b%20").await, ["+ #"]);

    let is_one = |folds: bool| if folds { 1 } else { 2 };
    for (one, other, folds) in [
        ("Case", "cASE", place.remote.facts().folds_case),
        ("f\u{fc}r", "fu\u{308}r", place.remote.facts().folds_forms),
    ] {
        let directory = format!("names/{one} pair");
        place.make_directory(&directory).await;
        place.put(&format!("{directory}/{one}"), &pattern(1, 1), Condition::Absent).await.unwrap();
        let twin = place.put(&format!("{directory}/{other}"), &pattern(2, 2), Condition::Absent).await;
        assert_eq!(twin.is_err(), folds, "{one}: the facts are true");
        assert_eq!(place.names(&directory).await.len(), is_one(folds), "{one}");
    }
}

async fn unusable(place: &Place<'_>) {
    place.make_directory("unusable").await;
    place.other.write(&path("unusable/good"), b"1").await;
    place.other.write(&path("unusable/.holdall-upload-somebody-1"), b"2").await;
    let leaves = place.other.leave_unusable(&path("unusable")).await;
    let (entries, unusable, _) = place.list("unusable").await;
    assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(unusable.count, u64::from(leaves));
    assert_eq!(unusable.examples.len() as u64, unusable.count);
    let hidden = path("unusable/.holdall-upload-somebody-1");
    assert!(matches!(place.remote.stat(&hidden).await, Err(RemoteError::NotFound(_))));
    let made = place.put("unusable/.holdall-upload-x", &pattern(1, 1), Condition::Always).await;
    assert!(matches!(made, Err(RemoteError::BadName { .. })));
    assert!(place.other.read(&hidden).await.is_some(), "another device's upload is left alone");
}
