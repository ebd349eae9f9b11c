//! The time of day, which is shown to people. No data depends on it: a wrong clock can at most abandon a clone that is being made
//! (`drive::abandon_clones`), and then the person is told to make it again.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in ms.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}
