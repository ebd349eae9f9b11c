//! A request's body whose progress can be watched, which tells silence from slowness.

use super::source::{Reading, Source};
use crate::meter::{Kind, Meter};
use crate::pace::{Gate, TURN_MAX};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes handed to the connection at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes that may still be in the socket's buffer when the last piece is handed over.
const UNDERWAY_BYTES: u64 = 1 << 20;

/// How far a body has got.
#[derive(Clone)]
pub struct Progress {
    // Written when a piece is handed over, read by the waiter.
    at: Arc<Mutex<(u64, Instant)>>,
}

impl Progress {
    /// A body of `bytes` and its progress. `meter` counts its bytes as they go, as those of a request of this kind.
    pub fn watch(bytes: Bytes, gate: Gate, (meter, kind): (Meter, Kind)) -> (Watched, Self) {
        Self::watch_both(bytes, None, gate, (meter, kind))
    }

    /// The same for bytes that are read meanwhile.
    pub fn watch_source(source: &Source, gate: Gate, counted: (Meter, Kind)) -> (Watched, Self) {
        Self::watch_both(Bytes::new(), Some(source.read()), gate, counted)
    }

    fn watch_both(
        rest: Bytes,
        more: Option<Reading>,
        gate: Gate,
        (meter, kind): (Meter, Kind),
    ) -> (Watched, Self) {
        let progress = Self { at: Arc::new(Mutex::new((0, Instant::now()))) };
        (Watched { rest, more, progress: progress.clone(), gate, meter, kind }, progress)
    }

    /// Returns once nothing has moved for `idle`, plus the time that the handed-over bytes need to leave at `slowest` bytes per second.
    ///
    /// It looks again after each `idle` at the latest: while a body waits for its turn, its time lies far ahead, and it comes back when the
    /// turn is over.
    pub async fn silence(&self, idle: Duration, slowest: u64) {
        loop {
            let (sent, at) = *self.at.lock();
            let underway = Duration::from_secs_f64(sent.min(UNDERWAY_BYTES) as f64 / slowest as f64);
            let (deadline, now) = (at + idle + underway, Instant::now());
            if now >= deadline {
                return;
            }
            tokio::time::sleep_until(deadline.min(now + idle)).await;
        }
    }
}

/// A body in pieces.
pub struct Watched {
    rest: Bytes,
    more: Option<Reading>,
    progress: Progress,
    gate: Gate,
    meter: Meter,
    kind: Kind,
}

impl Watched {
    /// Bytes that are not handed over yet.
    fn left(&self) -> u64 {
        self.rest.len() as u64 + self.more.as_ref().map_or(0, Reading::left)
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.rest.is_empty() {
            let Self { more: Some(more), progress, .. } = &mut *self else { return Poll::Ready(None) };
            // A body that waits for the local disk is not silent either.
            progress.at.lock().1 = Instant::now() + TURN_MAX;
            let read = ready!(more.poll(cx));
            progress.at.lock().1 = Instant::now();
            match read {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(piece)) => self.rest = piece,
            }
        }
        let len = self.gate.piece(self.rest.len().min(PIECE_BYTES));
        // A body that waits for its turn is not silent, however long it waits.
        self.progress.at.lock().1 = Instant::now() + TURN_MAX;
        ready!(self.gate.poll_turn(cx, len));
        let piece = self.rest.split_to(len);
        self.meter.sent(self.kind, len);
        if let Some(more) = &mut self.more {
            more.sent(len as u64);
        }
        let (sent, at) = &mut *self.progress.at.lock();
        *sent += len as u64;
        *at = Instant::now();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::{Direction, Pacer};

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_last_piece() {
        let (mut body, progress) = Progress::watch(
            vec![0; PIECE_BYTES + 1].into(),
            Pacer::new().gate(Direction::Up),
            (Meter::default(), Kind::Put),
        );
        assert_eq!(body.size_hint().exact(), Some(PIECE_BYTES as u64 + 1));
        let begun = Instant::now();
        let idle = Duration::from_secs(20);
        let mut context = Context::from_waker(std::task::Waker::noop());
        tokio::time::sleep(Duration::from_secs(19)).await;
        for _ in 0..2 {
            assert!(matches!(Pin::new(&mut body).poll_frame(&mut context), Poll::Ready(Some(Ok(_)))));
        }
        assert!(body.is_end_stream());
        progress.silence(idle, PIECE_BYTES as u64).await;
        assert!(begun.elapsed() >= Duration::from_secs(40), "{:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(41), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn silence_after_a_turn_is_noticed_soon() {
        let pacer = Pacer::new();
        pacer.set(Direction::Up, Some(PIECE_BYTES as u64));
        let (mut body, progress) = Progress::watch(
            vec![0; 4 * PIECE_BYTES].into(),
            pacer.gate(Direction::Up),
            (Meter::default(), Kind::Put),
        );
        let begun = Instant::now();
        let idle = Duration::from_millis(700);
        // The body stops for a turn of a second while the waiter looks, gets its turn, and is never asked again.
        let stuck = async {
            for _ in 0..2 * PIECE_BYTES / crate::pace::PIECE_BYTES {
                std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = progress.silence(idle, 1 << 30) => {}
            () = stuck => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
