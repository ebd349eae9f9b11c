//! The store: versions, and HEAD with compare-and-swap.

use bytes::Bytes;
use std::collections::BTreeMap;

/// The number of a device.
pub type DeviceNumber = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub epoch: u64,
    pub device: DeviceNumber,
    pub nonce: u64,
    pub root: u64,
}

impl Head {
    pub fn encode(&self) -> Bytes {
        let fields = [self.epoch, self.device, self.nonce, self.root];
        Bytes::from(fields.iter().flat_map(|field| field.to_le_bytes()).collect::<Vec<_>>())
    }

    pub fn decode(bytes: &[u8]) -> Self {
        let field = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
        Self { epoch: field(0), device: field(1), nonce: field(2), root: field(3) }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Root {
    pub contents: BTreeMap<u64, u64>,
    /// By device: the last record of its journal that is contained.
    pub lineage: BTreeMap<DeviceNumber, u64>,
}

pub struct Store {
    pub head: Head,
    pub roots: Vec<Root>,
}

impl Store {
    pub fn new() -> Self {
        Self { head: Head { epoch: 1, device: 0, nonce: 0, root: 0 }, roots: vec![Root::default()] }
    }

    pub fn swap(&mut self, before: u64, after: Head) {
        if self.head.nonce == before {
            self.head = after;
        }
    }

    /// Whether the current version contains this journal up to `cut`.
    pub fn has(&self, device: DeviceNumber, cut: u64) -> bool {
        self.root().lineage.get(&device).is_some_and(|known| *known >= cut)
    }

    pub fn root(&self) -> &Root {
        &self.roots[self.head.root as usize]
    }
}
