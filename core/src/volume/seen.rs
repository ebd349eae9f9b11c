//! The version that this device saw last: its HEAD and its complete root. With these the drive opens while its store is away.
//!
//! It is saved before `drive.json` names that version. Once the store answers, nothing depends on it.

use crate::disk::Disk;
use crate::format::head::Head;
use crate::format::id::ObjectKind;
use crate::format::root::Root;
use crate::seal::Sealer;
use std::io;

const NAME: &str = "seen";
const TEMPORARY: &str = "seen.new";
/// Begins the file. The digit is the version of its format.
const MAGIC: &[u8; 8] = b"HLDSEEN1";
/// Magic, and the length of the HEAD.
const HEADER_BYTES: usize = 12;
/// A longer file is not one of ours.
const BYTES_MAX: u64 = 64 << 20;

/// A version as it was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub head: Head,
    pub root: Root,
}

impl Seen {
    /// Reads it. None if there is none, or if it is damaged: then the drive opens only with its store.
    pub fn load(disk: &dyn Disk, sealer: &Sealer) -> io::Result<Option<Self>> {
        let file = match disk.open(NAME, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let len = file.len()?.min(BYTES_MAX);
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, 0)?;
        let seen = Self::decode(&bytes, sealer);
        if seen.is_none() {
            tracing::warn!(
                "what was noted of the last version is damaged: the drive opens only with its store"
            );
        }
        Ok(seen)
    }

    /// Replaces it: a crash leaves the old one or the new one.
    pub async fn save(&self, disk: &dyn Disk, sealer: &Sealer) -> io::Result<()> {
        let bytes = self.encode(sealer);
        let file = disk.open(TEMPORARY, true)?;
        file.set_len(0)?;
        file.write_at(&bytes, 0)?;
        file.sync().await?;
        disk.rename(TEMPORARY, NAME)?;
        disk.sync_names().await
    }

    fn encode(&self, sealer: &Sealer) -> Vec<u8> {
        let head = self.head.encode(sealer);
        let root = self.root.seal(sealer, &self.head.root.name(ObjectKind::Root));
        let head_len = (head.len() as u32).to_le_bytes();
        [MAGIC.as_slice(), &head_len, &head, &root].concat()
    }

    /// Each part proves that it is complete and belongs to the family.
    fn decode(bytes: &[u8], sealer: &Sealer) -> Option<Self> {
        let (header, parts) = bytes.split_at_checked(HEADER_BYTES)?;
        let head_len = u32::from_le_bytes(header.strip_prefix(MAGIC)?.try_into().ok()?);
        let (head, root) = parts.split_at_checked(head_len as usize)?;
        let head = Head::decode(sealer, head).ok()?;
        let root = Root::open(sealer, &head.root.name(ObjectKind::Root), root).ok()?;
        Some(Self { head, root })
    }
}
