//! Copies and moves at the server.
//!
//! A MOVE replaces whole trees, and some servers answer one well and do nothing. So both ends are looked at before, unless the server heeds
//! `Overwrite: F`, and the new end after. A refusal that may hide a success, as that of a proxy, is followed by a look, and never by a second
//! try in the dark.

use super::look::{Found, Looked};
use super::meta::Patch;
use super::place::{is_done, overwriting};
use super::write::check;
use super::{DESTINATION, DavRemote, request};
use crate::StoreError;
use crate::dav::http::{Answer, Request};
use crate::remote::{Condition, Entry, Kind, Name, Relocation, RemoteError, RemotePath, Version};
use reqwest::StatusCode;
use std::sync::atomic::Ordering::Relaxed;
use url::Url;

/// How a MOVE or COPY was answered.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is returned")]
pub(super) enum Moved {
    Done,
    Refused(Answer),
}

impl DavRemote {
    pub(super) async fn relocate_now(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: &Condition,
        how: Relocation,
    ) -> Result<Entry, RemoteError> {
        let Some(source) = self.look(from).await?.found else { return Err(self.missing(from).await) };
        let is_tree = source.entry.kind == Kind::Directory;
        if !is_tree && source.entry.version != *version {
            return Err(RemoteError::Changed(from.clone()));
        }
        if is_tree && (how == Relocation::Copy || !self.facts.moves_trees) {
            return Err(RemoteError::Unsupported("move a directory with all that is in it"));
        }
        if from == to {
            return Ok(source.entry);
        }
        if is_tree && to.is_within(from) {
            let reason = "a directory cannot be moved into itself".to_owned();
            return Err(RemoteError::Forbidden { path: to.clone(), reason });
        }
        if self.is_spelling(from, to) && how == Relocation::Move {
            return self.spell(from, to, source).await;
        }
        let mut overwrites = *when != Condition::Absent && !is_tree;
        if overwrites || !self.habits.heeds_overwrite {
            let there = self.look(to).await?;
            match is_tree && there.found.is_some() {
                true => return Err(RemoteError::Changed(to.clone())),
                false => check(to, when, there.found.as_ref())?,
            }
            overwrites &= there.found.is_some();
        }
        self.move_found(from, to, overwrites, how, source).await
    }

    /// Moves or copies what was found at `from`, and looks at what is at `to` then.
    async fn move_found(
        &self,
        from: &RemotePath,
        to: &RemotePath,
        overwrites: bool,
        how: Relocation,
        source: Found,
    ) -> Result<Entry, RemoteError> {
        let method = if how == Relocation::Move { "MOVE" } else { "COPY" };
        let at = |path| match source.entry.kind {
            Kind::Directory => self.directory_url(path),
            Kind::File | Kind::Link => self.url(path),
        };
        let refusal = match self.send_move(method, at(from), &at(to), overwrites).await {
            Ok(Moved::Done) => None,
            Ok(Moved::Refused(answer)) => Some(answer),
            Err(busy @ StoreError::Busy { .. }) => return Err(busy.into()),
            Err(error) => {
                // The answer is lost. A look at both ends shows whether it took effect.
                return match self.moved_after_all(from, to, how, &source).await {
                    Some(found) => self.with_meta(to, found, &source).await,
                    None => Err(error.into()),
                };
            }
        };
        if let Some(answer) = refusal {
            let status = answer.status;
            let error = match status {
                StatusCode::PRECONDITION_FAILED => RemoteError::Changed(to.clone()),
                StatusCode::NOT_FOUND | StatusCode::CONFLICT => {
                    self.without_parent(to, RemoteError::NotFound(to.clone())).await
                }
                _ => self.explain(to, answer).await,
            };
            let may_be_done = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED;
            return match may_be_done {
                true => match self.moved_after_all(from, to, how, &source).await {
                    Some(found) => self.with_meta(to, found, &source).await,
                    None => Err(error),
                },
                false => Err(error),
            };
        }
        let done = self.look(to).await?.found.filter(|found| is_same(found, &source));
        let Some(found) = done else { return Err(self.unreachable(IDLE)) };
        if how == Relocation::Move && !self.habits.moves && self.look(from).await?.found.is_some() {
            return Err(self.unreachable(IDLE));
        }
        self.with_meta(to, found, &source).await
    }

    /// What is at `to`, if a MOVE whose answer says otherwise took effect.
    async fn moved_after_all(
        &self,
        from: &RemotePath,
        to: &RemotePath,
        how: Relocation,
        source: &Found,
    ) -> Option<Found> {
        if how == Relocation::Copy || self.look(from).await.ok()?.found.is_some() {
            return None;
        }
        self.look(to).await.ok()?.found.filter(|found| is_same(found, source))
    }

    /// Gives a file what it had before a COPY or MOVE that lost it.
    async fn with_meta(&self, to: &RemotePath, found: Found, source: &Found) -> Result<Entry, RemoteError> {
        let had = source.entry.meta.clone().unwrap_or_default();
        if found.entry.kind == Kind::Directory {
            return Ok(found.entry);
        }
        let mtime = had.mtime.filter(|_| self.facts.keeps_mtime);
        let mtime = mtime.map(|mtime| (mtime, found.entry.version.clone()));
        self.patch_found(to, found, Patch { mode: had.mode, mtime, xattrs: Some(had.xattrs) }).await
    }

    /// Whether both are one name to the server.
    fn is_spelling(&self, from: &RemotePath, to: &RemotePath) -> bool {
        let folds = |path: &RemotePath| match self.facts.folds_case {
            true => path.as_str().to_lowercase(),
            false => path.as_str().to_owned(),
        };
        // Without tables for normal forms: what differs in letters beyond ASCII may be one name.
        let plain = |text: String| match self.facts.folds_forms {
            true => text.chars().filter(char::is_ascii).collect(),
            false => text,
        };
        plain(folds(from)) == plain(folds(to))
    }

    /// Gives a file another spelling of its own name. A server that takes the old spelling for something that would be replaced is asked to
    /// move it away first: at no moment is it without a name.
    async fn spell(&self, from: &RemotePath, to: &RemotePath, source: Found) -> Result<Entry, RemoteError> {
        if let Some(there) = self.look(to).await?.found
            && there.entry.version != source.entry.version
        {
            return Err(RemoteError::Changed(to.clone()));
        }
        match self.send_move("MOVE", self.url(from), &self.url(to), false).await? {
            Moved::Done => {}
            Moved::Refused(answer) if answer.status == StatusCode::PRECONDITION_FAILED => {
                answer.drain().await;
                let (directory, _) = to.split().expect("the root has no other name");
                let temporary = self.temporaries.take();
                let aside = self.url(&temporary.within(&directory));
                self.expect_moved(to, self.send_move("MOVE", self.url(from), &aside, false).await?).await?;
                let there = self.send_move("MOVE", aside.clone(), &self.url(to), false).await;
                if !matches!(there, Ok(Moved::Done)) {
                    // Back to the name that it had.
                    self.send_move("MOVE", aside, &self.url(from), false).await?;
                }
                self.expect_moved(to, there?).await?;
            }
            Moved::Refused(answer) => return Err(self.explain(to, answer).await),
        }
        let done = self.look(to).await?.found.filter(|found| is_same(found, &source));
        done.map(|found| found.entry).ok_or_else(|| self.unreachable(IDLE))
    }

    async fn expect_moved(&self, path: &RemotePath, moved: Moved) -> Result<(), RemoteError> {
        match moved {
            Moved::Done => Ok(()),
            Moved::Refused(answer) => Err(self.explain(path, answer).await),
        }
    }

    /// One MOVE or COPY. Apache needs the whole address as its destination. A server behind another one does not know under which address it
    /// was asked, and may need the path alone: it refuses the address with 400 or 502, and only if nothing has changed it is asked again.
    pub(super) async fn send_move(
        &self,
        method: &str,
        from: Url,
        to: &Url,
        overwrites: bool,
    ) -> Result<Moved, StoreError> {
        let wants_path = self.wants_paths.load(Relaxed);
        let destination = if wants_path { to.path() } else { to.as_str() };
        let ask = request(method, from.clone()).with(DESTINATION, destination);
        let ask = Request { once: true, ..overwriting(ask, overwrites) };
        let answer = self.client.send(&ask).await?;
        if is_done(&answer) {
            answer.drain().await;
            return Ok(Moved::Done);
        }
        let may_want_path = matches!(answer.status, StatusCode::BAD_REQUEST | StatusCode::BAD_GATEWAY);
        if wants_path || !may_want_path || !self.is_untouched(&from, to).await {
            return Ok(Moved::Refused(answer));
        }
        let ask = request(method, from).with(DESTINATION, to.path());
        let again = self.client.send(&Request { once: true, ..overwriting(ask, overwrites) }).await?;
        match is_done(&again) {
            true => {
                self.wants_paths.store(true, Relaxed);
                again.drain().await;
                Ok(Moved::Done)
            }
            // The first answer was about the destination that everybody uses.
            false => Ok(Moved::Refused(answer)),
        }
    }

    /// Whether the old end is there and the new one is not, so that nothing can be lost or done twice.
    async fn is_untouched(&self, from: &Url, to: &Url) -> bool {
        let (root, name) = (RemotePath::root(), Name::of_root());
        let from = self.look_at(&root, from.clone(), &name).await;
        let to = self.look_at(&root, to.clone(), &name).await;
        let is_there = |looked: Result<Looked, _>| looked.map(|looked| looked.found.is_some());
        matches!((is_there(from), is_there(to)), (Ok(true), Ok(false)))
    }
}

const IDLE: &str = "answered a move well, and did not do it";

/// Whether this can be what was at the other end.
fn is_same(found: &Found, source: &Found) -> bool {
    let (found, source) = (&found.entry, &source.entry);
    found.kind == source.kind && (found.kind == Kind::Directory || found.version.len == source.version.len)
}
