//! One app for each user and daemon: starting it again shows the window of the one that runs.
//!
//! A lock decides which process is the app, because it is released with the process, however that ends. A socket beside it takes the
//! messages of processes that start later. Both are in the runtime directory, which only this user can change.

use holdall_client::paths::Paths;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// The message of a process that starts later.
const SHOW: &[u8] = b"show";
/// The running app binds its socket right after it gets the lock; on a busy machine this may take a while.
const BINDS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What this process is.
#[derive(Debug)]
pub enum Instance {
    /// It is the app.
    First(First),
    /// The app is running already, and has got this process's message.
    Other,
}

/// Holds the lock of the app. Dropping it lets another process become the app.
#[derive(Debug)]
pub struct First {
    listener: UnixListener,
    _lock: File,
}

impl Instance {
    /// Finds out which. A later process asks for the window if `show` is set.
    pub fn claim(paths: &Paths, show: bool) -> io::Result<Instance> {
        let socket = paths.runtime.join("app.sock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(paths.runtime.join("app.lock"))?;
        match lock.try_lock() {
            Ok(()) => {
                // Nobody has the lock, so nobody listens on an old socket.
                match std::fs::remove_file(&socket) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                let listener = UnixListener::bind(&socket)?;
                Ok(Instance::First(First { listener, _lock: lock }))
            }
            Err(TryLockError::WouldBlock) => tell(&socket, show).map(|()| Instance::Other),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl First {
    /// Calls `show` whenever the window is asked for, as long as the process lives.
    pub fn hear(self, show: impl Fn()) {
        for stream in self.listener.incoming().flatten() {
            if asks(stream) {
                show();
            }
        }
    }
}

/// A client that sends nothing must not hold up others for long.
fn asks(stream: UnixStream) -> bool {
    let mut said = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.take(SHOW.len() as u64).read_to_end(&mut said).is_ok()
        && said == SHOW
}

fn tell(socket: &Path, show: bool) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(mut stream) => return if show { stream.write_all(SHOW) } else { Ok(()) },
            Err(_) if begun.elapsed() < BINDS_WITHIN => std::thread::sleep(LOOK_INTERVAL),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_second_app_shows_the_first_ones_window() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().to_owned();
        let paths = Paths { state: runtime.clone(), cache: runtime.clone(), runtime };
        let Instance::First(first) = Instance::claim(&paths, true).unwrap() else { panic!("nobody is here") };
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || first.hear(|| tell.send(()).unwrap()));
        // A process in the background only sees that the app is running.
        assert!(matches!(Instance::claim(&paths, false).unwrap(), Instance::Other));
        assert!(matches!(Instance::claim(&paths, true).unwrap(), Instance::Other));
        told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn leftovers_of_a_dead_app_do_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().to_owned();
        let paths = Paths { state: runtime.clone(), cache: runtime.clone(), runtime };
        for _ in 0..2 {
            let claimed = Instance::claim(&paths, true).unwrap();
            assert!(matches!(claimed, Instance::First(_)));
        }
    }
}
