//! Commands that discard data: a person must confirm them first.

use crate::api::{self, DriveStatus, Remove, Synced};
use crate::drive::{Session, declined, route};
use crate::failure::CliError;
use crate::terminal;
use holdall_client::failure::not_understood;
use holdall_client::request::segment;

/// `drive remove`.
pub async fn remove(name: &str, remove: &Remove, sure: bool, session: &Session<'_>) -> Result<(), CliError> {
    if !sure {
        ask_to_remove(name, remove, session).await?;
    }
    let value = session.client.post(&route(name, "remove"), remove).await?;
    let words = |removed: &api::Removed, _| match remove.delete_data {
        true => deleted(name, removed),
        false => format!("{name} is removed from this computer. Its data in the store stays"),
    };
    session.output.result(&value, words).map(drop)
}

/// A drive and its data are deleted: what is left, and what to do.
fn deleted(name: &str, removed: &api::Removed) -> String {
    let mut lines = vec![format!("{name} and its data in the store are deleted.")];
    lines.extend(removed.left.as_ref().map(|left| format!("Not deleted: {left}")));
    lines.extend(removed.action.clone());
    lines.join("\n")
}

/// `drive rollback`.
pub async fn rollback(name: &str, label: &str, sure: bool, session: &Session<'_>) -> Result<(), CliError> {
    if !sure {
        must_have_terminal(&format!("Rolling {name} back discards all changes since {label}."))?;
        let question =
            format!("Restore {name} to {label}? Changes made since then are discarded, on all computers.");
        if !terminal::confirm(&question).await? {
            return Err(declined());
        }
    }
    let request = api::Label { label: label.to_owned() };
    let value = session.client.post(&route(name, "rollback"), &request).await?;
    session.output.result(&value, |_: &Synced, _| format!("{name} is restored to {label}")).map(drop)
}

async fn ask_to_remove(name: &str, remove: &Remove, session: &Session<'_>) -> Result<(), CliError> {
    must_have_terminal(&format!("Removing {name} needs a confirmation."))?;
    // The question names the facts; fetching them also checks that the drive exists.
    let value = session.client.get(&format!("/v1/drives/{}", segment(name))).await?;
    let drive: DriveStatus =
        serde_json::from_value(value).map_err(|error| not_understood(&error.to_string()))?;
    if remove.discard_unsent && drive.unpushed_bytes > 0 {
        let unsent = drive.unsent();
        terminal::say(&format!("Only on this computer, and deleted if you continue: {unsent} of {name}."));
    }
    let sure = match remove.delete_data {
        true => {
            terminal::say(&format!(
                "This deletes {name} for all computers, and all its data in {}.",
                drive.store
            ));
            terminal::ask("Type the drive's name to delete it: ").await? == name
        }
        false => {
            let question = format!("Remove {name} from this computer? Its data in {} stays.", drive.store);
            terminal::confirm(&question).await?
        }
    };
    if sure { Ok(()) } else { Err(declined()) }
}

pub fn must_have_terminal(why: &str) -> Result<(), CliError> {
    match terminal::is_there() {
        true => Ok(()),
        false => Err(CliError::usage(
            format!("{why} There is no terminal to ask for confirmation."),
            "Give --yes if you are sure.",
        )),
    }
}
