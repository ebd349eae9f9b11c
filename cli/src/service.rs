//! The daemon itself: run in the foreground, stopped, and checked.

use crate::api::{Action, Code, DaemonStatus, Diagnosis, Stopping};
use crate::client::Client;
use crate::drive::Session;
use crate::failure::CliError;
use crate::output::Output;
use crate::progress::Reporter;
use crate::show;
use holdall_client::failure::not_understood;
use holdall_client::paths::Paths;
use holdall_client::start;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A daemon that stops closes what it can; it does not wait for the network.
const STOP_LIMIT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Becomes holdalld, in the foreground. Returns only if that fails.
pub fn become_daemon() -> CliError {
    become_program(&mut Command::new(start::daemon_program()))
}

/// Becomes a holdalld that prints the description of its API. Returns only if that fails.
pub fn print_openapi() -> CliError {
    become_program(Command::new(start::daemon_program()).arg("openapi"))
}

fn become_program(command: &mut Command) -> CliError {
    CliError::Failed(start::cannot_run(&command.exec()))
}

/// Stops the daemon and waits until its process has ended, so that the next command does not meet it.
pub async fn stop(paths: &Paths, output: Output) -> Result<(), CliError> {
    if start::connect(paths).await?.is_none() {
        return output.done(&json!({}), "The background service is not running");
    }
    let reporter = Reporter::new(output.json);
    let client = Client::new(paths, &reporter);
    let daemon: DaemonStatus = serde_json::from_value(client.get("/v1/daemon").await?)
        .map_err(|error| not_understood(&error.to_string()))?;
    // Taken before the request to stop: afterwards the number could be another process's.
    let process = process(daemon.pid);
    let value = match client.post("/v1/daemon/stop", &json!({})).await {
        // A daemon with nothing to close may end before its answer is sent; below it is checked whether it has ended.
        Err(CliError::Failed(failure)) if failure.code == Code::NoDaemon => json!({}),
        stopped => stopped?,
    };
    let wait = tokio::task::spawn_blocking(move || has_ended(process));
    if !wait.await.unwrap_or(false) {
        return Err(CliError::new(
            Code::Failed,
            format!("The background service has not stopped after {} s.", STOP_LIMIT.tv_sec),
            "It may still be closing drives. Your changes are safe on this computer.",
            [Action::tell("See whether it is still running."), Action::run(&["holdall", "daemon", "status"])],
        ));
    }
    output.result(&value, |stopping: &Stopping, _| stopped(stopping)).map(drop)
}

/// Says that it has stopped, and what that leaves behind.
fn stopped(stopping: &Stopping) -> String {
    let left: Vec<_> =
        stopping.left.iter().map(|drive| format!("{} at {}", drive.name, drive.mountpoint)).collect();
    if left.is_empty() {
        return "The background service has stopped".to_owned();
    }
    format!(
        "The background service has stopped. Still mounted: {}.\n\
         Programs that use a mounted drive wait until the service runs again; so do programs that look at all disks, such as sync and losetup.\n\
         Saved files are safe on this computer. Run `holdall status` to start the service again; to unmount a drive, run `holdall drive close NAME`.",
        left.join(", ")
    )
}

/// A descriptor to wait for a process; `None` if the process has ended.
fn process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whether the process ends in time.
fn has_ended(process: Option<OwnedFd>) -> bool {
    match process {
        Some(process) => {
            let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&STOP_LIMIT));
            ended.is_ok_and(|number| number > 0)
        }
        None => true,
    }
}

/// Shows whether the daemon runs; does not start it.
pub async fn status(paths: &Paths, output: Output) -> Result<(), CliError> {
    if start::connect(paths).await?.is_none() {
        return Err(CliError::new(
            Code::NoDaemon,
            "The background service is not running.",
            "Programs that use mounted drives wait until it runs again. Your changes are safe on this computer.",
            [Action::tell("Start it."), Action::run(&["holdall", "status"])],
        ));
    }
    let reporter = Reporter::new(output.json);
    let value = Client::new(paths, &reporter).get("/v1/daemon").await?;
    output.result(&value, |daemon: &DaemonStatus, _| show::daemon(daemon)).map(drop)
}

/// Looks for problems, and fixes them if `repair` is set.
pub async fn doctor(repair: bool, session: &Session<'_>) -> Result<(), CliError> {
    let path = if repair { "/v1/doctor/repair" } else { "/v1/doctor" };
    let value = session.client.post(path, &json!({})).await?;
    let diagnosis: Diagnosis = session.output.result(&value, show::diagnosis)?;
    if diagnosis.ok { Ok(()) } else { Err(CliError::BadNews(Code::Failed)) }
}
