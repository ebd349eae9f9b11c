//! What the server does, tried on an object of our own before anything of a user's is written. Its name tells nothing: a server is judged by
//! what it does.
//!
//! Each trial makes a condition that does not hold. A server that keeps conditions refuses with 412. Every other answer means that the
//! condition cannot be relied on, and costs a look before and after each change.

use super::S3Remote;
use super::ask::{Act, Refused};
use super::multipart::Tags;
use super::write::New;
use crate::StoreError;
use crate::remote::{Condition, Name, RemoteError, RemotePath, UPLOAD_PREFIX, Version};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::EncodingType;
use uuid::Uuid;

/// No version is called so.
const NOBODY: &str = "00000000000000000000000000000000";

/// Whose conditions the server keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Of puts.
    pub put: bool,
    /// Of the last request of an upload in parts.
    pub complete: bool,
    /// Of copies, about the target.
    pub copy: bool,
    /// Of copies, about the source.
    pub copy_source: bool,
    /// Of deletes.
    pub delete: bool,
    /// It encodes the keys of a listing, when asked to and as it says. Some servers say so and do not.
    pub encodes: bool,
}

/// What was found.
pub(super) struct Found {
    pub abilities: Abilities,
    /// Why nothing can be written.
    pub read_only: Option<String>,
}

/// How the server answered a condition that does not hold.
fn keeps<T>(answer: Result<T, Refused>) -> Result<bool, RemoteError> {
    match answer {
        Ok(_) => Ok(false),
        Err(refused) if refused.status == 412 => Ok(true),
        // A server that does not know the request or its condition says so in one of many ways.
        Err(Refused { status: 400..=499 | 501, error, .. }) if !is_about_access(&error) => Ok(false),
        Err(refused) => Err(refused.error),
    }
}

/// The same where there is another way, if this one fails.
fn keeps_well<T>(answer: Result<T, Refused>) -> Result<bool, RemoteError> {
    match answer {
        Err(Refused { status: 500, .. }) => Ok(false),
        answer => keeps(answer),
    }
}

fn is_kept_from_us(error: &RemoteError) -> bool {
    matches!(error, RemoteError::Store(StoreError::Denied { .. }) | RemoteError::Forbidden { .. })
}

fn is_about_access(error: &RemoteError) -> bool {
    matches!(error, RemoteError::Store(StoreError::UnknownCredentials { .. } | StoreError::Busy { .. }))
}

impl S3Remote {
    pub(super) async fn probe(&self, device: Uuid) -> Result<Found, RemoteError> {
        // One name for each device: what a try that was cut off leaves behind, the next one uses and removes.
        let name = format!("{UPLOAD_PREFIX}{}-probe%41+ \u{e4}", device.simple());
        let path = RemotePath::root().join(&Name::new(&name).expect("it is a file's name"));
        let read_only = |reason| Found { abilities: Abilities::default(), read_only: Some(reason) };
        match self.put_probe(&path, None).await {
            Err(Refused { error: RemoteError::Store(StoreError::Denied { reason }), .. }) => {
                return Ok(read_only(reason));
            }
            put => drop(put?),
        }
        let abilities = self.try_all(&path).await;
        // A server that keeps deletions from us keeps this one small object too.
        let removed = self.remove_probe(&path, None).await;
        let abilities = abilities?;
        match removed {
            Err(refused) if !refused.is_missing() && !is_kept_from_us(&refused.error) => Err(refused.error),
            _ => Ok(Found { abilities, read_only: None }),
        }
    }

    async fn try_all(&self, path: &RemotePath) -> Result<Abilities, RemoteError> {
        let encodes = self.encodes(path).await?;
        let nobody = || Condition::Matches(Version { tag: NOBODY.into(), len: 0, written: None });
        let absent = keeps(self.put_probe(path, Some(&Condition::Absent)).await)?;
        let put = absent && keeps(self.put_probe(path, Some(&nobody())).await)?;
        let complete =
            self.completes(path, Condition::Absent).await? && self.completes(path, nobody()).await?;
        let copy = keeps_well(self.copy_probe(path, None, Some(&Condition::Absent)).await)?
            && keeps_well(self.copy_probe(path, None, Some(&nobody())).await)?;
        let copy_source = keeps_well(self.copy_probe(path, Some(NOBODY), None).await)?;
        let refused = self.remove_probe(path, Some(NOBODY)).await;
        // Some servers answer well and keep the object, and some refuse and remove it.
        let delete = match refused {
            Err(refused) if is_kept_from_us(&refused.error) => false,
            refused => keeps(refused)? && self.head(path, &self.key(path)).await?.is_some(),
        };
        Ok(Abilities { put, complete, copy, copy_source, delete, encodes })
    }

    /// Whether a key that looks as if it were encoded comes back encoded.
    async fn encodes(&self, path: &RemotePath) -> Result<bool, RemoteError> {
        let key = self.key(path);
        let request = self.client.sdk.list_objects_v2().bucket(&self.client.bucket).prefix(&key);
        let request = request.max_keys(1).encoding_type(EncodingType::Url);
        let answer = self.ask(Act::list(path), request.send()).await?;
        let found = answer.contents().first().and_then(|object| object.key());
        let decoded = found.map(super::pages::decoded);
        Ok(answer.encoding_type().is_some() && decoded.as_deref() == Some(key.as_bytes()))
    }

    async fn put_probe(&self, path: &RemotePath, when: Option<&Condition>) -> Result<(), Refused> {
        let request = self.client.sdk.put_object().bucket(&self.client.bucket).key(self.key(path));
        let request = match when {
            Some(Condition::Absent) => request.if_none_match("*"),
            Some(Condition::Matches(version)) => request.if_match(super::quoted(&version.tag)),
            Some(Condition::Always) | None => request,
        };
        let request = request.body(ByteStream::from_static(b"Holdall tries what this server does.\n"));
        self.ask(Act::write(path, 0, when.is_some()), request.send()).await.map(drop)
    }

    async fn copy_probe(
        &self,
        path: &RemotePath,
        source: Option<&str>,
        when: Option<&Condition>,
    ) -> Result<(), Refused> {
        let request = self.client.sdk.copy_object().bucket(&self.client.bucket).key(self.key(path));
        let request = request.copy_source(self.source(&self.key(path))).metadata("try", "1");
        let request = request.metadata_directive(aws_sdk_s3::types::MetadataDirective::Replace);
        let request = request.set_copy_source_if_match(source.map(super::quoted));
        let request = match when {
            Some(Condition::Absent) => request.if_none_match("*"),
            Some(Condition::Matches(version)) => request.if_match(super::quoted(&version.tag)),
            Some(Condition::Always) | None => request,
        };
        self.ask(Act::write(path, 0, true), request.send()).await.map(drop)
    }

    async fn remove_probe(&self, path: &RemotePath, tag: Option<&str>) -> Result<(), Refused> {
        let request = self.client.sdk.delete_object().bucket(&self.client.bucket).key(self.key(path));
        let request = request.set_if_match(tag.map(super::quoted));
        self.ask(Act::delete(path, tag.is_some()), request.send()).await.map(drop)
    }

    /// Whether the last request of an upload in parts keeps a condition that does not hold.
    async fn completes(&self, path: &RemotePath, when: Condition) -> Result<bool, RemoteError> {
        let new = New { headers: Default::default(), tagging: None, when: Condition::Always, len: 1 };
        let id = match self.create(path, &new).await {
            Ok(id) => id,
            Err(RemoteError::Store(StoreError::Denied { .. })) => return Ok(false),
            Err(error) => return Err(error),
        };
        let tags = self.one_part(path, &id).await;
        let completed = match &tags {
            Ok(tags) => self.complete(path, &id, tags, &when, 1).await.map(drop),
            Err(error) => Err(error.clone()),
        };
        if completed.is_err() {
            self.clear(path, &id, tags.as_ref().ok()).await;
        }
        match completed {
            Err(RemoteError::Changed(_)) => Ok(true),
            Err(error) if error.is_transient() && !is_kept_from_us(&error) => Err(error),
            _ => Ok(false),
        }
    }

    async fn one_part(&self, path: &RemotePath, id: &str) -> Result<Tags, RemoteError> {
        let request = self.client.sdk.upload_part().bucket(&self.client.bucket).key(self.key(path));
        let request = request.upload_id(id).part_number(1).body(ByteStream::from_static(b"1"));
        let answer = self.ask(Act::write(path, 0, false), request.send()).await?;
        Ok(Tags::from([(1, self.tag_of(answer.e_tag())?)]))
    }

    /// Leaves no upload behind, if possible: one byte is not worth a failed opening. Who may not abort an upload may complete it, into the
    /// object of the trials.
    async fn clear(&self, path: &RemotePath, id: &str, tags: Option<&Tags>) {
        if let (Err(error), Some(tags)) = (self.abort(path, id).await, tags)
            && is_kept_from_us(&error)
        {
            let _ = self.complete(path, id, tags, &Condition::Always, 1).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> Result<(), Refused> {
        let reason = "it cannot do this".to_owned();
        Err(Refused { status, code: String::new(), error: StoreError::Denied { reason }.into() })
    }

    #[test]
    fn only_a_failed_condition_is_a_kept_one() {
        assert_eq!(keeps(refused(412)), Ok(true));
        for status in [400, 409, 501] {
            assert_eq!(keeps(refused(status)), Ok(false), "{status}");
        }
        assert_eq!(keeps(Ok(())), Ok(false), "it was ignored");
        let busy = StoreError::Busy { reason: "later".into(), retry_after: None };
        for (status, error) in
            [(0, StoreError::Unreachable { reason: "away".into() }), (429, busy.clone()), (503, busy)]
        {
            let answer = Err::<(), _>(Refused { status, code: String::new(), error: error.clone().into() });
            assert_eq!(keeps(answer), Err(error.into()), "it says nothing");
        }
    }
}
