//! Performs what [`Leecher`] decides, on a drive that is closed here.

use super::Now;
use super::leecher::{Action, Event, HeadSeen, Leecher, Progress, Step};
use super::link::{Incoming, Link, Stream, unpacked};
use super::message::{Answer, Final, Greeting, Message, Offer, Part, Position, Prepare, Reason, ReasonKind};
use super::session::Record;
use crate::disk::Disk;
use crate::drive;
use crate::format::head::Head;
use crate::heads::{self, Device, Granted};
use crate::journal::import::ImportError;
use crate::log::LogError;
use crate::map::Objects;
use crate::units::{BLOCK_BYTES, BlockRange};
use crate::volume::{self, Access, Arrival, Environment, ReceiveError, Receiving, Volume, VolumeLimits};
use async_trait::async_trait;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

const TICK: Duration = Duration::from_millis(250);
/// Between two tries to connect. The seeder tries too, so this side may wait longer.
const DIAL_AGAIN: Duration = Duration::from_secs(4);

/// What the daemon does for a drive that arrives.
#[async_trait]
pub trait Seat: Send + Sync + 'static {
    /// Connects to the other device.
    async fn dial(&self) -> io::Result<Box<dyn Stream>>;
    /// Where the drive lives on this device.
    fn environment(&self) -> Environment;
    /// Attaches and mounts it.
    async fn attach(&self, volume: Arc<Volume>) -> Result<(), String>;
    /// The wall clock, Unix time in ms.
    fn unix_ms(&self) -> u64;
}

/// What a person wants, or the other device.
pub enum Command {
    /// The other device has connected, and sent this greeting.
    Linked(Link, Greeting),
    /// Take the drive.
    Accept(Answer),
    /// Do not.
    Decline,
    /// Cancel.
    Cancel,
    /// Take it although nobody knows whether it was released.
    Force,
}

/// A drive that comes to this device.
pub struct Receiver {
    /// The engine.
    pub leecher: Leecher,
    /// This device.
    pub device: Device,
    /// Limits of the drive here.
    pub limits: VolumeLimits,
    /// What an earlier process received.
    pub receiving: Option<Receiving>,
    /// Where records are.
    pub records: Arc<dyn Disk>,
    /// The rest of the daemon.
    pub seat: Arc<dyn Seat>,
}

/// Where a group that was found continues.
pub fn position(receiving: &Receiving) -> Position {
    let import = receiving.import();
    let attempt = import.plan().stream.as_u128() as u32;
    Position { attempt, round: u32::try_from(import.rounds()).unwrap_or(u32::MAX - 1) + 1, part: 0 }
}

/// Answers a device whose session is not known here, and reads what it offers.
///
/// # Errors
///
/// It offers nothing, or ends the connection.
pub async fn offered(link: &mut Link, greeting: &Greeting, own: Greeting) -> io::Result<Offer> {
    link.send(Message::Welcome(own));
    match link.next().await {
        Incoming::Message(Message::Offer(offer)) if offer.session == greeting.session => Ok(*offer),
        other => {
            tracing::info!(?other, "another computer connected and offered nothing");
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

struct Running {
    receiver: Receiver,
    began: Instant,
    link: Option<Link>,
    dialling: Option<JoinHandle<()>>,
    next_dial: Instant,
    volume: Option<Arc<Volume>>,
    later: mpsc::UnboundedSender<Later>,
    ended: bool,
}

enum Later {
    Event(Event),
    Connected(io::Result<Box<dyn Stream>>),
}

impl Receiver {
    /// Runs the session until it ends, or the process does. `first` are the actions that the engine began with; `link` is the connection by which
    /// the drive was offered.
    pub async fn run(
        self,
        first: Vec<Action>,
        link: Option<Link>,
        mut commands: mpsc::Receiver<Command>,
        progress: watch::Sender<Progress>,
    ) -> (Record, Option<Arc<Volume>>) {
        let (later, mut told) = mpsc::unbounded_channel();
        let now = Instant::now();
        let is_linked = link.is_some();
        let mut running = Running {
            receiver: self,
            began: now,
            link,
            dialling: None,
            next_dial: now + DIAL_AGAIN,
            volume: None,
            later,
            ended: false,
        };
        running.perform(first).await;
        if is_linked {
            running.apply(Event::Linked).await;
        }
        let mut tick = tokio::time::interval(TICK);
        while !running.ended {
            let event = tokio::select! {
                Some(later) = told.recv() => match later {
                    Later::Event(event) => Some(event),
                    Later::Connected(Ok(stream)) => {
                        running.link = Some(Link::new(stream));
                        Some(Event::Linked)
                    }
                    Later::Connected(Err(_)) => None,
                },
                Some(command) = commands.recv() => match command {
                    Command::Linked(link, greeting) => {
                        running.link = Some(link);
                        running.apply(Event::Linked).await;
                        Some(Event::Received(Message::Hello(greeting)))
                    }
                    Command::Accept(answer) => Some(Event::Accept(answer)),
                    Command::Decline => Some(Event::Decline),
                    Command::Cancel => Some(Event::Cancel),
                    Command::Force => Some(Event::Force),
                },
                incoming = next(&mut running.link) => Some(match incoming {
                    Incoming::Message(message) => Event::Received(message),
                    Incoming::Ended | Incoming::Unreadable(_) => {
                        running.link = None;
                        Event::Unlinked
                    }
                }),
                _ = tick.tick() => {
                    running.dial();
                    Some(Event::Tick)
                }
            };
            if let Some(event) = event {
                running.apply(event).await;
            }
            progress.send_replace(running.receiver.leecher.progress());
        }
        // The last message is on its way; the other device asks again if it is lost.
        tokio::time::sleep(Duration::from_millis(500)).await;
        (running.receiver.leecher.record().clone(), running.volume)
    }
}

async fn next(link: &mut Option<Link>) -> Incoming {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}

impl Running {
    fn now(&self) -> Now {
        Now { at: self.began.elapsed(), unix_ms: self.receiver.seat.unix_ms() }
    }

    async fn apply(&mut self, event: Event) {
        let now = self.now();
        let actions = self.receiver.leecher.apply(now, event);
        self.perform(actions).await;
    }

    async fn perform(&mut self, actions: Vec<Action>) {
        let mut lists = vec![actions];
        while let Some(actions) = lists.pop() {
            for action in actions {
                if let Err((step, reason)) = self.act(action).await {
                    tracing::warn!(?step, reason = reason.text, "a step of receiving a drive failed");
                    let now = self.now();
                    lists.push(self.receiver.leecher.apply(now, Event::Failed(step, reason)));
                    break;
                }
            }
        }
    }

    fn dial(&mut self) {
        let is_dialling = self.dialling.as_ref().is_some_and(|dialling| !dialling.is_finished());
        if !self.receiver.leecher.wants_link() || is_dialling || Instant::now() < self.next_dial {
            return;
        }
        self.next_dial = Instant::now() + DIAL_AGAIN;
        let (seat, later) = (self.receiver.seat.clone(), self.later.clone());
        self.dialling = Some(tokio::spawn(async move {
            let _ = later.send(Later::Connected(seat.dial().await));
        }));
    }

    fn tell(&self, event: Event) {
        let _ = self.later.send(Later::Event(event));
    }

    async fn act(&mut self, action: Action) -> Result<(), (Step, Reason)> {
        let at = |step: Step| move |error: ReceiveError| (step, reason_of(&error));
        match action {
            // The daemon shows it: the record says so.
            Action::Ask => {}
            Action::Record(record) => {
                let saved = record.save(&*self.receiver.records).await;
                saved.map_err(|error| (Step::Record, reason_of(&ReceiveError::Local(error))))?;
            }
            Action::Send(message) => {
                if let Some(link) = &self.link {
                    link.send(message);
                }
            }
            Action::Begin { attempt } => self.begin(attempt).await.map_err(|reason| (Step::Begin, reason))?,
            Action::Append(part) => self.append(&part).map_err(at(Step::Append))?,
            Action::Sync(position) => {
                if let Some(receiving) = &mut self.receiver.receiving {
                    let round = u64::from(position.round - 1);
                    receiving
                        .import_mut()
                        .acknowledge(round)
                        .await
                        .map_err(|error| at(Step::Sync)(error.into()))?;
                    self.tell(Event::Synced(position));
                }
            }
            Action::Reserve(prepare) => self.reserve(&prepare).await.map_err(at(Step::Reserve))?,
            Action::Finish(end) => self.finish(&end).await.map_err(at(Step::Finish))?,
            Action::Drop => {
                if let Some(receiving) = self.receiver.receiving.take() {
                    // What cannot be deleted now is deleted before the next one begins.
                    let _ = receiving.discard().await;
                }
            }
            Action::Look => self.look(None),
            Action::Swap { head } => self.look(Some(head.to_vec())),
            Action::Open(_) => self.open().await?,
            Action::Attach => self.attach(),
            Action::End => self.ended = true,
        }
        Ok(())
    }

    fn session(&self) -> Uuid {
        self.receiver.leecher.record().offer.session
    }

    async fn begin(&mut self, attempt: u32) -> Result<(), Reason> {
        // The file of an earlier attempt is deleted by the new one.
        self.receiver.receiving = None;
        let env = self.receiver.seat.environment();
        let drive = self.receiver.leecher.record().offer.drive;
        let objects = Objects::new(env.store.clone(), env.sealer.clone(), env.pages.clone());
        let (_, _, root) = drive::current(&objects, drive)
            .await
            .map_err(|error| Reason::new(ReasonKind::Store, error.to_string()))?;
        let limits = self.receiver.limits;
        let journal = limits.journal;
        // What a group may take beside the journal's own records.
        let headroom = journal.file_bytes * journal.files as u64 / 4;
        let stream = Uuid::from_u128(u128::from(attempt));
        let device = &self.receiver.device;
        let plan = (self.session(), stream, headroom);
        let receiving = volume::receive(&env, (drive, device), &root, plan, limits).await;
        self.receiver.receiving = Some(receiving.map_err(|error| reason_of(&error))?);
        Ok(())
    }

    fn append(&mut self, part: &Part) -> Result<(), ReceiveError> {
        let Some(receiving) = &mut self.receiver.receiving else { return Ok(()) };
        let import = receiving.import_mut();
        let data = unpacked(part)?;
        let mut at = 0;
        for run in &part.blocks {
            let len = run.byte_len() as usize;
            import.data(run.start, &data[at..at + len])?;
            at += len;
        }
        for run in &part.zeros {
            import.zero(BlockRange { start: run.start, end: run.end })?;
        }
        Ok(())
    }

    async fn reserve(&mut self, prepare: &Prepare) -> Result<(), ReceiveError> {
        if let Some(receiving) = &mut self.receiver.receiving {
            let import = receiving.import_mut();
            let most = import.plan().headroom_bytes.saturating_sub(import.bytes());
            import.reserve((prepare.delta_blocks * (BLOCK_BYTES + 64)).min(most)).await?;
        }
        self.tell(Event::Reserved { attempt: prepare.attempt, delta_blocks: prepare.delta_blocks });
        Ok(())
    }

    async fn finish(&mut self, end: &Final) -> Result<(), ReceiveError> {
        let env = self.receiver.seat.environment();
        let Some(receiving) = &mut self.receiver.receiving else { return Ok(()) };
        let arrival = Arrival::decode(&env.sealer, &end.arrival)?;
        let is_same = arrival.head.encode(&env.sealer) == end.head;
        let delta_hash = match receiving.finish(&arrival).await {
            Ok(()) if is_same => end.delta_hash,
            // The engine cancels: what came is not what was sent.
            Ok(()) | Err(ReceiveError::OtherGrant) => [0; 32],
            Err(error) => return Err(error),
        };
        self.tell(Event::Finished { attempt: end.attempt, delta_hash });
        Ok(())
    }

    /// Looks at HEAD, and puts the grant if it is to be put.
    fn look(&self, grant: Option<Vec<u8>>) {
        let record = self.receiver.leecher.record();
        let Some(end) = record.end.clone() else { return };
        let (env, later, own) =
            (self.receiver.seat.environment(), self.later.clone(), self.receiver.device.id);
        let puts = grant.is_some();
        tokio::spawn(async move {
            let seen = match Head::decode(&env.sealer, &end.head) {
                Ok(grant) => seen(&env, own, &grant, puts).await,
                Err(error) => HeadSeen::Unknown(error.to_string()),
            };
            let _ = later.send(Later::Event(Event::Head(seen)));
        });
    }

    async fn open(&mut self) -> Result<(), (Step, Reason)> {
        self.receiver.receiving = None;
        let (env, drive) = (self.receiver.seat.environment(), self.receiver.leecher.record().offer.drive);
        let access = Access::Granted { session: self.session() };
        let sealer = env.sealer.clone();
        let opened =
            volume::open(env, drive, self.receiver.device.clone(), access, self.receiver.limits).await;
        let volume =
            opened.map_err(|error| (Step::Open, Reason::new(ReasonKind::Drive, error.to_string())))?;
        let end = self.receiver.leecher.record().end.as_ref();
        let head = end.and_then(|end| Head::decode(&sealer, &end.head).ok());
        let epoch = head.map_or(0, |head| head.epoch.0);
        self.volume = Some(volume);
        self.tell(Event::Opened { epoch });
        Ok(())
    }

    fn attach(&self) {
        let Some(volume) = self.volume.clone() else { return };
        let (seat, later) = (self.receiver.seat.clone(), self.later.clone());
        tokio::spawn(async move {
            let event = match seat.attach(volume).await {
                Ok(()) => Event::Attached,
                Err(why) => Event::Failed(Step::Attach, Reason::new(ReasonKind::Drive, why)),
            };
            let _ = later.send(Later::Event(event));
        });
    }
}

/// What HEAD says. With `puts` the grant is put first, if HEAD is the one that it follows.
async fn seen(env: &Environment, own: Uuid, grant: &Head, puts: bool) -> HeadSeen {
    let store = (&*env.store, &*env.sealer);
    let now = match heads::read(store.0, store.1, grant.drive).await {
        Ok((now, _)) => now,
        Err(error) => return HeadSeen::Unknown(error.to_string()),
    };
    let is_before = now.epoch.0 + 1 == grant.epoch.0;
    if now.nonce == grant.nonce || now.device == own && now.epoch > grant.epoch {
        return HeadSeen::Grant;
    }
    if !is_before {
        return HeadSeen::Other(now.device_name);
    }
    if !puts || now.root != grant.root {
        return HeadSeen::Seeder;
    }
    match heads::put_grant(store, now.nonce, grant).await {
        Ok(Granted::Applied) => HeadSeen::Grant,
        Ok(Granted::Lost(head)) => HeadSeen::Other(head.device_name),
        Ok(Granted::NotApplied(error) | Granted::Unknown(error)) => HeadSeen::Unknown(error.to_string()),
        Err(error) => HeadSeen::Unknown(error.to_string()),
    }
}

fn reason_of(error: &ReceiveError) -> Reason {
    let disk = |error: &io::Error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ReasonKind::NoSpace,
        io::ErrorKind::InvalidData => ReasonKind::Corrupt,
        _ => ReasonKind::Disk,
    };
    let journal = |error: &LogError| match error {
        LogError::Full | LogError::NoRoom(_) => ReasonKind::NoSpace,
        _ => ReasonKind::Disk,
    };
    let kind = match error {
        ReceiveError::Local(error) | ReceiveError::Import(ImportError::Io(error)) => disk(error),
        ReceiveError::Journal(error) | ReceiveError::Import(ImportError::Journal(error)) => journal(error),
        ReceiveError::Import(ImportError::TooLarge { .. }) => ReasonKind::NoSpace,
        ReceiveError::Format(_) | ReceiveError::OtherGrant => ReasonKind::Corrupt,
        _ => ReasonKind::Drive,
    };
    Reason::new(kind, error.to_string())
}
