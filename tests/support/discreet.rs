//! Searches everything that a computer has printed and written for the secrets that it was given.

use holdall_servers::secrets;
use memchr::memmem;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;

/// Shorter ones would be found anywhere.
const SECRET_BYTES_MIN: usize = 6;

/// The secrets in a file that a command was given: a passphrase, a recovery key, or credentials in any form.
pub fn secrets_in(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    if let Ok(document) = serde_json::from_str::<Value>(&text) {
        return noted(secrets_of(&document));
    }
    let mut secrets = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('[')) {
        match (line.split_once('='), line.split_once(':')) {
            (Some((name, value)), _) if is_secret(name) => secrets.push(value.trim().to_owned()),
            (Some((name, _)), _) if !name.contains(' ') && name.contains('_') => {}
            (_, Some((_, password))) => secrets.extend([line, password].map(str::to_owned)),
            _ => secrets.push(line.to_owned()),
        }
    }
    secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
    noted(secrets)
}

/// Records the secrets. The run of all tests searches the output of the tests for them.
pub fn noted(found: Vec<String>) -> Vec<String> {
    found.iter().for_each(|secret| secrets::note(secret));
    found
}

/// The secrets in a document.
pub fn secrets_of(document: &Value) -> Vec<String> {
    let of = |(name, value): (&String, &Value)| match value {
        Value::String(text) if is_secret(name) && text.len() >= SECRET_BYTES_MIN => vec![text.clone()],
        value => secrets_of(value),
    };
    match document {
        Value::Object(fields) => fields.iter().flat_map(of).collect(),
        Value::Array(values) => values.iter().flat_map(secrets_of).collect(),
        _ => Vec::new(),
    }
}

/// Whether a value of this name is a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["secret", "token", "password", "passphrase", "recovery_key"].iter().any(|word| name.contains(word))
}

/// Checks that none of the named places contains one of the secrets, in any form.
#[track_caller]
pub fn assert_discreet(places: &[(String, Vec<u8>)], secrets: &[String]) {
    let forms: Vec<_> = secrets.iter().flat_map(|secret| secrets::forms(secret)).collect();
    for form in forms.iter().map(memmem::Finder::new) {
        for (place, bytes) in places {
            assert!(form.find(bytes).is_none(), "{place} says a secret");
        }
    }
}

/// Files below `directory`, except those meant for credentials. Larger files are data.
pub fn files_below(directory: &Path, largest_bytes: u64, places: &mut Vec<(String, Vec<u8>)>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() {
            files_below(&path, largest_bytes, places);
        } else if kind.is_file()
            && !["logins.json", "proxy-login.json"]
                .iter()
                .any(|name| path.file_name() == Some(OsStr::new(name)))
            && path.metadata().is_ok_and(|it| it.len() <= largest_bytes)
        {
            places.push((path.display().to_string(), std::fs::read(&path).unwrap_or_default()));
        }
    }
}

/// The command lines of the product's processes.
pub fn command_lines() -> Vec<(String, Vec<u8>)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let line = |process: std::fs::DirEntry| {
        let program = std::fs::read_link(process.path().join("exe")).ok()?;
        program.file_name()?.to_str()?.starts_with("holdall").then_some(())?;
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        Some((format!("the command line of {}", program.display()), line))
    };
    processes.filter_map(line).collect()
}
