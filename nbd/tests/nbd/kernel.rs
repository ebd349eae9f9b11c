//! The kernel's own client, in User Mode Linux. Tests named `guest_` are ignored in an ordinary run. The other tests start a
//! guest kernel and run them there.

use holdall_kernel::nbd::{self, Attachment, DeviceIndex, Nbd};
use holdall_nbd::server::{Server, Session};
use holdall_nbd::testing::{FileDevice, MemoryDevice, Policy};
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const DISK_BYTES: u64 = 64 << 20;
const DISK: &str = "/tmp/disk.img";
const READY: &str = "/tmp/ready.sock";
const MOUNT: &str = "/tmp/mnt";
const IDENTIFIER: &str = "holdall:drive-1";
const GRACE: Duration = Duration::from_secs(5);

/// Runs a `guest_` test of this program in a guest kernel with nbd.
fn in_guest(test: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/uml/run.sh");
    let this = std::env::current_exe().unwrap();
    let output = Command::new(script)
        .args(["-k", "nbd", "-t", "240", "--"])
        .arg(this)
        .args(["--ignored", "--exact", "--nocapture", test])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(127), "missing: apt-get install user-mode-linux kmod\n{errors}");
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}\n{errors}", output.status);
}

#[test]
fn a_file_system_lives_on_a_device_with_four_connections() {
    in_guest("kernel::guest_file_system");
}

#[test]
fn a_mount_survives_kill_9_of_its_server_with_one_connection() {
    in_guest("kernel::guest_kill_1");
}

#[test]
fn a_mount_survives_kill_9_of_its_server_with_four_connections() {
    in_guest("kernel::guest_kill_4");
}

#[test]
fn programs_get_errors_once_a_device_without_a_server_is_detached() {
    in_guest("kernel::guest_detach_without_server");
}

#[test]
fn a_read_may_wait_longer_than_the_kernels_timer() {
    in_guest("kernel::guest_long_wait");
}

#[test]
fn a_slow_read_costs_a_connection_but_is_answered() {
    in_guest("kernel::guest_long_wait_4");
}

fn assert_guest() {
    assert!(std::env::var_os("HOLDALL_UML").is_some(), "this runs in a guest kernel; see in_guest");
}

struct Attached {
    server: Server,
    session: Session,
    nbd: Nbd,
    index: DeviceIndex,
}

/// Serves `device` to the kernel: as a new block device, or as the one that was left over.
fn attach(device: Arc<dyn holdall_core::device::BlockDevice>, connections: usize, again: bool) -> Attached {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let server = Server::new(runtime.handle().clone());
    // The runtime lives as long as the process, which only a kill ends.
    std::mem::forget(runtime);
    let size_bytes = device.geometry().size_bytes;
    let export = server.export("drive", device).unwrap();
    let server_flags = export.transmission_flags(false);
    let mut nbd = Nbd::open().unwrap();
    loop {
        let (ours, kernels) = nbd::socket_pairs(connections).unwrap();
        let session = server.serve_kernel(&export, ours).unwrap();
        let sockets: Vec<_> = kernels.iter().map(|socket| socket.as_fd()).collect();
        let attachment = Attachment { sockets: &sockets, size_bytes, server_flags, identifier: IDENTIFIER };
        let index = connect(&mut nbd, &attachment, again);
        drop(kernels);
        if session.live() > 0 {
            return Attached { server, session, nbd, index };
        }
    }
}

fn connect(nbd: &mut Nbd, attachment: &Attachment<'_>, again: bool) -> DeviceIndex {
    if !again {
        return nbd.connect(attachment, None).unwrap();
    }
    let devices = nbd::attached_devices().unwrap();
    let ours = devices.iter().find(|device| device.identifier.as_deref() == Some(IDENTIFIER));
    let index = ours.expect("the device is found by its identifier").index;
    nbd.reconfigure(index, attachment).unwrap();
    index
}

fn run(program: &str, arguments: &[&str]) {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&text));
}

fn pattern(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (number.wrapping_mul(0x9e37_79b9) ^ (at >> 3).wrapping_mul(number | 1)) as u8)
        .collect()
}

fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_file_system() {
    assert_guest();
    assert!(nbd::is_loaded());
    let device = MemoryDevice::new(DISK_BYTES);
    let Attached { server, session, mut nbd, index } = attach(device.clone(), 4, false);
    let devices = nbd::attached_devices().unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!((devices[0].index, devices[0].size_bytes), (index, DISK_BYTES));
    assert_eq!(devices[0].identifier.as_deref(), Some(IDENTIFIER));
    assert!(nbd.is_connected(index).unwrap());

    let node = index.path();
    let node = node.to_str().unwrap();
    run("mkfs.ext4", &["-q", "-b", "4096", node]);
    fs::create_dir_all(MOUNT).unwrap();
    run("mount", &[node, MOUNT]);
    let data = pattern(7, 3 << 20);
    let path = Path::new(MOUNT).join("file");
    fs::write(&path, &data).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    assert!(device.calls()[2] > 0, "an fsync reaches the device as a flush");
    run("umount", &[MOUNT]);
    drop_caches();
    run("mount", &[node, MOUNT]);
    assert!(fs::read(&path).unwrap() == data, "what was written is read back");
    fs::remove_file(&path).unwrap();
    run("fstrim", &[MOUNT]);
    run("umount", &[MOUNT]);
    run("e2fsck", &["-fn", node]);

    nbd.disconnect(index).unwrap();
    session.wait();
    assert!(!nbd.is_connected(index).unwrap());
    assert_eq!(nbd::attached_devices().unwrap(), []);
    server.shutdown(GRACE);
    assert_eq!(server.connections(), 0);
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_kill_1() {
    kill_under_load(1);
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_kill_4() {
    kill_under_load(4);
}

/// The process that is killed. It serves the disk file until then.
#[test]
#[ignore = "runs in a guest kernel, as a process of its own"]
fn guest_serve() {
    assert_guest();
    let connections = std::env::var("HOLDALL_CONNECTIONS").unwrap().parse().unwrap();
    let again = std::env::var_os("HOLDALL_AGAIN").is_some();
    let attached = attach(FileDevice::open(Path::new(DISK)).unwrap(), connections, again);
    drop(UnixStream::connect(READY).unwrap());
    attached.session.wait();
}

fn serve_in_a_process(ready: &UnixListener, connections: usize, again: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "kernel::guest_serve"]);
    command.env("HOLDALL_CONNECTIONS", connections.to_string());
    if again {
        command.env("HOLDALL_AGAIN", "1");
    }
    let child = command.spawn().unwrap();
    let mut end = [0];
    assert_eq!(ready.accept().unwrap().0.read(&mut end).unwrap(), 0);
    child
}

fn kill_under_load(connections: usize) {
    assert_guest();
    fs::File::create(DISK).unwrap().set_len(DISK_BYTES).unwrap();
    let ready = UnixListener::bind(READY).unwrap();
    let mut server = serve_in_a_process(&ready, connections, false);
    let device = nbd::attached_devices().unwrap().remove(0);
    let node = device.index.path();
    let node = node.to_str().unwrap();
    run("mkfs.ext4", &["-q", "-b", "4096", node]);
    fs::create_dir_all(MOUNT).unwrap();
    run("mount", &[node, MOUNT]);

    const FILES: u64 = 24;
    const FILE_BYTES: usize = 256 << 10;
    let path = |number: u64| Path::new(MOUNT).join(format!("file-{}", number % FILES));
    let (written, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let wait_for = |count: u64| {
        while written.load(Ordering::Acquire) < count {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                let number = written.load(Ordering::Acquire);
                fs::write(path(number), pattern(number, FILE_BYTES)).unwrap();
                fs::File::open(path(number)).unwrap().sync_all().unwrap();
                written.store(number + 1, Ordering::Release);
            }
        });
        for round in 1..=2 {
            wait_for(round * 6);
            server.kill().unwrap();
            server.wait().unwrap();
            server = serve_in_a_process(&ready, connections, true);
        }
        wait_for(20);
        stop.store(true, Ordering::Release);
    });

    run("umount", &[MOUNT]);
    drop_caches();
    run("e2fsck", &["-fn", node]);
    run("mount", &[node, MOUNT]);
    let written = written.load(Ordering::Acquire);
    for number in written.saturating_sub(FILES)..written {
        assert!(fs::read(path(number)).unwrap() == pattern(number, FILE_BYTES), "file {number}");
    }
    run("umount", &[MOUNT]);
    Nbd::open().unwrap().disconnect(device.index).unwrap();
    assert!(server.wait().unwrap().success(), "the server ends when its device is detached");
}

/// The keeper does this if no daemon returns: a write that waits for one ends with an error, and so does the next.
#[test]
#[ignore = "runs in a guest kernel"]
fn guest_detach_without_server() {
    assert_guest();
    fs::File::create(DISK).unwrap().set_len(DISK_BYTES).unwrap();
    let ready = UnixListener::bind(READY).unwrap();
    let mut server = serve_in_a_process(&ready, 4, false);
    let device = nbd::attached_devices().unwrap().remove(0);
    let node = device.index.path();
    let node = node.to_str().unwrap();
    run("mkfs.ext4", &["-q", "-b", "4096", node]);
    fs::create_dir_all(MOUNT).unwrap();
    run("mount", &[node, MOUNT]);
    let save = |name: &str| -> std::io::Result<()> {
        let path = Path::new(MOUNT).join(name);
        fs::write(&path, pattern(1, 256 << 10))?;
        fs::File::open(&path)?.sync_all()
    };
    save("before").unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| save("meanwhile"));
        std::thread::sleep(Duration::from_secs(2));
        assert!(!waiting.is_finished(), "it waits for another server");
        Nbd::open().unwrap().disconnect(device.index).unwrap();
        waiting.join().unwrap().unwrap_err();
    });
    save("after").unwrap_err();
    run("umount", &[MOUNT]);
}

/// With one connection the kernel only logs that a request takes long. (With several it would give up the connection as dead: see
/// `nbd::Attachment::sockets`.)
#[test]
#[ignore = "runs in a guest kernel"]
fn guest_long_wait() {
    assert_guest();
    let device = MemoryDevice::new(DISK_BYTES);
    let Attached { server, session, mut nbd, index } = attach(device.clone(), 1, false);
    let reading = std::thread::spawn({
        device.set_reads(Policy::Held);
        move || {
            let mut block = [0; 4096];
            fs::File::open(index.path()).unwrap().read_exact(&mut block).map(|()| block)
        }
    });
    // Only the kernel's clock matters here: wait until its timer has found the request twice.
    while kernel_log().matches("Possible stuck request").nth(1).is_none() {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!session.is_over(), "the connection lives");
    device.set_reads(Policy::Now);
    device.release();
    assert_eq!(reading.join().unwrap().unwrap(), [0; 4096]);
    nbd.disconnect(index).unwrap();
    session.wait();
    server.shutdown(GRACE);
}

/// The reason why one connection is the default: the kernel's timer ends the connection of a waiting request, and sends the
/// request again on another.
#[test]
#[ignore = "runs in a guest kernel"]
fn guest_long_wait_4() {
    assert_guest();
    let device = MemoryDevice::new(DISK_BYTES);
    let Attached { server, session, mut nbd, index } = attach(device.clone(), 4, false);
    fs::write(format!("/sys/block/nbd{}/queue/io_timeout", index.0), "1000").unwrap();
    assert_eq!(server.connections(), 4);
    device.set_reads(Policy::Held);
    let reading = std::thread::spawn(move || {
        let mut block = [0; 4096];
        fs::File::open(index.path()).unwrap().read_exact(&mut block).map(|()| block)
    });
    while server.connections() == 4 {
        std::thread::sleep(Duration::from_millis(50));
    }
    device.set_reads(Policy::Now);
    device.release();
    assert_eq!(reading.join().unwrap().unwrap(), [0; 4096]);
    nbd.disconnect(index).unwrap();
    session.wait();
    server.shutdown(GRACE);
}

fn kernel_log() -> String {
    let output = Command::new("dmesg").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
