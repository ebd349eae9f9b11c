//! The daemon itself: in the foreground, stopped, and looked at.

use crate::api::{Code, DaemonStatus, Diagnosis};
use crate::cli::client::{self, Client};
use crate::cli::drive::Session;
use crate::cli::failure::CliError;
use crate::cli::output::Output;
use crate::cli::progress::Reporter;
use crate::cli::{show, start};
use crate::paths::Paths;
use hyper::Method;
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use tokio::time::timeout;

/// A daemon that stops closes what it can; it does not wait for the network.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Becomes holdalld, in the foreground. Returns only if that fails.
pub fn become_daemon() -> CliError {
    start::cannot_run(&Command::new(start::daemon_program()).exec())
}

/// Stops the daemon and waits until it has ended, so that one that is started next does not meet it.
pub async fn stop(paths: &Paths, output: Output) -> Result<(), CliError> {
    let Some(stream) = start::connect(paths).await? else {
        return output.done(&json!({}), "The background service does not run");
    };
    let reporter = Reporter::new(output.json);
    let mut answer = client::request(stream, Method::POST, "/v1/daemon/stop", Some(b"{}".to_vec())).await?;
    let value = answer.wait_for_result(&reporter).await?;
    if timeout(STOP_LIMIT, answer.closed()).await.is_err() {
        return Err(CliError::new(
            Code::Failed,
            format!("The background service has not ended after {} s.", STOP_LIMIT.as_secs()),
            "It may still be closing drives. Your changes are safe on this computer.",
            "Run `holdall daemon status` to see whether it still runs.",
        ));
    }
    output.done(&value, "The background service has stopped")
}

/// Shows whether the daemon runs; does not start it.
pub async fn status(paths: &Paths, output: Output) -> Result<(), CliError> {
    if start::connect(paths).await?.is_none() {
        return Err(CliError::new(
            Code::NoDaemon,
            "The background service does not run.",
            "Drives that are mounted without it wait. Your changes are safe on this computer.",
            "Run `holdall status`, which starts it.",
        ));
    }
    let reporter = Reporter::new(output.json);
    let value = Client::new(paths, &reporter).get("/v1/daemon").await?;
    output.result(&value, |daemon: &DaemonStatus, _| show::daemon(daemon)).map(drop)
}

/// Looks for what may be wrong, and mends it where that was asked for.
pub async fn doctor(repair: bool, session: &Session<'_>) -> Result<(), CliError> {
    let value = match repair {
        true => session.client.post("/v1/doctor/repair", &json!({})).await?,
        false => session.client.get("/v1/doctor").await?,
    };
    let diagnosis: Diagnosis = session.output.result(&value, show::diagnosis)?;
    if diagnosis.ok { Ok(()) } else { Err(CliError::BadNews(Code::Failed)) }
}
