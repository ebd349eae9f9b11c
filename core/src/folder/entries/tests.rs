use super::*;
use crate::store::remote::{Kind, Page, PageToken, Time};
use rand::rngs::StdRng;
use rand::seq::{IteratorRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;

const DIR: Ino = Ino(7);

fn db() -> sled::Db {
    sled::Config::new().temporary(true).open().unwrap()
}

/// Entries whose names collide all the time if there are few values.
fn open(db: &sled::Db, folder: Uuid, values: Option<u64>) -> Arc<Entries> {
    let hasher = values.map_or_else(|| Hasher::new(folder), |values| Hasher::with_values(folder, values));
    Arc::new(Entries::open_with(db, folder, hasher).unwrap())
}

fn folder(number: u64) -> Uuid {
    Uuid::from_u64_pair(1, number)
}

fn name(text: impl ToString) -> Name {
    Name::new(&text.to_string()).unwrap()
}

fn entry(text: impl ToString, tag: impl ToString) -> Entry {
    let version = Version { tag: tag.to_string(), len: 10, written: Some(Time(1_700_000_000_000_000_000)) };
    Entry { name: name(text), kind: Kind::File, version, meta: None, is_writable: true }
}

fn meta(mode: u32) -> Meta {
    Meta { mode: Some(mode), ..Meta::default() }
}

fn page(entries: Vec<Entry>, next: Option<&str>) -> Page {
    Page { entries, next: next.map(|next| PageToken(next.to_owned())), ..Page::default() }
}

/// Lists a directory in one page.
fn list(entries: &Arc<Entries>, shown: Vec<Entry>) -> Gone {
    let mut listing = entries.begin(DIR, 5).unwrap();
    listing.page(&page(shown, None)).unwrap();
    listing.complete(None).unwrap()
}

fn all(entries: &Entries) -> Vec<Row> {
    // Small steps, as readdir takes them.
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let cookie = rows.last().map_or(Cookie::START, |row| row.cookie);
        let more = entries.after(DIR, cookie, 3);
        match more.is_empty() {
            true => return rows,
            false => rows.extend(more),
        }
    }
}

fn names(rows: &[Row]) -> BTreeSet<&str> {
    rows.iter().map(|row| row.entry.name.as_str()).collect()
}

fn any_entry(rng: &mut StdRng) -> Entry {
    let kind = [Kind::File, Kind::Directory, Kind::Link][rng.random_range(0..3)];
    let meta = rng.random_bool(0.3).then(|| meta(rng.random_range(0..2)));
    let is_writable = rng.random_bool(0.8);
    Entry { kind, meta, is_writable, ..entry(rng.random_range(0..20), rng.random_range(0..3)) }
}

/// What the table should say: a plain map.
#[derive(Default)]
struct Model {
    rows: BTreeMap<Name, (Entry, u64)>,
    cookies: BTreeMap<Name, Cookie>,
    generation: u64,
    listed: Option<u64>,
    removed: BTreeSet<Name>,
}

impl Model {
    fn merge(&mut self, entry: &Entry, seen: u64) {
        let mut entry = entry.clone();
        let before = self.rows.get(&entry.name).map(|(before, _)| before);
        let is_same = |before: &&Entry| before.version == entry.version && before.kind == entry.kind;
        if let Some(before) = before.filter(is_same).filter(|_| entry.meta.is_none()) {
            entry.meta = before.meta.clone();
        }
        self.rows.insert(entry.name.clone(), (entry, seen));
    }

    fn show(&mut self, entry: &Entry, listing: u64) {
        let is_newer = self.rows.get(&entry.name).is_some_and(|(_, seen)| *seen > listing);
        let is_removed = self.removed.contains(&entry.name) && !self.rows.contains_key(&entry.name);
        if !is_newer && !is_removed {
            self.merge(entry, listing);
        }
    }

    fn check(&mut self, entries: &Entries) {
        let rows = all(entries);
        assert!(rows.is_sorted_by_key(|row| row.cookie));
        assert!(rows.iter().all(|row| row.cookie > Cookie::START && row.cookie.0 < Cookie::END));
        assert_eq!(names(&rows), self.rows.keys().map(Name::as_str).collect());
        for row in &rows {
            let (entry, seen) = &self.rows[&row.entry.name];
            assert_eq!((&row.entry, row.seen.0), (entry, *seen));
            assert_eq!(entries.get(DIR, &row.entry.name).as_ref(), Some(row));
            assert_eq!(*self.cookies.entry(row.entry.name.clone()).or_insert(row.cookie), row.cookie);
        }
        self.cookies.retain(|name, _| self.rows.contains_key(name));
        let directory = entries.directory(DIR);
        assert_eq!(directory.listed.map(|listed| listed.generation.0), self.listed);
        assert_eq!((directory.rows, entries.count(DIR)), (self.rows.len() as u64, self.rows.len() as u64));
        let files = self.rows.values().filter(|(entry, _)| entry.kind != Kind::Directory).count();
        assert_eq!(entries.files(), files as u64);
        let nothing = if self.listed.is_some() { Lookup::Absent } else { Lookup::Unknown };
        for text in 0..20 {
            let name = name(text);
            let cookie = entries.cookie_of(DIR, &name);
            match entries.lookup(DIR, &name) {
                Lookup::Row(row) => assert_eq!(row.cookie, cookie),
                found => {
                    assert_eq!(found, nothing);
                    assert!(!rows.iter().any(|row| row.cookie == cookie), "a place is given twice");
                }
            }
        }
    }
}

#[test]
fn says_what_a_map_says() {
    let db = db();
    for seed in 0..150 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let values = [None, Some(1), Some(4)][rng.random_range(0..3)];
        let mut entries = open(&db, folder(seed), values);
        let mut model = Model::default();
        let mut running: Option<(Listing, u64)> = None;
        for _ in 0..120 {
            match rng.random_range(0..10) {
                0..3 => {
                    let entry = any_entry(rng);
                    model.generation += 1;
                    model.merge(&entry, model.generation);
                    entries.put(DIR, &entry).unwrap();
                }
                3 => {
                    let name = name(rng.random_range(0..20));
                    let before = model.rows.remove(&name).map(|(entry, _)| entry);
                    model.removed.insert(name.clone());
                    model.cookies.remove(&name);
                    assert_eq!(entries.remove(DIR, &name).unwrap().map(|row| row.entry), before);
                }
                4 => {
                    let Entry { name, version, .. } = any_entry(rng);
                    let known = model.rows.get_mut(&name).filter(|(entry, _)| entry.version == version);
                    let is_known = known.map(|(entry, _)| entry.meta = Some(meta(9))).is_some();
                    assert_eq!(entries.learn(DIR, &name, &version, &meta(9)).unwrap(), is_known);
                }
                5..9 => {
                    let (mut listing, generation) = running.take().unwrap_or_else(|| {
                        model.generation += 1;
                        model.removed.clear();
                        (entries.begin(DIR, 5).unwrap(), model.generation)
                    });
                    assert!(entries.directory(DIR).is_being_listed);
                    let is_last = rng.random_bool(0.3);
                    let shown: Vec<_> = (0..rng.random_range(0..6)).map(|_| any_entry(rng)).collect();
                    shown.iter().for_each(|entry| model.show(entry, generation));
                    let token = rng.random::<u64>().to_string();
                    let changes = listing.page(&page(shown.clone(), (!is_last).then_some(&token))).unwrap();
                    assert_eq!(changes.len(), shown.len());
                    if !is_last {
                        running = Some((listing, generation));
                        continue;
                    }
                    let gone = listing.complete(None).unwrap();
                    model.listed = Some(generation);
                    let old = |(_, seen): &(Entry, u64)| *seen < generation;
                    assert_eq!(gone.count(), model.rows.values().filter(|row| old(row)).count() as u64);
                    if rng.random_bool(0.5) {
                        model.rows.retain(|_, row| !old(row));
                        model.cookies.retain(|name, _| model.rows.contains_key(name));
                        gone.batches().for_each(|rows| assert_eq!(gone.remove(&rows).as_ref(), Ok(&rows)));
                    }
                }
                _ => {
                    running = None;
                    entries = open(&db, folder(seed), values);
                }
            }
            model.check(&entries);
        }
    }
}

#[test]
fn holds_a_hundred_thousand_entries_in_a_directory() {
    const COUNT: usize = 100_000;
    let entries = open(&db(), folder(1), None);
    let run = |keep: &dyn Fn(usize) -> bool| {
        let mut listing = entries.begin(DIR, 5).unwrap();
        for first in (0..COUNT).step_by(1000) {
            let shown = (first..first + 1000).filter(|i| keep(*i)).map(|i| entry(i, "a")).collect();
            let next = (first + 1000 < COUNT).then(|| first.to_string());
            listing.page(&page(shown, next.as_deref())).unwrap();
        }
        listing.complete(Some("tag".into())).unwrap()
    };
    assert_eq!(run(&|_| true).count(), 0);
    assert_eq!((entries.count(DIR), entries.files()), (COUNT as u64, COUNT as u64));
    assert_eq!(entries.get(DIR, &name(77_777)).unwrap().entry, entry(77_777, "a"));
    let gone = run(&|i| i % 10 != 3);
    assert_eq!(gone.count(), COUNT as u64 / 10);
    assert!(gone.batches().all(|rows| rows.len() <= BATCH_ROWS));
    // Nobody has decided yet.
    assert_eq!(entries.count(DIR), COUNT as u64);
    gone.batches().for_each(|rows| assert_eq!(gone.remove(&rows).as_ref(), Ok(&rows)));
    let (mut seen, mut cookie) = (BTreeSet::new(), Cookie::START);
    loop {
        let rows = entries.after(DIR, cookie, 500);
        let Some(last) = rows.last() else { break };
        assert!(rows[0].cookie > cookie && rows.is_sorted_by_key(|row| row.cookie));
        cookie = last.cookie;
        assert!(rows.into_iter().all(|row| seen.insert(row.entry.name)));
    }
    assert_eq!(seen.len(), COUNT - COUNT / 10);
    assert_eq!(entries.lookup(DIR, &name(3)), Lookup::Absent);
    assert_eq!(entries.directory(DIR).listed.unwrap().tag.as_deref(), Some("tag"));
}

#[test]
fn a_listing_that_does_not_end_well_removes_nothing() {
    let entries = open(&db(), folder(1), None);
    list(&entries, vec![entry("a", 1), entry("b", 1)]);
    let before = entries.directory(DIR);
    let unended = || {
        let mut listing = entries.begin(DIR, 9).unwrap();
        listing.page(&page(vec![entry("a", 1)], Some("next"))).unwrap();
        listing
    };
    drop(unended());
    assert_eq!(unended().complete(None).err(), Some(ListingError::CutShort));
    assert_eq!(entries.begin(DIR, 9).unwrap().complete(None).err(), Some(ListingError::CutShort));
    let mut repeated = unended();
    assert_eq!(repeated.page(&page(vec![], Some("next"))), Err(ListingError::Repeated));
    // Also if the end comes after all.
    assert_eq!(repeated.page(&page(vec![], None)), Err(ListingError::CutShort));
    assert_eq!(repeated.complete(None).err(), Some(ListingError::CutShort));
    let mut ended = unended();
    ended.page(&page(vec![], None)).unwrap();
    assert_eq!(ended.page(&page(vec![], None)), Err(ListingError::CutShort));
    assert_eq!(ended.complete(None).err(), Some(ListingError::CutShort));
    assert_eq!(names(&all(&entries)), BTreeSet::from(["a", "b"]));
    let after = entries.directory(DIR);
    assert_eq!((after.listed, after.is_being_listed), (before.listed, false));
}

#[test]
fn what_is_gone_stays_until_somebody_removes_it() {
    let entries = open(&db(), folder(1), None);
    list(&entries, vec![entry("a", 1), entry("b", 1), entry("c", 1)]);
    let gone = list(&entries, vec![entry("a", 1)]);
    let rows: Vec<Row> = gone.batches().flatten().collect();
    assert_eq!(names(&rows), BTreeSet::from(["b", "c"]));
    let directory = entries.directory(DIR);
    assert_eq!(all(&entries).iter().filter(|row| directory.is_missing(row)).count(), 2);
    // It is back before the decision.
    entries.put(DIR, &entry("b", 2)).unwrap();
    assert_eq!(names(&gone.remove(&rows).unwrap()), BTreeSet::from(["c"]), "what is back stays");
    assert_eq!(names(&all(&entries)), BTreeSet::from(["a", "b"]));
    // A later listing says it again.
    list(&entries, vec![entry("a", 1), entry("b", 2), entry("d", 1)]);
    assert_eq!(list(&entries, vec![]).count(), 3);
}

#[test]
fn a_page_that_is_older_than_a_change_here_leaves_it_alone() {
    let entries = open(&db(), folder(1), None);
    list(&entries, vec![entry("uploaded", 1), entry("removed", 1), entry("again", 1), entry("other", 1)]);
    let mut listing = entries.begin(DIR, 9).unwrap();
    entries.put(DIR, &entry("uploaded", 2)).unwrap();
    entries.put(DIR, &entry("new", 1)).unwrap();
    entries.remove(DIR, &name("removed")).unwrap();
    entries.remove(DIR, &name("again")).unwrap();
    entries.put(DIR, &entry("again", 2)).unwrap();
    let stale = ["uploaded", "removed", "again"].map(|text| entry(text, 1));
    let changes = listing.page(&page([&stale[..], &[entry("other", 2)]].concat(), None)).unwrap();
    let [Change::Same(uploaded), Change::Removed, Change::Same(again), Change::Changed { before, after }] =
        &changes[..]
    else {
        panic!("{changes:?}")
    };
    assert_eq!((&uploaded.entry, &again.entry), (&entry("uploaded", 2), &entry("again", 2)));
    assert_eq!((&before.entry, &after.entry), (&entry("other", 1), &entry("other", 2)));
    // Neither is what was made since gone.
    assert_eq!(listing.complete(None).unwrap().count(), 0);
    assert_eq!(names(&all(&entries)), BTreeSet::from(["again", "new", "other", "uploaded"]));
    assert_eq!(entries.lookup(DIR, &name("removed")), Lookup::Absent);
    // The next listing began later than all that.
    assert_eq!(list(&entries, vec![entry("uploaded", 1)]).count(), 3);
    assert_eq!(entries.get(DIR, &name("uploaded")).unwrap().entry, entry("uploaded", 1));
}

#[test]
fn meta_belongs_to_its_version() {
    let entries = open(&db(), folder(1), None);
    list(&entries, vec![entry("a", 1)]);
    let get = || entries.get(DIR, &name("a")).unwrap().entry;
    assert!(entries.learn(DIR, &name("a"), &entry("a", 1).version, &meta(0o600)).unwrap());
    assert!(!entries.learn(DIR, &name("a"), &entry("a", 2).version, &meta(0o666)).unwrap());
    assert!(!entries.learn(DIR, &name("b"), &entry("b", 1).version, &meta(0o666)).unwrap());
    list(&entries, vec![entry("a", 1)]);
    assert_eq!(get().meta, Some(meta(0o600)));
    list(&entries, vec![entry("a", 2)]);
    assert_eq!(get().meta, None);
}

#[test]
fn a_listing_does_not_become_complete_if_its_directory_is_forgotten() {
    let entries = open(&db(), folder(1), None);
    list(&entries, vec![entry("a", 1), entry("b", 1)]);
    entries.put(Ino(8), &entry("elsewhere", 1)).unwrap();
    let mut listing = entries.begin(DIR, 9).unwrap();
    listing.page(&page(vec![entry("a", 1)], Some("next"))).unwrap();
    entries.forget(DIR).unwrap();
    assert_eq!((entries.count(DIR), entries.files()), (0, 1));
    assert_eq!(listing.page(&page(vec![], None)), Err(ListingError::Void));
    assert_eq!(entries.directory(DIR), Directory::default());
    assert_eq!(entries.highest().unwrap(), Some(Ino(8)));
    entries.forget(Ino(8)).unwrap();
    assert_eq!(entries.highest().unwrap(), None);
}

/// The rows that a directory may have after damage: none that was not there.
fn check_damaged(entries: &Arc<Entries>, before: &[Row], what: &str) {
    let after = all(entries);
    assert!(after.iter().all(|row| before.contains(row)), "{what}");
    for row in before {
        match entries.lookup(DIR, &row.entry.name) {
            Lookup::Row(found) => assert_eq!(found, *row, "{what}"),
            Lookup::Absent => panic!("{what}: {} is there", row.entry.name),
            Lookup::Unknown => {}
        }
    }
    if after.len() < before.len() {
        assert_eq!(entries.directory(DIR).listed, None, "{what}");
    }
}

#[test]
fn damage_makes_a_directory_unlisted_and_a_listing_repairs_it() {
    let db = db();
    let shown: Vec<_> = (0..6).map(|i| Entry { meta: Some(meta(i)), ..entry(i, i) }).collect();
    let mut at = 0;
    for is_reopened in [false, true] {
        for values in [None, Some(1)] {
            for attempt in 0.. {
                at += 1;
                let mut entries = open(&db, folder(at), values);
                list(&entries, shown.clone());
                let before = all(&entries);
                let mut all_bytes = entries.tree.iter().flat_map(|item| {
                    let (key, value) = item.unwrap();
                    (0..=value.len()).map(move |byte| (key.clone(), value.clone(), byte)).collect::<Vec<_>>()
                });
                let Some((key, value, byte)) = all_bytes.nth(attempt) else { break };
                let mut damaged = value.to_vec();
                match damaged.get_mut(byte) {
                    Some(byte) => *byte ^= 1 << (attempt % 8),
                    None => drop(damaged.pop()),
                }
                entries.tree.insert(&key, damaged).unwrap();
                if is_reopened {
                    entries = open(&db, folder(at), values);
                }
                let what = format!("{key:?} byte {byte}, {is_reopened}");
                check_damaged(&entries, &before, &what);
                list(&entries, shown.clone());
                assert_eq!(all(&entries).len(), shown.len(), "{what}");
                assert_eq!(entries.lookup(DIR, &name("x")), Lookup::Absent);
                assert_eq!(entries.count(DIR), shown.len() as u64);
            }
        }
    }
}

#[test]
fn rows_that_are_lost_during_a_listing_make_it_void() {
    let entries = open(&db(), folder(1), None);
    let mut listing = entries.begin(DIR, 5).unwrap();
    listing.page(&page(vec![entry("a", 1), entry("b", 1)], None)).unwrap();
    let key = row_key(DIR, entries.cookie_of(DIR, &name("a")));
    entries.tree.insert(key, b"damage".to_vec()).unwrap();
    assert_eq!(entries.get(DIR, &name("a")), None);
    assert_eq!(listing.complete(None).err(), Some(ListingError::Void));
    assert_eq!(entries.lookup(DIR, &name("a")), Lookup::Unknown);
    assert_eq!(entries.lookup(DIR, &name("b")), Lookup::Row(all(&entries)[0].clone()));
}

#[test]
fn a_database_that_lost_some_writes_and_kept_others_lists_no_part() {
    let db = db();
    for seed in 0..100 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let entries = open(&db, folder(seed), None);
        let mut states: Vec<(BTreeMap<_, _>, Option<Listed>, Vec<Row>)> = Vec::new();
        for _ in 0..20 {
            match rng.random_range(0..3) {
                0 => drop(entries.put(DIR, &any_entry(rng)).unwrap()),
                1 => drop(entries.remove(DIR, &any_entry(rng).name).unwrap()),
                _ => {
                    let mut shown: Vec<_> = (0..12).map(|_| any_entry(rng)).collect();
                    shown.shuffle(rng);
                    let gone = list(&entries, shown);
                    gone.batches().for_each(|rows| assert_eq!(gone.remove(&rows).as_ref(), Ok(&rows)));
                }
            }
            let bytes = entries.tree.iter().map(|item| item.unwrap()).collect();
            states.push((bytes, entries.directory(DIR).listed, all(&entries)));
        }
        // Each row from one of two moments.
        let (old, new) = (states.iter().choose(rng).unwrap(), states.iter().choose(rng).unwrap());
        let keys: BTreeSet<_> = old.0.keys().chain(new.0.keys()).collect();
        let after = db.open_tree(format!("folder-{}", folder(1000 + seed))).unwrap();
        for key in keys {
            let from = if rng.random_bool(0.3) { &old.0 } else { &new.0 };
            from.get(key).map(|value| after.insert(key, value).unwrap());
        }
        // The same key as before, under another name of the tree.
        let entries = Entries::open_with(&db, folder(1000 + seed), Hasher::new(folder(seed))).unwrap();
        if let Some(listed) = entries.directory(DIR).listed {
            let found = (Some(listed), all(&entries));
            assert!(
                states.iter().any(|(_, listed, rows)| (listed, rows) == (&found.0, &found.1)),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn every_value_survives_the_round_trip() {
    let entries = open(&db(), folder(1), None);
    let xattrs = BTreeMap::from([("user.a".to_owned(), vec![0, 255]), ("user.b".to_owned(), Vec::new())]);
    let times = [0, 1, -1, i128::MAX, i128::MIN, -2_208_988_800_000_000_001, 1_700_000_000_123_456_789];
    for (i, time) in times.into_iter().enumerate() {
        let (mtime, link) = (Some(Time(time)), Some("../target".to_owned()));
        let meta = Some(Meta { mode: Some(u32::MAX), mtime, xattrs: xattrs.clone(), link });
        let version = Version { tag: "…".into(), len: u64::MAX, written: Some(Time(time)) };
        let entry = Entry { name: name(i), kind: Kind::Link, version, meta, is_writable: false };
        entries.put(DIR, &entry).unwrap();
        assert_eq!(entries.get(DIR, &name(i)).unwrap().entry, entry);
    }
}
