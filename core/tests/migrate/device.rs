//! A device: its disk, its daemon and the programs on it.

use crate::disk::Disk;
use holdall_core::migrate::leecher::{self, Leecher};
use holdall_core::migrate::phase::Phase;
use holdall_core::migrate::seeder::{self, Seeder};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub enum Engine {
    Seeder(Box<Seeder>),
    Leecher(Box<Leecher>),
}

#[derive(Clone, Debug)]
pub enum Event {
    Seeder(seeder::Event),
    Leecher(leecher::Event),
}

#[derive(Clone, Debug)]
pub enum Action {
    Seeder(seeder::Action),
    Leecher(leecher::Action),
}

/// The open drive.
#[derive(Default)]
pub struct Volume {
    pub is_gate_open: bool,
    /// Blocks written since they were last asked for.
    pub tracker: Option<BTreeSet<u64>>,
    pub is_pushing: bool,
    /// Somebody waits for the push to end.
    pub stops: bool,
    /// HEAD as this device knows it.
    pub epoch: u64,
    pub head_nonce: u64,
}

#[derive(Default)]
pub struct Device {
    pub disk: Disk,
    pub engine: Option<Engine>,
    pub volume: Option<Volume>,
    /// Raised at each start: what an earlier life began does not end.
    pub life: u64,
    pub is_up: bool,
    pub is_linked: bool,
    pub inbox: VecDeque<Event>,
    pub pending: VecDeque<Action>,
    pub is_performing: bool,
    /// Contents that were sent in this attempt.
    pub sent: BTreeMap<u64, u64>,
}

impl Device {
    pub fn phase(&self) -> Option<Phase> {
        self.engine.as_ref().map(|engine| match engine {
            Engine::Seeder(seeder) => seeder.record().phase,
            Engine::Leecher(leecher) => leecher.record().phase,
        })
    }

    /// Whether programs can write here.
    pub fn is_writable(&self) -> bool {
        self.is_up && self.volume.as_ref().is_some_and(|volume| volume.is_gate_open)
    }

    /// Blocks that the version lacks, as this device has them.
    pub fn delta(&self) -> BTreeMap<u64, u64> {
        let unsent = self.disk.live.journal.iter().filter(|written| written.lsn > self.disk.live.base.1);
        unsent.map(|written| (written.block, written.value)).collect()
    }

    pub fn last(&self) -> u64 {
        self.disk.live.journal.last().map_or(self.disk.live.base.1, |written| written.lsn)
    }
}
