//! A group of records that another device hands over, under construction beside a closed journal.
//!
//! Records are appended as rounds come, and a later one of a block wins. A round is acknowledged once its records are durable. At the end
//! the group is sealed: whatever was acknowledged is complete, and the trailer says what it is good for. It is no part of the journal yet,
//! because the other device may still keep the drive. Only when HEAD names this device does [`Import::adopt`] make it the journal's last
//! record, in O(1).
//!
//! * The records are durable before a header counts them, so a header never promises what a power cut can take back.
//! * A header has two places, written in turns: a torn one leaves the other.
//! * What was written after the last acknowledgement may be torn. It is dropped, and the other device sends it again.
//! * Everything in a record is checked before it is written, and all records together have a limit. So a bad device can fill neither the
//!   disk nor the memory.

use super::{Journal, Limits, Operation, RECORD_BLOCKS_MAX};
use crate::disk::{Disk, DiskFile};
use crate::format::wire::{Reader, Writer};
use crate::grant::Delta;
use crate::log::adopt::{self, NewGroup, Tail};
use crate::log::{Header, LogError};
use crate::planted::{self, Bug};
use crate::units::{BLOCK_BYTES, BlockRange, Lsn};
use std::io;
use std::sync::Arc;
use uuid::Uuid;

const PREFIX: &str = "import-";
const MAGIC: &[u8; 8] = b"HLDIMPT\x01";
/// The places of the header. The journal's own header would be before them.
const PLACES: [u64; 2] = [1024, 2048];
const PLACE_BYTES: usize = 1024;
/// Runs of zeros take memory and no disk: about 64 MiB at most.
const ZERO_RUNS_MAX: usize = 1 << 20;
/// A longer trailer is not one of ours: it holds a HEAD, a root and a lineage.
const TRAILER_BYTES_MAX: u64 = 64 << 20;
/// Zeros are written in pieces of this size.
const FILL_BYTES: usize = 1 << 20;
/// Names to look at, so that a full directory costs little.
const IMPORTS_MAX: usize = 64;

/// Why a group cannot be built or used.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The other device sent something that cannot be.
    #[error("the other computer sent a block that cannot be: {0}")]
    Invalid(&'static str),
    /// All of it would take more than this device has reserved.
    #[error("the changes take more than the {limit_bytes} bytes that are reserved for them here")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// Records that were durable are damaged, or a sync failed. Everything has to be sent again.
    #[error("the changes that were received are damaged on this computer")]
    Damaged,
    /// The journal has continued without it.
    #[error("this computer's journal has changed since the hand-over began")]
    Stale,
    /// It is sealed already.
    #[error("all changes were received before")]
    Sealed,
    /// The journal.
    #[error(transparent)]
    Journal(#[from] LogError),
    /// The local disk.
    #[error("the changes cannot be written on this computer: {0}")]
    Io(#[from] io::Error),
}

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportPlan {
    /// The session of the hand-over.
    pub session: Uuid,
    /// The other device's tracking ([`crate::volume::HandOver::stream`]): blocks of another one may be out of date.
    pub stream: Uuid,
    /// This device's journal, which is closed.
    pub journal: Uuid,
    /// The drive's size. Resizing during a hand-over is not possible.
    pub size_blocks: u64,
    /// Most bytes of records.
    pub headroom_bytes: u64,
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    plan: ImportPlan,
    group: NewGroupState,
    /// One more for each header.
    turn: u64,
    /// The last acknowledged round.
    rounds: u64,
    /// Where its records end.
    end: u64,
    /// Length and CRC of the trailer, once the group is sealed.
    trailer: Option<(u64, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NewGroupState {
    lsn: Lsn,
    prev_crc: u32,
    incarnation: u32,
    last_crc: u32,
    records: u32,
}

/// A group under construction, or sealed.
pub struct Import {
    disk: Arc<dyn Disk>,
    name: String,
    file: Arc<dyn DiskFile>,
    state: State,
    /// Where the next record goes, and what lies before it.
    end: u64,
    records: u32,
    crc: u32,
    delta: Delta,
    /// A sync failed: pages that were written may be gone.
    is_broken: bool,
}

impl Import {
    /// Begins a group. Imports of other sessions, and an earlier one of this session, are deleted.
    ///
    /// # Errors
    ///
    /// `TooLarge` if the headroom is more than half of what the journal's `limits` leave: the drive has to be written to before the group
    /// is uploaded.
    pub async fn begin(disk: Arc<dyn Disk>, plan: ImportPlan, limits: &Limits) -> Result<Self, ImportError> {
        let tail = Journal::tail(&*disk, plan.journal).await?;
        let limit_bytes = (limits.file_bytes * limits.files as u64).saturating_sub(tail.file_bytes) / 2;
        if plan.headroom_bytes > limit_bytes {
            return Err(ImportError::TooLarge { limit_bytes });
        }
        if disk.free_bytes().is_ok_and(|free| (1..plan.headroom_bytes).contains(&free)) {
            return Err(io::Error::from(io::ErrorKind::StorageFull).into());
        }
        discard_all(&*disk).await?;
        let name = format!("{PREFIX}{}", plan.session.simple());
        let file = disk.open(&name, true)?;
        let Tail { last, crc, incarnation, .. } = tail;
        let group = NewGroupState {
            lsn: last.next(),
            prev_crc: crc,
            incarnation: incarnation.max(1),
            last_crc: crc,
            records: 0,
        };
        let state = State { plan, group, turn: 0, rounds: 0, end: adopt::GROUP_BEGIN, trailer: None };
        let (end, records, delta) = (state.end, 0, Delta::default());
        let mut import = Self { disk, name, file, state, end, records, crc, delta, is_broken: false };
        import.file.set_len(0)?;
        import.file.write_at(&[0; adopt::GROUP_BEGIN as usize], 0)?;
        import.note().await?;
        import.disk.sync_names().await?;
        Ok(import)
    }

    /// Finds the import of a session again, or any if `session` is `None`.
    ///
    /// # Errors
    ///
    /// `Damaged` if acknowledged records are: then it cannot be used, and another one has to begin.
    pub async fn find(disk: Arc<dyn Disk>, session: Option<Uuid>) -> Result<Option<Self>, ImportError> {
        for name in names(&*disk)? {
            let file = disk.open(&name, false)?;
            let Some(state) = State::read(&*file)? else { continue };
            if session.is_none_or(|session| session == state.plan.session) {
                return Self::read_again(disk, name, file, state).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Finds a sealed import, whatever its session.
    ///
    /// # Errors
    ///
    /// `Damaged` if a sealed one is. Without its grant it can be deleted; with it, only the other device has its records.
    pub async fn find_sealed(disk: Arc<dyn Disk>) -> Result<Option<Self>, ImportError> {
        for name in names(&*disk)? {
            let file = disk.open(&name, false)?;
            if let Some(state) = State::read(&*file)?.filter(|state| state.trailer.is_some()) {
                return Self::read_again(disk, name, file, state).await.map(Some);
            }
        }
        Ok(None)
    }

    async fn read_again(
        disk: Arc<dyn Disk>,
        name: String,
        file: Arc<dyn DiskFile>,
        state: State,
    ) -> Result<Self, ImportError> {
        let State { group, .. } = state;
        let new = state.group(group.prev_crc, 0);
        let (mut end, mut records, mut crc) = (adopt::GROUP_BEGIN, 0, group.prev_crc);
        let (mut delta, mut data) = (Delta::default(), Vec::new());
        while state.trailer.is_none() || end < state.end {
            let found = adopt::record_at::<Operation>(&file, end, &new, crc, &mut data)?;
            let Some((header, own_crc)) = found else { break };
            if state.plan.checks(header.operation).is_err() {
                break;
            }
            match header.operation {
                Operation::Data(blocks) => delta.data(blocks.start, &data),
                Operation::Zero(blocks) => delta.zero(blocks),
                Operation::Resize(_) => {}
            }
            (end, records, crc) = (end + adopt::len_of(&header.operation), records + 1, own_crc);
            tokio::task::coop::consume_budget().await;
        }
        let is_whole =
            end >= state.end && (end > state.end || (records, crc) == (group.records, group.last_crc));
        if !is_whole {
            return Err(ImportError::Damaged);
        }
        Ok(Self { disk, name, file, state, end, records, crc, delta, is_broken: false })
    }

    /// Its session and limits.
    pub fn plan(&self) -> &ImportPlan {
        &self.state.plan
    }

    /// The last round that was acknowledged.
    pub fn rounds(&self) -> u64 {
        self.state.rounds
    }

    /// The blocks in it.
    pub fn delta(&self) -> &Delta {
        &self.delta
    }

    /// Bytes of records in it.
    pub fn bytes(&self) -> u64 {
        self.end - adopt::GROUP_BEGIN
    }

    /// Its place in the journal, once it is adopted.
    pub fn lsn(&self) -> Lsn {
        self.state.group.lsn
    }

    /// Whether it is sealed.
    pub fn is_sealed(&self) -> bool {
        self.state.trailer.is_some()
    }

    /// Takes the space for so many bytes of records now, so that the last round, for which programs wait, cannot fail for want of it.
    pub async fn reserve(&mut self, bytes: u64) -> Result<(), ImportError> {
        self.check_open()?;
        let until = self.end + bytes.min(self.state.plan.headroom_bytes.saturating_sub(self.bytes()));
        let mut at = self.file.len()?.max(self.end);
        let zeros = vec![0; FILL_BYTES];
        while at < until {
            let piece = (until - at).min(FILL_BYTES as u64);
            self.file.write_at(&zeros[..piece as usize], at)?;
            at += piece;
            tokio::task::yield_now().await;
        }
        self.sync().await
    }

    /// Appends whole blocks of data.
    pub fn data(&mut self, first: u64, data: &[u8]) -> Result<(), ImportError> {
        if data.is_empty() || !data.len().is_multiple_of(BLOCK_BYTES as usize) {
            return Err(ImportError::Invalid("a part of a block"));
        }
        let mut at = first;
        for piece in data.chunks((RECORD_BLOCKS_MAX * BLOCK_BYTES) as usize) {
            let count = piece.len() as u64 / BLOCK_BYTES;
            let end = at.checked_add(count).ok_or(ImportError::Invalid("a block beyond the end"))?;
            self.append(Operation::Data(BlockRange { start: at, end }), piece)?;
            self.delta.data(at, piece);
            at = end;
        }
        Ok(())
    }

    /// Appends a run of zeros: O(1), however long.
    pub fn zero(&mut self, blocks: BlockRange) -> Result<(), ImportError> {
        self.append(Operation::Zero(blocks), &[])?;
        self.delta.zero(blocks);
        Ok(())
    }

    fn append(&mut self, operation: Operation, data: &[u8]) -> Result<(), ImportError> {
        self.check_open()?;
        self.state.plan.checks(operation)?;
        let limit_bytes = self.state.plan.headroom_bytes;
        let is_full = self.bytes() + adopt::len_of(&operation) > limit_bytes || self.records == u32::MAX;
        if is_full || self.delta.zero_runs() >= ZERO_RUNS_MAX {
            return Err(ImportError::TooLarge { limit_bytes });
        }
        let NewGroupState { lsn, incarnation, .. } = self.state.group;
        let (data_crc, prev_crc) = (crc32c::crc32c(data), self.crc);
        let header = Header { lsn, durable: lsn.prev(), operation, data_crc, incarnation, prev_crc };
        let (encoded, crc) = header.encode(self.state.plan.journal);
        let mut bytes = [encoded.as_slice(), data].concat();
        bytes.resize(adopt::len_of(&operation) as usize, 0);
        self.file.write_at(&bytes, self.end)?;
        (self.end, self.records, self.crc) = (self.end + bytes.len() as u64, self.records + 1, crc);
        Ok(())
    }

    /// Makes everything durable that came so far, and notes that `round` is complete. Ready when the other device may forget the round.
    /// Noting a round twice changes nothing.
    pub async fn acknowledge(&mut self, round: u64) -> Result<(), ImportError> {
        self.check_open()?;
        if !planted::has(Bug::ImportAcknowledgedBeforeSync) {
            self.sync().await?;
        }
        self.count(round);
        // Not synced: an older header only makes the next look read further.
        let state = self.state;
        Ok(state.write(&*self.file)?)
    }

    /// Seals the group: everything in it is durable, and `trailer` comes with it. Nothing can be appended afterwards.
    pub async fn finish(&mut self, trailer: &[u8]) -> Result<(), ImportError> {
        self.check_open()?;
        if trailer.len() as u64 > TRAILER_BYTES_MAX {
            return Err(ImportError::Invalid("a version that is too long"));
        }
        self.file.write_at(trailer, self.end)?;
        self.sync().await?;
        self.count(self.state.rounds);
        self.state.trailer = Some((trailer.len() as u64, crc32c::crc32c(trailer)));
        let noted = self.note().await;
        if noted.is_err() {
            // Whether the header is there is not known. It is never used: the other device learns of a failure.
            self.state.trailer = None;
        }
        noted
    }

    /// The trailer of a sealed group.
    pub fn trailer(&self) -> Result<Vec<u8>, ImportError> {
        let (len, crc) = self.state.trailer.ok_or(ImportError::Damaged)?;
        if self.file.len()? < self.state.end.saturating_add(len) {
            return Err(ImportError::Damaged);
        }
        let mut trailer = vec![0; len as usize];
        self.file.read_at(&mut trailer, self.state.end)?;
        if crc32c::crc32c(&trailer) == crc { Ok(trailer) } else { Err(ImportError::Damaged) }
    }

    /// Makes a sealed group the last record of the journal. An empty one is deleted instead.
    ///
    /// # Errors
    ///
    /// `Stale` if the journal does not end where the group begins. Nothing is changed then.
    pub async fn adopt(self) -> Result<(), ImportError> {
        if !self.is_sealed() {
            return Err(ImportError::Damaged);
        }
        if self.records == 0 {
            return self.discard().await;
        }
        let group = self.state.group(self.state.group.last_crc, self.state.group.records);
        match Journal::adopt(&*self.disk, &self.name, group).await {
            Err(LogError::Damaged { .. }) => Err(ImportError::Stale),
            adopted => Ok(adopted?),
        }
    }

    /// Whether there is no record in it.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Deletes it.
    pub async fn discard(self) -> Result<(), ImportError> {
        self.disk.remove(&self.name)?;
        Ok(self.disk.sync_names().await?)
    }

    fn check_open(&self) -> Result<(), ImportError> {
        match (self.is_broken, self.is_sealed()) {
            (true, _) => Err(ImportError::Damaged),
            (_, true) => Err(ImportError::Sealed),
            (false, false) => Ok(()),
        }
    }

    fn count(&mut self, round: u64) {
        self.state.rounds = self.state.rounds.max(round);
        self.state.end = self.end;
        (self.state.group.last_crc, self.state.group.records) = (self.crc, self.records);
        self.state.turn += 1;
    }

    async fn note(&mut self) -> Result<(), ImportError> {
        let state = self.state;
        state.write(&*self.file)?;
        self.sync().await
    }

    async fn sync(&mut self) -> Result<(), ImportError> {
        let synced = self.file.clone().sync().await;
        // The kernel reports lost pages once: a later success would prove nothing.
        self.is_broken |= synced.is_err();
        Ok(synced?)
    }
}

/// Deletes all imports of a drive.
pub async fn discard_all(disk: &dyn Disk) -> io::Result<()> {
    let names = names(disk)?;
    for name in &names {
        disk.remove(name)?;
    }
    if names.is_empty() { Ok(()) } else { disk.sync_names().await }
}

fn names(disk: &dyn Disk) -> io::Result<Vec<String>> {
    let mut names = disk.list()?;
    names.retain(|name| name.starts_with(PREFIX));
    names.sort();
    names.truncate(IMPORTS_MAX);
    Ok(names)
}

impl ImportPlan {
    fn checks(&self, operation: Operation) -> Result<(), ImportError> {
        match operation {
            Operation::Data(blocks) | Operation::Zero(blocks) if blocks.start >= blocks.end => {
                Err(ImportError::Invalid("an empty run"))
            }
            Operation::Data(blocks) | Operation::Zero(blocks) if blocks.end > self.size_blocks => {
                Err(ImportError::Invalid("a block beyond the end of the drive"))
            }
            Operation::Data(blocks) if blocks.count() > RECORD_BLOCKS_MAX => {
                Err(ImportError::Invalid("a record that is too long"))
            }
            Operation::Resize(_) => Err(ImportError::Invalid("another size")),
            Operation::Data(_) | Operation::Zero(_) => Ok(()),
        }
    }
}

impl State {
    fn group(&self, last_crc: u32, records: u32) -> NewGroup {
        let NewGroupState { lsn, prev_crc, incarnation, .. } = self.group;
        NewGroup { log: self.plan.journal, lsn, prev_crc, incarnation, last_crc, records }
    }

    fn write(&self, file: &dyn DiskFile) -> io::Result<()> {
        file.write_at(&self.encode(), PLACES[(self.turn % 2) as usize])
    }

    /// The newest header of a file that is not a part of the journal.
    fn read(file: &dyn DiskFile) -> io::Result<Option<Self>> {
        if file.len()? < adopt::GROUP_BEGIN {
            return Ok(None);
        }
        let mut page = [0; adopt::GROUP_BEGIN as usize];
        file.read_at(&mut page, 0)?;
        let headers = PLACES.iter().filter_map(|place| Self::decode(&page[*place as usize..][..PLACE_BYTES]));
        Ok(headers
            .max_by_key(|state| state.turn)
            .filter(|_| page[..PLACES[0] as usize].iter().all(|byte| *byte == 0)))
    }

    fn encode(&self) -> Vec<u8> {
        let State { plan, group, .. } = self;
        let (trailer_len, trailer_crc) = self.trailer.unwrap_or_default();
        let mut w = Writer::new();
        w.raw(MAGIC).raw(plan.session.as_bytes()).raw(plan.stream.as_bytes()).raw(plan.journal.as_bytes());
        w.u64(plan.size_blocks).u64(plan.headroom_bytes);
        w.u64(group.lsn.0).u32(group.prev_crc).u32(group.incarnation).u32(group.last_crc).u32(group.records);
        w.u64(self.turn).u64(self.rounds).u64(self.end);
        w.u8(u8::from(self.trailer.is_some())).u64(trailer_len).u32(trailer_crc);
        let mut bytes = w.finish();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a header; `None` if there is none, or it is damaged or impossible.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        r.magic(MAGIC, "an import").ok()?;
        let mut uuid = || r.array().ok().map(Uuid::from_bytes);
        let (session, stream, journal) = (uuid()?, uuid()?, uuid()?);
        let plan = ImportPlan {
            session,
            stream,
            journal,
            size_blocks: r.u64().ok()?,
            headroom_bytes: r.u64().ok()?,
        };
        let group = NewGroupState {
            lsn: Lsn(r.u64().ok()?),
            prev_crc: r.u32().ok()?,
            incarnation: r.u32().ok()?,
            last_crc: r.u32().ok()?,
            records: r.u32().ok()?,
        };
        let (turn, rounds, end) = (r.u64().ok()?, r.u64().ok()?, r.u64().ok()?);
        let (is_sealed, trailer) = (r.u8().ok()?, (r.u64().ok()?, r.u32().ok()?));
        let read = bytes.len() - r.rest().len();
        let is_whole = crc32c::crc32c(&bytes[..read]) == r.u32().ok()?;
        let is_possible = (1..u64::MAX - 1).contains(&group.lsn.0)
            && (adopt::GROUP_BEGIN..u64::MAX / 2).contains(&end)
            && is_sealed < 2
            && trailer.0 <= TRAILER_BYTES_MAX;
        let trailer = (is_sealed == 1).then_some(trailer);
        (is_whole && is_possible).then_some(Self { plan, group, turn, rounds, end, trailer })
    }
}
