//! Waiting for earlier reads, with two counters that take turns. A read costs two atomic additions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Notify;

/// Counts reads in progress.
#[derive(Default)]
pub struct Holds {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    turn: AtomicUsize,
    active: [AtomicUsize; 2],
    drained: Notify,
}

/// A read in progress.
pub struct Hold {
    inner: Arc<Inner>,
    slot: usize,
}

impl Holds {
    /// Begins a read. Blocks that it then sees as valid stay in place while the hold lives: an eviction makes blocks
    /// invalid before it changes the turn. So a read of the new turn sees them invalid, and a read of the old turn is
    /// waited for.
    pub fn enter(&self) -> Hold {
        loop {
            let turn = self.inner.turn.load(SeqCst);
            self.inner.active[turn % 2].fetch_add(1, SeqCst);
            let hold = Hold { inner: self.inner.clone(), slot: turn % 2 };
            if self.inner.turn.load(SeqCst) == turn {
                return hold;
            }
            // The turn changed in between: the eviction may not wait for this count.
            drop(hold);
        }
    }

    /// Ready when every read that began before the call has ended. Only one caller at a time.
    pub async fn wait_for_earlier(&self) {
        let slot = self.inner.turn.fetch_add(1, SeqCst) % 2;
        loop {
            let mut drained = std::pin::pin!(self.inner.drained.notified());
            drained.as_mut().enable();
            if self.inner.active[slot].load(SeqCst) == 0 {
                return;
            }
            drained.await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.inner.active[self.slot].fetch_sub(1, SeqCst) == 1 {
            self.inner.drained.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn waits_only_for_earlier_reads() {
        let holds = Holds::default();
        for _ in 0..3 {
            let earlier = holds.enter();
            let mut wait = Box::pin(holds.wait_for_earlier());
            assert!(tokio::time::timeout(Duration::from_secs(1), &mut wait).await.is_err());
            let _later = holds.enter();
            drop(earlier);
            assert!(tokio::time::timeout(Duration::from_secs(1), wait).await.is_ok());
        }
    }
}
