//! The open descriptors of local files, bounded.

use crate::disk::DiskFile;
use crate::folder::spans::Span;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Files open for reading. A descriptor that leaves costs one open when its file is read again.
const READERS_MAX: usize = 256;
/// Files that were written and not synced.
const WRITERS_MAX: usize = 256;

/// Open descriptors, by the span's number.
#[derive(Default)]
pub(super) struct Handles {
    readers: HashMap<u32, Reader>,
    writers: HashMap<u32, Written>,
    uses: u64,
}

/// A file that was written since the last sync.
#[derive(Clone)]
pub(super) struct Written {
    pub span: Arc<Span>,
    /// Its descriptor for writing.
    pub file: Arc<dyn DiskFile>,
    /// When it was written last, in uses.
    used: u64,
}

struct Reader {
    file: Arc<dyn DiskFile>,
    used: u64,
}

/// What one more written file means for the others.
#[derive(Default)]
pub(super) struct Crowd {
    /// A sync should come soon.
    pub is_half_full: bool,
    /// A file that has to be synced and closed now.
    pub leaves: Option<Written>,
}

impl Handles {
    /// The span's descriptor for reading, or else one that `open` returns.
    pub fn reader(
        &mut self,
        span: &Arc<Span>,
        open: impl FnOnce() -> io::Result<Option<Arc<dyn DiskFile>>>,
    ) -> io::Result<Option<Arc<dyn DiskFile>>> {
        self.uses += 1;
        if let Some(reader) = self.readers.get_mut(&span.number().0).filter(|_| !span.is_retired()) {
            reader.used = self.uses;
            return Ok(Some(reader.file.clone()));
        }
        let Some(file) = open()? else { return Ok(None) };
        // The next span with this number must not find it.
        if !span.is_retired() {
            if self.readers.len() >= READERS_MAX {
                self.leave_oldest();
            }
            self.readers.insert(span.number().0, Reader { file: file.clone(), used: self.uses });
        }
        Ok(Some(file))
    }

    /// An eighth at once, so that not every open looks through all.
    fn leave_oldest(&mut self) {
        let mut used: Vec<_> = self.readers.values().map(|reader| reader.used).collect();
        let (_, limit, _) = used.select_nth_unstable(READERS_MAX / 8);
        let limit = *limit;
        self.readers.retain(|_, reader| reader.used > limit);
    }

    /// The span's descriptor for writing, if it is open.
    pub fn written(&self, span: &Span) -> Option<Written> {
        self.writers.get(&span.number().0).cloned()
    }

    /// The span was written through this descriptor.
    pub fn was_written(&mut self, span: &Arc<Span>, file: Arc<dyn DiskFile>) -> Crowd {
        self.uses += 1;
        let written = || Written { span: span.clone(), file, used: 0 };
        self.writers.entry(span.number().0).or_insert_with(written).used = self.uses;
        let mut crowd = Crowd { is_half_full: self.writers.len() >= WRITERS_MAX / 2, leaves: None };
        if self.writers.len() > WRITERS_MAX {
            crowd.leaves = self.writers.values().find(|other| other.span.number() != span.number()).cloned();
        }
        crowd
    }

    /// A file was synced, well or not: it is closed, unless it was written again meanwhile. It stays listed while it is synced,
    /// so that a sync of all includes it.
    pub fn is_synced(&mut self, written: &Written) {
        let number = written.span.number().0;
        if self.writers.get(&number).is_some_and(|now| now.used == written.used) {
            self.writers.remove(&number);
        }
    }

    /// Takes all files that were written.
    pub fn take_written(&mut self) -> Vec<Written> {
        self.writers.drain().map(|(_, written)| written).collect()
    }

    /// Closes what the span has open. It is retired.
    pub fn forget(&mut self, span: &Span) {
        self.readers.remove(&span.number().0);
        self.writers.remove(&span.number().0);
    }
}
