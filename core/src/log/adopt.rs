//! Adds a group that was written beside a closed log to its end.
//!
//! The group's records are durable before this begins. Its header makes it a file of the log, whatever its name is, so a crash before the
//! rename loses nothing: the log is longer with it (`copies`).

use super::copies::{self, is_own_name};
use super::record::{self, FILE_HEADER_BYTES, FileHeader, Group, HEADER_BYTES, Header};
use super::recover::read_headers;
use super::{Body, Log, LogError, LogFile, Records, aside};
use crate::disk::{Disk, DiskFile};
use crate::units::Lsn;
use std::io;
use std::sync::Arc;
use uuid::Uuid;

/// The end of a closed log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Its last record.
    pub last: Lsn,
    /// Own CRC of that record.
    pub crc: u32,
    /// Its latest incarnation.
    pub incarnation: u32,
    /// Bytes of its files.
    pub file_bytes: u64,
}

/// A group that stands for one record, the next of its log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewGroup {
    pub log: Uuid,
    pub lsn: Lsn,
    /// Own CRC of the record before.
    pub prev_crc: u32,
    pub incarnation: u32,
    /// Own CRC of the last record in it.
    pub last_crc: u32,
    pub records: u32,
}

impl<R: Records> Log<R> {
    /// The end of the log `uuid`. Nothing is written.
    pub(crate) async fn tail(disk: &dyn Disk, uuid: Uuid) -> Result<Tail, LogError> {
        let headers = read_headers(disk, uuid)?;
        if headers.files.is_empty() {
            return Err(LogError::Missing);
        }
        let file_bytes = headers.files.iter().map(|(_, header)| header.file_bytes).sum();
        let (end, _) = copies::log_of::<R::Body>(headers.files, &headers.others, uuid).await?;
        Ok(Tail { last: end.last, crc: end.prev_crc, incarnation: end.incarnation, file_bytes })
    }

    /// Makes the durable file `name` the end of the log.
    ///
    /// # Errors
    ///
    /// `Damaged` if the log does not end where the group begins. Nothing is changed then.
    pub(crate) async fn adopt(disk: &dyn Disk, name: &str, group: NewGroup) -> Result<(), LogError> {
        let tail = Self::tail(disk, group.log).await?;
        if (tail.last.next(), tail.crc) != (group.lsn, group.prev_crc) {
            return Err(LogError::Damaged { lsn: group.lsn, durable: tail.last });
        }
        let seq =
            read_headers(disk, group.log)?.files.iter().map(|(_, header)| header.seq).max().unwrap_or(0);
        let file = disk.open(name, false)?;
        let header = FileHeader {
            log: group.log,
            seq: seq + 1,
            incarnation: group.incarnation,
            prev_crc: group.prev_crc,
            first: group.lsn,
            durable: group.lsn.prev(),
            file_bytes: file.len()?,
            group: Some(Group { last: group.lsn, last_crc: group.last_crc, records: group.records }),
        };
        file.write_at(&header.encode(), 0)?;
        file.sync().await?;
        disk.rename(name, &free_name(disk)?)?;
        Ok(disk.sync_names().await?)
    }
}

fn free_name(disk: &dyn Disk) -> io::Result<String> {
    let own = aside::names(disk)?.into_iter().filter(|name| is_own_name(name));
    let last = own.filter_map(|name| name[1..].parse::<u64>().ok()).max().unwrap_or(0);
    Ok(format!("j{:08}", last + 1))
}

/// The record of a group at `offset` if it is complete and follows the record with the CRC `prev_crc`; with its own CRC.
pub(crate) fn record_at<B: Body>(
    file: &Arc<dyn DiskFile>,
    offset: u64,
    group: &NewGroup,
    prev_crc: u32,
    data: &mut Vec<u8>,
) -> io::Result<Option<(Header<B>, u32)>> {
    let len = file.len()?;
    let file = LogFile { name: String::new(), file: file.clone() };
    let Some((header, crc)) = super::scan::read_header::<B>(&file, offset, len, group.log)? else {
        return Ok(None);
    };
    let follows =
        (header.lsn, header.prev_crc, header.incarnation) == (group.lsn, prev_crc, group.incarnation);
    if !follows || offset + HEADER_BYTES + header.data_len() > len {
        return Ok(None);
    }
    Ok(super::scan::data_checks(&file, offset, &header, data)?.then_some((header, crc)))
}

/// Where a group's first record begins.
pub(crate) const GROUP_BEGIN: u64 = FILE_HEADER_BYTES;

/// Bytes that a record takes.
pub(crate) fn len_of<B: Body>(body: &B) -> u64 {
    record::record_len(body.data_len())
}
