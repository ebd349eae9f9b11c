//! The server through this crate's own client: what must hold for every peer, and what hostile peers cannot do.

use crate::support::{GRACE, Serving, all_options, error_number, fill};
use holdall_nbd::client::{Client, ClientError, Options};
use holdall_nbd::codec::transmission::{Command, command_flags, extent, flags};
use holdall_nbd::testing::{FileDevice, MemoryDevice, Policy};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const SIZE: u64 = 64 << 20;

#[test]
fn reads_back_writes_with_every_protocol_option() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let (plain, structured) = (Options::default(), Options { structured: true, ..Options::default() });
    for (number, options) in [plain, structured, all_options()].into_iter().enumerate() {
        let mut client = serving.client(&options);
        let data = fill(number as u8 + 1, 300_000 / 4096 * 4096);
        client.write(8192, &data).unwrap();
        assert_eq!(client.read(8192, data.len() as u32).unwrap(), data);
        assert_eq!(client.read(0, 8192).unwrap(), vec![0; 8192]);
        client.flush().unwrap();
        client.write_forced(0, &fill(9, 4096)).unwrap();
        client.zero(0, 4096, command_flags::FAST_ZERO | command_flags::NO_HOLE).unwrap();
        assert_eq!(client.read(0, 4096).unwrap(), vec![0; 4096]);
        client.trim(8192, 4096).unwrap();
        assert_eq!(client.read(8192, 8192).unwrap(), [vec![0; 4096], data[4096..8192].to_vec()].concat());
        client.cache(0, 1 << 20).unwrap();
        client.disconnect().unwrap();
    }
}

#[test]
fn the_largest_request_passes_and_one_more_byte_does_not() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let data = fill(3, 32 << 20);
    for options in [Options::default(), all_options()] {
        let mut client = serving.client(&options);
        client.write(4096, &data).unwrap();
        assert!(client.read(4096, 32 << 20).unwrap() == data);
        let error = client.read(0, (32 << 20) + 4096).unwrap_err();
        assert_eq!(error_number(&error), Some(22));
        assert_eq!(client.read(0, 4096).unwrap(), vec![0; 4096], "the connection goes on");
        client.send_write(0, 0, &vec![0; (32 << 20) + 4096]).ok();
        assert!(client.receive().is_err(), "a payload above the limit ends the connection");
    }
}

#[test]
fn advertises_the_flags_and_sizes_of_an_export() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let client = serving.client(&all_options());
    let told = client.agreement().flags;
    let expected =
        flags::SEND_FLUSH | flags::SEND_FUA | flags::SEND_TRIM | flags::SEND_WRITE_ZEROES | flags::SEND_DF;
    let expected =
        expected | flags::CAN_MULTI_CONN | flags::SEND_CACHE | flags::SEND_FAST_ZERO | flags::HAS_FLAGS;
    assert_eq!(told, expected);
    let sizes = client.agreement().block_sizes.unwrap();
    assert_eq!((client.agreement().size_bytes, sizes.minimum, sizes.maximum), (SIZE, 4096, 32 << 20));
    let plain = serving.client(&Options::default());
    assert_eq!(plain.agreement().flags & flags::SEND_DF, 0, "DF needs structured replies");
    device.set_read_only();
    let read_only = serving.client(&Options::default()).agreement().flags;
    assert_ne!(read_only & flags::READ_ONLY, 0);
    assert_eq!(read_only & (flags::SEND_TRIM | flags::SEND_WRITE_ZEROES), 0);
    let missing = Options { export: "none".into(), ..Options::default() };
    let refused = Client::connect_unix(&serving.socket, &missing);
    assert!(matches!(refused, Err(ClientError::Refused { .. })));
}

#[test]
fn alignment_binds_only_clients_that_know_the_block_size() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let mut told = serving.client(&Options { block_sizes: true, ..Options::default() });
    assert_eq!(error_number(&told.read(512, 512).unwrap_err()), Some(22));
    assert_eq!(error_number(&told.write(512, &[1; 512]).unwrap_err()), Some(22));
    let mut untold = serving.client(&Options::default());
    untold.write(1536, &[7; 512]).unwrap();
    assert_eq!(untold.read(1500, 600).unwrap()[36..548], [7; 512]);
    assert_eq!(told.read(0, 4096).unwrap()[1536..2048], [7; 512]);
}

#[test]
fn a_read_only_device_says_eperm_and_the_end_says_einval() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let mut client = serving.client(&all_options());
    assert_eq!(error_number(&client.write(SIZE, &[0; 4096]).unwrap_err()), Some(22), "never ENOSPC");
    assert_eq!(error_number(&client.read(SIZE - 4096, 8192).unwrap_err()), Some(22));
    device.set_read_only();
    assert_eq!(error_number(&client.write(0, &[1; 4096]).unwrap_err()), Some(1));
    assert_eq!(error_number(&client.trim(0, 4096).unwrap_err()), Some(1));
    assert_eq!(error_number(&client.zero(0, 4096, 0).unwrap_err()), Some(1));
    assert_eq!(client.read(0, 4096).unwrap(), vec![0; 4096]);
    assert_eq!(device.calls()[1], 0, "the device was not asked");
}

#[test]
fn structured_reads_report_holes_unless_unfragmented() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let mut client = serving.client(&all_options());
    client.write(8192, &[5; 4096]).unwrap();
    for (flags, chunks, holes) in [(0, 3, 2), (command_flags::DF, 1, 0)] {
        client.send(Command::Read, flags, 0, 65536).unwrap();
        let data = client.receive().unwrap().1.unwrap();
        assert_eq!((data.chunks, data.holes), (chunks, holes));
        assert_eq!(data.bytes[8192..12288], [5; 4096]);
        assert_eq!(data.bytes.iter().filter(|byte| **byte != 0).count(), 4096);
    }
    let whole = extent::HOLE | extent::ZERO;
    let extents = client.block_status(0, 65536, 0).unwrap();
    assert_eq!(extents, [(8192, whole), (4096, 0), (65536 - 12288, whole)]);
    assert_eq!(client.block_status(8192, 65536, command_flags::REQ_ONE).unwrap(), [(4096, 0)]);
    assert_eq!(error_number(&client.block_status(0, 0, 0).unwrap_err()), Some(22));
    let mut without = serving.client(&Options { structured: true, ..Options::default() });
    assert_eq!(error_number(&without.block_status(0, 4096, 0).unwrap_err()), Some(22));
}

#[test]
fn answers_overtake_each_other() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    for options in [Options::default(), all_options()] {
        let mut client = serving.client(&options);
        device.set_flushes(Policy::Held);
        device.set_reads(Policy::Held);
        let slow_read = client.send(Command::Read, 0, 0, 1 << 20).unwrap();
        let slow_flush = client.send(Command::Flush, 0, 0, 0).unwrap();
        let write = client.send_write(0, 4096, &[1; 4096]).unwrap();
        let (first, outcome) = client.receive().unwrap();
        assert_eq!(first, write, "what waits holds nothing up");
        outcome.unwrap();
        device.release();
        let mut late = [client.receive().unwrap(), client.receive().unwrap()].map(|(cookie, outcome)| {
            outcome.unwrap();
            cookie.0
        });
        late.sort_unstable();
        assert_eq!(late, [slow_read.0, slow_flush.0]);
        device.set_flushes(Policy::Now);
        device.set_reads(Policy::Now);
    }
}

#[test]
fn many_requests_in_flight_are_each_answered_once() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    for policy in [Policy::Now, Policy::Later] {
        device.set_reads(policy);
        device.set_writes(policy);
        let mut client = serving.client(&all_options());
        for round in 0..20u64 {
            let writes =
                (0..50).map(|block| client.send_write(0, block * 4096, &[round as u8; 4096]).unwrap());
            let mut sent: Vec<_> = writes.collect();
            sent.extend((100..150).map(|block| client.send(Command::Read, 0, block * 4096, 4096).unwrap()));
            while client.in_flight() > 0 {
                let (cookie, outcome) = client.receive().unwrap();
                outcome.unwrap();
                let place = sent.iter().position(|other| *other == cookie).expect("answered once");
                sent.swap_remove(place);
            }
            assert!(sent.is_empty());
        }
        assert_eq!(client.read(0, 4096).unwrap(), vec![19; 4096]);
    }
}

#[test]
fn unread_requests_bound_the_requests_in_flight() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let mut client = serving.client(&Options::default());
    device.set_reads(Policy::Held);
    // Few enough for the socket to hold the unread ones, since this client blocks when it sends.
    for _ in 0..300 {
        client.send(Command::Read, 0, 0, 4096).unwrap();
    }
    // 128 have reached the device. The rest stays unread.
    serving.wait_until(|| device.calls()[0] == 128);
    device.set_reads(Policy::Now);
    device.release();
    for _ in 0..300 {
        client.receive().unwrap().1.unwrap();
    }
    assert_eq!(device.calls()[0], 300);
}

#[test]
fn a_client_that_does_not_read_blocks_only_itself() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let mut deaf = serving.client(&Options::default());
    let mut other = serving.client(&Options::default());
    other.write(0, &fill(1, 1 << 20)).unwrap();
    for policy in [Policy::Now, Policy::Later] {
        device.set_reads(policy);
        // 64 MiB of replies that nobody reads: far more than a socket holds.
        for _ in 0..64 {
            deaf.send(Command::Read, 0, 0, 1 << 20).unwrap();
        }
        for _ in 0..50 {
            assert_eq!(other.read(0, 4096).unwrap().len(), 4096);
            other.flush().unwrap();
        }
        for _ in 0..64 {
            assert!(deaf.receive().unwrap().1.unwrap().bytes == fill(1, 1 << 20));
        }
    }
    // And again, until the shutdown throws the client out.
    for _ in 0..64 {
        deaf.send(Command::Read, 0, 0, 1 << 20).unwrap();
    }
    serving.server.shutdown(std::time::Duration::ZERO);
    assert_eq!(serving.server.connections(), 0);
}

#[test]
fn a_failing_read_is_an_error_or_ends_the_connection() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let mut client = serving.client(&Options::default());
    client.write(0, &fill(1, 4 << 20)).unwrap();
    device.break_from(2 << 20);
    let error = client.read(2 << 20, 4096).unwrap_err();
    assert_eq!(error_number(&error), Some(5), "nothing had been sent yet");
    assert!(
        matches!(client.read(0, 4 << 20), Err(ClientError::Io(_))),
        "half a reply is never completed with lies"
    );
    for options in [Options::default(), all_options()] {
        let mut again = serving.client(&options);
        let error = again.read(0, 4 << 20).unwrap_err();
        assert_eq!(error_number(&error), Some(5), "the second time it is an error");
        assert!(again.read(0, 2 << 20).unwrap() == fill(1, 2 << 20));
    }
}

#[test]
fn a_lost_clients_write_lands_before_its_successors_writes() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let mut lost = serving.client(&Options::default());
    device.set_writes(Policy::Held);
    lost.send_write(0, 0, &[1; 4096]).unwrap();
    serving.wait_until(|| device.calls()[1] == 1);
    drop(lost);
    device.set_writes(Policy::Now);
    let mut successor = serving.client(&Options::default());
    serving.wait_until(|| serving.export.gate().orphans() == 1);
    // The repeated write, and a newer write after it.
    successor.send_write(0, 0, &[1; 4096]).unwrap();
    successor.send_write(0, 0, &[2; 4096]).unwrap();
    device.release();
    for _ in 0..2 {
        successor.receive().unwrap().1.unwrap();
    }
    assert_eq!(serving.export.gate().orphans(), 0);
    assert_eq!(device.bytes(0..4096), [2; 4096], "the late first copy did not undo the newer write");
}

#[test]
fn a_shutdown_lets_requests_end_and_joins_everything() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let mut client = serving.client(&Options::default());
    device.set_writes(Policy::Held);
    let sent = client.send_write(0, 0, &[4; 4096]).unwrap();
    serving.wait_until(|| device.calls()[1] == 1);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| serving.server.shutdown(GRACE));
        // From here on no new client is accepted. Then the requests in flight are released.
        serving.wait_until(|| Client::connect_unix(&serving.socket, &Options::default()).is_err());
        device.release();
        let (cookie, outcome) = client.receive().unwrap();
        assert_eq!(cookie, sent);
        outcome.unwrap();
        stopping.join().unwrap();
    });
    assert_eq!(serving.server.connections(), 0);
    assert!(client.flush().is_err());
}

#[test]
fn a_withdrawn_export_is_not_found_and_its_clients_are_gone() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let other = serving.server.export("other", MemoryDevice::new(1 << 20)).unwrap();
    let mut client = serving.client(&Options::default());
    let named = Options { export: "other".into(), ..Options::default() };
    let mut survivor = serving.client(&named);
    serving.server.withdraw(&serving.export, GRACE);
    assert!(client.flush().is_err());
    survivor.flush().unwrap();
    assert_eq!(serving.client(&Options::default()).agreement().size_bytes, 1 << 20, "the default moves on");
    assert_eq!(other.name(), "other");
}

#[test]
fn the_transmission_phase_can_begin_without_a_handshake() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let (ours, theirs) = UnixStream::pair().unwrap();
    let session = serving.server.serve_kernel(&serving.export, vec![theirs.into()]).unwrap();
    let mut client = Client::without_handshake(ours, SIZE);
    client.write(0, &[3; 4096]).unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), [3; 4096]);
    assert_eq!(error_number(&client.read(SIZE, 4096).unwrap_err()), Some(22));
    client.disconnect().unwrap();
    session.wait();
    assert!(session.is_over());
}

#[test]
fn empty_requests_succeed_without_the_device() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    for options in [Options::default(), all_options()] {
        let mut client = serving.client(&options);
        assert!(client.read(SIZE, 0).unwrap().is_empty());
        client.write(0, &[]).unwrap();
        client.trim(4096, 0).unwrap();
        client.zero(4096, 0, 0).unwrap();
        client.cache(0, 0).unwrap();
    }
    assert_eq!(device.calls(), [0; 3]);
}

#[test]
fn a_session_counts_its_live_connections() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let (ours, theirs): (Vec<_>, Vec<_>) = (0..2).map(|_| UnixStream::pair().unwrap()).unzip();
    let theirs = theirs.into_iter().map(Into::into).collect();
    let session = serving.server.serve_kernel(&serving.export, theirs).unwrap();
    assert_eq!(session.live(), 2);
    drop(ours.into_iter().next());
    assert_eq!(session.live(), 0);
}

#[test]
fn reads_of_an_uncached_file_return_the_right_bytes() {
    // Not in /tmp, which may itself be in memory.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("disk");
    let bytes = fill(1, 8 << 20);
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    let serving = Serving::start(FileDevice::open(&path).unwrap());
    for options in [Options::default(), all_options()] {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut client = serving.client(&options);
        let mut sent = std::collections::HashMap::new();
        let check = |client: &mut Client, sent: &mut std::collections::HashMap<_, usize>| {
            let (cookie, outcome) = client.receive().unwrap();
            let (offset, got) = (sent.remove(&cookie).expect("answered once"), outcome.unwrap().bytes);
            assert!(got == bytes[offset..offset + got.len()], "at {offset}");
        };
        for number in 0..600u64 {
            if client.in_flight() == 32 {
                check(&mut client, &mut sent);
            }
            let (offset, len) = (number * 7919 % 2000 * 4096, 4096 << (number % 5) as u32);
            sent.insert(client.send(Command::Read, 0, offset, len).unwrap(), offset as usize);
        }
        while client.in_flight() > 0 {
            check(&mut client, &mut sent);
        }
    }
}

#[test]
fn tcp_works_like_unix() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    serving.server.listen_tcp(listener).unwrap();
    let mut client = Client::connect_tcp(address, &all_options()).unwrap();
    client.write(0, &fill(1, 1 << 20)).unwrap();
    assert!(client.read(0, 1 << 20).unwrap() == fill(1, 1 << 20));
    client.disconnect().unwrap();
}

#[test]
fn a_panicking_device_costs_only_its_connection() {
    let serving = Serving::start(std::sync::Arc::new(crate::support::PanickingDevice));
    let mut first = serving.client(&Options::default());
    assert!(matches!(first.read(0, 4096), Err(ClientError::Io(_))), "inline");
    let mut second = serving.client(&Options::default());
    assert!(matches!(second.write(0, &[0; 4096]), Err(ClientError::Io(_))), "in a future");
    let mut third = serving.client(&Options::default());
    third.flush().unwrap();
    serving.server.shutdown(GRACE);
    assert_eq!(serving.server.connections(), 0);
}

#[test]
fn a_client_that_sends_nonsense_is_cut_off() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let mut greeting = [0; 18];
    // Unknown client flags; a wrong option magic; an option of 4 GiB.
    let magic = *b"IHAVEOPT";
    let endings: [&[u8]; 3] = [
        &[0, 0, 0, 0x80],
        &[0, 0, 0, 3, b'N', b'O', b'T', b'A', b'N', b'O', b'P', b'T', 0, 0, 0, 1, 0, 0, 0, 0],
        &[&[0, 0, 0, 3][..], &magic, &[0, 0, 0, 99, 0xff, 0xff, 0xff, 0xff]].concat(),
    ];
    for ending in endings {
        let mut stream = UnixStream::connect(&serving.socket).unwrap();
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(ending).unwrap();
        let mut rest = Vec::new();
        // A reset counts as an end too.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    serving.wait_until(|| serving.server.connections() == 0);
}
