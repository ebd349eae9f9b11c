//! `holdall web`.

use crate::api::{Code, ServeWeb, WebAddress};
use crate::cli::args::WebArguments;
use crate::cli::drive::Session;
use crate::cli::failure::{CliError, why};
use crate::sizes::format_duration;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Has the pages be served, and says where; or has them be served no more.
pub async fn run(arguments: WebArguments, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    if arguments.stop {
        let value = client.delete("/v1/web").await?;
        return output.done(&value, "The pages are not served any more");
    }
    let value = client.post("/v1/web", &ServeWeb { port: arguments.port }).await?;
    let address: WebAddress = output.result(&value, |address: &WebAddress, _| shown(address))?;
    if arguments.open { open(&address.url) } else { Ok(()) }
}

fn shown(address: &WebAddress) -> String {
    let lives = format_duration(Duration::from_millis(address.token_lifetime_ms));
    format!("{}\nIt lets one browser in, within {lives}.", address.url)
}

/// Hands the address to the desktop. Others could read it from the list of processes, but are not let in by it.
fn open(url: &str) -> Result<(), CliError> {
    let opener = Command::new("xdg-open").arg(url).stdin(Stdio::null()).stdout(Stdio::null()).status();
    let failed = match opener {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("xdg-open ended with {status}"),
        Err(error) => format!("xdg-open: {}", why(&error)),
    };
    Err(CliError::new(
        Code::Failed,
        format!("No browser could be opened ({failed})."),
        "The address is good all the same.",
        "Open it in a browser yourself.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_stands_alone_on_its_line() {
        let url = "http://127.0.0.1:8420/?token=abc".to_owned();
        let text = shown(&WebAddress { url: url.clone(), port: 8420, token_lifetime_ms: 300_000 });
        assert_eq!(text.lines().collect::<Vec<_>>(), [&url, "It lets one browser in, within 5 min."]);
    }
}
