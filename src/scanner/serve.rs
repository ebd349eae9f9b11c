//! The process itself: it does what it is told, one scan after the other, and tells of changes in between.

#[cfg(test)]
use super::Blind;
use super::walk::walk;
use super::watch::Watches;
use super::{Order, Scan, Told, Unscannable};
use crate::privileged::{Target, open_mounted};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

/// Where answers go. Held for a line.
type Out = Arc<Mutex<UnixStream>>;

/// What the daemon's program does under its hidden subcommand [`super::SUBCOMMAND`].
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdalld starts this by itself, with a socket as its standard input: {error}");
            ExitCode::from(2)
        }
    }
}

fn serve() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
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
    // A thread of its own: it may wait for the drive, while this one hears that the daemon has gone.
    let (scans, waiting) = mpsc::channel();
    let (watched, told) = (watches.clone(), out);
    thread::spawn(move || scan_all(&target, &mountpoint, &watched, &told, &waiting));
    while let Some(order) = next()? {
        match order {
            Order::Scan(scan) => {
                if scans.send(scan).is_err() {
                    break;
                }
            }
            Order::Forget { path } => watches.forget(&path),
            Order::Begin { .. } => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    // Whatever the other threads wait for.
    std::process::exit(0)
}

fn scan_all(
    target: &Target,
    mountpoint: &Path,
    watches: &Watches,
    out: &Out,
    waiting: &mpsc::Receiver<Scan>,
) {
    for scan in waiting {
        // Opened anew for each: nothing of the drive is in use in between.
        let done = match open_mounted(target, mountpoint) {
            Ok(root) => walk(root.as_fd(), &scan, watches, &mut |told| say(out, &told)),
            Err(error) => {
                let why = Unscannable::Failed(error.to_string());
                say(out, &Told::Refused { id: scan.id, why })
            }
        };
        if done.is_err() {
            return;
        }
    }
}

fn say(out: &Out, told: &Told) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    out.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
}

/// Looks at one path of any file system, for tests: no process, no drive.
#[cfg(test)]
pub(super) fn scan_below(root: &Path, path: &str) -> (Vec<Vec<super::Run>>, Result<Blind, Unscannable>) {
    let root = std::fs::File::open(root).expect("the root is there");
    let scan = Scan { id: 1, path: path.to_owned(), watch: false, drop_pages: false, list: false };
    let (mut found, mut ended) = (Vec::new(), None);
    let watches = Watches::new().expect("there is inotify");
    let walked = walk(root.as_fd(), &scan, &watches, &mut |told| {
        match told {
            Told::Found { files, .. } => found.extend(files),
            Told::Scanned { blind, .. } => ended = Some(Ok(blind)),
            Told::Refused { why, .. } => ended = Some(Err(why)),
            Told::Changed { .. } | Told::Listed { .. } => {}
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
    let scan = Scan { id: 1, path: path.to_owned(), watch: false, drop_pages: false, list: true };
    let (mut listed, mut refused) = (Vec::new(), None);
    let watches = Watches::new().expect("there is inotify");
    let walked = walk(root.as_fd(), &scan, &watches, &mut |told| {
        match told {
            Told::Listed { entries, .. } => listed.extend(entries),
            Told::Refused { why, .. } => refused = Some(why),
            Told::Found { .. } | Told::Scanned { .. } | Told::Changed { .. } => {}
        }
        Ok(())
    });
    walked.expect("telling does not fail");
    refused.map_or(Ok(listed), Err)
}
