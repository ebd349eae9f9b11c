//! A server's answer to PROPFIND (RFC 4918, sections 13 and 14). Pure.

use quick_xml::events::Event;
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use std::time::SystemTime;

/// The properties to ask for each resource.
pub const QUERY: &str = r#"<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/></prop></propfind>"#;

/// The property to ask for the place itself (RFC 4331).
pub const QUOTA_QUERY: &str = r#"<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><quota-available-bytes/></prop></propfind>"#;

/// One resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Its address, as the server wrote it.
    pub href: String,
    /// Whether it is a collection.
    pub is_collection: bool,
    /// Its length in bytes.
    pub len: Option<u64>,
    /// When it was last changed, by the server's clock.
    pub modified: Option<SystemTime>,
    /// Bytes that can still be stored in it.
    pub free_bytes: Option<u64>,
}

/// The resources of an answer, without those that the server reports as gone. The error says why the answer cannot be read.
pub fn parse(text: &str) -> Result<Vec<Resource>, String> {
    let mut reader = NsReader::from_str(text);
    let mut state = State::default();
    let mut is_multistatus = false;
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|error| error.to_string())?;
        let is_dav = matches!(namespace, ResolveResult::Bound(Namespace("DAV:")));
        match event {
            Event::Start(element) => {
                let name = if is_dav { element.local_name().into_inner() } else { "" };
                is_multistatus |= name == "multistatus";
                state.open(name);
            }
            Event::Empty(element) => {
                let name = if is_dav { element.local_name().into_inner() } else { "" };
                is_multistatus |= name == "multistatus";
                state.open(name);
                state.close();
            }
            Event::End(_) => state.close(),
            Event::Text(text) => state.text.push_str(&text.xml10_content()),
            Event::CData(text) => state.text.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().map_err(|error| error.to_string())?;
                match (character, quick_xml::escape::resolve_xml_entity(&reference.xml10_content())) {
                    (Some(character), _) => state.text.push(character),
                    (None, Some(entity)) => state.text.push_str(entity),
                    (None, None) => return Err("it has an unknown entity".into()),
                }
            }
            Event::Eof if is_multistatus && state.path.is_empty() && state.incomplete => {
                return Err("it leaves things out".into());
            }
            Event::Eof if is_multistatus && state.path.is_empty() => return Ok(state.found),
            Event::Eof if is_multistatus => return Err("it breaks off".into()),
            Event::Eof => return Err("it is no multistatus".into()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::DocType(_) => {}
        }
    }
}

#[derive(Default)]
struct State {
    /// The enclosing elements; "" for those of other namespaces.
    path: Vec<String>,
    text: String,
    response: Resource,
    /// The properties from the propstat that is being read.
    properties: Resource,
    failed: bool,
    incomplete: bool,
    properties_failed: bool,
    found: Vec<Resource>,
}

impl State {
    fn open(&mut self, name: &str) {
        match name {
            "response" => {
                self.response = Resource::default();
                self.failed = false;
            }
            "propstat" => {
                self.properties = Resource::default();
                self.properties_failed = false;
            }
            _ => {}
        }
        self.text.clear();
        self.path.push(name.to_owned());
    }

    fn close(&mut self) {
        let Some(name) = self.path.pop() else { return };
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        let parent = self.path.last().map_or("", String::as_str);
        match (parent, name.as_str()) {
            ("response", "href") => self.response.href = text.to_owned(),
            ("response", "status") => {
                self.failed = !is_success(text);
                // A resource that is gone can be skipped. One that the server fails to describe would be missing from a listing.
                self.incomplete |= self.failed && !is_gone(text);
            }
            ("propstat", "status") => self.properties_failed = !is_success(text),
            ("resourcetype", "collection") => self.properties.is_collection = true,
            ("prop", "getcontentlength") => self.properties.len = text.parse().ok(),
            // Without a limit some servers say -1 or the like.
            ("prop", "quota-available-bytes") => self.properties.free_bytes = text.parse().ok(),
            ("prop", "getlastmodified") => self.properties.modified = httpdate::parse_http_date(text).ok(),
            ("response", "propstat") if !self.properties_failed => {
                self.response.is_collection |= self.properties.is_collection;
                self.response.len = self.response.len.or(self.properties.len);
                self.response.modified = self.response.modified.or(self.properties.modified);
                self.response.free_bytes = self.response.free_bytes.or(self.properties.free_bytes);
            }
            ("multistatus", "response") if !self.failed => {
                self.found.push(std::mem::take(&mut self.response));
            }
            _ => {}
        }
    }
}

/// Takes a status line: `HTTP/1.1 200 OK`.
fn is_success(line: &str) -> bool {
    line.split_whitespace().nth(1).is_some_and(|code| code.starts_with('2'))
}

/// Takes a status line: `HTTP/1.1 404 Not Found`.
fn is_gone(line: &str) -> bool {
    line.split_whitespace().nth(1).is_some_and(|code| matches!(code, "404" | "410"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_do_not_matter_but_namespaces_do() {
        let text = r#"<?xml version="1.0"?>
            <x:multistatus xmlns:x="DAV:" xmlns:o="http://owncloud.org/ns">
              <x:response><x:href>/a%20b/</x:href>
                <x:propstat><x:prop><x:resourcetype><x:collection/></x:resourcetype></x:prop><x:status>HTTP/1.1 200 OK</x:status></x:propstat>
                <x:propstat><x:prop><x:getcontentlength/></x:prop><x:status>HTTP/1.1 404 Not Found</x:status></x:propstat>
              </x:response>
              <response xmlns="DAV:"><href>http://h/a&amp;b&#x2F;c</href>
                <propstat><prop><resourcetype/><getcontentlength>17</getcontentlength>
                  <o:getcontentlength>99</o:getcontentlength>
                  <getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</getlastmodified></prop><status>HTTP/1.1 200 OK</status></propstat>
              </response>
              <x:response><x:href>/gone</x:href><x:status>HTTP/1.1 404 Not Found</x:status></x:response>
            </x:multistatus>"#;
        let found = parse(text).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].href.as_str(), found[0].is_collection, found[0].len), ("/a%20b/", true, None));
        assert_eq!((found[1].href.as_str(), found[1].is_collection), ("http://h/a&b/c", false));
        assert_eq!(found[1].len, Some(17));
        assert!(found[1].modified.is_some());
    }

    #[test]
    fn free_space_is_a_number_or_unknown() {
        // RFC 4331; Nextcloud says -3 if there is no limit.
        for (told, free) in [("1073741824", Some(1 << 30)), ("0", Some(0)), ("-3", None), ("", None)] {
            let text = format!(
                r#"<d:multistatus xmlns:d="DAV:"><d:response><d:href>/files/ann/</d:href><d:propstat><d:prop>
                <d:quota-available-bytes>{told}</d:quota-available-bytes></d:prop><d:status>HTTP/1.1 200 OK</d:status>
                </d:propstat></d:response></d:multistatus>"#
            );
            assert_eq!(parse(&text).unwrap()[0].free_bytes, free, "{told}");
        }
    }

    #[test]
    fn other_answers_than_multistatus_are_errors() {
        for text in ["", "<html><body>Log in</body></html>", "<multistatus/>", "<!DOCTYPE html><p>x"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in [r#"<multistatus xmlns="DAV:"><response>"#, r#"<m:multistatus xmlns:m="DAV:"><x>&y;</x>"#]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse(r#"<multistatus xmlns="DAV:"/>"#), Ok(Vec::new()));
    }
}
