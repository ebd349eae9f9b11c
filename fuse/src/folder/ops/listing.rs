//! readdir and readdirplus, which continue at any place: the offset of an entry is its cookie.

use super::{GENERATION, Shared, attributes, file_attributes, time_to_live};
use crate::folder::errno::Refused;
use crate::folder::names;
use fuser::{INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use holdall_core::folder::Ino;
use holdall_core::folder::api::{Attributes, DirectoryEntry};
use holdall_core::folder::entries::Cookie;

/// Entries that are asked for at a time: about what a program's usual buffer of 32 KiB holds with attributes.
const ENTRIES: usize = 256;

/// The offsets of `.` and `..`; entries come behind them.
const HERE: u64 = 1;
const ABOVE: u64 = 2;

const _: () = assert!(Cookie::START.0 == ABOVE);

/// A reply that fills up.
pub(in crate::folder) trait Listing {
    /// Adds `.` or `..`. Whether the reply is full, and it was not added.
    fn add_dots(&mut self, shared: &Shared, ino: Ino, offset: u64, name: &str) -> bool;
    /// Adds an entry. Whether the reply is full, and it was not added.
    fn add_entry(&mut self, shared: &Shared, entry: &DirectoryEntry) -> bool;
}

impl Listing for ReplyDirectory {
    fn add_dots(&mut self, _: &Shared, ino: Ino, offset: u64, name: &str) -> bool {
        self.add(attributes::number(ino), offset, fuser::FileType::Directory, name)
    }

    fn add_entry(&mut self, _: &Shared, entry: &DirectoryEntry) -> bool {
        let Attributes { ino, kind, .. } = &entry.attributes;
        self.add(attributes::number(*ino), entry.cookie.0, attributes::kind(*kind), entry.name.as_str())
    }
}

impl Listing for ReplyDirectoryPlus {
    fn add_dots(&mut self, shared: &Shared, ino: Ino, offset: u64, name: &str) -> bool {
        let shown = attributes::directory(ino, shared.owner);
        self.add(shown.ino, offset, name, &std::time::Duration::ZERO, &shown, GENERATION)
    }

    fn add_entry(&mut self, shared: &Shared, entry: &DirectoryEntry) -> bool {
        let shown = file_attributes(&entry.attributes, shared.owner);
        let (ttl, name) = (time_to_live(&entry.attributes), entry.name.as_str());
        self.add(shown.ino, entry.cookie.0, name, &ttl, &shown, GENERATION)
    }
}

/// Fills `reply` with what comes behind `offset`.
pub(in crate::folder) async fn read_directory<L: Listing>(
    shared: &Shared,
    number: INodeNo,
    offset: u64,
    reply: &mut L,
) -> Result<(), Refused> {
    let directory = names::ino(number)?;
    let has_dots = (offset >= HERE || !reply.add_dots(shared, directory, HERE, "."))
        && (offset >= ABOVE || !reply.add_dots(shared, shared.folder.parent(directory), ABOVE, ".."));
    if !has_dots {
        return Ok(());
    }
    let mut after = Cookie(offset.max(ABOVE));
    let mut is_empty = true;
    loop {
        let entries = match shared.folder.read_directory(directory, after, ENTRIES).await {
            Ok(entries) => entries,
            // The program gets what is there, and the error when it asks for more.
            Err(_) if !is_empty => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Some(last) = entries.last() else { return Ok(()) };
        after = last.cookie;
        if entries.iter().any(|entry| reply.add_entry(shared, entry)) {
            return Ok(());
        }
        is_empty = false;
    }
}
