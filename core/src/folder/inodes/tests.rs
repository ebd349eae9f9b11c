use super::*;
use crate::sim::disk::{DiskFaults, SimDisk};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn name(text: impl ToString) -> Name {
    Name::new(&text.to_string()).unwrap()
}

fn disk(seed: u64) -> Arc<SimDisk> {
    Arc::new(SimDisk::new(seed, DiskFaults::default()))
}

/// What the table should say: plain maps.
#[derive(Clone, Default, Debug, PartialEq)]
struct Model {
    places: BTreeMap<Ino, Place>,
    given: BTreeSet<Ino>,
}

impl Model {
    fn holder(&self, place: &Place) -> Option<Ino> {
        self.places.iter().find(|(_, other)| *other == place).map(|(ino, _)| *ino)
    }

    fn set(&mut self, ino: Ino, to: Option<Place>) {
        if let Some(holder) = to.as_ref().and_then(|place| self.holder(place)) {
            self.places.remove(&holder);
        }
        self.places.remove(&ino);
        if let Some(place) = to {
            self.places.insert(ino, place);
            self.given.insert(ino);
        }
    }

    fn check(&self, inodes: &Inodes) {
        assert_eq!(inodes.len(), self.places.len());
        for ino in &self.given {
            assert_eq!(inodes.place(*ino).unwrap(), self.places.get(ino).cloned(), "{ino}");
        }
        for (ino, place) in &self.places {
            assert_eq!(inodes.find(place.parent, &place.name).unwrap(), Some(*ino));
        }
    }
}

fn any_place(rng: &mut StdRng) -> Place {
    let text = "n".repeat(rng.random_range(0..3) * 30) + &rng.random_range(0..6).to_string();
    Place::new(Ino(rng.random_range(1..4)), name(text))
}

/// One random operation on both.
fn step(rng: &mut StdRng, inodes: &Inodes, model: &mut Model) {
    let place = any_place(rng);
    let known = model.given.iter().nth(rng.random_range(0..model.given.len().max(1))).copied();
    match (rng.random_range(0..8), known) {
        (0..4, _) | (_, None) => {
            let ino = inodes.number(place.parent, &place.name).unwrap();
            match model.holder(&place) {
                Some(holder) => assert_eq!(ino, holder),
                None => {
                    assert!(model.given.iter().all(|given| *given < ino), "{ino} was given before");
                    model.set(ino, Some(place));
                }
            }
        }
        (4, Some(known)) => {
            inodes.moved(known, Some(place.clone())).unwrap();
            model.set(known, Some(place));
        }
        (5, Some(known)) => {
            inodes.detach(known).unwrap();
            model.set(known, None);
        }
        (6, Some(last)) => {
            let ino = Ino(last.0 + rng.random_range(0..3) * 100);
            inodes.claim(ino, place.clone()).unwrap();
            model.set(ino, Some(place));
        }
        (_, Some(_)) => assert_eq!(inodes.find(place.parent, &place.name).unwrap(), model.holder(&place)),
    }
}

#[test]
fn says_what_a_map_says_also_after_kills_and_compactions() {
    for seed in 0..200 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let disk = disk(seed);
        let mut model = Model::default();
        let mut inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
        for _ in 0..300 {
            match rng.random_range(0..40) {
                0 => {
                    disk.kill();
                    inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
                    model.check(&inodes);
                }
                1 => {
                    inodes.compact().unwrap();
                    model.check(&inodes);
                }
                _ => step(rng, &inodes, &mut model),
            }
        }
        model.check(&inodes);
    }
}

#[test]
fn a_cut_file_is_an_earlier_state_and_gives_no_number_again() {
    for seed in 0..60 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let disk = disk(seed);
        let inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
        let mut model = Model::default();
        let mut states = vec![(0, model.clone())];
        for _ in 0..60 {
            step(rng, &inodes, &mut model);
            states.push((disk.open(NAME, false).unwrap().len().unwrap(), model.clone()));
        }
        let highest = *model.given.last().unwrap();
        let whole = states.last().unwrap().0;
        for _ in 0..30 {
            let cut = rng.random_range(0..=whole);
            let copy = Arc::new(disk.copy(seed));
            copy.open(NAME, false).unwrap().set_len(cut).unwrap();
            let cut_short = Inodes::open(copy.clone(), highest).unwrap();
            let (_, mut earlier) = states.iter().rfind(|(len, _)| *len <= cut).unwrap().clone();
            earlier.check(&cut_short);
            // It goes on from there.
            earlier.given.extend(model.given.iter().copied());
            (0..20).for_each(|_| step(rng, &cut_short, &mut earlier));
            copy.kill();
            earlier.check(&Inodes::open(copy, Ino::ROOT).unwrap());
        }
    }
}

#[test]
fn a_damaged_byte_takes_names_but_gives_no_wrong_ones() {
    let disk = disk(1);
    let rng = &mut StdRng::seed_from_u64(1);
    let inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
    let mut model = Model::default();
    (0..60).for_each(|_| step(rng, &inodes, &mut model));
    let highest = *model.given.last().unwrap();
    let file_len = disk.open(NAME, false).unwrap().len().unwrap();
    for byte in 0..file_len {
        let copy = Arc::new(disk.copy(byte));
        let open = Inodes::open(copy.clone(), Ino::ROOT).unwrap();
        copy.flip_bit(NAME, byte * 8 + byte % 8);
        // While it is open, a name may be lost, and is never another one.
        for (ino, place) in &model.places {
            let found = open.place(*ino).unwrap();
            assert!(found.is_none() || found.as_ref() == Some(place));
            let found = open.find(place.parent, &place.name).unwrap();
            assert!(found.is_none() || found == Some(*ino));
        }
        // Numbers that were claimed far ahead are the business of the table that names them.
        for _ in 0..2 {
            copy.kill();
            let again = Inodes::open(copy.clone(), Ino::ROOT).unwrap();
            let floor = again.state.read().floor;
            assert!(
                floor >= highest || model.given.iter().any(|given| given.0 >= 100),
                "byte {byte}: {floor}"
            );
        }
        let again = Inodes::open(copy.clone(), highest).unwrap();
        let fresh = again.number(Ino(77), &name("fresh")).unwrap();
        assert!(fresh > highest);
        assert_eq!(again.place(fresh).unwrap(), Some(Place::new(Ino(77), name("fresh"))));
    }
}

#[test]
fn a_dropped_end_still_counts_as_given_without_other_tables() {
    let disk = disk(2);
    let inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
    let given = (0..50).map(|i| inodes.number(Ino::ROOT, &name(i)).unwrap()).max().unwrap();
    let file = disk.open(NAME, false).unwrap();
    for byte in 0..file.len().unwrap() {
        let copy = Arc::new(disk.copy(byte));
        copy.flip_bit(NAME, byte * 8);
        // Twice: the first opening cuts the evidence off.
        Inodes::open(copy.clone(), Ino::ROOT).unwrap();
        copy.kill();
        let again = Inodes::open(copy, Ino::ROOT).unwrap();
        assert!(again.number(Ino::ROOT, &name("new")).unwrap() > given, "byte {byte}");
    }
}

#[test]
fn a_power_cut_leaves_an_earlier_state_and_what_was_synced() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for seed in 0..300 {
            let rng = &mut StdRng::seed_from_u64(seed);
            let disk = disk(seed);
            let inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
            let mut model = Model::default();
            let mut states = vec![model.clone()];
            let mut synced = 0;
            for _ in 0..rng.random_range(0..40) {
                match rng.random_range(0..10) {
                    0 => {
                        inodes.sync().await.unwrap();
                        synced = states.len() - 1;
                    }
                    1 => inodes.compact().unwrap(),
                    _ => {
                        step(rng, &inodes, &mut model);
                        states.push(model.clone());
                    }
                }
            }
            disk.power_cut();
            let highest = model.given.last().copied().unwrap_or(Ino::ROOT);
            let after = Inodes::open(disk, highest).unwrap();
            let places = |ino: &Ino| Some((*ino, after.place(*ino).unwrap()?));
            let found: BTreeMap<_, _> = model.given.iter().filter_map(places).collect();
            assert_eq!(found.len(), after.len());
            assert!(states[synced..].iter().any(|state| state.places == found), "seed {seed}: {found:?}");
        }
    });
}

#[test]
fn a_full_disk_gives_no_number_and_breaks_nothing() {
    let disk = disk(3);
    let inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
    let kept = inodes.number(Ino::ROOT, &name("kept")).unwrap();
    disk.set_full(true);
    assert!(inodes.number(Ino::ROOT, &name("lost")).is_err());
    assert!(inodes.moved(kept, Some(Place::new(Ino::ROOT, name("elsewhere")))).is_err());
    assert!(inodes.compact().is_err());
    disk.set_full(false);
    assert_eq!(inodes.find(Ino::ROOT, &name("lost")).unwrap(), None);
    assert_eq!(inodes.find(Ino::ROOT, &name("kept")).unwrap(), Some(kept));
    let next = inodes.number(Ino::ROOT, &name("lost")).unwrap();
    disk.kill();
    let again = Inodes::open(disk, Ino::ROOT).unwrap();
    assert_eq!(again.find(Ino::ROOT, &name("lost")).unwrap(), Some(next));
    assert_eq!(again.len(), 2);
}

#[test]
fn compaction_frees_the_dead_half_and_keeps_the_highest_number() {
    let disk = disk(4);
    let inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
    let file_len = || disk.open(NAME, false).unwrap().len().unwrap();
    for i in 0..2000 {
        inodes.number(Ino::ROOT, &name(i)).unwrap();
    }
    assert!(!inodes.wants_compaction());
    let last = inodes.find(Ino::ROOT, &name(1999)).unwrap().unwrap();
    for i in 100..2000 {
        inodes.detach(inodes.find(Ino::ROOT, &name(i)).unwrap().unwrap()).unwrap();
    }
    assert!(inodes.wants_compaction());
    let before = file_len();
    inodes.compact().unwrap();
    assert!(!inodes.wants_compaction());
    assert!(file_len() < before / 20, "{} of {before}", file_len());
    assert_eq!(inodes.len(), 100);
    drop(inodes);
    let again = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
    assert_eq!(again.len(), 100);
    assert!(again.number(Ino::ROOT, &name("new")).unwrap() > last);
}

#[test]
fn other_calls_go_on_during_a_compaction() {
    let disk = disk(5);
    let inodes = Arc::new(Inodes::open(disk.clone(), Ino::ROOT).unwrap());
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let inodes = inodes.clone();
            std::thread::spawn(move || {
                let rng = &mut StdRng::seed_from_u64(writer);
                // Each writer has names of its own, so that its model is alone with them.
                let parent = Ino(1000 + writer as u32);
                let mut mine = BTreeMap::new();
                for _ in 0..20_000 {
                    let text = name(rng.random_range(0..50));
                    let ino = inodes.number(parent, &text).unwrap();
                    assert_eq!(*mine.entry(text.clone()).or_insert(ino), ino);
                    if rng.random_bool(0.5) {
                        inodes.detach(ino).unwrap();
                        mine.remove(&text);
                    }
                }
                (parent, mine)
            })
        })
        .collect();
    let mut compactions = 0;
    while writers.iter().any(|writer| !writer.is_finished()) {
        inodes.compact().unwrap();
        compactions += 1;
    }
    assert!(compactions > 0);
    let mut total = 0;
    for (parent, mine) in writers.into_iter().map(|writer| writer.join().unwrap()) {
        total += mine.len();
        for reader in [&*inodes, &Inodes::open(disk.clone(), Ino::ROOT).unwrap()] {
            for (text, ino) in &mine {
                assert_eq!(reader.find(parent, text).unwrap(), Some(*ino));
            }
        }
    }
    assert_eq!(inodes.len(), total);
}

#[test]
fn numbers_end_and_are_not_reused() {
    let inodes = Inodes::open(disk(6), Ino(u32::MAX - 2)).unwrap();
    assert_eq!(inodes.number(Ino::ROOT, &name("last")).unwrap(), Ino(u32::MAX - 1));
    assert_eq!(inodes.number(Ino::ROOT, &name("none")).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(inodes.number(Ino::ROOT, &name("last")).unwrap(), Ino(u32::MAX - 1));
}

#[test]
fn takes_little_memory_for_each_number() {
    let inodes = Inodes::open(disk(7), Ino(3_000_000_000)).unwrap();
    let mut most = 0.0f64;
    for i in 0..300_000 {
        inodes.number(Ino(i % 1000), &name(i)).unwrap();
        if i > 10_000 {
            let state = inodes.state.read();
            most = most.max(state.index.bytes() as f64 / state.index.len() as f64);
        }
    }
    assert!(most <= 25.0, "{most} bytes for each number");
}

#[test]
fn fresh_numbers_are_given_to_nobody_else_and_have_no_name() {
    let sim = disk(11);
    let inodes = Inodes::open(sim.clone(), Ino::ROOT).unwrap();
    let mut given = BTreeSet::new();
    for i in 0..3000 {
        let ino =
            if i % 3 == 0 { inodes.number(Ino::ROOT, &name(i)).unwrap() } else { inodes.fresh().unwrap() };
        assert!(given.insert(ino));
        assert_eq!(inodes.place(ino).unwrap().is_some(), i % 3 == 0);
        if i == 2000 {
            inodes.compact().unwrap();
        }
    }
    let made = inodes.fresh().unwrap();
    inodes.claim(made, Place::new(Ino::ROOT, name("made here"))).unwrap();
    assert_eq!(inodes.find(Ino::ROOT, &name("made here")).unwrap(), Some(made));
    let last = inodes.fresh().unwrap();
    sim.kill();
    let inodes = Inodes::open(sim.clone(), Ino::ROOT).unwrap();
    assert_eq!(inodes.fresh().unwrap(), Ino(last.0 + 1));
    // The records at the end are damaged: what they gave is not given again, with or without names.
    let len = sim.open(NAME, false).unwrap().len().unwrap();
    sim.flip_bit(NAME, (len - 40 * 16) * 8);
    sim.kill();
    assert!(Inodes::open(sim, Ino::ROOT).unwrap().fresh().unwrap() > Ino(last.0 + 1));
}

/// Written by hand from core/FORMAT.md.
const VERSION_1: &[u8] = include_bytes!("../../../tests/data/v1/folder/inodes");

#[test]
fn reads_the_file_of_version_1() {
    let disk = disk(8);
    disk.open(NAME, true).unwrap().write_at(VERSION_1, 0).unwrap();
    let inodes = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
    let place = |ino| inodes.place(Ino(ino)).unwrap();
    assert_eq!(place(6), Some(Place::new(Ino::ROOT, name("docs"))));
    assert_eq!([place(7), place(8)], [None, None]);
    assert_eq!(place(9), Some(Place::new(Ino(6), name("draft"))));
    assert_eq!(place(300), Some(Place::new(Ino::ROOT, name("claimed"))));
    assert_eq!(inodes.len(), 3);
    // What is written is the same bytes.
    let records = inodes.state.read().records.handle();
    let mut again = record::Header { id: records.id, floor: Ino(5) }.encode().to_vec();
    let each = |offset, record: Record| {
        again.extend(record.encode(records.id, offset));
        Ok(())
    };
    assert_eq!(records.scan(record::RECORDS_START..records.end, each).unwrap(), VERSION_1.len() as u64);
    assert_eq!(again, VERSION_1);
}

/// A table of which most records are dead, and of 100 names.
fn mostly_dead(disk: &Arc<SimDisk>) -> Arc<Inodes> {
    let inodes = Arc::new(Inodes::open(disk.clone(), Ino::ROOT).unwrap());
    for i in 0..2000 {
        let ino = inodes.number(Ino::ROOT, &name(i)).unwrap();
        if i >= 100 {
            inodes.detach(ino).unwrap();
        }
    }
    assert!(inodes.wants_compaction());
    inodes
}

#[tokio::test(start_paused = true)]
async fn is_compacted_while_it_is_in_use_and_forgets_nothing_by_a_cut() {
    let disk = disk(11);
    let inodes = mostly_dead(&disk);
    let tending = tokio::spawn(tend(Arc::downgrade(&inodes)));
    tokio::time::sleep(Duration::from_secs(61)).await;
    while inodes.wants_compaction() {
        tokio::task::yield_now().await;
    }
    let kept = inodes.find(Ino::ROOT, &name(7)).unwrap();
    let new = inodes.number(Ino::ROOT, &name("new")).unwrap();
    inodes.sync().await.unwrap();
    disk.power_cut();
    let again = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
    assert_eq!((again.len(), again.find(Ino::ROOT, &name(7)).unwrap()), (101, kept));
    assert_eq!(again.find(Ino::ROOT, &name("new")).unwrap(), Some(new));
    // The task ends with the table.
    drop(inodes);
    tending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_closed_table_does_not_replace_the_file_of_the_next_opening() {
    let disk = disk(12);
    let inodes = mostly_dead(&disk);
    inodes.close().await;
    let next = Inodes::open(disk.clone(), Ino::ROOT).unwrap();
    inodes.compact().unwrap();
    let ino = next.number(Ino::ROOT, &name("later")).unwrap();
    drop(next);
    let last = Inodes::open(disk, Ino::ROOT).unwrap();
    assert_eq!(last.find(Ino::ROOT, &name("later")).unwrap(), Some(ino));
}
