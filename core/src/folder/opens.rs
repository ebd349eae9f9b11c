//! What programs have open.

use super::api::Handle;
use super::modes::{Mode, Modes};
use super::node::Ino;
use super::spans::Span;
use crate::disk::{Disk, DiskFile};
use crate::store::remote::Version;
use parking_lot::Mutex;
use slots::{Slot, Slots};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

mod slots;

/// The open files of a folder.
pub struct Opens {
    // Held to look up or change one entry, and while a slot of 24 bytes is written.
    state: Mutex<State>,
}

struct State {
    /// The last number that no request gave.
    last: u64,
    handles: HashMap<Handle, HandleState>,
    files: HashMap<Ino, File>,
    /// The versions that the kernel may have pages of.
    served: HashMap<Ino, Version>,
    slots: Slots,
}

/// Files whose pages the kernel may keep after their last close.
const SERVED_MAX: usize = 65_536;

/// One opening of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandleState {
    pub ino: Ino,
    pub writes: bool,
    pub mode: Mode,
    slot: Option<usize>,
}

struct File {
    modes: Modes,
    writers: u32,
    /// The version that its readers see to the end; `None` if its bytes are a content.
    version: Option<Version>,
    /// The local file that the kernel has, or will have.
    passed: Option<Arc<dyn DiskFile>>,
    /// The kernel's number of that file; 0: not known.
    registered: u32,
    is_unlinked: bool,
    /// Spans that are kept in the cache until the last close.
    kept: Vec<Arc<Span>>,
}

/// An opening that was added.
pub(super) struct Added {
    pub handle: Handle,
    pub mode: Mode,
    /// The local file that passes through.
    pub local: Option<Arc<dyn DiskFile>>,
    /// What the kernel may have of it in its page cache is of the same version.
    pub keeps_cache: bool,
    /// A span that was kept once too often.
    pub surplus: Option<Arc<Span>>,
}

/// What the end of an opening leaves.
#[derive(Clone, Default)]
pub(super) struct Closed {
    /// It was the last that could write.
    pub last_writer: bool,
    /// Nobody has the file open any longer.
    pub last: bool,
    /// It has no name any longer.
    pub is_unlinked: bool,
    /// Spans that need not be kept any longer.
    pub kept: Vec<Arc<Span>>,
}

/// An open file that outlived the daemon, and the kernel's number of its local file, if it passes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// The file.
    pub ino: Ino,
    /// The kernel's number of the registered local file.
    pub registered: Option<u32>,
    /// How many openings it has.
    pub opens: u32,
    /// Those that pass through.
    pub passed: Vec<Handle>,
}

impl Opens {
    /// What is open. If the mount outlived the last daemon, that is what was open then.
    pub(super) fn open(disk: &dyn Disk, outlived: bool) -> io::Result<Self> {
        let (slots, found) = Slots::open(disk, outlived)?;
        let mut state =
            State { last: 0, handles: HashMap::new(), files: HashMap::new(), served: HashMap::new(), slots };
        for (at, slot) in found {
            state.last = state.last.max(slot.handle.0 | 1);
            let file = state.files.entry(slot.ino).or_insert_with(File::new);
            file.modes.restore(slot.mode);
            file.writers += u32::from(slot.writes);
            file.is_unlinked |= slot.is_unlinked;
            file.registered = file.registered.max(slot.registered);
            let open = HandleState { ino: slot.ino, writes: slot.writes, mode: slot.mode, slot: Some(at) };
            state.handles.insert(slot.handle, open);
        }
        Ok(Self { state: Mutex::new(state) })
    }

    /// What outlived the last daemon.
    pub(super) fn survivors(&self) -> Vec<Survivor> {
        let state = self.state.lock();
        let survivor = |(ino, file): (&Ino, &File)| {
            let (passed, served) = file.modes.counts();
            let registered = Some(file.registered).filter(|number| *number > 0 && passed > 0);
            let is_passed = |open: &HandleState| open.ino == *ino && open.mode == Mode::Passed;
            let handles = state.handles.iter().filter(|(_, open)| is_passed(open)).map(|(handle, _)| *handle);
            Survivor { ino: *ino, registered, opens: passed + served, passed: handles.collect() }
        };
        state.files.iter().map(survivor).collect()
    }

    /// The bytes of a file that outlived the last daemon: a version in a span, which is kept, or a content.
    pub(super) fn survives_with(&self, ino: Ino, span: Option<Arc<Span>>, passed: Option<Arc<dyn DiskFile>>) {
        if let Some(file) = self.state.lock().files.get_mut(&ino) {
            file.version = span.as_ref().map(|span| span.version().clone());
            file.passed = passed;
            file.kept.extend(span);
        }
    }

    /// Whether a program has the file open for writing.
    pub fn is_open_to_write(&self, ino: Ino) -> bool {
        self.state.lock().files.get(&ino).is_some_and(|file| file.writers > 0)
    }

    /// Whether a program has the file open.
    pub fn is_open(&self, ino: Ino) -> bool {
        self.state.lock().files.contains_key(&ino)
    }

    /// Whether a program has the file open by passthrough.
    pub(super) fn is_passed(&self, ino: Ino) -> bool {
        self.state.lock().files.get(&ino).is_some_and(|file| file.modes.counts().0 > 0)
    }

    /// How many openings pass through, and how many are served.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        let counts = state.files.values().map(|file| file.modes.counts());
        counts.fold((0, 0), |sum, (passed, served)| (sum.0 + u64::from(passed), sum.1 + u64::from(served)))
    }

    /// The files that are open.
    pub fn all(&self) -> Vec<Ino> {
        self.state.lock().files.keys().copied().collect()
    }

    /// Adds an opening. `version` is what its readers see, `passed` the local file that all of its bytes are in, if the kernel can have it,
    /// and `kept` the span that is kept for it. The kernel's number of the request becomes that of the opening, so that a request that is
    /// sent again finds the opening that it has made.
    pub(super) fn add(
        &self,
        request: u64,
        ino: Ino,
        writes: bool,
        version: Option<Version>,
        passed: Option<Arc<dyn DiskFile>>,
        kept: Option<Arc<Span>>,
    ) -> Added {
        let mut state = self.state.lock();
        let handle = state.number(request);
        let file = state.files.entry(ino).or_insert_with(File::new);
        if file.modes.is_closed() {
            file.version = version;
        }
        let mode = file.modes.open(passed.is_some());
        if mode == Mode::Passed && file.passed.is_none() {
            file.passed = passed;
        }
        if writes {
            file.writers += 1;
            file.version = None;
        }
        let surplus = kept.and_then(|span| file.keep(span));
        let served = file.version.clone().filter(|_| mode == Mode::Served);
        let (local, is_unlinked, registered) = (file.passed.clone(), file.is_unlinked, file.registered);
        let slot = state.slots.add(&Slot { handle, ino, writes, mode, is_unlinked, registered });
        let slot = slot.unwrap_or_else(|error| {
            tracing::warn!(%error, "an open file cannot be remembered: it ends if the service is killed");
            None
        });
        state.handles.insert(handle, HandleState { ino, writes, mode, slot });
        let keeps_cache = state.was_served(ino, served);
        Added { handle, mode, local, keeps_cache, surplus }
    }

    /// A span is kept in the cache for an open file until its last close. Returns it if that is not needed.
    pub(super) fn keep(&self, ino: Ino, span: Arc<Span>) -> Option<Arc<Span>> {
        match self.state.lock().files.get_mut(&ino) {
            Some(file) => file.keep(span),
            None => Some(span),
        }
    }

    /// The kernel's number of the local file of an inode.
    pub(super) fn is_registered(&self, ino: Ino, number: u32) {
        let mut state = self.state.lock();
        if let Some(file) = state.files.get_mut(&ino) {
            file.registered = number;
        }
        state.remember(ino);
    }

    /// An opening.
    pub(super) fn get(&self, handle: Handle) -> Option<HandleState> {
        self.state.lock().handles.get(&handle).copied()
    }

    /// An opening that a request has made which is sent again: how it was opened, and its local file, if it passes through.
    pub(super) fn again(&self, handle: Handle) -> Option<(HandleState, Option<Arc<dyn DiskFile>>)> {
        let state = self.state.lock();
        let open = state.handles.get(&handle).copied()?;
        let passed = state.files.get(&open.ino).and_then(|file| file.passed.clone());
        Some((open, passed.filter(|_| open.mode == Mode::Passed)))
    }

    /// The version that an open file's readers see; `None` if it is not open, or its bytes are a content.
    pub(super) fn version(&self, ino: Ino) -> Option<Version> {
        self.state.lock().files.get(&ino)?.version.clone()
    }

    /// What was a content is a version of the remote from here on, with the same bytes.
    pub(super) fn became(&self, ino: Ino, version: &Version) {
        if let Some(file) = self.state.lock().files.get_mut(&ino) {
            file.version = Some(version.clone());
        }
    }

    /// The bytes of an open file are a content from here on.
    pub(super) fn has_content(&self, ino: Ino) {
        if let Some(file) = self.state.lock().files.get_mut(&ino) {
            file.version = None;
        }
    }

    /// A file lost its last name. Returns whether it is open.
    pub(super) fn unlink(&self, ino: Ino) -> bool {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&ino) else { return false };
        file.is_unlinked = true;
        state.remember(ino);
        true
    }

    /// A file that is open has no name.
    pub(super) fn is_unlinked(&self, ino: Ino) -> bool {
        self.state.lock().files.get(&ino).is_some_and(|file| file.is_unlinked)
    }

    /// Serves an opening that was to pass through. Returns false if others pass through: then it is over.
    pub(super) fn serve_instead(&self, handle: Handle) -> bool {
        let mut state = self.state.lock();
        let Some(open) = state.handles.get(&handle).copied() else { return false };
        let Some(file) = state.files.get_mut(&open.ino) else { return false };
        if !file.modes.serve_instead() {
            return false;
        }
        file.passed = None;
        state.handles.insert(handle, HandleState { mode: Mode::Served, ..open });
        state.remember(open.ino);
        true
    }

    /// Ends an opening.
    pub(super) fn remove(&self, handle: Handle) -> Option<(HandleState, Closed)> {
        let mut state = self.state.lock();
        let open = state.handles.remove(&handle)?;
        if let Some(Err(error)) = open.slot.map(|at| state.slots.remove(at)) {
            tracing::warn!(%error, "a closed file is taken for open if the service is killed");
        }
        let file = state.files.get_mut(&open.ino)?;
        file.modes.close(open.mode);
        file.writers -= u32::from(open.writes);
        let passed_no_more = open.mode == Mode::Passed && file.modes.counts().0 == 0;
        if passed_no_more {
            (file.passed, file.registered) = (None, 0);
        }
        let closed = Closed {
            last_writer: open.writes && file.writers == 0,
            last: file.modes.is_closed(),
            is_unlinked: file.is_unlinked,
            kept: if file.modes.is_closed() { std::mem::take(&mut file.kept) } else { Vec::new() },
        };
        if closed.last {
            state.files.remove(&open.ino);
        }
        Some((open, closed))
    }
}

impl File {
    fn new() -> Self {
        Self {
            modes: Modes::default(),
            writers: 0,
            version: None,
            passed: None,
            registered: 0,
            is_unlinked: false,
            kept: Vec::new(),
        }
    }

    fn keep(&mut self, span: Arc<Span>) -> Option<Arc<Span>> {
        if self.kept.iter().any(|kept| Arc::ptr_eq(kept, &span)) {
            return Some(span);
        }
        self.kept.push(span);
        None
    }
}

impl State {
    /// The number of an opening. The kernel's numbers of requests are even, so these two never meet.
    fn number(&mut self, request: u64) -> Handle {
        let handle = Handle(request);
        if request != 0 && !self.handles.contains_key(&handle) {
            return handle;
        }
        self.last = (self.last | 1) + 2;
        Handle(self.last)
    }

    /// The kernel asks us for the bytes of this version of a file from now on; `None`: they are another version's every moment. Returns
    /// whether it did last time, too.
    fn was_served(&mut self, ino: Ino, version: Option<Version>) -> bool {
        let Some(version) = version else {
            self.served.remove(&ino);
            return false;
        };
        if self.served.len() >= SERVED_MAX {
            self.served.clear();
        }
        self.served.insert(ino, version.clone()) == Some(version)
    }

    /// Writes the slots of an inode again.
    fn remember(&self, ino: Ino) {
        let Some(file) = self.files.get(&ino) else { return };
        for (handle, open) in self.handles.iter().filter(|(_, open)| open.ino == ino) {
            let (is_unlinked, registered) = (file.is_unlinked, file.registered);
            let slot =
                Slot { handle: *handle, ino, writes: open.writes, mode: open.mode, is_unlinked, registered };
            if let Some(Err(error)) = open.slot.map(|at| self.slots.change(at, &slot)) {
                tracing::warn!(%error, "an open file cannot be remembered: it ends if the service is killed");
            }
        }
    }
}
