//! The drive on a device, and the programs that write to it.

use super::*;

impl World {
    /// Opens the drive, if this device may: it was not handed over, and HEAD names it.
    pub(super) fn open_volume(&mut self, device: usize) -> bool {
        let target = &mut self.devices[device];
        if target.volume.is_some() {
            return true;
        }
        let head = self.store.head;
        if target.disk.live.handed.is_some() || head.device != device as u64 {
            return false;
        }
        // What the version contains of this journal is not sent again.
        let contained = self.store.root().lineage.get(&(device as u64)).copied().unwrap_or(0);
        target.disk.live.base = (head.root, contained);
        target.disk.sync_journal();
        let volume =
            Volume { is_gate_open: true, epoch: head.epoch, head_nonce: head.nonce, ..Volume::default() };
        target.volume = Some(volume);
        true
    }

    /// The person takes the drive back: a swap of its own, which succeeds as long as the other device has committed nothing.
    pub(super) fn take_back(&mut self) {
        let head = self.store.head;
        let is_released = self.devices[0].phase().is_some_and(|phase| phase.is_released());
        let record = self.devices[0].disk.record();
        let grant = record.and_then(|record| record.end).map(|end| Head::decode(&end.head));
        let is_possible = grant.is_some_and(|grant| grant.root == head.root);
        if !self.devices[0].is_up
            || !is_released
            || !is_possible
            || self.devices[0].disk.live.handed.is_none()
        {
            return;
        }
        self.tell(|| "0 TAKES IT BACK".to_owned());
        (self.was_taken_back, self.may_fail) = (true, true);
        let epoch = self.store.head.epoch.max(grant.map_or(0, |grant| grant.epoch)) + 1;
        self.store.head = Head { epoch, device: 0, nonce: self.rng.random(), ..head };
        self.devices[0].disk.mark(None);
        self.devices[0].volume = None;
        self.open_volume(0);
        self.event(0, Event::Seeder(seeder::Event::TakenBack));
    }

    pub(super) fn program(&mut self, device: usize) {
        self.later(15, Item::Program(device));
        if !self.devices[device].is_writable() {
            return;
        }
        let block = match self.rng.random_range(0..3) {
            0 => self.rng.random_range(0..20),
            _ => self.rng.random_range(0..BLOCKS),
        };
        let value = self.next_value;
        self.next_value += 1;
        let target = &mut self.devices[device];
        let lsn = target.last() + 1;
        target.disk.live.journal.push(Written { lsn, block, value });
        let tracker = target.volume.as_mut().and_then(|volume| volume.tracker.as_mut());
        if let Some(tracker) = tracker {
            tracker.insert(block);
        }
        if self.rng.random_range(0..3) == 0 {
            let known = target.disk.durable.journal.len();
            target.disk.sync_journal();
            // What the program wrote before its fsync is safe from now on.
            for written in target.disk.live.journal.iter().skip(known.min(target.disk.live.journal.len())) {
                self.acked.insert(written.block, (device, written.value));
            }
        }
    }

    pub(super) fn push(&mut self, device: usize) {
        self.later(700, Item::Push(device));
        let cut = self.devices[device].last();
        let target = &mut self.devices[device];
        let base = target.disk.live.base;
        let is_handed = target.disk.live.handed.is_some();
        let Some(volume) = &mut target.volume else { return };
        if !target.is_up || volume.is_pushing || !volume.is_gate_open || is_handed || cut <= base.1 {
            return;
        }
        volume.is_pushing = true;
        let (before, epoch) = (volume.head_nonce, volume.epoch);
        target.disk.sync_journal();
        let delta = target.delta();
        let mut root: Root = self.store.roots[base.0 as usize].clone();
        root.contents.extend(delta);
        root.lineage.insert(device as u64, cut);
        if device == 1 {
            // The first commit says that it contains the seeder's journal.
            let end = self.devices[1].disk.record().and_then(|record| record.end);
            root.lineage.insert(0, end.map_or(0, |end| end.cut));
        }
        self.store.roots.push(root);
        let after = Head {
            epoch,
            device: device as u64,
            nonce: self.rng.random(),
            root: self.store.roots.len() as u64 - 1,
        };
        let life = self.devices[device].life;
        self.request(
            device,
            Item::PushSwap { before, after },
            Item::PushAnswer { device, life, before, after, cut },
        );
    }

    pub(super) fn pushed(&mut self, device: usize, before: u64, after: Head, cut: u64) {
        let head = self.store.head;
        let life = self.devices[device].life;
        let target = &mut self.devices[device];
        let Some(volume) = &mut target.volume else { return };
        if head.nonce == after.nonce {
            (volume.is_pushing, volume.head_nonce) = (false, after.nonce);
            target.disk.live.base = (after.root, cut);
            let stops = std::mem::take(&mut volume.stops);
            if stops {
                self.told(device, 5, Event::Seeder(seeder::Event::Stopped));
            }
        } else if head.nonce == before {
            // The same swap again: the store may have done it, or may do it still.
            self.request(
                device,
                Item::PushSwap { before, after },
                Item::PushAgain { device, life, before, after, cut },
            );
        } else {
            // Fenced.
            target.volume = None;
        }
    }
}
