//! One request, and what a refusal of it means for a file.

use super::S3Remote;
use crate::StoreError;
use crate::remote::{RemoteError, RemotePath};
use crate::s3::meaning::{Verb, is_kept};
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;

/// What is asked.
#[derive(Clone, Copy)]
pub(super) struct Act<'a> {
    /// The file that errors are about.
    pub path: &'a RemotePath,
    pub verb: Verb,
    /// A failed condition is an answer.
    pub is_conditional: bool,
    /// How long it may take, as the length of a body.
    pub bytes: u64,
}

impl<'a> Act<'a> {
    pub(super) fn read(path: &'a RemotePath, bytes: u64) -> Self {
        Self { path, verb: Verb::Read, is_conditional: false, bytes }
    }

    pub(super) fn write(path: &'a RemotePath, bytes: u64, is_conditional: bool) -> Self {
        Self { path, verb: Verb::Put { conditional: is_conditional }, is_conditional, bytes }
    }

    pub(super) fn delete(path: &'a RemotePath, is_conditional: bool) -> Self {
        Self { path, verb: Verb::Delete, is_conditional, bytes: 0 }
    }

    pub(super) fn list(path: &'a RemotePath) -> Self {
        Self { path, verb: Verb::Other, is_conditional: false, bytes: super::pages::PAGE_BYTES }
    }

    pub(super) fn conditional(self) -> Self {
        Self { is_conditional: true, ..self }
    }
}

/// A request without success.
#[derive(Debug)]
pub(super) struct Refused {
    /// The HTTP status; 0 without an answer.
    pub status: u16,
    /// S3's word for it; empty if the answer has none.
    pub code: String,
    /// What it means for the file.
    pub error: RemoteError,
}

impl Refused {
    /// The server says that there is nothing, in an answer that may have no words.
    pub(super) fn is_missing(&self) -> bool {
        self.status == 404 && matches!(self.code.as_str(), "" | "NotFound" | "NoSuchKey")
    }
}

impl From<Refused> for RemoteError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

impl S3Remote {
    /// Sends a request, once. The SDK's futures have tens of kilobytes: they lie on the heap, not in those of the callers.
    pub(super) fn ask<'a, T, E>(
        &'a self,
        act: Act<'a>,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Refused>> + Send + 'a
    where
        T: Send + 'a,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let request = Box::pin(request);
        async move {
            let silent = |error: StoreError| Refused { status: 0, code: String::new(), error: error.into() };
            let answer = self.client.within(act.bytes, request).await.map_err(silent)?;
            answer.map_err(|error| self.refused(act, &error))
        }
    }

    /// What a failed request means.
    pub(super) fn refused<E>(&self, act: Act<'_>, error: &SdkError<E, HttpResponse>) -> Refused
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let answer = error.raw_response();
        let status = answer.map_or(0, |answer| answer.status().as_u16());
        let is_page = answer
            .and_then(|answer| answer.headers().get("content-type"))
            .is_some_and(|kind| kind.starts_with("text/html"));
        let code = match error {
            SdkError::ServiceError(context) => context.err().code().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let explained = || self.client.explain(act.verb, act.path.as_str(), error);
        let error = match is_page {
            true => explained().into(),
            false => meaning(act, status, &code, explained),
        };
        Refused { status, code, error }
    }
}

/// What a refusal says about the file. What it says about the place, `explained` knows.
fn meaning(act: Act<'_>, status: u16, code: &str, explained: impl Fn() -> StoreError) -> RemoteError {
    let path = || act.path.clone();
    match (status, code) {
        (412, "" | "PreconditionFailed") if act.is_conditional => RemoteError::Changed(path()),
        // A directory has the name, or a file the name of its directory: servers whose keys are files say so.
        (_, "ExistingObjectIsDirectory" | "ObjectParentIsFile" | "ExistingObjectIsObject") => {
            RemoteError::Changed(path())
        }
        (_, "XMinioObjectExistsAsDirectory" | "XMinioParentIsObject") => RemoteError::Changed(path()),
        (_, "InvalidObjectState") => RemoteError::Archived(path()),
        (_, "EntityTooLarge") => RemoteError::TooLarge(path()),
        (_, "KeyTooLongError" | "KeyTooLong" | "InvalidObjectName" | "XMinioInvalidObjectName") => {
            RemoteError::BadName { path: path(), reason: format!("it refuses it ({code})") }
        }
        (_, "MetadataTooLarge") => {
            let reason = format!("its attributes do not fit into the server ({code})");
            RemoteError::Forbidden { path: path(), reason }
        }
        _ => match explained() {
            StoreError::NotFound { .. } => RemoteError::NotFound(path()),
            StoreError::Precondition { .. } => RemoteError::Changed(path()),
            // It is shorter than the version that was meant.
            StoreError::Damaged { .. } => RemoteError::Changed(path()),
            StoreError::Denied { reason } if act.verb == Verb::Delete && is_kept(code) => {
                RemoteError::Forbidden { path: path(), reason }
            }
            error => error.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_tell_the_file_from_the_place() {
        let path = RemotePath::parse("a/b").unwrap();
        let away = || StoreError::Unreachable { reason: "away".into() };
        let said = |act: Act<'_>, status, code| meaning(act, status, code, away);
        let write = Act::write(&path, 0, true);
        let changed = RemoteError::Changed(path.clone());
        assert_eq!(said(write, 412, "PreconditionFailed"), changed);
        assert_eq!(said(write, 412, ""), changed);
        assert_eq!(said(Act::write(&path, 0, false), 412, ""), away().into(), "nobody made a condition");
        assert_eq!(said(write, 500, "PreconditionFailed"), away().into());
        assert_eq!(said(write, 409, "ExistingObjectIsDirectory"), changed);
        assert_eq!(said(Act::read(&path, 0), 403, "InvalidObjectState"), RemoteError::Archived(path.clone()));
        assert_eq!(said(write, 400, "EntityTooLarge"), RemoteError::TooLarge(path.clone()));
        assert!(matches!(said(write, 400, "KeyTooLongError"), RemoteError::BadName { .. }));
        let kept = || StoreError::Denied { reason: "kept".into() };
        let said = meaning(Act::delete(&path, false), 403, "ObjectLocked", kept);
        assert!(matches!(said, RemoteError::Forbidden { .. }), "{said:?}");
        assert_eq!(meaning(Act::delete(&path, false), 403, "AccessDenied", kept), kept().into());
    }
}
