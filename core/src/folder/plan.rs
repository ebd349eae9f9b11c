//! What to do at the remote next, computed from what differs. Pure.
//!
//! A plan is made anew whenever something has changed: each action is right for the state it was planned from, and carries the condition
//! under which it still is. Rules:
//!
//! * **Parents first.** Nothing is done at a place before its directory is, in the remote, where it is here. So the path of a place means the
//!   same here and there.
//! * **Content before removal.** A changed file with a new name is uploaded to the new place before the old one is removed.
//! * **Never a moment without the file.** Where another file takes a name over, it replaces the old file by one conditional request: a save
//!   by temporary file and rename is one upload, and so is the pattern "rename away, make anew, remove". A file that moves away from a name
//!   that another one waits for is copied, not moved.
//! * **Only what rests.** A file that may still be written to is not uploaded.
//! * Files that wait for each other's places, as when two exchange their names, form a circle; one of them goes by way of a temporary name.

use super::node::{Brings, Ino, Known, Node, Place};
use super::tree::{Tree, directories_of};
use crate::store::remote::{Condition, Kind, Name, Relocation, Version};
use std::collections::BTreeSet;

/// Something to be done at the remote. Places are of the remote, and of this device: in the directory of a planned action they are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a directory.
    MakeDirectory {
        /// The place.
        at: Place,
        /// The generation of the attributes that go with it.
        meta: u64,
    },
    /// Upload a file, or make a link.
    Put {
        /// The place.
        at: Place,
        /// When it takes effect.
        when: Condition,
        /// The generation of the content.
        content: u64,
        /// The generation of the attributes that go with it.
        meta: u64,
    },
    /// Change what a file has beside its bytes.
    SetMeta {
        /// The place.
        at: Place,
        /// The version whose bytes stay.
        version: Version,
        /// The generation of the attributes.
        meta: u64,
    },
    /// Copy or move, at the server.
    Relocate {
        /// The place before.
        from: Place,
        /// The version that is meant there.
        version: Version,
        /// The place after.
        to: Place,
        /// When it takes effect.
        when: Condition,
        /// Whether the old place keeps it for now.
        how: Relocation,
    },
    /// Remove a file.
    Remove {
        /// The place.
        at: Place,
        /// The version that was removed here.
        version: Version,
    },
    /// Remove a directory that has nothing in it.
    RemoveDirectory {
        /// The place.
        at: Place,
    },
    /// Look whether an action that was begun for this file, and that is out of date by now, took effect.
    Settle {
        /// Where it went.
        at: Place,
    },
}

impl Action {
    /// Where it goes.
    pub fn at(&self) -> &Place {
        match self {
            Action::MakeDirectory { at, .. }
            | Action::Put { at, .. }
            | Action::SetMeta { at, .. }
            | Action::Relocate { to: at, .. }
            | Action::Remove { at, .. }
            | Action::RemoveDirectory { at }
            | Action::Settle { at } => at,
        }
    }

    /// Where a relocation comes from.
    pub fn from(&self) -> Option<&Place> {
        match self {
            Action::Relocate { from, .. } => Some(from),
            _ => None,
        }
    }
}

/// What the plan has to know of a node beside its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Nobody can write to its content any more, and all of it is here and durable.
    pub rests: bool,
    /// Its last action failed, and it is not to be tried yet.
    pub waits: bool,
}

/// Plans.
pub struct Planner<'a, R> {
    tree: &'a Tree,
    /// For names that no other device makes.
    device: u32,
    readiness: R,
    /// Inodes with an action under way, and those that have one in the plan already.
    busy: BTreeSet<Ino>,
}

impl<'a, R: Fn(Ino) -> Readiness> Planner<'a, R> {
    /// A planner of what differs in `tree`, on a device that `device` stands for. `busy` are the inodes for which an action is under way.
    pub fn new(tree: &'a Tree, device: u32, busy: BTreeSet<Ino>, readiness: R) -> Self {
        Self { tree, device, readiness, busy }
    }

    /// Up to `most` actions that can be done at the same time, one for each inode, in no particular order.
    pub fn plan(mut self, most: usize) -> Vec<(Ino, Action)> {
        let mut actions = Vec::new();
        for (ino, _) in self.tree.nodes() {
            if actions.len() == most {
                break;
            }
            if let Some(action) = self.next_for(ino) {
                self.busy.insert(ino);
                actions.push((ino, action));
            }
        }
        actions
    }

    /// What to do for one inode, beside what is under way; `None` where there is nothing to do, or something else comes first.
    pub fn next_for(&self, ino: Ino) -> Option<Action> {
        let node = self.tree.node(ino).filter(|node| node.differs())?;
        match self.busy.contains(&ino) || (self.readiness)(ino).waits {
            true => None,
            false => self.action(ino, node),
        }
    }

    /// What to do for one node now; `None` where something else comes first.
    fn action(&self, ino: Ino, node: &Node) -> Option<Action> {
        let next = self.next(ino, node);
        let Some(intent) = &node.intent else { return next };
        // It may have taken effect. Doing the same again finds out, too.
        let is_same = match (&next, &intent.brings) {
            (Some(Action::MakeDirectory { at, .. }), Brings::Directory) => *at == intent.at,
            (Some(Action::Put { at, content, .. }), Brings::Content { generation, .. }) => {
                *at == intent.at && content == generation
            }
            (Some(Action::Relocate { to, .. }), Brings::Relocated { .. }) => *to == intent.at,
            (Some(Action::SetMeta { at, meta, .. }), Brings::Meta(generation)) => {
                *at == intent.at && meta == generation
            }
            _ => false,
        };
        // Bytes that a power cut has taken are looked for at the remote.
        let is_lost = node.kind == Kind::File && node.content.is_none() && node.remote.is_none();
        let is_current = node.local.as_ref() == Some(&intent.at) && next.is_none() && !is_lost;
        match is_same || is_current {
            true => next,
            false => self.is_reachable(&intent.at).then(|| Action::Settle { at: intent.at.clone() }),
        }
    }

    fn next(&self, ino: Ino, node: &Node) -> Option<Action> {
        match (&node.local, &node.remote) {
            (None, None) => None,
            (None, Some(known)) => {
                self.removal(ino, node, known).or_else(|| self.step_aside(ino, node, known))
            }
            (Some(place), Some(known)) if *place != known.place => {
                self.relocation(ino, node, known, place).or_else(|| self.step_aside(ino, node, known))
            }
            (Some(place), _) if !self.is_settled(place.parent) => None,
            (Some(place), None) => self.creation(ino, node, place),
            (Some(place), Some(known)) => self.update(ino, node, known, place),
        }
    }

    fn removal(&self, ino: Ino, node: &Node, known: &Known) -> Option<Action> {
        let at = known.place.clone();
        if node.kind == Kind::Directory {
            let is_empty = !self.tree.holds_any(ino);
            return (is_empty && self.is_reachable(&at)).then_some(Action::RemoveDirectory { at });
        }
        // The file that has the name here will replace it, or another one may be replacing it now.
        let is_taken_over = self.successor(ino, &at).is_some() || self.tree.is_intended(&at, ino);
        (!is_taken_over && self.is_reachable(&at))
            .then(|| Action::Remove { at, version: known.version.clone() })
    }

    fn creation(&self, ino: Ino, node: &Node, place: &Place) -> Option<Action> {
        let when = self.condition(ino, node, place)?;
        match node.kind {
            Kind::Directory => Some(Action::MakeDirectory { at: place.clone(), meta: meta_generation(node) }),
            Kind::File | Kind::Link => self.put(ino, node, place, when),
        }
    }

    fn relocation(&self, ino: Ino, node: &Node, known: &Known, place: &Place) -> Option<Action> {
        if !self.is_settled(place.parent) || !self.is_movable(ino, node, known) {
            return None;
        }
        let when = self.condition(ino, node, place)?;
        // A file that is still being written, and whose old name another one waits for, leaves with its old bytes.
        let is_waited_for = || self.successor(ino, &known.place).is_some();
        match node.content {
            Some(_) if (self.readiness)(ino).rests || !is_waited_for() => self.put(ino, node, place, when),
            _ => Some(self.relocate(ino, node, known, place, when)),
        }
    }

    /// Leaves a place for a temporary name, where the file that waits for the place is one that this one waits for.
    fn step_aside(&self, ino: Ino, node: &Node, known: &Known) -> Option<Action> {
        let is_stuck = || {
            let circle = self.waited_for_by(ino);
            let is_before =
                |other: Ino| other < ino && self.is_wanted(other) && self.waited_for_by(other).contains(&ino);
            circle.contains(&ino) && !circle.iter().any(|other| is_before(*other))
        };
        let may_go = self.is_wanted(ino) && self.is_movable(ino, node, known) && is_stuck();
        let aside = Place::new(known.place.parent, aside(self.device, ino, &known.version));
        may_go.then(|| self.relocate(ino, node, known, &aside, Condition::Absent))
    }

    fn is_movable(&self, ino: Ino, node: &Node, known: &Known) -> bool {
        self.is_reachable(&known.place) && (node.kind != Kind::Directory || !self.is_any_busy_below(ino))
    }

    fn relocate(&self, ino: Ino, node: &Node, known: &Known, to: &Place, when: Condition) -> Action {
        let stays = node.kind != Kind::Directory && self.successor(ino, &known.place).is_some();
        Action::Relocate {
            from: known.place.clone(),
            version: known.version.clone(),
            to: to.clone(),
            when,
            how: if stays { Relocation::Copy } else { Relocation::Move },
        }
    }

    fn update(&self, ino: Ino, node: &Node, known: &Known, place: &Place) -> Option<Action> {
        if node.content.is_some() {
            return self.put(ino, node, place, Condition::Matches(known.version.clone()));
        }
        let meta = node.meta.as_ref()?.generation;
        Some(Action::SetMeta { at: place.clone(), version: known.version.clone(), meta })
    }

    fn put(&self, ino: Ino, node: &Node, at: &Place, when: Condition) -> Option<Action> {
        let content = node.content.as_ref().map_or(0, |here| here.generation);
        let meta = meta_generation(node);
        let rests = node.kind == Kind::Link || (self.readiness)(ino).rests;
        rests.then(|| Action::Put { at: at.clone(), when, content, meta })
    }

    /// The condition under which a node may come to a place where it is not; `None` while the place is not free for it.
    fn condition(&self, ino: Ino, node: &Node, place: &Place) -> Option<Condition> {
        if self.tree.is_intended(place, ino) {
            return None;
        }
        let Some(occupant) = self.tree.occupant(place).filter(|occupant| *occupant != ino) else {
            return Some(Condition::Absent);
        };
        let there = self.tree.node(occupant)?;
        let is_replaced = there.local.is_none()
            && there.kind != Kind::Directory
            && node.kind != Kind::Directory
            && there.intent.is_none()
            && !self.busy.contains(&occupant);
        let version = &there.remote.as_ref()?.version;
        is_replaced.then(|| Condition::Matches(version.clone()))
    }

    /// The file that takes over a place that `ino` has in the remote.
    fn successor(&self, ino: Ino, place: &Place) -> Option<Ino> {
        let successor = self.tree.here(place).filter(|successor| *successor != ino)?;
        (self.tree.node(successor)?.kind != Kind::Directory).then_some(successor)
    }

    /// Whether a directory is, in the remote, where it is here.
    fn is_settled(&self, directory: Ino) -> bool {
        let mut at = directory;
        loop {
            // The root is no node, and a directory that is no node is as in the remote, and so are those above it.
            let Some(node) = self.tree.node(at) else { return true };
            if !node.is_in_place() || is_on_its_way(node) || self.busy.contains(&at) {
                return false;
            }
            match &node.local {
                Some(place) => at = place.parent,
                None => return false,
            }
        }
    }

    /// Whether no directory above the place is being moved or made in the remote.
    fn is_reachable(&self, place: &Place) -> bool {
        let mut at = place.parent;
        loop {
            let Some(node) = self.tree.node(at) else { return true };
            match &node.remote {
                Some(known) if !is_on_its_way(node) && !self.busy.contains(&at) => at = known.place.parent,
                _ => return false,
            }
        }
    }

    /// Whether an action under way goes to a place below the directory, or comes from there.
    fn is_any_busy_below(&self, directory: Ino) -> bool {
        let (mut seen, mut open) = (BTreeSet::new(), self.busy.iter().copied().collect::<Vec<_>>());
        while let Some(ino) = open.pop() {
            let Some(node) = self.tree.node(ino) else { continue };
            for above in directories_of(node) {
                if above == directory {
                    return true;
                }
                if self.tree.node(above).is_some() && seen.insert(above) {
                    open.push(above);
                }
            }
        }
        false
    }

    /// Whether another node is to come to the place that this one has in the remote.
    fn is_wanted(&self, ino: Ino) -> bool {
        let place = self.tree.node(ino).and_then(|node| Some(&node.remote.as_ref()?.place));
        place.and_then(|place| self.tree.here(place)).is_some_and(|other| other != ino)
    }

    /// All nodes for which `ino` waits, and those for which these wait. `ino` is among them if they are in a circle.
    fn waited_for_by(&self, ino: Ino) -> BTreeSet<Ino> {
        let (mut found, mut open) = (BTreeSet::new(), vec![ino]);
        while let Some(at) = open.pop() {
            let Some(node) = self.tree.node(at) else { continue };
            let first = match &node.local {
                // Its directory, unless that is in place; and the one that has its place.
                Some(place) => {
                    let directory = self.tree.node(place.parent).map(|_| place.parent);
                    let occupant = self.tree.occupant(place).filter(|occupant| *occupant != at);
                    directory
                        .filter(|directory| !self.is_settled(*directory))
                        .into_iter()
                        .chain(occupant)
                        .collect()
                }
                // What is still in it.
                None if node.kind == Kind::Directory => {
                    self.tree.remote_in(at).map(|(_, ino)| ino).collect::<Vec<_>>()
                }
                None => Vec::new(),
            };
            open.extend(first.into_iter().filter(|next| found.insert(*next)));
        }
        found
    }
}

/// Whether a move of a directory was begun whose outcome is not known: what is in it may be at either place.
fn is_on_its_way(node: &Node) -> bool {
    node.intent.as_ref().is_some_and(|intent| matches!(intent.brings, Brings::Relocated { .. }))
}

/// The generation of the attributes that are not in the remote; 0 if they are.
fn meta_generation(node: &Node) -> u64 {
    node.meta.as_ref().map_or(0, |here| here.generation)
}

/// Temporary names begin so. They are ordinary names of ordinary files: what has one may be the only copy, so nothing sweeps it.
pub const MOVING_PREFIX: &str = ".holdall-moving-";

/// The temporary name by which a version of a file leaves a circle. No other device, file or version has the same.
fn aside(device: u32, ino: Ino, version: &Version) -> Name {
    let version = blake3::hash(format!("{}/{}", version.tag, version.len).as_bytes());
    let version =
        u32::from_le_bytes(*version.as_bytes().first_chunk().expect("a hash has more than four bytes"));
    let name = format!("{MOVING_PREFIX}{device:08x}-{ino}-{version:08x}");
    Name::new(&name).expect("a prefix and three numbers make a name")
}

#[cfg(test)]
mod model;
