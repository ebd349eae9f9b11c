//! What an action's outcome changes. Pure.
//!
//! An action that failed may have taken effect: its answer was lost, or a crash came before the log knew. So a condition that does not hold
//! is no conflict by itself. The log knows of each action before it begins ([`begun`]). If its outcome is not known, the executor looks at
//! what the remote has now, and compares bytes by their digest; [`resolve`] and [`settled`] then tell our own change from another
//! program's. Where another program was first, both files are kept: theirs has the name, ours gets a name that says so.

use super::node::{Brings, Ino, Intent, Known, Node, Place};
use super::plan::Action;
use super::step::Step;
use super::tree::Tree;
use crate::store::remote::{Condition, Entry, Kind, Meta, Name, Relocation};

/// What the remote has now at the places of an action whose condition did not hold.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// At the place where the action goes.
    pub at: Option<Entry>,
    /// At the place where a relocation comes from.
    pub from: Option<Entry>,
    /// What is at `at` is what the action brings: a file with those bytes; an empty directory, where one was made; a directory that is no
    /// longer where it was, where one was moved; the bytes of the known version, where attributes were set.
    pub is_ours: bool,
}

/// How a failed action ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It had taken effect.
    Taken(Step),
    /// The remote has changed, and a new plan says what to do.
    Again(Step),
    /// Another program was first: both are kept, ours at the place.
    Conflict(Step, Place),
    /// Another program has changed what was removed here: it stays, and is seen again.
    Reappeared(Step),
}

/// The step that comes before an action: its answer may never come. `content` is the length and the BLAKE3 of what an upload sends.
pub fn begun(tree: &Tree, ino: Ino, action: &Action, content: Option<(u64, [u8; 32])>) -> Option<Step> {
    let node = tree.node(ino)?;
    let brings = match action {
        Action::MakeDirectory { .. } => Brings::Directory,
        Action::Put { content: generation, meta, .. } => {
            let (len, digest) = content?;
            Brings::Content { generation: *generation, meta: *meta, len, digest, resume: Vec::new() }
        }
        Action::SetMeta { meta, .. } => Brings::Meta(*meta),
        Action::Relocate { how, .. } => Brings::Relocated { is_copied: *how == Relocation::Copy },
        // A file that is removed twice is removed, and a look changes nothing.
        Action::Remove { .. } | Action::RemoveDirectory { .. } | Action::Settle { .. } => return None,
    };
    let intent = Intent { at: action.at().clone(), brings };
    match &node.intent {
        // An upload that is continued keeps what it needs for that.
        Some(before) if is_same_content(&before.brings, &intent.brings) && before.at == intent.at => None,
        _ => Some(Step::one(ino, Some(Node { intent: Some(intent), ..node.clone() }))),
    }
}

fn is_same_content(one: &Brings, other: &Brings) -> bool {
    match (one, other) {
        (
            Brings::Content { generation, meta, digest, .. },
            Brings::Content { generation: other, meta: other_meta, digest: other_digest, .. },
        ) => (generation, meta, digest) == (other, other_meta, other_digest),
        _ => false,
    }
}

/// The step for an action that took effect. `entry` is what the remote has now where the action went, if anything; `ghost` is an unused
/// number, for what an action leaves behind.
pub fn taken(tree: &Tree, ino: Ino, action: &Action, entry: Option<&Entry>, ghost: Ino) -> Step {
    let node = tree.node(ino).cloned();
    match (action, entry) {
        (Action::Remove { .. } | Action::RemoveDirectory { .. } | Action::Settle { .. }, _) | (_, None) => {
            let node =
                node.and_then(|node| Some(Node { remote: None, ..node }).filter(|node| node.local.is_some()));
            Step::one(ino, node)
        }
        (Action::MakeDirectory { at, meta } | Action::SetMeta { at, meta, .. }, Some(entry)) => {
            arrived(tree, ino, at, entry, (None, Some(*meta)), None)
        }
        (Action::Put { at, content, meta, .. }, Some(entry)) => {
            arrived(tree, ino, at, entry, (Some(*content), Some(*meta)), Some(ghost))
        }
        (Action::Relocate { to, how, .. }, Some(entry)) => {
            let left = (*how == Relocation::Copy).then_some(ghost);
            arrived(tree, ino, to, entry, (None, None), left)
        }
    }
}

/// A node is now in the remote at `at`. If it was elsewhere before and `left` is given, the remote still has the old file there.
fn arrived(
    tree: &Tree,
    ino: Ino,
    at: &Place,
    entry: &Entry,
    (content, meta): (Option<u64>, Option<u64>),
    left: Option<Ino>,
) -> Step {
    let known = known(at, entry);
    let before = tree.node(ino);
    // It was removed here while it was on its way: it has to be removed there too.
    let removed = || Node { local: None, ..Node::as_remote(known.clone()) };
    let mut node = before.cloned().unwrap_or_else(removed);
    node.remote = Some(known.clone());
    node.content = node.content.filter(|here| Some(here.generation) != content);
    if let Some(here) = &mut node.content {
        // What was never written here is in the new version, too.
        here.base = here.base.is_some().then(|| entry.version.clone());
    }
    node.meta = node.meta.filter(|here| Some(here.generation) != meta);
    node.intent = None;
    let mut states = vec![(ino, Some(node))];
    let old = before.and_then(|node| node.remote.as_ref()).filter(|old| old.place != *at);
    if let (Some(old), Some(left)) = (old, left) {
        states.push((left, Some(Node { local: None, ..Node::as_remote(old.clone()) })));
    }
    states.extend(without_occupant(tree, ino, at));
    Step::of(states)
}

/// The node whose file at a place was replaced, or is gone: it has nothing in the remote any longer.
fn without_occupant(tree: &Tree, ino: Ino, at: &Place) -> Option<(Ino, Option<Node>)> {
    let occupant = tree.occupant(at).filter(|occupant| *occupant != ino)?;
    let node = tree.node(occupant)?;
    let kept = node.local.is_some().then(|| Node { remote: None, ..node.clone() });
    Some((occupant, kept))
}

fn known(at: &Place, entry: &Entry) -> Known {
    Known {
        place: at.clone(),
        kind: entry.kind,
        version: entry.version.clone(),
        meta: entry.meta.clone(),
        is_writable: entry.is_writable,
    }
}

/// What to do about an action whose condition did not hold. `ours` is the name for the file of this device where another program was
/// first; no file has it.
pub fn resolve(tree: &Tree, ino: Ino, action: &Action, found: &Found, ours: Name, ghost: Ino) -> Resolution {
    let Some(node) = tree.node(ino).map(|node| Node { intent: None, ..node.clone() }) else {
        return Resolution::Again(Step::default());
    };
    let node = &node;
    let step = |node: Node| Step::one(ino, Some(node));
    match action {
        Action::Put { at, when, .. } => match &found.at {
            None => Resolution::Again(forgotten(tree, ino, node, at)),
            Some(entry) if found.is_ours => Resolution::Taken(taken(tree, ino, action, Some(entry), ghost)),
            Some(entry) if *when == Condition::Matches(entry.version.clone()) => {
                Resolution::Again(step(node.clone()))
            }
            Some(_) => conflict(tree, ino, node, at, ours),
        },
        Action::MakeDirectory { at, .. } => match &found.at {
            None => Resolution::Again(step(node.clone())),
            Some(entry) if entry.kind == Kind::Directory => {
                Resolution::Taken(taken(tree, ino, action, Some(entry), ghost))
            }
            Some(_) => conflict(tree, ino, node, at, ours),
        },
        Action::SetMeta { meta, .. } => match &found.at {
            None => Resolution::Again(removed_there(ino, node)),
            Some(entry) if found.is_ours && is_set(node, *meta, entry) => {
                Resolution::Taken(taken(tree, ino, action, Some(entry), ghost))
            }
            Some(entry) => changed_there(ino, node, entry),
        },
        // What is of another kind is another program's.
        Action::Relocate { version, to, .. } => match (of_kind(&found.from, node.kind), &found.at) {
            (Some(from), _) if from.kind != Kind::Directory && from.version != *version => {
                changed_there(ino, node, from)
            }
            (from, Some(entry)) if found.is_ours && entry.kind == node.kind => {
                let left = from.is_some().then_some(ghost);
                Resolution::Taken(arrived(tree, ino, to, entry, (None, None), left))
            }
            (Some(_), Some(_)) => conflict(tree, ino, node, to, ours),
            (Some(_), None) => {
                let mut states: Vec<_> = without_occupant(tree, ino, to).into_iter().collect();
                states.push((ino, Some(node.clone())));
                Resolution::Again(Step::of(states))
            }
            (None, _) => Resolution::Again(removed_there(ino, node)),
        },
        Action::Remove { version, .. } => match &found.at {
            None => Resolution::Taken(taken(tree, ino, action, None, ghost)),
            Some(entry) if entry.version == *version => Resolution::Again(step(node.clone())),
            Some(_) => Resolution::Reappeared(taken(tree, ino, action, None, ghost)),
        },
        Action::RemoveDirectory { .. } => match &found.at {
            None => Resolution::Taken(taken(tree, ino, action, None, ghost)),
            Some(_) => Resolution::Reappeared(taken(tree, ino, action, None, ghost)),
        },
        Action::Settle { .. } => Resolution::Taken(settled(tree, ino, found, ghost)),
    }
}

/// The step for what was found where an action went that is out of date by now.
pub fn settled(tree: &Tree, ino: Ino, found: &Found, ghost: Ino) -> Step {
    let Some(node) = tree.node(ino) else { return Step::default() };
    let Some(intent) = &node.intent else { return Step::default() };
    let not_there = || Step::one(ino, Some(without_lost_bytes(Node { intent: None, ..node.clone() })));
    let Some(entry) = of_kind(&found.at, node.kind) else { return not_there() };
    let at = &intent.at;
    // What is known to be another's is not ours; but a file that was removed here may have been replaced.
    let others = tree.occupant(at).filter(|other| *other != ino).and_then(|other| tree.node(other));
    let is_replaced = |other: &Node| other.local.is_none() && intent.brings != Brings::Directory;
    if others.is_some_and(|other| !is_replaced(other)) {
        return not_there();
    }
    match &intent.brings {
        Brings::Directory if found.is_ours => arrived(tree, ino, at, entry, (None, None), Some(ghost)),
        Brings::Content { generation, meta, .. } if found.is_ours => {
            arrived(tree, ino, at, entry, (Some(*generation), Some(*meta)), Some(ghost))
        }
        Brings::Relocated { .. } if found.is_ours => {
            let left = found.from.is_some().then_some(ghost);
            arrived(tree, ino, at, entry, (None, None), left)
        }
        Brings::Meta(generation) if found.is_ours && is_set(node, *generation, entry) => {
            arrived(tree, ino, at, entry, (None, Some(*generation)), None)
        }
        Brings::Directory | Brings::Content { .. } | Brings::Relocated { .. } | Brings::Meta(_) => {
            not_there()
        }
    }
}

/// A file whose bytes are neither here nor at the remote is gone: a power cut has taken them before they were durable.
fn without_lost_bytes(node: Node) -> Node {
    let has_bytes = node.content.is_some() || node.remote.is_some() || node.may_be_written;
    let needs_none = matches!(node.kind, Kind::Directory | Kind::Link);
    let local = node.local.clone().filter(|_| has_bytes || needs_none);
    Node { local, ..node }
}

fn of_kind(entry: &Option<Entry>, kind: Kind) -> Option<&Entry> {
    entry.as_ref().filter(|entry| entry.kind == kind)
}

/// The remote has nothing of the node at `at`, nor of the one that it was to replace.
fn forgotten(tree: &Tree, ino: Ino, node: &Node, at: &Place) -> Step {
    let mut states: Vec<_> = without_occupant(tree, ino, at).into_iter().collect();
    let remote = node.remote.clone().filter(|known| known.place != *at);
    states.push((ino, Some(Node { remote, intent: None, ..node.clone() })));
    Step::of(states)
}

/// Theirs keeps the name, ours gets another one.
fn conflict(tree: &Tree, ino: Ino, node: &Node, at: &Place, ours: Name) -> Resolution {
    if node.local.as_ref().is_some_and(|local| local != at) {
        // It has another name by now, which nobody else has taken.
        return Resolution::Again(forgotten(tree, ino, node, at));
    }
    let place = Place::new(at.parent, ours);
    let remote = node.remote.clone().filter(|known| known.place != *at);
    let local = node.local.as_ref().map(|_| place.clone());
    let mut states = vec![(ino, Some(Node { local, remote, intent: None, ..node.clone() }))];
    states.extend(without_occupant(tree, ino, at));
    Resolution::Conflict(Step::of(states), place)
}

/// Whether a program here has written to it, or may have.
fn is_written(node: &Node) -> bool {
    node.content.is_some() || node.may_be_written
}

/// Another program has removed the node. What was written here is uploaded again under its name, and so is a directory, for what is in it.
fn removed_there(ino: Ino, node: &Node) -> Step {
    let stays = node.local.is_some() && (is_written(node) || node.kind == Kind::Directory);
    Step::one(ino, stays.then(|| Node { remote: None, ..node.clone() }))
}

/// Another program has removed these directories. They are made again, for what is to come into them.
pub fn directories_gone(tree: &Tree, directories: &[Ino]) -> Step {
    let gone = |ino: &Ino| tree.node(*ino).map(|node| removed_there(*ino, node));
    Step::of(directories.iter().filter_map(gone).flat_map(|step| step.states).collect())
}

/// The remote has another version of the node now. What was changed here stays changed; what was removed here was the version before.
fn changed_there(ino: Ino, node: &Node, entry: &Entry) -> Resolution {
    if node.local.is_none() {
        return Resolution::Reappeared(Step::one(ino, None));
    }
    if is_written(node) {
        // Theirs stays where it is, and what was written here goes to its new place.
        return Resolution::Again(Step::one(ino, Some(Node { remote: None, ..node.clone() })));
    }
    let remote = node.remote.clone().map(|remote| Known {
        version: entry.version.clone(),
        meta: entry.meta.clone(),
        ..remote
    });
    Resolution::Again(Step::one(ino, Some(Node { remote, ..node.clone() })))
}

/// Whether the remote has the attributes of that generation already, as far as it keeps any.
fn is_set(node: &Node, generation: u64, entry: &Entry) -> bool {
    let (Some(here), Some(there)) = (&node.meta, &entry.meta) else { return false };
    let Meta { mode, mtime, xattrs, link } = there;
    here.generation == generation
        && [mode.is_none() || *mode == here.meta.mode, mtime.is_none() || *mtime == here.meta.mtime]
            == [true; 2]
        && *xattrs == here.meta.xattrs
        && *link == here.meta.link
}
