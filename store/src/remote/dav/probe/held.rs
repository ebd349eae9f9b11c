//! Bodies that stop in the middle: until they are let go, or for good.

use super::Bench;
use crate::StoreError;
use crate::dav::http::{Answer, Request};
use crate::dav::source::Source;
use crate::remote::{ReadAt, RemoteError};
use parking_lot::{Condvar, Mutex};
use reqwest::Method;
use reqwest::header::HeaderName;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The length of such a body.
pub(super) const LEN: u64 = 128 << 10;
/// Longer than any server needs to answer while it is held.
const HELD_MAX: Duration = Duration::from_secs(15);
/// How long the first half may take.
const HALF_MAX: Duration = Duration::from_secs(5);
/// What is to be kept.
const OLD: &[u8] = b"the old file";
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often a server is looked at that may not have noticed yet: so often, or for so long, but not too seldom. A busy one answers later, so
/// that counting looks gives it more time. A clock alone would take a server that is slow to begin for one that shows nothing.
const LOOKS: u32 = 12;
const LOOKS_LAST: Duration = Duration::from_millis(300);
const LOOKS_MIN: u32 = 3;
const LOOKS_APART: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    LetGo,
    Cut,
}

/// The body.
pub(super) struct Held {
    letter: u8,
    state: Mutex<State>,
    changed: Condvar,
}

impl Held {
    /// A body of one letter.
    pub fn new(letter: u8) -> Arc<Self> {
        Arc::new(Self { letter, state: Mutex::new(State::Held), changed: Condvar::new() })
    }

    /// The rest follows.
    pub fn let_go(&self) {
        self.set(State::LetGo);
    }

    /// The rest never comes.
    pub fn cut(&self) {
        self.set(State::Cut);
    }

    fn set(&self, state: State) {
        *self.state.lock() = state;
        self.changed.notify_all();
    }
}

impl ReadAt for Held {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if offset >= LEN / 2 {
            let mut state = self.state.lock();
            while *state == State::Held {
                if self.changed.wait_for(&mut state, HELD_MAX).timed_out() {
                    break;
                }
            }
            if *state != State::LetGo {
                return Err(io::Error::other("it was cut off on purpose"));
            }
        }
        buf.fill(self.letter);
        Ok(())
    }
}

impl Bench<'_> {
    /// A PUT of a held body, and what is done while it is held. The body is to be let go or cut there.
    pub(super) async fn put_held<T>(
        &self,
        leaf: &str,
        held: &Arc<Held>,
        headers: &[(HeaderName, &str)],
        meanwhile: impl Future<Output = T>,
    ) -> (Result<Answer, StoreError>, T) {
        let source = Source::new(held.clone(), 0..LEN);
        let ask = Request { source: Some(source.clone()), ..Request::new(Method::PUT, self.url(leaf)) };
        let ask = headers.iter().fold(ask, |ask, (name, value)| ask.with(name.clone(), value));
        let ask = Request { once: true, ..ask };
        let sending = self.remote.client.send(&ask);
        let driving = async {
            let half = async {
                while source.sent() < LEN / 2 {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            };
            let _ = tokio::time::timeout(HALF_MAX, half).await;
            let done = meanwhile.await;
            // Nothing is held any longer, whatever was done.
            if *held.state.lock() == State::Held {
                held.cut();
            }
            done
        };
        tokio::join!(sending, driving)
    }

    /// Whether a PUT that breaks off keeps the old file, and makes no new one.
    pub(super) async fn try_broken_put(&self) -> Result<bool, RemoteError> {
        self.put("old", OLD).await?;
        let bodies = [Held::new(b'o'), Held::new(b'n')];
        let while_held = async {
            let stays = Box::pin(self.stays_whole()).await;
            bodies.iter().for_each(|held| held.cut());
            stays
        };
        let new = self.put_held("new", &bodies[1], &[], while_held);
        let (old, (new, was_whole)) = self.put_held("old", &bodies[0], &[], new).await;
        if !was_whole? || old.is_ok() || new.is_ok() {
            return Ok(false);
        }
        for wait_ms in [20, 300] {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            let read = self.remote.client.read(&format!("{}/old", self.name), None).await;
            if !Box::pin(self.stays_whole()).await? || !matches!(read, Ok(read) if read.bytes == OLD) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether both are whole at each of several looks. Each request comes after those under way, so that a server which takes them in turn
    /// has seen those.
    async fn stays_whole(&self) -> Result<bool, RemoteError> {
        let began = Instant::now();
        for look in 0..LOOKS {
            if look >= LOOKS_MIN && began.elapsed() >= LOOKS_LAST {
                break;
            }
            tokio::time::sleep(LOOKS_APART).await;
            if !self.is_whole().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Some servers show a broken PUT while it runs, some once they notice that it has ended.
    async fn is_whole(&self) -> Result<bool, RemoteError> {
        // A server that fails meanwhile shows no file whole.
        let old = match Box::pin(self.look("old")).await {
            Err(RemoteError::Store(StoreError::Unreachable { .. })) => return Ok(false),
            old => old?.map(|(entry, _)| entry.version.len),
        };
        let new = match Box::pin(self.look("new")).await {
            Err(RemoteError::Store(StoreError::Unreachable { .. })) => return Ok(false),
            new => new?,
        };
        Ok(old == Some(OLD.len() as u64) && new.is_none())
    }
}
