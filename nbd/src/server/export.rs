//! A device with a name.

use super::control::Control;
use super::gate::Gate;
use crate::codec::PAYLOAD_BYTES_MAX;
use crate::codec::handshake::BlockSizes;
use crate::codec::transmission::flags;
use holdall_core::device::BlockDevice;
use holdall_core::units::{BLOCK_BYTES, CHUNK_BYTES};
use parking_lot::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

/// A device that is served, and the state that its connections share.
pub struct Export {
    name: String,
    device: Arc<dyn BlockDevice>,
    gate: Arc<Gate>,
    careful: Arc<AtomicBool>,
    // Connections come and go on their own threads. The list changes only then, never on the data path.
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    live: Vec<Weak<Control>>,
    withdrawn: bool,
}

impl Connections {
    fn fence_gone(&self) {
        for other in self.live.iter().filter_map(Weak::upgrade).filter(|other| other.is_hung_up()) {
            other.end();
        }
    }
}

/// The terms that a client and the server agreed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Terms {
    /// READ gets structured replies.
    pub(super) structured: bool,
    /// BLOCK_STATUS is allowed.
    pub(super) allocation: bool,
    /// The client knows the minimum block size, so an unaligned request is its error.
    pub(super) aligned: bool,
}

impl Export {
    pub(super) fn new(name: String, device: Arc<dyn BlockDevice>) -> Arc<Self> {
        Arc::new(Self {
            name,
            device,
            gate: Arc::default(),
            careful: Arc::default(),
            connections: Mutex::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The gate that every connection passes before each request.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The transmission flags for a client that did or did not negotiate structured replies. The kernel's server flags are those without.
    pub fn transmission_flags(&self, structured: bool) -> u16 {
        let access = if self.device.geometry().read_only {
            flags::READ_ONLY
        } else {
            flags::SEND_TRIM | flags::SEND_WRITE_ZEROES | flags::SEND_FAST_ZERO
        };
        let fragments = if structured { flags::SEND_DF } else { 0 };
        let always = flags::HAS_FLAGS | flags::SEND_FLUSH | flags::SEND_FUA;
        always | flags::CAN_MULTI_CONN | flags::SEND_CACHE | access | fragments
    }

    pub(super) fn block_sizes() -> BlockSizes {
        BlockSizes { minimum: BLOCK_BYTES as u32, preferred: CHUNK_BYTES as u32, maximum: PAYLOAD_BYTES_MAX }
    }

    pub(super) fn careful(&self) -> &Arc<AtomicBool> {
        &self.careful
    }

    /// Accepts no more connections; returns the existing ones.
    pub(super) fn withdraw(&self) -> Vec<Arc<Control>> {
        let mut connections = self.connections.lock();
        connections.withdrawn = true;
        connections.live.drain(..).filter_map(|control| control.upgrade()).collect()
    }

    /// Adds a connection that is about to serve, and fences those whose client has gone: a request that such a client left unread in a
    /// socket must not be done after the client has come back and sent it again. False if the export was withdrawn.
    pub(super) fn join(&self, control: &Arc<Control>) -> bool {
        let mut connections = self.connections.lock();
        if connections.withdrawn {
            return false;
        }
        connections.live.retain(|other| other.strong_count() > 0);
        connections.fence_gone();
        connections.live.push(Arc::downgrade(control));
        true
    }

    /// Fences connections whose client has gone.
    pub(super) fn fence_gone(&self) {
        self.connections.lock().fence_gone();
    }
}
