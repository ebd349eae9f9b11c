//! `holdall web`.

use crate::api::{CertificateFiles, Code, ListenWeb, ListeningWeb, ServeWeb, WebAddress};
use crate::args::WebArguments;
use crate::drive::Session;
use crate::failure::{CliError, why};
use crate::sizes::format_duration;
use crate::{secrets, terminal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Has the pages served, and prints their address; or stops serving them.
pub async fn run(arguments: &WebArguments, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    if arguments.stop {
        let value = client.delete("/v1/web").await?;
        return output.done(&value, "The pages are no longer served, and all browsers are signed out");
    }
    if let Some(address) = &arguments.listen {
        let request = ListenWeb {
            address: address.clone(),
            password: password(arguments.password_file.as_deref()).await?,
            certificate: certificate(arguments)?,
            in_the_clear: arguments.no_tls,
        };
        let value = client.post("/v1/web/listen", &request).await?;
        return output.result(&value, |listening: &ListeningWeb, _| listened(listening)).map(drop);
    }
    let value = client.post("/v1/web", &ServeWeb { port: arguments.port }).await?;
    let address: WebAddress = output.result(&value, |address: &WebAddress, _| shown(address))?;
    if arguments.open { open(&address.url) } else { Ok(()) }
}

async fn password(file: Option<&Path>) -> Result<String, CliError> {
    match file {
        Some(path) => secrets::read(path, "password"),
        None if terminal::is_there() => terminal::ask_new("password for the pages").await,
        None => Err(CliError::usage(
            "The pages need a password, and there is no terminal to ask for it.",
            "Give --password-file FILE.",
        )),
    }
}

/// Absolute paths: the daemon's working directory is another one.
fn certificate(arguments: &WebArguments) -> Result<Option<CertificateFiles>, CliError> {
    let (Some(certificate), Some(key)) = (&arguments.certificate, &arguments.key) else { return Ok(None) };
    let absolute = |path: &Path| {
        let absolute = std::path::absolute(path);
        let absolute = absolute.ok().and_then(|path| path.into_os_string().into_string().ok());
        absolute.ok_or_else(|| {
            CliError::usage(format!("{} is not a usable path.", path.display()), "Give another one.")
        })
    };
    Ok(Some(CertificateFiles { certificate: absolute(certificate)?, key: absolute(key)? }))
}

fn listened(listening: &ListeningWeb) -> String {
    let mut lines =
        vec![listening.url.clone(), "Browsers are asked for the password that you chose.".to_owned()];
    if let (true, Some(fingerprint)) = (listening.is_own_certificate, &listening.fingerprint) {
        lines.push(
            "Browsers warn once, because the certificate is self-signed. Compare its SHA-256 fingerprint:"
                .to_owned(),
        );
        lines.push(fingerprint.clone());
    }
    lines.join("\n")
}

fn shown(address: &WebAddress) -> String {
    let lives = format_duration(Duration::from_millis(address.token_lifetime_ms));
    format!("{}\nThe address signs in one browser, within {lives}.", address.url)
}

/// Gives the address to the desktop. Others could read it in the list of processes, but the daemon does not admit them.
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
        "The address above works.",
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
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [&url, "The address signs in one browser, within 5 min."]
        );
    }
}
