//! What differs, for people, and waiting until nothing does.

use super::desk::Desk;
use super::works::Works;
use super::{Queue, QueueItem, QueueKind, QueueState, Unsettled};
use crate::clock;
use crate::folder::node::{Ino, Node, Place};
use crate::folder::shared::DEPTH_MAX;
use crate::folder::tree::Tree;
use crate::store::remote::{Kind, Name};
use std::collections::{BTreeMap, BTreeSet};

/// A share of the time that may go into looking whether all is settled: one in this many.
const LOOKING_SHARE: u32 = 10;

/// Nodes as they were when somebody began to wait for them.
type Differing = BTreeMap<Ino, Node>;

/// What somebody waits for.
struct Waiting {
    /// Closed files that nobody has looked at yet.
    unseen: BTreeSet<Ino>,
    /// When these had been looked at, Unix time in ms.
    called_ms: Option<u64>,
    /// What differs since before that.
    differing: Differing,
    /// What did, and is in the remote by now as it was then.
    done: BTreeSet<Ino>,
}

impl Waiting {
    /// Looks what is still to be waited for. One difference may become several: a directory moves by what is in it, and a file that has
    /// another name by now leaves the old one.
    fn look(&mut self, tree: &Tree) {
        let called_ms = *self.called_ms.get_or_insert_with(clock::now_ms);
        for (ino, node) in tree.nodes() {
            let is_old = node.since_ms <= called_ms && node.differs();
            if is_old && !self.done.contains(&ino) {
                self.differing.entry(ino).or_insert_with(|| node.clone());
            }
        }
        let is_done = |ino: &Ino, before: &Node| {
            tree.node(*ino).is_none_or(|node| !node.differs() || is_there(before, node))
        };
        self.done
            .extend(self.differing.extract_if(.., |ino, before| is_done(ino, before)).map(|(ino, _)| ino));
    }
}

impl Works {
    /// What differs, with at most `most` items.
    pub(super) fn queue(&self, most: usize) -> Queue {
        let mut queue = Queue::default();
        let mut all = self.shared.ledger.read(|tree| {
            let desk = self.desk.lock();
            queue.last_uploaded_ms = desk.last_uploaded_ms;
            queue.failed = desk.all_returned().len() as u64;
            let differing = tree.nodes().filter(|(_, node)| node.differs());
            let items: Vec<_> = differing.map(|(ino, node)| self.item(&desk, ino, node)).collect();
            queue.trouble = desk.trouble().filter(|_| !items.is_empty()).map(str::to_owned);
            items
        });
        for (_, item) in &all {
            queue.bytes += item.bytes;
            *match item.state {
                QueueState::Waiting => &mut queue.waiting,
                QueueState::Uploading => &mut queue.uploading,
                QueueState::InUse => &mut queue.in_use,
                QueueState::Failed { .. } => &mut queue.failed,
            } += 1;
        }
        let rank = |state: &QueueState| match state {
            QueueState::Uploading => 0,
            QueueState::Failed { .. } => 1,
            QueueState::Waiting | QueueState::InUse => 2,
        };
        let key = |(ino, item): &(Ino, QueueItem)| (rank(&item.state), item.since_ms, *ino);
        if all.len() > most {
            all.select_nth_unstable_by_key(most, key);
            all.truncate(most);
        }
        all.sort_unstable_by_key(key);
        queue.items =
            all.into_iter().map(|(ino, item)| QueueItem { path: self.path_here(ino), ..item }).collect();
        let returned = self.desk.lock().all_returned().to_vec();
        let returned = returned.into_iter().take(most.saturating_sub(queue.items.len()));
        queue.items.extend(returned.map(|(path, reason)| QueueItem {
            path,
            kind: QueueKind::Remove,
            bytes: 0,
            sent: 0,
            state: QueueState::Failed { reason, again_ms: None },
            since_ms: 0,
        }));
        queue
    }

    /// An item without its path.
    fn item(&self, desk: &Desk, ino: Ino, node: &Node) -> (Ino, QueueItem) {
        let kind = kind(node);
        let bytes = match (&node.local, &node.content) {
            (None, _) => 0,
            (Some(_), Some(here)) => here.len,
            // It is recorded when it rests.
            (Some(_), None) if node.may_be_written => {
                self.shared.contents.stat(ino).map_or(0, |stat| stat.len)
            }
            (Some(_), None) => 0,
        };
        let busy = desk.busy(ino);
        let sent = busy.map_or(0, |busy| busy.sent).min(bytes);
        let state = match (busy, desk.failure(ino, node)) {
            (Some(_), _) => QueueState::Uploading,
            (None, Some(failure)) if failure.is_told || failure.again_ms.is_none() => {
                QueueState::Failed { reason: failure.reason.clone(), again_ms: failure.again_ms }
            }
            _ if self.is_in_use(desk, ino, node) => QueueState::InUse,
            _ => QueueState::Waiting,
        };
        (ino, QueueItem { path: String::new(), kind, bytes, sent, state, since_ms: node.since_ms })
    }

    fn is_in_use(&self, desk: &Desk, ino: Ino, node: &Node) -> bool {
        let is_open = self.shared.opens.is_open_to_write(ino);
        (node.content.is_some() || node.may_be_written) && (is_open || desk.quiet.is_in_use(ino))
    }

    /// The path of an inode here; where it was removed, the remote's.
    pub(super) fn path_here(&self, ino: Ino) -> String {
        let (mut names, mut at): (Vec<Name>, _) = (Vec::new(), ino);
        while at != Ino::ROOT && names.len() < DEPTH_MAX {
            let Some(place) = self.place_here(at) else { return format!("file {ino}") };
            names.push(place.name);
            at = place.parent;
        }
        names.iter().rev().map(Name::as_str).collect::<Vec<_>>().join("/")
    }

    fn place_here(&self, ino: Ino) -> Option<Place> {
        let place = |node: &Node| node.local.clone().or_else(|| Some(node.remote.as_ref()?.place.clone()));
        match self.shared.ledger.read(|tree| tree.node(ino).map(place)) {
            Some(place) => place,
            None => self.shared.inodes.place(ino).ok()?,
        }
    }

    /// Waits until what differs now is in the remote.
    pub(super) async fn settle(&self) -> Result<(), Unsettled> {
        self.note_all_written().await;
        let now = self.now();
        let unseen = self.tell(|desk| {
            desk.hurry(now);
            desk.quiet.unseen()
        });
        let mut waiting =
            Waiting { unseen, called_ms: None, differing: Differing::new(), done: BTreeSet::new() };
        let (mut happened, mut idle) = (self.happened.subscribe(), self.idle.subscribe());
        let mut changes = self.shared.ledger.changes();
        loop {
            if self.is_stopped() {
                return Err(Unsettled::Closed);
            }
            // Before the look: what happens meanwhile is not missed.
            let seen = (*changes.borrow_and_update(), *happened.borrow_and_update());
            let is_idle = *idle.borrow_and_update() == Some(seen);
            let looking = std::time::Instant::now();
            let ended = self.look_whether_settled(&mut waiting, is_idle);
            let looked_for = looking.elapsed();
            let is_done = ended.as_ref().is_some_and(Vec::is_empty);
            if let Some(why) =
                self.desk.lock().paused.clone().filter(|_| !is_done && waiting.unseen.is_empty())
            {
                return Err(Unsettled::Paused(why));
            }
            if let Some(stuck) = ended {
                return self.settled(stuck);
            }
            let mut stopped = self.stopped.subscribe();
            tokio::select! {
                _ = happened.changed() => {}
                _ = idle.changed() => {}
                changed = changes.changed() => if changed.is_err() { return Err(Unsettled::Closed) },
                _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
            }
            // A look takes a while where much differs: it is not repeated after each action.
            tokio::time::sleep(looked_for * LOOKING_SHARE).await;
        }
    }

    /// Records what programs have written to files that they still have open.
    async fn note_all_written(&self) {
        let written = self.shared.ledger.read(|tree| {
            tree.nodes().filter(|(_, node)| node.may_be_written).map(|(ino, _)| ino).collect::<Vec<_>>()
        });
        for ino in written {
            if let Err(error) = self.note_written(ino, false).await {
                tracing::error!(%ino, %error, "an open file cannot be made durable");
            }
        }
    }

    /// Whether it has ended: all that is waited for is there, or what is left cannot be brought there now. Returns that, with the reasons.
    fn look_whether_settled(&self, waiting: &mut Waiting, is_idle: bool) -> Option<Vec<(Ino, String)>> {
        self.shared.ledger.read(|tree| {
            let desk = self.desk.lock();
            // What was just written is recorded first.
            waiting.unseen.retain(|ino| desk.quiet.is_unseen(*ino));
            if !waiting.unseen.is_empty() {
                return None;
            }
            waiting.look(tree);
            let waited_for = &waiting.differing;
            if let Some(reason) = desk.lasting_trouble() {
                return Some(waited_for.keys().map(|ino| (*ino, reason.to_owned())).collect());
            }
            let why = |ino: &Ino| tree.node(*ino).and_then(|node| self.why_stuck(&desk, *ino, node));
            let stuck: Vec<_> = waited_for.keys().map(|ino| (*ino, why(ino))).collect();
            let is_over = stuck.iter().all(|(_, why)| why.is_some()) || is_idle && !desk.tries_again_soon();
            let waits = || "It waits for another file that cannot be uploaded.".to_owned();
            is_over.then(|| {
                let (first, last): (Vec<_>, Vec<_>) = stuck.into_iter().partition(|(_, why)| why.is_some());
                first.into_iter().chain(last).map(|(ino, why)| (ino, why.unwrap_or_else(waits))).collect()
            })
        })
    }

    /// The answer to those who wait.
    fn settled(&self, stuck: Vec<(Ino, String)>) -> Result<(), Unsettled> {
        let returned = self.tell(Desk::take_returned);
        let count = (stuck.len() + returned.len()) as u64;
        let stuck = stuck.into_iter().map(|(ino, reason)| (self.path_here(ino), reason));
        match stuck.chain(returned).next() {
            Some((path, reason)) => Err(Unsettled::Failed { count, path, reason }),
            None => Ok(()),
        }
    }

    /// Why a file cannot be brought to the remote now.
    fn why_stuck(&self, desk: &Desk, ino: Ino, node: &Node) -> Option<String> {
        if desk.busy(ino).is_some() {
            return None;
        }
        if let Some(failure) = desk.failure(ino, node).filter(|failure| failure.is_told) {
            return Some(failure.reason.clone());
        }
        let is_writing = node.may_be_written || node.content.is_some() && self.is_in_use(desk, ino, node);
        is_writing
            .then(|| "It is in use: a program still has it open for writing. Close it there.".to_owned())
    }
}

/// Whether the remote has what a node was, although there is something newer.
fn is_there(before: &Node, node: &Node) -> bool {
    let generation = |node: &Node| node.content.as_ref().map(|here| here.generation);
    let version = |node: &Node| node.remote.as_ref().map(|known| known.version.clone());
    generation(node) > generation(before) && version(node) != version(before) && node.is_in_place()
}

fn kind(node: &Node) -> QueueKind {
    let has_new_bytes = node.content.is_some() || node.remote.is_none() && node.kind != Kind::Directory;
    match (&node.local, &node.remote) {
        (None, _) => QueueKind::Remove,
        (Some(_), None) if node.kind == Kind::Directory => QueueKind::MakeDirectory,
        (Some(_), _) if has_new_bytes => QueueKind::Upload,
        (Some(place), Some(known)) if *place != known.place => QueueKind::Move,
        (Some(_), _) => QueueKind::Attributes,
    }
}
