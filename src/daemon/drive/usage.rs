//! How full a drive's file system is.
//!
//! Only the mounted file system knows, and asking it may wait for the drive, which means for us. A separate process asks, with a deadline;
//! one at a time for each drive, and none while an abandoned one hangs in the kernel. So a drive that is stuck costs its figure and nothing
//! else.

use super::opened::Place;
use crate::api::Action;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A figure stays fresh for this long. A process for it takes milliseconds; events ask four times a second.
const NEW: Duration = Duration::from_secs(1);
/// A caller waits this long for a new figure before it takes the old one.
const PATIENCE: Duration = Duration::from_millis(200);

/// From this percentage on, a person gets a warning: enough is left to act.
const FULL_FROM_PERCENT: u64 = 90;

/// The resource that a file system is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) enum Full {
    /// Space.
    Bytes {
        /// Percent used.
        percent: u64,
        /// Left for its user.
        available: u64,
    },
    /// Inodes: each file, directory and link takes one, however small it is.
    Inodes {
        /// Percent used.
        percent: u64,
        /// All of them.
        total: u64,
    },
}

impl Full {
    /// Inodes first: a person with free bytes does not expect to run out of space.
    pub(in crate::daemon) fn of(usage: &holdall_helper::Usage) -> Option<Self> {
        let percent = |used: u64, total: u64| {
            let percent = u128::from(used) * 100 / u128::from(total.max(1));
            Some(percent as u64).filter(|percent| total > 0 && *percent >= FULL_FROM_PERCENT)
        };
        let total = usage.total_inodes;
        let inodes = percent(total.saturating_sub(usage.free_inodes), total);
        let available = usage.available_bytes;
        let bytes = percent(usage.used_bytes, usage.used_bytes.saturating_add(available));
        inodes
            .map(|percent| Full::Inodes { percent, total })
            .or_else(|| bytes.map(|percent| Full::Bytes { percent, available }))
    }

    /// The reason as part of a sentence.
    pub(in crate::daemon) fn reason(self) -> String {
        match self {
            Full::Bytes { percent, available } => {
                format!("the drive is {percent} % full: {} is left", crate::sizes::format_bytes(available))
            }
            Full::Inodes { percent, total } => format!(
                "the drive holds {percent} % of the {total} files and folders that it can hold, however small they are"
            ),
        }
    }

    /// The remedy.
    pub(in crate::daemon) fn action(self, name: &str) -> Action {
        Action::Grow { drive: Some(name.to_owned()) }
    }
}

/// The last figure of a drive.
#[derive(Default)]
pub(in crate::daemon) struct Usage(Mutex<Known>);

#[derive(Default)]
struct Known {
    used_bytes: u64,
    full: Option<Full>,
    /// When it was last asked for.
    at: Option<Instant>,
    asking: bool,
}

impl Usage {
    /// The figure as it was last known; 0 if it is not known.
    pub(super) fn last_used_bytes(&self) -> u64 {
        self.0.lock().used_bytes
    }

    /// Bytes that files take; the last figure if no newer one is available soon.
    pub(in crate::daemon) async fn used_bytes(self: &Arc<Self>, place: &Place) -> u64 {
        if self.begin() {
            let (usage, mounted) = (self.clone(), place.mounted.clone());
            let asking = tokio::task::spawn_blocking(move || {
                let answer = mounted.usage();
                let mut known = usage.0.lock();
                (known.asking, known.at) = (false, Some(Instant::now()));
                match answer {
                    Ok(answer) => (known.used_bytes, known.full) = (answer.used_bytes, Full::of(&answer)),
                    Err(error) => tracing::debug!(%error, "the used space of a drive is unknown"),
                }
            });
            // The task continues, and the next caller gets its figure.
            let _ = tokio::time::timeout(PATIENCE, asking).await;
        }
        self.0.lock().used_bytes
    }

    /// The resource that the file system is short of, by the last figure.
    pub(in crate::daemon) fn full(&self) -> Option<Full> {
        self.0.lock().full
    }

    /// Whether the caller must ask.
    fn begin(&self) -> bool {
        let mut known = self.0.lock();
        let asks = !known.asking && known.at.is_none_or(|at| at.elapsed() >= NEW);
        known.asking |= asks;
        asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_warns_from_ninety_per_cent_on() {
        let usage = |used_bytes, available_bytes, total_inodes, free_inodes| holdall_helper::Usage {
            total_bytes: used_bytes + available_bytes,
            used_bytes,
            available_bytes,
            total_inodes,
            free_inodes,
        };
        assert_eq!(Full::of(&usage(89, 11, 100, 11)), None);
        assert_eq!(Full::of(&usage(90, 10, 100, 50)), Some(Full::Bytes { percent: 90, available: 10 }));
        assert_eq!(Full::of(&usage(1, 99, 100, 10)), Some(Full::Inodes { percent: 90, total: 100 }));
        assert_eq!(Full::of(&usage(100, 0, 100, 0)), Some(Full::Inodes { percent: 100, total: 100 }));
        // The answer of an older service, or of a file system that counts no inodes.
        assert_eq!(Full::of(&usage(0, 0, 0, 0)), None);
        assert!(Full::of(&usage(u64::MAX - 1, 1, u64::MAX, 0)).is_some());
    }
}
