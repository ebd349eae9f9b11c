//! Which objects of a version a replica lacks. Objects that are known to be there are not looked at again: after a commit only the map
//! pages that have changed are read.

use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{BoxRef, Root};
use crate::map::{Objects, ReadError};
use crate::reach::kept_roots;
use crate::store::{Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// An object of the store.
pub(super) type Object = (ObjectKind, ObjectId);

/// The objects that the replica is known to have.
#[derive(Default)]
pub(super) struct Known {
    /// Objects that are there, and their lengths; 0 if the object is known to be complete.
    present: BTreeMap<Object, u64>,
    /// Versions that are there completely.
    versions: BTreeSet<ObjectId>,
    /// Map pages whose segments are there.
    pages: BTreeSet<BoxRef>,
}

/// The objects that the replica lacks of a version and of the versions that it keeps.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// Objects and their lengths, 0 if the length is not known.
    pub objects: BTreeMap<Object, u64>,
    versions: Vec<ObjectId>,
    pages: Vec<BoxRef>,
}

impl Missing {
    pub fn bytes(&self) -> u64 {
        self.objects.values().sum()
    }
}

impl Known {
    /// Starts from a listing.
    pub async fn list(store: &dyn Store) -> Result<Self, StoreError> {
        let mut known = Self::default();
        for prefix in ["seg/", "root/"] {
            let listed = store.list(prefix).await?;
            let objects =
                listed.iter().filter_map(|listed| Some((ObjectId::parse(&listed.name)?, listed.len)));
            // An empty object does not count.
            known.present.extend(objects.filter(|(_, len)| *len > 0));
        }
        Ok(known)
    }

    /// Whether the object is known to be complete there.
    pub fn has(&self, object: &Object) -> bool {
        self.present.get(object) == Some(&0)
    }

    /// Whether the object, of `len` bytes, is complete there. An object that was only listed may be half of a broken put: without a known
    /// length it is not believed.
    fn has_whole(&self, object: &Object, len: u64) -> bool {
        self.present.get(object).is_some_and(|present| *present == 0 || *present == len)
    }

    /// The object is there now.
    pub fn gained(&mut self, object: Object) {
        self.present.insert(object, 0);
    }

    /// The object is no longer there.
    pub fn lost(&mut self, object: &Object) {
        self.present.remove(object);
        if object.0 == ObjectKind::Root {
            self.versions.remove(&object.1);
        } else {
            self.pages.retain(|page| page.object != object.1);
        }
    }

    /// All that was missing is there now.
    pub fn caught_up(&mut self, missing: Missing) {
        self.present.extend(missing.objects.into_keys().map(|object| (object, 0)));
        self.versions.extend(missing.versions);
        self.pages.extend(missing.pages);
    }

    /// Finds the objects that are missing of the version `id`. Reads from the primary.
    pub async fn missing(&self, objects: &Objects, id: ObjectId, root: &Root) -> Result<Missing, ReadError> {
        let mut missing = Missing::default();
        self.add_version(objects, id, root, &mut missing).await?;
        for (kept, hash) in kept_roots(root) {
            if !self.versions.contains(&kept) && kept != id {
                let root = objects.root(kept, hash).await?;
                self.add_version(objects, kept, &root, &mut missing).await?;
            }
        }
        Ok(missing)
    }

    async fn add_version(
        &self,
        objects: &Objects,
        id: ObjectId,
        root: &Root,
        missing: &mut Missing,
    ) -> Result<(), ReadError> {
        missing.versions.push(id);
        self.add((ObjectKind::Root, id), 0, missing);
        for segment in &root.tail {
            self.add((ObjectKind::Segment, segment.object), segment.object_len, missing);
        }
        if let Some(place) = &root.usage {
            self.add((ObjectKind::Segment, place.object), 0, missing);
        }
        for (index, place) in &root.pages {
            if self.pages.contains(place) || missing.pages.contains(place) {
                continue;
            }
            missing.pages.push(*place);
            self.add((ObjectKind::Segment, place.object), 0, missing);
            let page = objects.page_of(*place, *index, root.geometry.page_range(*index)).await?;
            for segment in &page.segments {
                self.add((ObjectKind::Segment, segment.id), segment.len, missing);
            }
        }
        Ok(())
    }

    fn add(&self, object: Object, len: u64, missing: &mut Missing) {
        if !self.has_whole(&object, len) {
            let known = missing.objects.entry(object).or_default();
            *known = len.max(*known);
        }
    }
}
