//! Uploads in parts, which a broken connection does not set back to the beginning.
//!
//! Each part that the server has accepted is noted with the caller before the next one is counted on. An upload that continues asks the
//! server which parts it has, and believes it only where the local bytes and the note agree.

use super::S3Remote;
use super::ask::Act;
use super::parts::{Cut, PARTS_MAX, is_copied};
use super::resume::{Mark, Upload, is_id};
use super::write::{New, Stored, digest, read_local};
use crate::remote::s3::head::with_headers;
use crate::remote::{Condition, Put, RemoteError, RemotePath};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use futures_util::StreamExt;
use md5::{Digest, Md5};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Parts on one page of a listing of parts.
const PAGE_PARTS: i32 = 1000;

/// Parts as the server has them, by number: its name for each.
pub(super) type Tags = BTreeMap<u16, String>;

/// A part that the server has.
struct Done {
    number: u16,
    tag: String,
    mark: Mark,
    /// Bytes that were sent for it now.
    sent: u64,
    is_new: bool,
}

impl S3Remote {
    pub(super) async fn put_parts(&self, put: &Put<'_>, new: &New) -> Result<Stored, RemoteError> {
        let cut = Cut::to_send(new.len);
        let (mut upload, there) = self.begun(put, new, cut).await?;
        let mut tags = Tags::new();
        // After a failure no other part is begun, and those that are on their way still count.
        let has_failed = AtomicBool::new(false);
        let work = (1..=cut.count() as u16).map(|number| {
            let (id, note) = (upload.id.clone(), upload.done.get(&number).copied());
            let (note, has_failed) = (note.zip(there.get(&number).cloned()), &has_failed);
            async move {
                match has_failed.load(Relaxed) {
                    true => Ok(None),
                    false => self.part(put, cut, number, &id, note).await.map(Some),
                }
            }
        });
        let work = work.collect::<Vec<_>>();
        let mut parts = futures_util::stream::iter(work).buffer_unordered(cut.at_once());
        let mut failed = None;
        while let Some(done) = parts.next().await {
            match done {
                Ok(None) => {}
                Ok(Some(Done { number, tag, mark, sent, is_new })) => {
                    tags.insert(number, tag);
                    put.progress.sent(sent);
                    if is_new {
                        upload.done.insert(number, mark);
                        self.note(put, &upload).await?;
                    }
                }
                Err(error) => {
                    has_failed.store(true, Relaxed);
                    failed.get_or_insert(error);
                }
            }
        }
        drop(parts);
        if let Some(error) = failed {
            return Err(error);
        }
        if put.when != Condition::Always && new.when == Condition::Always {
            // The parts took their time, and the server does not see to the condition.
            self.look_before(put.path, &put.when, true).await?;
        }
        let completed = self.complete(put.path, &upload.id, &tags, &new.when, new.len).await;
        let error = match completed {
            Ok(tag) => return Ok(Stored { tag, len: new.len }),
            Err(error) => error,
        };
        let stored = self.unless_ours(put.path, new, error, composite(&tags)).await;
        if matches!(stored, Err(RemoteError::Changed(_))) {
            // It can never complete. If this fails, the caller's own call removes it.
            let _ = self.abort(put.path, &upload.id).await;
        }
        stored
    }

    async fn note(&self, put: &Put<'_>, upload: &Upload) -> Result<(), RemoteError> {
        let noted = put.progress.can_resume(&upload.encode()).await;
        noted.map_err(|error| RemoteError::Local(error.to_string()))
    }

    /// The upload that continues, with the parts that the server has; or a new one.
    async fn begun(&self, put: &Put<'_>, new: &New, cut: Cut) -> Result<(Upload, Tags), RemoteError> {
        if let Some(upload) = put.resume.and_then(Upload::decode) {
            let fits = (upload.len, upload.part) == (cut.len, cut.part);
            if fits && let Some(tags) = self.parts_there(put.path, &upload.id, cut).await? {
                return Ok((upload, tags));
            }
            // What is left of it is of no use. The caller has no other note of it once the new one is kept.
            let _ = self.abort(put.path, &upload.id).await;
        }
        let id = self.create(put.path, new).await?;
        let upload = Upload { id, len: cut.len, part: cut.part, done: BTreeMap::new() };
        if let Err(error) = self.note(put, &upload).await {
            let _ = self.abort(put.path, &upload.id).await;
            return Err(error);
        }
        Ok((upload, Tags::new()))
    }

    pub(super) async fn create(&self, path: &RemotePath, new: &New) -> Result<String, RemoteError> {
        let request =
            self.client.sdk.create_multipart_upload().bucket(&self.client.bucket).key(self.key(path));
        let request = with_headers!(request, &new.headers).set_tagging(new.tagging.clone());
        let answer = self.ask(Act::write(path, 0, false), request.send()).await?;
        let nameless = || self.client.unreachable("begins an upload and does not say which");
        Ok(answer.upload_id.filter(|id| is_id(id)).ok_or_else(nameless)?)
    }

    /// The parts of an upload that the server has, of those that fit; `None` if it no longer knows the upload.
    async fn parts_there(&self, path: &RemotePath, id: &str, cut: Cut) -> Result<Option<Tags>, RemoteError> {
        let strange = || self.client.unreachable("gives a listing of parts that does not go on");
        let (mut tags, mut marker) = (Tags::new(), 0);
        for _ in 0..=PARTS_MAX {
            let request =
                self.client.sdk.list_parts().bucket(&self.client.bucket).key(self.key(path)).upload_id(id);
            let request = request.max_parts(PAGE_PARTS).part_number_marker(marker.to_string());
            let answer = match self.ask(Act::list(path), request.send()).await {
                Err(refused) if refused.code == "NoSuchUpload" => return Ok(None),
                answer => answer?,
            };
            for part in answer.parts() {
                let number = part.part_number().and_then(|number| u16::try_from(number).ok());
                let number = number.filter(|number| (1..=cut.count()).contains(&u64::from(*number)));
                let (Some(number), Some(tag), Some(size)) = (number, part.e_tag(), part.size()) else {
                    continue;
                };
                let range = cut.range(u64::from(number));
                if u64::try_from(size) == Ok(range.end - range.start) {
                    tags.insert(number, super::tag(tag));
                }
            }
            if answer.is_truncated() != Some(true) {
                return Ok(Some(tags));
            }
            let next = answer.next_part_number_marker().and_then(|marker| marker.parse::<u32>().ok());
            marker = next.filter(|next| *next > marker).ok_or_else(strange)?;
        }
        Err(strange().into())
    }

    /// Sees to it that the server has a part. `there` is the note of it and the server's name for it, from an earlier try.
    async fn part(
        &self,
        put: &Put<'_>,
        cut: Cut,
        number: u16,
        id: &str,
        there: Option<(Mark, String)>,
    ) -> Result<Done, RemoteError> {
        let range = cut.range(u64::from(number));
        let base = put
            .unchanged
            .filter(|(base, same)| self.abilities.copy_source && is_copied(&range, base.len, same));
        if let Some((base, _)) = base {
            let origin = format!("{} {}-{}", base.tag, range.start, range.end);
            if let Some((mark, tag)) = &there
                && *mark == Mark::of(origin.as_bytes(), tag)
            {
                return Ok(Done { number, tag: tag.clone(), mark: *mark, sent: 0, is_new: false });
            }
            // A server that cannot copy, or no longer has that version, gets the bytes.
            if let Ok(tag) = self.copy_part(put.path, (put.path, &base.tag), id, number, &range).await {
                let mark = Mark::of(origin.as_bytes(), &tag);
                return Ok(Done { number, tag, mark, sent: 0, is_new: true });
            }
        }
        let body = read_local(put.content.clone(), range.clone()).await?;
        let digest = digest(&body).await;
        if let Some((mark, tag)) = there
            && mark == Mark::of(&digest, &tag)
        {
            return Ok(Done { number, tag, mark, sent: 0, is_new: false });
        }
        let request = self.client.sdk.upload_part().bucket(&self.client.bucket).key(self.key(put.path));
        let request =
            request.upload_id(id).part_number(i32::from(number)).content_md5(BASE64.encode(&digest));
        let sent = body.len() as u64;
        let request = request.body(ByteStream::new(SdkBody::from(body)));
        let answer = self.ask(Act::write(put.path, sent, false), request.send()).await?;
        let tag = self.tag_of(answer.e_tag())?;
        let mark = Mark::of(&digest, &tag);
        Ok(Done { number, tag, mark, sent, is_new: true })
    }

    /// Completes an upload. Returns the server's name for the version.
    pub(super) async fn complete(
        &self,
        path: &RemotePath,
        id: &str,
        tags: &Tags,
        when: &Condition,
        len: u64,
    ) -> Result<String, RemoteError> {
        let part = |(number, tag): (&u16, &String)| {
            CompletedPart::builder().part_number(i32::from(*number)).e_tag(super::quoted(tag)).build()
        };
        let parts =
            CompletedMultipartUpload::builder().set_parts(Some(tags.iter().map(part).collect())).build();
        let request =
            self.client.sdk.complete_multipart_upload().bucket(&self.client.bucket).key(self.key(path));
        let request = request.upload_id(id).multipart_upload(parts);
        let request = match when {
            Condition::Always => request,
            Condition::Absent => request.if_none_match("*"),
            Condition::Matches(version) => request.if_match(super::quoted(&version.tag)),
        };
        // Some servers join the parts by copying them.
        let act = Act::write(path, len, *when != Condition::Always);
        let answer = self.ask(act, request.send()).await?;
        self.tag_of(answer.e_tag())
    }

    /// Removes an upload and its parts. One that is gone is no error.
    pub(super) async fn abort(&self, path: &RemotePath, id: &str) -> Result<(), RemoteError> {
        let request =
            self.client.sdk.abort_multipart_upload().bucket(&self.client.bucket).key(self.key(path));
        match self.ask(Act::delete(path, false), request.upload_id(id).send()).await {
            Err(refused) if refused.code == "NoSuchUpload" || refused.is_missing() => Ok(()),
            // Some servers fail where there is nothing to abort.
            Err(refused) if refused.status >= 500 => {
                let whole = Cut::to_send(0);
                let is_gone = matches!(self.parts_there(path, id, whole).await, Ok(None));
                if is_gone { Ok(()) } else { Err(refused.error) }
            }
            aborted => Ok(aborted.map(drop)?),
        }
    }

    pub(super) async fn abandon_now(&self, path: &RemotePath, resume: &[u8]) -> Result<(), RemoteError> {
        match Upload::decode(resume) {
            Some(upload) => self.abort(path, &upload.id).await,
            None => Ok(()),
        }
    }
}

/// What most servers call an object of these parts: the MD5 of their MD5s, and how many there are. `None` if they call parts otherwise.
fn composite(tags: &Tags) -> Option<String> {
    let mut all = Md5::new();
    for tag in tags.values() {
        let digest = HEXLOWER_PERMISSIVE.decode(tag.as_bytes()).ok().filter(|digest| digest.len() == 16)?;
        all.update(digest);
    }
    Some(format!("{}-{}", HEXLOWER.encode(&all.finalize()), tags.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_its_own_object_is_called() {
        let tags = Tags::from([
            (1, "900150983cd24fb0d6963f7d28e17f72".into()),
            (2, "d41d8cd98f00b204e9800998ecf8427e".into()),
        ]);
        let expected = {
            let mut bytes = Md5::digest("abc").to_vec();
            bytes.extend(Md5::digest(""));
            format!("{}-2", HEXLOWER.encode(&Md5::digest(bytes)))
        };
        assert_eq!(composite(&tags), Some(expected));
        assert_eq!(composite(&Tags::from([(1, "opaque".into())])), None);
    }
}
