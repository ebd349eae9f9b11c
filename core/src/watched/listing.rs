//! The whole tree of a remote. It is complete, or it is an error: nothing is concluded from a part.

use super::TEMPORARY_PREFIX;
use crate::planted::{self, Bug};
use crate::store::remote::{Kind, Meta, Remote, RemoteError, RemotePath, Unusable, Version};
use std::collections::{BTreeMap, HashSet};

/// A file, link or directory of the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct There {
    /// What it is.
    pub kind: Kind,
    /// Its version.
    pub version: Version,
    /// What it has beside its bytes, where the listing shows it.
    pub meta: Option<Meta>,
}

/// All of a remote.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// By path.
    pub entries: BTreeMap<RemotePath, There>,
    /// Names that no file here can have.
    pub unusable: Unusable,
}

/// Why nothing is known of the remote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// A request failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The server gave the same place twice.
    #[error("the server repeats a page of the listing of {0}")]
    Repeated(RemotePath),
}

/// Directories below each other that are followed: a server may list a directory inside itself for ever.
const DEPTH_MAX: usize = 256;

/// Lists everything.
pub async fn list(remote: &dyn Remote) -> Result<Listing, ListingError> {
    let mut listing = Listing::default();
    let mut open = vec![RemotePath::root()];
    while let Some(directory) = open.pop() {
        match list_one(remote, &directory, &mut listing).await {
            Ok(below) => open.extend(below),
            // Another program has removed it since its parent was listed.
            Err(ListingError::Remote(RemoteError::NotFound(path)))
                if path == directory && !directory.is_root() =>
            {
                listing.entries.remove(&directory);
            }
            Err(ListingError::Remote(_)) if planted::has(Bug::CutListingBelieved) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listing)
}

async fn list_one(
    remote: &dyn Remote,
    directory: &RemotePath,
    listing: &mut Listing,
) -> Result<Vec<RemotePath>, ListingError> {
    let (mut seen, mut at, mut below) = (HashSet::new(), None, Vec::new());
    loop {
        let page = remote.list(directory, at.as_ref()).await?;
        listing.unusable.count += page.unusable.count;
        for name in page.unusable.examples {
            listing.unusable.count -= 1;
            listing.unusable.add(&name);
        }
        for entry in page.entries {
            let path = directory.join(&entry.name);
            let is_own = entry.name.as_str() == super::MARKER && directory.is_root();
            if is_own || entry.name.is_upload() || entry.name.as_str().starts_with(TEMPORARY_PREFIX) {
                continue;
            }
            if entry.kind == Kind::Directory {
                if path.names().count() >= DEPTH_MAX {
                    listing.unusable.add(path.as_str());
                    continue;
                }
                // An entry may come twice.
                if !listing.entries.contains_key(&path) {
                    below.push(path.clone());
                }
            }
            let there = There { kind: entry.kind, version: entry.version, meta: entry.meta };
            listing.entries.insert(path, there);
        }
        match page.next {
            None => return Ok(below),
            Some(next) if !seen.insert(next.0.clone()) => {
                return Err(ListingError::Repeated(directory.clone()));
            }
            Some(next) => at = Some(next),
        }
    }
}
