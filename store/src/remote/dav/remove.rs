//! Removals, and directories.
//!
//! DELETE of a collection is always recursive (RFC 4918, section 9.6.1). So a file's is preceded by a look, since a directory may have its
//! name by now, and a directory's by a listing. What another program puts into a directory between the listing and the DELETE is lost, but
//! on servers whose ETag of a collection changes with its members and is heeded.

use super::listing::Listed;
use super::place::is_done;
use super::version;
use super::write::check;
use super::{DavRemote, request};
use crate::dav::http::Request;
use crate::remote::{Condition, Entry, Kind, RemoteError, RemotePath, Version};
use reqwest::header::IF_MATCH;
use reqwest::{Method, StatusCode};
use url::Url;

/// How a DELETE went.
enum Gone {
    Done,
    /// Nothing was there.
    Absent,
    /// The condition does not hold.
    Changed,
}

impl DavRemote {
    pub(super) async fn remove_now(&self, path: &RemotePath, when: &Condition) -> Result<(), RemoteError> {
        let looked = self.look(path).await?;
        let Some(found) = &looked.found else { return Err(self.missing(path).await) };
        check(path, when, Some(found))?;
        let version = &found.entry.version;
        let guard = (self.habits.heeds_matches && !version.tag.is_empty()).then_some(version);
        let gone = match self.delete(path, self.url(path), guard).await? {
            // A fresh ETag may be weak, and match nothing.
            Gone::Changed => {
                check(path, &Condition::Matches(version.clone()), self.look(path).await?.found.as_ref())?;
                self.delete(path, self.url(path), None).await?
            }
            gone => gone,
        };
        match gone {
            Gone::Done => Ok(()),
            Gone::Absent => Err(self.missing(path).await),
            Gone::Changed => Err(RemoteError::Changed(path.clone())),
        }
    }

    pub(super) async fn remove_directory_now(&self, path: &RemotePath) -> Result<(), RemoteError> {
        let listed = self.expect_empty(path).await?;
        for (name, resource) in &listed.uploads {
            self.discard(&path.join(name), resource.is_collection).await?;
        }
        let itself = listed.itself.as_ref().map(version::of);
        // The ETag is that of before the leftovers were removed.
        let guard = itself.filter(|itself| {
            self.habits.guards_collections && listed.uploads.is_empty() && !itself.tag.is_empty()
        });
        let gone = match self.delete(path, self.directory_url(path), guard.as_ref()).await? {
            Gone::Changed => {
                self.expect_empty(path).await?;
                self.delete(path, self.directory_url(path), None).await?
            }
            gone => gone,
        };
        match gone {
            Gone::Done => Ok(()),
            Gone::Absent => Err(self.missing(path).await),
            Gone::Changed => Err(RemoteError::NotEmpty(path.clone())),
        }
    }

    /// A directory's listing, which holds nothing but what this device left behind.
    async fn expect_empty(&self, path: &RemotePath) -> Result<Listed, RemoteError> {
        let Some(listed) = self.listed(path).await? else {
            return Err(match self.look(path).await?.found {
                Some(_) => RemoteError::Changed(path.clone()),
                None => self.missing(path).await,
            });
        };
        let is_empty = listed.entries.is_empty()
            && listed.unusable.count == 0
            && listed.uploads.iter().all(|(name, _)| self.temporaries.is_left(name.as_str()));
        if is_empty { Ok(listed) } else { Err(RemoteError::NotEmpty(path.clone())) }
    }

    /// Removes one of this device's uploads. One that is gone is no error.
    pub(super) async fn discard(&self, path: &RemotePath, is_collection: bool) -> Result<(), RemoteError> {
        let url = if is_collection { self.directory_url(path) } else { self.url(path) };
        self.delete(path, url, None).await.map(drop)
    }

    async fn delete(
        &self,
        path: &RemotePath,
        url: Url,
        guard: Option<&Version>,
    ) -> Result<Gone, RemoteError> {
        let ask = Request::new(Method::DELETE, url);
        let ask = match guard {
            Some(version) => Request { once: true, ..ask.with(IF_MATCH, &version::quoted(version)) },
            None => ask,
        };
        let answer = self.client.send(&ask).await?;
        let gone = match answer.status {
            _ if is_done(&answer) => Gone::Done,
            StatusCode::ACCEPTED => Gone::Done,
            StatusCode::NOT_FOUND | StatusCode::GONE => Gone::Absent,
            StatusCode::PRECONDITION_FAILED if guard.is_some() => Gone::Changed,
            // Some of a tree is still there.
            StatusCode::MULTI_STATUS => return Err(self.unreachable("did not remove all of it")),
            StatusCode::CONFLICT | StatusCode::METHOD_NOT_ALLOWED => {
                return Err(answer.refusal(path.as_str()).into());
            }
            _ => return Err(self.explain(path, answer).await),
        };
        answer.drain().await;
        Ok(gone)
    }

    pub(super) async fn make_directory_now(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        let ask = Request { once: true, ..request("MKCOL", self.directory_url(path)) };
        let answer = self.client.send(&ask).await?;
        let status = answer.status;
        let refusal = match status {
            StatusCode::CREATED => {
                answer.drain().await;
                None
            }
            _ => Some(self.explain(path, answer).await),
        };
        // Servers say many things about a collection that is there: a look decides.
        match (self.look(path).await?.found.map(|found| found.entry), refusal) {
            (Some(entry), _) if entry.kind == Kind::Directory => Ok(entry),
            (Some(_), _) => Err(RemoteError::Changed(path.clone())),
            (None, None) => Err(self.unreachable("made a directory, and does not have it")),
            (None, Some(refusal)) if matches!(status.as_u16(), 404 | 409 | 500) => {
                Err(self.without_parent(path, refusal).await)
            }
            (None, Some(refusal)) => Err(refusal),
        }
    }
}
