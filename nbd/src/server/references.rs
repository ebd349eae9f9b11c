//! Leases of bytes that were sent by reference.
//!
//! sendfile on a Unix socket queues references to the file's pages and returns; the client copies them when it reads. Until then the place
//! in the file must not be punched: a hole in a large folio is zeroed in place, and the client would receive zeros. (Overwriting does no
//! harm: such a write is concurrent with the read.) So a lease is held until the kernel reports that few enough of the sent bytes are still
//! queued. On TCP the kernel reports what is acknowledged, which on loopback is not what the client has taken: there, bytes are copied.

use holdall_core::device::ReadLease;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

/// The most leases of one connection. Beyond that, reads are copied until the client has caught up.
const LEASES_MAX: usize = 64;

/// The places in files to which a socket still refers.
#[derive(Default)]
pub(super) struct References {
    sent_bytes: u64,
    // Each lease with the value of `sent_bytes` when its last byte had been queued.
    held: VecDeque<(u64, ReadLease)>,
}

impl References {
    /// Counts queued bytes, of any kind.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Whether another lease may be held.
    pub(super) fn has_room(&self) -> bool {
        self.held.len() < LEASES_MAX
    }

    /// Holds a lease whose bytes have just been queued.
    pub(super) fn hold(&mut self, lease: ReadLease) {
        self.held.push_back((self.sent_bytes, lease));
    }

    /// Releases what the client has taken; returns how many leases are left.
    pub(super) fn release_taken(&mut self, socket: &OwnedFd) -> usize {
        if !self.held.is_empty() {
            let queued = queued_bytes(socket);
            while self.held.front().is_some_and(|(end, _)| end.saturating_add(queued) <= self.sent_bytes) {
                self.held.pop_front();
            }
        }
        self.held.len()
    }
}

/// An upper bound on the bytes that the peer of a Unix socket has yet to take: the kernel counts its own overhead, and a buffer that was
/// taken in part counts whole. Too high a number only holds a lease longer.
fn queued_bytes(socket: &OwnedFd) -> u64 {
    let mut queued: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (TIOCOUTQ is its other name) writes one int.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
    if result == 0 { u64::try_from(queued).unwrap_or(u64::MAX) } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    #[test]
    fn a_lease_is_held_until_the_peer_has_taken_its_bytes() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let socket = OwnedFd::from(ours.try_clone().unwrap());
        let mut references = References::default();
        let alive = [Arc::new(()), Arc::new(())];
        for hold in &alive {
            ours.write_all(&[1; 5000]).unwrap();
            references.sent(5000);
            references.hold(ReadLease::new(Vec::new(), hold.clone()));
        }
        assert_eq!(references.release_taken(&socket), 2);
        theirs.read_exact(&mut [0; 4999]).unwrap();
        assert_eq!(references.release_taken(&socket), 2, "a byte of it is still on its way");
        theirs.read_exact(&mut [0; 5000]).unwrap();
        assert!(Arc::strong_count(&alive[1]) == 2, "the second is not taken");
        theirs.read_exact(&mut [0; 1]).unwrap();
        assert_eq!(references.release_taken(&socket), 0);
        assert_eq!(Arc::strong_count(&alive[0]), 1);
    }
}
