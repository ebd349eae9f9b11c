//! What to do next, computed from the directory, the remote, and what both were when they were last alike. Pure.
//!
//! A plan is made anew whenever something was done: each action is right for the states that it carries, and is refused if they are no longer
//! so. Rules:
//!
//! * **Nothing is concluded from what was not seen.** A path that is ignored, unreadable or still being written has no action.
//! * **A deletion needs proof.** A file is removed on one side only if it is gone on the other and still exactly what the table says. Edited on
//!   one side and deleted on the other, it comes back.
//! * **Many deletions are held**, in both directions, by the guard of folders; so is a side on which nothing is left at all.
//! * **Two edits are two files**, once. Two files that may be equal are compared before.
//! * **Parents first, content before removal**: see [`Action::phase`].

use super::action::Action;
use super::listing::There;
use super::places::{below, holds_any};
use super::row::{Digest, Held, Print, Row, Side};
use super::tree::{Here, Ignores};
use crate::folder::guard::{Guard, Verdict};
use crate::folder::outbox::conflicts;
use crate::planted::{self, Bug};
use crate::store::remote::{Condition, Facts, Kind, RemotePath, Version};
use std::collections::{BTreeMap, BTreeSet};

/// What holds for the whole directory.
pub struct Rules<'a> {
    /// Changes of the remote come here, too.
    pub two_way: bool,
    /// What the remote does.
    pub facts: &'a Facts,
    /// This device's name, for the names of conflicts.
    pub device: &'a str,
    /// The time, Unix time in ms.
    pub now_ms: u64,
}

/// What is known.
pub struct Seen<'a> {
    /// The directory.
    pub here: &'a BTreeMap<RemotePath, Here>,
    /// The bytes of files that were touched since their row, and rest.
    pub digests: &'a BTreeMap<RemotePath, (Print, Digest)>,
    /// What could not be looked at.
    pub unseen: &'a BTreeSet<RemotePath>,
    /// Which names are left out.
    pub ignores: &'a dyn Ignores,
    /// The remote.
    pub there: &'a BTreeMap<RemotePath, There>,
    /// What both were when they were alike.
    pub rows: &'a BTreeMap<RemotePath, Row>,
    /// Files that were compared and differ.
    pub differing: &'a BTreeMap<RemotePath, (Digest, Version)>,
}

/// What came of planning.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to do, by phase and path.
    pub actions: Vec<Action>,
    /// What cannot be done, and why.
    pub refused: BTreeMap<RemotePath, String>,
    /// Files that were changed at the remote only, and that a one-way directory leaves as they are.
    pub changed_there: u64,
    /// Files that programs still write to, or that were written a moment ago.
    pub in_use: Vec<RemotePath>,
}

/// The guards of both sides.
#[derive(Debug, Default)]
pub struct Guards {
    /// Of deletions that happened here.
    pub here: Guard,
    /// Of deletions that happened there.
    pub there: Guard,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LocalState {
    Absent,
    /// Being written.
    Unknown,
    Same,
    /// The same bytes, and something else differs.
    Touched,
    Changed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RemoteState {
    Absent,
    Same,
    Changed,
}

struct Planner<'a> {
    rules: &'a Rules<'a>,
    seen: &'a Seen<'a>,
    plan: Plan,
    /// Files that are gone on a side and unchanged on the other.
    gone: Vec<(RemotePath, Side)>,
    /// New files here, for moves.
    new_here: Vec<RemotePath>,
    /// Directories that are there, or are made by this plan.
    made_there: BTreeSet<RemotePath>,
    made_here: BTreeSet<RemotePath>,
    folded: BTreeMap<String, RemotePath>,
}

/// Plans all that can be done now.
pub fn plan(rules: &Rules<'_>, seen: &Seen<'_>, guards: &mut Guards) -> Plan {
    let folds = rules.facts.folds_case;
    let folded = seen.there.keys().filter(|_| folds).map(|path| (path.as_str().to_lowercase(), path.clone()));
    let mut planner = Planner {
        rules,
        seen,
        plan: Plan::default(),
        gone: Vec::new(),
        new_here: Vec::new(),
        made_there: BTreeSet::new(),
        made_here: BTreeSet::new(),
        folded: folded.collect(),
    };
    let paths: BTreeSet<_> = seen.here.keys().chain(seen.there.keys()).chain(seen.rows.keys()).collect();
    for path in paths {
        planner.look_at(path);
    }
    planner.moves_and_creations();
    planner.deletions(guards);
    planner.plan.actions.sort_by(|one, other| {
        let order = |action: &Action| (action.phase(), action.path().clone());
        match one.phase() {
            // The deepest first.
            6 if other.phase() == 6 => order(other).cmp(&order(one)),
            _ => order(one).cmp(&order(other)),
        }
    });
    planner.plan
}

impl Planner<'_> {
    fn act(&mut self, action: Action) {
        self.plan.actions.push(action);
    }

    fn look_at(&mut self, path: &RemotePath) {
        let (here, there) = (self.seen.here.get(path), self.seen.there.get(path));
        let row = self.seen.rows.get(path);
        let is_directory = [here.map(|of| of.kind), there.map(|of| of.kind), row.map(|of| of.kind)];
        let is_directory = is_directory.into_iter().flatten().next() == Some(Kind::Directory);
        if self.seen.ignores.is_ignored(path, is_directory) {
            if row.is_some() {
                self.act(Action::Forget(path.clone()));
            }
            return;
        }
        if self.seen.unseen.iter().any(|unseen| path.is_within(unseen)) {
            return;
        }
        let (local, remote) = (self.local(path, here, row), self.remote(there, row));
        if local == LocalState::Unknown {
            self.plan.in_use.push(path.clone());
            return;
        }
        match row {
            None => self.without_row(path, here, there),
            Some(row) => self.with_row(path, (local, here), (remote, there), row),
        }
    }

    fn local(&self, path: &RemotePath, here: Option<&Here>, row: Option<&Row>) -> LocalState {
        let Some(here) = here else { return LocalState::Absent };
        let digest = match here.kind {
            Kind::Directory => {
                let was = row.is_some_and(|row| row.kind == Kind::Directory);
                return if was { LocalState::Same } else { LocalState::Changed };
            }
            Kind::Link => Digest::of(here.link.as_deref().unwrap_or_default().as_bytes()),
            Kind::File => {
                if row.is_some_and(|row| row.kind == Kind::File && row.print == here.print) {
                    return LocalState::Same;
                }
                match self.seen.digests.get(path) {
                    Some((print, digest)) if *print == here.print => *digest,
                    _ => return LocalState::Unknown,
                }
            }
        };
        match row {
            Some(row) if row.kind == here.kind && row.digest == digest => match row.print == here.print {
                true => LocalState::Same,
                false => LocalState::Touched,
            },
            _ => LocalState::Changed,
        }
    }

    fn remote(&self, there: Option<&There>, row: Option<&Row>) -> RemoteState {
        match (there, row) {
            (None, _) => RemoteState::Absent,
            (Some(there), Some(row)) if there.kind == row.kind_there => {
                let is_same = match planted::has(Bug::VersionByLength) {
                    true => there.version.len == row.version.len,
                    false => there.version == row.version,
                };
                match there.kind == Kind::Directory || is_same {
                    true => RemoteState::Same,
                    false => RemoteState::Changed,
                }
            }
            _ => RemoteState::Changed,
        }
    }

    fn without_row(&mut self, path: &RemotePath, here: Option<&Here>, there: Option<&There>) {
        match (here, there) {
            (None, None) => {}
            (None, Some(there)) => {
                if self.rules.two_way {
                    self.bring_here(path, there, None);
                }
            }
            (Some(here), None) => self.create(path, here),
            (Some(here), Some(there)) if here.kind == Kind::Directory && there.kind == Kind::Directory => {
                self.made_there.insert(path.clone());
                self.act(Action::Adopt(path.clone()));
            }
            (Some(here), Some(there)) => self.collide(path, here, there),
        }
    }

    fn with_row(
        &mut self,
        path: &RemotePath,
        (local, here): (LocalState, Option<&Here>),
        (remote, there): (RemoteState, Option<&There>),
        row: &Row,
    ) {
        let is_held = |side| row.held.is_some_and(|(held, _)| held.side() == side);
        let two_way = self.rules.two_way;
        match (local, remote, here, there) {
            (LocalState::Absent, RemoteState::Absent, ..) => self.act(Action::Forget(path.clone())),
            (LocalState::Absent, RemoteState::Same, _, Some(there)) => match row.held {
                Some((Held::Restored(Side::Here), _)) => self.bring_here(path, there, None),
                _ if row.kind_there == Kind::Directory => match holds_any(self.seen.there, path) {
                    true if self.is_needed_here(path) => self.bring_here(path, there, None),
                    true => {}
                    false => self.act(Action::RemoveDirectoryThere(path.clone())),
                },
                _ => self.gone.push((path.clone(), Side::Here)),
            },
            (LocalState::Absent, _, _, Some(there)) => match two_way || is_held(Side::Here) {
                true => self.bring_here(path, there, None),
                false => self.act(Action::Forget(path.clone())),
            },
            (LocalState::Changed, RemoteState::Absent, Some(here), _) => self.create(path, here),
            (_, RemoteState::Absent, Some(here), _) => match row.held {
                Some((Held::Restored(Side::There), _)) => self.create(path, here),
                _ if !two_way => self.create(path, here),
                _ if row.kind == Kind::Directory => match holds_any(self.seen.here, path) {
                    true if self.is_needed_there(path) => self.create(path, here),
                    true => {}
                    false => self.act(Action::RemoveDirectoryHere(path.clone())),
                },
                _ => self.gone.push((path.clone(), Side::There)),
            },
            (LocalState::Changed, RemoteState::Same, Some(here), Some(_)) => {
                self.replace_there(path, here, row)
            }
            (LocalState::Changed, RemoteState::Changed, Some(here), Some(there)) => {
                self.collide(path, here, there);
            }
            (_, RemoteState::Changed, Some(here), Some(there)) => match two_way {
                true => self.replace_here(path, here, there),
                false => self.plan.changed_there += 1,
            },
            (LocalState::Touched, RemoteState::Same, Some(here), Some(_)) => self.touched(path, here, row),
            (_, RemoteState::Same, ..) => {
                if row.held.is_some() {
                    self.act(Action::Hold(path.clone(), None));
                }
            }
            // What is absent has no entry.
            (_, _, None, _) | (_, _, _, None) => {}
        }
    }

    /// Whether something below a directory that is gone here comes back.
    fn is_needed_here(&self, directory: &RemotePath) -> bool {
        below(self.seen.there, directory).any(|(path, there)| match self.seen.rows.get(path) {
            None => self.rules.two_way,
            Some(row) => {
                let is_changed = there.kind != Kind::Directory && there.version != row.version;
                self.rules.two_way && is_changed || matches!(row.held, Some((Held::Restored(Side::Here), _)))
            }
        })
    }

    /// The same for a directory that is gone there.
    fn is_needed_there(&self, directory: &RemotePath) -> bool {
        below(self.seen.here, directory).any(|(path, here)| match self.seen.rows.get(path) {
            None => true,
            Some(row) => {
                let is_changed = here.kind != Kind::Directory && here.print != row.print;
                is_changed || matches!(row.held, Some((Held::Restored(Side::There), _)))
            }
        })
    }

    fn touched(&mut self, path: &RemotePath, here: &Here, row: &Row) {
        let facts = self.rules.facts;
        let is_sent = row.kind == Kind::File
            && row.kind_there == Kind::File
            && (facts.keeps_meta && here.mode != row.mode
                || facts.keeps_mtime && here.print.mtime != row.print.mtime);
        let (path, version) = (path.clone(), row.version.clone());
        self.act(if is_sent { Action::SetMeta { path, version } } else { Action::Refresh(path) });
    }

    /// The local file has changed into something, and the remote's is as it was.
    fn replace_there(&mut self, path: &RemotePath, here: &Here, row: &Row) {
        let version = row.version.clone();
        match (here.kind == Kind::Directory, row.kind_there == Kind::Directory) {
            (false, false) => self.put(path, here, Condition::Matches(version)),
            // The name is free in the next plan.
            (true, false) => self.gone.push((path.clone(), Side::Here)),
            (_, true) if !holds_any(self.seen.there, path) => {
                self.act(Action::RemoveDirectoryThere(path.clone()));
            }
            (_, true) => {}
        }
    }

    /// The remote's file has changed into something, and the local one is as it was.
    fn replace_here(&mut self, path: &RemotePath, here: &Here, there: &There) {
        match (here.kind == Kind::Directory, there.kind == Kind::Directory) {
            (false, false) => self.bring_here(path, there, Some(here.print)),
            (false, true) => self.gone.push((path.clone(), Side::There)),
            (true, _) if !holds_any(self.seen.here, path) => {
                self.act(Action::RemoveDirectoryHere(path.clone()));
            }
            (true, _) => {}
        }
    }

    fn bring_here(&mut self, path: &RemotePath, there: &There, over: Option<Print>) {
        let is_in_place = |path: &RemotePath, seen: &Seen<'_>, made: &BTreeSet<RemotePath>| match path.split()
        {
            Some((above, _)) => {
                above.is_root()
                    || made.contains(&above)
                    || seen.here.get(&above).is_some_and(|of| of.kind == Kind::Directory)
            }
            None => false,
        };
        if !is_in_place(path, self.seen, &self.made_here) {
            return;
        }
        if there.kind == Kind::Directory {
            self.made_here.insert(path.clone());
            return self.act(Action::MakeHere(path.clone()));
        }
        self.act(Action::Fetch { path: path.clone(), over });
    }

    /// Something here that the remote does not have.
    fn create(&mut self, path: &RemotePath, here: &Here) {
        if let Some(other) = self.folded.get(&path.as_str().to_lowercase()).filter(|other| *other != path) {
            let is_moving = !self.seen.here.contains_key(other);
            if !is_moving {
                let why = format!(
                    "The server does not tell {path} from {other}: their names differ only in upper and lower case. Rename one of them."
                );
                self.plan.refused.insert(path.clone(), why);
                return;
            }
        }
        if here.kind == Kind::Directory {
            if self.is_in_place_there(path) {
                self.made_there.insert(path.clone());
                self.act(Action::MakeThere(path.clone()));
            }
            return;
        }
        self.new_here.push(path.clone());
    }

    fn is_in_place_there(&self, path: &RemotePath) -> bool {
        path.split().is_some_and(|(above, _)| {
            above.is_root()
                || self.made_there.contains(&above)
                || self.seen.there.get(&above).is_some_and(|of| of.kind == Kind::Directory)
        })
    }

    fn put(&mut self, path: &RemotePath, here: &Here, when: Condition) {
        if let Some(most) = self.rules.facts.len_max.filter(|most| here.print.len > *most) {
            let why = format!(
                "{path} is larger than the {most} bytes that the server takes. It stays on this computer only. Make it smaller, or exclude it in .holdallignore."
            );
            self.plan.refused.insert(path.clone(), why);
            return;
        }
        let when = if planted::has(Bug::ConflictOverwrites) { Condition::Always } else { when };
        self.act(Action::Put { path: path.clone(), when });
    }

    /// Both sides have something of this name that did not come from the other.
    fn collide(&mut self, path: &RemotePath, here: &Here, there: &There) {
        let ours = match here.kind {
            Kind::File => self.seen.digests.get(path).map(|(_, digest)| *digest),
            Kind::Link => Some(Digest::of(here.link.as_deref().unwrap_or_default().as_bytes())),
            Kind::Directory => None,
        };
        let ours = ours.or_else(|| self.seen.rows.get(path).map(|row| row.digest));
        let is_compared = self
            .seen
            .differing
            .get(path)
            .is_some_and(|(digest, version)| Some(*digest) == ours && *version == there.version);
        let may_be_equal = here.kind == there.kind
            && here.kind != Kind::Directory
            && (here.kind == Kind::Link || here.print.len == there.version.len);
        if may_be_equal && !is_compared {
            return self.act(Action::Compare(path.clone()));
        }
        if planted::has(Bug::ConflictOverwrites) && here.kind != Kind::Directory {
            return self.act(Action::Put { path: path.clone(), when: Condition::Always });
        }
        let is_any_directory = here.kind == Kind::Directory || there.kind == Kind::Directory;
        if self.rules.two_way {
            let kept_as = self.free_name(path, self.rules.device);
            return self.act(Action::PutOursAside { path: path.clone(), kept_as });
        }
        if is_any_directory {
            let why = format!(
                "{path} is a directory on one side and a file on the other. Both are left as they are. Rename one of them."
            );
            self.plan.refused.insert(path.clone(), why);
            return;
        }
        let kept_as = self.free_name(path, "remote");
        self.act(Action::PutTheirsAside { path: path.clone(), version: there.version.clone(), kept_as });
    }

    fn free_name(&self, path: &RemotePath, device: &str) -> RemotePath {
        let (above, name) = path.split().expect("the root is no entry");
        let names = (0..).map(|nth| above.join(&conflicts::name(&name, device, self.rules.now_ms, nth)));
        let is_free =
            |path: &RemotePath| !self.seen.here.contains_key(path) && !self.seen.there.contains_key(path);
        names.into_iter().find(is_free).expect("numbers do not end")
    }

    /// New files: a file that was moved here is moved there, without its bytes.
    fn moves_and_creations(&mut self) {
        let mut moved_from: BTreeMap<Digest, Vec<RemotePath>> = BTreeMap::new();
        for (path, side) in &self.gone {
            let row = self.seen.rows.get(path);
            if let Some(row) = row.filter(|row| {
                *side == Side::Here
                    && row.kind == Kind::File
                    && row.kind_there == Kind::File
                    && row.print.len > 0
                    && row.held.is_none()
                    && !self.seen.here.contains_key(path)
            }) {
                moved_from.entry(row.digest).or_default().push(path.clone());
            }
        }
        for path in std::mem::take(&mut self.new_here) {
            if !self.is_in_place_there(&path) {
                continue;
            }
            let here = &self.seen.here[&path];
            let digest = self.seen.digests.get(&path).map(|(_, digest)| *digest);
            let digest = digest.or_else(|| self.seen.rows.get(&path).map(|row| row.digest));
            let from = digest.filter(|_| here.kind == Kind::File);
            let from = from.and_then(|digest| moved_from.get_mut(&digest)).and_then(Vec::pop);
            match from {
                Some(from) => {
                    self.gone.retain(|(path, _)| *path != from);
                    let version = self.seen.rows[&from].version.clone();
                    self.act(Action::Move { from, version, to: path });
                }
                None => self.put(&path, here, Condition::Absent),
            }
        }
    }

    fn deletions(&mut self, guards: &mut Guards) {
        for side in [Side::Here, Side::There] {
            let gone = self.gone.iter().filter(|(_, at)| *at == side).map(|(path, _)| path.clone());
            let gone: Vec<RemotePath> = gone.collect();
            let (mut new, mut is_any_held) = (Vec::new(), false);
            for path in gone {
                match self.seen.rows[&path].held.map(|(held, _)| held) {
                    Some(Held::Accepted(at)) if at == side => self.delete(&path, side),
                    Some(Held::Waits(at)) if at == side => is_any_held = true,
                    _ => new.push(path),
                }
            }
            if new.is_empty() {
                continue;
            }
            let is_file = |kind: Kind| kind != Kind::Directory;
            let known = self.seen.rows.values().filter(|row| is_file(row.kind)).count() as u64;
            let is_any_left = match side {
                Side::Here => self.seen.here.values().any(|of| is_file(of.kind)),
                Side::There => self.seen.there.values().any(|of| is_file(of.kind)),
            };
            let guard = if side == Side::Here { &mut guards.here } else { &mut guards.there };
            let is_held = is_any_held
                || !is_any_left
                || guard.judge(new.len() as u64, known, self.rules.now_ms) == Verdict::Held;
            for path in new {
                match is_held && !planted::has(Bug::DeletionsNotHeld) {
                    true => self.act(Action::Hold(path, Some(side))),
                    false => self.delete(&path, side),
                }
            }
        }
    }

    fn delete(&mut self, path: &RemotePath, gone_at: Side) {
        let row = &self.seen.rows[path];
        let action = match gone_at {
            Side::Here => Action::RemoveThere { path: path.clone(), version: row.version.clone() },
            Side::There => Action::RemoveHere { path: path.clone(), print: self.seen.here[path].print },
        };
        self.act(action);
    }
}
