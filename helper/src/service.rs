//! The helper: root's part of Holdall for users who are not root, on the system bus.
//!
//! ```text
//! holdalld (user) --Perform(operation, descriptors)--> helper (root): who asks? does polkit allow it? -> a process
//!        ^                                                                                               |
//!        +-------------------------- socket: the answer, orders to a freeze ------------------------------+
//! ```
//!
//! It is a program of its own, so that what runs with root's rights is little: no store, no network, no file format. It
//! starts a process for each operation ([`crate::main`]), which decides once more, by what the kernel says,
//! whether the device, the file and the directory are the caller's, and does the one thing. The helper itself touches no device, so
//! that nothing it does can hang. It remembers nothing: it may end, be replaced or be killed at any time, and what
//! its processes do goes on. After a minute without work, and with no drive attached, it ends; the bus starts it again. While a drive is
//! attached it stays, for a computer that shuts down starts nothing any more, and drives have to be closed then.

use crate::helper::{NAME, PATH};
use callers::Callers;
use perform::Perform;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

mod callers;
mod perform;
mod permission;

/// How long it stays without work: an opening is a dozen operations, between which the daemon works for seconds.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// How long what had reached the process before it gave its name back may take to begin.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// The program.
pub fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(argument) if argument == crate::SUBCOMMAND => crate::main(),
        Some(_) => {
            let _ = writeln!(io::stderr(), "usage: holdall-helper    the system bus starts it");
            ExitCode::from(2)
        }
        None => match run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "holdall-helper: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let callers = Callers::default();
        let connection = zbus::connection::Builder::system()?
            .serve_at(PATH, Perform::new(callers.clone()))?
            .name(NAME)?
            .build()
            .await?;
        callers.idle(IDLE_LIMIT).await;
        // A look at /sys: it waits for no device.
        while crate::is_anything_attached() {
            callers.idle(IDLE_LIMIT).await;
        }
        // From now on the bus starts another one for whoever comes; who came before is served.
        connection.release_name(NAME).await?;
        callers.idle(LAST_CALLS).await;
        Ok(())
    })
}
