//! What the daemon writes into its lock (`daemon.lock` in the state directory): who it is, and where it listens.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What versions before this one wrote in the runtime directory, where systemd kept them; otherwise they wrote nothing.
const KEPT_BY_SYSTEMD: &[u8] = b"systemd";

/// Who holds the lock, or held it last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Its process.
    pub pid: u32,
    /// The computer's name, for people.
    pub host: String,
    /// The run of the kernel that it runs in; what tells computers apart that share a home directory.
    #[serde(default)]
    pub boot: Option<String>,
    /// The runtime directory in which its disks are mounted and kept.
    #[serde(default)]
    pub runtime: PathBuf,
    /// Where it listens; the one that lasts longest comes first.
    #[serde(default)]
    pub sockets: Vec<PathBuf>,
    /// Whether systemd keeps it.
    #[serde(default)]
    pub by_systemd: bool,
    /// Whether it ended as it should.
    #[serde(default)]
    pub ended: bool,
}

impl Holding {
    /// More than any has.
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

    /// What is in a lock; nothing if it makes no sense, as while it is being written.
    pub fn parse(said: &[u8]) -> Option<Self> {
        if said == KEPT_BY_SYSTEMD {
            return Some(Self { by_systemd: true, ..Self::default() });
        }
        serde_json::from_slice(said).ok()
    }

    /// Whether it is another computer's, or was this one's before its last start.
    pub fn is_elsewhere(&self) -> bool {
        self.boot.is_some() && self.boot != boot_id()
    }
}

/// What tells one run of the kernel from another (random(4)).
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_makes_no_sense_is_nobody() {
        let holding =
            Holding { sockets: vec!["/s".into()], ..Holding::of_this_process(Path::new("/r"), true) };
        let said = serde_json::to_vec(&holding).unwrap();
        assert_eq!(Holding::parse(&said), Some(holding.clone()));
        assert_eq!((Holding::parse(b""), Holding::parse(&said[..9])), (None, None));
        assert!(!holding.is_elsewhere());
        assert!(Holding { boot: Some("another".into()), ..holding }.is_elsewhere());
    }

    #[test]
    fn locks_of_former_versions_are_understood() {
        assert!(Holding::parse(b"systemd").is_some_and(|holding| holding.by_systemd));
    }
}
