//! Passphrases and recovery keys: read from files or a terminal, never from the command line, where every process can read them.

use crate::api::Code;
use crate::failure::{CliError, NOTHING_DONE, why};
use crate::terminal;
use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write, stdin};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// U+FEFF, the byte order mark.
const MARK: char = '\u{feff}';

/// The longest passphrase or key. A larger file is hardly the intended one.
const SECRET_LIMIT_BYTES: u64 = 4096;

/// The secret in `path`, or in standard input for `-`. One newline at its end is not part of it, nor is the byte order mark with which some
/// editors begin a UTF-8 file.
pub fn read(path: &Path, what: &str) -> Result<String, CliError> {
    let shown = shown(path);
    // Two more for the newline, and one more to detect that it is too long.
    let text = read_bounded(path, what, SECRET_LIMIT_BYTES + 3 + MARK.len_utf8() as u64)?;
    let text = text.strip_prefix(MARK).unwrap_or(&text);
    let secret = text.strip_suffix('\n').unwrap_or(text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    match secret.len() as u64 {
        0 => Err(CliError::usage(
            format!("There is no {what} in {shown}."),
            format!("Write the {what} into it."),
        )),
        1..=SECRET_LIMIT_BYTES => Ok(secret.to_owned()),
        _ => Err(CliError::usage(
            format!("The text in {shown} is too long for a {what}."),
            format!(
                "Give a file that holds the {what} and nothing else, at most {SECRET_LIMIT_BYTES} bytes."
            ),
        )),
    }
}

/// The text in `path`, or in standard input for `-`; an error if it is empty or longer than `limit_bytes`.
pub fn read_text(path: &Path, what: &str, limit_bytes: u64) -> Result<String, CliError> {
    let text = read_bounded(path, what, limit_bytes + 1)?;
    if text.trim().is_empty() {
        let message = format!("There are no {what} in {}.", shown(path));
        return Err(CliError::usage(message, format!("Write the {what} into it.")));
    }
    if text.len() as u64 > limit_bytes {
        let message = format!("The text in {} is too long for {what}.", shown(path));
        return Err(CliError::usage(message, format!("Give a file that holds the {what} and nothing else.")));
    }
    Ok(text)
}

/// A new passphrase: from `file`, otherwise from the terminal. Without a terminal, the error suggests `option`.
pub async fn new_passphrase(file: Option<&Path>, name: &str, option: &str) -> Result<String, CliError> {
    match file {
        Some(path) => read(path, "passphrase"),
        None if terminal::is_there() => terminal::ask_new_passphrase(name).await,
        None => Err(CliError::usage(
            format!("{name} needs a passphrase, and there is no terminal to ask for it."),
            format!("Give {option}."),
        )),
    }
}

fn shown(path: &Path) -> Cow<'_, str> {
    if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() }
}

fn read_bounded(path: &Path, what: &str, limit: u64) -> Result<String, CliError> {
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => stdin().take(limit).read_to_string(&mut text),
        false => File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)),
    };
    read.map(|_| text).map_err(|error| {
        let message = format!("Cannot read the {what} from {}: {}.", shown(path), why(&error));
        CliError::usage(message, "Check the file's name, and that you may read it.")
    })
}

/// A new file for a recovery key. It is created before the drive is, because a key that cannot be written would be lost; and deleted again
/// if no key comes.
#[derive(Debug)]
pub struct RecoveryKeyFile {
    path: PathBuf,
    file: File,
    written: bool,
}

impl RecoveryKeyFile {
    /// Creates the file, for its owner only. An existing file is left alone.
    pub fn create(path: &Path) -> Result<RecoveryKeyFile, CliError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CliError::new(
                Code::Exists,
                format!("{} exists already.", path.display()),
                "Nothing was done, and the file is unchanged: it may hold another drive's key.",
                "Give --recovery-key-out a file that does not exist.",
            ),
            _ => CliError::new(
                Code::Failed,
                format!("Cannot write the recovery key to {}: {}.", path.display(), why(&error)),
                NOTHING_DONE,
                "Give --recovery-key-out a file that you may create.",
            ),
        })?;
        Ok(RecoveryKeyFile { path: path.to_owned(), file, written: false })
    }

    /// Writes the key. The file then stays.
    pub fn write(mut self, key: &str) -> io::Result<()> {
        // Part of a key is better than nothing, even if the disk is full.
        self.written = true;
        self.file.write_all(format!("{key}\n").as_bytes())?;
        self.file.sync_all()
    }
}

impl Drop for RecoveryKeyFile {
    fn drop(&mut self) {
        if !self.written {
            // It is empty; at worst it stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn holding(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, content).unwrap();
        (dir, path)
    }

    #[test]
    fn one_newline_is_stripped_and_everything_else_counts() {
        for (content, secret) in [
            ("hunter2\n", "hunter2"),
            ("hunter2", "hunter2"),
            (" a b \r\n", " a b "),
            ("two\n\n", "two\n"),
            ("\u{feff}hunter2\r\n", "hunter2"),
            ("a\u{feff}b", "a\u{feff}b"),
        ] {
            let (_dir, path) = holding(content.as_bytes());
            assert_eq!(read(&path, "passphrase").unwrap(), secret);
        }
    }

    #[test]
    fn empty_oversized_and_binary_secrets_are_refused() {
        let long = vec![b'x'; SECRET_LIMIT_BYTES as usize + 1];
        for content in [&b""[..], b"\n", &long, b"\xff\xfe", b"\xef\xbb\xbf\n"] {
            let (_dir, path) = holding(content);
            let error = read(&path, "passphrase").unwrap_err();
            assert!(matches!(error, CliError::Failed(failure) if failure.code == Code::Usage));
        }
    }

    #[test]
    fn a_recovery_key_file_is_private_and_never_overwrites() {
        let (_dir, path) = holding(b"old");
        let error = RecoveryKeyFile::create(&path).unwrap_err();
        assert!(matches!(error, CliError::Failed(failure) if failure.code == Code::Exists));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");

        let new = path.with_file_name("new");
        drop(RecoveryKeyFile::create(&new).unwrap());
        assert!(!new.exists());
        RecoveryKeyFile::create(&new).unwrap().write("abc").unwrap();
        assert_eq!(std::fs::read(&new).unwrap(), b"abc\n");
        assert_eq!(new.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
