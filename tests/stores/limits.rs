//! Limits on the use of the network, with a fake NetworkManager.

use crate::bench::{Bench, noise, wait_until};
use crate::bus::Bus;
use crate::person::Person;
use crate::s3::{create, with_drive, with_server};
use holdall_servers::faults;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use zbus::blocking::Connection;
use zbus::blocking::object_server::InterfaceRef;

/// The part of NetworkManager that the service uses.
struct NetworkManager {
    metered: u32,
}

#[zbus::interface(name = "org.freedesktop.NetworkManager")]
impl NetworkManager {
    #[zbus(property)]
    fn metered(&self) -> u32 {
        self.metered
    }

    #[zbus(property)]
    fn set_metered(&mut self, metered: u32) {
        self.metered = metered;
    }
}

/// Values of NMMetered.
const METERED: u32 = 1;
const FREE: u32 = 2;
const GUESSED_METERED: u32 = 3;
const GUESSED_FREE: u32 = 4;

/// The network, as a test's own NetworkManager reports it.
struct Network {
    _served_by: Connection,
    served: InterfaceRef<NetworkManager>,
}

impl Network {
    fn start(bus: &Bus, metered: u32) -> Self {
        let path = "/org/freedesktop/NetworkManager";
        let connection = bus.connection().name("org.freedesktop.NetworkManager").unwrap();
        let connection = connection.serve_at(path, NetworkManager { metered }).unwrap().build().unwrap();
        let served = connection.object_server().interface(path).unwrap();
        Self { _served_by: connection, served }
    }

    fn becomes(&self, metered: u32) {
        self.served.get_mut().metered = metered;
        zbus::block_on(self.served.get().metered_changed(self.served.signal_emitter())).unwrap();
    }
}

#[test]
fn uploads_wait_for_the_next_unmetered_network() {
    let bench = Bench::new();
    let bus = Bus::start();
    let network = Network::start(&bus, METERED);
    let a = Person::new(&bench, "a", &[("DBUS_SYSTEM_BUS_ADDRESS", bus.address())]);
    let store = format!("file://{}", bench.text("store"));
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "64M", "--no-encryption"]);
    let is = |waiting: bool| {
        wait_until("the network is noticed", || a.ok(&["limits"])["waiting"] == waiting).unwrap()
    };
    is(true);
    a.open();
    std::fs::write(a.machine.mountpoint().join("note"), "by train").unwrap();
    let status = a.ok(&["drive", "status", "d"]);
    assert_eq!(
        (status["state"].as_str(), status["reason"].as_str()),
        (Some("Paused"), Some("metered network"))
    );
    let shown = a.reads(&["limits"]);
    assert!(shown.contains("wait for another one"), "{shown}");

    // At home again.
    network.becomes(GUESSED_FREE);
    is(false);
    a.ok(&["drive", "sync", "d"]);
    // If told to continue, it does so on every network.
    network.becomes(GUESSED_METERED);
    is(true);
    // The whole day, every day.
    a.ok(&["limits", "--on-metered", "go-on", "--quiet", "00:00-24:00"]);
    let status = a.ok(&["drive", "status", "d"]);
    assert_eq!((status["state"].as_str(), status["reason"].as_str()), (Some("Paused"), Some("quiet hours")));
    a.ok(&["limits", "--quiet", "off"]);
    is(false);
    a.ok(&["drive", "close", "d", "--wait"]);
}

/// The running upload is cut off, not finished.
#[test]
fn a_metered_network_cuts_off_and_delays_a_running_upload() {
    let bench = Bench::new();
    let bus = Bus::start();
    let network = Network::start(&bus, FREE);
    let (_server, proxy, url) = with_server(&bench);
    let a = Person::new(&bench, "a", &[("DBUS_SYSTEM_BUS_ADDRESS", bus.address())]);
    create(&bench, &a, &url);
    // So slow that it would take a minute.
    a.ok(&["limits", "--up", "64K"]);
    a.open();
    let content = noise(3, 4 << 20);
    let file = File::create(a.machine.mountpoint().join("noise")).unwrap();
    file.write_all_at(&content, 0).unwrap();
    file.sync_all().unwrap();
    proxy.plan(faults::none());
    let syncing = a.machine.begin(&["drive", "sync", "d"]);
    let is_segment = |queued: &Value| queued["kind"] == "segment" && queued["tries"] == 1;
    let queue = || a.ok(&["drive", "queue", "d"]);
    wait_until("it is tried", || queue().as_array().unwrap().iter().any(is_segment)).unwrap();
    let goes =
        || proxy.log().iter().any(|entry| entry.asked.target.contains("/seg/") && entry.ended.is_none());
    wait_until("it is on its way", goes).unwrap();

    network.becomes(METERED);
    let status = a.machine.status_when("it waits", |status| status["state"] == "Paused");
    assert_eq!(status["reason"], "metered network", "{status}");
    let is_cut = || proxy.log().iter().all(|entry| entry.ended.is_some());
    wait_until("nothing is on its way", is_cut).unwrap();
    let log = proxy.log();
    assert!(
        log.iter().any(|entry| entry.asked.target.contains("/seg/") && entry.status.is_none()),
        "{log:?}"
    );
    std::thread::sleep(Duration::from_secs(2));
    let changes = || proxy.log().iter().filter(|entry| entry.asked.changes()).count();
    assert_eq!(changes(), log.iter().filter(|entry| entry.asked.changes()).count(), "{:?}", proxy.log());
    let status = a.ok(&["drive", "status", "d"]);
    assert!(status["unpushed_bytes"].as_u64().unwrap() > 0, "{status}");
    drop(syncing);

    a.ok(&["limits", "--up", "off"]);
    network.becomes(FREE);
    a.machine.status_when("it is uploaded by itself", |status| {
        status["state"] == "Ready" && status["unpushed_bytes"] == 0
    });
    drop(file);
    a.ok(&["drive", "close", "d", "--wait"]);
    assert_eq!(a.ok(&["drive", "check", "d"])["ok"], true);
}

#[test]
fn a_closed_drive_reports_its_upload_until_it_ends() {
    let bench = Bench::new();
    let (_server, _proxy, _url, a) = with_drive(&bench);
    a.ok(&["limits", "--up", "64K"]);
    a.open();
    let file = File::create(a.machine.mountpoint().join("noise")).unwrap();
    file.write_all_at(&noise(2, 2 << 20), 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    a.ok(&["drive", "close", "d"]);
    let status = a.ok(&["drive", "status", "d"]);
    assert_eq!((status["state"].as_str(), status["draining"].as_bool()), (Some("Closed"), Some(true)));
    assert!(status["unpushed_bytes"].as_u64().unwrap() > 1 << 20, "{status}");
    let shown = a.reads(&["drive", "status", "d"]);
    assert!(shown.contains("still being uploaded"), "{shown}");
    a.ok(&["limits", "--up", "off"]);
    let uploaded = || a.ok(&["drive", "status", "d"])["unpushed_bytes"] == 0;
    wait_until("it is uploaded", uploaded).unwrap();
    let put_down = || a.ok(&["drive", "status", "d"])["draining"] == false;
    wait_until("it is put down", put_down).unwrap();
}

#[test]
fn limits_apply_to_uploads_and_downloads() {
    const BYTES: u64 = 4 << 20;
    const RATE: u64 = 2 << 20;
    let bench = Bench::new();
    let (_server, _proxy, url, a) = with_drive(&bench);
    a.refused(&["limits", "--up", "1K"], 2, "usage");
    a.refused(&["limits", "--up", "fast"], 2, "usage");
    a.refused(&["limits", "--quiet", "at night"], 2, "usage");
    let limits = a.ok(&["limits", "--up", "2M", "--down", "2M"]);
    assert_eq!(
        (limits["up_bytes_per_s"].as_u64(), limits["down_bytes_per_s"].as_u64()),
        (Some(RATE), Some(RATE))
    );
    a.open();
    let noise = noise(1, BYTES as usize);
    let file = a.machine.mountpoint().join("noise");
    // It cannot be faster. How much longer it takes depends on the machine.
    let least = (BYTES - RATE / 10) as f64 / RATE as f64;
    // From the first byte, since uploads begin before they are requested.
    let begun = Instant::now();
    std::fs::write(&file, &noise).unwrap();
    a.ok(&["drive", "sync", "d"]);
    assert!(begun.elapsed().as_secs_f64() > least, "{:?}", begun.elapsed());
    a.ok(&["drive", "close", "d", "--wait"]);

    // Limits survive the daemon. The other computer has its own.
    let b = Person::new(&bench, "b", &[]);
    b.ok(&["limits", "--down", "2M"]);
    b.ok(&["drive", "add", "d", "--store", &url, "--credentials-file", &bench.text("ini")]);
    let begun = Instant::now();
    b.open();
    assert!(std::fs::read(b.machine.mountpoint().join("noise")).unwrap() == noise);
    assert!(begun.elapsed().as_secs_f64() > least, "{:?}", begun.elapsed());
    b.ok(&["limits", "--down", "off"]);
    b.ok(&["drive", "close", "d", "--wait"]);
    a.ok(&["daemon", "stop"]);
    assert_eq!(a.ok(&["limits"])["up_bytes_per_s"], RATE);
}

#[test]
fn slows_down_programs_that_scan_files_until_allowed() {
    const FILES: usize = 60;
    const BYTES: usize = 3 << 20;
    const HEAD_BYTES: usize = 64 << 10;
    let bench = Bench::new();
    let store = format!("file://{}", bench.text("store"));
    let a = Person::new(&bench, "a", &[]);
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "512M", "--no-encryption"]);
    a.open();
    let name = |number: usize| format!("picture {number:03}.jpg");
    for number in 0..FILES {
        let picture = noise(number as u64, BYTES);
        std::fs::write(a.machine.mountpoint().join(name(number)), picture).unwrap();
    }
    a.ok(&["drive", "close", "d", "--wait"]);

    let b = Person::new(&bench, "b", &[]);
    b.ok(&["drive", "add", "d", "--store", &store]);
    b.open();
    let reason = || {
        let mut shown = None;
        wait_until("it is ready", || {
            let status = b.ok(&["drive", "status", "d"]);
            shown = status["advice"]["action"].as_str().map(str::to_owned);
            status["state"] == "Ready"
        })
        .unwrap();
        shown
    };
    assert_eq!(reason(), None);
    for number in 0..FILES {
        // As programs do that identify a file: bit by bit from the beginning, and the end.
        let mut file = File::open(b.machine.mountpoint().join(name(number))).unwrap();
        for _ in 0..HEAD_BYTES / 4096 {
            file.read_exact(&mut [0; 4096]).unwrap();
        }
        file.read_exact_at(&mut [0; 4096], BYTES as u64 - 4096).unwrap();
    }
    let told = reason();
    assert!(told.as_ref().is_some_and(|told| told.contains("holdall limits --indexers")), "{told:?}");
    assert_eq!(b.ok(&["limits", "--indexers", "full"])["indexers"], "full");
    assert_eq!(reason(), None);
    b.ok(&["limits", "--indexers", "slow"]);
    assert_eq!(reason(), told);
    b.ok(&["drive", "close", "d", "--wait"]);
}
