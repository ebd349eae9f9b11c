//! Uploads of files: what is there is looked at where the server's conditions do not suffice, the bytes are placed (`place`, `chunked`), and
//! a look shows what the server has now.
//!
//! A server whose times are whole seconds may give two versions of one length the same name. So before such a file is replaced, its second
//! has to be over.

use super::DavRemote;
use super::look::{Found, Looked};
use super::meta::{self, Patch};
use super::patch::merged;
use super::version;
use crate::remote::{Condition, Entry, Kind, Meta, Put, RemoteError, RemotePath};
use std::time::Duration;

/// A larger body is not sent before its condition holds.
const LARGE_BYTES: u64 = 1 << 20;
/// After this, a second is over.
const A_SECOND: Duration = Duration::from_millis(1050);

impl DavRemote {
    pub(super) async fn write_now(&self, put: Put<'_>) -> Result<Entry, RemoteError> {
        let path = put.path;
        self.expect_place(path)?;
        if put.meta.link.is_some() {
            return Err(RemoteError::Unsupported("keep symbolic links"));
        }
        if self.facts.len_max.is_some_and(|most| put.len > most) {
            return Err(RemoteError::TooLarge(path.clone()));
        }
        let before = match self.needs_look(&put) {
            true => Some(self.look_before(&put).await?),
            false => None,
        };
        let placed = match self.is_chunked(put.len) {
            true => self.place_chunks(&put, before.as_ref()).await?,
            false => self.place(&put, before.as_ref()).await?,
        };
        let found = self.look_after(&put, before.as_ref(), &placed.tag).await?;
        let patch = self.patch_of(&put, before.as_ref(), &found, placed.is_new_file);
        self.patch_found(path, found, patch).await
    }

    /// Whether the conditions that the server heeds do not suffice.
    fn needs_look(&self, put: &Put<'_>) -> bool {
        let habits = &self.habits;
        let adds_attributes = habits.keeps_properties && !put.meta.xattrs.is_empty();
        let is_chunked = self.is_chunked(put.len);
        let is_enough = match &put.when {
            Condition::Absent if habits.puts_whole && !is_chunked => habits.heeds_absent,
            Condition::Absent => habits.heeds_overwrite && !is_chunked,
            Condition::Matches(version) => {
                !version.tag.is_empty() && habits.heeds_matches && habits.tells_versions && habits.puts_whole
            }
            // A directory is never replaced.
            Condition::Always => habits.tells_versions && habits.puts_whole && !is_chunked,
        };
        !is_enough || put.len > LARGE_BYTES || (adds_attributes && put.when != Condition::Absent)
    }

    /// Looks at what is to be replaced, and waits until its second is over.
    async fn look_before(&self, put: &Put<'_>) -> Result<Looked, RemoteError> {
        let looked = self.look(put.path).await?;
        check(put.path, &put.when, looked.found.as_ref())?;
        if let Some(found) = looked.found.as_ref().filter(|_| !self.habits.tells_versions) {
            let written = found.resource.modified;
            let is_over = looked.now.zip(written).is_some_and(|(now, written)| {
                now.duration_since(written).is_ok_and(|age| age >= Duration::from_secs(1))
            });
            if found.entry.version.len == put.len && !is_over {
                tokio::time::sleep(A_SECOND).await;
            }
        }
        Ok(looked)
    }

    /// What the server has after an upload that it answered well. `tag` is the ETag of its answer.
    async fn look_after(
        &self,
        put: &Put<'_>,
        before: Option<&Looked>,
        tag: &str,
    ) -> Result<Found, RemoteError> {
        let Some(found) = self.look(put.path).await?.found else {
            return Err(self.unreachable("took an upload, and does not have it"));
        };
        let now = &found.entry.version;
        if found.entry.kind != Kind::File {
            return Err(RemoteError::Changed(put.path.clone()));
        }
        let knows_tag = self.habits.tells_put_tags && !tag.is_empty() && !now.tag.is_empty();
        if now.len != put.len {
            return Err(self.unreachable(&format!("took {} bytes, and has {}", put.len, now.len)));
        }
        if knows_tag && now.tag != tag {
            // Somebody else has replaced it since.
            return Err(self.unreachable("has another file already than was uploaded a moment ago"));
        }
        let replaced = match (&put.when, before) {
            (Condition::Matches(version), _) => Some(version),
            (_, Some(before)) => before.file().map(|found| &found.entry.version),
            (_, None) => None,
        };
        match replaced == Some(now) && !knows_tag {
            true => Err(self.unreachable("took an upload, and still has the old file")),
            false => Ok(found),
        }
    }

    /// The properties to set after an upload. A new file under the old name has lost those of the old one.
    fn patch_of(&self, put: &Put<'_>, before: Option<&Looked>, found: &Found, is_new_file: bool) -> Patch {
        let none = Meta::default();
        let old = before.and_then(Looked::file).and_then(|old| old.entry.meta.as_ref()).unwrap_or(&none);
        let mode = put.meta.mode.or(old.mode.filter(|_| is_new_file));
        let xattrs = match is_new_file || !put.meta.xattrs.is_empty() {
            true => Some(merged(&old.xattrs, &put.meta.xattrs)),
            false => None,
        };
        let is_sent = |mtime| self.habits.obeys_mtime && meta::seconds(mtime).is_some();
        let mtime = put.meta.mtime.filter(|mtime| !is_sent(*mtime));
        Patch { mode, mtime: mtime.map(|mtime| (mtime, found.entry.version.clone())), xattrs }
    }
}

/// An error unless what was found at a file's name may be replaced.
pub(super) fn check(path: &RemotePath, when: &Condition, found: Option<&Found>) -> Result<(), RemoteError> {
    let is_fine = match (when, found.map(|found| &found.entry)) {
        (_, Some(entry)) if entry.kind != Kind::File => false,
        (Condition::Always, _) | (Condition::Absent, None) => true,
        (Condition::Absent, Some(_)) | (Condition::Matches(_), None) => false,
        (Condition::Matches(version), Some(entry)) => entry.version == *version,
    };
    if is_fine { Ok(()) } else { Err(RemoteError::Changed(path.clone())) }
}

/// Where an upload has put its bytes.
pub(super) struct Placed {
    /// The ETag of the answer; empty if it has none, or is about another name.
    pub tag: String,
    /// The name belongs to a new file now, which has no properties of the old one.
    pub is_new_file: bool,
}

impl Placed {
    /// From the answer to a PUT.
    pub fn straight(headers: &reqwest::header::HeaderMap) -> Self {
        Self { tag: version::tag_of(headers), is_new_file: false }
    }
}
