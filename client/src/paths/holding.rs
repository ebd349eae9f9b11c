//! The content of the daemon's lock (`daemon.lock` in the state directory): who the daemon is, and where it listens.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The content that earlier versions wrote in the runtime directory under systemd; otherwise they wrote nothing.
const KEPT_BY_SYSTEMD: &[u8] = b"systemd";

/// The process that holds the lock, or held it last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Its process.
    pub pid: u32,
    /// The computer's name, for people.
    pub host: String,
    /// The id of its kernel's run, which distinguishes computers that share a home directory.
    #[serde(default)]
    pub boot: Option<String>,
    /// The runtime directory in which its disks are mounted and kept.
    #[serde(default)]
    pub runtime: PathBuf,
    /// Its sockets; the one that lasts longest comes first.
    #[serde(default)]
    pub sockets: Vec<PathBuf>,
    /// Whether systemd keeps it.
    #[serde(default)]
    pub by_systemd: bool,
    /// Whether it ended properly.
    #[serde(default)]
    pub ended: bool,
}

impl Holding {
    /// Larger than any record.
    pub const BYTES_MAX: u64 = 64 << 10;

    /// This process, which does not listen yet.
    pub fn of_this_process(runtime: &Path, by_systemd: bool) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            pid: std::process::id(),
            host: host.trim().to_owned(),
            boot: boot_id(),
            runtime: runtime.to_owned(),
            sockets: Vec::new(),
            by_systemd,
            ended: false,
        }
    }

    /// Parses a lock's content; `None` if it makes no sense, as while it is being written.
    pub fn parse(said: &[u8]) -> Option<Self> {
        if said == KEPT_BY_SYSTEMD {
            return Some(Self { by_systemd: true, ..Self::default() });
        }
        serde_json::from_slice(said).ok()
    }

    /// Whether it belongs to another computer, or to this one before its last start.
    pub fn is_elsewhere(&self) -> bool {
        self.boot.is_some() && self.boot != boot_id()
    }
}

/// The id of this run of the kernel (random(4)).
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_record_is_read_and_nonsense_is_nobody() {
        let holding =
            Holding { sockets: vec!["/s".into()], ..Holding::of_this_process(Path::new("/r"), true) };
        let said = serde_json::to_vec(&holding).unwrap();
        assert_eq!(Holding::parse(&said), Some(holding.clone()));
        assert_eq!((Holding::parse(b""), Holding::parse(&said[..9])), (None, None));
        assert!(!holding.is_elsewhere());
        assert!(Holding { boot: Some("another".into()), ..holding }.is_elsewhere());
    }

    #[test]
    fn records_of_earlier_versions_are_understood() {
        assert!(Holding::parse(b"systemd").is_some_and(|holding| holding.by_systemd));
    }
}
