//! No answer at all.

use super::*;
use holdall_core::store::pace::Direction;

#[tokio::test]
async fn silence_and_drips_time_out() {
    let (fake, _) = fake(|asked| match &*asked.path {
        "/s/seg/00/drip" => Reply::Drip(1 << 20),
        _ => Reply::Silence,
    });
    // A bandwidth limit extends no time-out, least of all a limit that slows nothing down.
    let limited = Pacer::new();
    for way in [Direction::Up, Direction::Down] {
        limited.set(way, Some(1 << 30));
    }
    for pacer in [Pacer::new(), limited] {
        let url = format!("http://{}/s/", fake.address());
        let store = paced_store(&url, &Credentials::None, NO_SILENCE, &pacer);
        let reason = unreachable(store.get("seg/00/x", None).await);
        assert!(reason.contains("does not answer"), "{reason}");
        // A large body hardly extends the time-out of a silent server.
        let reason = unreachable(store.put("seg/00/x", vec![0; 20_000].into(), When::Always).await);
        assert!(reason.contains("does not answer"), "{reason}");
        let store = paced_store(&url, &Credentials::None, NO_DRIP, &pacer);
        let reason = unreachable(store.get("seg/00/drip", Some(0..1000)).await);
        assert!(reason.contains("too slow"), "{reason}");
    }
}

#[tokio::test]
async fn a_truncated_answer_is_no_answer() {
    let (_, store) = fake(|asked| match &*asked.path {
        "/s/seg/00/short" => Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234".to_vec()),
        "/s/seg/00/head" => Reply::Raw(b"HTTP/1.1 200".to_vec()),
        _ => Reply::Raw(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
    });
    let reason = unreachable(store.get("seg/00/short", None).await);
    assert!(reason.contains("closed the connection"), "{reason}");
    let reason = unreachable(store.get("seg/00/head", None).await);
    assert!(reason.contains("closed the connection"), "{reason}");
    let reason = unreachable(store.get("seg/00/other", None).await);
    assert!(reason.contains("does not speak HTTP"), "{reason}");
}

#[tokio::test]
async fn names_the_server_that_cannot_be_reached() {
    let nobody = holdall_servers::process::free_address();
    let refused = store_with(&format!("http://{nobody}/s/"), &user(PASSWORD), NO_LIMITS);
    let reason = unreachable(refused.get("family.json", None).await);
    assert_eq!(reason, "127.0.0.1 refuses the connection: nothing listens there");
    let unknown = store_with("https://holdall.invalid/s/", &user(PASSWORD), NO_LIMITS);
    let reason = unreachable(unknown.get("family.json", None).await);
    assert!(reason.contains("holdall.invalid"), "{reason}");
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let (fake, store) = fake(|asked| match &*asked.method {
        "GET" => Reply::status(200).body(b"0123456789"),
        _ => Reply::status(201).with("content-type", "text/html").body(b"<html>Created</html>"),
    });
    for index in 0..40 {
        store.put(&format!("seg/00/{index}"), Bytes::from_static(b"x"), When::Absent).await.unwrap();
        store.get("seg/00/x", Some(2..4)).await.unwrap();
        store.get("seg/00/x", None).await.unwrap();
    }
    // A connection is free a moment after its answer was read, not always in time for the next request.
    assert!(fake.connections() < 60, "{} connections for 121 requests", fake.connections());
}

#[tokio::test]
async fn a_silent_connection_retires_its_idle_siblings() {
    let fake = Fake::start(|asked| match &*asked.path {
        "/s/family.json" => Reply::status(200).body(b"{}"),
        "/s/seg/00/silent" => Reply::Silence,
        // Long enough for all three requests to be in flight at once.
        _ => {
            std::thread::sleep(Duration::from_millis(200));
            Reply::status(200).body(b"data")
        }
    });
    let store = store_with(&format!("http://{}/s/", fake.address()), &Credentials::None, NO_SILENCE);
    let get = || store.get("seg/00/x", None);
    let (a, b, c) = tokio::join!(get(), get(), get());
    assert!([a, b, c].iter().all(Result::is_ok));
    // A connection is free a moment after its answer was read.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = fake.connections();
    unreachable(store.get("seg/00/silent", None).await);
    assert_eq!(fake.connections(), before, "it was one of them");
    get().await.unwrap();
    assert_eq!(fake.connections(), before + 1);
}
