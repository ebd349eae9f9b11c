//! Does what was chosen in the tray's menu or in a notification. The window shows failures.

use crate::bridge;
use crate::choice::{self, Choice, DriveAction};
use crate::directories;
use crate::page::ToPage;
use crate::shell::Shell;
use crate::window;
use holdall_client::api::{Code, Failure};
use holdall_client::request::segment;
use holdall_gui::texts::{said, text};
use jiff::Zoned;
use serde_json::json;
use std::sync::Arc;
use tauri::{AppHandle, Manager};

/// Does it; long work continues in the background.
pub fn choose(app: &AppHandle, choice: Choice) {
    let shell = app.state::<Arc<Shell>>().inner().clone();
    match choice {
        Choice::Window => window::show(app),
        Choice::Settings => window::go(app, "#/settings"),
        Choice::Attention => window::go(app, choice::attention(shell.known.borrow().overview.as_ref())),
        Choice::Quit => window::quit(app),
        Choice::Drive { action: DriveAction::Show, name }
        | Choice::Folder { action: DriveAction::Show, name } => {
            window::go(app, choice::screen(&name));
        }
        other => {
            if let Choice::Drive { action: DriveAction::Close, name } = &other
                && let Some((title, text)) = shell.known.borrow().closing(name)
            {
                shell.page.tell(ToPage::Close { name: name.clone(), title, text });
                return window::show(app);
            }
            let app = app.clone();
            tauri::async_runtime::spawn(async move {
                if let Err((title, failure)) = perform(&shell, other).await {
                    shell.page.tell(ToPage::Failed { title, failure });
                    window::show(&app);
                }
            });
        }
    }
}

/// A failure comes with the title of what was tried.
async fn perform(shell: &Shell, choice: Choice) -> Result<(), (String, Failure)> {
    let (title, done) = match choice {
        Choice::Start => (text("app.failed.start"), start(shell).await),
        Choice::Pause(until) => {
            let ms = until.after(&Zoned::now()).as_millis();
            (text("app.failed.pause_all"), pause_for(shell, u64::try_from(ms).unwrap_or_default()).await)
        }
        Choice::Resume => (text("app.failed.pause_all"), pause_for(shell, 0).await),
        Choice::Drive { action, name } => {
            (said(failed(action), &[("name", &name)]), with_drive(shell, action, &name).await)
        }
        Choice::Folder { action, name } => {
            (said(failed(action), &[("name", &name)]), with_folder(shell, action, &name).await)
        }
        Choice::Window | Choice::Settings | Choice::Attention | Choice::Quit => return Ok(()),
    };
    done.map_err(|failure| (title, failure))
}

/// The title of a failure.
fn failed(action: DriveAction) -> &'static str {
    match action {
        DriveAction::Show | DriveAction::Directory => "app.failed.directory",
        DriveAction::Open => "app.failed.open",
        DriveAction::Close => "app.failed.close",
        DriveAction::Pause | DriveAction::Resume | DriveAction::UploadNow => "app.failed.drive",
    }
}

/// Starts the daemon, and makes all streams try again.
pub async fn start(shell: &Shell) -> Result<(), Failure> {
    let started = bridge::start(&shell.paths).await;
    shell.retry.notify_waiters();
    started
}

async fn pause_for(shell: &Shell, ms: u64) -> Result<(), Failure> {
    post(shell, "/v1/limits", Some(json!({"pause_for_ms": ms}))).await
}

async fn with_drive(shell: &Shell, action: DriveAction, name: &str) -> Result<(), Failure> {
    let what = match action {
        DriveAction::Show | DriveAction::Directory => {
            let mountpoint = shell.known.borrow().mountpoint(name);
            let closed = || bridge::failure(Code::NotFound, said("app.directory.closed", &[("name", name)]));
            return directories::open(&shell.paths, &mountpoint.ok_or_else(closed)?).await;
        }
        DriveAction::Open => "open",
        DriveAction::Close => "close",
        DriveAction::Pause => "pause",
        DriveAction::Resume => "resume",
        DriveAction::UploadNow => "upload-now",
    };
    post(shell, &format!("/v1/drives/{}/{what}", segment(name)), None).await
}

async fn with_folder(shell: &Shell, action: DriveAction, name: &str) -> Result<(), Failure> {
    let what = match action {
        DriveAction::Show | DriveAction::Directory => {
            let mountpoint = shell.known.borrow().mountpoint(name);
            let closed = || bridge::failure(Code::NotFound, said("app.directory.closed", &[("name", name)]));
            return directories::open(&shell.paths, &mountpoint.ok_or_else(closed)?).await;
        }
        DriveAction::Open => return post(shell, "/v1/folders", Some(json!({"folder": name}))).await,
        DriveAction::Close => "close",
        DriveAction::Pause => "pause",
        DriveAction::Resume => "resume",
        DriveAction::UploadNow => "sync",
    };
    let body = (action == DriveAction::Close).then(|| json!({"wait": false}));
    post(shell, &format!("/v1/folders/{}/{what}", segment(name)), body).await
}

async fn post(shell: &Shell, path: &str, body: Option<serde_json::Value>) -> Result<(), Failure> {
    bridge::call(&shell.paths, "POST", path, body, |_| ()).await.map(drop)
}
