//! The expected state of a drive: plain lists of writes, one for each branch of its history, and what is known of each.

use holdall_core::units::BlockRange;
use std::collections::BTreeMap;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Write {
    range: BlockRange,
    /// The stamp that the blocks show: zero means zeros.
    stamp: u64,
    id: u64,
}

/// The writes of a run.
pub struct Model {
    blocks: u64,
    next: u64,
    /// The writes of each device on top of the version it found.
    devices: [Branch; 2],
    /// Earlier branches. Other devices may have built on a prefix of them.
    past: Vec<Vec<Write>>,
    /// The branches of each device whose files were replaced by other copies of them. Such a copy may have written to the device's fork.
    replaced: [Vec<Vec<Write>>; 2],
    /// Acknowledged as committed: in every later version, on any device.
    committed: Vec<Write>,
    /// Acknowledged as committed to each fork.
    forks: BTreeMap<Uuid, Vec<Write>>,
    /// Acknowledged as uploaded to the drive or a fork of it, where several devices may believe that the drive is theirs.
    uploaded: Vec<Vec<Write>>,
}

/// The writes of a device on top of the version it found.
#[derive(Clone, Default)]
pub struct Branch {
    writes: Vec<Write>,
    /// This many are durable on the device. It shows them, unless it reports that they have become a fork.
    durable: usize,
}

/// Data that carries a stamp. It does not contain its block's number: reads know which block they read.
pub fn data(stamp: u64, blocks: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(blocks as usize * 512)
}

/// The stamp of a block, which fills the whole block.
pub fn stamp(data: &[u8]) -> u64 {
    let stamp = &data[..8];
    // The last bytes may be older: the shortest write ends at byte 4000.
    assert!(data[..4000].chunks(8).all(|word| word == stamp), "a block is torn");
    u64::from_le_bytes(stamp.try_into().unwrap())
}

/// The uploads that a store must contain.
#[derive(Clone)]
pub struct Uploads(Vec<Vec<Write>>);

impl Uploads {
    /// The uploads that a store must contain if it has all of two others.
    pub fn merge(self, other: Self) -> Self {
        Self(self.0.into_iter().chain(other.0).collect())
    }
}

impl Model {
    pub fn new(blocks: u64) -> Self {
        Self {
            blocks,
            next: 0,
            devices: Default::default(),
            past: Vec::new(),
            replaced: Default::default(),
            committed: Vec::new(),
            forks: BTreeMap::new(),
            uploaded: Vec::new(),
        }
    }

    pub fn len(&self, device: usize) -> usize {
        self.devices[device].writes.len()
    }

    pub fn write(&mut self, device: usize, range: BlockRange) -> u64 {
        self.next += 1;
        self.devices[device].writes.push(Write { range, stamp: self.next, id: self.next });
        self.next
    }

    pub fn zero(&mut self, device: usize, range: BlockRange) {
        self.next += 1;
        self.devices[device].writes.push(Write { range, stamp: 0, id: self.next });
    }

    pub fn flushed(&mut self, device: usize, count: usize) {
        let branch = &mut self.devices[device];
        branch.durable = branch.durable.max(count);
    }

    pub fn committed(&mut self, seed: u64, device: usize, count: usize) {
        let writes = &self.devices[device].writes[..count];
        let (shorter, longer) = if writes.len() < self.committed.len() {
            (writes, &self.committed[..])
        } else {
            (&self.committed[..], writes)
        };
        assert!(longer.starts_with(shorter), "seed {seed}: two branches were both committed");
        self.committed = longer.to_vec();
    }

    /// The first `count` writes of a device are in the store for good, in the drive or in a fork.
    pub fn uploaded(&mut self, device: usize, count: usize) {
        let writes = self.devices[device].writes[..count].to_vec();
        self.uploaded.retain(|known| !writes.starts_with(known));
        self.uploaded.push(writes);
    }

    pub fn uploads(&self) -> Uploads {
        Uploads(self.uploaded.clone())
    }

    pub fn set_uploads(&mut self, uploads: Uploads) {
        self.uploaded = uploads.0;
    }

    /// Each version in the store is a state that some device has left.
    pub fn check_states(&self, seed: u64, versions: &[Vec<u64>]) {
        let states: Vec<_> = versions.iter().map(|contents| self.find(contents, |_| true)).collect();
        assert!(states.iter().all(Option::is_some), "seed {seed}: a version shows what nobody has left");
    }

    /// Everything uploaded is in one of the versions in the store.
    pub fn check_uploads(&self, seed: u64, versions: &[Vec<u64>]) {
        for uploaded in &self.uploaded {
            let mut holds =
                versions.iter().map(|contents| self.find(contents, |writes| writes.starts_with(uploaded)));
            let count = uploaded.len();
            assert!(
                holds.any(|found| found.is_some()),
                "seed {seed}: {count} writes that were uploaded are in no version"
            );
        }
    }

    /// The first `count` writes of a device are in its fork.
    pub fn committed_to_fork(&mut self, fork: Uuid, device: usize, count: usize) {
        let writes = self.devices[device].writes[..count].to_vec();
        let known = self.forks.entry(fork).or_default();
        if known.len() < writes.len() {
            *known = writes;
        }
    }

    /// A device opened the fork of its changes. It shows all that was durable on the device, and nothing of other devices. If a copy of the
    /// device's files has written to the fork and has all of that, the fork continues what the copy wrote.
    pub fn opened_fork(&mut self, seed: u64, device: usize, fork: Uuid, contents: &[u64]) {
        let Branch { writes, durable } = &self.devices[device];
        let (durable, committed) =
            (&writes[..*durable], self.forks.get(&fork).map_or(&[][..], |known| known));
        let allowed = |writes: &[Write]| writes.starts_with(durable) && writes.starts_with(committed);
        let branches = [writes].into_iter().chain(&self.replaced[device]);
        let found = branches.filter_map(|branch| prefix(branch, contents, allowed)).max_by_key(Vec::len);
        let least = durable.len().max(committed.len());
        let writes = found.unwrap_or_else(|| {
            panic!(
                "seed {seed}: the fork of device {device} lacks some of the {least} writes that it must show"
            )
        });
        let (durable, old) = (writes.len(), std::mem::take(&mut self.devices[device]).writes);
        self.past.push(old);
        self.devices[device] = Branch { writes, durable };
    }

    /// A device opened the drive while the store was away. It shows all that was durable on it, on top of what it found when it
    /// last had the drive.
    pub fn opened_away(&mut self, seed: u64, device: usize, contents: &[u64]) {
        let Branch { writes, durable } = &self.devices[device];
        let durable = &writes[..*durable];
        // It may have taken the drive last and died before it could record that.
        let branches = [writes].into_iter().chain(&self.past).chain(self.devices.iter().map(|b| &b.writes));
        let shown =
            |branch: &Vec<Write>| prefix(branch, contents, |writes: &[Write]| writes.starts_with(durable));
        let found = { branches }.find_map(shown);
        let writes = found.unwrap_or_else(|| {
            let least = durable.len();
            panic!("seed {seed}: device {device}, away from the store, lacks some of {least} durable writes")
        });
        let (durable, old) = (writes.len(), std::mem::take(&mut self.devices[device]).writes);
        self.past.push(old);
        self.devices[device] = Branch { writes, durable };
    }

    /// The store alone shows `contents` in a fork.
    pub fn check_fork(&self, seed: u64, fork: Uuid, contents: &[u64]) {
        let committed = self.forks.get(&fork).map_or(&[][..], |known| known);
        let branches = self.devices.iter().map(|branch| &branch.writes).chain(&self.past);
        let mut found = branches
            .filter_map(|branch| prefix(branch, contents, |writes: &[Write]| writes.starts_with(committed)));
        assert!(found.next().is_some(), "seed {seed}: fork {fork} shows no state with what it was given");
    }

    /// The device has only its fork, and nothing of the drive itself.
    pub fn forget(&mut self, device: usize) {
        let branch = std::mem::take(&mut self.devices[device]);
        self.past.push(branch.writes);
    }

    /// A device's branch, to be restored together with a copy of its files.
    pub fn branch(&self, device: usize) -> Branch {
        self.devices[device].clone()
    }

    /// A device's files are back in the state of this branch.
    pub fn go_back(&mut self, device: usize, branch: Branch) {
        self.replaced[device].push(self.devices[device].writes.clone());
        self.forget(device);
        self.devices[device] = branch;
    }

    /// The current stamp of a block.
    pub fn now(&self, device: usize, block: u64) -> u64 {
        at(&self.devices[device].writes, block)
    }

    pub fn all(&self, device: usize) -> Vec<u64> {
        (0..self.blocks).map(|block| self.now(device, block)).collect()
    }

    /// A device opened the drive and shows `contents`, which it builds on from now on.
    pub fn opened(&mut self, seed: u64, device: usize, contents: &[u64]) {
        let own = &self.devices[device];
        let durable = &own.writes[..own.durable];
        let branch = self.find(contents, |writes| writes.starts_with(durable));
        let Some(writes) = branch else {
            for (name, branch) in [("own", durable), ("committed", &self.committed)] {
                let wrong: Vec<_> = (0..self.blocks)
                    .map(|block| (block, contents[block as usize], at(branch, block)))
                    .filter(|(_, found, expected)| found != expected)
                    .collect();
                if std::env::var_os("HOLDALL_TRACE").is_some() {
                    eprintln!("seed {seed}: (block, shown, {name}): {wrong:?}");
                }
            }
            let least = durable.len().max(self.committed.len());
            panic!("seed {seed}: device {device} shows no state with the {least} writes that it must show")
        };
        let (durable, old) = (writes.len(), std::mem::take(&mut self.devices[device]).writes);
        self.past.push(old);
        self.devices[device] = Branch { writes, durable };
    }

    /// The store alone shows `contents`.
    pub fn check_store(&self, seed: u64, contents: &[u64]) {
        let found = self.find(contents, |_| true).is_some();
        assert!(
            found,
            "seed {seed}: the store shows no state with the {} committed writes",
            self.committed.len()
        );
    }

    /// The longest prefix of a branch that leaves `contents`, holds what is committed, and is `allowed`.
    fn find(&self, contents: &[u64], allowed: impl Fn(&[Write]) -> bool) -> Option<Vec<Write>> {
        let branches =
            self.devices.iter().map(|branch| &branch.writes).chain(&self.past).chain([&self.committed]);
        let allowed = &|writes: &[Write]| writes.starts_with(&self.committed) && allowed(writes);
        branches.filter_map(|branch| prefix(branch, contents, allowed)).max_by_key(Vec::len)
    }
}

/// The stamp of a block after `writes`.
fn at(writes: &[Write], block: u64) -> u64 {
    writes.iter().rfind(|write| write.range.iter().contains(&block)).map_or(0, |write| write.stamp)
}

/// The longest allowed prefix that leaves `contents`.
fn prefix(writes: &[Write], contents: &[u64], allowed: impl Fn(&[Write]) -> bool) -> Option<Vec<Write>> {
    let mut current: Vec<_> = (0..contents.len() as u64).map(|block| at(writes, block)).collect();
    let mut wrong = current.iter().zip(contents).filter(|(a, b)| a != b).count();
    let mut count = writes.len();
    loop {
        if wrong == 0 && allowed(&writes[..count]) {
            return Some(writes[..count].to_vec());
        }
        count = count.checked_sub(1)?;
        for block in writes[count].range.iter() {
            let (i, before) = (block as usize, at(&writes[..count], block));
            wrong -= usize::from(current[i] != contents[i]);
            wrong += usize::from(before != contents[i]);
            current[i] = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u64 = 4;
    const FORK: Uuid = Uuid::from_u128(5);

    fn block(block: u64) -> BlockRange {
        BlockRange::new(block, 1)
    }

    /// A device with one durable write, of which a copy of its files knows, and a second write by that copy. The device's own files are back.
    fn copied() -> (Model, Vec<u64>) {
        let mut model = Model::new(BLOCKS);
        model.write(0, block(0));
        model.flushed(0, 1);
        let own = model.branch(0);
        model.write(0, block(1));
        let shown = model.all(0);
        model.go_back(0, own);
        (model, shown)
    }

    #[test]
    fn a_fork_may_show_what_a_copy_of_its_device_wrote() {
        let (mut model, shown) = copied();
        model.opened_fork(0, 0, FORK, &shown);
        assert_eq!((model.len(0), model.all(0)), (2, shown), "the device builds on that");
    }

    #[test]
    #[should_panic(expected = "the fork of device 0 lacks some of the 2 writes")]
    fn a_fork_shows_durable_writes_that_a_copy_lacks() {
        let (mut model, shown) = copied();
        model.write(0, block(2));
        model.flushed(0, 2);
        model.opened_fork(0, 0, FORK, &shown);
    }

    #[test]
    #[should_panic(expected = "the fork of device 1 lacks some of the 0 writes")]
    fn a_fork_shows_nothing_that_another_devices_copy_wrote() {
        let (mut model, shown) = copied();
        model.opened_fork(0, 1, FORK, &shown);
    }
}
