//! How full a drive's file system is.
//!
//! Only the mounted file system knows, and asking it may wait for the drive, that is for us. A process of its own asks,
//! with a deadline; one at a time for each drive, and not again while one that was given up hangs in the kernel. So a
//! drive that is stuck costs its figure and nothing else.

use super::opened::Place;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For so long a figure is new. A process for it takes milliseconds; events ask four times a second.
const NEW: Duration = Duration::from_secs(1);
/// So long whoever asks waits for a new figure before it takes the old one.
const PATIENCE: Duration = Duration::from_millis(200);

/// The last figure of a drive.
#[derive(Default)]
pub(in crate::daemon) struct Usage(Mutex<Known>);

#[derive(Default)]
struct Known {
    used_bytes: u64,
    /// When it was asked for.
    at: Option<Instant>,
    asking: bool,
}

impl Usage {
    /// Bytes that files take; the last figure where no newer one is to be had at once.
    pub(in crate::daemon) async fn used_bytes(self: &Arc<Self>, place: &Place) -> u64 {
        if self.begin() {
            let (usage, mounted) = (self.clone(), place.mounted.clone());
            let asking = tokio::task::spawn_blocking(move || {
                let answer = mounted.usage();
                let mut known = usage.0.lock();
                (known.asking, known.at) = (false, Some(Instant::now()));
                match answer {
                    Ok(answer) => known.used_bytes = answer.used_bytes,
                    Err(error) => tracing::debug!(%error, "it is not known how full a drive is"),
                }
            });
            // It goes on, and its figure is the next one's.
            let _ = tokio::time::timeout(PATIENCE, asking).await;
        }
        self.0.lock().used_bytes
    }

    /// Whether the caller is to ask.
    fn begin(&self) -> bool {
        let mut known = self.0.lock();
        let asks = !known.asking && known.at.is_none_or(|at| at.elapsed() >= NEW);
        known.asking |= asks;
        asks
    }
}
