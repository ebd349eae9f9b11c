//! Properties of Holdall's own: PROPPATCH.
//!
//! A server that keeps none is not asked: what it does not keep, [`Facts`](crate::remote::Facts) says.

use super::look::{Found, XML};
use super::meta::{self, Patch};
use super::multistatus;
use super::{DavRemote, request};
use crate::dav::http::Request;
use crate::remote::{Entry, Kind, Meta, RemoteError, RemotePath, Version};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use std::collections::BTreeMap;
use url::Url;

const ANSWER_BYTES_MAX: u64 = 64 << 10;

impl DavRemote {
    pub(super) async fn set_meta_now(
        &self,
        path: &RemotePath,
        version: &Version,
        new: &Meta,
    ) -> Result<Entry, RemoteError> {
        let looked = self.look(path).await?;
        let Some(found) = looked.found else { return Err(self.missing(path).await) };
        if found.entry.kind != Kind::Directory && found.entry.version != *version {
            return Err(RemoteError::Changed(path.clone()));
        }
        let mtime = new.mtime.map(|mtime| (mtime, found.entry.version.clone()));
        let patch = Patch { mode: new.mode, mtime, xattrs: Some(new.xattrs.clone()) };
        self.patch_found(path, found, patch).await
    }

    /// Sets properties of what was just found. Returns its entry with them.
    pub(super) async fn patch_found(
        &self,
        path: &RemotePath,
        found: Found,
        mut patch: Patch,
    ) -> Result<Entry, RemoteError> {
        let there = found.entry.meta.clone().unwrap_or_default();
        // What is so already is not set again.
        patch.mode = patch.mode.filter(|mode| there.mode != Some(*mode));
        patch.mtime = patch.mtime.filter(|(mtime, _)| there.mtime != Some(*mtime));
        patch.xattrs = patch.xattrs.filter(|xattrs| there.xattrs != *xattrs);
        if !self.habits.keeps_properties || patch.is_empty() {
            return Ok(found.entry);
        }
        let url = match found.entry.kind {
            Kind::Directory => self.directory_url(path),
            Kind::File | Kind::Link => self.url(path),
        };
        if !self.patch(path, url, &patch).await? {
            return Err(RemoteError::Unsupported("keep this file's permissions and attributes"));
        }
        if self.habits.patches_quietly {
            let mode = patch.mode.or(there.mode);
            let mtime = patch.mtime.map(|(mtime, _)| mtime).or(there.mtime);
            let xattrs = patch.xattrs.unwrap_or(there.xattrs);
            return Ok(Entry { meta: Some(Meta { mode, mtime, xattrs, link: None }), ..found.entry });
        }
        match self.look(path).await?.found {
            Some(found) => Ok(found.entry),
            None => Err(self.missing(path).await),
        }
    }

    /// One PROPPATCH. Whether the server says that it has done it.
    pub(super) async fn patch(
        &self,
        path: &RemotePath,
        url: Url,
        patch: &Patch,
    ) -> Result<bool, RemoteError> {
        if let Some(xattrs) = &patch.xattrs
            && meta::written(xattrs).len() > meta::XATTRS_BYTES_MAX
        {
            return Err(RemoteError::Unsupported("keep extended attributes that are so long"));
        }
        let ask = request("PROPPATCH", url).with(CONTENT_TYPE, XML);
        let answer = self.client.send(&Request { body: patch.body().into(), ..ask }).await?;
        match answer.status {
            StatusCode::MULTI_STATUS => {}
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                answer.drain().await;
                return Ok(false);
            }
            StatusCode::PRECONDITION_FAILED | StatusCode::BAD_REQUEST => {
                return Err(answer.refusal(path.as_str()).into());
            }
            _ => return Err(self.explain(path, answer).await),
        }
        let body = answer.read(0, ANSWER_BYTES_MAX).await?;
        let mut is_done = true;
        let parsed = multistatus::parse(&*body, |resource| {
            is_done &= resource.refused.is_none();
            Ok(())
        });
        Ok(parsed.is_ok() && is_done)
    }
}

/// The attributes of a file after an upload that names `new` of them.
pub(super) fn merged(
    old: &BTreeMap<String, Vec<u8>>,
    new: &BTreeMap<String, Vec<u8>>,
) -> BTreeMap<String, Vec<u8>> {
    let mut all = old.clone();
    all.extend(new.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}
