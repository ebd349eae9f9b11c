//! What is changed here and is not in the remote yet: the nodes that the log of operations knows. Pure.
//!
//! A node is kept while it differs from the remote, and while a kept node lies in it, here or in the remote: after a power cut the log
//! alone has to show where a changed file belongs.

use super::node::{Ino, Node, Place};
use super::step::Step;
use crate::store::remote::Name;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes, and where they are.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: BTreeMap<Ino, Node>,
    here: BTreeMap<Place, Ino>,
    remote: BTreeMap<Place, Ino>,
    /// Places where an action that was begun may have brought something.
    intents: BTreeMap<Place, BTreeSet<Ino>>,
}

/// What a name stands for here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// This inode, whatever the remote has there.
    Here(Ino),
    /// Nothing: what the remote has there was removed or renamed here.
    Hidden,
    /// What the remote has there.
    AsRemote,
}

/// A step that was adopted.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// For the log.
    pub step: Step,
    /// Takes it back.
    pub undo: Step,
}

/// A step that does not fit the tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// It names an inode twice.
    #[error("file {0} is named twice in one step")]
    Twice(Ino),
    /// A name here would stand for two inodes.
    #[error("the name {:?} in directory {} would stand for files {one} and {other}", place.name.as_str(), place.parent)]
    Here {
        /// The name.
        place: Place,
        /// One of the inodes.
        one: Ino,
        /// The other one.
        other: Ino,
    },
    /// A name of the remote would stand for two inodes.
    #[error("the remote's name {:?} in directory {} would stand for files {one} and {other}", place.name.as_str(), place.parent)]
    Remote {
        /// The name.
        place: Place,
        /// One of the inodes.
        one: Ino,
        /// The other one.
        other: Ino,
    },
}

impl Tree {
    /// Whether a step fits: afterwards each name stands for one inode, here and in the remote.
    pub fn check(&self, step: &Step) -> Result<(), Contradiction> {
        let mut changed = BTreeSet::new();
        for (ino, _) in &step.states {
            if !changed.insert(*ino) {
                return Err(Contradiction::Twice(*ino));
            }
        }
        // A holder that the step changes does not count: what it gets instead is looked at, too.
        let holder = |map: &BTreeMap<Place, Ino>, place: &Place| {
            map.get(place).copied().filter(|holder| !changed.contains(holder))
        };
        let (mut here, mut remote) = (BTreeMap::new(), BTreeMap::new());
        for (ino, node) in step.states.iter().filter_map(|(ino, node)| Some((*ino, node.as_ref()?))) {
            if let Some(place) = &node.local
                && let Some(other) = holder(&self.here, place).or(here.insert(place, ino))
            {
                return Err(Contradiction::Here { place: place.clone(), one: ino, other });
            }
            if let Some(place) = node.remote.as_ref().map(|known| &known.place)
                && let Some(other) = holder(&self.remote, place).or(remote.insert(place, ino))
            {
                return Err(Contradiction::Remote { place: place.clone(), one: ino, other });
            }
        }
        Ok(())
    }

    /// Sets the states of a record of the log. Nothing has changed if it does not fit.
    pub fn replay(&mut self, step: &Step) -> Result<(), Contradiction> {
        self.check(step)?;
        self.apply(step);
        Ok(())
    }

    /// Sets the states of a step that fits.
    pub fn apply(&mut self, step: &Step) {
        for (ino, _) in &step.states {
            if let Some(before) = self.nodes.remove(ino) {
                if let Some(place) = &before.local {
                    self.here.remove(place);
                }
                if let Some(known) = &before.remote {
                    self.remote.remove(&known.place);
                }
                if let Some(intent) = before.intent
                    && let Entry::Occupied(mut at) = self.intents.entry(intent.at)
                {
                    at.get_mut().remove(ino);
                    if at.get().is_empty() {
                        at.remove();
                    }
                }
            }
        }
        for (ino, node) in &step.states {
            let Some(node) = node else { continue };
            let before = node.local.iter().find_map(|place| self.here.insert(place.clone(), *ino));
            assert_eq!(before, None, "a name here stands for one node: {node:?}");
            let before = node.remote.iter().find_map(|known| self.remote.insert(known.place.clone(), *ino));
            assert_eq!(before, None, "a name of the remote stands for one node: {node:?}");
            if let Some(intent) = &node.intent {
                self.intents.entry(intent.at.clone()).or_default().insert(*ino);
            }
            self.nodes.insert(*ino, node.clone());
        }
    }

    /// Applies a step that fits, and lets go of the nodes that need not be kept after it: also directories that were kept for the sake of such a
    /// node. Returns the step that does all of that, which the log has to have before anybody learns of it, and the step that undoes it.
    pub fn adopt(&mut self, step: Step) -> Adopted {
        let (request, made) = (step.request, step.made);
        let mut before = BTreeMap::new();
        let mut looked_at = BTreeSet::new();
        let states = step.states.iter().map(|(ino, _)| *ino);
        for ino in states {
            before.insert(ino, self.nodes.get(&ino).cloned());
            looked_at.insert(ino);
        }
        let old: Vec<_> = before.values().flatten().flat_map(directories_of).collect();
        self.apply(&step);
        let new: Vec<_> =
            looked_at.iter().filter_map(|ino| self.nodes.get(ino)).flat_map(directories_of).collect();
        looked_at.extend(old.into_iter().chain(new));
        while let Some(ino) = looked_at.pop_last() {
            let Some(node) = self.nodes.get(&ino) else { continue };
            let is_nowhere = node.local.is_none() && node.remote.is_none() && node.intent.is_none();
            if (is_nowhere || !node.differs() && !node.may_be_written) && !self.holds_any(ino) {
                looked_at.extend(directories_of(node));
                before.entry(ino).or_insert_with(|| Some(node.clone()));
                self.apply(&Step::one(ino, None));
            }
        }
        let after = before.keys().map(|ino| (*ino, self.nodes.get(ino).cloned())).collect();
        Adopted { step: Step { request, made, states: after }, undo: Step::of(before.into_iter().collect()) }
    }

    /// What the log has to know of an inode.
    pub fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> impl Iterator<Item = (Ino, &Node)> {
        self.nodes.iter().map(|(ino, node)| (*ino, node))
    }

    /// The nodes from a number on.
    pub fn nodes_from(&self, from: Ino) -> impl Iterator<Item = (Ino, &Node)> {
        self.nodes.range(from..).map(|(ino, node)| (*ino, node))
    }

    /// What a name stands for.
    pub fn child(&self, place: &Place) -> Child {
        match (self.here.get(place), self.remote.contains_key(place)) {
            (Some(ino), _) => Child::Here(*ino),
            (None, true) => Child::Hidden,
            (None, false) => Child::AsRemote,
        }
    }

    /// The node that the remote has at a place.
    pub fn occupant(&self, place: &Place) -> Option<Ino> {
        self.remote.get(place).copied()
    }

    /// Whether an action of another inode may have brought something to the place.
    pub fn is_intended(&self, place: &Place, but_for: Ino) -> bool {
        self.intents.get(place).is_some_and(|inos| inos.iter().any(|ino| *ino != but_for))
    }

    /// The node that is at a place here.
    pub fn here(&self, place: &Place) -> Option<Ino> {
        self.here.get(place).copied()
    }

    /// The names in a directory here that nodes have.
    pub fn names_in(&self, directory: Ino) -> impl Iterator<Item = (&Name, Ino)> {
        range_of(&self.here, directory).map(|(place, ino)| (&place.name, *ino))
    }

    /// The nodes that the remote has in a directory.
    pub fn remote_in(&self, directory: Ino) -> impl Iterator<Item = (&Name, Ino)> {
        range_of(&self.remote, directory).map(|(place, ino)| (&place.name, *ino))
    }

    /// Whether a kept node lies in the directory, here or in the remote.
    pub fn holds_any(&self, directory: Ino) -> bool {
        self.names_in(directory).next().is_some()
            || self.remote_in(directory).next().is_some()
            || range_of(&self.intents, directory).next().is_some()
    }

    /// The steps that make an equal tree of an empty one: what a compacted log holds.
    pub fn as_steps(&self) -> impl Iterator<Item = Step> {
        self.nodes.iter().map(|(ino, node)| Step::one(*ino, Some(node.clone())))
    }
}

/// The directories that a node lies in, here and in the remote, and may lie in.
pub(super) fn directories_of(node: &Node) -> impl Iterator<Item = Ino> + use<> {
    let here = node.local.as_ref().map(|place| place.parent);
    let remote = node.remote.as_ref().map(|known| known.place.parent);
    let intended = node.intent.as_ref().map(|intent| intent.at.parent);
    here.into_iter().chain(remote).chain(intended)
}

fn range_of<T>(map: &BTreeMap<Place, T>, directory: Ino) -> impl Iterator<Item = (&Place, &T)> {
    // "\x01" is the smallest name: the empty text and NUL are none.
    let first = Place::new(directory, Name::new("\x01").expect("one control character is a name"));
    map.range(first..).take_while(move |(place, _)| place.parent == directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::node::{ContentHere, Known};
    use crate::store::remote::{Kind, Meta, Time, Version};

    fn place(parent: Ino, name: &str) -> Place {
        Place::new(parent, Name::new(name).unwrap())
    }

    fn known(parent: Ino, name: &str, kind: Kind) -> Known {
        let version = Version { tag: "1".into(), len: 3, written: None };
        Known { place: place(parent, name), kind, version, meta: None, is_writable: true }
    }

    fn changed(mut node: Node) -> Node {
        node.content = Some(ContentHere { generation: 1, len: 9, mtime: Time(0), base: None });
        node
    }

    const DIRECTORY: Ino = Ino(2);
    const FILE: Ino = Ino(3);

    /// A changed file in a directory that is as in the remote.
    fn tree() -> Tree {
        let mut tree = Tree::default();
        let directory = Node::as_remote(known(Ino::ROOT, "d", Kind::Directory));
        let file = changed(Node::as_remote(known(DIRECTORY, "f", Kind::File)));
        tree.adopt(Step::of(vec![(DIRECTORY, Some(directory)), (FILE, Some(file))]));
        tree
    }

    #[test]
    fn directories_of_changed_files_are_kept_as_long_as_these() {
        let mut tree = tree();
        assert_eq!(tree.nodes().count(), 2);
        let file = Node { content: None, ..tree.node(FILE).unwrap().clone() };
        let adopted = tree.adopt(Step::one(FILE, Some(file)));
        assert_eq!(tree.nodes().count(), 0);
        assert_eq!(adopted.step.states, [(DIRECTORY, None), (FILE, None)]);
        tree.apply(&adopted.undo);
        assert_eq!(tree.nodes().count(), 2);
    }

    #[test]
    fn names_show_what_was_changed_here() {
        let mut tree = tree();
        let [old, new] = ["f", "g"].map(|name| place(DIRECTORY, name));
        assert_eq!(tree.child(&old), Child::Here(FILE));
        assert_eq!(tree.child(&new), Child::AsRemote);
        let moved = Node { local: Some(new.clone()), ..tree.node(FILE).unwrap().clone() };
        tree.adopt(Step::one(FILE, Some(moved)));
        assert_eq!((tree.child(&old), tree.child(&new)), (Child::Hidden, Child::Here(FILE)));
        assert_eq!(tree.occupant(&old), Some(FILE));
        let removed = Node { local: None, ..tree.node(FILE).unwrap().clone() };
        tree.adopt(Step::one(FILE, Some(removed)));
        assert_eq!((tree.child(&old), tree.child(&new)), (Child::Hidden, Child::AsRemote));
        let names: Vec<_> = tree.names_in(Ino::ROOT).map(|(name, ino)| (name.as_str(), ino)).collect();
        assert_eq!(names, [("d", DIRECTORY)]);
    }

    #[test]
    fn two_files_exchange_their_names_in_one_step() {
        let mut tree = tree();
        let other = Ino(4);
        let node = Node::made(Kind::File, place(DIRECTORY, "new"), Meta::default(), 0);
        tree.adopt(Step::one(other, Some(node.clone())));
        let file = Node { local: node.local.clone(), ..tree.node(FILE).unwrap().clone() };
        let node = Node { local: Some(place(DIRECTORY, "f")), ..node };
        tree.adopt(Step::of(vec![(FILE, Some(file)), (other, Some(node))]));
        assert_eq!(tree.child(&place(DIRECTORY, "f")), Child::Here(other));
        let mut replayed = Tree::default();
        tree.as_steps().for_each(|step| replayed.replay(&step).unwrap());
        assert_eq!(format!("{replayed:?}"), format!("{tree:?}"));
    }

    #[test]
    fn refuses_steps_that_give_one_name_to_two_files() {
        let mut tree = tree();
        let before = format!("{tree:?}");
        let made = |name| Some(Node::made(Kind::File, place(DIRECTORY, name), Meta::default(), 0));
        let taken = place(DIRECTORY, "f");
        let (one, other) = (Ino(8), Ino(9));
        let refused = |tree: &mut Tree, states| tree.replay(&Step::of(states)).unwrap_err();
        assert_eq!(
            refused(&mut tree, vec![(one, made("f"))]),
            Contradiction::Here { place: taken.clone(), one, other: FILE }
        );
        assert_eq!(
            refused(&mut tree, vec![(one, made("new")), (other, made("new"))]),
            Contradiction::Here { place: place(DIRECTORY, "new"), one: other, other: one }
        );
        let same = Node { local: None, ..Node::as_remote(known(DIRECTORY, "f", Kind::File)) };
        assert_eq!(
            refused(&mut tree, vec![(one, Some(same))]),
            Contradiction::Remote { place: taken, one, other: FILE }
        );
        assert_eq!(refused(&mut tree, vec![(one, None), (one, made("g"))]), Contradiction::Twice(one));
        assert_eq!(format!("{tree:?}"), before);
    }
}
