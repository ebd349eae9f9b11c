//! Putting a folder in order after whatever happened: what the log knows and the local files that are there are made to agree.
//!
//! A killed daemon loses nothing: the page cache has all that was written. A power cut may have taken what was not synced, and may have left
//! files longer, shorter or emptier than any program made them. So after a cut, bytes of which the log has no durable word are set aside for
//! people, and replace nothing at the remote.

use super::contents::ContentStat;
use super::ledger::LedgerError;
use super::node::{Ino, Node};
use super::shared::Shared;
use super::step::Step;
use crate::store::remote::Kind;
use std::io;

/// What becomes of an inode's content and node. Pure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// They agree.
    Stays,
    /// A program may have written to it: the outbox looks.
    LookedAt,
    /// The bytes belong to no file any longer.
    Removed,
    /// The bytes are kept for people, and the file is what the remote has; without that, it is gone here.
    SetAside,
    /// The log knows bytes that are not there: the file is what the remote has; without that, it is gone here.
    Lost,
}

/// Decides.
pub(super) fn fate(node: Option<&Node>, stat: Option<ContentStat>, was_cut: bool, is_open: bool) -> Fate {
    let Some(node) = node.filter(|node| node.local.is_some()) else {
        return match (stat, was_cut) {
            (None, _) => Fate::Stays,
            (Some(_), false) if is_open => Fate::Stays,
            (Some(_), false) => Fate::Removed,
            // The cut may have taken the record of it.
            (Some(_), true) => Fate::SetAside,
        };
    };
    // Without a record of its bytes: nobody had made them durable.
    let is_made_here = node.kind == Kind::File && node.remote.is_none() && node.intent.is_none();
    match (&node.content, stat) {
        (None, None) if is_made_here => Fate::Lost,
        (None, None) => Fate::Stays,
        (Some(_), None) => Fate::Lost,
        (None, Some(_)) if was_cut => Fate::SetAside,
        (None, Some(_)) => Fate::LookedAt,
        // What the log knows was durable before the log knew it. Less than that is what a program was about to replace.
        (Some(here), Some(stat)) if was_cut && stat.len < here.len => Fate::SetAside,
        (Some(_), Some(_)) if node.may_be_written => Fate::LookedAt,
        (Some(_), Some(_)) => Fate::Stays,
    }
}

/// What recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Names of local files that are kept for people, in the folder's directory of files.
    pub set_aside: Vec<String>,
    /// Files whose changes are lost: the local disk no longer has their bytes.
    pub lost: Vec<String>,
    /// Files that the outbox has to look at.
    pub(super) look_at: Vec<Ino>,
}

impl Shared {
    /// Puts everything in order. Nothing runs yet.
    pub async fn recover(&self, was_cut: bool) -> Result<Recovered, LedgerError> {
        let failed = |error: io::Error| LedgerError::Failed(error.to_string());
        let mut recovered = Recovered::default();
        let nodes: Vec<(Ino, Node)> =
            self.ledger.read(|tree| tree.nodes().map(|(ino, node)| (ino, node.clone())).collect());
        for (ino, node) in &nodes {
            if let Some(known) = &node.remote {
                self.inodes.claim(*ino, known.place.clone()).map_err(failed)?;
            }
        }
        let len_of = |ino| match self.contents.has(ino) {
            true => self.contents.stat(ino).map(|stat| Some(stat.len)),
            false => Ok(None),
        };
        let unmapped = self.overlays.recover(was_cut, len_of, |ino| self.node(ino)).map_err(failed)?;
        let mut inos: Vec<Ino> =
            nodes.iter().filter(|(_, node)| node.kind == Kind::File).map(|(ino, _)| *ino).collect();
        inos.extend(self.contents.all().map_err(failed)?);
        inos.sort();
        inos.dedup();
        for ino in inos {
            let node = self.node(ino);
            let stat = match self.contents.has(ino) {
                true => Some(self.contents.stat(ino).map_err(failed)?),
                false => None,
            };
            let is_open = self.opens.is_open(ino);
            let fate = match unmapped.contains(&ino) && stat.is_some() {
                // Nobody knows which of its bytes count.
                true => Fate::SetAside,
                false => fate(node.as_ref(), stat, was_cut, is_open),
            };
            match fate {
                Fate::Stays => self.is_not_written(ino, node.as_ref())?,
                Fate::LookedAt => recovered.look_at.push(ino),
                Fate::Removed => {
                    self.contents.remove(ino).map_err(failed)?;
                    self.overlays.discard(ino).map_err(failed)?;
                }
                Fate::SetAside => {
                    let path = self.path_here(ino);
                    // What is there stays there until the log no longer says that it is the file.
                    self.is_as_remote(ino)?;
                    self.ledger.sync().await?;
                    let name = self.contents.set_aside(ino).map_err(failed)?;
                    self.overlays.discard(ino).map_err(failed)?;
                    tracing::warn!(
                        path,
                        name,
                        "a power cut left bytes that no program made durable: they are kept aside"
                    );
                    recovered.set_aside.push(name);
                }
                Fate::Lost => {
                    recovered.lost.push(self.path_here(ino));
                    self.is_as_remote(ino)?;
                }
            }
        }
        self.ledger.sync().await?;
        self.survive().map_err(failed)?;
        Ok(recovered)
    }

    /// Finds the bytes of the files that outlived the last daemon.
    fn survive(&self) -> io::Result<()> {
        for survivor in self.opens.survivors() {
            let ino = survivor.ino;
            let is_passed = self.opens.is_passed(ino);
            if self.contents.has(ino) {
                // The last daemon may have been killed between the record that took its name and the note of that.
                if matches!(self.place_here(ino), Ok(None)) {
                    self.opens.unlink(ino);
                }
                let local = if is_passed { Some(self.contents.reader(ino)?) } else { None };
                self.opens.survives_with(ino, None, local);
            } else if let Some(span) = self.copy.current(ino) {
                // The kernel reads this file by itself, also where its last blocks are not yet recorded as being here.
                self.copy.keep_survivor(&span);
                let local = if is_passed { Some(self.copy.file_of(&span)?) } else { None };
                self.opens.survives_with(ino, Some(span), local);
            }
        }
        Ok(())
    }

    /// A file that was open for writing when the daemon died, and whose bytes went nowhere, is open no longer.
    fn is_not_written(&self, ino: Ino, node: Option<&Node>) -> Result<(), LedgerError> {
        match node {
            Some(node)
                if node.may_be_written && node.content.is_none() && !self.opens.is_open_to_write(ino) =>
            {
                self.ledger.change(|tree| {
                    let node = tree.node(ino).cloned().map(|node| Node { may_be_written: false, ..node });
                    Ok((Step::one(ino, node), ()))
                })
            }
            _ => Ok(()),
        }
    }

    /// The file is what the remote has; without that, it is gone here. An upload whose outcome is not known is looked for first.
    fn is_as_remote(&self, ino: Ino) -> Result<(), LedgerError> {
        self.ledger.change(|tree| {
            let Some(node) = tree.node(ino).cloned() else { return Ok((Step::default(), ())) };
            let is_anywhere = node.remote.is_some() || node.intent.is_some();
            let local = node.local.clone().filter(|_| is_anywhere);
            let node = Node { local, content: None, may_be_written: false, ..node };
            Ok((Step::one(ino, Some(node)), ()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::node::{ContentHere, Known, Place};
    use crate::store::remote::{Meta, Name, Time, Version};

    fn node(content: Option<u64>, may_be_written: bool) -> Node {
        let place = Place::new(Ino::ROOT, Name::new("f").unwrap());
        let made = Node::made(Kind::File, place, Meta::default(), 0);
        let made = Node { remote: Some(known()), ..made };
        let content = content.map(|len| ContentHere { generation: 3, len, mtime: Time(0), base: None });
        Node { content, may_be_written, ..made }
    }

    fn known() -> Known {
        let version = Version { tag: "1".into(), len: 10, written: None };
        let place = Place::new(Ino::ROOT, Name::new("f").unwrap());
        Known { place, kind: Kind::File, version, meta: None, is_writable: true }
    }

    #[test]
    fn a_new_file_without_bytes_is_gone() {
        let new = Node { remote: None, ..node(None, true) };
        assert_eq!(fate(Some(&new), None, false, false), Fate::Lost);
        assert_eq!(fate(Some(&new), stat(5), false, false), Fate::LookedAt);
        assert_eq!(fate(Some(&new), stat(5), true, false), Fate::SetAside);
    }

    fn stat(len: u64) -> Option<ContentStat> {
        Some(ContentStat { len, mtime: Time(1), taken: len })
    }

    #[test]
    fn a_killed_daemon_loses_nothing() {
        assert_eq!(fate(Some(&node(Some(10), false)), stat(10), false, false), Fate::Stays);
        assert_eq!(fate(Some(&node(Some(10), true)), stat(3), false, false), Fate::LookedAt);
        assert_eq!(fate(Some(&node(None, true)), stat(10), false, false), Fate::LookedAt);
        assert_eq!(fate(Some(&node(None, false)), None, false, false), Fate::Stays);
    }

    #[test]
    fn unlinked_bytes_go_after_a_kill_and_are_kept_after_a_cut() {
        assert_eq!(fate(None, stat(5), false, false), Fate::Removed);
        assert_eq!(fate(None, stat(5), true, false), Fate::SetAside);
        let removed = Node { local: None, ..node(None, false) };
        assert_eq!(fate(Some(&removed), stat(5), false, false), Fate::Removed);
    }

    #[test]
    fn unlinked_bytes_stay_for_programs_that_outlived_the_daemon() {
        assert_eq!(fate(None, stat(5), false, true), Fate::Stays);
    }

    #[test]
    fn after_a_cut_less_than_was_durable_replaces_nothing() {
        assert_eq!(fate(Some(&node(Some(10), true)), stat(0), true, false), Fate::SetAside);
        assert_eq!(fate(Some(&node(None, true)), stat(10), true, false), Fate::SetAside);
        assert_eq!(fate(Some(&node(Some(10), true)), stat(12), true, false), Fate::LookedAt);
        assert_eq!(fate(Some(&node(Some(10), false)), None, true, false), Fate::Lost);
    }
}
