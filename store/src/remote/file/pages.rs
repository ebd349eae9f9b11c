//! Listings, page by page.
//!
//! A listing keeps its directory open between two pages, and a page token names it. So a directory of any size is read once and never
//! held, and a listing has the guarantee that readdir gives to every program: an entry that is there from the first page to the last is
//! listed, whatever else changes meanwhile. Tokens that need nothing kept are worse. An offset in the directory means something only to
//! the open directory that it came from: on tmpfs before Linux 6.6 and on overlayfs, a removed name shifts the others, so that the next
//! page lacks one, which then looks deleted. The last name of a page would do, but then each page reads the whole directory to find the
//! names that follow: 100 times for 100,000 entries, over the network if it is a network file system.
//!
//! A token is good once, and not forever: an open directory keeps its disk from being unmounted, and there are [`OPEN_MAX`] at most. Who
//! comes back later begins again.

use super::Tree;
use crate::StoreError;
use crate::file::beneath;
use crate::file::patience::Pulse;
use crate::remote::{Name, Page, PageToken, RemoteError, RemotePath};
use parking_lot::Mutex;
use rustix::fs::Dir;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Entries of a page: a few milliseconds of work on a local disk.
const PAGE_ENTRIES: usize = 1000;
/// Listings under way at once: four for each call that a directory takes at once would be 256 descriptors, of 1024 that a process has.
const OPEN_MAX: usize = 64;
/// How long a listing waits for its next page.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The listings under way. Locked for a look-up.
#[derive(Default)]
pub(super) struct Listings(Mutex<BTreeMap<String, Listing>>);

/// An open directory, of which some entries have been read.
struct Listing {
    directory: OwnedFd,
    names: Dir,
    pages: u64,
    used: Instant,
}

impl Listings {
    /// Keeps a listing for its next page.
    fn keep(&self, id: String, listing: Listing) -> PageToken {
        let token = PageToken(format!("{id}-{}", listing.pages));
        let mut open = self.0.lock();
        if open.len() >= OPEN_MAX {
            let oldest = open.iter().min_by_key(|(_, listing)| listing.used).map(|(id, _)| id.clone());
            oldest.map(|oldest| open.remove(&oldest));
        }
        open.insert(id, listing);
        token
    }

    /// Takes the listing that `token` names.
    fn take(&self, token: &PageToken) -> Option<(String, Listing)> {
        let (id, page) = token.0.split_once('-')?;
        let mut open = self.0.lock();
        let is_next = open.get(id).is_some_and(|listing| listing.pages.to_string() == page);
        is_next.then(|| open.remove(id)).flatten().map(|listing| (id.to_owned(), listing))
    }

    /// Closes those that wait for too long. `false` if none is left.
    fn close_idle(&self) -> bool {
        let mut open = self.0.lock();
        open.retain(|_, listing| listing.used.elapsed() < IDLE_MAX);
        !open.is_empty()
    }
}

/// Closes listings that nobody continues, as long as there are some.
pub(super) async fn close_idle(tree: Weak<Tree>) {
    loop {
        tokio::time::sleep(IDLE_MAX).await;
        if !tree.upgrade().is_some_and(|tree: Arc<Tree>| tree.listings.close_idle()) {
            return;
        }
    }
}

impl Tree {
    pub(super) fn list_now(
        &self,
        path: &RemotePath,
        token: Option<&PageToken>,
        pulse: &Pulse,
    ) -> Result<Page, RemoteError> {
        let explain = |error| self.explain(path, error);
        if path.is_hidden() {
            return Err(RemoteError::NotFound(path.clone()));
        }
        // Also in the middle of a listing: its end is a statement about the right root.
        let root = self.root()?;
        let (id, mut listing) = match token {
            Some(token) => self.listings.take(token).ok_or_else(|| StoreError::Unreachable {
                reason: format!("the listing of {path} was not continued in time, and begins again"),
            })?,
            None => {
                let directory = beneath::below(root, path.as_str()).map_err(explain)?;
                let names = Dir::read_from(&directory).map_err(|errno| explain(errno.into()))?;
                let id = format!("{:032x}", crate::entropy::u128());
                (id, Listing { directory, names, pages: 0, used: Instant::now() })
            }
        };
        let mut page = Page::default();
        let mut read = 0;
        while read < PAGE_ENTRIES {
            let Some(entry) = listing.names.read() else {
                // A directory that was removed meanwhile also ends, and has listed nothing since.
                let links = rustix::fs::fstat(&listing.directory).map(|stat| stat.st_nlink);
                return match links.map_err(|errno| explain(errno.into()))? {
                    0 => Err(explain(ErrorKind::NotFound.into())),
                    _ => Ok(page),
                };
            };
            let entry = entry.map_err(|errno| explain(errno.into()))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            pulse.beat();
            read += 1;
            let known = name.to_str().ok().and_then(|text| Name::new(text).ok());
            let Some(name) = known else {
                page.unusable.add(&name.to_string_lossy());
                continue;
            };
            if name.is_upload() {
                self.sweep(&listing.directory, name.as_str());
                continue;
            }
            match self.look(&listing.directory, &name) {
                Ok(Some(entry)) => page.entries.push(entry),
                Ok(None) => page.unusable.add(name.as_str()),
                // Removed since then.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(explain(error)),
            }
        }
        (listing.pages, listing.used) = (listing.pages + 1, Instant::now());
        page.next = Some(self.listings.keep(id, listing));
        Ok(page)
    }
}
