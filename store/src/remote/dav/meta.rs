//! What files have beside their bytes, as properties of Holdall's own. Pure.
//!
//! A property outlives the bytes that it was set for: another program's PUT keeps it. Permission bits and attributes mean the file, and stay
//! good. The time of the last change means its bytes, so it names the version that it belongs to.

use super::multistatus::{OURS, Resource};
use crate::remote::{Meta, Time, Version};
use data_encoding::BASE64URL_NOPAD;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The attributes of one file, as they are written: Linux's limit for all of a file's.
pub(super) const XATTRS_BYTES_MAX: usize = 64 << 10;
const NANOSECONDS: i128 = 1_000_000_000;

/// A change of properties: those that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Patch {
    pub mode: Option<u32>,
    pub mtime: Option<(Time, Version)>,
    pub xattrs: Option<BTreeMap<String, Vec<u8>>>,
}

impl Patch {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The body of its PROPPATCH.
    pub fn body(&self) -> String {
        let mut set = String::new();
        if let Some(mode) = self.mode {
            set += &format!("<h:mode>{mode:o}</h:mode>");
        }
        if let Some((time, version)) = &self.mtime {
            set += &format!("<h:mtime>{} {}</h:mtime>", time.0, mark(version));
        }
        let mut remove = "";
        match &self.xattrs {
            Some(xattrs) if xattrs.is_empty() => remove = "<remove><prop><h:xattrs/></prop></remove>",
            Some(xattrs) => set += &format!("<h:xattrs>{}</h:xattrs>", written(xattrs)),
            None => {}
        }
        let set = if set.is_empty() { set } else { format!("<set><prop>{set}</prop></set>") };
        format!(
            r#"<?xml version="1.0" encoding="utf-8"?><propertyupdate xmlns="DAV:" xmlns:h="{OURS}">{set}{remove}</propertyupdate>"#
        )
    }
}

/// Attributes as text.
pub(super) fn written(xattrs: &BTreeMap<String, Vec<u8>>) -> String {
    let pairs = xattrs.iter().map(|(name, value)| {
        format!("{}={}", utf8_percent_encode(name, NON_ALPHANUMERIC), BASE64URL_NOPAD.encode(value))
    });
    pairs.collect::<Vec<_>>().join(" ")
}

/// Attributes from their text; those that cannot be read are left out.
fn read(text: &str) -> BTreeMap<String, Vec<u8>> {
    if text.len() > XATTRS_BYTES_MAX {
        return BTreeMap::new();
    }
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = percent_decode_str(name).decode_utf8().ok()?;
        let is_one = name.starts_with("user.") && name.len() <= 255 && !name.contains('\0');
        is_one.then_some((name.into_owned(), BASE64URL_NOPAD.decode(value.as_bytes()).ok()?))
    };
    text.split_whitespace().filter_map(pair).collect()
}

/// A version in few letters.
fn mark(version: &Version) -> String {
    let written = version.written.map_or(0, |time| time.0);
    let text = format!("{} {} {written}", version.tag, version.len);
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

/// What a file of this version has.
pub(super) fn of(resource: &Resource, version: &Version) -> Meta {
    let mode = resource.mode.as_ref().and_then(|mode| u32::from_str_radix(mode, 8).ok());
    let set = resource.mtime.as_ref().and_then(|mtime| {
        let (time, of) = mtime.split_once(' ')?;
        (of == mark(version)).then_some(Time(time.parse().ok()?))
    });
    Meta {
        mode: mode.filter(|mode| *mode <= 0o7777),
        mtime: set.or_else(|| resource.modified.map(time)),
        xattrs: resource.xattrs.as_deref().map(read).unwrap_or_default(),
        link: None,
    }
}

/// A server's time.
pub(super) fn time(time: SystemTime) -> Time {
    Time(match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    })
}

/// The whole seconds of a time, if they can be sent as `X-OC-Mtime`.
pub(super) fn seconds(time: Time) -> Option<u64> {
    u64::try_from(time.0.div_euclid(NANOSECONDS)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(len: u64) -> Version {
        Version { tag: "x".into(), len, written: None }
    }

    #[test]
    fn what_is_set_is_found() {
        let xattrs =
            BTreeMap::from([("user.a".to_owned(), vec![0, 255]), ("user.\u{fc} =".to_owned(), vec![])]);
        let at = Time(-981_173_107_123_456_789);
        let patch = Patch { mode: Some(0o4751), mtime: Some((at, version(1))), xattrs: Some(xattrs.clone()) };
        let body = patch.body();
        let value = |name: &str| {
            let (_, rest) = body.split_once(&format!("<h:{name}>")).unwrap();
            Some(rest.split_once("</").unwrap().0.to_owned())
        };
        let resource = Resource {
            mode: value("mode"),
            mtime: value("mtime"),
            xattrs: value("xattrs"),
            ..Resource::default()
        };
        let meta = Meta { mode: Some(0o4751), mtime: Some(at), xattrs, link: None };
        assert_eq!(of(&resource, &version(1)), meta);
        assert_eq!(of(&resource, &version(2)).mtime, None, "a time of other bytes is not this file's");
    }

    #[test]
    fn what_others_write_there_does_no_harm() {
        let resource = Resource {
            mode: Some("99999".into()),
            mtime: Some("soon".into()),
            xattrs: Some("security.selinux=YQ user.a user.b=* =YQ user.c=YQ".into()),
            ..Resource::default()
        };
        let xattrs = BTreeMap::from([("user.c".to_owned(), b"a".to_vec())]);
        assert_eq!(of(&resource, &version(1)), Meta { xattrs, ..Meta::default() });
        let long = Resource { xattrs: Some("user.c=YQ ".repeat(10_000)), ..Resource::default() };
        assert_eq!(of(&long, &version(1)), Meta::default());
    }

    #[test]
    fn without_attributes_the_property_goes() {
        let patch = Patch { xattrs: Some(BTreeMap::new()), ..Patch::default() };
        assert!(
            patch.body().contains("<remove><prop><h:xattrs/></prop></remove>")
                && !patch.body().contains("<set>")
        );
        assert_eq!((seconds(Time(-1)), seconds(Time(1_999_999_999))), (None, Some(1)));
    }
}
