//! Two computers fight for one drive. Each writes, is stopped at some point, loses the drive to the other, and wakes up without
//! knowing it. There are never two winners. Everything uploaded before is in the winner's history, and everything else is in a
//! fork, byte for byte. Neither contains anything of the other.
//!
//! If a store cannot keep the two apart, both versions are still kept.
//!
//! `HOLDALL_ROUNDS=n` sets the rounds of each fight. In two of eight rounds, a computer is then stopped for longer than every
//! time-out. Otherwise each store has one such round, and all of them run at once.

use crate::bench::{Bench, HeldKeeper, Machine, Random, failure, wait_until};
use crate::place::Place;
use crate::writer::{Writer, verify};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// One round with the holder paused, one in the middle of an upload, and one in the middle of a take-over.
const ROUNDS: usize = 3;
/// For each computer, in a round in which both write at once.
const FILES_AT_ONCE: usize = 6;
/// Longer than every time-out of the servers, the HTTP clients and the claims.
const LONG: Duration = Duration::from_secs(70);

fn write_synced(path: &Path, content: &str) {
    let mut file = File::create(path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file.sync_all().unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

fn assert_has(at: &Path, names: &[String]) {
    for name in names {
        let content = fs::read_to_string(at.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&content, name);
    }
}

/// A computer that stands still, as in a suspend, until this is dropped: its daemon with all that it serves, and its keeper,
/// which would restart the daemon.
struct Stopped {
    daemon: Pid,
    _keeper: Option<HeldKeeper>,
}

impl Stopped {
    fn new(machine: &Machine, pid: i32) -> Self {
        let stopped = Stopped { daemon: Pid::from_raw(pid).unwrap(), _keeper: machine.held_keeper() };
        kill_process(stopped.daemon, Signal::STOP).unwrap();
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.daemon, Signal::CONT);
    }
}

/// Files that a program saves and uploads one by one, until another computer has the drive.
struct Uploads {
    /// The saved files, and how many of them are reported as uploaded. The lock is held only to add to and read it.
    files: Mutex<(Vec<String>, usize)>,
    /// The number of files that may be uploaded: once another computer has the drive, no upload that begins later succeeds.
    allowed: AtomicUsize,
    ended: AtomicBool,
}

impl Uploads {
    fn new() -> Self {
        Uploads {
            files: Mutex::default(),
            allowed: AtomicUsize::new(usize::MAX),
            ended: AtomicBool::new(false),
        }
    }

    /// Returns once an upload fails because another computer has the drive.
    fn run(&self, machine: &Machine, round: usize) {
        for number in 0.. {
            let name = format!("busy-{round}-{number}");
            write_synced(&machine.mountpoint().join(&name), &name);
            self.files.lock().unwrap().0.push(name);
            let synced = machine.run(&["drive", "sync", "d"]);
            if !synced.status.success() {
                let failure = failure(&synced);
                assert_eq!(failure["code"], "conflict", "{failure}");
                return;
            }
            self.files.lock().unwrap().1 = number + 1;
            let allowed = self.allowed.load(Ordering::SeqCst);
            assert!(number < allowed, "two have won: file {number} was uploaded, and only {allowed} may be");
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Another computer has the drive. The upload of the last saved file may have succeeded before that.
    fn lost(&self) {
        let files = self.files.lock().unwrap();
        self.allowed.store(files.0.len(), Ordering::SeqCst);
    }

    fn uploaded(&self) -> Vec<String> {
        let files = self.files.lock().unwrap();
        files.0[..files.1].to_vec()
    }

    fn saved(&self) -> Vec<String> {
        self.files.lock().unwrap().0.clone()
    }

    /// Returns once this many more files were uploaded, or no more can be.
    fn progress(&self, more: usize, thread: &ScopedJoinHandle<()>) {
        let goal = self.uploaded().len() + more;
        wait_until("uploads", || thread.is_finished() || self.uploaded().len() >= goal).unwrap();
    }
}

/// Ends the uploads, however the test ends.
struct EndOf<'a>(&'a Uploads);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
    }
}

fn forks(machine: &Machine) -> Vec<Value> {
    machine.ok(&["drive", "forks", "d"]).as_array().unwrap().clone()
}

/// The situation when a computer is stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// The uploads of the drive's holder are paused.
    Paused,
    /// The holder uploads.
    Uploading,
    /// The holder uploads, while the other computer, which is stopped, is about to take the drive.
    Taking,
}

/// One round: the holder of the drive loses it to the other computer.
struct Round<'a> {
    number: usize,
    moment: Moment,
    /// The shortest time for which a computer is stopped.
    stopped_for: Duration,
    loser: &'a Machine,
    winner: &'a Machine,
    /// The files that the drive has for good.
    shared: &'a mut Vec<String>,
    random: &'a mut Random,
}

impl Round<'_> {
    fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.number)
    }

    fn run(mut self) {
        let at = self.loser.mountpoint();
        self.upload(self.loser, "uploaded");
        let before = self.shared.clone();
        let mut mine = Vec::new();
        if self.moment == Moment::Paused {
            self.loser.ok(&["drive", "pause", "d"]);
            mine.push(self.name("late"));
            write_synced(&at.join(&mine[0]), &mine[0]);
        }
        let writer = Writer::start(&at.join(self.name("records")));
        writer.progress(5);
        match self.moment {
            Moment::Paused => {
                self.lose_paused();
                writer.progress(5);
                self.loser.ok(&["drive", "resume", "d"]);
                let synced = self.loser.fails(&["drive", "sync", "d"]);
                assert_eq!(synced, (1, "conflict".to_owned()), "two have won");
            }
            Moment::Uploading | Moment::Taking => mine.extend(self.lose_uploading()),
        }
        let conflict = |status: &Value| status["state"] == "Conflict";
        let status = self.loser.status_when("a fork", conflict);
        assert_eq!(status["forks"][0]["in_place"], true, "{status}");
        assert!(status["advice"]["action"].as_str().unwrap().contains("holdall drive forks d"), "{status}");
        // The mount continues: programs that use it notice nothing.
        mine.push(self.name("after"));
        write_synced(&at.join(self.name("after")), &self.name("after"));
        let written = writer.stop();
        assert_eq!(self.loser.fails(&["drive", "close", "d", "--wait"]), (1, "conflict".to_owned()));
        let opened = self.loser.fails(&["drive", "open", "d"]);
        assert_eq!(opened, (4, "held".to_owned()), "it is the winner's now");
        self.look_at_fork(&[before, mine].concat(), written);

        // The winner has noticed none of this.
        let status = self.winner.status();
        let forks = status["forks"].as_array().unwrap().len();
        assert_eq!((&status["state"], forks), (&"Ready".into(), 0), "{status}");
        assert_has(&self.winner.mountpoint(), self.shared);
    }

    /// Saves and uploads a file.
    fn upload(&mut self, machine: &Machine, what: &str) {
        let name = self.name(what);
        write_synced(&machine.mountpoint().join(&name), &name);
        machine.ok(&["drive", "sync", "d"]);
        self.shared.push(name);
    }

    /// The loser stands still, and has uploaded nothing since it was paused.
    fn lose_paused(&mut self) {
        let stopped = Stopped::new(self.loser, self.loser.pid());
        assert_eq!(self.winner.fails(&["drive", "open", "d"]), (4, "held".to_owned()));
        let refused = self.winner.fails(&["drive", "open", "d", "--take-over"]);
        assert_eq!(refused, (4, "held".to_owned()), "nobody was there to say yes");
        self.take_over();
        for absent in ["late", "records"] {
            let path = self.winner.mountpoint().join(self.name(absent));
            assert!(!path.exists(), "{absent} was never uploaded");
        }
        thread::sleep(self.stopped_for);
        drop(stopped);
    }

    /// The loser is stopped during an upload, or the winner during the take-over. Returns the files that the loser has saved.
    fn lose_uploading(&mut self) -> Vec<String> {
        let (uploads, loser, number) = (Uploads::new(), self.loser, self.number);
        thread::scope(|scope| {
            let _end = EndOf(&uploads);
            let thread = scope.spawn(|| uploads.run(loser, number));
            uploads.progress(2, &thread);
            match self.moment {
                Moment::Taking => self.take_over_in_two_goes(&uploads, &thread),
                _ => {
                    let pid = self.loser.pid();
                    thread::sleep(Duration::from_millis(self.random.below(300)));
                    let stopped = Stopped::new(self.loser, pid);
                    self.take_over();
                    uploads.lost();
                    thread::sleep(self.stopped_for);
                    drop(stopped);
                }
            }
            uploads.lost();
            // The loser learns the result of an upload that was in progress when the drive was taken.
            wait_until("the conflict", || thread.is_finished()).unwrap();
            thread.join().unwrap();
        });
        self.shared.extend(uploads.uploaded());
        assert_has(&self.winner.mountpoint(), self.shared);
        uploads.saved()
    }

    /// The winner is stopped while it takes the drive, and the loser continues meanwhile.
    fn take_over_in_two_goes(&mut self, uploads: &Uploads, thread: &ScopedJoinHandle<()>) {
        let pid = self.winner.pid();
        let at = self.winner.mountpoint().display().to_string();
        let open = ["drive", "open", "d", "--attach", "loop", "--at", &at, "--take-over", "--yes"];
        let opening = self.winner.begin(&open);
        thread::sleep(Duration::from_millis(self.random.below(400)));
        let stopped = Stopped::new(self.winner, pid);
        uploads.progress(2, thread);
        thread::sleep(self.stopped_for);
        drop(stopped);
        let opened = opening.output();
        if opened.status.success() {
            assert_has(&self.winner.mountpoint(), self.shared);
            return self.win();
        }
        let failure = failure(&opened);
        eprintln!("round {}: not at once: {failure}", self.number);
        match failure["code"].as_str().unwrap() {
            "held" | "raced" => self.take_over(),
            // A request was in progress for longer than every time-out. The drive may already be taken.
            "offline" if self.stopped_for == LONG => {
                self.winner.open(&["--take-over", "--yes"]);
                assert_has(&self.winner.mountpoint(), self.shared);
                self.win();
            }
            _ => panic!("{failure}"),
        }
    }

    fn take_over(&mut self) {
        let opened = self.winner.open(&["--take-over", "--yes"]);
        assert!(opened["took_over"]["last_commit_at"].is_string(), "{opened}");
        assert_has(&self.winner.mountpoint(), self.shared);
        self.win();
    }

    fn win(&mut self) {
        self.upload(self.winner, "won");
        // The winner must not collect anything that the loser still needs.
        self.winner.ok(&["drive", "gc", "d"]);
    }

    /// The loser's fork is on its own computer, has all of these files, and is kept or discarded.
    fn look_at_fork(&self, files: &[String], written: u64) {
        let (loser, round) = (self.loser, self.number);
        let fork = forks(loser).pop().unwrap();
        assert_eq!((&fork["in_place"], &fork["bytes"]), (&false.into(), &0.into()), "{fork}");
        let number = forks(loser).len().to_string();
        let look = loser.dir.join("fork");
        let open = |of: &[&str]| {
            let at = look.display().to_string();
            loser.ok(&[&["drive"], of, &["--attach", "loop", "--at", &at]].concat());
            assert_has(&look, files);
            verify(&look.join(self.name("records")), written);
            assert!(!look.join(self.name("won")).exists(), "nothing is merged");
        };
        open(&["forks", "d", "open", fork["name"].as_str().unwrap()]);
        let kept = self.name("mine");
        let keep = ["drive", "forks", "d", "keep", &number, "--as", &kept];
        assert_eq!(loser.fails(&keep), (1, "state".to_owned()), "it is mounted");
        loser.ok(&["drive", "close", fork["name"].as_str().unwrap(), "--wait"]);
        if round.is_multiple_of(2) {
            loser.ok(&keep);
            open(&["open", &kept]);
            loser.ok(&["drive", "close", &kept, "--wait"]);
            assert_eq!(loser.ok(&["drive", "check", &kept])["ok"], true);
        } else {
            loser.ok(&["drive", "forks", "d", "discard", &number, "--yes"]);
        }
        assert_eq!(forks(loser), [Value::Null; 0]);
    }
}

/// The configured rounds; few in an ordinary run.
fn rounds() -> Vec<(Moment, Duration)> {
    let count = std::env::var("HOLDALL_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let round = |number: usize| {
        let moment = [Moment::Paused, Moment::Uploading, Moment::Taking][number % 3];
        (moment, if matches!(number % 8, 6 | 7) { LONG } else { Duration::ZERO })
    };
    (0..count).map(round).collect()
}

/// A fight about a drive in that store. Each round says what happens, and how long a computer is stopped.
fn fight(bench: &Bench, place: &Place, rounds: &[(Moment, Duration)]) {
    let (a, b) = (bench.machine("a"), bench.machine("b"));
    let made = a.ok(&place.create("256M"));
    assert_eq!(made["store_mode"], place.mode);
    b.ok(&place.drive(&["add"]));
    a.open(&[]);
    let (mut shared, mut random) = (Vec::new(), Random(4));
    let begun = Instant::now();
    for (number, (moment, stopped_for)) in rounds.iter().copied().enumerate() {
        let (loser, winner) = if number.is_multiple_of(2) { (&a, &b) } else { (&b, &a) };
        let (shared, random) = (&mut shared, &mut random);
        Round { number, moment, stopped_for, loser, winner, shared, random }.run();
        eprintln!("{}: round {number}, {moment:?}, is over after {:?}", place.mode, begun.elapsed());
    }
    let last = if rounds.len().is_multiple_of(2) { &a } else { &b };
    last.close();
    last.assert_checked();
    // A computer that has seen none of it finds everything ever uploaded to the drive.
    let other = bench.machine("other");
    other.ok(&place.drive(&["add"]));
    other.open(&[]);
    assert_has(&other.mountpoint(), &shared);
    other.close();
}

#[test]
fn one_of_two_computers_wins_and_the_other_forks() {
    let bench = Bench::new();
    fight(&bench, &Place::directory(&bench), &rounds());
}

#[test]
fn one_computer_wins_in_a_bucket() {
    let bench = Bench::new();
    fight(&bench, &Place::s3(&bench), &rounds());
}

#[test]
fn one_computer_wins_on_a_webdav_server() {
    let bench = Bench::new();
    fight(&bench, &Place::apache(&bench), &rounds());
}

#[test]
fn one_computer_wins_on_a_limited_webdav_server() {
    let bench = Bench::new();
    fight(&bench, &Place::nginx(&bench), &rounds());
}

/// If two computers take a drive at the same moment, both may believe that they hold it. The product says so before it stores
/// anything (`tests/stores/s3.rs`). If one takes it after the other, one wins as everywhere.
#[test]
fn one_computer_wins_in_a_bucket_without_conditions() {
    let bench = Bench::new();
    fight(&bench, &Place::weak_s3(&bench), &rounds());
}

/// All stores at once, since the test mostly waits.
#[test]
fn a_computer_stopped_beyond_every_timeout_loses_too() {
    type Make = fn(&Bench) -> Place;
    let fights: [(Make, Moment); 5] = [
        (Place::directory, Moment::Uploading),
        (Place::s3, Moment::Taking),
        (Place::apache, Moment::Uploading),
        (Place::nginx, Moment::Taking),
        (Place::weak_s3, Moment::Paused),
    ];
    thread::scope(|scope| {
        for (make, moment) in fights {
            scope.spawn(move || {
                let bench = Bench::new();
                fight(&bench, &make(&bench), &[(moment, LONG)]);
            });
        }
    });
}

/// A computer that opens the drive, taking it over if needed, then saves and uploads files. It writes the second half once both
/// computers have the drive open, as counted by `others`. Returns the saved files.
fn write_at_once(machine: &Machine, who: &str, round: usize, others: &AtomicUsize) -> Vec<String> {
    let at = machine.mountpoint().display().to_string();
    let open = ["drive", "open", "d", "--attach", "loop", "--at", &at];
    let mut opened = machine.run(&open);
    // As people who do not close a drive on one computer before they open it on another.
    for _ in 0..10 {
        if opened.status.success() {
            break;
        }
        let failure = failure(&opened);
        assert!(["held", "raced"].contains(&failure["code"].as_str().unwrap()), "{failure}");
        opened = machine.run(&[&open[..], &["--take-over", "--yes"]].concat());
    }
    assert!(opened.status.success(), "{}", failure(&opened));
    let mut saved = Vec::new();
    for number in 0..FILES_AT_ONCE {
        if number == FILES_AT_ONCE / 2 {
            others.fetch_add(1, Ordering::SeqCst);
            wait_until("both have it open", || others.load(Ordering::SeqCst) == 2).unwrap();
        }
        let name = format!("{who}-{round}-{number}");
        write_synced(&machine.mountpoint().join(&name), &name);
        saved.push(name);
        let synced = machine.run(&["drive", "sync", "d"]);
        if !synced.status.success() {
            let failure = failure(&synced);
            assert_eq!(failure["code"], "conflict", "{failure}");
        }
    }
    assert_has(&machine.mountpoint(), &saved);
    saved
}

/// Files of `saved` that the drive, mounted at `drive`, lacks are in the fork of the computer that saved them.
fn assert_kept(machine: &Machine, saved: &[String], drive: &Path) {
    if saved.iter().all(|name| drive.join(name).exists()) {
        return assert_has(drive, saved);
    }
    let fork = forks(machine).pop().expect("what the drive lacks is in a fork");
    assert_eq!(fork["bytes"], 0, "all of it is uploaded: {fork}");
    let look = machine.dir.join("fork");
    let (name, at) = (fork["name"].as_str().unwrap(), look.display().to_string());
    machine.ok(&["drive", "forks", "d", "open", name, "--attach", "loop", "--at", &at]);
    assert_has(&look, saved);
    machine.ok(&["drive", "close", name, "--wait"]);
}

/// A store that cannot keep two computers apart promises less, and the product says so before it stores anything. A person who
/// writes on two computers at once still loses nothing: each computer keeps its version.
#[test]
fn keeps_both_versions_when_a_weak_store_allows_two_writers() {
    let bench = Bench::new();
    let place = Place::weak_s3(&bench);
    let [a, b, other] = ["a", "b", "other"].map(|name| bench.machine(name));
    let tested = a.ok(&place.store("test"));
    assert_eq!((&tested["store_mode"], &tested["usable"]), (&"none".into(), &true.into()), "{tested}");
    let said = a.plain_command(&place.store("test")).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("on one computer at a time"), "{said}");
    let create = place.drive(&["create", "--size", "256M", "--no-encryption"]);
    assert_eq!(a.fails(&create), (1, "weak_store".to_owned()));
    assert_eq!(a.ok(&[&create[..], &["--yes"]].concat())["store_mode"], place.mode);
    b.ok(&place.drive(&["add"]));
    other.ok(&place.drive(&["add"]));

    let mut shared: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let open = &AtomicUsize::new(0);
        let saved = thread::scope(|scope| {
            let threads = [(&a, "a"), (&b, "b")]
                .map(|(machine, who)| scope.spawn(move || write_at_once(machine, who, round, open)));
            threads.map(|thread| thread.join().unwrap())
        });
        for machine in [&a, &b] {
            let closed = machine.run(&["drive", "close", "d", "--wait"]);
            assert!(closed.status.success() || failure(&closed)["code"] == "conflict");
        }
        other.open(&["--take-over", "--yes"]);
        assert_has(&other.mountpoint(), &shared);
        assert!([&a, &b].iter().any(|machine| !forks(machine).is_empty()), "both have won in round {round}");
        for (machine, saved) in [&a, &b].into_iter().zip(&saved) {
            assert_kept(machine, saved, &other.mountpoint());
            let discard = ["drive", "forks", "d", "discard", "1", "--yes"];
            forks(machine).iter().for_each(|_| drop(machine.ok(&discard)));
        }
        let is_there = |name: &&String| other.mountpoint().join(name).exists();
        shared.extend(saved.iter().flatten().filter(is_there).cloned());
        other.close();
    }
    a.assert_checked();
}

#[test]
fn uploads_the_rest_of_a_fork_after_its_taker_closes() {
    let bench = Bench::new();
    let (a, b, store) = (bench.with_drive(), bench.machine("b"), bench.store());
    b.ok(&["drive", "add", "d", "--store", &store]);
    a.open(&[]);
    b.open(&["--take-over", "--yes"]);
    write_synced(&a.mountpoint().join("mine"), "mine");
    assert_eq!(a.fails(&["drive", "sync", "d"]), (1, "conflict".to_owned()));
    // The fork is in the store, and has more changes here.
    a.ok(&["drive", "pause", "d"]);
    write_synced(&a.mountpoint().join("late"), "late");
    a.ok(&["drive", "close", "d"]);
    let fork = forks(&a).pop().unwrap()["name"].as_str().unwrap().to_owned();
    a.ok(&["daemon", "stop"]);

    // Only the fork is left in the store. While another computer holds it, nothing is uploaded to it.
    b.close();
    b.ok(&["drive", "remove", "d", "--delete-data", "--yes"]);
    b.ok(&["drive", "add", "x", "--store", &store]);
    let at = b.dir.join("fork").display().to_string();
    b.ok(&["drive", "open", "x", "--attach", "loop", "--at", &at, "--take-over", "--yes"]);
    write_synced(&b.dir.join("fork/theirs"), "theirs");
    b.ok(&["drive", "sync", "x"]);
    a.ok(&["drive", "resume", &fork]);
    let waits = || a.ok(&["drive", "status", &fork])["state"] == "Read-only";
    wait_until("the fork waits for who has it", waits).unwrap();
    b.ok(&["drive", "close", "x", "--wait"]);
    // The local changes then become a fork of it, without a question.
    let uploaded =
        || forks(&a).iter().any(|it| it["name"] != fork.as_str() && it["bytes"] == 0 && it["records"] == 0);
    wait_until("the fork of the fork is uploaded", uploaded).unwrap();
}

#[test]
fn a_fork_can_be_kept_right_after_the_close() {
    let bench = Bench::new();
    let (a, b, store) = (bench.with_drive(), bench.machine("b"), bench.store());
    b.ok(&["drive", "add", "d", "--store", &store]);
    a.open(&[]);
    b.open(&["--take-over", "--yes"]);
    write_synced(&a.mountpoint().join("mine"), "mine");
    assert_eq!(a.fails(&["drive", "sync", "d"]), (1, "conflict".to_owned()));
    let number = forks(&a).len().to_string();
    let keep = ["drive", "forks", "d", "keep", &number, "--as", "kept"];
    // While programs may use it, it cannot be moved.
    assert_eq!(a.fails(&keep), (1, "state".to_owned()));
    // A new change waits for a person: the upload of the closed drive never ends.
    a.ok(&["drive", "pause", "d"]);
    write_synced(&a.mountpoint().join("late"), "late");
    a.ok(&["drive", "close", "d"]);
    a.ok(&keep);
    assert_eq!(forks(&a), [Value::Null; 0]);
    let at = a.dir.join("kept").display().to_string();
    a.ok(&["drive", "open", "kept", "--attach", "loop", "--at", &at]);
    for name in ["mine", "late"] {
        assert_eq!(std::fs::read_to_string(a.dir.join("kept").join(name)).unwrap(), name);
    }
    a.ok(&["drive", "close", "kept"]);
    b.close();
}

#[test]
fn a_fork_is_compared_with_the_current_version_by_file() {
    let bench = Bench::new();
    let (mut a, b, store) = (bench.machine("a"), bench.machine("b"), bench.store());
    // Where a fork is mounted by default.
    a.environment.push(("HOME".to_owned(), bench.text("a")));
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "256M", "--no-encryption"]);
    let at = |machine: &Machine, name: &str| machine.mountpoint().join(name);
    a.open(&[]);
    std::fs::create_dir(at(&a, "both")).unwrap();
    for name in ["both/same", "both/edited", "gone"] {
        write_synced(&at(&a, name), "0123456789");
    }
    a.ok(&["drive", "sync", "d"]);
    b.ok(&["drive", "add", "d", "--store", &store]);
    b.open(&["--take-over", "--yes"]);
    // Its length is the same, and so is its time as far as programs can tell.
    let modified = std::fs::metadata(at(&a, "both/edited")).unwrap().modified().unwrap();
    write_synced(&at(&a, "both/edited"), "9876543210");
    File::options().write(true).open(at(&a, "both/edited")).unwrap().set_modified(modified).unwrap();
    std::fs::create_dir(at(&a, "mine")).unwrap();
    write_synced(&at(&a, "mine/letter"), "mine");
    std::fs::remove_file(at(&b, "gone")).unwrap();
    write_synced(&at(&b, "theirs"), "theirs");
    b.ok(&["drive", "sync", "d"]);
    assert_eq!(a.fails(&["drive", "sync", "d"]), (1, "conflict".to_owned()));
    let compare = ["drive", "forks", "d", "compare", "1", "--attach", "loop"];
    assert_eq!(a.fails(&compare), (1, "state".to_owned()), "programs may use it");
    a.ok(&["drive", "close", "d"]);
    let compared = a.ok(&compare);
    let told: Vec<_> = compared["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let has = |version: &str| it[version]["bytes"].as_u64();
            (it["path"].as_str().unwrap(), has("fork"), has("current"))
        })
        .collect();
    let expected = [
        ("both/edited", Some(10), Some(10)),
        ("gone", Some(10), None),
        ("mine", Some(4), None),
        ("theirs", None, Some(6)),
    ];
    assert_eq!(told, expected);
    // Both are as they were.
    assert_eq!(a.status()["state"], "Closed");
    assert_eq!(forks(&a)[0]["mountpoint"], Value::Null);
    b.close();
}
