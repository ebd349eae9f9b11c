//! Uploads in chunks, as Nextcloud takes them (version 2): a collection beside the files holds the chunks, and a MOVE makes the file of them.
//!
//! An unfinished upload is visible to nobody, and continues after a restart with the chunks that the server has: it is asked which, and their
//! lengths are compared.

use super::href::Place;
use super::look::{Looked, ask};
use super::multistatus::QUERY;
use super::place::{is_done, overwriting};
use super::version;
use super::write::{Placed, check};
use super::{DESTINATION, DavRemote, request};
use crate::dav::http::Request;
use crate::dav::source::Source;
use crate::remote::{Condition, Put, RemoteError, RemotePath};
use reqwest::header::HeaderName;
use reqwest::{Method, StatusCode};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use url::Url;

const TOTAL: HeaderName = HeaderName::from_static("oc-total-length");
const IF: HeaderName = HeaderName::from_static("if");
/// Files up to this length go in one request, and larger ones in chunks of at least this length.
const CHUNK_BYTES_MIN: u64 = 10 << 20;
/// Nextcloud takes 10,000 chunks.
const CHUNKS_MAX: u64 = 9_000;

/// An upload that can be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Upload {
    /// The collection of its chunks.
    name: String,
    chunk_bytes: u64,
    len: u64,
}

impl Upload {
    /// The form of [`Upload::encode`].
    const VERSION: &str = "chunks-1";

    fn begin(name: String, len: u64) -> Self {
        let chunk_bytes = len.div_ceil(CHUNKS_MAX).next_multiple_of(1 << 20).max(CHUNK_BYTES_MIN);
        Self { name, chunk_bytes, len }
    }

    /// As `version name chunk-bytes len`.
    fn encode(&self) -> Vec<u8> {
        format!("{} {} {} {}", Self::VERSION, self.name, self.chunk_bytes, self.len).into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let upload = (words.next()? == Self::VERSION).then_some(Self {
            name: words.next()?.to_owned(),
            chunk_bytes: words.next()?.parse().ok()?,
            len: words.next()?.parse().ok()?,
        })?;
        let is_fine = words.next().is_none()
            && upload.chunk_bytes >= CHUNK_BYTES_MIN
            && upload.len.div_ceil(upload.chunk_bytes) <= CHUNKS_MAX;
        is_fine.then_some(upload)
    }

    /// The chunks' names and places.
    fn chunks(&self) -> impl Iterator<Item = (String, Range<u64>)> {
        let (bytes, len) = (self.chunk_bytes, self.len);
        let count = len.div_ceil(bytes);
        (0..count)
            .map(move |index| (format!("{:05}", index + 1), index * bytes..len.min((index + 1) * bytes)))
    }
}

/// Where a server with files at `…/dav/files/USER/` takes chunks, if it does.
pub(super) fn uploads_of(base: &Url) -> Option<Url> {
    let (before, after) = base.path().split_once("/dav/files/")?;
    let (user, _) = after.split_once('/')?;
    let mut url = base.clone();
    url.set_path(&format!("{before}/dav/uploads/{user}/"));
    (!user.is_empty()).then_some(url)
}

impl DavRemote {
    /// Whether a file of this length goes in chunks.
    pub(super) fn is_chunked(&self, len: u64) -> bool {
        self.habits.chunks.is_some() && len > CHUNK_BYTES_MIN
    }

    pub(super) async fn place_chunks(
        &self,
        put: &Put<'_>,
        before: Option<&Looked>,
    ) -> Result<Placed, RemoteError> {
        let (upload, mut there) = self.begin_or_resume(put).await?;
        let collection = self.collection_of(&upload.name);
        let target = self.url(put.path);
        for (name, range) in upload.chunks() {
            let len = range.end - range.start;
            if there.remove(&name) == Some(len) {
                put.progress.sent(len);
                continue;
            }
            let url = collection.join(&name).expect("a number is the name of a chunk");
            let source = Source::new(Arc::clone(&put.content), range);
            let ask = Request { source: Some(source), ..Request::new(Method::PUT, url) };
            let ask = ask.with(DESTINATION, target.as_str()).with(TOTAL, &put.len.to_string());
            let answer = self.send_body(&ask, put.progress).await?;
            if !is_done(&answer) {
                return Err(self.explain(put.path, answer).await);
            }
            answer.drain().await;
            let kept = put.progress.can_resume(&upload.encode()).await;
            kept.map_err(|error| RemoteError::Local(error.to_string()))?;
        }
        self.assemble(put, before, &collection).await
    }

    /// The upload to continue, and the lengths of the chunks that the server has; or a new one.
    async fn begin_or_resume(&self, put: &Put<'_>) -> Result<(Upload, BTreeMap<String, u64>), RemoteError> {
        let earlier = put.resume.and_then(Upload::decode);
        let earlier =
            earlier.filter(|upload| upload.len == put.len && self.temporaries.is_own_chunks(&upload.name));
        if let Some(upload) = earlier
            && let Some(there) = self.chunks_there(&upload).await?
        {
            return Ok((upload, there));
        }
        let upload = Upload::begin(self.temporaries.chunks(), put.len);
        let ask = request("MKCOL", self.collection_of(&upload.name));
        let answer = self.client.send(&ask.with(DESTINATION, self.url(put.path).as_str())).await?;
        if answer.status != StatusCode::CREATED {
            return Err(self.explain(put.path, answer).await);
        }
        answer.drain().await;
        let kept = put.progress.can_resume(&upload.encode()).await;
        kept.map_err(|error| RemoteError::Local(error.to_string()))?;
        Ok((upload, BTreeMap::new()))
    }

    /// The chunks that the server has; `None` if it has forgotten the upload.
    async fn chunks_there(&self, upload: &Upload) -> Result<Option<BTreeMap<String, u64>>, RemoteError> {
        let answer = self.client.send(&ask(self.collection_of(&upload.name), "1", QUERY)).await?;
        match answer.status {
            StatusCode::MULTI_STATUS => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                answer.drain().await;
                return Ok(None);
            }
            _ => return Err(self.no_listing(&RemotePath::root(), answer).await),
        }
        let lens = self.children(answer).await?.into_iter().filter_map(|(place, resource)| match place {
            Place::Child(name) => Some((name.to_string(), resource.len?)),
            Place::Itself | Place::Unusable(_) | Place::Elsewhere => None,
        });
        Ok(Some(lens.collect()))
    }

    /// Makes the file of its chunks. The condition is about the target, and so goes with its address.
    async fn assemble(
        &self,
        put: &Put<'_>,
        before: Option<&Looked>,
        collection: &Url,
    ) -> Result<Placed, RemoteError> {
        let target = self.url(put.path);
        let parts = collection.join(".file").expect("it is a name");
        let ask = request("MOVE", parts).with(DESTINATION, target.as_str()).with(TOTAL, &put.len.to_string());
        let mut ask = self.with_mtime(put, overwriting(ask, put.when != Condition::Absent));
        ask.once = true;
        if let Condition::Matches(version) = &put.when
            && self.habits.heeds_matches
            && !version.tag.is_empty()
        {
            ask = ask.with(IF, &format!("<{target}> ([{}])", version::quoted(version)));
        }
        let mut sent = self.client.send(&ask).await;
        if matches!(&sent, Ok(answer) if answer.status == StatusCode::PRECONDITION_FAILED) {
            check(put.path, &put.when, self.look(put.path).await?.found.as_ref())?;
            ask.headers.remove(IF);
            sent = self.client.send(&ask).await;
        }
        let error = match sent {
            Ok(answer) if is_done(&answer) => {
                let placed = Placed { tag: version::tag_of(&answer.headers), is_new_file: false };
                answer.drain().await;
                return Ok(placed);
            }
            Ok(answer) if !answer.status.is_server_error() => {
                return Err(self.explain(put.path, answer).await);
            }
            Ok(answer) => self.explain(put.path, answer).await,
            Err(error) => error.into(),
        };
        // A large file takes a while to make, and a proxy may not wait so long: perhaps it is there all the same.
        let old = before.and_then(Looked::file).map(|found| &found.entry.version);
        let now = self.look(put.path).await?;
        match now.file().map(|found| &found.entry.version) {
            Some(now) if now.len == put.len && Some(now) != old => {
                Ok(Placed { tag: String::new(), is_new_file: false })
            }
            _ => Err(error),
        }
    }

    pub(super) async fn abandon_chunks(&self, resume: &[u8]) -> Result<(), RemoteError> {
        let upload = Upload::decode(resume).filter(|upload| self.temporaries.is_own_chunks(&upload.name));
        let Some(upload) = upload.filter(|_| self.habits.chunks.is_some()) else { return Ok(()) };
        let answer =
            self.client.send(&Request::new(Method::DELETE, self.collection_of(&upload.name))).await?;
        match answer.status {
            _ if is_done(&answer) => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => {}
            _ => return Err(self.explain(&RemotePath::root(), answer).await),
        }
        answer.drain().await;
        Ok(())
    }

    /// Whether the server takes chunks: it makes a collection for them.
    pub(super) async fn find_chunks(&mut self) -> Result<(), RemoteError> {
        let Some(uploads) = uploads_of(self.client.base()) else { return Ok(()) };
        self.habits.chunks = Some(uploads);
        let collection = self.collection_of(&self.temporaries.chunks());
        let target = self.url(&RemotePath::root());
        let ask = request("MKCOL", collection.clone()).with(DESTINATION, target.as_str());
        let answer = self.client.send(&ask).await?;
        let makes = answer.status == StatusCode::CREATED;
        answer.drain().await;
        match makes {
            true => self.client.send(&Request::new(Method::DELETE, collection)).await?.drain().await,
            false => self.habits.chunks = None,
        }
        Ok(())
    }

    fn collection_of(&self, name: &str) -> Url {
        let uploads = self.habits.chunks.as_ref().expect("only servers with chunks are asked for them");
        uploads.join(&format!("{name}/")).expect("a device and a number are a name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_a_file_and_are_not_too_many() {
        for len in [CHUNK_BYTES_MIN + 1, 25 << 20, 1 << 40] {
            let upload = Upload::begin("x".into(), len);
            let chunks: Vec<_> = upload.chunks().collect();
            assert!(chunks.len() as u64 <= CHUNKS_MAX);
            assert_eq!((chunks[0].1.start, chunks.last().unwrap().1.end), (0, len));
            assert!(chunks.windows(2).all(|pair| pair[0].1.end == pair[1].1.start && pair[0].0 < pair[1].0));
            assert_eq!(Upload::decode(&upload.encode()), Some(upload));
        }
    }

    #[test]
    fn other_forms_of_uploads_are_not_continued() {
        for bytes in
            ["", "chunks-2 x 10485760 1", "chunks-1 x 1 1", "chunks-1 x 10485760", "chunks-1 x 10485760 1 1"]
        {
            assert_eq!(Upload::decode(bytes.as_bytes()), None, "{bytes}");
        }
        assert_eq!(Upload::decode(b"chunks-1 x 10485760 18446744073709551615"), None, "too many");
    }

    #[test]
    fn the_place_for_chunks_is_beside_that_for_files() {
        let of = |text: &str| uploads_of(&Url::parse(text).unwrap()).map(String::from);
        assert_eq!(
            of("https://h/cloud/remote.php/dav/files/ada/Photos/").as_deref(),
            Some("https://h/cloud/remote.php/dav/uploads/ada/")
        );
        assert_eq!(of("https://h/remote.php/webdav/"), None);
        assert_eq!(of("https://h/dav/files//"), None);
    }
}
