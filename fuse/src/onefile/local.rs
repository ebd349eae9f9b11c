//! Answers a read whose bytes are local: in memory, or on a disk that takes its time.
//!
//! The thread that took the request copies bytes that are in memory: no task switch. Bytes that have to come from the local disk would stop
//! that thread, and a disk is slow if it never gets more requests at once than there are readers. So while another reader waits for
//! requests, this one may wait for the disk (a lone reader of the drive then pays no task switch either). The last reader hands such a read
//! to a thread of the runtime.

use super::buffer::with_thread_buffer;
use super::session::Session;
use super::ticket::Ticket;
use holdall_core::device::{Piece, ReadLease};
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many reads may wait for the local disk on threads of the runtime; the next one waits where it is. This fills the queue of an
/// ordinary solid-state disk.
const DISK_READS_MAX: usize = 32;

/// Longer reads leave by reference, in parts for which the kernel reads ahead: a few at a time keep a disk busy.
const HANDED_ON_BYTES_MAX: usize = 64 << 10;

/// The reads that wait for the disk on threads of the runtime.
#[derive(Default)]
pub(super) struct DiskReads(Arc<AtomicUsize>);

struct DiskRead(Arc<AtomicUsize>);

impl DiskReads {
    fn begin(&self) -> Option<DiskRead> {
        // This is dropped, and counts back, if it is one too many.
        let begun = DiskRead(Arc::clone(&self.0));
        (self.0.fetch_add(1, Ordering::Relaxed) < DISK_READS_MAX).then_some(begun)
    }
}

impl Drop for DiskRead {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    /// For a reader thread: answers with the `len` bytes of the lease.
    pub(super) fn reply_local(&self, ticket: Ticket, lease: ReadLease, len: usize) {
        if len > HANDED_ON_BYTES_MAX || self.another_reader_waits() {
            return reply_lease(ticket, &lease, len);
        }
        let copied = with_thread_buffer(len, |bytes| match copy_resident(&lease, bytes) {
            true => {
                ticket.ok(bytes);
                None
            }
            false => Some(ticket),
        });
        let Some(ticket) = copied else { return };
        let Some(begun) = self.disk_reads.begin() else {
            return reply_lease(ticket, &lease, len);
        };
        let in_flight = self.in_flight();
        self.runtime.spawn_blocking(move || {
            reply_lease(ticket, &lease, len);
            drop((begun, in_flight));
        });
    }
}

/// Answers with the `len` bytes of the lease, and waits for the disk where it has to.
pub(super) fn reply_lease(ticket: Ticket, lease: &ReadLease, len: usize) {
    let Err(ticket) = ticket.ok_by_reference(lease, len) else {
        return;
    };
    with_thread_buffer(len, |bytes| match lease.copy_to(bytes) {
        Ok(()) => ticket.ok(bytes),
        Err(error) => ticket.failed(&error),
    });
}

/// Copies the lease's bytes if all of them are certainly in memory; otherwise `bytes` are arbitrary. The read that may wait meets any error
/// again, and reports it.
fn copy_resident(lease: &ReadLease, mut bytes: &mut [u8]) -> bool {
    lease.pieces().iter().all(|piece| {
        let (head, tail) = std::mem::take(&mut bytes).split_at_mut(piece.len() as usize);
        bytes = tail;
        match piece {
            Piece::Zero { .. } => {
                head.fill(0);
                true
            }
            Piece::File { file, offset, .. } => file.as_file().is_some_and(|file| {
                let len = head.len();
                let read =
                    rustix::io::preadv2(file, &mut [IoSliceMut::new(head)], *offset, ReadWriteFlags::NOWAIT);
                read == Ok(len)
            }),
        }
    })
}
