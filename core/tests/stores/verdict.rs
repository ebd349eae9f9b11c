//! The probe's report on a store depends on what the store does.

use crate::place::Place;
use holdall_core::store::probe::{Effort, Mode, probe};
use holdall_servers::faults::{self, Fault};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most by which the servers' clocks may differ: they are this computer's clock.
const SKEW_MAX_MS: i64 = 10_000;

pub async fn is_right(place: Place) {
    let [a, b] = [place.connect(), place.connect()];
    for effort in [Effort::FULL, Effort::QUICK] {
        let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let report = probe([&*a, &*b], effort, &now_ms).await.unwrap();
        println!("{}", serde_json::to_string_pretty(&report).unwrap());
        // No new drive in a directory relies on locks.
        let mode = if place.server.is_some() { place.mode } else { Mode::Claim };
        assert_eq!(report.mode, mode, "{report:?}");
        assert_eq!(report.reasons.is_empty(), mode == Mode::Swap, "{report:?}");
        assert!(report.is_usable() && report.latency_us > 0);
        let skew = report.clock_ahead_ms.unwrap_or_default();
        assert!(skew.abs() < SKEW_MAX_MS, "{report:?}");
    }
    if place.server.is_some() {
        let proxy = place.proxy();
        let names = ["AmazonS3", "Apache", "nginx", "Garage"];
        for name in names {
            proxy.plan(faults::from(0, Fault::Disguised(name)));
            let [a, b] = [(), ()].map(|()| place.connect_by(Some(proxy.address())));
            let report = probe([&*a, &*b], Effort::QUICK, &|| 0).await.unwrap();
            assert_eq!(report.mode, place.mode, "as {name}: {report:?}");
            assert!(proxy.asked() > 50, "all of it went this way");
        }
    }
    // The probe leaves nothing behind. There is no family yet, and so nothing else either.
    assert_eq!(a.list("probe/").await.unwrap(), []);
}
