//! Retries: pulls wait for a store that cannot be reached, and readers can learn since when.

use super::fetch::Waited;
use super::sink::Sink;
use super::source::Source;
use super::{PullError, Puller};
use crate::read_error::ReadError;
use crate::retry::Backoff;
use crate::units::BlockRange;
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Whether the store answers pulls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why pulls wait or fail; `None` while all is well.
    pub trouble: Option<String>,
    /// Since when that is so: since the first of them began, which may have waited long for an answer.
    pub since: Option<Instant>,
    /// A range that the store answered for but that could not be read, and why; until it is here.
    pub damage: Option<(BlockRange, String)>,
    /// When the store answered last.
    answered: Option<Instant>,
    /// When it last failed to answer.
    failed: Option<Instant>,
}

impl Health {
    /// Once more no answer came, to a request made at `begun`.
    fn note(&mut self, trouble: String, begun: Instant) {
        /// A request that gets no answer is dropped within this time. If a try took longer, the store was slow but had been
        /// answering.
        const SILENCE_MAX: Duration = Duration::from_secs(30);
        self.trouble = Some(trouble);
        let (answered, now) = (self.answered, Instant::now());
        self.failed = Some(now);
        self.since.get_or_insert_with(|| {
            let silent = now.checked_sub(SILENCE_MAX).map_or(begun, |earliest| begun.max(earliest));
            answered.map_or(silent, |answered| silent.max(answered))
        });
    }

    /// The store answered another request at that time. If that is later than the last failure, the trouble is over, and
    /// pulls need not find out themselves. Returns whether it ends the trouble.
    fn note_heard(&mut self, at: Instant) -> bool {
        self.trouble.is_some() && self.failed < Some(at) && self.note_answer()
    }

    /// The store has answered. Returns whether it had been in trouble.
    fn note_answer(&mut self) -> bool {
        self.answered = Some(Instant::now());
        self.since = None;
        self.trouble.take().is_some()
    }
}

/// How long the store may withhold blocks that nobody waits for while it answers for others: a pull that keeps trying is in
/// the way of those.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// How long a failing pull is retried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    /// Until it comes.
    Always,
    /// This many times.
    Tries(u32),
    /// Until it comes, but not for long if the store answers for other blocks meanwhile.
    WhileAway,
}

impl Persistence {
    fn allows_after(self, tries: u32) -> bool {
        match self {
            Self::Tries(most) => tries < most,
            Self::Always | Self::WhileAway => true,
        }
    }
}

/// How long a store that refused a request wants to be left alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Not at all: it was not reached.
    Open,
    /// For the pause that it asked for, and no less.
    Asked,
    /// It has not said: leave it alone for a moment at least.
    Unsaid,
}

/// Asks the store, as long as pulls have trouble, whether it answers again. The reader that waited for it may have gone,
/// and the next one should find the current state.
pub(super) async fn look_whether_back<S: Source>(
    puller: Weak<Puller<S>>,
    mut health: watch::Receiver<Health>,
) {
    loop {
        if health.wait_for(|health| health.trouble.is_some()).await.is_err() {
            return;
        }
        let mut backoff = Backoff::new();
        let looking = async {
            let mut hint = None;
            loop {
                tokio::time::sleep(backoff.next(hint.take())).await;
                let source = match puller.upgrade() {
                    None => return,
                    // A running pull finds out, unless the store withholds just its blocks.
                    Some(puller) if !puller.queue.lock().is_idle() && !puller.is_away() => continue,
                    Some(puller) => puller.source.clone(),
                };
                match source.ask().await {
                    Ok(()) => {
                        if let Some(puller) = puller.upgrade() {
                            puller.is_well();
                        }
                    }
                    Err(error) => hint = crate::retry::hint_of(&error),
                }
            }
        };
        tokio::select! {
            well = health.wait_for(|health| health.trouble.is_none()) => if well.is_err() { return },
            () = looking => return,
        }
    }
}

impl<S: Source> Puller<S> {
    /// Ready once nobody waits for the blocks any longer while the store does not answer. A pull that the store does answer
    /// runs to its end, wanted or not.
    pub(super) async fn left_while_away(&self, blocks: BlockRange) {
        let mut health = self.health.subscribe();
        loop {
            let has_left = self.reader_left.notified();
            let is_away = health.borrow_and_update().trouble.is_some() || self.stalls.of(blocks).is_some();
            if is_away && !self.queue.lock().is_awaited(blocks) {
                return;
            }
            tokio::select! {
                () = has_left => {}
                changed = health.changed() => changed.expect("the sender lives as long as the puller"),
            }
        }
    }

    /// Why blocks do not come, since when, and when that was last seen: because of the whole store, or of these blocks.
    pub fn trouble_of(&self, blocks: BlockRange) -> Option<(String, Instant, Instant)> {
        let stall = self.stalls.of(blocks).map(|stall| (stall.why, stall.since, stall.failed));
        let health = self.health.borrow();
        let away = health.trouble.clone().zip(health.since).zip(health.failed);
        let away = away.map(|((why, since), failed)| (why, since, failed));
        stall.into_iter().chain(away).min_by_key(|(_, since, _)| *since)
    }

    /// Whether the store has been away so long that it is not asked for blocks that are only likely to be read. By the time
    /// it is back, programs read something else, and that would have to wait behind these.
    pub(super) fn is_away(&self) -> bool {
        const LONG: Duration = Duration::from_secs(10);
        self.health.borrow().since.is_some_and(|since| since.elapsed() >= LONG)
    }

    /// Whether the store has withheld these blocks for long while it answered for others.
    fn are_withheld(&self, blocks: BlockRange) -> bool {
        let answered = self.health.borrow().answered;
        let is_stuck =
            |since: Instant| since.elapsed() >= STUCK_AFTER && answered.is_some_and(|at| at > since);
        self.stalls.of(blocks).is_some_and(|stall| is_stuck(stall.since))
    }

    /// Pulls until that succeeds, cannot succeed, or has been tried for long enough.
    pub(super) async fn pull_until_done(
        &self,
        blocks: BlockRange,
        sink: &impl Sink,
        persistence: Persistence,
    ) -> Result<(), PullError> {
        let mut backoff = Backoff::new();
        let mut waited = false;
        loop {
            let begun = Instant::now();
            match self.pull(blocks, sink).await {
                Ok(Waited(for_others)) => {
                    // Zeros come from the map, and reading that took an answer too. A fetch by another caller has reported
                    // its own answer.
                    if waited && !for_others {
                        self.is_well();
                    }
                    self.stalls.is_over(blocks);
                    self.look_at_damage();
                    return Ok(());
                }
                Err(PullError::Read(error))
                    if error.is_transient() && persistence.allows_after(backoff.tries() + 1) =>
                {
                    waited = true;
                    // Before the health changes: its watchers look at the stalls.
                    self.stalls.note(blocks, begun, error.to_string());
                    if persistence == Persistence::WhileAway && self.are_withheld(blocks) {
                        // The stall is recorded: the next caller that wants these blocks finds out in one try.
                        return Err(error.into());
                    }
                    self.health.send_modify(|health| health.note(error.to_string(), begun));
                    let hint = crate::retry::hint(&error);
                    let wish = match (hint, error.is_unreachable()) {
                        (_, true) => Wish::Open,
                        (Some(_), false) => Wish::Asked,
                        (None, false) => Wish::Unsaid,
                    };
                    self.pause(blocks, backoff.next(hint), wish).await;
                }
                Err(error) => {
                    self.stalls.is_over(blocks);
                    self.health.send_modify(|health| match &error {
                        PullError::Read(ReadError::Store(store)) if store.is_transient() => {
                            health.note(error.to_string(), begun);
                        }
                        // Nothing is damaged: the file was changed or removed.
                        PullError::Read(error) if error.is_gone() => {}
                        PullError::Read(_) => health.damage = Some((blocks, error.to_string())),
                        // The writer to the local disk reports its trouble.
                        PullError::Cache(_) | PullError::CacheFull(_) | PullError::Away => {}
                    });
                    return Err(error);
                }
            }
        }
    }

    /// Waits before the next try: less if a reader has come for the blocks, or if the store has answered others again.
    async fn pause(&self, blocks: BlockRange, pause: Duration, wish: Wish) {
        let least = match wish {
            Wish::Asked => pause,
            Wish::Open => Duration::from_millis(250),
            Wish::Unsaid => Duration::from_secs(1),
        };
        let mut health = self.health.subscribe();
        let reader = async {
            loop {
                let came = self.reader_came.notified();
                came.await;
                if self.queue.lock().is_awaited(blocks) {
                    return;
                }
            }
        };
        let sooner = async {
            tokio::select! {
                _ = health.wait_for(|health| health.trouble.is_none()), if wish == Wish::Open => {}
                () = reader => {}
            }
        };
        let begun = Instant::now();
        let _ = tokio::time::timeout(pause, sooner).await;
        tokio::time::sleep_until(begun + least.min(pause)).await;
    }

    /// Forgets damage once all of its blocks are here: it was repaired or overwritten.
    pub(crate) fn look_at_damage(&self) {
        // Every pull passes here.
        if self.health.borrow().damage.is_none() {
            return;
        }
        let is_here = |damage: &mut (BlockRange, String)| self.missing(damage.0).is_empty();
        self.health.send_if_modified(|health| health.damage.take_if(is_here).is_some());
    }

    /// The store has answered. (Zeros come without it and prove nothing.)
    pub(super) fn is_well(&self) {
        self.health.send_if_modified(Health::note_answer);
    }

    /// The store accepted a request at that time.
    pub fn heard(&self, at: Instant) {
        self.health.send_if_modified(|health| health.note_heard(at));
    }
}
