//! Small files beside the cache that help the next opening. They may vanish, or be out of date.

use crate::disk::Disk;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;

/// A longer file is not one of ours.
const BYTES_MAX: u64 = 64 << 20;

/// Loads the note `name`.
pub(super) fn load<T: DeserializeOwned>(disk: &dyn Disk, name: &str) -> io::Result<T> {
    let file = disk.open(name, false)?;
    let len = file.len()?.min(BYTES_MAX);
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Saves the note `name`. It is not synced, since nothing depends on it. After a power cut it may be an older one, or unreadable, which is
/// the same as none.
pub(super) fn store<T: Serialize>(disk: &dyn Disk, name: &str, what: &T) -> io::Result<()> {
    let temporary = format!("{name}.new");
    let file = disk.open(&temporary, true)?;
    file.set_len(0)?;
    file.write_at(&serde_json::to_vec(what)?, 0)?;
    disk.rename(&temporary, name)
}
