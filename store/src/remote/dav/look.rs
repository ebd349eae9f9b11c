//! What one path has now: a PROPFIND of depth 0.

use super::href::{self, Place};
use super::multistatus::{self, QUERY, QUOTA_QUERY, Resource};
use super::{DEPTH, DavRemote, meta, request, version};
use crate::dav::answer;
use crate::dav::http::{Answer, Request};
use crate::remote::{Entry, Kind, Name, Quota, RemoteError, RemotePath};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE};
use std::time::SystemTime;
use url::Url;

pub(super) const XML: &str = "application/xml; charset=utf-8";
/// One resource with long attributes.
const ANSWER_BYTES_MAX: u64 = 512 << 10;

/// What a look found.
pub(super) struct Looked {
    /// `None` if nothing has the name.
    pub found: Option<Found>,
    /// The server's time.
    pub now: Option<SystemTime>,
}

/// A file or directory.
pub(super) struct Found {
    pub entry: Entry,
    /// The mode and attributes are Holdall's.
    pub resource: Resource,
}

impl Looked {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Found> {
        self.found.as_ref().filter(|found| found.entry.kind == Kind::File)
    }
}

impl DavRemote {
    pub(super) async fn look(&self, path: &RemotePath) -> Result<Looked, RemoteError> {
        if path.is_hidden() {
            return Ok(Looked { found: None, now: None });
        }
        let name = path.split().map_or_else(Name::of_root, |(_, name)| name);
        self.look_at(path, self.url(path), &name).await
    }

    /// The same for a hidden name.
    pub(super) async fn look_at(
        &self,
        path: &RemotePath,
        url: Url,
        name: &Name,
    ) -> Result<Looked, RemoteError> {
        let answer = self.client.send(&ask(url, "0", QUERY)).await?;
        let now = version::date(&answer.headers, DATE);
        match answer.status {
            StatusCode::MULTI_STATUS => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                answer.drain().await;
                return Ok(Looked { found: None, now });
            }
            // Apache says this about a path below a file.
            StatusCode::BAD_REQUEST if self.is_below_file(path).await => {
                answer.drain().await;
                return Ok(Looked { found: None, now });
            }
            _ => return Err(self.no_listing(path, answer).await),
        }
        let resources = self.resources(answer).await?;
        let found = resources
            .into_iter()
            .next()
            .map(|resource| self.entry_of(name.clone(), &resource).map(|entry| Found { entry, resource }));
        Ok(Looked { found: found.transpose()?, now })
    }

    /// Whether the directory that a path should lie in is a file.
    async fn is_below_file(&self, path: &RemotePath) -> bool {
        let Some((directory, _)) = path.split() else { return false };
        let looked = Box::pin(self.look(&directory)).await;
        looked.is_ok_and(|looked| looked.found.is_none_or(|found| found.entry.kind != Kind::Directory))
    }

    /// The resource that an answer of depth 0 is about, in a list of at most one.
    async fn resources(&self, answer: Answer) -> Result<Option<Resource>, RemoteError> {
        let url = answer.url.clone();
        let (mut body, mut pieces) = (Vec::new(), answer.pieces(ANSWER_BYTES_MAX));
        while let Some(piece) = pieces.next().await? {
            body.extend_from_slice(&piece);
        }
        let mut found = None;
        // A server that folds names may write the name in another way.
        let folds = self.facts.folds_case || self.facts.folds_forms;
        let parsed = multistatus::parse(&*body, |resource| {
            if folds || href::place(&url, &resource.href) == Place::Itself {
                found.get_or_insert(resource);
                return Ok(());
            }
            Err("it is about another place".to_owned())
        });
        parsed.map_err(|reason| self.unreachable(&format!("answers a question in a wrong way: {reason}")))?;
        Ok(found)
    }

    /// The entry of a resource.
    pub(super) fn entry_of(&self, name: Name, resource: &Resource) -> Result<Entry, RemoteError> {
        if !resource.is_collection && resource.len.is_none() {
            return Err(self.unreachable("does not say how long a file is"));
        }
        let version = version::of(resource);
        let kind = if resource.is_collection { Kind::Directory } else { Kind::File };
        let meta = Some(meta::of(resource, &version));
        Ok(Entry { name, kind, version, meta, is_writable: is_writable(resource) })
    }

    /// The meaning of an answer to a PROPFIND that is no multistatus.
    pub(super) async fn no_listing(&self, path: &RemotePath, answer: Answer) -> RemoteError {
        match answer.status {
            StatusCode::OK => answer::page(self.client.host()).into(),
            // It says nothing about the file.
            StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT | StatusCode::BAD_REQUEST => {
                answer.refusal(path.as_str()).into()
            }
            _ => self.explain(path, answer).await,
        }
    }

    pub(super) async fn quota_now(&self) -> Result<Option<Quota>, RemoteError> {
        let root = RemotePath::root();
        let answer = self.client.send(&ask(self.url(&root), "0", QUOTA_QUERY)).await?;
        match answer.status {
            StatusCode::MULTI_STATUS => {
                let told = self.resources(answer).await?.unwrap_or_default();
                let quota = told.used_bytes.zip(told.free_bytes);
                Ok(quota.map(|(used, free)| Quota { used, free }))
            }
            StatusCode::NOT_FOUND => Err(self.missing(&root).await),
            _ => Err(self.no_listing(&root, answer).await),
        }
    }
}

/// A PROPFIND.
pub(super) fn ask(url: Url, depth: &str, query: &'static str) -> Request {
    let ask = request("PROPFIND", url).with(DEPTH, depth).with(CONTENT_TYPE, XML);
    Request { body: query.into(), ..ask }
}

/// What ownCloud's letters say: W for a file that may be written, C and K for a directory in which files and directories may be made.
fn is_writable(resource: &Resource) -> bool {
    let letters = if resource.is_collection { ['C', 'K'] } else { ['W', 'W'] };
    resource.permissions.as_ref().is_none_or(|permissions| permissions.contains(letters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_by_kind() {
        let of = |permissions: Option<&str>, is_collection| {
            let permissions = permissions.map(str::to_owned);
            is_writable(&Resource { permissions, is_collection, ..Resource::default() })
        };
        assert!(of(None, false) && of(None, true));
        assert!(of(Some("RGDNVW"), false) && !of(Some("RGDNV"), false));
        assert!(of(Some("RGDNVCK"), true) && !of(Some("SRG"), true) && !of(Some(""), false));
    }
}
