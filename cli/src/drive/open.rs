//! `drive open`, and the question whether to take over a drive from another computer.

use crate::api::{self, Code, Failure, Opened, TakeOverFrom};
use crate::args::drive::Open;
use crate::drive::{Session, absolute, declined, route};
use crate::failure::CliError;
use crate::{show, terminal};
use jiff::Zoned;
use serde_json::Value;

/// `drive open`.
pub async fn open(open: &Open, session: &Session<'_>) -> Result<(), CliError> {
    let mut request = api::Open {
        at: open.at.as_deref().map(absolute).transpose()?,
        attach: open.attach.into(),
        read_only: open.read_only,
        snapshot: open.snapshot.clone(),
        take_over: open.yes,
        take_over_from: None,
        set_aside: open.set_aside,
    };
    // If yet another computer has the drive by then, the person is asked again.
    let value = loop {
        match session.client.post(&route(&open.name, "open"), &request).await {
            Err(CliError::Failed(failure)) if failure.code == Code::Held && open.take_over && !open.yes => {
                request.take_over_from = Some(confirm(&open.name, failure).await?);
                request.take_over = true;
            }
            result => break result?,
        }
    };
    tell(&open.name, &value, session)
}

/// Reports the open drive.
pub fn tell(name: &str, value: &Value, session: &Session<'_>) -> Result<(), CliError> {
    session.output.result(value, |opened: &Opened, _| show::opened(name, opened)).map(drop)
}

/// Shows which computer has the drive, and asks whether to take it over. Without a terminal it is not taken over.
async fn confirm(name: &str, failure: Failure) -> Result<TakeOverFrom, CliError> {
    let Some(holder) = &failure.holder else { return Err(CliError::Failed(failure)) };
    if !terminal::is_there() {
        let action =
            "There is no terminal to ask for confirmation: add --yes to --take-over if you are sure.";
        return Err(CliError::Failed(failure.with_actions(action)));
    }
    terminal::say(&show::holder(name, holder, &Zoned::now()));
    match terminal::confirm(&format!("Take over {name}?")).await? {
        true => Ok(TakeOverFrom { device: holder.device.clone(), epoch: holder.epoch }),
        false => Err(declined()),
    }
}
