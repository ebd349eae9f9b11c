//! `holdall drive`: each command is a request, and its result in words.

use crate::api::{
    self, Checked, ChunkMap, Code, Collected, DriveStatus, FolderStatus, Queued, Snapshot, Synced,
};
use crate::args::drive::{DriveCommand, SnapshotCommand};
use crate::client::Client;
use crate::failure::{CliError, NOTHING_DONE};
use crate::output::Output;
use crate::progress::Reporter;
use crate::secrets;
use crate::show::{self, status};
use holdall_client::failure::not_understood;
use holdall_client::request::segment;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use std::path::Path;

mod forks;
mod make;
mod open;
mod remove;
pub(super) mod replica;
mod serve;

/// The environment of a command.
pub struct Session<'a> {
    /// The connection to the daemon.
    pub client: Client<'a>,
    /// Where progress goes.
    pub progress: &'a Reporter,
    /// Where results go.
    pub output: Output,
}

/// Runs a command on a drive.
pub async fn run(command: &DriveCommand, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    match command {
        DriveCommand::Create(create) => make::create(create, session).await,
        DriveCommand::Add(add) => make::add(add, session).await,
        DriveCommand::Open(open) => open::open(open, session).await,
        DriveCommand::Close(close) => {
            let value = client.post(&route(&close.name, "close"), &api::Close { wait: close.wait }).await?;
            output.result(&value, |closed: &api::Closed, _| show::closed(&close.name, closed)).map(drop)
        }
        DriveCommand::Sync(drive) => {
            let value = client.post(&route(&drive.name, "sync"), &json!({})).await?;
            output
                .result(&value, |synced: &Synced, _| show::synced(&drive.name, synced, output.verbose))
                .map(drop)
        }
        DriveCommand::Pause(drive) => {
            let value = client.post(&route(&drive.name, "pause"), &json!({})).await?;
            let words = |drive: &DriveStatus, _| {
                format!("Uploads of {} are paused until you resume them", drive.name)
            };
            output.result(&value, words).map(drop)
        }
        DriveCommand::Resume(drive) => {
            let value = client.post(&route(&drive.name, "resume"), &json!({})).await?;
            let words = |drive: &DriveStatus, _| {
                format!("Uploads of {} are resumed: {}", drive.name, status::uploads(drive))
            };
            output.result(&value, words).map(drop)
        }
        DriveCommand::List => {
            let value = client.get("/v1/drives").await?;
            output.result(&value, |drives: &Vec<DriveStatus>, paint| status::list(drives, paint)).map(drop)
        }
        DriveCommand::Status { name: None } => status_of_all(session).await,
        DriveCommand::Status { name: Some(name) } => {
            let value = client.get(&format!("/v1/drives/{}", segment(name))).await?;
            let words = |drive: &DriveStatus, paint| status::details(drive, &Zoned::now(), paint);
            output.result(&value, words).map(drop)
        }
        DriveCommand::Queue(drive) => {
            let value = client.get(&route(&drive.name, "queue")).await?;
            output
                .result(&value, |queue: &Vec<Queued>, _| {
                    show::queue::queue(&drive.name, queue, &TimeZone::system())
                })
                .map(drop)
        }
        DriveCommand::UploadNow(drive) => {
            let value = client.post(&route(&drive.name, "upload-now"), &json!({})).await?;
            output.done(&value, &format!("Pending changes of {} are being uploaded", drive.name))
        }
        DriveCommand::StopPrefetch(drive) => {
            let value = client.post(&route(&drive.name, "prefetch/stop"), &json!({})).await?;
            output.done(&value, &format!("{} now fetches only data that is read or pinned", drive.name))
        }
        DriveCommand::Map(drive) => {
            let value = client.get(&route(&drive.name, "map")).await?;
            output.result(&value, |map: &ChunkMap, paint| show::map::map(map, paint)).map(drop)
        }
        DriveCommand::Check(drive) => {
            let value = client.post(&route(&drive.name, "check"), &json!({})).await?;
            let checked =
                output.result(&value, |found: &Checked, paint| show::checked(&drive.name, found, paint))?;
            if checked.ok { Ok(()) } else { Err(CliError::BadNews(Code::Corrupt)) }
        }
        DriveCommand::Gc { drive, stop: true } => {
            let value = client.post(&route(&drive.name, "gc/stop"), &json!({})).await?;
            output.done(&value, &format!("The cleanup in the store of {} is stopped", drive.name))
        }
        DriveCommand::Gc { drive, stop: false } => {
            let value = client.post(&route(&drive.name, "gc"), &json!({})).await?;
            output.result(&value, |collected: &Collected, _| show::collected(collected)).map(drop)
        }
        DriveCommand::Resize { drive, size } => {
            let request = api::Resize { size_bytes: size.bytes };
            let value = client.post(&route(&drive.name, "resize"), &request).await?;
            let words = |_: &DriveStatus, _| format!("{} has {} now", drive.name, size.text);
            output.result(&value, words).map(drop)
        }
        DriveCommand::Snapshot(command) => snapshot(command, session).await,
        DriveCommand::Replica(command) => replica::run(command, session).await,
        DriveCommand::Rollback { drive, label, yes } => {
            remove::rollback(&drive.name, label, *yes, session).await
        }
        DriveCommand::Clone { drive, new, snapshot } => {
            make::clone(&drive.name, new, snapshot.as_deref(), session).await
        }
        DriveCommand::Forks { drive, command } => forks::run(&drive.name, command.as_ref(), session).await,
        DriveCommand::Passphrase { drive, new_passphrase_file } => {
            passphrase(&drive.name, new_passphrase_file.as_deref(), session).await
        }
        DriveCommand::RecoveryKey { drive, recovery_key_out, yes } => {
            make::recovery_key(&drive.name, recovery_key_out.as_deref(), *yes, session).await
        }
        DriveCommand::Remove { drive, delete_data, discard_unsent, yes } => {
            let remove = api::Remove { delete_data: *delete_data, discard_unsent: *discard_unsent };
            remove::remove(&drive.name, &remove, *yes, session).await
        }
        DriveCommand::Serve(command) => serve::serve(command, session).await,
    }
}

/// Shows the status of all drives.
pub async fn status_of_all(session: &Session<'_>) -> Result<(), CliError> {
    let value = session.client.get("/v1/drives").await?;
    let words = |drives: &Vec<DriveStatus>, paint| status::overview(drives, paint);
    session.output.result(&value, words).map(drop)
}

/// Shows the status of all drives and folders. As JSON they are one list, drives first.
pub async fn status_of_everything(session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    let (drives, folders) = (client.get("/v1/drives").await?, client.get("/v1/folders").await?);
    if output.json {
        let all = [drives, folders].map(|list| list.as_array().cloned().unwrap_or_default()).concat();
        return output.line(&Value::from(all).to_string());
    }
    let folders: Vec<FolderStatus> =
        serde_json::from_value(folders).map_err(|error| not_understood(&error.to_string()))?;
    let words = |drives: &Vec<DriveStatus>, paint| match (drives.is_empty(), folders.is_empty()) {
        (_, true) => status::overview(drives, paint),
        (true, false) => show::folder::overview(&folders, paint),
        (false, false) => {
            format!("{}\n{}", status::overview(drives, paint), show::folder::overview(&folders, paint))
        }
    };
    output.result(&drives, words).map(drop)
}

/// The path of an operation on a drive.
fn route(name: &str, verb: &str) -> String {
    format!("/v1/drives/{}/{verb}", segment(name))
}

/// The daemon's working directory is not that of the person who typed `path`.
pub(super) fn absolute(path: &Path) -> Result<String, CliError> {
    let unusable = |why: &str| {
        let message = format!("{} cannot be used: {why}.", path.display());
        CliError::usage(message, "Give another path.")
    };
    let absolute = std::path::absolute(path).map_err(|error| unusable(&error.to_string()))?;
    absolute.into_os_string().into_string().map_err(|_| unusable("its name is not UTF-8"))
}

async fn snapshot(command: &SnapshotCommand, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    match command {
        SnapshotCommand::Create { drive, label } => {
            let label = label.clone().unwrap_or_else(|| Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string());
            let value = client.post(&route(&drive.name, "snapshots"), &api::Label { label }).await?;
            let words =
                |snapshot: &Snapshot, _| format!("Snapshot {} of {} is taken", snapshot.label, drive.name);
            output.result(&value, words).map(drop)
        }
        SnapshotCommand::List { drive, all } => {
            let value = client.get(&route(&drive.name, &format!("snapshots?all={all}"))).await?;
            let words = |list: &Vec<Snapshot>, _| show::snapshots(&drive.name, list, &Zoned::now());
            output.result(&value, words).map(drop)
        }
        SnapshotCommand::Delete { drive, label } => {
            let value = client.delete(&route(&drive.name, &format!("snapshots/{}", segment(label)))).await?;
            output.done(&value, &format!("Snapshot {label} of {} is deleted", drive.name))
        }
    }
}

async fn passphrase(name: &str, file: Option<&Path>, session: &Session<'_>) -> Result<(), CliError> {
    let new_passphrase = secrets::new_passphrase(file, name, "--new-passphrase-file FILE").await?;
    let value = session.client.post(&route(name, "passphrase"), &api::Passphrase { new_passphrase }).await?;
    session.output.done(&value, &format!("{name} has a new passphrase. The recovery key stays the same"))
}

/// A person said no.
fn declined() -> CliError {
    CliError::new(Code::Failed, "Not confirmed.", NOTHING_DONE, "")
}
