//! `drive serve`: the drive is served for as long as the request's connection lives.

use crate::api::{self, Code, Line, Served};
use crate::args::drive::Serve;
use crate::drive::{Session, absolute, route};
use crate::failure::CliError;
use crate::progress::Phase;
use crate::terminal;

/// Serves until interrupted; returns only if the daemon ends it.
pub async fn serve(serve: &Serve, session: &Session<'_>) -> Result<(), CliError> {
    let request = api::Serve {
        socket: serve.socket.as_deref().map(absolute).transpose()?,
        tcp: serve.tcp.clone(),
        insecure: serve.insecure,
    };
    let mut answer = session.client.posting(&route(&serve.name, "serve"), &request).await?;
    let value = session.client.result(&mut answer).await?;
    session.progress.enter(Phase::Serving);
    session
        .output
        .result(&value, |served: &Served, _| format!("{} is served at {}", serve.name, served.uri))?;
    if !session.output.json {
        terminal::say("Press Ctrl-C to stop.");
    }
    // Lines that are not errors say nothing new by now.
    while let Ok(Some(line)) = answer.line().await {
        if let Ok(Line::Error(failure)) = serde_json::from_slice(&line) {
            return Err(CliError::Failed(failure));
        }
    }
    Err(CliError::new(
        Code::NoDaemon,
        format!("The background service has stopped serving {}.", serve.name),
        "Data that clients flushed is safe on this computer.",
        "Run the command again.",
    ))
}
