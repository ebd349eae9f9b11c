//! The daemon: keeps the drives of one user, and serves the API on a Unix socket.
//!
//! One daemon for each state directory (`succession`).
//!
//! How it ends decides what happens to open drives. Asked to *stop* (`holdall daemon stop`, SIGHUP), it hands them over: the kernel's
//! devices stay, mounts stay mounted and wait, and the next daemon continues with them; that is an upgrade. Told to *terminate* (SIGTERM,
//! SIGINT), it closes them, as at the end of a session.

use crate::api::ActivityKind;
use crate::attach::keeper::{Restart, Watch};
use crate::attach::{self, Dirs, Site, keep_memory_private, prepare_process};
use crate::scanner;
use drives::Drives;
use holdall_client::paths::{Holding, Paths};
use holdall_helper::Deputy;
use registry::Registry;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use succession::Turn;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

mod activity;
mod awake;
mod devices;
mod diagnostics;
mod directories;
mod doctor;
mod drive;
mod drives;
mod endpoints;
mod events;
mod failure;
mod folder;
mod folders;
mod forks;
mod largest;
mod limits;
mod log;
mod logins;
mod mounts;
mod openapi;
mod overview;
mod pins;
mod power;
mod registry;
mod routes;
mod secrets;
mod shutdown;
mod status;
mod stores;
mod succession;
mod systemd;
mod watched;
mod web;
mod work;

/// How long systemd's start waits for drives to be taken over: logins wait for it where sessions must end before the drives do
/// (packaging/systemd/holdall@.service). A check or a slow store may take longer, and then continues afterwards.
const READY_PATIENCE: Duration = Duration::from_secs(20);
/// EX_UNAVAILABLE of sysexits.h: trying again is of no use, and the systemd units do not.
const EXIT_KEPT: u8 = 69;
/// How long work on other threads may take at the end: a hanging directory may block some forever.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

/// The message after a daemon that was killed, or that the kernel or a watchdog ended.
const DIED: &str = "The background service crashed and has started again. Saved files are safe; programs that use drives have waited.";

/// The message after a daemon that the keeper killed.
const HUNG: &str = "The background service hung and was started again. Saved files are safe; programs that use drives have waited.";

/// The subcommand that prints the description of the API.
const OPENAPI: &str = "openapi";

/// How the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Open drives wait for the next daemon.
    HandOver,
    /// Open drives are closed.
    Close,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().map(|argument| argument.to_string_lossy().into_owned()).as_deref() {
        Some(holdall_helper::SUBCOMMAND) => holdall_helper::main(),
        Some(scanner::SUBCOMMAND) => scanner::main(),
        Some(attach::keeper::SUBCOMMAND) => match arguments.get(1) {
            Some(socket) => attach::keeper::main(Path::new(socket)),
            None => usage(),
        },
        Some(OPENAPI) => print_openapi(),
        Some(_) => usage(),
        None => run(),
    }
}

fn usage() -> ExitCode {
    let _ = writeln!(
        io::stderr(),
        "usage: holdalld            runs the background service for this user's drives; holdall starts it when needed\n       \
                holdalld openapi    prints the description of its API"
    );
    ExitCode::from(2)
}

fn print_openapi() -> ExitCode {
    match writeln!(io::stdout(), "{:#}", openapi::document()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "holdalld: cannot print the description of the API: {error}");
            ExitCode::FAILURE
        }
        // It is no error if the reader wants no more.
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

fn run() -> ExitCode {
    log::begin();
    // Before any secret is read.
    if let Err(error) = keep_memory_private() {
        tracing::warn!(%error, "if this process crashes, its core dump may contain keys");
    }
    // Before any thread is started: threads inherit it.
    for warning in prepare_process() {
        tracing::warn!("{warning}");
    }
    match serve() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "holdalld: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let paths = Paths::from_environment()?;
    paths.prepare()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("holdalld").build()?;
    let served = runtime.block_on(serve_in(&paths));
    runtime.shutdown_timeout(LEFT_BEHIND);
    served
}

async fn serve_in(paths: &Paths) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let taking = succession::take(paths, systemd::keeps_us());
    let mut claim = match systemd::starting(taking).await? {
        Turn::Ours(claim) => claim,
        Turn::Anothers(holder) => {
            let _ = writeln!(
                io::stderr(),
                "holdalld: {} Commands find it by themselves.",
                runs_already(holder.as_ref())
            );
            return Ok(ExitCode::SUCCESS);
        }
        Turn::Kept(holder) => {
            let _ = writeln!(
                io::stderr(),
                "holdalld: {} systemd keeps it, as another unit.",
                runs_already(holder.as_ref())
            );
            return Ok(ExitCode::from(EXIT_KEPT));
        }
    };
    let registry = Registry::open(paths.clone())?;
    if let Some(former) = claim.died_before() {
        tracing::warn!(pid = former.pid, "the background service before this one died");
        let hung = std::env::var_os(attach::keeper::HUNG).is_some();
        registry.activity().note(None, ActivityKind::Attention, if hung { HUNG } else { DIED });
    }
    let dirs = Dirs::new(claim.disks_at(), &paths.state)?;
    let site = watched_site(dirs, paths)?;
    attach::come_to_keeper(&site);
    let watch = site.watch.clone();
    let (drives, mut stop) = Drives::new(registry, site)?;
    let (sockets, listeners) = listen(paths)?;
    claim.listens_at(sockets)?;
    let router = endpoints::router(drives.clone());
    let serve = |listener| {
        let router = router.clone();
        tokio::spawn(async move { axum::serve(listener, router).await })
    };
    let servers: Vec<_> = listeners.into_iter().map(serve).collect();
    tokio::spawn(drives.limits().clone().follow_network());
    tokio::spawn(drives.limits().clone().follow_clock());
    tokio::spawn(drives.clone().wait_where_told());
    tokio::spawn(drives.clone().follow_mounts());
    tokio::spawn(drives.clone().follow_keeper());
    tokio::spawn({
        let drives = drives.clone();
        async move { drives.devices().begin().await }
    });
    tokio::spawn({
        let drives = drives.clone();
        async move { drives.web().resume(drives.clone()).await }
    });
    let resuming = tokio::spawn({
        let drives = drives.clone();
        async move { drives.resume_all().await }
    });
    let _ = systemd::starting(tokio::time::timeout(READY_PATIENCE, resuming)).await;
    systemd::started();
    let ending = ended(&mut stop).await?;
    servers.iter().for_each(tokio::task::JoinHandle::abort);
    systemd::stopping(drives.end(ending == Ending::HandOver)).await;
    if let Some(watch) = watch {
        watch.leave();
    }
    if let Err(error) = claim.ended() {
        tracing::warn!(%error, "the lock could not be marked: the next service will report a crash");
    }
    Ok(ExitCode::SUCCESS)
}

/// Where drives are attached, in a process that the keeper starts again unless systemd does.
fn watched_site(dirs: Dirs, paths: &Paths) -> io::Result<Site> {
    let deputy = Deputy::this_program()?;
    let (program, log, ours) =
        (deputy.installed_program().to_owned(), paths.daemon_log(), !systemd::keeps_us());
    let watch = Some(Watch::new(Restart { program, log, records: dirs.records(), ours }));
    Ok(Site { watch, ..Site::new(dirs, deputy, tokio::runtime::Handle::current()) })
}

/// The message that another daemon has the state directory, and which.
fn runs_already(holder: Option<&Holding>) -> String {
    match holder.filter(|holder| holder.pid != 0) {
        Some(holder) => {
            let at = holder.sockets.first().map(|at| format!(", at {}", at.display())).unwrap_or_default();
            format!("The background service is already running (process {}{at}).", holder.pid)
        }
        None => "The background service is already running.".to_owned(),
    }
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

/// Listens in the runtime directory, and in the state directory if its file system supports sockets; the socket that lasts longest comes
/// first.
fn listen(paths: &Paths) -> io::Result<(Vec<PathBuf>, Vec<UnixListener>)> {
    let (mut sockets, mut listeners) = (vec![paths.socket()], vec![bind(&paths.socket())?]);
    match bind(&paths.state_socket()) {
        Ok(listener) => {
            sockets.insert(0, paths.state_socket());
            listeners.push(listener);
        }
        Err(error) => {
            tracing::warn!(%error, "no socket can be created in the state directory: commands find this service through its runtime directory only")
        }
    }
    Ok((sockets, listeners))
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    // The lock is ours, so an existing socket belongs to nobody.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    // Others may be able to enter a directory that a person created.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The state that all requests share.
type Shared = Arc<Drives>;
