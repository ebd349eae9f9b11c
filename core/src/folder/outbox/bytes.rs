//! The bytes of an upload, which do not change while it runs.
//!
//! Small files are read into memory, together with their digest. Large ones are read in place, and each read looks whether the file is still
//! as it was when the upload began. If not, the read fails, and the upload is abandoned before it takes effect.

use super::works::Works;
use crate::disk::DiskFile;
use crate::folder::node::Ino;
use crate::store::remote::ReadAt;
use bytes::Bytes;
use parking_lot::Mutex;
use std::io;
use std::sync::{Arc, Weak};
use tokio::sync::OwnedSemaphorePermit;

/// Files up to this length are read into memory.
pub const IN_MEMORY_MAX: u64 = 16 << 20;
/// Bytes that are read at a time for a digest.
const PIECE_BYTES: usize = 1 << 20;

/// The bytes of an upload.
pub struct Stable {
    /// Where they are read.
    pub content: Arc<dyn ReadAt>,
    /// How many.
    pub len: u64,
    /// Their BLAKE3.
    pub digest: [u8; 32],
}

impl Stable {
    /// No bytes, as those of a link.
    pub fn nothing() -> Self {
        Self {
            content: Arc::new(InMemory { bytes: Bytes::new(), _room: None }),
            len: 0,
            digest: *blake3::hash(&[]).as_bytes(),
        }
    }

    /// Reads all bytes. `room` is the memory that they take.
    pub fn in_memory(file: &dyn DiskFile, len: u64, room: OwnedSemaphorePermit) -> io::Result<Self> {
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, 0)?;
        let digest = *blake3::hash(&bytes).as_bytes();
        Ok(Self { content: Arc::new(InMemory { bytes: bytes.into(), _room: Some(room) }), len, digest })
    }

    /// These bytes. `room` is the memory that they take.
    pub fn of_bytes(bytes: Bytes, room: OwnedSemaphorePermit) -> Self {
        let (len, digest) = (bytes.len() as u64, *blake3::hash(&bytes).as_bytes());
        Self { content: Arc::new(InMemory { bytes, _room: Some(room) }), len, digest }
    }

    /// Reads the bytes here where they are, and the others at the remote.
    pub fn over(works: &Arc<Works>, ino: Ino, generation: u64, len: u64, digest: [u8; 32]) -> Self {
        let runtime = tokio::runtime::Handle::current();
        let works = Arc::downgrade(works);
        Self { content: Arc::new(TakeOver { works, runtime, ino, generation }), len, digest }
    }

    /// Reads the bytes where they are. `known` is their digest, if this generation was read before.
    pub fn in_place(
        works: &Arc<Works>,
        ino: Ino,
        generation: u64,
        file: Arc<dyn DiskFile>,
        len: u64,
        known: Option<[u8; 32]>,
    ) -> io::Result<Self> {
        let digest = match known {
            Some(digest) => digest,
            None => digest_of(&*file, len, || works.is_stopped())?,
        };
        let running = Mutex::new(Running { at: 0, hasher: blake3::Hasher::new() });
        let works = Arc::downgrade(works);
        Ok(Self {
            content: Arc::new(InPlace { works, ino, generation, file, len, digest, running }),
            len,
            digest,
        })
    }
}

fn digest_of(file: &dyn DiskFile, len: u64, is_stopped: impl Fn() -> bool) -> io::Result<[u8; 32]> {
    let (mut hasher, mut piece, mut at) = (blake3::Hasher::new(), vec![0; PIECE_BYTES], 0);
    while at < len {
        if is_stopped() {
            return Err(io::Error::other("uploads have ended"));
        }
        let bytes = &mut piece[..PIECE_BYTES.min((len - at) as usize)];
        file.read_at(bytes, at)?;
        hasher.update(bytes);
        at += bytes.len() as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}

struct InMemory {
    bytes: Bytes,
    /// The memory is free again when the upload has ended.
    _room: Option<OwnedSemaphorePermit>,
}

impl ReadAt for InMemory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes =
            usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..offset + buf.len()));
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Bytes of which some are a version's of the remote. The threads that read an upload may wait.
struct TakeOver {
    works: Weak<Works>,
    runtime: tokio::runtime::Handle,
    ino: Ino,
    generation: u64,
}

impl ReadAt for TakeOver {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let works = self.works.upgrade().ok_or_else(|| io::Error::other("uploads have ended"))?;
        let range = offset..offset + buf.len() as u64;
        let read = works.unless_stopped(works.shared.whole_content(self.ino, range));
        let bytes = self.runtime.block_on(read).ok_or_else(|| io::Error::other("uploads have ended"))?;
        buf.copy_from_slice(&bytes.map_err(|error| io::Error::other(error.to_string()))?);
        match works.is_unchanged(self.ino, self.generation) {
            true => Ok(()),
            false => Err(io::Error::other("the file is being changed")),
        }
    }
}

struct InPlace {
    works: Weak<Works>,
    ino: Ino,
    generation: u64,
    file: Arc<dyn DiskFile>,
    len: u64,
    digest: [u8; 32],
    // Held to add what was just read.
    running: Mutex<Running>,
}

/// The digest of what was read from the beginning, as long as it is read in order.
struct Running {
    at: u64,
    hasher: blake3::Hasher,
}

impl ReadAt for InPlace {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let changed = || io::Error::other("the file is being changed");
        self.file.read_at(buf, offset)?;
        // After the bytes were read: what is written from here on is not among them.
        let works = self.works.upgrade().ok_or_else(|| io::Error::other("uploads have ended"))?;
        if !works.is_unchanged(self.ino, self.generation) {
            return Err(changed());
        }
        let mut running = self.running.lock();
        if running.at == offset {
            running.hasher.update(buf);
            running.at += buf.len() as u64;
            if running.at == self.len && running.hasher.finalize() != self.digest {
                return Err(changed());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::sim::disk::{DiskFaults, SimDisk};

    #[test]
    fn digests_are_those_of_all_bytes() {
        let disk = SimDisk::new(1, DiskFaults::default());
        let file = disk.open("a", true).unwrap();
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES / 2).map(|at| (at % 251) as u8).collect();
        file.write_at(&bytes, 0).unwrap();
        assert_eq!(
            digest_of(&*file, bytes.len() as u64, || false).unwrap(),
            *blake3::hash(&bytes).as_bytes()
        );
        assert!(digest_of(&*file, bytes.len() as u64 + 1, || false).is_err(), "the file is shorter");
        assert!(digest_of(&*file, bytes.len() as u64, || true).is_err(), "nobody waits for it any longer");
    }
}
