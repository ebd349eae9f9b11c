//! Files that are always kept on a computer. They are there when the store is away, whatever else is evicted, and follow changes.
//! The store has a realistic distance, and goes away in two ways: no server is there, or a server accepts connections and does
//! not answer.

use crate::bench::{Bench, Machine, Random, sh, wait_until};
use crate::person::Person;
use crate::s3::files;
use holdall_servers::delay::{Delay, Link};
use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::s3::{S3Server, url};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FILES: usize = 24;
const FILE_BYTES: usize = 70_000;
const LARGE_BYTES: usize = 80 << 20;

/// The round trip from a computer to the store, near and far.
const NEAR: Duration = Duration::from_millis(20);
const FAR: Duration = Duration::from_millis(50);

/// A drive in a bucket, with files that its first computer has uploaded.
struct World {
    a: Person,
    proxy: FaultProxy,
    /// The fault of every request while the store is away.
    away: Fault,
    _link: Delay,
    _server: S3Server,
    url: String,
    /// The contents of the files below `kept`, by their paths there.
    kept: BTreeMap<PathBuf, Vec<u8>>,
    // Dropped last, since the others use its directories.
    bench: Bench,
}

impl World {
    fn new(rtt: Duration, away: Fault) -> Self {
        let bench = Bench::new();
        files(&bench);
        let server = S3Server::start();
        let link = Delay::start(server.address(), Link { rtt, up_mbit: None, down_mbit: None });
        let proxy = FaultProxy::start(link.address());
        let url = url("http", proxy.address(), "d");
        let a = Person::new(&bench, "a", &[]);
        let (size, ini) = (["--size", "512M", "--no-encryption"], bench.text("ini"));
        let create = ["drive", "create", "d", "--store", &url, "--credentials-file", &ini];
        a.ok(&[&create[..], &size].concat());
        a.open();
        let root = a.machine.mountpoint();
        let mut random = Random(11);
        let mut kept = BTreeMap::new();
        std::fs::create_dir_all(root.join("kept/below")).unwrap();
        for number in 0..FILES {
            let name = if number % 2 == 0 { format!("{number}") } else { format!("below/{number}") };
            let bytes = random.bytes(FILE_BYTES + number);
            std::fs::write(root.join("kept").join(&name), &bytes).unwrap();
            kept.insert(PathBuf::from(name), bytes);
        }
        std::fs::write(root.join("other"), random.bytes(4 << 20)).unwrap();
        // It compresses well.
        let large: Vec<u8> =
            (0..LARGE_BYTES / 4).flat_map(|word| (word as u32 / 64 + 1).to_le_bytes()).collect();
        std::fs::write(root.join("large"), large).unwrap();
        a.ok(&["drive", "close", "d", "--wait"]);
        Self { a, proxy, away, _link: link, _server: server, url, kept, bench }
    }

    /// A second computer that has none of the drive yet.
    fn stranger(&self) -> Person {
        let b = Person::new(&self.bench, "b", &[]);
        b.ok(&["drive", "add", "d", "--store", &self.url, "--credentials-file", &self.bench.text("ini")]);
        b
    }

    /// A second computer with the drive open.
    fn other(&self) -> Person {
        let b = self.stranger();
        b.open();
        b
    }

    fn cut(&self) {
        self.proxy.plan(faults::from(0, self.away.clone()));
        self.proxy.cut_all();
    }

    fn mend(&self) {
        self.proxy.plan(faults::none());
        // Pending requests get no answer.
        self.proxy.cut_all();
    }

    /// Waits until the directory `kept` in its current state is all here.
    fn ready(&self, person: &Person) -> Value {
        let bytes = self.kept.values().map(|bytes| bytes.len().next_multiple_of(4096)).sum();
        ready(person, self.kept.len(), bytes)
    }

    /// Everything kept can be read from the drive itself, and listed.
    fn reads_offline(&self, person: &Person) {
        self.cut();
        self.reads(person);
        self.mend();
    }

    fn reads(&self, person: &Person) {
        let root = person.machine.mountpoint();
        for (path, bytes) in &self.kept {
            let path = root.join("kept").join(path);
            forget_pages(&path);
            assert!(std::fs::read(&path).unwrap() == *bytes, "{}", path.display());
        }
        assert!(sh(&root, "find . -type f -printf x").len() > self.kept.len());
    }
}

/// Drops it from the page cache.
fn forget_pages(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

fn at(person: &Person, path: &str) -> String {
    person.machine.mountpoint().join(path).display().to_string()
}

/// The only pin, once all of its `files` files with `bytes` bytes are here.
fn ready(person: &Person, files: usize, bytes: usize) -> Value {
    let mut pins = Value::Null;
    wait_until(format!("{files} files are ready"), || {
        pins = person.ok(&["pins", "d"]);
        let pin = &pins[0];
        pin["state"] == "Always keep" && pin["files_total"] == files && pin["bytes"] == bytes
    })
    .unwrap_or_else(|()| panic!("not {files} files of {bytes} bytes: {pins}"));
    assert_eq!(
        (pins.as_array().unwrap().len(), &pins[0]["files_ready"]),
        (1, &pins[0]["files_total"]),
        "{pins}"
    );
    pins[0].clone()
}

/// How long a read of missing data may wait: a minute, and some time for a busy computer.
const BOUND: Duration = Duration::from_secs(80);
/// The wait for each request of the kernel once it is known that the store does not answer.
const BOUND_THEN: Duration = Duration::from_secs(20);

#[test]
fn missing_data_fails_in_bounded_time_offline() {
    gives_an_error_in_bounded_time(&World::new(NEAR, Fault::CutBeforeBody));
}

#[test]
fn missing_data_fails_in_bounded_time_from_a_silent_server() {
    gives_an_error_in_bounded_time(&World::new(FAR, Fault::Silence));
}

fn gives_an_error_in_bounded_time(world: &World) {
    let b = world.other();
    b.ok(&["pin", &at(&b, "kept")]);
    world.ready(&b);
    wait_until("its metadata is here", || b.ok(&["drive", "status", "d"])["state"] == "Ready").unwrap();
    world.cut();
    let absent = PathBuf::from(at(&b, "other"));
    let reader = std::thread::spawn({
        let absent = absent.clone();
        move || std::fs::read(absent).map(|bytes| bytes.len())
    });
    let begun = Instant::now();
    // The work of a file manager, and of a person.
    while !reader.is_finished() {
        world.reads(&b);
        sh(&b.machine.mountpoint(), "ls -lR >/dev/null; echo late >note; sync note");
        assert!(begun.elapsed() < BOUND, "it still waits");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(reader.join().unwrap().unwrap_err().raw_os_error(), Some(5), "an I/O error");
    // By now it is known that the store does not answer.
    let begun = Instant::now();
    assert_eq!(std::fs::read(&absent).unwrap_err().raw_os_error(), Some(5), "an I/O error");
    assert!(begun.elapsed() < BOUND_THEN, "{:?}", begun.elapsed());

    world.mend();
    b.ok(&["drive", "sync", "d"]);
    assert_eq!(std::fs::read(&absent).unwrap().len(), 4 << 20);
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn pinned_files_stay_available_offline_with_later_changes() {
    let mut world = World::new(FAR, Fault::CutBeforeBody);
    let b = world.other();
    let kept = at(&b, "kept");
    let would = b.ok(&["pin", &kept, "--dry-run"]);
    assert_eq!(would[0]["files_total"], FILES);
    assert!(would[0]["bytes"].as_u64().unwrap() >= (FILES * FILE_BYTES) as u64, "{would}");
    assert_eq!(b.ok(&["pins"]), serde_json::json!([]), "it was only asked for");

    let pinned = b.ok(&["pin", &kept, "--wait"]);
    assert_eq!(
        (&pinned[0]["state"], &pinned[0]["files_ready"]),
        (&"Always keep".into(), &FILES.into()),
        "{pinned}"
    );
    assert_eq!(pinned[0]["at"], kept.as_str());
    let told = b.reads(&["pin", &kept, "--wait"]);
    assert!(told.contains(&format!("Ready for offline: {FILES} of {FILES}")), "{told}");
    std::fs::read(b.machine.mountpoint().join("other")).unwrap();
    assert!(b.ok(&["evict", "--drive", "d"])["bytes_freed"].as_u64().unwrap() > 0);
    b.refused(&["evict", &kept], 1, "state");
    b.refused(&["evict", &at(&b, "kept/below/1")], 1, "state");
    world.reads_offline(&b);

    // Files added later: in a new directory, under another name, and in place of an old file.
    let root = b.machine.mountpoint().join("kept");
    let mut random = Random(5);
    let new = [("new/deep/file", 300_000), ("0", 5000)].map(|(name, len)| (name, random.bytes(len)));
    std::fs::create_dir_all(root.join("new/deep")).unwrap();
    for (name, bytes) in new {
        std::fs::write(root.join("draft"), &bytes).unwrap();
        std::fs::rename(root.join("draft"), root.join(name)).unwrap();
        world.kept.insert(name.into(), bytes);
    }
    std::fs::remove_file(root.join("2")).unwrap();
    world.kept.remove(Path::new("2"));
    b.ok(&["drive", "sync", "d"]);
    // Replaced and deleted files are no longer kept.
    let expected = world.ready(&b)["bytes"].as_u64().unwrap();
    let status = b.ok(&["drive", "status", "d"]);
    assert!(status["pinned_bytes"].as_u64().unwrap() >= expected, "{status}");
    assert_eq!(status["pins"][0]["files_ready"], FILES, "{status}");
    b.ok(&["evict", "--drive", "d"]);
    world.reads_offline(&b);

    // The computer is switched off, and on again without a network.
    b.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(b.ok(&["pins", "d"])[0]["state"], "Closed");
    world.cut();
    b.open();
    b.ok(&["evict", "--drive", "d"]);
    world.reads(&b);
    // The daemon alone is restarted, too.
    b.ok(&["daemon", "stop"]);
    // A command that names files at this moment waits until the drive is reopened.
    assert_eq!(b.ok(&["pin", &kept])[0]["path"], "kept");
    assert!(!b.ok(&["drive", "status", "d"])["mountpoint"].is_null());
    b.ok(&["evict", "--drive", "d"]);
    world.reads(&b);
    world.ready(&b);
    world.mend();
    b.machine.status_when("Ready", |status| status["state"] == "Ready");
    b.ok(&["drive", "close", "d", "--wait"]);

    // Another computer rewrites a file.
    let a = &world.a;
    a.open();
    let bytes = random.bytes(200_000);
    std::fs::write(a.machine.mountpoint().join("kept/below/3"), &bytes).unwrap();
    a.ok(&["drive", "close", "d", "--wait"]);
    world.kept.insert("below/3".into(), bytes);
    b.open();
    world.ready(&b);
    b.ok(&["evict", "--drive", "d"]);
    world.reads_offline(&b);

    assert_eq!(b.ok(&["unpin", &kept])[0]["path"], "kept");
    assert_eq!(b.ok(&["pins"]), serde_json::json!([]));
    b.refused(&["unpin", &kept], 3, "not_found");
    let evicted = b.ok(&["evict", &kept]);
    assert!(evicted["bytes_freed"].as_u64().unwrap() >= expected, "{evicted}");
    assert_eq!(b.ok(&["drive", "status", "d"])["pinned_bytes"], 0);
    // The pin of the root directory ends with the pin of the drive.
    b.ok(&["pin", at(&b, "").trim_end_matches('/')]);
    assert_eq!(b.ok(&["unpin", "--drive", "d"])[0]["path"], ".");
    assert_eq!(b.ok(&["pins"]), serde_json::json!([]));
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn refuses_pins_that_do_not_fit_and_waits_as_asked() {
    let world = World::new(NEAR, Fault::CutBeforeBody);
    let b = world.other();
    let (large, kept) = (at(&b, "large"), at(&b, "kept"));
    // A path on no drive, and a missing one.
    let failure = b.refused(&["pin", "/etc/passwd"], 3, "not_found");
    assert!(failure["action"].as_str().unwrap().contains(at(&b, "").trim_end_matches('/')), "{failure}");
    b.refused(&["wait", "/etc/passwd"], 3, "not_found");
    b.refused(&["pin", &at(&b, "nothing")], 3, "not_found");
    std::os::unix::fs::symlink("kept", at(&b, "link")).unwrap();
    b.refused(&["pin", &at(&b, "link")], 2, "usage");
    b.refused(&["unpin", "--drive", "d"], 3, "not_found");
    b.refused(&["pin", &kept, "--drive", "d"], 2, "usage");

    // Data from its end does not count as its beginning.
    b.ok(&["evict", &large]);
    let mut end = vec![0; LARGE_BYTES * 2 / 5];
    File::open(&large).unwrap().read_exact_at(&mut end, (LARGE_BYTES * 3 / 5) as u64).unwrap();
    let waited = b.ok(&["wait", &large, "--ready", "40%"]);
    assert!(waited["ready_bytes"].as_u64().unwrap() >= LARGE_BYTES as u64 * 4 / 5, "{waited}");

    // A wait fetches the requested share, from the beginning, and no more.
    b.ok(&["evict", &large]);
    let waited = b.ok(&["wait", &large, "--ready", "40%"]);
    let (bytes, here) = (waited["bytes"].as_u64().unwrap(), waited["ready_bytes"].as_u64().unwrap());
    assert_eq!(bytes, LARGE_BYTES as u64);
    assert!((bytes * 2 / 5..bytes / 2).contains(&here), "{waited}");
    assert_eq!(b.ok(&["pins"]), serde_json::json!([]));
    world.proxy.plan(faults::from(0, Fault::Silence));
    let failure = b.refused(&["wait", &large, "--ready", "90%", "--timeout", "1s"], 1, "failed");
    assert!(failure["message"].as_str().unwrap().contains("72 MiB"), "{failure}");
    // A wait also ends when downloads are switched off.
    let machine = &b.machine;
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| machine.run(&["wait", &large]));
        std::thread::sleep(Duration::from_secs(1));
        b.ok(&["drive", "pause", "d"]);
        waiting.join().unwrap()
    });
    let said = [waited.stdout, waited.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains("paused by you"), "{}", String::from_utf8_lossy(&said));
    b.ok(&["drive", "resume", "d"]);
    world.proxy.cut_all();
    world.cut();
    b.refused(&["wait", &large], 5, "offline");
    let failure = b.refused(&["pin", &large, "--wait"], 5, "offline");
    assert!(failure["consequence"].as_str().unwrap().contains("The pin stays"), "{failure}");
    assert_eq!(b.ok(&["pins"])[0]["state"], "Offline");
    world.mend();
    ready(&b, 1, LARGE_BYTES);

    // The cache cannot be made too small for the pins, and no pin may be too large for the cache.
    let failure = b.refused(&["limits", "--cache", "80M"], 2, "usage");
    assert!(failure["consequence"].as_str().unwrap().contains("pinned files"), "{failure}");
    b.ok(&["unpin", &large]);
    b.ok(&["limits", "--cache", "64M"]);
    for arguments in [&["pin", &large][..], &["pin", &large, "--dry-run"], &["pin", "--drive", "d"]] {
        let failure = b.refused(arguments, 1, "full");
        let message = failure["message"].as_str().unwrap();
        assert!(message.contains("but its limit is 64 MiB"), "{failure}");
        assert!(failure["action"].as_str().unwrap().contains("holdall limits --cache"), "{failure}");
    }
    // Its status is reported anyway.
    assert!(b.ok(&["pin", &large, "--status"])[0]["bytes"].as_u64() >= Some(LARGE_BYTES as u64));
    b.refused(&["wait", &large], 1, "full");
    b.ok(&["pin", &kept, "--wait"]);

    // A directory that has grown too large for the cache is not reported as kept, although all of it was here for a moment.
    let grown = Path::new(&kept).join("grown");
    std::fs::write(&grown, Random(12).bytes(LARGE_BYTES)).unwrap();
    sh(&b.machine.mountpoint(), "sync kept/grown");
    b.ok(&["drive", "sync", "d"]);
    let mut pins = Value::Null;
    wait_until("it is told that it does not fit", || {
        pins = b.ok(&["pins"]);
        pins[0]["state"] == "Error" && pins[0]["files_ready"] == FILES && pins[0]["files_total"] == FILES + 1
    })
    .unwrap_or_else(|()| panic!("{pins}"));
    std::fs::remove_file(&grown).unwrap();
    world.ready(&b);
    b.ok(&["limits", "--cache", "auto"]);

    // The whole drive.
    let whole = b.ok(&["pin", "--drive", "d", "--wait"]);
    assert_eq!((&whole[0]["path"], &whole[0]["state"]), (&Value::Null, &"Always keep".into()), "{whole}");
    b.refused(&["evict", "--drive", "d"], 1, "state");
    let counted = || b.ok(&["pins"]).as_array().unwrap().iter().find(|pin| pin["path"].is_null()).cloned();
    wait_until("all of its files are counted", || {
        let whole = counted().unwrap();
        whole["files_total"].as_u64() > Some(FILES as u64) && whole["files_ready"] == whole["files_total"]
    })
    .unwrap_or_else(|()| panic!("{:?}", counted()));
    world.reads_offline(&b);
    world.cut();
    forget_pages(Path::new(&large));
    assert_eq!(std::fs::read(&large).unwrap().len(), LARGE_BYTES);
    world.mend();
    b.ok(&["drive", "close", "d", "--wait"]);
    b.open();
    assert_eq!(b.ok(&["pins"]).as_array().unwrap().len(), 2);
    b.ok(&["unpin", "--drive", "d"]);
    assert!(b.ok(&["evict", &large])["bytes_freed"].as_u64().unwrap() > 0);
    world.ready(&b);
    b.ok(&["drive", "close", "d", "--wait"]);

    // A lost list is reported, and does not stop the drive from opening.
    b.ok(&["daemon", "stop"]);
    std::fs::write(b.machine.state.join("drives/d/pins.json"), "{").unwrap();
    b.open();
    b.machine.status_when("told", |status| {
        status["reason"].as_str().is_some_and(|reason| reason.contains("choose them again"))
    });
    b.ok(&["drive", "close", "d", "--wait"]);
}

/// Asks a service for the contents of a directory of drive `d`.
fn directory(machine: &Machine, path: &str) -> Value {
    let mut stream = UnixStream::connect(machine.runtime.join("daemon.sock")).unwrap();
    write!(stream, "GET /v1/drives/d/directory?path={path} HTTP/1.0\r\nHost: holdall\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn an_unlisted_directory_fails_soon_and_delays_no_others() {
    const NAMES: usize = 3000;
    let world = World::new(NEAR, Fault::CutBeforeBody);
    let a = &world.a;
    a.open();
    let far = a.machine.mountpoint().join("far");
    std::fs::create_dir(&far).unwrap();
    // These names and inodes are more than a read elsewhere brings along.
    for number in 0..NAMES {
        std::fs::write(far.join(format!("{number:0>150}")), [7; 200]).unwrap();
    }
    a.ok(&["drive", "close", "d", "--wait"]);
    let b = Person::new(&world.bench, "b", &[("HOLDALL_NO_SURVEY", "1")]);
    b.ok(&["drive", "add", "d", "--store", &world.url, "--credentials-file", &world.bench.text("ini")]);
    b.open();
    let near = b.machine.mountpoint().join("near");
    std::fs::create_dir(&near).unwrap();
    std::fs::write(near.join("file"), "near").unwrap();
    assert_eq!(directory(&b.machine, "near")[0]["name"], "file");
    world.cut();

    // The time counts from the beginning, even if nothing can be read.
    let begun = Instant::now();
    let failure = b.refused(&["wait", &at(&b, "far"), "--timeout", "2s"], 1, "failed");
    assert!(failure["message"].as_str().unwrap().contains("2 s"), "{failure}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // A listing of a directory that is here waits neither for that nor for a listing of a missing one.
    std::thread::scope(|scope| {
        let machine = &b.machine;
        let looking = scope.spawn(move || directory(machine, "far"));
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(directory(&b.machine, "near")[0]["name"], "file");
        assert!(!looking.is_finished(), "nothing that was asked for had to wait");
        let failure = looking.join().unwrap();
        assert_eq!(failure["code"], "offline", "{failure}");
        assert!(failure["message"].as_str().unwrap().contains("far"), "{failure}");
    });
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    world.mend();
    let mut listed = Value::Null;
    wait_until("it can be looked into", || {
        listed = directory(&b.machine, "far");
        listed.is_array()
    })
    .unwrap_or_else(|()| panic!("{listed}"));
    assert_eq!(listed.as_array().unwrap().len(), NAMES);
    b.ok(&["drive", "close", "d", "--wait"]);
}

#[test]
fn refuses_or_reports_a_cache_too_small_for_pins() {
    let world = World::new(NEAR, Fault::CutBeforeBody);
    let b = world.other();
    b.ok(&["pin", &at(&b, "large"), "--wait"]);
    b.ok(&["drive", "close", "d", "--wait"]);
    let failure = b.refused(&["limits", "--cache", "80M"], 2, "usage");
    let (message, meaning) = (failure["message"].as_str().unwrap(), failure["consequence"].as_str().unwrap());
    assert!(message.contains("The drive d needs") && meaning.contains("pinned files"), "{failure}");
    b.ok(&["limits", "--cache", "200M"]);
    // A somewhat smaller cache is no problem, as long as it suffices.
    b.ok(&["limits", "--cache", "150M"]);

    // As if the disk was filled with other data.
    b.ok(&["daemon", "stop"]);
    let limits = b.machine.state.join("limits.json");
    let mut known: Value = serde_json::from_slice(&std::fs::read(&limits).unwrap()).unwrap();
    assert_eq!(known["cache"], 150 << 20);
    known["cache"] = (64 << 20).into();
    std::fs::write(&limits, serde_json::to_vec(&known).unwrap()).unwrap();
    b.open();
    let mut pins = Value::Null;
    wait_until("it is told that it does not fit", || {
        pins = b.ok(&["pins"]);
        pins[0]["state"] == "Error"
    })
    .unwrap_or_else(|()| panic!("{pins}"));
    assert_eq!(pins[0]["reason"], "it does not fit the cache", "{pins}");
    // Files that were kept before are still kept.
    assert_eq!(pins[0]["ready_bytes"], LARGE_BYTES, "{pins}");
    b.machine.status_when("told with what to do", |status| {
        let says = |text: &Value, what: &str| text.as_str().is_some_and(|text| text.contains(what));
        says(&status["reason"], "do not fit the cache")
            && says(&status["advice"]["action"], "holdall limits --cache")
    });
    b.ok(&["limits", "--cache", "auto"]);
    ready(&b, 1, LARGE_BYTES);
    b.machine.status_when("told no more", |status| status["reason"].is_null());
    b.ok(&["drive", "close", "d", "--wait"]);
}
