//! Opening the local files of a folder, after whatever happened.

use super::{Backing, Handles};
use crate::cache::Holds;
use crate::disk::Disk;
use crate::folder::contents;
use crate::folder::spans::{Rows, Spans};
use crate::units::BlockRange;
use parking_lot::{Mutex, RwLock};
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::Notify;

impl Backing {
    /// The files of `spans` in the directory `files`. Returns also the blocks that cannot count, whatever the bitmap says: no
    /// span has them, or the file of their span is not there as it should be. Files that no span has are removed.
    pub(in crate::folder) fn open(
        spans: Arc<RwLock<Spans>>,
        rows: Arc<Rows>,
        files: Arc<dyn Disk>,
    ) -> io::Result<(Arc<Self>, Vec<BlockRange>)> {
        let backing = Self {
            spans: spans.clone(),
            rows,
            files,
            taken: AtomicU64::new(0),
            handles: Mutex::new(Handles::default()),
            measuring: Mutex::new(()),
            lost: Mutex::default(),
            has_new_names: AtomicBool::new(true),
            is_crowded: Notify::new(),
            settling: Holds::default(),
            syncing: tokio::sync::Mutex::default(),
        };
        let mut names: HashSet<String> = backing.files.list()?.into_iter().collect();
        let mut void: Vec<_> = spans.read().free_runs().collect();
        let all: Vec<_> = spans.read().all().cloned().collect();
        for span in all {
            let name = span.file_name();
            let size = match names.contains(&name) {
                true => Some(backing.files.size_of(&name)?).filter(|size| size.len == span.len()),
                false => None,
            };
            match size {
                Some(size) => {
                    names.remove(&name);
                    backing.set_taken(&span, size.allocated);
                }
                // The file is removed with the others below, and made again when the span is written to.
                None => void.push(span.extent()),
            }
        }
        for name in names.into_iter().filter(|name| !contents::is_content(name)) {
            match backing.files.remove(&name) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok((Arc::new(backing), void))
    }
}
