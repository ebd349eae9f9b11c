//! The meaning of an S3 server's refusal. Pure: takes a status and a code, returns words for a person.
//!
//! Only what the server says in S3's own terms counts as news of an object. A bare 404 may come from anything in between, and an
//! unreachable object is never treated as a deleted one.
//!
//! Only the code of the server's answer is repeated: its messages may contain parts of the request.

use super::limits::RETRY_AFTER_MAX;
use crate::StoreError;
use std::time::Duration;

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    /// A put, with or without a condition.
    Put {
        conditional: bool,
    },
    Delete,
    Other,
}

/// A refusal.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The S3 code, if the answer has one.
    pub code: Option<&'a str>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// The region that the bucket is really in.
    pub region: Option<&'a str>,
    /// The answer is a page for people.
    pub web_page: bool,
    /// The request went without TLS to a port that expects TLS.
    pub wants_tls: bool,
}

/// The server and the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub verb: Verb,
    /// The object, without the prefix.
    pub name: &'a str,
    pub bucket: &'a str,
    /// The server, as a person knows it.
    pub host: &'a str,
}

impl Asked<'_> {
    /// The meaning of the refusal.
    pub(super) fn meaning(&self, refusal: &Refusal<'_>) -> StoreError {
        let code = refusal.code.map(shown).filter(|code| !code.is_empty());
        match &code {
            Some(code) => self.coded(code, refusal),
            None => self.bare(refusal),
        }
    }

    fn coded(&self, code: &str, refusal: &Refusal<'_>) -> StoreError {
        let Asked { bucket, host, .. } = self;
        let status = refusal.status;
        if let Some(error) = self.conditions(code, status) {
            return error;
        }
        if is_busy(code, status) {
            return self.busy(format!("{host} asks to wait ({code})"), refusal);
        }
        if is_full(code, status) {
            return StoreError::Full { reason: format!("{host} has no room left in {bucket} ({code})") };
        }
        match code {
            _ if self.verb == Verb::Delete && is_kept(code) => StoreError::Denied {
                reason: format!("{host} keeps objects in {bucket} until their retention ends ({code})"),
            },
            "NoSuchBucket" => StoreError::NoPlace { place: format!("bucket {bucket} at {host}") },
            "InvalidRange" if self.verb == Verb::Read => {
                let reason = "it is shorter than expected".to_owned();
                StoreError::Damaged { name: self.name.to_owned(), reason }
            }
            "RequestTimeTooSkewed" => {
                unreachable(format!("the clock of this computer differs too much from that of {host}"))
            }
            "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
                self.elsewhere(code, refusal)
            }
            "InvalidBucketName" => StoreError::Elsewhere {
                reason: format!("{bucket} is no name that a bucket can have at {host}"),
            },
            // The body was damaged or cut on its way.
            "RequestTimeout" | "IncompleteBody" | "BadDigest" | "XAmzContentSHA256Mismatch" => {
                unreachable(format!("the data did not arrive whole at {host} ({code})"))
            }
            _ => match self
                .unknown(code)
                .map(|reason| StoreError::UnknownCredentials { reason })
                .or_else(|| self.refused(code))
            {
                Some(error) => error,
                None if status == 401 => self.unnamed(code),
                None if (400..500).contains(&status) => {
                    StoreError::Denied { reason: format!("{host} did not take the request ({code})") }
                }
                None => unreachable(format!("{host} failed ({code}, {status})")),
            },
        }
    }

    /// Refusals because an object is, or is not, as the request assumed.
    fn conditions(&self, code: &str, status: u16) -> Option<StoreError> {
        let name = self.name.to_owned();
        match (code, self.verb) {
            ("NoSuchKey", Verb::Read) => Some(StoreError::NotFound { name }),
            // The object that was to be replaced is gone.
            ("NoSuchKey", Verb::Put { conditional: true }) => Some(StoreError::Precondition { name }),
            ("PreconditionFailed", Verb::Put { conditional: true }) if status == 412 => {
                Some(StoreError::Precondition { name })
            }
            (
                "PreconditionFailed",
                Verb::Read | Verb::Put { conditional: false } | Verb::Delete | Verb::Other,
            ) => Some(unreachable(format!("{} refuses a condition that nobody made ({code})", self.host))),
            // Another writer is busy with the object: whether the condition holds shows once it is done.
            ("ConditionalRequestConflict" | "OperationAborted", _) => Some(StoreError::Busy {
                reason: "another computer is writing the same object".into(),
                retry_after: None,
            }),
            _ => None,
        }
    }

    /// Why the server does not accept the credentials for any request.
    fn unknown(&self, code: &str) -> Option<String> {
        let host = self.host;
        Some(match code {
            // The last one is versitygw's, with a 404.
            "InvalidAccessKeyId" | "InvalidAccessKey" | "XAdminUserNotFound" => {
                format!("{host} does not know the access key")
            }
            "SignatureDoesNotMatch" => {
                format!("the secret key does not belong to the access key, says {host}")
            }
            "ExpiredToken" | "TokenRefreshRequired" => {
                format!("the temporary credentials for {host} have expired")
            }
            "InvalidToken" => format!("{host} does not take the session token"),
            _ => return None,
        })
    }

    /// Why these credentials do not allow the request.
    fn refused(&self, code: &str) -> Option<StoreError> {
        let Asked { bucket, host, .. } = self;
        let reason = match code {
            "AccessDenied" | "AllAccessDisabled" | "Forbidden" => {
                format!("the credentials do not allow this in the bucket {bucket} at {host}")
            }
            "AccountProblem" | "NotSignedUp" => format!("{host} has a problem with the account ({code})"),
            "NotImplemented" => format!("{host} cannot do this ({code})"),
            _ => return None,
        };
        Some(StoreError::Denied { reason })
    }

    /// The server still asks for credentials, whatever the request carried.
    fn unnamed(&self, code: &str) -> StoreError {
        StoreError::UnknownCredentials {
            reason: format!("{} does not take these credentials ({code})", self.host),
        }
    }

    /// Answers that are not in S3's terms, or whose form leaves no space for them.
    fn bare(&self, refusal: &Refusal<'_>) -> StoreError {
        let Asked { host, bucket, .. } = self;
        let status = refusal.status;
        match status {
            412 if self.verb == (Verb::Put { conditional: true }) => {
                StoreError::Precondition { name: self.name.to_owned() }
            }
            429 | 503 => self.busy(format!("{host} asks to wait ({status})"), refusal),
            507 => StoreError::Full { reason: format!("{host} has no room left in {bucket}") },
            _ if refusal.wants_tls => unreachable(format!("{host} wants https:// in the endpoint")),
            511 => unreachable(web_page(host)),
            300..400 if refusal.region.is_some() => self.elsewhere("PermanentRedirect", refusal),
            200..500 if refusal.web_page => unreachable(web_page(host)),
            300..400 => unreachable(format!("{host} sends requests elsewhere ({status}): {}", wrong(host))),
            401 => self.unnamed("401"),
            403 => {
                StoreError::Denied { reason: format!("{host} does not allow this in {bucket} ({status})") }
            }
            500.. => unreachable(format!("{host} failed ({status})")),
            _ => unreachable(format!("{host} does not answer as an S3 server does ({status})")),
        }
    }

    fn elsewhere(&self, code: &str, refusal: &Refusal<'_>) -> StoreError {
        let Asked { bucket, host, .. } = self;
        let reason = match refusal.region.map(shown).filter(|region| !region.is_empty()) {
            Some(region) => {
                format!("the bucket {bucket} is in the region {region}: write region={region} in the address")
            }
            None => format!(
                "{host} has the bucket {bucket} in another region ({code}): check region= in the address"
            ),
        };
        StoreError::Elsewhere { reason }
    }

    fn busy(&self, reason: String, refusal: &Refusal<'_>) -> StoreError {
        let retry_after = refusal.retry_after.map(|after| after.min(RETRY_AFTER_MAX));
        StoreError::Busy { reason, retry_after }
    }
}

/// The region that the body of an answer names.
pub(super) fn region(body: &str) -> Option<&str> {
    body.split_once("<Region>")?.1.split_once("</Region>").map(|(region, _)| region)
}

/// The meaning of a page for people that came from `host`.
pub(super) fn web_page(host: &str) -> String {
    format!("a web page came back instead of data from {host}: {}", wrong(host))
}

fn wrong(host: &str) -> String {
    format!("this network may want a login first, or {host} is no S3 server")
}

fn unreachable(reason: String) -> StoreError {
    StoreError::Unreachable { reason }
}

fn is_busy(code: &str, status: u16) -> bool {
    const BUSY: [&str; 6] = [
        "SlowDown",
        "ServiceUnavailable",
        "RequestLimitExceeded",
        "TooManyRequests",
        "BandwidthLimitExceeded",
        "Throttling",
    ];
    matches!(status, 429 | 503) || BUSY.iter().any(|busy| code.starts_with(busy))
}

/// Whether Object Lock, or another server's name for it, keeps an object.
pub(crate) fn is_kept(code: &str) -> bool {
    ["Lock", "Retention", "Immutable", "Worm", "WORM", "LegalHold"].iter().any(|word| code.contains(word))
}

fn is_full(code: &str, status: u16) -> bool {
    status == 507
        || ["QuotaExceeded", "StorageFull", "InsufficientStorage"].iter().any(|full| code.contains(full))
}

/// A word that a server sent, reduced to plain characters.
fn shown(word: &str) -> String {
    const LONGEST: usize = 64;
    word.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: Verb = Verb::Put { conditional: true };

    fn asked(verb: Verb) -> Asked<'static> {
        Asked { verb, name: "a/1", bucket: "photos", host: "s3.example.org" }
    }

    fn said(verb: Verb, status: u16, code: &str) -> StoreError {
        let code = Some(code).filter(|code| !code.is_empty());
        asked(verb).meaning(&Refusal { status, code, ..Refusal::default() })
    }

    #[test]
    fn only_the_server_itself_says_that_an_object_is_missing() {
        assert_eq!(said(Verb::Read, 404, "NoSuchKey"), StoreError::NotFound { name: "a/1".into() });
        for code in ["", "NoSuchBucket", "NotFound", "NoSuchUpload"] {
            let error = said(Verb::Read, 404, code);
            assert!(
                !matches!(error, StoreError::NotFound { .. } | StoreError::Precondition { .. }),
                "{error:?}"
            );
        }
        let error = said(Verb::Read, 404, "NoSuchBucket").to_string();
        assert!(error.contains("there is no bucket photos at s3.example.org"), "{error}");
        assert!(matches!(said(Verb::Other, 404, "NoSuchKey"), StoreError::Denied { .. }));
    }

    #[test]
    fn a_condition_fails_only_for_certain() {
        let failed = StoreError::Precondition { name: "a/1".into() };
        assert_eq!(said(PUT, 412, "PreconditionFailed"), failed);
        assert_eq!(said(PUT, 412, ""), failed);
        assert_eq!(said(PUT, 404, "NoSuchKey"), failed);
        for (verb, status, code) in [
            (Verb::Put { conditional: false }, 412, "PreconditionFailed"),
            (Verb::Put { conditional: false }, 412, ""),
            (PUT, 409, "ConditionalRequestConflict"),
            (PUT, 409, "OperationAborted"),
            (PUT, 500, "PreconditionFailed"),
            (PUT, 404, "NoSuchBucket"),
        ] {
            assert_ne!(said(verb, status, code), failed, "{status} {code}");
        }
        assert!(matches!(said(PUT, 409, "ConditionalRequestConflict"), StoreError::Busy { .. }));
    }

    #[test]
    fn busy_servers_are_recognised_and_their_waits_bounded() {
        for (status, code) in [(503, "SlowDown"), (429, ""), (503, ""), (400, "ThrottlingException")] {
            assert!(matches!(said(PUT, status, code), StoreError::Busy { .. }), "{status} {code}");
        }
        let after = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            match asked(PUT).meaning(&Refusal { status: 503, retry_after, ..Refusal::default() }) {
                StoreError::Busy { retry_after, .. } => retry_after.unwrap().as_secs(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((after(7), after(1 << 40)), (7, 3600));
    }

    #[test]
    fn errors_say_what_a_person_can_do() {
        for (status, code, words) in [
            (403, "AccessDenied", "do not allow this in the bucket photos"),
            (403, "", "does not allow this in photos (403)"),
            (400, "InvalidArgument", "did not take the request (InvalidArgument)"),
            (501, "NotImplemented", "cannot do this"),
        ] {
            let error = said(Verb::Read, status, code);
            assert!(matches!(&error, StoreError::Denied { reason } if reason.contains(words)), "{error:?}");
        }
        for (status, code, words) in [
            (403, "RequestTimeTooSkewed", "the clock of this computer"),
            (400, "RequestTimeout", "did not arrive whole"),
            (500, "InternalError", "failed (InternalError, 500)"),
            (502, "", "failed (502)"),
            (302, "", "may want a login"),
            (511, "", "may want a login"),
            (405, "", "does not answer as an S3 server"),
        ] {
            let error = said(Verb::Read, status, code);
            assert!(
                matches!(&error, StoreError::Unreachable { reason } if reason.contains(words)),
                "{error:?}"
            );
        }
        for (status, code) in [(403, "QuotaExceeded"), (507, ""), (507, "XMinioStorageFull")] {
            assert!(matches!(said(PUT, status, code), StoreError::Full { .. }), "{status} {code}");
        }
        assert!(matches!(said(Verb::Read, 416, "InvalidRange"), StoreError::Damaged { .. }));
    }

    #[test]
    fn unknown_credentials_differ_from_denied_access() {
        for verb in [Verb::Read, PUT, Verb::Other] {
            for (status, code, words) in [
                (403, "InvalidAccessKeyId", "does not know the access key"),
                (404, "XAdminUserNotFound", "does not know the access key"),
                (403, "SignatureDoesNotMatch", "the secret key does not belong"),
                (400, "ExpiredToken", "have expired"),
                (400, "InvalidToken", "does not take the session token"),
                (401, "Unauthorized", "does not take these credentials"),
                (401, "", "does not take these credentials"),
            ] {
                let error = said(verb, status, code);
                assert!(
                    matches!(&error, StoreError::UnknownCredentials { reason } if reason.contains(words)),
                    "{error:?}"
                );
            }
            assert!(matches!(said(verb, 403, "AccessDenied"), StoreError::Denied { .. }));
        }
    }

    #[test]
    fn a_wrong_region_names_the_right_one() {
        let refusal = Refusal { status: 301, region: Some("eu-central-1\nx"), ..Refusal::default() };
        let StoreError::Elsewhere { reason } = asked(Verb::Read).meaning(&refusal) else { panic!() };
        assert!(reason.ends_with("write region=eu-central-1x in the address"), "{reason}");
        let StoreError::Elsewhere { reason } = said(PUT, 400, "AuthorizationHeaderMalformed") else {
            panic!()
        };
        assert!(reason.ends_with("check region= in the address"), "{reason}");
    }

    #[test]
    fn pages_for_people_are_no_news_of_objects() {
        for status in [403, 404, 302] {
            let refusal = Refusal { status, web_page: true, ..Refusal::default() };
            let error = asked(Verb::Read).meaning(&refusal);
            assert!(
                matches!(&error, StoreError::Unreachable { reason } if reason.contains("web page")),
                "{error:?}"
            );
        }
        let refusal = Refusal { status: 400, wants_tls: true, ..Refusal::default() };
        assert!(asked(Verb::Read).meaning(&refusal).to_string().contains("https://"));
    }
}
