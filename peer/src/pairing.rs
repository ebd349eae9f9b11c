//! Pairing by a code: the messages, on a connection whose ends do not know each other yet.
//!
//! The device that shows the code is S, the one on which it is typed is T:
//!
//! 1. T and S exchange their SPAKE2 messages, which are bound to both keys of the connection.
//! 2. T proves that it knows the code, by a MAC over its role, the connection's exporter and both keys. S counts the try *before* it
//!    compares, so that many connections at once have three tries together.
//! 3. S proves the same. Only now either side tells its name: the other one is the device that has the code.
//! 4. On both sides a person confirms. Each side tells its decision, and believes the pairing once both have confirmed.
//!
//! Somebody in the middle has two connections with two exporters and other keys, so no proof fits. A recorded proof fits no other
//! connection. A side that vanishes after 2 has used one try.

use crate::code::Code;
use crate::error::{PeerError, Result};
use crate::frame::{self, FRAME_MAX, Frame, UNPAIRED_FRAME_MAX};
use crate::hello::{FIRST_OF_PURPOSE, Who};
use crate::key::{DeviceId, PublicKey};
use crate::link::EXPORTED_BYTES;
use crate::list::Device;
use crate::spake::{ELEMENT_BYTES, Exchange, Shared, Side};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a code is valid, and how long the confirmation may take after it.
pub const LIFETIME: Duration = Duration::from_secs(120);
/// How many codes may be tried.
pub const TRIES: u8 = 3;
/// How long one message may take that no person is waited for.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(10);
/// The label of the exporter.
pub const EXPORTER: &str = "EXPORTER-holdall-pairing-v1";

/// SPAKE2's message.
const ELEMENT: u8 = FIRST_OF_PURPOSE;
/// The proof that a side knows the code.
const PROOF: u8 = FIRST_OF_PURPOSE + 1;
/// The code was wrong; the body is the number of tries that are left.
const WRONG: u8 = FIRST_OF_PURPOSE + 2;
/// Who a side is.
const WHO: u8 = FIRST_OF_PURPOSE + 3;
/// What the person decided.
const DECIDED: u8 = FIRST_OF_PURPOSE + 4;
/// The device is in the sender's list.
const STORED: u8 = FIRST_OF_PURPOSE + 5;

const _: () = assert!(UNPAIRED_FRAME_MAX < FRAME_MAX);

/// What a pairing waits for.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Here the code is shown; the other device has not used it yet.
    Showing {
        /// How many codes may still be tried.
        tries_left: u8,
    },
    /// The device that shows the code is looked for.
    Looking,
    /// A person here must confirm.
    Confirm {
        /// The other device's name.
        name: String,
        /// The other device's fingerprint.
        id: DeviceId,
    },
    /// The person at the other device must confirm.
    Waiting {
        /// The other device's name.
        name: String,
    },
    /// It is done.
    Paired(Box<Device>),
    /// It has failed, and is over.
    Failed(Arc<PeerError>),
}

impl Stage {
    /// Whether nothing follows.
    pub fn is_over(&self) -> bool {
        matches!(self, Stage::Paired(_) | Stage::Failed(_))
    }
}

/// One pairing, from its code to its end.
#[derive(Debug)]
pub struct Pairing {
    side: Side,
    code: Code,
    until: Instant,
    stage: watch::Sender<Stage>,
    /// Counted before a proof is compared; connections share it.
    tries: Mutex<u8>,
    decision: watch::Sender<Option<bool>>,
}

/// The ends of a connection that pairs.
pub(crate) struct Ends {
    pub ours: PublicKey,
    pub theirs: PublicKey,
    pub exporter: [u8; EXPORTED_BYTES],
}

impl Pairing {
    /// A pairing for which this device shows a code.
    pub fn show() -> Arc<Self> {
        Self::new(Side::Shows, Code::random(), Stage::Showing { tries_left: TRIES })
    }

    /// A pairing with the device that shows this code.
    pub fn with(code: Code) -> Arc<Self> {
        Self::new(Side::Types, code, Stage::Looking)
    }

    fn new(side: Side, code: Code, stage: Stage) -> Arc<Self> {
        Arc::new(Self {
            side,
            code,
            until: Instant::now() + LIFETIME,
            stage: watch::channel(stage).0,
            tries: Mutex::new(TRIES),
            decision: watch::channel(None).0,
        })
    }

    /// Where it is.
    pub fn stage(&self) -> Stage {
        self.stage.borrow().clone()
    }

    /// Follows where it is.
    pub fn stages(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// The code, where this device shows it.
    pub fn shown_code(&self) -> Option<String> {
        (self.side == Side::Shows).then(|| self.code.shown())
    }

    /// How long the code is still valid.
    pub fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The person's decision. Counts only while the pairing asks for it.
    pub fn decide(&self, confirm: bool) {
        if matches!(self.stage(), Stage::Confirm { .. }) {
            self.decision.send_replace(Some(confirm));
        }
    }

    /// Ends it, unless it is over.
    pub fn cancel(&self) {
        self.fail(PeerError::Cancelled);
    }

    /// Ends it with a failure, unless it is over.
    pub(crate) fn fail(&self, why: PeerError) {
        self.stage.send_if_modified(|stage| {
            let goes_on = !stage.is_over();
            if goes_on {
                *stage = Stage::Failed(Arc::new(why));
            }
            goes_on
        });
    }

    pub(crate) fn paired(&self, device: Device) {
        self.move_on(Stage::Paired(Box::new(device)));
    }

    /// The next stage; false if the pairing is over.
    fn move_on(&self, next: Stage) -> bool {
        self.stage.send_if_modified(|stage| {
            let goes_on = !stage.is_over();
            if goes_on {
                *stage = next;
            }
            goes_on
        })
    }

    /// Waits until nothing follows.
    pub(crate) async fn over(&self) {
        let mut stages = self.stages();
        let _ = stages.wait_for(Stage::is_over).await;
    }

    /// Waits until it is over, and ends it when the code is not used in time.
    pub(crate) async fn expire(&self) {
        if timeout_at(self.until, self.over()).await.is_err() {
            let unused = matches!(self.stage(), Stage::Showing { .. } | Stage::Looking);
            if unused {
                self.fail(PeerError::TimedOut);
            }
            self.over().await;
        }
    }

    /// Ends it if three wrong codes were tried; a code that was right is not affected by guesses that come late.
    pub(crate) fn exhausted(&self) {
        self.stage.send_if_modified(|stage| {
            let shows = matches!(stage, Stage::Showing { .. });
            if shows {
                *stage = Stage::Failed(Arc::new(PeerError::NoTriesLeft));
            }
            shows
        });
    }

    /// Whether the code may still be used here.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Showing { .. }) && Instant::now() < self.until
    }

    /// What follows the proofs: both sides tell who they are, and both persons confirm. `check` refuses an identity before anybody is asked.
    pub(crate) async fn agree<S>(
        &self,
        stream: &mut S,
        ends: &Ends,
        me: &Who,
        check: impl FnOnce(&Who) -> Result<()>,
    ) -> Result<Who>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let who = tell_who(stream, me).await?;
        check(&who)?;
        self.confirm(stream, ends, &who).await?;
        Ok(who)
    }

    /// Both sides prove that they know the code.
    pub(crate) async fn prove<S>(&self, stream: &mut S, ends: &Ends) -> Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (types, shows) = match self.side {
            Side::Types => (&ends.ours, &ends.theirs),
            Side::Shows => (&ends.theirs, &ends.ours),
        };
        let (exchange, element) = Exchange::start(self.side, &self.code, types, shows);
        send(stream, ELEMENT, element).await?;
        let element = receive(stream, ELEMENT, ELEMENT_BYTES).await?;
        let shared = exchange.finish(&element)?;
        let proof = |side| proof(&shared, side, &ends.exporter, types, shows);
        match self.side {
            Side::Types => {
                send(stream, PROOF, proof(Side::Types).as_bytes().to_vec()).await?;
                let answer = receive(stream, PROOF, blake3::OUT_LEN).await?;
                // Comparing takes the same time wherever they differ.
                match proof(Side::Shows) == hash(&answer) {
                    true => Ok(()),
                    false => Err(PeerError::WrongCode),
                }
            }
            Side::Shows => {
                let theirs = receive(stream, PROOF, blake3::OUT_LEN).await?;
                self.take_try()?;
                if proof(Side::Types) != hash(&theirs) {
                    let left = self.tries_left();
                    let _ = send(stream, WRONG, vec![left]).await;
                    return Err(if left == 0 { PeerError::NoTriesLeft } else { PeerError::WrongCode });
                }
                self.take_code()?;
                send(stream, PROOF, proof(Side::Shows).as_bytes().to_vec()).await
            }
        }
    }

    /// Takes one of the tries, before it is known whether the code is right.
    fn take_try(&self) -> Result<()> {
        let mut tries = self.tries.lock();
        if Instant::now() >= self.until {
            return Err(PeerError::TimedOut);
        }
        *tries = tries.checked_sub(1).ok_or(PeerError::NoTriesLeft)?;
        let tries_left = *tries;
        self.stage.send_if_modified(|stage| {
            let shows = matches!(stage, Stage::Showing { .. });
            if shows {
                *stage = Stage::Showing { tries_left };
            }
            shows
        });
        Ok(())
    }

    fn tries_left(&self) -> u8 {
        *self.tries.lock()
    }

    /// The code was right, and is used up: another connection cannot use it, too.
    fn take_code(&self) -> Result<()> {
        let mut tries = self.tries.lock();
        if !self.is_open() {
            return Err(PeerError::NoTriesLeft);
        }
        *tries = 0;
        // Nobody else finds it open, and no late guess ends it.
        self.move_on(Stage::Looking);
        Ok(())
    }

    /// Both persons confirm.
    async fn confirm<S>(&self, stream: &mut S, ends: &Ends, who: &Who) -> Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if !self.move_on(Stage::Confirm { name: who.name.clone(), id: ends.theirs.id() }) {
            return Err(PeerError::Cancelled);
        }
        let until = Instant::now() + LIFETIME;
        let mut decision = self.decision.subscribe();
        let (mut reader, mut writer) = tokio::io::split(stream);
        // One future for the whole message, so that none of it is lost when the person here decides first.
        let mut reading = pin!(frame::expect(&mut reader, UNPAIRED_FRAME_MAX));
        let mut theirs = false;
        let ours = loop {
            tokio::select! {
                biased;
                decided = timeout_at(until, decision.wait_for(Option::is_some)) => {
                    let decided = decided.map_err(|_| PeerError::TimedOut)?.map_err(|_| PeerError::Cancelled)?;
                    break decided.unwrap_or(false);
                }
                frame = &mut reading, if !theirs => theirs = confirmed(&frame?)?,
            }
        };
        send(&mut writer, DECIDED, vec![u8::from(ours)]).await?;
        if !ours {
            return Err(PeerError::Cancelled);
        }
        self.move_on(Stage::Waiting { name: who.name.clone() });
        if !theirs {
            let frame = timeout_at(until, reading).await.map_err(|_| PeerError::TimedOut)??;
            confirmed(&frame)?;
        }
        Ok(())
    }
}

/// Tells the other side that the pairing is kept here, and waits until it is there.
pub(crate) async fn tell_stored<S>(stream: &mut S) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    send(stream, STORED, Vec::new()).await?;
    receive(stream, STORED, 0).await.map(drop)
}

async fn tell_who<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, me: &Who) -> Result<Who> {
    send(stream, WHO, me.encode()).await?;
    let frame = patient(frame::expect(stream, UNPAIRED_FRAME_MAX)).await?;
    if frame.kind != WHO {
        return Err(PeerError::Protocol("a pairing message out of turn"));
    }
    let who = Who::decode(&frame.body)?;
    match who.name.is_empty() || who.uuid.is_nil() || who.uuid == me.uuid {
        true => Err(PeerError::Protocol("an identity that no device has")),
        false => Ok(who),
    }
}

/// True; a person who said no is an error.
fn confirmed(frame: &Frame) -> Result<bool> {
    match (frame.kind, &frame.body[..]) {
        (DECIDED, [1]) => Ok(true),
        (DECIDED, [0]) => Err(PeerError::Cancelled),
        _ => Err(PeerError::Protocol("a pairing message out of turn")),
    }
}

/// The proof of a side.
fn proof(
    shared: &Shared,
    side: Side,
    exporter: &[u8; EXPORTED_BYTES],
    types: &PublicKey,
    shows: &PublicKey,
) -> blake3::Hash {
    let mut key = blake3::Hasher::new_derive_key("holdall pairing proof v1");
    let mut hasher = blake3::Hasher::new_keyed(key.update(&shared.0).finalize().as_bytes());
    let role: &[u8] = match side {
        Side::Types => b"types",
        Side::Shows => b"shows",
    };
    hasher.update(role).update(exporter).update(&types.spki()).update(&shows.spki());
    hasher.finalize()
}

fn hash(bytes: &[u8]) -> blake3::Hash {
    blake3::Hash::from_bytes(bytes.try_into().expect("the length was checked"))
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), kind: u8, body: Vec<u8>) -> Result<()> {
    patient(frame::write(stream, &Frame { kind, seq: 0, body })).await
}

/// The next message, of this kind and length.
async fn receive(stream: &mut (impl AsyncRead + Unpin), kind: u8, bytes: usize) -> Result<Vec<u8>> {
    let frame = patient(frame::expect(stream, UNPAIRED_FRAME_MAX)).await?;
    match (frame.kind, frame.body.len()) {
        (WRONG, 1) if frame.body[0] == 0 => Err(PeerError::NoTriesLeft),
        (WRONG, 1) => Err(PeerError::WrongCode),
        (found, length) if found == kind && length == bytes => Ok(frame.body),
        _ => Err(PeerError::Protocol("a pairing message out of turn")),
    }
}

async fn patient<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(MESSAGE_PATIENCE, work).await.map_err(|_| PeerError::TimedOut)?
}

#[cfg(test)]
mod tests;
