//! What one object is: its version, its metadata, and the headers that others have given it.

use super::ask::Act;
use super::meta::{self, Type, User};
use super::{S3Remote, tag};
use crate::remote::{Entry, Kind, Meta, Name, RemoteError, RemotePath, Time, Version};
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::primitives::{DateTime, DateTimeFormat};
use aws_sdk_s3::types::StorageClass;

/// The content type that some programs give to what stands for a directory.
pub(super) const DIRECTORY_TYPE: &str = "application/x-directory";
/// Linux's limit for the target of a link, in bytes.
pub(super) const LINK_BYTES_MAX: u64 = 4095;

/// An object without its bytes.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub version: Version,
    pub kind: Type,
    /// As far as the user metadata says it.
    pub meta: Meta,
    pub headers: Headers,
}

/// What others may have set, and is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    pub content_type: Option<String>,
    pub cache_control: Option<String>,
    pub content_disposition: Option<String>,
    pub content_encoding: Option<String>,
    pub content_language: Option<String>,
    pub expires: Option<DateTime>,
    pub redirect: Option<String>,
    pub storage_class: Option<StorageClass>,
    pub user: User,
    pub has_tags: bool,
}

/// Gives a request the headers of an object.
macro_rules! with_headers {
    ($request:expr, $headers:expr) => {{
        let headers: &crate::remote::s3::head::Headers = $headers;
        $request
            .set_content_type(headers.content_type.clone())
            .set_cache_control(headers.cache_control.clone())
            .set_content_disposition(headers.content_disposition.clone())
            .set_content_encoding(headers.content_encoding.clone())
            .set_content_language(headers.content_language.clone())
            .set_expires(headers.expires)
            .set_website_redirect_location(headers.redirect.clone())
            .set_storage_class(headers.storage_class.clone())
            .set_metadata(Some(headers.user.clone().into_iter().collect()))
    }};
}
pub(super) use with_headers;

impl S3Remote {
    /// The object of a key; `None` if the server says that there is none. A HEAD has no words for that: who takes `None` for news asks
    /// something else too.
    pub(super) async fn head(&self, path: &RemotePath, key: &str) -> Result<Option<Head>, RemoteError> {
        let request = self.client.sdk.head_object().bucket(&self.client.bucket).key(key);
        match self.ask(Act::read(path, 0), request.send()).await {
            Ok(answer) => self.head_of(answer).map(Some),
            Err(refused) if refused.is_missing() => Ok(None),
            Err(refused) => Err(refused.into()),
        }
    }

    fn head_of(&self, answer: HeadObjectOutput) -> Result<Head, RemoteError> {
        let version = self.version(answer.e_tag(), answer.content_length(), answer.last_modified())?;
        let user: User =
            answer.metadata().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        let expires =
            answer.expires_string().and_then(|text| DateTime::from_str(text, DateTimeFormat::HttpDate).ok());
        let headers = Headers {
            content_type: answer.content_type,
            cache_control: answer.cache_control,
            content_disposition: answer.content_disposition,
            content_encoding: answer.content_encoding.and_then(|encoding| kept_encoding(&encoding)),
            content_language: answer.content_language,
            expires,
            redirect: answer.website_redirect_location,
            storage_class: answer.storage_class.filter(can_be_read_back),
            has_tags: answer.tag_count.is_some_and(|count| count > 0),
            user,
        };
        let (said, meta) = meta::read(&headers.user);
        let is_directory = version.len == 0
            && (said == Some(Type::Directory)
                || headers.content_type.as_deref().is_some_and(is_directory_type));
        let kind = match said {
            _ if is_directory => Type::Directory,
            Some(Type::Link) if (1..=LINK_BYTES_MAX).contains(&version.len) => Type::Link,
            _ => Type::File,
        };
        Ok(Head { version, kind, meta, headers })
    }

    /// A version, if the server names one.
    pub(super) fn version(
        &self,
        etag: Option<&str>,
        len: Option<i64>,
        written: Option<&DateTime>,
    ) -> Result<Version, RemoteError> {
        let strange = || self.client.unreachable("does not say which version an object is, and how long");
        let len = len.and_then(|len| u64::try_from(len).ok()).ok_or_else(strange)?;
        let tag = etag.map(tag).filter(|tag| !tag.is_empty()).ok_or_else(strange)?;
        // Headers have no fractions of seconds, and some listings do.
        let written = written.map(|time| Time(i128::from(time.secs()) * 1_000_000_000));
        Ok(Version { tag, len, written })
    }

    /// The entry of an object that is a file or a link. Reads a link's target.
    pub(super) async fn entry_of(
        &self,
        path: &RemotePath,
        key: &str,
        head: Head,
    ) -> Result<Entry, RemoteError> {
        let Head { version, kind, mut meta, .. } = head;
        let mut kind = match kind {
            Type::File => Kind::File,
            Type::Directory => Kind::Directory,
            Type::Link => Kind::Link,
        };
        if kind == Kind::Link {
            meta.link = self.target(path, key, &version).await?;
            if meta.link.is_none() {
                kind = Kind::File;
            }
        }
        let version = if kind == Kind::Directory { super::directory_version() } else { version };
        Ok(Entry { name: name_of(path), kind, version, meta: Some(meta), is_writable: self.is_writable() })
    }

    /// The target of a link; `None` if no link can have it.
    async fn target(
        &self,
        path: &RemotePath,
        key: &str,
        version: &Version,
    ) -> Result<Option<String>, RemoteError> {
        let bytes = self.read_key(path, key, version, 0..version.len).await?;
        Ok(String::from_utf8(bytes.into()).ok().filter(|target| !target.contains('\0')))
    }

    /// The tags of an object, as a header. Servers without tags have none.
    pub(super) async fn tagging(
        &self,
        path: &RemotePath,
        headers: &Headers,
    ) -> Result<Option<String>, RemoteError> {
        if !headers.has_tags {
            return Ok(None);
        }
        let request = self.client.sdk.get_object_tagging().bucket(&self.client.bucket).key(self.key(path));
        let answer = self.ask(Act::read(path, 0), request.send()).await?;
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(answer.tag_set().iter().map(|tag| (tag.key(), tag.value())));
        Ok(Some(text.finish()))
    }
}

/// The name of a path; the root's is empty.
pub(super) fn name_of(path: &RemotePath) -> Name {
    path.split().map_or_else(Name::of_root, |(_, name)| name)
}

fn is_directory_type(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(DIRECTORY_TYPE))
}

/// `aws-chunked` says how one request was sent, and is no property of the file.
fn kept_encoding(encoding: &str) -> Option<String> {
    let kept: Vec<_> = encoding
        .split(',')
        .map(str::trim)
        .filter(|word| *word != "aws-chunked" && !word.is_empty())
        .collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// New bytes in an archive could not be read until somebody restores them.
fn can_be_read_back(class: &StorageClass) -> bool {
    !matches!(class, StorageClass::Glacier | StorageClass::DeepArchive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_request_are_not_kept() {
        assert_eq!(kept_encoding("aws-chunked"), None);
        assert_eq!(kept_encoding("gzip,aws-chunked").as_deref(), Some("gzip"));
        assert_eq!(kept_encoding("br").as_deref(), Some("br"));
        assert!(
            is_directory_type("application/x-directory; charset=UTF-8") && !is_directory_type("text/plain")
        );
    }
}
