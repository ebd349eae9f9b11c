//! Memory that the kernel copies to and from. It is touched when it is made (see the head of `onefile`: a page that is not resident when
//! the process is killed costs a request). It begins at a page, so that whole pages are copied to whole pages, and it is reused.

use std::cell::RefCell;

const PAGE: usize = 4096;

/// Resident bytes that begin at a page.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(super) fn new(len: usize) -> Self {
        // No zeros: those would be pages that exist only after the first write.
        let bytes = vec![0xa5; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Buffer { bytes, start, len }
    }

    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// Lends `len` bytes of this thread's buffer, which grows if it is too small. Calls must not be nested.
pub(super) fn with_thread_buffer<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local!(static BUFFER: RefCell<Buffer> = RefCell::new(Buffer::new(0)));
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len < len {
            *buffer = Buffer::new(len.next_power_of_two());
        }
        work(&mut buffer.as_mut()[..len])
    })
}
