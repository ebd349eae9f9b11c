//! Small files, each replaced as a whole: after a crash the old or the new one is there.

use crate::error::{PeerError, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The content of a file, if it exists.
pub fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let reading = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > limit {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long")),
            false => Ok(bytes),
        }
    };
    match reading() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, "read", error)),
    }
}

/// Replaces a file, which only its owner can read.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let writing = || -> io::Result<()> {
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    writing().map_err(|error| failed(path, "written", error))
}

/// A failure at a file.
pub fn failed(path: &Path, done: &'static str, error: io::Error) -> PeerError {
    PeerError::File { what: path.display().to_string(), done, error }
}
