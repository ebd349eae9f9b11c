//! What the daemon does for its engine.

use super::*;

impl World {
    pub(super) fn seed(&mut self, device: usize, action: seeder::Action) -> u64 {
        use seeder::{Action as A, Event as E, Step};
        let failed =
            |step| Event::Seeder(E::Failed(step, Reason::new(ReasonKind::NoSpace, "the disk is full")));
        match action {
            A::Record(record) => {
                self.sync(device, |device| device.disk.save_record(&record), failed(Step::Record));
            }
            A::Send(message) => self.send(device, &message),
            A::Watch { attempt } => {
                if !self.open_volume(device) {
                    self.told(device, 1, failed(Step::Watch));
                    return 1;
                }
                let target = &mut self.devices[device];
                target.sent.clear();
                let blocks = target.delta().into_keys().collect();
                target.volume.as_mut().unwrap().tracker = Some(BTreeSet::new());
                let head = self.store.head.encode();
                self.told(device, 5, Event::Seeder(E::Watching { attempt, delta: runs(blocks), head }));
            }
            A::SendPart { at, last, blocks } => {
                let mut data = Vec::new();
                let (mut full, mut zero) = (BTreeSet::new(), BTreeSet::new());
                for block in blocks.iter().flat_map(|run| run.iter()) {
                    let value = self.content(device, block);
                    self.devices[device].sent.insert(block, value);
                    match value {
                        0 => zero.insert(block),
                        _ => full.insert(block),
                    };
                    if value != 0 {
                        data.extend_from_slice(&value.to_le_bytes());
                    }
                }
                let (blocks, zeros, data) = (runs(full), runs(zero), Bytes::from(data));
                let part = Part { at, last, compressed: !blocks.is_empty(), blocks, zeros, data };
                self.send(device, &Message::Round(part));
            }
            A::Stop => {
                let wait = self.rng.random_range(5..80);
                self.told(device, 0, Event::Seeder(E::Stopping));
                if let Some(volume) = &mut self.devices[device].volume {
                    volume.is_gate_open = false;
                    match volume.is_pushing {
                        true => volume.stops = true,
                        false => self.told(device, wait, Event::Seeder(E::Stopped)),
                    }
                }
            }
            A::Seal { held } => self.seal(device, &held, failed(Step::Seal)),
            A::MarkHanded(end) => {
                self.sync(device, |device| device.disk.mark(Some(end.cut)), failed(Step::Mark));
            }
            A::HoldForGood | A::End => {}
            A::Swap { head } => {
                let (life, grant) = (
                    self.devices[device].life,
                    match head.is_empty() {
                        true => self.store.head,
                        false => Head::decode(&head),
                    },
                );
                self.request(device, Item::Swap(grant), Item::Answer { device, life, grant: Some(grant) });
            }
            A::Continue => {
                let undo = |device: &mut Device| {
                    device.disk.mark(None);
                    if let Some(volume) = &mut device.volume {
                        (volume.is_gate_open, volume.stops, volume.tracker) = (true, false, None);
                    }
                };
                if self.sync(device, undo, failed(Step::Continue)) {
                    self.open_volume(device);
                }
            }
            A::ShutDown => self.devices[device].volume = None,
        }
        1
    }

    pub(super) fn seal(&mut self, device: usize, held: &[BlockRange], failed: Event) {
        let target = &mut self.devices[device];
        let Some(volume) = target.volume.as_mut().filter(|volume| !volume.is_gate_open) else { return };
        let rest = runs(volume.tracker.as_mut().map(std::mem::take).unwrap_or_default());
        let epoch = volume.epoch + 1;
        if !self.sync(device, |device| device.disk.sync_journal(), failed) {
            return;
        }
        for block in held.iter().chain(&rest).flat_map(|run| run.iter()) {
            let value = self.content(device, block);
            self.devices[device].sent.insert(block, value);
        }
        let target = &self.devices[device];
        let delta_hash = hash(&target.sent);
        let root = target.disk.live.base.0;
        let nonce = blake3::hash(&[&delta_hash[..], &root.to_le_bytes(), &epoch.to_le_bytes()].concat());
        let nonce = u64::from_le_bytes(nonce.as_bytes()[..8].try_into().unwrap());
        let head = Head { epoch, device: 1, nonce, root }.encode();
        let cut = target.last();
        let end = Final {
            attempt: 0,
            rounds: 0,
            delta_hash,
            cut,
            cut_crc: 0,
            size_blocks: BLOCKS,
            head,
            arrival: Bytes::from_static(b"version"),
        };
        self.told(device, 5, Event::Seeder(seeder::Event::Sealed { rest, end }));
    }

    pub(super) fn leech(&mut self, device: usize, action: leecher::Action) -> u64 {
        use leecher::{Action as A, Event as E, Step};
        let failed =
            |step| Event::Leecher(E::Failed(step, Reason::new(ReasonKind::NoSpace, "the disk is full")));
        match action {
            A::Ask => self.told(device, 300, Event::Leecher(E::Accept(Answer::default()))),
            A::Record(record) => {
                self.sync(device, |device| device.disk.save_record(&record), failed(Step::Record));
            }
            A::Send(message) => self.send(device, &message),
            A::Begin { attempt } => {
                let import = Import { position: Position::start(attempt), blocks: BTreeMap::new() };
                let begin = |device: &mut Device| {
                    device.disk.live.import = Some(import);
                    device.disk.sync_import();
                };
                self.sync(device, begin, failed(Step::Begin));
            }
            A::Append(part) => {
                let Some(import) = &mut self.devices[device].disk.live.import else { return 1 };
                let values =
                    part.data.chunks_exact(8).map(|value| u64::from_le_bytes(value.try_into().unwrap()));
                import.blocks.extend(part.blocks.iter().flat_map(|run| run.iter()).zip(values));
                import.blocks.extend(part.zeros.iter().flat_map(|run| run.iter()).map(|block| (block, 0)));
                import.position = match part.last {
                    true => Position { round: part.at.round + 1, part: 0, ..part.at },
                    false => Position { part: part.at.part + 1, ..part.at },
                };
            }
            A::Sync(position) => {
                if self.sync(device, |device| device.disk.sync_import(), failed(Step::Sync)) {
                    self.told(device, 2, Event::Leecher(E::Synced(position)));
                }
            }
            A::Reserve(prepare) => {
                let Prepare { attempt, delta_blocks, .. } = prepare;
                self.told(device, 5, Event::Leecher(E::Reserved { attempt, delta_blocks }));
            }
            A::Finish(end) => {
                if self.sync(device, |device| device.disk.sync_import(), failed(Step::Finish)) {
                    let blocks =
                        self.devices[device].disk.live.import.as_ref().map(|import| hash(&import.blocks));
                    let delta_hash = blocks.unwrap_or_default();
                    self.told(device, 2, Event::Leecher(E::Finished { attempt: end.attempt, delta_hash }));
                }
            }
            A::Drop => {
                self.devices[device].disk.live.import = None;
                self.devices[device].disk.sync_import();
            }
            A::Look => {
                let life = self.devices[device].life;
                let answer = Item::Answer { device, life, grant: None };
                // Looking changes nothing.
                self.request(device, Item::PushSwap { before: 1, after: self.store.head }, answer);
            }
            A::Swap { head } => {
                let (life, grant) = (self.devices[device].life, Head::decode(&head));
                self.request(device, Item::Swap(grant), Item::Answer { device, life, grant: Some(grant) });
            }
            A::Open(end) => {
                let grant = Head::decode(&end.head);
                // Nothing is asked of the store: whether somebody has taken the drive shows with the first commit.
                let now = Some(self.store.head).filter(|head| head.device == 1).unwrap_or(grant);
                let open = |device: &mut Device| {
                    let files = &mut device.disk.live;
                    if !files.has_drive {
                        let blocks = files.import.take().map(|import| import.blocks).unwrap_or_default();
                        let records = blocks.into_iter().zip(1..);
                        files.journal =
                            records.map(|((block, value), lsn)| Written { lsn, block, value }).collect();
                        (files.base, files.has_drive) = ((grant.root, 0), true);
                        device.disk.sync();
                    }
                    let volume = Volume {
                        is_gate_open: true,
                        epoch: now.epoch,
                        head_nonce: now.nonce,
                        ..Volume::default()
                    };
                    device.volume.get_or_insert(volume);
                };
                if self.sync(device, open, failed(Step::Open)) {
                    self.told(device, 30, Event::Leecher(E::Opened { epoch: grant.epoch }));
                }
            }
            A::Attach => self.told(device, 50, Event::Leecher(E::Attached)),
            A::End => {}
        }
        1
    }
}
