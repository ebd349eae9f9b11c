//! Drives in a store: making and finding them, and changing one that no device has open.

use crate::clock::now_ms;
use crate::fence;
use crate::fork;
use crate::format::head::{self, Head, HeadState};
use crate::format::id::ObjectKind;
use crate::format::root::Lineage;
use crate::heads::transition::{self, Invalid};
use crate::heads::{self, Author, Device, Once, Swap, Version, kept};
use crate::map::{self, Objects, ReadError};
use crate::reach::{DELETES_PER_STEP, Reference, ReferenceKind, reached_from_elsewhere};
use crate::seal::Sealer;
use crate::store::{Etag, Store, StoreError, immutable};
use crate::units::{Epoch, Lsn};
use std::collections::BTreeMap;
use uuid::Uuid;

pub mod check;

pub use crate::format::id::ObjectId;
pub use crate::format::root::{Geometry, Root, Snapshot};

/// Why a drive cannot be changed.
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
    /// Another device changed it at the same moment.
    #[error("another computer changed the drive at the same moment")]
    Raced,
    /// It was removed.
    #[error("the drive was removed from its store")]
    Removed,
    /// It lives in another store now.
    #[error("the drive was moved to another store")]
    Moved {
        /// Its address, if the HEAD names it.
        to: Option<String>,
    },
    /// No such snapshot.
    #[error("there is no snapshot \"{label}\"")]
    NoSnapshot {
        /// The label.
        label: String,
        /// The labels that the drive has, as people see them.
        known: Vec<String>,
    },
    /// It became the primary here, and has not continued to its newest version yet: opening it does that, and so does promoting it again.
    #[error("the promotion of this store is not finished")]
    Unfinished,
    /// The store failed, or an object is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<Invalid> for DriveError {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Removed => DriveError::Removed,
            Invalid::Moved => DriveError::Moved { to: None },
            Invalid::Held { device_name, epoch } => DriveError::Held { device_name, epoch },
            Invalid::Unfinished => DriveError::Unfinished,
            Invalid::NotMoved
            | Invalid::Here
            | Invalid::Finished
            | Invalid::NotOwn
            | Invalid::WasHeld
            | Invalid::OtherVersion
            | Invalid::UsedEpoch(_) => DriveError::Raced,
        }
    }
}

impl From<StoreError> for DriveError {
    fn from(error: StoreError) -> Self {
        DriveError::Read(error.into())
    }
}

/// Makes a drive: an empty root, then its HEAD. A crash in between leaves an orphan root.
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
    publish((store, sealer), &root, device).await.map_err(Unpublished::error)?;
    Ok(drive)
}

/// Puts the first root of a drive and its HEAD, which must not exist yet. If another device was faster, the drive is that device's.
async fn publish(objects: (&dyn Store, &Sealer), root: &Root, device: &Device) -> Result<(), Unpublished> {
    let (store, sealer) = objects;
    let version = heads::put_root(store, sealer, root).await.map_err(Unpublished::Absent)?;
    let head = transition::publish(root.drive, root.epoch, version, false, Author::new(device));
    match heads::swap(store, sealer, None, head, &mut Once).await {
        Swap::Lost(now) if now.state == HeadState::Removed => {
            let reason = "making it took so long that it was abandoned".to_owned();
            Err(Unpublished::Absent(StoreError::Busy { reason, retry_after: None }))
        }
        Swap::Applied(..) | Swap::Lost(_) => Ok(()),
        Swap::Refused(error) => Err(Unpublished::Absent(error)),
        Swap::Unknown(error) => Err(Unpublished::Unknown(error)),
    }
}

/// Why a drive's first HEAD may not be in the store.
enum Unpublished {
    /// It is not, and never will be.
    Absent(StoreError),
    /// It may be, or may come later.
    Unknown(StoreError),
}

impl Unpublished {
    fn error(self) -> StoreError {
        match self {
            Unpublished::Absent(error) | Unpublished::Unknown(error) => error,
        }
    }
}

/// The drives of a family, without those that were removed from this store or have moved to another.
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

/// The same, also for a drive that has moved from this store: its HEAD still names the last version that it had here.
pub(crate) async fn last_here(objects: &Objects, drive: Uuid) -> Result<(Head, Etag, Root), DriveError> {
    let (head, etag) = read_head(objects, drive).await?;
    if head.state == HeadState::Removed {
        return Err(DriveError::Removed);
    }
    let root = objects.root(head.root, Some(head.root_hash)).await?;
    Ok((head, etag, root))
}

async fn read_head(objects: &Objects, drive: Uuid) -> Result<(Head, Etag), ReadError> {
    heads::read(objects.store().as_ref(), objects.sealer(), drive).await
}

/// Refuses a drive that is no longer in this store.
pub(crate) fn check_here(head: &Head, sealer: &Sealer) -> Result<(), DriveError> {
    match head.state {
        HeadState::Released | HeadState::Held => Ok(()),
        HeadState::Removed => Err(DriveError::Removed),
        HeadState::Moved => Err(DriveError::Moved { to: head.address(sealer) }),
    }
}

/// The version under a label. The label may lack the device's id, as people see it.
pub fn snapshot<'a>(root: &'a Root, label: &str) -> Result<&'a Snapshot, DriveError> {
    let exact = root.snapshots.iter().find(|snapshot| snapshot.label == label);
    let found = exact.or_else(|| root.snapshots.iter().find(|kept| kept::shown(&kept.label) == label));
    found.ok_or_else(|| {
        let known = root.snapshots.iter().filter(|kept| !kept::is_for_absent(&kept.label));
        let known = known.map(|kept| kept::shown(&kept.label).to_owned()).collect();
        DriveError::NoSnapshot { label: label.to_owned(), known }
    })
}

/// Makes the version under `label` the current one. The version that was current is kept as a snapshot, and its label is returned. The
/// drive must be closed.
///
/// The lineage gains an entry of a journal that does not exist. So every device that was here before sees that another one has written.
pub async fn rollback(
    objects: &Objects,
    drive: Uuid,
    label: &str,
    device: &Device,
) -> Result<String, DriveError> {
    let (head, etag, root) = to_change(objects, drive, device).await?;
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
    // A person may delete that snapshot.
    snapshots.extend(kept::labels(&head, &root, device, None));
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
    let version = put_root(objects, &next).await?;
    swap(objects, (&head, etag), transition::change(&head, version, Author::new(device))?).await?;
    Ok(before)
}

/// Makes a drive of its own from a version of another: O(1), since it names the same objects. A ref holds the version until the new drive's
/// HEAD does, so that no collection comes in between.
pub async fn clone(
    objects: &Objects,
    drive: Uuid,
    label: Option<&str>,
    name: &str,
    device: &Device,
) -> Result<Uuid, DriveError> {
    let (head, _) = self::head(objects, drive).await?;
    if head.is_provisional() {
        // Objects of the version that it names may be missing.
        return Err(DriveError::Unfinished);
    }
    let root = objects.root(head.root, Some(head.root_hash)).await?;
    let (source, hash) = match label {
        Some(label) => snapshot(&root, label).map(|kept| (kept.root, kept.root_hash))?,
        None => (head.root, head.root_hash),
    };
    let new = crate::entropy::uuid();
    clone_held(objects, drive, (source, hash), (new, name, Vec::new()), device).await?;
    Ok(new)
}

/// Makes a drive of its own from the version that `head` names, as [`clone`] does. There is one such drive for each version: a try after
/// one that was cut off finds it. Returns its name.
pub(crate) async fn set_apart(
    objects: &Objects,
    head: &Head,
    root: &Root,
    device: &Device,
) -> Result<String, DriveError> {
    let new = apart(head.root);
    match current(objects, new).await {
        Ok((_, _, there)) => return Ok(there.name),
        // It was made before, and then removed or moved: that decision stands.
        Err(DriveError::Removed | DriveError::Moved { .. }) => return Ok(root.name.clone()),
        Err(DriveError::Read(error)) if error.is_missing() => {}
        Err(error) => return Err(error),
    }
    let name = fork::name(&root.name, &head.device_name, head.written_ms);
    // A snapshot that the replica did not get can be found there.
    let mut snapshots = root.snapshots.clone();
    snapshots.retain(|own| !kept::is_reserved(&own.label));
    let new = (new, &*name, snapshots);
    clone_held(objects, head.drive, (head.root, head.root_hash), new, device).await?;
    Ok(name)
}

/// The drive that [`set_apart`] makes of a version.
fn apart(version: ObjectId) -> Uuid {
    let version = version.name(ObjectKind::Root);
    let hash = blake3::derive_key("holdall 2026 drive of a version that was left behind", version.as_bytes());
    Uuid::from_slice(&hash[..16]).expect("16 bytes")
}

/// Deletes the refs of clones that were begun a day before `now_ms` or earlier and have no HEAD. First a HEAD says that such a drive was
/// removed, so that its first HEAD can no longer arrive: nothing would hold the clone's version then.
///
/// A drive that [`set_apart`] makes is not abandoned: the device that left its version behind tries again until it is there.
pub(crate) async fn abandon_clones(objects: &Objects, now_ms: u64, device: &Device) -> Result<(), ReadError> {
    let (store, sealer) = (objects.store().as_ref(), objects.sealer());
    for (new, name) in fork::without_head(store).await? {
        let bytes = match store.get(&name, None).await {
            Err(StoreError::NotFound { .. }) => continue,
            fetched => fetched?.bytes,
        };
        // A ref that says nothing is reported by whoever needs to know what it holds.
        let Ok(reference) = serde_json::from_slice::<Reference>(&bytes) else { continue };
        let is_clone = reference.kind == ReferenceKind::Clone
            && ObjectId::parse(&reference.root).is_some_and(|(_, version)| apart(version) != new);
        if !is_clone || now_ms.saturating_sub(reference.created_ms) < CLONE_MS_MAX {
            continue;
        }
        let abandoned = transition::abandon(new, Author::new(device));
        match heads::swap(store, sealer, None, abandoned, &mut Once).await {
            // If its HEAD has just arrived, it holds the version.
            Swap::Applied(..) | Swap::Lost(_) => store.delete(&name).await?,
            Swap::Refused(error) | Swap::Unknown(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Making a clone takes at most this long: it is a few requests.
const CLONE_MS_MAX: u64 = 24 * 3600 * 1000;

/// Makes a drive of a version of the drive `of`, which a ref holds meanwhile. If the new drive's HEAD may still arrive, the ref stays: nothing
/// else would hold the version then. The ref is named like a fork's, so the next collection that finds that HEAD deletes it. If there is none
/// after a day, a collection abandons the clone.
async fn clone_held(
    objects: &Objects,
    of: Uuid,
    source: (ObjectId, [u8; 32]),
    (new, name, snapshots): (Uuid, &str, Vec<Snapshot>),
    device: &Device,
) -> Result<(), DriveError> {
    let reference = fork::new_reference(new);
    hold_as(objects, &reference, (of, source.0), ReferenceKind::Clone, device).await?;
    let made = match clone_of(objects, source, (new, name, snapshots), device).await {
        Ok(root) => publish((objects.store().as_ref(), objects.sealer()), &root, device).await,
        Err(error) => {
            objects.store().delete(&reference).await?;
            return Err(error.into());
        }
    };
    if !matches!(made, Err(Unpublished::Unknown(_))) {
        // If the ref stays, the next collection deletes it.
        let _ = objects.store().delete(&reference).await;
    }
    Ok(made.map_err(Unpublished::error)?)
}

/// The first root of a drive that has the content of the version `source`.
async fn clone_of(
    objects: &Objects,
    (source, hash): (ObjectId, [u8; 32]),
    (new, name, snapshots): (Uuid, &str, Vec<Snapshot>),
    device: &Device,
) -> Result<Root, ReadError> {
    let old = objects.root(source, Some(hash)).await?;
    Ok(Root {
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
    })
}

/// Renames a closed drive in its store. This device may still hold it, with changes in its journal on top of the current version. So may
/// another device that has released the drive and opens it while the store is away. From now on HEAD and the version are this device's.
/// Nothing would show that the version before is still needed, so it is kept here, as at a take-over.
pub async fn rename(objects: &Objects, drive: Uuid, name: &str, device: &Device) -> Result<(), DriveError> {
    let (head, etag, root) = to_change(objects, drive, device).await?;
    let epoch = Epoch(head.epoch.0 + 1);
    let mut next =
        Root { name: name.to_owned(), ..successor(&root, &head, epoch, root.lineage.clone(), device) };
    next.snapshots.extend(kept::labels(&head, &root, device, None));
    let version = put_root(objects, &next).await?;
    swap(objects, (&head, etag), transition::change(&head, version, Author::new(device))?).await
}

/// The beginning of the names of all refs.
pub const HOLDS: &str = "ref/";

/// The name of a new ref.
pub fn new_hold() -> String {
    format!("{}{:032x}", HOLDS, crate::entropy::u128())
}

/// Puts a ref that holds a version, under a name that the caller knows before: if this is cut off, the caller still knows which ref to delete.
/// If the version is no longer kept once the ref is there, it cannot be held: a collection may have missed the ref.
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
    if !head.state.is_here() {
        // Collections of other drives ignore a drive that has moved.
        check_whole(objects, &head).await?;
    }
    Ok(keeps(&head, &now, root))
}

/// Checks that the store has all objects of the version that `head` names.
async fn check_whole(objects: &Objects, head: &Head) -> Result<(), DriveError> {
    let root = objects.root(head.root, Some(head.root_hash)).await?;
    if fork::is_whole(objects, head.root, &root).await? {
        return Ok(());
    }
    let reason = "objects of this version were deleted while the drive was in another store".to_owned();
    Err(StoreError::Damaged { name: head.root.name(ObjectKind::Root), reason }.into())
}

/// The same for a drive whose HEAD and current version these are.
pub(crate) fn keeps(head: &Head, now: &Root, root: ObjectId) -> bool {
    head.root == root || head.parent == root || now.snapshots.iter().any(|kept| kept.root == root)
}

/// Marks a drive as removed, and then deletes its objects, without those that others of the family reach. HEAD stays as a tombstone. The
/// drive must be closed. Continues a try that was cut off.
pub async fn remove(objects: &Objects, drive: Uuid, device: &Device) -> Result<u64, DriveError> {
    match to_change(objects, drive, device).await {
        Ok((head, etag, root)) => {
            let epoch = Epoch(head.epoch.0 + 1);
            let lineage = root.lineage.clone();
            let next = Root {
                pages: BTreeMap::new(),
                tail: Vec::new(),
                usage: None,
                snapshots: Vec::new(),
                ..successor(&root, &head, epoch, lineage, device)
            };
            let version = put_root(objects, &next).await?;
            swap(objects, (&head, etag), transition::remove(&head, version, Author::new(device))?).await?;
        }
        Err(DriveError::Removed) => {}
        Err(error) => return Err(error),
    }
    fork::forget_references(objects.store().as_ref(), drive).await?;
    let mut deleted = 0;
    let mut elsewhere = reached_from_elsewhere(objects, drive).await?;
    for prefix in ["root/", "seg/"] {
        let listed = objects.store().list(prefix).await?;
        let ours = listed.iter().filter_map(|listed| Some((ObjectId::parse(&listed.name)?, &listed.name)));
        let ours: Vec<_> = ours.filter(|((_, id), _)| id.drive == drive).collect();
        for step in ours.chunks(DELETES_PER_STEP) {
            // A ref that was put during the look, to a version that its drive no longer keeps, is seen here. One that is put later finds
            // that the version is no longer kept (`push/gc.rs`).
            if !elsewhere.is_complete(objects).await? {
                elsewhere = reached_from_elsewhere(objects, drive).await?;
            }
            for (_, name) in step.iter().filter(|(object, _)| !elsewhere.reached.contains(object)) {
                objects.store().delete(name).await?;
                deleted += 1;
            }
        }
    }
    Ok(deleted)
}

/// Marks a drive as moved from this store to the one at `to`: no device commits here any longer. Nothing is deleted. `head` is the HEAD on
/// which the caller decided: nothing may have been committed since.
pub async fn retire(
    objects: &Objects,
    (head, etag): (&Head, Etag),
    to: &str,
    device: &Device,
) -> Result<(), DriveError> {
    retire_over(objects, (head, etag), to, false, device).await
}

/// The same, even if another device has the drive open here: changes that only that device has become a fork.
pub(crate) async fn retire_over_others(
    objects: &Objects,
    (head, etag): (&Head, Etag),
    to: &str,
    device: &Device,
) -> Result<(), DriveError> {
    retire_over(objects, (head, etag), to, true, device).await
}

async fn retire_over(
    objects: &Objects,
    (head, etag): (&Head, Etag),
    to: &str,
    over_others: bool,
    device: &Device,
) -> Result<(), DriveError> {
    check_here(head, objects.sealer())?;
    let address = |epoch| Head::seal_address(objects.sealer(), head.drive, epoch, to);
    let next = transition::retire(head, over_others, address, Author::new(device))?;
    swap(objects, (head, etag), next).await
}

/// Undoes [`retire`], if nothing has happened to the drive since.
pub async fn restore(objects: &Objects, drive: Uuid, device: &Device) -> Result<(), DriveError> {
    let (head, etag) = read_head(objects, drive).await?;
    let Ok(next) = transition::restore(&head, Author::new(device)) else { return Err(DriveError::Raced) };
    // Meanwhile collections of other drives ignored what this one shares with them.
    check_whole(objects, &head).await?;
    swap(objects, (&head, etag), next).await
}

/// The HEAD and the version of a drive that this device is to change. A drive that may not be changed is refused before anything else is
/// read or put.
async fn to_change(
    objects: &Objects,
    drive: Uuid,
    device: &Device,
) -> Result<(Head, Etag, Root), DriveError> {
    let (head, etag) = self::head(objects, drive).await?;
    let next = Version { parent: head.root, ..Version::of(&head) };
    transition::change(&head, next, Author::new(device))?;
    let root = objects.root(head.root, Some(head.root_hash)).await?;
    Ok((head, etag, root))
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

async fn put_root(objects: &Objects, root: &Root) -> Result<Version, StoreError> {
    heads::put_root(objects.store().as_ref(), objects.sealer(), root).await
}

/// Swaps HEAD once. If the outcome is not known, neither is the result of the command.
async fn swap(objects: &Objects, (before, etag): (&Head, Etag), next: Head) -> Result<(), DriveError> {
    let (store, sealer) = (objects.store().as_ref(), objects.sealer());
    match heads::swap(store, sealer, Some((before, &etag)), next, &mut Once).await {
        Swap::Applied(..) => Ok(()),
        Swap::Lost(_) => Err(DriveError::Raced),
        Swap::Refused(error) | Swap::Unknown(error) => Err(error.into()),
    }
}
