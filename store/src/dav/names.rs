//! Conversion between names and addresses. Pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

/// Everything but the characters that stand for themselves in a path (RFC 3986, section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The address of an object below `base`, which ends with `/`.
pub fn object(base: &Url, name: &str) -> Url {
    let mut path = base.path().to_owned();
    for (index, part) in name.split('/').enumerate() {
        if index > 0 {
            path.push('/');
        }
        path.extend(utf8_percent_encode(part, ENCODED));
    }
    let mut url = base.clone();
    url.set_path(&path);
    url
}

/// The address of a collection below `base`; "" is the base itself.
pub fn collection(base: &Url, name: &str) -> Url {
    if name.is_empty() { base.clone() } else { object(base, &format!("{name}/")) }
}

/// The place of a resource in a listing.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// The listed collection itself.
    Itself,
    /// A child of that collection, with this name.
    Child(String),
    /// Neither: the server answered another question.
    Elsewhere,
}

/// The place of `href` in a listing of the collection at `listed`.
pub fn place(listed: &Url, href: &str) -> Place {
    let Ok(url) = listed.join(href) else { return Place::Elsewhere };
    let (Some(listed), Some(path)) = (decoded(listed.path()), decoded(url.path())) else {
        return Place::Elsewhere;
    };
    let (listed, path) = (listed.trim_end_matches('/'), path.trim_end_matches('/'));
    match path.strip_prefix(listed) {
        Some("") => Place::Itself,
        Some(rest) => match rest.strip_prefix('/') {
            Some(name) if !name.is_empty() && !name.contains('/') => Place::Child(name.to_owned()),
            _ => Place::Elsewhere,
        },
        None => Place::Elsewhere,
    }
}

fn decoded(path: &str) -> Option<String> {
    percent_decode_str(path).decode_utf8().ok().map(Into::into)
}

/// The collection that holds `name`; `None` for the base itself.
pub fn parent(name: &str) -> Option<&str> {
    if name.is_empty() { None } else { Some(name.rsplit_once('/').map_or("", |(parent, _)| parent)) }
}

/// A child's full name, from the base on.
pub fn join(collection: &str, child: &str) -> String {
    if collection.is_empty() { child.to_owned() } else { format!("{collection}/{child}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn names_become_addresses() {
        let base = url("https://h:1/a b/100%25/ü/");
        assert_eq!(object(&base, "abc/0f/x y%").as_str(), "https://h:1/a%20b/100%25/%C3%BC/abc/0f/x%20y%25");
        assert_eq!(collection(&base, "abc").as_str(), "https://h:1/a%20b/100%25/%C3%BC/abc/");
        assert_eq!(collection(&base, ""), base);
        assert_eq!(object(&base, "x?#").as_str(), "https://h:1/a%20b/100%25/%C3%BC/x%3F%23");
    }

    #[test]
    fn addresses_become_names_however_they_are_written() {
        let listed = url("https://h/a%20b/~me/");
        for href in [
            "/a%20b/%7Eme/x%2Dy",
            "https://h/a%20b/~me/x-y",
            "x-y",
            "/a b/~me/x-y/",
            "http://other/a%20b/~me/x-y",
        ] {
            assert_eq!(place(&listed, href), Place::Child("x-y".into()), "{href}");
        }
        for href in ["/a%20b/~me/", "/a%20b/~me", "https://h/a%20b/%7eme"] {
            assert_eq!(place(&listed, href), Place::Itself, "{href}");
        }
        for href in ["/", "/a%20b/~mex", "/a%20b/~me/x/y", "/a%20b/~me/x%2Fy", "/a%20b/~me/%FF", "http://["] {
            assert_eq!(place(&listed, href), Place::Elsewhere, "{href}");
        }
    }

    #[test]
    fn parents() {
        assert_eq!([parent("a/b/c"), parent("a"), parent("")], [Some("a/b"), Some(""), None]);
        assert_eq!([join("", "a"), join("a", "b")], ["a", "a/b"]);
    }
}
