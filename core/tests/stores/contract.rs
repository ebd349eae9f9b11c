//! The promises of every store that the engine relies on.

use crate::place::Place;
use bytes::Bytes;
use holdall_core::store::{StoreError, When};

pub async fn holds(place: Place) {
    let [a, b] = [place.connect(), place.connect()];
    a.put("family.json", Bytes::from_static(b"{}"), When::Absent).await.unwrap();
    let body: Bytes = (0..u16::MAX).flat_map(u16::to_le_bytes).collect::<Vec<_>>().into();
    let name = "seg/aa/00000000-1";
    assert!(matches!(a.get(name, None).await, Err(StoreError::NotFound { .. })));
    assert!(matches!(a.head(name).await, Err(StoreError::NotFound { .. })));
    assert_eq!(a.list("seg/").await.unwrap(), []);
    a.put(name, body.clone(), When::Absent).await.unwrap();
    // The other connection sees it at once, as a whole and in part.
    assert_eq!(b.get(name, None).await.unwrap().bytes, body);
    assert_eq!(b.head(name).await.unwrap(), body.len() as u64);
    for range in [0..1, 1..2, 4095..70_001, body.len() as u64 - 1..body.len() as u64] {
        let part = b.get(name, Some(range.clone())).await.unwrap().bytes;
        assert!(part == body[range.start as usize..range.end as usize], "{range:?}");
    }
    let beyond = b.get(name, Some(body.len() as u64 - 1..body.len() as u64 + 1)).await;
    assert!(matches!(beyond, Err(StoreError::Damaged { .. })), "{beyond:?}");
    // Names with characters that addresses must escape. (No empty object: nginx refuses it, and the engine has none.)
    for (len, name) in (1..).zip(["seg/aa/short", "ref/a b%20c+d", "ref/ä&?#=;", "ref/~._-"]) {
        let body = Bytes::from(vec![7; len]);
        a.put(name, body.clone(), When::Always).await.unwrap();
        assert_eq!(b.get(name, None).await.unwrap().bytes, body, "{name}");
    }
    let names = |listed: Vec<holdall_core::store::Listed>| {
        let mut names: Vec<_> = listed.into_iter().map(|listed| (listed.name, listed.len)).collect();
        names.sort();
        names
    };
    let found = names(b.list("seg/").await.unwrap());
    assert_eq!(found, [(name.to_owned(), body.len() as u64), ("seg/aa/short".into(), 1)]);
    let found = names(b.list("ref/").await.unwrap());
    assert_eq!(found.iter().map(|(_, len)| *len).sum::<u64>(), 2 + 3 + 4, "{found:?}");
    // The family's own object shows that the store is there at all.
    for (name, _) in names(b.list("").await.unwrap()).into_iter().filter(|(name, _)| name != "family.json") {
        b.delete(&name).await.unwrap();
        b.delete(&name).await.unwrap();
    }
    assert_eq!(names(a.list("").await.unwrap()), [("family.json".to_owned(), 2)]);
}
