//! The usage table: how much of each segment the map still refers to. A hint for repacking; deletion never relies on it.

use super::FormatError;
use super::id::{ID_BYTES, ObjectId};
use super::wire::{Reader, Writer};
use std::collections::BTreeMap;

/// Bytes of a segment, and how many of them the map refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Length of the object.
    pub len: u64,
    /// Bytes of the boxes that pages refer to.
    pub reached: u64,
}

/// The table as bytes.
pub fn encode(table: &BTreeMap<ObjectId, Usage>) -> Vec<u8> {
    let mut w = Writer::new();
    w.varint(table.len() as u64);
    for (id, usage) in table {
        id.write(&mut w);
        w.varint(usage.len).varint(usage.reached);
    }
    w.finish()
}

/// The table from bytes.
pub fn decode(bytes: &[u8]) -> Result<BTreeMap<ObjectId, Usage>, FormatError> {
    let mut r = Reader::new(bytes);
    let count = r.count(ID_BYTES + 2)?;
    let mut table = BTreeMap::new();
    for _ in 0..count {
        let (id, usage) = (ObjectId::read(&mut r)?, Usage { len: r.varint()?, reached: r.varint()? });
        if table.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return Err(FormatError::Invalid("a usage table does not ascend"));
        }
        table.insert(id, usage);
    }
    r.end()?;
    Ok(table)
}
