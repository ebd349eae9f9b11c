//! A disk that loses unsynced data, under an ext4: fsynced data survives a kill, and other data is lost.

use crate::support::child::Program;
use crate::support::{Bench, EXT4, PATIENCE, example, pattern, require};
use holdall_fuse::mount;
use holdall_kernel::loopdev;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const DRIVE_BYTES: u64 = 64 << 20;

struct Machine {
    bench: Bench,
    file: PathBuf,
}

impl Machine {
    fn new() -> Self {
        require(EXT4);
        let bench = Bench::new();
        let file = bench.path("backing");
        File::create(&file).unwrap().set_len(DRIVE_BYTES).unwrap();
        Machine { bench, file }
    }

    fn power_on(&self, options: &[&str]) -> (Program, PathBuf) {
        let disk = self.bench.disk();
        let mut args = vec![self.file.to_str().unwrap(), disk.to_str().unwrap()];
        args.extend_from_slice(options);
        let program = Program::start(&example("volatile_disk"), &args);
        (program, loopdev::attach_path(&self.bench.file(), false).unwrap())
    }

    fn power_off(&self, program: Program, device: &Path) {
        drop(program);
        self.bench.unmount_ext4();
        loopdev::detach(device, PATIENCE).unwrap();
        mount::clean_up(&self.bench.disk()).unwrap();
        self.bench.assert_nothing_left();
    }
}

fn cut_with(options: &[&str]) {
    let machine = Machine::new();
    let (program, device) = machine.power_on(options);
    machine.bench.make_ext4(&device);
    machine.bench.mount_ext4(&device);
    let synced = machine.bench.ext4().join("synced");
    let mut file = File::create(&synced).unwrap();
    file.write_all(&pattern(1, 1 << 20)).unwrap();
    file.sync_all().unwrap();
    drop(file);
    File::open(machine.bench.ext4()).unwrap().sync_all().unwrap();
    // Direct writes reach the disk without a flush after them.
    let unsynced = machine.bench.ext4().join("unsynced");
    let direct =
        File::options().write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT).open(&unsynced);
    let buffer = vec![7_u8; (1 << 20) + 4096];
    let start = buffer.as_ptr().align_offset(4096);
    direct.unwrap().write_all(&buffer[start..start + (1 << 20)]).unwrap();
    machine.power_off(program, &device);

    let (mut program, device) = machine.power_on(options);
    machine.bench.mount_ext4(&device);
    assert!(std::fs::read(&synced).unwrap() == pattern(1, 1 << 20));
    let lost = std::fs::read(&unsynced).unwrap_or_default();
    assert!(lost.len() < 1 << 20 || lost.iter().any(|&byte| byte != 7), "unsynced data survived the cut");
    machine.bench.unmount_ext4();
    crate::support::run("e2fsck", &["-fn", device.to_str().unwrap()]);
    loopdev::detach(&device, PATIENCE).unwrap();
    assert_eq!(program.ask("unmount"), "unmounted");
    program.finished();
    machine.bench.assert_nothing_left();
}

#[test]
fn a_kill_loses_what_was_not_synced() {
    cut_with(&[]);
}

#[test]
fn a_kill_keeps_some_sectors_of_what_was_not_synced() {
    for seed in ["1", "2", "3"] {
        cut_with(&["--seed", seed, "--early", "128"]);
    }
}

#[test]
fn after_a_commanded_cut_writes_fail() {
    let machine = Machine::new();
    let (mut program, device) = machine.power_on(&[]);
    let mut disk = File::options().read(true).write(true).open(&device).unwrap();
    disk.write_all(&pattern(2, 4096)).unwrap();
    disk.sync_all().unwrap();
    assert_eq!(program.ask("unsynced"), "unsynced 0");
    assert_eq!(program.ask("cut"), "cut 0");
    disk.write_all(&pattern(3, 4096)).unwrap();
    assert!(disk.sync_all().is_err());
    drop(disk);
    loopdev::detach(&device, PATIENCE).unwrap();
    assert_eq!(program.ask("unmount"), "unmounted");
    program.finished();
    let bytes = std::fs::read(&machine.file).unwrap();
    assert!(bytes[..4096] == pattern(2, 4096) && bytes[4096..8192].iter().all(|&byte| byte == 0));
    machine.bench.assert_nothing_left();
}
