//! The differences between two versions of a drive, by file. A pure decision.
//!
//! Both descend from one version, so a file that neither has touched since has the same inode and the same time of its last change (ctime),
//! which no program can set. Other equal facts, such as a size, prove nothing; and no content has to be read.

use crate::api::{Difference, FileKind, VersionOfFile};
use crate::daemon::status::time;
use crate::scanner::Seen;
use std::collections::BTreeMap;

/// The most differences that are listed: a person reads the list.
const DIFFERENCES_MAX: usize = 1_000;

/// A version: its entries by path.
pub type Outline = BTreeMap<String, Seen>;

/// The differences in order, and how many more there are than are listed.
pub fn differences(fork: &Outline, current: &Outline) -> (Vec<Difference>, u64) {
    let paths: std::collections::BTreeSet<_> = fork.keys().chain(current.keys()).collect();
    let (mut found, mut more) = (Vec::new(), 0);
    for path in paths {
        let (mine, theirs) = (fork.get(path), current.get(path));
        if is_same(mine, theirs) || is_told_by_directory(path, fork, current) {
            continue;
        }
        if found.len() == DIFFERENCES_MAX {
            more += 1;
            continue;
        }
        let [fork, current] = [(fork, mine), (current, theirs)].map(|(of, seen)| Some(version(of, seen?)));
        found.push(Difference { path: path.clone(), fork, current });
    }
    (found, more)
}

fn is_same(mine: Option<&Seen>, theirs: Option<&Seen>) -> bool {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => {
            let is_directory = |seen: &Seen| seen.kind == FileKind::Directory;
            // The entries of a directory are compared by themselves.
            mine == theirs || is_directory(mine) && is_directory(theirs)
        }
        _ => false,
    }
}

/// Whether a directory above, which only one version has, already stands for the path.
fn is_told_by_directory(path: &str, fork: &Outline, current: &Outline) -> bool {
    let is_directory = |of: &Outline, path| of.get(path).is_some_and(|seen| seen.kind == FileKind::Directory);
    let above = path.match_indices('/').map(|(at, _)| &path[..at]);
    above.into_iter().any(|above| is_directory(fork, above) != is_directory(current, above))
}

fn version(of: &Outline, seen: &Seen) -> VersionOfFile {
    let kind = seen.kind;
    let (mut files, mut bytes) = (1, seen.bytes);
    if kind == FileKind::Directory {
        let begins = format!("{}/", seen.path);
        let below = of.range(begins.clone()..).take_while(|(path, _)| path.starts_with(&begins));
        let below = below.filter(|(_, seen)| seen.kind != FileKind::Directory);
        (files, bytes) = below.fold((0, 0), |(files, bytes), (_, seen)| (files + 1, bytes + seen.bytes));
    }
    let modified_ms = u64::try_from(seen.modified_ns / 1_000_000).unwrap_or(0);
    VersionOfFile { kind, files, bytes, modified_at: time(modified_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str, inode: u64, changed_ns: i64) -> Seen {
        let kind = if path.ends_with('/') { FileKind::Directory } else { FileKind::File };
        let path = path.trim_end_matches('/').to_owned();
        Seen { path, kind, inode, bytes: 10, modified_ns: 0, changed_ns }
    }

    fn outline(all: &[(&str, u64, i64)]) -> Outline {
        all.iter()
            .map(|&(path, inode, changed)| seen(path, inode, changed))
            .map(|it| (it.path.clone(), it))
            .collect()
    }

    fn told(
        fork: &[(&str, u64, i64)],
        current: &[(&str, u64, i64)],
    ) -> Vec<(String, Option<u64>, Option<u64>)> {
        let (found, more) = differences(&outline(fork), &outline(current));
        assert_eq!(more, 0);
        let files = |version: Option<VersionOfFile>| version.map(|version| version.files);
        found.into_iter().map(|it| (it.path, files(it.fork), files(it.current))).collect()
    }

    #[test]
    fn untouched_files_are_the_same() {
        let base = [("a/", 12, 1), ("a/file", 13, 1), ("b", 14, 1)];
        assert_eq!(told(&base, &base), []);
        // A directory changes with its entries, which are compared by themselves.
        assert_eq!(told(&[("a/", 12, 1)], &[("a/", 12, 9)]), []);
    }

    #[test]
    fn a_touched_file_differs_whatever_its_size() {
        let expected = |path: &str| vec![(path.to_owned(), Some(1), Some(1))];
        assert_eq!(told(&[("b", 14, 5)], &[("b", 14, 1)]), expected("b"));
        // Saved by a rename: another inode.
        assert_eq!(told(&[("b", 15, 1)], &[("b", 14, 1)]), expected("b"));
    }

    #[test]
    fn a_directory_of_one_version_stands_for_its_contents() {
        let fork = [
            ("new/", 20, 1),
            ("new/x", 21, 1),
            ("new/deep/", 22, 1),
            ("new/deep/y", 23, 1),
            ("new-2", 24, 1),
        ];
        let expected = vec![("new".to_owned(), Some(2), None), ("new-2".to_owned(), Some(1), None)];
        assert_eq!(told(&fork, &[]), expected);
        let gone: Vec<_> = expected.into_iter().map(|(path, fork, current)| (path, current, fork)).collect();
        assert_eq!(told(&[], &fork), gone);
    }

    #[test]
    fn a_file_in_place_of_a_directory_is_one_difference() {
        let fork = [("x/", 20, 1), ("x/a", 21, 1)];
        assert_eq!(told(&fork, &[("x", 22, 1)]), [("x".to_owned(), Some(1), Some(1))]);
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let names: Vec<_> = (0..DIFFERENCES_MAX + 7).map(|number| format!("{number:05}")).collect();
        let many: Vec<_> = names.iter().map(|name| (&**name, 1, 1)).collect();
        let (found, more) = differences(&outline(&many), &Outline::new());
        assert_eq!((found.len(), more), (DIFFERENCES_MAX, 7));
    }
}
