//! The first exchange of a connection: the kernel offers, we choose, and both keep to it until the connection ends, whichever process
//! serves it. So the choice is part of a handover.

use super::OneFileError;
use super::buffer::Buffer;
use crate::handover::{DISK_VERSION, Parameters};
use crate::mount::Mounted;
use crate::wire::reply::{self, InitOut};
use crate::wire::{InitIn, Operation, Request, init_flags};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

/// The largest request: FUSE's own limit of 256 pages, which must not be exceeded before Linux 6.13.
pub(super) const MAX_REQUEST_BYTES: u32 = 1 << 20;

/// How many asynchronous requests the kernel may have with us at a time: as many as the loop device has tags, so that the loop device is
/// the bound (FUSE's default of 12 would be lower).
const MAX_BACKGROUND: u16 = 128;

/// The oldest protocol that has every field used here (`time_gran` of INIT).
const LEAST_MINOR: u32 = 23;

const WANTED: u64 = init_flags::ASYNC_READ
    | init_flags::BIG_WRITES
    | init_flags::ASYNC_DIO
    | init_flags::ABORT_ERROR
    | init_flags::MAX_PAGES
    | init_flags::INIT_EXT
    | init_flags::HAS_RESEND;

/// How many bytes a reader's buffer needs: a write of the largest size and the headers before it.
pub(super) fn request_buffer_bytes(max_write: u32) -> usize {
    max_write as usize + 4096
}

/// Answers the INIT of a connection that was just mounted.
pub(super) fn answer(fd: BorrowedFd<'_>, mounted: &Mounted) -> Result<Parameters, OneFileError> {
    let setup = |what: &str| OneFileError::Setup(what.to_owned());
    let mut buffer = Buffer::new(request_buffer_bytes(MAX_REQUEST_BYTES));
    loop {
        let len = match rustix::io::read(fd, buffer.as_mut()) {
            Err(rustix::io::Errno::INTR) => continue,
            read => read.map_err(|error| setup(&format!("reading the first message: {error}")))?,
        };
        let request = Request::decode(&buffer.as_mut()[..len]).map_err(|error| setup(&error.to_string()))?;
        let Operation::Init(offer) = request.operation else {
            return Err(setup("the first message is not INIT"));
        };
        if offer.major < 7 || offer.major == 7 && offer.minor < LEAST_MINOR {
            return Err(OneFileError::TooOld { major: offer.major, minor: offer.minor });
        }
        let out = agree(&offer);
        let body = out.encode();
        let header = reply::header(request.unique, 0, body.len());
        rustix::io::writev(fd, &[IoSlice::new(&header), IoSlice::new(&body)])
            .map_err(|error| setup(&format!("answering the first message: {error}")))?;
        // A kernel with a later major version sees our 7 and begins again with it.
        if offer.major == 7 {
            return Ok(Parameters {
                version: DISK_VERSION,
                max_write_bytes: out.max_write,
                resend: out.flags & init_flags::HAS_RESEND != 0,
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
                mountpoint: mounted.mountpoint.clone(),
                folder: None,
            });
        }
    }
}

fn agree(offer: &InitIn) -> InitOut {
    // Without MAX_PAGES (before Linux 4.20) a request has at most 32 pages.
    let pages = if offer.flags & init_flags::MAX_PAGES != 0 { MAX_REQUEST_BYTES } else { 32 * 4096 };
    InitOut::agree(offer, WANTED, pages, MAX_BACKGROUND)
}
