//! A drive moves between two devices by both engines, real volumes and a connection of bytes, while a program writes.

use crate::bench::{Bench, close, device, get, put, run};
use crate::handover::{Model, head, written};
use bytes::Bytes;
use holdall_core::device::{BlockDevice, Durability};
use holdall_core::disk::Disk;
use holdall_core::migrate::leecher::Leecher;
use holdall_core::migrate::link::{Incoming, Link, Stream};
use holdall_core::migrate::message::{Answer, Greeting, Message, Offer, Position, ReasonKind};
use holdall_core::migrate::phase::{Phase, Role};
use holdall_core::migrate::receive::{self, Receiver};
use holdall_core::migrate::seeder::Seeder;
use holdall_core::migrate::send::{self, Sender};
use holdall_core::migrate::session::Record;
use holdall_core::migrate::{Now, seeder};
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{Environment, Volume, VolumeDevice};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

const SESSION: Uuid = Uuid::from_u128(0xabc);
const LONG: Duration = Duration::from_secs(600);

/// The seeder's side of the daemon: it dials the other device.
struct There {
    calls: mpsc::UnboundedSender<Box<dyn Stream>>,
    /// The first connection breaks after so many bytes.
    cut_after: parking_lot::Mutex<Option<usize>>,
}

#[async_trait::async_trait]
impl send::Seat for There {
    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let theirs = match self.cut_after.lock().take() {
            Some(bytes) => cut(theirs, bytes),
            None => theirs,
        };
        self.calls.send(Box::new(theirs)).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(Box::new(ours))
    }

    async fn freeze(&self) -> io::Result<()> {
        Ok(())
    }

    async fn thaw(&self) {}

    async fn hold_for_good(&self) {}

    async fn shut_down(&self) {}

    fn unix_ms(&self) -> u64 {
        1
    }
}

/// The other end of a connection that breaks after so many bytes from there.
fn cut(mut from: DuplexStream, bytes: usize) -> DuplexStream {
    let (mut middle, end) = tokio::io::duplex(64 << 10);
    tokio::spawn(async move {
        let (mut left, mut there, mut here) = (bytes, [0; 4096], [0; 4096]);
        while left > 0 {
            tokio::select! {
                read = from.read(&mut there) => match read {
                    Ok(len) if len > 0 => {
                        left = left.saturating_sub(len);
                        if middle.write_all(&there[..len]).await.is_err() {
                            return;
                        }
                    }
                    _ => return,
                },
                read = middle.read(&mut here) => match read {
                    Ok(len) if len > 0 && from.write_all(&here[..len]).await.is_ok() => {}
                    _ => return,
                },
            }
        }
    });
    end
}

/// The leecher's side of the daemon.
struct Here {
    environment: Box<dyn Fn() -> Environment + Send + Sync>,
}

#[async_trait::async_trait]
impl receive::Seat for Here {
    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        Err(io::ErrorKind::ConnectionRefused.into())
    }

    fn environment(&self) -> Environment {
        (self.environment)()
    }

    async fn attach(&self, _: Arc<Volume>) -> Result<(), String> {
        Ok(())
    }

    fn unix_ms(&self) -> u64 {
        2
    }
}

/// A migration from device 0 to device 1.
struct Migration {
    commands: mpsc::Sender<send::Command>,
    progress: watch::Receiver<seeder::Progress>,
    sent: tokio::task::JoinHandle<Record>,
    received: tokio::task::JoinHandle<Option<(Record, Option<Arc<Volume>>)>>,
}

fn records(bench: &Bench, index: usize) -> Arc<dyn Disk> {
    Arc::new(bench.devices[index].state.directory("migrations"))
}

async fn begin(bench: &Bench, volume: &Arc<Volume>, cut_after: Option<usize>) -> Migration {
    let offer = Offer {
        session: SESSION,
        drive: bench.drive,
        name: "d".to_owned(),
        size_blocks: 256,
        family: Bytes::new(),
        stores: Vec::new(),
        head: head(bench).await.encode(&bench.sealer).into(),
        journal: Uuid::nil(),
        dirty_bytes: 0,
        pins: Vec::new(),
        key: Bytes::new(),
        downtime_limit_ms: 300,
    };
    let (calls, mut called) = mpsc::unbounded_channel();
    let record = Record::new(Role::Seeder, [1; 32], "device 1".to_owned(), offer, 5);
    let (seeder, first) = Seeder::begin(Now::default(), record, device(0).id, "device 0".to_owned());
    let (progress, seen) = watch::channel(seeder.progress());
    let sender = Sender {
        seeder,
        volume: Some(volume.clone()),
        store: Arc::new(bench.store.clone()),
        handed: None,
        to: device(1),
        sealer: bench.sealer.clone(),
        records: records(bench, 0),
        seat: Arc::new(There { calls, cut_after: parking_lot::Mutex::new(cut_after) }),
    };
    let (commands, given) = mpsc::channel(8);
    let sent = tokio::spawn(sender.run(first, given, progress));
    let (store, disks) = (bench.store.clone(), &bench.devices[1]);
    let (state, journal, cache) =
        (disks.state.directory("state"), disks.journal.directory("journal"), disks.cache.directory("cache"));
    let sealer = bench.sealer.clone();
    let environment = move || {
        let meter = holdall_core::store::meter::Meter::default();
        Environment {
            state: Arc::new(state.clone()),
            journal: Arc::new(journal.clone()),
            cache: Arc::new(cache.clone()),
            store: meter.on(Arc::new(store.clone())),
            meter,
            sealer: sealer.clone(),
            pages: holdall_core::map::PageCache::none(),
        }
    };
    let seat: Arc<dyn receive::Seat> = Arc::new(Here { environment: Box::new(environment) });
    let (records, limits) = (records(bench, 1), bench.limits);
    let received = tokio::spawn(async move {
        let mut running: Option<(mpsc::Sender<receive::Command>, tokio::task::JoinHandle<_>)> = None;
        while let Some(stream) = called.recv().await {
            let mut link = Link::new(stream);
            let Incoming::Message(Message::Hello(greeting)) = link.next().await else { continue };
            if let Some((commands, _)) = &running {
                let _ = commands.send(receive::Command::Linked(link, greeting)).await;
                continue;
            }
            let own = Greeting {
                device: device(1).id,
                name: "device 1".to_owned(),
                role: Role::Leecher,
                phase: None,
                position: Position::default(),
                ..greeting.clone()
            };
            let Ok(offer) = receive::offered(&mut link, &greeting, own).await else { continue };
            let record = Record::new(Role::Leecher, [2; 32], greeting.name, offer, 5);
            let (leecher, first) =
                Leecher::begin(Now::default(), record, device(1).id, "device 1".to_owned());
            let (progress, _) = watch::channel(leecher.progress());
            let (records, seat) = (records.clone(), seat.clone());
            let receiver = Receiver { leecher, device: device(1), limits, receiving: None, records, seat };
            let (commands, given) = mpsc::channel(8);
            let task = tokio::spawn(receiver.run(first, Some(link), given, progress));
            commands.send(receive::Command::Accept(Answer::default())).await.ok()?;
            running = Some((commands, task));
        }
        let (commands, task) = running?;
        let received = task.await.ok();
        drop(commands);
        received
    });
    Migration { commands, progress: seen, sent, received }
}

impl Migration {
    async fn end(self) -> (Record, Option<(Record, Option<Arc<Volume>>)>) {
        let sent = tokio::time::timeout(LONG, self.sent).await.unwrap().unwrap();
        let received = tokio::time::timeout(LONG, self.received).await.unwrap().unwrap();
        (sent, received)
    }
}

/// Writes until it is refused.
async fn program(volume: Arc<Volume>, model: Arc<Model>) {
    for turn in 0u64.. {
        let (block, byte) = (100 + turn % 40, (turn % 200) as u8 + 1);
        model.may_be(block, byte);
        let data = [byte; BLOCK_BYTES as usize];
        let device = VolumeDevice(volume.clone());
        if device.write(block * BLOCK_BYTES, &data, Durability::Forced).wait().await.is_err() {
            return;
        }
        model.set(block, byte);
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

#[test]
fn a_drive_moves_while_a_program_writes() {
    for cut_after in [None, Some(1000), Some(40_000), Some(90_000)] {
        run(moves(cut_after));
    }
}

async fn moves(cut_after: Option<usize>) {
    let (bench, model) = (Bench::of_handover().await, Arc::new(Model::default()));
    let volume = written(&bench, &model).await;
    let writes = tokio::spawn(program(volume.clone(), model.clone()));
    let (sent, received) = begin(&bench, &volume, cut_after).await.end().await;
    tokio::time::timeout(LONG, writes).await.unwrap().unwrap();
    assert_eq!((sent.phase, sent.reason), (Phase::Moved, None));
    let (received, there) = received.unwrap();
    assert_eq!((received.phase, received.reason), (Phase::Arrived, None));
    assert_eq!(sent.attempt, 1, "the delta was sent once");
    let there = there.unwrap();
    model.check(&there).await;
    put(&there, 3, 77).await;
    there.pusher().unwrap().sync().await.unwrap();
    assert_eq!(head(&bench).await.device, device(1).id);
    close(there).await;
    assert_eq!(bench.drives().await, 1, "nothing became a fork");
}

#[test]
fn a_cancelled_migration_leaves_everything_as_it_was() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Arc::new(Model::default()));
        let volume = written(&bench, &model).await;
        let mut migration = begin(&bench, &volume, None).await;
        let copies = |progress: &seeder::Progress| progress.phase == Phase::Copying;
        tokio::time::timeout(LONG, migration.progress.wait_for(copies)).await.unwrap().unwrap();
        migration.commands.send(send::Command::Cancel).await.unwrap();
        let (sent, received) = migration.end().await;
        assert_eq!(sent.phase, Phase::Cancelled);
        assert_eq!(received.map(|(record, _)| record.phase), Some(Phase::Cancelled));
        model.put(&volume, 7, 9).await;
        volume.pusher().unwrap().sync().await.unwrap();
        close(volume).await;
        let again = bench.open(0).await.unwrap();
        model.check(&again).await;
        close(again).await;
    });
}

#[test]
fn a_full_disk_there_cancels_with_the_reason() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Arc::new(Model::default()));
        let volume = written(&bench, &model).await;
        bench.devices[1].journal.set_full(true);
        let (sent, received) = begin(&bench, &volume, None).await.end().await;
        let kind = |record: &Record| record.reason.as_ref().map(|reason| reason.kind);
        assert_eq!((sent.phase, kind(&sent)), (Phase::Cancelled, Some(ReasonKind::NoSpace)));
        assert_eq!(received.map(|(record, _)| record.phase), Some(Phase::Cancelled));
        model.put(&volume, 8, 9).await;
        assert_eq!(get(&volume, 8).await, 9);
        close(volume).await;
    });
}
