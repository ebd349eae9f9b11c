//! Taking a drive.
//!
//! 1. HEAD and its root are read. A drive that another device holds is refused before anything is changed. If HEAD shows that the store was
//!    made the primary, and that this was cut off, the promotion is finished first (`replica/promote.rs`).
//! 2. The journal is opened. The root's lineage shows which of its records are in the store. If no other device has written since, later
//!    records continue the history. Otherwise they are a fork: the opening is refused, with the records untouched, until [`fork`] has
//!    written down that they are one. From then on the fork is opened here (`fork.rs`).
//!
//!    The version that this device remembers must be in the root's history too. Lineages show that; epochs do not, since a store that was
//!    restored from a backup gives them a second time. If the history lacks it, the remembered version becomes a fork, provided that the
//!    store still has it. Otherwise the opening is refused, and people decide.
//! 3. HEAD is swapped to the next epoch, over the very HEAD that was judged. From here on every earlier writer is fenced, and the root that
//!    was read is the current version. If another device may have changes on top of that version, the swap names a new root with the same
//!    content, which keeps the version as a snapshot (`heads/kept.rs`). If the device that is to be fenced commits in between, HEAD alone is
//!    swapped first, with whatever version is current then, and the opening begins again.
//! 4. Blocks of the cache that are not those of this version are made invalid, durably, *before* the new base is remembered. After a crash
//!    in between, the next opening makes the same blocks invalid again.
//! 5. The journal is replayed into the cache. Records that the store lacks count as dirty.
//!
//! If the store is away, the HEAD that this device saw last stands in for the real one in steps 1 to 4, provided that it names this device.
//! The swap is made once the store is back (`push/take.rs`).

use super::access::{Access, Environment, OpenError, Over};
use super::assemble::{Assembly, assemble, capacity};
use super::receive::{self, Arrival};
use super::reconcile::{self, Found, Opened, Remembered, Replayed, invalidate, open_journal, replay};
use super::remember::Rememberer;
use super::seen::Seen;
use super::take::{begin_fork, give_back, seize, swap_epoch};
use super::{Fork, Inherits, Local, Pinned, Volume, VolumeLimits, handed};
use crate::cache::Cache;
use crate::disk::Disk;
use crate::fork;
use crate::format::head::{Head, HeadState};
use crate::format::id::ObjectId;
use crate::heads::{self, Device, Version, kept};
use crate::journal::Journal;
use crate::journal::import::{self, Import, ImportError};
use crate::local::KnownLineage;
use crate::map::{Map, Objects};
use crate::planted::{self, Bug};
use crate::push::{Parts, Pusher};
use crate::replica::{self, ReplicaError};
use crate::seal::Sealer;
use crate::units::{BlockRange, Epoch, Lsn};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Opens a drive.
pub async fn open(
    env: Environment,
    drive: Uuid,
    device: Device,
    access: Access,
    limits: VolumeLimits,
) -> Result<Arc<Volume>, OpenError> {
    open_pinned(env, drive, device, access, limits, Pinned::default()).await
}

/// The same, with blocks that a person always wants here: none of those that are here leave.
pub async fn open_pinned(
    env: Environment,
    drive: Uuid,
    device: Device,
    access: Access,
    limits: VolumeLimits,
    pinned: Pinned,
) -> Result<Arc<Volume>, OpenError> {
    let objects = Arc::new(Objects::new(env.store.clone(), env.sealer.clone(), env.pages.clone()));
    match access {
        Access::Look { root } => look(env, objects, root, limits).await,
        Access::Write { over, mounted } => {
            let mut over = over;
            let mut looks = 0;
            loop {
                looks += 1;
                let how = (How::Now { over }, mounted);
                match take(&env, &objects, drive, &device, how, (limits, pinned.clone())).await? {
                    Taken::Open(volume) => return Ok(volume),
                    Taken::Outrun(held) => {
                        seize(&objects, &held, &device).await?;
                        // Now this device has it, or one that no one has agreed to fence.
                        over = Over::Nobody;
                    }
                    Taken::Changed(error) if looks == LOOKS => return Err(error),
                    Taken::Changed(error) => {
                        tracing::info!(%error, "HEAD has changed since it was read: it is read again");
                        // A person may have agreed to fence the device that had it before, not the one that has it now.
                        over = Over::Nobody;
                    }
                }
            }
        }
        Access::TakeBack => {
            let how = (How::Back, false);
            match take(&env, &objects, drive, &device, how, (limits, pinned.clone())).await? {
                Taken::Open(volume) => Ok(volume),
                Taken::Outrun(head) => Err(OpenError::Continued { by: head.device_name }),
                Taken::Changed(error) => Err(error),
            }
        }
        Access::Away { .. } | Access::Granted { .. } => {
            let how = match access {
                Access::Granted { session } => (How::Granted { session }, false),
                Access::Away { mounted } => (How::Away, mounted),
                Access::Write { .. } | Access::TakeBack | Access::Look { .. } => unreachable!("see above"),
            };
            match take(&env, &objects, drive, &device, how, (limits, pinned.clone())).await? {
                Taken::Open(volume) => Ok(volume),
                Taken::Outrun(_) | Taken::Changed(_) => unreachable!("HEAD is neither read nor swapped"),
            }
        }
    }
}

/// The outcome of an opening to write.
enum Taken {
    Open(Arc<Volume>),
    /// The device that this HEAD names as the holder has committed since HEAD was read.
    Outrun(Head),
    /// HEAD has changed since it was read. Perhaps this very device's last commit or release was still in flight when its previous process
    /// ended. Another look shows who has the drive now. The error is for a caller that has looked often enough.
    Changed(OpenError),
}

/// Decides that the records beyond the drive's history ([`OpenError::Forked`]) are a fork from now on. The next [`open`] with the same
/// directories opens the fork, whatever happens in between.
pub async fn fork(state: &dyn Disk, drive: Uuid, taken_by: &str) -> io::Result<Fork> {
    let Some(local) = Local::load(state)? else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "drive.json is not there"));
    };
    let before = local.fork.as_ref();
    let of = before.map_or(drive, |fork| fork.drive);
    let fork = Fork::new(of, before, local.base.as_ref(), taken_by);
    let local = Local { fork: Some(fork.clone()), ..local };
    local.save(state).await?;
    Ok(fork)
}

/// How often an opening reads HEAD, if each time its swap finds another one.
const LOOKS: u32 = 4;

/// Where HEAD comes from.
#[derive(Clone, Copy)]
enum How {
    /// It is read, and swapped at once.
    Now { over: Over },
    /// It is the HEAD that this device saw last, until the store is back.
    Away,
    /// It is the grant that this device got, until the store is asked.
    Granted { session: Uuid },
    /// It is read, and swapped at once, over the device that this one handed the drive to.
    Back,
}

impl How {
    /// Whether the store is left alone.
    fn is_away(self) -> bool {
        matches!(self, How::Away | How::Granted { .. })
    }
}

async fn look(
    env: Environment,
    objects: Arc<Objects>,
    (id, hash): (ObjectId, [u8; 32]),
    limits: VolumeLimits,
) -> Result<Arc<Volume>, OpenError> {
    let root = objects.root(id, Some(hash)).await?;
    let map = Arc::new(Map::open(objects, &root).await?);
    let capacity = capacity(root.geometry.size_blocks);
    let journal = Journal::create(env.journal, limits.journal, capacity).await?;
    let cache = Cache::open(&*env.cache, root.drive, capacity, &[])?;
    cache.set_size(root.geometry.size_blocks)?;
    let (applied, size, writer) = (Lsn(0), None, None);
    let (disk, meter) = (env.cache, env.meter);
    Ok(assemble(Assembly {
        journal,
        cache,
        disk,
        map,
        meter,
        limits,
        root,
        root_id: id,
        applied,
        size,
        writer,
        pinned: Pinned::default(),
    })?)
}

async fn take(
    env: &Environment,
    objects: &Arc<Objects>,
    drive: Uuid,
    device: &Device,
    (how, mounted): (How, bool),
    (limits, pinned): (VolumeLimits, Pinned),
) -> Result<Taken, OpenError> {
    let local = Local::load(&*env.state)?;
    let fork = local.as_ref().and_then(|local| local.fork.clone());
    let (cache_of, drive) = fork.as_ref().map_or((drive, drive), |fork| (fork.cache, fork.drive));
    let handed = handed::load(local.as_ref(), &*env.journal)?;
    let arrived = receive::sealed(env.journal.clone(), objects.sealer()).await?;
    let (before, etag, root) = match how {
        How::Granted { session }
            if arrived.as_ref().is_some_and(|(import, _)| import.plan().session == session) =>
        {
            let arrival = arrived.as_ref().map(|(_, arrival)| arrival.clone());
            let arrival = arrival.ok_or(OpenError::NotGranted)?;
            (arrival.head, None, Some(arrival.root))
        }
        // Whether this device has the drive is not known without the store.
        How::Away if arrived.is_some() => return Err(OpenError::NotSeen),
        How::Away | How::Granted { .. } => {
            let seen = seen_last(&*env.state, objects.sealer(), drive, device, local.as_ref())?;
            let Seen { head, root } = seen.ok_or(OpenError::NotSeen)?;
            (head, None, Some(root))
        }
        How::Now { .. } | How::Back => {
            let found = heads::read(&*env.store, objects.sealer(), drive).await;
            let (head, etag) = match (found, &fork, &local) {
                (Err(error), Some(fork), Some(local)) if error.is_missing() => {
                    begin_fork(env, objects, fork, local, device, limits).await?
                }
                (found, _, _) => found?,
            };
            let (head, etag) = match head.is_provisional() {
                true => match replica::finish_interrupted(objects, (head, etag), device).await {
                    Ok(finished) => finished,
                    Err(ReplicaError::Read(error)) => return Err(error.into()),
                    Err(ReplicaError::Unsure(error)) => return Err(error.into()),
                    // Another device was faster.
                    Err(_) => return Ok(Taken::Changed(fork::raced().into())),
                },
                false => (head, etag),
            };
            (head, Some(etag), None)
        }
    };
    let inherits = local.as_ref().and_then(|local| local.inherits.as_ref());
    let is_grant = |head: &Head| before.nonce == head.nonce;
    let is_granted = arrived.as_ref().is_some_and(|(_, arrival)| is_grant(&arrival.head))
        || inherits.is_some_and(|inherits| inherits.is_of(&before));
    if matches!(how, How::Granted { .. }) && !is_granted {
        return Err(OpenError::NotGranted);
    }
    let mut root = root;
    let mut over_others = matches!(how, How::Now { over } if over.permits(&before));
    if let Some(handed) = handed.as_ref().filter(|_| !is_granted) {
        let found = match root.take() {
            Some(root) => root,
            None => objects.root(before.root, Some(before.root_hash)).await?,
        };
        let back = matches!(how, How::Back);
        let reopening = handed::judge(handed, (&before, &found), local.as_ref(), device.id, back)?;
        over_others |= reopening == handed::Reopening::Back;
        root = Some(found);
    }
    check_here(&before, env, objects, local.as_ref(), mounted, limits).await?;
    if mounted && !over_others {
        check_not_taken(&before, device, env, objects, local.as_ref(), limits).await?;
    }
    check_head(&before, device, over_others)?;
    let base = local.as_ref().and_then(|local| local.base.clone());
    let (root, remembered) = match root {
        Some(root) if how.is_away() && !is_granted => (root, None),
        root => {
            let reading = async {
                match root {
                    Some(root) => Ok(root),
                    None => objects.root(before.root, Some(before.root_hash)).await,
                }
            };
            let looking = Remembered::look(objects, base.as_ref(), &before);
            match how.is_away() {
                // The root is known. What it changed is looked at below, for as long as that takes a moment.
                true => (reading.await?, Remembered::unread(base.as_ref())),
                false => {
                    let (root, remembered) = tokio::join!(reading, looking);
                    (root?, remembered)
                }
            }
        }
    };
    let (local, has_arrived) = match arrived {
        Some((import, arrival)) if is_grant(&arrival.head) => {
            (Some(adopt(env, objects.sealer(), drive, local, (import, arrival)).await?), true)
        }
        arrived => (local, arrived.is_some()),
    };
    let capacity = capacity(root.geometry.size_blocks);
    // A fork's first HEAD is this device's own, even if it remembers only the version that it forked from.
    let begun = fork.is_some() && root.seq == 0 && before.device == device.id;
    let is_away = how.is_away();
    let found = Found { objects, head: &before, root: &root, is_away, is_granted };
    let mut opened: Opened =
        open_journal(env, local, (drive, mounted, device), &found, limits, capacity).await?;
    // If that began another journal and kept no base, nothing is known of the cache.
    let remembered = remembered.filter(|_| opened.local.base.is_some());

    let foreign = reconcile::wrote_since(&root, &opened.local) && !planted::has(Bug::CacheOfAnotherVersion);
    let (root, head, etag, map, differing) = match etag {
        Some(etag) => {
            // Above every epoch that this device has seen, too: a restored store shows an older epoch, and may have given the next ones
            // before.
            // A grant that arrives late must not look newer than this.
            let granted = handed.as_ref().map_or(0, |handed| handed.epoch);
            let known = base.as_ref().map_or(0, |base| base.epoch).max(granted);
            let epoch = Epoch(before.epoch.0.max(known) + 1);
            let taking = async {
                let kept = match begun || planted::has(Bug::DeposedVersionIsGarbage) {
                    true => None,
                    false => kept::root_of_taker(&before, &root, epoch, device, base.as_ref()),
                };
                let version = match &kept {
                    Some(kept) => heads::put_root(&*env.store, objects.sealer(), kept).await?,
                    None => Version::of(&before),
                };
                let next = (epoch, version);
                let taken = swap_epoch(objects, (&before, &etag), next, over_others, device);
                Ok((kept, taken.await?))
            };
            let (taken, maps) = tokio::join!(taking, reconcile::maps(objects, &root, remembered, foreign));
            let (kept, (head, etag)) = match taken {
                Err(OpenError::Held { device, epoch, .. })
                    if over_others && (device, epoch) == (before.device, before.epoch) =>
                {
                    return Ok(Taken::Outrun(before));
                }
                Err(error @ OpenError::Held { .. }) => return Ok(Taken::Changed(error)),
                taken => taken?,
            };
            let (map, differing) = match maps {
                Ok(maps) => maps,
                Err(error) => {
                    give_back(objects, &before, (&head, &etag), device).await;
                    return Err(error);
                }
            };
            (kept.unwrap_or(root), head, Some(etag), map, differing)
        }
        None if foreign && is_granted => {
            let looked = reconcile::maps(objects, &root, remembered, foreign);
            // This costs only what has to be pulled again.
            let differing = match tokio::time::timeout(LOOK_PATIENCE, looked).await {
                Ok(Ok((_, differing))) => differing,
                Ok(Err(_)) | Err(_) => vec![BlockRange { start: 0, end: u64::MAX }],
            };
            let map = Map::unread(objects.clone(), &root);
            (root, before, None, map, differing)
        }
        // Others have written to the version that this device saw last. Without the store it cannot be said what they changed.
        None if foreign => return Err(OpenError::NotSeen),
        // The drive is taken once the store is back. The map is read then, as far as it is not cached.
        None => {
            let map = Map::unread(objects.clone(), &root);
            (root, before, None, map, Vec::new())
        }
    };
    let map = Arc::new(map);

    let cache = Cache::open(&*env.cache, cache_of, capacity, &opened.local.generation_numbers())?;
    if foreign {
        invalidate(&cache, &opened, differing, &root).await?;
        if !planted::has(Bug::ReplayOverForeign) {
            opened.local.replay_from = opened.cut.next().0;
        }
    }
    let seen = Seen { head: head.clone(), root: root.clone() };
    reconcile::remember(env, &cache, &mut opened, objects.sealer(), &seen).await?;
    if has_arrived {
        // It was for a grant that can no longer be applied, or it is a part of the journal now.
        import::discard_all(&*env.journal).await?;
    }
    // Records that are not replayed must not be read from the journal later either.
    opened.journal.free(Lsn(opened.local.replay_from).prev());
    let Replayed { size_blocks: size, applied } = replay(&opened, &cache, limits.cache_bytes).await?;
    cache.set_size(size.unwrap_or(root.geometry.size_blocks))?;

    let journal = opened.journal.clone();
    let inherits = opened.local.inherits.clone();
    let (state, files) = (env.state.clone(), env.journal.clone());
    let rememberer = Rememberer::start(state, files, objects.sealer().clone(), opened.local);
    let root_id = head.root;
    let parts = Parts {
        journal: journal.clone(),
        map: map.clone(),
        device: device.clone(),
        head,
        etag,
        root: root.clone(),
        committed: opened.cut,
        committed_crc: opened.cut_crc,
        limits,
        remembers: rememberer.clone(),
        fork,
        inherits,
    };
    let writer = Some((Pusher::start(parts), rememberer));
    let (disk, meter) = (env.cache.clone(), env.meter.clone());
    Ok(Taken::Open(assemble(Assembly {
        journal,
        cache,
        disk,
        map,
        meter,
        limits,
        root,
        root_id,
        applied,
        size,
        writer,
        pinned,
    })?))
}

/// How long an opening after a hand-over looks for what has changed since this device had the drive. Programs wait meanwhile.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// Makes the records that came with a grant the end of this device's journal. First `drive.json` says whose they are: a crash in between
/// leaves an import that the next opening finds again.
async fn adopt(
    env: &Environment,
    sealer: &Sealer,
    drive: Uuid,
    local: Option<Local>,
    (import, Arrival { head, root, lineage }): (Import, Arrival),
) -> Result<Local, OpenError> {
    let journal = import.plan().journal;
    let mut local = local.unwrap_or_else(|| Local::new(drive, journal));
    if local.journal != journal || local.fork.is_some() {
        return Err(ImportError::Stale.into());
    }
    let lineage = receive::of_others(&lineage, &root, journal);
    local.handed = None;
    local.inherits = Some(Inherits {
        nonce: format!("{:032x}", head.nonce),
        lsn: import.lsn().0,
        lineage: lineage.iter().map(KnownLineage::from).collect(),
    });
    Seen { head, root }.save(&*env.state, sealer).await?;
    local.save(&*env.state).await?;
    handed::forget(&*env.journal).await?;
    import.adopt().await?;
    Ok(local)
}

/// The version that this device saw last, if it is this device's own. Then this device may continue it: at worst, that becomes a fork.
fn seen_last(
    state: &dyn Disk,
    sealer: &Sealer,
    drive: Uuid,
    device: &Device,
    local: Option<&Local>,
) -> Result<Option<Seen>, OpenError> {
    let base = local.and_then(|local| local.base.as_ref());
    let seen = Seen::load(state, sealer)?;
    let is_own = |seen: &Seen| seen.head.drive == drive && seen.head.device == device.id;
    let is_usual = |seen: &Seen| matches!(seen.head.state, HeadState::Held | HeadState::Released);
    let is_last =
        |seen: &Seen| local.zip(base).is_some_and(|(local, base)| base.is_in(&seen.root, local.journal));
    Ok(seen.filter(|seen| is_own(seen) && is_usual(seen) && is_last(seen)))
}

/// Refuses a drive that is no longer in this store. If it has moved, the changes that only this device has become a fork here.
async fn check_here(
    head: &Head,
    env: &Environment,
    objects: &Objects,
    local: Option<&Local>,
    mounted: bool,
    limits: VolumeLimits,
) -> Result<(), OpenError> {
    match head.state {
        HeadState::Released | HeadState::Held => Ok(()),
        HeadState::Removed => {
            let unsent = reconcile::unsent(env, local, None, limits).await?;
            Err(OpenError::Removed { unsent })
        }
        HeadState::Moved => {
            let root = match objects.root(head.root, Some(head.root_hash)).await {
                Err(error) if error.is_transient() => return Err(error.into()),
                root => root.ok(),
            };
            match reconcile::unsent(env, local, root.as_ref(), limits).await? {
                0 if !mounted => Err(OpenError::Moved { to: head.address(objects.sealer()) }),
                unsent => Err(OpenError::Forked { unsent, by: head.device_name.clone() }),
            }
        }
    }
}

/// Refuses a drive that another device has taken while a file system stayed mounted here. Programs cannot wait until that device releases
/// it. The drive continues as a fork, just as if it had been served all the time.
async fn check_not_taken(
    head: &Head,
    device: &Device,
    env: &Environment,
    objects: &Objects,
    local: Option<&Local>,
    limits: VolumeLimits,
) -> Result<(), OpenError> {
    let is_known = local.is_some_and(|local| local.base.is_some());
    if head.state != HeadState::Held || head.device == device.id || !is_known {
        return Ok(());
    }
    let root = objects.root(head.root, Some(head.root_hash)).await?;
    let unsent = reconcile::unsent(env, local, Some(&root), limits).await?;
    Err(OpenError::Forked { unsent, by: head.device_name.clone() })
}

fn check_head(head: &Head, device: &Device, over_others: bool) -> Result<(), OpenError> {
    if head.state == HeadState::Held && head.device != device.id && !over_others {
        return Err(OpenError::held_by(head));
    }
    Ok(())
}
