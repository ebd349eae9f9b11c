//! The name of a new folder, and places that two folders cannot share. Pure.

use holdall_core::store::url::StoreUrl;
use std::path::Path;

/// The longest name.
const NAME_MAX: usize = 64;

/// A name for the folder at `url`: the last part of its address, in the characters that names have. `None` if it has none of these.
pub fn name_of(url: &StoreUrl) -> Option<String> {
    let last = match url {
        StoreUrl::File(path) => path.file_name()?.to_str()?.to_owned(),
        StoreUrl::S3(s3) => {
            let mut parts = s3.prefix.split('/').filter(|part| !part.is_empty());
            parts.next_back().unwrap_or(&s3.bucket).to_owned()
        }
        StoreUrl::Dav(dav) => {
            let mut parts = dav.base.path().split('/').filter(|part| !part.is_empty());
            let last = parts.next_back().map(decoded);
            last.or_else(|| dav.base.host_str().map(str::to_owned))?
        }
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = last.chars().map(plain).collect();
    let name = name.trim_matches(['-', '.']);
    let name: String = name.chars().take(NAME_MAX).collect();
    (!name.is_empty()).then_some(name)
}

/// A part of a path without its percent signs. Bytes that are no UTF-8 become others, which no name has anyway.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = (byte == b'%').then(|| tail.get(..2)).flatten();
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How two places lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They are one.
    Same,
    /// The first is inside the second.
    Inside,
    /// The first contains the second.
    Around,
}

/// Whether two folders would show the same files. Two addresses of one server that it does not tell us are not recognised.
pub fn overlap(one: &StoreUrl, other: &StoreUrl) -> Option<Overlap> {
    match (one, other) {
        (StoreUrl::File(one), StoreUrl::File(other)) => overlap_of_paths(one, other),
        (StoreUrl::S3(one), StoreUrl::S3(other)) => {
            let origin = |url: &holdall_core::store::url::S3Url| url.endpoint.as_ref().map(|at| at.origin());
            let is_one_bucket = one.bucket == other.bucket && origin(one) == origin(other);
            is_one_bucket.then(|| of_parts(&one.prefix, &other.prefix)).flatten()
        }
        (StoreUrl::Dav(one), StoreUrl::Dav(other)) => {
            // http and https of one host are one server; the port says which program answers.
            let server = |url: &holdall_core::store::url::DavUrl| {
                (url.base.host_str().map(str::to_owned), url.base.port_or_known_default())
            };
            let is_one_server = server(one) == server(other);
            is_one_server.then(|| of_parts(&decoded(one.base.path()), &decoded(other.base.path()))).flatten()
        }
        (StoreUrl::File(_) | StoreUrl::S3(_) | StoreUrl::Dav(_), _) => None,
    }
}

/// The same for paths of this computer, without symbolic links.
pub fn overlap_of_paths(one: &Path, other: &Path) -> Option<Overlap> {
    match (one.starts_with(other), other.starts_with(one)) {
        (true, true) => Some(Overlap::Same),
        (true, false) => Some(Overlap::Inside),
        (false, true) => Some(Overlap::Around),
        (false, false) => None,
    }
}

fn of_parts(one: &str, other: &str) -> Option<Overlap> {
    // An absolute path of the same parts, so that a/b is not inside a/bc.
    let path = |text: &str| Path::new("/").join(text.trim_matches('/'));
    overlap_of_paths(&path(one), &path(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> StoreUrl {
        StoreUrl::parse(text).unwrap()
    }

    #[test]
    fn a_folder_is_named_after_the_end_of_its_address() {
        for (address, name) in [
            ("s3://bucket/photos/2025", Some("2025")),
            ("s3://bucket/photos/", Some("photos")),
            ("s3://bucket", Some("bucket")),
            ("https://cloud.example.org/dav/files/me/My%20Music/", Some("My-Music")),
            ("https://cloud.example.org", Some("cloud.example.org")),
            ("file:///srv/shared files", Some("shared-files")),
            ("file:///srv/.hidden", Some("hidden")),
            ("file:///srv/\u{65e5}\u{672c}", None),
        ] {
            assert_eq!(name_of(&url(address)).as_deref(), name, "{address}");
        }
        let long = format!("file:///{}", "a".repeat(80));
        assert_eq!(name_of(&url(&long)).unwrap().len(), NAME_MAX);
    }

    #[test]
    fn places_that_share_files_are_found() {
        for (one, other, expected) in [
            ("s3://b/photos", "s3://b/photos/", Some(Overlap::Same)),
            ("s3://b/photos/2025", "s3://b/photos", Some(Overlap::Inside)),
            ("s3://b", "s3://b/photos", Some(Overlap::Around)),
            ("s3://b/photos", "s3://b/photos2", None),
            ("s3://b/photos", "s3://c/photos", None),
            ("s3://b/p?endpoint=http://127.0.0.1:9000", "s3://b/p", None),
            ("https://h/dav/a", "davs://h/dav/a/", Some(Overlap::Same)),
            ("https://h/dav/a%20b", "https://h/dav/a b/c", Some(Overlap::Around)),
            ("https://h/dav/a", "https://h:444/dav/a", None),
            ("file:///srv/a/b", "file:///srv/a", Some(Overlap::Inside)),
            ("file:///srv/ab", "file:///srv/a", None),
            ("file:///b/photos", "s3://b/photos", None),
        ] {
            assert_eq!(overlap(&url(one), &url(other)), expected, "{one} {other}");
        }
    }
}
