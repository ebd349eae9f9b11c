//! Which run of the computer the ledger belongs to (`core/FORMAT.md`, "Changes"). It is written when all is well, and replaced by the next
//! run: so a file that names this run says that nothing was lost since.

use crate::disk::Disk;
use std::io;
use uuid::Uuid;

const NAME: &str = "boot";
const TEMPORARY: &str = "boot.new";
const MAGIC: &[u8; 8] = b"HLDBOOT\x01";
const BYTES: usize = 44;
const CRC_AT: usize = BYTES - 4;

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boot {
    /// The folder.
    pub folder: Uuid,
    /// The run of the computer.
    pub boot: Uuid,
}

impl Boot {
    /// Reads it; `None` if there is none or it is damaged.
    pub fn load(disk: &dyn Disk) -> io::Result<Option<Self>> {
        let file = match disk.open_to_read(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = [0; BYTES];
        match file.read_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        Ok(Self::decode(&bytes))
    }

    /// Replaces it durably: a crash leaves the old one or the new one.
    pub async fn save(&self, disk: &dyn Disk) -> io::Result<()> {
        let file = disk.open(TEMPORARY, true)?;
        file.set_len(0)?;
        file.write_at(&self.encode(), 0)?;
        file.sync().await?;
        disk.rename(TEMPORARY, NAME)?;
        disk.sync_names().await
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(self.folder.as_bytes());
        bytes[24..CRC_AT].copy_from_slice(self.boot.as_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let uuid = |at: usize| bytes[at..].first_chunk().map(|uuid| Uuid::from_bytes(*uuid));
        let boot = Self { folder: uuid(8)?, boot: uuid(24)? };
        (*bytes == boot.encode()).then_some(boot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_files_are_read() {
        let boot = Boot { folder: Uuid::from_u128(1 << 100), boot: Uuid::from_u128(2) };
        let bytes = boot.encode();
        assert_eq!(Boot::decode(&bytes), Some(boot));
        for bit in 0..BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Boot::decode(&damaged), None, "bit {bit}");
        }
    }
}
