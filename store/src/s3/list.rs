//! Listings, page by page.

use super::client::S3Client;
use super::meaning::Verb;
use crate::StoreError;

/// What one name takes in a page: at most 1 KiB, in XML.
const NAME_BYTES: u64 = 2 << 10;
/// How many names a page has unless fewer are wanted.
const PAGE_NAMES: u64 = 1000;

/// Which part of a listing is wanted.
pub(crate) struct Wanted<'a> {
    /// The beginning of the names.
    pub prefix: &'a str,
    /// Names with a `/` after the prefix are summed up, as a directory.
    pub by_directory: bool,
    /// How many names at most; the server's own limit, if `None`.
    pub most: Option<u16>,
    /// Where the page begins: [`Page::next`] of the one before.
    pub from: Option<String>,
}

impl<'a> Wanted<'a> {
    /// The first page of all names that begin with `prefix`.
    pub(crate) fn all(prefix: &'a str) -> Self {
        Self { prefix, by_directory: false, most: None, from: None }
    }
}

/// A page of a listing.
pub(crate) struct Page {
    /// The objects, in order.
    pub objects: Vec<Object>,
    /// The directories, if names were to be summed up: each with a `/` at its end.
    pub directories: Vec<String>,
    /// Whether no page follows.
    pub is_last: bool,
    /// Where the next page begins, as far as the server says.
    pub next: Option<String>,
}

/// An object on a page.
pub(crate) struct Object {
    pub name: String,
    /// Its length in bytes, if the server says it.
    pub len: Option<u64>,
}

impl S3Client {
    /// One page of a listing.
    pub(crate) async fn page(&self, wanted: &Wanted<'_>) -> Result<Page, StoreError> {
        let Wanted { prefix, by_directory, most, from } = wanted;
        let request = self.sdk.list_objects_v2().bucket(&self.bucket).prefix(self.key(prefix));
        let request = request.set_delimiter(by_directory.then(|| "/".to_owned()));
        let request = request.set_max_keys(most.map(i32::from)).set_continuation_token(from.clone());
        let bytes = NAME_BYTES * most.map_or(PAGE_NAMES, u64::from);
        let page = self.within(bytes, request.send()).await?;
        let page = page.map_err(|error| self.explain(Verb::Other, prefix, &error))?;
        // Some tools put an empty object in place of a directory; the prefix itself has no name.
        let name = |key: Option<&str>| {
            let name = key.and_then(|key| self.name(key));
            name.filter(|name| name.starts_with(prefix)).map(str::to_owned)
        };
        let len = |size: Option<i64>| size.and_then(|size| u64::try_from(size).ok());
        let objects = page.contents().iter();
        let objects =
            objects.filter_map(|object| Some(Object { name: name(object.key())?, len: len(object.size()) }));
        let directories = page.common_prefixes().iter().filter_map(|below| name(below.prefix()));
        let (objects, directories) = (objects.collect(), directories.collect());
        let is_last = page.is_truncated != Some(true);
        Ok(Page { objects, directories, is_last, next: page.next_continuation_token })
    }
}
