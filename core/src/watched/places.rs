//! Paths, links and times, as a plan looks at them. Pure.

use crate::store::remote::{RemotePath, Time};
use std::collections::BTreeMap;

/// Whether anything lies below a directory.
pub(super) fn holds_any<T>(entries: &BTreeMap<RemotePath, T>, directory: &RemotePath) -> bool {
    below(entries, directory).next().is_some()
}

/// What lies below a directory.
pub(super) fn below<'a, T>(
    entries: &'a BTreeMap<RemotePath, T>,
    directory: &'a RemotePath,
) -> impl Iterator<Item = (&'a RemotePath, &'a T)> {
    // Names such as `a-b` lie between `a` and `a/b`.
    let near = entries.range(directory.clone()..);
    let near = near.take_while(move |(path, _)| path.as_str().starts_with(directory.as_str()));
    near.filter(move |(path, _)| path.is_within(directory) && *path != directory)
}

/// Whether a link's target leads out of the directory that it lies in, at any depth. Pure: nothing is looked at.
pub fn leads_out(path: &RemotePath, target: &str) -> bool {
    if target.starts_with('/') {
        return true;
    }
    let mut depth = path.names().count().saturating_sub(1) as i64;
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

/// When a file that was written at `mtime` may be looked at: `None` now, otherwise after that many ms.
pub fn settles_in(mtime: Time, now_ms: u64) -> Option<u64> {
    let age = i128::from(now_ms) * 1_000_000 - mtime.0;
    let settled = i128::from(SETTLED_MS) * 1_000_000;
    // A time in the future says nothing.
    (0..settled).contains(&age).then(|| ((settled - age) / 1_000_000) as u64 + 1)
}

/// A file rests if it was not written for this long: programs write in bursts.
pub const SETTLED_MS: u64 = 2_000;
