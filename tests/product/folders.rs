//! Folders as a person uses them: the command line, the daemon that it starts, a FUSE mount, and the files of a directory. Runs as
//! root, with FUSE.

use crate::bench::{Bench, Machine, failure, kill, noise, wait_until};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files that others have, and a folder that shows them.
struct Photos {
    bench: Bench,
    machine: Machine,
    files: PathBuf,
}

impl Photos {
    /// Some files, and no folder yet.
    fn new() -> Self {
        let bench = Bench::new();
        let files = bench.path("photos");
        fs::create_dir_all(files.join("2026")).unwrap();
        fs::write(files.join("letter.txt"), "dear").unwrap();
        fs::write(files.join("2026/snow.jpg"), noise(1, 300_000)).unwrap();
        let machine = bench.machine("a");
        Self { bench, machine, files }
    }

    /// The same, with an open folder.
    fn open() -> Self {
        let photos = Self::new();
        photos.opened(&[]);
        photos
    }

    fn url(&self) -> String {
        format!("file://{}", self.files.display())
    }

    fn opened(&self, more: &[&str]) -> Value {
        let (url, at) = (self.url(), self.at().display().to_string());
        self.machine.ok(&[&["folder", "open", &url, "--at", &at], more].concat())
    }

    fn at(&self) -> PathBuf {
        self.machine.mountpoint()
    }

    fn ok(&self, verb: &str, more: &[&str]) -> Value {
        self.machine.ok(&[&["folder", verb, "photos"], more].concat())
    }

    fn fails(&self, verb: &str, more: &[&str]) -> (i32, String) {
        self.machine.fails(&[&["folder", verb, "photos"], more].concat())
    }

    fn status(&self) -> Value {
        self.ok("status", &[])
    }

    fn status_when(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        let came = wait_until(what, || {
            status = self.status();
            is(&status)
        });
        came.unwrap_or_else(|()| panic!("not {what}: {status}"));
        status
    }

    /// The daemon is killed.
    fn kill_daemon(&self) {
        kill(self.status()["daemon_pid"].as_i64().unwrap() as i32);
    }

    /// The daemon is killed with its keeper. Nothing of its mounts can be taken over, and nothing starts another one but the next command.
    fn kill_all(&self) {
        let daemon = self.status()["daemon_pid"].as_i64().unwrap() as i32;
        // A stopped daemon starts no other keeper.
        let pid = rustix::process::Pid::from_raw(daemon).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        self.machine.keeper().into_iter().for_each(kill);
        kill(daemon);
    }

    /// The number of the connection that is mounted.
    fn connection(&self) -> String {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let at = self.at().display().to_string();
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        mounts.find(|mount| mount[4] == at).map(|mount| mount[2].to_owned()).unwrap()
    }
}

fn text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|mount| mount.split(' ').nth(1) == Some(at.to_str().unwrap()))
}

fn synced_write(path: &Path, bytes: &[u8]) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_folder_shows_files_takes_changes_and_is_forgotten() {
    let photos = Photos::new();
    let opened = photos.opened(&[]);
    assert_eq!((&opened["name"], &opened["kind"]), (&"photos".into(), &"file".into()), "{opened}");
    assert!(opened["already"].is_null() && is_mounted(&photos.at()), "{opened}");
    assert_eq!(text(photos.at().join("letter.txt")), "dear");
    assert_eq!(fs::read(photos.at().join("2026/snow.jpg")).unwrap(), noise(1, 300_000));

    fs::create_dir(photos.at().join("2027")).unwrap();
    fs::write(photos.at().join("2027/new.txt"), "new").unwrap();
    fs::write(photos.at().join("letter.txt"), "dear Ann").unwrap();
    fs::rename(photos.at().join("2026/snow.jpg"), photos.at().join("2027/snow.jpg")).unwrap();
    let synced = photos.ok("sync", &[]);
    assert_eq!(synced["unsent"], false, "{synced}");
    photos.status_when("all sent", |status| status["dirty_bytes"] == 0);
    assert_eq!(text(photos.files.join("2027/new.txt")), "new");
    assert_eq!(text(photos.files.join("letter.txt")), "dear Ann");
    assert_eq!(fs::read(photos.files.join("2027/snow.jpg")).unwrap(), noise(1, 300_000));
    assert!(!photos.files.join("2026/snow.jpg").exists());

    fs::write(photos.at().join("last.txt"), "last").unwrap();
    // While it is open, it is not forgotten.
    assert_eq!(photos.fails("forget", &[]), (1, "state".into()));
    let closed = photos.ok("close", &["--wait"]);
    assert_eq!((&closed["state"], &closed["unsent"]), (&"Closed".into(), &false.into()), "{closed}");
    assert_eq!(text(photos.files.join("last.txt")), "last");
    assert!(!photos.at().exists(), "the mount point was Holdall's");
    assert_eq!(photos.ok("close", &["--wait"])["already"], true);

    photos.machine.ok(&["folder", "open", "photos"]);
    assert_eq!(text(photos.at().join("last.txt")), "last");
    photos.ok("close", &["--wait"]);
    photos.ok("forget", &[]);
    assert_eq!(photos.fails("status", &[]), (3, "not_found".into()));
    assert_eq!(photos.machine.ok(&["folder", "list"]).as_array().map(Vec::len), Some(0));
    assert_eq!(fs::read_dir(photos.machine.state.join("folders")).unwrap().count(), 0);
    assert_eq!(text(photos.files.join("last.txt")), "last");
}

#[test]
fn an_open_folder_is_opened_again_only_as_it_is() {
    let photos = Photos::open();
    let url = photos.url();
    for given in ["photos", &url, &format!("{url}/")] {
        let again = photos.machine.ok(&["folder", "open", given]);
        assert_eq!(again["already"], true, "{given}: {again}");
    }
    for (more, code) in [
        (&["--name", "other"][..], (1, "exists")),
        (&["--read-only"], (1, "state")),
        (&["--at", "/tmp/elsewhere"], (1, "state")),
    ] {
        let failed = photos.machine.fails(&[&["folder", "open", &url], more].concat());
        assert_eq!((failed.0, failed.1.as_str()), code, "{more:?}");
    }
    photos.ok("close", &["--wait"]);
    photos.opened(&["--read-only"]);
    assert!(fs::write(photos.at().join("x"), "x").is_err());
    let status = photos.status_when("read-only", |status| status["state"] == "Read-only");
    assert_eq!(status["read_only"], true, "{status}");
    photos.ok("close", &[]);
}

#[test]
fn a_status_has_the_agreed_fields() {
    let photos = Photos::open();
    text(photos.at().join("letter.txt"));
    let status = photos.status_when("ready", |status| status["state"] == "Ready");
    for field in [
        "name",
        "uuid",
        "url",
        "kind",
        "state",
        "reason",
        "since",
        "mountpoint",
        "read_only",
        "known_files",
        "cached_bytes",
        "dirty_bytes",
        "conflicts",
        "held_deletions",
        "pinned_bytes",
        "sent_bytes",
        "received_bytes",
        "last_uploaded_at",
        "daemon_pid",
    ] {
        assert!(status.get(field).is_some(), "{field}: {status}");
    }
    assert_eq!(
        status["passthrough"]["on"].as_bool(),
        Some(status["passthrough"]["why"].is_null()),
        "{status}"
    );
    for field in ["waiting", "uploading", "failed", "in_use"] {
        assert!(status["queue"][field].is_u64(), "{status}");
    }
    assert!(status["requests"]["list"].as_u64().unwrap() > 0, "{status}");
    assert_eq!(status["url"], photos.url());
    // It is a place beside drives.
    let all = photos.machine.ok(&["status"]);
    assert_eq!(all[0]["name"], "photos", "{all}");
    let shown = photos.machine.plain_command(&["status"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("photos"), "{shown:?}");
    let activity = photos.machine.ok(&["activity", "photos"]);
    assert!(activity.as_array().unwrap().iter().any(|row| row["kind"] == "opened"), "{activity}");
    let report = photos.machine.ok(&["diagnostics"]);
    assert!(report.to_string().contains("folders.json"), "{report}");
}

#[test]
fn a_known_folder_opens_while_its_remote_is_away() {
    let photos = Photos::open();
    assert_eq!(text(photos.at().join("letter.txt")), "dear");
    photos.ok("close", &["--wait"]);
    let away = photos.bench.path("away");
    fs::rename(&photos.files, &away).unwrap();

    photos.machine.ok(&["folder", "open", "photos"]);
    photos.status_when("away", |status| {
        ["Offline", "Needs attention"].contains(&status["state"].as_str().unwrap())
    });
    assert_eq!(text(photos.at().join("letter.txt")), "dear", "it is here");
    fs::write(photos.at().join("letter.txt"), "dear Ben").unwrap();
    // It is closed without a remote, too, and what was written stays.
    photos.ok("close", &[]);
    assert_eq!(photos.fails("forget", &[]), (8, "unsent".into()));
    photos.machine.ok(&["folder", "open", "photos"]);
    assert_eq!(text(photos.at().join("letter.txt")), "dear Ben");
    assert_eq!(text(away.join("letter.txt")), "dear");

    fs::rename(&away, &photos.files).unwrap();
    photos.ok("sync", &[]);
    assert_eq!(text(photos.files.join("letter.txt")), "dear Ben");
    photos.status_when("ready", |status| status["state"] == "Ready");
    photos.ok("close", &["--wait"]);
}

#[test]
fn a_killed_daemon_loses_nothing_that_was_acknowledged() {
    let photos = Photos::open();
    photos.ok("pause", &[]);
    for i in 0..20 {
        synced_write(&photos.at().join(format!("file{i}")), &noise(i, 50_000));
    }
    fs::rename(photos.at().join("file0"), photos.at().join("letter.txt")).unwrap();
    fs::remove_file(photos.at().join("file1")).unwrap();
    assert_eq!(text(photos.files.join("letter.txt")), "dear", "nothing is uploaded yet");
    photos.kill_all();

    // The next command starts a daemon, which takes the dead mount down and opens the folder there again.
    let status = photos.status_when("open again", |status| status["mountpoint"].is_string());
    assert_eq!(status["mountpoint"], photos.at().display().to_string());
    let check = |at: &Path| {
        assert_eq!(fs::read(at.join("letter.txt")).unwrap(), noise(0, 50_000));
        assert!(!at.join("file1").exists() && !at.join("file0").exists());
        (2..20).for_each(|i| assert_eq!(fs::read(at.join(format!("file{i}"))).unwrap(), noise(i, 50_000)));
    };
    check(&photos.at());
    assert_eq!(photos.status()["state"], "Paused");
    photos.ok("resume", &[]);
    photos.ok("sync", &[]);
    check(&photos.files);

    // Closed, but not all uploaded: the next daemon goes on.
    photos.ok("pause", &[]);
    fs::write(photos.at().join("late"), "late").unwrap();
    let closed = photos.ok("close", &[]);
    assert_eq!((&closed["unsent"], &closed["mountpoint"]), (&true.into(), &Value::Null), "{closed}");
    assert_eq!(photos.fails("close", &["--wait"]), (8, "unsent".into()));
    photos.kill_daemon();
    photos.ok("resume", &[]);
    photos.status_when("all sent", |status| status["unsent"] == false);
    assert_eq!(text(photos.files.join("late")), "late");
    photos.ok("forget", &[]);
}

/// A program that appends a line to a file again and again, and syncs it, until a file says that it should stop.
struct Appending {
    child: std::process::Child,
    file: PathBuf,
    stop: PathBuf,
}

impl Appending {
    fn start(photos: &Photos) -> Self {
        let (file, stop) = (photos.at().join("log.txt"), photos.bench.path("stop"));
        let text = "import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
number = 0
while not os.path.exists(sys.argv[2]):
    assert os.write(file, b'%06d\\n' % number) == 7
    if number % 5 == 4: os.fsync(file)
    number += 1
    time.sleep(0.1)
os.close(file)
print(number)";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", text]).args([&file, &stop]).stdout(std::process::Stdio::piped());
        Self { child: command.spawn().unwrap(), file, stop }
    }

    fn wait_for_more(&self) {
        let written = || fs::metadata(&self.file).map_or(0, |facts| facts.len());
        let before = written();
        wait_until("more lines", || written() > before + 70).unwrap();
    }

    /// Ends it without an error, and returns what it has written.
    fn finished(self) -> String {
        fs::write(&self.stop, "").unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        fs::remove_file(&self.stop).unwrap();
        let count: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        (0..count).map(|number| format!("{number:06}\n")).collect()
    }
}

#[test]
fn programs_go_on_after_the_daemon_was_killed() {
    let photos = Photos::new();
    for more in [&[][..], &["--no-passthrough"]] {
        photos.opened(more);
        let (appending, connection) = (Appending::start(&photos), photos.connection());
        appending.wait_for_more();
        for _ in 0..2 {
            photos.kill_daemon();
            photos.status_when("open again", |status| status["mountpoint"].is_string());
            appending.wait_for_more();
            assert_eq!(photos.connection(), connection, "it is the same mount");
        }
        let written = appending.finished();
        assert_eq!(text(photos.at().join("log.txt")), written, "{more:?}");
        photos.ok("sync", &[]);
        assert_eq!(text(photos.files.join("log.txt")), written, "{more:?}");
        fs::remove_file(photos.at().join("log.txt")).unwrap();
        photos.ok("close", &["--wait"]);
        wait_until("no keeper", || photos.machine.keeper().is_none()).unwrap();
    }
}

#[test]
fn a_stopped_daemon_opens_its_folders_again() {
    let photos = Photos::open();
    fs::write(photos.at().join("before"), "before").unwrap();
    photos.machine.ok(&["daemon", "stop"]);
    wait_until("unmounted", || !is_mounted(&photos.at())).unwrap();
    photos.status_when("open again", |status| status["mountpoint"].is_string());
    assert_eq!(text(photos.at().join("before")), "before");
    photos.ok("close", &["--wait"]);
    assert_eq!(text(photos.files.join("before")), "before");
}

#[test]
fn places_that_cannot_be_a_folder_are_refused() {
    let photos = Photos::open();
    let machine = &photos.machine;
    let fails = |arguments: &[&str]| {
        let failed = machine.fails(&[&["folder", "open"], arguments].concat());
        (failed.0, failed.1)
    };
    // Another folder has these files, or a part of them.
    let inside = format!("{}/2026", photos.url());
    assert_eq!(fails(&[&inside]), (1, "exists".into()));
    assert_eq!(fails(&[&format!("file://{}", photos.bench.text("")), "--name", "all"]), (1, "exists".into()));
    // A Holdall store, known or not.
    machine.ok(&[
        "drive",
        "create",
        "d",
        "--store",
        &photos.bench.store(),
        "--size",
        "256M",
        "--no-encryption",
    ]);
    assert_eq!(fails(&[&photos.bench.store()]), (2, "usage".into()));
    let copy = photos.bench.path("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(photos.bench.path("store/family.json"), copy.join("family.json")).unwrap();
    assert_eq!(fails(&[&format!("file://{}", copy.display())]), (2, "usage".into()));
    // A name is one drive's or one folder's.
    let more = photos.bench.path("more");
    fs::create_dir(&more).unwrap();
    let more = format!("file://{}", more.display());
    assert_eq!(fails(&[&more, "--name", "d"]), (1, "exists".into()));
    assert_eq!(fails(&["d"]), (2, "usage".into()));
    let taken =
        machine.fails(&["drive", "create", "photos", "--store", &photos.bench.store(), "--no-encryption"]);
    assert_eq!(taken, (1, "exists".into()));
    // Holdall's own files, and places that are not there.
    assert_eq!(fails(&[&format!("file://{}", machine.dir.display())]), (2, "usage".into()));
    assert_eq!(fails(&["file:///nowhere/at/all"]), (3, "not_found".into()));
    // Mount points.
    let full = photos.bench.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "x").unwrap();
    assert_eq!(fails(&[&more, "--at", full.to_str().unwrap()]), (2, "usage".into()));
    assert_eq!(fails(&[&more, "--at", photos.at().to_str().unwrap()]), (2, "usage".into()));
    assert_eq!(fails(&[&more, "--at", &photos.bench.text("more/below")]), (2, "usage".into()));
    // Nothing of these is left.
    let list = machine.ok(&["folder", "list"]);
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(fs::read_dir(machine.state.join("folders")).unwrap().count(), 1);
    // A name that is nearly right.
    let output = machine.run(&["folder", "close", "photo"]);
    let failure = failure(&output);
    assert_eq!(failure["code"], "not_found");
    assert!(failure["action"].as_str().unwrap().contains("photos"), "{failure}");
}

#[test]
fn a_busy_folder_stays_open_and_says_who_uses_it() {
    let photos = Photos::open();
    let mut user = std::process::Command::new("sleep").arg("300").current_dir(photos.at()).spawn().unwrap();
    let output = photos.machine.run(&["folder", "close", "photos"]);
    let failed = failure(&output);
    assert!(failed["message"].as_str().unwrap().contains("sleep"), "{failed}");
    assert!(is_mounted(&photos.at()));
    user.kill().unwrap();
    user.wait().unwrap();
    photos.ok("close", &["--wait"]);
}

#[test]
fn a_conflict_keeps_both_versions_until_a_person_decides() {
    let photos = Photos::open();
    for (round, keep) in ["theirs", "mine", "both"].into_iter().enumerate() {
        let name = format!("file{round}.txt");
        let (here, there) = (photos.at().join(&name), photos.files.join(&name));
        fs::write(&here, "first").unwrap();
        photos.ok("sync", &[]);
        photos.ok("pause", &[]);
        fs::write(&here, "mine").unwrap();
        fs::write(&there, "theirs, longer").unwrap();
        photos.ok("resume", &[]);
        let mut conflicts = Value::Null;
        let came = wait_until("a conflict", || {
            conflicts = photos.ok("conflicts", &[]);
            conflicts.as_array().is_some_and(|list| !list.is_empty())
        });
        came.unwrap_or_else(|()| panic!("{}", photos.status()));
        assert_eq!(conflicts[0]["path"], name, "{conflicts}");
        let kept_as = conflicts[0]["kept_as"].as_str().unwrap().to_owned();
        assert_eq!((&conflicts[0]["our_bytes"], &conflicts[0]["their_bytes"]), (&4.into(), &14.into()));
        assert_eq!(photos.status()["state"], "Conflict");
        assert_eq!(photos.fails("conflicts", &["keep", "mine", "letter.txt"]), (3, "not_found".into()));
        photos.ok("conflicts", &["keep", keep, &name]);
        photos.ok("sync", &[]);
        assert_eq!(photos.ok("conflicts", &[]).as_array().map(Vec::len), Some(0));
        let versions = (text(&there), photos.files.join(&kept_as).exists());
        let expected = match keep {
            "theirs" => ("theirs, longer".to_owned(), false),
            "mine" => ("mine".to_owned(), false),
            _ => ("theirs, longer".to_owned(), true),
        };
        assert_eq!(versions, expected, "{keep}");
    }
    let rows = photos.machine.ok(&["activity", "photos", "--kind", "conflict"]);
    assert!(rows.as_array().is_some_and(|rows| rows.len() >= 3), "{rows}");
    photos.ok("close", &["--wait"]);
}

#[test]
fn mass_deletions_are_held_until_a_person_decides() {
    let photos = Photos::new();
    let album = photos.files.join("album");
    let fill = || {
        fs::create_dir_all(&album).unwrap();
        (0..40).for_each(|i| fs::write(album.join(format!("{i}.txt")), format!("photo {i}")).unwrap());
    };
    fill();
    photos.opened(&[]);
    let here = photos.at().join("album");
    let read = || (0..40).for_each(|i| assert_eq!(text(here.join(format!("{i}.txt"))), format!("photo {i}")));
    read();
    let held = || {
        let came = wait_until("held", || {
            // Looking at the directory makes the folder look at the remote.
            let _ = fs::read_dir(&here).map(Iterator::count);
            photos.status()["held_deletions"].as_u64().unwrap() > 0
        });
        came.unwrap_or_else(|()| panic!("{}", photos.status()));
    };
    (0..40).for_each(|i| fs::remove_file(album.join(format!("{i}.txt"))).unwrap());
    held();
    let deletions = photos.ok("deletions", &[]);
    assert_eq!(
        (&deletions["count"], photos.status()["state"].as_str()),
        (&40.into(), Some("Needs attention"))
    );
    read();

    let restored = photos.ok("deletions", &["restore"]);
    assert_eq!((&restored["restored"], &restored["lost"]), (&40.into(), &0.into()), "{restored}");
    photos.ok("sync", &[]);
    (0..40).for_each(|i| assert_eq!(text(album.join(format!("{i}.txt"))), format!("photo {i}")));
    assert_eq!(photos.status()["held_deletions"], 0);
    assert_eq!(photos.fails("deletions", &["accept"]), (1, "state".into()));

    (0..40).for_each(|i| fs::remove_file(album.join(format!("{i}.txt"))).unwrap());
    held();
    // What only this computer has is not forgotten by accident.
    photos.ok("close", &["--wait"]);
    assert_eq!(photos.fails("forget", &[]), (8, "unsent".into()));
    photos.machine.ok(&["folder", "open", "photos"]);
    photos.ok("deletions", &["accept"]);
    wait_until("gone", || fs::read_dir(&here).is_ok_and(|files| files.count() == 0)).unwrap();
    photos.ok("close", &["--wait"]);
    photos.ok("forget", &[]);
}

#[test]
fn a_damaged_configuration_is_shown_and_kept() {
    let photos = Photos::open();
    fs::write(photos.at().join("new"), "new").unwrap();
    photos.ok("close", &["--wait"]);
    let uuid = photos.status()["uuid"].as_str().unwrap().to_owned();
    photos.machine.ok(&["daemon", "stop"]);
    let config = photos.machine.state.join("folders").join(&uuid).join("config.json");
    fs::write(&config, "{").unwrap();
    let mut list = Value::Null;
    wait_until("listed", || {
        list = photos.machine.ok(&["folder", "list"]);
        list.as_array().is_some_and(|list| list.len() == 1)
    })
    .unwrap();
    assert_eq!(
        (&list[0]["uuid"], &list[0]["state"]),
        (&uuid.as_str().into(), &"Needs attention".into()),
        "{list}"
    );
    let name = list[0]["name"].as_str().unwrap().to_owned();
    assert_eq!(photos.machine.fails(&["folder", "open", &name]), (7, "corrupt".into()));
    assert_eq!(photos.machine.fails(&["folder", "forget", &name]), (7, "corrupt".into()));
    assert_eq!(text(&config), "{");
    photos.machine.ok(&["folder", "forget", &name, "--discard-unsent"]);
    assert!(!config.exists());
    assert_eq!(text(photos.files.join("new")), "new");
}
