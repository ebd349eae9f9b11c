//! The scope of a login, so that one login serves everything in it: an S3 bucket at its server, or a collection on a WebDAV server with
//! everything below it.

use holdall_core::store::url::{DavUrl, S3Url, StoreUrl};
use std::fmt;

/// A bucket or a collection, written as an address without parts that do not matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(StoreUrl);

impl Scope {
    /// The scope of a login at `url`. `None` for a directory, which takes no login.
    pub fn of(url: &StoreUrl) -> Option<Self> {
        match url {
            StoreUrl::File(_) => None,
            StoreUrl::S3(s3) => Some(Self(StoreUrl::S3(S3Url {
                bucket: s3.bucket.clone(),
                prefix: String::new(),
                endpoint: s3.endpoint.clone(),
                region: None,
                path_style: s3.endpoint.is_some(),
                ca: None,
            }))),
            StoreUrl::Dav(dav) => Some(Self(StoreUrl::Dav(DavUrl { base: dav.base.clone(), ca: None }))),
        }
    }

    /// Parses what [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of(&StoreUrl::parse(text).ok()?)
    }

    /// Whether it covers `url`, and how closely it fits: the longest path fits best. Credentials for https are never sent over http, nor to
    /// another port.
    pub fn covers(&self, url: &StoreUrl) -> Option<usize> {
        match (&self.0, url) {
            (StoreUrl::S3(mine), StoreUrl::S3(theirs)) => {
                let origin = |s3: &S3Url| s3.endpoint.as_ref().map(|endpoint| endpoint.origin());
                (mine.bucket == theirs.bucket && origin(mine) == origin(theirs)).then_some(0)
            }
            (StoreUrl::Dav(mine), StoreUrl::Dav(theirs)) => {
                let (mine, theirs) = (&mine.base, &theirs.base);
                // Both end with a slash, so that a/b is not below a/bc.
                let below = theirs.path().starts_with(mine.path());
                (mine.origin() == theirs.origin() && below).then(|| mine.path().len())
            }
            (StoreUrl::File(_) | StoreUrl::S3(_) | StoreUrl::Dav(_), _) => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> Scope {
        Scope::parse(text).unwrap()
    }

    fn covers(mine: &str, theirs: &str) -> Option<usize> {
        scope(mine).covers(&StoreUrl::parse(theirs).unwrap())
    }

    #[test]
    fn a_bucket_serves_all_its_prefixes_at_its_server() {
        let bucket = "s3://b/photos?endpoint=https://s3.example.org&region=eu-central-1";
        assert_eq!(scope(bucket).to_string(), "s3://b?endpoint=https%3A%2F%2Fs3.example.org");
        assert!(covers(bucket, "s3://b/music?endpoint=https://s3.example.org/").is_some());
        assert!(covers(bucket, "s3://b/music?endpoint=https://s3.example.org&region=us-east-1").is_some());
        for other in [
            "s3://b/photos",
            "s3://c/photos?endpoint=https://s3.example.org",
            "s3://b/photos?endpoint=http://s3.example.org",
            "s3://b/photos?endpoint=https://s3.example.org:9000",
            "https://s3.example.org/b/photos",
        ] {
            assert_eq!(covers(bucket, other), None, "{other}");
        }
    }

    #[test]
    fn a_collection_serves_all_below_and_the_longest_path_wins() {
        let (whole, mine) = ("https://cloud.example.org/dav", "davs://cloud.example.org/dav/me");
        let url = "https://cloud.example.org/dav/me/Holdall/?ca=/etc/ca.pem";
        assert!(covers(mine, url) > covers(whole, url));
        assert!(covers(whole, url).is_some());
        for other in [
            "https://cloud.example.org/dav/men",
            "http://cloud.example.org/dav/me",
            "https://cloud.example.org:444/dav/me",
        ] {
            assert_eq!(covers(mine, other), None, "{other}");
        }
    }

    #[test]
    fn directories_take_no_login_and_scopes_survive_writing_and_reading() {
        assert_eq!(Scope::parse("file:///srv/store"), None);
        for text in ["s3://b", "s3://b?endpoint=http://127.0.0.1:9000", "https://h:1/a%20b/"] {
            assert_eq!(scope(&scope(text).to_string()), scope(text));
        }
    }
}
