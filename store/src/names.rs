//! The names of objects: what a store must know about them, and which of them are its owner's.
//!
//! The owner hands in its [`Grammar`]; the names of the probe are this crate's own. Names are checked in one place, for every kind of store:
//! [`ours`](crate::ours) asks about each name that a store lists, and about each that it is asked for. Nobody above it checks a name again.

use crate::probe;

/// What the owner of a store says about the names that it gives its objects. Pure.
///
/// A name has `/` between its parts, and begins at the root of the store.
pub trait Grammar: Send + Sync {
    /// Whether the owner writes exactly this name. Every other name is foreign: a console's folder marker, a sync tool's conflicted copy, or
    /// a name that a hostile store lists so that it gets used as a path.
    fn is_own(&self, name: &str) -> bool;

    /// The object that is put before all others and never deleted. While it is missing the store is not there: a bare mount point, or the
    /// wrong place.
    fn mark(&self) -> &str;

    /// Whether an object or a directory of this name may be there before the mark.
    fn precedes_mark(&self, name: &str) -> bool;

    /// Whether the name is that of a claim ([`Store::claim`](crate::Store::claim)), and not of something in it. On some stores a claim is a
    /// directory. Listings show it and do not look into it.
    fn is_claim(&self, name: &str) -> bool;

    /// Whether objects of this name are replaced under a condition. All others are put once, and nothing depends on who wins a race for them.
    fn is_swapped(&self, name: &str) -> bool;

    /// How current a listing of this prefix must be.
    fn currency(&self, prefix: &str) -> Currency;
}

/// How current a listing must be. On a network file system, this computer may have an old one in its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Currency {
    /// An old listing does no harm.
    Any,
    /// It must be current wherever this computer may change the directory: whoever cannot change it decides nothing.
    Preferred,
    /// The same, and what follows from an old one cannot be undone: no listing is better.
    Required,
}

/// The names in a store: its owner's, and those of probes.
#[derive(Clone, Copy)]
pub struct Names(&'static dyn Grammar);

impl Names {
    /// The owner's names, and those of probes.
    pub fn new(owner: &'static dyn Grammar) -> Self {
        Self(owner)
    }

    /// Whether the owner or a probe writes exactly this name.
    pub fn are_ours(self, name: &str) -> bool {
        probe::is_name(name) || self.0.is_own(name)
    }

    /// See [`Grammar::mark`].
    pub fn mark(self) -> &'static str {
        self.0.mark()
    }

    /// Whether an object or a directory of this name is, or may be there before, the mark.
    pub fn begins(self, name: &str) -> bool {
        name == self.0.mark() || name.starts_with(probe::AREA) || self.0.precedes_mark(name)
    }

    /// Whether the name is that of a claim.
    pub fn is_claim(self, name: &str) -> bool {
        probe::is_claim(name) || self.0.is_claim(name)
    }

    /// See [`Grammar::is_swapped`].
    pub fn is_swapped(self, name: &str) -> bool {
        self.0.is_swapped(name)
    }

    /// How current a listing of this prefix must be.
    pub fn currency(self, prefix: &str) -> Currency {
        if prefix.starts_with(probe::AREA) { Currency::Preferred } else { self.0.currency(prefix) }
    }
}

/// Whether a path made of `name` stays below the root it is joined to, on every kind of store.
pub fn stays_below(name: &str) -> bool {
    name.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains(['\0', '\\']))
}

/// Whether `text` has exactly `digits` hexadecimal digits, in lower case, and nothing else.
pub fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_paths_that_climb() {
        for name in ["", "..", "a/..", "../a", "a//b", "/a", "a/", "./a", "a/./b", "a\0b", "a\\b"] {
            assert!(!stays_below(name), "{name:?}");
        }
        assert!(stays_below("a/..b/.c"), "dots in a name are no way up");
    }
}
