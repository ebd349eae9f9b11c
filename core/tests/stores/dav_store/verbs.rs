//! Every verb on real servers.

use super::*;
use holdall_core::store::Etag;

const SEGMENT: &str = "seg/0f/00000000000000000000000000000001-0000000000000001-0000000000000002-0f";

#[tokio::test]
async fn every_verb_on_apache_and_nginx() {
    for server in both() {
        // The collection does not exist yet. Its name and that of its parent need escaping.
        let nothing = super::store(&server.url("/H%C3%B6hle%20%26%20100%25/a+b"));
        let reason = no_place(nothing.claim("claim/family", 1).await);
        assert!(reason.contains("no collection that could hold http://127.0.0.1"), "{reason}");
        server.make_directory("Höhle & 100%");
        let store = begun(&server, "/H%C3%B6hle%20%26%20100%25/a+b").await;
        let other = super::store(&server.url("/H%C3%B6hle%20%26%20100%25/a+b/"));
        let body: Bytes = (0..300_000u32).map(|i| (i / 7) as u8).collect();
        let name = SEGMENT;

        let missing = StoreError::NotFound { name: name.into() };
        assert_eq!(store.get(name, None).await.unwrap_err(), missing);
        assert_eq!(store.get(name, Some(0..10)).await.unwrap_err(), missing);
        assert_eq!(store.head(name).await.unwrap_err(), missing);
        assert_eq!(store.list("seg/").await.unwrap(), []);
        store.delete(name).await.unwrap();

        store.put(name, body.clone(), When::Absent).await.unwrap();
        // At once, over another connection.
        assert_eq!(other.get(name, None).await.unwrap().bytes, body);
        assert_eq!(other.head(name).await.unwrap(), 300_000);
        for range in [0..1, 17..18, 1..299_999, 299_999..300_000, 0..300_000, 5..5] {
            let part = store.get(name, Some(range.clone())).await.unwrap().bytes;
            assert_eq!(part, body[range.start as usize..range.end as usize], "{range:?}");
        }
        for range in [0..300_001, 299_999..300_001, 300_000..300_001, 400_000..400_010] {
            let error = store.get(name, Some(range.clone())).await.unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{range:?}: {error}");
        }

        let record = "head/00/0000000000000001-0000000000000000-0000000000000001-aa";
        store.put(record, Bytes::from_static(b"one"), When::Absent).await.unwrap();
        let again = store.put(record, Bytes::from_static(b"two"), When::Absent).await;
        assert_eq!(again.unwrap_err(), StoreError::Precondition { name: record.into() });
        assert_eq!(other.get(record, None).await.unwrap().bytes, "one");
        store.put(record, Bytes::from_static(b"three"), When::Always).await.unwrap();
        let read = other.get(record, None).await.unwrap();
        assert_eq!(read.bytes, "three");
        let stale = When::Matches(Etag("\"x\"".into()));
        assert!(matches!(
            store.put(record, Bytes::from_static(b"four"), stale).await,
            Err(StoreError::Precondition { .. })
        ));
        assert_eq!(other.get(record, None).await.unwrap().bytes, "three");

        let names = |listed: Vec<holdall_core::store::Listed>| -> Vec<_> {
            listed.into_iter().map(|listed| (listed.name, listed.len)).collect()
        };
        let all = [
            ("claim/family/00000000000000000000000000000001".to_owned(), 32),
            ("family.json".to_owned(), 2),
            (record.to_owned(), 5),
            (name.to_owned(), 300_000),
        ];
        assert_eq!(names(other.list("").await.unwrap()), all);
        assert_eq!(names(other.list("seg/0f/0000").await.unwrap()), all[3..]);
        assert_eq!(names(other.list("he").await.unwrap()), all[2..3]);
        assert_eq!(other.list("seg/0e").await.unwrap(), []);
        assert_eq!(other.list("root/").await.unwrap(), []);

        store.delete(name).await.unwrap();
        store.delete(name).await.unwrap();
        assert_eq!(other.get(name, None).await.unwrap_err(), missing);
        let left = std::fs::read_dir(server.root().join("Höhle & 100%/a+b/tmp")).unwrap().count();
        assert_eq!(left, 0, "temporary objects are moved or removed");
    }
}

#[tokio::test]
async fn thousands_of_names_in_hundreds_of_collections() {
    const SHARDS: usize = 256;
    const EACH: usize = 12;
    for server in both() {
        let store = begun(&server, "/many/").await;
        let mut expected = Vec::new();
        for shard in 0..SHARDS {
            let dir = server.root().join(format!("many/seg/{shard:02x}"));
            std::fs::create_dir_all(&dir).unwrap();
            for index in 0..EACH {
                std::fs::write(dir.join(format!("object {index:02}")), vec![0; index]).unwrap();
                expected.push((format!("seg/{shard:02x}/object {index:02}"), index as u64));
            }
        }
        let found = store.list("seg/").await.unwrap();
        let found: Vec<_> = found.into_iter().map(|listed| (listed.name, listed.len)).collect();
        assert!(found == expected, "{} of {}", found.len(), expected.len());
        assert_eq!(store.list("seg/7f/object 1").await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_missing_store_is_reported_and_not_recreated() {
    for server in both() {
        let store = begun(&server, "/here/").await;
        let name = "keys/0";
        store.put(name, Bytes::from_static(b"x"), When::Absent).await.unwrap();
        std::fs::remove_dir_all(server.root().join("here")).unwrap();
        let body = || Bytes::from_static(b"x");
        let mut reasons = vec![
            no_place(store.get(name, None).await),
            no_place(store.head(name).await),
            no_place(store.list("seg/").await),
            no_place(store.delete(name).await),
            no_place(store.put("seg/00/x", body(), When::Absent).await),
            no_place(store.put("head/00/x", body(), When::Absent).await),
            no_place(store.claim("claim/00/1", 1).await),
        ];
        let elsewhere = super::store(&server.url("/nowhere/"));
        reasons.push(no_place(elsewhere.get(name, None).await));
        reasons.push(no_place(elsewhere.put(name, body(), When::Absent).await));
        for reason in reasons {
            assert!(reason.contains("there is no store at http"), "{reason}");
        }
        assert!(!server.root().join("here").exists() && !server.root().join("nowhere").exists());
        // A new family may begin in a directory that does not exist.
        let missing = StoreError::NotFound { name: "family.json".into() };
        assert_eq!(elsewhere.get("family.json", None).await.unwrap_err(), missing);
        begun(&server, "/nowhere/").await;
    }
}

#[tokio::test]
async fn recreates_removed_collections() {
    for server in both() {
        let store = begun(&server, "/s/").await;
        let other = super::store(&server.url("/s/"));
        let put = async |name: &str, body: String| {
            store.put(name, body.clone().into(), When::Absent).await.unwrap();
            assert_eq!(other.get(name, None).await.unwrap().bytes, body, "{name}");
        };
        // One is put in place, the other is moved there.
        for (name, collection) in [
            ("seg/00/x", "seg"),
            ("seg/00/x", "seg/00"),
            ("head/00/x", "head"),
            ("head/00/x", "head/00"),
            ("head/00/x", "tmp"),
        ] {
            put(name, format!("before {collection} is removed")).await;
            std::fs::remove_dir_all(server.root().join("s").join(collection)).unwrap();
            if collection == "tmp" {
                store.delete(name).await.unwrap();
            }
            put(name, format!("after {collection} was removed")).await;
            store.delete(name).await.unwrap();
        }
    }
}
