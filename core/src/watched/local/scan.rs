//! A walk through the directory. What it cannot look at is said to be unseen: nothing is concluded from that.

use super::ignored::{self, Patterns};
use super::{TreeError, directory, here_of, open_file};
use crate::store::remote::{Kind, Name, RemotePath, Unusable};
use crate::watched::tree::{Ignores, Scan};
use crate::watched::{IGNORE, MARKER, TEMPORARY_PREFIX};
use rustix::fs::{AtFlags, Dir};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Directories below each other that are followed, so that no path is longer than the kernel takes.
const DEPTH_MAX: usize = 256;

struct Walk<'a> {
    root: &'a OwnedFd,
    device: u64,
    tidies: bool,
    entries: BTreeMap<RemotePath, crate::watched::tree::Here>,
    unseen: BTreeSet<RemotePath>,
    left_out: Unusable,
    patterns: Patterns,
    open: Vec<RemotePath>,
}

/// Looks at everything. `tidies`: no download is under way, and what earlier ones have left is removed.
pub(super) fn scan(root: &OwnedFd, tidies: bool) -> Result<Scan, TreeError> {
    let mut walk = Walk {
        root,
        device: rustix::fs::fstat(root)?.st_dev,
        tidies,
        entries: BTreeMap::new(),
        unseen: BTreeSet::new(),
        left_out: Unusable::default(),
        patterns: Patterns::default(),
        open: vec![RemotePath::root()],
    };
    while let Some(path) = walk.open.pop() {
        match walk.one(&path) {
            Ok(()) => {}
            // It was removed or renamed since it was seen: the next walk knows where it is.
            Err(error) if !path.is_root() => {
                tracing::debug!(%path, %error, "a directory could not be looked at");
                walk.unseen.insert(path);
            }
            Err(error) => return Err(error),
        }
    }
    let Walk { entries, unseen, left_out, patterns, .. } = walk;
    Ok(Scan { entries, unseen, left_out, ignores: Arc::new(patterns) })
}

impl Walk<'_> {
    fn one(&mut self, path: &RemotePath) -> Result<(), TreeError> {
        let directory = directory(self.root, path)?;
        match open_file(&directory, IGNORE) {
            Ok(file) => {
                let mut text = String::new();
                file.take(ignored::BYTES_MAX).read_to_string(&mut text)?;
                self.patterns.add(path, &text);
            }
            Err(TreeError::Changed) => {}
            // What it would leave out is not known.
            Err(error) => return Err(error),
        }
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if bytes == b"." || bytes == b".." {
                continue;
            }
            let name = std::str::from_utf8(bytes).ok().and_then(|name| Name::new(name).ok());
            let Some(name) = name else {
                let shown = path.as_str().to_owned() + "/" + &String::from_utf8_lossy(bytes);
                self.left_out.add(&shown);
                continue;
            };
            self.entry(path, &directory, &name)?;
        }
        Ok(())
    }

    fn entry(&mut self, above: &RemotePath, directory: &OwnedFd, name: &Name) -> Result<(), TreeError> {
        let text = name.as_str();
        if text.starts_with(TEMPORARY_PREFIX) {
            if self.tidies {
                let _ = rustix::fs::unlinkat(directory, text, AtFlags::empty());
            }
            return Ok(());
        }
        if name.is_upload() || above.is_root() && text == MARKER {
            return Ok(());
        }
        let path = above.join(name);
        let stat = match rustix::fs::statat(directory, text, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            stat => stat?,
        };
        let here = match here_of(directory, text, &stat) {
            Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
            here => here?,
        };
        let Some(here) = here else {
            self.left_out.add(path.as_str());
            // A file that became a pipe is not a file that was deleted.
            self.unseen.insert(path);
            return Ok(());
        };
        let is_directory = here.kind == Kind::Directory;
        if self.patterns.is_ignored(&path, is_directory) {
            return Ok(());
        }
        if is_directory {
            if stat.st_dev != self.device || path.names().count() >= DEPTH_MAX {
                self.left_out.add(path.as_str());
                self.unseen.insert(path);
                return Ok(());
            }
            self.open.push(path.clone());
        }
        self.entries.insert(path, here);
        Ok(())
    }
}
