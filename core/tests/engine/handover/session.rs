//! One hand-over between two devices, in plain calls.

use crate::bench::{Bench, GEOMETRY, LIMITS, device, get, put};
use holdall_core::disk::Disk;
use holdall_core::drive;
use holdall_core::format::head::{self, Head};
use holdall_core::heads::Granted;
use holdall_core::journal::tracker::Taken;
use holdall_core::map::{Objects, PageCache};
use holdall_core::store::Store;
use holdall_core::volume::{
    self, Access, Arrival, Content, HandOver, Handed, OpenError, ReceiveError, Receiving, Sealed, Volume,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

pub const SESSION: Uuid = Uuid::from_u128(0x5e55);
pub const HEADROOM: u64 = 256 << 10;
pub const LIMIT: Duration = Duration::from_secs(60);

/// What each block may hold: the last write that was acknowledged, and one that was under way.
#[derive(Default)]
pub struct Model(Mutex<std::collections::BTreeMap<u64, Vec<u8>>>);

impl Model {
    pub async fn put(&self, volume: &Arc<Volume>, block: u64, byte: u8) {
        self.0.lock().entry(block).or_insert_with(|| vec![0]).push(byte);
        put(volume, block, byte).await;
        self.set(block, byte);
    }

    /// A write is under way.
    pub fn may_be(&self, block: u64, byte: u8) {
        self.0.lock().entry(block).or_insert_with(|| vec![0]).push(byte);
    }

    pub fn set(&self, block: u64, byte: u8) {
        self.0.lock().insert(block, vec![byte]);
    }

    pub async fn check(&self, volume: &Arc<Volume>) {
        let expected = self.0.lock().clone();
        for (block, allowed) in expected {
            let found = get(volume, block).await;
            assert!(allowed.contains(&found), "block {block} holds {found} and not {allowed:?}");
        }
    }
}

impl Bench {
    /// A journal that takes a group beside its own records.
    pub async fn of_handover() -> Self {
        let journal = holdall_core::journal::Limits { files: 16, ..LIMITS.journal };
        Self::make(GEOMETRY, volume::VolumeLimits { journal, ..LIMITS }).await
    }

    /// Drives of the family.
    pub async fn drives(&self) -> usize {
        let names = self.store.names();
        names.iter().filter(|name| name.starts_with("head/")).count()
    }

    pub fn objects(&self) -> Objects {
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        Objects::new(store, self.sealer.clone(), PageCache::none())
    }
}

impl crate::bench::Disks {
    /// Loses `drive.json`.
    pub fn lose_state(&self) {
        let state = self.state.directory("state");
        state.remove("drive.json").unwrap();
        state.remove("seen").unwrap();
    }
}

pub async fn head(bench: &Bench) -> Head {
    let bytes = bench.store.get(&head::name(bench.drive), None).await.unwrap().bytes;
    Head::decode(&bench.sealer, &bytes).unwrap()
}

/// Kills the process that has the drive open on a device.
pub async fn restarted(bench: &Bench, index: usize, volume: Arc<Volume>) {
    bench.devices[index].kill();
    volume.stop_serving();
    if let Some(pusher) = volume.pusher() {
        pusher.stop().await;
    }
    drop(volume);
}

pub struct Session<'a> {
    pub bench: &'a Bench,
    pub from: usize,
    pub to: usize,
}

impl<'a> Session<'a> {
    pub fn new(bench: &'a Bench, from: usize, to: usize) -> Self {
        Self { bench, from, to }
    }

    pub async fn begin(&self, volume: &Arc<Volume>) -> HandOver {
        volume.hand_over(SESSION, device(self.to), 77).await.unwrap()
    }

    pub async fn try_receive(&self, hand_over: &HandOver, headroom: u64) -> Result<Receiving, ReceiveError> {
        let env = self.bench.environment(Arc::new(self.bench.store.clone()), self.to);
        let (_, root) = drive::current(&self.bench.objects(), self.bench.drive)
            .await
            .map(|(head, _, root)| (head, root))
            .unwrap();
        let plan = (SESSION, hand_over.stream(), headroom);
        volume::receive(&env, (self.bench.drive, &device(self.to)), &root, plan, self.bench.limits).await
    }

    pub async fn receive(&self, hand_over: &HandOver) -> Receiving {
        self.try_receive(hand_over, HEADROOM).await.unwrap()
    }

    pub async fn received(&self) -> Result<Option<Receiving>, ReceiveError> {
        let env = self.bench.environment(Arc::new(self.bench.store.clone()), self.to);
        volume::received(&env, (self.bench.drive, &device(self.to)), SESSION, self.bench.limits).await
    }

    /// Holds, shuts the gate, and sends the last blocks.
    pub async fn seal(&self, hand_over: &HandOver, receiving: &mut Receiving) -> Sealed {
        hand_over.hold().await.unwrap();
        hand_over.quiesce(LIMIT).await.unwrap();
        send_all(hand_over, receiving).await;
        self.sealed(hand_over, receiving).await
    }

    /// Seals on both sides, after everything was sent.
    pub async fn sealed(&self, hand_over: &HandOver, receiving: &mut Receiving) -> Sealed {
        let sealed = hand_over.seal().await.unwrap();
        assert_eq!(hand_over.seal().await.unwrap().head, sealed.head, "sealing again gives the same grant");
        // What is sent over the wire.
        let arrival =
            Arrival { head: sealed.head.clone(), root: sealed.root.clone(), lineage: sealed.lineage.clone() };
        let arrival = Arrival::decode(&self.bench.sealer, &arrival.encode(&self.bench.sealer)).unwrap();
        receiving.finish(&arrival).await.unwrap();
        sealed
    }

    pub async fn finish(
        &self,
        volume: Arc<Volume>,
        hand_over: HandOver,
        mut receiving: Receiving,
        model: &Model,
    ) -> Arc<Volume> {
        model.put(&volume, 90, 1).await;
        let sealed = self.seal(&hand_over, &mut receiving).await;
        drop(receiving);
        self.release(volume, hand_over, sealed).await
    }

    async fn release(&self, volume: Arc<Volume>, hand_over: HandOver, sealed: Sealed) -> Arc<Volume> {
        hand_over.mark_handed(sealed.cut).await.unwrap();
        assert!(matches!(hand_over.swap().await.unwrap(), Granted::Applied));
        drop(hand_over);
        volume.shut_down().await.unwrap();
        drop(volume);
        self.open_granted().await.unwrap()
    }

    pub async fn open_granted(&self) -> Result<Arc<Volume>, OpenError> {
        self.bench.open_with(self.to, Access::Granted { session: SESSION }).await
    }

    /// The whole of it, with writes in between.
    pub async fn move_drive(&self, volume: Arc<Volume>, model: &Model) -> Arc<Volume> {
        let hand_over = self.begin(&volume).await;
        let mut receiving = self.receive(&hand_over).await;
        for byte in 0..3 {
            let Some(round) = hand_over.take(6, 100) else { break };
            send(&hand_over, &mut receiving, &round).await;
            model.put(&volume, 20 + u64::from(byte), 100 + byte).await;
            receiving.import_mut().acknowledge(round.number).await.unwrap();
            hand_over.acknowledged(round.number);
        }
        send_all(&hand_over, &mut receiving).await;
        receiving.import_mut().reserve(64 << 10).await.unwrap();
        self.finish(volume, hand_over, receiving, model).await
    }

    /// The same without a write.
    pub async fn move_drive_quietly(&self, volume: Arc<Volume>) -> Arc<Volume> {
        let hand_over = self.begin(&volume).await;
        let mut receiving = self.receive(&hand_over).await;
        let sealed = self.seal(&hand_over, &mut receiving).await;
        drop(receiving);
        self.release(volume, hand_over, sealed).await
    }

    pub fn handed(&self) -> Option<Handed> {
        let disks = &self.bench.devices[self.from];
        volume::handed(&disks.state.directory("state"), &disks.journal.directory("journal")).unwrap()
    }

    /// Waits until HEAD says that this opening has the drive.
    pub async fn taken(volume: &Volume) {
        let mut state = volume.pusher().unwrap().state();
        state.wait_for(|state| state.is_taken).await.unwrap();
    }
}

pub async fn send(hand_over: &HandOver, receiving: &mut Receiving, round: &Taken) {
    for run in &round.runs {
        for (blocks, content) in hand_over.read(*run).await.unwrap() {
            match content {
                Content::Data(data) => receiving.import_mut().data(blocks.start, &data).unwrap(),
                Content::Zero => receiving.import_mut().zero(blocks).unwrap(),
            }
        }
    }
}

/// Sends rounds until nothing waits.
pub async fn send_all(hand_over: &HandOver, receiving: &mut Receiving) {
    while let Some(round) = hand_over.take(16, 100) {
        send(hand_over, receiving, &round).await;
        receiving.import_mut().acknowledge(round.number).await.unwrap();
        hand_over.acknowledged(round.number);
    }
}
