//! Overlays after whatever happened: which of their maps count.

use super::{Map, Overlays, kept_name_of, live_name_of};
use crate::disk::Disk;
use crate::folder::contents;
use crate::folder::node::{Ino, Node};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};

/// A map is no longer than this, in bytes: that of the largest file.
const BYTES_MAX: u64 = 1 << 30;

impl Overlays {
    /// Finds the maps that count. Returns the inodes whose content is not all here, and nothing says what is.
    pub fn recover(
        &self,
        was_cut: bool,
        len_of: impl Fn(Ino) -> io::Result<Option<u64>>,
        node_of: impl Fn(Ino) -> Option<Node>,
    ) -> io::Result<BTreeSet<Ino>> {
        let names = self.files.list()?;
        let mut inos: BTreeSet<Ino> = names.iter().filter_map(|name| ino_of(name)).collect();
        let mut unusable = BTreeSet::new();
        inos.extend(names.iter().filter_map(|name| content_of(name)));
        for ino in inos {
            let here = node_of(ino).and_then(|node| node.content);
            let needs_map = here.as_ref().is_some_and(|here| here.base.is_some());
            let has_map = names.contains(&live_name_of(ino)) || names.contains(&kept_name_of(ino));
            let len = len_of(ino)?;
            let is_whole = here.is_some_and(|here| here.base.is_none()) && (was_cut || !has_map);
            let Some(len) = len.filter(|_| !is_whole && (has_map || needs_map)) else {
                if has_map {
                    self.remove_files(ino)?;
                }
                continue;
            };
            let found = match was_cut {
                true => load(&*self.files, &kept_name_of(ino))?.and_then(|bytes| Map::unseal(&bytes).ok()),
                false => load(&*self.files, &live_name_of(ino))?.and_then(|bytes| Map::decode(&bytes).ok()),
            };
            match found {
                Some(mut map) => {
                    // The log knows what the file was uploaded as since.
                    let base = node_of(ino).and_then(|node| node.content).and_then(|here| here.base);
                    base.into_iter().for_each(|base| map.rebase(base));
                    map.cut(len);
                    let overlay = self.write_live(ino, map)?;
                    self.all.lock().insert(ino, overlay);
                }
                None => drop(unusable.insert(ino)),
            }
        }
        Ok(unusable)
    }
}

fn ino_of(name: &str) -> Option<Ino> {
    let number = name.strip_prefix(contents::PREFIX)?;
    let number = number.strip_suffix(".map").or_else(|| number.strip_suffix(".kept"))?;
    number.parse().ok().map(Ino)
}

fn content_of(name: &str) -> Option<Ino> {
    name.strip_prefix(contents::PREFIX)?.parse().ok().map(Ino)
}

fn load(disk: &dyn Disk, name: &str) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open_to_read(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let len = file.len()?;
    if len > BYTES_MAX {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}
