//! Performs what [`Seeder`] decides, on an open drive.

use super::link::{Incoming, Link, Stream, part};
use super::message::{Final, Greeting, Message, Position, Reason, ReasonKind};
use super::phase::Phase;
use super::seeder::{Action, Event, Progress, STALL_MAX, Seeder, Step};
use super::session::Record;
use super::{Now, Swap};
use crate::disk::Disk;
use crate::format::head::Head;
use crate::heads::{self, Device, Granted};
use crate::journal::tracker::Written;
use crate::seal::Sealer;
use crate::store::Store;
use crate::units::BlockRange;
use crate::volume::{Arrival, Content, HandOver, HandOverError, Handed, Volume};
use async_trait::async_trait;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The engine hears of time this often, and of written blocks every second.
const TICK: Duration = Duration::from_millis(250);
/// Between two tries to connect.
const DIAL_AGAIN: Duration = Duration::from_secs(2);
/// The commit under way may take this long to end before programs are stopped.
const HOLD_MAX: Duration = Duration::from_secs(120);
/// Programs are let go by themselves after this long, if the engine did not decide anything.
const QUIET_MAX: Duration = Duration::from_secs(STALL_MAX.as_secs() * 2);

/// What the daemon does for a drive that leaves.
#[async_trait]
pub trait Seat: Send + Sync + 'static {
    /// Connects to the other device.
    async fn dial(&self) -> io::Result<Box<dyn Stream>>;
    /// Freezes the file system, if there is one: everything that programs wrote has reached the drive.
    async fn freeze(&self) -> io::Result<()>;
    /// Undoes it.
    async fn thaw(&self);
    /// From now on the file system is shut down rather than thawed, whatever becomes of the daemon.
    async fn hold_for_good(&self);
    /// Shuts the file system down, and detaches the drive.
    async fn shut_down(&self);
    /// The wall clock, Unix time in ms.
    fn unix_ms(&self) -> u64;
}

/// What a person wants, or the other device.
pub enum Command {
    /// The other device has connected, and sent this greeting.
    Linked(Link, Greeting),
    /// Cancel.
    Cancel,
    /// Stop programs although it takes longer than wanted.
    StopNow,
    /// The drive was taken back.
    TakenBack,
}

/// A drive that leaves this device.
pub struct Sender {
    /// The engine.
    pub seeder: Seeder,
    /// The drive; `None` if an earlier process has handed it over.
    pub volume: Option<Arc<Volume>>,
    /// Its store.
    pub store: Arc<dyn Store>,
    /// What that process noted.
    pub handed: Option<Handed>,
    /// The device that gets it.
    pub to: Device,
    /// The family's keys.
    pub sealer: Arc<Sealer>,
    /// Where records are.
    pub records: Arc<dyn Disk>,
    /// The rest of the daemon.
    pub seat: Arc<dyn Seat>,
}

struct Running {
    sender: Sender,
    began: Instant,
    link: Option<Link>,
    dialling: Option<JoinHandle<()>>,
    next_dial: Instant,
    hand_over: Option<Arc<HandOver>>,
    stopping: Option<JoinHandle<()>>,
    later: mpsc::UnboundedSender<Later>,
    ended: bool,
}

/// What tasks report.
enum Later {
    Event(Event),
    Connected(io::Result<Box<dyn Stream>>),
}

impl Sender {
    /// Runs the session until it ends, or the process does. `first` are the actions that the engine began with.
    pub async fn run(
        self,
        first: Vec<Action>,
        mut commands: mpsc::Receiver<Command>,
        progress: watch::Sender<Progress>,
    ) -> Record {
        let (later, mut told) = mpsc::unbounded_channel();
        let now = Instant::now();
        let mut running = Running {
            sender: self,
            began: now,
            link: None,
            dialling: None,
            next_dial: now,
            hand_over: None,
            stopping: None,
            later,
            ended: false,
        };
        running.perform(first).await;
        let mut tick = tokio::time::interval(TICK);
        let mut looked = now;
        while !running.ended {
            let event = tokio::select! {
                Some(later) = told.recv() => match later {
                    Later::Event(event) => Some(event),
                    Later::Connected(stream) => running.connected(stream),
                },
                Some(command) = commands.recv() => match command {
                    Command::Linked(link, greeting) => {
                        running.link = Some(link);
                        running.apply(Event::Linked).await;
                        Some(Event::Received(Message::Hello(greeting)))
                    }
                    Command::Cancel => Some(Event::Cancel),
                    Command::StopNow => Some(Event::StopNow),
                    Command::TakenBack => Some(Event::TakenBack),
                },
                incoming = next(&mut running.link) => Some(running.incoming(incoming)),
                _ = tick.tick() => {
                    if looked.elapsed() >= Duration::from_secs(1) {
                        looked = Instant::now();
                        running.look().await;
                    }
                    running.dial();
                    Some(Event::Tick)
                }
            };
            if let Some(event) = event {
                running.apply(event).await;
            }
            progress.send_replace(running.sender.seeder.progress());
        }
        // The last message is on its way; the other device asks again if it is lost.
        tokio::time::sleep(Duration::from_millis(500)).await;
        running.sender.seeder.record().clone()
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
        Now { at: self.began.elapsed(), unix_ms: self.sender.seat.unix_ms() }
    }

    async fn apply(&mut self, event: Event) {
        let now = self.now();
        let actions = self.sender.seeder.apply(now, event);
        self.perform(actions).await;
    }

    /// Performs the actions in order. After a failure the rest is dropped, and the engine decides again.
    async fn perform(&mut self, actions: Vec<Action>) {
        let mut lists = vec![actions];
        while let Some(actions) = lists.pop() {
            for action in actions {
                if let Err((step, reason)) = self.act(action).await {
                    tracing::warn!(?step, reason = reason.text, "a step of sending a drive failed");
                    let now = self.now();
                    lists.push(self.sender.seeder.apply(now, Event::Failed(step, reason)));
                    break;
                }
            }
        }
    }

    // -- The connection

    fn dial(&mut self) {
        let is_dialling = self.dialling.as_ref().is_some_and(|dialling| !dialling.is_finished());
        if !self.sender.seeder.wants_link() || is_dialling || Instant::now() < self.next_dial {
            return;
        }
        self.next_dial = Instant::now() + DIAL_AGAIN;
        let (seat, later) = (self.sender.seat.clone(), self.later.clone());
        self.dialling = Some(tokio::spawn(async move {
            let _ = later.send(Later::Connected(seat.dial().await));
        }));
    }

    fn connected(&mut self, stream: io::Result<Box<dyn Stream>>) -> Option<Event> {
        match stream {
            Ok(stream) => {
                self.link = Some(Link::new(stream));
                Some(Event::Linked)
            }
            Err(error) => {
                tracing::info!(%error, "the other computer cannot be reached");
                None
            }
        }
    }

    fn incoming(&mut self, incoming: Incoming) -> Event {
        match incoming {
            Incoming::Message(message) => Event::Received(message),
            Incoming::Ended => {
                self.link = None;
                Event::Unlinked
            }
            Incoming::Unreadable(why) => {
                self.link = None;
                Event::Failed(Step::Read, Reason::new(ReasonKind::Drive, why))
            }
        }
    }

    // -- The drive

    /// Blocks that were written since the last look. The engine keeps them until the other device has them.
    fn taken(&self) -> Vec<BlockRange> {
        let Some(hand_over) = &self.hand_over else { return Vec::new() };
        let mut runs = Vec::new();
        while let Some(taken) = hand_over.take(u64::MAX, usize::MAX) {
            runs.extend(taken.runs.iter().map(|(run, _)| *run));
            hand_over.acknowledged(taken.number);
        }
        runs
    }

    async fn look(&mut self) {
        // Once programs wait, the last blocks belong to the seal.
        if self.sender.seeder.record().phase == Phase::Copying {
            let runs = self.taken();
            self.apply(Event::Wrote(runs)).await;
        }
    }

    async fn act(&mut self, action: Action) -> Result<(), (Step, Reason)> {
        let drive = |step: Step| move |error: HandOverError| (step, reason_of(&error));
        match action {
            Action::Record(record) => {
                let saved = record.save(&*self.sender.records).await;
                saved.map_err(|error| (Step::Record, disk_reason(&error)))?;
            }
            Action::Send(message) => self.send(message),
            Action::Watch { attempt } => self.watch(attempt).await.map_err(drive(Step::Watch))?,
            Action::SendPart { at, last, blocks } => self.send_part(at, last, blocks),
            Action::Stop => self.stop(),
            Action::Seal { held } => self.seal(&held).await.map_err(drive(Step::Seal))?,
            Action::MarkHanded(end) => {
                let hand_over = self.hand_over.clone().ok_or(HandOverError::Order);
                let marked = match hand_over {
                    Ok(hand_over) => hand_over.mark_handed(crate::units::Lsn(end.cut)).await,
                    Err(error) => Err(error),
                };
                marked.map_err(drive(Step::Mark))?;
            }
            Action::HoldForGood => self.sender.seat.hold_for_good().await,
            Action::Swap { head } => self.swap(&head),
            Action::Continue => self.let_go().await,
            Action::ShutDown => {
                self.sender.seat.shut_down().await;
                // What is left of it is in the journal, which nobody replays.
                if let Some(volume) = self.sender.volume.take() {
                    let _ = volume.shut_down().await;
                }
            }
            Action::End => {
                self.hand_over = None;
                self.ended = true;
            }
        }
        Ok(())
    }

    fn send(&self, message: Message) {
        if let Some(link) = &self.link {
            link.send(message);
        }
    }

    async fn watch(&mut self, attempt: u32) -> Result<(), HandOverError> {
        self.hand_over = None;
        let record = self.sender.seeder.record();
        let (session, begun_ms) = (record.offer.session, record.begun_ms);
        let volume = self.sender.volume.as_ref().ok_or(HandOverError::NotOpen)?;
        let hand_over = volume.hand_over(session, self.sender.to.clone(), begun_ms).await?;
        self.hand_over = Some(Arc::new(hand_over));
        let delta = self.taken();
        let head = record_head(&self.sender);
        let _ = self.later.send(Later::Event(Event::Watching { attempt, delta, head }));
        Ok(())
    }

    fn send_part(&self, at: Position, last: bool, blocks: Vec<BlockRange>) {
        let (Some(link), Some(hand_over)) = (&self.link, self.hand_over.clone()) else { return };
        link.send_part(Box::new(move || {
            Box::pin(async move {
                let (mut full, mut zeros, mut data) = (Vec::new(), Vec::new(), Vec::new());
                for run in blocks {
                    let read = hand_over.read((run, Written::Data)).await;
                    for (blocks, content) in read.map_err(|error| io::Error::other(error.to_string()))? {
                        match content {
                            Content::Data(bytes) => {
                                full.push(blocks);
                                data.extend_from_slice(&bytes);
                            }
                            Content::Zero => zeros.push(blocks),
                        }
                    }
                }
                let join = |runs| crate::units::coalesce(runs, 1);
                Ok(part(at, last, join(full), join(zeros), data))
            })
        }));
    }

    fn stop(&mut self) {
        let Some(hand_over) = self.hand_over.clone() else { return };
        let (seat, later) = (self.sender.seat.clone(), self.later.clone());
        let tell = move |event| {
            let _ = later.send(Later::Event(event));
        };
        self.stopping = Some(tokio::spawn(async move {
            let failed = |reason| Event::Failed(Step::Stop, reason);
            match tokio::time::timeout(HOLD_MAX, hand_over.hold()).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return tell(failed(reason_of(&error))),
                Err(_) => {
                    let text = "the upload under way did not end in time";
                    return tell(failed(Reason::new(ReasonKind::TooSlow, text)));
                }
            }
            tell(Event::Stopping);
            if let Err(error) = seat.freeze().await {
                return tell(failed(Reason::new(ReasonKind::Drive, error.to_string())));
            }
            match hand_over.quiesce(QUIET_MAX).await {
                Ok(()) => tell(Event::Stopped),
                Err(error) => tell(failed(reason_of(&error))),
            }
        }));
    }

    /// Fixes the grant. Its hash covers the contents that were read, so the last blocks are read here once, and again when they are sent: programs
    /// wait, and nothing changes in between.
    async fn seal(&mut self, held: &[BlockRange]) -> Result<(), HandOverError> {
        let Some(hand_over) = self.hand_over.clone() else { return Err(HandOverError::Order) };
        let rest = self.taken();
        for run in held.iter().chain(&rest) {
            hand_over.read((*run, Written::Data)).await?;
        }
        let sealed = hand_over.seal().await?;
        let arrival = Arrival { head: sealed.head.clone(), root: sealed.root, lineage: sealed.lineage }
            .encode(&self.sender.sealer);
        if arrival.len() > super::message::ARRIVAL_BYTES_MAX {
            return Err(HandOverError::Order);
        }
        let end = Final {
            attempt: 0,
            rounds: 0,
            delta_hash: sealed.delta,
            cut: sealed.cut.0,
            cut_crc: 0,
            size_blocks: sealed.size_blocks,
            head: sealed.head.encode(&self.sender.sealer).into(),
            arrival: arrival.into(),
        };
        let _ = self.later.send(Later::Event(Event::Sealed { rest, end }));
        Ok(())
    }

    fn swap(&self, head: &Bytes) {
        let (later, sealer, store) =
            (self.later.clone(), self.sender.sealer.clone(), self.sender.store.clone());
        let (hand_over, head) = (self.hand_over.clone(), Head::decode(&sealer, head));
        let own = self.sender.seeder.device();
        let before = self.sender.handed.as_ref().and_then(Handed::before);
        tokio::spawn(async move {
            let unknown = |why: String| Swap::Unknown(why);
            let granted = match (hand_over, before, head) {
                (Some(hand_over), ..) => hand_over.swap().await.map_err(|error| error.to_string()),
                (None, Some(before), Ok(head)) => {
                    let put = heads::put_grant((&*store, &*sealer), before, &head).await;
                    put.map_err(|error| error.to_string())
                }
                _ => Err("the note of the hand-over is missing".to_owned()),
            };
            let outcome = match granted {
                Ok(Granted::Applied) => Swap::Applied,
                // It was taken back, and the record did not say so yet.
                Ok(Granted::Lost(head)) if head.device == own => {
                    let _ = later.send(Later::Event(Event::TakenBack));
                    return;
                }
                Ok(Granted::Lost(head)) => Swap::Overtaken(head.device_name),
                Ok(Granted::NotApplied(error) | Granted::Unknown(error)) => unknown(error.to_string()),
                Err(why) => unknown(why),
            };
            let _ = later.send(Later::Event(Event::Swapped(outcome)));
        });
    }

    async fn let_go(&mut self) {
        if let Some(stopping) = self.stopping.take() {
            stopping.abort();
        }
        if let Some(hand_over) = self.hand_over.take() {
            // It refuses only what is handed over, and then the gate stays shut.
            let _ = hand_over.cancel();
        }
        self.sender.seat.thaw().await;
    }
}

fn record_head(sender: &Sender) -> Bytes {
    sender.seeder.record().offer.head.clone()
}

fn disk_reason(error: &io::Error) -> Reason {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ReasonKind::NoSpace,
        _ => ReasonKind::Disk,
    };
    Reason::new(kind, error.to_string())
}

fn reason_of(error: &HandOverError) -> Reason {
    match error {
        HandOverError::Local(error) => disk_reason(error),
        error => Reason::new(ReasonKind::Drive, error.to_string()),
    }
}
