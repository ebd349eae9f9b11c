//! Conflicts: files that two programs have changed. Theirs keeps the name, and ours gets one that says so.
//!
//! The file `conflicts` remembers them until a person has settled them. It is durable before the log says that a file has its new name, so
//! that a conflict that is found again after a power cut gets the same name.
//!
//! ```text
//! magic "hold-cf" | version u8 = 1 | count varint | count x conflict | crc32c u32 of all before
//! conflict: ours u32 | place of theirs | place of ours | version of theirs | at_ms u64 | our_len varint
//! ```
//!
//! A file that cannot be read is forgotten: the names of the files still say what they are.

use crate::disk::Disk;
use crate::folder::node::{Ino, Place};
use crate::folder::step::{put_place, put_version, take_place, take_version};
use crate::format::FormatError;
use crate::format::wire::{Reader, Writer};
use crate::store::remote::{Name, Version};
use std::io;
use std::sync::Arc;

const FILE: &str = "conflicts";
const TEMPORARY: &str = "conflicts.new";
const MAGIC: &[u8; 8] = b"hold-cf\x01";
/// More are not remembered: nobody settles them one by one.
const CONFLICTS_MAX: usize = 10_000;
/// A longer file is not one of ours.
const BYTES_MAX: u64 = 16 << 20;
/// What names of conflicts have in common.
const BETWEEN: &str = " (conflict, ";

/// A conflict that nobody has settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Our file.
    pub ours: Ino,
    /// The place that theirs has.
    pub theirs: Place,
    /// The place that ours got.
    pub kept_as: Place,
    /// Their version.
    pub version: Version,
    /// When it was found, Unix time in ms.
    pub at_ms: u64,
    /// Length of ours, in bytes.
    pub our_len: u64,
}

/// The conflicts of a folder.
pub struct Conflicts {
    disk: Arc<dyn Disk>,
    // Held to look, and to change one.
    kept: parking_lot::Mutex<Vec<Kept>>,
    saving: tokio::sync::Mutex<()>,
}

impl Conflicts {
    /// Reads the conflicts that `disk` remembers.
    pub fn open(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let kept = match read(&*disk) {
            Ok(bytes) => decode(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, "the list of conflicts cannot be read: the files keep their names");
                Vec::new()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { disk, kept: parking_lot::Mutex::new(kept), saving: tokio::sync::Mutex::new(()) })
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<Kept> {
        self.kept.lock().clone()
    }

    /// The name that our file got beside that version of theirs, if this was found before.
    pub fn name_beside(&self, ours: Ino, theirs: &Place, version: &Version) -> Option<Name> {
        let kept = self.kept.lock();
        let is_it = |kept: &&Kept| kept.ours == ours && kept.theirs == *theirs && kept.version == *version;
        kept.iter().find(is_it).map(|kept| kept.kept_as.name.clone())
    }

    /// Remembers a conflict. It is durable when this returns.
    pub async fn add(&self, conflict: Kept) -> io::Result<()> {
        self.change(|kept| {
            kept.retain(|before| before.ours != conflict.ours || before.theirs != conflict.theirs);
            if kept.len() == CONFLICTS_MAX {
                kept.remove(0);
            }
            kept.push(conflict);
        })
        .await
    }

    /// Forgets the conflicts of a file.
    pub async fn settle(&self, ours: Ino) -> io::Result<()> {
        self.change(|kept| kept.retain(|kept| kept.ours != ours)).await
    }

    async fn change(&self, change: impl FnOnce(&mut Vec<Kept>)) -> io::Result<()> {
        let _turn = self.saving.lock().await;
        let mut kept = self.all();
        change(&mut kept);
        let file = self.disk.open(TEMPORARY, true)?;
        let bytes = encode(&kept);
        file.set_len(0)?;
        file.write_at(&bytes, 0)?;
        file.sync().await?;
        self.disk.rename(TEMPORARY, FILE)?;
        self.disk.sync_names().await?;
        *self.kept.lock() = kept;
        Ok(())
    }
}

fn read(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open_to_read(FILE)?;
    let len = file.len()?;
    if len > BYTES_MAX {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn encode(kept: &[Kept]) -> Vec<u8> {
    let mut out = Writer::new();
    out.raw(MAGIC).varint(kept.len() as u64);
    for Kept { ours, theirs, kept_as, version, at_ms, our_len } in kept {
        out.u32(ours.0);
        put_place(&mut out, theirs);
        put_place(&mut out, kept_as);
        put_version(&mut out, version);
        out.u64(*at_ms).varint(*our_len);
    }
    let mut bytes = out.finish();
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Vec<Kept>, FormatError> {
    let (bytes, crc) = bytes.split_last_chunk::<4>().ok_or(FormatError::Truncated)?;
    let mut from = Reader::new(bytes);
    from.magic(MAGIC, "a list of conflicts")?;
    if crc32c::crc32c(bytes) != u32::from_le_bytes(*crc) {
        return Err(FormatError::Invalid("its checksum does not fit"));
    }
    let kept = from.list(30, |from| {
        Ok(Kept {
            ours: Ino(from.u32()?),
            theirs: take_place(from)?,
            kept_as: take_place(from)?,
            version: take_version(from)?,
            at_ms: from.u64()?,
            our_len: from.varint()?,
        })
    })?;
    from.end()?;
    Ok(kept)
}

/// The name of our file: `name (conflict, <device>, <date time>).ext`, in UTC, at most as long as a name may be. A copy of a copy does not
/// name both. `nth` is raised until the name is free.
pub fn name(of: &Name, device: &str, at_ms: u64, nth: u32) -> Name {
    let (stem, extension) = split(of.as_str());
    let stem = stem.find(BETWEEN).map_or(stem, |at| &stem[..at]);
    let device: String = device.chars().map(|c| if c == '/' || c.is_control() { '-' } else { c }).collect();
    let number = if nth > 0 { format!(" {}", nth + 1) } else { String::new() };
    let tail = format!("{BETWEEN}{}, {}{number})", cut(&device, DEVICE_BYTES_MAX), date_time(at_ms));
    let extension = cut(extension, Name::BYTES_MAX - tail.len());
    let stem = cut(stem, Name::BYTES_MAX - tail.len() - extension.len());
    Name::new(&format!("{stem}{tail}{extension}")).unwrap_or_else(|_| of.clone())
}

/// A device's name takes at most so much of a file's.
const DEVICE_BYTES_MAX: usize = 64;
/// What follows the last dot is no extension if it is longer.
const EXTENSION_BYTES_MAX: usize = 32;

/// The name without its extension, and the extension with its dot.
fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= EXTENSION_BYTES_MAX => name.split_at(at),
        _ => (name, ""),
    }
}

/// At most `most` bytes, whole characters.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// A time in UTC, in letters that all file systems take.
fn date_time(ms: u64) -> String {
    let (year, month, day) = crate::fork::date(ms);
    let seconds = ms / 1000 % 86_400;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}-{minutes:02}-{seconds:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::disk::{DiskFaults, SimDisk};
    use crate::store::remote::Time;

    const AT_MS: u64 = 1_764_324_083_456;

    fn named(text: &str) -> String {
        name(&Name::new(text).unwrap(), "laptop", AT_MS, 0).to_string()
    }

    fn conflict(ours: u32) -> Kept {
        let place = |name: &str| Place::new(Ino(4), Name::new(name).unwrap());
        let version = Version { tag: "\"e1\"".into(), len: 9, written: Some(Time(-5)) };
        let (theirs, kept_as) = (place("a.txt"), place("a (conflict, laptop).txt"));
        Kept { ours: Ino(ours), theirs, kept_as, version, at_ms: AT_MS, our_len: 300 }
    }

    #[test]
    fn names_of_conflicts_keep_the_extension_and_say_who_and_when() {
        let when = "2025-11-28 10-01-23";
        assert_eq!(named("letter.odt"), format!("letter (conflict, laptop, {when}).odt"));
        assert_eq!(named("Makefile"), format!("Makefile (conflict, laptop, {when})"));
        assert_eq!(named(".profile"), format!(".profile (conflict, laptop, {when})"));
        assert_eq!(named("letter (conflict, desk, 2025-01-01 00-00-00).odt"), named("letter.odt"));
        let second = name(&Name::new("a.b").unwrap(), "x/y", AT_MS, 1).to_string();
        assert_eq!(second, format!("a (conflict, x-y, {when} 2).b"));
    }

    #[test]
    fn names_of_conflicts_are_never_too_long() {
        for text in
            ["a".repeat(255), format!("{}.tar.zst", "ü".repeat(120)), format!("a.{}", "b".repeat(250))]
        {
            let long = name(&Name::new(&text).unwrap(), &"ö".repeat(200), AT_MS, 9);
            assert!(long.as_str().len() <= Name::BYTES_MAX, "{long}");
            assert!(long.as_str().contains(BETWEEN), "{long}");
        }
    }

    #[tokio::test]
    async fn conflicts_survive_a_power_cut_once_they_are_remembered() {
        let disk = SimDisk::new(1, DiskFaults::default());
        let conflicts = Conflicts::open(Arc::new(disk.clone())).unwrap();
        conflicts.add(conflict(7)).await.unwrap();
        conflicts.add(conflict(8)).await.unwrap();
        conflicts.settle(Ino(8)).await.unwrap();
        disk.power_cut();
        let conflicts = Conflicts::open(Arc::new(disk.clone())).unwrap();
        assert_eq!(conflicts.all(), [conflict(7)]);
        let Kept { theirs, version, kept_as, .. } = conflict(7);
        assert_eq!(conflicts.name_beside(Ino(7), &theirs, &version), Some(kept_as.name));
        disk.flip_bit("conflicts", 90);
        assert_eq!(Conflicts::open(Arc::new(disk)).unwrap().all(), []);
    }

    /// Written by version 1.
    const VERSION_1: &[u8] = include_bytes!("../../../tests/data/v1/folder/conflicts");

    #[test]
    fn the_bytes_of_version_1_stay_readable() {
        assert_eq!(decode(VERSION_1).unwrap(), [conflict(7), conflict(8)]);
        assert_eq!(encode(&[conflict(7), conflict(8)]), VERSION_1);
    }

    #[test]
    fn damaged_bytes_are_no_conflicts() {
        for at in 0..VERSION_1.len() {
            let mut bytes = VERSION_1.to_vec();
            bytes[at] ^= 1;
            assert!(decode(&bytes).is_err(), "byte {at}");
            assert!(decode(&VERSION_1[..at]).is_err(), "{at} bytes");
        }
    }
}
