//! The meaning of unexpected answers. Pure.

use crate::StoreError;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// The longest wait that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// The error for a status, on a request about `name` without a condition. `host` is the server that answered.
pub fn refusal(status: StatusCode, headers: &HeaderMap, host: &str, name: &str) -> StoreError {
    let unreachable = |reason: String| StoreError::Unreachable { reason };
    let denied = |reason: String| StoreError::Denied { reason };
    match status.as_u16() {
        200 if is_page(headers) => page(host),
        404 | 410 => StoreError::NotFound { name: name.to_owned() },
        401 => StoreError::UnknownCredentials { reason: format!("{host} does not take these credentials") },
        403 => denied(format!("{host} does not allow this user to do that (403)")),
        407 => unreachable("a proxy on the way asks for credentials (407)".into()),
        400 => unreachable(format!(
            "{host} does not understand (400); if the address begins with http, try https"
        )),
        405 | 501 => {
            unreachable(format!("{host} does not speak WebDAV at this address ({})", status.as_u16()))
        }
        409 => unreachable(format!("{host} has no collection for it (409)")),
        413 => StoreError::Full {
            reason: format!("{host} takes no objects of this size (413); raise its limit for uploads"),
        },
        423 => StoreError::Busy {
            reason: format!("{host} has it locked (423)"),
            retry_after: retry_after(headers),
        },
        408 | 429 | 503 => StoreError::Busy {
            reason: match status.as_u16() {
                429 => format!("{host} gets too many requests (429)"),
                503 => format!("{host} is down for now (503)"),
                _ => format!("{host} got the request too slowly (408)"),
            },
            retry_after: retry_after(headers),
        },
        507 => StoreError::Full { reason: format!("{host} has no room left for this user (507)") },
        511 => unreachable("this network asks to sign in first (511)".into()),
        502 | 504 => {
            unreachable(format!("{host} does not get through to what is behind it ({})", status.as_u16()))
        }
        code @ 500..=599 => unreachable(format!("{host} has an error of its own ({code})")),
        code => unreachable(format!("{host} gave an answer that makes no sense ({code})")),
    }
}

/// When to try again: in seconds, or a date by the server's own clock if the answer has it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let value = text(RETRY_AFTER)?;
    let after = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let then = httpdate::parse_http_date(value).ok()?;
            let now = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
            then.duration_since(now.unwrap_or_else(SystemTime::now)).unwrap_or_default()
        }
    };
    Some(after.min(RETRY_AFTER_MAX))
}

/// Whether the answer is a web page. No object in a store is one, so something else answered.
pub fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["text/html", "application/xhtml"].iter().any(|page| kind.to_ascii_lowercase().starts_with(page))
}

/// A web page came instead of the answer.
pub fn page(host: &str) -> StoreError {
    let reason = format!(
        "a web page came in place of {host}'s answer; this network may ask to sign in first, or the address is not that of WebDAV"
    );
    StoreError::Unreachable { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn refused(code: u16, headers: &[(&'static str, &'static str)]) -> StoreError {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        refusal(StatusCode::from_u16(code).unwrap(), &headers.collect(), "h", "a/x")
    }

    fn patience(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        match refused(429, headers) {
            StoreError::Busy { retry_after, .. } => retry_after,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn each_status_is_one_kind() {
        use StoreError::*;
        assert!(matches!(refused(401, &[]), UnknownCredentials { .. }));
        assert!(matches!(refused(403, &[]), Denied { .. }));
        for code in [408, 423, 429, 503] {
            assert!(matches!(refused(code, &[]), Busy { retry_after: None, .. }), "{code}");
        }
        for code in [413, 507] {
            assert!(matches!(refused(code, &[]), Full { .. }), "{code}");
        }
        for code in [304, 400, 405, 407, 409, 412, 418, 500, 501, 502, 504, 511, 599] {
            assert!(matches!(refused(code, &[]), Unreachable { .. }), "{code}");
        }
        assert_eq!(refused(404, &[]), NotFound { name: "a/x".into() });
    }

    #[test]
    fn a_web_page_is_reported_as_a_web_page() {
        let told = refused(200, &[("content-type", "text/html")]).to_string();
        assert!(told.contains("a web page came"), "{told}");
        assert!(refused(200, &[]).to_string().contains("makes no sense"));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(patience(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(
            patience(&[("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT"), date]),
            Some(Duration::from_secs(60))
        );
        assert_eq!(patience(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]), Some(Duration::ZERO));
        assert_eq!(patience(&[("retry-after", "99999999")]), Some(RETRY_AFTER_MAX));
        assert_eq!(patience(&[("retry-after", "soon")]), None);
    }

    #[test]
    fn pages_are_recognised_by_their_content_type() {
        let kind = |kind| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        assert!(is_page(&kind("Text/HTML; charset=utf-8")));
        assert!(!is_page(&kind("application/octet-stream")) && !is_page(&HeaderMap::new()));
    }
}
