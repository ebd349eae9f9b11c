//! What the page has asked for and has no answer of yet, by the number that it gave.

use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::task::AbortHandle;

/// Requests and streams that are under way.
#[derive(Debug, Default)]
pub struct Calls {
    // Held for a look-up.
    running: Mutex<HashMap<u64, AbortHandle>>,
}

impl Calls {
    /// It has begun.
    pub fn begun(&self, id: u64, call: AbortHandle) {
        if let Some(before) = self.running.lock().insert(id, call) {
            before.abort();
        }
    }

    /// It has come to its end.
    pub fn done(&self, id: u64) {
        self.running.lock().remove(&id);
    }

    /// Nobody waits for it any more. What would be left half done goes on to its end in the daemon.
    pub fn end(&self, id: u64) {
        if let Some(call) = self.running.lock().remove(&id) {
            call.abort();
        }
    }

    /// The page that has asked is gone, and the next one counts anew.
    pub fn end_all(&self) {
        self.running.lock().drain().for_each(|(_, call)| call.abort());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[test]
    fn what_nobody_waits_for_ends() {
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
