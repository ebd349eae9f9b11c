//! Reconciles this device's files of a drive with the store: which records of the journal continue the history, which blocks of the cache
//! are out of date, and which records the cache lacks.

use super::access::{Environment, OpenError};
use super::assemble::capacity;
use super::keeper::data_bytes;
use super::seen::Seen;
use super::{Base, Local, VolumeLimits, handed};
use crate::cache::Cache;
use crate::fence::{self, Descent, Relation};
use crate::fork::{self, Branch, ForkError};
use crate::format::head::Head;
use crate::format::id::ObjectId;
use crate::format::root::Root;
use crate::heads::Device;
use crate::journal::{self, Journal, JournalError, Operation, Record, Recovered};
use crate::map::{self, Map, Objects, ReadError};
use crate::planted::{self, Bug};
use crate::seal::Sealer;
use crate::units::{BlockRange, Epoch, Lsn};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of journal that are replayed at once.
const REPLAY_BYTES: u64 = 64 << 20;

/// This device's files of a drive.
pub(super) struct Opened {
    pub local: Local,
    pub journal: Arc<Journal>,
    pub recovered: Recovered,
    /// The last record that is in the store.
    pub cut: Lsn,
    /// The CRC of that record itself.
    pub cut_crc: u32,
}

/// The result of an opening's look at the store.
pub(super) struct Found<'a> {
    pub objects: &'a Objects,
    /// HEAD, as it was just read, or seen last.
    pub head: &'a Head,
    /// The version that it names.
    pub root: &'a Root,
    /// Whether the store is away, so that nothing can be read there.
    pub is_away: bool,
    /// Whether the head is a grant to this device: the journal ends in the records that come with it, whoever wrote the version.
    pub is_granted: bool,
}

/// Opens the journal, and finds out how it relates to the version that was found.
pub(super) async fn open_journal(
    env: &Environment,
    local: Option<Local>,
    (drive, mounted, device): (Uuid, bool, &Device),
    found: &Found<'_>,
    limits: VolumeLimits,
    capacity: u64,
) -> Result<Opened, OpenError> {
    let root = found.root;
    let fork = local.as_ref().and_then(|local| local.fork.clone());
    let mut base = None;
    // Without `drive.json` nothing is known of the cache. But the journal may hold records that are nowhere else.
    let local = match local {
        None => journal::found(&*env.journal)?.map(|uuid| Local::new(drive, uuid)),
        // A crash came after the journal was set aside, and before the next one was written down.
        Some(local)
            if journal::is_aside(&*env.journal, local.journal)?
                && journal::found(&*env.journal)? != Some(local.journal) =>
        {
            base = local.base.map(|base| Base { lsn: 0, ..base });
            None
        }
        known => known,
    };
    if let Some(local) = local {
        let (journal, recovered) =
            Journal::open(env.journal.clone(), limits.journal, capacity, local.journal).await?;
        if recovered.last.0 < local.durable {
            let (lsn, durable) = (recovered.last.next(), Lsn(local.durable));
            return Err(JournalError::Damaged { lsn, durable }.into());
        }
        if lacks_what_is_known(root, &local, &recovered) {
            return Err(diverged(found, (drive, device), &local, (&journal, &recovered)).await);
        }
        let descent = || match descent(root, &local) {
            Descent::Forked(cut) if found.is_granted => Descent::Continues(cut),
            descent => descent,
        };
        let (Descent::Continues(cut) | Descent::Forked(cut)) = descent();
        let lineage = root.lineage.iter().find(|lineage| lineage.journal == local.journal);
        let cut_crc = lineage.map_or(0, |lineage| lineage.crc);
        // A compacted group no longer has the CRCs of the records inside it. The cut may be one of these, if a commit's answer was lost.
        let same_history = journal.crc_of(cut)?.is_none_or(|crc| crc == cut_crc || lineage.is_none());
        match descent() {
            Descent::Forked(cut) if (recovered.last > cut || mounted) && same_history => {
                return Err(OpenError::Forked {
                    // A mounted drive is forked even if its journal ends before the cut.
                    unsent: recovered.last.0.saturating_sub(cut.0),
                    by: root.device_name.clone(),
                });
            }
            // Records between the history and this journal are gone.
            _ if recovered.first > cut.next() => {
                let (lsn, durable) = (cut.next(), recovered.last);
                return Err(JournalError::Damaged { lsn, durable }.into());
            }
            _ if recovered.last >= cut && same_history => {
                return Ok(Opened { local, journal, recovered, cut, cut_crc });
            }
            // The store has more of this journal than the journal itself, or other records under the same LSNs: two copies of one device's
            // files have both been written to.
            _ => {
                let sent = local.base.as_ref().map_or(Lsn(0), |base| Lsn(base.lsn));
                let unsent = recovered.last.0.saturating_sub(sent.0);
                // On a mounted drive, programs continue from what they have read: another version must not take its place.
                if unsent > 0 || mounted {
                    return Err(OpenError::Forked { unsent, by: root.device_name.clone() });
                }
                if planted::has(Bug::CopyTakenForItself) {
                    // Nothing is compared.
                } else if !same_history {
                    return Err(diverged(found, (drive, device), &local, (&journal, &recovered)).await);
                } else if !goes_on_from_known(found, local.base.as_ref()).await? {
                    return Err(OpenError::CopyWrote);
                }
            }
        }
        drop(journal);
        // If this opening fails, the next one still has to know the base.
        base = local.base.map(|base| Base { lsn: 0, ..base });
        // All of it is in the store. But its LSNs are used up: a new journal begins, and nothing in the cache is believed.
    }
    let kept = journal::set_aside(&*env.journal).await?;
    if kept > 0 {
        tracing::warn!(files = kept, "the journal does not go on with the drive's history: it was set aside");
    }
    let journal = Journal::create(env.journal.clone(), limits.journal, capacity).await?;
    let local = Local { fork, base, ..Local::new(drive, journal.uuid()) };
    local.save(&*env.state).await?;
    let recovered = Recovered { first: Lsn(1), last: Lsn(0) };
    Ok(Opened { local, journal, recovered, cut: Lsn(0), cut_crc: 0 })
}

/// Counts the records of this device's journal that are in no version, as far as this device and `root` show.
pub(super) async fn unsent(
    env: &Environment,
    local: Option<&Local>,
    root: Option<&Root>,
    limits: VolumeLimits,
) -> Result<u64, OpenError> {
    let uuid = match local {
        Some(local) => local.journal,
        None => match journal::found(&*env.journal)? {
            Some(uuid) => uuid,
            None => return Ok(0),
        },
    };
    let opened = Journal::open(env.journal.clone(), limits.journal, capacity(0), uuid).await;
    let (_journal, recovered) = opened?;
    let own = root.and_then(|root| root.lineage.iter().find(|lineage| lineage.journal == uuid));
    let remembered = local.and_then(|local| local.base.as_ref()).map_or(0, |base| base.lsn);
    let sent = own.map_or(0, |own| own.cut.0).max(remembered);
    Ok(recovered.last.0.saturating_sub(sent))
}

/// How this device's journal relates to `root`. If no other device has committed since this one last took the drive, its records continue
/// the version that it took, even if none of them is committed yet.
fn descent(root: &Root, local: &Local) -> Descent {
    match fence::descent(root, local.journal) {
        forked @ Descent::Forked(_) if planted::has(Bug::TakeOverTakenForFork) => forked,
        Descent::Forked(cut) if !wrote_since(root, local) => Descent::Continues(cut),
        descent => descent,
    }
}

/// Whether others have committed since this device last took the drive. The version that it takes is remembered before any write is
/// accepted. A device that remembers nothing cannot tell, and assumes that they have.
pub(super) fn wrote_since(root: &Root, local: &Local) -> bool {
    let Some(base) = &local.base else { return true };
    base.relation(root, local.journal) != Relation::Own
}

/// Whether `root` lacks something that this device has seen in the store, and that is no longer in its journal.
fn lacks_what_is_known(root: &Root, local: &Local, recovered: &Recovered) -> bool {
    let Some(base) = &local.base else { return false };
    let cut = root.lineage.iter().find(|own| own.journal == local.journal).map_or(Lsn(0), |own| own.cut);
    let is_covered = recovered.first <= cut.next();
    base.relation(root, local.journal) == Relation::Diverged
        || base.lacks_own(root, local.journal) && !is_covered
}

/// The result of an opening that finds a version without the known one in its history. If the store still has the known version, that
/// becomes a fork. Otherwise nothing is changed, and people decide.
async fn diverged(
    found: &Found<'_>,
    (drive, device): (Uuid, &Device),
    local: &Local,
    (journal, recovered): (&Journal, &Recovered),
) -> OpenError {
    let Some(base) = local.base.as_ref().filter(|_| !found.is_away) else { return OpenError::NotSeen };
    let unsent = recovered.last.0.saturating_sub(base.lsn);
    let branch = Branch { journal, base, least: Lsn(0), device };
    match fork::can_begin(found.objects, drive, &branch).await {
        Ok(()) => OpenError::Forked { unsent, by: found.root.device_name.clone() },
        Err(ForkError::Gone) => {
            let (found, known) = (found.head.epoch, Epoch(base.epoch));
            OpenError::RolledBack { found, known, unsent }
        }
        Err(ForkError::Raced) => fork::raced().into(),
        Err(ForkError::Journal(error)) => error.into(),
        Err(ForkError::Read(error)) => error.into(),
    }
}

/// How many parents are read, one request each, so that an opening always ends. Whole histories are shorter: a collection deletes versions
/// that are not kept.
const PARENTS_MAX: u32 = 10_000;

/// Whether the version that was found is the known one, or continues it. A store that has not kept every version in between cannot show
/// that.
async fn goes_on_from_known(found: &Found<'_>, base: Option<&Base>) -> Result<bool, OpenError> {
    let Some(known) = base.and_then(Base::id) else { return Ok(base.is_none()) };
    let (mut id, mut parent) = (found.head.root, found.root.parent);
    for _ in 0..PARENTS_MAX {
        if id == known {
            return Ok(true);
        }
        if found.is_away {
            return Err(OpenError::NotSeen);
        }
        // A version's name shows its place: a version that is not behind the known one does not continue it. A bad store may name a parent
        // that is not before its child, which could lead in a circle.
        let place = |id: ObjectId| (id.epoch, id.seq);
        if place(id) <= place(known) || parent == ObjectId::NONE || place(parent) >= place(id) {
            return Ok(false);
        }
        let root = match found.objects.root(parent, None).await {
            Err(error) if error.is_transient() => return Err(error.into()),
            Err(_) => return Ok(false),
            Ok(root) => root,
        };
        (id, parent) = (parent, root.parent);
    }
    Ok(false)
}

/// The version that this device remembers.
pub(super) struct Remembered {
    id: ObjectId,
    /// Its root, if it was read already.
    root: Option<Result<Root, ReadError>>,
}

impl Remembered {
    /// Reads its root if others have taken the drive since: then the blocks that differ from it will be needed.
    pub async fn look(objects: &Objects, base: Option<&Base>, head: &Head) -> Option<Self> {
        let (base, id) = base.and_then(|base| Some((base, base.id()?)))?;
        let root = match base.epoch < head.epoch.0 && id != head.root {
            true => Some(objects.root(id, None).await),
            false => None,
        };
        Some(Self { id, root })
    }

    /// Its root is read when it is needed.
    pub fn unread(base: Option<&Base>) -> Option<Self> {
        Some(Self { id: base?.id()?, root: None })
    }

    async fn map(self, objects: &Arc<Objects>) -> Result<Map, ReadError> {
        let root = match self.root {
            Some(root) => root?,
            None => objects.root(self.id, None).await?,
        };
        Map::open(objects.clone(), &root).await
    }
}

/// The map of `root`; and, if others wrote since, the blocks that differ from the remembered version.
pub(super) async fn maps(
    objects: &Arc<Objects>,
    root: &Root,
    remembered: Option<Remembered>,
    foreign: bool,
) -> Result<(Map, Vec<BlockRange>), OpenError> {
    let everything = vec![BlockRange { start: 0, end: u64::MAX }];
    let old = async {
        match remembered.filter(|_| foreign) {
            Some(remembered) => Some(remembered.map(objects).await),
            None => None,
        }
    };
    let (map, old) = tokio::join!(Map::open(objects.clone(), root), old);
    let map = map?;
    let differing = match old {
        Some(Ok(old)) => map::differing(&old, &map).await,
        Some(Err(error)) => Err(error),
        None if foreign => return Ok((map, everything)),
        None => return Ok((map, Vec::new())),
    };
    match differing {
        Err(error) if error.is_transient() => Err(error.into()),
        // Some or all of that version is deleted, so it cannot show what differs.
        differing => Ok((map, differing.unwrap_or(everything))),
    }
}

/// Makes blocks of the cache invalid if they may be of another version: where the maps differ, and where the journal wrote. Others may have
/// overwritten its records up to the cut.
pub(super) async fn invalidate(
    cache: &Cache,
    opened: &Opened,
    mut runs: Vec<BlockRange>,
    root: &Root,
) -> Result<(), OpenError> {
    let mut next = opened.recovered.first;
    while next <= opened.cut.min(opened.recovered.last) {
        let records = opened.journal.records(next, opened.cut, REPLAY_BYTES).await?;
        let Some(last) = records.last() else { break };
        next = last.lsn.next();
        runs.extend(records.iter().filter_map(|record| match record.operation {
            Operation::Data(blocks) | Operation::Zero(blocks) => Some(blocks),
            Operation::Resize(_) => None,
        }));
    }
    let all = BlockRange { start: 0, end: cache.valid().capacity().max(root.geometry.size_blocks) };
    let runs: Vec<_> =
        runs.into_iter().map(|run| run.intersect(&all)).filter(|run| !run.is_empty()).collect();
    Ok(cache.invalidate(&runs).await?)
}

/// Remembers the version that was taken, and gives the bitmap a new generation. Until the second save both generations are believed, so a
/// crash in between costs nothing. (After a second one in a row the cache may count as empty.)
pub(super) async fn remember(
    env: &Environment,
    cache: &Cache,
    opened: &mut Opened,
    sealer: &Sealer,
    seen: &Seen,
) -> Result<(), OpenError> {
    let (cut, local, head) = (opened.cut, &mut opened.local, &seen.head);
    local.durable = opened.recovered.last.0;
    let generation = crate::entropy::u128();
    // The one on the disk, and the one that replaces it.
    let both = cache.opened_as().into_iter().chain([generation]);
    local.generations = both.map(|generation| format!("{generation:032x}")).collect();
    local.base = Some(Base::new(head, &seen.root, cut));
    // HEAD has decided what became of a hand-over, or this opening was refused.
    local.handed = None;
    local.inherits.take_if(|inherits| inherits.is_in(&seen.root));
    seen.save(&*env.state, sealer).await?;
    local.save(&*env.state).await?;
    handed::forget(&*env.journal).await?;
    if let Err(error) = cache.set_generation(generation).await {
        // The disk is full. Both generations are still believed.
        tracing::warn!(%error, "the cache's bitmap was not given a new generation");
        return Ok(());
    }
    local.generations = vec![format!("{generation:032x}")];
    Ok(local.save(&*env.state).await?)
}

/// The result of a replay.
pub(super) struct Replayed {
    /// The size that the records give the drive, if they change it.
    pub size_blocks: Option<u64>,
    /// The last record that is in the cache file.
    pub applied: Lsn,
}

/// Applies the journal's records to the cache, which may take `limit` bytes. Records for which it has no space are read from the journal,
/// as every record is before it is applied.
pub(super) async fn replay(opened: &Opened, cache: &Cache, limit: u64) -> Result<Replayed, OpenError> {
    let first = opened.recovered.first.max(Lsn(opened.local.replay_from));
    let (mut next, mut size_blocks) = (first, None);
    let mut applied = first.prev();
    while next <= opened.recovered.last {
        let records = opened.journal.records(next, opened.recovered.last, REPLAY_BYTES).await?;
        let Some(Record { lsn: last, .. }) = records.last().cloned() else { break };
        for record in records.iter().filter(|record| record.lsn > opened.cut) {
            match record.operation {
                Operation::Data(blocks) | Operation::Zero(blocks)
                    if blocks.end > cache.valid().capacity() =>
                {
                    return Err(JournalError::Damaged { lsn: record.lsn, durable: last }.into());
                }
                Operation::Data(blocks) | Operation::Zero(blocks) => opened.journal.mark_dirty(blocks),
                Operation::Resize(blocks) => size_blocks = Some(blocks),
            }
        }
        // In order: after a batch that was not applied, no later one is.
        let bytes = records.iter().map(data_bytes).sum::<u64>();
        let fits = || Ok::<_, OpenError>(cache.file().allocated()? + bytes <= limit);
        if applied.next() == next && fits()? {
            match cache.apply(&records).await {
                Ok(()) => applied = last,
                Err(error) => tracing::warn!(%error, "the cache takes no records; they stay in the journal"),
            }
        }
        next = last.next();
        if applied < last {
            opened.journal.hold_back(records);
        }
    }
    Ok(Replayed { size_blocks, applied })
}
