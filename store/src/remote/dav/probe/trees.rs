//! What MOVE, DELETE and PROPPATCH do.

use super::{A_TIME, Bench};
use crate::dav::http::Request;
use crate::remote::dav::meta::Patch;
use crate::remote::dav::place::is_done;
use crate::remote::dav::relocate::Moved;
use crate::remote::{Meta, RemoteError, RemotePath};
use reqwest::header::IF_MATCH;
use reqwest::{Method, StatusCode};
use std::collections::BTreeMap;

/// Bits that no new file has by itself.
const A_MODE: u32 = 0o605;

#[derive(Default)]
pub(super) struct Trees {
    pub moves_files: bool,
    pub moves_trees: bool,
    pub heeds_overwrite: bool,
    pub guards_collections: bool,
}

#[derive(Default)]
pub(super) struct Properties {
    pub keeps: bool,
    pub keeps_mtime: bool,
    pub is_quiet: bool,
}

impl Bench<'_> {
    pub(super) async fn try_trees(&self) -> Result<Trees, RemoteError> {
        let mut trees = Trees::default();
        self.put("from", b"from").await?;
        trees.moves_files = self.moves("from", "to", "to").await?;
        self.put("third", b"third!").await?;
        if trees.moves_files {
            let refused = !self.moves("third", "to", "to").await?;
            let lens = [self.look("third").await?, self.look("to").await?];
            let lens = lens.map(|found| found.map(|(entry, _)| entry.version.len));
            trees.heeds_overwrite = refused && lens == [Some(6), Some(4)];
        }
        self.make("tree/").await?;
        self.make("tree/in/").await?;
        self.put("tree/in/file", b"1").await?;
        trees.moves_trees = self.moves("tree/", "other/", "other/in/file").await?;
        if trees.moves_trees {
            trees.guards_collections = self.guards("other/").await?;
        }
        Ok(trees)
    }

    /// Whether a MOVE that may not overwrite leads to something at `proof`, and leaves nothing where it was.
    async fn moves(&self, from: &str, to: &str, proof: &str) -> Result<bool, RemoteError> {
        match self.remote.send_move("MOVE", self.url(from), &self.url(to), false).await? {
            Moved::Done => Ok(self.look(proof).await?.is_some() && self.look(from).await?.is_none()),
            Moved::Refused(answer) => {
                answer.drain().await;
                Ok(false)
            }
        }
    }

    /// Whether DELETE of a collection heeds its ETag, which changes with its members.
    async fn guards(&self, collection: &str) -> Result<bool, RemoteError> {
        let (before, _) = self.look_for(collection).await?;
        self.put(&format!("{collection}more"), b"1").await?;
        let (after, _) = self.look_for(collection).await?;
        if before.version.tag == after.version.tag || before.version.tag.is_empty() {
            return Ok(false);
        }
        let ask = Request::new(Method::DELETE, self.url(collection)).with(IF_MATCH, "\"nobody\"");
        let answer = self.remote.client.send(&Request { once: true, ..ask }).await?;
        let is_refused = answer.status == StatusCode::PRECONDITION_FAILED;
        answer.drain().await;
        Ok(is_refused && self.look(collection).await?.is_some())
    }

    /// Which of Holdall's properties are kept, at a file whose bytes are replaced, and at a collection.
    pub(super) async fn try_properties(&self) -> Result<Properties, RemoteError> {
        let xattrs = BTreeMap::from([("user.holdall".to_owned(), vec![0, 255])]);
        let is_kept = |meta: &Option<Meta>| {
            meta.as_ref().is_some_and(|meta| meta.mode == Some(A_MODE) && meta.xattrs == xattrs)
        };
        let root = RemotePath::root();
        self.put("file", b"1").await?;
        self.make("directory/").await?;
        let (before, _) = self.look_for("file").await?;
        let mtime = Some((A_TIME, before.version.clone()));
        for leaf in ["file", "directory/"] {
            let patch = Patch { mode: Some(A_MODE), mtime: mtime.clone(), xattrs: Some(xattrs.clone()) };
            match self.remote.patch(&root, self.url(leaf), &patch).await {
                Ok(true) => {}
                Ok(false) | Err(RemoteError::Forbidden { .. } | RemoteError::BadName { .. }) => {
                    return Ok(Properties::default());
                }
                Err(error) => return Err(error),
            }
        }
        let (file, _) = self.look_for("file").await?;
        let (directory, _) = self.look_for("directory/").await?;
        let answer = self.try_put("file", b"2", &[]).await?;
        let is_replaced = is_done(&answer);
        answer.drain().await;
        let (replaced, _) = self.look_for("file").await?;
        let keeps =
            is_replaced && [&file, &directory, &replaced].into_iter().all(|entry| is_kept(&entry.meta));
        let set = file.meta.and_then(|meta| meta.mtime);
        Ok(Properties {
            keeps,
            keeps_mtime: keeps && set == Some(A_TIME),
            is_quiet: file.version == before.version,
        })
    }
}
