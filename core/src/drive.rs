//! Drives in a store: making them, finding them, and what is done to one that nobody has open.

use crate::fence;
use crate::fork;
use crate::format::head::{self, Head, HeadState};
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{Geometry, Lineage, Root, Snapshot};
use crate::map::{self, Objects, ReadError};
use crate::push::{Device, Reference, ReferenceKind, now_ms};
use crate::seal::Sealer;
use crate::store::{Etag, Store, StoreError, When, immutable};
use crate::units::{Epoch, Lsn};
use bytes::Bytes;
use std::collections::BTreeMap;
use uuid::Uuid;

pub mod check;

/// Why something cannot be done to a drive.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Another device has it open.
    #[error("{device_name} has the drive open (epoch {epoch})")]
    Held {
        /// The device.
        device_name: String,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Someone else changed it at the same moment.
    #[error("another computer changed the drive at the same moment")]
    Raced,
    /// It was removed.
    #[error("the drive was removed from its store")]
    Removed,
    /// It lives in another store now.
    #[error("the drive was moved to another store")]
    Moved {
        /// Its address, if that was said.
        to: Option<String>,
    },
    /// No such snapshot.
    #[error("there is no snapshot \"{0}\"")]
    NoSnapshot(String),
    /// The store failed, or an object is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<StoreError> for DriveError {
    fn from(error: StoreError) -> Self {
        DriveError::Read(error.into())
    }
}

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
    let (id, root_hash) = put_root(store, sealer, root).await?;
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
        moved_to: Vec::new(),
    };
    immutable::put(store, &head::name(root.drive), Bytes::from(head.encode(sealer))).await
}

pub(crate) async fn put_root(
    store: &dyn Store,
    sealer: &Sealer,
    root: &Root,
) -> Result<(ObjectId, [u8; 32]), StoreError> {
    let id = ObjectId { drive: root.drive, epoch: root.epoch, seq: root.seq, unique: crate::entropy::u128() };
    let name = id.name(ObjectKind::Root);
    let object = Bytes::from(root.seal(sealer, &name));
    let hash = *blake3::hash(&object).as_bytes();
    immutable::put(store, &name, object).await?;
    Ok((id, hash))
}

/// The drives of a family, but for those that were removed from this store or have moved to another.
pub async fn heads(store: &dyn Store, sealer: &Sealer) -> Result<Vec<Head>, ReadError> {
    let mut heads = all_heads(store, sealer).await?;
    heads.retain(|head| head.state.is_here());
    Ok(heads)
}

/// The HEADs of all drives that a family has or had in this store.
pub async fn all_heads(store: &dyn Store, sealer: &Sealer) -> Result<Vec<Head>, ReadError> {
    let mut heads = Vec::new();
    for listed in store.list("head/").await?.iter().filter(|listed| head::is_name_of_drive(&listed.name)) {
        let decode = |bytes: &[u8]| Head::decode(sealer, bytes);
        heads.push(map::read(store, &listed.name, None, decode).await?.0);
    }
    Ok(heads)
}

/// The HEAD of a drive that is in this store.
pub(crate) async fn head(objects: &Objects, drive: Uuid) -> Result<(Head, Etag), DriveError> {
    let (head, etag) = read_head(objects, drive).await?;
    check_here(&head, objects.sealer())?;
    Ok((head, etag))
}

/// A drive's HEAD and its current version.
pub async fn current(objects: &Objects, drive: Uuid) -> Result<(Head, Etag, Root), DriveError> {
    let (head, etag) = self::head(objects, drive).await?;
    let root = objects.root(head.root, Some(head.root_hash)).await?;
    Ok((head, etag, root))
}

/// The same, where a drive that has moved from this store is meant as well: what it had here is still there.
pub(crate) async fn last_here(objects: &Objects, drive: Uuid) -> Result<(Head, Etag, Root), DriveError> {
    let (head, etag) = read_head(objects, drive).await?;
    if head.state == HeadState::Removed {
        return Err(DriveError::Removed);
    }
    let root = objects.root(head.root, Some(head.root_hash)).await?;
    Ok((head, etag, root))
}

async fn read_head(objects: &Objects, drive: Uuid) -> Result<(Head, Etag), DriveError> {
    let decode = |bytes: &[u8]| Head::decode(objects.sealer(), bytes);
    let (head, fetched) = map::read(objects.store().as_ref(), &head::name(drive), None, decode).await?;
    Ok((head, fetched.etag))
}

/// Refuses a drive that is in this store no more.
pub(crate) fn check_here(head: &Head, sealer: &Sealer) -> Result<(), DriveError> {
    match head.state {
        HeadState::Released | HeadState::Held => Ok(()),
        HeadState::Removed => Err(DriveError::Removed),
        HeadState::Moved => Err(DriveError::Moved { to: head.address(sealer) }),
    }
}

/// The version under a label, which may lack the device's id, as people see it.
pub fn snapshot<'a>(root: &'a Root, label: &str) -> Result<&'a Snapshot, DriveError> {
    let exact = root.snapshots.iter().find(|snapshot| snapshot.label == label);
    let found = exact.or_else(|| root.snapshots.iter().find(|kept| fork::shown(&kept.label) == label));
    found.ok_or_else(|| DriveError::NoSnapshot(label.to_owned()))
}

/// Makes the version under `label` the current one. What was current is kept as a snapshot, whose label is
/// returned. The drive must be closed.
///
/// The lineage gains an entry of no journal: to every device that was here before, somebody else has written.
pub async fn rollback(
    objects: &Objects,
    drive: Uuid,
    label: &str,
    device: &Device,
) -> Result<String, DriveError> {
    let (head, etag, root) = current(objects, drive).await?;
    check_free(&head, device)?;
    let kept = snapshot(&root, label)?.clone();
    let old = objects.root(kept.root, Some(kept.root_hash)).await?;
    let epoch = Epoch(head.epoch.0 + 1);
    let before = format!("before rollback {}", epoch.0);
    let mut snapshots = root.snapshots.clone();
    snapshots.push(Snapshot {
        label: before.clone(),
        root: head.root,
        root_hash: head.root_hash,
        taken_ms: now_ms(),
        size_blocks: root.geometry.size_blocks,
    });
    // A person may delete that one.
    snapshots.extend(fork::labels(&head, &root, device, None));
    let entry = Lineage { epoch, journal: crate::entropy::uuid(), cut: Lsn(0), crc: 0 };
    let lineage = fence::extend(&root.lineage, entry);
    let next = successor(&root, &head, epoch, lineage, device);
    let next = Root {
        geometry: old.geometry,
        pages: old.pages,
        tail: old.tail,
        usage: old.usage,
        snapshots,
        ..next
    };
    commit(objects, &head, etag, &next, HeadState::Released, device).await?;
    Ok(before)
}

/// Makes a drive of its own from a version of another: O(1), since it names the same objects. The version is held by
/// a ref until the new drive's HEAD holds it, so that no collection comes between.
pub async fn clone(
    objects: &Objects,
    drive: Uuid,
    label: Option<&str>,
    name: &str,
    device: &Device,
) -> Result<Uuid, DriveError> {
    let (head, _, root) = current(objects, drive).await?;
    let (source, hash) = match label {
        Some(label) => snapshot(&root, label).map(|kept| (kept.root, kept.root_hash))?,
        None => (head.root, head.root_hash),
    };
    let reference = hold(objects, drive, source, ReferenceKind::Clone, device).await?;
    let new = crate::entropy::uuid();
    let made = clone_of(objects, (source, hash), (new, name, Vec::new()), device).await;
    objects.store().delete(&reference).await?;
    made.map(|()| new)
}

/// Makes a drive of its own from the version that `head` names, as [`clone`] does. There is one for each version: who was cut off and
/// comes again finds it there. Returns what it is called.
pub(crate) async fn set_apart(
    objects: &Objects,
    head: &Head,
    root: &Root,
    device: &Device,
) -> Result<String, DriveError> {
    let version = head.root.name(ObjectKind::Root);
    let hash = blake3::derive_key("holdall 2026 drive of a version that was left behind", version.as_bytes());
    let new = Uuid::from_slice(&hash[..16]).expect("16 bytes");
    match current(objects, new).await {
        Ok((_, _, there)) => return Ok(there.name),
        // Whoever has decided about it has.
        Err(DriveError::Removed | DriveError::Moved { .. }) => return Ok(root.name.clone()),
        Err(DriveError::Read(error)) if error.is_missing() => {}
        Err(error) => return Err(error),
    }
    let name = fork::name(&root.name, &head.device_name, head.written_ms);
    let reference = hold(objects, head.drive, head.root, ReferenceKind::Clone, device).await?;
    // Who looks for a snapshot that the replica did not get finds it there.
    let mut snapshots = root.snapshots.clone();
    snapshots.retain(|kept| !fork::is_reserved(&kept.label));
    let new = (new, &*name, snapshots);
    let made = clone_of(objects, (head.root, head.root_hash), new, device).await;
    objects.store().delete(&reference).await?;
    made.map(|()| name)
}

async fn clone_of(
    objects: &Objects,
    (source, hash): (ObjectId, [u8; 32]),
    (new, name, snapshots): (Uuid, &str, Vec<Snapshot>),
    device: &Device,
) -> Result<(), DriveError> {
    let old = objects.root(source, Some(hash)).await?;
    let root = Root {
        drive: new,
        name: name.to_owned(),
        epoch: Epoch(0),
        seq: 0,
        parent: source,
        committed_ms: now_ms(),
        device: device.id,
        device_name: device.name.clone(),
        lineage: Vec::new(),
        snapshots,
        condemned: Vec::new(),
        ..old
    };
    publish(objects.store().as_ref(), objects.sealer(), &root, device).await?;
    Ok(())
}

/// Gives a drive that is closed another name in its store. Where this device still holds it, its journal may have changes
/// that go on from the version before; so may that of another device which had let it go, and opens it while the store is away. From now on
/// HEAD and version are this device's, and nobody would know any more to keep that version for them: it is kept here, as at a take-over.
pub async fn rename(objects: &Objects, drive: Uuid, name: &str, device: &Device) -> Result<(), DriveError> {
    let (head, etag, root) = current(objects, drive).await?;
    check_free(&head, device)?;
    let epoch = Epoch(head.epoch.0 + 1);
    let mut next =
        Root { name: name.to_owned(), ..successor(&root, &head, epoch, root.lineage.clone(), device) };
    next.snapshots.extend(fork::labels(&head, &root, device, None));
    commit(objects, &head, etag, &next, HeadState::Released, device).await
}

/// What the names of all refs begin with.
pub const HOLDS: &str = "ref/";

/// Puts a hold on a version. Returns the ref's name, for letting go. A version that is not kept any more when the ref
/// is there cannot be held: a collection may not have seen the ref.
pub async fn hold(
    objects: &Objects,
    drive: Uuid,
    root: ObjectId,
    kind: ReferenceKind,
    device: &Device,
) -> Result<String, DriveError> {
    let name = new_hold();
    hold_as(objects, &name, (drive, root), kind, device).await?;
    Ok(name)
}

/// The name of a ref that nobody has put yet.
pub fn new_hold() -> String {
    format!("{}{:032x}", HOLDS, crate::entropy::u128())
}

/// The same as [`hold`], under a name that whoever holds it has written down before: what may be in the store is known to somebody who
/// lets it go, whenever this is cut off.
pub async fn hold_as(
    objects: &Objects,
    name: &str,
    (drive, root): (Uuid, ObjectId),
    kind: ReferenceKind,
    device: &Device,
) -> Result<(), DriveError> {
    let store = objects.store().as_ref();
    let reference = Reference::new(drive, root, kind, device, now_ms());
    immutable::put(store, name, reference.encode()).await?;
    let kept = is_kept(objects, drive, root).await;
    match kept {
        Ok(true) => return Ok(()),
        Ok(false) | Err(_) => store.delete(name).await?,
    }
    Err(kept.err().unwrap_or(DriveError::Raced))
}

/// Whether a drive still keeps a version.
async fn is_kept(objects: &Objects, drive: Uuid, root: ObjectId) -> Result<bool, DriveError> {
    let (head, _, now) = last_here(objects, drive).await?;
    Ok(keeps(&head, &now, root))
}

/// The same, of a drive whose HEAD and current version are these.
pub(crate) fn keeps(head: &Head, now: &Root, root: ObjectId) -> bool {
    head.root == root || head.parent == root || now.snapshots.iter().any(|kept| kept.root == root)
}

/// Marks a drive as removed. Its objects are deleted afterwards, but for what others of the family reach; HEAD stays
/// as a tombstone. The drive must be closed. Where an earlier try was cut off it goes on.
pub async fn remove(objects: &Objects, drive: Uuid, device: &Device) -> Result<u64, DriveError> {
    match current(objects, drive).await {
        Ok((head, etag, root)) => {
            check_free(&head, device)?;
            let epoch = Epoch(head.epoch.0 + 1);
            let lineage = root.lineage.clone();
            let next = Root {
                pages: BTreeMap::new(),
                tail: Vec::new(),
                usage: None,
                snapshots: Vec::new(),
                ..successor(&root, &head, epoch, lineage, device)
            };
            commit(objects, &head, etag, &next, HeadState::Removed, device).await?;
        }
        Err(DriveError::Removed) => {}
        Err(error) => return Err(error),
    }
    fork::forget_references(objects.store().as_ref(), drive).await?;
    let elsewhere = crate::push::reached_from_elsewhere(objects, drive).await?.reached;
    let mut deleted = 0;
    for prefix in ["seg/", "root/"] {
        for listed in objects.store().list(prefix).await? {
            let ours = ObjectId::parse(&listed.name).filter(|(_, id)| id.drive == drive);
            if ours.is_some_and(|object| !elsewhere.contains(&object)) {
                objects.store().delete(&listed.name).await?;
                deleted += 1;
            }
        }
    }
    Ok(deleted)
}

/// Marks a drive as moved from this store to the one at `to`: nobody commits here any more. Nothing is deleted. `head` is what whoever
/// decided that has seen of it: nothing may have been committed since.
pub async fn retire(
    objects: &Objects,
    (head, etag): (&Head, Etag),
    to: &str,
    device: &Device,
) -> Result<(), DriveError> {
    check_free(head, device)?;
    retire_over_others(objects, (head, etag), to, device).await
}

/// The same, also over a device that has the drive open here: what it has and the store does not becomes a fork.
pub(crate) async fn retire_over_others(
    objects: &Objects,
    (head, etag): (&Head, Etag),
    to: &str,
    device: &Device,
) -> Result<(), DriveError> {
    check_here(head, objects.sealer())?;
    swap(objects, head, etag, moved(objects, head, to, device)).await
}

/// The HEAD behind `before` that says where the drive has gone. It names the same version.
fn moved(objects: &Objects, before: &Head, to: &str, device: &Device) -> Head {
    let next = next_head(before, HeadState::Moved, device);
    Head { moved_to: Head::seal_address(objects.sealer(), next.drive, next.epoch, to), ..next }
}

/// Takes [`retire`] back, where nobody has done anything to the drive since.
pub async fn restore(objects: &Objects, drive: Uuid, device: &Device) -> Result<(), DriveError> {
    let (head, etag) = read_head(objects, drive).await?;
    if head.state != HeadState::Moved || head.device != device.id {
        return Err(DriveError::Raced);
    }
    swap(objects, &head, etag, next_head(&head, HeadState::Released, device)).await
}

/// Of a drive that is in this store: whether `device` may change it.
fn check_free(head: &Head, device: &Device) -> Result<(), DriveError> {
    match head.state == HeadState::Held && head.device != device.id {
        true => Err(DriveError::Held { device_name: head.device_name.clone(), epoch: head.epoch }),
        false => Ok(()),
    }
}

fn successor(root: &Root, head: &Head, epoch: Epoch, lineage: Vec<Lineage>, device: &Device) -> Root {
    Root {
        parent: head.root,
        epoch,
        seq: root.seq + 1,
        committed_ms: now_ms(),
        device: device.id,
        device_name: device.name.clone(),
        lineage,
        ..root.clone()
    }
}

async fn commit(
    objects: &Objects,
    before: &Head,
    etag: Etag,
    root: &Root,
    state: HeadState,
    device: &Device,
) -> Result<(), DriveError> {
    let (id, root_hash) = put_root(objects.store().as_ref(), objects.sealer(), root).await?;
    let next = next_head(before, state, device);
    let head = Head { epoch: root.epoch, root: id, root_hash, parent: before.root, ..next };
    swap(objects, before, etag, head).await
}

/// The HEAD behind `before`, in an epoch of its own, that names the same version.
fn next_head(before: &Head, state: HeadState, device: &Device) -> Head {
    Head {
        epoch: Epoch(before.epoch.0 + 1),
        nonce: crate::entropy::u128(),
        device: device.id,
        device_name: device.name.clone(),
        state,
        written_ms: now_ms(),
        moved_to: Vec::new(),
        ..before.clone()
    }
}

async fn swap(objects: &Objects, before: &Head, etag: Etag, head: Head) -> Result<(), DriveError> {
    let name = head::name(head.drive);
    let body = Bytes::from(head.encode(objects.sealer()));
    let result = objects.store().put(&name, body, When::Matches(etag)).await;
    let Err(error) = result else { return Ok(()) };
    // The answer may have been lost: HEAD itself tells.
    let (now, _) = read_head(objects, head.drive).await?;
    match fence::judge(&now, before, &head) {
        fence::Swap::Applied => Ok(()),
        fence::Swap::NotApplied => Err(error.into()),
        fence::Swap::Fenced(_) => Err(DriveError::Raced),
    }
}
