//! A device's disk: what is written, and what of it is durable.

use holdall_core::migrate::message::Position;
use holdall_core::migrate::session::Record;
use std::collections::BTreeMap;

/// What survives.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The bytes of the session's record.
    pub record: Option<Vec<u8>>,
    pub journal: Vec<Written>,
    /// The last record of a journal that was handed over.
    pub handed: Option<u64>,
    /// The version that the device continues from, and the last record of its journal that is in it.
    pub base: (u64, u64),
    pub import: Option<Import>,
    /// Whether the drive was installed here by a migration, or always was here.
    pub has_drive: bool,
}

/// A record of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub lsn: u64,
    pub block: u64,
    pub value: u64,
}

/// A delta under construction.
#[derive(Clone, Debug)]
pub struct Import {
    pub position: Position,
    pub blocks: BTreeMap<u64, u64>,
}

#[derive(Default)]
pub struct Disk {
    pub live: Files,
    pub durable: Files,
}

impl Disk {
    pub fn sync(&mut self) {
        self.durable = self.live.clone();
    }

    /// The record and the mark are files of their own: other writes do not become durable with them.
    pub fn save_record(&mut self, record: &Record) {
        self.live.record = Some(record.encode());
        self.durable.record = self.live.record.clone();
    }

    pub fn mark(&mut self, handed: Option<u64>) {
        self.live.handed = handed;
        self.durable.handed = handed;
    }

    pub fn sync_import(&mut self) {
        self.durable.import = self.live.import.clone();
    }

    pub fn sync_journal(&mut self) {
        self.durable.journal = self.live.journal.clone();
        self.durable.base = self.live.base;
    }

    pub fn power_cut(&mut self) {
        self.live = self.durable.clone();
    }

    pub fn record(&self) -> Option<Record> {
        self.live.record.as_ref().map(|bytes| Record::decode(bytes).unwrap())
    }
}
