//! What a request about pins names, and how far it goes.

use std::path::Path;

/// The root of a drive, as a path.
pub const ROOT: &str = ".";

/// The target of a pin request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Paths, relative to the root.
    Paths(Vec<String>),
    /// All of it.
    Whole,
}

/// How far to go in keeping files here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keep them.
    Do,
    /// Report what keeping them would mean, or why it is impossible.
    Try,
    /// Report how much of them is here, whether they could be kept or not.
    Look,
}

impl What {
    /// The target in words: the first path if there are many, or the whole `place`, such as a drive.
    pub fn words(&self, place: &str) -> String {
        match self {
            What::Whole => format!("the whole {place}"),
            What::Paths(paths) => match &paths[..] {
                [] => "nothing".to_owned(),
                [path] => path.clone(),
                [path, others @ ..] => format!("{path} and {} more", others.len()),
            },
        }
    }
}

/// Whether `path` is `other` or below it. Both are relative to the same root.
pub fn is_below(path: &str, other: &str) -> bool {
    other == ROOT || Path::new(path).starts_with(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_by_whole_names() {
        assert!(is_below("a/b", "a") && is_below("a", "a") && is_below("a", "."));
        assert!(!is_below("ab", "a") && !is_below("a", "a/b") && !is_below(".", "a"));
    }

    #[test]
    fn many_paths_are_named_by_the_first() {
        let paths = |paths: &[&str]| What::Paths(paths.iter().map(|path| path.to_string()).collect());
        assert_eq!(paths(&["a"]).words("drive"), "a");
        assert_eq!(paths(&["a", "b", "c"]).words("drive"), "a and 2 more");
        assert_eq!(What::Whole.words("drive"), "the whole drive");
    }
}
