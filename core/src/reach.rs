//! What is reached: by versions, by refs, by the other drives of a family and their replicas. Nothing that is reached may be deleted.

use crate::format::head::{self, Head, HeadState};
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::Root;
use crate::heads::Device;
use crate::map::{self, Objects, ReadError};
use crate::store::names::{Kind, kind};
use crate::store::{Listed, StoreError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use uuid::Uuid;

/// An object of a drive.
pub(crate) type Object = (ObjectKind, ObjectId);

/// Deletions in one step. They take seconds on a store that is far away.
pub(crate) const DELETES_PER_STEP: usize = 256;

/// A hold on a version, put under `ref/`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reference {
    /// Version of this structure.
    pub version: u64,
    /// The drive of the version.
    pub drive: Uuid,
    /// Name of the root.
    pub root: String,
    /// The reason.
    pub kind: ReferenceKind,
    /// The device, shown to people.
    pub device: String,
    /// When it was put, Unix time in ms.
    pub created_ms: u64,
}

impl Reference {
    /// Holds the version `root` of a drive.
    pub fn new(drive: Uuid, root: ObjectId, kind: ReferenceKind, device: &Device, created_ms: u64) -> Self {
        let (root, device) = (root.name(ObjectKind::Root), device.name.clone());
        Self { version: 1, drive, root, kind, device, created_ms }
    }

    /// The object's bytes.
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec_pretty(self).expect("a structure of plain fields becomes JSON").into()
    }
}

/// Why a version is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferenceKind {
    /// Someone reads it.
    Reader,
    /// A clone is being made of it.
    Clone,
    /// A fork of it is being made.
    Fork,
}

/// The objects that refs, other drives and replicas hold.
pub(crate) struct Elsewhere {
    /// The drive that is looked at from there.
    drive: Uuid,
    /// The names of all refs, HEADs and records of replicas that were taken into account.
    holders: BTreeSet<String>,
    /// HEADs of drives that have moved, which hold nothing here. Their retirement may be undone at any moment.
    moved: Vec<Head>,
    /// All objects that they need.
    pub reached: BTreeSet<Object>,
}

impl Elsewhere {
    /// Whether nothing has come since that may hold an object.
    pub(crate) async fn is_complete(&self, objects: &Objects) -> Result<bool, ReadError> {
        let store = objects.store();
        let heads = store.list("head/").await?;
        check_lists(&heads, self.drive)?;
        let (references, records) = (store.list("ref/").await?, store.list(crate::replica::RECORDS).await?);
        let mut holders = [heads, references, records].into_iter().flatten().map(|listed| listed.name);
        if !holders.all(|name| !is_holder(&name) || self.holders.contains(&name)) {
            return Ok(false);
        }
        for before in &self.moved {
            let decode = |bytes: &[u8]| Head::decode(objects.sealer(), bytes);
            let (now, _) = map::read(store.as_ref(), &head::name(before.drive), None, decode).await?;
            if now.nonce != before.nonce {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether an object of this name may hold others: a ref, a drive's HEAD, a replica's record.
fn is_holder(name: &str) -> bool {
    matches!(kind(name), Some(Kind::Reference | Kind::Head | Kind::Replica))
}

/// Refuses a listing of HEADs that lacks the drive's own HEAD: it may lack others too, and they hold data.
fn check_lists(heads: &[Listed], drive: Uuid) -> Result<(), StoreError> {
    let own = head::name(drive);
    if heads.iter().any(|listed| listed.name == own) {
        return Ok(());
    }
    let reason =
        format!("the store does not list {own}, which is there. Nothing is deleted by such a listing");
    Err(StoreError::Damaged { name: "head/".to_owned(), reason })
}

/// All that refs, the family's other drives and their replicas reach.
pub(crate) async fn reached_from_elsewhere(objects: &Objects, drive: Uuid) -> Result<Elsewhere, ReadError> {
    let store = objects.store();
    let (mut holders, mut moved, mut reached) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    // Refs first: a clone's HEAD is put before its ref is deleted, so one of the two is seen.
    let references = store.list("ref/").await?;
    for listed in references.into_iter().filter(|listed| kind(&listed.name) == Some(Kind::Reference)) {
        let bytes = match store.get(&listed.name, None).await {
            // It was withdrawn after the listing. If it is put again, the next look reads it.
            Err(StoreError::NotFound { .. }) => continue,
            fetched => fetched?.bytes,
        };
        let damaged = || ReadError::Format {
            name: listed.name.clone(),
            error: crate::format::FormatError::Invalid("a ref names no root"),
        };
        let reference: Reference = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        let (_, id) = ObjectId::parse(&reference.root).ok_or_else(damaged)?;
        let reached_by_it = async {
            let root = objects.root(id, None).await?;
            reached.insert((ObjectKind::Root, id));
            reach(objects, &root, &mut reached).await
        };
        match reached_by_it.await {
            // The ref came too late: a part of its version is deleted already. Its owner notices that.
            Err(error) if error.is_missing() => {}
            read => read?,
        }
        holders.insert(listed.name);
    }
    let heads = store.list("head/").await?;
    check_lists(&heads, drive)?;
    for listed in heads {
        if !head::is_name_of_drive(&listed.name) {
            continue;
        }
        if listed.name == head::name(drive) {
            holders.insert(listed.name);
            continue;
        }
        let decode = |bytes: &[u8]| Head::decode(objects.sealer(), bytes);
        let (head, _) = map::read(store.as_ref(), &listed.name, None, decode).await?;
        if head.state.is_here() {
            reach_version(objects, &head, &mut reached).await?;
        }
        if head.state == HeadState::Moved {
            moved.push(head);
        }
        holders.insert(listed.name);
    }
    // Other drives may have only a replica here. One that is incomplete (its drive lived here later, and has collected it) is not worth
    // keeping.
    let (records, newest) = crate::replica::newest_of_all(store.as_ref(), objects.sealer()).await?;
    holders.extend(records);
    for head in newest.into_iter().filter(|head| head.drive != drive) {
        match reach_version(objects, &head, &mut reached).await {
            Err(error) if !error.is_missing() => return Err(error),
            _ => {}
        }
    }
    Ok(Elsewhere { drive, holders, moved, reached })
}

async fn reach_version(
    objects: &Objects,
    head: &Head,
    reached: &mut BTreeSet<(ObjectKind, ObjectId)>,
) -> Result<(), ReadError> {
    let root = objects.root(head.root, Some(head.root_hash)).await?;
    reached.insert((ObjectKind::Root, head.root));
    reach(objects, &root, reached).await?;
    reach_kept(objects, &root, reached).await
}

/// Everything that a version needs.
pub(crate) async fn reach(
    objects: &Objects,
    root: &Root,
    reached: &mut BTreeSet<(ObjectKind, ObjectId)>,
) -> Result<(), ReadError> {
    reached.extend(root.tail.iter().map(|segment| (ObjectKind::Segment, segment.object)));
    reached.extend(root.pages.values().chain(&root.usage).map(|place| (ObjectKind::Segment, place.object)));
    for (index, place) in &root.pages {
        let page = objects.page_of(*place, *index, root.geometry.page_range(*index)).await?;
        reached.extend(page.segments.iter().map(|segment| (ObjectKind::Segment, segment.id)));
    }
    Ok(())
}

/// Everything that the kept versions need.
pub(crate) async fn reach_kept(
    objects: &Objects,
    root: &Root,
    reached: &mut BTreeSet<(ObjectKind, ObjectId)>,
) -> Result<(), ReadError> {
    for (id, hash) in kept_roots(root) {
        match objects.root(id, hash).await {
            Ok(kept) => {
                reached.insert((ObjectKind::Root, id));
                reach(objects, &kept, reached).await?;
            }
            // Only a parent's parent may have been collected: the parent and the snapshots are kept, and must be there.
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The versions that a version keeps (its parent and its snapshots), with their hashes if known.
pub(crate) fn kept_roots(root: &Root) -> Vec<(ObjectId, Option<[u8; 32]>)> {
    let snapshots = root.snapshots.iter().map(|snapshot| (snapshot.root, Some(snapshot.root_hash)));
    let parent = (root.parent != ObjectId::NONE).then_some((root.parent, None));
    snapshots.chain(parent).collect()
}
