//! `holdall folder`: each command is a request, and its result in words.

use crate::api::{
    self, DeletionsSettled, FolderClosed, FolderConflict, FolderOpened, FolderQueue, FolderStatus,
    HeldDeletions,
};
use crate::args::folder::{ConflictsCommand, DeletionsCommand, FolderCommand, Open, Watch};
use crate::drive::{Session, absolute};
use crate::failure::CliError;
use crate::show::folder as show;
use crate::store;
use holdall_client::request::segment;
use jiff::Zoned;
use serde_json::json;

/// Runs a command on a folder.
pub async fn run(command: &FolderCommand, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    match command {
        FolderCommand::Open(asked) => open(asked, session).await,
        FolderCommand::Close(close) => {
            let value = client.post(&route(&close.name, "close"), &api::Close { wait: close.wait }).await?;
            output.result(&value, |closed: &FolderClosed, _| show::closed(closed)).map(drop)
        }
        FolderCommand::List => {
            let value = client.get("/v1/folders").await?;
            output.result(&value, |folders: &Vec<FolderStatus>, paint| show::list(folders, paint)).map(drop)
        }
        FolderCommand::Status { name: None } => {
            let value = client.get("/v1/folders").await?;
            let words = |folders: &Vec<FolderStatus>, paint| show::overview(folders, paint);
            output.result(&value, words).map(drop)
        }
        FolderCommand::Status { name: Some(name) } => {
            let value = client.get(&format!("/v1/folders/{}", segment(name))).await?;
            let words = |folder: &FolderStatus, paint| show::details(folder, &Zoned::now(), paint);
            output.result(&value, words).map(drop)
        }
        FolderCommand::Sync(folder) => {
            let value = client.post(&route(&folder.name, "sync"), &json!({})).await?;
            let words = |status: &FolderStatus, _| match &status.watched {
                Some(watched) if watched.two_way => format!("{} and its remote are alike", folder.name),
                _ => format!("All changes of {} are uploaded", folder.name),
            };
            output.result(&value, words).map(drop)
        }
        FolderCommand::Queue(folder) => {
            let value = client.get(&route(&folder.name, "queue")).await?;
            let words = |queue: &FolderQueue, _| show::queue(&folder.name, queue, &Zoned::now());
            output.result(&value, words).map(drop)
        }
        FolderCommand::Pause(folder) => {
            let value = client.post(&route(&folder.name, "pause"), &json!({})).await?;
            let words = |folder: &FolderStatus, _| {
                format!("Uploads of {} are paused until you resume them", folder.name)
            };
            output.result(&value, words).map(drop)
        }
        FolderCommand::Resume(folder) => {
            let value = client.post(&route(&folder.name, "resume"), &json!({})).await?;
            let words = |folder: &FolderStatus, _| {
                format!("Uploads of {} are resumed: {}", folder.name, show::uploads(folder))
            };
            output.result(&value, words).map(drop)
        }
        FolderCommand::Conflicts { folder, command } => {
            conflicts(&folder.name, command.as_ref(), session).await
        }
        FolderCommand::Deletions { folder, command } => deletions(&folder.name, *command, session).await,
        FolderCommand::Watch(asked) => watch(asked, session).await,
        FolderCommand::Unwatch { directory } => {
            let directory = real(directory)?;
            let value = client.post(&route(&directory, "unwatch"), &json!({})).await?;
            let words = format!("{directory} is no longer watched. Its files stay, here and at the remote");
            output.done(&value, &words)
        }
        FolderCommand::Forget { folder, discard_unsent } => {
            let request = api::ForgetFolder { discard_unsent: *discard_unsent };
            let value = client.post(&route(&folder.name, "forget"), &request).await?;
            let words =
                format!("{} is forgotten on this computer. Its files at the remote stay", folder.name);
            output.done(&value, &words)
        }
    }
}

async fn open(open: &Open, session: &Session<'_>) -> Result<(), CliError> {
    let given = store::given(&open.credentials);
    let credentials = match crate::args::drive::name(&open.folder) {
        // A known folder, whose address the daemon knows.
        Ok(_) if given.file.is_none() && given.profile.is_none() => None,
        _ => given.read(&open.folder)?,
    };
    let request = api::OpenFolder {
        folder: open.folder.clone(),
        name: open.name.clone(),
        at: open.at.as_deref().map(absolute).transpose()?,
        read_only: open.read_only,
        no_passthrough: open.no_passthrough,
        credentials,
    };
    let value = session.client.post("/v1/folders", &request).await?;
    session.output.result(&value, |opened: &FolderOpened, _| show::opened(opened)).map(drop)
}

async fn watch(asked: &Watch, session: &Session<'_>) -> Result<(), CliError> {
    let given = store::given(&asked.credentials);
    let request = api::WatchDirectory {
        directory: real(&asked.directory)?,
        url: asked.url.clone(),
        two_way: asked.two_way,
        credentials: given.read(&asked.url)?,
    };
    let value = session.client.post("/v1/watched", &request).await?;
    session.output.result(&value, |folder: &FolderStatus, _| show::watched(folder)).map(drop)
}

/// The path of a directory without links, if it is there.
fn real(directory: &std::path::Path) -> Result<String, CliError> {
    absolute(&directory.canonicalize().unwrap_or_else(|_| directory.to_owned()))
}

async fn conflicts(
    name: &str,
    command: Option<&ConflictsCommand>,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    match command {
        None => {
            let value = client.get(&route(name, "conflicts")).await?;
            let words = |list: &Vec<FolderConflict>, _| show::conflicts(name, list, &Zoned::now());
            output.result(&value, words).map(drop)
        }
        Some(ConflictsCommand::Keep { which, path }) => {
            let request = api::KeepVersion { path: path.clone(), keep: (*which).into() };
            let value = client.post(&route(name, "conflicts/keep"), &request).await?;
            let words = |left: &Vec<FolderConflict>, _| show::kept(path, (*which).into(), left.len() as u64);
            output.result(&value, words).map(drop)
        }
    }
}

async fn deletions(
    name: &str,
    command: Option<DeletionsCommand>,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    let verb = match command {
        None => {
            let value = client.get(&route(name, "deletions")).await?;
            let words = |held: &HeldDeletions, _| show::deletions(name, held, &Zoned::now());
            return output.result(&value, words).map(drop);
        }
        Some(DeletionsCommand::Accept) => "deletions/accept",
        Some(DeletionsCommand::Restore) => "deletions/restore",
    };
    let value = client.post(&route(name, verb), &json!({})).await?;
    output.result(&value, |settled: &DeletionsSettled, _| show::settled(name, settled)).map(drop)
}

/// The path of an operation on a folder.
fn route(name: &str, verb: &str) -> String {
    format!("/v1/folders/{}/{verb}", segment(name))
}
