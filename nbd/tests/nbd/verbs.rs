//! The less common parts of the protocol, as old and careless clients use them.

use crate::support::{GRACE, Serving, error_number, fill};
use holdall_nbd::client::{Client, Options};
use holdall_nbd::codec::handshake::{
    ClientFlags, EXPORT_NAME_ZEROES, GREETING_BYTES, OPTION_REPLY_HEADER_BYTES, OptionReplyHeader,
    encode_option, option, reply,
};
use holdall_nbd::codec::transmission::{Command, Cookie, Request, command_flags, flags};
use holdall_nbd::testing::{MemoryDevice, Policy};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const SIZE: u64 = 1 << 20;

/// Connects, and exchanges the greeting.
fn greeted(serving: &Serving, flags: ClientFlags) -> UnixStream {
    let mut stream = UnixStream::connect(&serving.socket).unwrap();
    stream.set_read_timeout(Some(GRACE)).unwrap();
    stream.read_exact(&mut [0; GREETING_BYTES]).unwrap();
    stream.write_all(&flags.encode()).unwrap();
    stream
}

fn option_reply(stream: &mut UnixStream) -> OptionReplyHeader {
    let mut header = [0; OPTION_REPLY_HEADER_BYTES];
    stream.read_exact(&mut header).unwrap();
    OptionReplyHeader::decode(&header).unwrap()
}

/// The answer to EXPORT_NAME, without the zeroes after it: the size and the flags.
fn choose_by_name(stream: &mut UnixStream, name: &str) -> (u64, u16) {
    stream.write_all(&encode_option(option::EXPORT_NAME, name.as_bytes())).unwrap();
    let (mut size, mut flags) = ([0; 8], [0; 2]);
    stream.read_exact(&mut size).unwrap();
    stream.read_exact(&mut flags).unwrap();
    (u64::from_be_bytes(size), u16::from_be_bytes(flags))
}

/// A client in the transmission phase, and its socket, for messages that the client cannot send.
fn transmitting(serving: &Serving) -> (Client, UnixStream) {
    let mut stream = greeted(serving, ClientFlags { fixed_newstyle: true, no_zeroes: true });
    choose_by_name(&mut stream, "drive");
    (Client::without_handshake(stream.try_clone().unwrap(), SIZE), stream)
}

fn disconnect() -> [u8; 28] {
    Request { flags: 0, command: Command::Disconnect, cookie: Cookie(0), offset: 0, len: 0 }.encode()
}

fn assert_ended(stream: &mut UnixStream) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{rest:?} where the end was due");
}

#[test]
fn export_name_begins_transmission_with_and_without_zeroes() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let mut seed = 0;
    for (fixed_newstyle, no_zeroes) in [(true, true), (true, false), (false, true), (false, false)] {
        // The empty name stands for the default export.
        for (name, structured) in [("drive", false), ("", true)] {
            let mut stream = greeted(&serving, ClientFlags { fixed_newstyle, no_zeroes });
            if structured {
                stream.write_all(&encode_option(option::STRUCTURED_REPLY, &[])).unwrap();
                assert_eq!(option_reply(&mut stream).kind, reply::ACK);
            }
            let (size, told) = choose_by_name(&mut stream, name);
            assert_eq!(size, SIZE);
            assert_ne!(told & flags::HAS_FLAGS, 0);
            assert_eq!(told & flags::SEND_DF != 0, structured);
            if !no_zeroes {
                let mut zeroes = [1; EXPORT_NAME_ZEROES];
                stream.read_exact(&mut zeroes).unwrap();
                assert_eq!(zeroes, [0; EXPORT_NAME_ZEROES]);
            }
            // The first reply follows at once. This client knows no block size, so it may use any.
            let mut client = Client::without_handshake(stream, SIZE);
            seed += 1;
            client.write(512, &fill(seed, 5000)).unwrap();
            assert_eq!(client.read(512, 5000).unwrap(), fill(seed, 5000));
            client.disconnect().unwrap();
        }
    }
    serving.wait_until(|| serving.server.connections() == 0);
}

#[test]
fn export_name_ends_the_connection_for_unknown_names() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    for name in [&b"other"[..], b"\xff\xfe", &[b'x'; 5000]] {
        let mut stream = greeted(&serving, ClientFlags { fixed_newstyle: true, no_zeroes: true });
        stream.write_all(&encode_option(option::EXPORT_NAME, name)).unwrap();
        assert_ended(&mut stream);
    }
}

#[test]
fn abort_is_acknowledged_and_ends_the_connection() {
    let serving = Serving::start(MemoryDevice::new(SIZE));
    let options: [&[(u32, &[u8])]; 3] =
        [&[], &[(option::STRUCTURED_REPLY, &[])], &[(99, b"what?"), (option::STRUCTURED_REPLY, &[])]];
    for before in options {
        let mut stream = greeted(&serving, ClientFlags { fixed_newstyle: true, no_zeroes: true });
        for (code, data) in before {
            stream.write_all(&encode_option(*code, data)).unwrap();
            let answer = option_reply(&mut stream);
            assert_eq!(answer.code, *code);
            stream.read_exact(&mut vec![0; answer.len as usize]).unwrap();
        }
        stream.write_all(&encode_option(option::ABORT, &[])).unwrap();
        let answer = option_reply(&mut stream);
        assert_eq!((answer.code, answer.kind, answer.len), (option::ABORT, reply::ACK, 0));
        assert_ended(&mut stream);
    }
    // Clients that do not wait for the answer are disconnected, too.
    let mut stream = greeted(&serving, ClientFlags { fixed_newstyle: true, no_zeroes: true });
    stream.write_all(&encode_option(option::ABORT, &[])).unwrap();
    drop(stream);
    serving.wait_until(|| serving.server.connections() == 0);
    serving.client(&Options::default()).flush().unwrap();
}

#[test]
fn fast_zeroes_work_at_any_alignment() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let ranges = [(0, 4096), (8192, 65536), (512, 512), (4000, 200), (4096 - 512, 1024), (777, 20_001)];
    let more = [0, command_flags::NO_HOLE, command_flags::FUA, command_flags::NO_HOLE | command_flags::FUA];
    for policy in [Policy::Now, Policy::Later] {
        device.set_writes(policy);
        for (offset, len) in ranges {
            for flags in more.map(|more| more | command_flags::FAST_ZERO) {
                let (mut client, _) = transmitting(&serving);
                let mut model = fill(3, 1 << 17);
                client.write(0, &model).unwrap();
                client.zero(offset, len, flags).unwrap();
                model[offset as usize..][..len as usize].fill(0);
                assert!(client.read(0, 1 << 17).unwrap() == model, "{len} from {offset} with {flags:#x}");
            }
        }
    }
    // A client that knows the block size must respect it. Otherwise nothing is done.
    let mut told = serving.client(&Options { block_sizes: true, ..Options::default() });
    told.write(0, &fill(4, 1 << 17)).unwrap();
    for (offset, len) in ranges.into_iter().filter(|(offset, len)| offset % 4096 != 0 || len % 4096 != 0) {
        let error = told.zero(offset, len, command_flags::FAST_ZERO).unwrap_err();
        assert_eq!(error_number(&error), Some(22));
    }
    assert!(told.read(0, 1 << 17).unwrap() == fill(4, 1 << 17));
}

#[test]
fn a_disconnect_answers_earlier_requests_and_ignores_later_ones() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let (mut client, mut stream) = transmitting(&serving);
    device.set_writes(Policy::Held);
    device.set_reads(Policy::Held);
    let mut sent = vec![
        client.send_write(0, 0, &[1; 4096]).unwrap(),
        client.send(Command::Read, 0, 1 << 19, 65536).unwrap(),
        client.send_write(command_flags::FUA, 8192, &[2; 4096]).unwrap(),
    ];
    stream.write_all(&disconnect()).unwrap();
    // This may be cut off in the middle, since the server may have stopped reading.
    let behind = Request { flags: 0, command: Command::Write, cookie: Cookie(77), offset: 0, len: 4096 };
    let _ = stream.write_all(&[&behind.encode()[..], &[3; 4096]].concat());
    serving.wait_until(|| device.calls()[..2] == [1, 2]);
    device.release();
    while !sent.is_empty() {
        let (cookie, outcome) = client.receive().unwrap();
        outcome.unwrap();
        sent.remove(sent.iter().position(|other| *other == cookie).expect("answered once"));
    }
    assert!(client.receive().is_err(), "then the end");
    serving.wait_until(|| serving.server.connections() == 0);
    assert_eq!(device.calls()[1], 2);
    assert_eq!(device.bytes(0..4096), [1; 4096]);
    assert_eq!(device.bytes(8192..12288), [2; 4096]);
}

#[test]
fn a_write_that_is_cut_off_never_reaches_the_device() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let header = Request { flags: 0, command: Command::Write, cookie: Cookie(1), offset: 0, len: 8192 };
    // In place of the remaining data comes a disconnect, or nothing.
    for rest in [&disconnect()[..], &[]] {
        let (client, mut stream) = transmitting(&serving);
        stream.write_all(&[&header.encode()[..], &[5; 4096], rest].concat()).unwrap();
        drop((client, stream));
        serving.wait_until(|| serving.server.connections() == 0);
        assert_eq!(device.calls()[1], 0);
    }
}

#[test]
fn a_client_that_never_flushes_reads_its_writes() {
    let device = MemoryDevice::new(SIZE);
    let serving = Serving::start(device.clone());
    let mut model = vec![0; SIZE as usize];
    for round in 0..8u8 {
        device.set_writes(if round % 2 == 0 { Policy::Now } else { Policy::Later });
        let mut client = serving.client(&Options::default());
        assert!(client.read(0, SIZE as u32).unwrap() == model, "in round {round}");
        for step in 0..50 {
            let (offset, len) = ((step * 20_011) % (SIZE as usize - 9000), 1 + step * 173);
            let data = fill(round + step as u8, len);
            client.write(offset as u64, &data).unwrap();
            model[offset..offset + len].copy_from_slice(&data);
        }
        // The client just disconnects.
    }
    assert!(serving.client(&Options::default()).read(0, SIZE as u32).unwrap() == model);
}
