//! The first exchange with the kernel: what it offers, and what a folder takes of it.

use fuser::{InitFlags, KernelConfig};
use serde::{Deserialize, Serialize};

/// The block size that `stat` and `statfs` name.
pub(super) const MOUNT_BLOCK_BYTES: u32 = 4096;

/// The largest read and write: FUSE's own limit of 256 pages, which must not be exceeded before Linux 6.13.
pub(super) const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// How many readaheads, asynchronous reads and releases the kernel may have with us at a time. Its default of 12 would let a few slow
/// downloads hold up every other file.
const BACKGROUND_MAX: u16 = 256;

/// Of how many file systems, one on top of the other, the local disk may be the second: it may be an overlay itself.
const STACK_DEPTH: u32 = 2;

/// What is taken wherever the kernel has it. Not taken: `WRITEBACK_CACHE`, which excludes passthrough and would make sizes and times the
/// kernel's; `POSIX_LOCKS` and `FLOCK_LOCKS`, so that locks stay in the kernel; `AUTO_INVAL_DATA`, since the engine says what is stale.
const WANTED: [InitFlags; 11] = [
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_ABORT_ERROR,
    InitFlags::FUSE_HAS_RESEND,
    InitFlags::FUSE_PASSTHROUGH,
];

/// What fuser takes by itself.
const TAKEN: InitFlags =
    InitFlags::FUSE_ASYNC_READ.union(InitFlags::FUSE_BIG_WRITES).union(InitFlags::FUSE_MAX_PAGES);

/// What was agreed. It holds until the connection ends, whichever process serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreed {
    /// The kernel's minor version of FUSE 7.
    pub minor: u32,
    /// What we took of what it offered (`FUSE_*` in include/uapi/linux/fuse.h).
    pub flags: u64,
}

impl Agreed {
    /// The kernel can read and write local files by itself.
    pub fn passes_through(&self) -> bool {
        self.has(InitFlags::FUSE_PASSTHROUGH)
    }

    /// The kernel can repeat requests that were taken but not answered (Linux 6.9).
    pub fn resends(&self) -> bool {
        self.has(InitFlags::FUSE_HAS_RESEND)
    }

    fn has(&self, flag: InitFlags) -> bool {
        InitFlags::from_bits_retain(self.flags).contains(flag)
    }

    /// The request that begins a connection (`fuse_in_header` and `fuse_init_in`), as a kernel sends it that offers just this.
    pub(super) fn init_request(&self) -> Vec<u8> {
        const INIT: u32 = 26;
        const BYTES: u32 = 104;
        const READAHEAD_BYTES: u32 = 128 << 10;
        let flags = self.flags | InitFlags::FUSE_INIT_EXT.bits();
        let mut request = [BYTES.to_ne_bytes(), INIT.to_ne_bytes()].concat();
        // The request's number; inode, ids and padding.
        request.extend(1u64.to_ne_bytes());
        request.extend([0; 24]);
        let words = [7, self.minor, READAHEAD_BYTES, flags as u32, (flags >> 32) as u32];
        request.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        request.resize(BYTES as usize, 0);
        request
    }
}

/// Takes from the kernel's offer what a folder needs.
pub(super) fn agree(offer: &mut KernelConfig) -> Agreed {
    let mut taken = TAKEN & offer.capabilities();
    for flag in WANTED {
        match offer.add_capabilities(flag) {
            Ok(()) => taken |= flag,
            // An older kernel does without, and everything works, more slowly.
            Err(missing) => tracing::debug!(?missing, "the kernel's FUSE lacks something"),
        }
    }
    let limits = [
        offer.set_max_write(REQUEST_BYTES_MAX).is_ok(),
        offer.set_max_background(BACKGROUND_MAX).is_ok(),
        offer.set_max_stack_depth(STACK_DEPTH).is_ok(),
    ];
    assert_eq!(limits, [true; 3], "these are within FUSE's limits");
    Agreed { minor: offer.kernel_abi().1, flags: taken.bits() }
}
