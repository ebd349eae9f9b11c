//! Trying again: a store that cannot be reached is waited for, and whoever reads knows since when.

use super::fetch::Waited;
use super::sink::Sink;
use super::{PullError, Puller};
use crate::retry::Backoff;
use crate::units::BlockRange;
use std::time::Duration;
use tokio::time::Instant;

/// Whether the store answers pulls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why pulls wait or fail; `None` while all is well.
    pub trouble: Option<String>,
    /// Since when they do: since the first of them began, which may have waited long for an answer.
    pub since: Option<Instant>,
    /// When the store answered last.
    answered: Option<Instant>,
}

impl Health {
    /// Once more no answer came, to what was asked at `begun`.
    fn note(&mut self, trouble: String, begun: Instant) {
        /// A store that is connected to and says nothing is given up within this. What takes longer is slow, and was
        /// answering meanwhile.
        const SILENCE_MAX: Duration = Duration::from_secs(30);
        self.trouble = Some(trouble);
        let (answered, now) = (self.answered, Instant::now());
        self.since.get_or_insert_with(|| {
            let silent = now.checked_sub(SILENCE_MAX).map_or(begun, |earliest| begun.max(earliest));
            answered.map_or(silent, |answered| silent.max(answered))
        });
    }

    /// The store has answered. Whether it did not before.
    fn note_answer(&mut self) -> bool {
        self.answered = Some(Instant::now());
        self.since = None;
        self.trouble.take().is_some()
    }
}

impl Puller {
    /// Ready once nobody waits for the blocks any more while the store does not answer. What it is answering comes, wanted or not.
    pub(super) async fn left_while_away(&self, blocks: BlockRange) {
        let mut health = self.health.subscribe();
        loop {
            let has_left = self.reader_left.notified();
            if health.borrow_and_update().trouble.is_some() && !self.queue.lock().is_awaited(blocks) {
                return;
            }
            tokio::select! {
                () = has_left => {}
                changed = health.changed() => changed.expect("the sender lives as long as the puller"),
            }
        }
    }

    /// Whether the store has been away for long enough not to be asked for what is only likely to be read: by the time that it is
    /// back somebody reads something else, behind which this would come.
    pub(super) fn is_away(&self) -> bool {
        const LONG: Duration = Duration::from_secs(10);
        self.health.borrow().since.is_some_and(|since| since.elapsed() >= LONG)
    }

    /// Pulls until it succeeds or cannot succeed, or has been tried so often.
    pub(super) async fn pull_until_done(
        &self,
        blocks: BlockRange,
        sink: &impl Sink,
        tries: u32,
    ) -> Result<(), PullError> {
        let mut backoff = Backoff::new();
        let mut waited = false;
        loop {
            let begun = Instant::now();
            match self.pull(blocks, sink).await {
                Ok(Waited(for_others)) => {
                    // Zeros come from the map, which took an answer. Who has fetched the rest has told of it.
                    if waited && !for_others {
                        self.is_well();
                    }
                    return Ok(());
                }
                Err(PullError::Read(error)) if error.is_transient() && backoff.tries() + 1 < tries => {
                    waited = true;
                    self.health.send_modify(|health| health.note(error.to_string(), begun));
                    self.pause(blocks, backoff.next(crate::retry::hint(&error)), error.is_unreachable())
                        .await;
                }
                Err(error) => {
                    self.health.send_modify(|health| health.note(error.to_string(), begun));
                    return Err(error);
                }
            }
        }
    }

    /// Waits before the next try: shorter where it was the way to the store that failed, and others have found it open again, or
    /// a reader has come for the blocks. What a store asks for is kept.
    async fn pause(&self, blocks: BlockRange, pause: Duration, is_unreachable: bool) {
        /// At least.
        const LEAST: Duration = Duration::from_millis(250);
        if !is_unreachable {
            return tokio::time::sleep(pause).await;
        }
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
                _ = health.wait_for(|health| health.trouble.is_none()) => {}
                () = reader => {}
            }
        };
        let begun = Instant::now();
        let _ = tokio::time::timeout(pause, sooner).await;
        tokio::time::sleep_until(begun + LEAST.min(pause)).await;
    }

    /// The store has answered. (Zeros come without it, and say nothing about it.)
    pub(super) fn is_well(&self) {
        self.health.send_if_modified(Health::note_answer);
    }
}
