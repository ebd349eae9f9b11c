//! How long a reader waits for blocks that do not come.

use super::Puller;
use super::source::Source;
use crate::units::BlockRange;
use std::time::Duration;
use tokio::time::Instant;

/// For this long after the store went away, reads of files' data that is not here wait ...
const AWAY_PATIENCE: Duration = Duration::from_secs(60);
/// ... and later each waits this long, since the store may be back ...
const READER_PATIENCE: Duration = Duration::from_secs(2);
/// ... but fails at once if a pull has failed within this time. A program that reads one file after another would wait for each.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// How often a waiting reader checks whether it should still wait.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl<S: Source> Puller<S> {
    /// Waits for a pull of the blocks. While the store is away or does not give them, the wait is bounded if the reader `may_fail`: if
    /// all of the blocks are data of files, since a program can handle an error there.
    ///
    /// # Errors
    ///
    /// The reason why the blocks do not come.
    pub(crate) async fn in_time<T>(
        &self,
        blocks: BlockRange,
        may_fail: impl Fn() -> bool,
        pull: impl Future<Output = T>,
    ) -> Result<T, String> {
        tokio::pin!(pull);
        let begun = Instant::now();
        loop {
            if let Some(trouble) = self.given_up(blocks, begun.elapsed()).filter(|_| may_fail()) {
                return Err(trouble);
            }
            let pause = tokio::time::sleep(LOOK_EVERY);
            tokio::select! { biased;
                pulled = &mut pull => return Ok(pulled),
                () = pause => {}
            }
        }
    }

    /// The reason why a reader that has waited this long for blocks stops waiting, if it may fail.
    fn given_up(&self, blocks: BlockRange, waited: Duration) -> Option<String> {
        let (trouble, since, failed) = self.trouble_of(blocks)?;
        let is_over =
            since.elapsed() >= AWAY_PATIENCE && (waited >= READER_PATIENCE || failed.elapsed() < KNOWN_FOR);
        is_over.then_some(trouble)
    }
}
