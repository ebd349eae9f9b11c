//! Bandwidth limits: how fast bytes may go to and from stores, over all stores of one service.
//!
//! A body goes in small pieces, and each piece waits for its turn here, so a limit is a steady rate and not a burst followed by a rest.
//! Readers go first: work begun [`in_background`] gets the bandwidth that they leave.

use crate::proxy::Proxy;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of one piece.
pub const PIECE_BYTES: usize = 16 << 10;
/// The lowest rate that can be set, in bytes per second: below it requests would run into their time-outs.
pub const RATE_MIN: u64 = 16 << 10;
/// The longest wait for a turn, which depends on no other computer.
pub const TURN_MAX: Duration = Duration::from_secs(3600);
/// How much of its rate a direction may save up while nothing moves.
const BURST: Duration = Duration::from_millis(50);
/// How often background work checks for its turn while readers want more than there is.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long readers may go first at most, so that background work never waits forever.
const HELD_UP_MAX: Duration = Duration::from_secs(2);

tokio::task_local! {
    static BACKGROUND: Background;
    static HELD_UP: HeldUp;
}

/// Work that yields to readers until one of them waits for it. Clones are the same work.
#[derive(Clone, Debug, Default)]
pub struct Background {
    is_awaited: Arc<AtomicBool>,
}

impl Background {
    /// A reader waits for this work: from now on it has a reader's priority.
    pub fn is_awaited_now(&self) {
        self.is_awaited.store(true, Relaxed);
    }

    /// Runs `work` as this background work.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        BACKGROUND.scope(self.clone(), work).await
    }

    fn gives_way(&self) -> bool {
        !self.is_awaited.load(Relaxed)
    }
}

/// Runs `work` in the background: readers go first.
pub async fn in_background<T>(work: impl Future<Output = T>) -> T {
    Background::default().run(work).await
}

/// Whether the current work was begun [`in_background`] and no reader waits for it.
pub fn is_background() -> bool {
    BACKGROUND.try_with(Background::gives_way).unwrap_or(false)
}

/// How long the bodies of one request have waited for their turns: such waits are not the network's fault. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct HeldUp {
    // Held for arithmetic.
    spans: Arc<Mutex<Spans>>,
}

#[derive(Debug, Default)]
struct Spans {
    over: Duration,
    since: Option<Instant>,
}

/// A body waits until this is dropped.
struct Waits(HeldUp);

impl HeldUp {
    /// The total so far.
    pub fn so_far(&self) -> Duration {
        let spans = self.spans.lock();
        spans.over + spans.since.map_or_else(Duration::default, |since| since.elapsed())
    }

    /// Waits for `deadline`, extended by the time that bodies are held up.
    pub async fn until(&self, deadline: Instant) {
        loop {
            let until = deadline + self.so_far();
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Does a part of the request, and ends it after `limit`, not counting the time that bodies are held up.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let deadline = Instant::now() + limit;
        tokio::select! { biased;
            done = HELD_UP.scope(self.clone(), work) => Some(done),
            () = self.until(deadline) => None,
        }
    }

    fn begin(&self) -> Waits {
        self.spans.lock().since.get_or_insert_with(Instant::now);
        Waits(self.clone())
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut spans = self.0.spans.lock();
        if let Some(since) = spans.since.take() {
            spans.over += since.elapsed();
        }
    }
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a store.
    Up,
    /// From a store.
    Down,
}

/// The limits of both directions, and the proxy, if there is one. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    // Held for a clone or an assignment.
    proxy: Arc<Mutex<Option<Proxy>>>,
    // Held for arithmetic only.
    lanes: Arc<[Mutex<Lane>; 2]>,
}

impl Pacer {
    /// No limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a limit in bytes per second, at least [`RATE_MIN`]; `None` is no limit. It also holds for transfers under way.
    pub fn set(&self, way: Direction, rate: Option<u64>) {
        self.lane(way).lock().rate = rate.map(|rate| rate.max(RATE_MIN));
    }

    /// Makes stores that are connected from now on use this proxy.
    pub fn set_proxy(&self, proxy: Option<Proxy>) {
        *self.proxy.lock() = proxy;
    }

    /// The proxy that stores are reached through.
    pub fn proxy(&self) -> Option<Proxy> {
        self.proxy.lock().clone()
    }

    /// The limit in bytes per second.
    pub fn rate(&self, way: Direction) -> Option<u64> {
        self.lane(way).lock().rate
    }

    /// The gate for a body of the current work.
    pub fn gate(&self, way: Direction) -> Gate {
        self.gate_of(way, HELD_UP.try_with(HeldUp::clone).unwrap_or_default())
    }

    /// The same for a request that notes its bodies' waits in `held_up`.
    pub fn gate_of(&self, way: Direction, held_up: HeldUp) -> Gate {
        let background = BACKGROUND.try_with(Background::clone).ok();
        Gate { pacer: self.clone(), way, background, held_up, waiting: None }
    }

    /// Waits until `bytes` bytes may have gone that way.
    pub async fn pass(&self, way: Direction, bytes: usize) {
        let (mut gate, mut left) = (self.gate(way), bytes);
        while left > 0 {
            let piece = gate.piece(left);
            gate.turn(piece).await;
            left -= piece;
        }
    }

    /// Waits until `bytes` may go.
    async fn turn(&self, way: Direction, bytes: usize, background: Option<Background>) {
        let begun = Instant::now();
        loop {
            let now = Instant::now();
            let gives_way = background.as_ref().is_some_and(Background::gives_way);
            let patience = gives_way && now - begun < HELD_UP_MAX;
            let wait = {
                let mut lane = self.lane(way).lock();
                match patience && lane.is_wanted_by_readers(now) {
                    true => Err(LOOK_EVERY),
                    false => Ok(lane.reserve(bytes, now, !gives_way)),
                }
            };
            match wait {
                Ok(wait) if wait.is_zero() => return,
                Ok(wait) => return tokio::time::sleep(wait).await,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    fn lane(&self, way: Direction) -> &Mutex<Lane> {
        &self.lanes[way as usize]
    }
}

/// Where the pieces of one body wait for their turns. Bodies are sent by tasks that serve a connection, so the purpose of a body is noted
/// here when its request begins.
pub struct Gate {
    pacer: Pacer,
    way: Direction,
    background: Option<Background>,
    held_up: HeldUp,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl Gate {
    /// How much of `left` bytes may go as one piece.
    pub fn piece(&self, left: usize) -> usize {
        if self.pacer.rate(self.way).is_some() { left.min(PIECE_BYTES) } else { left }
    }

    /// Ready once `bytes` may go. Call again for the same bytes until then.
    pub fn poll_turn(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        if self.waiting.is_none() && self.pacer.rate(self.way).is_some() {
            let (pacer, way, background) = (self.pacer.clone(), self.way, self.background.clone());
            let waits = self.held_up.begin();
            self.waiting = Some(Box::pin(async move {
                let _until_done = waits;
                pacer.turn(way, bytes, background).await;
            }));
        }
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        Poll::Ready(())
    }

    /// Waits until `bytes` may go.
    pub async fn turn(&mut self, bytes: usize) {
        std::future::poll_fn(|cx| self.poll_turn(cx, bytes)).await;
    }
}

/// One direction's account. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Lane {
    rate: Option<u64>,
    /// When all reserved bytes will have gone at that rate.
    busy_until: Option<Instant>,
    /// When the last bytes reserved for readers will have gone.
    readers_until: Option<Instant>,
}

impl Lane {
    /// Reserves `bytes`, and returns how long they must wait from now.
    fn reserve(&mut self, bytes: usize, now: Instant, reader: bool) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let free = self.busy_until.map_or(now, |until| until.max(now - BURST));
        let done = free + Duration::from_secs_f64(bytes as f64 / rate as f64);
        self.busy_until = Some(done);
        if reader {
            self.readers_until = Some(done);
        }
        free.saturating_duration_since(now)
    }

    fn is_wanted_by_readers(&self, now: Instant) -> bool {
        self.rate.is_some() && self.readers_until.is_some_and(|until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    async fn send(pacer: &Pacer, bytes: u64) -> Duration {
        let begun = Instant::now();
        pacer.pass(Direction::Up, bytes as usize).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_waits() {
        let pacer = Pacer::new();
        assert_eq!(pacer.gate(Direction::Up).piece(8 << 20), 8 << 20);
        assert_eq!(send(&pacer, 100 * MIB).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn several_bodies_share_a_rate() {
        let pacer = Pacer::new();
        pacer.set(Direction::Up, Some(MIB));
        let (a, b) = tokio::join!(send(&pacer, 4 * MIB), send(&pacer, 4 * MIB));
        let longer = a.max(b).as_secs_f64();
        assert!((7.8..=8.1).contains(&longer), "{longer}");
        assert!(a.min(b).as_secs_f64() > 7.0, "they take turns");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_saved_up_for_a_burst() {
        let pacer = Pacer::new();
        pacer.set(Direction::Up, Some(MIB));
        send(&pacer, MIB).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(send(&pacer, MIB).await.as_secs_f64() > 0.9);
    }

    #[tokio::test(start_paused = true)]
    async fn readers_go_first() {
        let pacer = Pacer::new();
        pacer.set(Direction::Up, Some(MIB));
        let background = in_background(send(&pacer, 4 * MIB));
        let reader = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            send(&pacer, MIB).await
        };
        let (background, reader) = tokio::join!(background, reader);
        assert!(reader.as_secs_f64() < 1.3, "{reader:?}");
        assert!((4.8..5.3).contains(&background.as_secs_f64()), "{background:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn awaited_background_work_stops_yielding() {
        let pacer = Pacer::new();
        pacer.set(Direction::Up, Some(MIB));
        let work = Background::default();
        let awaited = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            work.is_awaited_now();
        };
        let reader = send(&pacer, 60 * MIB);
        let done = async { tokio::join!(work.run(send(&pacer, MIB)), awaited).0 };
        tokio::select! {
            _ = reader => panic!("the work starved"),
            // The work shares the rate after its first wait; otherwise each of its 64 pieces would wait for two seconds.
            took = done => assert!(took.as_secs_f64() < 5.0, "{took:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_turn_is_not_late() {
        let pacer = Pacer::new();
        pacer.set(Direction::Up, Some(MIB));
        let limit = Duration::from_secs(3);
        let paced = HeldUp::default().within(limit, send(&pacer, 60 * MIB)).await;
        assert!(paced.is_some_and(|took| took > Duration::from_secs(59)), "{paced:?}");
        let dripping = async {
            for _ in 0..60 {
                send(&pacer, MIB).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let begun = Instant::now();
        assert!(HeldUp::default().within(limit, dripping).await.is_none());
        assert!((5.5..=6.5).contains(&begun.elapsed().as_secs_f64()), "{:?}", begun.elapsed());
        // A body that is dropped in the middle of a wait no longer waits.
        let cut_off = async {
            drop(tokio::time::timeout(Duration::from_secs(1), send(&pacer, 60 * MIB)).await);
            std::future::pending::<()>().await;
        };
        assert!(HeldUp::default().within(limit, cut_off).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn readers_do_not_hold_up_the_background_forever() {
        let pacer = Pacer::new();
        pacer.set(Direction::Up, Some(MIB));
        let reader = send(&pacer, 60 * MIB);
        let background = in_background(send(&pacer, MIB / 4));
        tokio::select! {
            _ = reader => panic!("the background starved"),
            _ = background => {}
        }
    }
}
