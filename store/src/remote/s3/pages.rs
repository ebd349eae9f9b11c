//! Listings of a directory, page by page.
//!
//! * A place in a listing is the server's word for it, and what is needed to see that it leads somewhere: a hare and a tortoise (Brent's
//!   method) find a server that leads in a circle of any length, without a list of all words.
//! * Keys come in order, and `x/` does not directly follow `x`: `x-1` lies between. A file whose directory may still come is held back until
//!   the next page, so that the same name never appears as both.

use super::S3Remote;
use super::ask::Act;
use super::meta::Type;
use crate::remote::{
    Entry, Kind, Name, Page, PageToken, RemoteError, RemotePath, Time, UPLOAD_PREFIX, Unusable, Version,
};
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::EncodingType;
use percent_encoding::percent_decode;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Names that are asked for at a time: the most that a server gives.
const PAGE_NAMES: i32 = 1000;
/// A page with more than that many names was not asked for.
const PAGE_NAMES_MAX: usize = 10_000;
/// How long a page may take, as the length of a body.
pub(super) const PAGE_BYTES: u64 = 4 << 20;
/// Longer than any server's word for a place.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// How old tools mark a directory.
const FOLDER_SUFFIX: &str = "_$folder$";
/// Names that are both a file and a directory, of which `stat` knows. Those of a few directories.
const CLASHES_MAX: usize = 10_000;

/// A place in a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// The server's word for it.
    from: String,
    /// How many pages came before.
    pages: u64,
    /// An earlier word, as a hash.
    tortoise: String,
    /// Files whose directory may still come.
    held: BTreeMap<String, Held>,
    /// Directories whose old marker may still come.
    directories: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    tag: String,
    len: u64,
    written_s: Option<i64>,
}

impl From<&Version> for Held {
    fn from(version: &Version) -> Self {
        let written_s = version.written.map(|Time(time)| (time / 1_000_000_000) as i64);
        Self { tag: version.tag.clone(), len: version.len, written_s }
    }
}

impl From<Held> for Version {
    fn from(held: Held) -> Self {
        let written = held.written_s.map(|seconds| Time(i128::from(seconds) * 1_000_000_000));
        Self { tag: held.tag, len: held.len, written }
    }
}

/// What a server says of a directory: names from its prefix on.
#[derive(Debug, Default)]
struct Said {
    /// Objects.
    objects: Vec<(Vec<u8>, Version)>,
    /// Prefixes, each with a `/` at its end.
    prefixes: Vec<Vec<u8>>,
    /// Where it continues.
    next: Option<String>,
}

/// What that means.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sorted {
    files: BTreeMap<String, Version>,
    directories: BTreeSet<String>,
    /// Files that a directory of the same name hides.
    clashes: Vec<String>,
    unusable: Unusable,
    /// Whether the directory itself has something, shown or not.
    is_there: bool,
    next: Option<Place>,
}

impl S3Remote {
    pub(super) async fn list_now(
        &self,
        directory: &RemotePath,
        page: Option<&PageToken>,
    ) -> Result<Page, RemoteError> {
        if directory.is_hidden() {
            return Err(RemoteError::NotFound(directory.clone()));
        }
        let strange = |what: &str| RemoteError::from(self.client.unreachable(what));
        let place = match page {
            None => Place::default(),
            Some(PageToken(text)) => {
                serde_json::from_str(text).map_err(|_| strange("was asked for a page that no listing has"))?
            }
        };
        let prefix = self.directory_key(directory);
        let request =
            self.client.sdk.list_objects_v2().bucket(&self.client.bucket).prefix(&prefix).delimiter("/");
        let request = request.max_keys(PAGE_NAMES).set_encoding_type(self.encoding());
        let request = request.set_continuation_token(page.map(|_| place.from.clone()));
        let answer = self.ask(Act::list(directory), request.send()).await?;
        let said = self.said(&answer, prefix.as_bytes())?;
        let sorted = sort(said, place).map_err(strange)?;
        if page.is_none() && !sorted.is_there && !directory.is_root() && !self.is_marked(directory).await? {
            return Err(RemoteError::NotFound(directory.clone()));
        }
        self.note_clashes(directory, &sorted.clashes);
        Ok(self.page_of(sorted))
    }

    /// Whether an empty object of a directory's name says that it is one.
    async fn is_marked(&self, directory: &RemotePath) -> Result<bool, RemoteError> {
        let head = self.head(directory, &self.key(directory)).await?;
        Ok(head.is_some_and(|head| head.kind == Type::Directory))
    }

    fn said(&self, answer: &ListObjectsV2Output, prefix: &[u8]) -> Result<Said, RemoteError> {
        let strange = |what: &str| RemoteError::from(self.client.unreachable(what));
        if answer.contents().len() + answer.common_prefixes().len() > PAGE_NAMES_MAX {
            return Err(strange("lists more names at a time than anybody asked for"));
        }
        let rest = |key: Option<&str>| {
            let key = self.key_of(key, answer);
            let other = || strange("lists another directory than the one that was asked for");
            key.strip_prefix(prefix).map(<[u8]>::to_vec).ok_or_else(other)
        };
        let mut said = Said::default();
        for object in answer.contents() {
            let version = self.version(object.e_tag(), object.size(), object.last_modified())?;
            said.objects.push((rest(object.key())?, version));
        }
        for below in answer.common_prefixes() {
            said.prefixes.push(rest(below.prefix())?);
        }
        if answer.is_truncated() == Some(true) {
            let next = answer.next_continuation_token().filter(|token| token.len() <= TOKEN_BYTES_MAX);
            said.next = Some(next.ok_or_else(|| strange("gives a listing that does not go on"))?.to_owned());
        }
        Ok(said)
    }

    /// How listings are asked for: encoded, which keys with control characters need, from servers that really do it.
    pub(super) fn encoding(&self) -> Option<EncodingType> {
        self.abilities.encodes.then_some(EncodingType::Url)
    }

    /// A key as an answer has it. It is decoded only if that was asked for, and the answer says that it was done.
    pub(super) fn key_of(&self, key: Option<&str>, answer: &ListObjectsV2Output) -> Vec<u8> {
        let key = key.unwrap_or_default();
        match self.abilities.encodes && answer.encoding_type().is_some() {
            true => decoded(key),
            false => key.as_bytes().to_vec(),
        }
    }

    fn page_of(&self, sorted: Sorted) -> Page {
        let is_writable = self.is_writable();
        let mut page = Page { unusable: sorted.unusable, ..Page::default() };
        let mut add = |name: &str, kind, version| {
            let name = Name::new(name).expect("it was checked when it was sorted");
            page.entries.push(Entry { name, kind, version, meta: None, is_writable });
        };
        sorted.files.into_iter().for_each(|(name, version)| add(&name, Kind::File, version));
        sorted.directories.iter().for_each(|name| add(name, Kind::Directory, super::directory_version()));
        let text = |place| serde_json::to_string(&place).expect("texts and numbers become JSON");
        page.next = sorted.next.map(|place| PageToken(text(place)));
        page
    }

    fn note_clashes(&self, directory: &RemotePath, names: &[String]) {
        if names.is_empty() {
            return;
        }
        let clashes = &mut *self.clashes.lock();
        if clashes.len() + names.len() > CLASHES_MAX {
            clashes.clear();
        }
        let names = names.iter().filter_map(|name| Name::new(name).ok());
        clashes.extend(names.take(CLASHES_MAX).map(|name| directory.join(&name)));
    }
}

/// The key behind an encoded one.
pub(super) fn decoded(key: &str) -> Vec<u8> {
    percent_decode(key.replace('+', " ").as_bytes()).collect()
}

/// Sorts a page. The error says what is wrong with the listing.
fn sort(said: Said, place: Place) -> Result<Sorted, &'static str> {
    let last = said.objects.iter().map(|(name, _)| name).chain(&said.prefixes).max().cloned();
    let mut sorted = Sorted {
        is_there: !said.objects.is_empty() || !said.prefixes.is_empty(),
        next: said.next.map(|next| place.next(next)).transpose()?,
        ..Sorted::default()
    };
    for prefix in &said.prefixes {
        let name = prefix.strip_suffix(b"/").unwrap_or(prefix);
        if let Some(name) = usable(name, &mut sorted.unusable) {
            sorted.directories.insert(name);
        }
    }
    sorted.files.extend(place.held.into_iter().map(|(name, held)| (name, held.into())));
    // The marker of the directory itself has no name here.
    for (name, version) in said.objects.into_iter().filter(|(name, _)| !name.is_empty()) {
        if let Some(name) = usable(&name, &mut sorted.unusable) {
            sorted.files.insert(name, version);
        }
    }
    let known: BTreeSet<_> = place.directories.union(&sorted.directories).cloned().collect();
    sorted.files.retain(|name, _| !name.strip_suffix(FOLDER_SUFFIX).is_some_and(|name| known.contains(name)));
    let is_clash = |name: &String| sorted.directories.contains(name);
    sorted.clashes = sorted.files.keys().filter(|name| is_clash(name)).cloned().collect();
    for name in &sorted.clashes {
        sorted.files.remove(name);
        sorted.unusable.add(name);
    }
    if let Some(next) = &mut sorted.next {
        let last = last.unwrap_or_default();
        let is_before = |name: &str, end: &str| {
            last.starts_with(name.as_bytes()) && *last < *[name, end].concat().as_bytes()
        };
        let held = sorted.files.extract_if(.., |name, _| is_before(name, "/"));
        next.held = held.map(|(name, version)| (name, Held::from(&version))).collect();
        next.directories = known.into_iter().filter(|name| is_before(name, FOLDER_SUFFIX)).collect();
    }
    Ok(sorted)
}

/// The name, if a folder can show it.
fn usable(name: &[u8], unusable: &mut Unusable) -> Option<String> {
    let text = String::from_utf8_lossy(name);
    if text.starts_with(UPLOAD_PREFIX) {
        return None;
    }
    match std::str::from_utf8(name).ok().filter(|name| Name::new(name).is_ok()) {
        Some(name) => Some(name.to_owned()),
        None => {
            // Names of any length are only examples.
            unusable.add(&text.chars().take(Name::BYTES_MAX).collect::<String>());
            None
        }
    }
}

impl Place {
    /// The place after this one. The error says why it cannot be.
    fn next(&self, from: String) -> Result<Self, &'static str> {
        const CIRCLE: &str = "gives a listing that leads in a circle";
        let hash = blake3::hash(from.as_bytes()).to_hex()[..32].to_owned();
        if from == self.from || hash == self.tortoise {
            return Err(CIRCLE);
        }
        let pages = self.pages + 1;
        let tortoise = if pages.is_power_of_two() { hash } else { self.tortoise.clone() };
        Ok(Self { from, pages, tortoise, ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(len: u64) -> Version {
        Version { tag: "t".into(), len, written: Some(Time(5_000_000_000)) }
    }

    fn said(objects: &[&str], prefixes: &[&str], next: Option<&str>) -> Said {
        Said {
            objects: objects.iter().map(|name| (name.as_bytes().to_vec(), version(1))).collect(),
            prefixes: prefixes.iter().map(|name| name.as_bytes().to_vec()).collect(),
            next: next.map(str::to_owned),
        }
    }

    fn names(sorted: &Sorted) -> Vec<String> {
        sorted.files.keys().cloned().chain(sorted.directories.iter().map(|name| format!("{name}/"))).collect()
    }

    #[test]
    fn names_that_no_file_has_are_counted() {
        let long = "x".repeat(256);
        let objects = ["", "a", "..", &long, "nul\0", ".holdall-upload-1"];
        let mut all = said(&objects, &["/", "./", "d/"], None);
        all.objects.push((b"\xff\xfe".to_vec(), version(1)));
        let sorted = sort(all, Place::default()).unwrap();
        assert_eq!(names(&sorted), ["a", "d/"]);
        assert_eq!(sorted.unusable.count, 6);
        assert!(sort(said(&["",], &[], None), Place::default()).unwrap().is_there, "an empty directory");
        assert!(!sort(Said::default(), Place::default()).unwrap().is_there);
    }

    #[test]
    fn a_directory_hides_the_file_of_its_name() {
        let sorted = sort(said(&["a", "a_$folder$", "b_$folder$"], &["a/"], None), Place::default()).unwrap();
        assert_eq!(names(&sorted), ["b_$folder$", "a/"]);
        assert_eq!((sorted.clashes, sorted.unusable.count), (vec!["a".to_owned()], 1));
    }

    #[test]
    fn a_name_is_one_thing_also_over_two_pages() {
        let first = sort(said(&["0", "a", "a-1"], &[], Some("2")), Place::default()).unwrap();
        assert_eq!(names(&first), ["0"], "the directories a and a-1 may still come");
        let place = first.next.unwrap();
        let second = sort(said(&["a-2"], &["a/"], Some("3")), place.clone()).unwrap();
        assert_eq!(names(&second), ["a-1", "a-2", "a/"]);
        assert_eq!(second.clashes, ["a"]);
        let last = sort(said(&["a_$folder$"], &[], None), second.next.unwrap()).unwrap();
        assert_eq!(names(&last), [""; 0], "its marker is hidden a page later");
        let ended = sort(said(&["b"], &[], None), place).unwrap();
        assert_eq!(names(&ended), ["a", "a-1", "b"], "no directory came");
        assert_eq!(ended.files["a"], version(1));
    }

    #[test]
    fn listings_in_a_circle_end() {
        for circle in [1, 2, 3, 7, 100] {
            let mut place = Place::default();
            let mut pages = 0;
            while let Ok(next) = place.next(format!("{}", pages % circle)) {
                (place, pages) = (next, pages + 1);
                assert!(pages < 4 * circle + 4, "{circle}");
            }
        }
        let mut place = Place::default();
        for page in 0..5000 {
            place = place.next(format!("{page}")).unwrap();
        }
    }

    #[test]
    fn encoded_keys_are_those_of_forms() {
        assert_eq!(decoded("a%2Bb+c%ff"), b"a+b c\xff");
    }
}
