//! The page's unanswered requests, by the number that the page gave them.

use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::task::AbortHandle;

/// The requests and streams that are running.
#[derive(Debug, Default)]
pub struct Calls {
    // Held for one look-up.
    running: Mutex<HashMap<u64, AbortHandle>>,
}

impl Calls {
    /// Adds a call that has begun.
    pub fn begun(&self, id: u64, call: AbortHandle) {
        if let Some(before) = self.running.lock().insert(id, call) {
            before.abort();
        }
    }

    /// Removes a call that has ended.
    pub fn done(&self, id: u64) {
        self.running.lock().remove(&id);
    }

    /// Ends a call for which nobody waits any longer. The daemon still finishes work that would be left half done.
    pub fn end(&self, id: u64) {
        if let Some(call) = self.running.lock().remove(&id) {
            call.abort();
        }
    }

    /// Ends all calls: their page is gone, and the next one counts from the beginning.
    pub fn end_all(&self) {
        self.running.lock().drain().for_each(|(_, call)| call.abort());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[test]
    fn calls_without_a_waiter_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let calls = Calls::default();
            let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(pending::<()>())).collect();
            for (id, task) in tasks.iter().enumerate() {
                calls.begun(id as u64, task.abort_handle());
            }
            calls.end(1);
            calls.end(7);
            tokio::task::yield_now().await;
            let ended: Vec<_> = tasks.iter().map(tokio::task::JoinHandle::is_finished).collect();
            assert_eq!(ended, [false, true, false]);
            calls.end_all();
            for task in tasks {
                assert!(task.await.unwrap_err().is_cancelled());
            }
        });
    }
}
