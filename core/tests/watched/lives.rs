//! Random lives by seed: programs here and another client at the remote write, rename and remove; the remote fails; the engine is killed, or
//! the power cut, at any time. In the end both sides are alike, and nothing is lost that nobody has overwritten or removed.
//!
//! `HOLDALL_FIRST_SEED` and `HOLDALL_SEEDS` choose the seeds.

use crate::rig::{Rig, path};
use holdall_core::sim::remote::{RemoteFaults, RemoteHabits};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::sleep;

const NAMES: [&str; 8] = ["a", "b", "c", "d/a", "d/b", "e/a", "e/f/a", "d/c"];
const SEEDS: u64 = 150;
const STEPS: usize = 40;

/// Contents that somebody has written, and nobody has overwritten or removed since where it was seen.
struct Model {
    alive: BTreeSet<Vec<u8>>,
    /// Contents of files that a program has renamed. If the engine dies between an upload and its row, the old name comes back beside the new
    /// one: nobody knows any more that it was the same file.
    renamed: BTreeSet<Vec<u8>>,
    count: u64,
}

impl Model {
    fn content(&mut self, rng: &mut StdRng) -> Vec<u8> {
        self.count += 1;
        // Equal lengths, so that only bytes and versions tell them apart.
        let mut content = format!("content {:06} ", self.count).into_bytes();
        content.resize(*[16, 16, 200_000].choose(rng).unwrap(), b'.');
        self.alive.insert(content.clone());
        content
    }

    fn dies(&mut self, content: Option<Vec<u8>>) {
        if let Some(content) = content {
            self.alive.remove(&content);
        }
    }
}

fn change(rig: &Rig, model: &mut Model, rng: &mut StdRng) {
    let (at, other) = (path(NAMES.choose(rng).unwrap()), path(NAMES.choose(rng).unwrap()));
    match rng.random_range(0..10) {
        0..4 => {
            model.dies(rig.tree.file(&at));
            let content = model.content(rng);
            rig.tree.writes(&at, &content);
        }
        4 => {
            model.dies(rig.tree.file(&at));
            rig.tree.removes(&at);
        }
        5 => {
            if let Some(content) = rig.tree.file(&at)
                && rig.tree.file(&other).is_none()
            {
                model.renamed.insert(content);
                rig.tree.renames(&at, &other);
            }
        }
        6..9 => {
            model.dies(rig.there().remove(at.as_str()));
            let content = model.content(rng);
            rig.remote.other_writes(&at, content);
        }
        _ => {
            model.dies(rig.there().remove(at.as_str()));
            rig.remote.other_removes(&at);
        }
    }
}

async fn life(seed: u64) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let habits = match rng.random_range(0..3) {
        0 => RemoteHabits { page_entries: 2, ..RemoteHabits::GOOD },
        1 => RemoteHabits { page_entries: 3, ..RemoteHabits::BUCKET },
        _ => {
            RemoteHabits { keeps_meta: false, keeps_mtime: false, root_tag_tells: true, ..RemoteHabits::GOOD }
        }
    };
    let rig = Rig::new(seed, habits, true);
    let mut model = Model { alive: BTreeSet::new(), renamed: BTreeSet::new(), count: 0 };
    let chance = if rng.random_bool(0.7) { 40 } else { 0 };
    let time = Duration::from_millis(20);
    rig.remote.set_faults(RemoteFaults {
        refused: chance,
        answer_lost: chance,
        busy: chance / 4,
        login_page: chance / 4,
        stale: chance,
        cut: chance,
        loops: chance / 4,
        forgotten: chance / 4,
        time,
        ..RemoteFaults::default()
    });
    let mut watched = rig.open().await;
    for _ in 0..STEPS {
        for _ in 0..rng.random_range(0..3) {
            change(&rig, &mut model, &mut rng);
        }
        rig.tree.pass(Duration::from_millis(rng.random_range(0..6000)));
        // The engine works for a while, and is then dropped wherever it is.
        let work = Duration::from_millis(*[5, 50, 300, 2_000].choose(&mut rng).unwrap());
        let (syncs, cuts) = (rng.random_range(0..6), rng.random_bool(0.3));
        tokio::select! {
            () = watched.clone().run() => {}
            () = sleep(work) => {}
            () = rig.disk.after_syncs(syncs), if cuts => {}
        }
        match rng.random_range(0..4) {
            0 => rig.disk.power_cut(),
            1 => rig.disk.kill(),
            _ => continue,
        }
        watched = rig.open().await;
    }
    rig.remote.set_faults(RemoteFaults::default());
    rig.remote.deliver_late();
    for _ in 0..20 {
        let settled = rig.settle(&watched).await;
        if !watched.held().await.is_empty() {
            watched.decide(rng.random_bool(0.5)).await.map_err(|error| error.to_string())?;
        } else if settled.is_ok() && rig.tree.files() == rig.there() {
            break;
        }
        sleep(Duration::from_secs(60)).await;
        rig.tree.pass(Duration::from_secs(60));
    }
    let (here, there) = (rig.tree.files(), rig.there());
    let names =
        |files: &std::collections::BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    if here != there {
        return Err(format!(
            "the sides differ: {:?} and {:?}, {:?}",
            names(&here),
            names(&there),
            watched.status().queue
        ));
    }
    let kept: Vec<&Vec<u8>> = here.values().collect();
    let words = |content: &[u8]| String::from_utf8_lossy(&content[..14]).into_owned();
    if let Some(lost) = model.alive.iter().find(|content| !kept.contains(content)) {
        return Err(format!("{} is lost: {:?}", words(lost), names(&here)));
    }
    let is_twice = |content: &&&Vec<u8>| {
        !model.renamed.contains(**content) && kept.iter().filter(|other| other == content).count() > 1
    };
    let twice = kept.iter().find(is_twice);
    match twice {
        Some(twice) => Err(format!("{} is there twice: {:?}", words(twice), names(&here))),
        None => Ok(()),
    }
}

/// One life.
pub fn lives(seed: u64) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(life(seed))
}

#[test]
fn random_lives_lose_nothing_and_end_alike() {
    let of = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap());
    let first = of("HOLDALL_FIRST_SEED", 0);
    let failed: Vec<_> = (first..first + of("HOLDALL_SEEDS", SEEDS))
        .filter_map(|seed| lives(seed).err().map(|error| format!("seed {seed}: {error}")))
        .collect();
    assert!(failed.is_empty(), "{} lives: {}", failed.len(), failed.join("\n"));
}

/// The power is cut at each sync of a first round, one after the other.
#[tokio::test(start_paused = true)]
async fn a_power_cut_at_any_sync_loses_nothing() {
    for syncs in 1..60 {
        let rig = Rig::new(syncs, RemoteHabits::GOOD, true);
        for at in 0..4 {
            rig.tree.writes(&path(&format!("d/{at}")), format!("here {at}").as_bytes());
            rig.remote.other_writes(&path(&format!("e/{at}")), format!("there {at}"));
            rig.tree.writes(&path(&format!("both {at}")), format!("ours {at}").as_bytes());
            rig.remote.other_writes(&path(&format!("both {at}")), format!("them {at}"));
        }
        rig.tree.pass(Duration::from_secs(3));
        let watched = rig.open().await;
        let is_through = tokio::select! { biased;
            () = rig.disk.after_syncs(syncs) => false,
            settled = watched.settle() => settled.is_ok(),
        };
        drop(watched);
        rig.disk.power_cut();
        let watched = rig.open().await;
        rig.settle(&watched).await.unwrap();
        assert_eq!(rig.tree.files(), rig.there(), "cut at sync {syncs}");
        assert_eq!(rig.tree.files().len(), 16, "cut at sync {syncs}: {:?}", rig.tree.files().keys());
        if is_through {
            return;
        }
    }
    panic!("it never came through");
}
