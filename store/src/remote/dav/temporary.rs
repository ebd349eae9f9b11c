//! Names of files under way. They carry the device, which alone removes them, and this opening of the remote.

use crate::remote::{Name, RemotePath, UPLOAD_PREFIX};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use uuid::Uuid;

/// This device's files under way.
pub(super) struct Temporaries {
    /// How the names of this device's begin.
    device: String,
    /// Those that this process is at. Held for a look-up.
    alive: Mutex<BTreeSet<String>>,
}

/// A name that nobody else uses, as long as this lives.
pub(super) struct Temporary<'a> {
    all: &'a Temporaries,
    name: Name,
}

impl Temporaries {
    pub fn new(device: Uuid) -> Self {
        let device = format!("{UPLOAD_PREFIX}{}-", device.simple());
        Self { device, alive: Mutex::default() }
    }

    /// A fresh name.
    pub fn take(&self) -> Temporary<'_> {
        let name = format!("{}{:016x}", self.device, crate::entropy::u128() as u64);
        self.alive.lock().insert(name.clone());
        Temporary { all: self, name: Name::new(&name).expect("it is short, and has no slash") }
    }

    /// Whether this device left it behind.
    pub fn is_left(&self, name: &str) -> bool {
        name.starts_with(&self.device) && !self.alive.lock().contains(name)
    }

    /// The name of an upload in chunks, which is no name of a file.
    pub fn chunks(&self) -> String {
        format!("{}{:016x}", self.device.trim_start_matches('.'), crate::entropy::u128() as u64)
    }

    /// Whether an upload in chunks is this device's.
    pub fn is_own_chunks(&self, name: &str) -> bool {
        let ours = name.strip_prefix(self.device.trim_start_matches('.'));
        ours.is_some_and(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }
}

impl Temporary<'_> {
    /// Its path in a directory.
    pub fn within(&self, directory: &RemotePath) -> RemotePath {
        directory.join(&self.name)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        self.all.alive.lock().remove(self.name.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_devices_leftovers_are_its_own() {
        let [ours, theirs] = [1, 2].map(|id| Temporaries::new(Uuid::from_u128(id)));
        let name = {
            let temporary = ours.take();
            assert!(!ours.is_left(temporary.name.as_str()), "it is under way");
            assert!(temporary.name.is_upload());
            temporary.name.to_string()
        };
        assert!(ours.is_left(&name) && !theirs.is_left(&name));
        let chunks = ours.chunks();
        assert!(ours.is_own_chunks(&chunks) && !theirs.is_own_chunks(&chunks));
        assert!(!ours.is_own_chunks(&format!("{chunks}/..")) && !ours.is_own_chunks("web-file-upload-1"));
    }
}
