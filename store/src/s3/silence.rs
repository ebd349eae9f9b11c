//! Ends requests that have fallen silent: their bodies note each time that bytes move.

use super::limits::Limits;
use crate::meter::{Kind, Meter};
use crate::pace::{Gate, TURN_MAX};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::primitives::SdkBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// The most bytes handed over at a time: few enough that a slow connection moves them well within the silence limit.
const PIECE_BYTES: usize = 64 << 10;

/// No byte has moved for this long.
#[derive(Debug, thiserror::Error)]
#[error("no byte for {0:?}")]
pub(super) struct Silent(pub(super) Duration);

/// An answer has more bytes than any has.
#[derive(Debug, thiserror::Error)]
#[error("the answer does not end")]
pub(super) struct Endless;

/// Until when a request counts as alive.
#[derive(Clone)]
pub(super) struct Pulse {
    limits: Limits,
    /// Set by the body, read by the waiter. Held for one assignment.
    until: Arc<Mutex<Instant>>,
}

impl Pulse {
    /// For a request that begins now.
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, until: Arc::new(Mutex::new(Instant::now() + limits.silence)) }
    }

    fn beat(&self, allowed: Duration) {
        *self.until.lock() = Instant::now() + allowed;
    }

    /// Returns once the request is silent.
    ///
    /// It looks again after each silence limit at the latest: while a body waits for its turn, `until` lies far ahead, and it comes back
    /// when the turn is over.
    pub(super) async fn stopped(&self) -> Silent {
        loop {
            let (until, now) = (*self.until.lock(), Instant::now());
            if until <= now {
                return Silent(self.limits.silence);
            }
            tokio::time::sleep_until(until.min(now + self.limits.silence)).await;
        }
    }
}

/// A request's body, in pieces, each of them a sign of life.
pub(super) struct Sending {
    body: SdkBody,
    piece: Bytes,
    total: u64,
    left: u64,
    pulse: Pulse,
    gate: Gate,
    meter: Meter,
    kind: Kind,
}

impl Sending {
    pub(super) fn new(body: SdkBody, pulse: Pulse, (gate, meter, kind): (Gate, Meter, Kind)) -> Self {
        let total = body.content_length().unwrap_or(0);
        Self { body, piece: Bytes::new(), total, left: total, pulse, gate, meter, kind }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.piece.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.piece = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let bytes = self.gate.piece(self.piece.len().min(PIECE_BYTES));
        // A body that waits for its turn is not silent, however long it waits.
        let limits = self.pulse.limits;
        self.pulse.beat(TURN_MAX);
        ready!(self.gate.poll_turn(cx, bytes));
        let piece = self.piece.split_to(bytes);
        self.meter.sent(self.kind, bytes);
        self.left = self.left.saturating_sub(bytes as u64);
        self.pulse.beat(if self.left == 0 { limits.answer(self.total) } else { limits.silence });
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// An answer's body. It fails once it is silent.
pub(super) struct Receiving {
    body: Incoming,
    limit: Duration,
    patience: Pin<Box<Sleep>>,
    gate: Gate,
    meter: Meter,
    kind: Kind,
    /// Bytes that arrived and still wait for their turn.
    came: usize,
    /// Bytes that may still arrive.
    left: u64,
}

impl Receiving {
    /// A body of at most `most` bytes.
    pub(super) fn new(
        body: Incoming,
        limits: Limits,
        most: u64,
        (gate, meter, kind): (Gate, Meter, Kind),
    ) -> Self {
        let limit = limits.silence;
        let patience = Box::pin(tokio::time::sleep(limit));
        Self { body, limit, patience, gate, meter, kind, came: 0, left: most }
    }
}

impl Body for Receiving {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let limit = self.limit;
        if self.came > 0 {
            let came = self.came;
            ready!(self.gate.poll_turn(cx, came));
            self.came = 0;
            self.patience.as_mut().reset(Instant::now() + limit);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.patience.as_mut().reset(Instant::now() + limit);
            if let Some(Ok(frame)) = &frame {
                self.came = frame.data_ref().map_or(0, Bytes::len);
                self.meter.received(self.kind, self.came);
                match self.left.checked_sub(self.came as u64) {
                    Some(left) => self.left = left,
                    None => return Poll::Ready(Some(Err(Endless.into()))),
                }
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.patience.as_mut().poll(cx));
        Poll::Ready(Some(Err(Silent(limit).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_after_a_turn_is_noticed_soon() {
        let limits = Limits { silence: Duration::from_secs(20), ..Limits::default() };
        let (pulse, begun) = (Pulse::new(limits), Instant::now());
        pulse.beat(TURN_MAX);
        let turn_ends = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            pulse.beat(limits.silence);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = pulse.stopped() => {}
            () = turn_ends => {}
        }
        assert!(begun.elapsed() >= Duration::from_secs(50), "{:?}", begun.elapsed());
        assert!(begun.elapsed() <= Duration::from_secs(70), "{:?}", begun.elapsed());
    }
}
