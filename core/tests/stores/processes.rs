//! The file store between processes: conditional puts that race, and processes that are killed during a put.
//!
//! A racer is this program itself, run again for the test [`racer`] alone. It puts what it reads line by line on its standard
//! input, and answers each line. A round begins once all have answered the previous one.

use bytes::Bytes;
use holdall_core::store::file::FileStore;
use holdall_core::store::names::DriveNames;
use holdall_core::store::{Etag, Store, StoreError, When};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STORE: &str = "HOLDALL_RACER_STORE";
/// Far more than a disk under load needs. Only a lock that is never released takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The child's side: not a test of its own, but what the other tests run.
#[test]
#[ignore = "the other tests run it, each as a process of its own"]
fn racer() {
    let path = std::env::var_os(STORE).expect("the test that runs this says where the store is");
    let store = FileStore::new(path.into(), &DriveNames);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let [name, etag, stamp, len] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let when = if etag == "absent" { When::Absent } else { When::Matches(Etag(etag.to_owned())) };
        let answer = match runtime.block_on(store.put(name, body(stamp, len.parse().unwrap()), when)) {
            Ok(_) => "won".to_owned(),
            Err(StoreError::Precondition { .. }) => "lost".to_owned(),
            Err(error) => error.to_string(),
        };
        // The mark separates the answer from the output of the test harness.
        println!("\n> {answer}");
    }
}

/// The body that a racer puts: its stamp, repeated. A torn object cannot look like this.
fn body(stamp: &str, len: usize) -> Bytes {
    stamp.bytes().cycle().take(len).collect()
}

struct Racer {
    process: Child,
    tell: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Racer {
    fn start(store: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "processes::racer", "--nocapture", "--test-threads=1"])
            .env(STORE, store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (tell, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, tell, answers: BufReader::new(answers) }
    }

    fn put(&mut self, name: &str, when: &str, stamp: &str, len: usize) {
        writeln!(self.tell, "{name} {when} {stamp} {len}").unwrap();
    }

    fn answer(&mut self) -> String {
        for line in self.answers.by_ref().lines() {
            if let Some(answer) = line.unwrap().strip_prefix("> ") {
                return answer.to_owned();
            }
        }
        panic!("a racer ended without an answer")
    }

    /// kill -9.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        // Already gone, if the test succeeded.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Bench {
    dir: TempDir,
    store: FileStore,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("store"), &DriveNames);
        std::fs::create_dir(dir.path().join("store")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(store.put("family.json", Bytes::from_static(b"{}"), When::Absent)).unwrap();
        Self { dir, store, runtime }
    }

    fn racer(&self) -> Racer {
        Racer::start(&self.dir.path().join("store"))
    }

    /// The object's content and version; none if it is missing.
    fn get(&self, name: &str) -> Option<(Bytes, String)> {
        match self.runtime.block_on(self.store.get(name, None)) {
            Ok(fetched) => Some((fetched.bytes, fetched.etag.0)),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn names(&self) -> Vec<String> {
        let listed = self.runtime.block_on(self.store.list("")).unwrap();
        listed.into_iter().map(|listed| listed.name).collect()
    }

    fn temporaries(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("store/.tmp")).map_or(0, Iterator::count)
    }
}

#[test]
fn exactly_one_of_many_processes_wins_each_round() {
    const PROCESSES: usize = 64;
    const ROUNDS: usize = 24;
    const LEN: usize = 3000;
    let bench = Bench::new();
    let mut racers: Vec<_> = (0..PROCESSES).map(|_| bench.racer()).collect();
    let mut head = None;
    for round in 0..ROUNDS {
        let fresh = format!("race/{round}");
        for (name, when) in [(&*fresh, "absent"), ("head/1", head.as_deref().unwrap_or("absent"))] {
            for (index, racer) in racers.iter_mut().enumerate() {
                racer.put(name, when, &format!("{round}-{index},"), LEN);
            }
            let answers: Vec<_> = racers.iter_mut().map(Racer::answer).collect();
            let won: Vec<_> = (0..PROCESSES).filter(|index| answers[*index] == "won").collect();
            let lost = answers.iter().filter(|answer| *answer == "lost").count();
            assert_eq!((won.len(), lost), (1, PROCESSES - 1), "round {round} of {name}: {answers:?}");
            let (content, _) = bench.get(name).unwrap();
            assert_eq!(content, body(&format!("{round}-{},", won[0]), LEN), "round {round} of {name}");
        }
        head = bench.get("head/1").map(|(_, etag)| etag);
    }
    assert_eq!(bench.temporaries(), 0, "whoever lost has tidied up");
}

#[test]
fn a_process_killed_during_a_put_leaves_nothing_behind() {
    const SURVIVORS: usize = 3;
    /// Long enough for a kill to hit a put in progress.
    const LEN: usize = 1 << 20;
    /// How many puts a kill must have interrupted before the test ends.
    const INTERRUPTED: usize = 6;
    let bench = Bench::new();
    let mut survivors: Vec<_> = (0..SURVIVORS).map(|_| bench.racer()).collect();
    let mut random = StdRng::seed_from_u64(1);
    let mut head: Option<(Bytes, String)> = None;
    let begun = Instant::now();
    for round in 0.. {
        let name = format!("race/{round}");
        let name = if round % 2 == 0 { &*name } else { "head/1" };
        let before = if round % 2 == 0 { None } else { head.clone() };
        let when = before.as_ref().map_or("absent", |(_, etag)| etag);
        let mut victim = bench.racer();
        victim.put("warm/up", "absent", "x", 1);
        victim.answer();
        let left = bench.temporaries();
        victim.put(name, when, &format!("{round}-victim,"), LEN);
        // Wait until its put is in progress, however slow this machine is. A put that was too quick to be seen is killed after
        // it.
        let seen = Instant::now();
        while bench.temporaries() == left && seen.elapsed() < Duration::from_secs(1) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..1000)));
        for (index, survivor) in survivors.iter_mut().enumerate() {
            survivor.put(name, when, &format!("{round}-{index},"), LEN);
        }
        victim.kill();
        // Nothing that the dead process held delays the others' answers.
        let answers: Vec<_> = survivors.iter_mut().map(Racer::answer).collect();
        let won: Vec<_> = (0..SURVIVORS).filter(|index| answers[*index] == "won").collect();
        assert!(
            answers.iter().all(|answer| answer == "won" || answer == "lost"),
            "round {round}: {answers:?}"
        );
        let (content, etag) = bench.get(name).expect("either a survivor put it, or the victim did");
        let winner = match won[..] {
            [] => "victim".to_owned(),
            [index] => index.to_string(),
            _ => panic!("round {round} of {name}: {answers:?}"),
        };
        assert!(content == body(&format!("{round}-{winner},"), LEN), "round {round} of {name} is torn");
        if round % 2 == 1 {
            head = Some((content, etag));
        }
        assert!(bench.names().iter().all(|name| !name.contains(".tmp")), "temporaries are no objects");
        if bench.temporaries() >= INTERRUPTED && round >= 12 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "no kill came in mid-put: {} did", bench.temporaries());
    }
}
