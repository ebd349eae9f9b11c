//! The entry for fuzzing: arbitrary bytes must never make the server panic.

use super::{MemoryDevice, Policy};
use crate::server::Server;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::time::Duration;

/// The device is sparse, and so large that offsets of all magnitudes hit it.
const DEVICE_BYTES: u64 = 1 << 40;
/// The most blocks it will hold: 16 MiB.
const BLOCKS_MAX: usize = 4096;

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime starts")
});

/// Sends `input` to a server as a client would. The first byte decides how: with the handshake, or in the transmission phase at once, with
/// answers now or later. Reads and drops all replies until the server closes. Returns how many bytes the server replied. Panics only if the
/// server did.
pub fn feed(input: &[u8]) -> u64 {
    let (choice, input) = input.split_first().map_or((0, input), |(first, rest)| (*first, rest));
    let device = MemoryDevice::bounded(DEVICE_BYTES, BLOCKS_MAX);
    if choice & 2 != 0 {
        device.set_reads(Policy::Later);
        device.set_writes(Policy::Later);
        device.set_flushes(Policy::Later);
    }
    let server = Server::new(RUNTIME.handle().clone());
    let export = server.export("fuzz", device).expect("the name is free");
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let session = if choice & 1 == 0 {
        server.serve_socket(theirs.into()).expect("a thread")
    } else {
        server.serve_kernel(&export, vec![theirs.into()]).expect("a thread")
    };
    let replied = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The server may close before it has read everything.
            let _ = (&ours).write_all(input);
            let _ = ours.shutdown(std::net::Shutdown::Write);
        });
        count(&ours)
    });
    session.wait();
    server.shutdown(Duration::ZERO);
    assert!(!session.panicked(), "the server panicked");
    replied
}

fn count(mut socket: &UnixStream) -> u64 {
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    while let Ok(count @ 1..) = socket.read(&mut buffer) {
        total += count as u64;
    }
    total
}
