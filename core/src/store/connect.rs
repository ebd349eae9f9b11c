//! Makes a drive's store from an address.

use super::Store;
use super::claims::Claims;
use super::credentials::Credentials;
use super::meter::Meter;
use super::names::DriveNames;
use super::pace::Pacer;
use super::probe::Mode;
use super::url::StoreUrl;
pub use holdall_store::connect::ConnectError;
use std::sync::Arc;

/// The store at `url`. `pacer` paces its bodies, `meter` counts its requests, and only Holdall's own names are seen in it. Nothing is
/// contacted yet.
pub fn connect(
    url: &StoreUrl,
    credentials: &Credentials,
    pacer: &Pacer,
    meter: &Meter,
) -> Result<Arc<dyn Store>, ConnectError> {
    holdall_store::connect::connect(url, credentials, &DriveNames, pacer, meter)
}

/// The store with HEADs changed as its family says: swapped by the store itself, or by claims.
pub fn with_heads(store: Arc<dyn Store>, mode: Mode) -> Arc<dyn Store> {
    match mode {
        Mode::Swap => store,
        Mode::Claim | Mode::None => Arc::new(Claims::new(store)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive;
    use crate::format::head;
    use crate::format::root::Geometry;
    use crate::push::Device;
    use crate::seal::{Cipher, DataKey, Sealer};
    use crate::sim::store::{SimStore, StoreFaults};
    use uuid::Uuid;

    /// As a console, a sync tool or a person may leave them.
    const FOREIGN: [&str; 3] = ["keys/notes (conflicted copy)", "head/desktop.ini", "ref/readme.txt"];

    #[tokio::test]
    async fn every_store_is_seen_through_the_grammar_of_names() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        put("family.json");
        put("keys/00112233445566778899aabbccddeeff");
        FOREIGN.into_iter().for_each(put);
        let url = StoreUrl::File(dir.path().to_owned());
        let store = connect(&url, &Credentials::None, &Pacer::new(), &Meter::default()).unwrap();
        let names: Vec<_> = store.list("").await.unwrap().into_iter().map(|listed| listed.name).collect();
        assert_eq!(names, ["family.json", "keys/00112233445566778899aabbccddeeff"]);
        let mut foreign = FOREIGN;
        foreign.sort_unstable();
        assert_eq!(with_heads(store, Mode::Claim).foreign(), foreign, "wrappers hand it on");
    }

    #[tokio::test]
    async fn a_claimed_head_counts_every_request_to_the_store() {
        let sealer = Sealer::new(Cipher::None, &DataKey([7; 32].into()));
        let device = Device { id: Uuid::from_u128(1), name: "here".to_owned() };
        let mut asked = Vec::new();
        for mode in [Mode::Swap, Mode::Claim] {
            let (there, meter) = (SimStore::new(1, StoreFaults::default()), Meter::default());
            let store = with_heads(meter.on(Arc::new(there.clone())), mode);
            let geometry = Geometry::standard(1 << 20);
            let drive = drive::create(&*store, &sealer, Uuid::from_u128(9), "d", geometry, &device);
            let drive = drive.await.unwrap();
            store.get(&head::name(drive), None).await.unwrap();
            assert_eq!(meter.requests().total(), there.requests());
            asked.push(meter.requests());
        }
        assert!(asked[1].list > 0 && asked[0].list == 0, "{asked:?}");
    }
}
