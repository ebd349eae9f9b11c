//! Keeps a text that the page has for a person, where downloads go.

use crate::bridge::failure;
use holdall::api::{Code, Failure};
use holdall_gui::texts::said;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// File systems take 255 bytes; the number of a second copy has room.
const NAME_LIMIT_BYTES: usize = 200;
/// Somebody who has saved as many of one name has other troubles.
const COPIES_MAX: u32 = 1000;

/// Writes it to a new file that only this user can read: it may be a key. Gives the file.
pub fn save(directory: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    if !is_plain(name) {
        return Err(failure(Code::Usage, said("app.save.name", &[("name", name)])));
    }
    write(directory, name, text).map_err(|error| {
        let directory = directory.display().to_string();
        failure(
            Code::Failed,
            said("app.save.failed", &[("directory", &directory), ("why", &error.to_string())]),
        )
    })
}

/// Whether it is a file's name and nothing else. None of ours is hidden.
fn is_plain(name: &str) -> bool {
    let is_short = (1..=NAME_LIMIT_BYTES).contains(&name.len());
    is_short && !name.starts_with('.') && !name.contains(|c: char| c == '/' || c.is_control())
}

fn write(directory: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    std::fs::create_dir_all(directory)?;
    for copy in 1..=COPIES_MAX {
        let path = directory.join(numbered(name, copy));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// What is there is never overwritten.
fn numbered(name: &str, copy: u32) -> String {
    match (copy, name.rsplit_once('.')) {
        (1, _) => name.to_owned(),
        (_, Some((stem, extension))) => format!("{stem} ({copy}).{extension}"),
        (_, None) => format!("{name} ({copy})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_overwritten_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("Downloads");
        let first = save(&below, "key.txt", "one").unwrap();
        let second = save(&below, "key.txt", "two").unwrap();
        assert_eq!(second.file_name().unwrap(), "key (2).txt");
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "one");
        assert_eq!(std::fs::read_to_string(&second).unwrap(), "two");
        assert_eq!(first.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_name_is_no_path() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(NAME_LIMIT_BYTES + 1);
        for name in ["", "..", ".bashrc", "a/b", "../x", "a\nb", "a\0b", long.as_str()] {
            assert_eq!(save(dir.path(), name, "").unwrap_err().code, Code::Usage, "{name:?}");
        }
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
