//! Records of what a replica has.

use crate::format::head::Head;
use crate::store::{Store, StoreError};
use uuid::Uuid;

/// Records that are kept: who lists them has time to read the newest.
const KEPT: usize = 4;

/// Where the records of all drives are.
pub(super) const ALL: &str = "replica/";

/// Where the records of a drive are.
pub(super) fn prefix(drive: Uuid) -> String {
    format!("replica/{}/", drive.simple())
}

/// The name of the record of a version: a later version's name is greater.
pub(super) fn name(head: &Head) -> String {
    let root = head.root;
    format!("{}{:016x}-{:016x}-{:032x}", prefix(head.drive), root.epoch.0, root.seq, root.unique)
}

/// Records of a drive, oldest first.
pub(super) async fn names(store: &dyn Store, drive: Uuid) -> Result<Vec<String>, StoreError> {
    let listed = store.list(&prefix(drive)).await?;
    let mut names: Vec<_> = listed.into_iter().map(|listed| listed.name).collect();
    names.sort_unstable();
    Ok(names)
}

/// Deletes records that are long past. One that stays does no harm.
pub(super) async fn tidy(store: &dyn Store, names: &[String]) {
    for name in names.iter().rev().skip(KEPT) {
        if store.delete(name).await.is_err() {
            return;
        }
    }
}
