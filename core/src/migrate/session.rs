//! A session as each side remembers it: one small file, `migrations/<session>` in the state directory, replaced atomically and made durable before the
//! step that it stands for is taken. `core/FORMAT.md` documents the bytes.

use super::message::{Final, NAME_BYTES_MAX, Offer, Reason};
use super::phase::{Phase, Role};
use super::wire;
use crate::disk::Disk;
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use std::io::{self, ErrorKind};
use uuid::Uuid;

const MAGIC: &[u8; 8] = b"HLDMIGR\x01";
/// The longest record: an offer with all its lists, and what is small beside it.
pub const RECORD_BYTES_MAX: u64 = 1 << 20;
const TEMPORARY: &str = "new";

/// What one side remembers of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The side that this device is on.
    pub role: Role,
    /// How far it is.
    pub phase: Phase,
    /// The other device, by the fingerprint of its key.
    pub peer: [u8; 32],
    /// Its name, for people.
    pub peer_name: String,
    /// What was offered.
    pub offer: Offer,
    /// The attempt to send the delta: raised when the seeder begins again.
    pub attempt: u32,
    /// The end of the delta, from the moment on when it counts: with [`Phase::Ready`] and [`Phase::Released`].
    pub end: Option<Final>,
    /// When it began, Unix time in ms.
    pub begun_ms: u64,
    /// When programs stopped on the seeder; 0 if not known.
    pub frozen_ms: u64,
    /// When they went on, on the leecher; 0 if not known.
    pub resumed_ms: u64,
    /// When it ended; 0 if it has not.
    pub ended_ms: u64,
    /// Why it ended, if it did not succeed.
    pub reason: Option<Reason>,
}

impl Record {
    /// A session that begins now.
    pub fn new(role: Role, peer: [u8; 32], peer_name: String, offer: Offer, begun_ms: u64) -> Self {
        Self {
            role,
            phase: Phase::Offered,
            peer,
            peer_name,
            offer,
            attempt: 1,
            end: None,
            begun_ms,
            frozen_ms: 0,
            resumed_ms: 0,
            ended_ms: 0,
            reason: None,
        }
    }

    /// The record's bytes, with their checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.raw(MAGIC).u8(wire::role_number(self.role)).u8(self.phase as u8);
        w.raw(&self.peer).str(&self.peer_name);
        wire::write_offer(&mut w, &self.offer);
        w.u32(self.attempt);
        for time in [self.begun_ms, self.frozen_ms, self.resumed_ms, self.ended_ms] {
            w.varint(time);
        }
        w.u8(u8::from(self.end.is_some()) | u8::from(self.reason.is_some()) << 1);
        if let Some(end) = &self.end {
            wire::write_final(&mut w, end);
        }
        if let Some(reason) = &self.reason {
            wire::write_reason(&mut w, reason);
        }
        let mut bytes = w.finish();
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads what [`Record::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut r = Reader::new(bytes);
        r.magic(MAGIC, "a migration's record")?;
        let (fields, crc) = bytes.split_last_chunk::<4>().ok_or(FormatError::Truncated)?;
        if crc32c::crc32c(fields) != u32::from_le_bytes(*crc) {
            return Err(FormatError::Invalid("the record of a migration is damaged"));
        }
        let mut r = Reader::new(fields.get(MAGIC.len()..).ok_or(FormatError::Truncated)?);
        let role = wire::read_role(&mut r)?;
        let phase = wire::read_phase(r.u8()?, role)?;
        let peer = r.array()?;
        let peer_name = wire::read_text(&mut r, NAME_BYTES_MAX)?;
        let offer = wire::read_offer(&mut r)?;
        let attempt = r.u32()?;
        let mut times = [0; 4];
        for time in &mut times {
            *time = r.varint()?;
        }
        let flags = r.u8()?;
        if flags > 3 {
            return Err(FormatError::Unknown);
        }
        let end = (flags & 1 != 0).then(|| wire::read_final(&mut r)).transpose()?;
        let reason = (flags & 2 != 0).then(|| wire::read_reason(&mut r)).transpose()?;
        r.end()?;
        let [begun_ms, frozen_ms, resumed_ms, ended_ms] = times;
        Ok(Self {
            role,
            phase,
            peer,
            peer_name,
            offer,
            attempt,
            end,
            begun_ms,
            frozen_ms,
            resumed_ms,
            ended_ms,
            reason,
        })
    }

    /// Replaces the record: a crash leaves the old one or the new one.
    pub async fn save(&self, disk: &dyn Disk) -> io::Result<()> {
        let file = disk.open(TEMPORARY, true)?;
        file.set_len(0)?;
        file.write_at(&self.encode(), 0)?;
        file.sync().await?;
        disk.rename(TEMPORARY, &name(self.offer.session))?;
        disk.sync_names().await
    }
}

/// The name of a session's record.
fn name(session: Uuid) -> String {
    session.simple().to_string()
}

/// All records of a directory. A damaged one is an error: it may say that a drive was handed over, and nothing may write that drive before
/// somebody has looked.
pub fn load(disk: &dyn Disk) -> io::Result<Vec<Record>> {
    let mut names = disk.list()?;
    names.sort();
    let mut records = Vec::new();
    for entry in names.iter().filter(|entry| *entry != TEMPORARY) {
        let Ok(session) = Uuid::try_parse(entry) else { continue };
        let file = disk.open(entry, false)?;
        let len = file.len()?;
        let damaged =
            |why: String| io::Error::new(ErrorKind::InvalidData, format!("migrations/{entry}: {why}"));
        if len > RECORD_BYTES_MAX {
            return Err(damaged("it is longer than a record can be".to_owned()));
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, 0)?;
        let record = Record::decode(&bytes).map_err(|error| damaged(error.to_string()))?;
        if record.offer.session != session {
            return Err(damaged("it is the record of another session".to_owned()));
        }
        records.push(record);
    }
    Ok(records)
}

/// Removes the record of a session that has ended.
pub async fn forget(disk: &dyn Disk, session: Uuid) -> io::Result<()> {
    disk.remove(&name(session))?;
    disk.sync_names().await
}
