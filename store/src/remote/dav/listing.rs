//! Listings: a PROPFIND of depth 1, parsed as it arrives. It is one page.

use super::href::{self, Place};
use super::look::ask;
use super::multistatus::{self, QUERY, Resource};
use super::{DavRemote, version};
use crate::dav::http::Answer;
use crate::remote::{Entry, Kind, Name, Page, RemoteError, RemotePath, Unusable};
use bytes::{Buf, Bytes};
use reqwest::StatusCode;
use reqwest::header::DATE;
use std::io::{self, BufRead, Read};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// The longest answer to read: the most resources, with long names.
const ANSWER_BYTES_MAX: u64 = 512 << 20;
/// Pieces on their way to the parser.
const PIECES_AHEAD: usize = 4;
/// This device's files that are older were left behind: no upload takes that long.
const LEFT_AGE: Duration = Duration::from_secs(24 * 3600);
/// How many to remove at once; the rest is for another time.
const SWEPT_AT_ONCE: usize = 4;

/// A directory's contents.
#[derive(Default)]
pub(super) struct Listed {
    pub entries: Vec<Entry>,
    pub unusable: Unusable,
    /// Uploads under way, or left behind, of any device.
    pub uploads: Vec<(Name, Resource)>,
    /// The directory itself.
    pub itself: Option<Resource>,
    pub now: Option<SystemTime>,
}

impl DavRemote {
    pub(super) async fn list_all(&self, directory: &RemotePath) -> Result<Page, RemoteError> {
        let Some(listed) = self.listed(directory).await? else { return Err(self.missing(directory).await) };
        self.sweep_old(directory, &listed).await;
        Ok(Page { entries: listed.entries, next: None, unusable: listed.unusable })
    }

    /// What a directory holds; `None` if there is no such directory.
    pub(super) async fn listed(&self, directory: &RemotePath) -> Result<Option<Listed>, RemoteError> {
        if directory.is_hidden() {
            return Ok(None);
        }
        let answer = self.client.send(&ask(self.directory_url(directory), "1", QUERY)).await?;
        match answer.status {
            StatusCode::MULTI_STATUS => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                answer.drain().await;
                return Ok(None);
            }
            // Some servers refuse a file that is asked for as a directory.
            StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED | StatusCode::CONFLICT => {
                let error = answer.refusal(directory.as_str());
                answer.drain().await;
                let there = self.look(directory).await?.found;
                let is_directory = there.is_some_and(|found| found.entry.kind == Kind::Directory);
                return if is_directory { Err(error.into()) } else { Ok(None) };
            }
            _ => return Err(self.no_listing(directory, answer).await),
        }
        let now = version::date(&answer.headers, DATE);
        let mut listed = Listed { now, ..Listed::default() };
        for (place, resource) in self.children(answer).await? {
            match place {
                Place::Itself if listed.itself.is_none() => listed.itself = Some(resource),
                Place::Itself => return Err(self.unreachable("lists a directory in itself")),
                Place::Child(name) if name.is_upload() => listed.uploads.push((name, resource)),
                Place::Child(name) => match self.entry_of(name, &resource) {
                    Ok(entry) => listed.entries.push(entry),
                    Err(_) => listed.unusable.add(&resource.href),
                },
                Place::Unusable(name) => listed.unusable.add(&name),
                Place::Elsewhere => return Err(self.unreachable("lists names of another place")),
            }
        }
        let is_directory = listed.itself.as_ref().is_none_or(|itself| itself.is_collection);
        Ok(is_directory.then_some(listed))
    }

    /// The resources of an answer, and where they are. The parser is on a thread of its own, and takes pieces as they come.
    pub(super) async fn children(&self, answer: Answer) -> Result<Vec<(Place, Resource)>, RemoteError> {
        let url = answer.url.clone();
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let parsing = tokio::task::spawn_blocking(move || {
            let mut found = Vec::new();
            let pieces = Pieces { pieces, now: Bytes::new() };
            multistatus::parse(pieces, |resource| {
                found.push((href::place(&url, &resource.href), resource));
                Ok(())
            })
            .map(|()| found)
        });
        let mut received = answer.pieces(ANSWER_BYTES_MAX);
        // A parser that has found an error takes no more.
        while let Some(piece) = received.next().await? {
            if sender.send(piece).await.is_err() {
                break;
            }
        }
        drop(sender);
        let parsed = parsing.await.expect("the parser does not panic");
        parsed.map_err(|reason| self.unreachable(&format!("gives a listing that cannot be read: {reason}")))
    }

    /// Removes what this device left in a directory a day ago, or longer. What cannot be removed now is removed by another listing.
    async fn sweep_old(&self, directory: &RemotePath, listed: &Listed) {
        let is_old = |resource: &Resource| {
            let age = resource.modified.zip(listed.now).and_then(|(then, now)| now.duration_since(then).ok());
            age.is_some_and(|age| age > LEFT_AGE)
        };
        if self.facts.read_only.is_some() {
            return;
        }
        let left = listed.uploads.iter().filter(|(name, _)| self.temporaries.is_left(name.as_str()));
        for (name, resource) in left.filter(|(_, resource)| is_old(resource)).take(SWEPT_AT_ONCE) {
            if self.discard(&directory.join(name), resource.is_collection).await.is_err() {
                return;
            }
        }
    }
}

/// Pieces of an answer as one text.
struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    now: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buf)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Pieces {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.now.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.now = piece,
                None => break,
            }
        }
        Ok(&self.now)
    }

    fn consume(&mut self, amount: usize) {
        self.now.advance(amount);
    }
}
