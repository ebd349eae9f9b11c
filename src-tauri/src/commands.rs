//! The commands that the pages may call; `ui/src/backend/tauri.ts` is the other side. Nothing else of Tauri is open to them.

use crate::act;
use crate::autostart::Autostart;
use crate::bridge::{self, Heard, failure};
use crate::directories;
use crate::page::ToPage;
use crate::save;
use crate::shell::Shell;
use holdall_client::api::{Code, Failure, Progress};
use holdall_gui::notices::Kind;
use holdall_gui::texts::{said, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tauri::ipc::{Channel, InvokeResponseBody};
use tauri::{AppHandle, Manager, State, command};

type Shared<'a> = State<'a, Arc<Shell>>;

/// Sends one request to the daemon.
#[command]
pub async fn call(
    shell: Shared<'_>,
    id: u64,
    method: String,
    path: String,
    body: Option<Value>,
    progress: Channel<Progress>,
) -> Result<Value, Failure> {
    let asking = shell.inner().clone();
    let asked = tokio::spawn(async move {
        // If the progress cannot be sent, the result is still wanted.
        let show = |step| drop(progress.send(step));
        bridge::call(&asking.paths, &method, &path, body, show).await
    });
    shell.calls.begun(id, asked.abort_handle());
    let answer = asked.await;
    shell.calls.done(id);
    answer.unwrap_or_else(|_| Err(failure(Code::Failed, text("app.ended"))))
}

/// Listens to a stream of the daemon until the call is ended.
#[command]
pub async fn listen(
    shell: Shared<'_>,
    id: u64,
    path: String,
    channel: Channel<InvokeResponseBody>,
) -> Result<(), Failure> {
    bridge::checked("GET", &path)?;
    let listening = shell.inner().clone();
    let task = tokio::spawn(async move {
        // A daemon that is just being started is not down. The sender lives as long as the shell.
        let _ = listening.begun.subscribe().wait_for(|has_begun| *has_begun).await;
        bridge::follow(&listening.paths, &path, &listening.retry, |heard| {
            channel.send(InvokeResponseBody::Json(message(heard))).is_ok()
        })
        .await;
    });
    shell.calls.begun(id, task.abort_handle());
    Ok(())
}

/// The daemon's data is JSON already.
fn message(heard: Heard<'_>) -> String {
    match heard {
        Heard::Live => r#"{"state":"live"}"#.to_owned(),
        Heard::Down => r#"{"state":"down"}"#.to_owned(),
        Heard::Data(data) => format!(r#"{{"data":{data}}}"#),
    }
}

/// Ends a request or a stream.
#[command]
pub async fn end_call(shell: Shared<'_>, id: u64) -> Result<(), ()> {
    shell.calls.end(id);
    Ok(())
}

/// Tries all streams that are down at once.
#[command]
pub fn retry(shell: Shared<'_>) {
    shell.retry.notify_waiters();
}

/// Starts the daemon.
#[command]
pub async fn start_daemon(shell: Shared<'_>) -> Result<(), Failure> {
    act::start(&shell).await
}

/// Shows a drive in the file manager.
#[command]
pub async fn open_directory(shell: Shared<'_>, path: String) -> Result<(), Failure> {
    directories::open(&shell.paths, &path).await
}

/// Saves a text in the downloads directory, and returns the file.
#[command]
pub async fn save_text(app: AppHandle, name: String, text: String) -> Result<String, Failure> {
    let directory = app.path().download_dir().or_else(|_| app.path().home_dir());
    let directory = directory.map_err(|error| failure(Code::Failed, error.to_string()))?;
    save::save(&directory, &name, &text).map(|file| file.display().to_string())
}

/// Whether the app starts with the desktop.
#[command]
pub async fn autostart() -> bool {
    Autostart::from_environment().is_some_and(|autostart| autostart.is_on())
}

/// Makes the app start with the desktop, or no longer.
#[command]
pub async fn set_autostart(on: bool) -> Result<(), Failure> {
    let failed = |why: String| failure(Code::Failed, said("app.autostart.failed", &[("why", &why)]));
    let autostart = Autostart::from_environment().ok_or_else(|| failed("HOME".to_owned()))?;
    let done = match on {
        true => std::env::current_exe().and_then(|program| autostart.switch_on(&program)),
        false => autostart.switch_off(),
    };
    done.map_err(|error| failed(error.to_string()))
}

/// Which kinds of notifications are shown.
#[command]
pub fn notices(shell: Shared<'_>) -> BTreeMap<Kind, bool> {
    shell.wishes.all()
}

/// Switches notifications of a kind on or off.
#[command]
pub async fn set_notice(shell: Shared<'_>, kind: Kind, on: bool) -> Result<(), Failure> {
    let failed =
        |why: io::Error| failure(Code::Failed, said("app.notices.failed", &[("why", &why.to_string())]));
    shell.wishes.set(kind, on).map_err(failed)
}

/// The page starts to listen to the shell's messages.
#[command]
pub fn tell_page(shell: Shared<'_>, channel: Channel<ToPage>) {
    shell.page.arrived(channel);
}

/// Says in a sentence what quitting would lose on the page; `None` if nothing.
#[command]
pub fn hold(shell: Shared<'_>, lost: Option<String>) {
    shell.hold(lost);
}

/// Quits: the answer to the question before quitting.
#[command]
pub fn quit(app: AppHandle) {
    app.exit(0);
}

/// Stays: the answer to the question before quitting.
#[command]
pub fn stay(shell: Shared<'_>) {
    shell.asked.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_format_the_page_expects() {
        assert_eq!(message(Heard::Data(r#"{"a":[1]}"#)), r#"{"data":{"a":[1]}}"#);
        for state in [Heard::Live, Heard::Down] {
            let message: Value = serde_json::from_str(&message(state)).unwrap();
            assert!(message["state"].is_string());
        }
    }
}
