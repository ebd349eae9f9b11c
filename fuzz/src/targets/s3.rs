//! Refusals of S3 servers. Their reader is private to the store crate, and is compiled here from the same file.

#[allow(dead_code, reason = "not all of it is asked")]
#[path = "../../../store/src/s3/limits.rs"]
mod limits;
#[allow(dead_code, reason = "not all of it is asked")]
#[path = "../../../store/src/s3/meaning.rs"]
mod meaning;

use crate::StoreError;
use limits::RETRY_AFTER_MAX;
use meaning::{Asked, Refusal, Verb};
use std::time::Duration;

/// The longest sentence that a person is shown.
const LONGEST: usize = 300;

/// A verb, flags, a status, seconds to wait, a code, a line end, and a body. A refusal says something about an object only
/// if the request could ask that. A person is shown only plain words of it.
pub fn refusals(input: &[u8]) {
    let [verb, flags, high, low, wait, rest @ ..] = input else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let (code, body) = text.split_once('\n').unwrap_or((text, ""));
    let verb = match verb % 4 {
        0 => Verb::Read,
        1 => Verb::Put { conditional: false },
        2 => Verb::Put { conditional: true },
        _ => Verb::Other,
    };
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let refusal = Refusal {
        status: u16::from_be_bytes([*high, *low]),
        code: flag(0).then_some(code),
        retry_after: flag(1).then(|| Duration::from_secs(u64::from(*wait) << (flags & 0x38))),
        region: meaning::region(body),
        web_page: flag(2),
        wants_tls: flag(6),
    };
    let asked = Asked { verb, name: "seg/x", bucket: "b", host: "h" };
    let error = asked.meaning(&refusal);
    match &error {
        StoreError::NotFound { .. } | StoreError::Damaged { .. } => assert_eq!(verb, Verb::Read, "{error}"),
        StoreError::Precondition { .. } => assert_eq!(verb, Verb::Put { conditional: true }, "{error}"),
        StoreError::Busy { retry_after, .. } => {
            assert!(retry_after.is_none_or(|after| after <= RETRY_AFTER_MAX), "{error:?}");
        }
        StoreError::Unfit { .. } => panic!("only a directory is unfit: {error}"),
        StoreError::Unreachable { .. }
        | StoreError::NoPlace { .. }
        | StoreError::Elsewhere { .. }
        | StoreError::UnknownCredentials { .. }
        | StoreError::Denied { .. }
        | StoreError::Full { .. } => {}
    }
    let said = error.to_string();
    assert!(said.len() < LONGEST, "{said}");
    assert!(said.chars().all(|c| c.is_ascii_alphanumeric() || " ():;,./=-".contains(c)), "{said}");
}

/// Refusals as servers word them.
pub fn refusal_seeds() -> Vec<Vec<u8>> {
    let seed = |verb: u8, flags: u8, status: u16, text: &str| {
        [&[verb, flags][..], &status.to_be_bytes(), &[7], text.as_bytes()].concat()
    };
    vec![
        seed(0, 1, 404, "NoSuchKey"),
        seed(1, 1, 412, "PreconditionFailed"),
        seed(2, 1, 412, "PreconditionFailed"),
        seed(2, 0, 412, ""),
        seed(2, 1, 409, "ConditionalRequestConflict"),
        seed(1, 0xff, 503, "SlowDown"),
        seed(3, 1, 403, "SignatureDoesNotMatch"),
        seed(3, 1, 403, "AccessDenied"),
        seed(0, 1, 301, "PermanentRedirect\n<Error><Region>eu-west-1</Region></Error>"),
        seed(0, 1, 416, "InvalidRange"),
        seed(1, 0, 507, ""),
        seed(0, 5, 200, "\n<html><body>Log in</body></html>"),
    ]
}
