//! Follows the daemon's events: server-sent events, across all daemons that come and go meanwhile.

use crate::api::Event;
use crate::failure::CliError;
use crate::output::Output;
use crate::show::{folder, status};
use crate::{activity, terminal};
use holdall_client::failure::not_understood;
use holdall_client::paths::Paths;
use holdall_client::request::{Answer, request};
use holdall_client::start;
use hyper::Method;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::stdout;
use std::time::Duration;
use tokio::time::sleep;

/// The pause before looking for the next daemon. A daemon that was stopped on purpose is not started again by a command that only watches.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(200);

/// Prints events until interrupted, or until nobody reads them.
pub async fn follow(paths: &Paths, output: Output) -> Result<(), CliError> {
    tokio::select! {
        result = follow_daemons(paths, output) => result,
        () = reader_left() => Err(CliError::ReaderLeft),
    }
}

async fn follow_daemons(paths: &Paths, output: Output) -> Result<(), CliError> {
    let mut stream = start::connect_or_start(paths).await?;
    loop {
        // A daemon that ends in the middle is the reason for the loop.
        if let Ok(answer) = request(stream, Method::GET, "/v1/events", None).await {
            print_all(answer, output).await?;
        }
        if !output.json {
            terminal::say("The background service has stopped; waiting until it runs again.");
        }
        stream = loop {
            sleep(RECONNECT_INTERVAL).await;
            if let Some(stream) = start::connect(paths).await? {
                break stream;
            }
        };
    }
}

/// Prints the events of one connection, until it ends.
async fn print_all(mut answer: Answer, output: Output) -> Result<(), CliError> {
    let mut data = Vec::new();
    while let Ok(Some(line)) = answer.line().await {
        match data_of(&line) {
            Some(part) => {
                // The format joins data lines with a newline.
                if !data.is_empty() {
                    data.push(b'\n');
                }
                data.extend_from_slice(part);
            }
            None if line.is_empty() && !data.is_empty() => {
                print(&std::mem::take(&mut data), output)?;
            }
            None => {}
        }
    }
    Ok(())
}

/// The data in a line of server-sent events; comments, event names and ids have none.
/// See <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let data = line.strip_prefix(b"data:")?;
    Some(data.strip_prefix(b" ").unwrap_or(data))
}

fn print(data: &[u8], output: Output) -> Result<(), CliError> {
    let value: serde_json::Value =
        serde_json::from_slice(data).map_err(|error| not_understood(&error.to_string()))?;
    if output.json {
        return output.line(&value.to_string());
    }
    // A later daemon may send events that this version does not know; the others are still wanted.
    match serde_json::from_value::<Event>(value) {
        Ok(Event::Drive(drive)) => {
            let state = status::state(&drive, output.paint);
            output.words(&format!("{}: {state}, {}", drive.name, status::uploads(&drive)))
        }
        Ok(Event::Folder(of)) => {
            let why = folder::why(&of).map(|why| format!(" ({why})")).unwrap_or_default();
            let state = folder::word(&of, output.paint);
            output.words(&format!("{}: {state}{why}, {}", of.name, folder::uploads(&of)))
        }
        Ok(Event::Removed { name }) => output.words(&format!("{name}: removed")),
        Ok(Event::Activity(row)) => output.words(&activity::row(&row)),
        Ok(Event::Notice { name, message }) => output.words(&format!("{name}: {message}")),
        Err(_) => Ok(()),
    }
}

/// Returns when the reader of our output has gone, so that `holdall events | head -1` does not wait for an event that nobody will see. A
/// file has no reader; then this never returns.
async fn reader_left() {
    // In a thread, which ends with the process: poll(2) always reports errors, and we request nothing else.
    let watch = tokio::task::spawn_blocking(|| {
        let out = stdout();
        poll(&mut [PollFd::new(&out, PollFlags::empty())], None)
    });
    if !matches!(watch.await, Ok(Ok(_))) {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_lines_have_data() {
        assert_eq!(data_of(b"data: {}"), Some(&b"{}"[..]));
        assert_eq!(data_of(b"data:{}"), Some(&b"{}"[..]));
        assert_eq!(data_of(b"data:"), Some(&b""[..]));
        for line in [&b": keep-alive"[..], b"event: drive", b"id: 7", b""] {
            assert_eq!(data_of(line), None);
        }
    }
}
