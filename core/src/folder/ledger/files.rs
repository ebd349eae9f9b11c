//! The log's files among others in the folder's directory: all of their names begin in one way, and the log sees no others.

use crate::disk::{Disk, DiskFile, FileSize, Sync};
use std::io;
use std::sync::Arc;
use uuid::Uuid;

const PREFIX: &str = "changes-";

/// The part of a directory whose names begin so.
pub(super) struct LogFiles(pub Arc<dyn Disk>);

fn full(name: &str) -> String {
    format!("{PREFIX}{name}")
}

impl Disk for LogFiles {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        self.0.open(&full(name), create)
    }

    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.0.open_to_read(&full(name))
    }

    fn size_of(&self, name: &str) -> io::Result<FileSize> {
        self.0.size_of(&full(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.0.list()?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_owned).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(&full(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(&full(from), &full(to))
    }

    fn sync_names(&self) -> Sync {
        self.0.sync_names()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }

    fn boot(&self) -> Option<Uuid> {
        self.0.boot()
    }
}
