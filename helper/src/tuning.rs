//! How much of a drive the kernel may keep in memory unwritten, and how far it reads ahead.

use super::held::Held;
use super::{Refused, Target};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How many bytes of dirty pages of a drive the kernel may hold. This bounds what umount, freeze and shutdown must write at the end, and
/// the journal keeps a reserve of this size for it. Without a limit it is a fifth of all memory.
pub const DIRTY_LIMIT_BYTES: u64 = 256 << 20;

/// The same as for the loop device: two requests of the largest size. The engine, which sees the stream, reads further ahead.
const READ_AHEAD_KB: u64 = holdall_kernel::loopdev::READ_AHEAD_BYTES >> 10;

/// What could be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// Dirty pages are limited to [`DIRTY_LIMIT_BYTES`]; false on kernels before 6.2, which have no limit in bytes.
    pub dirty_limited: bool,
    /// The read-ahead is set.
    pub read_ahead: bool,
}

/// Sets what the kernel allows to be set; a device works without it.
pub(super) fn tune(target: &Target) -> Result<Tuned, Refused> {
    target.verify()?;
    let _held = Held::of(target)?;
    let bdi = Path::new("/sys/class/bdi").join(target.number()?.to_string());
    let set = |file: &str, value: u64| std::fs::write(bdi.join(file), value.to_string());
    let dirty_limited = match set("max_bytes", DIRTY_LIMIT_BYTES) {
        // Without strict_limit the limit counts only when the whole system has many dirty pages.
        Ok(()) => set("strict_limit", 1).is_ok(),
        // The whole system's limit may be below this one already (mm/page-writeback.c, bdi_set_max_bytes).
        Err(error) => error.raw_os_error() == Some(libc::EINVAL),
    };
    Ok(Tuned { dirty_limited, read_ahead: set("read_ahead_kb", READ_AHEAD_KB).is_ok() })
}
