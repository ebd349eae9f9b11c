//! Puts of whole objects. [`super::put_form`] says how they are sent.

use super::client::S3Client;
use super::meaning::Verb;
use super::put_form::PutForm;
use crate::{Etag, StoreError, When};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use bytes::Bytes;
use data_encoding::BASE64;
use md5::{Digest, Md5};

impl S3Client {
    /// Whether the server decides the conditions of puts, as far as is known.
    pub(crate) fn heeds_conditions(&self) -> bool {
        self.way.lock().condition
    }

    /// Puts the object. On a server without conditions, a look before the put stands in for [`When::Absent`] if `may_look`, and otherwise
    /// the put is refused: a look decides nothing between two computers.
    pub(crate) async fn put(
        &self,
        name: &str,
        body: Bytes,
        when: &When,
        may_look: bool,
    ) -> Result<Etag, StoreError> {
        let mut way = *self.way.lock();
        loop {
            if !way.condition
                && let Err(error) = self.look_before(name, when, may_look).await
            {
                // A server that supports conditions would have said that the name is taken.
                if matches!(error, StoreError::Precondition { .. }) {
                    self.way.lock().learn(way);
                }
                return Err(error);
            }
            let refused = match self.put_once(name, body.clone(), when, way).await? {
                Ok(etag) => {
                    self.way.lock().learn(way);
                    return Ok(etag);
                }
                Err(refused) => refused,
            };
            // Without a condition, the put may replace another version than the one that was compared.
            let is_version = matches!(when, When::Matches(_)) || !may_look;
            match refused.next {
                Some(next) if next.condition || !is_version => way = next,
                Some(_) => return Err(self.knows_no_conditions()),
                None => return Err(refused.error),
            }
        }
    }

    /// One put in one way. The inner error is this server's refusal, and the server may accept another way.
    async fn put_once(
        &self,
        name: &str,
        body: Bytes,
        when: &When,
        way: PutForm,
    ) -> Result<Result<Etag, NotTaken>, StoreError> {
        let len = body.len() as u64;
        let mut request = self.sdk.put_object().bucket(&self.bucket).key(self.key(name));
        request = match when {
            When::Absent if way.condition => request.if_none_match("*"),
            When::Matches(Etag(etag)) if way.condition => request.if_match(etag),
            When::Absent | When::Matches(_) | When::Always => request,
        };
        if way.digest {
            request = request.content_md5(BASE64.encode(&Md5::digest(&body)));
        }
        let body = ByteStream::new(SdkBody::from(body));
        let request = request.content_type("application/octet-stream").body(body);
        let conditional = *when != When::Always;
        let error = match self.within(len, request.send()).await? {
            Ok(answer) => return self.etag(answer.e_tag).map(Ok),
            Err(error) => error,
        };
        let next = match &error {
            SdkError::ServiceError(context) => {
                let status = context.raw().status().as_u16();
                way.next(conditional, status, context.err().code())
            }
            _ => None,
        };
        let verb = Verb::Put { conditional: conditional && way.condition };
        Ok(Err(NotTaken { next, error: self.explain(verb, name, &error) }))
    }

    /// Stands in for a condition where the server supports none. It decides nothing between two computers that put at the same time.
    async fn look_before(&self, name: &str, when: &When, may_look: bool) -> Result<(), StoreError> {
        match when {
            When::Always => Ok(()),
            When::Absent if may_look => match self.len(name).await {
                Ok(_) => Err(StoreError::Precondition { name: name.to_owned() }),
                Err(StoreError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            When::Absent | When::Matches(_) => Err(self.knows_no_conditions()),
        }
    }

    fn knows_no_conditions(&self) -> StoreError {
        StoreError::Denied { reason: format!("{} does not support conditional writes", self.host) }
    }
}

/// A put that the server refused.
struct NotTaken {
    /// The way that it may accept instead.
    next: Option<PutForm>,
    error: StoreError,
}
