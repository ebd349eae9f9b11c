//! The largest drive that this computer can have: its cache is one sparse file as long as the drive, and file systems limit the length of a
//! file (ext4 with blocks of 4 KiB: one block less than 16 TiB).

use super::failure::{self, failure};
use crate::api::{Code, Failure};
use crate::daemon::registry::private_directory;
use crate::sizes::format_bytes;
use holdall_core::units::BLOCK_BYTES;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Refuses a drive of this size if no file in `directory` can be that long, and says how long one can be.
pub fn check(directory: &Path, size_bytes: u64) -> Result<(), Failure> {
    let local = |error: io::Error| failure::local(&error);
    let file = unnamed(directory).map_err(local)?;
    if fits(&file, size_bytes).map_err(local)? {
        return Ok(());
    }
    let blocks = most(size_bytes / BLOCK_BYTES, |blocks| fits(&file, blocks * BLOCK_BYTES));
    let largest = blocks.map_err(local)? * BLOCK_BYTES;
    Err(failure(
        Code::Usage,
        format!(
            "A drive of {} is too large for this computer: the file system of {} holds files of at most {largest} bytes.",
            format_bytes(size_bytes),
            directory.display(),
        ),
        failure::NOTHING_CHANGED,
        "Choose a smaller size, or keep Holdall's cache on XFS or Btrfs (XDG_CACHE_HOME).",
    ))
}

/// The most blocks below `too_many` that fit. `too_many` blocks do not fit, and if a number fits, so does every smaller one.
fn most(too_many: u64, mut fits: impl FnMut(u64) -> io::Result<bool>) -> io::Result<u64> {
    let (mut fit, mut too_many) = (0, too_many);
    while too_many - fit > 1 {
        let middle = fit + (too_many - fit) / 2;
        if fits(middle)? { fit = middle } else { too_many = middle }
    }
    Ok(fit)
}

fn fits(file: &File, bytes: u64) -> io::Result<bool> {
    match file.set_len(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(false),
        // The error of some file systems.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file that vanishes when it is closed.
fn unnamed(directory: &Path) -> io::Result<File> {
    private_directory(directory)?;
    let path = directory.join(format!(".largest-{}", uuid::Uuid::new_v4().simple()));
    let file = OpenOptions::new().create_new(true).write(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_fits_is_found() {
        for largest in [0, 1, 7, 1000, (1 << 32) - 2] {
            let asked = std::cell::Cell::new(0);
            let found = most(1 << 32, |blocks| {
                asked.set(asked.get() + 1);
                Ok(blocks <= largest)
            });
            assert_eq!(found.unwrap(), largest);
            assert!(asked.get() <= 33);
        }
    }

    #[test]
    fn a_size_that_fits_is_accepted_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        check(&dir.path().join("cache"), 64 << 20).unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("cache")).unwrap().count(), 0);
    }
}
