//! Which mounted place a path belongs to, be it a drive or another file system of ours. Pure.

use super::target::ROOT;
use std::path::{Component, Path, PathBuf};

/// The place with the deepest mount point above `path`, and the path relative to it. `None` for a path that is not absolute, that leads up
/// again, or that is below no mount point. Does not access the path.
pub fn of_path<'a, T>(path: &str, mounted: &'a [(T, PathBuf)]) -> Option<(&'a T, String)> {
    let typed = Path::new(path);
    let is_plain = typed.is_absolute() && !typed.components().any(|part| part == Component::ParentDir);
    let holders = mounted.iter().filter(|(_, root)| is_plain && typed.starts_with(root));
    let (place, root) = holders.max_by_key(|(_, root)| root.components().count())?;
    let below = typed.strip_prefix(root).unwrap_or(typed).components().as_path().to_string_lossy();
    Some((place, if below.is_empty() { ROOT.to_owned() } else { below.into_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_deepest_mount_above_it() {
        let mounted = [("outer", PathBuf::from("/m/a")), ("inner", PathBuf::from("/m/a/b"))];
        for (path, expected) in [
            ("/m/a", Some(("outer", "."))),
            ("/m/a/", Some(("outer", "."))),
            ("/m/a/c/d/", Some(("outer", "c/d"))),
            ("/m/a/b/c", Some(("inner", "c"))),
            ("/m/a/bc", Some(("outer", "bc"))),
            ("/m/ab", None),
            ("/m", None),
            ("m/a/c", None),
            ("/m/a/../x", None),
        ] {
            let found = of_path(path, &mounted);
            assert_eq!(found.as_ref().map(|(place, below)| (**place, below.as_str())), expected, "{path}");
        }
    }
}
