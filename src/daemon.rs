//! The daemon: keeps the drives of one user, and serves the API on a Unix socket.
//!
//! One daemon for each runtime directory.
//!
//! How it ends decides what becomes of open drives. Asked to *stop* (`holdall daemon stop`, SIGHUP) it hands them over:
//! the kernel's devices stay, mounts stay mounted and wait, and the next daemon goes on with them; that is an upgrade.
//! Told to *terminate* (SIGTERM, SIGINT) it closes them, as at the end of a session.

use crate::attach::{self, Dirs, Site, prepare_process};
use crate::paths::Paths;
use crate::privileged::{self, Deputy};
use crate::scanner;
use drives::Drives;
use registry::Registry;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use succession::Turn;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

mod activity;
mod awake;
mod diagnostics;
mod drive;
mod drives;
mod endpoints;
mod events;
mod failure;
mod forks;
mod limits;
mod log;
mod logins;
mod openapi;
mod overview;
mod pins;
mod registry;
mod routes;
mod secrets;
mod shutdown;
mod status;
mod stores;
mod succession;
mod systemd;
mod web;
mod work;

pub use openapi::document as openapi;

/// How long systemd's start waits for drives to be taken up: logins wait for it where sessions are to end before the drives
/// do (packaging/systemd/holdall@.service). What takes longer, a check or a store that is slow, goes on afterwards.
const READY_PATIENCE: Duration = Duration::from_secs(20);
/// EX_UNAVAILABLE of sysexits.h: it is of no use to try again, which the units know.
const EXIT_KEPT: u8 = 69;
/// How long what still runs on threads of its own may take at the end: a directory that hangs may keep some for ever.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

/// How the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Open drives wait for the next daemon.
    HandOver,
    /// Open drives are closed.
    Close,
}

/// The program.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().map(|argument| argument.to_string_lossy().into_owned()).as_deref() {
        Some(privileged::SUBCOMMAND) => privileged::main(),
        Some(scanner::SUBCOMMAND) => scanner::main(),
        Some(attach::keeper::SUBCOMMAND) => match arguments.get(1) {
            Some(socket) => attach::keeper::main(Path::new(socket)),
            None => usage(),
        },
        Some(_) => usage(),
        None => run(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: holdalld    keeps this user's drives; holdall starts it where it is needed");
    ExitCode::from(2)
}

fn run() -> ExitCode {
    log::begin();
    // Before any thread is started: threads inherit it.
    for warning in prepare_process() {
        tracing::warn!("{warning}");
    }
    match serve() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("holdalld: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let paths = Paths::from_environment()?;
    registry::private_directory(&paths.runtime)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("holdalld").build()?;
    let served = runtime.block_on(async {
        let taking = succession::take(&paths, systemd::keeps_us());
        let _turn = match systemd::starting(taking).await? {
            Turn::Ours(turn) => turn,
            Turn::Anothers => {
                eprintln!("holdalld: another one is running already");
                return Ok(ExitCode::SUCCESS);
            }
            Turn::Kept => {
                eprintln!("holdalld: systemd runs one for this user already, as another unit");
                return Ok(ExitCode::from(EXIT_KEPT));
            }
        };
        let registry = Registry::open(paths.clone())?;
        let dirs = Dirs::new(&paths.runtime, &paths.state)?;
        let site = Site::new(dirs, Deputy::this_program()?, tokio::runtime::Handle::current());
        let (drives, mut stop) = Drives::new(registry, site)?;
        let listener = bind(&paths.runtime.join("daemon.sock"))?;
        let router = endpoints::router(drives.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        tokio::spawn(drives.limits().clone().follow_network());
        tokio::spawn(drives.limits().clone().follow_clock());
        tokio::spawn(drives.clone().wait_where_told());
        let resuming = tokio::spawn({
            let drives = drives.clone();
            async move { drives.resume_all().await }
        });
        let _ = systemd::starting(tokio::time::timeout(READY_PATIENCE, resuming)).await;
        systemd::started();
        let ending = ended(&mut stop).await?;
        server.abort();
        systemd::stopping(drives.end(ending == Ending::HandOver)).await;
        Ok(ExitCode::SUCCESS)
    });
    runtime.shutdown_timeout(LEFT_BEHIND);
    served
}

async fn ended(stop: &mut tokio::sync::mpsc::Receiver<()>) -> io::Result<Ending> {
    let (mut terminate, mut interrupt, mut hang_up) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    Ok(tokio::select! { biased;
        _ = stop.recv() => Ending::HandOver,
        _ = hang_up.recv() => Ending::HandOver,
        _ = terminate.recv() => Ending::Close,
        _ = interrupt.recv() => Ending::Close,
    })
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    // The lock is ours, so that a socket that is there belongs to nobody.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

/// What all requests share.
type Shared = Arc<Drives>;
