//! The time of day, which is shown to people. Nothing depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in ms.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}
