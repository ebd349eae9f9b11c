//! Common programs at a drive that is served: libnbd's, nbdkit's, qemu's, fio. Each reads back what it has written, and so does
//! another computer, from the store alone.

use super::{DRIVE_BYTES, Served, assert_elsewhere, assert_same, whole, with_small_drive};
use crate::bench::{Bench, Machine, noise};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Runs a program that must succeed, and returns all its output.
fn peer(program: &str, arguments: &[&str]) -> String {
    // Debian's Python finds Debian's modules. Another Python may come first in the path.
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    let output = command.args(arguments).env("LC_ALL", "C").env("PATH", path).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; see packaging/setup"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}", output.status);
    said
}

/// A mixture of noise, repeated bytes and zeros.
fn content(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; DRIVE_BYTES as usize];
    bytes[1 << 20..5 << 20].copy_from_slice(&noise(seed, 4 << 20));
    bytes[7 << 20..9 << 20].fill(seed as u8);
    bytes[(11 << 20) + 4096..(11 << 20) + 8192].copy_from_slice(&noise(seed + 1, 4096));
    bytes
}

/// Uploads while the drive is still served, as a person does during work, and then checks on another computer.
fn assert_arrives(bench: &Bench, machine: &Machine, served: Served<'_>, model: &[u8]) {
    machine.ok(&["drive", "sync", "d"]);
    drop(served);
    assert_elsewhere(bench, model);
}

#[test]
fn nbdinfo_shows_the_properties_of_a_drive() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let served = Served::begin(&machine);
    let told: Value = serde_json::from_str(&peer("nbdinfo", &["--json", &served.uri])).unwrap();
    assert_eq!(told["protocol"], "newstyle-fixed", "{told}");
    let export = &told["exports"][0];
    let expected = json!({
        "export-size": DRIVE_BYTES,
        "contexts": ["base:allocation"],
        "is_read_only": false,
        "can_cache": true,
        "can_df": true,
        "can_fast_zero": true,
        "can_flush": true,
        "can_fua": true,
        "can_multi_conn": true,
        "can_trim": true,
        "can_zero": true,
        "block_size_minimum": 4096,
        "block_size_preferred": 64 << 10,
        "block_size_maximum": 32 << 20,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&export[name], value, "{name} of {export}");
    }
}

#[test]
fn nbdcopy_copies_both_ways_directly_and_through_nbdkit() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let served = Served::begin(&machine);
    let (source, copy) = (bench.text("source"), bench.text("copy"));
    // The second contents overwrite the first, including data with holes.
    for (seed, through_nbdkit) in [(1, false), (7, true)] {
        let model = content(seed);
        std::fs::write(&source, &model).unwrap();
        if through_nbdkit {
            let plugin = ["-U", "-", "nbd", &format!("uri={}", served.uri), "--run"];
            let nbdkit = |command: String| peer("nbdkit", &[&plugin[..], &[&command]].concat());
            nbdkit(format!("nbdcopy --flush '{source}' \"$uri\""));
            nbdkit(format!("nbdcopy \"$uri\" '{copy}'"));
        } else {
            peer("nbdcopy", &["--connections=4", "--flush", &source, &served.uri]);
            peer("nbdcopy", &["--connections=4", &served.uri, &copy]);
        }
        assert_same(&std::fs::read(&copy).unwrap(), &model);
        assert_same(&whole(&mut served.client()), &model);
    }
    assert_arrives(&bench, &machine, served, &content(7));
}

#[test]
fn qemu_converts_both_ways_and_finds_its_patterns() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let served = Served::begin(&machine);
    let (source, copy, uri) = (bench.text("source"), bench.text("copy"), served.uri.as_str());
    let info: Value = serde_json::from_str(&peer("qemu-img", &["info", "--output=json", uri])).unwrap();
    assert_eq!((&info["virtual-size"], &info["format"]), (&json!(DRIVE_BYTES), &json!("raw")), "{info}");
    let mut model = content(3);
    std::fs::write(&source, &model).unwrap();
    peer("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &source, uri]);
    peer("qemu-img", &["convert", "-f", "raw", "-O", "raw", uri, &copy]);
    assert_same(&std::fs::read(&copy).unwrap(), &model);
    peer("qemu-img", &["compare", "-f", "raw", "-F", "raw", &source, uri]);
    let commands = [
        "write -P 0x5a 2M 192k",
        "write -f -P 0x5b 6M 4k",
        "write -z 2112k 64k",
        "write -z -u 8M 512k",
        "discard 4M 1M",
        "flush",
        "read -P 0x5a 2M 64k",
        "read -P 0 2112k 64k",
        "read -P 0x5a 2176k 64k",
        "read -P 0x5b 6M 4k",
        "read -P 0 8M 512k",
        "read -P 0 4M 1M",
        // qemu turns a request that is not a multiple of the block size into a read, a change and a write.
        "write -P 0x11 513 1000",
        "read -P 0x11 513 1000",
    ];
    let mut fill = |range: std::ops::Range<usize>, byte: u8| model[range].fill(byte);
    fill(2 << 20..(2 << 20) + (192 << 10), 0x5a);
    fill(6 << 20..(6 << 20) + 4096, 0x5b);
    fill(2112 << 10..2176 << 10, 0);
    fill(8 << 20..(8 << 20) + (512 << 10), 0);
    fill(4 << 20..5 << 20, 0);
    fill(513..1513, 0x11);
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    let said = peer("qemu-io", &[&arguments[..], &[uri]].concat());
    // It reports a missing pattern, but still exits successfully.
    assert!(!said.contains("failed"), "{said}");
    assert_arrives(&bench, &machine, served, &model);
}

#[test]
fn fio_verifies_what_it_wrote() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let served = Served::begin(&machine);
    let uri = format!("--uri={}", served.uri);
    let job = [
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--thread",
        "--randseed=7",
        "--iodepth=16",
        "--blockalign=4096",
        "--bs_unaligned=0",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--fsync=32",
    ];
    for (mode, sizes) in [("randwrite", "4k"), ("randwrite", "4k-256k"), ("write", "1M")] {
        let (mode, sizes) = (format!("--rw={mode}"), format!("--bsrange={}", range(sizes)));
        let said = peer("fio", &[&job[..], &[&mode, &sizes]].concat());
        assert!(said.contains("READ: bw="), "it has read what it wrote: {said}");
    }
    let model = whole(&mut served.client());
    assert!(model.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)), "it has written everything");
    assert_arrives(&bench, &machine, served, &model);
}

/// A single size is a range, too.
fn range(sizes: &str) -> String {
    if sizes.contains('-') { sizes.to_owned() } else { format!("{sizes}-{sizes}") }
}

/// Behaves like a client that was not told of block sizes. `d` is its copy of the drive, which it leaves in a file.
const SECTORS: &str = "
import random
random.seed(24)
h.set_request_block_size(False)
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(uri)
size = h.get_size()
d = bytearray(size)

def somewhere(most):
    length = 512 * random.randrange(1, most)
    return 512 * random.randrange((size - (4 << 20) - length) // 512), length

def same():
    for at in range(0, size, 1 << 20):
        assert h.pread(1 << 20, at) == d[at:at + (1 << 20)], at

for step in range(300):
    at, length = somewhere(100)
    if step % 10 < 6:
        d[at:at + length] = random.randbytes(length)
        h.pwrite(bytes(d[at:at + length]), at, nbd.CMD_FLAG_FUA if step % 10 == 0 else 0)
    elif step % 10 < 9:
        # Of whatever alignment: done, and not by the way.
        flags = [0, nbd.CMD_FLAG_FAST_ZERO, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE][step % 10 - 6]
        h.zero(length, at, flags)
        d[at:at + length] = bytes(length)
    else:
        h.trim(length, at)
        first, end = (at + 4095) // 4096 * 4096, (at + length) // 4096 * 4096
        if first < end:
            d[first:end] = bytes(end - first)
        # Whole blocks are zeros; their parts at both ends are zeros or what they were.
        for left, right in [(at, min(first, at + length)), (max(end, at), at + length)]:
            if left < right:
                found = h.pread(right - left, left)
                assert found in (bytes(right - left), bytes(d[left:right]))
                d[left:right] = found
    at, length = somewhere(100)
    assert h.pread(length, at) == d[at:at + length], at
same()

h.zero(1 << 20, 2 << 20, nbd.CMD_FLAG_FAST_ZERO)
h.trim(1 << 20, 3 << 20)
d[2 << 20:4 << 20] = bytes(2 << 20)
h.pwrite(b'x' * 8192, 5 << 20)
d[5 << 20:(5 << 20) + 8192] = b'x' * 8192
at, told = 0, bytearray(size // 512)
while at < size:
    entries = []
    h.block_status(size - at, at, lambda name, offset, found, error: entries.extend(found))
    assert entries
    for length, flags in zip(entries[::2], entries[1::2]):
        assert length > 0 and flags in (0, nbd.STATE_HOLE | nbd.STATE_ZERO), (length, flags)
        assert flags == 0 or not any(d[at:at + length]), 'zeros are zeros'
        told[at // 512:(at + length) // 512] = bytes([flags]) * (length // 512)
        at += length
def all_told(first, end, flags):
    return told[first // 512:end // 512] == bytes([flags]) * ((end - first) // 512)
assert all_told(2 << 20, 4 << 20, 3), 'zeroed and trimmed'
assert all_told(size - (4 << 20) + 4096, size, 3), 'never written'
assert all_told(5 << 20, (5 << 20) + 8192, 0), 'written'

h.flush()
same()
h.shutdown()
open(kept, 'wb').write(d)
";

#[test]
fn nbdsh_uses_512_byte_sectors_anywhere() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let served = Served::begin(&machine);
    let kept = bench.text("kept");
    let names = format!("uri, kept = '{}', '{kept}'", served.uri);
    peer("nbdsh", &["-c", &names, "-c", SECTORS]);
    let model = std::fs::read(&kept).unwrap();
    assert_same(&whole(&mut served.client()), &model);
    assert_arrives(&bench, &machine, served, &model);
}
