//! The keeper: syncs the journal regularly, applies durable records to the cache, makes the cache durable, and frees journal space.

use crate::admission::{Admission, CacheFull};
use crate::cache::Cache;
use crate::journal::{Journal, Operation, Progress, Record};
use crate::planted::{self, Bug};
use crate::units::Lsn;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A client that never flushes loses at most this much time of writes to a power cut ...
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// ... or this many bytes, which also bounds the index.
const APPLY_BYTES: u64 = 64 << 20;
/// During a burst, this many bytes wait before they are applied.
const BURST_BYTES: u64 = 1 << 30;
/// How often the number of unapplied bytes is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the cache is made durable while no journal space is needed.
const PERSIST_EVERY: Duration = Duration::from_secs(10);
/// From here on (per mille) journal space is needed.
const SPACE_WANTED: u64 = 500;
/// From here on overwritten records are compacted even while uploads progress: they are too slow.
const SPACE_SCARCE: u64 = 700;

/// The background task, and what it publishes.
pub(super) struct Applier {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    // Held to take them out.
    work: Mutex<Option<JoinHandle<()>>>,
    others: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    journal_per_mille: AtomicU64,
    trouble: watch::Sender<Option<String>>,
}

struct Work {
    journal: Arc<Journal>,
    cache: Arc<Cache>,
    room: Arc<Admission>,
    /// The last record in the store, in a version that is remembered here; none if nothing is pushed.
    committed: Arc<dyn Fn() -> Option<Lsn> + Send + Sync>,
    applied_durable: Arc<AtomicU64>,
    shared: Arc<Shared>,
    applied: Lsn,
    persisted_at: Instant,
}

impl Applier {
    pub fn start(
        journal: Arc<Journal>,
        cache: Arc<Cache>,
        room: Arc<Admission>,
        committed: impl Fn() -> Option<Lsn> + Send + Sync + 'static,
        is_stuck: impl Fn() -> bool + Send + Sync + 'static,
        applied: Lsn,
        applied_durable: Arc<AtomicU64>,
    ) -> Self {
        let shared =
            Arc::new(Shared { journal_per_mille: AtomicU64::new(0), trouble: watch::Sender::new(None) });
        let work = Work {
            journal: journal.clone(),
            cache,
            room,
            committed: Arc::new(committed),
            applied_durable: applied_durable.clone(),
            shared: shared.clone(),
            applied,
            persisted_at: Instant::now(),
        };
        let (stop, stopped) = watch::channel(false);
        let work = Mutex::new(Some(tokio::spawn(work.run(stopped))));
        let spare = tokio::spawn(keep_spare(journal.clone(), shared.clone()));
        let compact = tokio::spawn(keep_compact(journal, is_stuck, applied_durable));
        Self { shared, stop, work, others: Mutex::new(vec![spare, compact]) }
    }

    /// Ends its work, and waits until all of it has ended: a late write to a journal file would overwrite what the next opening has put
    /// there. Applying ends between two rounds, since the outcome of a cache sync in progress must not be lost. Making and compacting files
    /// may end anywhere: a file without a header is spare.
    pub async fn stop(&self) {
        let others = std::mem::take(&mut *self.others.lock());
        others.iter().for_each(JoinHandle::abort);
        futures_util::future::join_all(others).await;
        self.stop.send_replace(true);
        let work = self.work.lock().take();
        if let Some(work) = work {
            let _ = work.await;
        }
    }

    /// How full the journal was a moment ago.
    pub fn journal_per_mille(&self) -> u64 {
        self.shared.journal_per_mille.load(Ordering::Relaxed)
    }

    /// Why records stay in the journal; none while all is well.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.borrow().clone()
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.others.lock().iter().for_each(JoinHandle::abort);
        if let Some(work) = &*self.work.lock() {
            work.abort();
        }
    }
}

async fn keep_spare(journal: Arc<Journal>, shared: Arc<Shared>) {
    loop {
        journal.spare_wanted().await;
        while let Err(error) = journal.keep_spare().await {
            // The disk is full: writes wait until there is space, and this is the reason that is shown.
            shared.trouble.send_replace(Some(error.to_string()));
            tokio::time::sleep(SYNC_EVERY).await;
        }
    }
}

/// Compacts overwritten records while the store takes nothing.
async fn keep_compact(journal: Arc<Journal>, is_stuck: impl Fn() -> bool, applied_durable: Arc<AtomicU64>) {
    let mut progress = Progress::default();
    loop {
        tokio::time::sleep(SYNC_EVERY).await;
        let full = journal.space().per_mille();
        if full >= SPACE_WANTED && is_stuck() || full >= SPACE_SCARCE {
            let upto = Lsn(applied_durable.load(Ordering::Acquire));
            if let Err(error) = journal.compact(&mut progress, upto).await {
                tracing::warn!(%error, "the journal could not be compacted");
            }
        }
    }
}

impl Work {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut last = Instant::now();
        loop {
            let idle = self.journal.unapplied_bytes() == 0;
            let pause = tokio::time::sleep(if idle { SYNC_EVERY } else { LOOK_EVERY });
            tokio::select! { biased;
                _ = stopped.changed() => return,
                () = pause => {}
            }
            self.shared.journal_per_mille.store(self.journal.space().per_mille(), Ordering::Relaxed);
            let wants_applying = self.journal.unapplied_bytes() >= APPLY_BYTES && !self.is_put_off();
            let due = last.elapsed() >= SYNC_EVERY || wants_applying;
            if !due {
                continue;
            }
            last = Instant::now();
            let result = self.round().await;
            let trouble = result.err();
            self.shared.trouble.send_if_modified(|known| {
                let changed = *known != trouble;
                *known = trouble;
                changed
            });
        }
    }

    /// A large write has the disk to itself: the cache is written afterwards.
    fn is_put_off(&self) -> bool {
        self.journal.burst().is_some()
            && self.journal.unapplied_bytes() < BURST_BYTES
            && self.journal.space().per_mille() < SPACE_WANTED
    }

    async fn round(&mut self) -> Result<(), String> {
        let durable = match planted::has(Bug::UnflushedApply) {
            false => self.journal.flush().await.map_err(|error| error.to_string())?,
            true => self.journal.appended(),
        };
        self.cache.residents().tick();
        if self.is_put_off() {
            return Ok(());
        }
        let in_store = (self.committed)();
        self.applied =
            apply(&self.journal, &self.cache, &self.room, in_store.unwrap_or(Lsn(0)), durable).await?;
        let committed = match planted::has(Bug::FreedBeforeCommit) {
            false => in_store.unwrap_or(Lsn(u64::MAX)),
            true => self.applied,
        };
        let freed = Lsn(self.applied_durable.load(Ordering::Acquire));
        // Space can be freed once committed records are durable in the cache too.
        let wanted =
            self.shared.journal_per_mille.load(Ordering::Relaxed) >= SPACE_WANTED && committed > freed;
        let due = self.persisted_at.elapsed() >= PERSIST_EVERY && self.applied > freed;
        if wanted || due {
            persist(&self.journal, &self.cache).await?;
            self.persisted_at = Instant::now();
            self.applied_durable.store(self.applied.0, Ordering::Release);
        }
        let durable_in_cache = Lsn(self.applied_durable.load(Ordering::Acquire));
        self.journal.free(committed.min(durable_in_cache));
        Ok(())
    }
}

/// Applies records up to `upto`, which are durable, to the cache file, as far as there is `room`. Blocks that the cache has already need no
/// more space. Records without space stay in the journal and are read from there, which is no trouble yet. If the disk is full they stay
/// too, and that is trouble. Once journal space is needed, such records are dropped if the store has them (up to `in_store`): pinned blocks
/// may fill the cache, and the records would stay until the journal is full too, and writes would wait although all is uploaded. Returns
/// the record up to which all are done.
pub(super) async fn apply(
    journal: &Journal,
    cache: &Cache,
    room: &Admission,
    in_store: Lsn,
    upto: Lsn,
) -> Result<Lsn, String> {
    /// The part of a cache's limit that is admitted at once.
    const SHARE: u64 = 16;
    let _turn = journal.records.applying.lock().await;
    loop {
        let mut records = journal.unapplied(upto, room.limit() / SHARE);
        if records.is_empty() {
            return Ok(upto);
        }
        let mut admission = room.let_in(new_bytes(cache, &records)?).await.map(Some);
        if admission.is_err() {
            // The first record alone, or its group.
            let first = records[0].lsn;
            records.truncate(records.partition_point(|record| record.lsn == first));
            admission = if new_bytes(cache, &records)? == 0 { Ok(None) } else { Err(CacheFull) };
        }
        let (first, last) = (records[0].lsn, records.last().map_or(upto, |record| record.lsn));
        match admission {
            Ok(_held) => {
                let applied = cache.apply(&records).await;
                applied.map_err(|error| format!("the cache cannot be written: {error}"))?;
            }
            Err(CacheFull) => {
                let is_due = first <= in_store && journal.space().per_mille() >= SPACE_WANTED;
                if !is_due || !let_go_of(cache, &records).await? {
                    return Ok(first.prev());
                }
            }
        }
        journal.applied(last);
    }
}

/// The space in the cache that records need and do not have yet.
fn new_bytes(cache: &Cache, records: &[Record]) -> Result<u64, String> {
    let new = |record: &Record| match record.operation {
        Operation::Data(blocks) => {
            cache.taken_by(blocks).map(|taken| blocks.byte_len().saturating_sub(taken))
        }
        Operation::Zero(_) | Operation::Resize(_) => Ok(0),
    };
    let bytes = records.iter().map(new).sum::<std::io::Result<u64>>();
    bytes.map_err(|error| format!("the cache cannot be looked at: {error}"))
}

/// Makes the blocks of records be read from the store again, which has them; the cache's copy is older. First the cache, durably, then the
/// index: until the index changes, the blocks are read from the journal. Returns whether that was possible now.
async fn let_go_of(cache: &Cache, records: &[Record]) -> Result<bool, String> {
    let blocks = |record: &Record| match record.operation {
        Operation::Data(blocks) | Operation::Zero(blocks) => Some(blocks),
        Operation::Resize(_) => None,
    };
    let runs: Vec<_> = records.iter().filter_map(blocks).collect();
    cache.give_up(&runs).await.map_err(|error| format!("the cache's bitmap cannot be written: {error}"))
}

/// The most space that a record may need in the cache. It may have that already. Zeros need none.
pub(super) fn data_bytes(record: &Record) -> u64 {
    match record.operation {
        Operation::Data(blocks) => blocks.byte_len(),
        Operation::Zero(_) | Operation::Resize(_) => 0,
    }
}

/// Makes the cache durable. If that fails, nothing that was written to it may be believed. Trying again would prove nothing: the kernel
/// reports a lost page only once. So the whole cache becomes absent, and the journal's records are applied again; everything else is in the
/// store.
pub(super) async fn persist(journal: &Journal, cache: &Cache) -> Result<(), String> {
    let Err(error) = cache.persist().await else { return Ok(()) };
    if !cache.is_suspect() {
        // Only the bitmap was not written: its pages are written next time.
        return Err(format!("the cache's bitmap cannot be written: {error}"));
    }
    tracing::error!(%error, "the cache could not be made durable: it is filled anew");
    let _turn = journal.records.applying.lock().await;
    // The index first: from here on the journal's blocks are read from the journal again. If this fails, the cache stays suspect: nothing
    // of it is made durable, and no journal space is freed.
    journal.unapply().await.map_err(|error| error.to_string())?;
    let cleared = cache.invalidate_all().await;
    cleared.map_err(|error| format!("the cache's bitmap cannot be written: {error}"))?;
    Err(format!("the cache could not be made durable: {error}"))
}
