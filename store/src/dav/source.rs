//! A request's body that is read from local bytes while it is sent. It is read again for each time that the request is sent.

use crate::remote::ReadAt;
use bytes::Bytes;
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 64 << 10;
/// Pieces that are read before the connection wants them.
const PIECES_AHEAD: usize = 4;

/// A part of local bytes.
#[derive(Clone)]
pub struct Source {
    content: Arc<dyn ReadAt>,
    range: Range<u64>,
    told: Arc<Told>,
}

/// What a body says of itself, over all times that it is sent.
#[derive(Default)]
struct Told {
    /// The most bytes that one try has handed over.
    sent: AtomicU64,
    // Held for an assignment or a clone.
    failed: Mutex<Option<String>>,
}

impl Source {
    /// The bytes `range` of `content`.
    pub fn new(content: Arc<dyn ReadAt>, range: Range<u64>) -> Self {
        Self { content, range, told: Arc::default() }
    }

    /// How many bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty body is like any other")]
    pub fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// How many bytes have been handed to the connection.
    pub fn sent(&self) -> u64 {
        self.told.sent.load(Relaxed)
    }

    /// Why the bytes could not be read, if so.
    pub fn failure(&self) -> Option<String> {
        self.told.failed.lock().clone()
    }

    /// Begins to read, on a thread of its own.
    pub(super) fn read(&self) -> Reading {
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let source = self.clone();
        tokio::task::spawn_blocking(move || source.read_into(&sender));
        Reading { pieces, left: self.len(), sent: 0, told: self.told.clone() }
    }

    fn read_into(&self, sender: &mpsc::Sender<io::Result<Bytes>>) {
        let mut at = self.range.start;
        while at < self.range.end {
            let mut bytes = vec![0; PIECE_BYTES.min(self.range.end - at) as usize];
            let read = self.content.read_at(&mut bytes, at);
            if let Err(error) = &read {
                *self.told.failed.lock() = Some(error.to_string());
            }
            at += bytes.len() as u64;
            let failed = read.is_err();
            // Nobody takes them any more if the request has ended.
            if sender.blocking_send(read.map(|()| bytes.into())).is_err() || failed {
                return;
            }
        }
    }
}

/// Bytes on their way from the disk to a connection.
pub(super) struct Reading {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
    sent: u64,
    told: Arc<Told>,
}

impl Reading {
    /// The next piece.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.pieces.poll_recv(cx).map(|piece| {
            if let Some(Ok(bytes)) = &piece {
                self.left -= bytes.len() as u64;
            }
            piece
        })
    }

    /// Bytes that are still to come.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// That many more bytes were handed to the connection.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.told.sent.fetch_max(self.sent, Relaxed);
    }
}
