//! Families and drives in a store: making them, finding them, and what is done to a drive that nobody has open.

use crate::format::FormatError;
use crate::format::head::{self, Head, HeadState};
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{Geometry, Root};
use crate::map::ReadError;
use crate::push::{Device, now_ms};
use crate::seal::Sealer;
use crate::store::{Store, StoreError, When};
use crate::units::Epoch;
use bytes::Bytes;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Makes a drive: an empty root, then its HEAD. A crash in between leaves a root that nothing names.
pub async fn create(
    store: &dyn Store,
    sealer: &Sealer,
    family: Uuid,
    name: &str,
    geometry: Geometry,
    device: &Device,
) -> Result<Uuid, StoreError> {
    let drive = crate::entropy::uuid();
    let root = Root {
        drive,
        family,
        name: name.to_owned(),
        epoch: Epoch(0),
        seq: 0,
        parent: ObjectId::NONE,
        committed_ms: now_ms(),
        device: device.id,
        device_name: device.name.clone(),
        geometry,
        lineage: Vec::new(),
        pages: BTreeMap::new(),
        tail: Vec::new(),
        usage: None,
        snapshots: Vec::new(),
        condemned: Vec::new(),
    };
    publish(store, sealer, &root, device).await?;
    Ok(drive)
}

/// Puts the first root of a drive and its HEAD, which must not be there yet.
async fn publish(store: &dyn Store, sealer: &Sealer, root: &Root, device: &Device) -> Result<(), StoreError> {
    let id = ObjectId { drive: root.drive, epoch: root.epoch, seq: root.seq, unique: crate::entropy::u128() };
    let root_name = id.name(ObjectKind::Root);
    let object = Bytes::from(root.seal(sealer, &root_name));
    let root_hash = *blake3::hash(&object).as_bytes();
    store.put(&root_name, object, When::Absent).await?;
    let head = Head {
        drive: root.drive,
        epoch: root.epoch,
        nonce: crate::entropy::u128(),
        device: device.id,
        device_name: device.name.clone(),
        state: HeadState::Released,
        written_ms: now_ms(),
        root: id,
        root_hash,
        parent: root.parent,
    };
    store.put(&head::name(root.drive), Bytes::from(head.encode(sealer)), When::Absent).await?;
    Ok(())
}

/// The drives of a family, removed ones aside.
pub async fn heads(store: &dyn Store, sealer: &Sealer) -> Result<Vec<Head>, ReadError> {
    let mut heads = Vec::new();
    for listed in store.list("head/").await? {
        let bytes = store.get(&listed.name, None).await?.bytes;
        let head = Head::decode(sealer, &bytes)
            .map_err(|error: FormatError| ReadError::Format { name: listed.name, error })?;
        heads.push(head);
    }
    heads.retain(|head| head.state != HeadState::Removed);
    Ok(heads)
}
