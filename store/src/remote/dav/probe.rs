//! Finds out what a server does, once, at opening: in a collection of this device's, which is removed again.
//!
//! Nothing is tried where nothing can or shall be written. Then the answers are those that promise least. What a crash leaves behind is
//! removed by a later listing.

mod conditions;
mod held;
mod trees;

use super::multistatus::Resource;
use super::temporary::Temporary;
use super::{DavRemote, Habits, request};
use crate::StoreError;
use crate::dav::http::{Answer, Request};
use crate::dav::names;
use crate::remote::{Entry, Facts, Kind, Name, RemoteError, RemotePath, Time};
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Method, StatusCode};
use url::Url;

/// A time that no new file has by itself.
const A_TIME: Time = Time(981_173_107_000_000_000);

/// The facts before anything was tried.
pub(super) fn untried() -> Facts {
    Facts {
        has_conditions: false,
        folds_case: false,
        folds_forms: false,
        moves_trees: false,
        keeps_meta: false,
        keeps_mtime: false,
        root_tag_tells: false,
        replaces_at_once: false,
        len_max: None,
        read_only: None,
    }
}

/// What was found, each by its own part of the probe.
struct Findings {
    facts: Facts,
    habits: Habits,
}

/// The collection in which everything is tried.
struct Bench<'a> {
    remote: &'a DavRemote,
    name: String,
}

impl DavRemote {
    pub(super) async fn probe(&mut self, read_only: bool) -> Result<(), StoreError> {
        let root = RemotePath::root();
        let Some(found) = self.look(&root).await.map_err(plain)?.found else {
            return Err(plain(self.missing(&root).await));
        };
        if found.entry.kind != Kind::Directory {
            return Err(StoreError::NoPlace { place: format!("collection at {}", self.client.base()) });
        }
        self.facts.read_only = match (read_only, found.entry.is_writable) {
            (true, _) => Some("it was opened for reading only".to_owned()),
            (false, false) => Some(format!("{} does not allow this user to write there", self.client.host())),
            (false, true) => None,
        };
        if self.facts.read_only.is_some() {
            return Ok(());
        }
        match Box::pin(self.try_out()).await {
            Ok(Findings { facts, habits }) => {
                self.facts = facts;
                self.habits = habits;
                match self.find_chunks().await {
                    Err(RemoteError::Store(error)) => Err(error),
                    Ok(()) | Err(_) => Ok(()),
                }
            }
            // It can be read, and nothing more is promised.
            Err(RemoteError::Store(StoreError::Full { .. })) => Ok(()),
            Err(
                RemoteError::Store(StoreError::Denied { reason }) | RemoteError::Forbidden { reason, .. },
            ) => {
                self.facts.read_only = Some(reason);
                Ok(())
            }
            Err(RemoteError::Locked { by, .. }) => {
                let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
                self.facts.read_only = Some(format!("it is locked{by}"));
                Ok(())
            }
            Err(error) => Err(plain(error)),
        }
    }

    async fn try_out(&self) -> Result<Findings, RemoteError> {
        let temporary: Temporary<'_> = self.temporaries.take();
        let path = temporary.within(&RemotePath::root());
        let bench = Bench { remote: self, name: path.as_str().to_owned() };
        bench.make("").await?;
        let tried = Box::pin(bench.try_all()).await;
        // What stays is swept by a listing, a day later.
        let _ = self.discard(&path, true).await;
        tried
    }
}

impl Bench<'_> {
    async fn try_all(&self) -> Result<Findings, RemoteError> {
        // Each on the heap: together they would fill the stack of a thread.
        let (conditions, whole, trees, folds, kept) = tokio::try_join!(
            Box::pin(self.try_conditions()),
            Box::pin(self.try_broken_put()),
            Box::pin(self.try_trees()),
            Box::pin(self.try_names()),
            Box::pin(self.try_properties()),
        )?;
        let habits = Habits {
            puts_whole: whole,
            heeds_overwrite: trees.heeds_overwrite,
            moves: trees.moves_files,
            guards_collections: trees.guards_collections,
            keeps_properties: kept.keeps,
            patches_quietly: kept.is_quiet,
            ..conditions.habits
        };
        let facts = Facts {
            has_conditions: whole && conditions.holds_in_races,
            folds_case: folds.0,
            folds_forms: folds.1,
            moves_trees: trees.moves_trees,
            keeps_meta: kept.keeps,
            keeps_mtime: habits.obeys_mtime || kept.keeps_mtime,
            // Nothing else may change meanwhile.
            root_tag_tells: self.try_root_tag().await?,
            ..untried()
        };
        Ok(Findings { facts, habits })
    }

    /// Whether names that differ in case, and in the form of their letters, are one.
    async fn try_names(&self) -> Result<(bool, bool), RemoteError> {
        self.put("name-é", b"1").await?;
        Ok((self.has("NAME-é").await?, self.has("name-e\u{301}").await?))
    }

    /// Whether the root's ETag changes with what lies deep below it, and only then.
    async fn try_root_tag(&self) -> Result<bool, RemoteError> {
        if self.root_tag().await?.is_empty() {
            return Ok(false);
        }
        self.make("deep/").await?;
        self.make("deep/er/").await?;
        self.put("deep/er/x", b"1").await?;
        let mut before = self.root_tag().await?;
        for body in [b"22", b"33"] {
            self.put("deep/er/x", body).await?;
            let after = self.root_tag().await?;
            if after == before || self.root_tag().await? != after {
                return Ok(false);
            }
            before = after;
        }
        Ok(true)
    }

    async fn root_tag(&self) -> Result<String, RemoteError> {
        let root = self.remote.look(&RemotePath::root()).await?;
        Ok(root.found.map(|root| root.entry.version.tag).unwrap_or_default())
    }

    /// The address of a name in the collection. Those of collections end with `/`.
    fn url(&self, leaf: &str) -> Url {
        names::object(self.remote.client.base(), &format!("{}/{leaf}", self.name))
    }

    async fn make(&self, leaf: &str) -> Result<(), RemoteError> {
        let answer = self.remote.client.send(&request("MKCOL", self.url(leaf))).await?;
        match answer.status {
            StatusCode::CREATED => {
                answer.drain().await;
                Ok(())
            }
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                let reason = format!("{} makes no directories there", self.remote.client.host());
                Err(StoreError::Denied { reason }.into())
            }
            _ => Err(self.explain(answer).await),
        }
    }

    /// A PUT that has to succeed.
    async fn put(&self, leaf: &str, body: &'static [u8]) -> Result<HeaderMap, RemoteError> {
        let answer = self.try_put(leaf, body, &[]).await?;
        match super::place::is_done(&answer) {
            true => {
                let headers = answer.headers.clone();
                answer.drain().await;
                Ok(headers)
            }
            false => Err(self.explain(answer).await),
        }
    }

    async fn try_put(
        &self,
        leaf: &str,
        body: &'static [u8],
        headers: &[(HeaderName, &str)],
    ) -> Result<Answer, RemoteError> {
        let ask = Request { body: Bytes::from_static(body), ..Request::new(Method::PUT, self.url(leaf)) };
        let ask = headers.iter().fold(ask, |ask, (name, value)| ask.with(name.clone(), value));
        Ok(self.remote.client.send(&Request { once: !headers.is_empty(), ..ask }).await?)
    }

    /// What a name has now.
    async fn look(&self, leaf: &str) -> Result<Option<(Entry, Resource)>, RemoteError> {
        let looked = self.remote.look_at(&RemotePath::root(), self.url(leaf), &Name::of_root()).await?;
        Ok(looked.found.map(|found| (found.entry, found.resource)))
    }

    /// What a name has now that was put there.
    async fn look_for(&self, leaf: &str) -> Result<(Entry, Resource), RemoteError> {
        let found = self.look(leaf).await?;
        found.ok_or_else(|| self.remote.unreachable("does not have what it took a moment ago"))
    }

    async fn has(&self, leaf: &str) -> Result<bool, RemoteError> {
        let answer = self.remote.client.send(&Request::new(Method::HEAD, self.url(leaf))).await?;
        let has = super::place::is_done(&answer);
        answer.drain().await;
        Ok(has)
    }

    async fn explain(&self, answer: Answer) -> RemoteError {
        self.remote.explain(&RemotePath::root(), answer).await
    }
}

/// An error of the whole place.
fn plain(error: RemoteError) -> StoreError {
    match error {
        RemoteError::Store(error) => error,
        error => StoreError::Unreachable { reason: error.to_string() },
    }
}
