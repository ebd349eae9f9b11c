//! Moving a directory where the server moves files only: the directory is made at its new place, what is in it moves there one by one, and
//! the old directory is removed once it is empty.
//!
//! From the first step on, the directory here is one that the remote does not have, and a *ghost* stands for the old one: a directory that was
//! removed here. What the remote has in it differs by its place, and is moved by ordinary actions. All of that is one step, however many files
//! there are: so a crash leaves nothing half done, and no file is ever missing under the new name. What another program puts into the old
//! directory keeps it there.

use super::act::{Halt, Job};
use super::finish::Ending;
use super::works::Works;
use crate::folder::ledger::{LedgerError, STATES_MAX};
use crate::folder::node::{Ino, Known, Node, Place};
use crate::folder::step::Step;
use crate::folder::tree::Tree;
use crate::store::remote::{Entry, Kind, Name, Page, RemoteError, RemotePath};
use std::collections::BTreeMap;

/// More pages than any server has: it repeats itself.
const PAGES_MAX: usize = 100_000;

impl Works {
    /// Makes many small differences of a directory that is to move.
    pub(super) async fn expand(&self, job: &Job, from: &Place, old: &RemotePath) -> Result<Ending, Halt> {
        let entries = self.list_all(old).await?;
        let _turn = self.unless_stopped(self.shared.turns.of(job.ino)).await.ok_or(Halt::Stopped)?;
        let ghost = self.shared.inodes.fresh()?;
        let mut files = Vec::with_capacity(entries.len());
        for (name, entry) in entries {
            files.push((self.shared.inodes.number(job.ino, &name)?, entry));
        }
        self.split(job.ino, from, ghost, &files)?;
        self.note_moved(job.ino, from, ghost, &files)?;
        self.sync_numbers().await?;
        Ok(Ending::Done)
    }

    fn split(&self, ino: Ino, from: &Place, ghost: Ino, files: &[(Ino, Entry)]) -> Result<(), Halt> {
        self.shared.ledger.change(|tree| {
            let node = tree.node(ino).ok_or(Halt::Past)?;
            let known = node.remote.clone().filter(|known| known.place == *from).ok_or(Halt::Past)?;
            let mut states = children(tree, (ino, ghost), node.since_ms, files);
            // Those that the listing did not show stay what they were, in the old directory.
            for (name, child) in tree.remote_in(ino) {
                let child_node = tree.node(child).cloned().ok_or(Halt::Past)?;
                states.entry(child).or_insert_with(|| Some(moved(child_node, ghost, name)));
            }
            // What was begun in it went to the old directory.
            let begun = |node: &Node| node.intent.as_ref().is_some_and(|intent| intent.at.parent == ino);
            for (child, node) in tree.nodes().filter(|(_, node)| begun(node)) {
                let state = states.entry(child).or_insert_with(|| Some(node.clone()));
                let intent = state.as_mut().and_then(|node| node.intent.as_mut());
                intent.into_iter().for_each(|intent| intent.at.parent = ghost);
            }
            states
                .insert(ghost, Some(Node { local: None, since_ms: node.since_ms, ..Node::as_remote(known) }));
            states.insert(ino, Some(Node { remote: None, intent: None, ..node.clone() }));
            Ok((Step::of(states.into_iter().collect()), ()))
        })
    }

    /// The tables of what the remote has know the ghost by the old directory's name, with all that is in it.
    fn note_moved(&self, ino: Ino, from: &Place, ghost: Ino, files: &[(Ino, Entry)]) -> Result<(), Halt> {
        let inodes = &self.shared.inodes;
        self.forget_list(ino);
        inodes.moved(ghost, Some(from.clone()))?;
        for (child, entry) in files {
            let place = Place::new(ghost, entry.name.clone());
            if self.shared.paths.place_of(*child).as_ref() == Some(&place) {
                inodes.moved(*child, Some(place.clone()))?;
                self.list_as(&place, Some(entry));
            }
        }
        Ok(())
    }

    async fn list_all(&self, directory: &RemotePath) -> Result<BTreeMap<Name, Entry>, Halt> {
        let (mut entries, mut token) = (BTreeMap::new(), None);
        for _ in 0..PAGES_MAX {
            let listed = self.unless_stopped(self.shared.remote.list(directory, token.as_ref()));
            let Page { entries: page, next, .. } =
                listed.await.ok_or(Halt::Stopped)?.map_err(Halt::Remote)?;
            entries.extend(page.into_iter().map(|entry| (entry.name.clone(), entry)));
            if entries.len() > STATES_MAX {
                return Err(LedgerError::TooLarge { files: entries.len() }.into());
            }
            if next.is_none() {
                return Ok(entries);
            }
            if next == token {
                break;
            }
            token = next;
        }
        let reason = "a listing of it does not end".to_owned();
        Err(Halt::Remote(RemoteError::Store(crate::store::StoreError::Unreachable { reason })))
    }
}

/// The states of files of a directory whose old place has the number `ghost` now.
fn children(
    tree: &Tree,
    (directory, ghost): (Ino, Ino),
    since_ms: u64,
    files: &[(Ino, Entry)],
) -> BTreeMap<Ino, Option<Node>> {
    let mut states = BTreeMap::new();
    for (number, entry) in files {
        let before = Place::new(directory, entry.name.clone());
        match tree.occupant(&before).and_then(|ino| Some((ino, tree.node(ino)?))) {
            Some((ino, node)) => {
                states.insert(ino, Some(moved(node.clone(), ghost, &entry.name)));
            }
            // A name that another file has here by now was never seen: it stays in the old directory.
            None if tree.here(&before).is_some() || tree.node(*number).is_some() => {}
            None => {
                let node = Node { since_ms, ..Node::as_remote(known(before, entry)) };
                states.insert(*number, Some(moved(node, ghost, &entry.name)));
            }
        }
    }
    states
}

fn moved(node: Node, ghost: Ino, name: &Name) -> Node {
    let remote = node.remote.map(|known| Known { place: Place::new(ghost, name.clone()), ..known });
    Node { remote, ..node }
}

fn known(place: Place, entry: &Entry) -> Known {
    Known {
        place,
        kind: entry.kind,
        version: entry.version.clone(),
        meta: entry.meta.clone(),
        is_writable: entry.is_writable,
    }
}

/// Whether a directory can only be moved by what is in it.
pub(super) fn is_needed(node: &Node, moves_trees: bool) -> bool {
    node.kind == Kind::Directory && !moves_trees
}
