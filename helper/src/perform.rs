//! The process that performs one operation and ends.

use super::held::Held;
use super::{Look, Outcome, Privileged, Refused, Usage};
use super::{admit, ext4, frozen, kernel, mounting, passing, tuning, wire};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

/// What the process is asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) task: Task,
    /// After this time the process ends itself: a daemon that started it through sudo may not be able to kill it.
    pub(super) deadline_ms: u64,
    /// The user for whom the helper or sudo acts, who may do less than root. None: the caller has root's rights.
    pub(super) caller: Option<u32>,
}

impl Request {
    /// The caller keeps the returned device until the task is done.
    fn admit(&self, fds: &[OwnedFd]) -> Result<Option<Held>, Refused> {
        match (self.caller, &self.task) {
            (Some(caller), Task::Privileged(operation)) => admit::admit(caller, operation, fds),
            (Some(_), Task::Look(_)) | (None, _) => Ok(None),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    Privileged(Privileged),
    Look(Look),
}

/// Has the process at the socket's other end, started with [`super::SUBCOMMAND`], do an operation for a user who is not root.
pub fn begin(
    socket: &UnixStream,
    operation: Privileged,
    caller: u32,
    fds: &[BorrowedFd<'_>],
    deadline_ms: u64,
) -> std::io::Result<()> {
    let task = Task::Privileged(operation);
    wire::send(socket, &Request { task, deadline_ms, caller: Some(caller) }, fds)
}

/// What the daemon's program does under its hidden subcommand [`super::SUBCOMMAND`]: it performs the operation that it gets on standard
/// input, and answers there.
pub fn main() -> ExitCode {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let received = socket.and_then(|socket| {
        let (request, fds) = wire::receive::<Request>(&socket)?;
        Ok((socket, request, fds))
    });
    let (socket, request, fds) = match received {
        Ok(received) => received,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "this is started by itself, with a socket as its standard input: {error}"
            );
            return ExitCode::from(2);
        }
    };
    if let Task::Privileged(Privileged::Freeze { target, mountpoint, hold_ms }) = &request.task {
        match request.admit(&fds) {
            // It ends by its own clock: killing it would leave the file system frozen.
            Ok(_held) => frozen::serve(&socket, target, mountpoint, Duration::from_millis(*hold_ms)),
            // Nobody may be left to hear it.
            Err(refused) => drop(wire::send(&socket, &Err::<Outcome, _>(refused), &[])),
        }
        return ExitCode::SUCCESS;
    }
    if let Task::Privileged(Privileged::PassThrough { mountpoint }) = &request.task {
        // It ends with the daemon, and has nothing that a clock should end.
        passing::serve(&socket, mountpoint, fds, request.caller.unwrap_or(0));
        return ExitCode::SUCCESS;
    }
    end_after(Duration::from_millis(request.deadline_ms));
    if makes_something(&request.task)
        && let Err(error) = end_with(&socket)
    {
        let _ = writeln!(io::stderr(), "the daemon cannot be watched: {error}");
        return ExitCode::FAILURE;
    }
    let (answer, opened) = match request.admit(&fds).and_then(|_held| match request.task {
        Task::Privileged(operation) => {
            perform(&operation, &fds, request.caller).map(|outcome| (outcome, None))
        }
        Task::Look(look) => perform_look(&look),
    }) {
        Ok((outcome, opened)) => (Ok(outcome), opened),
        Err(refused) => (Err(refused), None),
    };
    let opened: Vec<BorrowedFd<'_>> = opened.iter().map(OwnedFd::as_fd).collect();
    match wire::send(&socket, &answer, &opened) {
        Ok(()) => ExitCode::SUCCESS,
        // The caller no longer waits.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Sets an alarm. Its default action ends the process, and with it the tool that it runs.
fn end_after(deadline: Duration) {
    let seconds = deadline.as_secs().saturating_add(1);
    // SAFETY: sets a timer of this process.
    unsafe { libc::alarm(u32::try_from(seconds).unwrap_or(u32::MAX)) };
}

/// Whether the task makes something that must not appear after the daemon that asked has died and the next daemon has found nothing. An
/// mkfs, a check or a resize had better run to its end.
fn makes_something(task: &Task) -> bool {
    matches!(
        task,
        Task::Privileged(
            Privileged::Mount { .. } | Privileged::LoopAttach { .. } | Privileged::NbdAttach { .. }
        )
    )
}

/// Ends this process when nobody is left at the socket's other end.
fn end_with(socket: &UnixStream) -> std::io::Result<()> {
    let fd = socket.as_raw_fd();
    // SAFETY: these take numbers. With O_ASYNC the kernel sends SIGIO when the peer closes, and its default action ends the process.
    // O_ASYNC was not set before; the only other flag that could be lost is O_NONBLOCK, which is not wanted.
    let set = unsafe {
        libc::fcntl(fd, libc::F_SETOWN, libc::getpid()) == 0
            && libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC) == 0
    };
    if !set {
        return Err(std::io::Error::last_os_error());
    }
    // The peer may have gone before the signal was set up.
    let mut peer = [PollFd::new(socket, PollFlags::RDHUP)];
    rustix::event::poll(&mut peer, Some(&Timespec::default()))?;
    let gone = peer[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP);
    if gone { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

fn perform(operation: &Privileged, fds: &[OwnedFd], caller: Option<u32>) -> Result<Outcome, Refused> {
    let done = |result: Result<(), Refused>| result.map(|()| Outcome::Done);
    match operation {
        Privileged::LoadNbd => done(kernel::load_nbd()),
        Privileged::NbdAttach { identifier, size_bytes, server_flags } => {
            kernel::nbd_attach(fds, identifier, *size_bytes, *server_flags).map(Outcome::Device)
        }
        Privileged::NbdReconfigure { target, size_bytes, server_flags } => {
            done(kernel::nbd_reconfigure(fds, target, *size_bytes, *server_flags))
        }
        Privileged::NbdDetach { target, force } => done(kernel::nbd_detach(target, *force)),
        Privileged::LoopAttach { backing, read_only } => {
            kernel::loop_attach(fds.first(), backing, *read_only).map(Outcome::Device)
        }
        Privileged::LoopResize { target } => done(kernel::loop_resize(target)),
        Privileged::LoopDetach { target } => done(kernel::loop_detach(target)),
        Privileged::Tune { target } => tuning::tune(target).map(Outcome::Tuned),
        Privileged::Probe { target } => ext4::probe(target).map(Outcome::Content),
        Privileged::MakeFileSystem { target, label, uid, gid } => {
            done(ext4::make(target, label, *uid, *gid, caller))
        }
        Privileged::Check { target } => done(ext4::check(target, caller)),
        Privileged::Mount { target, read_only } => {
            let at = fds.first().ok_or(Refused::NoDescriptor)?;
            done(mounting::mount(target, at.as_fd(), *read_only, caller))
        }
        Privileged::Unmount { number, mountpoint, lazy } => {
            done(mounting::unmount(*number, mountpoint, *lazy))
        }
        Privileged::Freeze { .. } | Privileged::PassThrough { .. } => {
            unreachable!("these are served, not performed")
        }
        Privileged::Thaw { target, mountpoint } => done(frozen::thaw(target, mountpoint)),
        Privileged::ShutDown { target, mountpoint } => done(frozen::shut_down(target, mountpoint)),
        Privileged::GrowUnmounted { target } => done(ext4::grow_unmounted(target, caller)),
        Privileged::Grow { target } => done(ext4::grow(target)),
    }
}

/// Returns the outcome, and the descriptor that goes along.
fn perform_look(look: &Look) -> Result<(Outcome, Option<OwnedFd>), Refused> {
    match look {
        Look::Sync { target, mountpoint } => {
            let directory = frozen::open(target, mountpoint)?;
            rustix::fs::syncfs(directory).map_err(Refused::system("syncfs", mountpoint))?;
            Ok((Outcome::Done, None))
        }
        Look::Usage { target, mountpoint } => {
            let directory = frozen::open(target, mountpoint)?;
            let figures = rustix::fs::fstatvfs(directory).map_err(Refused::system("statvfs", mountpoint))?;
            let bytes = |blocks: u64| blocks.saturating_mul(figures.f_frsize);
            let usage = Usage {
                total_bytes: bytes(figures.f_blocks),
                used_bytes: bytes(figures.f_blocks.saturating_sub(figures.f_bfree)),
                available_bytes: bytes(figures.f_bavail),
                total_inodes: figures.f_files,
                free_inodes: figures.f_ffree,
            };
            Ok((Outcome::Usage(usage), None))
        }
        Look::OpenDisk { file, read_only } => {
            let access = if *read_only { OFlags::RDONLY } else { OFlags::RDWR };
            let opened = rustix::fs::open(file, access | OFlags::CLOEXEC, Mode::empty());
            Ok((Outcome::Done, Some(opened.map_err(Refused::system("open", file))?)))
        }
    }
}
