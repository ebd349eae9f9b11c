//! A server's process.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The first port of a [`free_address`]: above the ports of well-known services.
const FIRST_PORT: u32 = 10_000;

/// A program with at most this many servers never tries the ports of the program with the next process number.
const PORTS_APART: u32 = 101;

/// A server that runs until this is dropped, or its owner has died.
pub struct Process {
    child: Child,
    /// Ends the server and its workers when its input ends, which happens however this program ends.
    watcher: Child,
    leash: Option<ChildStdin>,
    address: SocketAddr,
}

impl Process {
    /// Starts `command`, which must listen at `address`, and waits until it does.
    pub fn start(command: &mut Command, address: SocketAddr) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        // In a process group of its own, since the server's workers must not outlive it.
        let spawned = command.stdin(Stdio::null()).process_group(0).spawn();
        let child =
            spawned.unwrap_or_else(|error| panic!("{name}: {error}; packaging/setup tests installs it"));
        let mut watcher = Command::new("sh")
            .args(["-c", "read -r _; kill -s KILL -- \"-$0\"", &child.id().to_string()])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let leash = watcher.stdin.take();
        let mut process = Self { child, watcher, leash, address };
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(address).is_err() {
            let ended = process.child.try_wait().unwrap();
            assert!(ended.is_none(), "{name} ended: {ended:?}");
            assert!(Instant::now() < deadline, "{name} does not listen at {address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = process.child.try_wait().unwrap();
        assert!(ended.is_none(), "{name} ended, and something else listens at {address}: {ended:?}");
        process
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it and its workers.
    pub fn stop(&mut self) {
        self.leash = None;
        let _ = self.watcher.wait();
        // Already gone, unless the watcher was killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A loopback address that is unused now. Its port is below those that the system assigns: so neither a proxy at [`any_port`] nor
/// the local end of a connection can take it before the server starts.
pub fn free_address() -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end = range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(32_768);
    assert!(end > FIRST_PORT, "the system hands out all ports from {end} on");
    // Programs that run tests at the same time begin far apart.
    let begin = std::process::id().wrapping_mul(PORTS_APART);
    for _ in FIRST_PORT..end {
        let offset = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST_PORT + offset % (end - FIRST_PORT);
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).unwrap()));
        if TcpStream::connect(address).is_err() {
            return address;
        }
    }
    panic!("no port from {FIRST_PORT} to {end} is free");
}

/// A loopback address whose port the system chooses when it is bound.
pub fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}
