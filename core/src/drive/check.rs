//! Checks a drive: reads and opens every object of the current version and of the versions that it keeps, and compares it with the object
//! that names it.

use super::{DriveError, current};
use crate::format::FormatError;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{Root, TailSegment};
use crate::format::segment;
use crate::map::{Content, Frame, Map, Objects, ReadError};
use crate::store::StoreError;
use crate::units::BlockRange;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Objects that were read.
    pub objects: u64,
    /// The errors that were found, one sentence each.
    pub errors: Vec<String>,
    /// Objects among the drive's own that are not Holdall's. They do no harm, and nothing reads them.
    pub foreign: Vec<String>,
}

/// Areas of a store that all drives of the family share: one foreign object there affects all of them.
const SHARED_AREAS: [&str; 4] = ["keys/", "head/", "ref/", "replica/"];

/// Errors that are reported: more would only bury them.
const ERRORS_MAX: usize = 100;

struct Check<'a> {
    objects: &'a Arc<Objects>,
    checked: Checked,
    segments: BTreeMap<ObjectId, BTreeSet<Frame>>,
    /// Whether an object is missing that another one names.
    misses: bool,
    /// Called with the number of segments that are done, and that of all.
    progress: &'a (dyn Fn(u64, u64) + Send + Sync),
}

/// Looks at most, if each time the version is replaced and collected meanwhile.
const LOOKS_MAX: u32 = 4;

/// Checks a drive. An object that is missing or damaged is a finding; a store that cannot be reached is an error.
///
/// Nothing holds the version that is read. The device that has the drive open may have committed others by now, and have deleted objects
/// that only this one named. So missing objects count only if the version is still the current one.
pub async fn check(
    objects: &Arc<Objects>,
    drive: Uuid,
    progress: &(dyn Fn(u64, u64) + Send + Sync),
) -> Result<Checked, DriveError> {
    let mut looks = 0;
    loop {
        looks += 1;
        let (head, _, root) = current(objects, drive).await?;
        let (checked, segments) = Default::default();
        let mut check = Check { objects, checked, segments, misses: false, progress };
        check.version(head.root, &root).await?;
        for kept in &root.snapshots {
            match objects.root(kept.root, Some(kept.root_hash)).await {
                Ok(root) => check.version(kept.root, &root).await?,
                Err(error) => check.found(&format!("snapshot \"{}\"", kept.label), error)?,
            }
        }
        check.frames().await?;
        let is_over = !check.misses || looks == LOOKS_MAX;
        if is_over || current(objects, drive).await?.0.root == head.root {
            return Ok(Checked { foreign: foreign(objects).await?, ..check.checked });
        }
        tracing::info!("what was checked is not the current version any more: it is checked anew");
    }
}

/// Foreign objects in the areas that all drives of the family share.
async fn foreign(objects: &Objects) -> Result<Vec<String>, StoreError> {
    let store = objects.store();
    for area in SHARED_AREAS {
        store.list(area).await?;
    }
    Ok(store.foreign())
}

impl Check<'_> {
    /// Notes an error, unless the store is merely away.
    fn found(&mut self, what: &str, error: ReadError) -> Result<(), DriveError> {
        if error.is_transient() {
            return Err(error.into());
        }
        self.misses |= error.is_missing();
        if self.checked.errors.len() < ERRORS_MAX {
            self.checked.errors.push(format!("{what}: {error}"));
        }
        Ok(())
    }

    /// Reads a version's map, and collects the frames that it names.
    async fn version(&mut self, id: ObjectId, root: &Root) -> Result<(), DriveError> {
        self.checked.objects += 1;
        let version = format!("version {}", id.name(ObjectKind::Root));
        let map = match Map::open(self.objects.clone(), root).await {
            Ok(map) => map,
            Err(error) => return self.found(&version, error),
        };
        for TailSegment { object, .. } in &root.tail {
            self.segments.entry(*object).or_default();
        }
        for index in 0..root.geometry.pages() as u32 {
            let whole = BlockRange { start: 0, end: root.geometry.size_blocks };
            let range = root.geometry.page_range(index).intersect(&whole);
            let found = match map.look_up(range).await {
                Ok(found) => found,
                Err(error) => {
                    self.found(&format!("{version}, map page {index}"), error)?;
                    continue;
                }
            };
            for (_, content) in found {
                if let Content::Frame(frame) = content {
                    self.segments.entry(frame.segment).or_default().insert(frame);
                }
            }
        }
        Ok(())
    }

    /// Reads every segment once, as a whole, and opens every frame that a version names.
    async fn frames(&mut self) -> Result<(), DriveError> {
        let segments = std::mem::take(&mut self.segments);
        let total = segments.len() as u64;
        for (done, (id, frames)) in segments.into_iter().enumerate() {
            (self.progress)(done as u64, total);
            let name = id.name(ObjectKind::Segment);
            self.checked.objects += 1;
            let mut wrong = self.look_at(&name, &frames).await;
            if matches!(&wrong, Ok(found) if !found.is_empty()) {
                // It may have been damaged on its way.
                wrong = self.look_at(&name, &frames).await;
            }
            match wrong {
                Ok(found) => {
                    for (what, error) in found {
                        self.found(&what, ReadError::Format { name: name.clone(), error })?;
                    }
                }
                Err(error) => self.found("a segment", error.into())?,
            }
        }
        (self.progress)(total, total);
        Ok(())
    }

    /// The errors in a segment and in these frames of it.
    async fn look_at(
        &self,
        name: &str,
        frames: &BTreeSet<Frame>,
    ) -> Result<Vec<(String, FormatError)>, StoreError> {
        let body = self.objects.store().get(name, None).await?.bytes;
        let mut wrong = Vec::new();
        if let Err(error) = segment::decode(self.objects.sealer(), name, &body) {
            wrong.push(("a segment's directory".to_owned(), error));
        }
        for frame in frames {
            let range = frame.offset as usize..frame.offset as usize + frame.stored_len as usize;
            let sealed = body.get(range).ok_or(FormatError::Truncated);
            if let Err(error) = sealed.and_then(|sealed| self.objects.open_frame(frame, sealed)) {
                wrong.push((format!("blocks {}", frame.blocks), error));
            }
            tokio::task::coop::consume_budget().await;
        }
        Ok(wrong)
    }
}
