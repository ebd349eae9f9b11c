//! Small files that are replaced as a whole: after a crash, the old one or the new one is there.

use crate::disk::Disk;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;

/// Longer files are damaged.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a file; `None` where there is none.
pub(super) fn load<T: DeserializeOwned>(disk: &dyn Disk, name: &str) -> io::Result<Option<T>> {
    let file = match disk.open_to_read(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let len = file.len()?;
    if len > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the file {name} is damaged")));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Replaces a file, durably.
pub(super) async fn save<T: Serialize>(disk: &dyn Disk, name: &str, value: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(value).expect("a structure of plain fields becomes JSON");
    let temporary = format!("{name}.new");
    let file = disk.open(&temporary, true)?;
    file.set_len(0)?;
    file.write_at(&bytes, 0)?;
    file.sync().await?;
    disk.rename(&temporary, name)?;
    disk.sync_names().await
}
