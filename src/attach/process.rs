//! Prepares a process that does the I/O of a block device on its own machine.
//!
//! When memory is short, the kernel writes dirty pages back, and some of them are on our drives: it then waits for us, while we may wait
//! for memory. Three measures here keep that from becoming a circle, together with the engine's bounded pools.

use rustix::mm::MlockAllFlags;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;
use std::io;

/// Descriptors that a daemon may need: a connection, a journal and a cache for each of 64 drives, and some hundreds of
/// connections to stores and clients.
const DESCRIPTORS: u64 = 16 * 1024;

/// A measure that failed; the daemon works without it, less safely when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Getting memory while writing back may require writing back.
    #[error("this process is no I/O flusher (it lacks CAP_SYS_RESOURCE): short memory may stall its drives")]
    NotFlusher,
    /// Our own pages may be swapped out or dropped, and must be read to serve a drive.
    #[error("this process's memory is not locked (it lacks CAP_IPC_LOCK): short memory may stall its drives")]
    NotLocked,
    /// A process has few descriptors by default.
    #[error("this process has at most {0} descriptors; many drives at once may need more")]
    FewDescriptors(u64),
}

/// Keeps cores of this process from being written or given to a core collector: keys, passphrases and files' contents are in its memory. As
/// a side effect, other processes of this user cannot read its memory either.
///
/// A limit alone is not enough: the kernel pipes a core to a collector (core(5)) whatever the limit is.
pub fn keep_memory_private() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Prepares this process to serve block devices. Call it before any thread is started: threads inherit the I/O flusher state from the
/// thread that starts them.
pub fn prepare_process() -> Vec<Warning> {
    let mut warnings = Vec::new();
    give_memory_back();
    if rustix::process::configure_io_flusher_behavior(true).is_err() {
        warnings.push(Warning::NotFlusher);
    }
    if !lock_memory() {
        warnings.push(Warning::NotLocked);
    }
    if let Err(warning) = raise_descriptors() {
        warnings.push(warning);
    }
    warnings
}

/// From this size on each buffer gets its own mapping, so that the buffers of pulls and pushes (8 MiB a segment) return to the system when
/// they are freed. By default, glibc raises this threshold to the largest buffer that was freed, and keeps later buffers in the arena of
/// each thread that asked: 127 MiB locked after an upload of 300 MiB, instead of 15.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: libc::c_int = 256 << 10;
/// Small pieces are freed by other threads than those that took them; with an arena for each thread, no arena ever becomes entirely free.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: both set a number in the allocator, before any thread is started.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

/// Pages stay once they were touched (ONFAULT): a thread's stack of 2 MiB costs what it uses.
fn lock_memory() -> bool {
    // With a limit there is no half measure: MCL_FUTURE makes the first mapping beyond it fail, such as a thread's stack.
    let capable =
        rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if !capable && getrlimit(Resource::Memlock).current.is_some() {
        return false;
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    rustix::mm::mlockall(flags).is_ok()
}

fn raise_descriptors() -> Result<(), Warning> {
    let limit = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= DESCRIPTORS);
    if enough(limit.current) {
        return Ok(());
    }
    let maximum = if enough(limit.maximum) { limit.maximum } else { Some(DESCRIPTORS) };
    let wanted = Rlimit { current: Some(DESCRIPTORS), maximum };
    if setrlimit(Resource::Nofile, wanted).is_ok() {
        return Ok(());
    }
    // Without rights, as far as allowed.
    let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let had = if setrlimit(Resource::Nofile, most).is_ok() { limit.maximum } else { limit.current };
    Err(Warning::FewDescriptors(had.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_core_is_kept_of_this_process() {
        keep_memory_private().unwrap();
        assert_eq!(rustix::process::dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        assert_eq!(getrlimit(Resource::Core).maximum, Some(0));
    }

    #[test]
    fn descriptors_are_raised_as_far_as_is_allowed() {
        let raised = raise_descriptors();
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        match raised {
            Ok(()) => assert!(limit >= DESCRIPTORS),
            Err(warning) => assert_eq!(warning, Warning::FewDescriptors(limit)),
        }
    }
}
