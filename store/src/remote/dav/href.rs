//! The place of a listed address. Pure.
//!
//! An address leads to the listed collection, to one of its children, or elsewhere. What leads elsewhere answers another question, and the
//! listing is no listing. A child whose name no file system can show is counted.

use crate::remote::Name;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use url::Url;

/// The place of an address in a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The listed collection itself.
    Itself,
    /// A child of that collection.
    Child(Name),
    /// A child whose name cannot be shown, in words for people.
    Unusable(String),
    /// Neither.
    Elsewhere,
}

/// The place of `href` in a listing of the collection, or in an answer about the file, at `listed`.
pub(super) fn place(listed: &Url, href: &str) -> Place {
    let Ok(url) = listed.join(href) else { return Place::Elsewhere };
    let (above, below) = (parts(listed), parts(&url));
    let Some(rest) = below.strip_prefix(above.as_slice()) else { return Place::Elsewhere };
    match rest {
        [] => Place::Itself,
        [leaf] => {
            let shown = || String::from_utf8_lossy(leaf).into_owned();
            // The server forgot to encode a character: the name is cut off.
            let is_whole = url.query().is_none() && url.fragment().is_none();
            match std::str::from_utf8(leaf).ok().and_then(|leaf| Name::new(leaf).ok()) {
                Some(name) if is_whole => Place::Child(name),
                _ => Place::Unusable(shown()),
            }
        }
        _ => Place::Elsewhere,
    }
}

/// The decoded parts of a path.
fn parts(url: &Url) -> Vec<Cow<'_, [u8]>> {
    let path = url.path();
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(|part| percent_decode_str(part).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(href: &str) -> Place {
        place(&Url::parse("https://h/a%20b/~me/").unwrap(), href)
    }

    #[test]
    fn children_are_found_however_they_are_written() {
        for href in [
            "/a%20b/%7Eme/x%2Dy",
            "https://h/a%20b/~me/x-y",
            "x-y",
            "/a b/~me/x-y/",
            "http://o/a%20b/~me/x-y",
        ] {
            assert_eq!(at(href), Place::Child(Name::new("x-y").unwrap()), "{href}");
        }
        for href in ["/a%20b/~me/", "/a%20b/~me", "https://h/a%20b/%7eme"] {
            assert_eq!(at(href), Place::Itself, "{href}");
        }
    }

    #[test]
    fn hostile_addresses_lead_to_no_file() {
        for href in [
            "/",
            "/a%20b/~mex",
            "/a%20b/~me/x/y",
            "http://[",
            "/a%20b/~me/../x",
            "/a%20b/~me/%2e%2e/x",
            "",
            "x//",
            "//",
        ] {
            assert!(matches!(at(href), Place::Elsewhere | Place::Itself), "{href}: {:?}", at(href));
        }
        let long = "x".repeat(256);
        for name in ["%2F", "a%2Fb", "%00", "%FF", "..%2F..%2Fetc", "a?b", "a#b", &long] {
            let href = format!("/a%20b/~me/{name}");
            assert!(matches!(at(&href), Place::Unusable(_)), "{href}: {:?}", at(&href));
        }
    }
}
