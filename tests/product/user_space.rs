//! Clients in user space, which do not behave like a file system: requests of any length at any byte, and no flush, ever.

mod peers;
mod serving;

use crate::bench::{Bench, Machine, Random};
use holdall_nbd::client::{Client, Options};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

const DRIVE_BYTES: u64 = 16 << 20;

/// A drive that is served until this is dropped.
struct Served<'a> {
    machine: &'a Machine,
    /// Its address, for programs that need one.
    uri: String,
    serving: Child,
}

impl<'a> Served<'a> {
    /// Serves it on a socket.
    fn begin(machine: &'a Machine) -> Self {
        let socket = machine.dir.join("nbd.sock");
        let _ = std::fs::remove_file(&socket);
        Self::begin_at(machine, &["--socket", socket.to_str().unwrap()])
    }

    fn begin_at(machine: &'a Machine, place: &[&str]) -> Self {
        let mut command = machine.command(&[&["drive", "serve", "d"], place].concat());
        let mut serving = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let uri = told["uri"].as_str().unwrap_or_else(|| panic!("not served: {line}")).to_owned();
        Served { machine, uri, serving }
    }

    /// Another client of the socket.
    fn client(&self) -> Client {
        Client::connect_unix(&self.machine.dir.join("nbd.sock"), &Options::default()).unwrap()
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.serving.kill().unwrap();
        self.serving.wait().unwrap();
        self.machine.status_when("closed", |status| status["state"] == "Closed");
    }
}

fn with_small_drive(bench: &Bench) -> Machine {
    let machine = bench.machine("a");
    machine.ok(&["drive", "create", "d", "--store", &bench.store(), "--size", "16M", "--no-encryption"]);
    machine
}

fn whole(client: &mut Client) -> Vec<u8> {
    let piece = 1 << 20;
    (0..client.agreement().size_bytes / piece)
        .flat_map(|at| client.read(at * piece, piece as u32).unwrap())
        .collect()
}

fn assert_same(found: &[u8], model: &[u8]) {
    assert_eq!(found.len(), model.len());
    if let Some(at) = (0..model.len()).find(|at| found[*at] != model[*at]) {
        panic!("byte {at} is {}, and should be {}", found[at], model[at]);
    }
}

/// Checks the drive on another computer, from the store alone.
fn assert_elsewhere(bench: &Bench, model: &[u8]) {
    let other = bench.machine("b");
    other.ok(&["drive", "add", "d", "--store", &bench.store()]);
    let served = Served::begin(&other);
    assert_same(&whole(&mut served.client()), model);
    drop(served);
    other.assert_checked();
}

#[test]
fn requests_of_any_length_and_offset_work() {
    let seed = 21;
    println!("seed {seed}");
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let mut random = Random(seed);
    let mut model = vec![0; DRIVE_BYTES as usize];
    for round in 0..3 {
        let served = Served::begin(&machine);
        // Two connections to one drive: each sees at once what was confirmed to the other.
        let mut clients = [served.client(), served.client()];
        for step in 0..600_u64 {
            let client = &mut clients[(step % 2) as usize];
            let len = match random.below(4) {
                // Sectors of 512 bytes, at any position.
                0 => 512,
                1 => 1 + random.below(5000),
                2 => 4096 * (1 + random.below(8)),
                _ => 512 * (1 + random.below(200)),
            };
            let mut at = random.below(DRIVE_BYTES - len);
            if random.below(2) == 0 {
                at = at / 512 * 512;
            }
            let range = at as usize..(at + len) as usize;
            match random.below(8) {
                0..=3 => {
                    let data = random.bytes(len as usize);
                    client.write(at, &data).unwrap();
                    model[range].copy_from_slice(&data);
                }
                4 => {
                    client.zero(at, len as u32, 0).unwrap();
                    model[range].fill(0);
                }
                5 => {
                    // A trim may do anything to parts of blocks. Whole blocks read as zeros.
                    let whole = range.start.next_multiple_of(4096)..range.end / 4096 * 4096;
                    client.trim(at, len as u32).unwrap();
                    if !whole.is_empty() {
                        model[whole].fill(0);
                    }
                }
                _ => assert_same(&client.read(at, len as u32).unwrap(), &model[range]),
            }
        }
        assert_same(&whole(&mut clients[0]), &model);
        drop(clients);
        drop(served);
        if round == 0 {
            // The second round then begins with data that must be pulled.
            machine.ok(&["drive", "sync", "d"]);
            machine.ok(&["daemon", "stop"]);
            std::fs::remove_dir_all(&machine.cache).unwrap();
        }
    }
    machine.ok(&["drive", "sync", "d"]);
    assert_elsewhere(&bench, &model);
}

#[test]
fn uploads_writes_that_are_never_flushed() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let mut random = Random(22);
    let mut model = vec![0; DRIVE_BYTES as usize];
    let mut write = |client: &mut Client, model: &mut Vec<u8>| {
        for _ in 0..50 {
            let at = random.below(DRIVE_BYTES - 8192);
            let data = random.bytes(8192);
            client.write(at, &data).unwrap();
            model[at as usize..at as usize + data.len()].copy_from_slice(&data);
        }
    };
    let served = Served::begin(&machine);
    let mut client = served.client();
    write(&mut client, &mut model);
    assert!(machine.status()["unpushed_bytes"].as_u64().unwrap() > 0);
    // Once it has waited as long as a batch may.
    machine.status_when("uploaded", |status| status["unpushed_bytes"] == 0);
    assert_same(&whole(&mut client), &model);
    // Writes just before the end are not lost either, though the client just disconnects.
    write(&mut client, &mut model);
    drop((client, served));
    machine.ok(&["drive", "sync", "d"]);
    assert_elsewhere(&bench, &model);
}
