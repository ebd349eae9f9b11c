//! The state of a folder, why it is in that state, and what a person can do about it: one pure function of facts.

use super::remote::Link;
use crate::api::{self, Action, Actions, Code, DriveState, Failure, FolderCommand, FolderQueueCounts};
use crate::daemon::failure;
use crate::daemon::stores::renewable::Hindrance;
use holdall_gui::advice;

#[cfg(test)]
mod tests;

/// Shown while a person has to do something about the remote.
const UPLOADS_WAIT: &str = "your files on this computer are safe, and uploads wait";

/// The phase of a folder, as far as its engine does not know it.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Not open.
    Closed,
    /// Being opened.
    Connecting,
    /// Open.
    Open,
    /// Unmounted; the rest is being uploaded.
    Draining,
    /// It could not be opened again.
    Failed(Failure),
}

/// Everything that decides the state of a folder.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its name on this device.
    pub name: String,
    /// The address of its files.
    pub url: String,
    /// The operation under way, or what went wrong, apart from the engine.
    pub phase: Phase,
    /// The engine, while it runs.
    pub engine: Option<Engine>,
    /// Why uploads are off.
    pub paused: Option<&'static str>,
    /// Whether it may have changes that are only here.
    pub unsent: bool,
}

/// What the engine and its remote say.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// How the remote has answered last.
    pub link: Link,
    /// Why nothing may be written.
    pub read_only: Option<String>,
    /// What waits for upload.
    pub queue: FolderQueueCounts,
    /// The path and the reason of the first failed upload, and whether it is tried again without a person.
    pub failed: Option<(String, String, bool)>,
    /// Why nothing can be uploaded now.
    pub trouble: Option<String>,
    /// Why what is shown may be out of date.
    pub stale_because: Option<String>,
    /// Conflicts.
    pub conflicts: u64,
    /// Held deletions.
    pub held: u64,
}

/// The state of a folder, as people see it.
#[derive(Debug)]
pub struct Condition {
    /// The state.
    pub state: DriveState,
    /// Why it is in that state, where the state alone does not say so.
    pub reason: Option<String>,
    /// What to do about it.
    pub advice: Option<api::Advice>,
    /// Whether a login at its remote helps.
    pub needs_login: bool,
}

impl Condition {
    fn of(state: DriveState) -> Self {
        Self { state, reason: None, advice: None, needs_login: false }
    }

    fn because(state: DriveState, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::of(state) }
    }

    fn and_do(self, actions: impl Into<Actions>) -> Self {
        let actions = actions.into();
        let on_screen = advice::steps(&actions.0);
        Self { advice: Some(api::Advice::new(None, actions, on_screen)), ..self }
    }

    /// A person has to do something.
    pub fn needs_attention(reason: impl Into<String>, action: impl Into<Actions>) -> Self {
        Self::because(DriveState::NeedsAttention, reason).and_do(action)
    }

    fn failed(state: DriveState, failure: Failure) -> Self {
        let needs_login = failure.code == Code::Credentials;
        let Failure { message, consequence, actions, on_screen, .. } = advice::shown(failure);
        let advice = api::Advice::new(Some(consequence), actions, on_screen.into_vec());
        Self { reason: Some(message), advice: Some(advice), needs_login, ..Self::of(state) }
    }
}

/// The state of a folder. What only a person can remove comes first, then what waits for the remote or for a person's word, then work.
pub fn condition(facts: &Facts) -> Condition {
    match (&facts.phase, &facts.engine) {
        (Phase::Failed(failure), _) => {
            let failure = failure::of_folder(failure.clone(), &facts.name, &facts.url);
            let state =
                if failure.code == Code::Offline { DriveState::Offline } else { DriveState::NeedsAttention };
            Condition::failed(state, failure)
        }
        (Phase::Connecting, _) => Condition::of(DriveState::Connecting),
        (Phase::Closed | Phase::Open | Phase::Draining, None) | (Phase::Closed, Some(_)) => closed(facts),
        (Phase::Open, Some(engine)) => open(engine, facts),
        (Phase::Draining, Some(engine)) => {
            let open = open(engine, facts);
            match open.state {
                DriveState::Ready | DriveState::Syncing | DriveState::Connecting | DriveState::ReadOnly => {
                    draining(engine)
                }
                _ => open,
            }
        }
    }
}

/// A folder without an engine.
fn closed(facts: &Facts) -> Condition {
    match facts.unsent {
        false => Condition::of(DriveState::Closed),
        true => {
            let reason = "some changes may be only on this computer; they are uploaded once it is open";
            let open = Action::Folder { command: FolderCommand::Open, folder: Some(facts.name.clone()) };
            Condition::because(DriveState::Closed, reason).and_do(open)
        }
    }
}

fn draining(engine: &Engine) -> Condition {
    match engine.queue.all() {
        0 => Condition::of(DriveState::Closed),
        left => {
            let reason = format!("{} still being uploaded", files(left, "is", "are"));
            Condition::because(DriveState::Closed, reason)
        }
    }
}

fn open(engine: &Engine, facts: &Facts) -> Condition {
    let action = |command: FolderCommand| Action::Folder { command, folder: Some(facts.name.clone()) };
    if let Link::Hindered(hindrance) = &engine.link {
        return hindered(hindrance, &facts.url);
    }
    if engine.held > 0 {
        let reason = format!(
            "{} deleted at the remote, which is unusual; here they stay until you decide",
            files(engine.held, "was", "were")
        );
        return Condition::because(DriveState::NeedsAttention, reason)
            .and_do(action(FolderCommand::Deletions));
    }
    if engine.conflicts > 0 {
        let reason = format!(
            "{} changed both here and at the remote; both versions are kept",
            files(engine.conflicts, "was", "were")
        );
        return Condition::because(DriveState::Conflict, reason).and_do(action(FolderCommand::Conflicts));
    }
    if let Some((path, why, false)) = &engine.failed {
        let reason = format!("{path} cannot be uploaded: {}", why.trim_end_matches('.'));
        return Condition::because(DriveState::NeedsAttention, reason).and_do(action(FolderCommand::Queue));
    }
    if let Link::Silent(why) = &engine.link {
        return Condition::because(DriveState::Offline, why.clone());
    }
    if let Some(trouble) = engine.trouble.as_ref().or(engine.stale_because.as_ref()) {
        return Condition::because(DriveState::Offline, trouble.clone());
    }
    if let Some(why) = facts.paused {
        return Condition::because(DriveState::Paused, why);
    }
    if engine.link == Link::Unknown {
        return Condition::of(DriveState::Connecting);
    }
    let again = engine.failed.as_ref().map(|(path, why, _)| format!("{path} is uploaded again later: {why}"));
    if engine.queue.waiting + engine.queue.uploading + engine.queue.failed > 0 {
        return Condition { reason: again, ..Condition::of(DriveState::Syncing) };
    }
    if let Some(why) = &engine.read_only {
        return Condition::because(DriveState::ReadOnly, why.clone());
    }
    let in_use = engine.queue.in_use;
    match in_use {
        0 => Condition::of(DriveState::Ready),
        _ => {
            let reason = format!(
                "{} open in programs, and uploaded once closed",
                files(in_use, "is still", "are still")
            );
            Condition::because(DriveState::Ready, reason)
        }
    }
}

fn hindered(hindrance: &Hindrance, url: &str) -> Condition {
    let because =
        |what: &str| Condition::because(DriveState::NeedsAttention, format!("{what}; {UPLOADS_WAIT}"));
    match hindrance {
        // A directory has no login.
        Hindrance::Credentials(what) if failure::is_directory(url) => because(what).and_do(failure::LET_IN),
        Hindrance::Credentials(what) => {
            let login = Action::LogIn { store: Some(url.to_owned()) };
            Condition { needs_login: true, ..because(what).and_do(login) }
        }
        Hindrance::Keyring { what, actions } => because(what).and_do(actions.clone()),
        Hindrance::Store(what) => because(what),
        // Of a store only.
        Hindrance::Emptied => because("the remote is empty"),
    }
}

/// "1 file was", "3 files were".
fn files(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 file {one}"),
        count => format!("{count} files {many}"),
    }
}
