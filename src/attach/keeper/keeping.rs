//! The keeper's process: it waits for requests, for the daemon that it watches, and for the next deadline.

use super::super::nbd;
use super::HUNG;
use super::supervision::{Action, Event, Supervision, Why};
use super::watch::{LEAVES, Restart};
use holdall_fuse::keeper::{Kept, Watched};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often to check whether a started daemon has ended: it ends at once, or serves for weeks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The keeper.
pub(super) struct Keeping {
    listener: UnixListener,
    kept: Kept,
    supervision: Supervision,
    daemon: Option<Daemon>,
    /// How to start a daemon, as the last daemon said.
    restart: Option<Restart>,
    /// Started daemons that have not ended yet.
    children: Vec<Child>,
}

/// The watched daemon.
struct Daemon {
    connection: UnixStream,
    /// The descriptor of the process that connected, which stays right even if another process gets its number.
    process: Option<OwnedFd>,
}

impl Keeping {
    pub(super) fn new(listener: UnixListener) -> Self {
        let (kept, supervision) = (Kept::default(), Supervision::new());
        Keeping { listener, kept, supervision, daemon: None, restart: None, children: Vec::new() }
    }

    /// Keeps and watches until the listener fails.
    pub(super) fn run(mut self) -> io::Result<()> {
        loop {
            let (asks, says) = self.wait()?;
            if says {
                self.hear();
            }
            if asks {
                let (peer, _) = self.listener.accept()?;
                if let Some(watched) = self.kept.serve(peer) {
                    self.watch(watched);
                }
            }
            self.reap();
            self.apply(Event::Tick);
        }
    }

    /// Collects the started daemons that have ended. One that ended with success has yielded to another daemon.
    fn reap(&mut self) {
        let mut has_failed = false;
        self.children.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                has_failed |= !status.success();
                false
            }
            Err(_) => false,
        });
        if has_failed {
            self.apply(Event::Failed);
        }
    }

    /// Waits; returns whether there is a request, and whether the daemon has sent something.
    fn wait(&self) -> io::Result<(bool, bool)> {
        // Nothing else reports that a child has ended.
        let look = (self.supervision.is_starting() && !self.children.is_empty())
            .then(|| Instant::now() + LOOK_EVERY);
        let next = self.supervision.next().into_iter().chain(look).min();
        let timeout = next.map(|next| {
            let left = next.saturating_duration_since(Instant::now());
            // To the nanosecond: after a wake-up that is too early, it would only wait again.
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
        let mut waiting = vec![PollFd::new(&self.listener, PollFlags::IN)];
        waiting.extend(self.daemon.as_ref().map(|daemon| PollFd::new(&daemon.connection, PollFlags::IN)));
        match poll(&mut waiting, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok((false, false)),
            polled => polled?,
        };
        let has_come = |waiting: &PollFd<'_>| !waiting.revents().is_empty();
        Ok((has_come(&waiting[0]), waiting.get(1).is_some_and(has_come)))
    }

    fn watch(&mut self, watched: Watched) {
        let Watched { connection, said } = watched;
        let Ok(restart) = serde_json::from_slice::<Restart>(&said) else { return };
        let peer = rustix::net::sockopt::socket_peercred(&connection);
        let process =
            peer.ok().and_then(|peer| rustix::process::pidfd_open(peer.pid, PidfdFlags::empty()).ok());
        if connection.set_nonblocking(true).is_err() {
            return;
        }
        let ours = restart.ours;
        self.daemon = Some(Daemon { connection, process });
        self.restart = Some(restart);
        self.apply(Event::Came { ours });
    }

    fn hear(&mut self) {
        let Some(daemon) = &mut self.daemon else { return };
        let mut said = [0; 64];
        let event = match daemon.connection.read(&mut said) {
            Ok(0) => Event::Died,
            Ok(length) if said[..length].contains(&LEAVES) => Event::Leaves,
            Ok(_) => Event::Answered,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => Event::Died,
        };
        if event == Event::Died {
            self.daemon = None;
        }
        self.apply(event);
    }

    fn apply(&mut self, event: Event) {
        let Some(action) = self.supervision.apply(Instant::now(), event) else { return };
        match action {
            Action::Ask => {
                if let Some(daemon) = &mut self.daemon {
                    // If the socket is full, nobody reads it.
                    let _ = daemon.connection.write(&[super::watch::ALIVE]);
                }
            }
            Action::Kill => {
                let process = self.daemon.as_ref().and_then(|daemon| daemon.process.as_ref());
                if let Some(process) = process {
                    let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
                }
            }
            Action::Start(why) => match self.start(why) {
                Ok(child) => self.children.push(child),
                // The start then times out, and is tried again.
                Err(error) => drop(writeln!(io::stderr(), "the keeper cannot start a daemon: {error}")),
            },
            Action::LetGo => {
                self.kept.let_go();
                let records = self.restart.as_ref().map(|restart| &*restart.records);
                if let Some(Err(error)) = records.map(nbd::fail_waiters) {
                    drop(writeln!(io::stderr(), "the keeper cannot end nbd devices: {error}"));
                }
            }
        }
    }

    fn start(&self, why: Why) -> io::Result<Child> {
        let restart = self.restart.as_ref().ok_or(ErrorKind::NotFound)?;
        let mut command = Command::new(&restart.program);
        let log = || log(restart).map(Stdio::from);
        command.current_dir("/").stdin(Stdio::null()).stdout(log()?).stderr(log()?);
        // The daemon before may have been systemd's; this one is not.
        command
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .env_remove(HUNG);
        if why == Why::Hung {
            command.env(HUNG, "1");
        }
        // SAFETY: between fork and exec only what is async-signal-safe may run: this is one system call.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(())
            });
        }
        command.spawn()
    }
}

fn log(restart: &Restart) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    File::options().create(true).append(true).mode(0o600).custom_flags(flags).open(&restart.log)
}
