//! Saves a text of the page in the downloads directory.

use crate::bridge::failure;
use holdall_client::api::{Code, Failure};
use holdall_gui::texts::said;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// File systems allow 255 bytes; this leaves space for the number of a further copy.
const NAME_LIMIT_BYTES: usize = 200;
/// A bound on the search: nobody saves this many files of one name.
const COPIES_MAX: u32 = 1000;

/// Writes the text to a new file that only this user can read, because it may be a key. Returns the file.
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

/// Whether it is a file name and nothing else. None of our files is hidden.
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

/// Numbers further copies, so that no file is overwritten.
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
    fn saved_files_overwrite_nothing_and_are_private() {
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
    fn a_name_cannot_be_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(NAME_LIMIT_BYTES + 1);
        for name in ["", "..", ".bashrc", "a/b", "../x", "a\nb", "a\0b", long.as_str()] {
            assert_eq!(save(dir.path(), name, "").unwrap_err().code, Code::Usage, "{name:?}");
        }
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
