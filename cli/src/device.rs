//! `holdall device`: paired devices.

use crate::api::{
    Code, ConfirmPairing, Devices, Failure, ListenForDevices, NameDevice, Pair, PairingStage, PairingStatus,
};
use crate::args::device::{DeviceCommand, PairArguments, Switch};
use crate::drive::Session;
use crate::failure::{CliError, NOTHING_DONE};
use crate::show::devices as show;
use crate::{secrets, terminal};
use holdall_client::request::segment;
use std::time::Duration;

/// How often a pairing is looked at: it ends when nobody does for 15 seconds.
const LOOK_PAUSE: Duration = Duration::from_millis(300);
const PAIRING: &str = "/v1/devices/pairing";

/// Runs a command on paired devices.
pub async fn run(command: &DeviceCommand, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    match command {
        DeviceCommand::Name { new: None } => {
            let value = client.get("/v1/devices").await?;
            output.result(&value, |devices: &Devices, _| devices.this.name.clone()).map(drop)
        }
        DeviceCommand::Name { new: Some(name) } => {
            let value = client.post("/v1/devices/name", &NameDevice { name: name.clone() }).await?;
            output.result(&value, |devices: &Devices, _| show::renamed(devices)).map(drop)
        }
        DeviceCommand::List => {
            let value = client.get("/v1/devices").await?;
            output.result(&value, |devices: &Devices, _| show::list(devices)).map(drop)
        }
        DeviceCommand::Pair(arguments) => pair(arguments, session).await,
        DeviceCommand::Unpair { name } => {
            let value = client.delete(&format!("/v1/devices/paired/{}", segment(name))).await?;
            output.result(&value, |_: &Devices, _| show::unpaired(name)).map(drop)
        }
        DeviceCommand::Listen { switch, port } => {
            let request = ListenForDevices { on: *switch == Switch::On, port: *port };
            let value = client.post("/v1/devices/listen", &request).await?;
            output.result(&value, |devices: &Devices, _| show::listening(&devices.this)).map(drop)
        }
    }
}

async fn pair(arguments: &PairArguments, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    let code = match &arguments.code_file {
        Some(file) => Some(secrets::read(file, "code")?),
        None if arguments.code.is_empty() => None,
        None => Some(arguments.code.concat()),
    };
    let shows = code.is_none();
    let mut value = client.post(PAIRING, &Pair { code, at: arguments.at.clone() }).await?;
    let mut told = false;
    loop {
        let status: PairingStatus =
            serde_json::from_value(value.clone()).map_err(|error| not_read(&error))?;
        match status.stage {
            PairingStage::Showing if !told => {
                output.done(&value, &show::code(&status))?;
                told = true;
            }
            PairingStage::Looking if !told && !shows => {
                terminal::say("Looking for the other device ...");
                told = true;
            }
            PairingStage::Confirm => {
                let pair = arguments.yes || confirmed(&status).await?;
                value = client.post("/v1/devices/pairing/confirm", &ConfirmPairing { pair }).await?;
                if pair && status.stage == PairingStage::Confirm {
                    terminal::say("Confirm on the other device, too.");
                }
                tokio::time::sleep(LOOK_PAUSE).await;
                value = if pair { client.get(PAIRING).await? } else { value };
                continue;
            }
            PairingStage::Paired => {
                return output.result(&value, |status: &PairingStatus, _| show::paired(status)).map(drop);
            }
            PairingStage::Failed | PairingStage::None => {
                return Err(status.failure.unwrap_or_else(ended).into());
            }
            PairingStage::Showing | PairingStage::Looking | PairingStage::Waiting => {}
        }
        tokio::time::sleep(LOOK_PAUSE).await;
        value = client.get(PAIRING).await?;
    }
}

async fn confirmed(status: &PairingStatus) -> Result<bool, CliError> {
    if !terminal::is_there() {
        return Err(CliError::usage(
            "The pairing must be confirmed, and there is no terminal to ask.",
            "Give --yes if the code comes from you.",
        ));
    }
    let name = status.name.as_deref().unwrap_or_default();
    let key = status.fingerprint.as_deref().unwrap_or_default();
    terminal::confirm(&format!("Pair with {name} (key {key})?")).await
}

fn not_read(error: &serde_json::Error) -> CliError {
    let message = format!("The background service's answer cannot be read: {error}.");
    CliError::new(Code::Failed, message, NOTHING_DONE, "Run holdall daemon stop, and try again.")
}

fn ended() -> Failure {
    Failure::new(Code::Failed, "The pairing has ended.", NOTHING_DONE, "Begin again: holdall device pair.")
}
