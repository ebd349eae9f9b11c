//! Names and paths of a remote's files. A name that no file system can show, or that would lead elsewhere, does not become a [`Name`].

use super::UPLOAD_PREFIX;
use std::fmt;

/// The name of a file in its directory: 1 to 255 bytes of UTF-8 without `/` and NUL, not `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty, `.` or `..`, or holds `/` or NUL.
    #[error("no file can have this name")]
    Reserved,
    /// It has more than 255 bytes.
    #[error("the name is longer than 255 bytes")]
    TooLong,
}

impl Name {
    /// Linux's limit, in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Checks a name.
    pub fn new(text: &str) -> Result<Self, NameError> {
        match text {
            "" | "." | ".." => Err(NameError::Reserved),
            text if text.contains(['/', '\0']) => Err(NameError::Reserved),
            text if text.len() > Self::BYTES_MAX => Err(NameError::TooLong),
            text => Ok(Self(text.into())),
        }
    }

    /// The name in the entry of the root, which lies in no directory: it is empty.
    pub fn of_root() -> Self {
        Self("".into())
    }

    /// Whether it is one of Holdall's uploads under way.
    pub fn is_upload(&self) -> bool {
        self.0.starts_with(UPLOAD_PREFIX)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A path below the remote's root: names with `/` between them. The root is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemotePath(String);

impl RemotePath {
    /// The root.
    pub fn root() -> Self {
        Self::default()
    }

    /// Checks a path as text, without `/` at its ends.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        match text {
            "" => Ok(Self::root()),
            text => text.split('/').try_fold(Self::root(), |path, part| Ok(path.join(&Name::new(part)?))),
        }
    }

    /// The path of `name` in this directory.
    pub fn join(&self, name: &Name) -> Self {
        match self.is_root() {
            true => Self(name.as_str().to_owned()),
            false => Self(format!("{}/{name}", self.0)),
        }
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory it lies in, and its name there; `None` for the root.
    pub fn split(&self) -> Option<(Self, Name)> {
        let (parent, name) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        Some((Self(parent.to_owned()), Name::new(name).ok()?))
    }

    /// The names that it consists of.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// Whether one of its names is that of an upload under way: there is nothing to see.
    pub fn is_hidden(&self) -> bool {
        self.names().any(|name| name.starts_with(UPLOAD_PREFIX))
    }

    /// Whether it lies below `directory`, or is it.
    pub fn is_within(&self, directory: &Self) -> bool {
        directory.is_root()
            || self.0.strip_prefix(&directory.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path as text, without `/` at its ends.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_root() {
            true => f.write_str("/"),
            false => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_names_that_are_no_file_names() {
        for bad in ["", ".", "..", "a/b", "/", "a\0"] {
            assert_eq!(Name::new(bad), Err(NameError::Reserved), "{bad:?}");
        }
        assert_eq!(Name::new(&"x".repeat(256)), Err(NameError::TooLong));
        for good in ["a", "…", "a b", "%41", "+", "#", ".a", "...", &"x".repeat(255)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn paths_join_split_and_nest() {
        let path = RemotePath::parse("a/b c/d").unwrap();
        let (parent, name) = path.split().unwrap();
        assert_eq!((parent.as_str(), name.as_str()), ("a/b c", "d"));
        assert_eq!(parent.join(&name), path);
        assert_eq!(RemotePath::root().split(), None);
        assert!(path.is_within(&parent) && path.is_within(&path) && path.is_within(&RemotePath::root()));
        assert!(!RemotePath::parse("ab").unwrap().is_within(&RemotePath::parse("a").unwrap()));
        for bad in ["/a", "a/", "a//b", "a/../b", "a/./b"] {
            assert!(RemotePath::parse(bad).is_err(), "{bad}");
        }
    }
}
