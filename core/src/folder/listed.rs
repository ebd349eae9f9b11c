//! The entries of a directory for a person who looks at it: how much of each file is here, and what is not in the remote.

use super::api::FolderError;
use super::entries::Cookie;
use super::node::Ino;
use super::open_folder::Folder;
use crate::store::remote::Kind;
use std::collections::BTreeSet;

/// Entries that are read in one step.
const STEP: usize = 512;

/// Where the bytes of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// This many bytes are here, and the remote has all.
    Cached(u64),
    /// They are here, and the remote does not have them yet.
    Unsent,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Whether it is a directory. Links are not listed: they have nothing that could be kept.
    pub is_directory: bool,
    /// Bytes of a file.
    pub bytes: u64,
    /// Where they are; `None` for a directory.
    pub here: Option<Here>,
    /// Both versions of the file are kept until a person has settled it.
    pub is_in_conflict: bool,
}

impl Folder {
    /// The files and directories in a directory. It is listed if it never was.
    pub async fn listed(&self, path: &str) -> Result<Vec<Listed>, FolderError> {
        let directory = self.resolve(path).await?;
        if self.shared.kind_of(directory)? != Kind::Directory {
            return Err(FolderError::NotDirectory);
        }
        if !self.refresher.is_known(directory) {
            self.refresher.listed(directory).await?;
        }
        let conflicts = self.outbox.conflicts();
        let conflicts: BTreeSet<_> =
            conflicts.into_iter().flat_map(|conflict| [conflict.path, conflict.kept_as]).collect();
        let (mut all, mut after) = (Vec::new(), Cookie::START);
        loop {
            let entries = self.entries_after(directory, after, STEP)?;
            let Some(last) = entries.last() else { return Ok(all) };
            after = last.cookie;
            for entry in &entries {
                let attributes = &entry.attributes;
                let (is_directory, here) = match attributes.kind {
                    Kind::Directory => (true, None),
                    Kind::File => (false, Some(self.here(attributes.ino)?)),
                    Kind::Link => continue,
                };
                let name = entry.name.as_str().to_owned();
                let place = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                all.push(Listed {
                    is_in_conflict: conflicts.contains(&place),
                    name,
                    is_directory,
                    bytes: if is_directory { 0 } else { attributes.len },
                    here,
                });
            }
            tokio::task::yield_now().await;
        }
    }

    fn here(&self, ino: Ino) -> Result<Here, FolderError> {
        let is_own =
            self.shared.contents.has(ino) || self.shared.node(ino).is_some_and(|node| node.differs());
        Ok(match is_own {
            true => Here::Unsent,
            false => {
                Here::Cached(self.local_span(ino)?.map_or(0, |span| self.shared.copy.local_bytes(&span)))
            }
        })
    }
}
