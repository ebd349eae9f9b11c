//! The process itself: it carries out orders, one scan after the other, and reports changes in between. Directories are listed in parallel:
//! a scan may take minutes, and a person who opens a directory waits for the list.

#[cfg(test)]
use super::Blind;
use super::walk::walk;
use super::watch::Watches;
use super::{Order, Scan, Told, Unscannable};
use holdall_helper::{Target, open_mounted};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

/// Lists and outlines that run at once. A listing that lacks names waits for the store; others can be listed meanwhile.
const LISTS_AT_ONCE: usize = 4;

/// Where reports go. Held for a line.
type Out = Arc<Mutex<UnixStream>>;
/// A scan, and whether it was cancelled.
type Asked = (Scan, Arc<AtomicBool>);

/// The daemon's program under its hidden subcommand [`super::SUBCOMMAND`].
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "holdalld starts this by itself, with a socket as its standard input: {error}"
            );
            ExitCode::from(2)
        }
    }
}

fn serve() -> io::Result<()> {
    serve_on(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))?;
    // Does not wait for the other threads, whatever they wait for.
    std::process::exit(0)
}

/// Carries out the orders that come over `socket`, until its other end is closed.
pub(super) fn serve_on(socket: UnixStream) -> io::Result<()> {
    let out: Out = Arc::new(Mutex::new(socket.try_clone()?));
    let mut orders = BufReader::new(socket).lines();
    let mut next = || match orders.next() {
        None => Ok(None),
        Some(line) => serde_json::from_str::<Order>(&line?).map(Some).map_err(io::Error::from),
    };
    let Some(Order::Begin { target, mountpoint }) = next()? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let watches = Arc::new(Watches::new()?);
    let (watched, told) = (watches.clone(), out.clone());
    thread::spawn(move || watched.follow(|paths| say(&told, &Told::Changed { paths }).is_ok()));
    // In separate threads: scans may wait for the drive, while this thread notices that the daemon has gone.
    let eyes = Arc::new(Eyes { target, mountpoint, watches: watches.clone(), out });
    let (scans, lists) = (eyes.look_one_by_one(1), eyes.look_one_by_one(LISTS_AT_ONCE));
    let mut wanted: HashMap<u64, Arc<AtomicBool>> = HashMap::new();
    while let Some(order) = next()? {
        match order {
            Order::Scan(scan) => {
                // Scans that have ended no longer hold their flag.
                wanted.retain(|_, cancelled| Arc::strong_count(cancelled) > 1);
                let cancelled = Arc::new(AtomicBool::new(false));
                wanted.insert(scan.id, cancelled.clone());
                let looking = if scan.list || scan.outline { &lists } else { &scans };
                if looking.send((scan, cancelled)).is_err() {
                    break;
                }
            }
            Order::Cancel { id } => {
                if let Some(cancelled) = wanted.remove(&id) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            }
            Order::Forget { path } => watches.forget(&path),
            Order::Begin { .. } => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

/// Looks at the drive.
struct Eyes {
    target: Target,
    mountpoint: PathBuf,
    watches: Arc<Watches>,
    out: Out,
}

impl Eyes {
    /// Starts as many threads, which look at what is sent to the result.
    fn look_one_by_one(self: &Arc<Self>, threads: usize) -> mpsc::Sender<Asked> {
        let (asked, waiting) = mpsc::channel();
        // Held to wait for the next one.
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let (eyes, waiting) = (self.clone(), waiting.clone());
            thread::spawn(move || {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok(asked) = next() {
                    if eyes.look(&asked).is_err() {
                        return;
                    }
                }
            });
        }
        asked
    }

    fn look(&self, (scan, cancelled): &Asked) -> io::Result<()> {
        if cancelled.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Opened for each scan: in between, nothing of the drive is in use.
        match open_mounted(&self.target, &self.mountpoint) {
            Ok(root) => {
                walk(root.as_fd(), (scan, cancelled), &self.watches, &mut |told| say(&self.out, &told))
            }
            Err(error) => {
                let why = Unscannable::Failed(error.to_string());
                say(&self.out, &Told::Refused { id: scan.id, why })
            }
        }
    }
}

fn say(out: &Out, told: &Told) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    out.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
}

/// Scans one path of any file system, for tests: no process, no drive.
#[cfg(test)]
pub(super) fn scan_below(root: &Path, path: &str) -> (Vec<Vec<super::Run>>, Result<Blind, Unscannable>) {
    let root = std::fs::File::open(root).expect("the root is there");
    let scan =
        Scan { id: 1, path: path.to_owned(), watch: false, drop_pages: false, list: false, outline: false };
    let (mut found, mut ended) = (Vec::new(), None);
    let watches = Watches::new().expect("there is inotify");
    let walked = walk(root.as_fd(), (&scan, &AtomicBool::new(false)), &watches, &mut |told| {
        match told {
            Told::Found { files, .. } => found.extend(files),
            Told::Scanned { blind, .. } => ended = Some(Ok(blind)),
            Told::Refused { why, .. } => ended = Some(Err(why)),
            Told::Changed { .. } | Told::Listed { .. } | Told::Outlined { .. } => {}
        }
        Ok(())
    });
    walked.expect("telling does not fail");
    (found, ended.expect("a scan has an end"))
}

/// Lists one directory of any file system, for tests.
#[cfg(test)]
pub(super) fn list(root: &Path, path: &str) -> Result<Vec<super::Named>, Unscannable> {
    let root = std::fs::File::open(root).expect("the root is there");
    let scan =
        Scan { id: 1, path: path.to_owned(), watch: false, drop_pages: false, list: true, outline: false };
    let (mut listed, mut refused) = (Vec::new(), None);
    let watches = Watches::new().expect("there is inotify");
    let walked = walk(root.as_fd(), (&scan, &AtomicBool::new(false)), &watches, &mut |told| {
        match told {
            Told::Listed { entries, .. } => listed.extend(entries),
            Told::Refused { why, .. } => refused = Some(why),
            Told::Found { .. } | Told::Scanned { .. } | Told::Changed { .. } | Told::Outlined { .. } => {}
        }
        Ok(())
    });
    walked.expect("telling does not fail");
    refused.map_or(Ok(listed), Err)
}
