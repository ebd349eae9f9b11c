//! Random lives of a folder, by seed: programs work on it, another client changes the remote, the remote fails, and each life ends with a
//! close, a kill or a power cut. What programs see is compared with a plain tree, and the remote with what was meant to reach it.
//!
//! `HOLDALL_FIRST_SEED` and `HOLDALL_SEEDS` choose the seeds.

use crate::rig::{Opened, Rig, WRITES, database, path};
use crate::unanswered::{self, Unanswered};
use bytes::Bytes;
use holdall_core::folder::Ino;
use holdall_core::folder::api::{Changes, FolderError};
use holdall_core::sim::remote::{RemoteFaults, RemoteHabits};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const DIRECTORIES: [&str; 4] = ["", "d0", "d1", "d0/e"];
const NAMES: [&str; 3] = ["a", "b", "c"];
const SEEDS: u64 = 200;

#[derive(Default)]
pub struct Model {
    /// What programs see, but for what the other client and the contests have.
    pub here: BTreeMap<String, Option<Vec<u8>>>,
    /// The request that the last daemon did and was killed before it answered.
    pub unanswered: Option<Unanswered>,
    /// Files that were made durable since they were last written.
    synced: BTreeSet<String>,
    /// What survives a power cut.
    durable: BTreeMap<String, Vec<u8>>,
    /// Files that replaced a durable one by a rename, with both contents: a power cut leaves one of these.
    replaced: BTreeMap<String, [Vec<u8>; 2]>,
    /// What the other client has.
    others: BTreeMap<String, Vec<u8>>,
    /// What programs here wrote under names that the other client wrote under, too: it must be at the remote in the end, wherever.
    contested: Vec<Vec<u8>>,
    /// What the other client wrote there.
    theirs: Vec<Vec<u8>>,
    /// All contents that anybody has written.
    history: BTreeSet<Vec<u8>>,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Close,
    Kill,
    Cut,
}

impl Model {
    pub fn content(&mut self, rng: &mut StdRng) -> Vec<u8> {
        self.count += 1;
        let len = *[1, 100, 5_000, 70_000].choose(rng).unwrap() + rng.random_range(0..100);
        let mut content = format!("content {} ", self.count).into_bytes();
        content.resize(content.len().max(len), (self.count % 251) as u8);
        self.history.insert(content.clone());
        content
    }

    pub fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.here.get(path) == Some(&None)
    }

    pub fn is_file(&self, path: &str) -> bool {
        matches!(self.here.get(path), Some(Some(_)))
    }

    pub fn has_above(&self, path: &str) -> bool {
        self.is_directory(path.rsplit_once('/').map_or("", |(above, _)| above))
    }

    pub fn is_empty(&self, directory: &str) -> bool {
        !self.here.keys().any(|path| path.starts_with(&format!("{directory}/")))
    }

    pub fn wrote(&mut self, path: &str, content: Vec<u8>) {
        self.replaced.remove(path);
        self.here.insert(path.into(), Some(content));
        self.synced.remove(path);
        self.durable.remove(path);
    }

    /// Everything that was recorded so far is durable.
    fn was_synced(&mut self) {
        let here = &self.here;
        let content = |path: &String| Some((path.clone(), here.get(path)?.clone()?));
        self.durable = self.synced.iter().filter_map(content).collect();
    }

    pub fn gone(&mut self, path: &str) {
        self.replaced.remove(path);
        self.here.remove(path);
        self.synced.remove(path);
        self.durable.remove(path);
    }

    /// Two files change their names.
    pub fn exchanged(&mut self, one: &str, other: &str) {
        let (first, second) = (self.here[one].clone(), self.here[other].clone());
        self.gone(one);
        self.gone(other);
        self.here.insert(one.into(), second);
        self.here.insert(other.into(), first);
    }

    pub fn renamed(&mut self, from: &str, to: &str) {
        let within = format!("{from}/");
        let moved: Vec<String> =
            self.here.keys().filter(|path| *path == from || path.starts_with(&within)).cloned().collect();
        let before = self.durable.get(to).cloned();
        self.gone(to);
        for old in moved {
            let new = format!("{to}{}", &old[from.len()..]);
            let (content, was_synced) = (self.here[&old].clone(), self.synced.contains(&old));
            self.gone(&old);
            self.here.insert(new.clone(), content);
            if was_synced {
                self.synced.insert(new);
            }
        }
        if let (Some(old), Some(Some(new))) = (before, self.here.get(to).cloned()) {
            self.replaced.insert(to.into(), [old, new]);
        }
    }
}

pub fn any_path(rng: &mut StdRng) -> String {
    let (directory, name) = (DIRECTORIES.choose(rng).unwrap(), NAMES.choose(rng).unwrap());
    if directory.is_empty() { (*name).to_owned() } else { format!("{directory}/{name}") }
}

/// An operation did what the model says, or could not be done for want of the remote. Returns whether it was done.
fn agree(what: &str, done: Result<(), FolderError>, may: bool) -> Result<bool, String> {
    match done {
        Ok(()) if may => Ok(true),
        Err(FolderError::Unavailable(_) | FolderError::Stale) => Ok(false),
        Err(_) if !may => Ok(false),
        done => Err(format!("{what}: {done:?}, where the model says {may}")),
    }
}

async fn operate(open: &Opened, model: &mut Model, rig: &Rig, rng: &mut StdRng) -> Result<(), String> {
    let at = any_path(rng);
    let folder = &open.folder;
    match rng.random_range(0..100) {
        0..14 => {
            let content = model.content(rng);
            let may = model.has_above(&at) && !model.is_directory(&at);
            if agree(&format!("write {at}"), open.write(&at, &content).await, may)? {
                model.wrote(&at, content);
            }
        }
        14..20 if model.is_file(&at) => {
            // As an editor saves.
            let (content, temporary) = (model.content(rng), format!("{at}.new"));
            if agree(&format!("write {temporary}"), open.write(&temporary, &content).await, true)? {
                model.wrote(&temporary, content);
                if agree(&format!("rename {temporary}"), open.rename(&temporary, &at).await, true)? {
                    model.renamed(&temporary, &at);
                }
                if rng.random_bool(0.5) {
                    folder.sync_directory(Ino::ROOT).await.map_err(|error| error.to_string())?;
                    model.was_synced();
                }
            }
        }
        20..30 => {
            let content = model.content(rng);
            let may = model.has_above(&at) && !model.is_directory(&at);
            if agree(&format!("write {at} durably"), open.write_durably(&at, &content).await, may)? {
                model.wrote(&at, content);
                model.synced.insert(at);
                model.was_synced();
            }
        }
        30..38 => {
            let Some(Some(mut content)) = model.here.get(&at).cloned() else { return Ok(()) };
            let offset = rng.random_range(0..content.len() + 10);
            let end = offset + 20;
            content.resize(content.len().max(end), 0);
            content[offset..end].fill(model.count as u8);
            let done = match open.open(&at, WRITES).await {
                Ok(handle) => {
                    let part = Bytes::from(vec![model.count as u8; 20]);
                    let written = folder.write(handle, offset as u64, part).await;
                    folder.release(handle);
                    written
                }
                Err(error) => Err(error),
            };
            if agree(&format!("write into {at}"), done, true)? {
                model.history.insert(content.clone());
                model.wrote(&at, content);
            }
        }
        38..42 => {
            let Some(Some(mut content)) = model.here.get(&at).cloned() else { return Ok(()) };
            let len = rng.random_range(1..content.len() + 10);
            content.resize(len, 0);
            let changes = Changes { len: Some(len as u64), ..Changes::default() };
            let done = match open.ino(&at).await {
                Ok(ino) => folder.set_attributes(ino, changes).await.map(|_| ()),
                Err(error) => Err(error),
            };
            if agree(&format!("truncate {at}"), done, true)? {
                model.history.insert(content.clone());
                model.wrote(&at, content);
            }
        }
        42..44 if model.is_file(&at) => {
            // A hole, or a length that is cut and given back: the same to whoever reads it.
            let Some(Some(mut content)) = model.here.get(&at).cloned() else { return Ok(()) };
            let from = rng.random_range(0..content.len());
            let to = rng.random_range(from..content.len()) + 1;
            let cuts = rng.random_bool(0.5);
            let len = content.len();
            content[from..if cuts { len } else { to }].fill(0);
            let range = (from as u64, (to - from) as u64);
            let done = open.punch(&at, range, cuts.then_some(len as u64)).await;
            if agree(&format!("punch {at}"), done, true)? {
                model.history.insert(content.clone());
                model.wrote(&at, content);
            }
        }
        42..48 => {
            let is_done = agree(&format!("unlink {at}"), open.unlink(&at).await, model.is_file(&at))?;
            if is_done {
                model.gone(&at);
            }
        }
        48..58 => {
            let to = any_path(rng);
            let may = model.is_file(&at) && model.has_above(&to) && !model.is_directory(&to);
            if agree(&format!("rename {at} to {to}"), open.rename(&at, &to).await, may)? && at != to {
                model.renamed(&at, &to);
            }
        }
        58..64 => {
            let directory = DIRECTORIES[rng.random_range(1..4)];
            let may = model.has_above(directory) && !model.here.contains_key(directory);
            if agree(&format!("mkdir {directory}"), open.mkdir(directory).await, may)? {
                model.here.insert(directory.into(), None);
            }
        }
        64..67 => {
            let directory = DIRECTORIES[rng.random_range(1..4)];
            let may = model.here.contains_key(directory) && model.is_empty(directory);
            if agree(&format!("rmdir {directory}"), open.rmdir(directory).await, may)? {
                model.gone(directory);
            }
        }
        67..71 => {
            let (from, to) = *[("d0", "d1"), ("d1", "d0"), ("d0/e", "d1")].choose(rng).unwrap();
            let may = model.here.contains_key(from)
                && (!model.here.contains_key(to) || model.is_empty(to))
                && model.has_above(to);
            if agree(&format!("rename {from} to {to}"), open.rename(from, to).await, may)? {
                model.renamed(from, to);
            }
        }
        71..78 => match (open.read(&at).await, model.here.get(&at)) {
            (Ok(read), Some(Some(content))) if read == *content => {}
            (Err(FolderError::NotFound | FolderError::NotDirectory), None) => {}
            (Err(FolderError::Unavailable(_)), _) => {}
            (read, content) => {
                let (read, content) =
                    (read.map(|read| short(&read)), content.map(|it| it.as_deref().map(short)));
                return Err(format!("read {at}: {read:?}, where the model has {content:?}"));
            }
        },
        78..86 => sleep(Duration::from_millis(rng.random_range(0..8_000))).await,
        86..88 => sleep(Duration::from_secs(70)).await,
        88..91 => {
            let _ = timeout(Duration::from_secs(60), folder.outbox().settle()).await;
        }
        91..93 => {
            folder.sync_directory(Ino::ROOT).await.map_err(|error| error.to_string())?;
            model.was_synced();
        }
        93..96 => {
            let name = format!("x/{}", NAMES.choose(rng).unwrap());
            let content = model.content(rng);
            rig.remote.other_writes(&path(&name), content.clone());
            model.others.insert(name, content);
        }
        96..98 => {
            // Both have seen nothing under the name when they write.
            let name = format!("contested {}", model.count);
            let (ours, theirs) = (model.content(rng), model.content(rng));
            if agree(&format!("write {name}"), open.write(&name, &ours).await, true)? {
                model.contested.push(ours);
                model.theirs.push(theirs.clone());
                rig.remote.other_writes(&path(&name), theirs);
            }
        }
        98.. => rig.remote.set_faults(faults(rng)),
        _ => {}
    }
    Ok(())
}

fn short(bytes: &[u8]) -> String {
    format!("{:?} ({} bytes)", String::from_utf8_lossy(&bytes[..bytes.len().min(14)]), bytes.len())
}

/// A change that takes effect after everybody has looked for it in vain cannot be told from another program's: such faults are the plan's
/// own model's, which knows what may come late.
fn faults(rng: &mut StdRng) -> RemoteFaults {
    match rng.random_range(0..3) {
        0 => RemoteFaults::default(),
        1 => RemoteFaults { answer_lost: 300, ..RemoteFaults::default() },
        _ => RemoteFaults {
            refused: 60,
            answer_lost: 60,
            busy: 60,
            away: 20,
            locked: 20,
            cut: 60,
            forgotten: 60,
            time: Duration::from_millis(800),
            ..RemoteFaults::default()
        },
    }
}

fn habits(rng: &mut StdRng) -> RemoteHabits {
    RemoteHabits {
        has_conditions: rng.random_bool(0.7),
        moves_trees: rng.random_bool(0.6),
        hides_meta: rng.random_bool(0.3),
        keeps_meta: rng.random_bool(0.7),
        keeps_mtime: rng.random_bool(0.7),
        meta_makes_versions: rng.random_bool(0.5),
        moves_make_versions: rng.random_bool(0.5),
        page_entries: rng.random_range(1..6),
        replaces_at_once: rng.random_bool(0.7),
        part_bytes: rng.random_bool(0.3).then_some(20_000),
        ..RemoteHabits::GOOD
    }
}

fn is_ours(path: &str) -> bool {
    !path.starts_with('x') && !path.starts_with("contested")
}

type Files = BTreeMap<String, Option<Vec<u8>>>;

fn ours(files: Files) -> Files {
    files.into_iter().filter(|(path, _)| is_ours(path)).collect()
}

fn differences(what: &str, found: &Files, expected: &Files) -> Result<(), String> {
    for path in found.keys().chain(expected.keys()) {
        let (one, other) = (found.get(path), expected.get(path));
        if one != other {
            let shown = |it: Option<&Option<Vec<u8>>>| it.map(|it| it.as_deref().map(short));
            return Err(format!("{what}: {path} is {:?} and should be {:?}", shown(one), shown(other)));
        }
    }
    Ok(())
}

async fn view(open: &Opened) -> Result<Files, String> {
    let mut last = None;
    for _ in 0..50 {
        match open.here().await {
            Err(error @ (FolderError::Unavailable(_) | FolderError::Stale | FolderError::NotFound)) => {
                last = Some(error);
                sleep(Duration::from_secs(10)).await;
            }
            here => return here.map_err(|error| format!("the view: {error}")),
        }
    }
    Err(format!("the view never comes: {last:?}"))
}

/// All that is at the remote is what somebody has written, whole.
fn check_remote(rig: &Rig, model: &Model) -> Result<(), String> {
    for (path, content) in rig.there() {
        if content.as_ref().is_some_and(|content| !model.history.contains(content)) {
            return Err(format!("{path} at the remote has {:?}", content.map(|content| short(&content))));
        }
    }
    Ok(())
}

async fn life(
    rig: &Rig,
    model: &mut Model,
    rng: &mut StdRng,
    after: Ending,
    ending: Ending,
) -> Result<(), String> {
    let open = rig.open().await;
    if after == Ending::Cut {
        rig.remote.set_faults(RemoteFaults::default());
        let here = view(&open).await?;
        for (path, content) in &model.durable {
            let found = here.get(path).and_then(|it| it.as_ref());
            if found != Some(content) {
                return Err(format!(
                    "after a cut {path} has {:?}, not {:?}",
                    found.map(|it| short(it)),
                    short(content)
                ));
            }
        }
        for (path, either) in &model.replaced {
            let found = here.get(path).and_then(|it| it.as_ref());
            if !found.is_some_and(|found| either.contains(found)) {
                return Err(format!(
                    "after a cut {path}, which was replaced, has {:?}",
                    found.map(|it| short(it))
                ));
            }
        }
        model.replaced.clear();
        model.history.extend(here.values().flatten().cloned());
        model.here = ours(here);
        model.synced.retain(|path| model.durable.contains_key(path));
    }
    if let Some(unanswered) = model.unanswered.take() {
        unanswered.repeat(&open.folder).await?;
    }
    for _ in 0..rng.random_range(1..40) {
        operate(&open, model, rig, rng).await?;
    }
    match ending {
        Ending::Close => open.folder.close().await.map_err(|error| format!("close: {error}"))?,
        Ending::Kill => {
            // By itself: what a seed does otherwise stays the same.
            let mut own = StdRng::seed_from_u64(model.count);
            if own.random_bool(0.7) {
                model.unanswered = unanswered::begin(&open, model, &mut own).await?;
            }
            rig.disk.kill();
        }
        Ending::Cut => {
            rig.disk.power_cut();
            // Nobody has made these durable.
            let there: BTreeSet<_> = rig.there().into_values().flatten().collect();
            model.contested.retain(|content| there.contains(content));
        }
    }
    check_remote(rig, model)
}

async fn last_life(rig: &Rig, model: &mut Model, after: Ending) -> Result<(), String> {
    rig.remote.set_faults(RemoteFaults::default());
    rig.remote.deliver_late();
    let open = rig.open().await;
    if let Some(unanswered) = model.unanswered.take() {
        unanswered.repeat(&open.folder).await?;
    }
    if after == Ending::Cut {
        let here = view(&open).await?;
        model.history.extend(here.values().flatten().cloned());
        model.here = ours(here);
    }
    let mut settled = Ok(());
    for _ in 0..20 {
        settled = match timeout(Duration::from_secs(3600), open.folder.outbox().settle()).await {
            Ok(settled) => settled.map_err(|error| error.to_string()),
            Err(_) => return Err(format!("settling never ends: {:#?}", open.folder.outbox().queue(10))),
        };
        sleep(Duration::from_secs(70)).await;
        if open.folder.held().count > 0 {
            open.folder.accept_deletions().await.map_err(|error| format!("accept: {error}"))?;
        }
        if settled.is_ok() && open.folder.outbox().queue(1).items.is_empty() {
            break;
        }
    }
    settled.map_err(|error| format!("settle: {error}"))?;
    differences("here", &ours(view(&open).await?), &model.here)?;
    differences("there", &ours(rig.there()), &model.here)?;
    let here = view(&open).await?;
    for (path, content) in &model.others {
        let found = here.get(path).and_then(|it| it.as_ref());
        if found != Some(content) {
            return Err(format!("the other client's {path} is {:?} here", found.map(|it| short(it))));
        }
    }
    let there: Vec<_> = rig.there().into_values().flatten().collect();
    for content in model.contested.iter().chain(&model.theirs) {
        if !there.contains(content) {
            return Err(format!("{} is lost", short(content)));
        }
    }
    check_remote(rig, model)?;
    open.folder.close().await.map_err(|error| format!("close: {error}"))
}

/// The lives of one folder. What went wrong, if something did.
pub fn lives(seed: u64) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut rig = Rig::new(seed, habits(&mut rng));
    rig.cache_bytes = *[200_000, 64 << 20].choose(&mut rng).unwrap();
    rig.whole_up_to = [0, 4_000, 16 << 20][(seed % 3) as usize];
    let mut model = Model::default();
    let mut after = Ending::Close;
    let in_a_process =
        |rig: &Rig, work: &mut dyn FnMut(&Rig, &tokio::runtime::Runtime) -> Result<(), String>| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            work(rig, &runtime.unwrap())
        };
    for _ in 0..rng.random_range(1..5) {
        let ending = *[Ending::Close, Ending::Kill, Ending::Kill, Ending::Cut].choose(&mut rng).unwrap();
        in_a_process(&rig, &mut |rig, runtime| {
            runtime.block_on(life(rig, &mut model, &mut rng, after, ending))
        })
        .map_err(|error| format!("seed {seed}, life after {after:?}: {error}"))?;
        after = ending;
        rig.outlives = ending == Ending::Kill;
        // What can be listed again may be lost.
        if ending != Ending::Close && rng.random_bool(0.5) {
            rig.database = database();
        }
    }
    in_a_process(&rig, &mut |rig, runtime| runtime.block_on(last_life(rig, &mut model, after)))
        .map_err(|error| format!("seed {seed}, last life after {after:?}: {error}"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nothing_is_lost_in_many_lives() {
    let first = number("HOLDALL_FIRST_SEED").unwrap_or(0);
    let count = number("HOLDALL_SEEDS").map_or(SEEDS, |count| count.min(SEEDS));
    let failed: Vec<String> = (first..first + count).filter_map(|seed| lives(seed).err()).collect();
    assert!(
        failed.is_empty(),
        "{} of {count} seeds fail:\n{}",
        failed.len(),
        failed[..failed.len().min(5)].join("\n")
    );
}
