//! The keeper: a process that holds the FUSE connections of one-file disks, so that after a daemon was replaced or killed, another one can
//! serve the same mounted drive. [`holdall_fuse::keeper`] defines its contents and its requests; this module starts, finds and ends it.
//!
//! It is the daemon's program under a hidden subcommand, in a session of its own, so that neither the end of a terminal nor the daemon's
//! end also ends it. It also watches the daemon, and starts it again where nobody else does (`supervision`). It is found by its socket in
//! the runtime directory, and identified by the socket's peer credentials, which are those of the listening process: no file holds a
//! process number that could by now be another process's.

use super::{AttachError, Site};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

mod keeping;
mod supervision;
mod watch;

pub use watch::{Restart, Watch};

/// The variable that tells a daemon why the keeper has started it: the one before it no longer answered.
pub const HUNG: &str = "HOLDALL_HUNG";

/// The hidden subcommand of the daemon's program, followed by the socket's path: it calls [`main`].
pub const SUBCOMMAND: &str = "keep";

/// How long a keeper may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// How often, and after what pause, to look for a keeper that watches this process.
const LOOKS: u32 = 4;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The keeper's message once it listens.
const READY: &[u8] = b"ready\n";

/// The daemon's program under [`SUBCOMMAND`]: keeps what it is given on `socket` until it is killed.
pub fn main(socket: &Path) -> ExitCode {
    match keep(socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "the keeper at {}: {error}", socket.display());
            ExitCode::FAILURE
        }
    }
}

fn keep(socket: &Path) -> io::Result<()> {
    match rustix::process::setsid() {
        // A process that a person or systemd started already leads a group.
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    // A keeper that does not answer is dead; two daemons never share a runtime directory.
    if UnixStream::connect(socket).is_err() {
        remove(socket)?;
    }
    let listener = UnixListener::bind(socket)?;
    let mut out = io::stdout().lock();
    out.write_all(READY)?;
    out.flush()?;
    drop(out);
    keeping::Keeping::new(listener).run()
}

/// Starts a keeper, unless there is one, and makes it watch this process if the site wants that.
pub(super) fn ensure(site: &Site) -> Result<(), AttachError> {
    let socket = site.dirs.keeper_socket();
    for _ in 0..LOOKS {
        if UnixStream::connect(&socket).is_err() {
            start(site, &socket).map_err(|error| AttachError::Keeper { error })?;
        }
        if be_watched(site) {
            return Ok(());
        }
        // A keeper that is being killed closes its daemon's connection first, and accepts connections for a moment longer.
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(())
}

/// Makes the keeper watch this process, if there is one. Returns whether that succeeded or is not wanted. A keeper of a version that cannot
/// watch still keeps drives, and replacing it would lose what it keeps.
pub(super) fn be_watched(site: &Site) -> bool {
    let Some(watch) = &site.watch else { return true };
    match watch.begin(&site.dirs.keeper_socket(), &site.runtime) {
        Ok(()) => true,
        Err(error) => {
            tracing::info!(%error, "no keeper watches this service");
            false
        }
    }
}

fn start(site: &Site, socket: &Path) -> io::Result<()> {
    let mut command = Command::new(site.deputy.own_program());
    command.arg(SUBCOMMAND).arg(socket);
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.current_dir("/");
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().map(OwnedFd::from);
    let ready = stdout.ok_or(io::ErrorKind::BrokenPipe.into()).and_then(hear_ready);
    if let Err(error) = ready {
        // It is our child, and useless.
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    // It may end before us, and nobody needs its result then; a thread waits for it as long as we live.
    let collect = std::thread::Builder::new().name("keeper".into());
    collect.spawn(move || child.wait())?;
    Ok(())
}

fn hear_ready(pipe: OwnedFd) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let timeout = Timespec { tv_sec: START_PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    if rustix::event::poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&timeout))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut said = [0; READY.len()];
    std::fs::File::from(pipe).read_exact(&mut said)?;
    if said == READY { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The keeper's process, if one listens.
pub(super) fn process(socket: &Path) -> Option<u32> {
    let peer = UnixStream::connect(socket).ok()?;
    let credentials = rustix::net::sockopt::socket_peercred(&peer).ok()?;
    Some(credentials.pid.as_raw_nonzero().get().cast_unsigned())
}

/// Ends the keeper, which closes what it held, and removes its socket.
pub(super) fn stop(socket: &Path) -> io::Result<()> {
    if let Some(pid) = process(socket).and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        let keeper = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        // It is still the listening process, and so not another process that got its number since.
        if process(socket) == Some(pid.as_raw_nonzero().get().cast_unsigned()) {
            rustix::process::pidfd_send_signal(&keeper, Signal::KILL)?;
            let mut gone = [rustix::event::PollFd::new(&keeper, rustix::event::PollFlags::IN)];
            let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
            rustix::event::poll(&mut gone, Some(&second))?;
        }
    }
    remove(socket)
}

fn remove(socket: &Path) -> io::Result<()> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
