//! Claims in a directory: a claim is a directory of that name, holding one file whose name is the nonce.
//!
//! mkdir is exclusive wherever the directory is stored: on a network file system the server decides it, while the client may decide renames
//! without replacing and locks on its own. A crash between mkdir and the file leaves a claim without an owner; its maker then takes the
//! next turn, as on a WebDAV server.

use super::FileStore;
use super::beneath::{self, Spot};
use crate::{Listed, StoreError};
use rustix::fs::{AtFlags, Mode};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;

impl FileStore {
    pub(super) fn claim_now(&self, name: &str, nonce: u128) -> Result<bool, StoreError> {
        self.expect_here(name)?;
        self.make_claim(name, nonce).map_err(|error| self.explain(name, &error))
    }

    fn make_claim(&self, name: &str, nonce: u128) -> io::Result<bool> {
        let parent = name.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.make_directory(parent)?;
        let spot = self.spot(name)?;
        let nonce = format!("{nonce:032x}");
        match spot.make_directory() {
            Ok(()) => {
                let inside = Spot { directory: self.directory(name)?, leaf: nonce.clone() };
                let mut file = inside.create()?;
                file.write_all(nonce.as_bytes())?;
                file.sync_all()?;
                beneath::sync(&inside.directory)?;
                beneath::sync(&spot.directory)?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.holds(name, &spot, &nonce),
            Err(error) => Err(error),
        }
    }

    /// Whether an existing claim was made under this nonce.
    fn holds(&self, name: &str, spot: &Spot, nonce: &str) -> io::Result<bool> {
        match self.directory(name) {
            Ok(claim) => Ok(beneath::entries(&claim, || ())?.iter().any(|entry| entry.name == nonce)),
            // A file: earlier versions made claims like this.
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                Ok(io::read_to_string(spot.open()?)? == nonce)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a claim and the files in it.
    pub(super) fn remove_claim(&self, name: &str, spot: &Spot) -> io::Result<()> {
        let claim = self.directory(name)?;
        for entry in beneath::entries(&claim, || ())? {
            rustix::fs::unlinkat(&claim, &*entry.name, AtFlags::empty())?;
        }
        Ok(rustix::fs::unlinkat(&spot.directory, &*spot.leaf, AtFlags::REMOVEDIR)?)
    }

    /// Makes a network file system's client read the directory again: a change from this computer invalidates the client's cache.
    pub(super) fn refresh(directory: &OwnedFd) -> io::Result<()> {
        let name = format!(".look-{:032x}", crate::entropy::u128());
        rustix::fs::mkdirat(directory, &*name, Mode::from_raw_mode(0o700))?;
        Ok(rustix::fs::unlinkat(directory, &*name, AtFlags::REMOVEDIR)?)
    }

    /// A claim as a listing shows it.
    pub(super) fn listed_claim(name: String) -> Listed {
        Listed { name, len: 0 }
    }
}
