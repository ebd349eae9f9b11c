//! Memory that the kernel copies to and from. It is touched at birth (see the head of `onefile`: a page that is not
//! there when the process is killed costs a request), begins at a page, so that whole pages are copied to whole pages,
//! and is used again.

use std::cell::RefCell;

const PAGE: usize = 4096;

/// Bytes that begin at a page and are resident.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(super) fn new(len: usize) -> Self {
        // Not zeros: those would be pages that exist only once they are written.
        let bytes = vec![0xa5; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Buffer { bytes, start, len }
    }

    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// Lends this thread's buffer, `len` bytes of it, grown where it is too small. Not to be nested.
pub(super) fn with_thread_buffer<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local!(static BUFFER: RefCell<Buffer> = RefCell::new(Buffer::new(0)));
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len < len {
            *buffer = Buffer::new(len.next_power_of_two());
        }
        work(&mut buffer.as_mut()[..len])
    })
}
