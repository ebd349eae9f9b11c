//! Open drives when the service starts and ends, and data that programs have written but not synced. Runs as root, with FUSE and
//! loop devices.

use crate::bench::{Bench, Machine, noise, wait_until};
use crate::bus::Bus;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The kernel itself writes data back after 30 s.
const BEFORE_THE_KERNEL: Duration = Duration::from_secs(25);
const MIB: usize = 1 << 20;

fn unsent(machine: &Machine) -> u64 {
    machine.status()["unpushed_bytes"].as_u64().unwrap()
}

/// Uploads until nothing is left.
fn settle(machine: &Machine) {
    machine.ok(&["drive", "sync", "d"]);
    wait_until("all is uploaded", || {
        upload_now(machine);
        unsent(machine) == 0
    })
    .unwrap();
}

fn upload_now(machine: &Machine) {
    let mut stream = UnixStream::connect(machine.runtime.join("daemon.sock")).unwrap();
    let request = "POST /v1/drives/d/upload-now HTTP/1.0\r\nHost: holdall\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(r#"{"result":{}}"#), "{answer}");
}

/// Blocks of new data that exist only in memory.
fn in_memory(device: &Path) -> u64 {
    let file = Path::new("/sys/fs/ext4").join(device.file_name().unwrap()).join("delayed_allocation_blocks");
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// All mount points below a directory.
fn mounts_below(directory: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let directory = directory.to_str().unwrap();
    mounts.lines().filter(|line| line.contains(directory)).map(str::to_owned).collect()
}

fn device_of(machine: &Machine) -> PathBuf {
    machine.status()["block_device"].as_str().unwrap().into()
}

/// A service that is a child of the test, so that the test gets its exit code.
struct Service(Child);

impl Service {
    /// Starts it in place of the daemon that commands have started.
    fn start(machine: &Machine) -> Self {
        machine.ok(&["daemon", "stop"]);
        let service = Self::begin(machine, &[]);
        let socket = machine.runtime.join("daemon.sock");
        wait_until("the service listens", || UnixStream::connect(&socket).is_ok()).unwrap();
        service
    }

    fn begin(machine: &Machine, environment: &[(&str, &Path)]) -> Self {
        let mut command = machine.program(env!("CARGO_BIN_EXE_holdalld"));
        command.envs(environment.iter().copied()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Its exit code.
    fn ended(&mut self) -> Option<i32> {
        wait_until("the service ends", || self.has_ended()).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn counts_unsynced_writes_and_writes_them_back_early() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let (copy, place) = (a.mountpoint().join("copy"), a.mountpoint().join("in place"));
    std::fs::write(&place, noise(1, MIB)).unwrap();
    settle(&a);
    let device = device_of(&a);

    // A copy.
    let begun = Instant::now();
    std::fs::write(&copy, noise(2, 3 * MIB)).unwrap();
    assert!(unsent(&a) >= 3 * MIB as u64, "it is told from the first moment on");
    wait_until("the copy is written back", || in_memory(&device) == 0).unwrap();
    assert!(begun.elapsed() < BEFORE_THE_KERNEL, "{:?}", begun.elapsed());
    assert!(unsent(&a) >= 3 * MIB as u64);
    settle(&a);

    // A change in place needs no new space on the drive.
    let begun = Instant::now();
    let mut file = OpenOptions::new().write(true).open(&place).unwrap();
    file.write_all(&noise(3, MIB)).unwrap();
    drop(file);
    wait_until("the change is written back", || unsent(&a) >= MIB as u64).unwrap();
    assert!(begun.elapsed() < BEFORE_THE_KERNEL, "{:?}", begun.elapsed());
    a.close();
}

#[test]
fn an_idle_drive_neither_syncs_nor_asks_its_store() {
    let bench = Bench::new();
    let mut a = bench.with_drive();
    a.environment.push(("HOLDALL_LOG".to_owned(), "debug".to_owned()));
    a.ok(&["daemon", "stop"]);
    a.open(&[]);
    std::fs::write(a.mountpoint().join("file"), noise(1, MIB)).unwrap();
    settle(&a);
    let facts = |status: &Value| {
        let log = std::fs::read_to_string(a.state.join("daemon.log")).unwrap();
        let syncs = log.matches("written back").count();
        (status["requests"].clone(), status["uploaded_bytes"].clone(), syncs)
    };
    // Once nothing was written for longer than every interval, nothing is written any longer.
    let mut before = facts(&a.status());
    let mut quiet_since = Instant::now();
    wait_until("the drive is at rest", || {
        let now = facts(&a.status());
        if now != before || unsent(&a) > 0 {
            (before, quiet_since) = (now, Instant::now());
        }
        quiet_since.elapsed() > Duration::from_secs(20)
    })
    .unwrap();
    assert!(before.2 > 0, "what was written was written back");
    a.close();
}

#[test]
fn upload_now_includes_unsynced_writes() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    settle(&a);
    let (written, begun) = (noise(4, 2 * MIB), Instant::now());
    std::fs::write(a.mountpoint().join("copy"), &written).unwrap();
    upload_now(&a);
    wait_until("all is uploaded", || unsent(&a) == 0).unwrap();
    // Neither the kernel nor the age of the data has caused it.
    assert!(begun.elapsed() < BEFORE_THE_KERNEL, "{:?}", begun.elapsed());
    let b = bench.machine("b");
    b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    b.open(&["--read-only"]);
    assert!(std::fs::read(b.mountpoint().join("copy")).unwrap() == written);
    b.close();
    a.close();
}

#[test]
fn an_ending_service_waits_for_drive_users_and_names_them() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let mut service = Service::start(&a);
    a.open(&[]);
    let held = File::create(a.mountpoint().join("held")).unwrap();
    std::fs::write(a.mountpoint().join("copy"), noise(5, MIB)).unwrap();
    service.terminate();
    let is_told = || {
        let rows = std::fs::read_to_string(a.state.join("activity.jsonl")).unwrap();
        rows.contains("cannot be unmounted yet") && rows.contains(&format!("process {}", std::process::id()))
    };
    wait_until("it is told who uses the drive", is_told).unwrap();
    assert!(!service.has_ended());
    drop(held);
    assert_eq!(service.ended(), Some(0));
    assert_eq!(mounts_below(&a.dir), [""; 0]);
    // The next service opens it again.
    a.status_when("taken up", |status| status["mountpoint"].is_string());
    assert!(std::fs::read(a.mountpoint().join("copy")).unwrap() == noise(5, MIB));
    a.close();
}

#[test]
fn writes_back_a_busy_drive_before_the_service_ends() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let mut service = Service::start(&a);
    a.open(&[]);
    let device = device_of(&a);
    settle(&a);
    let mut held = File::create(a.mountpoint().join("held")).unwrap();
    held.write_all(&noise(6, MIB)).unwrap();
    // Handed over at once, before anything else would write it back.
    a.ok(&["daemon", "stop"]);
    assert_eq!((service.ended(), in_memory(&device)), (Some(0), 0));
    a.taken_up();
    held.write_all(b"more").unwrap();
    drop(held);
    a.close();
}

/// The part of systemd that the service uses.
struct Systemd;

#[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
impl Systemd {
    #[zbus(property)]
    fn system_state(&self) -> &str {
        "stopping"
    }
}

#[test]
fn saves_a_drive_that_stays_busy_until_shutdown() {
    let bench = Bench::new();
    let bus = Bus::start();
    let systemd = bus.connection().name("org.freedesktop.systemd1").unwrap();
    let _systemd = systemd.serve_at("/org/freedesktop/systemd1", Systemd).unwrap().build().unwrap();
    let mut a = bench.with_drive();
    a.environment.push(("DBUS_SYSTEM_BUS_ADDRESS".to_owned(), bus.address().to_owned()));
    let mut service = Service::start(&a);
    a.open(&[]);
    let mut held = File::create(a.mountpoint().join("held")).unwrap();
    held.write_all(&noise(7, MIB)).unwrap();
    let begun = Instant::now();
    service.terminate();
    assert_eq!(service.ended(), Some(0));
    assert!(begun.elapsed() > Duration::from_secs(30), "whoever uses it has had time: {:?}", begun.elapsed());
    // Nothing is left to unmount, and late writers get an error.
    assert_eq!(mounts_below(&a.dir), [""; 0]);
    assert!(held.write_all(&noise(8, MIB)).and_then(|()| held.sync_all()).is_err());
    drop(held);
    a.status_when("taken up", |status| status["mountpoint"].is_string());
    assert!(std::fs::read(a.mountpoint().join("held")).unwrap()[..MIB] == noise(7, MIB));
    a.close();
    a.assert_checked();
}

#[test]
fn a_closing_service_remembers_open_drives_at_every_moment() {
    let bench = Bench::new();
    let a = bench.with_drive();
    let mut service = Service::start(&a);
    a.open(&[]);
    std::fs::write(a.mountpoint().join("file"), noise(9, 4 * MIB)).unwrap();
    let config = a.state.join("drives/d/config.json");
    let mut moments = 0;
    service.terminate();
    while !service.has_ended() {
        let now: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
        assert!(now["open"].is_object(), "with the power gone now it would not be opened again");
        moments += 1;
    }
    assert!(moments > 10);
    assert_eq!(mounts_below(&a.dir), [""; 0]);
    a.status_when("taken up", |status| status["mountpoint"].is_string());
    a.close();
}

/// A drive that its computer has closed with the service, and remembers as open. Another computer knows the drive, too.
fn left_and_known_elsewhere(bench: &Bench) -> (Machine, Machine) {
    let (a, b) = (bench.with_drive(), bench.machine("b"));
    b.ok(&["drive", "add", "d", "--store", &bench.store()]);
    let mut service = Service::start(&a);
    a.open(&[]);
    std::fs::write(a.mountpoint().join("file"), noise(10, 4 * MIB)).unwrap();
    a.ok(&["pin", &a.mountpoint().join("file").display().to_string()]);
    settle(&a);
    service.terminate();
    assert_eq!(service.ended(), Some(0));
    // The writes of the unmounting are uploaded too, and the drive is released.
    let open = change_config(&a, |config| config["open"].take());
    assert_eq!(open["mount"], "ended");
    a.status_when("uploaded", |status| status["unpushed_bytes"] == 0 && status["draining"] == false);
    a.ok(&["daemon", "stop"]);
    change_config(&a, |config| config["open"] = open);
    (a, b)
}

/// Changes the saved configuration of the drive, while no service runs.
fn change_config<T>(machine: &Machine, change: impl FnOnce(&mut Value) -> T) -> T {
    let path = machine.state.join("drives/d/config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let changed = change(&mut config);
    std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
    changed
}

/// The size of the drive's local cache, which is still in its first place.
fn cached(machine: &Machine) -> u64 {
    let uuid = machine.status()["uuid"].as_str().unwrap().replace('-', "");
    let blocks = machine.cache.join(uuid).join("blocks");
    std::fs::metadata(blocks).map_or(0, |blocks| std::os::unix::fs::MetadataExt::blocks(&blocks) * 512)
}

fn no_conflict(machine: &Machine) {
    let status = machine.status();
    assert_eq!(
        (&status["forks"], status["state"] == "Conflict"),
        (&Value::Array(Vec::new()), false),
        "{status}"
    );
    let drives = machine.ok(&["drive", "list"]);
    assert_eq!(drives.as_array().unwrap().len(), 1, "{drives}");
}

#[test]
fn an_unmounted_drive_awaits_its_new_holder_without_forking() {
    let bench = Bench::new();
    let (a, b) = left_and_known_elsewhere(&bench);
    b.open(&[]);
    std::fs::write(b.mountpoint().join("later"), noise(11, MIB)).unwrap();
    a.status_when("told who has it", |status| status["state"] == "Read-only");
    no_conflict(&a);
    assert!(cached(&a) >= 4 * MIB as u64);
    b.close();
    a.status_when("taken up", |status| status["mountpoint"].is_string());
    no_conflict(&a);
    assert!(std::fs::read(a.mountpoint().join("later")).unwrap() == noise(11, MIB));
    assert!(std::fs::read(a.mountpoint().join("file")).unwrap() == noise(10, 4 * MIB));
    a.close();
    a.assert_checked();
}

#[test]
fn an_unmounted_drive_continues_with_the_changes_of_others() {
    let bench = Bench::new();
    let (a, b) = left_and_known_elsewhere(&bench);
    b.open(&[]);
    std::fs::write(b.mountpoint().join("later"), noise(12, MIB)).unwrap();
    b.close();
    a.status_when("taken up", |status| status["mountpoint"].is_string());
    no_conflict(&a);
    assert!(std::fs::read(a.mountpoint().join("later")).unwrap() == noise(12, MIB));
    // Nearly all of it was here already.
    assert!(a.status()["fetched_bytes"].as_u64().unwrap() < 3 * MIB as u64, "{}", a.status());
    assert!(cached(&a) >= 4 * MIB as u64);
    a.close();
    a.assert_checked();
}

#[test]
fn a_mount_from_before_a_power_cut_counts_no_longer() {
    let bench = Bench::new();
    let (a, b) = left_and_known_elsewhere(&bench);
    // As a service leaves it that ends together with its computer.
    let mounted = serde_json::json!({ "boot": "3b0f6a52-9d55-4f0c-8f0e-2f3f5c1f7a10" });
    change_config(&a, |config| config["open"]["mount"] = mounted);
    b.open(&[]);
    std::fs::write(b.mountpoint().join("later"), noise(13, MIB)).unwrap();
    b.close();
    a.status_when("taken up", |status| status["mountpoint"].is_string());
    no_conflict(&a);
    assert!(std::fs::read(a.mountpoint().join("later")).unwrap() == noise(13, MIB));
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    change_config(&a, |config| assert_eq!(config["open"]["mount"]["boot"], boot.trim()));
    a.close();
}

/// systemd's end of a service's notifications.
struct Notified {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Notified {
    fn new(path: PathBuf) -> Self {
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(crate::bench::PATIENCE)).unwrap();
        Self { socket, path }
    }

    fn start(&self, machine: &Machine) -> Service {
        Service::begin(machine, &[("NOTIFY_SOCKET", &self.path)])
    }

    fn ready(&self) {
        let mut said = [0; 4096];
        loop {
            let length = self.socket.recv(&mut said).expect("it tells that it is ready");
            if String::from_utf8_lossy(&said[..length]).lines().any(|line| line == "READY=1") {
                return;
            }
        }
    }
}

#[test]
fn a_systemd_service_takes_over_from_a_commands_daemon() {
    let bench = Bench::new();
    let a = bench.with_drive();
    a.open(&[]);
    let mut held = File::create(a.mountpoint().join("held")).unwrap();
    held.write_all(b"before").unwrap();
    let (before, mount) = (a.pid(), mounts_below(&a.mountpoint()));

    let systemd = Notified::new(bench.path("notified"));
    let mut service = systemd.start(&a);
    systemd.ready();
    assert_eq!(a.pid(), service.0.id().cast_signed());
    assert_ne!(a.pid(), before);
    // Programs have only waited.
    held.write_all(b" and after").unwrap();
    held.sync_all().unwrap();
    assert_eq!(mounts_below(&a.mountpoint()), mount);
    assert_eq!(std::fs::read(a.mountpoint().join("held")).unwrap(), b"before and after");
    drop(held);

    // A service of another unit ends with an exit code that its unit understands. A daemon started by a command ends at once.
    let another = Notified::new(bench.path("another"));
    assert_eq!(another.start(&a).ended(), Some(69));
    assert_eq!(Service::begin(&a, &[]).ended(), Some(0));
    assert!(!service.has_ended());
    a.close();
    a.ok(&["daemon", "stop"]);
    assert_eq!(service.ended(), Some(0));
}
