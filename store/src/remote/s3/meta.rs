//! What a file has beside its bytes, as user metadata of an object. Pure.
//!
//! Other programs read and write the same: `mtime` as rclone and s3fs do (seconds, decimal, with a fraction), `mode` as s3fs does (decimal,
//! with the bits of the file's type), and `xattr` as s3fs does (JSON with base64 in it, percent-encoded). What this program does not
//! know is kept.

use crate::remote::{Meta, Time};
use data_encoding::BASE64;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::collections::BTreeMap;

/// User metadata: names without `x-amz-meta-`, in lower case.
pub(super) type User = BTreeMap<String, String>;

/// Amazon's limit, names and values together.
pub(super) const USER_BYTES_MAX: usize = 2048;

const MTIME: &str = "mtime";
const MODE: &str = "mode";
const XATTR: &str = "xattr";
/// What describes the bytes, and is wrong as soon as they change: rclone's and s3cmd's checksums.
const OF_BYTES: [&str; 3] = [MTIME, "md5chksum", "s3cmd-attrs"];
/// The longest list of attributes that is read: more than any server takes.
const XATTR_BYTES_MAX: usize = 64 << 10;

const TYPE_BITS: u32 = 0o170_000;
const MODE_BITS: u32 = 0o7777;
/// Unreserved in addresses: stays as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What an object is, by the bits of a file's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    File,
    Directory,
    Link,
}

impl Type {
    fn bits(self) -> u32 {
        match self {
            Type::File => 0o100_000,
            Type::Directory => 0o040_000,
            Type::Link => 0o120_000,
        }
    }
}

/// Metadata that does not fit into an object, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch(pub(super) usize);

/// What user metadata says. The type is `None` where it does not say one.
pub(super) fn read(user: &User) -> (Option<Type>, Meta) {
    let mode = user.get(MODE).and_then(|text| mode(text));
    let kind = mode.and_then(|mode| {
        [Type::File, Type::Directory, Type::Link].into_iter().find(|kind| kind.bits() == mode & TYPE_BITS)
    });
    let meta = Meta {
        mode: mode.map(|mode| mode & MODE_BITS),
        mtime: user.get(MTIME).and_then(|text| time(text)),
        xattrs: user.get(XATTR).map(|text| xattrs(text)).unwrap_or_default(),
        link: None,
    };
    (kind, meta)
}

/// The metadata of new bytes, over those of the file that they replace.
pub(super) fn of_new_bytes(old: &User, kind: Type, meta: &Meta) -> Result<User, TooMuch> {
    let mut user = old.clone();
    OF_BYTES.iter().for_each(|name| drop(user.remove(*name)));
    let mut attributes = user.get(XATTR).map(|text| xattrs(text)).unwrap_or_default();
    attributes.extend(meta.xattrs.clone());
    written(user, kind, meta, &attributes)
}

/// The metadata after a change of it alone.
pub(super) fn changed(old: &User, kind: Type, meta: &Meta) -> Result<User, TooMuch> {
    let mut attributes = old.get(XATTR).map(|text| xattrs(text)).unwrap_or_default();
    attributes.retain(|name, _| !name.starts_with("user."));
    attributes.extend(meta.xattrs.clone());
    written(old.clone(), kind, meta, &attributes)
}

fn written(
    mut user: User,
    kind: Type,
    meta: &Meta,
    attributes: &BTreeMap<String, Vec<u8>>,
) -> Result<User, TooMuch> {
    let (was, before) = read(&user);
    let mode = meta.mode.or(before.mode.filter(|_| was.is_none_or(|was| was == kind)));
    let default = (kind == Type::Link).then_some(0o777);
    match mode.or(default) {
        Some(mode) => user.insert(MODE.into(), (kind.bits() | mode & MODE_BITS).to_string()),
        None => user.remove(MODE),
    };
    if let Some(mtime) = meta.mtime {
        user.insert(MTIME.into(), shown(mtime));
    }
    match attributes.is_empty() {
        true => drop(user.remove(XATTR)),
        false => drop(user.insert(XATTR.into(), joined(attributes))),
    }
    match user.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() {
        bytes if bytes > USER_BYTES_MAX => Err(TooMuch(bytes)),
        _ => Ok(user),
    }
}

/// Decimal, as s3fs writes it; or octal with the bits of a type, as rclone copies it from a file system.
fn mode(text: &str) -> Option<u32> {
    let is_known = |mode: &u32| {
        let bits = mode & !MODE_BITS;
        bits == 0 || [Type::File, Type::Directory, Type::Link].iter().any(|kind| kind.bits() == bits)
    };
    let decimal = text.trim().parse().ok().filter(is_known);
    decimal.or_else(|| u32::from_str_radix(text.trim(), 8).ok().filter(is_known))
}

const SECOND: i128 = 1_000_000_000;

/// Seconds since 1970, as decimal digits with or without a fraction and a sign.
fn time(text: &str) -> Option<Time> {
    let text = text.trim();
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // Times far beyond a thousand ages of the universe are mistakes.
    if whole.is_empty() || whole.len() > 20 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let nanoseconds = format!("{fraction:0<9}")[..9].parse::<i128>().ok()?;
    Some(Time(sign * (whole.parse::<i128>().ok()? * SECOND + nanoseconds)))
}

fn shown(Time(time): Time) -> String {
    let sign = if time < 0 { "-" } else { "" };
    let (seconds, nanoseconds) = (time.abs() / SECOND, time.abs() % SECOND);
    match nanoseconds {
        0 => format!("{sign}{seconds}"),
        _ => format!("{sign}{seconds}.{nanoseconds:09}"),
    }
}

fn xattrs(text: &str) -> BTreeMap<String, Vec<u8>> {
    if text.len() > XATTR_BYTES_MAX {
        return BTreeMap::new();
    }
    let json = percent_decode_str(text).decode_utf8_lossy();
    let pairs: BTreeMap<String, String> = serde_json::from_str(&json).unwrap_or_default();
    let bytes = |(name, value): (String, String)| Some((name, BASE64.decode(value.as_bytes()).ok()?));
    pairs.into_iter().filter_map(bytes).collect()
}

fn joined(attributes: &BTreeMap<String, Vec<u8>>) -> String {
    let pairs: BTreeMap<_, _> = attributes.iter().map(|(name, value)| (name, BASE64.encode(value))).collect();
    let json = serde_json::to_string(&pairs).expect("texts become JSON");
    utf8_percent_encode(&json, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(pairs: &[(&str, &str)]) -> User {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn reads_what_other_programs_write() {
        let s3fs = user(&[
            ("mode", "33188"),
            ("mtime", "1700000000"),
            ("uid", "0"),
            ("xattr", "%7B%22user.a%22%3A%22AQI%3D%22%7D"),
        ]);
        let (kind, meta) = read(&s3fs);
        assert_eq!((kind, meta.mode), (Some(Type::File), Some(0o644)));
        assert_eq!(meta.mtime, Some(Time(1_700_000_000 * SECOND)));
        assert_eq!(meta.xattrs["user.a"], [1, 2]);
        assert_eq!(read(&user(&[("mode", "41471")])).0, Some(Type::Link));
        let (kind, meta) = read(&user(&[("mode", "100640"), ("mtime", "1354040105.000000123")]));
        assert_eq!((kind, meta.mode), (Some(Type::File), Some(0o640)));
        assert_eq!(meta.mtime, Some(Time(1_354_040_105 * SECOND + 123)));
        assert_eq!(read(&user(&[("mode", "420")])), (None, Meta { mode: Some(0o644), ..Meta::default() }));
    }

    #[test]
    fn times_come_back_as_they_were() {
        for time_now in [0, 1, -1, -1_500_000_000, 1_700_000_000_123_456_789, SECOND * (1 << 40), -SECOND] {
            assert_eq!(time(&shown(Time(time_now))), Some(Time(time_now)));
        }
        assert_eq!(shown(Time(-1_500_000_000)), "-1.500000000");
        assert_eq!(time("12.5"), Some(Time(12_500_000_000)));
        assert_eq!(time("1.1234567899"), Some(Time(1_123_456_789)));
        for bad in ["", "-", ".5", "x", "1e9", "1.2.3", "+1", "2024-01-01T00:00:00Z", &"9".repeat(21)] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }

    #[test]
    fn hostile_metadata_says_nothing() {
        for bad in ["%7B", "[]", "{\"a\":1}", "%ff%fe", &"{".repeat(XATTR_BYTES_MAX + 1)] {
            assert_eq!(xattrs(bad), BTreeMap::new());
        }
        for bad in ["", "-1", "99999999999", "61440", "0x1ff"] {
            assert_eq!(mode(bad), None, "{bad}");
        }
    }

    #[test]
    fn new_bytes_keep_what_is_not_about_bytes() {
        let old = user(&[("mode", "33188"), ("mtime", "1"), ("md5chksum", "x"), ("author", "Ada")]);
        let meta = Meta { xattrs: [("user.a".to_owned(), vec![1])].into(), ..Meta::default() };
        let new = of_new_bytes(&old, Type::File, &meta).unwrap();
        assert_eq!(new.keys().collect::<Vec<_>>(), ["author", "mode", "xattr"]);
        let again = of_new_bytes(&new, Type::Link, &Meta::default()).unwrap();
        assert_eq!(read(&again).0, Some(Type::Link));
        let back = of_new_bytes(&again, Type::File, &Meta::default()).unwrap();
        assert!(!back.contains_key("mode"), "a link's bits are no file's");
        assert_eq!(read(&changed(&new, Type::File, &Meta::default()).unwrap()).1.xattrs, BTreeMap::new());
    }

    #[test]
    fn counts_what_fits() {
        let meta =
            |len: usize| Meta { xattrs: [("user.a".to_owned(), vec![0; len])].into(), ..Meta::default() };
        assert!(of_new_bytes(&User::new(), Type::File, &meta(1000)).is_ok());
        assert!(matches!(of_new_bytes(&User::new(), Type::File, &meta(2000)), Err(TooMuch(2049..))));
        let foreign = user(&[("a", &"x".repeat(1500))]);
        assert!(of_new_bytes(&foreign, Type::File, &meta(1000)).is_err(), "others' metadata stays");
    }
}
