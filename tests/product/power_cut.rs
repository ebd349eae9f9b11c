//! The power fails between a confirmed fsync and the push. Afterwards everything that was confirmed is there, though the store
//! has none of it.
//!
//! There are two ways, since each shows what the other cannot. In User Mode Linux the whole computer goes, with the kernel's nbd
//! and the page cache; but everything that the guest had handed to its disk image survives, synced or not. On this computer, a
//! disk that keeps unsynced data in memory lies under the state and the cache, and loses that data; but this kernel lives on, and
//! must first get rid of the dead drive.
//!
//! The power also fails under a store that is a directory, in the middle of an upload: everything that was reported as uploaded
//! is in it.

use crate::bench::{Bench, Machine, assert_ext4_clean, kill, run, wait_until};
use crate::guest::{self, assert_guest};
use crate::guest_drive::copy_drive;
use holdall_fuse::mount;
use holdall_kernel::loopdev;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const FILES: u32 = 40;

fn content(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(500 + number as usize * 100)
}

/// Writes a file, and syncs its contents and its name.
fn write_synced(directory: &Path, number: u32) -> std::io::Result<()> {
    let mut file = File::create(directory.join(number.to_string()))?;
    file.write_all(&content(number))?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}

/// The number of complete files, counted from the first until one is missing or wrong.
fn whole_files(directory: &Path) -> u32 {
    let whole = |number: &u32| {
        std::fs::read(directory.join(number.to_string())).is_ok_and(|found| found == content(*number))
    };
    (1..=FILES).take_while(whole).count() as u32
}

/// After the cut everything confirmed is there, the file system is clean, and so is what is pushed then.
fn assert_recovered(machine: &Machine, confirmed: u32, image: &Path) {
    // The daemon reopens the drive on its own.
    let status = machine.taken_up();
    assert_eq!(status["state"], "Paused", "{status}");
    assert!(status["unpushed_bytes"].as_u64().unwrap() > 0, "nothing was pushed: {status}");
    let found = whole_files(&machine.mountpoint());
    assert!(found >= confirmed, "{found} files, where {confirmed} were fsynced");
    machine.ok(&["drive", "resume", "d"]);
    machine.close();
    machine.assert_checked();
    copy_drive(machine, image);
    assert_ext4_clean(image);
}

const DISK: &str = "/tmp/disk";

fn start_guest(disk: &Path, pidfile: &Path, test: &str) -> Child {
    let options = ["-k", "nbd", "-d", disk.to_str().unwrap(), "-p", pidfile.to_str().unwrap()];
    guest::command(&options, test).stdout(Stdio::piped()).spawn().expect("sh runs the script")
}

#[test]
fn fsynced_data_survives_a_power_cut_before_any_upload() {
    let bench = Bench::new();
    let (disk, pidfile) = (bench.path("disk"), bench.path("pid"));
    File::create(&disk).unwrap().set_len(3 << 30).unwrap();
    run("mkfs.ext4", &["-q", "-F", disk.to_str().unwrap()]);

    let mut writing = start_guest(&disk, &pidfile, "power_cut::guest_write");
    let mut confirmed = 0;
    for line in BufReader::new(writing.stdout.take().unwrap()).lines() {
        if let Some(number) = line.unwrap().strip_prefix("synced ") {
            confirmed = number.parse().unwrap();
        }
        if confirmed == FILES / 2 {
            let group: i32 = std::fs::read_to_string(&pidfile).unwrap().trim().parse().unwrap();
            let group = rustix::process::Pid::from_raw(group).unwrap();
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
            break;
        }
    }
    assert_eq!(writing.wait().unwrap().code(), Some(125), "the guest ended by the cut, after {confirmed}");
    assert_eq!(confirmed, FILES / 2);

    let checked = start_guest(&disk, &pidfile, "power_cut::guest_check").wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && text.contains("1 passed"), "{text}");
}

fn guest_machine() -> Machine {
    assert_guest();
    std::fs::create_dir_all(DISK).unwrap();
    run("mount", &["/dev/ubda", DISK]);
    let mut machine = Machine::new(Path::new("/tmp/machine"));
    (machine.state, machine.cache) = (Path::new(DISK).join("state"), Path::new(DISK).join("cache"));
    std::fs::create_dir_all(&machine.dir).unwrap();
    machine
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_write() {
    let machine = guest_machine();
    begin(&machine, &format!("file://{DISK}/store"), "nbd");
    for number in 1..=FILES {
        write_synced(&machine.mountpoint(), number).unwrap();
        println!("synced {number}");
    }
}

#[test]
#[ignore = "runs in a guest kernel"]
fn guest_check() {
    assert_recovered(&guest_machine(), FILES / 2, Path::new("/tmp/image"));
}

/// Opens a new drive, of which only the empty file system is pushed.
fn begin(machine: &Machine, store: &str, mode: &str) {
    machine.ok(&["drive", "create", "d", "--store", store, "--size", "64M", "--no-encryption"]);
    let at = machine.mountpoint().display().to_string();
    let opened = machine.ok(&["drive", "open", "d", "--attach", mode, "--at", &at]);
    assert_eq!(opened["attach"], mode);
    machine.ok(&["drive", "sync", "d"]);
    machine.ok(&["drive", "pause", "d"]);
}

/// An ext4 on a loop device over a disk that loses unsynced data.
struct VolatileDisk<'a> {
    bench: &'a Bench,
    power: Option<Child>,
    device: PathBuf,
}

impl<'a> VolatileDisk<'a> {
    /// Starts the disk. The seed chooses `early` in 256 unsynced sectors that survive a cut.
    fn power_on(bench: &'a Bench, seed: u32, early: u32) -> Self {
        let test = std::env::current_exe().unwrap();
        let program = test.parent().unwrap().parent().unwrap().join("examples/volatile_disk");
        assert!(program.exists(), "it is missing: cargo build -p holdall-fuse --examples");
        let fuse = bench.path("disk");
        std::fs::create_dir_all(&fuse).unwrap();
        let mut power = Command::new(program)
            .args([&bench.path("platter"), &fuse])
            .args(["--seed", &seed.to_string(), "--early", &early.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(power.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        let device = loopdev::attach_path(&fuse.join("disk"), false).unwrap();
        VolatileDisk { bench, power: Some(power), device }
    }

    fn mount(&self) {
        let at = self.bench.path("ext4");
        std::fs::create_dir_all(&at).unwrap();
        run("mount", &[self.device.to_str().unwrap(), at.to_str().unwrap()]);
    }

    /// From here on nothing reaches the disk.
    fn cut(&mut self) {
        if let Some(mut power) = self.power.take() {
            power.kill().unwrap();
            power.wait().unwrap();
        }
    }
}

impl Drop for VolatileDisk<'_> {
    fn drop(&mut self) {
        self.cut();
        let _ = Command::new("umount").args(["-q", "-l"]).arg(self.bench.path("ext4")).status();
        let _ = loopdev::detach(&self.device, crate::bench::PATIENCE);
        let _ = mount::clean_up(&self.bench.path("disk"));
    }
}

/// Does what a reboot does to a drive on a loop device: its daemon and keeper are gone, its devices and mounts too, and the
/// runtime directory is empty.
fn reboot(machine: &Machine, daemon: i32) {
    if let Some(keeper) = machine.killed(daemon) {
        kill(keeper.0);
    }
    run("umount", &["-l", &machine.mountpoint().display().to_string()]);
    for disk in std::fs::read_dir(machine.runtime.join("disks")).unwrap() {
        let disk = disk.unwrap().path();
        for device in loopdev::over(&disk.join("disk")).unwrap() {
            let gone = || loopdev::over(&disk.join("disk")).unwrap().is_empty();
            let _ = loopdev::detach(&device, crate::bench::PATIENCE);
            wait_until("the drive's loop device is gone", gone).unwrap();
        }
        mount::clean_up(&disk).unwrap();
    }
    std::fs::remove_dir_all(&machine.runtime).unwrap();
}

#[test]
fn fsynced_data_survives_a_journal_disk_that_loses_unsynced_writes() {
    for (seed, early, until) in [(1, 0, 3), (2, 128, FILES / 2), (3, 230, FILES - 5)] {
        let bench = Bench::new();
        File::create(bench.path("platter")).unwrap().set_len(1 << 30).unwrap();
        let mut power = Some(VolatileDisk::power_on(&bench, seed, early));
        let disk = power.as_mut().unwrap();
        run("mkfs.ext4", &["-q", disk.device.to_str().unwrap()]);
        disk.mount();
        let mut machine = bench.machine("a");
        (machine.state, machine.cache) = (bench.path("ext4/state"), bench.path("ext4/cache"));
        begin(&machine, &bench.store(), "loop");
        let daemon = machine.pid();

        // The writer continues into the cut, which falls anywhere.
        let confirmed = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in
                    (1..=FILES).take_while(|number| write_synced(&machine.mountpoint(), *number).is_ok())
                {
                    confirmed.store(number, Ordering::SeqCst);
                }
            });
            wait_until("some files are written", || confirmed.load(Ordering::SeqCst) >= until).unwrap();
            disk.cut();
        });
        let confirmed = confirmed.into_inner();
        reboot(&machine, daemon);
        drop(power.take());

        power.insert(VolatileDisk::power_on(&bench, seed, early)).mount();
        assert_recovered(&machine, confirmed, &bench.path("image"));
    }
}

/// The number of objects, finished or not.
fn files_in(store: &Path) -> usize {
    let entries = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| if entry.path().is_dir() { files_in(&entry.path()) } else { 1 }).sum()
}

#[test]
fn uploads_survive_a_store_disk_that_loses_unsynced_writes() {
    for (seed, early, until) in [(4, 0, 1), (5, 128, 5), (6, 230, 9)] {
        let bench = Bench::new();
        File::create(bench.path("platter")).unwrap().set_len(1 << 30).unwrap();
        let mut power = Some(VolatileDisk::power_on(&bench, seed, early));
        let disk = power.as_mut().unwrap();
        run("mkfs.ext4", &["-q", disk.device.to_str().unwrap()]);
        disk.mount();
        let (machine, directory) = (bench.machine("a"), bench.path("ext4/store"));
        let store = format!("file://{}", directory.display());
        begin(&machine, &store, "loop");
        machine.ok(&["drive", "resume", "d"]);
        let daemon = machine.pid();
        for number in 1..=until {
            write_synced(&machine.mountpoint(), number).unwrap();
            machine.ok(&["drive", "sync", "d"]);
        }
        let before = files_in(&directory);
        (until + 1..=FILES).for_each(|number| write_synced(&machine.mountpoint(), number).unwrap());
        let syncing = machine.begin(&["drive", "sync", "d"]);
        wait_until("an upload is under way", || files_in(&directory) > before).unwrap();
        disk.cut();
        syncing.abandon();
        reboot(&machine, daemon);
        drop(power.take());

        power.insert(VolatileDisk::power_on(&bench, seed, early)).mount();
        // The store alone, on a computer that has nothing else.
        let other = bench.machine("b");
        other.ok(&["drive", "add", "d", "--store", &store]);
        other.assert_checked();
        other.ok(&["drive", "open", "d", "--read-only", "--at", &other.mountpoint().display().to_string()]);
        let found = whole_files(&other.mountpoint());
        assert!(found >= until, "{found} files, where {until} were uploaded");
        other.close();
        // The drive's own computer continues with everything that was saved.
        machine.taken_up();
        assert_eq!(whole_files(&machine.mountpoint()), FILES);
        machine.close();
        machine.assert_checked();
    }
}
