//! Placing the bytes of an upload: straight at their name, or beside it and moved.
//!
//! Straight is better where a PUT that breaks off keeps the old file: the file stays the same one to the server, with its versions, shares
//! and properties. Elsewhere the file is put under a name of an upload, and moved. Some servers then delete the old file before they move
//! the new one. So a MOVE that fails is followed by a look: where the name is free, the new file is moved once more, and where that fails
//! too it stays where it is, since it may be the only one.

use super::look::Looked;
use super::relocate::Moved;
use super::temporary::Temporary;
use super::version;
use super::write::{Placed, check};
use super::{DavRemote, OVERWRITE};
use crate::StoreError;
use crate::dav::http::{Answer, Request};
use crate::dav::source::Source;
use crate::remote::{Condition, Kind, Name, Progress, Put, RemoteError, RemotePath, Version};
use reqwest::header::{CONTENT_TYPE, HeaderName, IF_MATCH, IF_NONE_MATCH};
use reqwest::{Method, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

pub(super) const MTIME: HeaderName = HeaderName::from_static("x-oc-mtime");
/// How often the progress of an upload is reported.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// A MOVE, and what is known of its ends.
struct Aside<'a> {
    path: &'a RemotePath,
    from: (RemotePath, Url),
    /// The version of the file aside.
    version: Version,
    before: Option<&'a Version>,
}

impl DavRemote {
    pub(super) async fn place(&self, put: &Put<'_>, before: Option<&Looked>) -> Result<Placed, RemoteError> {
        match self.habits.puts_whole {
            true => self.place_straight(put, before).await,
            false => self.place_aside(put, before).await,
        }
    }

    async fn place_straight(&self, put: &Put<'_>, before: Option<&Looked>) -> Result<Placed, RemoteError> {
        let request = self.put_request(put, self.url(put.path));
        let request = match &put.when {
            Condition::Absent if self.habits.heeds_absent => request.with(IF_NONE_MATCH, "*"),
            Condition::Matches(version) if self.habits.heeds_matches && !version.tag.is_empty() => {
                request.with(IF_MATCH, &version::quoted(version))
            }
            Condition::Always | Condition::Absent | Condition::Matches(_) => request,
        };
        let mut request = Request { once: put.when != Condition::Always, ..request };
        let mut answer = self.send_body(&request, put.progress).await?;
        if answer.status == StatusCode::PRECONDITION_FAILED && request.headers.contains_key(IF_MATCH) {
            // A server compares no weak ETags (RFC 9110, section 8.8.3.2), and some call each new one weak for a while.
            check(put.path, &put.when, self.look(put.path).await?.found.as_ref())?;
            request.headers.remove(IF_MATCH);
            answer.drain().await;
            answer = self.send_body(&request, put.progress).await?;
        }
        match is_done(&answer) {
            true => {
                let placed = Placed::straight(&answer.headers);
                answer.drain().await;
                Ok(placed)
            }
            false => Err(self.refused(put, before, answer).await),
        }
    }

    async fn place_aside(&self, put: &Put<'_>, before: Option<&Looked>) -> Result<Placed, RemoteError> {
        let (directory, name) = put.path.split().expect("the root is no place for a file");
        let temporary = self.temporaries.take();
        let aside = temporary.within(&directory);
        let url = self.url(&aside);
        let answer = self.send_body(&self.put_request(put, url.clone()), put.progress).await;
        let answer = match answer {
            Ok(answer) if is_done(&answer) => answer,
            Ok(answer) => return Err(self.refused(put, before, answer).await),
            Err(error) => {
                self.clear(&temporary, &aside).await;
                return Err(error);
            }
        };
        answer.drain().await;
        let version = match self.look_at(put.path, url.clone(), &name).await {
            Ok(Looked { found: Some(found), .. }) if found.entry.version.len == put.len => {
                found.entry.version
            }
            looked => {
                self.clear(&temporary, &aside).await;
                looked?;
                return Err(self.unreachable("took an upload, and does not have it as it was sent"));
            }
        };
        let before = before.and_then(Looked::file).map(|found| &found.entry.version);
        let aside_move = Aside { path: put.path, from: (aside.clone(), url), version, before };
        match self.move_into_place(&aside_move, &put.when).await {
            Ok(()) => Ok(Placed { tag: String::new(), is_new_file: true }),
            Err(Failed { error, keeps }) => {
                if !keeps {
                    self.clear(&temporary, &aside).await;
                }
                Err(error)
            }
        }
    }

    /// Moves a file to its name.
    async fn move_into_place(&self, aside: &Aside<'_>, when: &Condition) -> Result<(), Failed> {
        let discards = |error| Failed { error, keeps: false };
        let mut overwrites = *when != Condition::Absent;
        // The second try is for a server that has deleted the old file, and then not moved the new one.
        for is_last in [false, true] {
            let to = self.url(aside.path);
            let sent = self.send_move("MOVE", aside.from.1.clone(), &to, overwrites).await;
            let error = match sent {
                Ok(Moved::Done) => return Ok(()),
                Ok(Moved::Refused(answer)) => match answer.status {
                    StatusCode::PRECONDITION_FAILED if !overwrites => {
                        answer.drain().await;
                        return Err(discards(RemoteError::Changed(aside.path.clone())));
                    }
                    _ => self.explain(aside.path, answer).await,
                },
                Err(busy @ StoreError::Busy { .. }) => {
                    return Err(Failed { error: busy.into(), keeps: true });
                }
                Err(error) => error.into(),
            };
            // Perhaps it took effect all the same.
            let looks = self.look_at_ends(aside).await;
            let (there, still_aside) = looks.map_err(|error| Failed { error, keeps: true })?;
            match (there, still_aside) {
                (Some(there), false) if there.len == aside.version.len && Some(&there) != aside.before => {
                    return Ok(());
                }
                (None, true) if !is_last => overwrites = false,
                (Some(_), _) => return Err(discards(error)),
                (None, _) => return Err(Failed { error, keeps: true }),
            }
        }
        unreachable!("the last try returns")
    }

    /// The version at the new name, and whether the file is still at the old one.
    async fn look_at_ends(&self, aside: &Aside<'_>) -> Result<(Option<Version>, bool), RemoteError> {
        let there = self.look(aside.path).await?.found.map(|found| found.entry.version);
        let name = Name::of_root();
        let still = self.look_at(aside.path, aside.from.1.clone(), &name).await?.found.is_some();
        Ok((there, still))
    }

    /// Removes a file aside. One that stays is swept another time.
    async fn clear(&self, _alive: &Temporary<'_>, aside: &RemotePath) {
        let _ = self.discard(aside, false).await;
    }

    /// A PUT of all bytes, with their time where the server obeys it.
    fn put_request(&self, put: &Put<'_>, url: Url) -> Request {
        let source = Source::new(Arc::clone(&put.content), 0..put.len);
        let request = Request { source: Some(source), ..Request::new(Method::PUT, url) };
        self.with_mtime(put, request.with(CONTENT_TYPE, "application/octet-stream"))
    }

    /// The time of the last change as a header.
    pub(super) fn with_mtime(&self, put: &Put<'_>, request: Request) -> Request {
        let seconds = put.meta.mtime.and_then(super::meta::seconds).filter(|_| self.habits.obeys_mtime);
        match seconds {
            Some(seconds) => request.with(MTIME, &seconds.to_string()),
            None => request,
        }
    }

    /// Sends a body from the local disk, and reports its progress.
    pub(super) async fn send_body(
        &self,
        request: &Request,
        progress: &dyn Progress,
    ) -> Result<Answer, RemoteError> {
        let source = request.source.as_ref().expect("it has a body to be read");
        let mut told = 0;
        let mut report = || {
            let sent = source.sent();
            progress.sent(sent - told);
            told = sent;
        };
        let sending = self.client.send(request);
        tokio::pin!(sending);
        let answer = loop {
            tokio::select! {
                answer = &mut sending => break answer,
                () = tokio::time::sleep(REPORT_EVERY) => report(),
            }
        };
        report();
        match source.failure() {
            Some(reason) => Err(RemoteError::Local(reason)),
            None => Ok(answer?),
        }
    }

    /// The meaning of a refused PUT. A look tells a directory and a missing parent from other refusals.
    pub(super) async fn refused(
        &self,
        put: &Put<'_>,
        before: Option<&Looked>,
        answer: Answer,
    ) -> RemoteError {
        let status = answer.status.as_u16();
        let error = self.explain(put.path, answer).await;
        if !matches!(status, 400 | 403 | 404 | 405 | 409 | 500)
            || before.is_some_and(|before| before.found.is_some())
        {
            return error;
        }
        match self.look(put.path).await {
            Ok(Looked { found: Some(found), .. }) if found.entry.kind != Kind::File => {
                RemoteError::Changed(put.path.clone())
            }
            Ok(Looked { found: None, .. }) if status == 500 || status == 409 || status == 404 => {
                self.without_parent(put.path, error).await
            }
            Ok(_) | Err(_) => error,
        }
    }

    /// The meaning of a refusal at a free name: `NotFound` of its directory if that is missing, else `error`.
    pub(super) async fn without_parent(&self, path: &RemotePath, error: RemoteError) -> RemoteError {
        let Some((directory, _)) = path.split() else { return error };
        match self.look(&directory).await {
            Ok(Looked { found: Some(found), .. }) if found.entry.kind == Kind::Directory => match error {
                // The directory is there: something else is wrong.
                RemoteError::NotFound(_) => self.unreachable("refuses a file in a directory that is there"),
                error => error,
            },
            Ok(_) => self.missing(&directory).await,
            Err(error) => error,
        }
    }
}

/// Why a file was not moved to its name, and whether it stays aside: it may be the only one.
struct Failed {
    error: RemoteError,
    keeps: bool,
}

/// Whether an answer to a PUT or MOVE says that it is done. A web page says nothing.
pub(super) fn is_done(answer: &Answer) -> bool {
    match answer.status {
        StatusCode::CREATED | StatusCode::NO_CONTENT => true,
        StatusCode::OK => !crate::dav::answer::is_page(&answer.headers),
        _ => false,
    }
}

/// A MOVE or COPY that may replace a file, or not.
pub(super) fn overwriting(request: Request, overwrites: bool) -> Request {
    request.with(OVERWRITE, if overwrites { "T" } else { "F" })
}
