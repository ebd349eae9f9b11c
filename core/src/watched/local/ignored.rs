//! `.holdallignore`: which names are left out, in gitignore's syntax. A file counts for its directory and all below; the deepest that says
//! something wins, and what lies in a directory that is left out is left out.

use crate::store::remote::RemotePath;
use crate::watched::tree::Ignores;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::BTreeMap;

/// A longer file is not read: matching would take for ever.
pub(super) const BYTES_MAX: u64 = 1 << 20;

/// The patterns of a directory and those below.
#[derive(Default)]
pub(super) struct Patterns(BTreeMap<RemotePath, Gitignore>);

impl Patterns {
    /// Adds the patterns of one directory. A line that is no pattern is left out, and told.
    pub fn add(&mut self, directory: &RemotePath, text: &str) {
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines() {
            if let Err(error) = builder.add_line(None, line) {
                tracing::warn!(%directory, line, %error, "a line of .holdallignore is no pattern");
            }
        }
        match builder.build() {
            Ok(patterns) => drop(self.0.insert(directory.clone(), patterns)),
            Err(error) => tracing::warn!(%directory, %error, ".holdallignore cannot be used"),
        }
    }

    fn one(&self, path: &RemotePath, is_directory: bool) -> bool {
        let mut at = path.split().map(|(above, _)| above);
        while let Some(directory) = at {
            if let Some(patterns) = self.0.get(&directory) {
                let below = &path.as_str()[directory.as_str().len()..];
                match patterns.matched(below.trim_start_matches('/'), is_directory) {
                    Match::None => {}
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                }
            }
            at = directory.split().map(|(above, _)| above);
        }
        false
    }
}

impl Ignores for Patterns {
    fn is_ignored(&self, path: &RemotePath, is_directory: bool) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let mut above = RemotePath::root();
        let names: Vec<_> = path.names().collect();
        names.iter().enumerate().any(|(at, name)| {
            let Ok(path) = RemotePath::parse(&match above.is_root() {
                true => (*name).to_owned(),
                false => format!("{above}/{name}"),
            }) else {
                return false;
            };
            above = path;
            self.one(&above, is_directory || at + 1 < names.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_pattern_that_says_something_wins() {
        let path = |text: &str| RemotePath::parse(text).unwrap();
        let mut patterns = Patterns::default();
        patterns.add(&RemotePath::root(), "*.o\n/build/\n# comment\n\nkeep/*.log\n");
        patterns.add(&path("src"), "!main.o\n");
        for (text, is_directory, expected) in [
            ("a.o", false, true),
            ("src/a.o", false, true),
            ("src/main.o", false, false),
            ("build", true, true),
            ("build", false, false),
            ("build/deep/file", false, true),
            ("src/build", true, false),
            ("keep/x.log", false, true),
            ("other/x.log", false, false),
            ("a.txt", false, false),
        ] {
            assert_eq!(patterns.is_ignored(&path(text), is_directory), expected, "{text}");
        }
    }
}
