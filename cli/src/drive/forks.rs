//! `drive forks`.

use crate::api::{self, Compared, Created, Fork};
use crate::args::drive::ForkCommand;
use crate::drive::remove::must_have_terminal;
use crate::drive::{Session, absolute, declined, open, route};
use crate::failure::CliError;
use crate::{show, terminal};
use holdall_client::request::segment;
use jiff::Zoned;

/// Lists a drive's forks, or does something with one of them.
pub async fn run(name: &str, command: Option<&ForkCommand>, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    let of = |fork: &str, verb: &str| route(name, &format!("forks/{}{verb}", segment(fork)));
    match command {
        None => {
            let value = client.get(&route(name, "forks")).await?;
            let words = |forks: &Vec<Fork>, _| show::forks(name, forks, &Zoned::now());
            output.result(&value, words).map(drop)
        }
        Some(ForkCommand::Open { fork, at, attach }) => {
            let at = at.as_deref().map(absolute).transpose()?;
            let request = api::Open { at, attach: (*attach).into(), ..api::Open::default() };
            let value = client.post(&of(fork, "/open"), &request).await?;
            open::tell(&format!("The fork {fork} of {name}"), &value, session)
        }
        Some(ForkCommand::Compare { fork, attach }) => {
            let request = api::Compare { attach: (*attach).into() };
            let value = client.post(&of(fork, "/compare"), &request).await?;
            let words = |compared: &Compared, _| show::compared(compared, &Zoned::now());
            output.result(&value, words).map(drop)
        }
        Some(ForkCommand::Keep { fork, new }) => {
            let value = client.post(&of(fork, "/keep"), &api::Keep { name: new.clone() }).await?;
            let words = |_: &Created, _| {
                format!("{new} is now a drive on this computer. Open it: holdall drive open {new}")
            };
            output.result(&value, words).map(drop)
        }
        Some(ForkCommand::Discard { fork, yes }) => {
            if !yes {
                must_have_terminal(&format!(
                    "Discarding the fork {fork} deletes all changes that only it contains."
                ))?;
                let question =
                    format!("Delete the fork {fork} of {name}, and all changes that only it contains?");
                if !terminal::confirm(&question).await? {
                    return Err(declined());
                }
            }
            let value = client.delete(&of(fork, "")).await?;
            output.done(&value, &format!("The fork {fork} of {name} is deleted"))
        }
    }
}
