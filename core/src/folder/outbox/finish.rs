//! What came of an action, in all that remembers it.
//!
//! The order is what makes a power cut harmless. What was listed and which name has which number are noted first, and the numbers are durable,
//! before the log forgets the difference: from there on nothing else knows what the file is. A conflict is remembered before the log says
//! that the file has another name.

use super::act::{Halt, Job};
use super::conflicts::{self, Kept};
use super::failure;
use super::works::Works;
use super::written::Sent;
use crate::clock;
use crate::folder::api::Stale;
use crate::folder::entries::EntriesError;
use crate::folder::node::{Brings, ContentHere, Ino, Node, Place};
use crate::folder::outcome::{self, Found, Resolution};
use crate::folder::plan::Action;
use crate::folder::step::Step;
use crate::folder::tree::Tree;
use crate::store::remote::{Entry, Facts, Kind, Name, RemoteError, Version};

/// A tree that changes at every look is left to the next plan.
const TRIES: usize = 8;
/// Stands for the number of what an action leaves behind, until it is known that it leaves something.
const SOMEBODY: Ino = Ino(u32::MAX);
/// More files of one conflict are not looked for a free name.
const NAMES_MAX: u32 = 100;

/// What is known of an action's end.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is returned")]
pub(super) enum Outcome {
    /// It took effect; what is there now.
    Took(Option<Entry>),
    /// It did not, or had before; what is there now.
    Found(Found),
    /// The remote will never remove it.
    Refused(RemoteError),
    /// These directories, in which it was to happen, are gone.
    DirectoriesGone(Vec<Ino>),
}

/// Whether an action has done what was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Yes, or what was wanted has changed.
    Done,
    /// No; there is another plan.
    Again,
}

/// What an outcome changes.
#[derive(PartialEq)]
struct Decision {
    resolution: Resolution,
    /// The nodes before, of those that it changes.
    before: Vec<(Ino, Option<Node>)>,
}

impl Decision {
    fn step(&self) -> &Step {
        match &self.resolution {
            Resolution::Taken(step)
            | Resolution::Again(step)
            | Resolution::Conflict(step, _)
            | Resolution::Reappeared(step) => step,
        }
    }

    /// The nodes that it changes, before and after.
    fn changes(&self) -> impl Iterator<Item = (Ino, Option<&Node>, Option<&Node>)> {
        let before = |ino: Ino| {
            self.before.iter().find(|(other, _)| *other == ino).and_then(|(_, node)| node.as_ref())
        };
        self.step().states.iter().map(move |(ino, after)| (*ino, before(*ino), after.as_ref()))
    }
}

impl Works {
    /// Remembers what came of an action.
    pub(super) async fn finish(&self, job: &Job, outcome: Outcome) -> Result<Ending, Halt> {
        let outcome = self.with_what_stays_here(job, outcome);
        // Nobody opens the file between its record and what becomes of its bytes.
        let _turn = self.unless_stopped(self.shared.turns.of(job.ino)).await.ok_or(Halt::Stopped)?;
        self.note_listed(job, &outcome);
        for _ in 0..TRIES {
            let name = self.name_beside(job, &outcome);
            let first = self.shared.ledger.read(|tree| decide(tree, job, &outcome, &name, SOMEBODY));
            let ghost = self.note_numbers(job, &first)?;
            self.sync_numbers().await?;
            if let (Resolution::Conflict(_, place), Outcome::Found(Found { at: Some(theirs), .. })) =
                (&first.resolution, &outcome)
            {
                self.remember_conflict(job, place, theirs).await?;
            }
            let done = self.shared.ledger.change(|tree| {
                match decide(tree, job, &outcome, &name, SOMEBODY) == first {
                    true => {
                        let last = decide(tree, job, &outcome, &name, ghost);
                        Ok::<_, Halt>((last.step().clone(), last))
                    }
                    false => Err(Halt::Past),
                }
            });
            match done {
                Ok(last) => return Ok(self.finished(job, &outcome, &last).await),
                Err(Halt::Past) => {}
                Err(halt) => return Err(halt),
            }
        }
        Err(Halt::Past)
    }

    /// The entry with what was sent and the remote does not keep.
    fn with_what_stays_here(&self, job: &Job, outcome: Outcome) -> Outcome {
        let sends_meta =
            matches!(job.action, Action::Put { .. } | Action::SetMeta { .. } | Action::MakeDirectory { .. });
        let node = self.shared.node(job.ino).filter(|_| sends_meta);
        let Some(node) = node else { return outcome };
        let facts = self.shared.remote.facts();
        match outcome {
            Outcome::Took(Some(entry)) => Outcome::Took(Some(with_kept_here(entry, &node, facts))),
            Outcome::Found(Found { at: Some(entry), from, is_ours: true }) => {
                Outcome::Found(Found { at: Some(with_kept_here(entry, &node, facts)), from, is_ours: true })
            }
            other => other,
        }
    }

    /// The list of what the remote has follows what it has.
    fn note_listed(&self, job: &Job, outcome: &Outcome) {
        let from = job.action.from().cloned().or_else(|| self.moves_from(job));
        let from = from.as_ref().filter(|from| *from != job.action.at());
        match outcome {
            Outcome::Took(entry) => {
                self.list_as(job.action.at(), entry.as_ref());
                let stays = super::act::is_copy(&job.action);
                from.filter(|_| !stays).into_iter().for_each(|from| self.list_as(from, None));
            }
            Outcome::Found(found) => {
                self.list_as(job.action.at(), found.at.as_ref());
                from.into_iter().for_each(|from| self.list_as(from, found.from.as_ref()));
            }
            Outcome::Refused(_) => {}
            Outcome::DirectoriesGone(gone) => {
                // What was in them stays known: once they are made again, their listings show none of it, and the guard judges that.
                for directory in gone {
                    let known = self.shared.node(*directory).and_then(|node| node.remote);
                    known.into_iter().for_each(|known| self.list_as(&known.place, None));
                }
            }
        }
    }

    /// Where a move began whose outcome was looked for. A listing that came meanwhile has shown neither place, or both.
    fn moves_from(&self, job: &Job) -> Option<Place> {
        let node = self.shared.node(job.ino).filter(|_| matches!(job.action, Action::Settle { .. }))?;
        let is_relocated = matches!(node.intent.as_ref()?.brings, Brings::Relocated { .. });
        node.remote.filter(|_| is_relocated).map(|known| known.place)
    }

    /// What was listed can be listed again: a failure costs a request, and no file.
    pub(super) fn list_as(&self, place: &Place, entry: Option<&Entry>) {
        let entries = &self.shared.entries;
        let noted = match entry {
            Some(entry) => {
                let entry = Entry { name: place.name.clone(), ..entry.clone() };
                entries.put(place.parent, &entry).map(drop)
            }
            None => entries.remove(place.parent, &place.name).map(drop),
        };
        if let Err(error) = noted {
            tracing::warn!(%error, "a directory has to be listed again");
            self.forget_list(place.parent);
        }
    }

    pub(super) fn forget_list(&self, directory: Ino) {
        match self.shared.entries.forget(directory) {
            Ok(()) => {}
            Err(error @ (EntriesError::Database(_) | EntriesError::Collision(_))) => {
                tracing::error!(%error, "a directory may be shown as it was before");
            }
        }
    }

    /// Each number has the name that its file has in the remote. Returns a number for what is left behind, if anything is.
    fn note_numbers(&self, job: &Job, decision: &Decision) -> Result<Ino, Halt> {
        let inodes = &self.shared.inodes;
        let mut ghost = None;
        for (ino, before, after) in decision.changes() {
            let place = |node: &Node| node.remote.as_ref().map(|known| known.place.clone());
            match (before.and_then(place), after.and_then(place)) {
                (_, Some(place)) if ino == SOMEBODY => ghost = Some(place),
                (before, Some(place)) if before.as_ref() != Some(&place) => inodes.moved(ino, Some(place))?,
                (Some(before), None)
                    if !is_back(job, ino, decision) && inodes.place(ino)?.as_ref() == Some(&before) =>
                {
                    inodes.detach(ino)?;
                }
                _ => {}
            }
        }
        match ghost {
            Some(place) => Ok(inodes.number(place.parent, &place.name)?),
            None => Ok(SOMEBODY),
        }
    }

    /// The name for our file, should another program have been first.
    fn name_beside(&self, job: &Job, outcome: &Outcome) -> Name {
        let at = job.action.at();
        if let Outcome::Found(Found { at: Some(theirs), .. }) = outcome
            && let Some(before) = self.conflicts.name_beside(job.ino, at, &theirs.version)
        {
            return before;
        }
        let now_ms = clock::now_ms();
        let name = |nth| conflicts::name(&at.name, &self.shared.device_name, now_ms, nth);
        let is_free = |name: &Name| {
            let place = Place::new(at.parent, name.clone());
            let is_taken_here =
                self.shared.ledger.read(|tree| tree.here(&place).or(tree.occupant(&place)).is_some());
            !is_taken_here && self.shared.entries.get(at.parent, name).is_none()
        };
        (0..NAMES_MAX).map(name).find(is_free).unwrap_or_else(|| name(NAMES_MAX))
    }

    async fn remember_conflict(&self, job: &Job, place: &Place, theirs: &Entry) -> Result<(), Halt> {
        let our_len = self.shared.node(job.ino).map_or(0, |node| node.len_bytes());
        let (ours, at_ms, version) = (job.ino, clock::now_ms(), theirs.version.clone());
        let (theirs, kept_as) = (job.action.at().clone(), place.clone());
        self.conflicts.add(Kept { ours, theirs, kept_as, version, at_ms, our_len }).await?;
        Ok(())
    }

    /// The log knows the outcome. Returns whether there is more to do.
    async fn finished(&self, job: &Job, outcome: &Outcome, decision: &Decision) -> Ending {
        decision.changes().for_each(|(ino, before, after)| self.tell_stale(ino, before, after));
        let (at, ino) = (job.action.at(), job.ino);
        match (&decision.resolution, outcome) {
            (Resolution::Reappeared(_), _) => {
                if matches!(job.action, Action::RemoveDirectory { .. }) {
                    self.forget_list(ino);
                }
                self.tell_back(outcome, at);
            }
            (Resolution::Conflict(_, place), _) => {
                tracing::warn!(theirs = %at.name, ours = %place.name, "a file was changed by another program too: both versions are kept");
            }
            _ => {}
        }
        for (ino, before, after) in decision.changes() {
            self.keep_or_give(ino, before, after).await;
        }
        match &decision.resolution {
            Resolution::Again(_) => Ending::Again,
            Resolution::Taken(_) | Resolution::Conflict(..) | Resolution::Reappeared(_) => Ending::Done,
        }
    }

    /// A content that the remote has now becomes part of the cache, unless programs may write to it.
    async fn keep_or_give(&self, ino: Ino, before: Option<&Node>, after: Option<&Node>) {
        let sent = before.and_then(|node| node.content.as_ref());
        let version = after.and_then(|node| node.remote.as_ref()).map(|known| known.version.clone());
        if let Some(base) = after.and_then(|node| node.content.as_ref()).and_then(|here| here.base.as_ref()) {
            self.shared.overlays.rebase(ino, base).await;
        }
        match (sent, after, version) {
            (Some(sent), Some(after), Some(version)) if after.content.is_none() => {
                if after.may_be_written || self.shared.opens.is_open_to_write(ino) {
                    self.shared.overlays.rebase(ino, &version).await;
                    self.keep_content(ino, sent, version);
                } else if self.shared.contents.has(ino) {
                    self.give_back(ino, &version).await;
                }
            }
            // It was removed here and there.
            (_, None, _)
                if before.is_some_and(|node| node.kind == Kind::File) && !self.shared.opens.is_open(ino) =>
            {
                self.shared.copy.current(ino).iter().for_each(|span| self.shared.copy.forget(span));
            }
            _ => {}
        }
    }

    fn keep_content(&self, ino: Ino, content: &ContentHere, version: Version) {
        let ContentHere { len, mtime, .. } = *content;
        self.sent.lock().insert(ino, Sent { version, len, mtime });
    }

    fn tell_stale(&self, ino: Ino, before: Option<&Node>, after: Option<&Node>) {
        let here = |node: Option<&Node>| node.and_then(|node| node.local.clone());
        let (old, new) = (here(before), here(after));
        if old != new {
            for Place { parent, name } in old.into_iter().chain(new) {
                self.send_stale(Stale::Entry { parent, name });
            }
        }
        let version = |node: Option<&Node>| node.and_then(|node| Some(node.remote.as_ref()?.version.clone()));
        let had_own_bytes = before.is_some_and(|node| node.content.is_some());
        if after.is_some() && !had_own_bytes && version(before) != version(after) {
            self.send_stale(Stale::File(ino));
        }
    }

    fn send_stale(&self, stale: Stale) {
        // Nobody listens any longer where the folder is being closed.
        let _ = self.shared.stale.send(stale);
    }

    /// What was removed here is back.
    fn tell_back(&self, outcome: &Outcome, at: &Place) {
        self.send_stale(Stale::Entry { parent: at.parent, name: at.name.clone() });
        if let Outcome::Refused(error) = outcome {
            let path = self.path_at(at).map_or_else(|| at.name.to_string(), |path| path.as_str().to_owned());
            self.desk.lock().returned(path, failure::came_back(error));
        }
    }
}

/// Whether a directory that was removed here is back, under its number: what is in it belongs to that number.
fn is_back(job: &Job, ino: Ino, decision: &Decision) -> bool {
    let is_directory = matches!(job.action, Action::RemoveDirectory { .. });
    is_directory && ino == job.ino && matches!(decision.resolution, Resolution::Reappeared(_))
}

fn decide(tree: &Tree, job: &Job, outcome: &Outcome, name: &Name, ghost: Ino) -> Decision {
    let resolution = match outcome {
        Outcome::Took(entry) => {
            Resolution::Taken(outcome::taken(tree, job.ino, &job.action, entry.as_ref(), ghost))
        }
        Outcome::Found(found) => outcome::resolve(tree, job.ino, &job.action, found, name.clone(), ghost),
        Outcome::Refused(_) => {
            Resolution::Reappeared(outcome::taken(tree, job.ino, &job.action, None, ghost))
        }
        Outcome::DirectoriesGone(gone) => Resolution::Again(outcome::directories_gone(tree, gone)),
    };
    let mut decision = Decision { resolution, before: Vec::new() };
    decision.before =
        decision.step().states.iter().map(|(ino, _)| (*ino, tree.node(*ino).cloned())).collect();
    decision
}

/// The entry with the attributes of the node that the remote does not keep: they stay on this device.
fn with_kept_here(entry: Entry, node: &Node, facts: &Facts) -> Entry {
    let Some(sent) = node.meta_here() else { return entry };
    let mut meta = entry.meta.clone().unwrap_or_default();
    if !facts.keeps_meta || entry.meta.is_none() {
        meta.mode = sent.mode.or(meta.mode);
        meta.xattrs.extend(sent.xattrs.clone());
        meta.link = meta.link.or_else(|| sent.link.clone());
    }
    if !facts.keeps_mtime || entry.meta.is_none() {
        meta.mtime = node.content.as_ref().map(|here| here.mtime).or(sent.mtime).or(meta.mtime);
    }
    Entry { meta: Some(meta), ..entry }
}
