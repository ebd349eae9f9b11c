//! What kind of server a simulated remote is, and what goes wrong with it.

use crate::store::remote::{Facts, Meta};
use std::collections::BTreeMap;
use std::time::Duration;

/// What kind of server it is.
#[derive(Clone, Copy, Debug)]
pub struct RemoteHabits {
    /// Conditions are compared when a change takes effect. Otherwise the client looks, and the change takes effect a moment later.
    pub has_conditions: bool,
    /// Versions are told apart by length and second only.
    pub has_weak_tags: bool,
    /// Names that differ only in case are one name.
    pub folds_case: bool,
    /// Names that differ only in Unicode's normal form are one name.
    pub folds_forms: bool,
    /// Directories can be moved.
    pub moves_trees: bool,
    /// Permission bits and attributes are kept.
    pub keeps_meta: bool,
    /// Times are kept as set; otherwise a file has the time of its upload.
    pub keeps_mtime: bool,
    /// A listing does not show what files have beside their bytes.
    pub hides_meta: bool,
    /// A change of what a file has beside its bytes makes a new version of it.
    pub meta_makes_versions: bool,
    /// A moved file is a new version.
    pub moves_make_versions: bool,
    /// The root's tag changes with every change.
    pub root_tag_tells: bool,
    /// A file is replaced in one step.
    pub replaces_at_once: bool,
    /// Nothing can be changed.
    pub is_read_only: bool,
    /// The largest file.
    pub len_max: Option<u64>,
    /// Bytes that all files and unfinished uploads may have together.
    pub capacity: Option<u64>,
    /// Entries of a page.
    pub page_entries: usize,
    /// Longer files are uploaded in parts of this many bytes, and can be resumed.
    pub part_bytes: Option<u64>,
    /// A listing shows at most this many entries of a directory, the first ones, and does not mention the rest.
    pub lists_at_most: Option<usize>,
}

impl RemoteHabits {
    /// Everything is as it should be.
    pub const GOOD: Self = Self {
        has_conditions: true,
        has_weak_tags: false,
        folds_case: false,
        folds_forms: false,
        moves_trees: true,
        keeps_meta: true,
        keeps_mtime: true,
        hides_meta: false,
        meta_makes_versions: false,
        moves_make_versions: false,
        root_tag_tells: false,
        replaces_at_once: true,
        is_read_only: false,
        len_max: None,
        capacity: None,
        page_entries: 100,
        part_bytes: None,
        lists_at_most: None,
    };

    /// Like a bucket: no directories move, a change of metadata is a copy, listings are bare, large files go in parts.
    pub const BUCKET: Self = Self {
        moves_trees: false,
        hides_meta: true,
        meta_makes_versions: true,
        moves_make_versions: true,
        part_bytes: Some(64 << 10),
        ..Self::GOOD
    };

    pub(super) fn facts(&self) -> Facts {
        Facts {
            has_conditions: self.has_conditions,
            folds_case: self.folds_case,
            folds_forms: self.folds_forms,
            moves_trees: self.moves_trees,
            keeps_meta: self.keeps_meta,
            keeps_mtime: self.keeps_mtime,
            root_tag_tells: self.root_tag_tells,
            replaces_at_once: self.replaces_at_once,
            len_max: self.len_max,
            read_only: self.is_read_only.then(|| "the account may only read".to_owned()),
        }
    }

    /// The part of `meta` that the server keeps.
    pub(super) fn kept(&self, meta: Meta) -> Meta {
        let Meta { mode, mtime, xattrs, link } = meta;
        Meta {
            mode: mode.filter(|_| self.keeps_meta),
            mtime: mtime.filter(|_| self.keeps_mtime),
            xattrs: if self.keeps_meta { xattrs } else { BTreeMap::new() },
            link,
        }
    }
}

/// Faults, as chances in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteFaults {
    /// A request fails and does nothing.
    pub refused: u32,
    /// A change takes effect, and its answer is lost.
    pub answer_lost: u32,
    /// A change seems to fail, and takes effect some requests later.
    pub late: u32,
    /// A change takes effect, and again some requests later.
    pub repeated: u32,
    /// A request is answered with "busy".
    pub busy: u32,
    /// Access is refused.
    pub denied: u32,
    /// A change is refused because somebody has a lock.
    pub locked: u32,
    /// A login page answers instead of the server.
    pub login_page: u32,
    /// The server goes away for some requests.
    pub away: u32,
    /// A page shows an earlier state of the directory.
    pub stale: u32,
    /// A listing breaks off at a page.
    pub cut: u32,
    /// A page's token leads back to the same page.
    pub loops: u32,
    /// A move is answered well and does nothing.
    pub idle_move: u32,
    /// An unfinished upload is forgotten by the server.
    pub forgotten: u32,
    /// A request takes up to this long.
    pub time: Duration,
}

/// Kinds of requests, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// A page of a listing.
    List,
    /// The entry of a path.
    Stat,
    /// Bytes of a file.
    Read,
    /// A file in one request, or the completion of an upload in parts.
    Write,
    /// A part of an upload.
    Part,
    /// A change of what a file has beside its bytes.
    SetMeta,
    /// A copy or move.
    Relocate,
    /// A removal of a file.
    Remove,
    /// A new directory.
    MakeDirectory,
    /// A removal of a directory.
    RemoveDirectory,
    /// A removal of an unfinished upload.
    Abandon,
    /// A question for the space that is left.
    Quota,
}
