//! Each request becomes one call of the device, or one constant answer. Nothing is decided here.

use super::FILE_NAME;
use super::init::MAX_REQUEST_BYTES;
use super::local::reply_lease;
use super::session::Session;
use super::ticket::Ticket;
use crate::wire::reply::{self, Attributes};
use crate::wire::{Operation, ROOT_NODE, Request, SETATTR_SIZE};
use holdall_core::device::{Answer, Durability, Zeroing};
use rustix::io::Errno;

/// The inode of the file.
const FILE_NODE: u64 = 2;

const PUNCH_HOLE: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32 | libc::FALLOC_FL_KEEP_SIZE as u32;
const ZERO_RANGE: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;
const ZERO_RANGE_KEEP_SIZE: u32 = libc::FALLOC_FL_ZERO_RANGE as u32 | libc::FALLOC_FL_KEEP_SIZE as u32;

impl Session {
    /// Serves one message.
    pub(super) fn serve(&self, message: &[u8]) {
        let request = match Request::decode(message) {
            Ok(request) => request,
            Err(malformed) => {
                tracing::error!(%malformed, "a message was not understood");
                if let Some(unique) = malformed.unique {
                    self.ticket(unique).error(Errno::PROTO);
                }
                return;
            }
        };
        tracing::trace!(%request);
        let ticket = self.ticket(request.unique);
        match request.operation {
            Operation::Read { offset, size } => self.read(ticket, offset, size),
            Operation::Write { offset, data } => self.write(ticket, offset, data),
            Operation::Fsync => self.flush(ticket),
            Operation::Fallocate { offset, length, mode } => self.zero(ticket, offset, length, mode),
            Operation::Lookup { name } if request.node == ROOT_NODE && name == FILE_NAME.as_bytes() => {
                ticket.ok(&reply::entry(&self.attributes(FILE_NODE)));
            }
            Operation::Lookup { .. } => ticket.error(Errno::NOENT),
            Operation::GetAttr => ticket.ok(&reply::attributes(&self.attributes(request.node))),
            Operation::SetAttr { valid, size } => self.set_attributes(ticket, request.node, valid, size),
            Operation::Open { flags } => self.open(ticket, flags),
            Operation::OpenDir => ticket.ok(&reply::opened()),
            Operation::ReadDir { offset, size } => {
                let entries = [
                    (ROOT_NODE, u32::from(libc::DT_DIR), "."),
                    (ROOT_NODE, u32::from(libc::DT_DIR), ".."),
                    (FILE_NODE, u32::from(libc::DT_REG), FILE_NAME),
                ];
                ticket.ok(&reply::directory(&entries, offset, size));
            }
            Operation::StatFs => ticket.ok(&reply::statfs(self.device.geometry().size_bytes / 4096)),
            Operation::Nothing => ticket.ok(&[]),
            Operation::Silent => ticket.abandon(),
            // A connection begins only once, and has done so.
            Operation::Init(_) => ticket.error(Errno::PROTO),
            // After ENOSYS the kernel does without the operation, and mostly does not ask again (INTERRUPT, LSEEK, xattrs, ioctl).
            Operation::Unknown { .. } => ticket.error(Errno::NOSYS),
        }
    }

    /// Answers all of the range that lies before the end: the loop device would read a shorter answer as zeros.
    fn read(&self, ticket: Ticket, offset: u64, size: u32) {
        if size > MAX_REQUEST_BYTES {
            return ticket.error(Errno::INVAL);
        }
        let device_end = self.device.geometry().size_bytes;
        let end = offset.saturating_add(u64::from(size)).min(device_end);
        if offset >= end {
            return ticket.ok(&[]);
        }
        let len = (end - offset) as usize;
        match self.device.read(offset..end) {
            Answer::Now(Ok(lease)) => self.reply_local(ticket, lease, len),
            answer => self.settle(ticket, answer, move |ticket, lease| match lease {
                Ok(lease) => reply_lease(ticket, &lease, len),
                Err(error) => ticket.failed(&error),
            }),
        }
    }

    fn write(&self, ticket: Ticket, offset: u64, data: &[u8]) {
        let len = data.len() as u32;
        // FUSE has no FUA: if a write must be durable, an FSYNC follows it.
        let answer = self.device.write(offset, data, Durability::Ordered);
        self.settle(ticket, answer, move |ticket, result| match result {
            Ok(()) => ticket.ok(&reply::written(len)),
            Err(error) => ticket.failed(&error),
        });
    }

    /// While another reader takes requests, this one waits for the disk itself.
    fn flush(&self, ticket: Ticket) {
        if self.another_reader_waits()
            && let Some(flushed) = self.device.flush_here()
        {
            return ticket.done(flushed);
        }
        self.settle(ticket, self.device.flush(), Ticket::done);
    }

    /// A hole is zeros that free their space, not a hint like a discard: the loop device turns both BLKDISCARD and a REQ_OP_WRITE_ZEROES
    /// that may unmap into the same punch (drivers/block/loop.c), and ext4 relies on the zeros of the latter.
    fn zero(&self, ticket: Ticket, offset: u64, length: u64, mode: u32) {
        let how = match mode {
            PUNCH_HOLE => Zeroing::MayPunch,
            ZERO_RANGE | ZERO_RANGE_KEEP_SIZE => Zeroing::KeepSpace,
            _ => return ticket.error(Errno::OPNOTSUPP),
        };
        let Some(end) = offset.checked_add(length) else {
            return ticket.error(Errno::INVAL);
        };
        self.settle(ticket, self.device.zero(offset..end, how, Durability::Ordered), Ticket::done);
    }

    /// Owner, mode and times are not kept, which does no harm. A wrong size would.
    fn set_attributes(&self, ticket: Ticket, node: u64, valid: u32, size: u64) {
        let attributes = self.attributes(node);
        if valid & SETATTR_SIZE != 0 && size != attributes.size {
            return ticket.error(Errno::INVAL);
        }
        ticket.ok(&reply::attributes(&attributes));
    }

    fn open(&self, ticket: Ticket, flags: u32) {
        let writes = flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32;
        if writes && self.device.geometry().read_only {
            return ticket.error(Errno::ROFS);
        }
        ticket.ok(&reply::opened());
    }

    fn attributes(&self, node: u64) -> Attributes {
        let geometry = self.device.geometry();
        let writable = if geometry.read_only { 0 } else { 0o200 };
        let (size, mode) = match node {
            FILE_NODE => (geometry.size_bytes, libc::S_IFREG | 0o400 | writable),
            _ => (0, libc::S_IFDIR | 0o500 | writable),
        };
        Attributes { node, size, mode, uid: self.owner.0, gid: self.owner.1 }
    }
}
