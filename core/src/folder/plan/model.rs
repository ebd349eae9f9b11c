//! A model of a folder: random changes here, another program that changes the remote, answers that are lost, and plans in between. At the
//! end the remote and the folder are alike, and nothing that somebody wrote is lost.

use super::{Action, MOVING_PREFIX, Planner, Readiness};
use crate::folder::node::{Brings, ContentHere, Ino, Known, Node, Place};
use crate::folder::outcome::{self, Found, Resolution};
use crate::folder::step::Step;
use crate::folder::tree::{Child, Tree};
use crate::store::remote::{Condition, Entry, Kind, Meta, Name, Relocation, Time, Version};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, btree_map};

/// A file of the remote: its bytes are a number, and so is its version. Directories have 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct There {
    kind: Kind,
    bytes: u64,
    version: u64,
}

/// An action under way.
struct Flight {
    ino: Ino,
    action: Action,
    /// Where it goes, and where a relocation comes from.
    at: String,
    from: Option<String>,
    /// What an upload sends.
    bytes: u64,
    /// Names that are a file's here and in the remote when it begins.
    kept: BTreeSet<String>,
}

struct Model {
    rng: StdRng,
    tree: Tree,
    /// Nodes that are as in the remote: what listings and the table of inodes hold.
    clean: BTreeMap<Ino, Known>,
    /// The bytes of files here.
    bytes: BTreeMap<Ino, u64>,
    remote: BTreeMap<String, There>,
    next: u64,
    /// Actions under way. They take effect when they end.
    flights: Vec<Flight>,
    /// Bytes that must be somewhere in the end.
    precious: BTreeSet<u64>,
    others: bool,
}

impl Model {
    fn new(seed: u64, others: bool) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            tree: Tree::default(),
            clean: BTreeMap::new(),
            bytes: BTreeMap::new(),
            remote: BTreeMap::new(),
            next: 10,
            flights: Vec::new(),
            precious: BTreeSet::new(),
            others,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn ino(&mut self) -> Ino {
        Ino(self.number() as u32)
    }

    fn name(&mut self) -> Name {
        Name::new(["a", "b", "c", "d"][self.rng.random_range(0..4)]).unwrap()
    }

    /// The node of an inode, whether it differs or not.
    fn node(&self, ino: Ino) -> Option<Node> {
        let clean = || self.clean.get(&ino).map(|known| Node::as_remote(known.clone()));
        self.tree.node(ino).cloned().or_else(clean)
    }

    /// The directory here at a place, with what is in it.
    fn names(&self, directory: Ino) -> BTreeMap<Name, Ino> {
        let clean = self.clean.iter().filter(|(ino, known)| {
            known.place.parent == directory
                && self.tree.node(**ino).is_none()
                && self.tree.child(&known.place) == Child::AsRemote
        });
        let clean = clean.map(|(ino, known)| (known.place.name.clone(), *ino));
        clean.chain(self.tree.names_in(directory).map(|(name, ino)| (name.clone(), ino))).collect()
    }

    fn path(&self, place: &Place, here: bool) -> Option<String> {
        let mut path = place.name.to_string();
        let mut at = place.parent;
        while at != Ino::ROOT {
            let node = self.node(at)?;
            let place = if here { node.local } else { node.remote.map(|known| known.place) }?;
            path = format!("{}/{path}", place.name);
            at = place.parent;
        }
        Some(path)
    }

    /// Paths of files here whose directories are, in the remote, where they are here.
    fn settled_files(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for directory in self.directories() {
            for (name, ino) in self.names(directory) {
                let place = Place::new(directory, name);
                let path = self.path(&place, true);
                if self.node(ino).unwrap().kind == Kind::File && path == self.path(&place, false) {
                    all.extend(path);
                }
            }
        }
        all
    }

    /// All files here: bytes by path, 0 for directories.
    fn here(&self) -> BTreeMap<String, u64> {
        let (mut all, mut open) = (BTreeMap::new(), vec![(Ino::ROOT, String::new())]);
        while let Some((directory, prefix)) = open.pop() {
            for (name, ino) in self.names(directory) {
                let path = format!("{prefix}{name}");
                if self.node(ino).unwrap().kind == Kind::Directory {
                    open.push((ino, format!("{path}/")));
                }
                all.insert(path, self.bytes.get(&ino).copied().unwrap_or(0));
            }
        }
        all
    }

    fn directories(&self) -> Vec<Ino> {
        let (mut all, mut open) = (vec![Ino::ROOT], vec![Ino::ROOT]);
        while let Some(directory) = open.pop() {
            for ino in self.names(directory).into_values() {
                if self.node(ino).unwrap().kind == Kind::Directory {
                    all.push(ino);
                    open.push(ino);
                }
            }
        }
        all
    }

    /// Adopts a step with the directories above, which the log has to know, and notes what has become as in the remote.
    fn adopt(&mut self, step: Step) {
        self.trace(|| format!("  {step:?}"));
        let mut states: BTreeMap<Ino, Option<Node>> = step.states.into_iter().collect();
        let mut open: Vec<Node> = states.values().flatten().cloned().collect();
        while let Some(node) = open.pop() {
            let parents = [node.local.map(|place| place.parent), node.remote.map(|known| known.place.parent)];
            for parent in parents.into_iter().flatten() {
                if parent != Ino::ROOT && !states.contains_key(&parent) && self.tree.node(parent).is_none() {
                    let node = self.node(parent).expect("a directory that holds something is known");
                    states.insert(parent, Some(node.clone()));
                    open.push(node);
                }
            }
        }
        for (ino, node) in &states {
            // The bytes of a file that was not changed here follow the remote.
            if let Some(Node {
                kind: Kind::File, remote: Some(known), local: Some(_), content: None, ..
            }) = node
            {
                self.bytes.insert(*ino, known.version.len);
            }
        }
        let before: BTreeMap<Ino, Node> = self.tree.nodes().map(|(ino, node)| (ino, node.clone())).collect();
        let set = states.clone();
        let adopted = self.tree.adopt(Step::of(states.into_iter().collect()));
        for (ino, after) in adopted.step.states {
            let last = set.get(&ino).cloned().flatten().or_else(|| before.get(&ino).cloned());
            match (after, last) {
                (Some(_), _) => drop(self.clean.remove(&ino)),
                (None, Some(Node { remote: Some(known), local: Some(_), .. })) => {
                    self.clean.retain(|_, other| other.place != known.place);
                    self.clean.insert(ino, known);
                }
                (None, _) => drop(self.clean.remove(&ino)),
            }
        }
    }

    fn change_here(&mut self) {
        let directories = self.directories();
        let directory = directories[self.rng.random_range(0..directories.len())];
        let to_directory = directories[self.rng.random_range(0..directories.len())];
        let (place, to) = (Place::new(directory, self.name()), Place::new(to_directory, self.name()));
        let found = self.names(directory).get(&place.name).copied();
        match (self.rng.random_range(0..10), found) {
            (0..4, None) => {
                let (ino, is_directory) = (self.ino(), self.rng.random_range(0..3) == 0);
                let kind = if is_directory { Kind::Directory } else { Kind::File };
                self.adopt(Step::one(ino, Some(Node::made(kind, place, Meta::default(), 0))));
                if !is_directory {
                    self.write(ino);
                }
            }
            (0..3, Some(ino)) if self.node(ino).unwrap().kind == Kind::File => self.write(ino),
            (3..5, Some(ino)) => self.remove(ino),
            (5.., Some(ino)) => self.rename(ino, to),
            _ => {}
        }
    }

    fn write(&mut self, ino: Ino) {
        let bytes = self.number();
        self.drop_bytes(ino);
        self.precious.insert(bytes);
        self.bytes.insert(ino, bytes);
        let mut node = self.node(ino).unwrap();
        let generation = node.content.as_ref().map_or(1, |here| here.generation + 1);
        node.content = Some(ContentHere { generation, len: bytes, mtime: Time(0), base: None });
        self.adopt(Step::one(ino, Some(node)));
    }

    /// The bytes of a file here are overwritten or removed on purpose.
    fn drop_bytes(&mut self, ino: Ino) {
        if let Some(bytes) = self.bytes.remove(&ino) {
            self.precious.remove(&bytes);
        }
    }

    fn remove(&mut self, ino: Ino) {
        let node = self.node(ino).unwrap();
        if node.kind == Kind::Directory && !self.names(ino).is_empty() {
            return;
        }
        self.drop_bytes(ino);
        let removed = Node { local: None, content: None, meta: None, ..node };
        self.adopt(Step::one(ino, Some(removed)));
    }

    fn rename(&mut self, ino: Ino, to: Place) {
        let node = self.node(ino).unwrap();
        // Not into itself.
        let mut at = to.parent;
        while at != Ino::ROOT {
            if at == ino {
                return;
            }
            at = self.node(at).unwrap().local.unwrap().parent;
        }
        let mut states = vec![];
        if let Some(other) = self.names(to.parent).get(&to.name).copied() {
            let there = self.node(other).unwrap();
            if other == ino {
                return;
            }
            if self.rng.random_range(0..4) == 0 && !self.contains(other, ino) {
                let exchanged = Node { local: node.local.clone(), ..there };
                states = vec![(other, Some(exchanged)), (ino, Some(Node { local: Some(to), ..node }))];
                return self.adopt(Step::of(states));
            }
            let fits = (there.kind == Kind::Directory) == (node.kind == Kind::Directory);
            if !fits || there.kind == Kind::Directory && !self.names(other).is_empty() {
                return;
            }
            self.drop_bytes(other);
            states.push((other, Some(Node { local: None, content: None, meta: None, ..there })));
        }
        states.push((ino, Some(Node { local: Some(to), ..node })));
        self.adopt(Step::of(states));
    }

    fn contains(&self, directory: Ino, ino: Ino) -> bool {
        let mut at = ino;
        while at != Ino::ROOT {
            if at == directory {
                return true;
            }
            at = self.node(at).unwrap().local.unwrap().parent;
        }
        false
    }

    fn entry(&self, path: &str) -> Option<Entry> {
        let there = self.remote.get(path)?;
        let name = Name::new(path.rsplit('/').next().unwrap()).unwrap();
        Some(entry(name, there))
    }

    fn change_there(&mut self) {
        let paths: Vec<String> = self
            .remote
            .iter()
            .filter(|(path, there)| there.kind == Kind::File && !path.contains(MOVING_PREFIX))
            .map(|(path, _)| path.clone())
            .collect();
        let (bytes, version) = (self.number(), self.number());
        self.trace(|| format!("others, before {:?}", self.remote));
        match self.rng.random_range(0..3) {
            0 if !paths.is_empty() => {
                let path = &paths[self.rng.random_range(0..paths.len())];
                let old =
                    self.remote.insert(path.clone(), There { kind: Kind::File, bytes, version }).unwrap();
                self.lost_there(old.bytes);
                self.precious.insert(bytes);
            }
            1 if !paths.is_empty() => {
                let old = self.remote.remove(&paths[self.rng.random_range(0..paths.len())]).unwrap();
                self.lost_there(old.bytes);
            }
            _ => {
                let name = self.name().to_string();
                if let btree_map::Entry::Vacant(free) = self.remote.entry(name) {
                    free.insert(There { kind: Kind::File, bytes, version });
                    self.precious.insert(bytes);
                }
            }
        }
    }

    /// Another program has overwritten or removed these bytes on purpose. They need not be anywhere, if they were uploaded before.
    fn lost_there(&mut self, bytes: u64) {
        self.precious.remove(&bytes);
    }

    /// Lists the remote: nodes that are as in the remote follow it.
    fn list(&mut self) {
        self.trace(|| format!("list {:?}", self.remote));
        let paths: Vec<String> = self.remote.keys().cloned().collect();
        let mut seen = BTreeSet::new();
        for path in paths {
            // Directories come before what is in them.
            let (mut parent, mut known) = (Ino::ROOT, true);
            let parts: Vec<&str> = path.split('/').collect();
            for part in &parts[..parts.len() - 1] {
                let place = Place::new(parent, Name::new(part).unwrap());
                let at = self.tree.occupant(&place).or_else(|| self.clean_at(&place));
                match at {
                    Some(ino) => parent = ino,
                    None => known = false,
                }
            }
            let name = Name::new(parts[parts.len() - 1]).unwrap();
            if !known || name.as_str().starts_with(MOVING_PREFIX) {
                continue;
            }
            let place = Place::new(parent, name);
            let there = self.remote[&path];
            if let Some(ino) = self.tree.occupant(&place) {
                // What differs here is settled by its next action; a directory that is only kept is as in the remote.
                seen.insert(ino);
                continue;
            }
            let entry = self.entry(&path).unwrap();
            let at = self.clean_at(&place).filter(|ino| self.clean[ino].kind == there.kind);
            let ino = at.unwrap_or_else(|| self.ino());
            self.clean.retain(|other, known| known.place != place || *other == ino);
            seen.insert(ino);
            self.clean.insert(ino, known_at(&place, &entry));
            if there.kind == Kind::File {
                self.bytes.insert(ino, there.bytes);
            }
        }
        self.clean.retain(|ino, _| seen.contains(ino));
    }

    fn clean_at(&self, place: &Place) -> Option<Ino> {
        self.clean.iter().find(|(_, known)| known.place == *place).map(|(ino, _)| *ino)
    }

    /// Plans, begins what was planned, and ends some of it. Returns how many actions there were.
    fn work(&mut self, faults: bool) -> usize {
        let mut rng = self.rng.clone();
        let moody: BTreeSet<Ino> =
            self.tree.nodes().map(|(ino, _)| ino).filter(|_| faults && rng.random_range(0..4) == 0).collect();
        self.rng = rng;
        let busy: BTreeSet<Ino> = self.flights.iter().map(|flight| flight.ino).collect();
        let ready = |ino| Readiness { rests: !moody.contains(&ino), waits: false };
        for (ino, action) in Planner::new(&self.tree, 7, busy, ready).plan(8) {
            let (at, from) = (
                action.at().clone(),
                action.from().cloned().or_else(|| {
                    // Where a relocation came from that is looked for.
                    matches!(action, Action::Settle { .. })
                        .then(|| self.tree.node(ino)?.remote.as_ref().map(|known| known.place.clone()))
                        .flatten()
                }),
            );
            let path = |place: &Place| self.path(place, false).expect("an action's place is in the remote");
            let (at, from) = (path(&at), from.as_ref().map(path));
            let bytes = self.bytes.get(&ino).copied().unwrap_or(0);
            let content = Some((bytes, digest(bytes)));
            if let Some(step) = outcome::begun(&self.tree, ino, &action, content) {
                self.adopt(step);
            }
            let kept = self.kept_names(&action);
            self.flights.push(Flight { ino, action, at, from, bytes, kept });
        }
        let count = self.flights.len();
        while !self.flights.is_empty() && (!faults || self.rng.random_range(0..4) != 0) {
            let flight = self.flights.swap_remove(self.rng.random_range(0..self.flights.len()));
            self.end(flight, faults);
        }
        count
    }

    fn end(&mut self, flight: Flight, faults: bool) {
        let (fails, loses) =
            (faults && self.rng.random_range(0..8) == 0, faults && self.rng.random_range(0..8) == 0);
        if fails {
            return;
        }
        let kept: Vec<_> = self.kept_names(&flight.action).intersection(&flight.kept).cloned().collect();
        let done = self.do_there(&flight);
        self.trace(|| {
            format!("{:?} of {} with {}: {done:?}, loses {loses}", flight.action, flight.ino, flight.bytes)
        });
        for path in kept {
            assert!(self.remote.contains_key(&path), "{path} was gone for a moment by {:?}", flight.action);
        }
        if loses {
            return;
        }
        let ghost = self.ino();
        match done {
            Ok(entry) => {
                let step = outcome::taken(&self.tree, flight.ino, &flight.action, entry.as_ref(), ghost);
                self.adopt(step);
            }
            Err(()) => self.resolve(&flight, ghost),
        }
    }

    /// Names that are a file's here and in the remote: an upload must not take them away, not even for a moment.
    fn kept_names(&self, action: &Action) -> BTreeSet<String> {
        let of_files = !matches!(action, Action::Relocate { to, .. } if to.name.as_str().starts_with(MOVING_PREFIX))
            && !matches!(action, Action::Relocate { from, .. } if self.tree.occupant(from).and_then(|ino| self.tree.node(ino)).is_some_and(|node| node.kind == Kind::Directory));
        if !of_files {
            return BTreeSet::new();
        }
        let here = self.settled_files();
        let both =
            self.remote.iter().filter(|(path, there)| there.kind == Kind::File && here.contains(*path));
        both.map(|(path, _)| path.clone()).collect()
    }

    fn do_there(&mut self, flight: &Flight) -> Result<Option<Entry>, ()> {
        let (path, version) = (flight.at.clone(), self.next + 1_000_000);
        match &flight.action {
            Action::MakeDirectory { .. } => {
                self.parent_is_there(&path)?;
                let there = There { kind: Kind::Directory, bytes: 0, version: 0 };
                match self.remote.get(&path) {
                    Some(There { kind: Kind::Directory, .. }) => {}
                    Some(_) => return Err(()),
                    None => drop(self.remote.insert(path.clone(), there)),
                }
                Ok(self.entry(&path))
            }
            Action::Put { when, .. } => {
                self.parent_is_there(&path)?;
                self.check(&path, when)?;
                self.next += 1;
                self.remote.insert(path.clone(), There { kind: Kind::File, bytes: flight.bytes, version });
                Ok(self.entry(&path))
            }
            Action::Relocate { version: meant, when, how, .. } => {
                let (from, to) = (flight.from.clone().unwrap(), path);
                self.parent_is_there(&to)?;
                let there = *self.remote.get(&from).ok_or(())?;
                if there.kind == Kind::File && there.version.to_string() != meant.tag {
                    return Err(());
                }
                self.check(&to, when)?;
                let inside = format!("{from}/");
                let below: Vec<String> =
                    self.remote.keys().filter(|path| path.starts_with(&inside)).cloned().collect();
                for path in below {
                    let there = self.remote.remove(&path).unwrap();
                    self.remote.insert(format!("{to}/{}", &path[inside.len()..]), there);
                }
                if *how == Relocation::Move {
                    self.remote.remove(&from);
                }
                self.remote.insert(to.clone(), there);
                Ok(self.entry(&to))
            }
            Action::Remove { version, .. } => match self.remote.get(&path) {
                Some(there) if there.version.to_string() == version.tag => {
                    self.remote.remove(&path);
                    Ok(None)
                }
                _ => Err(()),
            },
            Action::RemoveDirectory { .. } => {
                let inside = format!("{path}/");
                if self.remote.keys().any(|path| path.starts_with(&inside)) {
                    return Err(());
                }
                self.remote.remove(&path).map(|_| None).ok_or(())
            }
            Action::Settle { .. } => Err(()),
            Action::SetMeta { version: meant, .. } => {
                let there = self.remote.get_mut(&path).ok_or(())?;
                if there.kind == Kind::File && there.version.to_string() != meant.tag {
                    return Err(());
                }
                there.version = if there.kind == Kind::File { version } else { 0 };
                self.next += 1;
                Ok(self.entry(&path))
            }
        }
    }

    fn parent_is_there(&self, path: &str) -> Result<(), ()> {
        match path.rsplit_once('/') {
            Some((parent, _)) => match self.remote.get(parent) {
                Some(There { kind: Kind::Directory, .. }) => Ok(()),
                _ => panic!("{path} was planned before its directory"),
            },
            None => Ok(()),
        }
    }

    fn check(&self, path: &str, when: &Condition) -> Result<(), ()> {
        let there = self.remote.get(path);
        let holds = match when {
            Condition::Always => true,
            Condition::Absent => there.is_none(),
            Condition::Matches(version) => {
                there.is_some_and(|there| there.version.to_string() == version.tag)
            }
        };
        if holds { Ok(()) } else { Err(()) }
    }

    fn resolve(&mut self, flight: &Flight, ghost: Ino) {
        let at = self.entry(&flight.at);
        let from = flight.from.as_ref().and_then(|path| self.entry(path));
        let node = self.tree.node(flight.ino);
        let known = node.and_then(|node| node.remote.as_ref());
        let is_directory = |entry: &Entry| entry.kind == Kind::Directory;
        let is_moved = |entry: &Entry| match is_directory(entry) {
            true => !from.as_ref().is_some_and(is_directory),
            false => known.is_some_and(|known| known.version.tag == entry.version.tag),
        };
        let has_known_bytes = |entry: &Entry| {
            is_directory(entry) || known.is_some_and(|known| known.version.len == entry.version.len)
        };
        let inside = format!("{}/", flight.at);
        let is_ours = at.as_ref().is_some_and(|entry| match &flight.action {
            Action::Relocate { .. } => is_moved(entry),
            Action::SetMeta { .. } => has_known_bytes(entry),
            Action::Settle { .. } => {
                match node.and_then(|node| node.intent.as_ref()).map(|intent| &intent.brings) {
                    Some(Brings::Content { digest: sent, .. }) => *sent == digest(entry.version.len),
                    Some(Brings::Relocated { .. }) => is_moved(entry),
                    Some(Brings::Directory) => {
                        is_directory(entry) && !self.remote.keys().any(|path| path.starts_with(&inside))
                    }
                    Some(Brings::Meta(_)) => has_known_bytes(entry),
                    None => false,
                }
            }
            _ => !is_directory(entry) && flight.bytes == entry.version.len,
        });
        let ours = Name::new(&format!("conflict {}", self.number())).unwrap();
        let found = Found { at, from, is_ours };
        match outcome::resolve(&self.tree, flight.ino, &flight.action, &found, ours, ghost) {
            Resolution::Taken(step) | Resolution::Again(step) | Resolution::Reappeared(step) => {
                self.adopt(step)
            }
            Resolution::Conflict(step, _) => {
                assert!(self.others, "nobody else writes, and yet {:?} met {found:?}", flight.action);
                self.adopt(step);
            }
        }
    }

    /// For a person who looks for the cause of a failure.
    fn trace(&self, text: impl Fn() -> String) {
        if std::env::var_os("FOLDER_TRACE").is_some() {
            println!("{}", text());
        }
    }

    fn run(mut self) {
        for _ in 0..60 {
            match self.rng.random_range(0..6) {
                0..3 => self.change_here(),
                3 if self.others => self.change_there(),
                4 if self.others => self.list(),
                _ => drop(self.work(true)),
            }
        }
        for _ in 0..500 {
            if self.work(false) == 0 {
                break;
            }
        }
        assert!(self.tree.nodes().all(|(_, node)| !node.differs()), "left undone: {:#?}", self.tree);
        self.list();
        // A copy whose answer was lost may be left under a temporary name, where another program changed what it was copied from.
        self.remote.retain(|path, _| !path.contains(MOVING_PREFIX));
        let there: BTreeMap<String, u64> =
            self.remote.iter().map(|(path, there)| (path.clone(), there.bytes)).collect();
        assert_eq!(self.here(), there);
        let kept: BTreeSet<u64> = there.into_values().collect();
        let lost: Vec<_> = self.precious.difference(&kept).collect();
        assert!(lost.is_empty(), "lost: {lost:?} of {:#?}", self.remote);
    }
}

fn digest(bytes: u64) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&bytes.to_le_bytes());
    digest
}

fn entry(name: Name, there: &There) -> Entry {
    let version = Version { tag: there.version.to_string(), len: there.bytes, written: None };
    Entry { name, kind: there.kind, version, meta: Some(Meta::default()), is_writable: true }
}

fn known_at(place: &Place, entry: &Entry) -> Known {
    Known {
        place: place.clone(),
        kind: entry.kind,
        version: entry.version.clone(),
        meta: entry.meta.clone(),
        is_writable: true,
    }
}

/// The seed that a person asks for, or many.
fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("FOLDER_SEED").ok().and_then(|text| text.parse().ok());
    asked.map_or(0..2_000, |seed: u64| seed..seed + 1)
}

#[test]
fn the_remote_follows_all_that_is_done_here() {
    for seed in seeds() {
        println!("seed {seed}");
        Model::new(seed, false).run();
    }
}

#[test]
fn nothing_is_lost_where_another_program_writes_too() {
    for seed in seeds() {
        println!("seed {seed}");
        Model::new(seed, true).run();
    }
}
