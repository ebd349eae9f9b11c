//! One turn at a time for each inode: what moves a file's bytes between the cache and the contents, or decides how it is opened, waits for
//! its turn. Reads and writes of open files need none.

use super::node::Ino;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::OwnedMutexGuard;

/// The turns of all inodes.
#[derive(Default)]
pub(super) struct Turns {
    // Held to find or add one.
    locks: Mutex<HashMap<Ino, Weak<tokio::sync::Mutex<()>>>>,
}

/// A turn, which lasts until it is dropped.
pub(super) type Turn = OwnedMutexGuard<()>;

/// Forgotten turns are swept when this many are kept.
const SWEEP_AT: usize = 1024;

impl Turns {
    /// Waits for the inode's turn.
    pub async fn of(&self, ino: Ino) -> Turn {
        let lock = {
            let mut locks = self.locks.lock();
            if locks.len() >= SWEEP_AT {
                locks.retain(|_, lock| lock.strong_count() > 0);
            }
            let kept = locks.entry(ino).or_default();
            kept.upgrade().unwrap_or_else(|| {
                let lock = Arc::new(tokio::sync::Mutex::new(()));
                *kept = Arc::downgrade(&lock);
                lock
            })
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_same_inode_waits() {
        let turns = Turns::default();
        let first = turns.of(Ino(2)).await;
        let _other = turns.of(Ino(3)).await;
        let waits = tokio::time::timeout(std::time::Duration::from_millis(10), turns.of(Ino(2))).await;
        assert!(waits.is_err());
        drop(first);
        turns.of(Ino(2)).await;
    }
}
