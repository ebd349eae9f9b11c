//! Starts the process that performs an operation, and kills it at its deadline.

use super::perform::{Request, Task};
use super::{Frozen, Look, Outcome, Passing, Privileged, PrivilegedError, Refused, SUBCOMMAND, helper, wire};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io::{self, IsTerminal, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long to wait for a killed process. One that stays waits in the kernel for a device's answer.
const DEATH_PATIENCE: Duration = Duration::from_millis(500);

/// The same for a process that ends itself, by an alarm that counts in whole seconds.
const ALARM_PATIENCE: Duration = Duration::from_millis(2500);

/// Performs operations, each in a process of its own.
#[derive(Clone, Debug)]
pub struct Deputy {
    program: PathBuf,
    /// The name by which this process starts the program. /proc/self/exe is this very program even after an upgrade has replaced its file.
    own: PathBuf,
    sudo: PathBuf,
    rights: Rights,
}

/// How to get root's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    /// This process has them.
    Own,
    /// Through the helper on the system bus, or through sudo where there is no helper.
    Helper {
        /// Whether sudo may ask for a password on this terminal.
        sudo_asks: bool,
    },
    /// Through sudo.
    Sudo {
        /// Whether it may ask for a password on this terminal.
        asks: bool,
    },
}

impl Deputy {
    /// Starts this program again.
    pub fn this_program() -> io::Result<Self> {
        // After an upgrade the name ends like this; sudo should start the new program.
        let program = std::env::current_exe()?.into_os_string().into_vec();
        let program = program.strip_suffix(b" (deleted)").unwrap_or(&program);
        let program = PathBuf::from(std::ffi::OsStr::from_bytes(program));
        Ok(Deputy { own: "/proc/self/exe".into(), ..Self::program(&program) })
    }

    /// Starts another program, which calls [`super::main`] under [`SUBCOMMAND`].
    pub fn program(program: &Path) -> Self {
        let rights = if rustix::process::geteuid().is_root() {
            Rights::Own
        } else {
            Rights::Helper { sudo_asks: io::stderr().is_terminal() }
        };
        Deputy { program: program.to_owned(), own: program.to_owned(), sudo: "sudo".into(), rights }
    }

    /// The name by which this process starts the program for other subcommands.
    pub fn own_program(&self) -> &Path {
        &self.own
    }

    /// The name under which the program is installed: after an upgrade, the new one.
    pub fn installed_program(&self) -> &Path {
        &self.program
    }

    /// Whether operations never stop for a password.
    pub fn is_root(&self) -> bool {
        self.rights == Rights::Own
    }

    /// Whether operations go through the helper, and there is one.
    pub fn has_helper(&self) -> bool {
        matches!(self.rights, Rights::Helper { .. }) && helper::is_known()
    }

    /// Performs an operation with root's rights. `fds` go along where the operation says so. Blocks until it is done or the deadline
    /// passes; after the deadline it may have been done or not.
    pub fn perform(
        &self,
        operation: &Privileged,
        fds: &[BorrowedFd<'_>],
        deadline: Duration,
    ) -> Result<Outcome, PrivilegedError> {
        let doing = operation.describe();
        self.begin(operation.clone(), fds, doing, deadline)?.finish(deadline).map(|(outcome, _)| outcome)
    }

    /// Does an operation that needs no rights but may wait for the drive. Blocks until it is done or the deadline passes.
    pub fn look(&self, look: &Look, deadline: Duration) -> Result<Outcome, PrivilegedError> {
        self.look_and_bring(look, deadline).map(|(outcome, _)| outcome)
    }

    /// Opens the file of a one-file disk that this very process serves. Blocks until it is done or the deadline passes.
    pub fn open_disk(
        &self,
        file: &Path,
        read_only: bool,
        deadline: Duration,
    ) -> Result<OwnedFd, PrivilegedError> {
        let look = Look::OpenDisk { file: file.to_owned(), read_only };
        let (_, opened) = self.look_and_bring(&look, deadline)?;
        opened.into_iter().next().ok_or(PrivilegedError::Refused(Refused::NoDescriptor))
    }

    fn look_and_bring(
        &self,
        look: &Look,
        deadline: Duration,
    ) -> Result<(Outcome, Vec<OwnedFd>), PrivilegedError> {
        self.start(Rights::Own, Task::Look(look.clone()), &[], look.describe(), deadline)?.finish(deadline)
    }

    /// Freezes the target's file system at `mountpoint`, which may take until `deadline`, and keeps it frozen for at most `hold`.
    pub fn freeze(
        &self,
        target: &super::Target,
        mountpoint: &Path,
        hold: Duration,
        deadline: Duration,
    ) -> Result<Frozen, PrivilegedError> {
        let operation = Privileged::Freeze {
            target: target.clone(),
            mountpoint: mountpoint.to_owned(),
            hold_ms: u64::try_from(hold.as_millis()).unwrap_or(u64::MAX),
        };
        let doing = operation.describe();
        let mut process = self.begin(operation, &[], doing, deadline)?;
        // On an error the process is dropped, which hangs up and so thaws.
        process.answer(deadline)?;
        Ok(Frozen::new(process, target.clone(), mountpoint.to_owned()))
    }

    /// Starts the process that registers files of the folder at `mountpoint`, whose open /dev/fuse is `device`. The files lie in
    /// `directory`. It stays until it is dropped.
    pub fn pass_through(
        &self,
        mountpoint: &Path,
        device: BorrowedFd<'_>,
        directory: BorrowedFd<'_>,
        deadline: Duration,
    ) -> Result<Passing, PrivilegedError> {
        let operation = Privileged::PassThrough { mountpoint: mountpoint.to_owned() };
        let doing = operation.describe();
        let mut process = self.begin(operation, &[device, directory], doing, deadline)?;
        process.answer(deadline)?;
        Passing::new(process).map_err(|error| PrivilegedError::NotStarted { doing, error })
    }

    /// Begins an operation through whatever has the rights.
    fn begin(
        &self,
        operation: Privileged,
        fds: &[BorrowedFd<'_>],
        doing: &'static str,
        deadline: Duration,
    ) -> Result<Running, PrivilegedError> {
        let Rights::Helper { sudo_asks } = self.rights else {
            return self.start(self.rights, Task::Privileged(operation), fds, doing, deadline);
        };
        match helper::start(&operation, fds, doing, deadline)? {
            Some(helper::Started { socket, process }) => {
                Ok(Running { socket, process: Some(Process::Helpers(process)), doing, by_sudo: false })
            }
            None => {
                let rights = Rights::Sudo { asks: sudo_asks };
                self.start(rights, Task::Privileged(operation), fds, doing, deadline)
            }
        }
    }

    fn start(
        &self,
        rights: Rights,
        task: Task,
        fds: &[BorrowedFd<'_>],
        doing: &'static str,
        deadline: Duration,
    ) -> Result<Running, PrivilegedError> {
        let failed = |error| PrivilegedError::NotStarted { doing, error };
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = match rights {
            Rights::Own => Command::new(&self.own),
            Rights::Sudo { .. } | Rights::Helper { .. } => Command::new(&self.sudo),
        };
        match rights {
            // It gets a process group of its own, which is killed as one and does not get a terminal's ^C.
            Rights::Own => command.process_group(0),
            Rights::Sudo { asks: true } => command.arg("--").arg(&self.program),
            Rights::Sudo { asks: false } | Rights::Helper { .. } => {
                command.args(["-n", "--"]).arg(&self.program)
            }
        };
        command.arg(SUBCOMMAND).stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| match (rights, error.kind()) {
            (Rights::Sudo { .. }, io::ErrorKind::NotFound) => PrivilegedError::NoSudo { doing },
            _ => failed(error),
        })?;
        // The command still holds the child's end of the socket; close it here, so that the child's death shows as a hang-up.
        drop(command);
        let process = Some(Process::Child(child));
        let running = Running { socket, process, doing, by_sudo: rights != Rights::Own };
        let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        // sudo gets no more done than the helper, and FUSE is asked in this user's name as there.
        let caller = (rights != Rights::Own).then(|| rustix::process::getuid().as_raw());
        match wire::send(&running.socket, &Request { task, deadline_ms, caller }, fds) {
            // The process has gone already; its output will explain why there is no answer.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(running),
            sent => sent.map(|()| running).map_err(failed),
        }
    }
}

/// A process that performs an operation. Dropping this hangs up and lets the process end by itself.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) socket: UnixStream,
    /// None once it has been waited for or left.
    process: Option<Process>,
    doing: &'static str,
    by_sudo: bool,
}

/// The process of an operation, by its parent.
#[derive(Debug)]
enum Process {
    /// Our own child.
    Child(Child),
    /// The helper's: it can be waited for, and ends itself at its deadline.
    Helpers(OwnedFd),
}

impl Process {
    /// Waits until it has ended; false if it has not.
    fn ended(&self, patience: Duration) -> bool {
        match self {
            Process::Child(child) => ended(child, patience),
            Process::Helpers(process) => has_ended(process, patience),
        }
    }

    /// Leaves it; a child is reaped.
    fn leave(self) {
        match self {
            Process::Child(child) => reap(child),
            Process::Helpers(_) => {}
        }
    }
}

impl Running {
    /// Waits for the next answer until the deadline.
    pub(super) fn answer(&mut self, deadline: Duration) -> Result<Outcome, PrivilegedError> {
        self.answer_and_fds(deadline).map(|(outcome, _)| outcome)
    }

    /// The same, with the descriptors that come along.
    fn answer_and_fds(&mut self, deadline: Duration) -> Result<(Outcome, Vec<OwnedFd>), PrivilegedError> {
        let doing = self.doing;
        // Zero would mean no limit.
        let limit = deadline.max(Duration::from_millis(1));
        let failed = |error| PrivilegedError::NotStarted { doing, error };
        self.socket.set_read_timeout(Some(limit)).map_err(failed)?;
        match wire::receive::<Result<Outcome, Refused>>(&self.socket) {
            Ok((answer, fds)) => answer.map(|outcome| (outcome, fds)).map_err(PrivilegedError::Refused),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(PrivilegedError::Deadline { doing, deadline, stuck: false })
            }
            Err(_) => Err(self.died()),
        }
    }

    /// Takes the only answer. Afterwards the process is gone in any case, unless the kernel holds it.
    fn finish(&mut self, deadline: Duration) -> Result<(Outcome, Vec<OwnedFd>), PrivilegedError> {
        match self.answer_and_fds(deadline) {
            Err(PrivilegedError::Deadline { doing, deadline, .. }) => {
                Err(PrivilegedError::Deadline { doing, deadline, stuck: !self.kill() })
            }
            answer => {
                // It has nothing left to do, and what it holds (a device, a socket) must be free before we continue.
                if let Some(process) = self.process.take() {
                    process.ended(DEATH_PATIENCE);
                    process.leave();
                }
                answer
            }
        }
    }

    /// Kills it; false if the kernel does not let it go yet.
    fn kill(&mut self) -> bool {
        let mut child = match self.process.take() {
            Some(Process::Child(child)) => child,
            Some(Process::Helpers(process)) => return has_ended(&process, ALARM_PATIENCE),
            None => return true,
        };
        // If this is refused, as for a process that sudo made root's, its own alarm ends it.
        let _ = match Pid::from_raw(child.id().cast_signed()) {
            Some(group) if !self.by_sudo => rustix::process::kill_process_group(group, Signal::KILL),
            _ => child.kill().map_err(|_| rustix::io::Errno::PERM),
        };
        let gone = ended(&child, DEATH_PATIENCE);
        reap(child);
        gone
    }

    /// Says why there is no answer.
    fn died(&mut self) -> PrivilegedError {
        let mut child = match self.process.take() {
            Some(Process::Child(child)) => child,
            Some(Process::Helpers(_)) | None => {
                let said = "`journalctl -u holdall-helper` tells more".to_owned();
                return PrivilegedError::Died { doing: self.doing, said };
            }
        };
        let stderr = child.stderr.take();
        // It has closed its end, so it has ended or is about to, unless a device keeps it.
        let status = ended(&child, DEATH_PATIENCE).then(|| child.try_wait().ok().flatten()).flatten();
        let how = status.map_or_else(|| "it does not end".to_owned(), |status| status.to_string());
        let said = stderr.map_or_else(|| how.clone(), |pipe| printed(pipe, &how));
        reap(child);
        if self.by_sudo && said.starts_with("sudo:") {
            PrivilegedError::SudoRefused { doing: self.doing, said }
        } else {
            PrivilegedError::Died { doing: self.doing, said }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            // The process sees that nobody is there any longer.
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
            process.leave();
        }
    }
}

/// What the process printed before it ended, without waiting for others that may have the pipe open.
fn printed(pipe: std::process::ChildStderr, otherwise: &str) -> String {
    const PRINTED_BYTES_MAX: u64 = 4096;
    let mut bytes = Vec::new();
    if rustix::io::ioctl_fionbio(&pipe, true).is_ok() {
        // Would-block means that there is nothing more.
        let _ = pipe.take(PRINTED_BYTES_MAX).read_to_end(&mut bytes);
    }
    let said = String::from_utf8_lossy(&bytes).trim().to_owned();
    if said.is_empty() { otherwise.to_owned() } else { said }
}

/// Waits until the process has ended; false if it has not.
pub fn ended(child: &Child, patience: Duration) -> bool {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return false };
    let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return false };
    has_ended(&process, patience)
}

fn has_ended(process: &OwnedFd, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            polled => return polled.is_ok_and(|ready| ready > 0),
        }
    }
}

/// Processes that had not ended when they were left. One that is stuck in the kernel stays as long as its device holds it; it costs an
/// entry here, and no thread.
// Shared because no one component owns a process's end; the lock is held only for system calls that do not wait.
static UNREAPED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Collects the process, now or when the next one is left, and all that have ended since.
pub fn reap(child: Child) {
    let mut unreaped = UNREAPED.lock();
    unreaped.push(child);
    unreaped.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Proof, Target};
    use std::os::unix::fs::PermissionsExt;

    /// A deputy whose sudo is a script.
    fn with_sudo(directory: &Path, script: Option<&str>) -> Deputy {
        let test = std::env::current_exe().unwrap();
        let program = test.parent().unwrap().parent().unwrap().join("examples/attach_daemon");
        assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
        let sudo = directory.join("sudo");
        if let Some(script) = script {
            std::fs::write(&sudo, script).unwrap();
            std::fs::set_permissions(&sudo, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        Deputy { own: program.clone(), program, sudo, rights: Rights::Sudo { asks: false } }
    }

    fn perform(deputy: &Deputy) -> PrivilegedError {
        let proof = Proof::Identifier("holdall:none".into());
        let target = Target { device: "/dev/nbd-none".into(), proof };
        let probe = Privileged::Probe { target };
        loop {
            let error = deputy.perform(&probe, &[], Duration::from_secs(20)).unwrap_err();
            // A process that another test starts at this moment may still have the new script open.
            if !error.to_string().contains("Text file busy") {
                return error;
            }
        }
    }

    #[test]
    fn sudo_asks_for_no_password_and_passes_the_socket_on() {
        let directory = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\n[ \"$1 $2\" = '-n --' ] || exit 9\nshift 2\n\"$@\"\n";
        let error = perform(&with_sudo(directory.path(), Some(script)));
        assert!(matches!(error, PrivilegedError::Refused(Refused::NotOurs { .. })), "{error}");
    }

    #[test]
    fn messages_of_sudo_are_passed_on() {
        let directory = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n";
        let error = perform(&with_sudo(directory.path(), Some(script)));
        assert!(matches!(error, PrivilegedError::SudoRefused { .. }), "{error}");
        assert!(error.to_string().contains("a password is required"));
        assert_eq!(error.failure().code, holdall_api::Code::Privileges);
    }

    #[test]
    fn a_missing_sudo_differs_from_a_process_that_dies() {
        let directory = tempfile::tempdir().unwrap();
        let error = perform(&with_sudo(directory.path(), None));
        assert!(matches!(error, PrivilegedError::NoSudo { .. }), "{error}");
        let error = perform(&with_sudo(directory.path(), Some("#!/bin/sh\nkill -9 $$\n")));
        assert!(matches!(error, PrivilegedError::Died { .. }), "{error}");
    }
}
