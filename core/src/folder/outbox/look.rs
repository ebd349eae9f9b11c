//! What the remote has at the places of an action whose condition did not hold, or whose outcome is not known.

use super::act::{Halt, Job, Sends};
use super::finish::{Ending, Outcome};
use super::works::Works;
use crate::folder::node::{Brings, Ino, Node, Place};
use crate::folder::outcome::Found;
use crate::folder::plan::Action;
use crate::store::remote::{Entry, Kind, RemoteError, RemotePath};
use holdall_store::pace::in_background;

/// Bytes of one read.
const PIECE_BYTES: u64 = 1 << 20;

impl Works {
    /// Looks after an answer that says that the remote is not as it was thought to be.
    pub(super) async fn look(
        &self,
        job: &Job,
        path: &RemotePath,
        error: &RemoteError,
        sends: Sends,
    ) -> Result<Outcome, Halt> {
        let at = self.entry(path).await?;
        let needs_directory =
            matches!(job.action, Action::Put { .. } | Action::MakeDirectory { .. } | Action::Relocate { .. });
        if at.is_none() && needs_directory && matches!(error, RemoteError::NotFound(_)) {
            let gone = self.directories_gone(job.action.at().parent).await?;
            if !gone.is_empty() {
                return Ok(Outcome::DirectoriesGone(gone));
            }
        }
        let from = self.entry_of(job.action.from()).await?;
        let node = self.shared.node(job.ino).ok_or(Halt::Past)?;
        let is_ours = match (&job.action, &at) {
            (Action::Put { .. }, Some(entry)) => self.is_sent(&node, path, entry, sends).await?,
            (Action::Relocate { from: place, .. }, Some(entry)) => {
                self.is_moved(&node, path, entry, (place, from.as_ref())).await?
            }
            (Action::SetMeta { .. }, Some(entry)) => has_known_bytes(&node, entry),
            _ => false,
        };
        Ok(Outcome::Found(Found { at, from, is_ours }))
    }

    /// Looks what came of an action that is out of date.
    pub(super) async fn settle_intent(&self, job: &Job, path: &RemotePath) -> Result<Ending, Halt> {
        let node = self.shared.node(job.ino).ok_or(Halt::Past)?;
        let intent = node.intent.as_ref().ok_or(Halt::Past)?;
        let at = self.entry(path).await?;
        let old = node.remote.as_ref().map(|known| &known.place);
        let is_relocated = matches!(intent.brings, Brings::Relocated { .. });
        let from = if is_relocated { self.entry_of(old).await? } else { None };
        let is_ours = match (&intent.brings, &at) {
            (_, None) => false,
            (Brings::Content { len, digest, .. }, Some(entry)) => {
                self.is_sent(&node, path, entry, Some((*len, *digest))).await?
            }
            (Brings::Directory, Some(entry)) => entry.kind == Kind::Directory && self.is_empty(path).await?,
            (Brings::Relocated { .. }, Some(entry)) => match old {
                Some(place) => self.is_moved(&node, path, entry, (place, from.as_ref())).await?,
                None => false,
            },
            (Brings::Meta(_), Some(entry)) => has_known_bytes(&node, entry),
        };
        let left = match &intent.brings {
            Brings::Content { resume, .. } if !is_ours => Some((intent.at.clone(), resume.clone())),
            _ => None,
        };
        let ending = self.finish(job, Outcome::Found(Found { at, from, is_ours })).await?;
        if let Some((at, resume)) = left {
            self.abandon(&at, &resume).await;
        }
        Ok(ending)
    }

    /// The directories at and above `directory` that the remote no longer has.
    async fn directories_gone(&self, directory: Ino) -> Result<Vec<Ino>, Halt> {
        let (mut gone, mut at) = (Vec::new(), directory);
        while let Some(place) = self.shared.node(at).and_then(|node| node.remote).map(|known| known.place) {
            let path = self.path_at(&place).ok_or(Halt::Past)?;
            match self.entry(&path).await? {
                Some(entry) if entry.kind == Kind::Directory => break,
                _ => gone.push(at),
            }
            at = place.parent;
        }
        Ok(gone)
    }

    /// Whether the remote has the bytes, or the link, that an upload sends.
    async fn is_sent(
        &self,
        node: &Node,
        path: &RemotePath,
        entry: &Entry,
        sends: Sends,
    ) -> Result<bool, Halt> {
        if entry.kind != node.kind {
            return Ok(false);
        }
        let target = |entry: &Entry| entry.meta.as_ref().and_then(|meta| meta.link.clone());
        match (node.kind, sends) {
            (Kind::Link, _) => Ok(target(entry) == node.meta_here().and_then(|meta| meta.link.clone())),
            (Kind::File, Some((len, digest))) if entry.version.len == len => {
                Ok(self.digest(path, entry).await? == Some(digest))
            }
            (Kind::File | Kind::Directory, _) => Ok(false),
        }
    }

    /// Whether what is at a relocation's new place is the node.
    async fn is_moved(
        &self,
        node: &Node,
        path: &RemotePath,
        entry: &Entry,
        (place, from): (&Place, Option<&Entry>),
    ) -> Result<bool, Halt> {
        let Some(known) = node.remote.as_ref().filter(|_| entry.kind == node.kind) else { return Ok(false) };
        let from = from.filter(|from| from.kind == node.kind);
        if node.kind == Kind::Directory {
            return Ok(from.is_none());
        }
        if entry.version == known.version {
            return Ok(true);
        }
        if entry.version.len != known.version.len {
            return Ok(false);
        }
        // Some servers make a new version of a file that is moved. It is ours if its bytes are the old ones, or nobody has these any longer.
        let Some(from) = from.filter(|from| from.version == known.version) else { return Ok(from.is_none()) };
        if node.kind == Kind::Link {
            return Ok(
                entry.meta.as_ref().map(|meta| &meta.link) == from.meta.as_ref().map(|meta| &meta.link)
            );
        }
        let old = self.path_at(place).ok_or(Halt::Past)?;
        let (new, old) = (self.digest(path, entry).await?, self.digest(&old, from).await?);
        Ok(new.is_some() && new == old)
    }

    /// The BLAKE3 of a version's bytes at the remote. `None` if it has another version by now.
    async fn digest(&self, path: &RemotePath, entry: &Entry) -> Result<Option<[u8; 32]>, Halt> {
        let (mut hasher, mut at, len) = (blake3::Hasher::new(), 0, entry.version.len);
        while at < len {
            let end = len.min(at + PIECE_BYTES);
            let read = in_background(self.shared.remote.read(path, &entry.version, at..end));
            match self.unless_stopped(read).await.ok_or(Halt::Stopped)? {
                Ok(bytes) if bytes.len() as u64 == end - at => drop(hasher.update(&bytes)),
                Ok(_) | Err(RemoteError::Changed(_) | RemoteError::NotFound(_)) => return Ok(None),
                Err(error) => return Err(Halt::Remote(error)),
            }
            at = end;
        }
        Ok(Some(*hasher.finalize().as_bytes()))
    }

    async fn is_empty(&self, path: &RemotePath) -> Result<bool, Halt> {
        let listed = self.unless_stopped(self.shared.remote.list(path, None)).await.ok_or(Halt::Stopped)?;
        match listed {
            Ok(page) => Ok(page.entries.is_empty() && page.next.is_none() && page.unusable.count == 0),
            Err(RemoteError::NotFound(_)) => Ok(false),
            Err(error) => Err(Halt::Remote(error)),
        }
    }

    async fn entry_of(&self, place: Option<&Place>) -> Result<Option<Entry>, Halt> {
        let Some(place) = place else { return Ok(None) };
        let path = self.path_at(place).ok_or(Halt::Past)?;
        self.entry(&path).await
    }

    async fn entry(&self, path: &RemotePath) -> Result<Option<Entry>, Halt> {
        match self.unless_stopped(self.shared.remote.stat(path)).await.ok_or(Halt::Stopped)? {
            Ok(entry) => Ok(Some(entry)),
            Err(RemoteError::NotFound(_)) => Ok(None),
            Err(error) => Err(Halt::Remote(error)),
        }
    }
}

/// Whether an entry has the bytes of the known version, where attributes were set. Some servers make a new version of it then.
fn has_known_bytes(node: &Node, entry: &Entry) -> bool {
    let known = node.remote.as_ref().filter(|known| known.kind == entry.kind);
    known.is_some_and(|known| entry.kind == Kind::Directory || entry.version.len == known.version.len)
}
