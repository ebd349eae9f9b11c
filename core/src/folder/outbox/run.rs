//! The runner: begins what there is to do, as long as lanes are free.
//!
//! Planning all that differs costs time for each file, so it is not repeated for each action. The runner keeps a line of the files that differ,
//! in the order in which they are to go, and asks the planner for the next file's action when a lane is free. The line is made again when
//! something has changed, but the more seldom the longer it takes.

use super::act::{Halt, Job};
use super::desk::Desk;
use super::failure::{self, Verdict, verdict};
use super::finish::Ending;
use super::works::Works;
use crate::clock;
use crate::folder::node::{Ino, Node};
use crate::folder::plan::{Action, Planner, Readiness};
use crate::folder::tree::Tree;
use crate::store::remote::RemoteError;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Files that began to differ within this time go by their length.
const ROUND_MS: u64 = 5_000;
/// The line is made again at most this often.
const LINE_LASTS: Duration = Duration::from_millis(10);
/// A share of the time that may go into planning: one in this many.
const PLANNING_SHARE: u32 = 10;

/// The files that differ, in the order in which they go.
#[derive(Default)]
struct Line {
    inos: VecDeque<Ino>,
    /// Something has changed since it was made.
    is_old: bool,
    /// When it may be made again.
    again: Duration,
}

/// Brings to the remote what differs, until the outbox is stopped.
pub(super) async fn run(works: Arc<Works>) {
    let (mut changes, mut stopped) = (works.shared.ledger.changes(), works.stopped.subscribe());
    let mut under_way = JoinSet::new();
    let mut line = Line { is_old: true, ..Line::default() };
    while !works.is_stopped() {
        let seen = (*changes.borrow_and_update(), *works.happened.borrow());
        let next = works.begin_all(&mut line, &mut under_way);
        if under_way.is_empty() && !line.is_old {
            works.idle.send_if_modified(|idle| idle.replace(seen) != Some(seen));
        }
        let timer = async {
            match next {
                Some(next) => tokio::time::sleep_until(works.at(next)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { biased;
            _ = stopped.wait_for(|is_stopped| *is_stopped) => break,
            Some(ended) = under_way.join_next() => note_panic(ended),
            changed = changes.changed() => if changed.is_err() { break },
            () = works.wake.notified() => {}
            () = timer => {}
        }
        line.is_old = true;
    }
    while let Some(ended) = under_way.join_next().await {
        note_panic(ended);
    }
}

fn note_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "an upload ended by a mistake of Holdall's");
    }
}

/// An action is under way until this is dropped.
struct UnderWay {
    works: Arc<Works>,
    ino: Ino,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.works.tell(|desk| desk.end(self.ino));
    }
}

impl Works {
    /// Begins what can begin. Returns when to look again.
    fn begin_all(self: &Arc<Self>, line: &mut Line, under_way: &mut JoinSet<()>) -> Option<Duration> {
        let (now, begun) = (self.now(), std::time::Instant::now());
        let due = self.desk.lock().quiet.take_due(now);
        for ino in due {
            under_way.spawn(self.clone().look_at(ino));
        }
        if line.is_old && line.again <= now {
            line.inos = self.all_that_differ(now);
            line.is_old = false;
        }
        let is_new = !line.is_old;
        while let Some(job) = self.next_job(line, now) {
            let (works, ino) = (self.clone(), job.ino);
            let end = UnderWay { works: works.clone(), ino };
            under_way.spawn(async move {
                let _end = end;
                let done = works.act(&job).await;
                works.ended(&job, done);
            });
        }
        if is_new {
            line.again = now + LINE_LASTS.max(begun.elapsed() * PLANNING_SHARE);
        }
        let next_line = line.is_old.then_some(line.again);
        self.desk.lock().next(now).into_iter().chain(next_line).min()
    }

    /// All files that may have something to do now, the oldest first; of those that came at about the same time, the smallest.
    fn all_that_differ(&self, now: Duration) -> VecDeque<Ino> {
        let mut inos = self.shared.ledger.read(|tree| {
            let mut desk = self.desk.lock();
            desk.retain(|ino| tree.node(ino).is_some_and(Node::differs));
            let goes = |ino: Ino, node: &Node| node.differs() && !desk.waits(ino, node, now);
            let key = |ino: Ino, node: &Node| {
                let len = node.content.as_ref().map_or(0, |here| here.len);
                (node.since_ms / ROUND_MS, len, node.since_ms, ino)
            };
            tree.nodes()
                .filter(|(ino, node)| goes(*ino, node))
                .map(|(ino, node)| key(ino, node))
                .collect::<Vec<_>>()
        });
        inos.sort_unstable();
        inos.into_iter().map(|(.., ino)| ino).collect()
    }

    /// The next action that can begin.
    fn next_job(&self, line: &mut Line, now: Duration) -> Option<Job> {
        loop {
            if self.desk.lock().free_lanes(now) == 0 {
                return None;
            }
            let ino = line.inos.pop_front()?;
            let job = self.shared.ledger.read(|tree| {
                let mut desk = self.desk.lock();
                let readiness = |ino: Ino| self.readiness(tree, &desk, ino, now);
                let planner = Planner::new(tree, self.shared.device, desk.busy_inos(), readiness);
                let action = planner.next_for(ino)?;
                let bytes = match &action {
                    Action::Put { .. } => tree.node(ino)?.len_bytes(),
                    _ => 0,
                };
                if !desk.may_begin(&action, bytes, now) {
                    return None;
                }
                desk.begin(ino, &action, bytes);
                Some(Job { ino, action })
            });
            if job.is_some() {
                return job;
            }
        }
    }

    fn readiness(&self, tree: &Tree, desk: &Desk, ino: Ino, now: Duration) -> Readiness {
        let Some(node) = tree.node(ino) else { return Readiness::default() };
        let rests = node.content.is_some()
            && !node.may_be_written
            && !desk.quiet.is_unknown(ino)
            && !self.shared.opens.is_open_to_write(ino);
        Readiness { rests, waits: desk.waits(ino, node, now) }
    }

    /// An action has ended.
    fn ended(&self, job: &Job, done: Result<Ending, Halt>) {
        let (node, clocks) = (self.shared.node(job.ino), self.clocks());
        let desk = &mut *self.desk.lock();
        match done {
            Ok(Ending::Done) => {
                desk.succeeded(job.ino, &job.action, clocks.now);
                if matches!(job.action, Action::Put { .. }) {
                    desk.last_uploaded_ms = Some(clock::now_ms());
                }
            }
            Ok(Ending::Again) => {
                desk.answered();
                // Nobody is told before this has happened several times: most often the next plan is better.
                if let Some(node) = node {
                    let reason = "The file keeps changing at the server. The change is safe on this computer; Holdall tries again by itself.";
                    desk.failed(job.ino, node, reason.into(), true, false, clocks);
                }
            }
            Err(Halt::Remote(error)) => remote_failed(desk, job, node, &error, clocks),
            Err(Halt::Local(reason)) if !self.is_stopped() => {
                tracing::error!(ino = %job.ino, %reason, "an upload failed on this computer");
                if let Some(node) = node {
                    let reason = format!(
                        "This computer's disk failed: {reason}. The change is not uploaded; Holdall tries again by itself."
                    );
                    desk.failed(job.ino, node, reason, true, true, clocks);
                }
            }
            Err(Halt::BaseGone) => {
                if let Some(node) = node {
                    desk.failed(job.ino, node, failure::BASE_GONE.into(), false, true, clocks);
                }
            }
            Err(Halt::BaseAway(reason)) => {
                if let Some(node) = node {
                    let reason = failure::base_away(&reason);
                    desk.failed(job.ino, node, reason, true, false, clocks);
                }
            }
            Err(Halt::TooLarge(cause)) => {
                if let Some(node) = node {
                    desk.failed(job.ino, node, failure::too_large(&cause), false, true, clocks);
                }
            }
            Err(Halt::Local(_) | Halt::Past | Halt::Stopped) => {}
        }
    }
}

fn remote_failed(
    desk: &mut Desk,
    job: &Job,
    node: Option<Node>,
    error: &RemoteError,
    clocks: super::desk::Clocks,
) {
    let verdict = verdict(error);
    if let Verdict::Trouble(trouble) = &verdict {
        return desk.troubled(failure::trouble(error), trouble, clocks.now);
    }
    desk.answered();
    let (Some(node), reason) = (node, failure::reason(&job.action, error)) else { return };
    let is_final = verdict == Verdict::Never;
    desk.failed(job.ino, node, reason, !is_final, is_final, clocks);
}
