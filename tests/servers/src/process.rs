//! A server's process.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A server that runs until this is dropped, or its owner has died.
pub struct Process {
    child: Child,
    /// Ends the server and its workers when its input ends: however this program goes, that happens.
    watcher: Child,
    leash: Option<ChildStdin>,
    address: SocketAddr,
}

impl Process {
    /// Starts `command`, which is to listen at `address`, and waits until it does.
    pub fn start(command: &mut Command, address: SocketAddr) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        // A group of its own: servers have workers, which must not outlive it.
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
        process
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.leash = None;
        let _ = self.watcher.wait();
        // Gone already, unless the watcher was killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address that nobody uses now.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A loopback address whose port the system chooses when it is bound.
pub fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}
