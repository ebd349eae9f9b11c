//! Opening a log: finding its end.
//!
//! The log is read up to the first record that is missing or does not check. Either the rest was not durable, or the disk
//! has lost data that it had promised to keep. The records tell which, since each says what was durable when it was
//! written. A torn tail is normal and is dropped. Damage stops everything, and nothing is touched.
//!
//! A file begins where its header says, even if an earlier file still has older bytes for the same LSNs. So a log that was
//! cut short continues in a new file, and nothing has to be erased for that. Files that lie wholly after the end are erased
//! before the new one is begun; otherwise they would seem to follow it.

use super::append::Appender;
use super::copies::{self, Headed, is_own_name};
use super::files::{self, FileSet, LiveFile};
use super::record::{self, FILE_HEADER_BYTES, FileHeader, Group, RECORD_ALIGN};
use super::scan::{self, Wanted};
use super::{Body, Limits, Log, LogError, LogFile, Records, aside};
use crate::disk::Disk;
use crate::planted::{self, Bug};
use crate::units::Lsn;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;
use uuid::Uuid;

/// The range of records in an opened log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The first record that is still there.
    pub first: Lsn,
    /// The last record; one less than `first` if there is none.
    pub last: Lsn,
}

pub(super) struct Headers {
    pub(super) files: Vec<Headed>,
    pub(super) others: Vec<Arc<LogFile>>,
}

/// A log, read to its end.
pub(super) struct End {
    first: Lsn,
    pub(super) last: Lsn,
    pub(super) prev_crc: u32,
    live: Vec<LiveFile>,
    stale: Vec<Arc<LogFile>>,
    pub(super) incarnation: u32,
}

impl<R: Records> Log<R> {
    /// Makes an empty log. Removes files of another one, except those that were set aside.
    pub async fn create_with(
        disk: Arc<dyn Disk>,
        limits: Limits,
        records: R,
        pending: R::Pending,
    ) -> Result<Arc<Self>, LogError> {
        Self::create_as(disk, limits, crate::entropy::uuid(), records, pending).await
    }

    /// The same, with a known identity.
    pub async fn create_as(
        disk: Arc<dyn Disk>,
        limits: Limits,
        uuid: Uuid,
        records: R,
        pending: R::Pending,
    ) -> Result<Arc<Self>, LogError> {
        for name in aside::names(&*disk)?.into_iter().filter(|name| is_own_name(name)) {
            disk.remove(&name)?;
        }
        let end = End {
            first: Lsn(1),
            last: Lsn(0),
            prev_crc: 0,
            live: Vec::new(),
            stale: Vec::new(),
            incarnation: 0,
        };
        Self::start(disk, limits, (uuid, Vec::new()), (records, pending), end, Vec::new()).await
    }

    /// Opens the log `uuid`. Its user has not seen the records yet: it reads the ones that it needs with
    /// [`records`](Self::records()).
    pub async fn open_with(
        disk: Arc<dyn Disk>,
        limits: Limits,
        uuid: Uuid,
        records: R,
        pending: R::Pending,
    ) -> Result<(Arc<Self>, Recovered), LogError> {
        let Headers { files, others } = read_headers(&*disk, uuid)?;
        let missing = files.is_empty();
        let (end, copies) = copies::log_of::<R::Body>(files, &others, uuid).await?;
        // A log has a file before its identity is first recorded anywhere.
        if missing {
            return Err(LogError::Missing);
        }
        let recovered = Recovered { first: end.first, last: end.last };
        let copies = copies::set_aside(&*disk, &copies).await?;
        let log = Self::start(disk, limits, (uuid, copies), (records, pending), end, others).await?;
        Ok((log, recovered))
    }

    /// The last record of the log `uuid`, or the one before its first if it has none. Nothing is written.
    pub async fn last_record(disk: &dyn Disk, uuid: Uuid) -> Result<Lsn, LogError> {
        let Headers { files, others } = read_headers(disk, uuid)?;
        if files.is_empty() {
            return Err(LogError::Missing);
        }
        let (end, _) = copies::log_of::<R::Body>(files, &others, uuid).await?;
        Ok(end.last)
    }

    async fn start(
        disk: Arc<dyn Disk>,
        limits: Limits,
        (uuid, copies): (Uuid, Vec<String>),
        (records, pending): (R, R::Pending),
        end: End,
        spare: Vec<Arc<LogFile>>,
    ) -> Result<Arc<Self>, LogError> {
        // A process that was killed leaves records in the page cache that have not reached the disk. From here on they
        // count as durable, so they must be.
        for live in &end.live {
            make_durable(&live.file).await?;
        }
        // The same holds for the names of files that it had just made.
        disk.sync_names().await?;
        // Also the spare files, whose header is empty already: a process that was killed may have emptied it in memory
        // only. After a power cut the old header would be back, in front of new records.
        for file in end.stale.iter().chain(&spare) {
            files::erase(&file.file).await?;
        }
        let mut set = FileSet::default();
        for live in end.live {
            set.saw_seq(live.seq);
            set.saw_slot(&live.file.name);
            set.push(live);
        }
        for file in spare.into_iter().chain(end.stale) {
            set.saw_slot(&file.name);
            // A file that was never filled, or has another size, would make syncs slow.
            match file.file.len()? == limits.file_bytes {
                true => set.add_spare(file),
                false => disk.remove(&file.name)?,
            }
        }
        let appender = Appender {
            files: set,
            prev_crc: end.prev_crc,
            pending,
            reserve_open: false,
            is_torn: false,
            scratch: Vec::new(),
        };
        let log = Arc::new(Self {
            disk,
            uuid,
            copies,
            incarnation: end.incarnation + 1,
            limits,
            records,
            appender: Mutex::new(appender),
            appended: AtomicU64::new(end.last.0),
            durable: AtomicU64::new(end.last.0),
            syncing: tokio::sync::Mutex::new(()),
            condemned: AtomicBool::new(false),
            has_new_names: AtomicBool::new(false),
            failed: OnceLock::new(),
            room: Notify::new(),
            spare_wanted: Notify::new(),
        });
        log.begin(end.last.next()).await?;
        Ok(log)
    }

    /// Begins a file that belongs to this incarnation.
    async fn begin(self: &Arc<Self>, first: Lsn) -> Result<(), LogError> {
        self.set_durable(first.prev());
        let mut spare = self.appender.lock().files.take_spare(usize::MAX, self.limits.file_bytes);
        if spare.is_none() {
            let name = self.appender.lock().files.new_slot();
            spare = Some(files::create(&*self.disk, &name, self.limits.file_bytes).await?);
        }
        let file = spare.expect("it was just made");
        self.appender.lock().begin_file(self, file.clone(), first)?;
        // Only the header is in it yet. It is synced so that recovery finds the same end again if power is cut before the
        // first record's sync.
        file.file.clone().sync().await?;
        self.keep(1).await
    }
}

/// Syncs a file that an earlier process wrote. If that fails, pages that can still be read may be missing on the disk: they
/// are written once more, and then the sync must succeed.
async fn make_durable(file: &LogFile) -> Result<(), LogError> {
    if file.file.clone().sync().await.is_ok() {
        return Ok(());
    }
    let mut buffer = vec![0; 1 << 20];
    let len = file.file.len()?;
    for at in (0..len).step_by(1 << 20) {
        let piece = &mut buffer[..(len - at).min(1 << 20) as usize];
        file.read(piece, at)?;
        file.file.write_at(piece, at)?;
    }
    Ok(file.file.clone().sync().await?)
}

pub(super) fn read_headers(disk: &dyn Disk, uuid: Uuid) -> Result<Headers, LogError> {
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for name in aside::names(disk)? {
        let is_own = is_own_name(&name);
        let file = Arc::new(LogFile { file: disk.open(&name, false)?, name });
        match files::read_header(&*file.file)? {
            Some(header) if header.log == uuid => match file.file.len()? < header.file_bytes {
                false => files.push((file, header)),
                true if is_own => return Err(LogError::CutShort { name: file.name.clone() }),
                true => {}
            },
            _ if is_own => others.push(file),
            // Another program's file.
            _ => {}
        }
    }
    files.sort_by_key(|(_, header)| header.seq);
    Ok(Headers { files, others })
}

/// Reads the log from its first record to its last.
pub(super) async fn find_end<B: Body>(
    files: Vec<(Arc<LogFile>, FileHeader)>,
    others: &[Arc<LogFile>],
    uuid: Uuid,
) -> Result<End, LogError> {
    let incarnation = files.iter().map(|(_, header)| header.incarnation).max().unwrap_or(0);
    let (chain, mut stale) = in_order(files);
    let first = chain.first().map_or(Lsn(1), |(_, header)| header.first);
    let mut next = first;
    let mut prev_crc = chain.first().map_or(0, |(_, header)| header.prev_crc);
    let mut live = Vec::new();
    let mut durable = chain.iter().map(|(_, header)| header.durable).max().unwrap_or(Lsn(0));
    let mut chain = chain.into_iter().peekable();
    while let Some((file, header)) = chain.next() {
        let first_of_next = chain.peek().map(|(_, next)| next.first);
        if header.first != next || header.prev_crc != prev_crc {
            // Records are missing in between, so this file and those after it are no part of the log.
            stale.push(file);
            stale.extend(chain.by_ref().map(|(file, _)| file));
            // But if one of their records says that the missing ones had been durable, the log is damaged.
            for file in &stale {
                durable =
                    durable.max(durable_claimed_behind::<B>(file, uuid, FILE_HEADER_BYTES, next.prev())?);
            }
            break;
        }
        let walked = walk::<B>(&file, uuid, &header, first_of_next).await?;
        durable = durable.max(walked.durable);
        if header.group.is_none() && walked.last.next() <= durable
            || first_of_next.is_none_or(|first| walked.last.next() != first)
        {
            durable = durable.max(durable_claimed_behind::<B>(&file, uuid, walked.end, walked.last)?);
        }
        (next, prev_crc) = (walked.last.next(), walked.crc);
        live.push(LiveFile::new(file, &header, (walked.last, walked.end), walked.last));
    }
    for file in others {
        durable = durable.max(durable_claimed_without_header::<B>(file, uuid, next.prev())?);
    }
    if durable >= next {
        return Err(LogError::Damaged { lsn: next, durable });
    }
    Ok(End { first, last: next.prev(), prev_crc, live, stale, incarnation })
}

/// The result of reading one file.
pub(super) struct Walked {
    pub(super) last: Lsn,
    crc: u32,
    end: u64,
    durable: Lsn,
}

/// The files, given by sequence number, in the order of their records; and the files that others have replaced.
fn in_order(files: Vec<Headed>) -> (Vec<Headed>, Vec<Arc<LogFile>>) {
    let (groups, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|(_, header)| header.group.is_some());
    let (mut chain, mut stale): (Vec<Headed>, Vec<_>) = Default::default();
    // A file replaces earlier files that do not begin before it.
    for (file, header) in files {
        while let Some((replaced, _)) = chain.pop_if(|(_, earlier)| earlier.first >= header.first) {
            stale.push(replaced);
        }
        chain.push((file, header));
    }
    // A group replaces the files that it stands for.
    for (file, header) in groups {
        let last = header.group.map_or(header.first, |group| group.last);
        let replaced = chain.extract_if(.., |(_, other)| (header.first..=last).contains(&other.first));
        stale.extend(replaced.map(|(file, _)| file));
        let place = chain.partition_point(|(_, other)| other.first < header.first);
        chain.insert(place, (file, header));
    }
    (chain, stale)
}

/// Follows the records of one file as long as they check, up to the first record of the next file.
pub(super) async fn walk<B: Body>(
    file: &LogFile,
    uuid: Uuid,
    header: &FileHeader,
    until: Option<Lsn>,
) -> Result<Walked, LogError> {
    if let Some(group) = header.group {
        return walk_group::<B>(file, uuid, header, group).await;
    }
    let FileHeader { first, prev_crc, incarnation, .. } = *header;
    let mut walked = Walked { last: first.prev(), crc: prev_crc, end: FILE_HEADER_BYTES, durable: Lsn(0) };
    let mut buffer = Vec::new();
    while until.is_none_or(|until| walked.last.next() < until) {
        let next = Wanted { lsn: walked.last.next(), prev_crc: walked.crc, incarnation };
        let Some((header, crc, offset)) = scan::find::<B>(file, walked.end, uuid, &next)? else { break };
        let checks = scan::data_checks(file, offset, &header, &mut buffer)?;
        if !checks && !planted::has(Bug::TornRecordAccepted) {
            break;
        }
        walked.last = header.lsn;
        walked.crc = crc;
        walked.end = offset + record::record_len(header.data_len());
        walked.durable = walked.durable.max(header.durable);
        tokio::task::coop::consume_budget().await;
    }
    Ok(walked)
}

/// Follows the records of a group. A group is durable before it has a header, so every one of them must check.
async fn walk_group<B: Body>(
    file: &LogFile,
    uuid: Uuid,
    header: &FileHeader,
    group: Group,
) -> Result<Walked, LogError> {
    let (lsn, incarnation) = (group.last, header.incarnation);
    let (mut end, mut prev_crc) = (FILE_HEADER_BYTES, header.prev_crc);
    let mut buffer = Vec::new();
    for _ in 0..group.records {
        let damaged = LogError::Damaged { lsn, durable: group.last };
        let found = scan::find::<B>(file, end, uuid, &Wanted { lsn, prev_crc, incarnation })?;
        let (header, crc, offset) = found.ok_or(damaged.clone())?;
        if !scan::data_checks(file, offset, &header, &mut buffer)? {
            return Err(damaged);
        }
        (end, prev_crc) = (offset + record::record_len(header.data_len()), crc);
        tokio::task::coop::consume_budget().await;
    }
    Ok(Walked { last: group.last, crc: group.last_crc, end, durable: header.durable })
}

/// The highest LSN that the records of a file without a valid header say was durable. A spare file counts as nothing: its
/// header is empty, and its old records lie before the end of the log.
fn durable_claimed_without_header<B: Body>(file: &LogFile, uuid: Uuid, last: Lsn) -> Result<Lsn, LogError> {
    let len = file.file.len()?;
    if len < FILE_HEADER_BYTES {
        return Ok(Lsn(0));
    }
    let mut page = [0; FILE_HEADER_BYTES as usize];
    file.read(&mut page, 0)?;
    let first = scan::read_header::<B>(file, FILE_HEADER_BYTES, len, uuid)?;
    let spare = page.iter().all(|byte| *byte == 0) && first.is_none_or(|(header, _)| header.lsn <= last);
    if spare { Ok(Lsn(0)) } else { durable_claimed_behind::<B>(file, uuid, FILE_HEADER_BYTES, last) }
}

/// The highest LSN that records after the log's end in a file say was durable. Older bytes of a recycled file have lower
/// LSNs and do not count.
fn durable_claimed_behind<B: Body>(file: &LogFile, uuid: Uuid, end: u64, last: Lsn) -> Result<Lsn, LogError> {
    let len = file.file.len()?;
    let mut durable = Lsn(0);
    let mut window = vec![0; 1 << 20];
    let mut at = end;
    while at < len {
        let bytes = &mut window[..(len - at).min(1 << 20) as usize];
        file.read(bytes, at)?;
        for place in (0..bytes.len()).step_by(RECORD_ALIGN as usize) {
            let header = super::record::Header::<B>::decode(&bytes[place..], uuid);
            if let Some((header, _)) = header.filter(|(header, _)| header.lsn > last) {
                durable = durable.max(header.durable);
            }
        }
        at += bytes.len() as u64;
    }
    Ok(durable)
}
