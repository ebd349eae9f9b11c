//! Garbage: objects that no version names any longer, and segments that hold little else.
//!
//! Only the epoch's owner collects, and only its own drive's objects. The order of the steps makes it safe:
//! 1. An object is live if the current version reaches it, a version that it keeps, a ref, or another drive of the family.
//! 2. A commit *condemns* the rest. From then on no version of this drive can name these objects again.
//! 3. Refs and HEADs are listed once more. A reader puts its ref first and then reads HEAD again. So this listing shows the ref, or the
//!    reader sees that its version is no longer kept, and withdraws.
//! 4. Objects that are still unreached are deleted, in steps. Deletions may take hours, so each step first lists refs and HEADs again.
//!    Objects that a new one reaches stay.
//!
//! If the store is restored from a backup, the first commit of a collection fails, since HEAD is another one. But objects may come back before
//! HEAD does, and are garbage until then. No look at the store can tell them apart, so people must close their drives before they restore
//! (docs/manual/trouble.md).
//!
//! Anything that cannot be read stops the collection: nothing is deleted on a guess. A collection never deletes an object of this epoch
//! that a root has yet to name. The push task itself runs the collection, so nothing else of this drive is in flight. If a batch was cut
//! off, its puts that still arrive are garbage, since the batch is packed again under other names. A fenced writer may still put objects,
//! but no HEAD can ever name them. A device that takes the drive puts a root first. If that root is condemned, the condemning commit has
//! changed HEAD, so the device's swap fails.

use super::policy::{self, Decision};
use super::task::{Task, answer};
use super::{Collecting, PushError, Stage, Wanted};
use crate::clock::now_ms;
use crate::drive;
use crate::fork;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::Condemned;
use crate::heads::kept;
use crate::map::ReadError;
use crate::planted::{self, Bug};
use crate::reach::{DELETES_PER_STEP, Elsewhere, Object, reach, reach_kept, reached_from_elsewhere};
use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use tokio::sync::oneshot;

/// Deletions in flight.
const DELETES_AT_ONCE: usize = 16;
/// Objects condemned in one round: the next one finds the rest.
const CONDEMNED_MAX: usize = 50_000;

/// The result of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Objects that were deleted.
    pub deleted: u64,
    /// Their bytes.
    pub bytes_freed: u64,
    /// Bytes of objects that are reached.
    pub live_bytes: u64,
    /// Bytes of objects that are not reached, and are still there.
    pub garbage_bytes: u64,
}

impl Collected {
    /// The result of two collections. `next` is the later one.
    pub fn extend(&mut self, next: Self) {
        let (deleted, bytes_freed) = (self.deleted + next.deleted, self.bytes_freed + next.bytes_freed);
        *self = Self { deleted, bytes_freed, ..next };
    }
}

/// A collection that is under way.
#[derive(Clone, Copy)]
pub(super) struct Asking {
    wanted: Wanted,
    /// How often collections had been stopped before this one was asked for.
    stops: u64,
    /// The store was full when it began. Nothing is pushed before it has deleted something: a batch would take the space that its own root
    /// needs.
    makes_room: bool,
}

/// The input of a collection: a drive's objects with their lengths, and those that are reached.
struct Looked {
    listed: BTreeMap<Object, u64>,
    live: BTreeSet<Object>,
    elsewhere: Elsewhere,
}

impl Task {
    /// Collects, and answers the caller.
    pub(super) async fn collect_for(
        &mut self,
        wanted: Wanted,
        stops: u64,
        reply: oneshot::Sender<Result<Collected, PushError>>,
    ) -> Result<(), PushError> {
        if reply.is_closed() {
            return Ok(());
        }
        let makes_room = self.publish.borrow().is_full;
        let result = self.collect(Asking { wanted, stops, makes_room }).await;
        self.publish.send_modify(|state| state.collecting = None);
        let result = self.unless_fenced(result).await;
        if let Ok(collected) = &result {
            self.publish.send_modify(|state| {
                let before = state.stored.collected.map_or(0, |(number, _)| number);
                state.stored.collected = Some((before + 1, *collected));
            });
        }
        let forked = result.as_ref().err().filter(|error| matches!(error, PushError::Forked(_))).cloned();
        answer(reply, result)?;
        forked.map_or(Ok(()), Err)
    }

    /// Deletes unreached objects. Then repacks segments that are mostly dead, and deletes what that leaves behind.
    async fn collect(&mut self, mut asking: Asking) -> Result<Collected, PushError> {
        let mut collected = Collected::default();
        self.between_steps(asking, Stage::Looking, (0, 0)).await?;
        // A store without space for map pages may still have some for a root. Then garbage is deleted first, which makes space for the
        // pages.
        if asking.makes_room {
            collected.extend(self.delete_unreached(asking).await?);
            asking.makes_room = false;
        }
        self.checkpoint().await?;
        // Before anything is moved: moving takes space until the old copies are deleted.
        collected.extend(self.delete_unreached(asking).await?);
        if self.repack(asking).await? > 0 {
            self.checkpoint().await?;
            collected.extend(self.delete_unreached(asking).await?);
        }
        Ok(collected)
    }

    /// Runs between two steps. Nothing is in flight then, and pushing a batch here brings nothing dead back to life: it names new objects,
    /// and what the version before it reaches.
    pub(super) async fn between_steps(
        &mut self,
        asking: Asking,
        stage: Stage,
        (done, total): (u64, u64),
    ) -> Result<(), PushError> {
        self.publish.send_modify(|state| state.collecting = Some(Collecting { stage, done, total }));
        if self.interrupted.is_cut_off(asking.wanted, asking.stops) {
            return Err(PushError::CutOff);
        }
        if policy::decide(&self.facts()) == Decision::Push && !self.has_no_room(asking) {
            self.push_in_between().await?;
        }
        tokio::select! { biased;
            () = self.interrupted.cut_off(asking.wanted, asking.stops) => Err(PushError::CutOff),
            () = self.interrupted.until_unread() => Ok(()),
        }
    }

    /// Whether a batch has to wait until this collection has deleted something. A put that succeeded after the store was full, such as that
    /// of a root, does not show that a batch fits.
    fn has_no_room(&self, asking: Asking) -> bool {
        asking.makes_room || self.publish.borrow().is_full
    }

    async fn push_in_between(&mut self) -> Result<(), PushError> {
        self.gives_way = true;
        let pushed = self.push_batch().await;
        self.gives_way = false;
        match pushed {
            // The store has no space for it before this collection ends.
            Err(PushError::Paused) => Ok(()),
            pushed => pushed,
        }
    }

    /// Does work that changes nothing, unless the collection is cut off meanwhile.
    pub(super) async fn unless_cut_off<T>(
        &self,
        asking: Asking,
        work: impl Future<Output = Result<T, PushError>>,
    ) -> Result<T, PushError> {
        tokio::select! { biased;
            () = self.interrupted.cut_off(asking.wanted, asking.stops) => Err(PushError::CutOff),
            done = work => done,
        }
    }

    /// Finds out what is there and what is reached. A batch that falls due goes first, and the look starts again: pages that were read are
    /// cached. After a few such turns the look takes precedence.
    async fn look(&mut self, asking: Asking) -> Result<Looked, PushError> {
        const TURNS: usize = 8;
        for _ in 0..TURNS {
            self.between_steps(asking, Stage::Looking, (0, 0)).await?;
            let looked = tokio::select! { biased;
                looked = self.unless_cut_off(asking, self.look_once()) => Some(looked),
                () = self.batch_is_due(), if !self.has_no_room(asking) => None,
            };
            if let Some(looked) = looked {
                return looked;
            }
        }
        self.unless_cut_off(asking, self.look_once()).await
    }

    async fn look_once(&self) -> Result<Looked, PushError> {
        let listed = self.own_objects().await?;
        let live = self.reached_by_own().await?;
        let elsewhere = self.reached_from_elsewhere().await?;
        Ok(Looked { listed, live, elsewhere })
    }

    async fn delete_unreached(&mut self, asking: Asking) -> Result<Collected, PushError> {
        // An empty commit. The parent is kept too, and its pages still name what was overwritten before the last checkpoint; from now on
        // the parent names no more than this version does. A writer that was about to continue the older version finds out by the swap; a
        // reader reads HEAD again.
        self.committer.commit(|_| ()).await?;
        self.announce();
        self.forget_deposed().await?;
        let store = self.committer.objects().store().clone();
        fork::forget_begun(store.as_ref()).await.map_err(ReadError::from)?;
        drive::abandon_clones(self.committer.objects(), now_ms(), self.committer.device()).await?;
        let Looked { listed, live, elsewhere } = self.look(asking).await?;
        let dead =
            listed.keys().filter(|object| !live.contains(object) && !elsewhere.reached.contains(object));
        let dead: BTreeSet<_> = dead.take(CONDEMNED_MAX).copied().collect();
        if !dead.is_empty() {
            self.condemn(&dead).await?;
        }
        let deleted = self.delete(asking, dead).await?;
        if !self.committer.root().condemned.is_empty() {
            self.committer.commit(|root| root.condemned.clear()).await?;
            self.announce();
        }
        // The store reports the lengths: no sum of them may overflow.
        let sum = |lengths: &mut dyn Iterator<Item = u64>| lengths.fold(0_u64, u64::saturating_add);
        let bytes_freed = sum(&mut deleted.iter().map(|object| listed[object]));
        let live_bytes =
            sum(&mut listed.iter().filter(|(object, _)| live.contains(object)).map(|(_, len)| *len));
        let all = sum(&mut listed.values().copied());
        Ok(Collected {
            deleted: deleted.len() as u64,
            bytes_freed,
            live_bytes,
            garbage_bytes: all.saturating_sub(live_bytes.saturating_add(bytes_freed)),
        })
    }

    /// Deletes what is condemned and that nothing holds, and returns it. Deletions that are cut off may still arrive: no version names
    /// these objects again.
    async fn delete(
        &mut self,
        mut asking: Asking,
        condemned: BTreeSet<Object>,
    ) -> Result<Vec<Object>, PushError> {
        let mut elsewhere = self.unless_cut_off(asking, self.reached_from_elsewhere()).await?;
        let total = condemned.len() as u64;
        let mut left: Vec<_> = condemned.into_iter().collect();
        let mut deleted = Vec::new();
        while !left.is_empty() {
            self.between_steps(asking, Stage::Deleting, (total - left.len() as u64, total)).await?;
            let objects = self.committer.objects().clone();
            let is_complete = async { Ok(elsewhere.is_complete(&objects).await?) };
            if !self.unless_cut_off(asking, is_complete).await? {
                elsewhere = self.unless_cut_off(asking, self.reached_from_elsewhere()).await?;
            }
            // Roots sort first, and no step has objects of both kinds: a version that lacks objects has no root either.
            let first = left[0].0;
            let step = left.iter().take(DELETES_PER_STEP).take_while(|(kind, _)| *kind == first).count();
            let rest = left.split_off(step);
            let mut some = std::mem::replace(&mut left, rest);
            some.retain(|object| !elsewhere.reached.contains(object));
            self.unless_cut_off(asking, self.delete_all(&some)).await?;
            deleted.extend(some);
            asking.makes_room = false;
        }
        Ok(deleted)
    }

    async fn delete_all(&self, objects: &[Object]) -> Result<(), PushError> {
        let store = self.committer.objects().store();
        let deletes: Vec<_> = (objects.iter())
            .map(|(kind, id)| {
                let (store, name) = (store.clone(), id.name(*kind));
                async move { store.delete(&name).await }.boxed()
            })
            .collect();
        let deletes = stream::iter(deletes).buffer_unordered(DELETES_AT_ONCE).try_collect::<()>();
        Ok(deletes.await.map_err(ReadError::from)?)
    }

    /// Deletes the labels of versions if their device has begun a fork with the version.
    async fn forget_deposed(&mut self) -> Result<(), PushError> {
        let root = self.committer.root();
        if !root.snapshots.iter().any(|own| kept::deposed_at(own).is_some()) {
            return Ok(());
        }
        let objects = self.committer.objects();
        let mut others = Vec::new();
        for head in drive::heads(objects.store().as_ref(), objects.sealer()).await? {
            if head.drive != self.committer.head().drive {
                others.push(objects.root(head.root, Some(head.root_hash)).await?);
            }
        }
        let gone = kept::no_longer_needed(root, &others);
        if !gone.is_empty() {
            self.committer.commit(|root| root.snapshots.retain(|kept| !gone.contains(&kept.label))).await?;
            self.announce();
        }
        Ok(())
    }

    async fn condemn(&mut self, dead: &BTreeSet<(ObjectKind, ObjectId)>) -> Result<(), PushError> {
        let (epoch, seq) = (self.committer.head().epoch, self.committer.root().seq + 1);
        let condemned =
            dead.iter().map(|(kind, object)| Condemned { kind: *kind, object: *object, epoch, seq });
        let condemned = condemned.collect();
        self.committer.commit(|root| root.condemned = condemned).await?;
        self.announce();
        Ok(())
    }

    /// This drive's immutable objects and their lengths.
    async fn own_objects(&self) -> Result<BTreeMap<(ObjectKind, ObjectId), u64>, PushError> {
        let mut objects = BTreeMap::new();
        for prefix in ["seg/", "root/"] {
            let listed = self.committer.objects().store().list(prefix).await.map_err(ReadError::from)?;
            let ours =
                listed.into_iter().filter_map(|listed| Some((ObjectId::parse(&listed.name)?, listed.len)));
            objects.extend(ours.filter(|((_, id), _)| id.drive == self.committer.head().drive));
        }
        Ok(objects)
    }

    async fn reached_by_own(&self) -> Result<BTreeSet<(ObjectKind, ObjectId)>, PushError> {
        let head = self.committer.head();
        let mut reached = BTreeSet::from([(ObjectKind::Root, head.root), (ObjectKind::Root, head.parent)]);
        let objects = self.committer.objects();
        reach(objects, self.committer.root(), &mut reached).await?;
        if !planted::has(Bug::SnapshotIsGarbage) {
            reach_kept(objects, self.committer.root(), &mut reached).await?;
        }
        Ok(reached)
    }

    async fn reached_from_elsewhere(&self) -> Result<Elsewhere, PushError> {
        Ok(reached_from_elsewhere(self.committer.objects(), self.committer.head().drive).await?)
    }
}
