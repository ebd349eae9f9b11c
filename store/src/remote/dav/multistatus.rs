//! A server's answer to PROPFIND and PROPPATCH (RFC 4918, sections 13 and 14), parsed as it arrives.
//!
//! The server is not trusted: the depth of elements, the bytes of one text and the number of resources are bounded, and there are no entities
//! but XML's own.

use quick_xml::events::Event;
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use std::io::{self, BufRead, Read};
use std::time::SystemTime;

/// What Holdall sets on files beside their bytes is in this name space.
pub(super) const OURS: &str = "urn:holdall:meta";
/// The properties of a file or directory.
pub(super) const QUERY: &str = r#"<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:" xmlns:o="http://owncloud.org/ns" xmlns:h="urn:holdall:meta"><prop><resourcetype/><getcontentlength/><getlastmodified/><getetag/><o:permissions/><h:mode/><h:mtime/><h:xattrs/></prop></propfind>"#;
/// Space (RFC 4331).
pub(super) const QUOTA_QUERY: &str = r#"<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><quota-available-bytes/><quota-used-bytes/></prop></propfind>"#;
/// Who has locked it.
pub(super) const LOCK_QUERY: &str = r#"<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:" xmlns:n="http://nextcloud.org/ns"><prop><lockdiscovery/><n:lock-owner-displayname/></prop></propfind>"#;

/// Elements within elements.
const DEPTH_MAX: usize = 32;
/// Bytes of one text, and of one tag: more than any attribute of a file is kept in.
const TEXT_BYTES_MAX: usize = 128 << 10;
/// Resources in one answer.
pub(super) const RESOURCES_MAX: usize = 200_000;

/// One resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resource {
    /// Its address, as the server wrote it.
    pub href: String,
    pub is_collection: bool,
    pub len: Option<u64>,
    pub modified: Option<SystemTime>,
    pub etag: Option<String>,
    /// ownCloud's letters.
    pub permissions: Option<String>,
    pub mode: Option<String>,
    pub mtime: Option<String>,
    pub xattrs: Option<String>,
    pub used_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    pub lock_owner: Option<String>,
    /// A status of a property, or of all, that is neither a success nor 404.
    pub refused: Option<u16>,
}

/// Hands on each resource of an answer but those that are gone. The error says why the answer is no answer, or is incomplete.
pub(super) fn parse(
    from: impl BufRead,
    mut take: impl FnMut(Resource) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = NsReader::from_reader(Bounded { inner: from, left: TEXT_BYTES_MAX });
    let mut state = State::default();
    let mut buffer = Vec::new();
    let mut count = 0;
    loop {
        buffer.clear();
        reader.get_mut().left = TEXT_BYTES_MAX;
        let (namespace, event) =
            reader.read_resolved_event_into(&mut buffer).map_err(|error| error.to_string())?;
        let space = match namespace {
            ResolveResult::Bound(Namespace("DAV:")) => Space::Dav,
            ResolveResult::Bound(Namespace("http://owncloud.org/ns")) => Space::Owncloud,
            ResolveResult::Bound(Namespace("http://nextcloud.org/ns")) => Space::Nextcloud,
            ResolveResult::Bound(Namespace(OURS)) => Space::Ours,
            _ => Space::Other,
        };
        let closed = match event {
            Event::Start(element) => {
                state.open(space, element.local_name().into_inner())?;
                None
            }
            Event::Empty(element) => {
                state.open(space, element.local_name().into_inner())?;
                state.close()?
            }
            Event::End(_) => state.close()?,
            Event::Text(text) => state.add(&text.xml10_content())?,
            Event::CData(text) => state.add(&text.xml10_content())?,
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().map_err(|error| error.to_string())?;
                match (character, quick_xml::escape::resolve_xml_entity(&reference.xml10_content())) {
                    (Some(character), _) => state.add(character.encode_utf8(&mut [0; 4]))?,
                    (None, Some(entity)) => state.add(entity)?,
                    (None, None) => return Err("it has an unknown entity".into()),
                }
            }
            Event::DocType(_) => return Err("it defines what it is made of".into()),
            Event::Eof if !state.is_multistatus => return Err("it is no multistatus".into()),
            Event::Eof if !state.path.is_empty() => return Err("it breaks off".into()),
            Event::Eof => return Ok(()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => None,
        };
        if let Some(resource) = closed {
            count += 1;
            if count > RESOURCES_MAX {
                return Err(format!("it lists more than {RESOURCES_MAX} names"));
            }
            take(resource)?;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Dav,
    Owncloud,
    Nextcloud,
    Ours,
    Other,
}

#[derive(Default)]
struct State {
    is_multistatus: bool,
    path: Vec<(Space, String)>,
    text: String,
    response: Resource,
    /// The properties from the propstat that is being read.
    properties: Resource,
    status: u16,
    response_status: u16,
}

/// The status of a resource or property without one.
const FINE: u16 = 200;

impl State {
    fn open(&mut self, space: Space, name: &str) -> Result<(), String> {
        if self.path.len() >= DEPTH_MAX {
            return Err("its elements are nested too deeply".into());
        }
        if space == Space::Dav {
            match name {
                "multistatus" if self.path.is_empty() => self.is_multistatus = true,
                "response" => {
                    self.response = Resource::default();
                    self.response_status = FINE;
                }
                "propstat" => {
                    self.properties = Resource::default();
                    self.status = FINE;
                }
                _ => {}
            }
        }
        if self.path.is_empty() && !self.is_multistatus {
            return Err("it is no multistatus".into());
        }
        self.text.clear();
        self.path.push((space, name.to_owned()));
        Ok(())
    }

    fn add(&mut self, text: &str) -> Result<Option<Resource>, String> {
        match self.text.len() + text.len() > TEXT_BYTES_MAX {
            true => Err("a text in it is too long".into()),
            false => {
                self.text.push_str(text);
                Ok(None)
            }
        }
    }

    /// Ends an element. Returns the resource that it completes.
    fn close(&mut self) -> Result<Option<Resource>, String> {
        let Some((space, name)) = self.path.pop() else { return Ok(None) };
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        let parent = match self.path.last() {
            Some((Space::Dav, name)) => name.as_str(),
            _ => "",
        };
        let is_in_owner = self.path.iter().any(|(_, name)| name == "owner");
        let found = &mut self.properties;
        let some = || (!text.is_empty()).then(|| text.to_owned());
        match (parent, space, name.as_str()) {
            ("response", Space::Dav, "href") => text.clone_into(&mut self.response.href),
            ("response", Space::Dav, "status") => self.response_status = status(text),
            ("propstat", Space::Dav, "status") => self.status = status(text),
            ("resourcetype", Space::Dav, "collection") => found.is_collection = true,
            ("prop", Space::Dav, "getcontentlength") => found.len = text.parse().ok(),
            ("prop", Space::Dav, "getlastmodified") => found.modified = httpdate::parse_http_date(text).ok(),
            ("prop", Space::Dav, "getetag") => found.etag = some(),
            ("prop", Space::Dav, "quota-used-bytes") => found.used_bytes = text.parse().ok(),
            // Without a limit some servers say -1 or the like.
            ("prop", Space::Dav, "quota-available-bytes") => found.free_bytes = text.parse().ok(),
            ("prop", Space::Owncloud, "permissions") => found.permissions = Some(text.to_owned()),
            ("prop", Space::Nextcloud, "lock-owner-displayname") => found.lock_owner = some(),
            ("prop", Space::Ours, "mode") => found.mode = some(),
            ("prop", Space::Ours, "mtime") => found.mtime = some(),
            ("prop", Space::Ours, "xattrs") => found.xattrs = some(),
            (_, Space::Dav, name) if name == "owner" || is_in_owner => {
                found.lock_owner = found.lock_owner.take().or_else(some);
            }
            ("response", Space::Dav, "propstat") => {
                let found = std::mem::take(found);
                match self.status {
                    200..=299 => self.response.take_over(found),
                    404 | 410 => {}
                    refused => self.response.refused = Some(refused),
                }
            }
            ("multistatus", Space::Dav, "response") => {
                let response = std::mem::take(&mut self.response);
                return match self.response_status {
                    200..=299 => Ok(Some(response)),
                    404 | 410 => Ok(None),
                    // A resource that the server fails to describe would be missing from a listing.
                    refused => Err(format!("it leaves things out ({refused})")),
                };
            }
            _ => {}
        }
        Ok(None)
    }
}

impl Resource {
    /// Adds the properties of one propstat.
    fn take_over(&mut self, found: Resource) {
        self.is_collection |= found.is_collection;
        self.len = self.len.or(found.len);
        self.modified = self.modified.or(found.modified);
        self.etag = self.etag.take().or(found.etag);
        self.permissions = self.permissions.take().or(found.permissions);
        self.mode = self.mode.take().or(found.mode);
        self.mtime = self.mtime.take().or(found.mtime);
        self.xattrs = self.xattrs.take().or(found.xattrs);
        self.used_bytes = self.used_bytes.or(found.used_bytes);
        self.free_bytes = self.free_bytes.or(found.free_bytes);
        self.lock_owner = self.lock_owner.take().or(found.lock_owner);
    }
}

/// The code of a status line: `HTTP/1.1 404 Not Found`.
fn status(line: &str) -> u16 {
    line.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// Gives no more than a certain number of bytes, until it is told to.
struct Bounded<R> {
    inner: R,
    left: usize,
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buf)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Err(io::Error::other("a part of it is too long"));
        }
        let there = self.inner.fill_buf()?;
        Ok(&there[..there.len().min(self.left)])
    }

    fn consume(&mut self, amount: usize) {
        self.left -= amount;
        self.inner.consume(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<Resource>, String> {
        let mut found = Vec::new();
        parse(text.as_bytes(), |resource| {
            found.push(resource);
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn reads_properties_of_each_name_space() {
        let text = r#"<?xml version="1.0"?>
            <x:multistatus xmlns:x="DAV:" xmlns:o="http://owncloud.org/ns" xmlns:h="urn:holdall:meta">
              <x:response><x:href>/a%20b/</x:href>
                <x:propstat><x:prop><x:resourcetype><x:collection/></x:resourcetype></x:prop><x:status>HTTP/1.1 200 OK</x:status></x:propstat>
                <x:propstat><x:prop><x:getcontentlength/></x:prop><x:status>HTTP/1.1 404 Not Found</x:status></x:propstat>
              </x:response>
              <response xmlns="DAV:"><href>http://h/a&amp;b&#x2F;c</href>
                <propstat><prop><resourcetype/><getcontentlength>17</getcontentlength><getetag>W/"x"</getetag>
                  <o:getcontentlength>99</o:getcontentlength><o:permissions>RGDNV</o:permissions><h:mode>640</h:mode>
                  <getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</getlastmodified></prop><status>HTTP/1.1 200 OK</status></propstat>
              </response>
              <x:response><x:href>/gone</x:href><x:status>HTTP/1.1 404 Not Found</x:status></x:response>
            </x:multistatus>"#;
        let found = all(text).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].href.as_str(), found[0].is_collection, found[0].len), ("/a%20b/", true, None));
        let file = &found[1];
        assert_eq!((file.href.as_str(), file.is_collection, file.len), ("http://h/a&b/c", false, Some(17)));
        assert_eq!(file.etag.as_deref(), Some("W/\"x\""));
        assert_eq!((file.permissions.as_deref(), file.mode.as_deref()), (Some("RGDNV"), Some("640")));
        assert!(file.modified.is_some());
    }

    #[test]
    fn finds_who_has_locked_it() {
        for owner in ["Ada", "<d:href>Ada</d:href>"] {
            let text = format!(
                r#"<d:multistatus xmlns:d="DAV:"><d:response><d:href>/x</d:href><d:propstat><d:prop><d:lockdiscovery><d:activelock>
                <d:owner>{owner}</d:owner></d:activelock></d:lockdiscovery></d:prop><d:status>HTTP/1.1 200 OK</d:status>
                </d:propstat></d:response></d:multistatus>"#
            );
            assert_eq!(all(&text).unwrap()[0].lock_owner.as_deref(), Some("Ada"));
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let deep = format!(r#"<multistatus xmlns="DAV:">{}"#, "<x>".repeat(1000));
        let long = format!(r#"<multistatus xmlns="DAV:"><response>{}"#, "x".repeat(1 << 20));
        let tag = format!(r#"<multistatus xmlns="DAV:"><response {}"#, "x".repeat(1 << 20));
        for text in [
            "",
            "<html><body>Log in</body></html>",
            "<multistatus/>",
            "<!DOCTYPE html><p>x",
            r#"<multistatus xmlns="DAV:"><response>"#,
            r#"<m:multistatus xmlns:m="DAV:"><x>&y;</x></m:multistatus>"#,
            r#"<!DOCTYPE m [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><multistatus xmlns="DAV:">&b;</multistatus>"#,
            r#"<multistatus xmlns="DAV:"><response><href>/x</href><status>HTTP/1.1 500 No</status></response></multistatus>"#,
            &deep,
            &long,
            &tag,
        ] {
            assert!(all(text).is_err(), "{}", &text[..text.len().min(80)]);
        }
        assert_eq!(all(r#"<multistatus xmlns="DAV:"/>"#), Ok(Vec::new()));
    }

    #[test]
    fn very_many_resources_are_too_many() {
        let one = "<response><href>/x</href></response>";
        let text = format!(r#"<multistatus xmlns="DAV:">{}</multistatus>"#, one.repeat(RESOURCES_MAX + 1));
        assert!(all(&text).unwrap_err().contains("more than"));
    }
}
