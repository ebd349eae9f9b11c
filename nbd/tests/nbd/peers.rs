//! Common clients: libnbd, nbdkit, qemu, fio. If one is missing, the test fails and names its Debian package.

use crate::support::{Serving, fill};
use holdall_nbd::testing::{FileDevice, MemoryDevice, Policy};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SIZE: u64 = 64 << 20;

/// Runs a program that must succeed, and returns its output.
fn run(package: &str, program: &str, arguments: &[&str]) -> String {
    // Debian's Python finds Debian's modules. Another Python may come first in the path.
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").env("PATH", path).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}. apt-get install {package}"));
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}", output.status);
    text
}

fn uri(serving: &Serving) -> String {
    format!("nbd+unix:///drive?socket={}", serving.socket.display())
}

fn file(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn nbdinfo_reads_the_offered_export() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    serving.server.export("second", MemoryDevice::new(1 << 20)).unwrap();
    let text = run("libnbd-bin", "nbdinfo", &[&uri(&serving)]);
    for line in [
        "export-size: 67108864",
        "base:allocation",
        "can_cache: true",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 4096",
        "block_size_maximum: 33554432",
        "is_read_only: false",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let list = run("libnbd-bin", "nbdinfo", &["--list", &uri(&serving)]);
    assert!(list.contains("drive") && list.contains("second"), "{list}");
    serving.client(&crate::support::all_options()).write(1 << 20, &fill(1, 8192)).unwrap();
    let map = run("libnbd-bin", "nbdinfo", &["--map", &uri(&serving)]);
    let runs: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    let expected = [["0", "1048576", "3"], ["1048576", "8192", "0"], ["1056768", "66052096", "3"]];
    assert_eq!(runs, expected);
}

#[test]
fn nbdsh_drives_every_command() {
    for policy in [Policy::Now, Policy::Later] {
        let device = MemoryDevice::new(SIZE);
        device.set_reads(policy);
        device.set_writes(policy);
        device.set_flushes(policy);
        let serving = Serving::start(device);
        let script = "
h.pwrite(b'x' * 65536, 65536)
assert h.pread(65536, 65536) == b'x' * 65536
h.pwrite(b'y' * 4096, 0, nbd.CMD_FLAG_FUA)
h.zero(4096, 65536, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FAST_ZERO)
h.trim(4096, 65536 + 4096)
h.cache(1 << 20, 0)
h.flush()
assert h.pread(8192, 65536) == bytes(8192)
seen = []
h.pread_structured(131072, 0, lambda buf, offset, status, err: seen.append((offset, len(buf), status)))
assert sum(length for _, length, _ in seen) == 131072
assert any(status == nbd.READ_HOLE for _, _, status in seen)
extents = []
h.block_status(1 << 20, 0, lambda context, offset, entries, err: extents.extend(entries))
assert extents[:4] == [4096, 0, 61440 + 8192, 3], extents
bad = [lambda: h.pwrite(b'z' * 4096, h.get_size() - 4096 + 4096), lambda: h.pread(512, 512)]
h.set_strict_mode(0)
for call in bad:
    try:
        call()
        assert False
    except nbd.Error as error:
        assert error.errno == 'EINVAL', error.errno
cookies = [h.aio_pread(nbd.Buffer(4096), block * 4096) for block in range(100)]
while h.aio_in_flight() > 0:
    h.poll(-1)
assert all(h.aio_command_completed(cookie) for cookie in cookies)
";
        let args = ["--base-allocation", "-u", &uri(&serving), "-c", script];
        run("python3-libnbd", "nbdsh", &args);
    }
}

#[test]
fn nbdcopy_copies_both_ways_with_several_connections() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let mut bytes = vec![0; SIZE as usize];
    bytes[1 << 20..9 << 20].copy_from_slice(&fill(1, 8 << 20));
    bytes[40 << 20..41 << 20].copy_from_slice(&fill(2, 1 << 20));
    let source = file(serving.directory.path(), "source", &bytes);
    let copy = serving.directory.path().join("copy");
    run("libnbd-bin", "nbdcopy", &["--connections=4", "--flush", source.to_str().unwrap(), &uri(&serving)]);
    run("libnbd-bin", "nbdcopy", &["--connections=4", &uri(&serving), copy.to_str().unwrap()]);
    assert!(fs::read(copy).unwrap() == bytes);
}

#[test]
fn nbdkits_plugin_forwards_the_export() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    serving.client(&crate::support::all_options()).write(4096, &fill(5, 1 << 20)).unwrap();
    let copy = serving.directory.path().join("copy");
    let socket = format!("socket={}", serving.socket.display());
    let command = format!("nbdcopy \"$uri\" {}", copy.display());
    run("nbdkit libnbd-bin", "nbdkit", &["-U", "-", "nbd", &socket, "export=drive", "--run", &command]);
    let copied = fs::read(copy).unwrap();
    assert_eq!(copied.len() as u64, SIZE);
    assert!(copied[4096..4096 + (1 << 20)] == fill(5, 1 << 20));
}

#[test]
fn qemu_converts_both_ways_and_finds_its_patterns() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let mut bytes = vec![0; SIZE as usize];
    bytes[5 << 20..7 << 20].copy_from_slice(&fill(3, 2 << 20));
    let source = file(serving.directory.path(), "source", &bytes);
    let copy = serving.directory.path().join("copy");
    let (source, copy_name, uri) = (source.to_str().unwrap(), copy.to_str().unwrap(), uri(&serving));
    let info = run("qemu-utils", "qemu-img", &["info", &uri]);
    assert!(info.contains("64 MiB (67108864 bytes)"), "{info}");
    run("qemu-utils", "qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", source, &uri]);
    run("qemu-utils", "qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, copy_name]);
    assert!(fs::read(&copy).unwrap() == bytes);
    run("qemu-utils", "qemu-img", &["compare", "-f", "raw", "-F", "raw", source, &uri]);
    let commands = [
        "write -P 0x5a 64k 192k",
        "write -f -P 0x5b 1M 4k",
        "write -z 128k 64k",
        "write -z -u 20M 8M",
        "discard 30M 4M",
        "flush",
        "read -P 0x5a 64k 64k",
        "read -P 0 128k 64k",
        "read -P 0x5a 192k 64k",
        "read -P 0x5b 1M 4k",
        // qemu turns a request that is not a multiple of the block size into a read, a change and a write.
        "write -P 0x11 513 1000",
        "read -P 0x11 513 1000",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let text = run("qemu-utils", "qemu-io", &arguments);
    assert!(!text.contains("failed"), "{text}");
}

#[test]
fn fio_verifies_what_it_wrote() {
    let memory = MemoryDevice::new(SIZE);
    let later = MemoryDevice::new(SIZE);
    later.set_writes(Policy::Later);
    later.set_reads(Policy::Later);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let devices: [std::sync::Arc<dyn holdall_core::device::BlockDevice>; 3] =
        [memory, later, FileDevice::open(&path).unwrap()];
    for device in devices {
        let serving = Serving::start(device);
        let uri = format!("--uri={}", uri(&serving));
        for (mode, size) in [("randwrite", "4k"), ("randwrite", "4k-256k"), ("write", "1M")] {
            let job = [
                "--name=verify",
                "--ioengine=nbd",
                &uri,
                "--thread",
                "--randseed=7",
                "--iodepth=16",
                "--io_size=32M",
                "--blockalign=4096",
                "--bs_unaligned=0",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--fsync=32",
            ];
            let mode = format!("--rw={mode}");
            let range = format!("--bsrange={size}");
            let block = format!("--bs={size}");
            let size = if size.contains('-') { range } else { block };
            let arguments: Vec<&str> = job.into_iter().chain([mode.as_str(), size.as_str()]).collect();
            run("fio", "fio", &arguments);
        }
    }
}
