//! Finds the daemon, and starts it if none runs.
//!
//! Two commands may find none at the same time and both start one. The daemon settles that by a lock: the one that does not get it exits
//! with 0, and both commands use the other. A socket that nobody listens on (left by a daemon that was killed) counts as none; only the
//! daemon that has the lock may replace it, because a client that unlinked it could hit the socket that another daemon has just bound.

use crate::api::words::why;
use crate::api::{Action, Code, Failure};
use crate::failure::NOTHING_DONE;
use crate::paths::Paths;
use crate::request::request;
use hyper::Method;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

/// A daemon answers before it opens any drive, so this is for a very busy machine.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How often to check whether it answers: a person does not notice, and it is 500 connections at most.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The pause before starting another one, after one has yielded to a daemon that does not answer: that daemon may be about to end.
const AGAIN_INTERVAL: Duration = Duration::from_millis(500);
/// How much of a failed daemon's messages is shown at a prompt.
const LOG_TAIL_LINES: usize = 10;
const LOG_TAIL_BYTES: u64 = 4096;

/// A connection to the daemon, which is started if it does not run.
pub async fn connect_or_start(paths: &Paths) -> Result<UnixStream, Failure> {
    match connect(paths).await? {
        Some(stream) => Ok(stream),
        None => start(paths).await,
    }
}

/// A connection to the daemon, if one runs: in the runtime directory, or wherever the daemon of this state directory says that it listens.
/// An unusable runtime directory is an error only if no daemon runs.
pub async fn connect(paths: &Paths) -> Result<Option<UnixStream>, Failure> {
    let runtime = paths.check_runtime();
    if matches!(runtime, Ok(true))
        && let Some(stream) = reach(&paths.socket()).await?
    {
        return Ok(Some(stream));
    }
    for socket in paths.sockets() {
        if let Ok(Some(stream)) = reach(&socket).await {
            return Ok(Some(stream));
        }
    }
    runtime.map(|_| None).map_err(Failure::from)
}

async fn reach(socket: &Path) -> Result<Option<UnixStream>, Failure> {
    match UnixStream::connect(socket).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(Failure::new(
            Code::Usage,
            format!("The path {} is too long for a socket.", socket.display()),
            NOTHING_DONE,
            "Set HOLDALL_RUNTIME_DIR to a shorter path.",
        )),
        Err(error) => Err(Failure::new(
            Code::Failed,
            format!("Cannot reach the background service at {}: {}.", socket.display(), why(&error)),
            NOTHING_DONE,
            [Action::run(&["holdall", "daemon"]), Action::tell("This shows the cause.")],
        )),
    }
}

/// The daemon's program: the one beside this one, so that versions match; otherwise the one in PATH.
pub fn daemon_program() -> OsString {
    let beside = std::env::current_exe().map(|program| program.with_file_name("holdalld"));
    match beside {
        Ok(path) if path.is_file() => path.into_os_string(),
        Ok(_) | Err(_) => "holdalld".into(),
    }
}

/// The program could not be run.
pub fn cannot_run(error: &io::Error) -> Failure {
    Failure::new(
        Code::NoDaemon,
        format!("Cannot run holdalld: {}.", why(error)),
        NOTHING_DONE,
        "Install holdalld beside holdall, or in PATH.",
    )
}

async fn start(paths: &Paths) -> Result<UnixStream, Failure> {
    paths.prepare()?;
    let log = paths.daemon_log();
    let (mut file, log_start) = open_log(&log).map_err(|error| {
        let message = format!("Cannot write {}: {}.", log.display(), why(&error));
        Failure::new(Code::Failed, message, NOTHING_DONE, "Check that you may write there.")
    })?;
    let mut child = spawn(&file)?;
    let mut spawned_at = Instant::now();
    let deadline = spawned_at + START_LIMIT;
    loop {
        if answers(paths).await?
            && let Some(stream) = connect(paths).await?
        {
            return Ok(stream);
        }
        let ended = child.try_wait().map_err(|error| cannot_run(&error))?;
        if let Some(status) = ended.filter(|status| !status.success()) {
            return Err(did_not_start(&describe(status), &log, &tail(&mut file, log_start)));
        }
        if Instant::now() >= deadline {
            let how = format!("it does not answer after {} s", START_LIMIT.as_secs());
            return Err(did_not_start(&how, &log, &tail(&mut file, log_start)));
        }
        if ended.is_some() && spawned_at.elapsed() >= AGAIN_INTERVAL {
            child = spawn(&file)?;
            spawned_at = Instant::now();
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// Whether GET /v1/daemon is answered. A daemon that is just starting or ending does not count.
async fn answers(paths: &Paths) -> Result<bool, Failure> {
    let Some(stream) = connect(paths).await? else {
        return Ok(false);
    };
    let answer = request(stream, Method::GET, "/v1/daemon", None);
    Ok(matches!(tokio::time::timeout(START_LIMIT, answer).await, Ok(Ok(_))))
}

/// The log, opened for appending, and its present end.
fn open_log(path: &Path) -> io::Result<(File, u64)> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file =
        OpenOptions::new().create(true).append(true).read(true).mode(0o600).custom_flags(flags).open(path)?;
    let end = file.metadata()?.len();
    Ok((file, end))
}

fn spawn(log: &File) -> Result<Child, Failure> {
    let log = || log.try_clone().map(Stdio::from).map_err(|error| cannot_run(&error));
    let mut command = Command::new(daemon_program());
    // Its working directory is /, so that it keeps no directory busy, which may be on a drive.
    command.current_dir("/").stdin(Stdio::null()).stdout(log()?).stderr(log()?);
    // A service that runs this command may be systemd's; the daemon is not.
    command.env_remove("NOTIFY_SOCKET");
    // SAFETY: between fork and exec only what is async-signal-safe may run: these are two system calls.
    unsafe {
        command.pre_exec(leave_everything_behind);
    }
    command.spawn().map_err(|error| cannot_run(&error))
}

/// Makes the child independent of the command: of its terminal (Ctrl-C, hang-up), and of files that it inherited, such as a script's lock,
/// which would be held for as long as the daemon runs.
fn leave_everything_behind() -> io::Result<()> {
    const FIRST_BEYOND_STDIO: libc::c_uint = 3;
    rustix::process::setsid()?;
    // SAFETY: it takes numbers only; exec closes the descriptors that are marked, as if they had been opened so. Linux before 5.11 refuses
    // the flag; then they are inherited, which does no harm to the daemon.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST_BEYOND_STDIO,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
    Ok(())
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it exited with {code}"),
        None => format!("it was killed, {status}"),
    }
}

fn did_not_start(how: &str, log: &Path, tail: &str) -> Failure {
    let said = if tail.is_empty() { String::new() } else { format!(" It said:\n{tail}") };
    Failure::new(
        Code::NoDaemon,
        format!("The background service did not start: {how}.{said}"),
        "Nothing was done. Your changes are safe on this computer.",
        format!("Fix the cause, then start it again. Its log is {}.", log.display()),
    )
}

/// The last lines that were logged since `start`, indented. A log that cannot be read must not hide that the daemon did not start.
fn tail(file: &mut File, start: u64) -> String {
    let text = String::from_utf8_lossy(&tail_bytes(file, start).unwrap_or_default()).into_owned();
    // Its notes would bury the error that ended it.
    let is_a_note = |line: &&str| [" INFO ", " WARN "].iter().any(|level| line.contains(level));
    let (notes, said): (Vec<&str>, Vec<&str>) = text.lines().partition(is_a_note);
    let lines = if said.is_empty() { notes } else { said };
    let last = lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].iter().map(|line| format!("    {line}"));
    last.collect::<Vec<_>>().join("\n")
}

fn tail_bytes(file: &mut File, start: u64) -> io::Result<Vec<u8>> {
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.max(end.saturating_sub(LOG_TAIL_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
