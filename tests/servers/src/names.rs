//! Host names that only the programs of one test know: `getaddrinfo` of nss_wrapper.

use std::fmt::Write;
use std::fs::File;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// The only names that programs with [`Names::environment`] find.
pub struct Names {
    dir: TempDir,
    changes: std::cell::Cell<u64>,
}

impl Names {
    /// No names yet.
    pub fn new() -> Self {
        let names = Self { dir: tempfile::tempdir().unwrap(), changes: std::cell::Cell::new(0) };
        names.are(&[]);
        names
    }

    /// Replaces the names.
    pub fn are(&self, names: &[(&str, IpAddr)]) {
        let mut hosts = String::new();
        for (name, address) in names {
            let _ = writeln!(hosts, "{address} {name}");
        }
        let (new, place) = (self.dir.path().join("new"), self.hosts());
        std::fs::write(&new, hosts).unwrap();
        // The file is read again only if the second of its time differs.
        self.changes.update(|changes| changes + 1);
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(self.changes.get());
        File::options().write(true).open(&new).unwrap().set_modified(changed).unwrap();
        std::fs::rename(&new, place).unwrap();
    }

    /// The environment of a program that uses these names.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", "libnss_wrapper.so".to_owned()),
            ("NSS_WRAPPER_HOSTS", self.hosts().display().to_string()),
        ]
    }

    fn hosts(&self) -> PathBuf {
        self.dir.path().join("hosts")
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}
