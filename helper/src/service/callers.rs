//! Counts the processes that run for each user now: nobody gets more than a share, and with none the helper may end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// For one user: 64 drives that are all frozen at once, and some more.
const PROCESSES_MAX: usize = 96;

/// How many processes run for each user.
#[derive(Clone, Debug)]
pub(super) struct Callers(Arc<watch::Sender<BTreeMap<u32, usize>>>);

/// One process's share, held until dropped.
#[derive(Debug)]
pub(super) struct Share {
    callers: Callers,
    uid: u32,
}

impl Default for Callers {
    fn default() -> Self {
        Callers(Arc::new(watch::Sender::new(BTreeMap::new())))
    }
}

impl Callers {
    /// Counts one more process for the user; `None` if the user already has the most allowed.
    pub(super) fn enter(&self, uid: u32) -> Option<Share> {
        let entered = self.0.send_if_modified(|running| {
            let number = running.entry(uid).or_default();
            let has_room = *number < PROCESSES_MAX;
            *number += usize::from(has_room);
            has_room
        });
        entered.then(|| Share { callers: self.clone(), uid })
    }

    /// Waits until there was nothing to do for `time`.
    pub(super) async fn idle(&self, time: Duration) {
        let mut running = self.0.subscribe();
        // The sender is ours, so these calls do not fail.
        loop {
            let _ = running.wait_for(BTreeMap::is_empty).await;
            let busy = running.wait_for(|running| !running.is_empty());
            if tokio::time::timeout(time, busy).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.callers.0.send_modify(|running| {
            if let Some(number) = running.get_mut(&self.uid) {
                *number -= 1;
                if *number == 0 {
                    running.remove(&self.uid);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_use_up_another_users_share() {
        let callers = Callers::default();
        let mut shares: Vec<_> = (0..PROCESSES_MAX).map(|_| callers.enter(1000).unwrap()).collect();
        assert!(callers.enter(1000).is_none());
        assert!(callers.enter(1001).is_some());
        shares.pop();
        assert!(callers.enter(1000).is_some());
        drop(shares);
        assert!(callers.0.borrow().is_empty());
    }
}
