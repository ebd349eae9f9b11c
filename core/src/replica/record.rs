//! Records of what a replica has.

use crate::format::FormatError;
use crate::format::head::Head;
use crate::format::id::ObjectId;
use crate::seal::Sealer;
use crate::store::{Listed, Store, StoreError};
use crate::units::Epoch;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Records that are kept: a reader that has listed them has time to read the newest.
const KEPT: usize = 4;

/// The area of all drives' records.
pub(crate) const ALL: &str = "replica/";

/// The area of a drive's records.
pub(super) fn prefix(drive: Uuid) -> String {
    format!("replica/{}/", drive.simple())
}

/// The name of the record of the version that a HEAD names.
pub(super) fn name(head: &Head) -> String {
    name_of(head.drive, head.root)
}

/// The name of the record of a drive's version. A later version has a greater name.
pub(super) fn name_of(drive: Uuid, root: ObjectId) -> String {
    format!("{}{:016x}-{:016x}-{:032x}", prefix(drive), root.epoch.0, root.seq, root.unique)
}

/// The epoch of the version that a record of this name is for.
pub(super) fn epoch(name: &str) -> Option<Epoch> {
    let version = name.rsplit_once('/')?.1;
    u64::from_str_radix(version.split('-').next()?, 16).ok().map(Epoch)
}

/// Reads the record `name`. It has to be of the version that its name says: one that a server shows under another name proves nothing.
pub(super) fn decode(sealer: &Sealer, name: &str, record: &[u8]) -> Result<Head, FormatError> {
    match Head::decode(sealer, record)? {
        head if self::name(&head) == name => Ok(head),
        _ => Err(FormatError::Invalid("it is the record of another version")),
    }
}

/// Whether the bytes of the record `name` say that its version is here. The remains of a broken put do not. If the drive lived here itself and
/// `left` in that epoch, nor does an older record.
pub(super) fn counts(sealer: &Sealer, left: Option<Epoch>, name: &str, record: &[u8]) -> bool {
    decode(sealer, name, record).is_ok_and(|head| left.is_none_or(|left| head.epoch > left))
}

/// Records of a drive, oldest first.
pub(super) async fn names(store: &dyn Store, drive: Uuid) -> Result<Vec<String>, StoreError> {
    let listed = store.list(&prefix(drive)).await?;
    let mut names: Vec<_> = listed.into_iter().map(|listed| listed.name).collect();
    names.sort_unstable();
    Ok(names)
}

/// All records, and of them the last one of each drive.
pub(super) async fn newest_of_all(store: &dyn Store) -> Result<(Vec<String>, Vec<String>), StoreError> {
    let (mut all, mut newest) = (Vec::new(), BTreeMap::new());
    for Listed { name, .. } in store.list(ALL).await? {
        if let Some((drive, _)) = name.rsplit_once('/') {
            let last: &mut String = newest.entry(drive.to_owned()).or_default();
            *last = std::mem::take(last).max(name.clone());
        }
        all.push(name);
    }
    Ok((all, newest.into_values().collect()))
}

/// The last record of the same drive, if it is later than `name`.
pub(super) async fn newest_after(store: &dyn Store, name: &str) -> Result<Option<String>, StoreError> {
    let Some((drive, _)) = name.rsplit_once('/') else { return Ok(None) };
    let listed = store.list(&format!("{drive}/")).await?;
    Ok(listed.into_iter().map(|listed| listed.name).max().filter(|last| &**last > name))
}

/// Deletes records that are out of date. One that stays does no harm.
pub(super) async fn tidy(store: &dyn Store, names: &[String]) {
    for name in names.iter().rev().skip(KEPT) {
        if store.delete(name).await.is_err() {
            return;
        }
    }
}
