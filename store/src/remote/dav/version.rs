//! Versions, as a server tells them apart: by its ETag, the length, and when the file was written. Pure.
//!
//! ETags are compared as opaque texts without the mark of weak ones, since a server may call one version weak now and strong a second later.

use super::meta;
use super::multistatus::Resource;
use crate::remote::Version;
use reqwest::header::{DATE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED};
use std::time::{Duration, SystemTime};

/// Servers whose times are whole seconds may give two versions one time. A second later they cannot.
const YOUNG: Duration = Duration::from_secs(2);

/// A file's version; a directory's has no length.
pub(super) fn of(resource: &Resource) -> Version {
    Version {
        tag: resource.etag.as_deref().map_or(String::new(), tag),
        len: if resource.is_collection { 0 } else { resource.len.unwrap_or(0) },
        written: resource.modified.map(meta::time),
    }
}

/// An ETag without its marks.
pub(super) fn tag(etag: &str) -> String {
    let etag = etag.trim();
    let etag = etag.strip_prefix("W/").unwrap_or(etag);
    etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap_or(etag).to_owned()
}

/// The tag that an answer's head names; empty if it names none.
pub(super) fn tag_of(headers: &HeaderMap) -> String {
    headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map_or(String::new(), tag)
}

/// How a tag is written in a condition.
pub(super) fn quoted(version: &Version) -> String {
    format!("\"{}\"", version.tag)
}

/// A date of an answer's head.
pub(super) fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    headers.get(name)?.to_str().ok().and_then(|date| httpdate::parse_http_date(date).ok())
}

/// How an answer's head compares with the version that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Same {
    /// It is this version.
    Yes,
    /// It is another one.
    No,
    /// A look at the file decides: the head says too little, or something else than listings do.
    Look,
}

/// Compares a head, of a body that is part of `len` bytes if it says so, with `version`.
pub(super) fn compare(version: &Version, headers: &HeaderMap, len: Option<u64>) -> Same {
    if len.is_some_and(|len| len != version.len) {
        return Same::No;
    }
    let tag = tag_of(headers);
    let written = date(headers, LAST_MODIFIED);
    let is_as_old = version.written.zip(written).map(|(then, now)| then == meta::time(now));
    if !tag.is_empty() && !version.tag.is_empty() {
        return if tag == version.tag { Same::Yes } else { Same::Look };
    }
    let is_young = date(headers, DATE).zip(written).is_none_or(|(now, written)| is_young(now, written));
    match is_as_old {
        Some(false) => Same::No,
        Some(true) if len.is_some() && !is_young => Same::Yes,
        Some(true) | None => Same::Look,
    }
}

/// Whether a file that was written then can still be replaced by one that was written at the same time.
pub(super) fn is_young(now: SystemTime, written: SystemTime) -> bool {
    now.duration_since(written).is_ok_and(|age| age < YOUNG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEW: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn head(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn version(tag: &str) -> Version {
        let written = httpdate::parse_http_date(OLD).ok().map(meta::time);
        Version { tag: tag.into(), len: 5, written }
    }

    #[test]
    fn weak_and_strong_are_one() {
        for etag in ["W/\"x\"", "\"x\"", "x", " \"x\" "] {
            assert_eq!(tag(etag), "x");
        }
        assert_eq!(quoted(&version("x")), "\"x\"");
    }

    #[test]
    fn only_what_is_known_to_be_the_same_is_the_same() {
        let (tag, written) = ((ETAG, "\"x\""), (LAST_MODIFIED, OLD));
        let later = (DATE, "Sun, 06 Nov 1994 09:00:00 GMT");
        let cases: [(&str, HeaderMap, Option<u64>, Same); 9] = [
            ("x", head(std::slice::from_ref(&tag)), Some(5), Same::Yes),
            ("x", head(std::slice::from_ref(&tag)), Some(6), Same::No),
            ("y", head(std::slice::from_ref(&tag)), Some(5), Same::Look),
            ("", head(&[tag, written.clone(), later.clone()]), Some(5), Same::Yes),
            ("x", head(&[written.clone(), later.clone()]), Some(5), Same::Yes),
            ("x", head(&[(LAST_MODIFIED, NEW), later.clone()]), Some(5), Same::No),
            ("x", head(&[written.clone(), (DATE, NEW)]), Some(5), Same::Look),
            ("x", head(&[written, later]), None, Same::Look),
            ("x", head(&[]), Some(5), Same::Look),
        ];
        for (number, (ours, head, len, same)) in cases.into_iter().enumerate() {
            assert_eq!(compare(&version(ours), &head, len), same, "{number}");
        }
    }
}
