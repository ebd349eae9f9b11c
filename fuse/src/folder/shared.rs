//! What the operations of one mount share.

use super::attributes::Owner;
use super::device::Device;
use super::negotiate::Agreed;
use super::passthrough::Passthrough;
use super::registrar::Registrar;
use holdall_core::folder::Folder;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A mount's state.
pub(super) struct Shared {
    pub folder: Arc<Folder>,
    pub owner: Owner,
    pub device: Device,
    pub passthrough: Passthrough,
    pub agreed: OnceLock<Agreed>,
    pub counters: Arc<Counters>,
}

impl Shared {
    pub fn new(folder: Arc<Folder>, registrar: Option<Arc<dyn Registrar>>) -> Arc<Self> {
        let passthrough = Passthrough::new(registrar, &folder.survivors());
        Arc::new(Self {
            folder,
            owner: Owner::of_process(),
            device: Device::default(),
            passthrough,
            agreed: OnceLock::new(),
            counters: Arc::default(),
        })
    }

    /// Files can be registered, as far as is known before it is tried.
    pub fn may_pass_through(&self) -> bool {
        self.passthrough.can_register() && self.agreed.get().is_some_and(Agreed::passes_through)
    }
}

/// Requests for bytes that have come from the kernel. Files that pass through cause none.
#[derive(Debug, Default)]
pub struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Counters {
    /// Reads, since the mount.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Writes, since the mount.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub(super) fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}
