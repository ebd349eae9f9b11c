//! The counted requests and bytes of a store are exactly those that its server gets.

use crate::place::Place;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use holdall_core::store::meter::{ByKind, Meter};
use holdall_core::store::{Store, When};
use holdall_servers::faults::{self, Entry, Fault, FaultProxy};
use std::sync::Arc;

/// More than fit on one page of a bucket's listing.
const MANY: u32 = 1001;
const AT_ONCE: usize = 16;
const NAME: &str = "seg/0a/one";

/// One figure of the requests that a server saw, summed by kind.
fn seen(log: &[Entry], figure: fn(&Entry) -> u64) -> ByKind {
    let mut seen = ByKind::default();
    for entry @ Entry { asked, .. } in log {
        let count = match &*asked.method {
            "GET" if asked.target.contains("list-type=2") => &mut seen.list,
            "PROPFIND" => &mut seen.list,
            "GET" => &mut seen.get,
            "HEAD" => &mut seen.head,
            "DELETE" => &mut seen.delete,
            "PUT" | "MOVE" | "MKCOL" => &mut seen.put,
            method => panic!("{method}"),
        };
        *count += figure(entry);
    }
    seen
}

/// A store that is counted, and the proxy in front of it.
struct Counted {
    proxy: FaultProxy,
    store: Arc<dyn Store>,
    meter: Meter,
}

impl Counted {
    /// Compares all requests since the plan was made.
    #[track_caller]
    fn is_right(&self, what: &str, (before, sent): (ByKind, ByKind)) {
        let (counted, log) = (self.meter.requests() - before, self.proxy.log());
        assert_eq!(counted, seen(&log, |_| 1), "{what}");
        assert!(counted.total() > 0, "{what}");
        let bytes = self.meter.sent_bytes() - sent;
        assert_eq!(bytes, seen(&log, |entry| entry.body_bytes), "{what}");
    }

    async fn asks(&self, what: &str, ask: impl Future<Output = ()>) {
        let before = (self.meter.requests(), self.meter.sent_bytes());
        self.proxy.plan(faults::none());
        ask.await;
        self.is_right(what, before);
    }
}

/// Each verb, again and again.
pub async fn is_what_the_server_is_sent(place: Place) {
    let _drive = place.drive().await;
    let meter = Meter::default();
    let Some(_) = place.server else {
        let store = place.connect_counted(None, &meter);
        store.put(NAME, Bytes::from_static(b"12345"), When::Absent).await.unwrap();
        store.list("seg/").await.unwrap();
        assert_eq!(meter.requests(), ByKind { put: 1, list: 1, ..ByKind::default() });
        return;
    };
    let proxy = place.proxy();
    let store = place.connect_counted(Some(proxy.address()), &meter);
    let counted = Counted { proxy, store: store.clone(), meter: meter.clone() };
    let body = Bytes::from(vec![7; 300_000]);
    // The second time, collections are known, and the name may be taken.
    for _ in 0..2 {
        counted.asks("put", async { drop(store.put(NAME, body.clone(), When::Always).await.unwrap()) }).await;
    }
    counted.asks("put absent", async { drop(store.put(NAME, body.clone(), When::Absent).await) }).await;
    let received = meter.received_bytes();
    counted.asks("get", async { drop(store.get(NAME, None).await.unwrap()) }).await;
    let received = meter.received_bytes() - received;
    assert_eq!(received, ByKind { get: 300_000, ..ByKind::default() });
    counted.asks("get part", async { drop(store.get(NAME, Some(5..10)).await.unwrap()) }).await;
    counted.asks("get none", async { drop(store.get("seg/0a/none", None).await.unwrap_err()) }).await;
    counted.asks("head", async { assert_eq!(store.head(NAME).await.unwrap(), 300_000) }).await;
    counted.asks("head none", async { drop(store.head("seg/0a/none").await.unwrap_err()) }).await;
    counted.asks("claim", async { assert!(store.claim("claim/x/1", 1).await.unwrap()) }).await;
    counted.asks("facts", async { drop(store.facts().await.unwrap()) }).await;
    let put = async |number: u32| {
        let name = format!("ref/{:02x}/{number}", number % 4);
        store.put(&name, Bytes::from_static(b"x"), When::Always).await.unwrap();
    };
    counted.asks("puts", stream::iter(0..MANY).for_each_concurrent(AT_ONCE, put)).await;
    counted
        .asks("list", async {
            assert_eq!(store.list("ref/").await.unwrap().len(), MANY as usize);
        })
        .await;
    assert!(counted.proxy.asked() > 1, "several pages or collections");
    counted.asks("delete", async { store.delete(NAME).await.unwrap() }).await;
    after_trouble(&counted).await;
    let address = counted.proxy.address();
    drop(counted);
    let unsent = Meter::default();
    assert!(place.connect_counted(Some(address), &unsent).head(NAME).await.is_err());
    assert_eq!(unsent.requests(), ByKind::default());
}

/// A request that fails was sent and counts. One that reaches no server does not.
async fn after_trouble(counted: &Counted) {
    let Counted { proxy, store, meter } = counted;
    // A connection that closes without an answer is tried once more.
    for (times, fault) in [(2, Fault::LostAnswer), (1, Fault::come_back(503, 0)), (2, Fault::CutInBody)] {
        let before = (meter.requests(), meter.sent_bytes());
        proxy.plan(faults::first(times, fault.clone(), |_| true));
        assert!(store.get("family.json", None).await.is_err(), "{fault:?}");
        store.get("family.json", None).await.unwrap();
        counted.is_right(&format!("{fault:?}"), before);
    }
}
