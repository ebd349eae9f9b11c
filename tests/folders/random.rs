//! Random programs on a folder, by seed: files and trees are made, rewritten, saved as editors do it, renamed and removed, while another
//! program replaces files at the server, and the daemon is killed and restarted. What programs see is compared with a plain tree at each
//! step. Meanwhile a thread looks at the server's own disk: nobody there may ever see a file that is empty or half.
//!
//! `HOLDALL_FIRST_SEED` and `HOLDALL_SEEDS` choose the seeds.

use crate::bench::{Bench, Machine, Random, kill, wait_until};
use crate::place::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Operations of a life.
const OPERATIONS: u64 = 90;
/// The operations before which the daemon is killed, and the one before which it is stopped.
const KILLS: [u64; 3] = [20, 45, 75];
const RESTART: u64 = 60;
/// Files that only the other program writes.
const OTHERS: [&str; 2] = ["other-0", "other-1"];
/// Names that are hard for addresses, besides plain ones.
const NAMES: [&str; 5] = ["a", "b", "c d", "50%+#", "ü~1"];
const DIRECTORIES: [&str; 4] = ["", "d0", "d 1", "d0/é"];

/// Bytes that say by themselves whether they are whole.
fn content(number: u64) -> Vec<u8> {
    let mut random = Random(number);
    let len = [40, 300, 5_000, 70_000, 400_000][random.below(5) as usize] + random.below(100) as usize;
    let head = format!("content {number:08} of {len:08}\n");
    let body = random.bytes(len - head.len());
    [head.into_bytes(), body].concat()
}

/// The number of a content, if it is one, whole.
fn number_of(bytes: &[u8]) -> Result<u64, String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(30)]).into_owned();
    let number = head.strip_prefix("content ").and_then(|rest| rest.get(..8)?.parse().ok());
    let number = number.ok_or_else(|| format!("{} bytes that begin with {head:?}", bytes.len()))?;
    match bytes == content(number) {
        true => Ok(number),
        false => {
            Err(format!("{} bytes of content {number}, which has {}", bytes.len(), content(number).len()))
        }
    }
}

struct Life<'a> {
    place: &'a Place,
    machine: &'a Machine,
    at: PathBuf,
    random: Random,
    /// What programs here have made: the number of each file's content; directories have none.
    here: BTreeMap<String, Option<u64>>,
    /// All that the other program has written to each of its files; the last one counts.
    others: BTreeMap<&'static str, Vec<u64>>,
    /// Names that both have written at once, with both contents.
    contests: BTreeMap<String, [u64; 2]>,
    count: u64,
    steps: Vec<String>,
}

impl Life<'_> {
    fn fresh(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn any_path(&mut self) -> String {
        let directory = DIRECTORIES[self.random.below(DIRECTORIES.len() as u64) as usize];
        let name = NAMES[self.random.below(NAMES.len() as u64) as usize];
        if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
    }

    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.here.get(path) == Some(&None)
    }

    fn has_above(&self, path: &str) -> bool {
        self.is_directory(path.rsplit_once('/').map_or("", |(above, _)| above))
    }

    fn is_file(&self, path: &str) -> bool {
        matches!(self.here.get(path), Some(Some(_)))
    }

    fn files(&self) -> Vec<String> {
        self.here.iter().filter(|(_, number)| number.is_some()).map(|(path, _)| path.clone()).collect()
    }

    fn pick(&mut self, from: &[String]) -> Option<String> {
        let len = from.len() as u64;
        (len > 0).then(|| from[self.random.below(len) as usize].clone())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.at.join(path)
    }

    /// What a program was told. Only what the model foresees is right.
    fn agree<T>(&mut self, what: String, done: io::Result<T>) -> T {
        self.steps.push(what);
        done.unwrap_or_else(|error| self.fail(&error.to_string()))
    }

    fn fail(&self, why: &str) -> ! {
        let status = self.machine.run(&["folder", "status", "files"]);
        panic!("{why}\n{}\n{}", self.steps.join("\n"), String::from_utf8_lossy(&status.stdout));
    }

    fn write(&mut self, path: &str) {
        let (number, at) = (self.fresh(), self.at(path));
        let synced = self.random.below(3) == 0;
        let done = written(&at, number, synced);
        self.agree(format!("write {path}: {number}, synced: {synced}"), done);
        self.here.insert(path.to_owned(), Some(number));
    }

    /// As editors do it.
    fn save(&mut self, path: &str) {
        let (number, at, aside) = (self.fresh(), self.at(path), self.at(&format!("{path}.new")));
        let done = written(&aside, number, true).and_then(|()| fs::rename(&aside, &at));
        self.agree(format!("save {path}: {number}"), done);
        self.here.insert(path.to_owned(), Some(number));
    }

    fn rename(&mut self, from: &str, to: &str) {
        let done = fs::rename(self.at(from), self.at(to));
        self.agree(format!("rename {from} to {to}"), done);
        let within = format!("{from}/");
        let moved: Vec<String> =
            self.here.keys().filter(|path| *path == from || path.starts_with(&within)).cloned().collect();
        for old in moved {
            let what = self.here.remove(&old).unwrap();
            self.here.insert(format!("{to}{}", &old[from.len()..]), what);
        }
    }

    fn check_file(&mut self, path: &str) {
        let bytes = fs::read(self.at(path));
        let bytes = self.agree(format!("read {path}"), bytes);
        let number = self.here[path].unwrap();
        if number_of(&bytes) != Ok(number) {
            self.fail(&format!("{path} has {:?}", number_of(&bytes)));
        }
    }

    /// Everything that was made here is here, and nothing else but what others have made.
    fn check_all(&mut self) {
        let mut found = BTreeMap::new();
        let walked = walk(&self.at.clone(), "", &mut found);
        self.agree("look at everything".into(), walked);
        let is_others = |path: &str| OTHERS.contains(&path) || path.contains("contest");
        let shown: BTreeMap<_, _> = found.into_iter().filter(|(path, _)| !is_others(path)).collect();
        let here: BTreeMap<_, _> =
            self.here.iter().map(|(path, number)| (path.clone(), number.map(Ok))).collect();
        if shown != here {
            self.fail(&format!("here is {shown:?}\ninstead of {here:?}"));
        }
    }

    /// A file of the other program's that was seen stays, whatever happens to it: one of its versions is there, whole.
    fn check_others(&mut self) {
        for name in OTHERS {
            let known = self.others[name].clone();
            let bytes = loop {
                match fs::read(self.at(name)) {
                    // It was replaced while it was read.
                    Err(error) if error.raw_os_error() == Some(libc::ESTALE) => {}
                    read => break read,
                }
            };
            let bytes = self.agree(format!("read the other's {name}"), bytes);
            match number_of(&bytes) {
                Ok(number) if known.contains(&number) => {}
                other => self.fail(&format!("{name} has {other:?}")),
            }
        }
    }

    fn other_writes(&mut self, name: &'static str) {
        let number = self.fresh();
        self.steps.push(format!("the other program writes {name}: {number}"));
        self.others.entry(name).or_default().push(number);
        self.place.other_writes(name, &content(number));
    }

    fn operate(&mut self) {
        let path = self.any_path();
        let files = self.files();
        match self.random.below(100) {
            0..30 if self.has_above(&path) && !self.is_directory(&path) => self.write(&path),
            30..45 => {
                if let Some(path) = self.pick(&files) {
                    self.save(&path);
                }
            }
            45..60 => {
                let from = self.pick(&files);
                if let Some(from) = from.filter(|_| self.has_above(&path) && !self.is_directory(&path)) {
                    self.rename(&from, &path);
                }
            }
            60..68 => {
                if let Some(path) = self.pick(&files) {
                    let done = fs::remove_file(self.at(&path));
                    self.agree(format!("remove {path}"), done);
                    self.here.remove(&path);
                }
            }
            68..78 => {
                let directory = DIRECTORIES[1 + self.random.below(3) as usize];
                if self.has_above(directory) && !self.here.contains_key(directory) {
                    let done = fs::create_dir(self.at(directory));
                    self.agree(format!("make {directory}"), done);
                    self.here.insert(directory.to_owned(), None);
                }
            }
            78..83 if self.is_directory("d0") && !self.here.contains_key("d 1") => self.rename("d0", "d 1"),
            83..87 => {
                let name = OTHERS[self.random.below(2) as usize];
                self.other_writes(name);
            }
            87..90 => self.check_all(),
            90..95 => self.check_others(),
            _ => {
                if let Some(path) = self.pick(&files) {
                    self.check_file(&path);
                }
            }
        }
        debug_assert!(
            self.here
                .keys()
                .all(|path| self.has_above(path) && (self.is_file(path) || self.is_directory(path)))
        );
    }

    /// Both write a new name at once.
    fn contest(&mut self) {
        let name = format!("contest-{}", self.contests.len());
        let (ours, theirs) = (self.fresh(), self.fresh());
        let done = written(&self.at(&name), ours, false);
        self.agree(format!("write {name}: {ours}, and the other program {theirs}"), done);
        self.place.other_writes(&name, &content(theirs));
        self.contests.insert(name, [ours, theirs]);
    }

    fn pid(&self) -> i32 {
        let mut pid = 0;
        let answers = wait_until("a daemon answers", || {
            let output = self.machine.run(&["folder", "status", "files"]);
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            pid = status["daemon_pid"].as_i64().filter(|_| status["mountpoint"].is_string()).unwrap_or(0)
                as i32;
            pid != 0
        });
        answers.unwrap_or_else(|()| self.fail("no daemon"));
        pid
    }

    fn live(&mut self) {
        for name in OTHERS {
            self.other_writes(name);
        }
        self.check_when_seen();
        for step in 0..OPERATIONS {
            if KILLS.contains(&step) {
                self.steps.push("kill the daemon".into());
                kill(self.pid());
            }
            if step == RESTART {
                self.steps.push("restart the daemon".into());
                self.machine.ok(&["daemon", "stop"]);
                self.pid();
                self.check_all();
            }
            if step % 30 == 10 {
                self.contest();
            }
            self.operate();
        }
        self.check_all();
        self.check_others();
    }

    fn check_when_seen(&self) {
        let seen =
            wait_until("the other program's files", || OTHERS.iter().all(|name| self.at(name).exists()));
        seen.unwrap_or_else(|()| self.fail("the other program's files are not seen"));
    }

    /// All of it has reached the server: each file, and both contents of each contest.
    fn check_there(&mut self) {
        self.machine.ok(&["folder", "sync", "files"]);
        let there = self.place.files();
        let mut contents = BTreeSet::new();
        for (path, bytes) in there.iter().filter_map(|(path, bytes)| Some((path, bytes.as_ref()?))) {
            let number = number_of(bytes).unwrap_or_else(|why| self.fail(&format!("{path} there has {why}")));
            contents.insert(number);
            let ours = self.here.get(path.as_str()).copied().flatten();
            let others = self.others.get(path.as_str()).and_then(|all| all.last().copied());
            match ours.or(others) {
                Some(expected) if expected == number => {}
                None if path.contains("contest") => {}
                expected => self.fail(&format!("{path} there has {number} instead of {expected:?}")),
            }
        }
        for path in self.files() {
            if !there.contains_key(&path) {
                self.fail(&format!("{path} is not there"));
            }
        }
        for (name, both) in &self.contests {
            if !both.iter().all(|number| contents.contains(number)) {
                self.fail(&format!("{name}: one of {both:?} is lost"));
            }
        }
    }
}

/// Writes a whole file.
fn written(path: &Path, number: u64, synced: bool) -> io::Result<()> {
    let mut file = File::create(path)?;
    let bytes = content(number);
    let (one, other) = bytes.split_at(bytes.len() / 2);
    file.write_all(one)?;
    file.write_all(other)?;
    if synced { file.sync_all() } else { Ok(()) }
}

type Walked = BTreeMap<String, Option<Result<u64, String>>>;

fn walk(directory: &Path, above: &str, found: &mut Walked) -> io::Result<()> {
    let wrong = |path: &str, error: io::Error| io::Error::other(format!("{path}: {error}"));
    for entry in fs::read_dir(directory).map_err(|error| wrong(above, error))? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap();
        let path = if above.is_empty() { name } else { format!("{above}/{name}") };
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &path, found)?;
            found.insert(path, None);
        } else if !OTHERS.contains(&path.as_str()) && !path.contains("contest") {
            let bytes = fs::read(entry.path()).map_err(|error| wrong(&path, error))?;
            found.insert(path, Some(number_of(&bytes)));
        }
    }
    Ok(())
}

/// Looks at the server's files until it is over. Returns the first file that was not whole.
fn watch(place: &Place, is_over: &AtomicBool) -> Result<(), String> {
    while !is_over.load(Ordering::Relaxed) {
        for (path, bytes) in place.files() {
            if let Some(why) = bytes.and_then(|bytes| number_of(&bytes).err()) {
                return Err(format!("others see {path} with {why}"));
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn live(place: &Place, bench: &Bench, seed: u64) {
    let machine = bench.machine("a");
    place.open(bench, &machine, &[]);
    let at = machine.mountpoint();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(place, &is_over));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let (here, others, contests) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
            let random = Random(seed);
            let mut life = Life {
                place,
                machine: &machine,
                at,
                random,
                here,
                others,
                contests,
                count: 0,
                steps: vec![format!("seed {seed}")],
            };
            life.live();
            life.check_there();
            read_by_another(&life, bench);
        }));
        is_over.store(true, Ordering::Relaxed);
        let watched = watching.join().unwrap();
        if let Err(panicked) = result {
            std::panic::resume_unwind(panicked);
        }
        watched.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    });
    machine.ok(&["folder", "close", "files", "--wait"]);
}

/// Another computer sees the same files, and this one sees what the other changes.
fn read_by_another(life: &Life, bench: &Bench) {
    let other = bench.machine("b");
    life.place.open(bench, &other, &[]);
    let mut found = BTreeMap::new();
    walk(&other.mountpoint(), "", &mut found).unwrap();
    for path in life.files() {
        let number = life.here[&path].unwrap();
        assert_eq!(found.get(&path), Some(&Some(Ok(number))), "{path} on the other computer");
    }
    let number = life.count + 1;
    written(&other.mountpoint().join("from b"), number, true).unwrap();
    other.ok(&["folder", "close", "files", "--wait"]);
    let came = || fs::read(life.at("from b")).is_ok_and(|bytes| number_of(&bytes) == Ok(number));
    wait_until("the other computer's file", came)
        .unwrap_or_else(|()| life.fail("the other's file is not seen"));
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("HOLDALL_FIRST_SEED").unwrap_or(1);
    first..first + number("HOLDALL_SEEDS").unwrap_or(1)
}

fn lives(place: impl Fn(&Bench) -> Place) {
    for seed in seeds() {
        let bench = Bench::new();
        live(&place(&bench), &bench, seed);
    }
}

#[test]
fn a_directory_keeps_everything_through_kills() {
    lives(Place::directory);
}

#[test]
fn a_bucket_keeps_everything_through_kills() {
    lives(|_| Place::bucket());
}

#[test]
fn a_bucket_without_conditions_keeps_everything_through_kills() {
    lives(|_| Place::loose_bucket());
}

#[test]
fn apache_keeps_everything_through_kills() {
    lives(|_| Place::apache());
}

#[test]
fn nginx_keeps_everything_through_kills() {
    lives(|_| Place::nginx());
}

#[test]
fn rclone_keeps_everything_through_kills() {
    lives(|_| Place::rclone());
}
