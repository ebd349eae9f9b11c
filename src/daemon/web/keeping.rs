//! The part of the pages' state that survives the daemon: the port, and the hashes of the sessions. Invitations do not survive.
//!
//! The file exists while the pages are served, also across restarts and reboots; `holdall web --stop` deletes it, and with it every
//! session. After a crash during a save, the file is the old one or the new one ([`registry::replace`]): at worst a browser that has just
//! signed in must sign in again.

use super::sessions::Kept;
use crate::daemon::registry;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// In the state directory: sessions of browsers on this computer.
pub const OWN: &str = "web-sessions.json";
/// Sessions of browsers of other computers.
pub const OTHERS: &str = "web-listen-sessions.json";
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    version: u32,
    /// The port.
    pub port: u16,
    /// The signed-in browsers.
    pub sessions: Vec<Kept>,
}

/// The file of a former daemon, if it served the pages when it ended.
pub fn recall(file: &Path) -> Option<Served> {
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, "the list of signed-in browsers cannot be read");
            return None;
        }
    };
    let served: Option<Served> = serde_json::from_slice(&text).ok();
    let served = served.filter(|served| served.version == VERSION && served.port != 0);
    if served.is_none() {
        tracing::warn!("the list of signed-in browsers is damaged: they have to sign in again");
    }
    served
}

/// The file, for as long as the pages are served at one port.
pub struct Keeping {
    path: PathBuf,
    port: u16,
    /// Once set, nothing is written any longer.
    ended: bool,
}

impl Keeping {
    /// For the pages at a port.
    pub fn new(path: PathBuf, port: u16) -> Self {
        Self { path, port, ended: false }
    }

    /// Saves the sessions.
    pub fn save(&mut self, sessions: Vec<Kept>) {
        if self.ended {
            return;
        }
        let served = Served { version: VERSION, port: self.port, sessions };
        let text = serde_json::to_vec(&served).expect("numbers and texts");
        if let Err(error) = registry::replace(&self.path, &text) {
            tracing::warn!(%error, "browsers will have to sign in again after a restart of the service");
        }
    }

    /// Writes nothing from now on.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The same, and signs everybody out.
    pub fn delete(&mut self) -> io::Result<()> {
        self.end();
        delete(&self.path)
    }
}

/// Deletes what a former daemon has left.
pub fn delete(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    registry::sync_directory(path.parent().expect("a file lies in a directory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_after_the_end() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join(OWN);
        let mut keeping = Keeping::new(file.clone(), 8420);
        keeping.save(Vec::new());
        assert_eq!(recall(&file).map(|served| served.port), Some(8420));
        keeping.delete().unwrap();
        keeping.save(Vec::new());
        assert!(recall(&file).is_none());
        delete(&file).unwrap();
    }

    #[test]
    fn a_damaged_file_lets_nobody_in() {
        let state = tempfile::tempdir().unwrap();
        for text in
            ["", "{}", r#"{"version":2,"port":1,"sessions":[]}"#, r#"{"version":1,"port":0,"sessions":[]}"#]
        {
            let file = state.path().join(OWN);
            std::fs::write(&file, text).unwrap();
            assert!(recall(&file).is_none(), "{text}");
        }
    }
}
