//! Where a drive is served, and what its clients see when it grows.

use super::{DRIVE_BYTES, Served, assert_elsewhere, assert_same, whole, with_small_drive};
use crate::bench::{Bench, failure, noise};
use holdall_nbd::client::{Client, Options};
use std::os::unix::process::CommandExt;

/// The port of an address that ends in one.
fn port(uri: &str) -> u16 {
    uri.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_else(|| panic!("no port in {uri}"))
}

#[test]
fn tcp_is_local_unless_insecure_is_given() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let data = noise(31, 1 << 20);
    for loopback in ["127.0.0.1", "[::1]"] {
        let served = Served::begin_at(&machine, &["--tcp", &format!("{loopback}:0")]);
        assert!(served.uri.starts_with(&format!("nbd://{loopback}:")), "{}", served.uri);
        let address = served.uri.strip_prefix("nbd://").unwrap();
        let mut client = Client::connect_tcp(address, &Options::default()).unwrap();
        client.write(4096, &data).unwrap();
        assert_same(&client.read(4096, 1 << 20).unwrap(), &data);
    }
    // All addresses of this computer, and one of another computer.
    for far in ["0.0.0.0:0", "[::]:0", "192.0.2.1:10809"] {
        let refused = machine.run(&["drive", "serve", "d", "--tcp", far]);
        assert_eq!(refused.status.code(), Some(2), "{far}");
        let refused = failure(&refused);
        assert_eq!(refused["code"], "usage");
        assert!(refused["action"].as_str().unwrap().contains("--insecure"), "{refused}");
        assert_eq!(machine.status()["state"], "Closed", "nothing was begun");
    }
    // Another program listens there.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_eq!(machine.fails(&["drive", "serve", "d", "--tcp", &address]), (1, "failed".into()));
    assert_eq!(machine.status()["state"], "Closed", "nothing was begun");
    // A name could mean any address by the time it is used.
    assert_eq!(machine.fails(&["drive", "serve", "d", "--tcp", "localhost:10809"]), (2, "usage".into()));
    let served = Served::begin_at(&machine, &["--tcp", "0.0.0.0:0", "--insecure"]);
    let mut client = Client::connect_tcp(("127.0.0.1", port(&served.uri)), &Options::default()).unwrap();
    assert_same(&client.read(4096, 1 << 20).unwrap(), &data);
}

#[test]
fn a_served_drive_is_neither_served_again_nor_mounted() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let served = Served::begin(&machine);
    let mut client = served.client();
    client.write(0, &[7; 4096]).unwrap();
    let again = ["drive", "serve", "d", "--tcp", "127.0.0.1:0"];
    let at = machine.mountpoint().display().to_string();
    let mount = ["drive", "open", "d", "--attach", "loop", "--at", &at];
    for refused in [&again[..], &mount] {
        assert_eq!(machine.fails(refused), (1, "state".into()), "{refused:?}");
    }
    // Its clients notice nothing.
    assert_eq!(client.read(0, 4096).unwrap(), [7; 4096]);
    client.flush().unwrap();
}

#[test]
fn a_client_keeps_its_size_when_the_drive_grows() {
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let served = Served::begin(&machine);
    let mut old = served.client();
    let mut model = noise(32, DRIVE_BYTES as usize);
    let piece = 1 << 20;
    let (first, rest) = model.split_at(piece);
    old.write(0, first).unwrap();
    machine.ok(&["drive", "resize", "d", "32M"]);
    // It continues as if nothing had happened.
    assert_eq!(old.agreement().size_bytes, DRIVE_BYTES);
    for (number, part) in rest.chunks(piece).enumerate() {
        old.write((1 + number) as u64 * piece as u64, part).unwrap();
    }
    assert_same(&whole(&mut old), &model);
    // A new client gets the new size, and both use one drive.
    let mut new = served.client();
    assert_eq!(new.agreement().size_bytes, 2 * DRIVE_BYTES);
    model.resize(2 * DRIVE_BYTES as usize, 0);
    assert_same(&whole(&mut new), &model);
    let last = model.len() - piece;
    model[last..].copy_from_slice(&noise(33, piece));
    new.write(last as u64, &model[last..]).unwrap();
    model[..8192].fill(9);
    new.write(0, &[9; 8192]).unwrap();
    assert_same(&old.read(0, 16384).unwrap(), &model[..16384]);
    // A drive only grows, with or without clients.
    assert_eq!(machine.fails(&["drive", "resize", "d", "16M"]), (2, "usage".into()));
    assert_same(&whole(&mut new), &model);
    machine.ok(&["drive", "sync", "d"]);
    drop((old, new, served));
    assert_elsewhere(&bench, &model);
}

/// The server's greeting, which comes first, as a user's process receives it.
fn greeting_as(user: u32, port: u16) -> Vec<u8> {
    let script = r#"exec 3<>"/dev/tcp/127.0.0.1/$1"; head -c 8 <&3"#;
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script, "bash", &port.to_string()]).current_dir("/").uid(user);
    command.stderr(std::process::Stdio::null()).output().unwrap().stdout
}

#[test]
fn refuses_other_local_users_over_loopback() {
    const ANOTHER: u32 = 4242;
    let bench = Bench::new();
    let machine = with_small_drive(&bench);
    let served = Served::begin_at(&machine, &["--tcp", "127.0.0.1:0"]);
    let port = port(&served.uri);
    assert_eq!(greeting_as(ANOTHER, port), b"");
    assert_eq!(greeting_as(0, port), b"NBDMAGIC");
}
